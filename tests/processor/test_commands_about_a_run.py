"""Commands that take the number of a run refuse one that there is not, all in the same words."""

from pathlib import Path

import pytest
from django.core.management import CommandError, call_command


@pytest.mark.django_db
@pytest.mark.parametrize(
    "command",
    [
        "export 999 --out {out}",
        "export_policy 999 --out {out}",
        "replay_decisions 999",
        "replay_draws --run 999",
        "report 999",
        "verify_run 999",
    ],
)
def test_an_unknown_run_is_refused(command: str, tmp_path: Path) -> None:
    with pytest.raises(CommandError, match=r"^there is no run 999$"):
        call_command(*command.format(out=tmp_path / "out").split())
    assert not list(tmp_path.iterdir())
