"""Whether this machine can make sandboxes, by making one just as executions do."""

from __future__ import annotations

import tempfile
from pathlib import Path

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
