"""`manage.py bench`: the last line of standard output is one JSON object with figures and their baselines."""

import json
from io import StringIO

import numpy as np
import pytest
from django.core.management import call_command
from django.core.management.base import CommandError

from gyreweb.bench import BENCHES, Figure, load, report, synthetic
from gyreweb.bench.tree import fold_whole


def test_the_tree_bench_ends_with_one_json_object() -> None:
    out = StringIO()
    call_command("bench", "tree", stdout=out)
    *table, last = out.getvalue().strip().splitlines()
    found = json.loads(last)
    assert found["bench"] == "tree"
    assert len(table) == len(found["figures"])
    figures = found["figures"]
    assert figures["num_calls"] == {"value": 300, "unit": "calls", "baseline": None, "ratio": None}
    assert (round(figures["input_tokens"]["value"] / 1e6, 1), figures["unique_tokens"]["value"]) == (22.4, 680_300)
    assert figures["storage_times_less"]["value"] >= 25
    assert figures["corrupted_tokens_that_forked"]["ratio"] == 1


def test_one_corrupted_token_anywhere_forks_there() -> None:
    calls = list(synthetic.execution(seed=3, num_calls=12))
    rng = np.random.default_rng(0)
    for at in [0, 1, len(calls[-1].input_ids) - 1, *rng.integers(0, len(calls[-1].input_ids), 30).tolist()]:
        tree = fold_whole(calls)
        before, corrupted = tree.num_tokens, calls[-1].input_ids.copy()
        corrupted[at] += 1
        tree.insert(99, corrupted, calls[-1].output)
        assert tree.num_tokens - before == len(corrupted) - at + len(calls[-1].output.ids)
        assert np.array_equal(tree.path_tokens(99).ids[: len(corrupted)], corrupted)


def test_the_select_bench_draws_five_trajectories_of_the_long_execution() -> None:
    found = load("select")()
    assert found["trajectories"].value == 5
    assert found["targets"].value < found["targets"].baseline


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


@pytest.mark.parametrize(("name", "number"), [("tree", 8), ("executions", 12), ("executions", 0), ("executions", -8)])
def test_a_burst_is_whole_groups_of_the_bench_that_has_one(name: str, number: int) -> None:
    with pytest.raises(CommandError, match="multiple of 8"):
        call_command("bench", name, executions=number)
