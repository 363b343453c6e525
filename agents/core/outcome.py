"""What an execution came to: a closed set of outcomes, each with a reason code (docs/algorithms.md §5).

The evaluator's verdict alone does not decide: a score on work of a harness that never reached its model is no score.
Whatever is not known to be good is unresolved, which is not zero.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from agents.core.bounds import MAX_REWARD, is_reward


class Outcome(StrEnum):
    COMPLETE = "complete"
    PARTIAL = "partial"
    NO_WORK = "no-work"
    UNRESOLVED = "unresolved"
    CANCELLED = "cancelled"

    @property
    def votes(self) -> bool:
        """Whether the execution counts in its group's statistics."""
        return self in (Outcome.COMPLETE, Outcome.PARTIAL, Outcome.NO_WORK)


class Status(StrEnum):
    """What the evaluator says (docs/tasks.md "From work to reward")."""

    SCORED = "scored"
    NO_WORK = "no-work"
    UNRESOLVED = "unresolved"


class Reason(StrEnum):
    COMPLETED = "completed"  # complete
    HARNESS_TIMEOUT = "harness_timeout"  # partial, from here
    OVERALL_TIMEOUT = "overall_timeout"
    HARNESS_CRASHED = "harness_crashed"
    NOTHING_ASSESSABLE = "nothing_assessable"  # no-work
    EVALUATION_TIMEOUT = "evaluation_timeout"  # unresolved, from here
    EVALUATOR_CRASHED = "evaluator_crashed"
    REWARD_MISSING = "reward_missing"
    REWARD_INVALID = "reward_invalid"
    REWARD_KEY_MISSING = "reward_key_missing"
    REWARD_SENTINEL = "reward_sentinel"
    SANDBOX_NEVER_HEALTHY = "sandbox_never_healthy"
    HARNESS_NEVER_HEALTHY = "harness_never_healthy"
    SANDBOX_LOST = "sandbox_lost"
    NO_CALL_ACKNOWLEDGED = "no_call_acknowledged"
    ATTEMPTS_EXHAUSTED = "attempts_exhausted"
    RESULT_NOT_WRITTEN = "result_not_written"
    CANCELLED = "cancelled"  # cancelled


#: Reasons that an unresolved verdict may give.
UNRESOLVED_REASONS = frozenset(
    {
        Reason.EVALUATION_TIMEOUT,
        Reason.EVALUATOR_CRASHED,
        Reason.REWARD_MISSING,
        Reason.REWARD_INVALID,
        Reason.REWARD_KEY_MISSING,
        Reason.REWARD_SENTINEL,
        Reason.SANDBOX_NEVER_HEALTHY,
        Reason.HARNESS_NEVER_HEALTHY,
        Reason.SANDBOX_LOST,
        Reason.NO_CALL_ACKNOWLEDGED,
        Reason.ATTEMPTS_EXHAUSTED,
        Reason.RESULT_NOT_WRITTEN,
    }
)


@dataclass(frozen=True)
class Verdict:
    """Result of evaluating one attempt, or of finding that it cannot be evaluated.

    `value`: the reward, for `scored` only. `reason_code`: one of UNRESOLVED_REASONS, for `unresolved` only.
    `rewards`: every key of the evaluator's reward file. `log`: the evaluator's output, already limited in size.
    """

    status: Status
    value: float | None = None
    reason_code: Reason | None = None
    reason: str = ""
    rewards: Mapping[str, float] = field(default_factory=dict)
    flags: Sequence[str] = ()
    exit_code: int | None = None
    log: str = ""
    duration_s: float = 0.0


@dataclass(frozen=True)
class HarnessEnd:
    """How the harness ended. `timeout` is the limit that stopped it, if one did."""

    exit_code: int | None = None
    timeout: Reason | None = None
    num_malformed_calls: int = 0
    hit_turn_limit: bool = False


@dataclass(frozen=True)
class Result:
    """`reward` is None exactly where the outcome does not vote."""

    outcome: Outcome
    reason_code: Reason
    reason: str
    reward: float | None


def judge(verdict: Verdict, end: HarnessEnd, num_acknowledged_calls: int) -> Result:
    """Outcome of an execution whose evaluation is over. Raises ValueError for a reason that contradicts the status."""
    if verdict.status is Status.UNRESOLVED:
        code = verdict.reason_code or Reason.EVALUATOR_CRASHED
        if code not in UNRESOLVED_REASONS:
            raise ValueError(f"{code} is no reason for an unresolved execution")
        return _unresolved(code, verdict.reason)
    if num_acknowledged_calls == 0:
        return _unresolved(
            Reason.NO_CALL_ACKNOWLEDGED,
            f"the harness (exit code {end.exit_code}) got no reply from its model, so its work says nothing about it",
        )
    if verdict.status is Status.NO_WORK:
        return Result(Outcome.NO_WORK, Reason.NOTHING_ASSESSABLE, verdict.reason or "nothing to assess was left", 0.0)
    if verdict.value is None or not is_reward(verdict.value):
        reason = f"the reward {verdict.value} is not a number between -{MAX_REWARD:.0e} and {MAX_REWARD:.0e}"
        return _unresolved(Reason.REWARD_INVALID, reason)
    if end.timeout is not None:
        return Result(Outcome.PARTIAL, end.timeout, verdict.reason, verdict.value)
    if end.exit_code not in (0, None):
        return Result(
            Outcome.PARTIAL, Reason.HARNESS_CRASHED, f"the harness ended with exit code {end.exit_code}", verdict.value
        )
    return Result(Outcome.COMPLETE, Reason.COMPLETED, verdict.reason, verdict.value)


def cancelled(reason: str) -> Result:
    """Outcome of an execution that a person, or the end of its run, cancelled."""
    return Result(Outcome.CANCELLED, Reason.CANCELLED, reason, None)


def training_reward(reward: float, end: HarnessEnd, malformed_penalty: float) -> float:
    """r - malformed_penalty · |r| when calls were malformed or the turn limit was hit, else r."""
    if end.num_malformed_calls > 0 or end.hit_turn_limit:
        return reward - malformed_penalty * abs(reward)
    return reward


def _unresolved(code: Reason, reason: str) -> Result:
    return Result(Outcome.UNRESOLVED, code, reason, None)
