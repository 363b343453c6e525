"""An export that somebody else made is read wholly and held against the schema before a row is written: one that says
more than it may is refused in a sentence, nothing is half imported, no link is followed, no task set is changed."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth import get_user_model
from django.db.models import JSONField, Value
from django.test import Client

from agents.actions.import_export import import_export
from agents.actions.import_task_set import import_task_set
from agents.exports.folder import BadExport, write
from agents.models import Execution, Group, Project, Run, Task, TaskSet
from agents.web.executions import Filters
from tests.harness.rows import write_task
from tests.processor.records import Made
from tests.support.processed_run import processed_run

pytestmark = pytest.mark.django_db

TABLES = ("tasks", "groups", "executions", "assessments", "calls", "draws", "trajectories")


@pytest.fixture
def made() -> Made:
    return processed_run()


@pytest.fixture
def export(made: Made, tmp_path: Path) -> Export:
    folder = tmp_path / "out"
    write(made.run, folder, "jsonl", Filters(), lambda done, total: None)
    return Export(folder)


class Export:
    """A genuine export, to be tampered with; its digests are made to fit again."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.manifest = json.loads((folder / "manifest.json").read_text())

    def say(self, change: Callable[[Any], Any]) -> None:
        change(self.manifest)
        (self.folder / "manifest.json").write_text(json.dumps(self.manifest))

    def rewrite(self, table: str, change: Callable[[list[Any]], Any]) -> None:
        name = f"{table}/{sorted(path.name for path in (self.folder / table).iterdir())[0]}"
        rows = [json.loads(line) for line in (self.folder / name).read_text().splitlines()]
        change(rows)
        raw = "".join(json.dumps(row) + "\n" for row in rows).encode()
        (self.folder / name).write_bytes(raw)
        fact = {"rows": len(rows), "bytes": len(raw), "sha256": hashlib.sha256(raw).hexdigest()}
        self.say(lambda m: (m["files"][name].update(fact), m["rows"].update({table: len(rows)})))

    def bring(self) -> Run:
        return import_export(self.folder, project=Project.objects.get())


def counts() -> list[int]:
    return [model.objects.count() for model in (Run, TaskSet, Task, Group, Execution)]


def refused(export: Export, match: str) -> None:
    before = counts()
    with pytest.raises(BadExport, match=match) as caught:
        export.bring()
    assert len(str(caught.value)) < 2_000
    assert counts() == before


MANIFESTS: dict[str, tuple[Callable[[Any], Any], str]] = {
    "a config that is a list": (lambda m: m["run"].update(config=[]), "run.config"),
    "a config of another shape": (lambda m: m["run"]["config"].update(steps={"a": 1}), "run.config.steps"),
    "a config with an unknown setting": (lambda m: m["run"]["config"].update(evil=1), "run.config.evil"),
    "a config with an endless number": (
        lambda m: m["run"]["config"].update(learning_rate=float("inf")),
        "run.config.learning_rate",
    ),
    "a config of another version": (lambda m: m["run"].update(config_version=99), "run.config_version"),
    "a look-up as task set": (lambda m: m["run"]["task_set"].update(runs__project__slug="x"), "runs__project__slug"),
    "a task set that is a list": (lambda m: m["run"].update(task_set=[1]), "run.task_set"),
    "a task set by a path": (lambda m: m["run"]["task_set"].update(name="../../etc"), "run.task_set.name"),
    "a seed of 400 digits": (lambda m: m["run"].update(seed=10**400), "run.seed"),
    "a version below zero": (lambda m: m["run"].update(version=-1), "run.version"),
    "a NUL in the reason": (lambda m: m["run"].update(state_reason="a\0b"), "run.state_reason"),
    "a long name": (lambda m: m["run"].update(name="x" * 121), "run.name"),
    "a name that moves the cursor": (lambda m: m["run"].update(name="a\x1b[2Jb"), "run.name"),
    "a name written backwards": (lambda m: m["run"].update(name="a\u202eb"), "run.name"),
    "a time without a zone": (lambda m: m["run"].update(created_at="2026-01-01T00:00:00"), "run.created_at"),
    "another policy than its settings": (lambda m: m["run"].update(policy_kind="colocate"), "run.policy_kind"),
    "no run": (lambda m: m.pop("run"), "run: "),
    "files that are a list": (lambda m: m.update(files=[]), "files"),
    "rows that do not add up": (lambda m: m["rows"].update(calls=7), "rows: 7 calls"),
    "a path upwards": (lambda m: m["files"].update({"../../secret.jsonl": fact(m)}), "not a part of a table"),
    "an absolute path": (lambda m: m["files"].update({"/etc/hostname": fact(m)}), "not a part of a table"),
    "a path through a table": (lambda m: m["files"].update({"calls/../x.jsonl": fact(m)}), "not a part of a table"),
    "a part of another table": (lambda m: m["files"].update({"tasks/part-00009.jsonl": fact(m)}), "not a part"),
    "a complete that is text": (lambda m: m.update(complete="yes"), "complete"),
}


def fact(manifest: Any) -> Any:
    return {"table": "calls", "rows": 0, "bytes": 0, "sha256": "0" * 64}


@pytest.mark.parametrize("case", MANIFESTS)
def test_a_manifest_that_says_more_than_it_may_is_refused_by_field(export: Export, case: str) -> None:
    change, why = MANIFESTS[case]
    export.say(change)
    refused(export, why)


def test_a_manifest_that_is_deep_long_or_no_json_is_refused(export: Export) -> None:
    for raw in (b"[" * 100_000, b'"x"', b"\xff{}", b'{"format": "gyre-export", "format_version": 1}'):
        (export.folder / "manifest.json").write_bytes(raw)
        refused(export, "manifest")


ROWS: dict[str, tuple[str, Any, str]] = {
    "a reward beyond its bound": ("executions", {"reward": 1e10}, "reward: it is beyond"),
    "a reward that is text": ("executions", {"reward": "1e400"}, "reward: inf is no finite number"),
    "a vote without a reward": ("executions", {"reward": None}, "its outcome is complete, its reward None"),
    "a state of its own": ("executions", {"state": "running"}, "it is running with the outcome 'complete'"),
    "an outcome of its own": ("executions", {"outcome": "great"}, "outcome: 'great' is none of"),
    "a count of 400 digits": ("executions", {"num_calls": 10**400}, "num_calls: it is not between"),
    "a count that is text": ("executions", {"num_calls": "3"}, "num_calls: '3' is no integer"),
    "a count that is a yes": ("executions", {"num_calls": True}, "num_calls: True is no integer"),
    "no attempt": ("executions", {"attempt": None}, "attempt: it is null"),
    "a group that is not there": ("executions", {"group": 77}, r"\('training', 77\) is not among the groups"),
    "a NUL in a reason": ("executions", {"reason": "a\0"}, "reason: it holds characters"),
    "half a character": ("executions", {"reason": "\ud800"}, "reason: it holds characters"),
    "a reason code too long": ("executions", {"reason_code": "x" * 41}, "reason_code: it is longer than 40"),
    "an exclusion of another shape": ("executions", {"exclusions": [{"call": 1}]}, "exclusions: an item"),
    "a group of a third kind": ("groups", {"group_kind": "x"}, "group_kind: 'x' is none of"),
    "votes without a mean": ("groups", {"reward_mean": None}, "it has votes, but no reward_mean"),
    "a mean of 1e308": ("groups", {"reward_mean": 1e308}, "reward_mean: 1e\\+308 is no finite number"),
    "a task that is not there": ("groups", {"task": "x"}, "x is not among the tasks"),
    "rewards that are a list": ("assessments", {"rewards": [1]}, "rewards: it is no dict"),
    "rewards of 400 digits": ("assessments", {"rewards": {"r": 10**400}}, "rewards: it holds an integer"),
    "a verdict of an execution elsewhere": ("assessments", {"index": 99}, "is not among the executions"),
    "a reply a hundred levels deep": ("calls", {"reply": {}}, "reply: it is deeper than"),
    "a token beyond its type": ("calls", {"output_ids": [2**40]}, "calls/part-.*line 1"),
    "tokens that are text": ("calls", {"output_ids": ["x"]}, "calls/part-.*line 1"),
    "a time that is none": ("calls", {"started_at": "soon"}, "calls/part-.*line 1"),
    "a random number that is none": ("draws", {"random": None}, "random: it is null"),
    "targets that are no spans": ("trajectories", {"targets": [1, 2]}, "targets: it is no list"),
}


@pytest.mark.parametrize("case", ROWS)
def test_a_row_that_its_table_cannot_hold_is_refused_by_column(export: Export, case: str) -> None:
    table, change, why = ROWS[case]
    if "reply" in change:
        deep: Any = []
        for _ in range(100):
            deep = [deep]
        change, why = {"reply": {"a": deep}}, "reply: it is deeper than"
    export.rewrite(table, lambda rows: rows[0].update(change))
    refused(export, why)


@pytest.mark.parametrize("table", [name for name in TABLES if name != "assessments"])
def test_a_row_that_is_there_twice_is_refused(export: Export, table: str) -> None:
    export.rewrite(table, lambda rows: rows.append(rows[0]))
    refused(export, "is there twice")


@pytest.mark.parametrize("table", TABLES)
def test_a_column_that_is_missing_is_refused(export: Export, table: str) -> None:
    export.rewrite(table, lambda rows: rows[0].popitem())
    refused(export, f"{table}/part-.*line 1: KeyError")


def test_links_and_what_is_no_plain_file_are_not_read(export: Export, tmp_path: Path) -> None:
    part = next((export.folder / "calls").iterdir())
    aside = tmp_path / "aside.jsonl"
    part.rename(aside)
    part.symlink_to(aside)
    refused(export, "is missing, or it is no plain file")
    part.unlink()
    os.mkfifo(part)
    refused(export, "is missing, or it is no plain file")
    part.unlink()
    part.mkdir()
    refused(export, "is missing, or it is no plain file")


def test_a_table_or_manifest_that_is_a_link_is_not_read(export: Export, tmp_path: Path) -> None:
    (export.folder / "calls").rename(tmp_path / "calls")
    (export.folder / "calls").symlink_to(tmp_path / "calls")
    refused(export, "is missing, or it is no plain file")
    (export.folder / "calls").unlink()
    (tmp_path / "calls").rename(export.folder / "calls")
    (export.folder / "manifest.json").rename(tmp_path / "manifest.json")
    (export.folder / "manifest.json").symlink_to(tmp_path / "manifest.json")
    refused(export, "holds no export")


def test_a_file_that_changes_after_it_was_checked_undoes_the_whole_import(
    export: Export, monkeypatch: pytest.MonkeyPatch
) -> None:
    from agents.actions import import_export as importing

    monkeypatch.setattr(importing, "_check", lambda *_: None)
    export.rewrite("executions", lambda rows: rows[-1].update(num_calls=10**12))
    refused(export, "cannot be imported: DataError")


def test_an_import_adds_no_task_to_a_set_that_is_in_use_and_changes_none(
    made: Made, export: Export, tmp_path: Path
) -> None:
    here = import_task_set(str(write_task(tmp_path / "set")))
    export.say(lambda m: m["run"]["task_set"].update(name=here.name, digest=here.digest))
    refused(export, "its task '0001-write' is not the one of task set set on this machine")
    assert [task.name for task in here.tasks.all()] == ["one"]


def test_tasks_that_an_export_put_into_a_set_beforehand_are_not_of_the_set_when_its_files_come(
    made: Made, export: Export, tmp_path: Path
) -> None:
    folder = write_task(tmp_path / "set")
    genuine = import_task_set(str(folder))
    digest, name = genuine.digest, genuine.name
    genuine.delete()
    export.say(lambda m: m["run"]["task_set"].update(name=name, digest=digest))
    run = export.bring()
    here = import_task_set(str(folder))
    assert [(task.name, task.path) for task in here.tasks.all()] == [("one", str(folder / "one"))]
    assert {group.task.path for group in Group.objects.filter(run=run)} == {""}
    assert here.tasks.exclude(path="").count() == here.tasks.count()


def test_whatever_config_an_old_import_left_lists_and_pages_answer(made: Made) -> None:
    client = Client()
    client.force_login(get_user_model().objects.create_superuser("root"))
    page, api = f"/runs/{made.run.pk}", f"/api/v1/runs/{made.run.pk}"
    paths = ["/", "/api/v1/runs", "/admin/agents/run/", f"{page}/", f"{page}/config/", f"{page}/groups/", api]
    paths += [f"{api}/metrics"]
    for config in (
        [],
        "x",
        Value(None, JSONField()),
        7,
        {},
        {"steps": {"a": 1}},
        {"steps": "many"},
        {"concurrency_per_cell": [1]},
    ):
        Run.objects.filter(pk=made.run.pk).update(config=config)
        for path in paths:
            assert client.get(path).status_code == 200, (path, config)
