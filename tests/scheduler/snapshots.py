"""Snapshots for tests of single rules: quickstart's shape, two cells in rollout, changed where a test needs it."""

from dataclasses import replace
from typing import Any

from scheduler.core.counters import Counters
from scheduler.core.decide import decide
from scheduler.core.decisions import Decision, Kind
from scheduler.core.policies import policy_of
from scheduler.core.settings import Settings
from scheduler.core.snapshot import ROLLOUT, Burst, Cell, ReadyGroup, Snapshot

NOW_S = 1_000.0


def settings(**changes: Any) -> Settings:
    base: dict[str, Any] = {
        "cells": 2,
        "concurrency_per_cell": 64,
        "groups_per_batch": 8,
        "executions_per_group": 8,
        "steps": 20,
        "burst_batches": 2,
        "burst_lead": 0,
        "max_staleness": 1,
        "max_void_groups": 8,
        "rho_min": 0.25,
        "supply_hold_s": 1.0,
        "min_rollout_cells": 0,
        "j_max": 5,
        "training_cells": 0,
        "eval_every_steps": 4,
        "eval_tasks": 64,
    }
    return Settings(**{**base, **changes})


def cell(index: int, role: str = ROLLOUT, **changes: Any) -> Cell:
    made = Cell(index=index, is_core=index == 0, role=role, desired_role=role, to_training_s=1.0, to_rollout_s=1.0)
    return replace(made, **changes)


def burst(num_ready: int = 0, num_unfinished: int = 0, num_admitted: int = 0, **changes: Any) -> Burst:
    """Ready for ten seconds."""
    made = Burst(
        number=0,
        version=0,
        max_staleness=1,
        groups_per_batch=8,
        num_unfinished=num_unfinished,
        num_admitted=num_admitted,
        ready=tuple(ReadyGroup(100 + n, NOW_S - 10.0) for n in range(num_ready)),
        settled_at_s=NOW_S - 10.0,
    )
    return replace(made, **changes)


def snapshot_with(waterlevel: int = 0, *bursts: Burst, **changes: Any) -> Snapshot:
    """W executions are owed and all of them run; version 0 is evaluated already."""
    made = Snapshot(
        taken_at_s=NOW_S,
        policy_kind="elastic",
        version=0,
        counters=Counters(dispatched=128, launched=128, finished=128 - waterlevel),
        settings=settings(),
        cells=(cell(0), cell(1)),
        bursts=bursts,
        evaluated=(0,),
        next_burst=1,
        next_evaluation=1,
    )
    return replace(made, **changes)


def decided(snapshot: Snapshot) -> list[Decision]:
    return decide(snapshot, policy_of(snapshot.policy_kind), snapshot.taken_at_s)


def only(snapshot: Snapshot, kind: Kind, cell_index: int | None = None) -> Decision:
    """The one decision of this kind (about this cell). AssertionError when there is none or more than one."""
    found = [d for d in decided(snapshot) if d.kind == kind and cell_index in (None, d.cell_index)]
    assert len(found) == 1, [d.reason for d in decided(snapshot)]
    return found[0]


def none(snapshot: Snapshot, kind: Kind) -> bool:
    return not any(d.kind == kind and d.accepted for d in decided(snapshot))
