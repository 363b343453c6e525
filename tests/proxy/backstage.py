"""A real proxy on real ports before scripted engines, on the test database: all but the weights is the product."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import secrets
import socket
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import uvicorn

from agents.core.codec import CallDelta, decode_call
from agents.models import Call, Execution, Group, Project, Run, Task, TaskSet
from agents.proxy.app import ProxyApp
from agents.proxy.rendering import BUNDLED_POLICY, Rendering, rendering
from agents.proxy.scripted import ScriptedEngine, Turn, serve
from scheduler.config import RunConfig, preset
from scheduler.models import Cell
from tests.support.waiting import wait_for

Reply = str | Turn | Callable[[list[int]], Turn]


def policy() -> Rendering:
    return rendering(BUNDLED_POLICY)


def sampled(text: str, close: bool = True) -> list[int]:
    """Ids that say this text, with the token that ends a turn."""
    return policy().tokenizer.encode(text) + ([policy().close_id] if close else [])


def tool_text(name: str, **arguments: Any) -> str:
    """A tool call as the policy samples it."""
    import json

    return "<tool_call>\n" + json.dumps({"name": name, "arguments": arguments}) + "\n</tool_call>"


class Loop:
    """An event loop in a thread of its own, so that tests can use blocking clients and the ORM."""

    def __init__(self) -> None:
        self.loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self.loop.run_forever, daemon=True)
        self._thread.start()

    def call(self, work: Any, timeout_s: float = 30) -> Any:
        return asyncio.run_coroutine_threadsafe(work, self.loop).result(timeout_s)

    def close(self) -> None:
        self.loop.call_soon_threadsafe(self.loop.stop)
        self._thread.join()
        self.loop.close()


@dataclass
class Engine:
    """A scripted engine behind a cell row. `say` queues the replies that it gives in turn; the last one repeats."""

    scripted: ScriptedEngine
    url: str
    _replies: list[Reply]

    def say(self, *replies: Reply) -> None:
        self._replies[:] = replies

    @property
    def requests(self) -> list[dict[str, Any]]:
        return self.scripted.requests


@dataclass
class Backstage:
    """Proxy, engines and rows of one test."""

    database_url: str
    stack: contextlib.ExitStack
    loop: Loop
    url: str = ""
    engines: list[Engine] = field(default_factory=list)
    app: ProxyApp = field(init=False)
    _server: Any = None

    def start_proxy(self, **options: Any) -> None:
        """`options` as of ProxyApp; another `database_url` is one of them."""
        listener = socket.socket()
        listener.bind(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{listener.getsockname()[1]}"
        self._serve(listener, **options)

    def _serve(self, listener: socket.socket, **options: Any) -> None:
        self.app = ProxyApp(**{"database_url": self.database_url} | options)
        config = uvicorn.Config(
            self.app,
            http="httptools",
            ws="none",
            lifespan="on",
            log_level="warning",
            timeout_graceful_shutdown=1,
        )
        self._server = uvicorn.Server(config)
        self._task = asyncio.run_coroutine_threadsafe(self._server.serve(sockets=[listener]), self.loop.loop)
        wait_for(lambda: self._server.started or self._task.done(), "the proxy has started")
        if self._task.done():
            self._task.result()

    def stop_proxy(self) -> None:
        if self._server is not None:
            self._server.should_exit = True
            self._task.result(30)
            self._server = None

    def engine(self, run: Run, *replies: Reply, **cell: Any) -> Engine:
        """One more engine and its cell in rollout."""
        queue: list[Reply] = list(replies or ["done"])

        def script(input_ids: list[int]) -> Turn:
            reply = queue.pop(0) if len(queue) > 1 else queue[0]
            if callable(reply):
                return reply(input_ids)
            return reply if isinstance(reply, Turn) else Turn(sampled(reply))

        scripted = ScriptedEngine(script, weight_version=str(cell.get("weight_version", 3)))
        serving = serve(scripted)
        url = self.loop.call(serving.__aenter__())
        self.stack.callback(lambda: self.loop.call(serving.__aexit__(None, None, None)))
        fields = {
            "index": len(self.engines),
            "is_core": not self.engines,
            "role": Cell.Role.ROLLOUT,
            "engine_url": url,
            "weight_version": 3,
            "weight_hash": "abc",
        }
        Cell.objects.create(run=run, **(fields | cell))
        engine = Engine(scripted, url, queue)
        self.engines.append(engine)
        return engine

    def run(self, **settings: Any) -> Run:
        config: RunConfig = preset("quickstart", **settings)
        project, _ = Project.objects.get_or_create(slug="default", name="Default")
        task_set, _ = TaskSet.objects.get_or_create(name="quickstart", path="/tasks", digest="0")
        return Run.objects.create(
            project=project,
            task_set=task_set,
            name="test",
            state=Run.State.RUNNING,
            seed=1,
            policy_kind="elastic",
            config=config.model_dump(mode="json"),
        )

    def execution(self, run: Run, **group: Any) -> tuple[Execution, str]:
        """A running execution and the base URL that its harness gets."""
        task, _ = Task.objects.get_or_create(
            task_set=run.task_set, name="one", defaults={"path": "/tasks/one", "digest": "0", "config": {}}
        )
        number = Group.objects.filter(run=run).count()
        row = Group.objects.create(run=run, task=task, **({"number": number} | group))
        key = secrets.token_urlsafe(24)
        execution = Execution.objects.create(
            run=run, group=row, index=0, state=Execution.State.RUNNING, key_hash=hashlib.sha256(key.encode()).digest()
        )
        return execution, f"{self.url}/x/{key}"

    def calls(self, execution: Execution) -> list[Call]:
        return list(Call.objects.with_tokens().filter(execution=execution).order_by("number"))


def delta(call: Call) -> CallDelta:
    return decode_call(bytes(call.tokens))


def full_input(call: Call) -> list[int]:
    """A call's whole input from the rows alone."""
    own = delta(call).new_input_ids.tolist()
    if call.parent_number is None:
        return own
    parent = Call.objects.with_tokens().get(execution=call.execution, attempt=call.attempt, number=call.parent_number)
    return (full_input(parent) + delta(parent).output_ids.tolist())[: call.prefix_tokens] + own


@contextlib.contextmanager
def backstage(database_url: str) -> Iterator[Backstage]:
    with contextlib.ExitStack() as stack:
        loop = Loop()
        stack.callback(loop.close)
        found = Backstage(database_url, stack, loop)
        stack.callback(found.stop_proxy)
        found.start_proxy()
        yield found
