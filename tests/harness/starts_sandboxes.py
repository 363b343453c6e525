"""A worker in miniature: starts many sandboxes, says which process makes them, and waits.

Usage: python starts_sandboxes.py FOLDER TAG. Everything that runs in the sandboxes has TAG in its environment.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

from agents.harness.sandbox.base import SandboxSpec, User
from agents.harness.sandbox.client import SandboxServer
from agents.harness.sandbox.workspace import Workspace
from agents.harness.taskformat.dockerfile import Image


def main() -> None:
    folder, tag = Path(sys.argv[1]), sys.argv[2]
    workspace = Workspace(folder, folder / "executions" / "attempt")
    workspace.create(Image(), folder, User(), "")
    server = SandboxServer()
    spec = SandboxSpec(
        workspace.area, workspace.root, workspace.agent_log, ("/bin/sleep", "1000"),
        binds=workspace.agent_binds(User()), env={"PATH": "/usr/bin:/bin", "TAG": tag},
    )  # fmt: skip
    server.start(spec).wait_started(60)
    print(server.process_id, flush=True)
    while True:
        server.start(spec)
        time.sleep(0.01)


main()
