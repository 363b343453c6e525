"""Each row of the table of outcomes with real sandboxes, verifiers and time limits.

See docs/algorithms.md §5, docs/tasks.md "From work to reward".
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from agents.executions.worker import Worker
from agents.models import Assessment, Execution
from tests.harness.conftest import SocketBackstage
from tests.harness.rows import TEST, queue, write_task
from tests.harness.watching import in_namespace
from tests.proxy.backstage import tool_text
from tests.support.work import evaluate_next, run_next

WRITE = tool_text("bash", command="echo apple > a.txt")
SEPARATE = '[[artifacts]]\nsource = "/app/a.txt"\n\n[verifier]\nenvironment_mode = "separate"\n'
SLOW_TEST = "#!/bin/bash\necho 1 > /logs/verifier/reward.txt\nsleep 1000 & sleep 1000\n"


def play(
    stage: SocketBackstage, worker: Worker, task_set: Path, *replies: str, **settings: object
) -> tuple[str, str, float | None]:
    """Outcome, reason and reward of one execution that is run and evaluated."""
    (execution,) = queue(stage, task_set, **settings)
    stage.engine(execution.run, *(replies or (WRITE, "done")))
    assert run_next(worker)
    evaluate_next(worker)
    execution.refresh_from_db()
    assert execution.state == Execution.State.FINISHED
    assert not any((worker.home / "runs").rglob("root"))
    return execution.outcome, execution.reason_code, execution.reward


def test_the_overall_limit_ends_a_harness_and_its_partial_work_is_scored(
    stage: SocketBackstage, worker: Worker, tmp_path: Path
) -> None:
    slow = tool_text("bash", command="echo apple > a.txt; sleep 1000")
    found = play(stage, worker, write_task(tmp_path / "t"), slow, harness_timeout_s=600, overall_timeout_s=10)
    assert found == ("partial", "overall_timeout", 1.0)


def test_a_harness_that_crashes_after_work_is_scored_on_what_it_left(
    stage: SocketBackstage, worker: Worker, tmp_path: Path
) -> None:
    crash = tool_text("bash", command="echo apple > a.txt; kill -9 $PPID")
    assert play(stage, worker, write_task(tmp_path / "t"), crash) == ("partial", "harness_crashed", 1.0)
    assert Execution.objects.get().harness_exit not in (0, None)


@pytest.mark.parametrize(
    ("settings", "run_limit_s"),
    [("[verifier]\ntimeout_sec = 1\n", 1000), (SEPARATE, 2)],
    ids=["shared, the task's limit", "separate, the run's limit"],
)
def test_a_verifier_has_a_budget_of_its_own_and_what_it_wrote_before_does_not_count(
    stage: SocketBackstage, worker: Worker, tmp_path: Path, settings: str, run_limit_s: float
) -> None:
    task_set = write_task(tmp_path / "t", settings, test=SLOW_TEST)
    found = play(stage, worker, task_set, harness_timeout_s=30, evaluation_timeout_s=run_limit_s)
    assert found == ("unresolved", "evaluation_timeout", None)
    verdict = Assessment.objects.get()
    assert (verdict.status, verdict.value) == ("unresolved", None)
    assert [box for box in worker.evaluation_server.sandboxes if in_namespace(box.pid_namespace)] == []


def test_work_is_scored_in_a_fresh_environment_where_the_task_says_so(
    stage: SocketBackstage, worker: Worker, tmp_path: Path
) -> None:
    look = '#!/bin/bash\n[ "$(cat /app/a.txt)" = apple ] && [ ! -e /app/b.txt ] && echo 1 > /logs/verifier/reward.txt\n'
    both = tool_text("bash", command="echo apple > a.txt; touch b.txt")
    assert play(stage, worker, write_task(tmp_path / "t", SEPARATE, test=look), both, "done") == (
        "complete", "completed", 1.0,
    )  # fmt: skip


STRICT = "#!/bin/bash\ngrep -q apple /app/a.txt && echo 1 > /logs/verifier/reward.txt\n"


@pytest.mark.parametrize(
    ("command", "test", "expected"),
    [
        ("touch b.txt", STRICT, ("no-work", "nothing_assessable", 0.0)),
        ("echo pear > a.txt", STRICT, ("unresolved", "reward_missing", None)),
        ("touch b.txt", TEST, ("complete", "completed", 0.0)),
    ],
    ids=["nothing crossed", "something crossed", "judged all the same"],
)
def test_where_no_artifact_was_left_and_the_verifier_gives_no_reward_there_was_no_work(
    stage: SocketBackstage, worker: Worker, tmp_path: Path, command: str, test: str, expected: tuple[str, str, float]
) -> None:
    task_set = write_task(tmp_path / "t", SEPARATE, test=test)
    assert play(stage, worker, task_set, tool_text("bash", command=command), "done") == expected


def test_an_evaluator_that_breaks_is_unresolved_and_not_zero(
    stage: SocketBackstage, worker: Worker, tmp_path: Path
) -> None:
    task_set = write_task(tmp_path / "t")
    (execution,) = queue(stage, task_set)
    stage.engine(execution.run, WRITE, "done")
    assert run_next(worker)
    test = task_set / "one" / "tests" / "test.sh"
    test.unlink()
    os.mkfifo(test)
    assert evaluate_next(worker)
    execution.refresh_from_db()
    assert (execution.outcome, execution.reason_code, execution.reward) == ("unresolved", "evaluator_crashed", None)


@pytest.mark.parametrize(
    ("check", "limits", "why"),
    [
        ("command = 'false'\ninterval_sec = 0.1\nretries = 2", {}, "the health check failed 2 times in a row"),
        (
            "command = 'sleep 1000'\ntimeout_sec = 900",
            {"harness_timeout_s": 2, "overall_timeout_s": 2},
            "preparation did not end within overall_timeout_s",
        ),
    ],
)
def test_a_sandbox_that_never_gets_healthy_is_unresolved_with_the_reason(
    stage: SocketBackstage, worker: Worker, tmp_path: Path, check: str, limits: dict[str, float], why: str
) -> None:
    task_set = write_task(tmp_path / "t")
    settings = task_set / "one" / "task.toml"
    settings.write_text(settings.read_text() + f"[environment.healthcheck]\n{check}\n")
    found = play(stage, worker, task_set, **limits)
    assert found == ("unresolved", "sandbox_never_healthy", None)
    assert Execution.objects.get().reason == why


def test_a_value_that_a_crashed_verifier_writes_is_no_reward(
    stage: SocketBackstage, worker: Worker, tmp_path: Path
) -> None:
    trap = "#!/bin/bash\necho -1 > /logs/verifier/reward.txt\nexit 1\n"
    found = play(stage, worker, write_task(tmp_path / "t", test=trap), reward_sentinels=[-1])
    assert found == ("unresolved", "reward_sentinel", None)
    assert "the verifier had crashed" in Execution.objects.get().reason
    assert Assessment.objects.get().rewards == {"reward": -1.0}
