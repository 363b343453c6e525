"""Ends embedded servers whose last user was killed: `python watcher.py <lock of the living> <home>`.

Every user holds a shared lock on the file; the kernel drops it however the user ends. This process waits for the
exclusive one, which costs nothing, and only then loads what it needs to stop servers. It is a program of its own, so
that no signal, terminal or crash of a user reaches it.
"""

import fcntl
import os
import site
import sys
from pathlib import Path


def wait_for_the_last_user(alive: int) -> None:
    fcntl.flock(alive, fcntl.LOCK_EX)
    fcntl.flock(alive, fcntl.LOCK_UN)


def main(path: str, home: str) -> int:
    os.chdir("/")
    alive = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    while True:
        wait_for_the_last_user(alive)
        site.main()
        sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
        from gyreweb.embedded.lifecycle import stop_what_nobody_uses

        if stop_what_nobody_uses(Path(home), alive):
            return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
