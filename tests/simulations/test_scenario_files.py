"""A scenario survives its file, and a file that cannot be one is refused with the reason."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from scheduler.simulator import scenarios
from scheduler.simulator.scenarios import BadScenario
from scheduler.simulator.scenarios.files import to_toml
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
        ({"settings": {"burst_batches": 5}}, "max_staleness"),
        ({"settings": {"cells": 2}}, "hold 384"),
        ({"recorded": {"seconds": [[1.0, -2.0]]}}, "positive seconds"),
        ({"settings": {"cells": "12"}}, "cells needs a number, got '12', which is a string: write it without quotes"),
        ({"settings": {"cells": float("inf")}}, "cells needs a finite number, got inf"),
        ({"settings": {"cells": 10**400}}, "cells needs a number of at most 1,000,000,000,000, got one of 401 digits"),
        ({"settings": {"steps": 10**9}}, "steps is 1,000,000,000, at most 1,000,000 is allowed"),
        ({"workload": {"execution_h": float("nan")}}, "execution_h needs a finite number, got nan"),
        ({"workload": {"execution_h": float("inf")}}, "execution_h needs a finite number, got inf"),
        ({"workload": {"execution_h": 1e300}}, r"execution_h is 1e\+300, must be above 0 and at most 10,000"),
        ({"workload": {"commit_s": -1}}, "commit_s is -1.0, must be at least 0 and at most 36,000,000"),
        ({"workload": {"log_sd_within": 1e3}}, "log_sd_within is 1000.0, must be at least 0 and at most 10"),
        ({"workload": {"cell_failures_per_h": 1e9}}, "cell_failures_per_h is .* at most 3,600"),
        ({"recorded": {"seconds": []}}, r"\[recorded\] seconds is empty; leave the table out"),
        ({"recorded": {"seconds": [[1.0], []]}}, "positive seconds"),
        ({"recorded": {"seconds": [[float("inf")]]}}, "positive seconds per group, each at most 36,000,000"),
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


def test_what_is_no_text_file_is_refused_with_the_reason(tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_bytes(b'description = "\xfc"\n')
    with pytest.raises(BadScenario, match=r"mine.toml is not UTF-8, as a .toml file must be: .* at byte 15"):
        scenarios.load(str(path))
    (tmp_path / "folder.toml").mkdir()
    for folder in (tmp_path / "folder.toml", tmp_path):
        with pytest.raises(BadScenario, match="is a directory; a"):
            scenarios.load(str(folder))


def test_recorded_durations_are_what_a_run_takes() -> None:
    from scheduler.simulator.core import simulate

    flat = small(alpha=1.0, environment_share=0.0, move_stall_s=0.0)
    result = simulate(flat.settings, flat.workload, "async-streamed", 1, recorded=((1800.0,),))
    assert result.execution_h == pytest.approx(0.5)
