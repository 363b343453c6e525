"""What the proxy keeps of one execution attempt while it lives (docs/algorithms.md §2, §4)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from agents.config import AgentSettings, PolicySettings
from agents.proxy.archive import Archive
from agents.proxy.budget import budget
from agents.proxy.canonical import ModelRequest
from agents.proxy.history import CallHistory, Prepared
from agents.proxy.live import LiveCall, LiveCalls
from agents.proxy.matching import CallIndex, PriorCall
from agents.proxy.profiles.base import AUXILIARY, Profile
from agents.proxy.rendering import BUNDLED_POLICY, Rendering
from agents.proxy.store import ExecutionRow

#: What part of its harness's time limit a call waits for an engine's next token, and for a whole reply.
TOKEN_SHARE, WHOLE_REPLY_SHARE = 1 / 3, 1 / 2
#: Engines get so long however short the harness's limit is.
LEAST_PATIENCE_S = 5.0
#: About what a recorded call takes in memory besides its tokens and its reply: objects, hashes, entries of the index.
CALL_BYTES = 2500


@dataclass(slots=True)
class HeldClock:
    """Time during which at least one call of the execution waits for scheduling; reported in instalments."""

    num_held: int = 0
    _since: float = 0.0

    def enter(self, now: float) -> None:
        self._since = now if self.num_held == 0 else self._since
        self.num_held += 1

    def leave(self) -> None:
        self.num_held -= 1

    def unreported(self, now: float) -> float:
        """Seconds that no instalment covers yet."""
        return now - self._since if self.num_held else 0.0

    def take(self, now: float) -> float:
        """The instalment that is due. Take it before leaving."""
        held, self._since = now - self._since, now
        return held if self.num_held else 0.0


@dataclass(slots=True, eq=False)
class Session:
    execution: ExecutionRow
    config: AgentSettings
    profile: Profile
    rendering: Rendering
    history: CallHistory = field(init=False)
    next_number: int = 0
    sticky_cell: int | None = None
    archive: Archive = field(default_factory=Archive)
    held: HeldClock = field(default_factory=HeldClock)
    live: LiveCalls = field(default_factory=LiveCalls)
    used_at: float = 0.0
    _num_sized: int = 0
    _num_tokens: int = 0
    _num_bytes: int = 0
    #: Revised roles that were handed on to the database.
    _revisions: dict[int, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.history = CallHistory(self.profile, self.rendering)

    @property
    def index(self) -> CallIndex:
        return self.history.index

    @property
    def context_tokens(self) -> int:
        """Longest prompt + reply."""
        wanted = self.config.policy_context_tokens or self.config.context_tokens
        return min(wanted, self.rendering.max_tokens or wanted)

    def patience(self, at_most_s: float, is_whole: bool = False) -> float:
        """How long one of its calls waits for an engine's next token: the harness must outlive an engine that hangs.

        `is_whole`: for all tokens of a reply, which come at once.
        """
        limit_s = self.config.harness_timeout_s
        limit_s = min(limit_s, self.execution.task_timeout_s or limit_s)
        share = WHOLE_REPLY_SHARE if is_whole else TOKEN_SHARE
        return min(at_most_s, max(LEAST_PATIENCE_S, share * limit_s))

    def prepare(self, request: ModelRequest, headers: Mapping[str, str]) -> Prepared:
        """Find the request's place and render what it adds. Runs in a worker thread; changes nothing here.

        Raises BadRequest, and TooLong for a request that is far over the context.
        """
        with budget(self.context_tokens):
            return self.history.prepare(request, headers)

    def count(self, request: ModelRequest) -> Prepared:
        """A request that wants to know its length and no reply; it takes a number and nothing continues it."""
        counted = self.prepare(request, {})
        return replace(counted, role=AUXILIARY, conversation=AUXILIARY, branch_reason="", departure=None)

    def size(self) -> tuple[int, int]:
        """(unique tokens held, bytes that hold them and what is known of their calls)."""
        for call in self.index.calls[self._num_sized :]:
            self._num_sized += 1
            self._num_tokens += len(call.new_input_ids) + len(call.output_ids)
            self._num_bytes += call.new_input_ids.nbytes + call.output_ids.nbytes + CALL_BYTES
            self._num_bytes += len(call.reply["content"]) + 64 * len(call.reply.get("tool_calls", ()))
        return self._num_tokens, self._num_bytes

    def open(self, call: LiveCall) -> None:
        """A call begins: it takes the next number and can be joined by its retries."""
        call.number = self.take_number()
        call.prepared = self.history.begin(call.number, call.request, call.prepared)
        self.live.open(call)

    def take_number(self) -> int:
        """The number of the next call."""
        number, self.next_number = self.next_number, self.next_number + 1
        return number

    def add(self, call: PriorCall) -> None:
        """A committed call: later requests may continue it."""
        self.history.add(call)

    def role_of(self, number: int, role: str) -> str:
        """The role of a call, `role` unless a later request showed that it is another."""
        return self.history.conversations.revised.get(number, role)

    def take_revisions(self) -> dict[int, str]:
        """Roles of earlier calls that turned out to be others, once each."""
        revised = self.history.conversations.revised
        fresh = {number: role for number, role in list(revised.items()) if self._revisions.get(number) != role}
        self._revisions |= fresh
        return fresh

    def return_revisions(self, revised: Mapping[int, str]) -> None:
        """They could not be written: they are handed out again."""
        for number in revised:
            self._revisions.pop(number, None)

    def restore(self, rows: list[Any]) -> None:
        """Rebuild the record from the database's rows, oldest first."""
        self.history.restore(rows)
        for row in rows:
            self.archive.hold(row.request_hash, row.archived_bytes)
        self.next_number = max((row.number for row in rows), default=-1) + 1


def policy_folder(config: PolicySettings) -> Path:
    """Where a run's tokenizer and template are."""
    return Path(config.policy_path) if config.policy_path else BUNDLED_POLICY
