"""The live feed's sockets: only pages of this very site open them, and nothing that is sent there breaks anything."""

from __future__ import annotations

import logging

import pytest

from agents.models import Run
from gyreweb.live.origin import is_allowed
from tests.live.conftest import Listen, cookie, listen, quick, run  # noqa: F401


@pytest.mark.parametrize(
    "origin", ["http://localhost:9999", "https://localhost", "http://localhost.evil.example", "", "http://[::1", "null"]
)
async def test_another_port_scheme_or_name_is_another_origin(run: Run, listen: Listen, origin: str) -> None:  # noqa: F811
    assert not (await listen(run.pk, origin=origin)).connected


async def test_an_unknown_address_is_closed_without_an_error(
    listen: Listen,  # noqa: F811
    caplog: pytest.LogCaptureFixture,
) -> None:
    listener = await listen(1, path="/ws/elsewhere/")
    closed = await listener.receive_output(20)
    assert (closed["type"], closed["code"]) == ("websocket.close", 4404)
    assert [record for record in caplog.records if record.levelno >= logging.WARNING] == []


async def test_bytes_and_text_that_is_no_json_are_passed_over(run: Run, listen: Listen) -> None:  # noqa: F811
    listener = await listen(run.pk, since=run.event_seq)
    await listener.send({"bytes": b"\x00\xff"})
    await listener.send({"text": "{"})
    await listener.send({"text": "[" * 100_000})
    assert (await listener.receive_json_from(timeout=20))["type"] == "beat"


@pytest.mark.parametrize(
    ("origin", "host", "allowed"),
    [
        ("https://localhost:8700", "localhost:8700", False),
        ("http://localhost:8700", "localhost:8700", True),
        ("http://localhost", "localhost:80", True),
        ("http://[::1]:8700", "[::1]:8700", True),
        ("http://127.0.0.1:8700", "localhost:8700", False),
        ("http://evil.example", "evil.example", False),
        ("https://gyre.example.org", "gyre:8700", True),
        ("file://", "localhost", False),
    ],
)
def test_origin_and_host_must_agree_and_be_ours(settings: object, origin: str, host: str, allowed: bool) -> None:
    settings.CSRF_TRUSTED_ORIGINS = ["https://gyre.example.org"]  # type: ignore[attr-defined]
    assert is_allowed(origin, host) is allowed


def test_behind_https_pages_are_https(settings: object) -> None:
    settings.HTTPS = True  # type: ignore[attr-defined]
    assert is_allowed("https://localhost", "localhost:443")
    assert not is_allowed("http://localhost", "localhost")
