"""From the verifier's reward files to a score (tasks.md §4). Anything doubtful is unresolved, which is not zero."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass, field

from agents.core.outcome import Reason

MAX_BYTES = 1 << 20


@dataclass(frozen=True)
class Score:
    """`value` is what is trained; None with a reason where the files give none. `rewards` keeps every key."""

    value: float | None
    rewards: dict[str, float] = field(default_factory=dict)
    reason_code: Reason | None = None
    reason: str = ""


def read(reward_json: bytes | None, reward_txt: bytes | None, key: str = "reward") -> Score:
    """The contents of reward.json and reward.txt; None for a file that is not there. reward.json wins."""
    if reward_json is not None:
        return _from_json(reward_json, key)
    if reward_txt is None:
        return _none(Reason.REWARD_MISSING, "the verifier left neither reward.json nor reward.txt")
    text = reward_txt.decode(errors="replace").strip()
    try:
        value = float(text)
    except ValueError:
        return _none(Reason.REWARD_INVALID, f"reward.txt holds {text[:80]!r}, which is not a number")
    if not math.isfinite(value):
        return _none(Reason.REWARD_INVALID, f"reward.txt holds {text[:80]!r}, which is not finite")
    return _pick({"reward": value}, key)


def _from_json(raw: bytes, key: str) -> Score:
    try:
        values = json.loads(raw)
    except (ValueError, RecursionError) as error:
        return _none(Reason.REWARD_INVALID, f"reward.json cannot be read: {error}"[:200])
    if not isinstance(values, dict):
        return _none(Reason.REWARD_INVALID, f"reward.json holds {str(values)[:80]!r}, not an object")
    rewards: dict[str, float] = {}
    for name, value in values.items():
        if not isinstance(value, int | float):
            return _none(Reason.REWARD_INVALID, f"reward.json: {name[:80]!r} is {str(value)[:80]!r}, not a number")
        try:
            number = float(value)
        except OverflowError:
            number = math.inf
        if not math.isfinite(number):
            return _none(Reason.REWARD_INVALID, f"reward.json: {name[:80]!r} is not finite")
        rewards[name] = number
    return _pick(rewards, key)


def _pick(rewards: dict[str, float], key: str) -> Score:
    if key not in rewards:
        known = ", ".join(sorted(rewards)) or "none"
        reason = f"the reward file has no key {key!r} (keys: {known})"[:200]
        return Score(None, rewards, Reason.REWARD_KEY_MISSING, reason)
    return Score(rewards[key], rewards)


def without_sentinels(score: Score, sentinels: Sequence[float]) -> Score:
    """A value that the verifier writes when it has crashed is no reward (tasks.md §4)."""
    if score.value is None or score.value not in sentinels:
        return score
    reason = f"the reward {score.value:g} is one of reward_sentinels: the verifier had crashed"
    return Score(None, score.rewards, Reason.REWARD_SENTINEL, reason)


def _none(code: Reason, reason: str) -> Score:
    return Score(None, {}, code, reason)
