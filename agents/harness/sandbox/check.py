"""Whether this machine can make sandboxes, by making one just as executions do."""

from __future__ import annotations

import tempfile
from pathlib import Path

from agents.harness.sandbox import cgroups
from agents.harness.sandbox.base import SandboxError, SandboxSpec, User
from agents.harness.sandbox.client import SandboxServer
from agents.harness.sandbox.workspace import Workspace, read_log
from agents.harness.taskformat.dockerfile import Image


def problem(home: Path, timeout_s: float = 30.0) -> str | None:
    """Why no sandbox can be made below `home` (GYRE_HOME), or None."""
    server = SandboxServer()
    try:
        with tempfile.TemporaryDirectory(dir=home, prefix="check-") as folder:
            workspace = Workspace(Path(folder), Path(folder, "attempt"))
            workspace.create(Image(), Path(folder), User(), "")
            log = workspace.agent_log
            spec = SandboxSpec(workspace.area, workspace.root, log, ("/bin/true",), binds=workspace.agent_binds(User()))
            sandbox = server.start(spec)
            end = sandbox.wait(timeout_s)
            server.stop(sandbox)
            if end is None:
                return f"a sandbox did not end within {timeout_s:g} s"
            return None if end.code == 0 else f"a sandbox ended with exit code {end.code}: {read_log(log)[-300:]}"
    except (SandboxError, OSError) as error:
        return str(error)
    finally:
        server.close()


def held_by() -> dict[str, str]:
    """For each limit of a sandbox, what holds it on this machine. Exact unless it says sampled."""
    place = cgroups.place()
    version, held = (place[1], place[2]) if place else (0, frozenset())
    group = f"control group (version {version})"
    sum_of = "sampled: private memory, /dev/shm and sockets; system calls for other shared memory are refused"
    each = "RLIMIT_DATA for each process"
    return {
        "memory": f"{group} for all processes, {each}" if "memory" in held else f"{each}; their sum {sum_of}",
        "processes": "RLIMIT_NPROC in a user namespace" + (f", {group}" if "pids" in held else ""),
        "cpus": "processor affinity that cannot be changed" + (f", {group}" if "cpu" in held else ""),
        "disk": "RLIMIT_FSIZE for each file; their sum sampled, with files that have no name any more",
        "files": "RLIMIT_NOFILE for open ones of each process; those on disk sampled",
        "output": "sampled",
        "system calls": "seccomp filter",
    }
