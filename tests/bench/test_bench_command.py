"""`manage.py bench`: the last line of standard output is one JSON object with figures and their baselines."""

import json
from io import StringIO

import pytest
from django.core.management import call_command
from django.core.management.base import CommandError

from gyreweb.bench import BENCHES, Figure, load, report


def test_the_tree_bench_ends_with_one_json_object() -> None:
    out = StringIO()
    call_command("bench", "tree", stdout=out)
    *table, last = out.getvalue().strip().splitlines()
    found = json.loads(last)
    assert found["bench"] == "tree"
    assert len(table) == len(found["figures"])
    assert found["figures"]["num_calls"] == {"value": 300, "unit": "calls", "baseline": None, "ratio": None}
    assert found["figures"]["input_tokens"]["value"] > 20e6
    assert found["figures"]["node_bytes"]["ratio"] < 0.1


def test_json_leaves_only_the_object() -> None:
    out = StringIO()
    call_command("bench", "tree", "--json", stdout=out)
    assert len(out.getvalue().strip().splitlines()) == 1


def test_every_registered_bench_can_be_loaded() -> None:
    assert all(callable(load(name)) for name in BENCHES)


def test_an_unknown_bench_is_refused() -> None:
    with pytest.raises(CommandError, match="invalid choice"):
        call_command("bench", "no-such")


def test_a_ratio_is_value_over_baseline() -> None:
    line = report("x", {"cost": Figure.against(3.0, 2.0, "s")})
    assert json.loads(line)["figures"] == {"cost": {"value": 3.0, "unit": "s", "baseline": 2.0, "ratio": 1.5}}
