"""Packs a tree with everything that an agent may leave, unpacks it, and prints both listings as JSON.

Usage: python packs_a_tree.py HOME
"""

from __future__ import annotations

import json
import os
import socket
import stat
import sys
from pathlib import Path

from agents.harness.sandbox.archive import pack, unpack
from agents.harness.sandbox.workspace import Workspace


def listing(top: Path) -> dict[str, list[object]]:
    """Mode, kind and content of every path; closed ones are opened for the look."""
    found: dict[str, list[object]] = {}
    for path in sorted(top.iterdir()):
        state = path.lstat()
        mode, kind = stat.S_IMODE(state.st_mode), stat.S_IFMT(state.st_mode)
        content: object = None
        if stat.S_ISLNK(state.st_mode):
            content = os.readlink(path)
        elif stat.S_ISREG(state.st_mode):
            path.chmod(0o600)
            content = [path.read_bytes().hex(), state.st_nlink]
            path.chmod(mode)
        elif stat.S_ISDIR(state.st_mode):
            path.chmod(0o700)
            content = listing(path)
            path.chmod(mode)
        found[os.fsencode(path.name).hex()] = [mode, kind, content]
    return found


def make(root: Path) -> None:
    (root / "app" / "deep" / "er").mkdir(parents=True)
    (root / "app" / "deep" / "er" / "a.txt").write_text("apple")
    (root / "app" / "empty").touch()
    (root / "app" / "out").symlink_to("/etc/passwd")
    (root / "app" / "up").symlink_to("..")
    os.link(root / "app" / "empty", root / "app" / "twin")
    os.mkfifo(root / "app" / "pipe")
    (root / "app" / os.fsdecode(b"bad\xff name\n")).write_text("x")
    (root / "app" / ("long" * 60)).write_text("x")
    script = root / "app" / "run.sh"
    script.write_text("#!/bin/sh\n")
    script.chmod(0o4755)
    secret = root / "shut" / "secret"
    secret.parent.mkdir()
    secret.write_text("kept")
    secret.chmod(0)
    secret.parent.chmod(0)


def main() -> None:
    home = Path(sys.argv[1])
    first = Workspace(home, home / "one" / "1-1")
    first.path.mkdir(parents=True)
    make(first.root)
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(first.root / "app" / "socket"))
    (first.path / "verify").mkdir()
    (first.path / "verify" / "tests.txt").write_text("the evaluator's")
    pack(first, home / "kept" / "1-1.tar.zst", 1 << 20)
    (first.root / "app" / "socket").unlink()
    before = listing(first.root)
    again = Workspace(home, home / "two" / "1-1")
    unpack(home / "kept" / "1-1.tar.zst", again)
    found = {"before": before, "after": listing(again.root), "verify": (again.path / "verify").exists()}
    first.remove()
    again.remove()
    print(json.dumps(found | {"left": [str(path) for path in home.rglob("*") if path.name == "root"]}))


main()
