"""What a driver knows about its harness. The harness itself is a black box that never learns where it runs."""

from __future__ import annotations

import sys
import sysconfig
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from agents.harness.sandbox.base import PROXY_PORT, Bind

PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


@dataclass(frozen=True)
class Assignment:
    """What the harness is to do. `base_url` ends in the execution key, without a dialect's own path."""

    instruction: str
    workdir: str
    home: str
    env: dict[str, str]
    key: str = ""
    max_new_tokens: int = 0
    solution_env: dict[str, str] = field(default_factory=dict)

    @property
    def base_url(self) -> str:
        return f"http://127.0.0.1:{PROXY_PORT}/x/{self.key}"

    def environment(self) -> dict[str, str]:
        """The whole environment of the harness, before the driver's own variables."""
        return {"PATH": PATH, "HOME": self.home, "LANG": "C.UTF-8", "TERM": "dumb", **self.env}


@dataclass(frozen=True)
class Launch:
    """Either a command, or the name of a program that the sandbox server has imported."""

    env: dict[str, str]
    command: tuple[str, ...] = ()
    program: str = ""
    binds: tuple[Bind, ...] = ()


@dataclass(frozen=True)
class HarnessReport:
    """What the harness says about itself."""

    num_malformed_calls: int = 0
    hit_turn_limit: bool = False


class Driver(Protocol):
    name: str
    #: Whether it talks to the model: then an execution without a call says nothing.
    calls_model: bool
    #: Programs for the sandbox server, name → module:function.
    programs: dict[str, str]

    def launch(self, assignment: Assignment) -> Launch: ...

    def report(self, agent_logs: Path) -> HarnessReport: ...


def python_binds() -> tuple[Bind, ...]:
    """This Python with its packages, read-only at its own place, unless the system already shows it."""
    places = {
        Path(sys.base_prefix).resolve(),
        Path(sys.prefix).resolve(),
        Path(sysconfig.get_path("purelib")).resolve(),
    }
    outside = sorted(place for place in places if not place.is_relative_to("/usr"))
    return tuple(
        Bind(place, str(place)) for place in outside if not any(place != p and place.is_relative_to(p) for p in outside)
    )
