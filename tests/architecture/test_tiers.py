"""Every test has a tier, and none waits without bound."""

from pathlib import Path

import pytest

from gyreweb.env import REPO_ROOT
from tests import tiers


def test_every_folder_of_tests_has_a_tier_and_no_other() -> None:
    folders = {path.parent.relative_to(REPO_ROOT / "tests").parts[0] for path in REPO_ROOT.glob("tests/*/**/test_*.py")}
    assert folders - {"fixtures"} == set(tiers.FOLDERS)
    assert set(tiers.FOLDERS.values()) <= set(tiers.TIERS)


def test_a_test_in_a_folder_without_a_tier_fails_the_collection(request: pytest.FixtureRequest) -> None:
    stray = pytest.Function.from_parent(request.node.parent, name="stray", callobj=lambda: None)
    stray.path = Path(request.config.rootpath / "tests" / "stray.py")
    with pytest.raises(pytest.UsageError, match="belongs to no tier"):
        tiers.give_tier(stray)


def test_every_test_is_bounded(request: pytest.FixtureRequest) -> None:
    assert float(request.config.getini("timeout")) > 0
    assert all(seconds > 0 for seconds in tiers.LONGER_S.values())
