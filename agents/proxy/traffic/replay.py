"""Captured traffic through detection, roles, matching and the tree: what the recording proxy would make of it.

The replies are those of the capture, tokenised as if the policy had sampled them. Everything else is the proxy's own
code. Needs no database.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from agents.core.codec import Int32s
from agents.core.roles import DEFAULT_ORDER
from agents.core.selection import Bounds, CallFacts, find_leaves
from agents.core.tree import Output, Tree, common_prefix
from agents.proxy import canonical
from agents.proxy.branches import EDITED, TRUE_BRANCHES, Departure
from agents.proxy.canonical import BadRequest, Message, ModelRequest
from agents.proxy.dialects import OPENAI_RESPONSES
from agents.proxy.dialects.base import Dialect
from agents.proxy.history import CallHistory, Prepared
from agents.proxy.matching import PriorCall
from agents.proxy.profiles import PROFILES, generic
from agents.proxy.profiles.base import AUXILIARY, SUMMARY_SUFFIX, Features, facts_of
from agents.proxy.profiles.detect import Detection
from agents.proxy.rendering import Rendering
from agents.proxy.traffic import executions
from agents.proxy.traffic.executions import Route, Segments
from agents.proxy.traffic.order import Order
from agents.proxy.traffic.reading import BadLine, Line, Request, Response, read, read_places
from agents.proxy.traffic.replies import reply_message

#: How many replies, the newest ones, a later request may name to go on from.
_NAMED = 64
#: A bound that no call of a capture exceeds.
_ENDLESS = 1 << 40

#: Told the file and how many of its bytes are done.
Progress = Callable[[Path, int], None]


@dataclass(slots=True)
class Row:
    """What is said of one request."""

    file: str
    seq: int
    method: str
    profile: str
    confidence: float
    role: str = AUXILIARY
    conversation: str = AUXILIARY
    parent_seq: int | None = None
    prefix_kept: bool = True
    branch_reason: str | None = None
    shared_tokens: int = 0
    new_tokens: int = 0
    #: Of a false fork: what it should have kept, and the seq of the request whose turn that is.
    departure: Departure | None = None
    departs_from_seq: int | None = None
    #: The first request with the same input, where there is one with an answer.
    repeats: Row | None = None
    #: Why the proxy would refuse it, "" where it would not.
    refused: str = ""

    def revise(self, role: str) -> None:
        """Later requests showed that its role is another."""
        if role.endswith(SUMMARY_SUFFIX) and (self.departure is not None or self.branch_reason):
            self.branch_reason, self.departure = "compaction", None
        self.role = role
        if role == AUXILIARY:
            self.conversation, self.branch_reason, self.departure = AUXILIARY, None, None

    def public(self) -> dict[str, Any]:
        """The fields that are printed, in order."""
        return {
            "file": self.file,
            "seq": self.seq,
            "method": self.method,
            "profile": self.profile,
            "confidence": self.confidence,
            "role": self.role,
            "conversation": self.conversation,
            "parent_seq": self.parent_seq,
            "prefix_kept": self.prefix_kept,
            "branch_reason": self.branch_reason,
            "shared_tokens": self.shared_tokens,
            "new_tokens": self.new_tokens,
        }


@dataclass(slots=True)
class Totals:
    requests: int = 0
    false_forks: int = 0
    unique_tokens: int = 0
    total_tokens: int = 0
    leaves: int = 0
    roles: Counter[str] = field(default_factory=Counter)

    def add(self, other: Totals) -> None:
        self.requests += other.requests
        self.false_forks += other.false_forks
        self.unique_tokens += other.unique_tokens
        self.total_tokens += other.total_tokens
        self.leaves += other.leaves
        self.roles.update(other.roles)

    def public(self) -> dict[str, Any]:
        return {
            "requests": self.requests,
            "false_forks": self.false_forks,
            "unique_tokens": self.unique_tokens,
            "total_tokens": self.total_tokens,
            "leaves": self.leaves,
            "roles": dict(sorted(self.roles.items())),
        }


@dataclass(slots=True)
class Replayed:
    """A capture's rows in the order of its requests; `notes` name what could not be read or understood."""

    rows: list[Row]
    totals: Totals
    notes: list[str]
    detections: dict[str, Detection]
    num_bad_lines: int


@dataclass(slots=True, eq=False)
class _Open:
    """A call without its answer."""

    row: Row
    number: int
    request: ModelRequest
    prepared: Prepared
    dialect: Dialect
    parent: PriorCall | None


class _Execution:
    """One execution of a capture."""

    def __init__(self, profile: str, rendering: Rendering) -> None:
        self.history = CallHistory(PROFILES[profile], rendering)
        self.rendering = rendering
        self.tree = Tree()
        self.facts: dict[int, CallFacts] = {}
        self.rows: dict[int, Row] = {}
        self._open: dict[int, _Open] = {}
        #: The call that each one builds on.
        self._parents: dict[int, PriorCall | None] = {}
        #: Requests and replies by the ids of the replies.
        self._named: dict[str, tuple[ModelRequest, Message]] = {}

    def call(self, row: Row, request: ModelRequest, headers: dict[str, str], dialect: Dialect, route: Route) -> None:
        """A model call begins. Raises BadRequest when it names a reply to go on from that is not in the capture."""
        request = self._whole(request)
        prepared = self.history.prepare(request, headers, route.path)
        while self._adopt(request, prepared):
            prepared = self.history.prepare(request, headers, route.path)
        number = len(self.rows)
        first = self._repeated(prepared)
        parent, kept = self._parent(prepared, first)
        self._parents[number] = parent
        prepared = self.history.begin(number, request, prepared)
        self.rows[number] = row
        row.repeats = None if first is None else self.rows[first.number].repeats or self.rows[first.number]
        row.role, row.conversation = prepared.role, prepared.conversation
        row.parent_seq = None if parent is None else self.rows[parent.number].seq
        row.prefix_kept = kept
        reason = "dropped-answer" if prepared.branch_reason == EDITED else prepared.branch_reason
        row.branch_reason = reason if reason in TRUE_BRANCHES else None
        row.departure = prepared.departure
        if prepared.departure is not None:
            row.departs_from_seq = self.rows[prepared.departure.call.number].seq
        self._open[row.seq] = _Open(row, number, request, prepared, dialect, parent)

    def refuse(self, row: Row, request: Request, route: Route) -> None:
        """A model call that cannot be read: what its headers say of its role."""
        body = request.body or {}
        seen = Features(
            facts=facts_of(request.headers, canonical.marks(body)),
            system="",
            tools=("",) if body.get("tools") else (),
            last_user="",
            traits={},
            path=route.path,
        )
        verdict = self.history.profile.judge(seen)
        if verdict.role is not None:
            row.role = verdict.role
            row.conversation = verdict.key or verdict.role

    def answer(self, response: Response) -> None:
        """The answer to a call that is open."""
        call = self._open.pop(response.seq, None)
        if call is None:
            return
        if response.has_failed:
            self._fold(call, np.empty(0, np.int32), answered=False)
            return
        reply = response.reply or {}
        message = self._record(call, reply_message(call.dialect, reply))
        if isinstance(reply.get("id"), str) and call.dialect is OPENAI_RESPONSES:
            if len(self._named) >= _NAMED:
                del self._named[next(iter(self._named))]
            self._named[reply["id"].removeprefix(call.dialect.reply_id_prefix)] = (call.request, message)

    def close(self) -> Totals:
        """The end of the capture."""
        for call in list(self._open.values()):
            self._fold(call, np.empty(0, np.int32), answered=False)
        for number, role in self.history.conversations.revised.items():
            self.rows[number].revise(role)
        for row in self.rows.values():
            if row.repeats is not None and not row.prefix_kept and row.role != AUXILIARY:
                row.branch_reason = row.branch_reason or row.repeats.branch_reason
        for number, facts in self.facts.items():
            self.facts[number] = CallFacts(self.rows[number].role, facts.acknowledged)
        leaves, _ = find_leaves(self.tree, self.facts, Bounds(_ENDLESS, _ENDLESS, DEFAULT_ORDER))
        total = sum(end.length for end in self.tree.ends.values())
        return Totals(unique_tokens=self.tree.num_tokens, total_tokens=total, leaves=len(leaves))

    def _whole(self, request: ModelRequest) -> ModelRequest:
        """A request that names the reply it follows, with all that was said before it."""
        if not request.follows:
            return request
        if request.follows not in self._named:
            raise BadRequest(f"it goes on from reply {request.follows}, which is not in the capture before it")
        before, reply = self._named[request.follows]
        messages, own, opening = list(before.messages), list(request.messages), []
        if request.traits.get("has_instructions"):
            opening = [own.pop(0)]
            messages = messages[1:] if messages[0]["role"] == "system" else messages
        tools = before.tools if not request.tools and request.traits.get("inherits_tools") else request.tools
        return replace(request, messages=[*opening, *messages, reply, *own], tools=tools, follows="")

    def _adopt(self, request: ModelRequest, prepared: Prepared) -> bool:
        """Whether this request shows what an open call said; it is recorded then.

        Its answer is not in the capture, or was written down only after the harness had gone on.
        """
        if not self._open:
            return False
        match, messages = prepared.match, request.messages
        spoken = (b"", *match.spoken_keys)
        for at in [i for i, message in enumerate(messages) if message["role"] == "assistant"]:
            for call in list(self._open.values()):
                own = call.prepared.match
                if own.prompt_key == match.keys[at] or (at and own.spoken_keys[-1] == spoken[at]):
                    self._record(call, messages[at])
                    return True
        return False

    def _record(self, call: _Open, reply: Message) -> Message:
        """Take a reply into the record; returns it as harnesses echo it."""
        ids = np.asarray(self.rendering.assistant(reply), np.int32)
        self._fold(call, ids, answered=True)
        said = {name: value for name, value in reply.items() if name != "reasoning_content"}
        self.history.add(call.prepared.prior_call(call.number, len(call.request.messages), ids, said))
        return said

    def _fold(self, call: _Open, output_ids: Int32s, answered: bool) -> None:
        """Put a call into the tree and count what it adds."""
        prepared, n = call.prepared, len(output_ids)
        parent = prepared.match.parent
        output = Output(output_ids, np.zeros(n, np.float32), np.zeros(n, np.int32))
        self.tree.insert_delta(
            call.number,
            None if parent is None else parent.number,
            prepared.prefix_tokens,
            prepared.new_input_ids,
            output,
        )
        end, node = self.tree.ends[call.number], self.tree.last_node(call.number)
        call.row.new_tokens = len(node.ids) if node.call == call.number else 0
        call.row.shared_tokens = end.length - call.row.new_tokens
        self.facts[call.number] = CallFacts(call.row.role, answered)
        self._open.pop(call.row.seq, None)

    def _repeated(self, prepared: Prepared) -> PriorCall | None:
        """The answered call whose input this is once more."""
        match = prepared.match
        return match.parent if match.after == "prompt" and match.start == len(match.keys) - 1 else None

    def _parent(self, prepared: Prepared, first: PriorCall | None) -> tuple[PriorCall | None, bool]:
        """The call that a request builds on, and whether the request's input begins with all of that call's tokens."""
        match, history = prepared.match, prepared.place.state()
        if prepared.role == AUXILIARY:
            return None, True
        parent = match.parent
        if first is not None:
            is_aside = self.rows[first.number].role == AUXILIARY
            parent = first.parent if is_aside else self._parents[first.number]
        elif parent is None and prepared.branch_reason:
            turn = match.recognised[-1][1] if match.recognised else None
            parent = history.summary or history.last or turn
            if prepared.role.endswith("-summary") or history.is_new:
                parent = turn or parent
        if parent is None:
            return None, True
        path = parent.path(parent.path_tokens)
        return parent, common_prefix(path, prepared.input_ids) == len(path)


def replay(path: Path, profile: str, rendering: Rendering, progress: Progress | None = None) -> Replayed:
    """Replay one file. `profile` is a profile's name, or "auto". Raises NotReadable."""
    order = Order()
    detections = executions.detections(line for line in order.watch(read(path)) if isinstance(line, Request))
    places, notes = order.changed(), list[str]()
    if places is not None:
        lines = read_places(path, places)
        detections = executions.detections(line for line, _ in lines if isinstance(line, Request))
        notes.append(f"{path}: its lines are not in the order of their seq; they were read in that order")
    file = _File(str(path), profile, rendering, detections, notes)
    for line, num_bytes in read(path) if places is None else read_places(path, places):
        file.take(line)
        if progress is not None:
            progress(path, num_bytes)
    return file.close()


class _File:
    """A capture while it is replayed."""

    def __init__(
        self, name: str, profile: str, rendering: Rendering, detections: dict[str, Detection], notes: list[str]
    ) -> None:
        self._name, self._profile, self._rendering, self._detections = name, profile, rendering, detections
        self._default = next(iter(detections.values()), Detection(generic.PROFILE.name, "", 0.0))
        self._segments = Segments()
        self._running: dict[str, _Execution] = {}
        #: The execution of the newest request of each number.
        self._newest: dict[int, _Execution] = {}
        self._rows: list[Row] = []
        self._notes = notes
        self._num_bad_lines = 0

    def take(self, line: Line) -> None:
        if isinstance(line, BadLine):
            self._num_bad_lines += 1
            self._note(line.line, f"{line.why}; the line is left out")
        elif isinstance(line, Response):
            execution = self._newest.get(line.seq)
            if execution is None:
                return
            try:
                execution.answer(line)
            except BadRequest as error:
                self._note(line.line, f"the reply to request {line.seq} cannot be read: {error}")
        else:
            self._request(line)

    def _request(self, request: Request) -> None:
        where = executions.route(request)
        if where.dialect is None:
            self._rows.append(self._row(request, self._default))
            return
        key = self._segments.of(request, where.base)
        row = self._row(request, self._detections[key])
        self._rows.append(row)
        if key not in self._running:
            self._running[key] = _Execution(row.profile, self._rendering)
        execution = self._running[key]
        if where.counts:
            return
        self._newest[request.seq] = execution
        try:
            read, refused = executions.parsed(request, where)
            execution.call(row, read, request.headers, where.dialect, where)
        except BadRequest as error:
            execution.refuse(row, request, where)
            refused = str(error)
        if refused:
            row.refused = refused
            self._note(request.line, f"request {request.seq} would be refused: {refused}")

    def _row(self, request: Request, found: Detection) -> Row:
        if self._profile == "auto":
            return Row(self._name, request.seq, request.method, found.name, found.confidence)
        return Row(self._name, request.seq, request.method, self._profile, 1.0)

    def close(self) -> Replayed:
        totals = Totals()
        for execution in self._running.values():
            totals.add(execution.close())
        totals.requests = len(self._rows)
        totals.false_forks = sum(row.departure is not None for row in self._rows)
        totals.roles = Counter(row.role for row in self._rows)
        return Replayed(self._rows, totals, self._notes, self._detections, self._num_bad_lines)

    def _note(self, line: int, what: str) -> None:
        self._notes.append(f"{self._name}:{line}: {what}")
