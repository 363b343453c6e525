"""The life of one call: lease an engine, sample, parse, record, and only then say that it is over (proxy.md).

It runs in a task of its own, so a client that leaves does not stop it, and a retry can join it.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
import time
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import numpy as np
import psycopg

from agents.core.codec import CallDelta, encode_call
from agents.proxy import canonical
from agents.proxy.canonical import ModelRequest
from agents.proxy.engine import (
    WHOLE_REPLY_TOKENS,
    ChunkReader,
    EngineClient,
    EngineFailed,
    EngineRefused,
    Sampled,
    payload,
    stop_reason,
)
from agents.proxy.matching import RecordedCall
from agents.proxy.parsing import ReplyParser
from agents.proxy.replies import COUNTED, Event, Failure, Finish
from agents.proxy.router import Router
from agents.proxy.session import Prepared, Session
from agents.proxy.store import CallRow, CellRow, Store

log = logging.getLogger(__name__)

#: How often a held call tells the execution's clock.
HELD_REPORT_S = 1.0
#: How long a finished call waits for a database that does not answer.
RECORD_WITHIN_S = 60.0


@dataclass(slots=True)
class Services:
    """What calls share."""

    store: Store
    router: Router
    engines: EngineClient


@dataclass(slots=True, eq=False)
class LiveCall:
    services: Services
    session: Session
    request: ModelRequest
    request_hash: str
    raw_request: bytes
    prepared: Prepared
    tool_id_prefix: str
    max_new_tokens: int
    number: int = -1
    id: str = field(default_factory=lambda: secrets.token_hex(16))
    created: float = field(default_factory=time.time)
    started: float = field(default_factory=time.monotonic)
    events: list[Event] = field(default_factory=list)
    is_done: bool = False
    acknowledged: bool = False
    sampled: Sampled = field(default_factory=Sampled)
    parser: ReplyParser = field(init=False)
    held_s: float = 0.0
    first_token_s: float | None = None
    cell_index: int | None = None
    #: How often it went on at an engine after another one had sampled a part of it.
    num_moves: int = 0
    _readers: list[asyncio.Event] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.parser = ReplyParser(self.session.rendering, self.request.sampling.stop, self.tool_id_prefix)

    @property
    def has_failed(self) -> bool:
        return bool(self.events) and isinstance(self.events[-1], Failure)

    def join(self) -> asyncio.Event:
        """Be woken at every new event, and at the end."""
        reader = asyncio.Event()
        self._readers.append(reader)
        return reader

    def leave(self, reader: asyncio.Event) -> None:
        if reader in self._readers:
            self._readers.remove(reader)

    async def run(self) -> None:
        """To the end; the last event is Finish or Failure."""
        try:
            last = await self._run()
        except Exception:
            log.exception("call %s of execution %s broke", self.number, self.session.execution.id)
            last = Failure("engine", "internal error of the recording proxy")
        finally:
            self.is_done = True
            self.session.close(self)
        self._publish([last])

    async def _run(self) -> Event:
        try:
            finish = await self._sample()
        except EngineRefused as refusal:
            log.warning("call %s of execution %s: %s", self.number, self.session.execution.id, refusal)
            await self._record(None, str(refusal))
            return Failure("engine", "the engine refused the request")
        if finish is None:
            await self._record(None, "the client left before the first token")
            return Failure("unavailable", "the client left")
        pieces = self.parser.finish()
        reason, stop = stop_reason(finish, self.session.rendering.stop_ids)
        if self.parser.stopped_by is not None:
            reason, stop = "stop_sequence", self.parser.stopped_by
        if self.parser.reply.tool_calls and reason != "length":
            reason, stop = "tool_calls", None
        tokens = (len(self.sampled.ids), self.sampled.cached_tokens)
        end = Finish(reason, *tokens, stop, self.parser.reasoning_tokens)
        if not await self._record(end, ""):
            return Failure("dead_key", "this execution has ended or was started again")
        self.events.extend(pieces)
        return end

    async def _sample(self) -> dict[str, Any] | None:
        """Sample to the end, over as many engines as it takes; the engine's finish reason, None if nobody waits."""
        session, sampled = self.session, self.sampled
        backoff_s = 0.05
        while True:
            cell = await self._cell()
            before, reader = len(sampled.ids), ChunkReader(sampled)
            self.num_moves += before > 0
            try:
                await self._stream_from(cell, reader)
            except EngineFailed as failure:
                log.warning("call %s of execution %s moves on: %s", self.number, session.execution.id, failure)
            finally:
                self.services.router.give_back(cell)
                reader.close(cell.weight_version, self.services.router.version_of(cell.id))
            finish = reader.finish
            if finish is not None and finish.get("type") != "abort":
                return finish
            self.services.router.avoid(cell.id, asyncio.get_running_loop().time())
            if len(sampled.ids) >= self.max_new_tokens:
                return {"type": "length", "length": len(sampled.ids)}
            if not sampled.ids and not self._readers:
                return None
            backoff_s = 0.05 if len(sampled.ids) > before else min(2 * backoff_s, 2.0)
            await asyncio.sleep(backoff_s)

    async def _stream_from(self, cell: CellRow, reader: ChunkReader) -> None:
        session, sampled = self.session, self.sampled
        session.sticky_cell, self.cell_index = cell.id, cell.index
        left = self.max_new_tokens - len(sampled.ids)
        stream = self.request.stream or left > WHOLE_REPLY_TOKENS
        ids = self.prepared.input_ids
        if sampled.ids:
            ids = np.concatenate([ids, np.asarray(sampled.ids, np.int32)])
        body = payload(
            ids,
            rid=f"{secrets.token_hex(8)}-{session.execution.id}-{session.execution.attempt}-{self.number}",
            extra_key=f"{session.execution.run_id}:{cell.weight_version}:{cell.weight_hash}",
            sampling_params=self._sampling_params(left),
            stream=stream,
        )
        async for chunk in self.services.engines.generate(cell.engine_url, cell.engine_key, body, stream):
            added = reader.take(chunk)
            if added:
                if self.first_token_s is None:
                    self.first_token_s = time.monotonic() - self.started
                pieces = self.parser.feed(added)
                if pieces:
                    self._publish(pieces)
        if reader.finish is None:
            raise EngineFailed(f"{cell.engine_url} ended its stream without a finish reason")

    def _sampling_params(self, max_new_tokens: int) -> dict[str, Any]:
        """The run's settings own the distribution; evaluations are greedy (proxy.md, Address and identity)."""
        session = self.session
        params: dict[str, Any] = {
            "max_new_tokens": max_new_tokens,
            "temperature": 0.0 if session.execution.is_evaluation else session.config.temperature,
            "top_p": 1.0,
            "stop_token_ids": list(session.rendering.stop_ids),
            "skip_special_tokens": False,
        }
        if self.request.sampling.stop:
            params["stop"] = list(self.request.sampling.stop)
        return params

    async def _cell(self) -> CellRow:
        """The cell for this call, taken; waits for as long as none has room and tells the execution's clock."""
        session, router = self.session, self.services.router
        execution, limit = session.execution, session.config.max_calls_per_cell
        loop = asyncio.get_running_loop()

        def pick() -> CellRow | None:
            return router.pick(execution.run_id, execution.evaluation, limit, session.sticky_cell, loop.time())

        cell = pick()
        if cell is None:
            started = loop.time()
            session.held.enter(started)
            try:
                while cell is None:
                    await router.changed(HELD_REPORT_S, loop.time())
                    cell = pick()
                    await self._report_held(session.held.take(loop.time()))
                    cell = cell and pick()
            finally:
                session.held.leave()
                self.held_s += loop.time() - started
        router.take(cell)
        return cell

    async def _report_held(self, held_s: float) -> None:
        execution = self.session.execution
        try:
            if not await self.services.store.add_held(execution.id, execution.attempt, held_s):
                raise EngineRefused("the execution ended while its call waited for an engine")
        except psycopg.OperationalError as error:
            log.warning("held time of execution %s is not written: %s", execution.id, error)

    def _publish(self, events: list[Any]) -> None:
        self.events.extend(events)
        for reader in self._readers:
            reader.set()

    async def _record(self, end: Finish | None, error: str) -> bool:
        """Commit the call; False when its attempt has ended meanwhile."""
        if not await self._commit(self._row(end, error)):
            return False
        prepared, sampled = self.prepared, self.sampled
        self.session.record(
            RecordedCall(
                number=self.number,
                parent=prepared.match.parent,
                prefix_tokens=prepared.prefix_tokens,
                new_input_ids=prepared.new_input_ids,
                output_ids=np.asarray(sampled.ids, np.int32),
                num_messages=len(self.request.messages),
                prompt_key=prepared.match.prompt_key,
                reply=self.parser.reply.message(),
                role=prepared.role,
                conversation=prepared.conversation,
                opening_key=canonical.opening_key(self.request.messages, self.request.tools),
            )
        )
        return True

    async def count(self) -> bool:
        """Record a call that only wanted its input counted; nothing continues it. False when its attempt has ended."""
        return await self._commit(self._row(Finish(COUNTED, 0), "", "complete"))

    async def _commit(self, row: CallRow) -> bool:
        deadline, backoff_s = time.monotonic() + RECORD_WITHIN_S, 0.1
        while True:
            try:
                return await self.services.store.record(row)
            except (psycopg.OperationalError, psycopg.InterfaceError):
                if time.monotonic() > deadline:
                    raise
                log.warning("the database does not answer; call %s of %s waits", self.number, row.execution)
                await asyncio.sleep(backoff_s)
                backoff_s = min(2 * backoff_s, 2.0)

    def _row(self, end: Finish | None, error: str, state: str = "") -> CallRow:
        session, prepared, sampled, request = self.session, self.prepared, self.sampled, self.request
        execution, parent = session.execution, prepared.match.parent
        if end is None:
            state = "failed"
        elif sampled.fault:
            state = "quarantined"
        else:
            state = state or ("complete" if self._readers else "truncated")
        delta = CallDelta(
            prepared.new_input_ids, np.asarray(sampled.ids, np.int32), np.asarray(sampled.logprobs, np.float32)
        )
        return CallRow(
            execution=execution.id,
            attempt=execution.attempt,
            run=execution.run_id,
            number=self.number,
            uid=self.id,
            parent_number=None if parent is None else parent.number,
            prefix_tokens=prepared.prefix_tokens,
            input_tokens=len(prepared.input_ids),
            output_tokens=len(sampled.ids),
            tokens=encode_call(delta),
            state=state,
            dialect=request.dialect,
            role=prepared.role,
            conversation=prepared.conversation,
            branch_reason=prepared.branch_reason,
            false_fork=prepared.false_fork,
            malformed=self.parser.reply.malformed,
            finish_reason=end.reason if end is not None else "",
            sampling=self._sampling_params(self.max_new_tokens)
            | {"asked": request.sampling.asked, "num_moves": self.num_moves},
            versions=sampled.versions,
            request_hash=self.request_hash,
            raw_request=self.raw_request,
            messages=prepared.messages,
            reply=self.parser.reply.to_json(),
            model_asked=request.model[:120],
            cell=self.cell_index,
            cached_tokens=sampled.cached_tokens,
            error=error or sampled.fault,
            started_at=datetime.fromtimestamp(self.created, UTC),
            first_token_s=self.first_token_s,
            duration_s=time.monotonic() - self.started,
            held_s=self.held_s,
        )
