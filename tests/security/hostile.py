"""Runs a hostile program in a real sandbox."""

from __future__ import annotations

import textwrap
from dataclasses import dataclass, replace
from pathlib import Path

from agents.harness.sandbox.base import Exit, Limits, SandboxSpec, User
from agents.harness.sandbox.client import Sandbox, SandboxServer
from agents.harness.sandbox.workspace import Workspace, read_log
from agents.harness.taskformat.dockerfile import Image

MIB = 1 << 20


@dataclass(frozen=True)
class Attack:
    """One sandbox server and one workspace, for one hostile program after another."""

    server: SandboxServer
    workspace: Workspace

    def start(self, program: str, limits: Limits, **options: object) -> Sandbox:
        spec = SandboxSpec(
            area=self.workspace.area,
            root=self.workspace.root,
            log=self.workspace.agent_log,
            command=("/usr/bin/python3", "-c", textwrap.dedent(program)),
            binds=self.workspace.agent_binds(User()),
            env={"PATH": "/usr/bin:/bin", "HOME": "/tmp"},
            limits=limits,
        )
        return self.server.start(replace(spec, **options))  # type: ignore[arg-type]

    def run(self, program: str, limits: Limits | None = None, **options: object) -> tuple[Exit, list[str]]:
        """How it ended, and the lines that it printed."""
        end = self.start(program, limits or Limits(), **options).wait(60)
        assert end is not None
        lines = read_log(self.workspace.agent_log).splitlines()
        self.workspace.agent_log.unlink()
        return end, lines


def prepare(server: SandboxServer, home: Path) -> Attack:
    workspace = Workspace(home, home / "executions" / "attempt")
    workspace.create(Image(), home, User(), "")
    return Attack(server, workspace)
