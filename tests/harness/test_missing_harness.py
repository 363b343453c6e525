"""A harness that cannot be installed pauses its run and says what to do; no execution is lost over it."""

from __future__ import annotations

from pathlib import Path

import pytest

from agents import events
from agents.actions.change_run_state import resume_run
from agents.actions.expire_leases import expire_leases
from agents.config import BadConfig
from agents.executions import pauses
from agents.executions.worker import Worker
from agents.models import Execution, Run, RunEvent
from scheduler.config import preset
from tests.harness.conftest import SocketBackstage
from tests.harness.rows import queue, write_task
from tests.support.work import run_next

BIG = {"harness": "claude-code", "context_tokens": 100_000, "tokens_per_micro_step": 100_000}


def alarms() -> list[tuple[str, str]]:
    kinds = (events.EventKind.ALARM_RAISED, events.EventKind.ALARM_CLEARED)
    rows = RunEvent.objects.filter(kind__in=kinds).order_by("seq")
    return [(row.kind, row.payload["code"]) for row in rows]


def test_without_npm_the_run_pauses_and_the_execution_is_owed_still(
    stage: SocketBackstage, worker: Worker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = preset("quickstart", **BIG).model_dump(exclude={"task_set"})
    (execution,) = queue(stage, write_task(tmp_path / "tasks"), **settings)
    stage.engine(execution.run)
    with monkeypatch.context() as changed:
        changed.setenv("PATH", str(tmp_path))
        assert not run_next(worker)
    run = Run.objects.get()
    assert run.state == Run.State.PAUSED
    assert "apt-get install -y nodejs npm" in run.state_reason
    assert alarms() == [("alarm_raised", "harness_not_installed")]
    resume_run(run, user=None)
    expire_leases(run.pk)
    execution.refresh_from_db()
    assert (execution.state, execution.attempt) == (Execution.State.QUEUED, 2)
    pauses.clear_not_installed(run.pk)
    pauses.clear_not_installed(run.pk)
    assert alarms()[1:] == [("alarm_cleared", "harness_not_installed")]


@pytest.mark.parametrize("version", ["latest", "^2.1.0", "file:/tmp/x", "../x", "2.1 || 3", "https://x/y.tgz"])
def test_a_version_that_is_not_exact_is_refused(version: str) -> None:
    with pytest.raises(BadConfig, match="harness_version"):
        preset("quickstart", harness_version=version)


def test_a_context_that_the_harness_fills_by_itself_is_refused() -> None:
    with pytest.raises(BadConfig, match="claude-code opens with a long prompt of its own and needs a context of 24000"):
        preset("quickstart", harness="claude-code")
