"""Every test has a tier, none waits without bound, and each is dealt out once to processes side by side."""

import re
from pathlib import Path

import pytest

from gyreweb.env import REPO_ROOT
from tests import side_by_side, tiers


def test_every_folder_of_tests_has_a_tier_and_no_other() -> None:
    folders = {path.parent.relative_to(REPO_ROOT / "tests").parts[0] for path in REPO_ROOT.glob("tests/*/**/test_*.py")}
    assert folders - {"fixtures"} == set(tiers.FOLDERS)
    assert set(tiers.FOLDERS.values()) <= set(tiers.TIERS)
    assert [name for name in tiers.FILES if not (REPO_ROOT / "tests" / name).is_file()] == []


def test_a_test_in_a_folder_without_a_tier_fails_the_collection(request: pytest.FixtureRequest) -> None:
    stray = pytest.Function.from_parent(request.node.parent, name="stray", callobj=lambda: None)
    stray.path = Path(request.config.rootpath / "tests" / "stray.py")
    with pytest.raises(pytest.UsageError, match="belongs to no tier"):
        tiers.give_tier(stray)


def test_every_test_is_bounded(request: pytest.FixtureRequest) -> None:
    assert float(request.config.getini("timeout")) > 0
    assert all(seconds > 0 for seconds in tiers.LONGER_S.values())


def test_every_tier_has_its_turn_side_by_side() -> None:
    assert sorted(side_by_side.ORDER) == sorted(tiers.TIERS)


def test_files_that_share_a_fixture_stay_in_one_process_and_others_are_dealt_out_one_by_one() -> None:
    sharing = {
        path.parent.relative_to(REPO_ROOT)
        for path in REPO_ROOT.glob("tests/*/conftest.py")
        if 'scope="package"' in path.read_text()
    }
    assert {f"{folder}/" for folder in sharing} == set(side_by_side.TOGETHER)
    assert {side_by_side.unit(f"{folder}/{name}::test[1]") for folder in sharing for name in ("a.py", "b.py")} == {
        f"{folder}/" for folder in sharing
    }
    assert side_by_side.unit("tests/web/test_pages.py::test[a::b]") == "tests/web/test_pages.py"


def test_tests_with_one_id_fail_the_collection(request: pytest.FixtureRequest) -> None:
    twins = [request.node, request.node]
    side_by_side.refuse_twins(twins[:1])
    with pytest.raises(pytest.UsageError, match=f"several tests have the id {re.escape(request.node.nodeid)}"):
        side_by_side.refuse_twins(twins)
