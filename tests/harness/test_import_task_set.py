"""Importing task sets: bundled by name, from a directory, once per content, and refused by name."""

from __future__ import annotations

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
