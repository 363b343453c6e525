"""The host identity of everything that runs in sandboxes."""

from __future__ import annotations

import os
import re
from pathlib import Path

#: An unused number in the range that distributions keep for transient users.
DEFAULT_UID = 65_530
#: The one above means "no user" to the kernel.
MAX_UID = 2**32 - 2


def sandbox_uid() -> int | None:
    """The unprivileged user and group of sandboxes where Gyre is root (`GYRE_SANDBOX_UID`). Else None: its own.

    Raises ValueError for a value that is no such number.
    """
    if os.geteuid() != 0:
        return None
    raw = os.environ.get("GYRE_SANDBOX_UID") or str(DEFAULT_UID)
    if not re.fullmatch(r"[0-9]{1,10}", raw) or not 0 < int(raw) <= MAX_UID:
        raise ValueError(f"GYRE_SANDBOX_UID={raw!r} is no number of an unprivileged user, 1 to {MAX_UID}")
    return int(raw)


def hand_over(path: Path, uid: int | None) -> None:
    """Make the sandbox identity the owner of one path. Only for paths that no sandbox has touched yet."""
    if uid is not None:
        os.chown(path, uid, uid, follow_symlinks=False)
