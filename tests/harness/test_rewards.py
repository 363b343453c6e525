"""Reward files and what they are worth (docs/tasks.md "From work to reward")."""

import pytest

from agents.core.bounds import MAX_REWARD
from agents.core.outcome import Reason
from agents.harness.evaluator.rewards import MAX_BYTES, MAX_KEYS, read


@pytest.mark.parametrize(
    "text", ["1", " 0.25\n", "-2.5", "3", "1e-3", "+1", ".5", "5.", "0.5\r\n", "\t1E2\f", "1e9", "-0"]
)
def test_a_finite_number_in_reward_txt_is_the_reward(text: str) -> None:
    assert read(None, text.encode()).value == float(text)


@pytest.mark.parametrize(
    "text", ["", "nan", "inf", "-Infinity", "one", "0.5 0.5", "\xff", "1_000", "0x1", "+-1", "1e", "1,5", "--1", "1 0",
             "1e999", "-1e200", "1000000001", "9" * 5_000]
)  # fmt: skip
def test_anything_else_in_reward_txt_is_unresolved(text: str) -> None:
    score = read(None, text.encode("latin-1"))
    assert (score.value, score.reason_code) == (None, Reason.REWARD_INVALID)


@pytest.mark.parametrize("text", ["\u0661", "\uff11", "1\u00a0", "\u20031", "\ufeff1", "\u2212" + "1", "1\0"])
def test_digits_signs_and_blanks_beyond_ascii_are_no_number(text: str) -> None:
    assert read(None, text.encode()).reason_code is Reason.REWARD_INVALID


def test_a_reward_beyond_the_bound_is_unresolved_and_says_the_bound_and_other_keys_may_be_large() -> None:
    assert read(b'{"reward": 1e9, "ns": 123456789012345678901}', None).value == MAX_REWARD
    for text in (b"1e200", b"-1000000000.5"):
        score = read(None, text)
        assert (score.value, score.reason_code, score.rewards) == (None, Reason.REWARD_INVALID, {})
        assert "between -1e+09 and 1e+09" in score.reason
    huge = b'{"reward": %s}' % (b"9" * 4_000)
    assert read(huge, None).reason_code is Reason.REWARD_INVALID
    assert read(b'{"reward": %s}' % (b"9" * 5_000), None).reason_code is Reason.REWARD_INVALID


def test_a_file_that_is_cut_off_or_has_too_many_or_too_long_keys_is_not_read() -> None:
    assert read(None, b"1".ljust(MAX_BYTES)).reason_code is Reason.REWARD_INVALID
    assert read(None, b"1".ljust(MAX_BYTES - 1)).value == 1
    many = ", ".join(f'"k{n}": 1' for n in range(MAX_KEYS))
    assert read(f'{{"reward": 1, {many}}}'.encode(), None).reason_code is Reason.REWARD_INVALID
    assert read(b'{"reward": 1, "%s": 1}' % (b"k" * 201), None).reason_code is Reason.REWARD_INVALID


def test_a_missing_file_is_unresolved_and_not_zero() -> None:
    assert read(None, None).reason_code is Reason.REWARD_MISSING


def test_reward_json_wins_even_when_it_is_broken() -> None:
    assert read(b'{"reward": 0.5}', b"1").value == 0.5
    assert read(b"{", b"1").reason_code is Reason.REWARD_INVALID


@pytest.mark.parametrize(
    "text", ["", "0.5", "null", "[1]", '"1"', '{"reward": null}', '{"reward": "1"}', '{"reward": {"a": 1}}',
             '{"reward": NaN}', '{"reward": 1, "b": Infinity}', '{"reward": 1e999}', "[" * 100_000,
             '{"a":' * 900 + "1" + "}" * 900, "[" * 900 + "]" * 900, "\ufeff{}"]
)  # fmt: skip
def test_reward_json_must_be_an_object_of_finite_numbers(text: str) -> None:
    assert read(text.encode(), None).reason_code is Reason.REWARD_INVALID


def test_every_key_is_kept_and_the_configured_one_is_trained() -> None:
    score = read(b'{"tests": 0.5, "style": true}', None, key="style")
    assert (score.value, score.rewards) == (1.0, {"tests": 0.5, "style": 1.0})


@pytest.mark.parametrize("text", ["{}", '{"tests": 1}'])
def test_an_object_without_the_configured_key_is_unresolved(text: str) -> None:
    assert read(text.encode(), None).reason_code is Reason.REWARD_KEY_MISSING
