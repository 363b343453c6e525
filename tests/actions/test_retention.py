"""Bodies, logs, checkpoints and payloads go when their time is over; tokens and results stay."""

from datetime import timedelta
from pathlib import Path

import pytest
from django.utils import timezone

from agents.actions import enforce_retention as agents_retention
from agents.actions.launch_run import default_project
from agents.models import Assessment, Execution, Group, RequestBody, Run, Task, TaskSet
from scheduler.config import preset
from trainers.actions import enforce_retention as trainers_retention
from trainers.models import Batch, Checkpoint, MicroStep

pytestmark = pytest.mark.django_db
NOW = timezone.now()
DAY = timedelta(days=1)


@pytest.fixture
def run() -> Run:
    task_set = TaskSet.objects.create(name="t", path="/nowhere", digest="0")
    config = preset("quickstart", retain_bodies=2, retain_logs=5, checkpoints_kept=2)
    return Run.objects.create(
        project=default_project(), task_set=task_set, name="t", config=config.model_dump(mode="json"), seed=1,
        policy_kind=config.policy_kind,
    )  # fmt: skip


def body(run: Run, name: str, age: timedelta) -> None:
    row = RequestBody.objects.create(run=run, hash=name, body=b"x")
    RequestBody.objects.filter(pk=row.pk).update(created_at=NOW - age)


def test_only_bodies_older_than_their_days_are_deleted(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(agents_retention, "CHUNK_ROWS", 2)
    for number in range(5):
        body(run, f"old{number}", 3 * DAY)
    body(run, "young", DAY)
    assert agents_retention.enforce_retention(run).bodies_deleted == 5
    assert [row.hash for row in RequestBody.objects.filter(run=run)] == ["young"]


def test_old_logs_are_emptied_and_rewards_stay(run: Run) -> None:
    task = Task.objects.create(task_set=run.task_set, name="a", path="/nowhere/a", digest="0", config={})
    group = Group.objects.create(run=run, task=task, number=0)
    for index, age in enumerate((6 * DAY, DAY)):
        execution = Execution.objects.create(
            run=run, group=group, index=index, state="finished", outcome="complete", reward=0.5, harness_log="log",
            finished_at=NOW - age,
        )  # fmt: skip
        verdict = Assessment.objects.create(
            execution=execution, attempt=1, status="scored", reason_code="completed", value=0.5, log="log"
        )
        Assessment.objects.filter(pk=verdict.pk).update(created_at=NOW - age)
    assert agents_retention.enforce_retention(run).logs_emptied == 2
    assert list(Execution.objects.order_by("index").values_list("harness_log", "reward")) == [("", 0.5), ("log", 0.5)]
    assert sorted(Assessment.objects.values_list("log", flat=True)) == ["", "log"]


def test_the_newest_checkpoints_stay_and_older_ones_leave_the_disk(run: Run, tmp_path: Path) -> None:
    for version in (1, 2, 3, 4):
        folder = tmp_path / f"v{version}"
        folder.mkdir()
        (folder / "model.safetensors").write_bytes(b"x")
        Checkpoint.objects.create(run=run, version=version, path=str(folder), sha256="", num_bytes=1)
    assert trainers_retention.enforce_retention(run) == 2
    assert sorted(path.name for path in tmp_path.iterdir()) == ["v3", "v4"]
    kept = Checkpoint.objects.filter(run=run, deleted_at=None).order_by("version")
    assert [checkpoint.version for checkpoint in kept] == [3, 4]
    assert trainers_retention.enforce_retention(run) == 0


def test_payloads_stay_while_a_checkpoint_before_their_step_does_and_go_with_the_run(run: Run, tmp_path: Path) -> None:
    """The checkpoint of version 2 is kept beside that of 3: batch 3 can be done again, batches 1 and 2 need not."""
    states = {1: Batch.State.STEPPED, 2: Batch.State.STEPPED, 3: Batch.State.STEPPED, 4: Batch.State.OPEN}
    for number, state in states.items():
        batch = Batch.objects.create(run=run, number=number, burst=0, version=number - 1, state=state)
        MicroStep.objects.create(
            batch=batch, number=0, num_tokens=1, num_targets=1, num_trajectories=1, payload=b"tokens"
        )
    for version in (1, 2, 3):
        Checkpoint.objects.create(run=run, version=version, path=str(tmp_path / "none"), sha256="", num_bytes=1)

    def payloads() -> list[bytes]:
        return [bytes(p) for p in MicroStep.objects.order_by("batch__number").values_list("payload", flat=True)]

    trainers_retention.enforce_retention(run)
    assert payloads() == [b"", b"", b"tokens", b"tokens"]
    run.state = Run.State.FINISHED
    trainers_retention.enforce_retention(run)
    assert payloads() == [b"", b"", b"", b"tokens"]
