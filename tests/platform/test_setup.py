"""`make setup`: does what is missing, goes on after an interruption, and is quick when nothing has changed."""

import subprocess
import sys
from pathlib import Path

import pytest

from gyreweb.setup import stages
from gyreweb.setup.errors import SetupFailed
from gyreweb.setup.stages import Stage, run_all
from tests.support.waiting import wait_for


@pytest.fixture
def venv(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty place for a virtual environment."""
    place = tmp_path / ".venv"
    monkeypatch.setattr(stages, "VENV", place)
    monkeypatch.setattr(stages, "PYTHON", str(place / "bin" / "python"))
    monkeypatch.setattr(stages, "STAMP", place / "gyre-setup.json")
    return place


def refuse() -> None:
    raise SetupFailed("no network")


def test_finished_stages_are_not_repeated_and_a_failed_one_is(venv: Path) -> None:
    venv.mkdir()
    ran: list[str] = []
    first, second = Stage("first", "1", lambda: ran.append("first")), Stage("second", "1", refuse)
    with pytest.raises(SetupFailed, match="no network"):
        run_all([first, second], print)
    run_all([first, Stage("second", "1", lambda: ran.append("second"))], print)
    run_all([first, Stage("second", "1", refuse)], print)
    assert ran == ["first", "second"]


def test_a_changed_lock_runs_its_stage_again(venv: Path) -> None:
    venv.mkdir()
    ran: list[str] = []
    for fingerprint in ("old", "old", "new"):
        run_all([Stage("lock", fingerprint, lambda: ran.append(fingerprint))], print)  # noqa: B023  called at once
    assert ran == ["old", "new"]


def test_an_unusable_virtual_environment_is_made_anew_and_asks_for_every_stage(venv: Path) -> None:
    create = stages.stages(with_dev=False, with_cells=False)[0]
    run_all([create, Stage("later", "1", lambda: None)], print)
    assert subprocess.run([venv / "bin" / "python", "-m", "pip", "--version"], check=False).returncode == 0
    (venv / "bin" / "python").unlink()
    create.run()
    assert not stages.STAMP.exists()
    program = [venv / "bin" / "python", "-c", "import sys; print(sys.prefix)"]
    assert subprocess.run(program, capture_output=True, text=True, check=False).stdout.strip() == str(venv)


def test_the_command_gyre_is_at_hand_after_the_set_up(venv: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (venv / "bin").mkdir(parents=True)
    monkeypatch.setattr(stages, "PYTHON", sys.executable)
    (script,) = (stage for stage in stages.stages(with_dev=False, with_cells=False) if stage.name == "command gyre")
    run_all([script], print)
    done = subprocess.run([venv / "bin" / "gyre", "--version"], capture_output=True, text=True, check=False, cwd="/")
    assert done.stdout.startswith("gyre, version "), done.stderr


def test_a_missing_module_is_named_with_what_to_do_about_it() -> None:
    with pytest.raises(
        SetupFailed, match=r"(?s)^cells: .*The module no_such_module is missing.*report this.* install "
    ):
        stages._check("cells", "import no_such_module.part")
    with pytest.raises(SetupFailed, match=r"(?s)ZeroDivisionError.*Delete .venv and run `make setup` again"):
        stages._check("cells", "1 / 0")


def test_long_work_off_a_terminal_gives_signs_of_life(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(stages, "HEARTBEAT_S", 0.01)
    seen: list[str] = []

    def tells() -> bool:
        seen.append(capsys.readouterr().err)
        return "still at work after 0 s" in "".join(seen)

    with stages._heartbeat():
        wait_for(tells, "a sign of life")
