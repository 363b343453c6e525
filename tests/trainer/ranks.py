"""`python -m tests.trainer.ranks RANK STORE POLICY OUT`: one of two ranks; saves a step in each layout."""

import sys
import warnings
from pathlib import Path

warnings.simplefilter("ignore")

import torch  # noqa: E402
from megatron.core import parallel_state  # noqa: E402

from tests.integration.payloads import random_payload  # noqa: E402
from trainers.cell import device  # noqa: E402
from trainers.cell.training import model, trainer  # noqa: E402
from trainers.core.loss import LossSettings  # noqa: E402

LAYOUTS = {"tp2": model.Layout(tensor_parallel=2), "pp2": model.Layout(pipeline_parallel=2), "alone": model.Layout()}
PAYLOADS = [random_payload(seed) for seed in range(3)]
NUM_VOTES = 5


def one_step(layout: model.Layout, policy: Path) -> dict[str, torch.Tensor]:
    """Weights of this rank's stage after one step."""
    settings = trainer.TrainerSettings(1e-2, (0.9, 0.95), 1e-3, 1.0, LossSettings("reinforce_is"), layout)
    built = trainer.Trainer(model.read_hf_config(policy), settings, with_optimizer=True)
    built.load_hf(trainer.read_weights(policy))
    built.forward_backward(PAYLOADS[:1])
    built.forward_backward(PAYLOADS[1:])
    result = built.step(NUM_VOTES)
    weights = {name: value.clone() for name, value in built.export_hf().items()}
    return {**weights, "grad_norm": torch.tensor(result.grad_norm)}


def main(rank: int, store: str, policy: Path, out: Path) -> None:
    torch.set_num_threads(1)
    trainer.init_process(LAYOUTS["tp2"], torch.distributed.FileStore(store, 2), rank, 2)
    found = {"tp2": one_step(LAYOUTS["tp2"], policy)}
    parallel_state.destroy_model_parallel()
    with device.scope():
        parallel_state.initialize_model_parallel(1, 2)
    found["pp2"] = one_step(LAYOUTS["pp2"], policy)
    torch.save(found, out / f"rank{rank}.pt")


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2], Path(sys.argv[3]), Path(sys.argv[4]))
