"""The command `gyre`: its sub-commands, and how it ends."""

from __future__ import annotations

import sys

import click

from . import __version__, compare, executions, export, login, overrides, runs, watch
from .codes import MEANINGS, ExitCode
from .errors import Trouble

CODES = "\n".join(f"  {int(code):>3}  {meaning.replace('`', '')}" for code, meaning in MEANINGS.items())


@click.group(
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110},
    epilog=f"\b\nExit codes:\n{CODES}",
)
@click.version_option(__version__, prog_name="gyre")
def gyre() -> None:
    """Launch, watch, steer and compare runs of a Gyre, over its REST API.

    The server and the token are those of `gyre login URL`, or of GYRE_URL and GYRE_TOKEN.
    """


for command in (
    login.login, login.logout, runs.launch, runs.list_runs, runs.show, watch.watch, watch.wait, watch.gate,
    compare.compare, runs.stop, runs.pause, runs.resume, overrides.override, executions.tree, executions.tokens,
    export.export, runs.open_page,
):  # fmt: skip
    gyre.add_command(command)


def main() -> int:
    """Runs the command; its exit code is one of gyreweb.client.codes."""
    try:
        gyre.main(prog_name="gyre", standalone_mode=False)
    except (click.Abort, KeyboardInterrupt):
        click.echo("gyre: interrupted", err=True)
        return int(ExitCode.INTERRUPTED)
    except click.UsageError as error:
        error.show()
        return int(ExitCode.USAGE)
    except Trouble as error:
        click.echo(f"gyre: {error.message}", err=True)
        return int(error.code)
    except BrokenPipeError:  # the reader of our output left
        sys.stdout = None  # nothing is flushed to it at the end
        return int(ExitCode.REFUSED)
    return int(ExitCode.PASSED)
