"""Where on the disk the file system places what is made in a folder.

ext4 puts a folder's folders near each other, and does not use an inode again for minutes after its file is deleted: it
steps over each of them, one by one. Where hundreds of attempts a minute make and delete their trees side by side, that
costs more than all else about the files. Folders below one with the flag `T` (chattr(1)) are each placed elsewhere.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_GET_FLAGS, _SET_FLAGS = 0x8008_6601, 0x4008_6602
_TOP_OF_HIERARCHIES = 0x0002_0000


def spread_folders(place: Path) -> None:
    """Have the folders of `place` kept apart on the disk, where its file system knows of that."""
    with contextlib.suppress(OSError), _opened(place) as number:
        flags = _flags(number)
        if not flags & _TOP_OF_HIERARCHIES:
            fcntl.ioctl(number, _SET_FLAGS, struct.pack("l", flags | _TOP_OF_HIERARCHIES))


def spreads_folders(place: Path) -> bool:
    """Whether the folders of `place` are kept apart. Raises OSError where the file system knows nothing of that."""
    with _opened(place) as number:
        return bool(_flags(number) & _TOP_OF_HIERARCHIES)


def _flags(number: int) -> int:
    # The kernel writes an int, although the request's number says long.
    return int(struct.unpack_from("i", fcntl.ioctl(number, _GET_FLAGS, bytes(struct.calcsize("l"))))[0])


@contextmanager
def _opened(place: Path) -> Iterator[int]:
    number = os.open(place, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        yield number
    finally:
        os.close(number)
