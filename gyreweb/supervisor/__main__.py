"""`python -m gyreweb.supervisor up|stop|status|clean-data`; ONCE, SEED and PRESET are environment variables."""

import argparse
import sys

from gyreweb import env
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
    command = COMMANDS[parser.parse_args().command]
    try:
        return command()
    except env.BadEnvironment as error:
        print(f"gyre: {error}", file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main())
