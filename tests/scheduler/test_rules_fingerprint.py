"""The fingerprint of the rules changes with what they do, and not with how they are explained."""

import pytest

from scheduler.rules import fingerprint, fingerprint_of

RULE = '''"""Launch."""

class Launch:
    """One."""

    def count(self, places: int) -> int:
        """Executions that may start."""
        return places - 1  # one stays free
'''


@pytest.mark.parametrize(
    ("what", "by"),
    [
        ("  # one stays free", ""),
        ('"""Launch."""', '"""Launch the oldest."""'),
        ('        """Executions that may start."""\n', ""),
        ('    """One."""\n\n', "\n\n"),
        ("return places - 1", "return (places\n            - 1)"),
    ],
)
def test_comments_docstrings_and_layout_do_not_count(what: str, by: str) -> None:
    assert what in RULE
    assert fingerprint_of({"launch.py": RULE.replace(what, by)}) == fingerprint_of({"launch.py": RULE})


@pytest.mark.parametrize(("what", "by"), [("places - 1", "places - 2"), ("count", "num"), ("int)", "float)")])
def test_code_counts(what: str, by: str) -> None:
    assert fingerprint_of({"launch.py": RULE.replace(what, by)}) != fingerprint_of({"launch.py": RULE})


def test_names_and_the_set_of_modules_count() -> None:
    one = fingerprint_of({"launch.py": RULE})
    assert one != fingerprint_of({"dispatch.py": RULE}) != fingerprint_of({"launch.py": RULE, "dispatch.py": ""})


def test_the_rules_have_one() -> None:
    assert len(fingerprint()) == 16
