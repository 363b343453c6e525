"""Ask for another assessment of many executions at once, for instance of all that a broken verifier left unresolved."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass

from django.contrib.auth.models import AbstractBaseUser

from agents.actions.errors import Refused
from agents.actions.reassess_execution import request_reassessment
from agents.models import Execution, Run
from agents.web.executions import Filters, filtered

#: Wishes that one request may make; more would keep it waiting.
MAX_AT_ONCE = 1_000


@dataclass(frozen=True)
class Asked:
    """`refused`: why others were not queued, with how many. `left_out`: beyond MAX_AT_ONCE, to be asked for again."""

    num_queued: int
    refused: dict[str, int]
    left_out: int


def reassess_executions(run: Run, filters: Filters, *, user: AbstractBaseUser | None, reason: str) -> Asked:
    """A request for each finished execution that passes the filters, oldest first; one refused stops no other."""
    rows = filtered(run, filters).filter(state=Execution.State.FINISHED).order_by("pk")
    total, queued, refused = rows.count(), 0, Counter[str]()
    for execution in rows[:MAX_AT_ONCE]:
        try:
            request_reassessment(execution, user=user, reason=reason)
        except Refused as error:
            refused[re.sub(r"\bexecution \d+\b", "it", str(error))] += 1
        else:
            queued += 1
    return Asked(queued, dict(refused.most_common()), max(0, total - MAX_AT_ONCE))
