"""The reference harness: an agent with a shell, helpers, a memory that it compacts, and retries.

It knows nothing of training. It reads its settings from environment variables, talks to a model with the official
`openai` client, works in the current directory, and leaves `result.json` and `transcript.jsonl` in the log folder.

* The main agent has two tools: `bash` runs a command, `delegate` gives a job to a helper with its own conversation.
  Several calls in one reply run side by side when all of them delegate, else in order.
* When a reply's `usage.total_tokens` exceeds the compaction budget, the agent asks the model, after the tool results,
  to say what is left, and goes on in a fresh conversation that holds only that answer.
* A call that cannot be understood gets an error as its result; the number of such calls is reported.
* All agents of one task share one limit on model calls.

Import the module once and call `main` in a forked child: importing starts no thread.
"""

from __future__ import annotations

import json
import os
import select
import signal
import ssl
import subprocess
import threading
import time
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

import httpx
from openai import APIError, OpenAI
from openai.types.chat import ChatCompletion

MAIN_SYSTEM = "You are an agent. Do the task with tools."
HELPER_SYSTEM = "You are a helper. Do the job with tools."
SUMMARY_QUESTION = "Summarize what is left."
CONTINUATION = "Continue. "
BAD_CALL = "error: bad call"
#: The model's address is plain HTTP inside the sandbox; an empty trust store saves loading the system's.
_NO_TRUST = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)


def _tool(name: str, description: str, argument: str) -> dict[str, Any]:
    parameters = {"type": "object", "properties": {argument: {"type": "string"}}, "required": [argument]}
    return {"type": "function", "function": {"name": name, "description": description, "parameters": parameters}}


BASH_TOOL = _tool("bash", "Run a command.", "command")
DELEGATE_TOOL = _tool("delegate", "Give a job to a helper.", "job")
MAIN_TOOLS = [BASH_TOOL, DELEGATE_TOOL]
HELPER_TOOLS = [BASH_TOOL]

Message = dict[str, Any]


@dataclass(frozen=True)
class Settings:
    """What the environment says; every variable but the model's address has a default."""

    base_url: str
    api_key: str
    model: str = "policy"
    instruction: Path = Path("/run/gyre/instruction.md")
    logs: Path = Path("/logs/agent")
    turn_limit: int = 7
    compact_tokens: int = 360
    output_chars: int = 120
    report_chars: int = 40
    summary_chars: int = 160
    command_timeout_s: float = 5.0
    max_retries: int = 4
    request_timeout_s: float = 3600.0

    @classmethod
    def read(cls, env: Mapping[str, str]) -> Self:
        """Raises KeyError without OPENAI_BASE_URL or OPENAI_API_KEY, ValueError for a number that is none."""
        names = {
            "model": ("OPENAI_MODEL", str),
            "instruction": ("GYRE_INSTRUCTION", Path),
            "logs": ("GYRE_LOGS", Path),
            "turn_limit": ("GYRE_TURN_LIMIT", int),
            "compact_tokens": ("GYRE_COMPACT_TOKENS", int),
            "output_chars": ("GYRE_OUTPUT_CHARS", int),
            "command_timeout_s": ("GYRE_COMMAND_TIMEOUT_S", float),
            "max_retries": ("GYRE_MAX_RETRIES", int),
        }
        given: dict[str, Any] = {key: kind(env[name]) for key, (name, kind) in names.items() if name in env}
        return cls(base_url=env["OPENAI_BASE_URL"], api_key=env["OPENAI_API_KEY"], **given)


class TurnLimit(Exception):
    """All model calls of this task are used up."""


@dataclass
class Session:
    """What all agents of one task share: the client, the budget of model calls, the logs."""

    settings: Settings
    client: OpenAI
    turns: int = 0
    malformed_calls: int = 0
    turn_limit: bool = False
    helpers: int = 0
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def ask(self, messages: list[Message], tools: list[Message]) -> tuple[Any, str, int]:
        """One model call: (message, finish reason, total tokens). Raises TurnLimit when none is left."""
        with self._lock:
            if self.turns >= self.settings.turn_limit:
                self.turn_limit = True
                raise TurnLimit
            self.turns += 1
        # Not by `chat.completions.create`: that walks every message by its type, and all of it is JSON already.
        body = {"messages": messages, "model": self.settings.model, "tools": tools}
        completion = self.client.post("/chat/completions", body=body, cast_to=ChatCompletion)
        choice = completion.choices[0]
        return choice.message, choice.finish_reason, completion.usage.total_tokens if completion.usage else 0

    def count_malformed(self) -> None:
        with self._lock:
            self.malformed_calls += 1

    def name_helper(self) -> str:
        with self._lock:
            self.helpers += 1
            return f"helper {self.helpers}"

    def log(self, agent: str, tool: str, arguments: Any, output: str) -> None:
        line = json.dumps({"agent": agent, "tool": tool, "arguments": arguments, "output": output})
        with self._lock, (self.settings.logs / "transcript.jsonl").open("a") as file:
            file.write(line + "\n")


@dataclass
class Agent:
    """One conversation with the model, main or helper."""

    session: Session
    name: str
    system: str
    tools: list[Message]
    messages: list[Message] = field(default_factory=list)

    def work(self, request: str) -> str:
        """Work on `request` until the model answers without a call; returns that answer."""
        self._start(request)
        summarising = False
        while True:
            reply, finish_reason, total_tokens = self.session.ask(self.messages, self.tools)
            text = reply.content or ""
            self.messages.append(echo(reply))
            if finish_reason == "length":
                self.session.count_malformed()
                return text
            if reply.tool_calls:
                self.messages += self._run_calls(reply.tool_calls)
                summarising = total_tokens > self.session.settings.compact_tokens
                if summarising:
                    self.messages.append({"role": "user", "content": SUMMARY_QUESTION})
            elif "<tool_call>" in text:
                self.session.count_malformed()
                self.messages.append({"role": "user", "content": BAD_CALL})
            elif summarising:
                self._start(CONTINUATION + text[: self.session.settings.summary_chars])
                summarising = False
            else:
                return text

    def _start(self, request: str) -> None:
        self.messages = opening(self.system, request)

    def _run_calls(self, calls: list[Any]) -> list[Message]:
        if len(calls) > 1 and all(call.function.name == "delegate" for call in calls):
            with ThreadPoolExecutor(len(calls)) as pool:
                outputs = list(pool.map(self._run_call, calls))
        else:
            outputs = [self._run_call(call) for call in calls]
        return [
            {"role": "tool", "tool_call_id": call.id, "content": output}
            for call, output in zip(calls, outputs, strict=True)
        ]

    def _run_call(self, call: Any) -> str:
        name, offered = call.function.name, {tool["function"]["name"] for tool in self.tools}
        try:
            arguments = json.loads(call.function.arguments)
            argument = arguments["command" if name == "bash" else "job"]
        except (ValueError, KeyError, TypeError):
            arguments = argument = None
        if name not in offered or not isinstance(argument, str):
            self.session.count_malformed()
            output = BAD_CALL
        elif name == "bash":
            output = run_command(argument, self.session.settings)
        else:
            helper = Agent(self.session, self.session.name_helper(), HELPER_SYSTEM, HELPER_TOOLS)
            output = helper.work(argument)[: self.session.settings.report_chars]
        self.session.log(self.name, name, arguments, output)
        return output


def opening(system: str, request: str) -> list[Message]:
    """How every conversation starts."""
    return [{"role": "system", "content": system}, {"role": "user", "content": request}]


def echo(reply: Any) -> Message:
    """The model's message as it goes back to it in the next request."""
    message: Message = {"role": "assistant", "content": reply.content}
    if reply.tool_calls:
        message["tool_calls"] = [call.model_dump(exclude_unset=True) for call in reply.tool_calls]
    return message


def run_command(command: str, settings: Settings) -> str:
    """Run `bash -c command` here; what it printed, cut to `output_chars` characters, without trailing newlines."""
    if "\0" in command:
        return "error: the command holds a null byte"
    process = subprocess.Popen(
        ["/bin/bash", "-c", command],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        start_new_session=True,
    )
    deadline = time.monotonic() + settings.command_timeout_s
    try:
        printed = _read_some(process, settings.output_chars * 4, deadline)
        process.wait(max(0.0, deadline - time.monotonic()))
    except subprocess.TimeoutExpired:
        printed = b"error: the command took too long\n" + printed
    finally:
        _kill_group(process.pid)
        process.wait()
    return printed.decode(errors="replace")[: settings.output_chars].rstrip("\n")


def _read_some(process: subprocess.Popen[bytes], limit: int, deadline: float) -> bytes:
    """Read to the end or to the deadline (monotonic seconds), keep the first `limit` bytes."""
    assert process.stdout is not None
    kept = b""
    with process.stdout as stream:
        while select.select([stream], [], [], max(0.0, deadline - time.monotonic()))[0]:
            chunk = os.read(stream.fileno(), 65536)
            if not chunk:
                break
            kept += chunk[: limit - len(kept)]
    return kept


def _kill_group(pid: int) -> None:
    try:
        os.killpg(pid, signal.SIGKILL)
    except ProcessLookupError:
        return


def _client(settings: Settings) -> OpenAI:
    transport = httpx.Client(verify=_NO_TRUST, trust_env=False, timeout=settings.request_timeout_s)
    return OpenAI(
        base_url=settings.base_url, api_key=settings.api_key, max_retries=settings.max_retries, http_client=transport
    )


def main(env: Mapping[str, str]) -> int:
    """Do the task. Exit status: 0 when the agent came to an end (also at its limit), 1 when the model failed it."""
    settings = Settings.read(env)
    settings.logs.mkdir(parents=True, exist_ok=True)
    status, error = 0, ""
    with _client(settings) as client:
        session = Session(settings, client)
        try:
            agent = Agent(session, "main", MAIN_SYSTEM, MAIN_TOOLS)
            agent.work(settings.instruction.read_text().strip())
        except TurnLimit:
            pass
        except APIError as failure:
            status, error = 1, f"{type(failure).__name__}: {failure}"
    result = {
        "malformed_calls": session.malformed_calls,
        "turn_limit": session.turn_limit,
        "turns": session.turns,
        "helpers": session.helpers,
        "error": error,
    }
    (settings.logs / "result.json").write_text(json.dumps(result) + "\n")
    return status
