"""Which rules decided: a fingerprint of the code of `scheduler.core` that decides, stored beside each snapshot.

Other rules may decide otherwise on the same snapshot, so a replay compares only what the present rules decided.
"""

import hashlib
from functools import cache
from pathlib import Path

import scheduler.core


@cache
def fingerprint() -> str:
    """The same for the same code, on any machine."""
    root = Path(scheduler.core.__path__[0])
    digest = hashlib.sha256()
    for path in sorted(root.rglob("*.py")):
        digest.update(path.relative_to(root).as_posix().encode() + b"\0" + path.read_bytes() + b"\0")
    return digest.hexdigest()[:16]
