"""What is kept of a call that has ended: its row, and what later calls build on. Work for a thread (docs/proxy.md)."""

from __future__ import annotations

import time
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import numpy as np

from agents.core.codec import CallDelta, encode_call
from agents.proxy.conversations import NAME_CHARS
from agents.proxy.matching import RecordedCall
from agents.proxy.replies import Finish, Reply
from agents.proxy.store import CallRow

if TYPE_CHECKING:
    from agents.proxy.call import LiveCall


def encoded_row(call: LiveCall, end: Finish | None, error: str, state: str) -> dict[str, Any]:
    """The call's row as the database takes it: ids and log-probabilities packed, the raw request compressed."""
    return _row(call, end, error, state).encode()


def salvaged_row(call: LiveCall, error: str) -> dict[str, Any]:
    """The row of a call that broke the proxy: ids, reply as text, and the reason, without what may not be writable."""
    state = "quarantined" if call.sampled.ids else "failed"
    said = Reply(content=call.session.rendering.tokenizer.decode(call.sampled.ids))
    row = _row(call, None, error, state)
    name = row.conversation[:NAME_CHARS]
    return replace(row, conversation=name, messages=[], departure={}, sampling={}, reply=said.to_json()).encode()


def _row(call: LiveCall, end: Finish | None, error: str, state: str) -> CallRow:
    session, prepared, sampled, request = call.session, call.prepared, call.sampled, call.request
    execution, parent = session.execution, prepared.match.parent
    body, unarchived = session.archive.pack(call.request_hash, call.raw_request, call.archived, request.dialect)
    delta = CallDelta(
        prepared.new_input_ids, np.asarray(sampled.ids, np.int32), np.asarray(sampled.logprobs, np.float32)
    )
    return CallRow(
        execution=execution.id,
        attempt=execution.attempt,
        run=execution.run_id,
        number=call.number,
        uid=call.id,
        parent_number=None if parent is None else parent.number,
        prefix_tokens=prepared.prefix_tokens,
        input_tokens=len(prepared.input_ids),
        output_tokens=len(sampled.ids),
        tokens=encode_call(delta),
        state=state,
        dialect=request.dialect,
        role=session.role_of(call.number, prepared.role),
        conversation=prepared.conversation,
        branch_reason=prepared.branch_reason,
        false_fork=prepared.false_fork,
        departure=prepared.departure_shown(session.rendering),
        malformed=call.parser.reply.malformed,
        finish_reason=end.reason if end is not None else "",
        sampling=call.sampling_params(call.max_new_tokens)
        | {"asked": request.sampling.asked, "num_moves": len(call.moves), "moves": call.moves}
        | ({"unarchived": unarchived} if unarchived else {}),
        versions=sampled.versions,
        request_hash=call.request_hash,
        body=body,
        events=_events(call, state, error or sampled.fault),
        messages=prepared.messages,
        reply=call.parser.reply.to_json(),
        model_asked=request.model[:120],
        cell=call.cell_index,
        cached_tokens=sampled.cached_tokens,
        error=error or sampled.fault or call.parser.reply.fault,
        started_at=datetime.fromtimestamp(call.created, UTC),
        first_token_s=call.first_token_s,
        duration_s=time.monotonic() - call.started,
        held_s=call.held_s,
    )


def _events(call: LiveCall, state: str, error: str) -> list[list[Any]]:
    """What the run's log says of the call: that it changed engines with tokens in hand, that it must not be trained."""
    execution = call.session.execution
    about = {"execution": execution.id, "attempt": execution.attempt, "call": call.number}
    moved = [[cell, kept, why] for cell, kept, why in call.moves if kept]
    events: list[list[Any]] = [["call_moved", about | {"moves": moved}]] if moved else []
    if state == "quarantined":
        events.append(["call_quarantined", about | {"reason": error}])
    return events


def recorded_call(call: LiveCall) -> RecordedCall:
    """The call as later ones match and extend it."""
    return call.prepared.recorded(
        call.number,
        call.num_messages,
        np.asarray(call.sampled.ids, np.int32),
        call.parser.reply.message(),
    )
