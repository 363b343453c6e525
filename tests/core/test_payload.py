"""trainers.core.payload: a micro-step travels as bytes and refuses to be malformed."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from agents.core.codec import CorruptTokens
from trainers.core.payload import Payload, decode_payload, encode_payload

finite = st.floats(-1e3, 1e3, width=32)


@st.composite
def payloads(draw: st.DrawFn) -> Payload:
    lengths = draw(st.lists(st.integers(1, 12), max_size=6))
    bounds = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)
    total = int(bounds[-1])
    mask = draw(arrays.arrays(np.bool_, total))
    mask[bounds[:-1]] = False

    def masked(dtype: type, elements: st.SearchStrategy, fill: int) -> np.ndarray:
        return np.where(mask, draw(arrays.arrays(dtype, total, elements=elements)), dtype(fill))

    return Payload(
        input_ids=draw(arrays.arrays(np.int32, total)),
        cu_seqlens=bounds,
        target_mask=mask,
        behaviour_logprobs=masked(np.float32, finite, 0),
        weights=masked(np.float32, finite, 0),
        advantages=masked(np.float32, finite, 0),
        call_ids=masked(np.int32, st.integers(0, 50), -1),
        versions=masked(np.int32, st.integers(0, 50), -1),
    )


@given(payloads())
def test_a_micro_step_round_trips_bit_for_bit(before: Payload) -> None:
    after = decode_payload(encode_payload(before))
    for name in Payload.__dataclass_fields__:
        first, second = getattr(before, name), getattr(after, name)
        assert first.dtype == second.dtype, name
        assert first.tobytes() == second.tobytes(), name
    assert after.num_targets == before.num_targets
    assert after.num_trajectories == len(before.cu_seqlens) - 1


def whole() -> Payload:
    return Payload(
        input_ids=np.arange(5, dtype=np.int32),
        cu_seqlens=np.array([0, 2, 5], np.int32),
        target_mask=np.array([0, 1, 0, 0, 1], np.bool_),
        behaviour_logprobs=np.array([0, -1, 0, 0, -2], np.float32),
        weights=np.array([0, 1, 0, 0, 1], np.float32),
        advantages=np.array([0, 1, 0, 0, 1], np.float32),
        call_ids=np.array([-1, 0, -1, -1, 1], np.int32),
        versions=np.array([-1, 0, -1, -1, 0], np.int32),
    )


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"versions": np.zeros(4, np.int32)}, "5 items"),
        ({"cu_seqlens": np.array([0, 2, 2, 5], np.int32)}, "rise from 0 to 5"),
        ({"cu_seqlens": np.array([0, 2], np.int32)}, "rise from 0 to 5"),
        ({"target_mask": np.array([1, 0, 0, 0, 0], np.bool_)}, "first token"),
        ({"behaviour_logprobs": np.array([0, np.nan, 0, 0, 0], np.float32)}, "not finite"),
    ],
)
def test_a_micro_step_that_breaks_a_rule_is_refused(change: dict[str, np.ndarray], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        encode_payload(replace(whole(), **change))


def test_cut_bytes_are_corrupt() -> None:
    data = encode_payload(whole())
    for cut in range(1, len(data)):
        with pytest.raises(CorruptTokens):
            decode_payload(data[:cut])
