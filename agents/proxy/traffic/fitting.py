"""Whether a harness and a policy work together: captured traffic of the harness before the policy's own template.

`captures` holds one execution of each harness. What the recording proxy would refuse of it, a run would be refused too,
and no execution of such a run could work.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from agents.proxy.profiles import profile
from agents.proxy.rendering import Rendering
from agents.proxy.traffic.replay import replay

CAPTURES = Path(__file__).with_name("captures")
#: The files of a policy that decide what its template can say.
_DECIDING = ("config.json", "tokenizer.json", "tokenizer_config.json", "chat_template.jinja")


@dataclass(frozen=True, slots=True)
class Fit:
    """What came of a harness's captured requests before a policy."""

    harness: str
    policy: str
    family: str
    num_requests: int
    num_refused: int
    #: Why the first of the refused ones was.
    why: str
    false_forks: int
    #: Later calls extend the recorded ids; else each is rendered whole.
    extends: bool

    @property
    def problem(self) -> str:
        """A sentence that says why they do not work together; "" when they do."""
        if not self.num_refused:
            return ""
        return (
            f"{self.harness} does not work with the policy in {self.policy} (family {self.family}): of the "
            f"{self.num_requests} requests of an execution captured from it, {self.num_refused} would be refused, the "
            f"first because {self.why}"
        )


def fit(harness: str, folder: Path) -> Fit | None:
    """None for a harness of which nothing is captured. Raises BadPolicyFolder, OSError.

    Asked once for each content of a policy folder: a big vocabulary takes seconds to load.
    """
    capture = CAPTURES / f"{harness}.jsonl"
    return _fit(harness, capture, folder, _digest(folder)) if capture.exists() else None


def replayed(harness: str, capture: Path, rendering: Rendering) -> Fit:
    """The same for a policy that is loaded already."""
    rows = replay(capture, profile(harness).name, rendering).rows
    refused = [row.refused for row in rows if row.refused]
    return Fit(
        harness=harness,
        policy=rendering.tokenizer.name_or_path,
        family=rendering.family,
        num_requests=len(rows),
        num_refused=len(refused),
        why=refused[0] if refused else "",
        false_forks=sum(row.departure is not None for row in rows),
        extends=rendering.extends,
    )


@lru_cache(maxsize=64)
def _fit(harness: str, capture: Path, folder: Path, digest: str) -> Fit:
    return replayed(harness, capture, Rendering(folder))


def _digest(folder: Path) -> str:
    digest = hashlib.sha256()
    for name in _DECIDING:
        path = folder / name
        content = path.read_bytes() if path.exists() else b""
        digest.update(f"{name} {len(content)}\n".encode() + content)
    return digest.hexdigest()
