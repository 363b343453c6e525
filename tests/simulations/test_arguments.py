"""Texts of the command line: seeds, settings, sweeps."""

import pytest

from scheduler.simulator.scenarios import BadScenario
from scheduler.simulator.studies import arguments


@pytest.mark.parametrize(
    ("text", "seeds"),
    [("3", (1, 2, 3)), ("21-24", (21, 22, 23, 24)), ("5,9,5", (5, 9)), ("1-2,7", (1, 2, 7)), ("1", (1,))],
)
def test_seeds_are_a_number_a_range_or_a_list(text: str, seeds: tuple[int, ...]) -> None:
    assert arguments.seeds(text) == seeds


@pytest.mark.parametrize("text", ["0", "", "a", "3-1", "1-", "-3", "1.5", "1-99999999"])
def test_seeds_that_name_none_or_far_too_many_are_refused(text: str) -> None:
    with pytest.raises(BadScenario, match="--seeds"):
        arguments.seeds(text)


def test_settings_and_sweeps_are_numbers() -> None:
    assert arguments.settings(["cells=4", "rho_min=0.25", "commit_s=1e2"]) == {
        "cells": 4, "rho_min": 0.25, "commit_s": 100.0,
    }  # fmt: skip
    assert arguments.sweeps(["cells=4,6", "rho_min=.1,.2,.1"]) == {"cells": [4, 6], "rho_min": [0.1, 0.2]}


@pytest.mark.parametrize(
    ("read", "text", "why"),
    [
        (arguments.settings, "cells", "--set takes key=value"),
        (arguments.settings, "cells=", "--set takes key=value"),
        (arguments.settings, "cells=four", "cells needs a number, got 'four'"),
        (arguments.settings, "nope=x", "'nope' is no setting of the simulator; known: .*rho_min"),
        (arguments.sweeps, "nope=4,x", "'nope' is no setting of the simulator; known: .*rho_min"),
        (arguments.sweeps, "cells", "--sweep takes key=a,b,c"),
        (arguments.sweeps, "cells=4,,6", "cells needs a number, got ''"),
    ],
)
def test_what_cannot_be_read_is_named(read, text: str, why: str) -> None:
    with pytest.raises(BadScenario, match=why):
        read([text])


def test_a_setting_is_swept_once() -> None:
    with pytest.raises(BadScenario, match="twice"):
        arguments.sweeps(["cells=4", "cells=6"])
