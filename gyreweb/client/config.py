"""Which server, with which token: the environment, else what `gyre login` kept in the user's configuration folder."""

from __future__ import annotations

import json
import os
from dataclasses import asdict, dataclass
from pathlib import Path
from urllib.parse import urlsplit

import click

from .codes import ExitCode
from .errors import Trouble

LOOPBACK = ("localhost", "127.0.0.1", "::1")


@dataclass(frozen=True)
class Login:
    url: str
    token: str


def path() -> Path:
    return Path(click.get_app_dir("gyre")) / "login.json"


def chosen(url: str | None = None) -> Login:
    """GYRE_URL and GYRE_TOKEN win. The kept token is sent to the server that it was kept for, and to no other."""
    kept = load()
    url = normal(url or os.environ.get("GYRE_URL") or (kept.url if kept else ""))
    if not url:
        raise Trouble(ExitCode.USAGE, "say which server: `gyre login URL`, or set GYRE_URL and GYRE_TOKEN")
    token = os.environ.get("GYRE_TOKEN") or (kept.token if kept and kept.url == url else "")
    if not token:
        raise Trouble(ExitCode.NOT_AUTHORISED, f"there is no token for {url}: `gyre login {url}`, or set GYRE_TOKEN")
    if not token.isascii() or not token.isprintable() or " " in token:
        raise Trouble(ExitCode.NOT_AUTHORISED, "this is no token: it holds spaces or other characters; copy it again")
    return Login(url, token)


def load() -> Login | None:
    try:
        found = json.loads(path().read_text())
        return Login(str(found["url"]), str(found["token"]))
    except FileNotFoundError:
        return None
    except (OSError, ValueError, KeyError, TypeError) as error:
        message = f"{path()} cannot be read ({error}); delete it and `gyre login URL` again"
        raise Trouble(ExitCode.USAGE, message) from error


def store(login: Login) -> Path:
    """Readable by nobody else, also while it is being written."""
    kept = path()
    kept.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    fresh = kept.with_name(kept.name + ".new")
    fresh.unlink(missing_ok=True)
    with os.fdopen(os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
        json.dump(asdict(login), file)
    fresh.replace(kept)
    return kept


def forget() -> bool:
    """Whether there was something to forget."""
    existed = path().exists()
    path().unlink(missing_ok=True)
    return existed


def normal(url: str) -> str:
    """Without the slash at its end. Raises Trouble for what is no address of a server."""
    url = url.strip().rstrip("/")
    parts = urlsplit(url)
    if url and (parts.scheme not in ("http", "https") or not parts.hostname or parts.query or parts.username):
        raise Trouble(ExitCode.USAGE, f"{url!r} is no address of a server; it looks like http://localhost:8700")
    return url


def is_readable_on_the_way(url: str) -> bool:
    parts = urlsplit(url)
    return parts.scheme == "http" and parts.hostname not in LOOPBACK
