"""A proxy that is gone for longer than its harnesses have: the time does not count, and nobody is timed out for it."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from django.db import connections

from agents.executions import outages
from agents.executions.worker import Worker
from agents.models import Execution, ProxyProcess
from tests.harness.rows import queue, write_task
from tests.proxy.backstage import Backstage, backstage, tool_text
from tests.proxy.gate import Gate
from tests.proxy.processes import proxy_process
from tests.support.waiting import wait_for
from tests.support.work import evaluate_next, run_next

#: Shorter than a proxy takes to start.
LIMIT_S = 4.0


@pytest.fixture
def stage(database_url: str) -> Iterator[Backstage]:
    with backstage(database_url) as found:
        yield found


@pytest.fixture
def worker(tmp_path: Path) -> Iterator[Worker]:
    home = tmp_path / "home"
    home.mkdir(mode=0o700)
    found = Worker(home, tmp_path / "no-proxy.sock")
    yield found
    found.end()


def _held_s(execution: Execution) -> float:
    return outages.held_s(execution.pk, execution.attempt)


def test_an_execution_whose_proxy_is_killed_and_comes_back_late_is_not_timed_out(
    stage: Backstage, worker: Worker, database_url: str, tmp_path: Path
) -> None:
    (execution,) = queue(stage, write_task(tmp_path / "tasks"), harness_timeout_s=LIMIT_S)
    engine = stage.engine(execution.run, tool_text("bash", command="echo apple > a.txt"), "done")
    gate = Gate(stage, engine)

    def work() -> None:
        try:
            run_next(worker)
        finally:
            connections.close_all()

    running = threading.Thread(target=work)
    with proxy_process(database_url, tmp_path, "proxy-outage") as first:
        running.start()
        wait_for(lambda: engine.scripted.running, "the harness asks its first question")
        execution.refresh_from_db()
        assert execution.proxy is not None
        first.kill()
    gate.open()
    wait_for(lambda: _held_s(execution) > LIMIT_S + 1, "the proxy is gone for longer than the harness has")
    assert running.is_alive()
    with proxy_process(database_url, tmp_path, "proxy-outage"):
        running.join(60)
    assert not running.is_alive()
    assert evaluate_next(worker)
    execution.refresh_from_db()
    assert (execution.state, execution.outcome, execution.timed_out) == ("finished", "complete", False)
    assert execution.held_s > LIMIT_S + 1


def _owned(stage: Backstage, name: str) -> Execution:
    execution, _ = stage.execution(stage.run())
    Execution.objects.filter(pk=execution.pk).update(proxy=ProxyProcess.objects.get(name=name))
    return execution


def test_a_proxy_that_stands_still_gives_its_executions_that_time_when_it_goes_on(
    stage: Backstage, database_url: str, tmp_path: Path
) -> None:
    with proxy_process(database_url, tmp_path, "proxy-still") as proxy:
        execution = _owned(stage, "proxy-still")
        os.kill(proxy.child.pid, signal.SIGSTOP)
        wait_for(lambda: _held_s(execution) > 2, "its absence counts while it lasts")
        os.kill(proxy.child.pid, signal.SIGCONT)
        wait_for(lambda: Execution.objects.get(pk=execution.pk).held_s > 4, "and is written when it is over")


def test_executions_of_other_proxies_and_ended_ones_get_nothing_of_it(
    stage: Backstage, database_url: str, tmp_path: Path
) -> None:
    with proxy_process(database_url, tmp_path, "proxy-other") as proxy:
        mine, ended, others = (_owned(stage, "proxy-other"), _owned(stage, "proxy-other"), _owned(stage, "proxy-0"))
        nobodys, _ = stage.execution(stage.run())
        Execution.objects.filter(pk=ended.pk).update(state=Execution.State.EVALUATING)
        proxy.kill()
    with proxy_process(database_url, tmp_path, "proxy-other"):
        held = {e.pk: Execution.objects.get(pk=e.pk).held_s for e in (mine, ended, others, nobodys)}
    assert held[mine.pk] > 0
    assert (held[ended.pk], held[others.pk], held[nobodys.pk]) == (0, 0, 0)
    assert _held_s(nobodys) == 0
