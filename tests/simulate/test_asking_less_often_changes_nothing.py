"""The simulator asks `decide` only when something it looks at has changed; asking after every event is the same run."""

from dataclasses import asdict
from typing import Any

from hypothesis import given, settings

from scheduler.core.decisions import Decision
from scheduler.core.snapshot import Snapshot
from scheduler.simulator.core import World, simulate
from tests.simulate.strategies import Case, cases


def everything(case: Case, *, exhaustive: bool) -> tuple[dict[str, Any], list[Any], int]:
    """The result without its counts of evaluations and wakes, every decision that was carried out, and evaluations."""
    carried_out: list[Any] = []

    def note(snapshot: Snapshot, decisions: list[Decision]) -> None:
        done = [d for d in decisions if d.accepted]
        carried_out.extend((snapshot.taken_at_s, d.kind, d.cell_index, d.reason, d.params) for d in done)

    world = World(case.settings, case.workload, case.policy_kind, case.seed, on_decisions=note, exhaustive=exhaustive)
    world.run()
    result = asdict(world.result(case.seed))
    evaluations = result.pop("evaluations")
    del result["events"]  # a wake that comes too late to matter may be planned by one and not by the other
    return result, carried_out, evaluations


def unwatched(case: Case) -> tuple[dict[str, Any], int]:
    """The result when nobody looks at decisions: `decide` is then not asked again after launches alone."""
    result = asdict(simulate(case.settings, case.workload, case.policy_kind, case.seed))
    evaluations = result.pop("evaluations")
    del result["events"]
    return result, evaluations


def same_run(case: Case) -> None:
    result, decisions, num = everything(case, exhaustive=False)
    every_result, every_decision, every_num = everything(case, exhaustive=True)
    assert decisions == every_decision
    assert result == every_result
    assert num <= every_num
    result, fewest = unwatched(case)
    assert result == every_result
    assert fewest <= num


@settings(max_examples=150)
@given(cases())
def test_asking_after_every_event_gives_the_same_run(case: Case) -> None:
    same_run(case)


@settings(max_examples=80)
@given(cases(failing=True))
def test_asking_after_every_event_gives_the_same_run_when_cells_die(case: Case) -> None:
    same_run(case)
