#!/usr/bin/env python3
"""Django's command line for Gyre: `python3 manage.py help` lists the commands. Runs with the packages of `.venv`."""

import os
import sys
from importlib.util import find_spec
from pathlib import Path

VENV = Path(__file__).resolve().parent / ".venv"
PYTHON = VENV / "bin" / "python"


def use_own_packages() -> None:
    """Go on in the virtual environment when this Python lacks the packages. Ends the process when there is none."""
    if find_spec("django") and find_spec("psycopg"):
        return
    if PYTHON.exists() and Path(sys.prefix).resolve() != VENV.resolve():
        os.execv(PYTHON, [str(PYTHON), *sys.argv])
    print("Gyre is not set up here: run `make setup` first", file=sys.stderr)
    sys.exit(1)


if __name__ == "__main__":
    use_own_packages()
    from gyreweb.commandline import main

    sys.exit(main(sys.argv))
