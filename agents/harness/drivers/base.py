"""What a driver knows about its harness. The harness itself is a black box that never learns where it runs."""

from __future__ import annotations

import json
import sys
import sysconfig
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from agents.harness.install import Installed, Recipe
from agents.harness.sandbox.base import PROXY_PORT, Bind, Limits
from agents.harness.sandbox.workspace import INSTRUCTION, read_log
from agents.harness.taskformat.dockerfile import PATH

#: Where an installed harness is seen in its sandbox.
PLACE = "/opt/harness"
#: Longer than any call is held: only its time limit ends a harness that waits. Fits a 32-bit count of ms.
PATIENCE_MS = 20 * 24 * 3600 * 1000


@dataclass(frozen=True)
class Assignment:
    """What the harness is to do. `base_url` ends in the execution key, without a dialect's own path.

    `context_tokens`: longest prompt + reply that the policy takes; `max_new_tokens`: its longest reply.
    """

    instruction: str
    workdir: str
    home: str
    env: dict[str, str]
    key: str = ""
    context_tokens: int = 0
    max_new_tokens: int = 0
    installed: Installed | None = None
    solution_env: dict[str, str] = field(default_factory=dict)

    @property
    def base_url(self) -> str:
        return f"http://127.0.0.1:{PROXY_PORT}/x/{self.key}"

    def environment(self) -> dict[str, str]:
        """The whole environment of the harness, before the driver's own variables."""
        return {"PATH": PATH, "HOME": self.home, "LANG": "C.UTF-8", "TERM": "dumb", **self.env}


@dataclass(frozen=True)
class Launch:
    """Either a command, or the name of a program that the sandbox server has imported.

    `output_bytes`: how much it may write to its log.
    """

    env: dict[str, str]
    command: tuple[str, ...] = ()
    program: str = ""
    binds: tuple[Bind, ...] = ()
    output_bytes: int = Limits.output_bytes


@dataclass(frozen=True)
class Ended:
    """A harness that has ended: what it left. Both places were open to what ran in the sandbox."""

    code: int
    log: Path
    agent_logs: Path

    def json_lines(self) -> Iterator[dict[str, Any]]:
        """The JSON objects among the lines at the beginning and at the end of the log."""
        for line in read_log(self.log, 4 << 20).splitlines():
            if line.startswith("{") and isinstance(value := parsed(line), dict):
                yield value


def parsed(raw: str | bytes | None) -> Any:
    """The value of JSON from an untrusted writer; None for what cannot be parsed, whatever the cause."""
    try:
        return json.loads(raw) if raw else None
    except (ValueError, RecursionError):
        return None


@dataclass(frozen=True)
class HarnessReport:
    """What the harness says about itself, which wins over its exit code.

    `failure`: why it broke off; `completed`: it came to its end, whatever went wrong on the way.
    """

    num_malformed_calls: int = 0
    hit_turn_limit: bool = False
    failure: str = ""
    completed: bool = False

    def exit_code(self, code: int) -> int:
        """The exit code that says what happened."""
        return 0 if self.completed else code or int(bool(self.failure))


class Driver(Protocol):
    name: str
    #: Version that is used unless a run asks for another one; "" where versions mean nothing.
    version: str
    #: Whether it talks to the model: then an execution without a call says nothing.
    calls_model: bool
    #: Shortest context of a policy, in tokens, that its own prompts leave some room in.
    min_context_tokens: int
    #: Programs for the sandbox server, name → module:function.
    programs: dict[str, str]

    def recipe(self, version: str) -> Recipe | None:
        """How this version is installed; None when it is there with Gyre itself."""

    def launch(self, assignment: Assignment) -> Launch: ...

    def report(self, ended: Ended) -> HarnessReport: ...


class Bundled:
    """What drivers have in common whose harness comes with Gyre."""

    version = ""
    calls_model = True
    min_context_tokens = 0
    programs: dict[str, str] = {}

    def recipe(self, version: str) -> Recipe | None:
        return None

    def report(self, ended: Ended) -> HarnessReport:
        return HarnessReport()


class Packaged(Bundled):
    """What drivers have in common whose harness is installed from a package registry."""

    def start(self, assignment: Assignment, env: dict[str, str], *command: str, setup: str = "") -> Launch:
        """Run `command` with the instruction as its standard input; `setup` is shell that runs before."""
        assert assignment.installed is not None
        return Launch(
            env=assignment.environment() | env,
            command=("/bin/sh", "-c", f'{setup}\nexec "$@" < {INSTRUCTION}', "sh", *command),
            binds=(Bind(assignment.installed.place, PLACE),),
            output_bytes=64 << 20,
        )


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
