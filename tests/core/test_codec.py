"""agents.core.codec: token arrays survive the trip to bytes and back, bit for bit."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from agents.core import codec

ids = arrays.arrays(np.int32, st.integers(0, 60))
floats = st.floats(width=32, allow_nan=True)


def delta(new_input_ids: np.ndarray, logprobs: list[float]) -> codec.CallDelta:
    output = np.arange(len(logprobs), dtype=np.int32)
    return codec.CallDelta(new_input_ids, output, np.array(logprobs, np.float32))


@st.composite
def nodes(draw: st.DrawFn) -> codec.NodeTokens:
    token_ids = draw(ids)
    n = len(token_ids)
    sampled = draw(arrays.arrays(np.bool_, n))
    logprobs = np.where(sampled, draw(arrays.arrays(np.float32, n, elements=floats)), np.float32(0))
    versions = np.where(sampled, draw(arrays.arrays(np.int32, n)), np.int32(-1))
    samplers = np.where(sampled, draw(arrays.arrays(np.int32, n)), np.int32(-1))
    return codec.NodeTokens(token_ids, sampled, logprobs, versions, samplers)


def same_bits(a: np.ndarray, b: np.ndarray) -> bool:
    return a.dtype == b.dtype and a.tobytes() == b.tobytes()


@given(ids, st.lists(floats, max_size=40))
def test_a_call_round_trips_bit_for_bit(new_input_ids: np.ndarray, logprobs: list[float]) -> None:
    before = delta(new_input_ids, logprobs)
    after = codec.decode_call(codec.encode_call(before))
    assert same_bits(before.new_input_ids, after.new_input_ids)
    assert same_bits(before.output_ids, after.output_ids)
    assert same_bits(before.output_logprobs, after.output_logprobs)


@given(nodes())
def test_a_node_round_trips_bit_for_bit(before: codec.NodeTokens) -> None:
    after = codec.decode_node(codec.encode_node(before))
    for name in ("ids", "sampled", "logprobs", "versions", "samplers"):
        assert same_bits(getattr(before, name), getattr(after, name)), name


def test_no_bytes_stand_for_an_empty_call() -> None:
    assert len(codec.decode_call(b"").new_input_ids) == 0
    assert len(codec.decode_node(b"").ids) == 0


def test_decoded_arrays_are_writable() -> None:
    after = codec.decode_call(codec.encode_call(delta(np.array([1, 2], np.int32), [-0.5])))
    after.new_input_ids[0] = 7
    assert after.new_input_ids.tolist() == [7, 2]


def test_a_call_with_too_few_logprobs_is_refused() -> None:
    broken = codec.CallDelta(np.array([1], np.int32), np.array([2, 3], np.int32), np.array([0.0], np.float32))
    with pytest.raises(ValueError, match="2 output ids with 1 log-probabilities"):
        codec.encode_call(broken)


@given(ids, st.lists(floats, max_size=10), st.data())
def test_a_cut_or_changed_schema_is_corrupt_not_a_crash(
    new_input_ids: np.ndarray, logprobs: list[float], data: st.DataObject
) -> None:
    whole = codec.encode_call(delta(new_input_ids, logprobs))
    cut = data.draw(st.integers(1, len(whole) - 1))
    with pytest.raises(codec.CorruptTokens):
        codec.decode_call(whole[:cut])
    with pytest.raises(codec.CorruptTokens):
        codec.decode_node(whole)


@pytest.mark.parametrize("length", [200, 2, 4])
def test_a_header_that_announces_more_or_less_than_the_planes_hold_is_corrupt(length: int) -> None:
    whole = bytearray(codec.encode_call(delta(np.array([1, 2, 3], np.int32), [])))
    whole[1] = length
    with pytest.raises(codec.CorruptTokens):
        codec.decode_call(bytes(whole))


def test_a_plane_that_unpacks_to_more_than_announced_is_corrupt() -> None:
    whole = bytearray(codec.encode_call(delta(np.arange(4000, dtype=np.int32), [])))
    whole[1:3] = (3000).to_bytes(2, "little")
    with pytest.raises(codec.CorruptTokens):
        codec.decode_call(bytes(whole))


def test_a_million_tokens_of_text_take_less_than_half_of_their_raw_bytes() -> None:
    rng = np.random.default_rng(0)
    token_ids = (rng.zipf(1.3, 1_000_000) % 150_000).astype(np.int32)
    logprobs = -rng.exponential(0.5, len(token_ids)).astype(np.float32)
    n = len(token_ids)
    node = codec.NodeTokens(token_ids, np.ones(n, np.bool_), logprobs, np.zeros(n, np.int32), np.full(n, 3, np.int32))
    assert len(codec.encode_node(node)) < 0.7 * 8 * n


def test_versions_and_samplers_that_do_not_change_take_next_to_nothing() -> None:
    n = 2000
    rng = np.random.default_rng(0)
    call = codec.CallDelta(
        np.empty(0, np.int32),
        rng.integers(0, 150_000, n, dtype=np.int32),
        -rng.exponential(0.5, n).astype(np.float32),
    )
    node = codec.NodeTokens(
        call.output_ids, np.ones(n, np.bool_), call.output_logprobs, np.full(n, 7, np.int32), np.full(n, 3, np.int32)
    )
    assert len(codec.encode_node(node)) - len(codec.encode_call(call)) < 40
