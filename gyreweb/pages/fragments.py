"""Parts of the run pages that change while they are open. The page and the live feed render the same templates.

Each fragment names the events that can change it. Snapshot + events = new snapshot is tested over all kinds.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from django.template.loader import render_to_string

from agents.events import EventKind as E
from agents.web import executions as execution_queries
from agents.web import runs as run_queries
from gyreweb.pages.facts import RunFacts
from scheduler.web import cells as cell_queries
from scheduler.web import decisions as decision_queries
from trainers.web import batches as batch_queries

NUM_DECISIONS = 14
STATE_EVENTS = frozenset(
    {E.RUN_CREATED, E.RUN_STARTED, E.RUN_PAUSED, E.RUN_RESUMED, E.RUN_CONTINUED, E.RUN_FINISHED, E.RUN_STOPPED}
)
CELL_EVENTS = frozenset({E.ROLE_CHANGE_STARTED, E.ROLE_CHANGE_FINISHED, E.CELL_LOST, E.CELL_RECOVERED})
BATCH_EVENTS = frozenset(
    {E.BATCH_OPENED, E.MICRO_STEP_CLAIMED, E.GRADIENT_HANDED_IN, E.BATCH_SEALED, E.STEP_COMMITTED, E.WEIGHTS_PUBLISHED}
)
EXECUTION_EVENTS = frozenset({E.EXECUTION_DISPATCHED, E.EXECUTION_LAUNCHED, E.EXECUTION_FINISHED, E.EXECUTION_RETRIED})
GROUP_EVENTS = frozenset({E.GROUP_DISPATCHED, E.GROUP_READY, E.GROUP_VOIDED})
CALL_EVENTS = frozenset({E.CALL_MOVED, E.CALL_QUARANTINED})
ALARM_EVENTS = frozenset({E.ALARM_RAISED, E.ALARM_CLEARED})
WEIGHT_EVENTS = frozenset({E.WEIGHTS_PUBLISHED})
ALL_EVENTS = frozenset(E)


@dataclass(frozen=True)
class Fragment:
    """`context` reads what `template` needs. `pages` are those that show it."""

    name: str
    template: str
    pages: frozenset[str]
    events: frozenset[E]
    context: Callable[[RunFacts], dict[str, Any]]


def _facts(facts: RunFacts) -> dict[str, Any]:
    return {"facts": facts, "run": facts.run}


def _alarms(facts: RunFacts) -> dict[str, Any]:
    return {"alarms": facts.alarms()}


def _decisions(facts: RunFacts) -> dict[str, Any]:
    rows = decision_queries.decisions_of(facts.run, limit=NUM_DECISIONS, routine=False)
    return {
        "decisions": decision_queries.sentences(rows, facts.cells),
        "run": facts.run,
    }


def _num_decisions(facts: RunFacts) -> dict[str, Any]:
    return {"num_decisions": decision_queries.num_decisions(facts.run)}


def _longest(facts: RunFacts) -> dict[str, Any]:
    return {"longest": execution_queries.longest(facts.run, facts.now), "run": facts.run}


def _cells(facts: RunFacts) -> dict[str, Any]:
    return {
        "cells": facts.cells,
        "stale": {cell.index for cell in facts.cells if cell_queries.is_stale(cell, facts.now)},
        "role_changes": cell_queries.role_changes(facts.run, limit=60),
        "run": facts.run,
    }


def _batches(facts: RunFacts) -> dict[str, Any]:
    newest = facts.batches[:60]
    ids = [batch.pk for batch in newest]
    return {
        "batches": newest,
        "shares": batch_queries.shares_of(ids),
        "hand_ins": batch_queries.hand_ins_of(ids),
        "cell_names": {cell.index: str(cell) for cell in facts.cells},
        "run": facts.run,
    }


EVERY_PAGE = frozenset(
    {"run", "executions", "groups", "cells", "decisions", "overrides", "batches", "report", "config", "what_if"}
)
FRAGMENTS = (
    Fragment("state", "pages/_state.html", EVERY_PAGE, STATE_EVENTS, _facts),
    Fragment(
        "num_executions", "pages/_num_executions.html", EVERY_PAGE, GROUP_EVENTS | EXECUTION_EVENTS, _facts
    ),
    Fragment("num_steps", "pages/_num_steps.html", EVERY_PAGE, frozenset({E.STEP_COMMITTED}), _facts),
    Fragment("alarms", "pages/_alarms.html", EVERY_PAGE, ALL_EVENTS - CALL_EVENTS, _alarms),
    Fragment("facts", "pages/_facts.html", frozenset({"run"}), ALL_EVENTS - CALL_EVENTS, _facts),
    Fragment("decisions", "pages/_decisions.html", frozenset({"run"}), frozenset({E.DECISION_MADE}), _decisions),
    Fragment(
        "num_decisions", "pages/_num_decisions.html", frozenset({"run"}), frozenset({E.DECISION_MADE}), _num_decisions
    ),
    Fragment("longest", "pages/_longest.html", frozenset({"run"}), EXECUTION_EVENTS, _longest),
    Fragment("staleness", "pages/_staleness.html", frozenset({"run"}), frozenset({E.STEP_COMMITTED}), _facts),
    Fragment("cells", "pages/_cells.html", frozenset({"cells"}), CELL_EVENTS | WEIGHT_EVENTS, _cells),
    Fragment("batches", "pages/_batches.html", frozenset({"batches"}), BATCH_EVENTS, _batches),
)  # fmt: skip
BY_NAME = {fragment.name: fragment for fragment in FRAGMENTS}


def changed_by(kinds: Iterable[str], page: str) -> list[Fragment]:
    """Fragments of `page` that any of these events can change."""
    seen = set(kinds)
    return [fragment for fragment in FRAGMENTS if page in fragment.pages and fragment.events & seen]


def render(fragment: Fragment, facts: RunFacts) -> str:
    return render_to_string(fragment.template, fragment.context(facts))


def overview_context(facts: RunFacts) -> dict[str, Any]:
    """Context of all fragments of the overview at once."""
    context: dict[str, Any] = {"facts": facts, "groups": run_queries.group_counts(facts.run)}
    for fragment in FRAGMENTS:
        if "run" in fragment.pages:
            context |= fragment.context(facts)
    return context


def page_context(facts: RunFacts, page: str) -> dict[str, Any]:
    context: dict[str, Any] = {"facts": facts}
    for fragment in FRAGMENTS:
        if page in fragment.pages:
            context |= fragment.context(facts)
    return context
