"""No file of a task or a harness keeps an execution from ending: its numbers are bounded where they are read, and a
result that the database refuses all the same ends the execution as unresolved."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from django.db import OperationalError

from agents.actions import finish_execution as finishing
from agents.actions.finish_execution import finish_execution
from agents.core.outcome import HarnessEnd, Status, Verdict
from agents.executions.worker import Worker
from agents.models import Assessment, Execution, Group, RunEvent
from tests.harness.conftest import SocketBackstage
from tests.harness.rows import queue, write_task
from tests.processor.records import DONE, make_run, record_conversation, scored
from tests.proxy.backstage import tool_text
from tests.support.work import evaluate_next, run_next

HUGE = "9" * 400
#: What a harness that was killed may have left, and how many malformed calls that means.
LEFT = {
    f'{{"malformed_calls": {HUGE}}}': 2**31 - 1,
    '{"malformed_calls": Infinity}': 0,
    '{"malformed_calls": -3}': 0,
    "[" * 20_000: 0,
}


@pytest.mark.parametrize("left", LEFT, ids=["a huge integer", "infinity", "a negative number", "deep"])
def test_whatever_number_a_harness_leaves_its_work_is_scored_in_the_first_attempt(
    stage: SocketBackstage, worker: Worker, tmp_path: Path, left: str
) -> None:
    task_set = write_task(tmp_path / "t")
    context = task_set / "one" / "environment"
    (context / "left.json").write_text(left)
    (context / "Dockerfile").write_text("FROM debian\nWORKDIR /app\nCOPY left.json /app/left.json\n")
    (execution,) = queue(stage, task_set)
    leave = "echo apple > a.txt; cp left.json /logs/agent/result.json; kill -9 $PPID"
    stage.engine(execution.run, tool_text("bash", command=leave))
    assert run_next(worker)
    assert evaluate_next(worker)
    execution.refresh_from_db()
    assert (execution.state, execution.attempt, execution.reward) == ("finished", 1, 1.0)
    assert execution.num_malformed_calls == LEFT[left]


def test_a_huge_reward_of_one_execution_is_unresolved_and_its_group_closes_with_the_others(
    stage: SocketBackstage, worker: Worker, tmp_path: Path
) -> None:
    test = "#!/bin/bash\ncp /app/a.txt /logs/verifier/reward.txt\n"
    executions = queue(stage, write_task(tmp_path / "t", test=test), number=2, min_votes=1)
    stage.engine(
        executions[0].run,
        *(reply for value in ("1e200", "0") for reply in (tool_text("bash", command=f"echo {value} > a.txt"), "done")),
    )
    for _ in executions:
        assert run_next(worker)
        assert evaluate_next(worker)
    found = Execution.objects.order_by("reason_code").values_list("outcome", "reason_code", "reward")
    assert list(found) == [("complete", "completed", 0.0), ("unresolved", "reward_invalid", None)]
    group = Group.objects.get()
    assert (group.state, group.num_votes, group.reward_mean) == ("ready", 1, 0.0)


VERDICTS = {
    "a huge reward": (Verdict(Status.SCORED, 1e200), DONE, "reward_invalid"),
    "not a number": (Verdict(Status.SCORED, float("nan")), DONE, "reward_invalid"),
    "a count beyond its column": (scored(1.0), HarnessEnd(0, num_malformed_calls=10**12), "result_not_written"),
    "an exit code beyond its column": (Verdict(Status.SCORED, 1.0, exit_code=10**12), DONE, "result_not_written"),
    "a key that is no text": (Verdict(Status.SCORED, 1.0, rewards={b"x": 1.0}), DONE, "result_not_written"),
    "a flag that is no text": (Verdict(Status.SCORED, 1.0, flags=[b"x"]), DONE, "result_not_written"),
}


@pytest.mark.django_db
@pytest.mark.parametrize("case", VERDICTS)
def test_a_result_that_cannot_be_written_ends_its_execution_and_its_group(case: str) -> None:
    verdict, end, code = VERDICTS[case]
    group = make_run(min_votes=1).group(2)
    first, second = group.executions.order_by("index")
    for execution in (first, second):
        record_conversation(execution)
    assert finish_execution(first.pk, 1, scored(0.0), DONE)
    assert finish_execution(second.pk, 1, verdict, end)
    second.refresh_from_db()
    group.refresh_from_db()
    assert (second.state, second.outcome, second.reason_code, second.reward) == ("finished", "unresolved", code, None)
    assert second.reason
    assert (group.state, group.num_votes, group.run.finished) == ("ready", 1, 2)
    assert second.assessments.get().reason_code == code
    assert RunEvent.objects.filter(kind="execution_finished").count() == 2


@pytest.mark.django_db
@pytest.mark.parametrize("step", ["write_nodes", "assessment", "examine_group", "_event"])
def test_an_exception_anywhere_in_the_closing_leaves_an_end_and_nothing_half_written(
    monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    execution = make_run(min_votes=1).group(1).executions.get()
    record_conversation(execution)
    real, failed = getattr(finishing, step), []

    def fail_once(*args: Any, **options: Any) -> Any:
        if not failed:
            failed.append(step)
            raise RuntimeError("a fault")
        return real(*args, **options)

    monkeypatch.setattr(finishing, step, fail_once)
    assert finish_execution(execution.pk, 1, scored(1.0), DONE)
    execution.refresh_from_db()
    assert (execution.state, execution.reason_code) == ("finished", "result_not_written")
    assert "RuntimeError: a fault" in execution.reason
    assert (Assessment.objects.count(), Group.objects.get().state) == (1, "void")


@pytest.mark.django_db
def test_a_database_that_is_away_is_waited_for_and_no_result_is_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    execution = make_run().group(1).executions.get()
    record_conversation(execution)

    def away(*_: Any) -> None:
        raise OperationalError("the database is away")

    with monkeypatch.context() as patch:
        patch.setattr(finishing, "write_nodes", away)
        with pytest.raises(OperationalError):
            finish_execution(execution.pk, 1, scored(1.0), DONE)
    execution.refresh_from_db()
    assert execution.state == "running"
    assert finish_execution(execution.pk, 1, scored(1.0), DONE)
    execution.refresh_from_db()
    assert execution.reward == 1.0
