"""Whole cells: agent, engine, trainer, transfer and ledger together."""

from agents.models import Run, RunEvent
from scheduler.models import Cell, RoleChange
from tests.integration.cells import LiveCells, sampled_payload, wait_for
from trainers.models import Batch, Checkpoint, HandIn, MicroStep, WeightVersion


def test_two_cells_train_one_batch_and_return_with_the_new_version(live_cells: LiveCells) -> None:
    run = live_cells.start(2)
    core, satellite = live_cells.cell(run, 0), live_cells.cell(run, 1)
    assert core.weight_version == satellite.weight_version == 0
    assert core.weight_hash == satellite.weight_hash == WeightVersion.objects.get(run=run).sha256
    reply = live_cells.generate(satellite, [5, 6, 7], 4)
    assert reply["meta_info"]["weight_version"] == "0"

    batch = live_cells.open_batch(run, [sampled_payload(live_cells, core, seed) for seed in range(6)])
    live_cells.switch(run, "training", [1])
    wait_for(lambda: MicroStep.objects.filter(batch=batch, cell_index=1).exists(), "the satellite claims")
    live_cells.switch(run, "training", [0])
    live_cells.seal(batch, num_votes=18)
    live_cells.wait_version(run, 1)
    live_cells.switch(run, "rollout")

    assert {cell.weight_version for cell in Cell.objects.filter(run=run)} == {1}
    batch.refresh_from_db()
    assert batch.state == Batch.State.STEPPED
    assert batch.metrics["logprob_gap_max"] < 1e-4
    assert not MicroStep.objects.filter(batch=batch, counted_at=None).exists()
    assert HandIn.objects.filter(batch=batch, cell_index=1, state="counted").exists()
    assert Checkpoint.objects.filter(run=run, version=1).count() == 1
    assert not RoleChange.objects.filter(cell__run=run).exclude(state="finished").exists()
    kinds = set(RunEvent.objects.filter(run=run).values_list("kind", flat=True))
    assert {"micro_step_claimed", "gradient_handed_in", "step_committed", "weights_published"} <= kinds
    assert Run.objects.get(pk=run.pk).version == 1
