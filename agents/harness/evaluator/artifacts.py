"""Carries artifacts from the agent's file tree into a separate verifier's, at their original paths (docs/tasks.md).

Both ends run inside sandboxes: the host never resolves a path that an agent could have bent.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from agents.harness.sandbox.base import Exit, SandboxSpec
from agents.harness.taskformat.config import Artifact
from agents.harness.taskformat.dockerfile import PATH
from agents.harness.taskformat.paths import inside

_IMPLICIT = "/logs/artifacts"
#: Nothing of the image's: a PATH of its own could lead to an agent's tar, which packs more than it is asked for.
_ENVIRONMENT = {"PATH": PATH, "LANG": "C.UTF-8"}


def carry_over(
    artifacts: tuple[Artifact, ...],
    collect: SandboxSpec,
    unpack: SandboxSpec,
    run: Callable[[SandboxSpec], Exit | None],
) -> None:
    """`collect` sees the transfer folder at /tests, `unpack` at /run/gyre. What does not exist is left out.

    What an agent has packed instead can only reach where `unpack` may write: neither the tests nor the reward.
    """
    collect, unpack = (replace(spec, env=_ENVIRONMENT) for spec in (collect, unpack))
    for index, artifact in enumerate((*artifacts, Artifact(_IMPLICIT))):
        path = inside(artifact.source, collect.workdir)
        excluded = [f"--exclude={pattern}" for pattern in artifact.exclude]
        archive = f"{index}.tar"
        pack = ("/bin/tar", "-C", "/", *excluded, "-cf", f"/tests/{archive}", "--", path.lstrip("/"))
        run(replace(collect, command=("/bin/sh", "-c", '[ ! -e "/$0" ] || exec "$@"', path.lstrip("/"), *pack)))
    script = "for archive in /run/gyre/*.tar; do [ ! -e $archive ] || /bin/tar -C / -xf $archive; done"
    run(replace(unpack, command=("/bin/sh", "-c", script)))
