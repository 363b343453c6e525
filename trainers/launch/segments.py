"""Segments of shared memory that killed engines left in /dev/shm, where cells have no /dev/shm of their own.

Removed is only what has an engine's name, belongs to this user, is mapped by no process and has rested for a while: one
that was just made may not be mapped yet.
"""

import contextlib
import os
import re
import time
from pathlib import Path

SHARED_MEMORY = Path("/dev/shm")
NAMES = re.compile(r"sglang_loads_[0-9a-f]{12}_[0-9a-f]{8}\.shm|torch_[0-9]+_[0-9]+_[0-9]+")
RESTS_S = 60.0


def clear(folder: Path = SHARED_MEMORY, rests_s: float = RESTS_S) -> list[str]:
    """Remove what nobody uses any more; returns the names."""
    before = time.time() - rests_s
    candidates = [path for path in _listed(folder) if NAMES.fullmatch(path.name) and _is_old_and_ours(path, before)]
    if not candidates:
        return []
    mapped = _mapped(folder)
    removed = [path for path in candidates if str(path) not in mapped]
    for path in removed:
        path.unlink(missing_ok=True)
    return sorted(path.name for path in removed)


def _listed(folder: Path) -> list[Path]:
    return list(folder.iterdir()) if folder.is_dir() else []


def _is_old_and_ours(path: Path, before: float) -> bool:
    try:
        status = path.lstat()
    except OSError:
        return False
    return status.st_uid == os.geteuid() and status.st_mtime < before


def _mapped(folder: Path) -> set[str]:
    """Paths below `folder` that processes of this machine have mapped or open."""
    found = set()
    for place in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            for line in (place / "maps").read_text().splitlines():
                path = line.partition("/")
                if (name := f"/{path[2]}").startswith(f"{folder}/"):
                    found.add(name)
        with contextlib.suppress(OSError):
            for file in (place / "fd").iterdir():
                with contextlib.suppress(OSError):
                    found.add(os.readlink(file))
    return found
