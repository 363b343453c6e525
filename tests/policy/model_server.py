"""A model that answers from a script, over HTTP in the Chat Completions dialect. For the reference harness's tests;
tests/integration runs the same harness against the real proxy and engine."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


@dataclass
class Answer:
    """One reply: text, tool calls as (name, arguments text), what the usage says. Any status but 200 is an error."""

    text: str = ""
    calls: tuple[tuple[str, str], ...] = ()
    total_tokens: int = 100
    finish_reason: str = "stop"
    status: int = 200


def bash(command: str, total_tokens: int = 100) -> Answer:
    return Answer(calls=(("bash", json.dumps({"command": command})),), total_tokens=total_tokens)


def delegate(*jobs: str) -> Answer:
    return Answer(calls=tuple(("delegate", json.dumps({"job": job})) for job in jobs))


@dataclass
class ScriptedModel:
    base_url: str
    requests: list[dict[str, Any]] = field(default_factory=list)
    headers: list[dict[str, str]] = field(default_factory=list)


Script = Callable[[dict[str, Any]], Answer]


def in_order(*answers: Answer) -> Script:
    """Answer the requests one by one, whoever asks."""
    remaining = iter(answers)
    return lambda request: next(remaining)


@contextmanager
def scripted_model(script: Script) -> Iterator[ScriptedModel]:
    """Serve `script` on a free port of the loopback interface."""
    model = ScriptedModel("")

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            request = json.loads(self.rfile.read(int(self.headers["content-length"])))
            model.requests.append(request)
            model.headers.append({name.lower(): value for name, value in self.headers.items()})
            answer = script(request)
            body = json.dumps(_completion(answer)).encode()
            self.send_response(answer.status)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *args: Any) -> None:
            return

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    model.base_url = f"http://127.0.0.1:{server.server_port}/v1"
    try:
        yield model
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def _completion(answer: Answer) -> dict[str, Any]:
    if answer.status != 200:
        return {"error": {"message": "try again", "type": "server_error"}}
    message: dict[str, Any] = {"role": "assistant", "content": answer.text or None}
    if answer.calls:
        message["tool_calls"] = [
            {"id": f"call_{n}", "type": "function", "function": {"name": name, "arguments": arguments}}
            for n, (name, arguments) in enumerate(answer.calls)
        ]
    return {
        "id": "completion",
        "object": "chat.completion",
        "created": 0,
        "model": "policy",
        "choices": [{"index": 0, "message": message, "finish_reason": answer.finish_reason}],
        "usage": {"prompt_tokens": answer.total_tokens, "completion_tokens": 0, "total_tokens": answer.total_tokens},
    }
