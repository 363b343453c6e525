"""`manage.py simulate`, as it is typed, where no database answers."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from django.core.management import CommandError, call_command

from gyreweb.env import REPO_ROOT
from tests.simulations.small import small_file

NOWHERE = {"DATABASE_URL": "postgresql://nobody@127.0.0.1:1/nothing", "REDIS_URL": "redis://127.0.0.1:1/0"}


def command(*arguments: object) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "manage.py", "simulate", *map(str, arguments)],
        cwd=REPO_ROOT,
        env=os.environ | NOWHERE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def run(*arguments: object) -> tuple[int, str, str]:
    process = command(*arguments)
    out, err = process.communicate()
    return process.returncode, out, err


def lines(text: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in text.splitlines()]


@pytest.fixture(scope="module")
def preset(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return small_file(tmp_path_factory.mktemp("preset"))


def test_json_is_one_object_per_policy_and_seed_and_one_last_line(preset: Path) -> None:
    code, out, _ = run("--preset", preset, "--policy", "elastic,colocate", "--seeds", 2, "--json")
    assert code == 0
    *rows, last = lines(out)
    assert [(row["policy"], row["seed"]) for row in rows] == [
        ("elastic", 1), ("elastic", 2), ("colocate", 1), ("colocate", 2),
    ]  # fmt: skip
    figures = {
        "hours",
        "hours_per_step",
        "utilisation",
        "execution_h",
        "query_h",
        "query_ge_4h",
        "E_d",
        "switches",
        "bound_h",
    }
    assert all(figures <= set(row) for row in rows)
    assert {"preset", "hours_per_step", "ratio_to_elastic", "E_d", "execution_h", "query_h", "query_ge_4h"} <= set(last)
    assert last["bound_h_per_step"] <= min(last["hours_per_step"].values())
    assert last["ratio_to_elastic"]["elastic"] == 1.0
    assert "half and half" not in last["definitions"]["colocate"]


def test_a_sweep_prints_a_block_per_point_and_marks_every_object(preset: Path) -> None:
    options = ("--policy", "elastic", "--seeds", 5, "--sweep", "rho_min=0.34,1", "--set", "steps=4", "--json")
    _, out, _ = run("--preset", preset, *options)
    settings = [row["set"] for row in lines(out)]
    assert settings == [{"rho_min": 0.34}] * 6 + [{"rho_min": 1}] * 6
    assert all(row["steps"] == 4 for row in lines(out) if "seed" in row)


def test_a_sweep_overrides_what_is_set_and_the_preset_even_where_those_could_not_be_run(preset: Path) -> None:
    options = ("--policy", "elastic", "--seeds", 1, "--set", "cells=1", "--sweep", "cells=3,4", "--json")
    code, out, err = run("--preset", preset, *options)
    assert (code, err) == (0, "")
    assert [row["cells"] for row in lines(out) if "seed" in row] == [3, 4]
    options = ("--policy", "elastic", "--seeds", 1, "--set", "groups_per_batch=6", "--sweep", "cells=6,7")
    code, out, _ = run("--preset", preset, *options)
    assert code == 0
    assert "K swept" in out


def test_the_table_stands_beside_the_definitions_and_a_legend(preset: Path, tmp_path: Path) -> None:
    code, out, err = run("--preset", preset, "--policy", "colocate,async-best", "--seeds", 2, "--out", tmp_path)
    assert code == 0
    for text in ("colocate", "the fastest of 2 splits is", "every cell rolls out", "t interval", "cell-h", "bound"):
        assert text in out
    assert "elastic was not asked for; it ran as the reference" in out
    assert {path.name for path in tmp_path.iterdir()} >= {
        "results.jsonl", "hours.png", "hours.svg", "staleness.png", "timelines.svg", "timeline-colocate.png",
    }  # fmt: skip
    assert all(path.stat().st_size > 4000 for path in tmp_path.glob("*.png"))
    assert "results.jsonl" in err


def test_gpu_hours_are_told_when_a_cell_says_how_many_gpus_it_has(preset: Path) -> None:
    _, out, _ = run("--preset", preset, "--policy", "elastic", "--seeds", 1, "--gpus-per-cell", 32, "--json")
    row = lines(out)[0]
    assert row["gpu_hours"] == pytest.approx(row["hours"] * 3 * 32)


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (["--preset", "nl2repo"], "known presets"),
        (["--preset", "{preset}", "--policy", "greedy"], "known: elastic"),
        (["--preset", "{preset}", "--set", "rho=1"], "rho_min"),
        (["--preset", "{preset}", "--set", "rho_min=0"], "it must be in (0, 1]"),
        (["--preset", "{preset}", "--seeds", "x"], "a range a-b"),
        (["--preset", "{preset}", "--jobs", "0"], "at least 1"),
        (["--preset", "{preset}", "--gpus-per-cell", "0"], "--gpus-per-cell is 0, at least 1 is needed"),
        (["--preset", "{preset}", "--gpus-per-cell", "-8"], "--gpus-per-cell is -8, at least 1 is needed"),
        (["--preset", "{preset}", "--set", "execution_h=inf"], "got inf"),
        (["--preset", "{preset}", "--set", "execution_h=nan"], "got nan"),
        (["--preset", "{preset}", "--set", "execution_h=1e300"], "at most 10,000"),
        (["--preset", "{preset}", "--sweep", "nope=4,x"], "'nope'"),
        (["--preset", "{preset}", "--set", "cells=1", "--sweep", "rho_min=0.5,1"], "a burst is"),
        (["--preset", "{preset}", "--set", "cells=6", "--sweep", "cells=3,1"], "at cells=1: a burst is"),
        (
            ["--preset", "{preset}", "--policy", "async-best", "--set", "cells=1", "--set", "concurrency_per_cell=48"],
            "async-best needs",
        ),
        (["--preset", "{preset}", "--write", "mine.txt"], ".toml"),
        (["--seeds", "1"], "--preset --fit-from is required"),
    ],
)
def test_what_cannot_be_simulated_is_refused_with_what_can(preset: Path, arguments: list[str], why: str) -> None:
    with pytest.raises(CommandError) as refused:
        call_command("simulate", *[argument.format(preset=preset) for argument in arguments])
    assert why in str(refused.value)


def test_a_run_that_is_read_needs_a_database_that_answers() -> None:
    code, _, err = run("--fit-from", 1)
    assert code == 1
    assert "the database does not answer (DATABASE_URL)" in err
    assert "Traceback" not in err


def test_a_run_that_cannot_go_on_is_told_with_its_reason(tmp_path: Path) -> None:
    code, out, _ = run("--preset", small_file(tmp_path, unresolved_share=1.0), "--policy", "elastic", "--seeds", 1)
    assert code == 1
    assert "elastic did not finish, seed 1:" in out
    assert "unresolved_share 1 of them" in out


def test_cells_that_fail_come_back_on_request(preset: Path) -> None:
    _, calm, _ = run("--preset", preset, "--policy", "elastic", "--seeds", 3, "--json")
    code, rough, _ = run(
        "--preset", preset, "--policy", "elastic", "--seeds", 3, "--set", "cell_failures_per_h=0.3", "--json"
    )
    assert code == 0
    assert all(row["utilisation"]["lost"] > 0 for row in lines(rough)[:3])
    assert lines(rough)[-1]["hours_per_step"]["elastic"] > lines(calm)[-1]["hours_per_step"]["elastic"]


@pytest.mark.parametrize("jobs", [1, 2])
def test_an_interrupt_prints_what_is_done_so_far(preset: Path, jobs: int) -> None:
    sweep = "steps=4," + ",".join(str(steps) for steps in range(400, 440))
    process = command(
        "--preset", preset, "--policy", "elastic", "--seeds", 2, "--sweep", sweep, "--json", "--jobs", jobs
    )
    first = [process.stdout.readline() for _ in range(3)]  # the first point: two seeds and its last line
    os.killpg(process.pid, signal.SIGINT)
    rest, err = process.communicate(timeout=60)
    assert process.returncode == 130
    assert json.loads(first[2])["set"] == {"steps": 4}
    assert "interrupted after" in err
    assert all(json.loads(line) for line in rest.splitlines())
    assert "Traceback" not in err


def test_a_scenario_that_was_written_gives_the_same_run(preset: Path, tmp_path: Path) -> None:
    mine = tmp_path / "mine.toml"
    arguments = ("--policy", "elastic", "--seeds", 1, "--json")
    _, out, err = run("--preset", preset, "--set", "j_max=0", "--write", mine, *arguments)
    assert str(mine) in err
    assert lines(run("--preset", mine, *arguments)[1])[0] == lines(out)[0]
