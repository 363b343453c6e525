"""An engine whose process stands still: calls leave it while their harness has time left, and the run says so."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import httpx
import pytest

from agents.models import Run, RunEvent
from agents.web.runs import open_alarms
from scheduler.models import Cell
from tests.proxy.backstage import Backstage, backstage, policy
from tests.proxy.processes import ROOT
from tests.support.waiting import wait_for

GO = [{"role": "user", "content": "go"}]


@pytest.fixture
def stage(database_url: str) -> Iterator[Backstage]:
    with backstage(database_url) as found:
        yield found


@contextmanager
def _engine(run: Run, index: int) -> Iterator[int]:
    """An engine process behind a cell in rollout; its pid."""
    command = [sys.executable, "-m", "agents.proxy.scripted", "--tokens", "3", "--end-id", str(policy().close_id)]
    child = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)
    assert child.stdout is not None
    Cell.objects.create(
        run=run, index=index, is_core=not index, role=Cell.Role.ROLLOUT, engine_url=child.stdout.readline().strip(),
        weight_version=0, weight_hash="abc",
    )  # fmt: skip
    try:
        yield child.pid
    finally:
        os.kill(child.pid, signal.SIGCONT)
        child.terminate()
        child.wait(30)
        child.stdout.close()


def _ask(base: str) -> int:
    body = {"model": "m", "messages": GO, "stream": True}
    answer = httpx.post(f"{base}/v1/chat/completions", json=body, timeout=90)
    assert answer.text.rstrip().endswith("data: [DONE]"), answer.text
    return answer.status_code


def test_a_call_leaves_an_engine_that_stands_still_within_its_harnesss_time_and_an_alarm_stands_until_it_speaks(
    stage: Backstage,
) -> None:
    run = stage.run(harness_timeout_s=12)
    execution, base = stage.execution(run)
    with _engine(run, 0) as first, _engine(run, 1):
        os.kill(first, signal.SIGSTOP)
        assert _ask(base) == 200
        [call] = stage.calls(execution)
        assert (call.cell, call.sampling["moves"][0][0]) == (1, 0)
        assert call.duration_s < 12
        [alarm] = wait_for(lambda: open_alarms(run), "the alarm stands")
        assert alarm.payload["code"] == "engine_of_cell_0_is_silent"
        assert (alarm.payload["severity"], "went on at another cell" in alarm.payload["message"]) == ("warn", True)
        os.kill(first, signal.SIGCONT)
        wait_for(lambda: _ask(stage.execution(run)[1]) and not open_alarms(run), "the alarm is cleared")
        kinds = (
            RunEvent.objects.filter(run=run, kind__startswith="alarm").order_by("seq").values_list("kind", flat=True)
        )
        assert list(kinds) == ["alarm_raised", "alarm_cleared"]


def test_where_no_other_engine_takes_calls_the_alarm_says_so_and_the_call_ends_when_the_engine_goes_on(
    stage: Backstage,
) -> None:
    run = stage.run(harness_timeout_s=12)
    execution, base = stage.execution(run)
    with _engine(run, 0) as only:
        os.kill(only, signal.SIGSTOP)
        with stage_thread(lambda: _ask(base)) as answer:
            [alarm] = wait_for(lambda: open_alarms(run), "the alarm stands")
            assert (alarm.payload["severity"], "no other engine" in alarm.payload["message"]) == ("bad", True)
            os.kill(only, signal.SIGCONT)
        assert answer() == 200
        assert [call.state for call in stage.calls(execution)] == ["complete"]
        wait_for(lambda: not open_alarms(run), "the alarm is cleared")


def test_the_alarm_of_an_engine_that_is_started_anew_does_not_stay(stage: Backstage) -> None:
    run = stage.run(harness_timeout_s=12)
    _, base = stage.execution(run)
    with _engine(run, 0) as first, _engine(run, 1):
        os.kill(first, signal.SIGSTOP)
        assert _ask(base) == 200
        wait_for(lambda: open_alarms(run), "the alarm stands")
        Cell.objects.filter(run=run, index=0).update(role=Cell.Role.LOST)
        wait_for(lambda: not open_alarms(run), "the alarm is cleared")


@contextmanager
def stage_thread(work: Callable[[], int]) -> Iterator[Callable[[], int]]:
    """Run it beside the block, which waits for it; then ask what it returned."""
    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor(1) as pool:
        found = pool.submit(work)
        yield lambda: found.result(60)


@pytest.mark.parametrize(
    ("run_limit_s", "task_limit_s", "at_most_s", "expected_s"),
    [
        (60, None, 600, 20),
        (60, 30, 600, 10),
        (60, 600, 600, 20),
        (14_400, None, 600, 600),
        (6, None, 600, 5),
        (60, None, 2, 2),
    ],
)
def test_the_wait_for_a_first_token_follows_the_shorter_limit_of_run_and_task_and_never_exceeds_the_setting(
    stage: Backstage, run_limit_s: float, task_limit_s: float | None, at_most_s: float, expected_s: float
) -> None:
    run = stage.run(harness_timeout_s=run_limit_s)
    stage.engine(run, "done")
    execution, base = stage.execution(run)
    execution.group.task.config = {"agent": {"timeout_s": task_limit_s}}
    execution.group.task.save()
    assert _ask(base) == 200
    [session] = stage.app.sessions._by_key.values()
    assert session.patience(at_most_s) == pytest.approx(expected_s)
