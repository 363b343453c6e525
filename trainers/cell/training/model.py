"""A Qwen3 policy as a Megatron GPTModel, from the config.json of a Hugging Face folder."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as functional
from megatron.core import parallel_state
from megatron.core.models.gpt import GPTModel
from megatron.core.models.gpt.gpt_layer_specs import get_gpt_layer_local_spec
from megatron.core.tensor_parallel.random import model_parallel_cuda_manual_seed
from megatron.core.transformer.transformer_config import TransformerConfig

from trainers.cell import device
from trainers.cell.training.attention import SdpaCoreAttention


class UnsupportedModel(ValueError):
    """The policy's config.json describes a model that the trainer cannot build; the message names the setting."""


@dataclass(frozen=True)
class Layout:
    """Training parallel layout of a cell. Equal on core and satellites, so rank i talks to rank i."""

    tensor_parallel: int = 1
    pipeline_parallel: int = 1
    dtype: torch.dtype = torch.float32


def read_hf_config(folder: Path) -> dict[str, Any]:
    """The folder's config.json. Raises UnsupportedModel."""
    path = folder / "config.json"
    try:
        config: dict[str, Any] = json.loads(path.read_text())
    except (OSError, ValueError) as error:
        raise UnsupportedModel(f"{path}: {error}") from error
    if config.get("model_type") != "qwen3":
        raise UnsupportedModel(f"{path}: model_type is {config.get('model_type')!r}; only 'qwen3' is supported")
    for name, allowed in {"hidden_act": "silu", "attention_bias": False, "use_sliding_window": False}.items():
        if config.get(name, allowed) != allowed:
            raise UnsupportedModel(f"{path}: {name} is {config[name]!r}; only {allowed!r} is supported")
    scaling = config.get("rope_scaling") or {}
    if scaling.get("rope_type", scaling.get("type", "default")) != "default":
        raise UnsupportedModel(f"{path}: rope_scaling is not supported")
    return config


def rope_theta(config: dict[str, Any]) -> float:
    """Older folders name it at the top, newer ones in rope_parameters."""
    return float(config.get("rope_theta") or (config.get("rope_parameters") or {}).get("rope_theta") or 10_000.0)


def transformer_config(config: dict[str, Any], layout: Layout) -> TransformerConfig:
    """Fusions are off: they need Transformer Engine, Apex or torch.compile. Gradients are sums (docs/cells.md)."""
    return TransformerConfig(
        num_layers=config["num_hidden_layers"],
        hidden_size=config["hidden_size"],
        num_attention_heads=config["num_attention_heads"],
        num_query_groups=config["num_key_value_heads"],
        kv_channels=config.get("head_dim") or config["hidden_size"] // config["num_attention_heads"],
        ffn_hidden_size=config["intermediate_size"],
        normalization="RMSNorm",
        layernorm_epsilon=config["rms_norm_eps"],
        qk_layernorm=True,
        gated_linear_unit=True,
        activation_func=functional.silu,
        add_bias_linear=False,
        add_qkv_bias=False,
        hidden_dropout=0.0,
        attention_dropout=0.0,
        tensor_model_parallel_size=layout.tensor_parallel,
        pipeline_model_parallel_size=layout.pipeline_parallel,
        params_dtype=layout.dtype,
        pipeline_dtype=layout.dtype,
        bf16=layout.dtype == torch.bfloat16,
        calculate_per_token_loss=True,
        bias_activation_fusion=False,
        bias_dropout_fusion=False,
        masked_softmax_fusion=False,
        apply_rope_fusion=False,
        gradient_accumulation_fusion=False,
        persist_layer_norm=False,
        cross_entropy_loss_fusion=False,
        batch_p2p_comm=False,
        variable_seq_lengths=layout.pipeline_parallel > 1,
        moe_token_dispatcher_type="alltoall",
        cuda_graph_scope=[],
        use_cpu_initialization=device.ON_CPU,
    )


def build(config: dict[str, Any], layout: Layout, seed: int = 1) -> GPTModel:
    """The model of this rank, randomly initialised; call inside `device.scope()` after parallel_state is set up."""
    megatron = transformer_config(config, layout)
    spec = get_gpt_layer_local_spec(qk_layernorm=True, normalization="RMSNorm")
    spec.submodules.self_attention.submodules.core_attention = SdpaCoreAttention
    model_parallel_cuda_manual_seed(seed)
    torch.manual_seed(seed)
    model = GPTModel(
        config=megatron,
        transformer_layer_spec=spec,
        vocab_size=config["vocab_size"],
        max_sequence_length=config["max_position_embeddings"],
        pre_process=parallel_state.is_pipeline_first_stage(),
        post_process=parallel_state.is_pipeline_last_stage(),
        parallel_output=True,
        share_embeddings_and_output_weights=bool(config.get("tie_word_embeddings", False)),
        position_embedding_type="rope",
        rotary_base=int(rope_theta(config)),
    )
    return model.to(device.DEVICE)
