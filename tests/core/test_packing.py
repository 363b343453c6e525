"""trainers.core.packing: every trajectory once, whole, and with its own weight (docs/algorithms.md §8, §11)."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agents.core.codec import NodeTokens
from agents.core.trained import TrainedTrajectory
from trainers.core.packing import assign, pack
from trainers.core.payload import Payload, check


@st.composite
def items(draw: st.DrawFn) -> list[TrainedTrajectory]:
    made = []
    for number in range(draw(st.integers(0, 6))):
        n = draw(st.integers(1, 20))
        rng = np.random.default_rng(draw(st.integers(0, 2**16)))
        targets = rng.random(n) < 0.5
        targets[0] = False
        made.append(
            TrainedTrajectory(
                NodeTokens(
                    ids=np.full(n, number, np.int32),
                    sampled=targets,
                    logprobs=-rng.random(n).astype(np.float32),
                    versions=rng.integers(0, 3, n).astype(np.int32),
                    samplers=rng.integers(0, 3, n).astype(np.int32),
                ),
                targets,
                weight=1 / (number + 1),
                advantage=float(number) - 2,
            )
        )
    return made


def pieces(payloads: list[Payload]) -> dict[int, tuple[Payload, slice]]:
    """Where each item went, by the id that fills it."""
    found = {}
    for payload in payloads:
        for start, end in zip(payload.cu_seqlens[:-1], payload.cu_seqlens[1:], strict=True):
            number = int(payload.input_ids[start])
            assert number not in found
            found[number] = (payload, slice(int(start), int(end)))
    return found


@given(items(), st.integers(20, 60))
def test_each_trajectory_is_in_one_micro_step_with_all_it_brought(made: list[TrainedTrajectory], capacity: int) -> None:
    payloads = pack(made, capacity)
    found = pieces(payloads)
    assert sorted(found) == list(range(len(made)))
    for number, (payload, where) in found.items():
        item, at = made[number], made[number].targets
        assert payload.input_ids[where].tolist() == item.tokens.ids.tolist()
        assert payload.target_mask[where].tolist() == at.tolist()
        assert payload.behaviour_logprobs[where][at].tolist() == item.tokens.logprobs[at].tolist()
        assert payload.versions[where][at].tolist() == item.tokens.versions[at].tolist()
        assert set(payload.weights[where][at].tolist()) <= {float(np.float32(item.weight))}
        assert set(payload.advantages[where][at].tolist()) <= {item.advantage}
        assert not payload.weights[where][~at].any()
        assert set(payload.call_ids[where][~at].tolist()) <= {-1}


@given(items(), st.integers(20, 60))
def test_targets_share_a_sequence_exactly_if_one_call_sampled_them_in_one_trajectory(
    made: list[TrainedTrajectory], capacity: int
) -> None:
    for payload in pack(made, capacity):
        check(payload)
        pairs: dict[int, set[tuple[int, int]]] = {}
        for start, end in zip(payload.cu_seqlens[:-1], payload.cu_seqlens[1:], strict=True):
            number = int(payload.input_ids[start])
            for at in np.flatnonzero(payload.target_mask[start:end]):
                owner = (number, int(made[number].tokens.samplers[at]))
                pairs.setdefault(int(payload.call_ids[start + at]), set()).add(owner)
        assert all(len(owners) == 1 for owners in pairs.values())
        assert len(set().union(*pairs.values())) == len(pairs)


@given(st.lists(st.integers(1, 50)), st.integers(50, 100))
def test_no_bin_overflows_and_first_fit_stays_within_its_bound(lengths: list[int], capacity: int) -> None:
    bins = assign(lengths, capacity)
    assert sorted(item for members in bins for item in members) == list(range(len(lengths)))
    assert all(0 < sum(lengths[item] for item in members) <= capacity for members in bins)
    fewest = -(-sum(lengths) // capacity)
    assert len(bins) <= max(2 * fewest, 1)


def test_a_trajectory_over_the_capacity_is_refused_not_cut() -> None:
    with pytest.raises(ValueError, match="51 tokens is over the 50"):
        assign([51], 50)
