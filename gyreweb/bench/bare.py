"""The bare harness and verifier, again and again in one sandbox: what an execution costs without Gyre around it.

`main` runs inside the sandbox, as a program of the sandbox server; `Model` outside answers it at once.
"""

from __future__ import annotations

import json
import os
import resource
import subprocess
import time
from collections.abc import Mapping
from pathlib import Path

import aiohttp.web
import orjson

from agents.harness.drivers.warm_reference import main as reference

ROUNDS_VARIABLE = "GYRE_BENCH_ROUNDS"
RESULT = "bare.json"
#: What every agent of the benchmark does: two commands, then it says that it is done.
COMMANDS = ("echo word > note.txt", "cat note.txt")


def main(env: Mapping[str, str]) -> int:
    """Play the execution's part: harness in a fork, then the verifier. One round does not count."""
    rounds = []
    for number in range(int(env[ROUNDS_VARIABLE]) + 1):
        before, started = _cpu_s(), time.time()
        pid = os.fork()
        if pid == 0:
            os._exit(reference(env))
        harness_code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        verified = subprocess.run(["/tests/test.sh"], check=False, stdin=subprocess.DEVNULL)
        if harness_code or verified.returncode:
            raise RuntimeError(f"round {number}: harness {harness_code}, verifier {verified.returncode}")
        rounds.append({"cpu_s": _cpu_s() - before, "started": started, "ended": time.time()})
    Path("/logs/agent", RESULT).write_text(json.dumps(rounds[1:]))
    return 0


def _cpu_s() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


class Model:
    """Chat completions over a unix socket. `times`: of each request and each reply, by the host's clock."""

    def __init__(self) -> None:
        self.times: list[tuple[float, float]] = []

    async def serve(self, place: Path) -> aiohttp.web.AppRunner:
        app = aiohttp.web.Application()
        app.router.add_post("/{path:.*}", self._answer)
        runner = aiohttp.web.AppRunner(app, access_log=None)
        await runner.setup()
        await aiohttp.web.UnixSite(runner, str(place)).start()
        return runner

    async def _answer(self, request: aiohttp.web.Request) -> aiohttp.web.Response:
        came = time.time()
        messages = orjson.loads(await request.read())["messages"]
        turn = sum(message["role"] == "assistant" for message in messages)
        body = completion(turn)
        self.times.append((came, time.time()))
        return aiohttp.web.json_response(body)


def completion(turn: int) -> dict[str, object]:
    """The reply of a model's turn, 0 the first."""
    message: dict[str, object] = {"role": "assistant", "content": "done"}
    if turn < len(COMMANDS):
        function = {"name": "bash", "arguments": json.dumps({"command": COMMANDS[turn]})}
        message = {
            "role": "assistant",
            "content": None,
            "tool_calls": [{"id": f"call_{turn}", "type": "function", "function": function}],
        }
    choice = {"index": 0, "finish_reason": "tool_calls" if turn < len(COMMANDS) else "stop", "message": message}
    usage = {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}
    return {
        "id": "x",
        "object": "chat.completion",
        "created": 0,
        "model": "policy",
        "choices": [choice],
        "usage": usage,
    }
