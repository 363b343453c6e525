"""Which harness sent some requests, and how sure that is."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from agents.proxy.profiles.base import Features, Profile

#: Below this the traffic counts as that of an unknown harness.
SURE = 0.5


@dataclass(frozen=True, slots=True)
class Detection:
    """`best` is the likeliest harness and `confidence` how sure that is, in [0, 1); `name` is the profile to use."""

    name: str
    best: str
    confidence: float

    @property
    def is_sure(self) -> bool:
        return self.confidence >= SURE


def detect(profiles: Mapping[str, Profile], requests: Iterable[Features], otherwise: str) -> Detection:
    """The harness whose marks the requests bear. A doubtful one, or two that are alike, give `otherwise`.

    A request says how likely each harness is; what all of them say is the mean. A rival takes away half of its own
    likeness.
    """
    sums = dict.fromkeys(profiles, 0.0)
    count = 0
    for seen in requests:
        count += 1
        for name, profile in profiles.items():
            sums[name] += profile.likeness(seen)
    ranked = sorted(((total / max(count, 1), name) for name, total in sums.items()), reverse=True)
    (first, best), (second, _) = ranked[0], ranked[1] if len(ranked) > 1 else (0.0, "")
    confidence = round(first * (1.0 - second / 2), 3)
    return Detection(best if confidence >= SURE else otherwise, best, confidence)
