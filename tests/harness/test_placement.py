"""Trees of attempts lie apart on the disk: ext4 steps over every inode that was deleted near a new one."""

from pathlib import Path

import pytest

from agents.harness.sandbox.placement import spread_folders, spreads_folders
from agents.harness.sandbox.workspace import Workspace


def test_attempts_lie_apart_and_each_attempts_own_folders_do_not(tmp_path: Path) -> None:
    try:
        spreads_folders(tmp_path)
    except OSError:
        pytest.skip("this file system has no such flag")
    workspace = Workspace(tmp_path, tmp_path / "executions" / "1-1")
    workspace.begin()
    (workspace.path / "root").mkdir()
    assert spreads_folders(workspace.area)
    assert not spreads_folders(workspace.path)
    assert not spreads_folders(workspace.path / "root")
    workspace.begin()
    assert spreads_folders(workspace.area)


def test_a_file_system_without_the_flag_is_left_as_it_is() -> None:
    with pytest.raises(OSError, match="Inappropriate ioctl"):
        spreads_folders(Path("/proc/self"))
    spread_folders(Path("/proc/self"))
