"""1,152 clients whose proxy is killed: all come back to the next one at once, none is lost, memory stays bounded."""

from __future__ import annotations

import asyncio
import hashlib
import json
import random
import secrets
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import aiohttp
import pytest

from agents.models import Call, Execution, Group, ProxyProcess, Task
from tests.proxy.backstage import Backstage, backstage
from tests.proxy.gate import Gate
from tests.proxy.processes import proxy_process
from tests.support.waiting import wait_for

NUMBER = 1152
#: What the second process may take in all, with 1,152 sessions and streams.
MAX_KIB = 512 << 10
BODY = json.dumps({"model": "m", "messages": [{"role": "user", "content": "go"}], "stream": True})


@pytest.fixture
def stage(database_url: str) -> Iterator[Backstage]:
    with backstage(database_url) as found:
        yield found


def _keys(stage: Backstage, owner: str) -> list[str]:
    """Keys of running executions that belong to this proxy, all of one run and one engine."""
    run = stage.run(max_calls_per_cell=2 * NUMBER)
    stage.engine(run, "done")
    task = Task.objects.create(task_set=run.task_set, name="one", path="/tasks/one", digest="0", config={})
    group = Group.objects.create(run=run, task=task, number=0)
    proxy = ProxyProcess.objects.get(name=owner)
    keys = [secrets.token_urlsafe(24) for _ in range(NUMBER)]
    Execution.objects.bulk_create(
        Execution(
            run=run, group=group, index=index, state=Execution.State.RUNNING, proxy=proxy,
            key_hash=hashlib.sha256(key.encode()).digest(),
        )
        for index, key in enumerate(keys)
    )  # fmt: skip
    return keys


class Clients:
    """Streams over the proxy's unix socket, asked again until they end well, as a harness in its sandbox does."""

    def __init__(self, socket: Path, keys: list[str]) -> None:
        self.socket, self.keys = socket, keys
        self.statuses: Counter[int] = Counter()
        self.num_cut = 0

    async def run(self) -> list[str]:
        connector = aiohttp.UnixConnector(str(self.socket), limit=0)
        async with asyncio.timeout(240), aiohttp.ClientSession(connector=connector) as session:
            return await asyncio.gather(*(self._one(session, key) for key in self.keys))

    async def _one(self, session: aiohttp.ClientSession, key: str) -> str:
        while True:
            try:
                url = f"http://proxy/x/{key}/v1/chat/completions"
                async with session.post(url, data=BODY, headers={"content-type": "application/json"}) as answer:
                    self.statuses[answer.status] += 1
                    text = (await answer.read()).decode()
                    if answer.status == 200 and text.rstrip().endswith("data: [DONE]"):
                        return text
            except aiohttp.ClientError:
                self.num_cut += 1
            await asyncio.sleep(random.uniform(0.1, 0.5))


def _peak_kib(pid: int) -> int:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM:"))


def test_1152_clients_of_a_killed_proxy_all_get_their_answers_from_the_next_one(
    stage: Backstage, database_url: str, tmp_path: Path
) -> None:
    with proxy_process(database_url, tmp_path, "proxy-many") as first:
        keys = _keys(stage, "proxy-many")
        scripted, clients = stage.engines[0].scripted, Clients(first.socket, keys)
        gate = Gate(stage, stage.engines[0])
        asking = asyncio.run_coroutine_threadsafe(clients.run(), stage.loop.loop)

        def num_running() -> int:
            assert not asking.done(), asking.exception()
            return len(scripted.running)

        wait_for(num_running, "every client is at the engine", 240, until=lambda number: number >= NUMBER)
        first.kill()
        gate.open()
        with proxy_process(database_url, tmp_path, "proxy-many") as second:
            answers = asking.result(300)
            peak = _peak_kib(second.child.pid)
            assert second.health()["sessions"] == NUMBER
    assert len(answers) == NUMBER
    assert clients.num_cut >= NUMBER
    assert set(clients.statuses) == {200}, clients.statuses
    assert peak < MAX_KIB
    calls = Counter(Call.objects.values_list("execution", "state"))
    assert len(calls) == NUMBER
    assert {state for _, state in calls} == {"complete"}
    assert set(calls.values()) == {1}
