"""One discipline for every path and name that a task gives: where it leads inside, and whether it can be used."""

from __future__ import annotations

import posixpath
import re

_USER = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]{0,31}|[0-9]{1,9}")
_LONGEST, _LONGEST_PART = 1_000, 255
_LONGEST_VALUE = 100_000
#: Below these the sandbox shows the host's system read-only, or what belongs to it.
PROGRAMS = ("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32")
SYSTEM = (*PROGRAMS, "/etc", "/proc", "/dev", "/sys")
#: Gyre's own directories of an execution stand there.
RESERVED = ("/tests", "/logs", "/solution")


def inside(path: str, base: str = "/") -> str:
    """Absolute, and without `.`, `..` or doubled slashes. `..` stops at `/`, as for a process in a container."""
    return "/" + posixpath.normpath(posixpath.join("/", base, path)).lstrip("/")


def is_below(path: str, folders: tuple[str, ...]) -> bool:
    return any(path == folder or path.startswith(folder + "/") for folder in folders)


def why_no_path(path: str) -> str | None:
    """What is wrong with a path, for any use."""
    if not path or "\0" in path:
        return "is empty" if not path else "contains a NUL"
    raw = path.encode(errors="surrogateescape")
    if len(raw) > _LONGEST or max(map(len, raw.split(b"/"))) > _LONGEST_PART:
        return f"is longer than {_LONGEST} bytes, or a part of it than {_LONGEST_PART}"
    return None


def why_no_user(name: str) -> str | None:
    return None if _USER.fullmatch(name) else f"{name!r:.80} is no user name"


def why_no_variable(name: str, value: str) -> str | None:
    if not name or "=" in name or "\0" in name:
        return f"{name!r:.80} is no name of an environment variable"
    if "\0" in value:
        return f"{name} contains a NUL"
    if len(name) + len(value.encode(errors="surrogateescape")) > _LONGEST_VALUE:
        return f"{name:.80} is longer than {_LONGEST_VALUE} bytes"
    return None
