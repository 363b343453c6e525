"""One cell host for this folder's tests: real SGLang engines, Megatron trainers, Mooncake transfers and Postgres."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.integration import tiny_policy
from tests.integration.cells import LiveCells, wait_for
from trainers.launch import wire

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="package")
def policy_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_policy.write(tmp_path_factory.mktemp("policy") / "tiny")


@pytest.fixture(scope="package")
def cell_host(gyre_home: Path, django_db_setup: None) -> Iterator[Path]:
    """The running cell host's home. It is ended, and all its children with it, after the last test of this folder."""
    (gyre_home / "logs").mkdir(exist_ok=True)
    cell_log = gyre_home / "logs" / "cellhost.log"
    with cell_log.open("wb") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "trainers.launch.host"],
            cwd=ROOT,
            env={**os.environ, "GYRE_HOME": str(gyre_home)},
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
        )
    try:
        wait_for(lambda: process.poll() is not None or wire.socket_path(gyre_home).exists(), "the cell host listens")
        assert process.poll() is None, cell_log.read_text()[-2000:]
        yield gyre_home
        status = process.poll()
        assert status is None, f"the cell host ended with {status}: {cell_log.read_text()[-3000:]}"
    finally:
        process.terminate()
        process.wait(timeout=60)


@pytest.fixture
def live_cells(cell_host: Path, database_url: str, policy_folder: Path) -> Iterator[LiveCells]:
    """Makes runs with live cells, and ends them after the test."""
    cells = LiveCells(cell_host, database_url, policy_folder)
    try:
        yield cells
    finally:
        cells.stop()
