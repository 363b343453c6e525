"""Random simulated runs: settings, workloads, policies, seeds. Small enough to check every law after every event."""

from dataclasses import dataclass, replace
from typing import Any

from hypothesis import strategies as st

from scheduler.core.policies import REGISTRY
from scheduler.core.settings import Settings
from scheduler.simulator.core import Workload

#: Their pauses or fixed splits break the capacity rule by definition (docs/scheduling.md). All others obey it.
EXEMPT_FROM_CAPACITY = frozenset({"colocate", "async-barrier", "async-streamed", "async-best"})
POLICIES = sorted(REGISTRY)


@dataclass(frozen=True)
class Case:
    """One run to simulate."""

    settings: Settings
    workload: Workload
    policy_kind: str
    seed: int


def make_settings(**changes: Any) -> Settings:
    base: dict[str, Any] = {
        "cells": 2,
        "concurrency_per_cell": 8,
        "groups_per_batch": 2,
        "executions_per_group": 2,
        "steps": 4,
        "burst_batches": 1,
        "burst_lead": 0,
        "max_staleness": 0,
        "max_void_groups": 10**6,
        "rho_min": 0.5,
        "supply_hold_s": 0.0,
        "min_rollout_cells": 0,
        "j_max": 5,
        "training_cells": 0,
        "eval_every_steps": 0,
        "eval_tasks": 0,
    }
    return Settings(**{**base, **changes})


@st.composite
def some_settings(draw: st.DrawFn, policy_kind: str) -> Settings:
    num_batches, lead = draw(st.integers(1, 3)), draw(st.integers(0, 2))
    size, executions = draw(st.integers(1, 4)), draw(st.integers(1, 4))
    cells = draw(st.integers(2 if policy_kind.startswith("async") else 1, 5))
    least = -(-num_batches * size * executions // cells)
    return make_settings(
        cells=cells,
        concurrency_per_cell=draw(st.integers(least, least + 6)),
        groups_per_batch=size,
        executions_per_group=executions,
        steps=draw(st.integers(1, 7)),
        burst_batches=num_batches,
        burst_lead=lead,
        max_staleness=num_batches + lead - 1 + draw(st.integers(0, 1)),
        rho_min=draw(st.sampled_from([0.05, 0.25, 0.5, 1.0])),
        supply_hold_s=draw(st.sampled_from([0.0, 1.0, 20.0])),
        min_rollout_cells=draw(st.integers(0, min(2, cells))),
        j_max=draw(st.integers(0, 6)),
        training_cells=draw(st.integers(0, cells - 1)),
        eval_every_steps=draw(st.integers(0, 3)),
        eval_tasks=draw(st.integers(1, 6)),
    )


def _some(*values: float) -> st.SearchStrategy[float]:
    return st.sampled_from(values)


@st.composite
def some_workloads(draw: st.DrawFn, executions_per_group: int, min_failures_per_h: float | None = None) -> Workload:
    """Tails, timeouts, unresolved and no-work executions, free and dear switches. Some groups stay usable."""
    unresolved = draw(_some(0.0, 0.0, 0.1, 0.5))
    workload = Workload(
        execution_h=draw(st.floats(0.02, 3.0)),
        log_sd_between=draw(_some(0.0, 0.2, 0.7)),
        log_sd_within=draw(_some(0.0, 0.3, 0.9)),
        tail_share=draw(_some(0.0, 0.05, 0.3)),
        tail_exponent=draw(_some(1.2, 3.0)),
        cap_h=draw(_some(0.5, 6.0)),
        harness_timeout_s=draw(_some(600.0, 7_200.0, 36_000.0)),
        evaluation_s=draw(_some(0.0, 0.0, 30.0)),
        unresolved_share=unresolved,
        no_work_share=draw(_some(0.0, 0.1, 0.5)) if unresolved < 0.5 else 0.0,
        min_votes=draw(st.integers(0, 1 if unresolved == 0.5 else min(3, executions_per_group))),
        environment_share=draw(_some(0.0, 0.3, 1.0)),
        alpha=draw(_some(0.0, 0.75, 1.0)),
        train_cell_h=draw(st.floats(0.01, 4.0)),
        micro_steps_per_group=draw(st.integers(1, 6)),
        dp_efficiency=draw(_some(0.8, 0.97, 1.0)),
        commit_s=draw(_some(0.0, 30.0, 180.0)),
        to_training_s=draw(_some(0.0, 8.52, 600.0)),
        to_rollout_s=draw(_some(0.0, 3.46, 300.0)),
        move_stall_s=draw(_some(0.0, 180.0)),
        resume_stall_s=draw(_some(0.0, 180.0)),
        update_stall_s=draw(_some(0.0, 20.0)),
        eval_execution_h=draw(_some(0.05, 0.5)),
    )
    if min_failures_per_h is None:
        return workload
    # A core that dies more often than it can train a batch never ends: keep batches well below the mean life.
    return replace(
        workload,
        train_cell_h=min(workload.train_cell_h, 0.5),
        cell_failures_per_h=draw(st.floats(min_failures_per_h, 0.3)),
        repair_s=draw(_some(30.0, 600.0, 5_000.0)),
    )


@st.composite
def cases(draw: st.DrawFn, policies: tuple[str, ...] = tuple(POLICIES), failing: bool = False) -> Case:
    """Any run; with `failing` also one whose cells die."""
    policy_kind = draw(st.sampled_from(policies))
    chosen = draw(some_settings(policy_kind))
    return Case(
        chosen,
        draw(some_workloads(chosen.executions_per_group, 0.1 if failing else None)),
        policy_kind,
        draw(st.integers(0, 10**6)),
    )
