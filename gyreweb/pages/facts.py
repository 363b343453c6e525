"""The seven facts of a run, and what is wrong with it: the first things that its page says."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from typing import Any

from django.urls import reverse
from django.utils import timezone

from agents.core.exclusion import ExclusionTotals, totals
from agents.report import group_exclusions
from agents.web import runs as run_queries
from agents.web.runs import OutcomeCounts, StepReward
from gyreweb.templatetags.gyre import duration
from scheduler.config import RunConfig
from scheduler.web import cells as cell_queries
from trainers.web import batches as batch_queries
from trainers.web.batches import Staleness


@dataclass(frozen=True)
class Alarm:
    """Something a person should know now. `tone`: bad, warn or note; `link` leads to the rows behind it."""

    code: str
    tone: str
    head: str
    text: str = ""
    at: datetime | None = None
    link: str = ""
    link_text: str = "Show"


class RunFacts:
    """Everything about one run that the overview needs, each part read once and only when asked for."""

    def __init__(self, run: Any, now: datetime | None = None) -> None:
        self.run = run
        self.config: dict[str, Any] = RunConfig.readable(run.config)
        self.now = now or timezone.now()

    @cached_property
    def cells(self) -> list[Any]:
        return cell_queries.cells_of(self.run)

    @cached_property
    def batches(self) -> list[Any]:
        return batch_queries.batches_of(self.run)

    @cached_property
    def evaluations(self) -> list[Any]:
        return [e for e in cell_queries.evaluations_of(self.run) if e.reward_mean is not None]

    @cached_property
    def outcomes(self) -> OutcomeCounts:
        return run_queries.outcome_counts(self.run)

    @cached_property
    def exclusion(self) -> ExclusionTotals:
        """How the exclusion of unresolved executions changed the groups' statistics."""
        return totals(group_exclusions(self.run).values())

    @cached_property
    def rewards(self) -> list[StepReward]:
        return run_queries.reward_per_step([self.run.pk]).get(self.run.pk, [])

    @cached_property
    def staleness(self) -> Staleness:
        return batch_queries.staleness_of(self.batches)

    @cached_property
    def overrides(self) -> list[Any]:
        return cell_queries.active_overrides(self.run, self.now)

    @property
    def num_finished(self) -> int:
        """Launched executions that ended by themselves. F counts the cancelled ones too (docs/algorithms.md §9)."""
        return int(self.run.finished) - self.outcomes.cancelled

    @property
    def steps(self) -> int:
        return int(self.config["steps"])

    @property
    def step_share(self) -> int:
        """Whole percent of the steps done."""
        return min(100, round(100 * self.run.version / self.steps)) if self.steps else 0

    @property
    def num_rollout(self) -> int:
        return sum(cell.role == "rollout" and cell.evaluation is None for cell in self.cells)

    @property
    def num_evaluating(self) -> int:
        return sum(cell.evaluation is not None and cell.role == "rollout" for cell in self.cells)

    @property
    def num_training(self) -> int:
        return sum(cell.role == "training" for cell in self.cells)

    @property
    def num_switching(self) -> int:
        return sum(cell.role in ("switching", "starting") for cell in self.cells)

    @property
    def num_away(self) -> int:
        return sum(cell.role in ("lost", "stopped") for cell in self.cells)

    @property
    def core_sentence(self) -> str:
        core = next((cell for cell in self.cells if cell.is_core), None)
        if core is None:
            return "no cells yet"
        where = f"{core.role}, {core.phase}" if core.phase else core.role
        return f"core: {where}, v{core.weight_version}" if core.weight_version >= 0 else f"core: {where}"

    @property
    def room(self) -> int:
        """Executions that the cells in rollout can hold."""
        return self.num_rollout * int(self.config["concurrency_per_cell"])

    @property
    def heldout_gain(self) -> float | None:
        if len(self.evaluations) < 2:
            return None
        return float(self.evaluations[-1].reward_mean - self.evaluations[0].reward_mean)

    @property
    def progress_s(self) -> float | None:
        """Seconds from start to end, or to now."""
        if self.run.started_at is None:
            return None
        return ((self.run.finished_at or self.now) - self.run.started_at).total_seconds()

    @property
    def eta_s(self) -> float | None:
        """What is left at the pace so far; None before the first step and after the end."""
        done, took = self.run.version, self.progress_s
        if not done or took is None or self.run.finished_at or done >= self.steps:
            return None
        return took / done * (self.steps - done)

    def alarms(self) -> list[Alarm]:
        """Worst first. Health stands above tuning advice."""
        found = [*self._state(), *self._raised(), *self._cells(), *self._rewards(), *self._overrides()]
        order = {"bad": 0, "warn": 1, "note": 2}
        return sorted(found, key=lambda alarm: order[alarm.tone])

    def _url(self, name: str, query: str = "") -> str:
        return reverse(name, args=[self.run.pk]) + query

    def _state(self) -> list[Alarm]:
        run, words = self.run, {"paused": "The run is paused", "stopping": "Stopping"}
        if run.state == "queued":
            text = "the scheduler starts it when the runs before it have left the machine"
            return [Alarm("run_queued", "note", "Queued", text, run.created_at)]
        if run.state not in words:
            return []
        return [Alarm(f"run_{run.state}", "warn", words[run.state], run.state_reason, run.finished_at)]

    def _raised(self) -> list[Alarm]:
        return [
            Alarm(
                code=str(event.payload.get("code", "alarm")),
                tone="bad" if event.payload.get("severity") == "bad" else "warn",
                head=str(event.payload.get("code", "alarm")).replace("_", " ").capitalize(),
                text=str(event.payload.get("message", "")),
                at=event.created_at,
            )
            for event in run_queries.open_alarms(self.run)
        ]

    def _cells(self) -> list[Alarm]:
        link, found = self._url("cells"), []
        for cell in self.cells if self.run.finished_at is None else []:
            if cell.role == "lost" or cell.error:
                head = f"{cell} is lost." if cell.role == "lost" else f"{cell} reports an error."
                found.append(Alarm(f"cell_{cell.index}", "bad", head.capitalize(), cell.error[:300], None, link))
        return found + self._silent_cells(link)

    def _silent_cells(self, link: str) -> list[Alarm]:
        """One alarm for all of them: they often fall silent together."""
        silent = [cell for cell in self.cells if cell_queries.is_stale(cell, self.now)]
        if not silent or self.run.finished_at is not None:
            return []
        names = ", ".join(str(cell) for cell in silent[:6]) + (" and more" if len(silent) > 6 else "")
        many = len(silent) > 1
        head = f"{len(silent)} of {len(self.cells)} cells are silent:" if many else f"{names} is silent:"
        oldest = min(cell.heartbeat_at for cell in silent)
        text = f"{names}; " if many else ""
        text += f"last heard {duration(self.now - oldest)} ago; the logs say why"
        return [Alarm("silent_cells", "warn", head.capitalize(), text, oldest, link)]

    def _rewards(self) -> list[Alarm]:
        found, counts = [], self.outcomes
        if counts.false_forks:
            text = f"in {counts.calls:,} calls: their prompts do not begin with what was recorded"
            found.append(Alarm("false_forks", "bad", f"{counts.false_forks} false forks", text))
        if counts.finished >= 50 and counts.unresolved_share > 0.01:
            text = f"{counts.unresolved} of {counts.finished:,} have no reward; above 1% group statistics suffer"
            link = self._url("executions", "?outcome=unresolved")
            found.append(Alarm("unresolved", "warn", f"{counts.unresolved_share:.1%} unresolved", text, None, link))
        batch = max((b.number for b in self.batches), default=None)
        equal = run_queries.equal_reward_groups(self.run, batch)
        if equal:
            many = len(equal) != 1
            head = f"{len(equal)} {'groups have' if many else 'group has'} equal rewards"
            text = f"in batch {batch} and {'carry' if many else 'carries'} no gradient"
            one = reverse("group", args=[self.run.pk, equal[0].kind, equal[0].number])
            link, what = (self._url("executions", f"?batch={batch}"), "Show the batch") if many else (one, "Show it")
            found.append(Alarm("equal_rewards", "note", head, text, equal[0].ready_at, link, what))
        return found

    def _overrides(self) -> list[Alarm]:
        return [
            Alarm(
                f"override_{row.pk}",
                "note",
                f"Override: {row.get_kind_display().lower()}"
                + (f" on cell {row.cell_index}" if row.cell_index is not None else ""),
                f"by {row.owner.get_username()} until {row.expires_at:%H:%M} UTC: “{row.reason}”",
                row.created_at,
                self._url("decisions"),
            )
            for row in self.overrides
        ]
