"""The message to a live listener: the fragments and data points that changed after event `seq`."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

from django.utils import timezone

from agents.events import EventKind
from agents.web import access
from agents.web import runs as run_queries
from agents.web.access import Viewer
from gyreweb.pages import chart, fragments
from gyreweb.pages.facts import RunFacts

#: A listener that lacks more events than this loads the page's snapshot instead.
MAX_EVENTS = 400
#: Points go back this far before the last update, so that a row which was committed late is not missed.
OVERLAP = timedelta(seconds=3)

#: By page: events that its badge counts as new.
COUNTED_EVENTS = {
    "executions": fragments.EXECUTION_EVENTS - {EventKind.EXECUTION_DISPATCHED},
    "decisions": frozenset({EventKind.DECISION_MADE}),
}
DRAWN_EVENTS = fragments.ALL_EVENTS - fragments.CALL_EVENTS
REWARD_EVENTS = frozenset(
    {EventKind.STEP_COMMITTED, EventKind.EVALUATION_FINISHED, EventKind.BATCH_SEALED, EventKind.GROUP_READY}
)


def updates_after(viewer: Viewer, run_id: int, seq: int, page: str, since: datetime) -> dict[str, Any] | None:
    """The message for a listener that has seen events up to `seq`; None when nothing happened.

    Raises NotFound when the viewer cannot see the run (any more).
    """
    run = access.run_for(viewer, run_id)
    if run.event_seq <= seq:
        return None
    if run.event_seq - seq > MAX_EVENTS:
        return {"type": "reload", "seq": run.event_seq}
    events = run_queries.events_after(run, seq, MAX_EVENTS)
    if not events:
        return None
    kinds = {event.kind for event in events}
    facts = RunFacts(run)
    message: dict[str, Any] = {
        "type": "update",
        "seq": events[-1].seq,
        "fragments": {f.name: fragments.render(f, facts) for f in fragments.changed_by(kinds, page)},
        "state_changed": bool(kinds & fragments.STATE_EVENTS),
        "ended": run.finished_at is not None,
        "num_new": sum(event.kind in COUNTED_EVENTS.get(page, ()) for event in events),
    }
    if page == "run":
        if kinds & DRAWN_EVENTS:
            message["points"] = chart.live_points(facts, since - OVERLAP)
        if kinds & REWARD_EVENTS:
            message["reward"] = chart.reward_chart(facts)
    return message


def now() -> datetime:
    return timezone.now()
