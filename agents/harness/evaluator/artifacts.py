"""Carries artifacts from the agent's file tree into a separate verifier's, at their original paths (tasks.md §3).

Both ends run inside sandboxes: the host never resolves a path that an agent could have bent.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from agents.harness.sandbox.base import Exit, SandboxSpec
from agents.harness.taskformat.config import Artifact

_IMPLICIT = "/logs/artifacts"


def carry_over(
    artifacts: tuple[Artifact, ...],
    collect: SandboxSpec,
    unpack: SandboxSpec,
    run: Callable[[SandboxSpec], Exit | None],
) -> None:
    """`collect` sees the transfer folder at /tests, `unpack` at /run/gyre. What does not exist is left out."""
    for index, artifact in enumerate((*artifacts, Artifact(_IMPLICIT))):
        path = artifact.source if artifact.source.startswith("/") else f"{collect.workdir}/{artifact.source}"
        excluded = [f"--exclude={pattern}" for pattern in artifact.exclude]
        archive = f"{index}.tar"
        pack = ("tar", "-C", "/", *excluded, "-cf", f"/tests/{archive}", "--", path.lstrip("/"))
        run(replace(collect, command=("/bin/sh", "-c", '[ ! -e "/$0" ] || exec "$@"', path.lstrip("/"), *pack)))
    script = "for archive in /run/gyre/*.tar; do [ ! -e $archive ] || tar -C / -xf $archive; done"
    run(replace(unpack, command=("/bin/sh", "-c", script)))
