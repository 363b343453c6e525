"""The host identity of everything that runs in sandboxes."""

from __future__ import annotations

import os
from pathlib import Path

#: An unused number in the range that distributions keep for transient users.
DEFAULT_UID = 65_530


def sandbox_uid() -> int | None:
    """The unprivileged user and group of sandboxes where Gyre is root (`GYRE_SANDBOX_UID`). Else None: its own."""
    if os.geteuid() != 0:
        return None
    uid = int(os.environ.get("GYRE_SANDBOX_UID", DEFAULT_UID))
    if uid <= 0:
        raise ValueError(f"GYRE_SANDBOX_UID is {uid}: sandboxes need an unprivileged user")
    return uid


def hand_over(path: Path, uid: int | None) -> None:
    """Make the sandbox identity the owner of one path. Only for paths that no sandbox has touched yet."""
    if uid is not None:
        os.chown(path, uid, uid, follow_symlinks=False)
