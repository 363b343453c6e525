"""Reward files and what they are worth (tasks.md §4)."""

import pytest

from agents.core.outcome import Reason
from agents.harness.evaluator.rewards import read


@pytest.mark.parametrize("text", ["1", " 0.25\n", "-2.5", "3", "1e-3"])
def test_a_finite_number_in_reward_txt_is_the_reward(text: str) -> None:
    assert read(None, text.encode()).value == float(text)


@pytest.mark.parametrize("text", ["", "nan", "inf", "-Infinity", "one", "0.5 0.5", "\xff"])
def test_anything_else_in_reward_txt_is_unresolved(text: str) -> None:
    score = read(None, text.encode("latin-1"))
    assert (score.value, score.reason_code) == (None, Reason.REWARD_INVALID)


def test_a_missing_file_is_unresolved_and_not_zero() -> None:
    assert read(None, None).reason_code is Reason.REWARD_MISSING


def test_reward_json_wins_even_when_it_is_broken() -> None:
    assert read(b'{"reward": 0.5}', b"1").value == 0.5
    assert read(b"{", b"1").reason_code is Reason.REWARD_INVALID


@pytest.mark.parametrize(
    "text", ["", "0.5", "null", "[1]", '"1"', '{"reward": null}', '{"reward": "1"}', '{"reward": {"a": 1}}',
             '{"reward": NaN}', '{"reward": 1, "b": Infinity}', '{"reward": 1e999}', "[" * 100_000]
)  # fmt: skip
def test_reward_json_must_be_an_object_of_finite_numbers(text: str) -> None:
    assert read(text.encode(), None).reason_code is Reason.REWARD_INVALID


def test_every_key_is_kept_and_the_configured_one_is_trained() -> None:
    score = read(b'{"tests": 0.5, "style": true}', None, key="style")
    assert (score.value, score.rewards) == (1.0, {"tests": 0.5, "style": 1.0})


@pytest.mark.parametrize("text", ["{}", '{"tests": 1}'])
def test_an_object_without_the_configured_key_is_unresolved(text: str) -> None:
    assert read(text.encode(), None).reason_code is Reason.REWARD_KEY_MISSING
