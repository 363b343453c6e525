"""Whatever the settings, the workload, the policy and the seed: a simulated run keeps the laws of the schedule."""

from dataclasses import asdict, replace
from math import isclose

import pytest
from hypothesis import given, settings

from scheduler.simulator.core import World, simulate
from tests.simulate.strategies import EXEMPT_FROM_CAPACITY, POLICIES, Case, cases
from tests.simulate.watched import Watch


@pytest.mark.parametrize("policy_kind", POLICIES)
def test_every_policy_keeps_every_law_at_every_decision(policy_kind: str) -> None:
    @settings(max_examples=40)
    @given(cases((policy_kind,)))
    def check(case: Case) -> None:
        Watch(case).run()

    check()


@settings(max_examples=60)
@given(cases())
def test_every_law_holds_after_every_event(case: Case) -> None:
    Watch(case, exhaustive=True).run()


@settings(max_examples=60)
@given(cases())
def test_shares_series_and_bounds_of_a_result_add_up(case: Case) -> None:
    watch = Watch(case)
    result = watch.run()
    used, end_s = result.utilisation, watch.world.now_s
    assert isclose(used["rollout"] + used["training"] + used["switching"] + used["lost"], 1.0, rel_tol=1e-9)
    assert used["training_busy"] <= used["training"] + 1e-9
    assert used["rollout_load"] <= used["rollout"] + 1e-9
    assert isclose(sum(result.staleness.values()), 1.0) or not result.staleness
    assert result.max_staleness <= case.settings.max_staleness
    assert -1e-9 <= result.mean_token_staleness <= result.mean_staleness + 1e-9
    assert result.groups["unused"] == 0
    assert result.executions == (result.groups["consumed"] + result.groups["void"]) * case.settings.executions_per_group
    assert [step.number for step in result.step_rows] == list(range(1, case.settings.steps + 1))
    series = [[at for at, _ in lane] for lane in result.lanes]
    series += [[at for at, _ in result.waterlevel], [step.finished_s for step in result.step_rows]]
    assert all(times == sorted(times) and (not times or times[-1] <= end_s) for times in series)
    assert all(waterlevel >= 0 for _, waterlevel in result.waterlevel)
    assert result.bounds.chain_h <= result.hours_per_step * (1 + 1e-9)
    # Without the gain of empty cells no schedule beats all work on all cells.
    if case.workload.alpha == 1.0 or case.workload.environment_share == 1.0:
        assert result.bounds.work_h <= result.hours_per_step * (1 + 1e-9)


@settings(max_examples=40)
@given(cases(failing=True))
def test_the_same_seed_gives_the_same_run(case: Case) -> None:
    first, again = (asdict(simulate(case.settings, case.workload, case.policy_kind, case.seed)) for _ in range(2))
    assert first == again


@settings(max_examples=40)
@given(cases())
def test_another_seed_draws_other_durations(case: Case) -> None:
    """Of executions that no cap cuts: two that are cut both take the cap, whatever was drawn."""
    workload = replace(case.workload, cap_h=1e6, log_sd_within=max(case.workload.log_sd_within, 0.1))
    worlds = [World(case.settings, workload, case.policy_kind, seed) for seed in (case.seed, case.seed + 1)]
    one, other = ([drawn.seconds for drawn in world.rollout.durations.groups(0, 4)] for world in worlds)
    assert all(mine != others for mine, others in zip(one, other, strict=True))


@settings(max_examples=30)
@given(cases(("async-streamed",)))
def test_policies_of_one_seed_meet_the_same_executions(case: Case) -> None:
    seen = []
    for policy_kind in ("elastic", "colocate", "async-streamed"):
        watch = Watch(replace(case, policy_kind=policy_kind))
        watch.run()
        seen.append({number: group.drawn for number, group in watch.groups.items()})
    common = set.intersection(*(set(groups) for groups in seen))
    assert len(common) >= case.settings.groups_per_batch
    assert all(seen[0][number] == groups[number] for number in common for groups in seen)


def test_only_the_named_baselines_are_exempt_from_the_capacity_rule() -> None:
    assert {"colocate", "async-barrier", "async-streamed", "async-best"} == EXEMPT_FROM_CAPACITY
    assert "elastic" in POLICIES
    assert set(POLICIES) >= EXEMPT_FROM_CAPACITY
