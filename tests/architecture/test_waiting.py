"""Tests wait with the one helper that has a bound and says what it waited for: nobody sleeps in a loop of their own."""

import ast
from collections.abc import Iterator

import pytest

from tests.architecture.sources import text_of, tracked_files

HELPER = "tests/support/waiting.py"
#: Loops whose sleep is what they are about; none of them waits for a condition.
HONEST = {
    "tests/faults/test_chaos.py": "keeps processes silent for the seconds of its plan",
    "tests/faults/test_many_clients_reconnect.py": "clients that try again after a while, as harnesses do",
    "tests/harness/starts_sandboxes.py": "a program that starts sandboxes until it is killed",
    "tests/harness/test_leftovers.py": "strikes at different moments of a start",
}


def sleeping_loops(source: str) -> Iterator[int]:
    """Lines of the sleeps inside loops."""
    for loop in ast.walk(ast.parse(source)):
        if isinstance(loop, ast.While | ast.For | ast.AsyncFor):
            for node in ast.walk(loop):
                if isinstance(node, ast.Call) and ast.unparse(node.func).rpartition(".")[2] == "sleep":
                    yield node.lineno


def test_nobody_but_the_helper_sleeps_in_a_loop() -> None:
    names = [str(path) for path in tracked_files() if path.suffix == ".py" and path.parts[0] == "tests"]
    found = {name: sorted(lines) for name in names if (lines := set(sleeping_loops(text_of(name))))}
    assert found.keys() == {HELPER, *HONEST}, found


@pytest.mark.parametrize(
    ("source", "lines"),
    [
        ("while not done():\n    time.sleep(1)", [2]),
        ("for _ in range(9):\n    if done():\n        break\n    await asyncio.sleep(1)", [4]),
        ("while True:\n    sleep(1)", [2]),
        ("time.sleep(1)\nwhile not done():\n    look()", []),
    ],
)
def test_what_is_found(source: str, lines: list[int]) -> None:
    assert list(sleeping_loops(source)) == lines
