"""Types are checked in the whole product, and every place that is passed over says why."""

import re
import tomllib

from sources import text_of, tracked_files

from gyreweb.env import REPO_ROOT

#: An error that mypy passes over, without a reason behind it.
WITHOUT_REASON = re.compile(r"# type: ignore(\[[a-z,-]*\])?\s*$", re.MULTILINE)


def test_mypy_reads_every_package() -> None:
    project = tomllib.loads((REPO_ROOT / "pyproject.toml").read_text())
    assert set(project["tool"]["mypy"]["files"]) >= set(project["tool"]["importlinter"]["root_packages"])


def test_ignored_types_give_a_reason() -> None:
    product = [path for path in tracked_files() if path.suffix == ".py" and path.parts[0] != "tests"]
    assert [str(path) for path in product if WITHOUT_REASON.search(text_of(path))] == []
