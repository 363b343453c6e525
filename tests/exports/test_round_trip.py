"""`manage.py export` and `manage.py import_export`: what comes back is what went out."""

from __future__ import annotations

import hashlib
import json
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from django.core.management import CommandError, call_command

from agents.actions.import_export import import_export
from agents.actions.import_task_set import import_task_set
from agents.core.codec import decode_call
from agents.exports import folder as folders
from agents.exports import rows as sources
from agents.exports.folder import BadExport
from agents.models import Assessment, Call, Draw, Execution, Group, Node, Project, Reassessment, Run, Trajectory
from agents.replay import replay_draws
from agents.report import report
from agents.web.executions import Filters
from tests.harness.rows import write_task
from tests.processor.records import Made

FORMATS = ("parquet", "jsonl")


def export(run: Run, out: Path, *options: str) -> str:
    text, notes = StringIO(), StringIO()
    call_command("export", str(run.pk), "--out", str(out), *options, stdout=text, stderr=notes)
    assert notes.getvalue() == f"run {run.pk} is running: executions that end from now on are not in this export\n"
    return text.getvalue()


def brought_back(out: Path, **options: Any) -> Run:
    return import_export(out, project=Project.objects.get(), **options)


def facts(run: Run, model: Any, *left_out: str) -> list[dict[str, Any]]:
    """Rows of the run's ended executions by all columns but keys; token columns as bytes."""
    names = [f.attname for f in model._meta.concrete_fields if f.attname not in {"id", "execution_id", *left_out}]
    own = {"execution__group__kind", "execution__group__number", "execution__index"}
    rows = model._base_manager.filter(execution__run=run, execution__state__in=sources.ENDED)
    found = [
        {k: bytes(v) if isinstance(v, memoryview) else v for k, v in row.items()} for row in rows.values(*names, *own)
    ]
    return sorted(found, key=lambda row: (*(str(row[name]) for name in sorted(own)), row.get("number", 0), str(row)))


@pytest.mark.parametrize("extension", FORMATS)
def test_trees_draws_trajectories_and_report_come_back_equal(made: Made, tmp_path: Path, extension: str) -> None:
    said = export(made.run, tmp_path / "out", "--format", extension)
    assert "7 executions, 8 assessments, 34 calls" in said
    run = brought_back(tmp_path / "out")
    assert facts(run, Node) == facts(made.run, Node)
    assert facts(run, Draw) == facts(made.run, Draw)
    assert facts(run, Trajectory) == facts(made.run, Trajectory)
    old, new = report(made.run).to_json(), report(run).to_json()
    assert {**new, "run": 0} == {**old, "run": 0}
    assert old["tokens"]["selected"] > 0
    for execution in Execution.objects.filter(run=run, draws__isnull=False).distinct():
        assert replay_draws(execution).agree


@pytest.mark.parametrize("extension", FORMATS)
def test_every_other_row_comes_back_too(made: Made, tmp_path: Path, extension: str) -> None:
    export(made.run, tmp_path / "out", "--format", extension)
    run = brought_back(tmp_path / "out")
    own = ("committed_at", "tokens", "uid", "request_hash")
    assert facts(run, Call, *own) == facts(made.run, Call, *own)
    assert facts(run, Assessment, "log") == facts(made.run, Assessment, "log")
    again, before = (Reassessment.objects.get(execution__run=r) for r in (run, made.run))
    assert (again.owner, again.reason, again.assessment.value) == (before.owner, "what if", 0.5)
    left_out = {"id", "run_id", "group_id", "key_hash", "lease_owner", "lease_expires_at", "sandbox", "harness_log",
                "proxy_id"}  # fmt: skip
    names = [f.attname for f in Execution._meta.concrete_fields if f.attname not in left_out]
    order = ("group__kind", "group__number", "index")
    ended = Execution.objects.filter(state__in=sources.ENDED).order_by(*order)
    assert list(ended.filter(run=run).values(*names)) == list(ended.filter(run=made.run).values(*names))
    names = [f.attname for f in Group._meta.concrete_fields if f.attname not in {"id", "run_id"}]
    groups = Group.objects.filter(executions__state__in=sources.ENDED).distinct().order_by("kind", "number")
    assert list(groups.filter(run=run).values(*names)) == list(groups.filter(run=made.run).values(*names))


def test_tokens_come_back_bit_for_bit_and_what_cannot_be_read_stays_unreadable(made: Made, tmp_path: Path) -> None:
    export(made.run, tmp_path / "out")
    run = brought_back(tmp_path / "out")
    for number in (0, 2, 4):
        pair = [
            decode_call(Call.objects.with_tokens().filter(execution__run=r, number=number).order_by("pk")[0].tokens)
            for r in (made.run, run)
        ]
        assert pair[0].new_input_ids.tolist() == pair[1].new_input_ids.tolist()
        assert pair[0].output_logprobs.tobytes() == pair[1].output_logprobs.tobytes()
    assert bytes(Call.objects.with_tokens().filter(execution__run=run, number=6)[0].tokens) == b"\x00"


def test_an_imported_run_is_marked_never_goes_on_and_obeys_the_laws_of_rows(made: Made, tmp_path: Path) -> None:
    export(made.run, tmp_path / "out")
    run = brought_back(tmp_path / "out", name="copy")
    assert (run.name, run.state) == ("copy", Run.State.STOPPED)
    assert run.imported_from.startswith(f"run {made.run.pk} of project lab, exported 20")
    assert run not in Run.objects.filter(state__in=Run.LIVE_STATES)
    assert (run.dispatched, run.launched, run.finished) == (6, 6, 6)
    out = StringIO()
    call_command("verify_run", str(run.pk), stdout=out)
    assert "BROKEN" not in out.getvalue()
    assert "5 laws do not apply" in out.getvalue()


def test_an_export_obeys_the_filters_of_the_executions_page(made: Made, tmp_path: Path) -> None:
    assert "1 executions" in export(made.run, tmp_path / "a", "--outcome", "unresolved")
    assert "1 executions" in export(made.run, tmp_path / "b", "--kind", "evaluation")
    assert "4 executions" in export(made.run, tmp_path / "c", "--batch", "1")
    assert Execution.objects.filter(run=brought_back(tmp_path / "c")).count() == 4


def test_an_interrupted_export_goes_on_and_ends_as_if_nothing_had_happened(
    made: Made, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sources, "PAGE_EXECUTIONS", 1)
    monkeypatch.setattr(folders, "PAGES_PER_PART", 2)
    export(made.run, tmp_path / "whole")
    real, written = folders._write_part, []

    def tired(folder: Path, manifest: Any, table: str, *rest: Any) -> None:
        if len(written) == 8:
            raise OSError("no space left")
        written.append(table)
        real(folder, manifest, table, *rest)

    with monkeypatch.context() as patch:
        patch.setattr(folders, "_write_part", tired)
        with pytest.raises(CommandError, match="no space left"):
            export(made.run, tmp_path / "out")
    with pytest.raises(BadExport, match="is not complete; run the same"):
        folders.load(tmp_path / "out")
    export(made.run, tmp_path / "out")
    whole, resumed = (folders.load(tmp_path / name) for name in ("whole", "out"))
    assert {name: fact["rows"] for name, fact in resumed["files"].items()} == {
        name: fact["rows"] for name, fact in whole["files"].items()
    }
    assert resumed["rows"] == whole["rows"]
    assert report(brought_back(tmp_path / "out")).tokens == report(made.run).tokens
    assert export(made.run, tmp_path / "out").count("7 executions") == 1


def test_a_directory_that_is_something_else_is_refused(made: Made, tmp_path: Path) -> None:
    export(made.run, tmp_path / "out", "--outcome", "complete")
    with pytest.raises(CommandError, match="holds another export"):
        export(made.run, tmp_path / "out")
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "letter.txt").write_text("dear")
    with pytest.raises(CommandError, match="is not empty and holds no export"):
        export(made.run, tmp_path / "full")


@pytest.mark.parametrize("extension", FORMATS)
def test_damaged_and_foreign_directories_are_refused_and_nothing_is_written(
    made: Made, tmp_path: Path, extension: str
) -> None:
    out = tmp_path / "out"
    export(made.run, out, "--format", extension)
    manifest = json.loads((out / "manifest.json").read_text())
    name = next(name for name in manifest["files"] if name.startswith("calls/"))
    whole = (out / name).read_bytes()
    (out / name).write_bytes(whole[:-9] + b"123456789")
    with pytest.raises(CommandError, match="its SHA-256 differs"):
        call_command("import_export", str(out))
    (out / name).unlink()
    with pytest.raises(CommandError, match="is missing"):
        call_command("import_export", str(out))
    (out / name).write_bytes(whole[: len(whole) // 2])
    half = (out / name).read_bytes()
    manifest["files"][name] |= {"sha256": hashlib.sha256(half).hexdigest(), "bytes": len(half)}
    (out / "manifest.json").write_text(json.dumps(manifest))
    with pytest.raises(CommandError, match=r"calls/part-00001"):
        call_command("import_export", str(out))
    (out / "manifest.json").write_text(json.dumps(manifest | {"format_version": 9}))
    with pytest.raises(CommandError, match="has format version 9; this version of Gyre reads 1"):
        call_command("import_export", str(out))
    with pytest.raises(CommandError, match="holds no export"):
        call_command("import_export", str(tmp_path))
    assert list(Run.objects.all()) == [made.run]


def test_pages_end_before_their_tokens_become_too_many(made: Made, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sources, "PAGE_TOKENS", 90)
    sizes = [[e.num_unique_tokens for e in page.executions] for page in sources.pages(made.run, Filters())]
    assert sum(map(len, sizes)) == 7
    assert all(len(page) == 1 or sum(page) <= 90 for page in sizes)
    assert len(sizes) > 1


def test_a_task_set_known_from_an_export_can_be_imported_with_its_files_and_run(made: Made, tmp_path: Path) -> None:
    folder = write_task(write_task(tmp_path / "set", name="one"), name="two")
    here = import_task_set(str(folder))
    made.run.task_set = here
    made.run.save()
    Group.objects.filter(run=made.run).update(task=here.tasks.get(name="one"))
    export(made.run, tmp_path / "out")
    Group.objects.all().delete()
    Run.objects.all().delete()
    here.delete()
    run = brought_back(tmp_path / "out")
    assert [(task.name, task.path) for task in run.task_set.tasks.all()] == [("one", "")]
    again = import_task_set(str(folder))
    assert again == run.task_set
    assert [(t.name, t.path, bool(t.config)) for t in again.tasks.order_by("name")] == [
        ("one", str(folder / "one"), True), ("two", str(folder / "two"), True),
    ]  # fmt: skip
