"""Same batch, same gradient: on 1, 2 or 3 cells, and whatever dies when (docs/algorithms.md §8, §11)."""

import os
import signal
from pathlib import Path

import pytest
import torch

from agents.models import Run, RunEvent
from scheduler.actions.launch_cells import launch_cells, stop_cells
from scheduler.models import Cell
from tests.integration.cells import LiveCells, wait_for
from tests.integration.payloads import random_payload
from trainers.actions.enforce_retention import enforce_retention
from trainers.cell.training import checkpoint
from trainers.models import Batch, Checkpoint, HandIn, MicroStep, WeightVersion

PAYLOADS = [random_payload(seed) for seed in range(6)]
NUM_VOTES = 11
ADAM_KEEPS = 0.9


def gradient(run: Run) -> torch.Tensor:
    """The clipped gradient of the first step: Adam's first moment is a tenth of it."""
    row = Checkpoint.objects.get(run=run, version=1)
    [part] = checkpoint.read(Path(row.path), row.sha256).optimizer
    moments = [state["exp_avg"].flatten() for _, state in sorted(part["torch"]["state"].items())]
    return torch.cat(moments) / (1 - ADAM_KEEPS)


def finish(cells: LiveCells, run: Run, batch: Batch) -> torch.Tensor:
    cells.seal(batch, NUM_VOTES)
    cells.wait_version(run, 1)
    return gradient(run)


def on_cells(cells: LiveCells, num_cells: int) -> tuple[Run, torch.Tensor]:
    """Every satellite trains first; the core joins when each holds a sum."""
    run = cells.start(num_cells)
    satellites = list(range(1, num_cells))
    if satellites:
        cells.switch(run, "training", satellites)
    batch = cells.open_batch(run, PAYLOADS)
    if satellites:
        wait_for(lambda: not MicroStep.objects.filter(batch=batch, claimed_at=None).exists(), "all is claimed")
    cells.switch(run, "training", [0])
    found = finish(cells, run, batch)
    shares = dict.fromkeys(range(num_cells), 0)
    for index in MicroStep.objects.filter(batch=batch).values_list("cell_index", flat=True):
        shares[index] += 1
    assert sum(shares.values()) == len(PAYLOADS)
    if satellites:
        assert shares[0] == 0
    return run, found


@pytest.fixture
def alone(live_cells: LiveCells) -> torch.Tensor:
    """The gradient when the core does everything."""
    run, found = on_cells(live_cells, 1)
    assert Batch.objects.get(run=run).metrics["grad_norm"] > 0
    return found


def same(one: torch.Tensor, other: torch.Tensor) -> bool:
    return torch.allclose(one, other, rtol=1e-4, atol=1e-6 * one.abs().max().item())


def test_two_and_three_cells_give_the_gradient_of_one(live_cells: LiveCells, alone: torch.Tensor) -> None:
    assert same(alone, on_cells(live_cells, 2)[1])
    assert same(alone, on_cells(live_cells, 3)[1])


def _kill(cells: LiveCells, run: Run, index: int) -> None:
    """kill -9, and the launch that the scheduler asks for when it misses the heartbeat."""
    pid = cells.cell(run, index).pid
    assert pid
    os.kill(pid, signal.SIGKILL)
    wait_for(lambda: launch_cells(run.pk), "the host sees the death")
    cells.wait_roles(run, "rollout", [index])


def test_a_satellite_that_dies_with_its_sum_changes_nothing(live_cells: LiveCells, alone: torch.Tensor) -> None:
    run = live_cells.start(2)
    live_cells.switch(run, "training", [1])
    batch = live_cells.open_batch(run, PAYLOADS)
    wait_for(lambda: not MicroStep.objects.filter(batch=batch, claimed_at=None).exists(), "all is claimed")
    _kill(live_cells, run, 1)
    live_cells.switch(run, "training", [0])
    assert same(alone, finish(live_cells, run, batch))
    assert set(MicroStep.objects.filter(batch=batch).values_list("cell_index", flat=True)) == {0}


def test_a_satellite_that_dies_after_its_hand_in_has_counted(live_cells: LiveCells, alone: torch.Tensor) -> None:
    run = live_cells.start(2)
    live_cells.switch(run, "training", [1])
    batch = live_cells.open_batch(run, PAYLOADS[:3])
    wait_for(lambda: not MicroStep.objects.filter(batch=batch, claimed_at=None).exists(), "all is claimed")
    live_cells.switch(run, "rollout", [1])
    assert HandIn.objects.get(batch=batch, cell_index=1).state == "counted"
    _kill(live_cells, run, 1)
    live_cells.admit(batch, PAYLOADS[3:])
    live_cells.switch(run, "training", [0])
    assert same(alone, finish(live_cells, run, batch))
    shares = MicroStep.objects.filter(batch=batch).order_by("number").values_list("cell_index", flat=True)
    assert list(shares) == [1, 1, 1, 0, 0, 0]


def test_a_core_that_dies_resets_the_batch_and_gives_the_same_gradient(
    live_cells: LiveCells, alone: torch.Tensor
) -> None:
    run = live_cells.start(2)
    live_cells.switch(run, "training", [0])
    batch = live_cells.open_batch(run, PAYLOADS[:4])
    wait_for(lambda: not MicroStep.objects.filter(batch=batch, counted_at=None).exists(), "four are counted")
    _kill(live_cells, run, 0)
    assert not MicroStep.objects.filter(batch=batch, counted_at__isnull=False).exists()
    live_cells.admit(batch, PAYLOADS[4:])
    live_cells.switch(run, "training", [0])
    assert same(alone, finish(live_cells, run, batch))
    assert Cell.objects.get(run=run, index=0).epoch == 2


def test_a_run_that_stops_and_starts_again_trains_bit_for_bit_as_one_that_does_not(live_cells: LiveCells) -> None:
    through, resumed = _newest(_two_steps(live_cells, stops=False)), _newest(_two_steps(live_cells, stops=True))
    _assert_same(through, resumed)


def test_a_step_whose_checkpoint_was_damaged_is_done_again_from_the_older_one(live_cells: LiveCells) -> None:
    run = _two_steps(live_cells, stops=False)
    before = _newest(run)
    row = Checkpoint.objects.get(run=run, version=2)
    optimizer = Path(row.path) / checkpoint.OPTIMIZER
    optimizer.write_bytes(optimizer.read_bytes()[:-1])
    enforce_retention(run)
    live_cells.restart(run)
    _assert_same(before, _newest(run))
    rebuilt = RunEvent.objects.get(run=run, kind="checkpoint_rebuilt").payload
    assert (rebuilt["version"], rebuilt["from_version"]) == (2, 1)
    [problem] = rebuilt["problems"]
    assert str(optimizer) in problem
    cell = live_cells.cell(run, 0)
    assert (cell.weight_version, cell.weight_hash) == (2, WeightVersion.objects.get(run=run, version=2).sha256)

    MicroStep.objects.filter(batch__run=run).update(payload=b"")
    optimizer.unlink()
    stop_cells(run.pk)
    launch_cells(run.pk)
    error = wait_for(lambda: Cell.objects.get(run=run, index=0).error, "the core says why it cannot start")
    assert str(optimizer) in error
    assert f"`manage.py export_policy {run.pk} --version" in error


def _two_steps(live_cells: LiveCells, stops: bool) -> Run:
    run = live_cells.start(1)
    for version in (1, 2):
        live_cells.switch(run, "training", [0])
        batch = live_cells.open_batch(run, [random_payload(70 + version, version=version - 1)], number=version)
        live_cells.seal(batch, NUM_VOTES)
        live_cells.wait_version(run, version)
        live_cells.switch(run, "rollout", [0])
        if stops and version == 1:
            live_cells.restart(run)
    return run


def _newest(run: Run) -> checkpoint.Restored:
    row = Checkpoint.objects.get(run=run, version=2)
    return checkpoint.read(Path(row.path), row.sha256)


def _assert_same(one: checkpoint.Restored, other: checkpoint.Restored) -> None:
    """Weights and optimizer, bit for bit."""
    assert one.weights.keys() == other.weights.keys()
    assert all(torch.equal(one.weights[name], other.weights[name]) for name in one.weights)
    [mine], [theirs] = one.optimizer, other.optimizer
    for key, state in mine["torch"]["state"].items():
        for name, value in state.items():
            assert torch.equal(value, theirs["torch"]["state"][key][name]), name
