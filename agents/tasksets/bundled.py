"""Bundled task sets are generated, not kept: written where they are missing or not what the generator writes."""

from __future__ import annotations

import fcntl
import hashlib
import os
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from agents.harness.taskformat.directory import digest
from agents.harness.taskformat.problems import BadTask
from agents.tasksets import quickstart

NAMES = ("quickstart",)
#: Of the set that the generator writes from its default seed. Whoever changes the generator on purpose changes it here.
QUICKSTART_DIGEST = "751c822483f8a4390702420e0f6f21997f911ca4779dc840b66e58ea092b96ad"
_SPLITS = ("train", "heldout")


def set_digest(tasks: Iterable[tuple[str, str, str]]) -> str:
    """Digest of a set, from the split, name and digest of each of its tasks in order."""
    return hashlib.sha256("\n".join(" ".join(task) for task in tasks).encode()).hexdigest()


def provide_quickstart(folder: Path = quickstart.FOLDER) -> Path:
    """The folder of the quickstart set, written if need be. It is whole whenever it is there. Raises OSError."""
    if is_whole(folder):
        return folder
    folder.parent.mkdir(parents=True, exist_ok=True)
    with _alone_in(folder.parent), tempfile.TemporaryDirectory(prefix=f".{folder.name}-", dir=folder.parent) as place:
        if not is_whole(folder):
            fresh = Path(place) / "new"
            quickstart.write_quickstart(fresh)
            with suppress(FileNotFoundError):
                folder.rename(Path(place) / "old")
            fresh.rename(folder)
    return folder


@contextmanager
def _alone_in(place: Path) -> Iterator[None]:
    """Of several processes that find the set missing, one writes it, and the others wait for that."""
    handle = os.open(place, os.O_RDONLY)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)


def is_whole(folder: Path) -> bool:
    """Whether `folder` holds the quickstart set and nothing else in its tasks."""
    try:
        found = [(split, path.name, digest(path)) for split in _SPLITS for path in sorted((folder / split).iterdir())]
    except (OSError, BadTask):
        return False
    return set_digest(found) == QUICKSTART_DIGEST
