"""What a cell needs to know of its run, read once at its start."""

import os
from dataclasses import dataclass
from pathlib import Path

from trainers.cell.cell_row import RunFacts
from trainers.cell.training.trainer import TrainerSettings
from trainers.config import TrainingSettings
from trainers.core.loss import LossSettings
from trainers.ledger import CellEpoch

BUNDLED_POLICY = Path(__file__).resolve().parent.parent / "policy" / "quickstart"
KV_BYTES = 512 << 20


@dataclass(frozen=True)
class CellSettings:
    cell: CellEpoch
    is_core: bool
    config: TrainingSettings
    seed: int
    version: int
    home: Path
    policy_folder: Path

    @property
    def run_folder(self) -> Path:
        return self.home / "runs" / str(self.cell.run_id)

    @property
    def engine_seed(self) -> int:
        """Differs between cells and epochs, so that no two engines sample the same stream."""
        return (self.seed * 1_000_003 + self.cell.cell_index * 1_009 + self.cell.epoch) % (1 << 31)

    def trainer_settings(self) -> TrainerSettings:
        c = self.config
        return TrainerSettings(
            learning_rate=c.learning_rate,
            betas=c.betas,
            grad_clip=c.grad_clip,
            temperature=c.temperature,
            loss=LossSettings(c.loss, c.clip_low, c.clip_high, c.tis_cap),
        )


def of_run(cell: CellEpoch, facts: RunFacts) -> CellSettings:
    """Raises KeyError when GYRE_HOME is not set, pydantic's ValidationError for a config this version cannot read."""
    config = TrainingSettings.model_validate(facts.config)
    return CellSettings(
        cell=cell,
        is_core=facts.is_core,
        config=config,
        seed=facts.seed,
        version=facts.version,
        home=Path(os.environ["GYRE_HOME"]),
        policy_folder=Path(config.policy_path) if config.policy_path else BUNDLED_POLICY,
    )


def kv_tokens(config: TrainingSettings, hf_config: dict[str, int]) -> int:
    """KV room of a CPU engine: all calls at full context, within a fixed budget of memory, at least one context."""
    head = hf_config.get("head_dim") or hf_config["hidden_size"] // hf_config["num_attention_heads"]
    token_bytes = 2 * hf_config["num_hidden_layers"] * hf_config["num_key_value_heads"] * head * 4
    wanted = config.max_calls_per_cell * engine_context(config, hf_config)
    return max(min(wanted, KV_BYTES // token_bytes), engine_context(config, hf_config))


def engine_context(config: TrainingSettings, hf_config: dict[str, int]) -> int:
    return min(config.policy_context_tokens or config.context_tokens, hf_config["max_position_embeddings"])
