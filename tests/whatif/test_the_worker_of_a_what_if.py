"""A worker answers a what-if seed by seed; one that dies is followed by another, and a cancelled one ends at once."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from django.db import connection
from django.utils import timezone

from agents.models import Run
from scheduler.core.snapshot import Override
from scheduler.models import Override as Order
from scheduler.models import WhatIf
from scheduler.simulator.actions.end_what_if import cancel_what_if, resume_what_if
from scheduler.simulator.whatif import work
from scheduler.simulator.whatif.answer import answers, recommendation
from scheduler.simulator.whatif.inputs import Inputs
from tests.support.waiting import wait_for

Asked = Callable[..., WhatIf]


def points_of(row: WhatIf) -> list[dict[str, object]]:
    return list(row.points.order_by("number").values("number", "changes", "results"))


def test_every_point_gets_a_result_of_every_seed_and_the_first_is_the_present(asked: Asked) -> None:
    row = asked(rho_min="0.4, 1", cells="4")
    assert work.work_on(row.pk)
    row.refresh_from_db()
    assert (row.state, row.error, row.num_done) == ("finished", "", 9)
    found = answers(points_of(row))
    assert [point.label for point in found] == ["the present settings", "K = 4, rho_min = 0.4", "K = 4"]
    assert [point.num_done for point in found] == [3, 3, 3]
    assert all(point.hours is not None and point.hours.mean > 0 for point in found)
    assert found[0].ratio is not None
    assert found[0].ratio.mean == 1.0
    assert recommendation(found, row.fit)


def test_the_same_question_gives_the_same_figures(asked: Asked) -> None:
    first, second = asked(j_max="1"), asked(j_max="1")
    work.work_on(first.pk)
    WhatIf.objects.filter(pk=second.pk).update(inputs=WhatIf.objects.get(pk=first.pk).inputs)
    work.work_on(second.pk)
    assert points_of(first) == points_of(second)


def test_the_next_hours_are_run_up_to_the_version_that_the_present_settings_reach(asked: Asked, run: Run) -> None:
    row = asked(span="hours", hours=0.03, burst_batches="1")
    work.work_on(row.pk)
    row.refresh_from_db()
    assert row.target_version is not None
    assert run.version < row.target_version < run.config["steps"]
    for point in answers(points_of(row)):
        assert point.steps == row.target_version - run.version


def test_a_worker_that_dies_is_followed_by_one_that_does_only_what_is_left(asked: Asked) -> None:
    row = asked(rho_min="0.4, 0.7", seeds=4)
    work.work_on(row.pk)
    row.refresh_from_db()
    whole = points_of(row)
    assert row.num_done == 12
    last = row.points.get(number=2)
    last.results = last.results[:2]
    last.save()
    WhatIf.objects.filter(pk=row.pk).update(
        state="running", num_done=10, lease_expires_at=timezone.now() - timedelta(seconds=1), finished_at=None
    )
    assert work.waiting(0.0) == [row.pk]
    assert work.work_on(row.pk)
    row.refresh_from_db()
    assert (row.state, row.num_done, row.num_workers) == ("finished", 12, 2)
    assert points_of(row) == whole


def test_a_what_if_whose_workers_all_died_is_interrupted_and_can_be_resumed(asked: Asked) -> None:
    row = asked(rho_min="0.4")
    expired = timezone.now() - timedelta(seconds=1)
    WhatIf.objects.filter(pk=row.pk).update(state="running", num_workers=work.MAX_WORKERS, lease_expires_at=expired)
    assert not work.work_on(row.pk)
    row.refresh_from_db()
    assert row.state == "interrupted"
    assert "then resume it" in row.error
    resume_what_if(row)
    assert work.work_on(row.pk)
    row.refresh_from_db()
    assert (row.state, row.num_done) == ("finished", 6)


def test_nobody_takes_a_what_if_that_another_worker_holds(asked: Asked) -> None:
    row = asked(rho_min="0.4")
    WhatIf.objects.filter(pk=row.pk).update(
        state="running", lease_owner="other", lease_expires_at=timezone.now() + timedelta(seconds=60)
    )
    assert not work.work_on(row.pk)
    assert work.waiting(0.0) == []


@pytest.mark.django_db(transaction=True)
def test_cancelling_ends_the_simulating_process_and_keeps_what_is_done(asked: Asked) -> None:
    row = asked(rho_min="0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9", span="whole", seeds=20)

    def in_background() -> None:
        work.work_on(row.pk)
        connection.close()

    worker = threading.Thread(target=in_background)
    worker.start()
    wait_for(lambda: WhatIf.objects.get(pk=row.pk).num_done or not worker.is_alive(), "a simulation is done")
    cancel_what_if(row)
    worker.join(timeout=60)
    assert not worker.is_alive()
    row.refresh_from_db()
    assert row.state == "cancelled"
    assert 0 < row.num_done < row.num_to_do
    assert sum(len(point["results"]) for point in points_of(row)) == row.num_done


@pytest.mark.django_db(transaction=True)
def test_a_what_if_whose_simulating_process_is_killed_is_interrupted_and_can_be_resumed(
    asked: Asked, monkeypatch: pytest.MonkeyPatch
) -> None:
    row = asked(rho_min="0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9", span="whole", seeds=8)
    real, started = work.subprocess.Popen, []

    def remembered(*args: object, **kwargs: object) -> object:
        started.append(real(*args, **kwargs))  # type: ignore[call-overload]
        return started[-1]

    monkeypatch.setattr(work.subprocess, "Popen", remembered)
    keep, kept = work._keep, []

    def keep_and_kill_the_first(row: WhatIf, number: int, result: dict[str, object]) -> bool:
        if len(started) == 1:
            os.kill(started[0].pid, signal.SIGKILL)
        kept.append((number, result["seed"]))
        return keep(row, number, result)

    monkeypatch.setattr(work, "_keep", keep_and_kill_the_first)
    work.work_on(row.pk)
    row.refresh_from_db()
    assert row.state == "interrupted"
    assert "the simulating process was killed by signal 9 (SIGKILL)" in row.error
    assert "resuming goes on from there" in row.error
    assert 0 < row.num_done < row.num_to_do
    before = points_of(row)

    resume_what_if(row)
    assert work.work_on(row.pk)
    row.refresh_from_db()
    assert (row.state, row.num_done, len(started)) == ("finished", row.num_to_do, 2)
    assert len(kept) == len(set(kept)) == row.num_to_do, "the second process simulates only what is left"
    for then, now in zip(before, points_of(row), strict=True):
        assert now["results"][: len(then["results"])] == then["results"]  # type: ignore[index, arg-type]


def test_a_simulating_process_that_breaks_fails_the_what_if(asked: Asked, monkeypatch: pytest.MonkeyPatch) -> None:
    row = asked(rho_min="0.4")
    real = work.subprocess.Popen
    broken = [work.sys.executable, "-c", "import sys; sys.stdin.read(); sys.exit(3)"]
    monkeypatch.setattr(work.subprocess, "Popen", lambda _, **kwargs: real(broken, **kwargs))
    work.work_on(row.pk)
    row.refresh_from_db()
    assert (row.state, row.error) == ("failed", "the simulation broke: exit code 3")


def test_present_settings_that_get_stuck_fail_with_what_is_refused(asked: Asked) -> None:
    row = asked(span="hours", rho_min="0.4")
    work._read(row := WhatIf.objects.select_related("run").get(pk=row.pk))
    inputs = Inputs.unpack(row.inputs)
    assert inputs.snapshot is not None
    pins = tuple(
        Override(id=1, kind="pin", expires_at_s=float("inf"), cell_index=index, role="rollout") for index in range(3)
    )
    stuck = replace(inputs, snapshot=replace(inputs.snapshot, overrides=pins))
    WhatIf.objects.filter(pk=row.pk).update(inputs=stuck.pack())
    work.work_on(row.pk)
    row.refresh_from_db()
    assert row.state == "failed"
    assert "the present settings get stuck" in row.error
    assert "override 1 " in row.error


def test_a_moment_with_a_drained_cell_is_simulated(asked: Asked, django_user_model: Any) -> None:
    row = asked(span="hours", rho_min="0.4")
    owner = django_user_model.objects.create_user("operator")
    Order.objects.create(
        run=row.run,
        kind="drain",
        cell_index=1,
        owner=owner,
        reason="its fan is loud",
        expires_at=timezone.now() + timedelta(hours=1),
    )
    work.work_on(row.pk)
    row.refresh_from_db()
    assert (row.state, row.error) == ("finished", "")
    assert row.num_done == row.num_to_do
