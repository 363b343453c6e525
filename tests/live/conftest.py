"""Listeners of the live feed, over the real channel layer and the real database."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from channels.layers import channel_layers
from django.conf import settings
from django.contrib.auth import get_user_model
from django.test import Client

from agents.models import Run
from gyreweb.asgi import application
from gyreweb.live import consumer
from tests.support.demo_run import Shape, demo_run
from tests.support.listener import Listener

SMALL = Shape(groups_per_batch=2, executions_per_group=3, bursts=2, cells=2, concurrency=6)
Listen = Callable[..., Awaitable[Listener]]


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """The same code with short waits, and a channel layer that belongs to this test's event loop."""
    monkeypatch.setattr(consumer, "COALESCE_S", 0.01)
    monkeypatch.setattr(consumer, "BEAT_S", 0.2)
    monkeypatch.setattr(channel_layers, "backends", {})


@pytest.fixture
def run(transactional_db: None) -> Run:
    return demo_run(shape=SMALL)


@pytest.fixture
def cookie(transactional_db: None) -> str:
    """The session of a superuser."""
    client = Client()
    client.force_login(get_user_model().objects.create_superuser("root"))
    return f"{settings.SESSION_COOKIE_NAME}={client.cookies[settings.SESSION_COOKIE_NAME].value}"


@pytest.fixture
async def listen(cookie: str) -> Any:
    """Connects a listener; closes all of them at the end."""
    open_ones: list[Listener] = []

    async def connect(
        run_id: int, since: Any = 0, page: str = "run", session: str = cookie, origin: str = "http://localhost",
        path: str = "",
    ) -> Listener:  # fmt: skip
        path = path or f"/ws/runs/{run_id}/?since={since}&page={page}"
        headers = [(b"origin", origin.encode()), (b"host", b"localhost"), (b"cookie", session.encode())]
        listener = Listener(application, path, headers)
        await listener.connect(timeout=20)
        open_ones.append(listener)
        return listener

    yield connect
    for listener in open_ones:
        await listener.disconnect(timeout=20)


async def until(listener: Listener, kind: str) -> dict[str, Any]:
    """The next message of a type; beats and others before it are passed over."""
    for _ in range(200):
        message: dict[str, Any] = await listener.receive_json_from(timeout=20)
        if message["type"] == kind:
            return message
    raise AssertionError(f"200 messages and no {kind} among them")
