"""`manage.py`: starts the embedded servers for the commands that need them, and says plainly what went wrong."""

import os
import signal
import sys
from collections.abc import Sequence
from contextlib import nullcontext
from types import FrameType

from gyreweb import embedded, env

#: Options that make a command of `WITHOUT_SERVERS` read or write the database after all.
WITH_SERVERS_WHEN = {"simulate": ("--fit-from", "--save")}
#: Commands that never touch the database or the broker. Everything else gets both.
WITHOUT_SERVERS = frozenset(
    {
        "",
        "collectstatic",
        "compilemessages",
        "diffsettings",
        "doctor",
        "findstatic",
        "help",
        "make_policy",
        "makemessages",
        "simulate",
        "spectacular",
        "startapp",
        "startproject",
        "version",
    }
)


def main(argv: Sequence[str]) -> int:
    """Run one management command; returns the exit code."""
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "gyreweb.settings")
    signal.signal(signal.SIGTERM, _leave)
    try:
        with embedded.servers() if needs_servers(argv[1:]) else nullcontext() as urls:
            if urls is not None:
                os.environ |= urls.environment()
            return _run(argv)
    except (embedded.EmbeddedError, env.BadEnvironment) as error:
        print(f"gyre: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130


def needs_servers(arguments: Sequence[str]) -> bool:
    asks_for_help = any(argument in ("-h", "--help") for argument in arguments)
    command = next((argument for argument in arguments if not argument.startswith("-")), "")
    options = {argument.partition("=")[0] for argument in arguments}
    if options & set(WITH_SERVERS_WHEN.get(command, ())):
        return not asks_for_help
    return not asks_for_help and command not in WITHOUT_SERVERS


def _run(argv: Sequence[str]) -> int:
    from django.core.management import execute_from_command_line
    from django.db.utils import OperationalError, ProgrammingError

    try:
        execute_from_command_line(list(argv))
    except OperationalError as error:
        print(f"gyre: the database does not answer (DATABASE_URL): {str(error).strip()}", file=sys.stderr)
        return 1
    except ProgrammingError as error:
        if getattr(error.__cause__, "sqlstate", "") != "42P01":  # undefined table
            raise
        print(
            "gyre: the database has no tables yet: run `.venv/bin/python manage.py migrate`, "
            "or start Gyre with `make up`.",
            file=sys.stderr,
        )
        return 1
    return 0


def _leave(_signal: int, _frame: FrameType | None) -> None:
    """TERM ends a command like an exit, so that the last user still stops the servers."""
    sys.exit(143)
