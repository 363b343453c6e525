"""What a wire dialect does: read a request, write its reply whole or as a stream, and say errors in its own shape."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from typing import Any

import orjson

from agents.proxy import canonical
from agents.proxy.canonical import BadRequest, ModelRequest
from agents.proxy.replies import Event, Finish, Reply

#: Kind of error -> HTTP status.
ERRORS = {
    "bad_request": 400,
    "too_long": 400,
    "not_found": 404,
    "thread_not_found": 400,
    "late": 408,
    "dead_key": 409,
    "too_large": 413,
    "headers_too_large": 431,
    "engine": 500,
    "broken": 500,
    "unavailable": 503,
}

#: Fields of a body that every dialect reads.
FIELDS = frozenset({"client_metadata", "messages", "metadata", "model", "stream", "system", "tool_choice", "tools"})
#: How much of one setting that the harness asked for is recorded, in bytes of JSON.
MAX_ASKED_BYTES = 16 * 1024

#: Stop strings that engines take.
MAX_STOPS = 32

#: Name of the model in replies and in the models listing. Every name that a harness asks for means it.
MODEL = "policy"


@dataclass(frozen=True, slots=True)
class Head:
    """What is known of a reply before its first token."""

    id: str
    model: str
    input_tokens: int
    created: int


class StreamEncoder(ABC):
    """Writes one reply as server-sent events."""

    @abstractmethod
    def start(self) -> bytes: ...

    @abstractmethod
    def event(self, event: Event) -> bytes:
        """Bytes of one event. After Finish or Failure nothing follows."""


class Dialect(ABC):
    name: str
    reply_id_prefix: str
    tool_id_prefix: str
    #: Fields of a body that it reads. Others are archived as long as there is room.
    fields: frozenset[str]
    #: Sent on an idle stream; clients ignore it.
    keep_alive: bytes
    #: Header in which clients look for the id of their request.
    request_id_header = b"x-request-id"

    def read(self, body: dict[str, Any]) -> ModelRequest:
        """A request with what its sender says of itself. Raises BadRequest."""
        request = self.parse(body)
        traits = {"marks": canonical.marks(body), "forced_tool": canonical.forces_tool(body)}
        return replace(request, traits={**request.traits, **traits})

    @abstractmethod
    def parse(self, body: dict[str, Any]) -> ModelRequest:
        """Raises BadRequest."""

    @abstractmethod
    def stream(self, head: Head, request: ModelRequest) -> StreamEncoder: ...

    @abstractmethod
    def whole(self, head: Head, request: ModelRequest, reply: Reply, finish: Finish) -> bytes: ...

    @abstractmethod
    def error(self, kind: str, message: str) -> bytes:
        """Body of an error reply."""

    def status(self, kind: str) -> int:
        """HTTP status of an error reply."""
        return ERRORS[kind]

    @abstractmethod
    def too_long(self, input_tokens: int, limit: int) -> str:
        """The words by which harnesses know that they must compact."""

    def counted(self, input_tokens: int) -> bytes:
        """The reply to a request that asked for its length."""
        return orjson.dumps({"input_tokens": input_tokens})

    def too_long_stream(self, head: Head, request: ModelRequest, message: str) -> bytes | None:
        """Body of the stream that says so to a client that asked for one; None where it gets an error reply as well."""
        return None


def expect(body: dict[str, Any], name: str, kinds: type | tuple[type, ...], default: Any = None) -> Any:
    """A field of the body, or `default` when it is absent or null. Raises BadRequest when it is of another type."""
    value = body.get(name)
    if value is None:
        return default
    if not isinstance(value, kinds) or (isinstance(value, bool) and kinds is int):
        allowed = kinds if isinstance(kinds, tuple) else (kinds,)
        raise BadRequest(f"{name} must be {' or '.join(k.__name__ for k in allowed)}, not {type(value).__name__}")
    return value


def expect_messages(body: dict[str, Any]) -> list[dict[str, Any]]:
    messages: list[dict[str, Any]] = expect(body, "messages", list, [])
    if not messages or not all(isinstance(m, dict) for m in messages):
        raise BadRequest("messages must be a list of at least one message object")
    if messages[0].get("role") == "assistant":
        raise BadRequest("messages: the first message cannot be the assistant's")
    return messages


def expect_max_tokens(body: dict[str, Any], *names: str) -> int | None:
    for name in names:
        value = expect(body, name, int)
        if value is not None:
            if value < 1:
                raise BadRequest(f"{name} must be at least 1, not {value}")
            return int(value)
    return None


def expect_stop(value: Any, name: str) -> tuple[str, ...]:
    stops = [value] if isinstance(value, str) else value or []
    if not isinstance(stops, list) or not all(isinstance(s, str) for s in stops):
        raise BadRequest(f"{name} must be a string or a list of strings")
    if len(stops) > MAX_STOPS:
        raise BadRequest(f"{name} holds {len(stops)} strings; at most {MAX_STOPS} are taken")
    return tuple(s for s in stops if s)


def asked(body: dict[str, Any], *names: str) -> dict[str, Any]:
    """Settings that the harness wanted and the run decides; of a large one, its size."""
    settings = {name: body[name] for name in names if body.get(name) is not None}
    for name, value in settings.items():
        if (size := len(orjson.dumps(value))) > MAX_ASKED_BYTES:
            settings[name] = {"left_out_bytes": size}
    return settings
