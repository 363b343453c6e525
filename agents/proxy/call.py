"""The life of one call: lease an engine, sample, parse, record, and only then say that it is over (docs/proxy.md).

It runs in a task of its own, so a client that leaves does not stop it, and a retry can join it.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any

import numpy as np

from agents.proxy.alarms import EngineAlarms
from agents.proxy.archive import compressed
from agents.proxy.engine import (
    FIRST_TOKEN_S,
    IDLE_S,
    WHOLE_REPLY_TOKENS,
    ChunkReader,
    EngineClient,
    EngineFailed,
    EngineRefused,
    Sampled,
    payload,
    stop_reason,
)
from agents.proxy.finished import FinishedCall
from agents.proxy.live import LiveCall
from agents.proxy.ownership import Identity
from agents.proxy.parsing import ReplyParser
from agents.proxy.replies import BROKEN, COUNTED, Event, Failure, Finish
from agents.proxy.router import Router
from agents.proxy.session import Session
from agents.proxy.spool import DATABASE_GONE, NotCommitted, Spool
from agents.proxy.store import CellRow, CommitResult, Store

log = logging.getLogger(__name__)

#: The error text of a fault of the proxy itself; its request's id leads to the record and the log.
INTERNAL_ERROR = "internal error of the recording proxy"
#: What is told where the record is refused: the attempt of this key is over.
ENDED = "this execution has ended or was started again"
#: How often a held call reports its held time.
HELD_REPORT_S = 1.0
#: A held call whose client has left gives up its place after so long; until then a retry may join it.
HELD_WITHOUT_CLIENT_S = 10.0
#: Prompts from so many ids on become a request body in a worker thread.
LONG_PROMPT_TOKENS = 16_384
#: Raw requests from this size on are compressed at once, so that many large ones do not add up.
LARGE_REQUEST_BYTES = 64 * 1024


@dataclass(slots=True)
class Services:
    """What calls share. `offload` runs a function in a worker thread."""

    store: Store
    spool: Spool
    router: Router
    engines: EngineClient
    identity: Identity
    offload: Callable[..., Awaitable[Any]]
    alarms: EngineAlarms
    first_token_s: float = FIRST_TOKEN_S
    idle_s: float = IDLE_S


@dataclass(slots=True, eq=False, kw_only=True)
class CallTask(LiveCall):
    """Samples and records a call. Its services and its session outlive it."""

    services: Services
    session: Session
    raw_request: bytes
    tool_id_prefix: str
    max_new_tokens: int
    started: float = field(default_factory=time.monotonic)
    sampled: Sampled = field(default_factory=Sampled)
    num_messages: int = field(init=False)
    #: The raw request, compressed; empty while it is small.
    archived: bytes = b""
    held_s: float = 0.0
    first_token_s: float | None = None
    cell_index: int | None = None
    #: [cell index, tokens sampled so far, why]: the engines that it left.
    moves: list[list[Any]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.parser = ReplyParser(
            self.session.rendering,
            self.request.sampling.stop,
            self.tool_id_prefix,
            self.request.tools,
            self.request.continues_last,
        )
        self.input_tokens = len(self.prepared.input_ids)
        self.num_messages = len(self.request.messages)
        self.request = replace(self.request, messages=[])

    async def run(self) -> None:
        """To the end; the last event is Finish or Failure."""
        try:
            last = await self._run()
        except NotCommitted as error:
            log.error("call %s of execution %s is lost: %s", self.number, self.execution.id, error)
            last = Failure("unavailable", "the recording database does not answer; this call was not recorded")
        except Exception as error:
            log.exception("call %s of execution %s broke", self.number, self.execution.id)
            last = await self._salvage(error)
        finally:
            self.is_done = True
            self.session.live.close()
        self._publish([last])
        self._shrink()

    async def _salvage(self, broken: Exception) -> Failure:
        """Keep what was sampled, whatever broke: quarantined, for nothing of it may be trained."""
        try:
            why = f"the recording proxy broke: {type(broken).__name__}: {broken}"
            await self._commit(await self.services.offload(self._finished().salvaged_row, why))
        except Exception:
            log.exception("call %s of execution %s is lost", self.number, self.execution.id)
        return Failure("engine", INTERNAL_ERROR)

    async def _run(self) -> Event:
        if len(self.raw_request) >= LARGE_REQUEST_BYTES:
            self.archived = await self.services.offload(compressed, self.raw_request)
            self.raw_request = b""
        try:
            finish = await self._sample()
        except EngineRefused as refusal:
            log.warning("call %s of execution %s: %s", self.number, self.execution.id, refusal)
            await self._record(None, str(refusal))
            return Failure("engine", "the engine refused the request")
        if finish is None:
            await self._record(None, self._abandoned or "the client left before the first token")
            return Failure("unavailable", "the client left")
        pieces = await self.services.offload(self.parser.finish)
        reason, stop = stop_reason(finish, self.session.rendering.stop_ids)
        if self.parser.stopped_by is not None:
            reason, stop = "stop_sequence", self.parser.stopped_by
        if self.parser.reply.tool_calls and reason != "length":
            reason, stop = "tool_calls", None
        tokens = (len(self.sampled.ids), self.sampled.cached_tokens)
        end = Finish(reason, *tokens, stop, self.parser.reasoning_tokens)
        if not await self._record(end, ""):
            return Failure("dead_key", ENDED)
        self.events.extend(pieces)
        return end

    async def _sample(self) -> dict[str, Any] | None:
        """Sample to the end, over as many engines as it takes; the engine's finish reason, None if nobody waits.

        An engine that breaks off, aborts, falls silent or vanishes is left: what it sampled is kept, and the next one
        goes on with the same ids and what is left of the budget (docs/algorithms.md §10).
        """
        session, sampled, router = self.session, self.sampled, self.services.router
        backoff_s = 0.05
        while True:
            cell = await self._cell()
            if cell is None:
                return None
            before, reader = len(sampled.ids), ChunkReader(sampled)
            why = "the engine aborted the call"
            try:
                await self._stream_from(cell, reader)
            except EngineFailed as failure:
                why = str(failure)
            finally:
                router.give_back(cell)
                reader.close(cell.weight_version, router.version_of(cell.id))
            finish = reader.finish
            if finish is not None and finish.get("type") != "abort":
                return finish
            if self.parser.stopped_by is not None:
                return {"type": "stop", "matched": self.parser.stopped_by}
            if sampled.ids and sampled.ids[-1] in session.rendering.stop_ids:
                return {"type": "stop", "matched": sampled.ids[-1]}
            if len(sampled.ids) >= self.max_new_tokens:
                return {"type": "length", "length": len(sampled.ids)}
            if self._abandoned or (not sampled.ids and not self._readers):
                return None
            log.warning("call %s of execution %s moves on: %s", self.number, self.execution.id, why)
            if sampled.ids or not self.moves:
                self.moves.append([cell.index, len(sampled.ids), why[:200]])
            backoff_s = 0.05 if len(sampled.ids) > before else min(2 * backoff_s, 2.0)
            takes_weights = finish is not None or reader.version not in (None, cell.weight_version)
            if not takes_weights:
                router.avoid(cell.id, asyncio.get_running_loop().time())
            await asyncio.sleep(backoff_s)
            if takes_weights and router.is_unchanged(cell):  # then it is not well after all
                router.avoid(cell.id, asyncio.get_running_loop().time())

    async def _stream_from(self, cell: CellRow, reader: ChunkReader) -> None:
        """Raises EngineFailed when the engine is to be left."""
        services, session, sampled, loop = self.services, self.session, self.sampled, asyncio.get_running_loop()
        session.sticky_cell, self.cell_index = cell.id, cell.index
        left = self.max_new_tokens - len(sampled.ids)
        stream = self.request.stream or left > WHOLE_REPLY_TOKENS
        rid = f"{secrets.token_hex(8)}-{self.execution.id}-{self.execution.attempt}-{self.number}"
        body = await self._body(cell, rid, left, stream)
        first_s = services.first_token_s + (0 if stream else services.idle_s)
        silence_s, idle_s = session.patience(first_s, not stream), session.patience(services.idle_s)
        patience = asyncio.timeout(silence_s)
        extend_at, is_left = 0.0, False

        def is_gone() -> None:
            nonlocal is_left
            is_left = True
            patience.reschedule(loop.time())

        self._leave_engine = is_gone
        services.router.at_work(cell.id, is_gone)
        try:
            async with patience:
                async for chunk in services.engines.generate(cell.engine_url, cell.engine_key, body, stream):
                    is_first = reader.version is None
                    added = reader.take(chunk)
                    if added:
                        now = loop.time()
                        if now >= extend_at and not is_left:  # a timer for every token would cost more than the token
                            if not extend_at:
                                services.alarms.heard(cell)
                            patience.reschedule(now + 1.1 * idle_s)
                            extend_at, silence_s = now + 0.1 * idle_s, idle_s
                        self._take(added)
                        if self.parser.stopped_by is not None and self.moves and reader.finish is None:
                            services.engines.abort(cell.engine_url, cell.engine_key, rid)
                            return
                    if is_first and reader.finish is None and reader.version not in (None, cell.weight_version):
                        services.engines.abort(cell.engine_url, cell.engine_key, rid)
                        raise EngineFailed(f"serves version {reader.version} under the key of {cell.weight_version}")
        except TimeoutError as error:
            services.engines.abort(cell.engine_url, cell.engine_key, rid)
            known = services.router.cells.get(cell.id)
            is_there = known is not None and known.epoch == cell.epoch
            why = self._abandoned or ("sent no token for too long" if is_there else "is gone")
            if is_there and not self._abandoned:
                services.alarms.silent(cell, silence_s)
            raise EngineFailed(f"{cell.engine_url} {why}") from error
        finally:
            self._leave_engine = None
            services.router.off_work(cell.id, is_gone)
        if reader.finish is None:
            raise EngineFailed(f"{cell.engine_url} ended its stream without a finish reason")

    def _take(self, added: list[int]) -> None:
        if self.first_token_s is None:
            self.first_token_s = time.monotonic() - self.started
        pieces = self.parser.feed(added)
        if pieces:
            self._publish(pieces)

    async def _body(self, cell: CellRow, rid: str, left: int, stream: bool) -> bytes:
        def build() -> bytes:
            ids = self.prepared.input_ids
            if self.sampled.ids:
                ids = np.concatenate([ids, np.asarray(self.sampled.ids, np.int32)])
            return payload(
                ids,
                rid=rid,
                extra_key=f"{self.execution.run_id}:{cell.weight_version}:{cell.weight_hash}",
                sampling_params=self.sampling_params(left),
                stream=stream,
            )

        if self.input_tokens < LONG_PROMPT_TOKENS:
            return build()
        body: bytes = await self.services.offload(build)
        return body

    def sampling_params(self, max_new_tokens: int) -> dict[str, Any]:
        """The run's settings own the distribution; evaluations are greedy (docs/proxy.md)."""
        session = self.session
        params: dict[str, Any] = {
            "max_new_tokens": max_new_tokens,
            "temperature": 0.0 if self.execution.is_evaluation else session.config.temperature,
            "top_p": 1.0,
            "stop_token_ids": list(session.rendering.stop_ids),
            "skip_special_tokens": False,
        }
        if self.request.sampling.stop:
            params["stop"] = list(self.request.sampling.stop)
        return params

    async def _cell(self) -> CellRow | None:
        """The cell for this call, taken; waits for as long as none has room, and reports the held time.

        None when the client has left meanwhile and nobody else waits.
        """
        session, router = self.session, self.services.router
        execution = self.execution
        waiter = router.enter(
            execution.run_id, execution.evaluation, execution.id, session.config.max_calls_per_cell, session.sticky_cell
        )
        if waiter.cell.done():
            return waiter.cell.result()
        loop = asyncio.get_running_loop()
        started = last_read = loop.time()
        session.held.enter(started)
        try:
            while not waiter.cell.done():
                await asyncio.wait([waiter.cell], timeout=HELD_REPORT_S)
                # One of an execution's held calls reports for all of them.
                if waiter.cell.done() or session.held.unreported(loop.time()) > 0.9 * HELD_REPORT_S:
                    await self._report_held(session.held.take(loop.time()))
                last_read = loop.time() if self._readers else last_read
                if self._abandoned or loop.time() - last_read > HELD_WITHOUT_CLIENT_S:
                    router.leave(waiter)
                    return None
        except BaseException:
            router.leave(waiter)
            raise
        finally:
            session.held.leave()
            self.held_s += loop.time() - started
        return waiter.cell.result()

    async def _report_held(self, held_s: float) -> None:
        execution = self.execution
        try:
            if not await self.services.store.add_held(execution.id, execution.attempt, held_s):
                raise EngineRefused("the execution ended while its call waited for an engine")
        except DATABASE_GONE as error:
            log.warning("held time of execution %s is not written: %s", execution.id, error)

    async def _record(self, end: Finish | None, error: str) -> bool:
        """Commit the call; False when its attempt has ended meanwhile. Raises NotCommitted."""
        services, session = self.services, self.session
        if end is None:
            state = "failed"
        elif self.sampled.fault:
            state = "quarantined"
        else:
            state = "complete" if self._readers else "truncated"
        if not await self._keep(end, error, state):
            return False
        session.add(await services.offload(self._finished().prior_call))
        if revised := session.take_revisions():
            try:
                await services.store.revise(self.execution.id, self.execution.attempt, revised)
            except DATABASE_GONE as failure:
                session.return_revisions(revised)
                log.warning("roles of execution %s are not revised yet: %s", self.execution.id, failure)
        return True

    async def count(self) -> bool:
        """Record a call that only wanted its input counted; nothing continues it. False when its attempt has ended."""
        return await self._keep(Finish(COUNTED, 0), "", "complete")

    async def give_up(self, why: str) -> None:
        """Record a request that broke the proxy before anything was sampled; nothing continues it."""
        await self._keep(Finish(BROKEN, 0), why, "failed")

    async def _keep(self, end: Finish | None, error: str, state: str) -> bool:
        return await self._commit(await self.services.offload(self._finished().encoded_row, end, error, state))

    async def _commit(self, values: dict[str, Any]) -> bool:
        """False when the attempt has ended. Another call that has this number, of a proxy before us, keeps it."""
        services = self.services
        while (outcome := await services.spool.commit(values, services.identity)) is CommitResult.NUMBER_TAKEN:
            self.number = values["number"] = self.session.take_number()
        return outcome is CommitResult.DONE

    def _finished(self) -> FinishedCall:
        return FinishedCall(
            session=self.session,
            prepared=self.prepared,
            request=self.request,
            request_hash=self.request_hash,
            raw_request=self.raw_request,
            archived=self.archived,
            uid=self.id,
            number=self.number,
            num_messages=self.num_messages,
            sampling=self.sampling_params(self.max_new_tokens),
            sampled=self.sampled,
            reply=self.parser.reply,
            moves=self.moves,
            cell_index=self.cell_index,
            started_at=datetime.fromtimestamp(self.created, UTC),
            first_token_s=self.first_token_s,
            duration_s=time.monotonic() - self.started,
            held_s=self.held_s,
        )

    def _shrink(self) -> None:
        LiveCall._shrink(self)
        if self.is_done and not self._readers:
            self.raw_request = self.archived = b""
            self.sampled = Sampled()
