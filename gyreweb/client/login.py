"""Signing in: which server, and the token for it, kept in the user's configuration folder."""

from __future__ import annotations

import os
import sys

import click

from . import config
from .api import Api
from .codes import ExitCode
from .errors import Trouble
from .session import Session


@click.command()
@click.argument("url")
@click.option("--json", "as_json", is_flag=True, help="One JSON value on standard output, for machines.")
def login(url: str, as_json: bool) -> None:
    """Keep the address of a server and a token for it.

    The token comes from GYRE_TOKEN, from standard input, or is asked for. `manage.py create_token` makes one.
    """
    session = Session(url, as_json)
    found = config.Login(config.normal(url), _token())
    if config.is_readable_on_the_way(found.url):
        session.say(
            f"{found.url} is plain http to another machine: the token can be read on its way. Better use https."
        )
    Api(found).get("runs", limit=1)
    kept = config.store(found)
    session.result(
        {"url": found.url, "path": str(kept)}, lambda: session.line(f"Signed in to {found.url}; kept in {kept}.")
    )


def _token() -> str:
    given = os.environ.get("GYRE_TOKEN", "")
    if not given:
        asked = sys.stdin.isatty()
        given = click.prompt("Token", hide_input=True, err=True) if asked else sys.stdin.readline()
    token = given.strip()
    if not token or not token.isascii() or not token.isprintable() or " " in token:
        raise Trouble(
            ExitCode.USAGE, "give the token in GYRE_TOKEN or on standard input; `manage.py create_token` makes one"
        )
    return token


@click.command()
@click.option("--json", "as_json", is_flag=True, help="One JSON value on standard output, for machines.")
def logout(as_json: bool) -> None:
    """Forget the kept server and token. The token itself stays valid until it is revoked."""
    session = Session(None, as_json)
    existed = config.forget()
    session.result(
        {"forgotten": existed}, lambda: session.line("Forgotten." if existed else "There was nothing to forget.")
    )
