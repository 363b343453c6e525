"""`python -m gyreweb.supervisor up|stop|status|clean-data`; ONCE, SEED and PRESET are environment variables."""

import argparse
import sys

from gyreweb.supervisor import down
from gyreweb.supervisor.up import Options, up

COMMANDS = {
    "up": lambda: up(Options.from_environment()),
    "stop": down.stop,
    "status": down.status,
    "clean-data": down.clean_data,
}


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m gyreweb.supervisor", description=__doc__)
    parser.add_argument("command", choices=COMMANDS)
    return COMMANDS[parser.parse_args().command]()


if __name__ == "__main__":
    sys.exit(main())
