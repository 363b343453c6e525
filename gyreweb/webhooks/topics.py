"""Which events are told, and by what name."""

from agents.events import EventKind

#: Message types by kind of event.
TOPICS = {
    EventKind.RUN_CREATED: "run.created",
    EventKind.RUN_STARTED: "run.started",
    EventKind.RUN_PAUSED: "run.paused",
    EventKind.RUN_RESUMED: "run.resumed",
    EventKind.RUN_FINISHED: "run.finished",
    EventKind.RUN_STOPPED: "run.stopped",
    EventKind.EVALUATION_FINISHED: "evaluation.finished",
    EventKind.ALARM_RAISED: "alarm.raised",
    EventKind.ALARM_CLEARED: "alarm.cleared",
    EventKind.OVERRIDE_SET: "override.set",
    EventKind.OVERRIDE_EXTENDED: "override.extended",
    EventKind.OVERRIDE_RELEASED: "override.released",
}
TEST = "webhook.test"
NAMES = tuple(TOPICS.values())


def kinds_of(topics: list[str]) -> list[str]:
    """Kinds of events behind message types; none named means all."""
    return [str(kind) for kind, name in TOPICS.items() if not topics or name in topics]
