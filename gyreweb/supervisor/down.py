"""`make stop`, `make status` and `make clean-data`, from any terminal."""

import os
import shutil
import signal
import sys
import time

from gyreweb import embedded, env
from gyreweb.embedded.postgres import Postgres
from gyreweb.embedded.valkey import Valkey
from gyreweb.supervisor import record

STOP_TIMEOUT_S = 60.0


def stop() -> int:
    """Stop the supervisor of this GYRE_HOME and every process that a killed one left running."""
    home = env.home()
    mine = record.read(home)
    was_running = record.is_held(home)
    if was_running and mine:
        os.kill(mine.pid, signal.SIGTERM)
        deadline = time.monotonic() + STOP_TIMEOUT_S
        while record.is_held(home):
            if time.monotonic() > deadline:
                print(f"gyre: pid {mine.pid} did not stop within {STOP_TIMEOUT_S:.0f} s", file=sys.stderr)
                return 1
            time.sleep(0.1)
    left_behind = record.kill_marked(mine)
    servers_stopped = embedded.stop_if_unused(home)
    print("Gyre has stopped." if was_running or left_behind else "Gyre was not running.")
    if not servers_stopped:
        print("Its database stays up: another command uses it.")
    return 0


def status() -> int:
    """Exit code 0 when Gyre runs, 3 when it does not."""
    home = env.home()
    running = record.is_held(home)
    mine = record.read(home)
    print(f"home      {home}")
    if running and mine:
        print(f"gyre      runs, pid {mine.pid}")
        print(f"dashboard {mine.web}")
        print(f"proxy     {mine.proxy}")
    for name, server in (("postgres", Postgres(home)), ("valkey", Valkey(home))):
        print(f"{name:9} {f'pid {pid}' if (pid := server.pid()) else 'not running'}")
    if not running:
        print(f"Gyre is not running here ({home}); start it with `make up`.")
    return 0 if running else 3


def clean_data() -> int:
    """Delete everything in GYRE_HOME, after a question on a terminal (or with YES=1)."""
    home = env.home()
    if record.is_held(home) or not embedded.stop_if_unused(home):
        print(f"gyre: something still uses {home}; run `make stop` first", file=sys.stderr)
        return 1
    if not home.exists():
        print(f"{home} does not exist.")
        return 0
    if not home.is_dir():
        print(f"gyre: {home} (GYRE_HOME) is a file, not a folder of Gyre's; nothing was deleted", file=sys.stderr)
        return 1
    if not env.flag("YES"):
        if not sys.stdin.isatty():
            print(f"gyre: set YES=1 to delete {home} without a question", file=sys.stderr)
            return 1
        if input(f"Delete all runs, logs and checkpoints in {home}? [y/N] ").lower() != "y":
            return 1
    try:
        for entry in home.iterdir():
            shutil.rmtree(entry) if entry.is_dir() and not entry.is_symlink() else entry.unlink()
    except OSError as error:
        print(f"gyre: {home} (GYRE_HOME) could not be emptied: {error}", file=sys.stderr)
        return 1
    print(f"{home} is empty.")
    return 0
