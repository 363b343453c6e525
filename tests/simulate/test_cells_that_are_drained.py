"""A person drains a simulated cell: it hands in and stops, the others go on; it starts again when the order ends."""

import pytest

from scheduler.core import snapshot as facts
from scheduler.core.snapshot import Override
from scheduler.simulator.core import Workload, World
from tests.simulate.strategies import make_settings

HOUR_S = 3600.0
WORKLOAD = Workload(train_cell_h=2.0, repair_s=600.0)


def drained(cell_index: int, until_s: float, *, unsafe: bool = False, policy: str = "elastic") -> World:
    order = Override(5, "drain", expires_at_s=until_s, cell_index=cell_index, unsafe=unsafe)
    return World(make_settings(cells=3), WORKLOAD, policy, 1, overrides=(order,))


def roles(world: World, cell_index: int) -> list[str]:
    return [role for _, role in world.cells[cell_index].lane]


@pytest.mark.parametrize("policy", ["elastic", "elastic+", "colocate"])
def test_a_drained_satellite_stops_and_the_run_ends_on_the_others(policy: str) -> None:
    world = drained(2, float("inf"), policy=policy)
    world.run()
    assert world.version == world.settings.steps
    assert roles(world, 2) == [facts.ROLLOUT, facts.STOPPED]
    assert facts.TRAINING in roles(world, 0)


def test_it_starts_again_when_the_order_ends_and_takes_as_long_as_a_repair() -> None:
    world = drained(2, HOUR_S)
    world.run()
    lane = world.cells[2].lane
    stopped_s, starting_s, back_s = (lane[place][0] for place in (1, 2, 3))
    assert [role for _, role in lane[:4]] == [facts.ROLLOUT, facts.STOPPED, facts.STARTING, facts.ROLLOUT]
    assert stopped_s == 0.0
    assert starting_s == pytest.approx(HOUR_S)
    assert back_s - starting_s == pytest.approx(WORKLOAD.repair_s)


def test_a_core_that_is_drained_in_its_batch_against_the_rule_loses_the_sum_and_the_batch_is_done_again() -> None:
    plain = World(make_settings(cells=3), WORKLOAD, "elastic", 1)
    plain.run(until=lambda w: w.training.batch is not None and w.training.batch.num_claimed > 0)
    begun_s = plain.now_s
    plain.run()

    world = World(make_settings(cells=3), WORKLOAD, "elastic", 1)
    world.run(until=lambda w: w.now_s >= begun_s)
    world.overrides = (Override(5, "drain", expires_at_s=begun_s + HOUR_S, cell_index=0, unsafe=True),)
    world.agenda.at(HOUR_S, world.agenda.ask)
    world.run(until=lambda w: w.cells[0].role == facts.STOPPED)
    batch = world.training.batch
    assert batch is not None
    assert batch.num_counted == 0
    world.run()
    assert world.version == world.settings.steps
    assert world.tally.num_computed > plain.tally.num_computed
