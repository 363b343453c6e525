"""Calls of a run that are recorded and never trained, and calls that left recorded tokens, with their reasons."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from django.db.models import F, Q, QuerySet

from agents.models import Call, Run

PAGE_SIZE = 50
LISTS = ("quarantined", "false_forks")


@dataclass(frozen=True)
class Filters:
    """Which calls, with which reason; `before` is the key of the last row seen."""

    kind: str = "quarantined"
    reason: str = ""
    before: int | None = None

    @classmethod
    def from_query(cls, query: Any) -> Filters:
        before = query.get("before", "")
        return cls(
            kind=query.get("list", "") if query.get("list") in LISTS else LISTS[0],
            reason=query.get("reason", "").strip()[:200],
            before=int(before) if before.isdecimal() and len(before) < 16 else None,
        )


def calls_of(run: Run, filters: Filters) -> QuerySet[Call]:
    """Calls of attempts that count; those of earlier attempts are trained by nobody."""
    rows = Call.objects.filter(execution__run=run, attempt=F("execution__attempt"))
    rows = rows.filter(Q(false_fork=True) if filters.kind == "false_forks" else Q(state=Call.State.QUARANTINED))
    if filters.reason:
        rows = rows.filter(Q(error__icontains=filters.reason) | Q(branch_reason__icontains=filters.reason))
    return rows.select_related("execution__group__task", "execution__run")


def page(run: Run, filters: Filters, size: int = PAGE_SIZE) -> tuple[list[Call], int | None]:
    """The newest `size` of them, and the key of the next page if there is one."""
    rows = calls_of(run, filters).defer("tokens", "messages", "reply", "execution__harness_log").order_by("-id")
    if filters.before is not None:
        rows = rows.filter(pk__lt=filters.before)
    found = list(rows[: size + 1])
    more = len(found) > size
    return found[:size], found[size - 1].pk if more else None


def counts(run: Run) -> dict[str, int]:
    """How many there are of each list."""
    return {kind: calls_of(run, Filters(kind)).count() for kind in LISTS}
