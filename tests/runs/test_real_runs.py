"""Real runs of a few steps: real harness, sandbox, proxy, engines, trainers, transfer, scheduler and database."""

from pathlib import Path

import pytest

from tests.runs.conftest import RUNS, Gyre


@pytest.mark.parametrize("name", list(RUNS))
def test_a_run_finishes_and_keeps_every_invariant(gyre: Gyre, name: str) -> None:
    run_id = gyre.finished(name)
    version, steps = gyre.sql("SELECT version, (config->>'steps')::int FROM agents_run WHERE id = %s", run_id)[0]
    assert version == steps
    checked = gyre.manage("verify_run", str(run_id))
    assert checked.returncode == 0, checked.stdout
    replayed = gyre.manage("replay_decisions", str(run_id))
    assert replayed.returncode == 0, replayed.stdout + replayed.stderr
    assert "not compared" not in replayed.stdout


def test_no_execution_is_unresolved_and_no_call_is_a_false_fork(gyre: Gyre) -> None:
    run_id = gyre.finished("elastic")
    outcomes = dict(gyre.sql("SELECT outcome, count(*) FROM agents_execution WHERE run_id = %s GROUP BY 1", run_id))
    assert set(outcomes) <= {"complete", "partial"}
    forks = gyre.sql("SELECT sum(num_false_forks), sum(num_calls) FROM agents_execution WHERE run_id = %s", run_id)[0]
    assert forks[0] == 0
    assert forks[1] > 2 * sum(outcomes.values()) - 1


def test_both_cells_serve_calls_and_both_count_micro_steps(gyre: Gyre) -> None:
    run_id = gyre.finished("elastic")
    serving = gyre.sql(
        "SELECT DISTINCT c.cell FROM agents_call c JOIN agents_execution e ON e.id = c.execution_id "
        "WHERE e.run_id = %s",
        run_id,
    )
    assert {cell for (cell,) in serving} == {0, 1}
    training = gyre.sql(
        "SELECT DISTINCT h.cell_index FROM trainers_handin h JOIN trainers_batch b ON b.id = h.batch_id "
        "WHERE b.run_id = %s AND h.state = 'counted'",
        run_id,
    )
    assert {cell for (cell,) in training} == {0, 1}


def test_sampler_and_trainer_agree_on_tokens_of_the_current_version(gyre: Gyre) -> None:
    run_id = gyre.finished("elastic")
    first = gyre.sql("SELECT metrics FROM trainers_batch WHERE run_id = %s AND number = 1", run_id)[0][0]
    assert set(first["staleness"]) == {"0"}
    assert first["logprob_gap"] < 1e-3


def test_staleness_stays_within_its_bound(gyre: Gyre) -> None:
    run_id = gyre.finished("elastic")
    metrics = gyre.sql("SELECT metrics FROM trainers_batch WHERE run_id = %s AND state = 'stepped'", run_id)
    assert {int(d) for (batch,) in metrics for d in batch["staleness"]} == {0, 1}


def test_elastic_plus_starts_a_group_ahead_and_trains_it_with_the_next_burst(gyre: Gyre) -> None:
    run_id = gyre.finished("elastic-plus")
    sizes = gyre.sql("SELECT version, num_groups FROM scheduler_burst WHERE run_id = %s ORDER BY number", run_id)
    assert sizes == [(0, 12), (2, 1), (3, 11)]
    together = gyre.sql(
        "SELECT batch, array_agg(burst ORDER BY burst) FROM agents_group WHERE run_id = %s GROUP BY 1 ORDER BY 1",
        run_id,
    )
    assert [bursts for _, bursts in together if len(set(bursts)) > 1] == [[1, 2, 2, 2]]


def test_held_out_tasks_are_evaluated_before_the_first_and_after_the_last_step(gyre: Gyre) -> None:
    run_id = gyre.finished("elastic")
    evaluations = gyre.sql(
        "SELECT version, state, num_scored FROM scheduler_evaluation WHERE run_id = %s ORDER BY version", run_id
    )
    assert evaluations == [(0, "finished", 8), (2, "finished", 8), (3, "finished", 8)]


def test_the_trained_policy_exports_and_differs_from_the_first(gyre: Gyre, tmp_path: Path) -> None:
    from safetensors.numpy import load_file

    run_id = gyre.finished("elastic")
    folders = {version: tmp_path / f"v{version}" for version in (1, 3)}
    for version, folder in folders.items():
        done = gyre.manage("export_policy", str(run_id), "--version", str(version), "--out", str(folder))
        assert done.returncode == 0, done.stderr
    first, last = (load_file(folder / "model.safetensors") for folder in folders.values())
    assert first.keys() == last.keys()
    assert any((first[name] != last[name]).any() for name in first)
