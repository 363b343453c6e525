"""A what-if whose message or worker was lost is asked for again by the scheduler's loop; one that is held is not."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone

from scheduler.loop import Loop
from scheduler.models import WhatIf
from scheduler.simulator.whatif import wakes
from tests.scheduler.test_wakes import queue  # noqa: F401  (a fixture)

pytestmark = pytest.mark.django_db(transaction=True)
Asked = Callable[..., WhatIf]


def wakes_of(broker: tuple[Any, str]) -> list[int]:
    """What-ifs that messages on this queue are about."""
    client, name = broker
    headers = [json.loads(raw)["headers"] for raw in client.lrange(name, 0, -1)]
    return sorted(int(h["argsrepr"].strip("(,)")) for h in headers if h["task"] == wakes.RUN_WHAT_IF)


@pytest.fixture
def broker(queue: Any) -> Any:  # noqa: F811
    return queue


def test_asking_wakes_a_worker_at_once(broker: Any, asked: Asked) -> None:
    row = asked(rho_min="0.4")
    assert wakes_of(broker) == [row.pk]


def test_the_loop_asks_again_for_what_nobody_works_on(broker: Any, asked: Asked) -> None:
    lost, dead, held = asked(rho_min="0.3"), asked(rho_min="0.4"), asked(rho_min="0.5")
    ago, later = timezone.now() - timedelta(seconds=60), timezone.now() + timedelta(seconds=60)
    WhatIf.objects.update(created_at=ago)
    WhatIf.objects.filter(pk=dead.pk).update(state="running", lease_owner="gone", lease_expires_at=ago)
    WhatIf.objects.filter(pk=held.pk).update(state="running", lease_owner="there", lease_expires_at=later)
    done = WhatIf.objects.create(run=lost.run, question=lost.question, num_to_do=1, state="finished")
    WhatIf.objects.filter(pk=done.pk).update(created_at=ago)
    broker[0].delete(broker[1])
    Loop().tick()
    assert wakes_of(broker) == [lost.pk, dead.pk]
