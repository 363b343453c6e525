"""What went wrong with an embedded server, in words that say what to do."""

from pathlib import Path

from agents.room import Gauge

#: Sign in a server's log: what it means.
REASONS = {
    "No space left on device": "the disk is full",
    "Address already in use": "its port is taken by another program",
    "Permission denied": "it may not open its port or its files",
}


class EmbeddedError(Exception):
    """An embedded server cannot start or has died. The text is meant for a terminal."""


def require_disk(directory: Path) -> None:
    """Raise EmbeddedError when the file system of `directory` has too little room for a database."""
    try:
        gauge = Gauge(directory)
        is_short = gauge.measure()
    except ValueError as error:  # of its setting
        raise EmbeddedError(str(error)) from error
    if is_short:
        raise EmbeddedError(f"{gauge.message}. Or set GYRE_HOME to a directory on another disk.")


def died(name: str, log: Path, since: int = 0, lines: int = 12) -> EmbeddedError:
    """The error for a server that ended during its start, with the end of what it logged after byte `since`."""
    text = ""
    if log.exists():
        with log.open("rb") as file:
            file.seek(since)
            text = file.read().decode(errors="replace")
    reason = next((why for sign, why in REASONS.items() if sign in text), "it ended at once")
    return EmbeddedError("\n  ".join([f"{name} did not start: {reason}. Its log, {log}:", *text.splitlines()[-lines:]]))
