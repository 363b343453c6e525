"""The scripted engine's state and behaviour; `server` puts it on a port."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any


class Fault(StrEnum):
    """What goes wrong with a turn, after its `fault_after` tokens."""

    BREAK = "break"  # the connection is cut
    ABORT = "abort"  # a finish chunk of type abort
    HANG = "hang"  # no further token until the request is aborted
    REFUSE = "refuse"  # HTTP 400
    FAIL = "fail"  # HTTP 500
    NAN = "nan"  # the next log-probability is null
    SHORT = "short"  # the next log-probability is missing


@dataclass(frozen=True, slots=True)
class Turn:
    """What one request samples; tokens beyond its budget are not reached.

    `before[n]` is awaited before the token at position n is sampled: for delays, and for what happens meanwhile.
    """

    ids: Sequence[int]
    tokens_per_chunk: int = 1
    fault: Fault | None = None
    fault_after: int = 0
    before: Mapping[int, Callable[[], Awaitable[None]]] = field(default_factory=dict)


#: Prompts under one key that the scripted prefix cache remembers.
PROMPTS_CACHED = 16

Script = Callable[[list[int]], Turn | Sequence[int]]


def logprob_of(token_id: int, position: int) -> float:
    """The log-probability that the scripted engine reports for a token at a position of input + output."""
    return -((token_id * 7919 + position * 104_729) % 4096) / 1024


class Refused(Exception):
    """A request that the engine answers with HTTP 400."""


class Aborted(Exception):
    """The connection of this request is cut."""


@dataclass(slots=True, eq=False)
class Running:
    """One request in flight."""

    rid: str
    input_ids: list[int]
    ids: list[int] = field(default_factory=list)
    versions: list[str] = field(default_factory=list)
    aborted: asyncio.Event = field(default_factory=asyncio.Event)
    started: float = field(default_factory=lambda: asyncio.get_running_loop().time())


@dataclass(slots=True, eq=False)
class ScriptedEngine:
    """`script` maps a request's input ids to its turn. `gate`, when set, is awaited before every token.

    `token_interval_s` paces each request's tokens: token n is due n intervals after the request came.
    """

    script: Script
    weight_version: str = "0"
    context_tokens: int = 1 << 20
    incremental: bool = True
    gate: Callable[[], Any] | None = None
    token_interval_s: float = 0.0
    requests: list[dict[str, Any]] = field(default_factory=list)
    running: dict[str, Running] = field(default_factory=dict)
    is_updating: bool = False
    _go: asyncio.Event = field(default_factory=asyncio.Event)
    _prompts: dict[str, list[list[int]]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._go.set()

    async def generate(self, body: dict[str, Any]) -> AsyncGenerator[dict[str, Any]]:
        """Chunks of the reply. Raises Refused before the first one, Aborted where the connection is cut."""
        request = self._admit(body)
        params = body.get("sampling_params") or {}
        cached = self._cached(body.get("extra_key", ""), request.input_ids)
        turn = self.script(request.input_ids)
        turn = turn if isinstance(turn, Turn) else Turn(turn)
        try:
            if turn.fault in (Fault.REFUSE, Fault.FAIL):
                raise Refused(str(turn.fault))
            finish: dict[str, Any] | None = None
            num_sent = 0
            while finish is None:
                finish = await self._step(request, turn, params)
                if finish or (len(request.ids) - num_sent >= turn.tokens_per_chunk and body.get("stream")):
                    yield self._chunk(request, num_sent if self.incremental else 0, finish, turn, cached)
                    num_sent = len(request.ids)
        finally:
            self.running.pop(request.rid, None)

    def pause(self, mode: str) -> None:
        self._go.clear()
        if mode == "abort":
            self.abort("")

    def resume(self) -> None:
        self._go.set()

    def abort(self, rid: str) -> None:
        """Requests whose id begins so; "" means all."""
        for request in list(self.running.values()):
            if request.rid.startswith(rid):
                request.aborted.set()

    def flush(self) -> bool:
        """False while requests run."""
        if self.running:
            return False
        self._prompts.clear()
        return True

    def _admit(self, body: dict[str, Any]) -> Running:
        self.requests.append(body)
        ids = body.get("input_ids")
        if not ids:
            raise Refused("Either text, input_ids or input_embeds should be provided.")
        rid = str(body.get("rid") or f"scripted-{len(self.requests)}")
        if rid in self.running:
            raise Refused(f"Duplicate request ID detected: {rid}")
        budget = (body.get("sampling_params") or {}).get("max_new_tokens", 128)
        if len(ids) + budget > self.context_tokens:
            raise Refused(f"{len(ids)} + {budget} tokens exceed the context of {self.context_tokens}")
        request = self.running[rid] = Running(rid, list(ids))
        return request

    async def _step(self, request: Running, turn: Turn, params: dict[str, Any]) -> dict[str, Any] | None:
        """Sample one token; the finish reason once there is one."""
        if turn.fault is not None and len(request.ids) == turn.fault_after:
            if turn.fault == Fault.BREAK:
                raise Aborted
            if turn.fault == Fault.ABORT:
                return _aborted()
            if turn.fault == Fault.HANG:
                await request.aborted.wait()
        await self._may_go(request)
        if request.aborted.is_set():
            return _aborted()
        position = len(request.ids)
        if position in turn.before:
            await turn.before[position]()
        if position >= min(len(turn.ids), params.get("max_new_tokens", 128)):
            return {"type": "length", "length": position}
        token = int(turn.ids[position])
        request.ids.append(token)
        request.versions.append(self.weight_version)
        if token in (params.get("stop_token_ids") or ()):
            return {"type": "stop", "matched": token}
        if len(request.ids) == params.get("max_new_tokens", 128):
            return {"type": "length", "length": len(request.ids)}
        return None

    async def _may_go(self, request: Running) -> None:
        waits: list[Any] = [self._go.wait()] if not self._go.is_set() else []
        waits += [self.gate()] if self.gate is not None else []
        for wait in waits:
            tasks = {asyncio.ensure_future(wait), asyncio.ensure_future(request.aborted.wait())}
            try:
                await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            finally:
                for task in tasks:
                    task.cancel()
        if not waits:
            due = request.started + (len(request.ids) + 1) * self.token_interval_s
            await asyncio.sleep(max(0.0, due - asyncio.get_running_loop().time()) if self.token_interval_s else 0.0)

    def _chunk(
        self, request: Running, start: int, finish: dict[str, Any] | None, turn: Turn, cached: int
    ) -> dict[str, Any]:
        first = len(request.input_ids)
        logprobs: list[list[Any]] = [
            [logprob_of(token, first + n), token, None] for n, token in enumerate(request.ids[start:], start)
        ]
        if turn.fault == Fault.NAN and start <= turn.fault_after < len(request.ids):
            logprobs[turn.fault_after - start][0] = None
        if turn.fault == Fault.SHORT and start <= turn.fault_after < len(request.ids):
            del logprobs[turn.fault_after - start]
        meta: dict[str, Any] = {
            "id": request.rid,
            "finish_reason": finish,
            "prompt_tokens": first,
            "completion_tokens": len(request.ids),
            "cached_tokens": cached,
            "weight_version": self.weight_version,
            "output_token_logprobs": logprobs,
            "output_token_logprobs_length": len(logprobs),
        }
        if finish is not None:
            meta["weight_versions"] = _spans(request.versions)
        return {"text": "", "output_ids": request.ids[start:], "meta_info": meta}

    def _cached(self, key: str, ids: list[int]) -> int:
        """Tokens of the prompt that an earlier one under the same key began with; never its last token."""
        seen = self._prompts.setdefault(key, [])
        best = max((_shared(ids, other) for other in seen), default=0)
        if best < len(ids):
            self._prompts[key] = [*seen[1 - PROMPTS_CACHED :], ids]
        return min(best, len(ids) - 1)


def _aborted() -> dict[str, Any]:
    return {"type": "abort", "message": "Aborted", "status_code": None, "err_type": None}


def _spans(versions: list[str]) -> list[dict[str, Any]]:
    spans: list[dict[str, Any]] = []
    for at, version in enumerate(versions):
        if spans and spans[-1]["version"] == version:
            spans[-1]["end"] = at + 1
        else:
            spans.append({"version": version, "start": at, "end": at + 1})
    return spans


def _shared(left: list[int], right: list[int]) -> int:
    """Number of leading ids that agree, by halves: prompts can have a million."""
    low, high = 0, min(len(left), len(right))
    while low < high:
        middle = (low + high + 1) // 2
        if left[low:middle] == right[low:middle]:
            low = middle
        else:
            high = middle - 1
    return low
