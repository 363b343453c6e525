"""What a harness sends beside its conversation fills no disk, and what is kept of its requests can be replayed."""

import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import orjson
import pytest
import zstandard

from agents.models import RequestBody
from agents.proxy import archive, dialects
from agents.proxy.archive import Archive, compressed
from agents.proxy.traffic.replay import replay
from tests.proxy.backstage import Backstage, backstage, policy
from tests.proxy.dialects.test_malformed_requests import BODIES

GO = [{"role": "user", "content": "go"}]
#: Text that no compression makes much smaller.
JUNK = random.Random(1).randbytes(30_000).hex()
ROOM = 4_000


@pytest.fixture
def stage(database_url: str) -> Iterator[Backstage]:
    with backstage(database_url) as found:
        yield found


def _unpacked(body: bytes) -> Any:
    return orjson.loads(zstandard.ZstdDecompressor().decompress(body))


@pytest.mark.parametrize(("dialect", "body"), BODIES, ids=lambda value: getattr(value, "name", ""))
def test_a_body_without_what_is_not_read_is_the_same_request(dialect: dialects.Dialect, body: dict[str, Any]) -> None:
    slim, left_out = archive.without_unread(orjson.dumps(body | {"junk": JUNK, "more": 1}), dialect.name)
    assert left_out == ["junk", "more"]
    assert orjson.loads(slim) == body
    assert dialect.read(orjson.loads(slim)) == dialect.read(body)


def test_bodies_are_kept_as_they_came_while_there_is_room_and_then_with_a_reason() -> None:
    kept = Archive(max_call_bytes=ROOM, max_execution_bytes=ROOM)
    small = orjson.dumps({"messages": GO, "more": 1})
    assert kept.pack("1", small, b"", "openai-chat") == (compressed(small), "")
    packed, why = kept.pack("2", orjson.dumps({"messages": GO, "junk": JUNK}), b"", "openai-chat")
    assert _unpacked(packed) == {"messages": GO}
    assert why.endswith("it is archived without fields that are not read: junk")
    packed, why = kept.pack("3", orjson.dumps({"messages": GO, "metadata": {"junk": JUNK}}), b"", "openai-chat")
    assert packed == b""
    assert "there is room for" in why
    assert why.endswith("it is not archived")
    kept.hold("4", ROOM)
    assert kept.pack("5", small, b"", "openai-chat")[0] == b""
    assert kept.pack("1", small, b"", "openai-chat")[1] == "", "a body that is kept already takes no more room"


def test_an_execution_that_sends_junk_keeps_its_quota_over_a_restart(
    stage: Backstage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = stage.run()
    stage.engine(run, "done")
    execution, base = stage.execution(run)
    sessions = stage.app.sessions

    def bounded() -> None:
        session = stage.loop.call(stage.app.sessions.get(base.rpartition("/")[2]))
        session.archive.max_call_bytes, session.archive.max_execution_bytes = ROOM, 2 * ROOM

    said: list[dict[str, Any]] = []
    for n in range(4):
        if n == 2:
            stage.stop_proxy()
            stage.start_proxy()
            assert stage.app.sessions is not sessions
        base = f"{stage.url}/x/{base.rpartition('/')[2]}"
        bounded()
        body = {"model": "m", "messages": [{"role": "user", "content": f"go {n}"}], "junk": JUNK[:1000] + str(n)}
        if n == 3:
            body["junk"] = JUNK
        said.append(body)
        assert httpx.post(f"{base}/v1/chat/completions", json=body, timeout=30).status_code == 200
    calls = stage.calls(execution)
    assert [call.sampling.get("unarchived", "").rpartition("; ")[2] for call in calls] == [
        *[""] * 3,
        "it is archived without fields that are not read: junk",
    ]
    bodies = {row.hash: bytes(row.body) for row in RequestBody.objects.filter(run=run)}
    kept = [_unpacked(bodies[call.request_hash]) for call in calls]
    assert kept == [*said[:3], {name: said[3][name] for name in ("model", "messages")}]
    session = stage.loop.call(stage.app.sessions.get(base.rpartition("/")[2]))
    assert session.archive.kept_bytes == sum(map(len, bodies.values())) < 2 * ROOM

    lines = [
        {"kind": "request", "seq": n, "method": "POST", "path": "/v1/chat/completions", "headers": [], "body": body}
        for n, body in enumerate(kept)
    ]
    file = tmp_path / "kept.jsonl"
    file.write_bytes(b"\n".join(map(orjson.dumps, lines)))
    replayed = replay(file, "generic", policy())
    assert len(replayed.rows) == 4
    assert sum(row.shared_tokens + row.new_tokens for row in replayed.rows) >= sum(call.input_tokens for call in calls)


def test_a_large_wish_is_recorded_by_its_size(stage: Backstage) -> None:
    run = stage.run()
    stage.engine(run, "done")
    execution, base = stage.execution(run)
    wish = {"type": "json_schema", "json_schema": {"name": "x", "description": JUNK}}
    body = {"model": "m", "messages": GO, "response_format": wish, "temperature": 0.5}
    assert httpx.post(f"{base}/v1/chat/completions", json=body, timeout=30).status_code == 200
    [call] = stage.calls(execution)
    assert call.sampling["asked"] == {
        "temperature": 0.5,
        "response_format": {"left_out_bytes": len(orjson.dumps(wish))},
    }
