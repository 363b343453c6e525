"""Importing task sets: bundled by name, from a directory, once per content, and refused by name."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from agents.actions.import_task_set import BadTaskSet, import_task_set
from agents.models import Task, TaskSet
from tests.harness.rows import write_task

pytestmark = pytest.mark.django_db


def test_the_bundled_set_has_training_and_held_out_tasks() -> None:
    task_set = import_task_set("quickstart")
    assert task_set.tasks.filter(split=Task.Split.TRAIN).count() >= 200
    assert task_set.tasks.filter(split=Task.Split.HELDOUT).count() == 64
    assert task_set.tasks.exclude(kind="").count() == task_set.tasks.count()
    assert import_task_set("quickstart") == task_set
    assert TaskSet.objects.count() == 1


def test_a_flat_directory_is_for_training(tmp_path: Path) -> None:
    write_task(tmp_path / "My tasks", name="one")
    write_task(tmp_path / "My tasks", name="two", settings='[metadata]\nkind = "easy"')
    task_set = import_task_set(str(tmp_path / "My tasks"))
    assert task_set.name == "my-tasks"
    assert list(task_set.tasks.order_by("name").values_list("name", "split", "kind")) == [
        ("one", "train", ""),
        ("two", "train", "easy"),
    ]


def test_changed_content_is_another_set_and_moved_content_the_same(tmp_path: Path) -> None:
    (tmp_path / "b").mkdir()
    first = import_task_set(str(write_task(tmp_path / "a" / "tasks")))
    moved = (tmp_path / "a" / "tasks").rename(tmp_path / "b" / "tasks")
    second = import_task_set(str(moved))
    assert second.pk == first.pk
    assert second.tasks.get().path == str(moved / "one")
    (moved / "one" / "instruction.md").write_text("Something else.")
    assert import_task_set(str(moved)).pk != first.pk


@pytest.mark.parametrize("name", ["", "nothing", "/nowhere"])
def test_a_missing_set_is_refused_with_the_bundled_names(name: str) -> None:
    with pytest.raises(BadTaskSet, match=r"neither a directory nor a bundled set \(.*quickstart"):
        import_task_set(name)


def test_a_broken_task_is_refused_and_nothing_is_imported(tmp_path: Path) -> None:
    write_task(tmp_path, name="good")
    write_task(tmp_path, name="bad", settings="[agent]\ntimeout_sec = 'soon'")
    with pytest.raises(BadTaskSet, match=r"bad/task.toml:2: agent.timeout_sec: must be a number"):
        import_task_set(str(tmp_path))
    assert not TaskSet.objects.exists()


def test_an_empty_directory_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BadTaskSet, match="holds no task"):
        import_task_set(str(tmp_path))


def test_a_name_in_both_splits_is_refused(tmp_path: Path) -> None:
    for split in ("train", "heldout"):
        write_task(tmp_path / split)
    with pytest.raises(BadTaskSet, match=r"one are in train/ and in heldout/"):
        import_task_set(str(tmp_path))


def _special(task: Path) -> None:
    os.mkfifo(task / "environment" / "pipe")


def _loop(task: Path) -> None:
    (task / "tests" / "loop").symlink_to("loop")


def _deep(task: Path) -> None:
    (task / "task.toml").write_text("a = " + "[" * 5_000 + "]" * 5_000)


def _digits(task: Path) -> None:
    (task / "task.toml").write_text("a = " + "9" * 5_000)


def _huge(task: Path) -> None:
    (task / "task.toml").write_text("[agent]\ntimeout_sec = 1e300\n")


def _nul(task: Path) -> None:
    (task / "task.toml").write_text('[metadata]\nx = ["a\\u0000b"]\n')


def _instruction(task: Path) -> None:
    (task / "instruction.md").write_bytes(b"caf\xe9")


def _nul_instruction(task: Path) -> None:
    (task / "instruction.md").write_bytes(b"a\0b")


def _name(task: Path) -> None:
    task.rename(task.with_name(os.fsdecode(b"caf\xe9")))


def _long_name(task: Path) -> None:
    task.rename(task.with_name("x" * 121))


def _dockerfile(task: Path) -> None:
    (task / "environment" / "Dockerfile").write_text("FROM debian\nENV\n")


def _variable(task: Path) -> None:
    (task / "task.toml").write_text('[verifier.env]\n"A=B" = "x"\n')


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (_special, "one/environment/pipe: is neither a file, a directory nor a link"),
        (_loop, "one/tests/loop: is a link that leads back to itself"),
        (_deep, "one/task.toml: not TOML: nested too deeply"),
        (_digits, "one/task.toml: not TOML"),
        (_huge, "one/task.toml:2: agent.timeout_sec: "),
        (_nul, "one/task.toml:2: metadata.x.0: contains a NUL"),
        (_instruction, "one/instruction.md: is not UTF-8"),
        (_nul_instruction, "one/instruction.md: contains a NUL"),
        (_name, "caf\\udce9: is no name of a task"),
        (_long_name, "is no name of a task: at most 120 printable characters"),
        (_dockerfile, "one/environment/Dockerfile:2: ENV "),
        (_variable, "one/task.toml:1: verifier.env: 'A=B' "),
    ],
)
def test_any_damage_is_that_tasks_message_and_others_are_still_named(
    damage: Callable[[Path], None], message: str, tmp_path: Path
) -> None:
    damage(write_task(tmp_path) / "one")
    write_task(tmp_path, name="two", test="no shebang")
    with pytest.raises(BadTaskSet) as refused:
        import_task_set(str(tmp_path))
    assert message in str(refused.value)
    assert "two/tests/test.sh:1: needs a shebang" in str(refused.value)
    assert not TaskSet.objects.exists()


@pytest.mark.parametrize("name", ["~nobody-has-this-name/x", "/" + "x" * 5_000, "a\0b", "/tmp/\udce9"])
def test_a_set_that_no_path_leads_to_is_refused(name: str) -> None:
    with pytest.raises(BadTaskSet, match="task set"):
        import_task_set(name)


def test_what_json_does_not_have_is_kept_as_text(tmp_path: Path) -> None:
    settings = "[metadata]\nday = 2026-01-02\nat = [2026-01-02T03:04:05Z]\nx = nan\nbig = " + "9" * 30
    config = import_task_set(str(write_task(tmp_path, settings=settings))).tasks.get().config
    assert config["metadata"] == {"day": "2026-01-02", "at": ["2026-01-02 03:04:05+00:00"], "x": "nan", "big": "9" * 30}


def test_what_is_read_otherwise_than_in_a_container_is_told_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    for name in ("one", "two"):
        task = write_task(tmp_path, name=name, settings="strange = 1") / name
        dockerfile = "FROM debian\nENV PYTHONPATH=/app\nCOPY no*.json /app/\n"
        (task / "environment" / "Dockerfile").write_text(dockerfile)
    import_task_set(str(tmp_path))
    warnings = [record.getMessage().partition(": ")[2] for record in caplog.records]
    assert warnings == [
        "strange: unknown key, kept and not used (one/task.toml:1)",
        "FROM debian: the host system stands in for the image (one/environment/Dockerfile:1)",
        "COPY no*.json: matches no file (one/environment/Dockerfile:3)",
        "ENV PYTHONPATH holds for the verifier too: it may load code that the agent has left there. "
        "A separate verifier does not (one/environment)",
    ]
    caplog.clear()
    import_task_set(str(tmp_path))
    assert caplog.records == []
