"""Modules stay small enough to read in one sitting, and are named for what they do."""

from sources import text_of, tracked_files

MAX_LINES = 600
CODE = {".py", ".js", ".css", ".html"}
#: Path → why it may be longer. Empty is the goal.
EXEMPT: dict[str, str] = {}


def test_no_module_exceeds_600_lines() -> None:
    lengths = {
        str(path): text_of(path).count("\n")
        for path in tracked_files()
        if path.suffix in CODE and "migrations" not in path.parts and str(path) not in EXEMPT
    }
    assert {name: lines for name, lines in lengths.items() if lines > MAX_LINES} == {}


def test_every_module_says_what_it_is_for() -> None:
    silent = [
        str(path)
        for path in tracked_files()
        if path.suffix == ".py"
        and "migrations" not in path.parts
        and path.name != "apps.py"
        and "tasksets" not in path.parts
        and text_of(path).strip()
        and not text_of(path).removeprefix("#!/usr/bin/env python3\n").lstrip().startswith(('"""', 'r"""'))
    ]
    assert silent == []


def test_no_module_is_a_drawer_for_odds_and_ends() -> None:
    drawers = {"utils", "util", "helpers", "misc", "common"}
    assert [str(path) for path in tracked_files() if path.suffix == ".py" and path.stem in drawers] == []
