"""Becomes a normal user who may not pass through the directories of others, then runs a Python script.

Usage: python normal_user.py UID SCRIPT [ARGUMENTS]. Needs root. Where Python, its packages or this clone lie in a
closed directory of somebody else, they are shown at their own place in a mount table of this process only.
"""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path

from agents.harness.sandbox import namespaces
from agents.harness.sandbox.inside import become

REPO = Path(__file__).resolve().parents[2]


def closed_ancestor(path: Path) -> Path | None:
    """The outermost directory above `path` that others may not pass."""
    above = [*reversed(path.parents), path]
    return next((place for place in above if not place.stat().st_mode & 0o001), None)


def show(paths: set[Path]) -> None:
    stage = Path(tempfile.mkdtemp())
    namespaces.mount_tmpfs(stage, "mode=0711")
    hidden = {path: closed for path in paths if (closed := closed_ancestor(path))}
    kept = {path: stage / str(number) for number, path in enumerate(hidden)}
    for path, place in kept.items():
        place.mkdir()
        namespaces.bind(path, place)
    for closed in set(hidden.values()):
        namespaces.mount_tmpfs(closed, "mode=0755")
    for path, place in kept.items():
        path.mkdir(parents=True, exist_ok=True)
        namespaces.bind(place, path)


def main() -> None:
    uid, script, *arguments = sys.argv[1:]
    namespaces.private_mounts()
    show({Path(sys.base_prefix).resolve(), Path(sys.prefix).resolve(), REPO})
    become(int(uid))
    os.execve(sys.executable, [sys.executable, script, *arguments], {**os.environ, "HOME": os.environ["NORMAL_HOME"]})


main()
