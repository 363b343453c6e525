"""Whatever the rows say, `decide` answers; and what it saw comes back whole from JSON."""

import json

from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler.core import snapshot as facts
from scheduler.core.counters import Counters
from scheduler.core.decide import decide
from scheduler.core.policies import REGISTRY
from tests.scheduler.snapshots import settings as make_settings

small = st.integers(0, 40)
times = st.floats(0, 1e9)
roles = st.sampled_from([facts.STARTING, facts.ROLLOUT, facts.TRAINING, facts.SWITCHING, facts.LOST, facts.STOPPED])
durations = st.none() | st.floats(0, 100)


@st.composite
def cells(draw: st.DrawFn) -> tuple[facts.Cell, ...]:
    return tuple(
        facts.Cell(
            index=index,
            is_core=index == 0,
            role=draw(roles),
            desired_role=draw(st.sampled_from([facts.ROLLOUT, facts.TRAINING, facts.STOPPED])),
            weight_version=draw(st.integers(-1, 20)),
            evaluation=draw(st.none() | st.integers(0, 3)),
            num_calls=draw(small),
            role_since_s=draw(st.none() | times),
            last_claim_s=draw(st.none() | times),
            num_uncounted=draw(small),
            to_training_s=draw(durations),
        )
        for index in range(draw(st.integers(0, 4)))
    )


@st.composite
def bursts(draw: st.DrawFn) -> tuple[facts.Burst, ...]:
    return tuple(
        facts.Burst(
            number=number,
            version=draw(small),
            max_staleness=draw(st.integers(0, 3)),
            groups_per_batch=draw(st.integers(1, 9)),
            num_unfinished=draw(small),
            num_admitted=draw(small),
            ready=tuple(facts.ReadyGroup(draw(small), draw(times)) for _ in range(draw(st.integers(0, 5)))),
            settled_at_s=draw(times),
        )
        for number in range(draw(st.integers(0, 3)))
    )


overrides = st.builds(
    facts.Override,
    id=small,
    kind=st.sampled_from(["pin", "forbid_switch", "drain", "hold_dispatch", "setting"]),
    expires_at_s=times,
    cell_index=st.none() | st.integers(0, 4),
    role=st.sampled_from([facts.ROLLOUT, facts.TRAINING, ""]),
    name=st.sampled_from(["rho_min", "j_max", "concurrency_per_cell", "max_staleness", "nonsense"]),
    number=st.floats(-5, 50),
    unsafe=st.booleans(),
)


@st.composite
def snapshots(draw: st.DrawFn) -> facts.Snapshot:
    finished, running, waiting = draw(small), draw(small), draw(small)
    batch = st.builds(
        facts.Batch,
        number=small,
        burst=st.integers(0, 4),
        version=small,
        sealed=st.booleans(),
        num_groups=small,
        num_unclaimed=small,
        num_uncounted=small,
        num_counted=small,
    )
    return facts.Snapshot(
        taken_at_s=draw(times),
        policy_kind=draw(st.sampled_from(sorted(REGISTRY))),
        version=draw(st.integers(0, 21)),
        counters=Counters(finished + running + waiting, finished + running, finished, draw(small)),
        settings=make_settings(
            eval_every_steps=draw(st.integers(0, 4)),
            burst_lead=draw(st.integers(0, 3)),
            max_staleness=draw(st.integers(0, 4)),
            min_rollout_cells=draw(st.integers(0, 3)),
        ),
        cells=draw(cells()),
        bursts=draw(bursts()),
        batch=draw(st.none() | batch),
        evaluation=draw(
            st.none()
            | st.builds(facts.Evaluation, number=st.integers(0, 3), version=small, num_waiting=small, num_running=small)
        ),
        evaluated=tuple(draw(st.lists(small, max_size=4))),
        overrides=tuple(draw(st.lists(overrides, max_size=3))),
        work=facts.Work(draw(durations), draw(durations)),
        num_void_in_a_row=draw(small),
        dispatch_held=draw(st.booleans()),
        paused=draw(st.booleans()),
    )


@settings(max_examples=400, deadline=None)
@given(snapshots())
def test_decide_answers_every_snapshot_with_reasons_and_comes_back_from_json(snapshot: facts.Snapshot) -> None:
    policy = REGISTRY[snapshot.policy_kind]
    decisions = decide(snapshot, policy, snapshot.taken_at_s)
    assert all(decision.reason and decision.reason_code for decision in decisions)
    assert all(len(decision.reason_code) <= 40 and len(decision.kind) <= 32 for decision in decisions)
    for decision in decisions:
        assert json.loads(json.dumps(decision.to_json()))["reason"] == decision.reason
    again = facts.Snapshot.from_json(json.loads(json.dumps(snapshot.to_json())))
    assert again == snapshot
    assert decide(again, policy, again.taken_at_s) == decisions


@settings(max_examples=400, deadline=None)
@given(snapshots())
def test_no_cell_is_told_two_things_at_once(snapshot: facts.Snapshot) -> None:
    decisions = decide(snapshot, REGISTRY[snapshot.policy_kind], snapshot.taken_at_s)
    moved = [d.cell_index for d in decisions if d.accepted and d.cell_index is not None and "launch" not in d.kind]
    assert len(moved) == len(set(moved)), [d.reason for d in decisions]
