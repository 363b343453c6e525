"""GYRE_HOME: made private, and known to be writable before anything relies on it."""

import os
import stat
from pathlib import Path

from gyreweb import env

#: What Gyre makes in its home. A folder with anything else in it is not ours alone, and its mode is not changed.
OURS = frozenset({"harnesses", "logs", "postgres", "run", "runs", "secret_key", "staticfiles", "valkey"})
PRIVATE = 0o700
#: Linux, unix(7): `sun_path` without its closing zero.
MAX_SOCKET_BYTES = 107
LONGEST_SOCKET = "run/cellhost.sock"


def prepared(home: Path) -> Path:
    """`home` and its folder `run`, both made if missing, for this user's eyes only. Raises BadEnvironment."""
    if (length := len(os.fsencode(home / LONGEST_SOCKET))) > MAX_SOCKET_BYTES:
        most = MAX_SOCKET_BYTES - len(os.fsencode(LONGEST_SOCKET)) - 1
        raise env.BadEnvironment(
            f"the name of {home} (GYRE_HOME) is too long by {length - MAX_SOCKET_BYTES} bytes: sockets in it may have "
            f"names of {MAX_SOCKET_BYTES} bytes. Set GYRE_HOME to a folder with a name of at most {most} bytes."
        )
    try:
        home.mkdir(parents=True, exist_ok=True, mode=PRIVATE)
        _keep_private(home)
        (home / "run").mkdir(exist_ok=True, mode=PRIVATE)
    except (FileExistsError, NotADirectoryError):
        raise _unusable(home, "it is a file, or lies below one") from None
    except OSError as error:
        raise _unusable(home, (error.strerror or str(error)).lower()) from None
    if not os.access(home, os.W_OK | os.X_OK) or not os.access(home / "run", os.W_OK | os.X_OK):
        raise _unusable(home, "its disk or its mode lets this user only read")
    return home


def is_open(home: Path) -> bool:
    """Whether other users of this machine may read it."""
    return bool(stat.S_IMODE(home.stat().st_mode) & 0o077)


def _keep_private(home: Path) -> None:
    """Close a folder that an older version, a person's umask or a copy left open."""
    if is_open(home) and home.stat().st_uid == os.geteuid() and {entry.name for entry in home.iterdir()} <= OURS:
        home.chmod(PRIVATE)


def _unusable(home: Path, why: str) -> env.BadEnvironment:
    return env.BadEnvironment(
        f"cannot write to {home} (GYRE_HOME): {why}. Set GYRE_HOME to a folder of your own on a disk with room."
    )
