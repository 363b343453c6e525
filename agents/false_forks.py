"""How often calls of a run left recorded tokens that they should have kept, and where (docs/algorithms.md §2.3)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from django.db.models import Count, F, Q

from agents.models import Call
from agents.proxy.replies import UNSAMPLED


@dataclass(frozen=True)
class FalseFork:
    """A call that keeps the turn of call `kept_call` and leaves its tokens at `position`.

    The ids and texts are those from there on: what was recorded, and what the request has instead.
    """

    execution: int
    number: int
    conversation: str
    role: str
    kept_call: int
    position: int
    recorded_ids: tuple[int, ...]
    recorded_text: str
    given_ids: tuple[int, ...]
    given_text: str


@dataclass(frozen=True)
class FalseForks:
    """Of the calls of a run's attempts that count and that asked for a reply; `examples` are the newest."""

    num_calls: int
    num_false_forks: int
    examples: tuple[FalseFork, ...]

    @property
    def rate(self) -> float:
        """False forks per call; 0 before the first call."""
        return self.num_false_forks / self.num_calls if self.num_calls else 0.0


def false_forks(run_id: int, num_examples: int = 20) -> FalseForks:
    """Counted over running executions too."""
    calls = Call.objects.filter(execution__run=run_id, attempt=F("execution__attempt"))
    calls = calls.exclude(finish_reason__in=UNSAMPLED)
    counts = calls.aggregate(calls=Count("pk"), forks=Count("pk", filter=Q(false_fork=True)))
    rows = calls.filter(false_fork=True).order_by("-pk")[:num_examples] if counts["forks"] else ()
    return FalseForks(counts["calls"], counts["forks"], tuple(shown(row) for row in rows))


def shown(call: Call) -> FalseFork:
    """What is known of one false fork; calls recorded without it have no ids."""
    left: dict[str, Any] = call.departure
    return FalseFork(
        execution=call.execution_id,
        number=call.number,
        conversation=call.conversation,
        role=call.role,
        kept_call=left.get("call", -1),
        position=left.get("position", 0),
        recorded_ids=tuple(left.get("recorded_ids", ())),
        recorded_text=left.get("recorded_text", ""),
        given_ids=tuple(left.get("given_ids", ())),
        given_text=left.get("given_text", ""),
    )
