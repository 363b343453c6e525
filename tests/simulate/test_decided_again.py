"""What the simulator decided, the live scheduler decides on the same snapshot: stored as JSON, read, asked again."""

import json

from hypothesis import given, settings

from scheduler.core.decide import decide
from scheduler.core.decisions import Decision
from scheduler.core.policies import policy_of
from scheduler.core.snapshot import Snapshot
from scheduler.simulator.core import World
from tests.simulate.strategies import Case, cases


@settings(max_examples=60)
@given(cases(failing=True))
def test_every_stored_snapshot_of_a_simulated_run_is_decided_the_same_again(case: Case) -> None:
    stored: list[tuple[str, list[str]]] = []

    def store(snapshot: Snapshot, decisions: list[Decision]) -> None:
        stored.append((json.dumps(snapshot.to_json()), [json.dumps(d.to_json()) for d in decisions]))

    World(case.settings, case.workload, case.policy_kind, case.seed, on_decisions=store).run()
    assert len(stored) > case.settings.steps
    for text, made in stored:
        snapshot = Snapshot.from_json(json.loads(text))
        again = decide(snapshot, policy_of(snapshot.policy_kind), snapshot.taken_at_s)
        assert [json.dumps(d.to_json()) for d in again] == made
