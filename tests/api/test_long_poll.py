"""Long polls: answered when something happens, bounded, and free while they wait."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import pytest
from asgiref.testing import ApplicationCommunicator
from channels.db import database_sync_to_async
from channels.layers import channel_layers
from django.db import connection

from agents import events
from agents.models import Run
from gyreweb.asgi import pages
from gyreweb.live import longpoll, waiting
from gyreweb.live.longpoll import LongPoll
from tests.api.conftest import SMALL
from tests.support.demo_run import demo_run
from tests.support.waiting import wait_for
from tests.support.web_process import web_process

Machine = Callable[..., Any]
NUM_CLIENTS = 80


@pytest.fixture
def committed(transactional_db: None) -> Run:
    return demo_run(shape=SMALL)


@pytest.fixture
def secret(committed: Run, machine: Machine) -> str:
    found: str = machine("read", of=committed.project).secret
    return found


@pytest.fixture
def poll(monkeypatch: pytest.MonkeyPatch) -> LongPoll:
    """With a channel layer that belongs to this test's event loop."""
    monkeypatch.setattr(waiting, "COALESCE_S", 0.01)
    monkeypatch.setattr(channel_layers, "backends", {})
    return LongPoll(pages)


class Asked:
    """One request to the application, without a server in between."""

    def __init__(self, poll: LongPoll, path: str, secret: str) -> None:
        address, _, query = path.partition("?")
        scope = {
            "type": "http", "method": "GET", "path": address, "query_string": query.encode(), "scheme": "http",
            "headers": [(b"host", b"localhost"), (b"authorization", f"Bearer {secret}".encode())],
            "server": ("localhost", 80), "client": ("127.0.0.1", 5), "http_version": "1.1",
        }  # fmt: skip
        self._poll, self._http = poll, ApplicationCommunicator(poll, scope)

    async def waits(self) -> None:
        """Until the request is being held back."""
        await self._http.send_input({"type": "http.request", "body": b""})
        for _ in range(600):
            if self._poll.watches.num_waiting:
                return
            assert await self._http.receive_nothing(timeout=0.05), "it was answered at once"
        raise AssertionError("the request was never held back")

    async def leaves(self) -> None:
        await self._http.send_input({"type": "http.disconnect"})
        await self._http.wait(20)

    async def answer(self) -> tuple[int, Any]:
        await self._http.send_input({"type": "http.request", "body": b""})
        start = await self._http.receive_output(30)
        body = await self._http.receive_output(30)
        await self._http.wait(20)
        return start["status"], json.loads(body["body"])


def _end(run: Run) -> None:
    Run.objects.filter(pk=run.pk).update(state=Run.State.FINISHED)
    events.record(run.pk, events.EventKind.RUN_FINISHED, {})


async def test_a_run_is_answered_when_it_ends(committed: Run, secret: str, poll: LongPoll) -> None:
    asked = Asked(poll, f"/api/v1/runs/{committed.pk}?wait=60&until=finished", secret)
    await asked.waits()
    await database_sync_to_async(_end)(committed)
    status, body = await asked.answer()
    assert (status, body["state"]) == (200, "finished")
    assert poll.watches.num_waiting == 0


async def test_events_are_answered_when_there_is_one_also_without_the_doorbell(
    committed: Run, secret: str, poll: LongPoll, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(events, "ring", lambda run_id, seq: None)
    asked = Asked(poll, f"/api/v1/runs/{committed.pk}/events?after={committed.event_seq}&wait=60", secret)
    await asked.waits()
    await database_sync_to_async(events.record)(committed.pk, events.EventKind.RUN_PAUSED, {})
    status, body = await asked.answer()
    assert (status, [event["kind"] for event in body["results"]]) == (200, ["run_paused"])


async def test_without_a_channel_layer_the_beat_alone_tells_what_happened(
    committed: Run, secret: str, poll: LongPoll, settings: Any
) -> None:
    backend = {"BACKEND": "channels_redis.pubsub.RedisPubSubChannelLayer", "CONFIG": {"hosts": ["redis://127.0.0.1:1"]}}
    settings.CHANNEL_LAYERS = {"default": backend}
    asked = Asked(poll, f"/api/v1/runs/{committed.pk}?wait=60", secret)
    await asked.waits()
    await database_sync_to_async(_end)(committed)
    status, body = await asked.answer()
    assert (status, body["state"]) == (200, "finished")


async def test_when_the_time_is_up_the_answer_is_what_is_so_now(committed: Run, secret: str, poll: LongPoll) -> None:
    path = f"/api/v1/runs/{committed.pk}"
    assert (await Asked(poll, f"{path}?wait=1", secret).answer())[1]["state"] == "running"
    status, body = await Asked(poll, f"{path}/events?after={committed.event_seq}&wait=1", secret).answer()
    assert (status, body["results"]) == (200, [])


async def test_what_is_so_already_or_is_a_problem_is_answered_at_once(
    committed: Run, secret: str, poll: LongPoll, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def never(*args: Any) -> None:
        raise AssertionError("it waited")

    monkeypatch.setattr(poll.watches, "wait", never)
    path = f"/api/v1/runs/{committed.pk}"
    assert (await Asked(poll, f"{path}/events?after=0&wait=60", secret).answer())[1]["results"]
    assert (await Asked(poll, f"{path}?wait=60", "gyre_wrong").answer())[0] == 401
    assert (await Asked(poll, "/api/v1/runs/987654321?wait=60", secret).answer())[0] == 404
    for query, name in (("wait=61", "wait"), ("wait=x", "wait"), ("wait=60&until=step", "until"), ("wai=60", "wai")):
        status, body = await Asked(poll, f"{path}?{query}", secret).answer()
        assert (status, list(body["errors"])) == (422, [name])
    monkeypatch.setattr(longpoll, "MAX_WAITING", 0)
    assert (await Asked(poll, f"{path}?wait=60", secret).answer())[0] == 200


async def test_a_client_that_leaves_is_not_waited_for_any_more(committed: Run, secret: str, poll: LongPoll) -> None:
    asked = Asked(poll, f"/api/v1/runs/{committed.pk}?wait=60", secret)
    await asked.waits()
    await asked.leaves()
    await asyncio.sleep(0)
    assert poll.watches.num_waiting == 0


def test_many_that_wait_hold_neither_threads_nor_database_connections(committed: Run, secret: str) -> None:
    replies: list[httpx.Response] = []
    before = _connections()

    async def ask_all(address: str) -> None:
        limits = httpx.Limits(max_connections=NUM_CLIENTS)
        async with httpx.AsyncClient(
            headers={"Authorization": f"Bearer {secret}"}, limits=limits, timeout=90
        ) as client:
            asked = [client.get(f"{address}/api/v1/runs/{committed.pk}?wait=60") for _ in range(NUM_CLIENTS)]
            replies.extend(await asyncio.gather(*asked))

    with web_process() as process:
        clients = threading.Thread(target=lambda: asyncio.run(ask_all(process.address)), daemon=True)
        clients.start()

        def all_wait_for_nothing() -> bool:
            num_sockets = len(list(Path(f"/proc/{process.pid}/fd").iterdir()))
            num_threads = len(list(Path(f"/proc/{process.pid}/task").iterdir()))
            return num_sockets > NUM_CLIENTS and num_threads < NUM_CLIENTS // 2 and _connections() <= before

        wait_for(all_wait_for_nothing, "clients that wait still hold threads or connections", patience_s=50)
        assert replies == []
        _end(committed)
        clients.join(60)
    assert {(reply.status_code, reply.json()["state"]) for reply in replies} == {(200, "finished")}
    assert len(replies) == NUM_CLIENTS


def _connections() -> set[int]:
    """Backends of the test database."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT pid FROM pg_stat_activity WHERE datname = current_database()")
        return {pid for (pid,) in cursor.fetchall()}
