"""Embedded servers of a test's own, in a directory of mode 0700."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from gyreweb import embedded
from gyreweb.supervisor import record


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """An empty GYRE_HOME below a 0700 directory, with nothing in the environment that names a server."""
    for variable in ("DATABASE_URL", "REDIS_URL", "GYRE_PG_PORT", "GYRE_VALKEY_PORT"):
        monkeypatch.delenv(variable, raising=False)
    tmp_path.chmod(0o700)
    directory = tmp_path / "home"
    monkeypatch.setenv("GYRE_HOME", str(directory))
    yield directory
    record.kill_marked(record.read(directory))
    embedded.stop_if_unused(directory)
