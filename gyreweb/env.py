"""Environment variables, read loudly: a value that does not parse stops the process with the variable's name."""

import os
from pathlib import Path

REPO_ROOT = Path(__file__).resolve().parent.parent


class BadEnvironment(SystemExit):
    """An environment variable has a value that Gyre cannot use; the message names it and the allowed form."""


def text(name: str, default: str = "") -> str:
    return os.environ.get(name, "") or default


def integer(name: str, default: int) -> int:
    raw = os.environ.get(name, "")
    try:
        return int(raw) if raw else default
    except ValueError:
        raise BadEnvironment(f"{name}={raw!r} is not a whole number") from None


def flag(name: str, default: bool = False) -> bool:
    raw = os.environ.get(name, "").lower()
    if raw in ("", "0", "false", "no", "off"):
        return default if raw == "" else False
    if raw in ("1", "true", "yes", "on"):
        return True
    raise BadEnvironment(f"{name}={raw!r} is not one of 0, 1, true, false, yes, no, on, off")


def home() -> Path:
    """Directory of everything that a running Gyre writes: `GYRE_HOME`, or `var/` in the repository."""
    raw = os.environ.get("GYRE_HOME", "")
    return Path(raw).expanduser().resolve() if raw else REPO_ROOT / "var"
