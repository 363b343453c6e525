"""Files of a checkpoint and their hashes: checked by the cells that load it and by export, which loads no torch."""

import hashlib
import json
from pathlib import Path
from typing import Any

#: Version, cursor, and the SHA-256 of every other file; its own hash is the checkpoint's.
STATE = "state.json"


class BadCheckpoint(RuntimeError):
    """The checkpoint is missing or is not what was written; the message names the file."""


def sha256_of_file(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def verified_state(path: Path, sha256: str = "") -> dict[str, Any]:
    """The checkpoint's state, after every file in it was compared with its hash. Raises BadCheckpoint.

    `sha256`: hash of the state as it was committed; "" takes what is there.
    """
    try:
        raw = (path / STATE).read_bytes()
        if sha256 and hashlib.sha256(raw).hexdigest() != sha256:
            raise BadCheckpoint(f"{path / STATE} is not the file that was committed")
        state: dict[str, Any] = json.loads(raw)
        for name, wanted in state["files"].items():
            if sha256_of_file(path / name) != wanted:
                raise BadCheckpoint(f"{path / name} was changed or damaged")
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise BadCheckpoint(f"{path}: {error}") from error
    return state
