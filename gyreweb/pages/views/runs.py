"""The list of runs."""

from dataclasses import dataclass
from typing import Any

from django.http import HttpRequest, HttpResponse
from django.views.decorators.http import require_GET

from agents.web import access
from agents.web import runs as run_queries
from gyreweb.pages.facts import RunFacts
from gyreweb.pages.shell import page, show, viewer_of
from scheduler.web import cells as cell_queries

MAX_ROWS = 100


@dataclass(frozen=True)
class Row:
    run: Any
    facts: RunFacts
    rewards: list[run_queries.StepReward]
    first_eval: float | None
    last_eval: float | None

    @property
    def spark(self) -> str:
        """Points of the reward sparkline in a box of 120 × 28, from its own lowest value to its highest."""
        values = [reward.mean for reward in self.rewards]
        if len(values) < 2:
            return ""
        width, low = 116 / (len(values) - 1), min(values)
        height = 24 / (max(values) - low or 1)
        return " ".join(f"{2 + i * width:.1f},{26 - height * (v - low):.1f}" for i, v in enumerate(values))


@page
def runs(request: HttpRequest) -> HttpResponse:
    viewer = viewer_of(request)
    visible = access.visible_runs(viewer)
    state, text = request.GET.get("state", ""), request.GET.get("q", "").strip()[:120]
    sort = request.GET.get("sort", "newest")
    found = list(run_queries.filtered(visible, state=state, text=text, sort=sort)[:MAX_ROWS])
    ids = [run.pk for run in found]
    rewards = run_queries.reward_per_step(ids)
    evaluations = cell_queries.evaluations_of_runs(ids)
    cells = cell_queries.cells_of_runs(ids)
    rows = []
    for run in found:
        facts = RunFacts(run)
        facts.cells = cells.get(run.pk, [])
        scored = evaluations.get(run.pk, [])
        first, last = (scored[0].reward_mean, scored[-1].reward_mean) if scored else (None, None)
        rows.append(Row(run, facts, rewards.get(run.pk, []), first, last))
    counts = run_queries.state_counts(visible)
    context = {
        "rows": rows,
        "counts": counts,
        "chips": [(name, counts[name]) for name in ("live", "finished", "stopped") if counts[name]],
        "state": state,
        "text": text,
        "sort": sort,
        "sorts": list(run_queries.SORTS),
        "max_rows": MAX_ROWS,
    }
    return show(request, "pages/_runs_update.html" if request.headers.get("HX-Request") else "pages/runs.html", context)


@page
@require_GET
def num_live(request: HttpRequest) -> HttpResponse:
    """How many runs go on, beside the name of their page."""
    return show(request, "_num_live.html", {})
