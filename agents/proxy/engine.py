"""Client of one engine's /generate (SGLang's contract, in token mode)."""

from __future__ import annotations

import asyncio
import contextlib
import json
import math
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import aiohttp
import orjson

from agents.proxy import door

#: A stream without a token for so long is given up, and the call moves on: before its first token, between two.
FIRST_TOKEN_S = 600.0
IDLE_S = 120.0
#: How long an engine that a call has left may take to answer that it has aborted.
ABORT_WITHIN_S = 5.0
#: Bodies from this size on are sent in pieces.
_PIECE_BYTES = 256 * 1024
#: The engine keeps so many of the last tokens of its context free of prompts.
CONTEXT_MARGIN_TOKENS = 6
#: Replies of at most so many tokens are asked for in one piece when their client does not stream.
WHOLE_REPLY_TOKENS = 256


class EngineFailed(Exception):
    """The engine broke off, or cannot be reached: what it sampled is kept, and the call goes on elsewhere."""


class EngineRefused(Exception):
    """The engine says that the request itself is wrong; asking again would not help."""


@dataclass(slots=True)
class Sampled:
    """What one call has sampled so far, over all engines that served it."""

    ids: list[int] = field(default_factory=list)
    logprobs: list[float] = field(default_factory=list)
    versions: list[list[int]] = field(default_factory=list)
    cached_tokens: int = 0
    #: Why the call must not be trained: missing, NaN or mismatched log-probabilities.
    fault: str = ""

    def mark(self, version: int, start: int, end: int) -> None:
        """Tokens [start, end) were sampled by this weight version."""
        if end <= start:
            return
        if self.versions and self.versions[-1][0] == version and self.versions[-1][2] == start:
            self.versions[-1][2] = end
        else:
            self.versions.append([version, start, end])


@dataclass(slots=True)
class ChunkReader:
    """Reads the chunks of one request, whether the engine sends deltas or everything again each time."""

    sampled: Sampled
    base: int = field(init=False)
    finish: dict[str, Any] | None = None
    #: Weight version of the engine as of the last chunk; None where it reports none.
    version: int | None = None

    def __post_init__(self) -> None:
        self.base = len(self.sampled.ids)

    def take(self, chunk: dict[str, Any]) -> list[int]:
        """The ids that this chunk adds; ids and log-probabilities are kept in `sampled`, faults noted there."""
        if "error" in chunk:
            error = chunk["error"]
            refused = error.get("type") == "invalid_request_error"
            raise (EngineRefused if refused else EngineFailed)(str(error.get("message", error)))
        meta, sampled = chunk.get("meta_info"), self.sampled
        ids: list[int] = chunk.get("output_ids") or []
        if not isinstance(meta, dict) or not all(type(i) is int and 0 <= i < 1 << 31 for i in ids):
            raise EngineFailed(f"the engine sent a chunk that is not understood: {str(chunk)[:200]}")
        have, total = len(sampled.ids) - self.base, meta.get("completion_tokens", 0)
        logprobs: list[Any] = meta.get("output_token_logprobs") or []
        self.version = _version(meta.get("weight_version"))
        if have == total and (meta.get("finish_reason") or {}).get("type") == "abort":
            ids, logprobs = [], []  # a request that was aborted while it waited repeats its last token
        if have and len(ids) == total:
            ids = ids[have:]
            logprobs = logprobs[have:] if len(logprobs) == total else logprobs
        elif have + len(ids) != total:
            self._blame(f"{have} + {len(ids)} ids where the engine counts {total}")
        sampled.ids += ids
        sampled.logprobs += self._checked(ids, logprobs)
        self.finish = meta.get("finish_reason")
        if self.finish is not None:
            if 400 <= (self.finish.get("status_code") or 0) < 500:
                raise EngineRefused(str(self.finish.get("message")))
            sampled.cached_tokens = sampled.cached_tokens or meta.get("cached_tokens") or 0
            for span in meta.get("weight_versions") or []:
                version = _version(span["version"])
                if version is not None:
                    sampled.mark(version, self.base + span["start"], self.base + span["end"])
        return ids

    def close(self, version_before: int, version_after: int | None) -> None:
        """Mark tokens without a span: with the version that the engine reported, or an older one it may have had."""
        marked = self.sampled.versions[-1][2] if self.sampled.versions else 0
        if (version := self.version) is None:
            version = version_before if version_after is None else min(version_before, version_after)
        self.sampled.mark(version, max(marked, self.base), len(self.sampled.ids))

    def _checked(self, ids: list[int], logprobs: list[Any]) -> list[float]:
        if len(logprobs) != len(ids):
            self._blame(f"{len(logprobs)} log-probabilities for {len(ids)} ids")
            return [math.nan] * len(ids)
        values: list[float] = []
        for i, entry in zip(ids, logprobs, strict=True):
            value, token = entry[:2] if isinstance(entry, list) and len(entry) > 1 else (None, None)
            if token != i or not isinstance(value, int | float) or not -math.inf < value <= 0.001:
                self._blame(f"log-probability {value} of token {token} stands at token {i}")
                value = math.nan
            values.append(value)
        return values

    def _blame(self, fault: str) -> None:
        self.sampled.fault = self.sampled.fault or fault


class EngineClient:
    """One HTTP session for all engines."""

    def __init__(self, max_connections: int = 0) -> None:
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(
                limit=max_connections,
                keepalive_timeout=60,
                enable_cleanup_closed=False,
                socket_factory=door.from_environment(),
            ),
            timeout=aiohttp.ClientTimeout(total=None, sock_connect=5),
            auto_decompress=False,
            cookie_jar=aiohttp.DummyCookieJar(),
        )
        self._aborts: set[asyncio.Task[None]] = set()

    async def close(self) -> None:
        for abort in list(self._aborts):
            abort.cancel()
        await asyncio.gather(*self._aborts, return_exceptions=True)
        await self._session.close()

    async def generate(self, url: str, key: str, payload: bytes, stream: bool) -> AsyncIterator[dict[str, Any]]:
        """Chunks of the reply, as the engine sends them. Raises EngineFailed or EngineRefused.

        It waits for ever: whoever reads sets a limit to silence.
        """
        headers = {"Content-Type": "application/json", "Content-Length": str(len(payload)), **_credentials(key)}
        data = payload if len(payload) < _PIECE_BYTES else _pieces(payload)
        try:
            async with self._session.post(
                f"{url}/generate", data=data, headers=headers, allow_redirects=False
            ) as response:
                if response.status != 200:
                    text = (await response.content.read(4096)).decode(errors="replace")
                    kind = EngineRefused if 400 <= response.status < 429 else EngineFailed
                    raise kind(f"{url} answered {response.status}: {text}")
                if not stream:
                    yield _loads(await response.read())
                    return
                buffer = b""
                async for data in response.content.iter_any():
                    *events, buffer = (buffer + data).split(b"\n\n")
                    for event in events:
                        if event == b"data: [DONE]":
                            return
                        yield _loads(event[6:])
        except (aiohttp.ClientError, ValueError, OSError) as error:
            raise EngineFailed(f"{url}: {error or type(error).__name__}") from error

    def abort(self, url: str, key: str, rid: str) -> None:
        """Tell an engine that nobody waits for this request any more; whether it hears is not waited for."""
        task = asyncio.create_task(self._abort(url, key, rid))
        self._aborts.add(task)
        task.add_done_callback(self._aborts.discard)

    async def _abort(self, url: str, key: str, rid: str) -> None:
        with contextlib.suppress(aiohttp.ClientError, TimeoutError, OSError):
            async with (
                asyncio.timeout(ABORT_WITHIN_S),
                self._session.post(
                    f"{url}/abort_request", json={"rid": rid}, headers=_credentials(key), allow_redirects=False
                ) as response,
            ):
                await response.read()


def _credentials(key: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {key}"} if key else {}


async def _pieces(data: bytes) -> AsyncIterator[bytes]:
    view = memoryview(data)
    for start in range(0, len(view), _PIECE_BYTES):
        yield bytes(view[start : start + _PIECE_BYTES])


def _loads(data: bytes) -> dict[str, Any]:
    """A chunk; engines that write NaN as such are understood, and their calls quarantined. Raises ValueError."""
    try:
        chunk = orjson.loads(data)
    except orjson.JSONDecodeError:
        chunk = json.loads(data)
    if not isinstance(chunk, dict):
        raise ValueError(f"a chunk is {type(chunk).__name__}, not an object")
    return chunk


def payload(input_ids: Any, *, rid: str, extra_key: str, sampling_params: dict[str, Any], stream: bool) -> bytes:
    """Body of /generate. `input_ids` int32[n]."""
    return orjson.dumps(
        {
            "rid": rid,
            "input_ids": input_ids,
            "sampling_params": sampling_params,
            "return_logprob": True,
            "extra_key": extra_key,
            "stream": stream,
        },
        option=orjson.OPT_SERIALIZE_NUMPY,
    )


def stop_reason(finish: dict[str, Any], stop_ids: Sequence[int]) -> tuple[str, str | None]:
    """(canonical reason, stop string) of an engine's finish reason."""
    kind, matched = finish.get("type"), finish.get("matched")
    if kind == "length":
        return "length", None
    if isinstance(matched, str):
        return "stop_sequence", matched
    return "stop", None


def _version(text: Any) -> int | None:
    try:
        return int(text)
    except (TypeError, ValueError):
        return None
