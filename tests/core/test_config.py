"""Run settings: one schema, loud refusals."""

import pytest

from agents.config import AgentSettings, BadConfig
from scheduler.config import RunConfig, SchedulingSettings, allowed, parse, preset, preset_names
from trainers.config import TrainingSettings


@pytest.mark.parametrize("name", preset_names())
def test_every_preset_is_valid(name: str) -> None:
    assert preset(name).steps >= 1


def test_an_unknown_preset_is_refused_with_the_known_ones() -> None:
    with pytest.raises(BadConfig, match="known presets: mini-swe, quickstart, quickstart-shuffled"):
        preset("quickstrat")


def test_an_unknown_setting_is_refused_by_name() -> None:
    with pytest.raises(BadConfig) as refused:
        parse({"rho_mim": 0.5})
    assert "known settings" in refused.value.problems["rho_mim"]


def test_a_setting_that_is_called_like_an_argument_is_refused_as_any_unknown_one() -> None:
    with pytest.raises(BadConfig, match="unknown setting"):
        preset("quickstart", **{"name": "x"})


def test_every_ill_typed_setting_is_named_at_once() -> None:
    with pytest.raises(BadConfig) as refused:
        parse({"cells": "two", "loss": "dpo", "rho_min": 3})
    assert set(refused.value.problems) == {"cells", "loss", "rho_min"}
    assert "ppo_clip" in refused.value.problems["loss"]


@pytest.mark.parametrize("value", ["1_0", "１０", "0x10", "ten", "", "1,000", "inf", "nan", True])
@pytest.mark.parametrize("name", ["steps", "learning_rate"])
def test_what_is_no_plain_decimal_number_is_no_number(name: str, value: object) -> None:
    with pytest.raises(BadConfig) as refused:
        preset("quickstart", **{name: value})
    assert list(refused.value.problems) == [name]


def test_plain_numbers_may_come_as_text() -> None:
    config = preset("quickstart", steps=" 12 ", learning_rate="7e-4")
    assert (config.steps, config.learning_rate) == (12, 7e-4)


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        (
            {"burst_batches": 3},
            r"burst_batches \+ burst_lead is 3, at most max_staleness \+ 1 = \d keeps the staleness bound",
        ),
        ({"cells": 1}, r"a burst is .* = \d+ executions, but cells x concurrency_per_cell hold 64"),
        ({"context_tokens": 8192}, "never split"),
        ({"training_cells": 2}, "no cell of 2"),
        ({"min_rollout_cells": 3}, "exceeds cells"),
        ({"policy_kind": "async-barrier", "cells": 1, "burst_batches": 1}, "at least 2"),
        ({"role_order": ["main", "main"]}, "twice"),
    ],
)
def test_settings_that_do_not_fit_together_are_refused_with_the_reason(changes: dict, why: str) -> None:
    with pytest.raises(BadConfig, match=why):
        preset("quickstart", **changes)


def test_settings_survive_the_database_round_trip() -> None:
    config = preset("quickstart")
    assert RunConfig.model_validate(config.model_dump(mode="json")) == config


def test_the_control_preset_differs_from_quickstart_only_in_its_rewards() -> None:
    assert preset("quickstart-shuffled") == preset("quickstart").model_copy(update={"shuffle_rewards": True})


@pytest.mark.parametrize("name", RunConfig.model_fields)
def test_every_setting_says_what_it_means(name: str) -> None:
    words = (RunConfig.model_fields[name].description or "").split()
    assert len(words) > 1


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("cells", "at least 1 and at most 64"),
        ("clip_low", "more than 0 and less than 1"),
        ("temperature", "more than 0"),
        ("rho_min", "more than 0 and at most 1"),
        ("seed", "at least 0"),
        ("loss", ""),
    ],
)
def test_the_range_of_a_number_is_said_in_words(name: str, words: str) -> None:
    assert allowed(name) == words


@pytest.mark.parametrize(
    ("name", "value"),
    [("steps", 10**30), ("seed", 2**63), ("learning_rate", float("inf")), ("overall_timeout_s", 1e300),
     ("retain_logs", 1e9), ("reward_sentinels", [1e200]), ("reward_sentinels", [float("nan")]), ("reward_key", "a\0b"),
     ("policy_path", "x" * 5_000), ("reward_key", "\ud800"), ("reward_key", "a\u202eb")],
)  # fmt: skip
def test_numbers_and_texts_that_no_column_or_clock_holds_are_refused(name: str, value: object) -> None:
    with pytest.raises(BadConfig, match=name):
        preset("quickstart", **{name: value})


@pytest.mark.parametrize("stored", [None, [], "x", {"steps": "many", "cells": 3}, {"cells": 3, "evil": 1}])
def test_a_stored_config_is_readable_whatever_it_is(stored: object) -> None:
    found = RunConfig.readable(stored)
    assert set(found) == set(RunConfig.model_fields)
    assert found["steps"] == 48
    assert found["cells"] == (3 if isinstance(stored, dict) else 8)


def test_a_setting_that_is_no_more_is_accepted_with_its_old_value_alone() -> None:
    assert parse({"top_p": 1.0}) == parse({})
    with pytest.raises(BadConfig, match="unknown setting"):
        parse({"top_p": 0.9})


def test_each_package_takes_its_own_settings_out_of_the_whole() -> None:
    complete = preset("quickstart").model_dump(mode="json")
    parts = [
        part.parse(complete).model_dump(mode="json") for part in (AgentSettings, TrainingSettings, SchedulingSettings)
    ]
    assert {name: value for part in parts for name, value in part.items()} == complete
    assert all(len(part) < len(complete) for part in parts)
