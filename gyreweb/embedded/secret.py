"""A random password kept in a file that only its owner can read."""

import os
import secrets
from pathlib import Path


def kept_in(path: Path) -> str:
    """The password in `path`, made on first use. The file appears complete or not at all."""
    if not path.exists():
        fresh = path.with_name(f"{path.name}.{os.getpid()}")
        descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(descriptor, "w") as file:
            file.write(secrets.token_urlsafe(24))
            file.flush()
            os.fsync(file.fileno())
        fresh.replace(path)
    return path.read_text().strip()
