"""The files that make up the repository."""

import subprocess
from functools import cache
from pathlib import Path

from gyreweb.env import REPO_ROOT

#: Files of others that ship with us; they are as their authors wrote them.
THIRD_PARTY = ("static/vendor/", "tests/fixtures/", "trainers/policy/quickstart/", "LICENSE")


@cache
def tracked_files() -> tuple[Path, ...]:
    """Paths relative to the root, without third-party files."""
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=REPO_ROOT, capture_output=True, text=True, check=True).stdout
    names = [name for name in listed.split("\0") if name and not name.startswith(THIRD_PARTY)]
    return tuple(Path(name) for name in names if (REPO_ROOT / name).is_file())


def text_of(path: Path | str) -> str:
    return (REPO_ROOT / path).read_text(errors="replace")
