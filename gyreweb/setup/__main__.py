"""`python3 -m gyreweb.setup [--dev] [--without-cells]`: make this checkout ready to run."""

import argparse
import fcntl
import sys
import time

from gyreweb.setup import stages, system
from gyreweb.setup.errors import SetupFailed

OLDEST = (3, 11)


def say(text: str) -> None:
    print(f"setup: {text}", file=sys.stderr, flush=True)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python3 -m gyreweb.setup", description=__doc__)
    parser.add_argument("--dev", action="store_true", help="also what tests and checks need")
    parser.add_argument("--without-cells", action="store_true", help="control plane only: no torch, no engines")
    options = parser.parse_args()
    started = time.monotonic()
    try:
        if sys.version_info < OLDEST:
            raise SetupFailed(f"Python 3.11 is needed, this is {sys.version.split()[0]}")
        wanted = [system.VENV, *system.RUNTIME]
        wanted += [] if options.without_cells else system.CELLS
        wanted += [system.BROWSER] if options.dev else []
        with (stages.ROOT / ".venv.lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            system.require(wanted, say)
            stages.run_all(stages.stages(with_dev=options.dev, with_cells=not options.without_cells), say)
    except SetupFailed as error:
        say(str(error))
        return 1
    except KeyboardInterrupt:
        say("interrupted; the next `make setup` goes on from here")
        return 130
    if (elapsed := time.monotonic() - started) > 2:
        say(f"ready after {elapsed:.0f} s")
    return 0


if __name__ == "__main__":
    sys.exit(main())
