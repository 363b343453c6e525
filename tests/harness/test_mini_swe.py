"""mini-swe-agent from PyPI, unmodified, in a sandbox in front of the recording proxy."""

from __future__ import annotations

from pathlib import Path

from agents.executions.worker import Worker
from agents.models import Call
from scheduler.config import preset
from tests.harness.conftest import SocketBackstage
from tests.harness.rows import queue, write_task
from tests.proxy.backstage import tool_text
from tests.support.work import evaluate_next, run_next


def test_mini_swe_agent_does_a_task(stage: SocketBackstage, worker: Worker, tmp_path: Path) -> None:
    settings = preset("mini-swe").model_dump(exclude={"task_set"})
    (execution,) = queue(stage, write_task(tmp_path / "tasks"), **settings)
    submit = "echo COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT"
    stage.engine(
        execution.run,
        tool_text("bash", command="echo apple > a.txt"),
        "no tool call",
        tool_text("bash", command=submit),
    )
    assert run_next(worker)
    assert evaluate_next(worker)
    execution.refresh_from_db()
    calls = list(Call.objects.order_by("number"))
    assert (execution.outcome, execution.reward) == ("complete", 1.0), execution.harness_log
    assert [call.role for call in calls] == ["main"] * 3
