"""What went wrong with an embedded server, in words that say what to do."""

import shutil
from pathlib import Path

MIN_FREE_BYTES = 256 * 1024**2


class EmbeddedError(Exception):
    """An embedded server cannot start or has died. The text is meant for a terminal."""


def require_disk(directory: Path) -> None:
    """Raise EmbeddedError when the file system of `directory` has too little room for a database."""
    free = shutil.disk_usage(directory).free
    if free < MIN_FREE_BYTES:
        raise EmbeddedError(
            f"the disk is full: {free // 1024**2} MB free at {directory}, at least {MIN_FREE_BYTES // 1024**2} MB "
            "needed. Free some space, or set GYRE_HOME to a directory on another disk."
        )


def died(name: str, log: Path, lines: int = 12) -> EmbeddedError:
    """The error for a server that ended during its start, with the end of its log."""
    tail = log.read_text(errors="replace").splitlines()[-lines:] if log.exists() else []
    reason = "the disk is full" if any("No space left on device" in line for line in tail) else "it ended at once"
    return EmbeddedError("\n  ".join([f"{name} did not start: {reason}. Last lines of {log}:", *tail]))
