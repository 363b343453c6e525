"""Wakes go out after the commit, to the queue of their task; a broker that is away is no error."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator

import pytest
import redis
from celery import current_app
from django.db import transaction

from scheduler import wakes

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def queue(database_url: str) -> Iterator[tuple[redis.Redis, str]]:
    """A queue of this process only: the broker is shared with other test processes."""
    name = f"test-{os.getpid()}"
    before = current_app.conf.task_default_queue
    current_app.conf.task_default_queue = name
    current_app.amqp.queues.select_add(name)
    with redis.Redis.from_url(os.environ["REDIS_URL"]) as client:
        client.delete(name)
        yield client, name
        client.delete(name)
    current_app.conf.task_default_queue = before
    current_app.amqp.queues.deselect(name)


def sent(queue: tuple[redis.Redis, str]) -> list[tuple[str, list[object]]]:
    client, name = queue
    messages = [json.loads(raw) for raw in client.lrange(name, 0, -1)]
    return [
        (m["headers"]["task"], json.loads(m["headers"]["argsrepr"].replace("(", "[").replace(",)", "]")))
        for m in messages
    ]


def test_a_wake_is_sent_after_the_commit_as_often_as_asked(queue: tuple[redis.Redis, str]) -> None:
    with transaction.atomic():
        wakes.wake("tests.wake", 7, times=3)
        assert sent(queue) == []
    assert sent(queue) == [("tests.wake", [7])] * 3


def test_a_wake_of_a_transaction_that_fails_is_never_sent(queue: tuple[redis.Redis, str]) -> None:
    with pytest.raises(ZeroDivisionError):
        _wake_and_fail()
    assert sent(queue) == []


@transaction.atomic
def _wake_and_fail() -> None:
    wakes.wake("tests.wake", 7)
    raise ZeroDivisionError


def test_a_broker_that_is_away_costs_a_warning_and_no_error() -> None:
    """In a process of its own: clients keep their connections."""
    code = "import django; django.setup(); from scheduler import wakes; wakes.wake('tests.wake', 7)"
    away = os.environ | {"REDIS_URL": "redis://127.0.0.1:1/0"}
    done = subprocess.run([sys.executable, "-c", code], env=away, capture_output=True, text=True, check=True)
    assert "could not send tests.wake" in done.stderr
