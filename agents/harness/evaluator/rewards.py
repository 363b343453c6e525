"""From the verifier's reward files to a score. Anything doubtful is unresolved, which is not zero.

See docs/tasks.md "From work to reward".
"""

from __future__ import annotations

import json
import math
import reprlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from agents.core.bounds import MAX_REWARD, decimal, is_reward
from agents.core.outcome import Reason

MAX_BYTES = 1 << 20
#: Keys of reward.json, and characters of one of them: they are stored and shown.
MAX_KEYS = 256
MAX_KEY_CHARS = 200


@dataclass(frozen=True)
class Score:
    """`value` is what is trained; None with a reason where the files give none. `rewards` keeps every key."""

    value: float | None
    rewards: dict[str, float] = field(default_factory=dict)
    reason_code: Reason | None = None
    reason: str = ""


def read(reward_json: bytes | None, reward_txt: bytes | None, key: str = "reward") -> Score:
    """The contents of reward.json and reward.txt; None for a file that is not there. reward.json wins."""
    for name, raw in (("reward.json", reward_json), ("reward.txt", reward_txt if reward_json is None else None)):
        if raw is not None and len(raw) >= MAX_BYTES:
            return _none(Reason.REWARD_INVALID, f"{name} is longer than {MAX_BYTES - 1} bytes")
    if reward_json is not None:
        return _from_json(reward_json, key)
    if reward_txt is None:
        return _none(Reason.REWARD_MISSING, "the verifier left neither reward.json nor reward.txt")
    text = reward_txt.decode(errors="replace")
    value = decimal(text)
    if value is None:
        return _none(Reason.REWARD_INVALID, f"reward.txt holds {text.strip()[:80]!r}, which is not a decimal number")
    return _pick({"reward": value}, key, "reward.txt")


def _from_json(raw: bytes, key: str) -> Score:
    try:
        values = json.loads(raw.decode())
    except (ValueError, RecursionError) as error:
        return _none(Reason.REWARD_INVALID, f"reward.json cannot be read: {error}"[:200])
    if not isinstance(values, dict):
        return _none(Reason.REWARD_INVALID, f"reward.json holds {_shown(values)}, not an object")
    if len(values) > MAX_KEYS:
        return _none(Reason.REWARD_INVALID, f"reward.json has {len(values)} keys; at most {MAX_KEYS} are read")
    rewards: dict[str, float] = {}
    for name, value in values.items():
        if len(name) > MAX_KEY_CHARS:
            return _none(Reason.REWARD_INVALID, f"reward.json: the key {name[:80]!r}… is longer than {MAX_KEY_CHARS}")
        if not isinstance(value, int | float):
            return _none(Reason.REWARD_INVALID, f"reward.json: {name[:80]!r} is {_shown(value)}, not a number")
        try:
            number = float(value)
        except OverflowError:
            number = math.inf
        if not math.isfinite(number):
            return _none(Reason.REWARD_INVALID, f"reward.json: {name[:80]!r} is not finite")
        rewards[name] = number
    return _pick(rewards, key, "reward.json")


def _pick(rewards: dict[str, float], key: str, file: str) -> Score:
    if key not in rewards:
        known = ", ".join(sorted(rewards)) or "none"
        reason = f"the reward file has no key {key!r} (keys: {known})"[:200]
        return Score(None, rewards, Reason.REWARD_KEY_MISSING, reason)
    if not is_reward(rewards[key]):
        reason = f"{file}: {key!r} is {rewards[key]:g}; a reward is between -{MAX_REWARD:.0e} and {MAX_REWARD:.0e}"
        return Score(None, {}, Reason.REWARD_INVALID, reason)
    return Score(rewards[key], rewards)


def without_sentinels(score: Score, sentinels: Sequence[float]) -> Score:
    """A value that the verifier writes when it has crashed is no reward (docs/tasks.md "From work to reward")."""
    if score.value is None or score.value not in sentinels:
        return score
    reason = f"the reward {score.value:g} is one of reward_sentinels: the verifier had crashed"
    return Score(None, score.rewards, Reason.REWARD_SENTINEL, reason)


def _shown(value: Any) -> str:
    """A few characters of anything that JSON can hold, however deep or long."""
    return reprlib.repr(value)[:80]


def _none(code: Reason, reason: str) -> Score:
    return Score(None, {}, code, reason)
