"""What is kept of a call that has ended: its row, and what later calls build on. Work for a thread (docs/proxy.md)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

import numpy as np

from agents.core.codec import CallDelta, encode_call
from agents.proxy.canonical import ModelRequest
from agents.proxy.conversations import NAME_CHARS
from agents.proxy.engine import Sampled
from agents.proxy.history import Prepared
from agents.proxy.matching import PriorCall
from agents.proxy.replies import Finish, Reply
from agents.proxy.session import Session
from agents.proxy.store import CallRow


@dataclass(frozen=True, slots=True)
class FinishedCall:
    """A call at its end. `raw_request` is empty where `archived` holds it compressed."""

    session: Session
    prepared: Prepared
    request: ModelRequest
    request_hash: str
    raw_request: bytes
    archived: bytes
    uid: str
    number: int
    num_messages: int
    sampling: dict[str, Any]
    sampled: Sampled
    reply: Reply
    #: [cell index, tokens sampled so far, why]: the engines that it left.
    moves: list[list[Any]]
    cell_index: int | None
    started_at: datetime
    first_token_s: float | None
    duration_s: float
    held_s: float

    def encoded_row(self, end: Finish | None, error: str, state: str) -> dict[str, Any]:
        """The call's row as the database takes it: ids and log-probabilities packed, the raw request compressed."""
        return self._row(end, error, state).encode()

    def salvaged_row(self, error: str) -> dict[str, Any]:
        """The row of a call that broke the proxy: ids, reply as text and the reason, without what may be unwritable."""
        state = "quarantined" if self.sampled.ids else "failed"
        said = Reply(content=self.session.rendering.tokenizer.decode(self.sampled.ids))
        row = self._row(None, error, state)
        name = row.conversation[:NAME_CHARS]
        return replace(row, conversation=name, messages=[], departure={}, sampling={}, reply=said.to_json()).encode()

    def prior_call(self) -> PriorCall:
        """The call as later ones match and extend it."""
        output_ids = np.asarray(self.sampled.ids, np.int32)
        return self.prepared.prior_call(self.number, self.num_messages, output_ids, self.reply.message())

    def _row(self, end: Finish | None, error: str, state: str) -> CallRow:
        session, prepared, sampled, request = self.session, self.prepared, self.sampled, self.request
        execution, parent = session.execution, prepared.match.parent
        body, unarchived = session.archive.pack(self.request_hash, self.raw_request, self.archived, request.dialect)
        delta = CallDelta(
            prepared.new_input_ids, np.asarray(sampled.ids, np.int32), np.asarray(sampled.logprobs, np.float32)
        )
        return CallRow(
            execution=execution.id,
            attempt=execution.attempt,
            run=execution.run_id,
            number=self.number,
            uid=self.uid,
            parent_number=None if parent is None else parent.number,
            prefix_tokens=prepared.prefix_tokens,
            input_tokens=len(prepared.input_ids),
            output_tokens=len(sampled.ids),
            tokens=encode_call(delta),
            state=state,
            dialect=request.dialect,
            role=session.role_of(self.number, prepared.role),
            conversation=prepared.conversation,
            branch_reason=prepared.branch_reason,
            false_fork=prepared.false_fork,
            departure=prepared.departure_shown(session.rendering),
            malformed=self.reply.malformed,
            finish_reason=end.reason if end is not None else "",
            sampling=self.sampling
            | {"asked": request.sampling.asked, "num_moves": len(self.moves), "moves": self.moves}
            | ({"unarchived": unarchived} if unarchived else {}),
            versions=sampled.versions,
            request_hash=self.request_hash,
            body=body,
            events=self._events(state, error or sampled.fault),
            messages=prepared.messages,
            reply=self.reply.to_json(),
            model_asked=request.model[:120],
            cell=self.cell_index,
            cached_tokens=sampled.cached_tokens,
            error=error or sampled.fault or self.reply.fault,
            started_at=self.started_at,
            first_token_s=self.first_token_s,
            duration_s=self.duration_s,
            held_s=self.held_s,
        )

    def _events(self, state: str, error: str) -> list[list[Any]]:
        """Events for the run's log: that it changed engines with tokens in hand, that it must not be trained."""
        execution = self.session.execution
        about = {"execution": execution.id, "attempt": execution.attempt, "call": self.number}
        moved = [[cell, kept, why] for cell, kept, why in self.moves if kept]
        events: list[list[Any]] = [["call_moved", about | {"moves": moved}]] if moved else []
        if state == "quarantined":
            events.append(["call_quarantined", about | {"reason": error}])
        return events
