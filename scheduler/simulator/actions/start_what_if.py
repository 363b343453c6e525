"""Ask the simulator what other settings would do to a run. A worker answers in the background."""

from django.contrib.auth.models import AbstractBaseUser
from django.db import transaction

from agents.actions.errors import Refused
from agents.models import Run
from scheduler.models import WhatIf, WhatIfPoint
from scheduler.simulator.whatif import wakes
from scheduler.simulator.whatif.question import Question
from scheduler.simulator.whatif.reading import present

MAX_OPEN = 3


def start_what_if(run: Run, question: Question, *, user: AbstractBaseUser | None) -> WhatIf:
    """Raises Refused when too little is recorded, when nothing is left to simulate, or when others are under way."""
    now = present(run)
    if now.lacking:
        raise Refused(f"run {run.pk} has recorded too little yet: {now.lacking}")
    if question.span != "whole" and not now.goes_on:
        raise Refused(f"run {run.pk} does not go on; ask about the whole run")
    points = question.points()
    with transaction.atomic():
        Run.objects.select_for_update(no_key=True).get(pk=run.pk)
        if WhatIf.objects.filter(run=run, state__in=WhatIf.OPEN_STATES).count() >= MAX_OPEN:
            raise Refused(f"{MAX_OPEN} what-ifs of this run are under way; wait for one or cancel it")
        row = WhatIf.objects.create(
            run=run, owner=user, question=question.to_json(), num_to_do=len(points) * question.seeds
        )
        WhatIfPoint.objects.bulk_create(
            WhatIfPoint(what_if=row, number=number, changes=changes) for number, changes in enumerate(points)
        )
        wakes.wake(row.pk)
    return row
