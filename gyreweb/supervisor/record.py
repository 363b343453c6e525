"""Who supervises this GYRE_HOME: a lock that dies with its holder, and a record of what it started.

Children carry a random token in their environment. A process is touched only if it has the token of our record: pids
and names are never trusted alone.
"""

import fcntl
import json
import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

from agents.harness.sandbox import processes
from agents.harness.sandbox.base import SUPERVISOR_MARK
from gyreweb import homefolder
from gyreweb.supervisor.errors import CannotStart

TOKEN_VARIABLE = SUPERVISOR_MARK


@dataclass(frozen=True)
class Record:
    pid: int
    token: str
    web: str
    proxy: str


def record_path(home: Path) -> Path:
    return home / "run" / "supervisor.json"


def read(home: Path) -> Record | None:
    try:
        return Record(**json.loads(record_path(home).read_text()))
    except (OSError, ValueError, TypeError):
        return None


def is_held(home: Path) -> bool:
    """Whether a supervisor of this home is alive."""
    path = _lock_path(home)
    if not path.exists():
        return False
    descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    try:
        return not _lock(descriptor)
    finally:
        os.close(descriptor)


@contextmanager
def held(home: Path, web: str, proxy: str) -> Iterator[Record]:
    """Be the supervisor of `home`. Raises CannotStart when there is one already."""
    homefolder.prepared(home)
    descriptor = os.open(_lock_path(home), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        if not _lock(descriptor):
            raise CannotStart(already_running(home))
        kill_marked(read(home))
        record = Record(pid=os.getpid(), token=secrets.token_hex(16), web=web, proxy=proxy)
        _replace(record_path(home), json.dumps(asdict(record)))
        try:
            yield record
        finally:
            record_path(home).unlink(missing_ok=True)
    finally:
        os.close(descriptor)


def already_running(home: Path) -> str:
    record = read(home)
    where = f" (pid {record.pid}, dashboard {record.web})" if record else ""
    return f"Gyre already runs in {home}{where}. Stop it with `make stop`, or set GYRE_HOME to start another one."


def marked(record: Record) -> list[int]:
    """Pids of every live process that carries the record's token."""
    return processes.marked(TOKEN_VARIABLE, record.token)


def kill_marked(record: Record | None) -> int:
    """KILL what is left of the record's children, sandboxes included; returns how many there were."""
    return processes.kill_marked(TOKEN_VARIABLE, record.token) if record else 0


def _lock_path(home: Path) -> Path:
    return home / "run" / "supervisor.lock"


def _lock(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _replace(path: Path, text: str) -> None:
    fresh = path.with_name(f"{path.name}.new")
    fresh.write_text(text)
    fresh.chmod(0o600)
    fresh.replace(path)
