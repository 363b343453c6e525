"""The gate of a run: figures from the evaluation's own executions, and a reason for every limit that does not hold."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from agents.models import Execution, Run
from scheduler.models import Evaluation
from tests.support.evaluated_run import evaluate

Machine = Callable[..., Any]


@pytest.fixture
def evaluated(run: Run) -> Run:
    evaluate(run)
    return run


def _gate(machine: Machine, run: Run, query: str = "") -> Any:
    reply = machine("read").get(f"/api/v1/runs/{run.pk}/gate?{query}")
    assert reply.status_code == 200, reply.json()
    return reply.json()


def test_figures_and_their_standard_errors_come_from_the_evaluated_executions(machine: Machine, evaluated: Run) -> None:
    found = _gate(machine, evaluated)
    assert (found["first"]["mean"], found["last"]["mean"], found["gain"]) == (0.25, 0.75, 0.5)
    assert found["last"]["standard_error"] == pytest.approx(0.25)
    assert found["gain_standard_error"] == pytest.approx(0.288675, abs=1e-5)  # of the differences 0, 1, 1, 0
    assert (found["last"]["version"], found["last"]["num_scored"]) == (evaluated.version, 4)
    assert (found["verdict"], found["passed"], found["reasons"]) == ("passed", True, [])


def test_a_gain_over_different_tasks_has_the_error_of_two_means(machine: Machine, evaluated: Run) -> None:
    Execution.objects.filter(run=evaluated, group__number=2003).update(outcome="unresolved", reward=None)
    assert _gate(machine, evaluated)["gain_standard_error"] == pytest.approx((1 / 16 + 1 / 9) ** 0.5)


@pytest.mark.parametrize(
    ("query", "verdict", "reason"),
    [
        ("min_reward=0.75&min_gain=0.5", "passed", ""),
        ("min_reward=0.8", "failed", "held-out reward 0.750 ± 0.250 at version 2 (4 of 4 scored): does not reach 0.8"),
        ("min_gain=0.51", "failed", "held-out gain +0.500 ± 0.289: does not reach 0.51"),
        ("min_reward=0.6&margin=0.6", "passed", ""),
        ("min_reward=0.6&margin=1", "failed", "does not reach 0.6 by 1 standard errors"),
        ("max_unresolved_share=1&max_false_forks=1000000", "passed", ""),
        ("max_false_forks=0", "failed", "at most 0 may be"),
    ],
)
def test_each_limit_holds_or_says_why_not(
    machine: Machine, evaluated: Run, query: str, verdict: str, reason: str
) -> None:
    Execution.objects.filter(run=evaluated, group__kind="training").update(num_false_forks=1)
    found = _gate(machine, evaluated, query)
    assert found["verdict"] == verdict
    assert reason in " ".join(found["reasons"])
    assert len(found["checks"]) == 1 + sum(name.startswith(("min_", "max_")) for name in query.split("&"))


def test_a_run_that_did_not_finish_does_not_pass_and_one_that_goes_on_is_pending(
    machine: Machine, evaluated: Run
) -> None:
    for state, verdict in (("running", "pending"), ("paused", "pending"), ("stopped", "failed")):
        Run.objects.filter(pk=evaluated.pk).update(state=state, state_reason="why")
        found = _gate(machine, evaluated, "min_reward=0.1")
        assert (found["verdict"], found["passed"]) == (verdict, False)
        assert found["reasons"] == [f"the run is {state}, at step {evaluated.version} of 20: why"]


def test_without_evaluations_nothing_is_known_and_so_nothing_passes(machine: Machine, evaluated: Run) -> None:
    Evaluation.objects.filter(run=evaluated, number=2).delete()
    assert _gate(machine, evaluated, "min_gain=0")["reasons"] == [
        "a gain needs two finished evaluations; the run has 1"
    ]
    Evaluation.objects.filter(run=evaluated).delete()
    found = _gate(machine, evaluated, "min_reward=0")
    assert (found["verdict"], found["last"]) == ("failed", None)
    assert "no evaluation has finished" in found["reasons"][0]


def test_a_margin_needs_a_standard_error(machine: Machine, evaluated: Run) -> None:
    Execution.objects.filter(run=evaluated, group__kind="evaluation").delete()
    found = _gate(machine, evaluated, "min_reward=0.1&margin=1")
    assert (found["verdict"], found["last"]["standard_error"]) == ("failed", None)
    assert "no standard error is known" in found["reasons"][0]
