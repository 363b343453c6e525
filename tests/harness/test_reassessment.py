"""Another assessment: the evaluator runs again on what the execution left, and nothing that was admitted changes."""

from __future__ import annotations

import os
from datetime import timedelta
from pathlib import Path

import pytest
from django.contrib.auth import get_user_model
from django.utils import timezone

from agents.actions.enforce_retention import enforce_retention
from agents.actions.errors import Refused
from agents.actions.reassess_execution import request_reassessment
from agents.executions.keeping import clear_orphans, make_room
from agents.executions.reassess import reassess_next
from agents.executions.worker import Worker
from agents.models import Assessment, Execution, Group, KeptWorkspace, Reassessment, RunEvent
from tests.harness.conftest import SocketBackstage
from tests.harness.rows import TEST, queue, write_task
from tests.proxy.backstage import tool_text
from tests.support.work import evaluate_next, run_next
from trainers.actions.admit_group import admit_group
from trainers.models import Batch

WRITE = tool_text("bash", command="echo apple > a.txt")
MESS = tool_text("bash", command="ln -s /etc x; mkfifo p; mkdir -m 0 d")
BROKEN = "#!/bin/bash\necho spoilt > /app/a.txt\n"
SEPARATE = '[[artifacts]]\nsource = "/app/a.txt"\n\n[verifier]\nenvironment_mode = "separate"\n'


def play(
    stage: SocketBackstage, worker: Worker, task_set: Path, number: int = 2, **settings: object
) -> list[Execution]:
    """Run and evaluate every execution but the last, which stays queued where there are several."""
    made = queue(stage, task_set, number, **settings)
    if not stage.engines:
        stage.engine(made[0].run, WRITE, MESS, "done")
    for _ in made[:-1] or made:
        stage.engines[0].say(WRITE, MESS, "done")
        assert run_next(worker)
        assert evaluate_next(worker)
    for execution in made:
        execution.refresh_from_db()
    return made


def reassess(worker: Worker, execution: Execution, reason: str = "the verifier was wrong") -> Reassessment:
    user = get_user_model().objects.get_or_create(username="ann")[0]
    request = request_reassessment(execution, user=user, reason=reason)
    assert reassess_next(worker)
    request.refresh_from_db()
    execution.refresh_from_db()
    return request


def correct(task_set: Path, test: str = TEST) -> None:
    (task_set / "one" / "tests" / "test.sh").write_text(test)


def test_a_corrected_verifier_gives_a_new_verdict_and_the_old_one_is_kept(
    stage: SocketBackstage, worker: Worker, tmp_path: Path
) -> None:
    task_set = write_task(tmp_path / "tasks", test=BROKEN)
    execution, _ = play(stage, worker, task_set)
    assert (execution.outcome, execution.reason_code) == ("unresolved", "reward_missing")
    correct(task_set)
    request = reassess(worker, execution)
    assert (request.state, request.effect) == ("done", "in force: the reward was none and is 1"), request.error
    assert (execution.outcome, execution.reward, execution.training_reward) == ("complete", 1.0, 1.0)
    old, new = Assessment.objects.order_by("pk")
    assert (old.status, old.value, old.in_force) == ("unresolved", None, False)
    assert (new.status, new.value, new.in_force, new.flags) == ("scored", 1.0, True, ["task_changed"])
    asked, done = RunEvent.objects.filter(kind__contains="reassess").order_by("seq")
    assert (asked.kind, asked.payload["by"], asked.payload["reason"]) == (
        "reassessment_requested", "ann", "the verifier was wrong",
    )  # fmt: skip
    assert (done.kind, done.payload["value"], done.payload["reward_before"]) == ("execution_reassessed", 1.0, None)

    correct(task_set, "#!/bin/bash\nexit 3\n")
    request = reassess(worker, execution)
    assert request.effect == "none: a verdict of unresolved never replaces one that stands"
    assert (execution.outcome, execution.reward) == ("complete", 1.0)
    assert not any((worker.home / "runs").rglob("reassessments/*"))
    assert not reassess_next(worker)


def test_a_separate_verifier_sees_the_kept_artifacts_again(
    stage: SocketBackstage, worker: Worker, tmp_path: Path
) -> None:
    task_set = write_task(tmp_path / "tasks", SEPARATE, test=BROKEN)
    execution, _ = play(stage, worker, task_set)
    assert execution.outcome == "unresolved"
    correct(task_set)
    assert reassess(worker, execution).state == "done"
    assert (execution.outcome, execution.reward) == ("complete", 1.0)


def test_a_ready_groups_statistics_follow_and_an_admitted_one_keeps_everything(
    stage: SocketBackstage, worker: Worker, tmp_path: Path
) -> None:
    task_set = write_task(tmp_path / "tasks", test="#!/bin/bash\necho 0.5 > /logs/verifier/reward.txt\n")
    first, _ = play(stage, worker, task_set)
    stage.engines[0].say("done")
    assert run_next(worker)
    assert evaluate_next(worker)
    group = Group.objects.get()
    assert (group.state, group.reward_mean, group.num_votes) == ("ready", 0.5, 2)
    correct(task_set)
    request = reassess(worker, first)
    assert request.effect.endswith("the group's mean was 0.5 and is 0.75")
    group.refresh_from_db()
    assert (group.state, group.num_votes, group.reward_mean) == ("ready", 2, 0.75)
    assert group.reward_std == pytest.approx(0.125**0.5)

    batch = Batch.objects.create(run=group.run, number=1, burst=0, version=3)
    admit_group(batch.pk, group.pk)
    first.refresh_from_db()
    before = [first.reward, first.advantage, first.outcome]
    correct(task_set, "#!/bin/bash\necho 0 > /logs/verifier/reward.txt\n")
    request = reassess(worker, first, "what if")
    assert request.effect == "none on training: batch 1 has admitted the group, and what was decided stays"
    assert [first.reward, first.advantage, first.outcome] == before
    group.refresh_from_db()
    assert group.reward_mean == 0.75
    verdicts = Assessment.objects.filter(execution=first).order_by("pk").values_list("value", "in_force")
    assert list(verdicts) == [(0.5, False), (1.0, True), (0.0, False)]


def test_what_cannot_be_assessed_again_says_what_is_missing(
    stage: SocketBackstage, worker: Worker, tmp_path: Path
) -> None:
    task_set = write_task(tmp_path / "tasks")
    execution, waiting = play(stage, worker, task_set)
    with pytest.raises(Refused, match="is queued; only a finished one"):
        request_reassessment(waiting, user=None, reason="x")
    request_reassessment(execution, user=None, reason="x")
    with pytest.raises(Refused, match="is being assessed again already"):
        request_reassessment(execution, user=None, reason="x")
    kept = KeptWorkspace.objects.get()
    Path(kept.path).unlink()
    taken = timezone.now() + timedelta(minutes=1)
    Reassessment.objects.update(state="running", lease_owner="another", lease_expires_at=taken)
    assert not reassess_next(worker), "another worker has it"
    Reassessment.objects.update(lease_expires_at=timezone.now())
    assert reassess_next(worker)
    request = Reassessment.objects.get()
    assert request.state == "failed"
    assert f"what execution {execution.pk} left is gone from" in request.error
    assert RunEvent.objects.filter(kind="reassessment_failed").count() == 1
    KeptWorkspace.objects.update(deleted_at=timezone.now())
    with pytest.raises(Refused, match=r"is gone since .*: retain_workspaces is 14 days"):
        request_reassessment(execution, user=None, reason="x")
    KeptWorkspace.objects.all().delete()
    with pytest.raises(Refused, match="was kept when it was evaluated"):
        request_reassessment(execution, user=None, reason="x")
    Execution.objects.filter(pk=execution.pk).update(reason_code="sandbox_never_healthy")
    execution.refresh_from_db()
    with pytest.raises(Refused, match="before there was work to see"):
        request_reassessment(execution, user=None, reason="x")


def test_too_large_files_are_not_kept_and_a_run_may_keep_none(
    stage: SocketBackstage, worker: Worker, tmp_path: Path
) -> None:
    (execution,) = play(stage, worker, write_task(tmp_path / "tasks"), 1, retain_workspace_mb=0.000001)
    assert execution.reward == 1.0
    assert not any((worker.home / "runs").rglob("*.tar.zst"))
    with pytest.raises(Refused, match="more than retain_workspace_mb 1e-06"):
        request_reassessment(execution, user=None, reason="x")
    KeptWorkspace.objects.all().delete()
    execution.run.config["retain_workspaces"] = 0
    execution.run.save()
    with pytest.raises(Refused, match="the run's retain_workspaces is 0"):
        request_reassessment(execution, user=None, reason="x")


def test_archives_go_when_their_days_are_over_or_the_disk_is_full(
    stage: SocketBackstage, worker: Worker, tmp_path: Path
) -> None:
    (execution,) = play(stage, worker, write_task(tmp_path / "tasks"), 1)
    kept = KeptWorkspace.objects.get()
    path = Path(kept.path)
    assert (path.is_file(), path.stat().st_size) == (True, kept.num_bytes)
    assert enforce_retention(execution.run).workspaces_deleted == 0
    KeptWorkspace.objects.update(created_at=timezone.now() - timedelta(days=15))
    request = Reassessment.objects.create(execution=execution, attempt=1, reason="x")
    assert enforce_retention(execution.run).workspaces_deleted == 0, "somebody waits for it"
    request.delete()
    assert enforce_retention(execution.run).workspaces_deleted == 1
    assert not path.exists()

    path.touch()
    KeptWorkspace.objects.update(deleted_at=None)
    assert make_room(worker.home, 0) == 0
    assert make_room(worker.home, 1 << 60) == 1
    assert (path.exists(), KeptWorkspace.objects.get().problem) == (False, "it was deleted when the disk was full")
    path.touch()
    assert clear_orphans(worker.home) == 0, "its row may still be on the way"
    os.utime(path, (0, 0))
    assert clear_orphans(worker.home) == 1
