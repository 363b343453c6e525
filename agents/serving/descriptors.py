"""How many files and sockets this process may have open."""

from __future__ import annotations

import resource

#: What a server keeps of its descriptors for files, databases and whatever else it opens itself.
RESERVED = 96
#: More connections at once are not taken however many descriptors there are.
MAX_CONNECTIONS = 16_384


def raise_limit() -> int:
    """Raise the soft limit of open files to the hard one. Returns what holds now."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    return hard


def connections_for(open_files: int, each: int = 1) -> int:
    """How many clients such a limit has room for when every client takes `each` descriptors."""
    if open_files < 0:  # RLIM_INFINITY
        return MAX_CONNECTIONS
    return max(8, min(MAX_CONNECTIONS, (open_files - min(RESERVED, open_files // 2)) // each))
