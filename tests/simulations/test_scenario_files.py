"""A scenario survives its file, and a file that cannot be one is refused with the reason."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from scheduler import scenarios
from scheduler.scenarios import BadScenario
from scheduler.scenarios.files import to_toml
from tests.simulations.small import small


@pytest.mark.parametrize("name", scenarios.preset_names())
def test_a_preset_survives_its_file(name: str, tmp_path: Path) -> None:
    preset = scenarios.load(name)
    path = tmp_path / f"{name}.toml"
    path.write_text(to_toml(preset))
    assert scenarios.load(str(path)) == preset


def test_recorded_durations_survive_the_file(tmp_path: Path) -> None:
    fitted = replace(
        small(),
        name="fitted",
        recorded=((1.25, 3600.5), (17.0,)),
        fit={"error": {"hours": -0.02}, "assumed": ["alpha"]},
    )
    path = tmp_path / "fitted.toml"
    path.write_text(to_toml(fitted))
    assert scenarios.load(str(path)) == fitted


@pytest.mark.parametrize(
    ("tables", "why"),
    [
        ({"setings": {}}, "unknown table 'setings'"),
        ({"settings": {"cels": 3}}, r"\[settings\] has no 'cels'; known: .*cells"),
        ({"workload": {"execution": 3}}, r"\[workload\] has no 'execution'; known: .*execution_h"),
        ({"workload": {"alpha": 2}}, r"alpha is 2.0, must be in \[0, 1\]"),
        ({"workload": {"execution_h": "long"}}, "execution_h needs a number"),
        ({"settings": {"cells": 6.5}}, "cells needs a whole number"),
        ({"settings": {"burst_batches": 5}}, "keeps the staleness bound"),
        ({"settings": {"cells": 2}}, "hold 384"),
        ({"recorded": {"seconds": [[1.0, -2.0]]}}, "positive seconds"),
        ({"recorded": {"minutes": [[1.0]]}}, "positive seconds"),
    ],
)
def test_a_file_that_cannot_be_simulated_is_refused_with_the_reason(tables: dict, why: str) -> None:
    with pytest.raises(BadScenario, match=why):
        scenarios.parse(tables, "mine")


def test_an_unknown_preset_is_refused_with_the_known_ones() -> None:
    with pytest.raises(BadScenario, match=r"known presets: .*baseline-set"):
        scenarios.load("baseline")
    with pytest.raises(BadScenario, match="no such file"):
        scenarios.load("nowhere/mine.toml")


def test_recorded_durations_are_what_a_run_takes() -> None:
    from scheduler.core.simulate import simulate

    flat = small(alpha=1.0, environment_share=0.0, move_stall_s=0.0)
    result = simulate(flat.settings, flat.workload, "async-streamed", 1, recorded=((1800.0,),))
    assert result.execution_h == pytest.approx(0.5)
