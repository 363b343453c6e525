"""A run's own page, its live snapshot, and the acts on it."""

from typing import Any

from django.contrib import messages
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.shortcuts import redirect, render
from django.views.decorators.http import require_GET, require_POST

from agents.actions import change_run_state
from agents.actions.errors import Refused
from agents.web import access
from gyreweb.pages import chart, fragments
from gyreweb.pages.facts import RunFacts
from gyreweb.pages.shell import must_operate, page, show, viewer_of

ACTS = {
    "pause": change_run_state.pause_run,
    "resume": change_run_state.resume_run,
    "stop": change_run_state.stop_run,
}


@page
@require_GET
def run(request: HttpRequest, run_id: int) -> HttpResponse:
    facts = RunFacts(access.run_for(viewer_of(request), run_id))
    window, since, until = chart.window_of(facts, request.GET.get("window", ""))
    context = fragments.overview_context(facts) | {
        "window": window,
        "windows": list(chart.WINDOWS),
        "water": chart.water_chart(facts, since, until),
        "reward": chart.reward_chart(facts),
        "acts": acts_for(facts.run, viewer_of(request)),
        "api_path": f"/api/v1/runs/{run_id}",
    }
    return show(request, "pages/run.html", context, run=facts.run, section="run")


@page
@require_GET
def run_chart(request: HttpRequest, run_id: int) -> HttpResponse:
    """The run chart's data, for a reload of the snapshot without the page."""
    facts = RunFacts(access.run_for(viewer_of(request), run_id))
    window, since, until = chart.window_of(facts, request.GET.get("window", ""))
    return JsonResponse(
        {"window": window, "water": chart.water_chart(facts, since, until), "reward": chart.reward_chart(facts)}
    )


def acts_for(run: Any, viewer: access.Viewer) -> list[str]:
    """Acts that the viewer may take on the run in its state."""
    if not viewer.can_operate:
        return []
    acts = {"running": ["pause", "stop"], "starting": ["pause", "stop"], "paused": ["resume", "stop"]}
    return acts.get(run.state, ["stop"] if run.state == "queued" else [])


@page
@require_GET
def run_acts(request: HttpRequest, run_id: int) -> HttpResponse:
    """The act buttons alone, fetched again when the run's state changes."""
    found = access.run_for(viewer_of(request), run_id)
    return render(request, "pages/_acts.html", {"run": found, "acts": acts_for(found, viewer_of(request))})


@page
@require_POST
def act(request: HttpRequest, run_id: int, name: str) -> HttpResponse:
    viewer = viewer_of(request)
    found = access.run_for(viewer, run_id)
    must_operate(viewer)
    reason = request.POST.get("reason", "").strip()
    if not reason and name != "resume":
        messages.error(request, f"To {name} a run, say why.")
        return redirect("run", run_id)
    try:
        ACTS[name](found, user=viewer.user, reason=reason)
    except Refused as error:
        messages.error(request, str(error))
    return redirect("run", run_id)
