"""Weights between Hugging Face Qwen3 names and Megatron's, aware of tensor and pipeline parallelism.

Megatron joins q, k, v per query group and gate with up. A pipeline stage holds a slice of the layers; a tensor rank a
slice of each split weight. With tied embeddings only the embedding is stored.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import torch
import torch.distributed as dist
from megatron.core.models.gpt import GPTModel
from megatron.core.transformer.transformer_config import TransformerConfig

Tensors = Mapping[str, torch.Tensor]


@dataclass(frozen=True)
class Rule:
    """`hf` names joined into one Megatron weight, split over tensor ranks along `dim` (None: replicated)."""

    hf: tuple[str, ...]
    dim: int | None


_LAYER = {
    "input_layernorm.weight": Rule(("input_layernorm.weight",), None),
    "pre_mlp_layernorm.weight": Rule(("post_attention_layernorm.weight",), None),
    "self_attention.q_layernorm.weight": Rule(("self_attn.q_norm.weight",), None),
    "self_attention.k_layernorm.weight": Rule(("self_attn.k_norm.weight",), None),
    "self_attention.linear_qkv.weight": Rule(tuple(f"self_attn.{part}_proj.weight" for part in "qkv"), 0),
    "self_attention.linear_proj.weight": Rule(("self_attn.o_proj.weight",), 1),
    "mlp.linear_fc1.weight": Rule(("mlp.gate_proj.weight", "mlp.up_proj.weight"), 0),
    "mlp.linear_fc2.weight": Rule(("mlp.down_proj.weight",), 1),
}
_GLOBAL = {
    "embedding.word_embeddings.weight": Rule(("model.embed_tokens.weight",), 0),
    "decoder.final_layernorm.weight": Rule(("model.norm.weight",), None),
    "output_layer.weight": Rule(("lm_head.weight",), 0),
}
_LAYER_PREFIX = "decoder.layers."


def join_qkv(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, config: TransformerConfig) -> torch.Tensor:
    """[heads·d, hidden], [groups·d, hidden] twice → per query group its queries, its key, its value."""
    groups, d = config.num_query_groups, config.kv_channels
    per_group = config.num_attention_heads // groups
    parts = [q.view(groups, per_group, d, -1), k.view(groups, 1, d, -1), v.view(groups, 1, d, -1)]
    return torch.cat(parts, dim=1).reshape(groups * (per_group + 2) * d, -1)


def split_qkv(joined: torch.Tensor, config: TransformerConfig) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Inverse of `join_qkv`."""
    groups, d = config.num_query_groups, config.kv_channels
    per_group = config.num_attention_heads // groups
    w = joined.view(groups, per_group + 2, d, -1)
    return (
        w[:, :per_group].reshape(groups * per_group * d, -1),
        w[:, per_group].reshape(groups * d, -1),
        w[:, per_group + 1].reshape(groups * d, -1),
    )


def rules(model: GPTModel) -> Iterator[tuple[torch.nn.Parameter, Rule]]:
    """Every parameter of this rank with its rule, Hugging Face names complete."""
    layers = model.decoder.layers
    first = layers[0].layer_number - 1 if len(layers) else 0
    for name, parameter in model.named_parameters():
        if name.startswith(_LAYER_PREFIX):
            index, suffix = name[len(_LAYER_PREFIX) :].split(".", 1)
            rule = _LAYER[suffix]
            prefix = f"model.layers.{int(index) + first}."
            yield parameter, Rule(tuple(prefix + part for part in rule.hf), rule.dim)
        else:
            yield parameter, _GLOBAL[name]


def _is_qkv(rule: Rule) -> bool:
    return rule.hf[0].endswith("q_proj.weight")


def _is_gated(rule: Rule) -> bool:
    return rule.hf[0].endswith("gate_proj.weight")


@torch.no_grad()
def load(model: GPTModel, weights: Tensors, tp_rank: int = 0, tp_size: int = 1) -> None:
    """Copy Hugging Face `weights` into this rank's parameters. Raises KeyError for a missing one."""
    for parameter, rule in rules(model):
        parts = [weights["model.embed_tokens.weight" if _tied(name, weights) else name] for name in rule.hf]
        if _is_qkv(rule):
            q, k, v = parts
            whole = join_qkv(q, k, v, model.config).chunk(tp_size, 0)[tp_rank]
        elif _is_gated(rule):
            whole = torch.cat([part.chunk(tp_size, 0)[tp_rank] for part in parts])
        else:
            whole = parts[0] if rule.dim is None else parts[0].chunk(tp_size, rule.dim)[tp_rank]
        parameter.copy_(whole)


def _tied(name: str, weights: Tensors) -> bool:
    return name == "lm_head.weight" and name not in weights


def export(
    model: GPTModel,
    value: Callable[[torch.nn.Parameter], torch.Tensor] = lambda parameter: parameter.data,
    tp_group: Any = None,
    tp_size: int = 1,
) -> dict[str, torch.Tensor]:
    """This pipeline stage's weights under Hugging Face names. Every tensor rank must call it. Tensors may be views.

    The last stage's copy of a tied embedding is left out.
    """
    exported: dict[str, torch.Tensor] = {}
    for parameter, rule in rules(model):
        if rule.hf == ("lm_head.weight",) and model.share_embeddings_and_output_weights:
            continue
        parts = [value(parameter)]
        if rule.dim is not None and tp_size > 1:
            mine = parts[0].contiguous()
            parts = [torch.empty_like(mine) for _ in range(tp_size)]
            dist.all_gather(parts, mine, group=tp_group)
        if _is_qkv(rule):
            pieces: tuple[torch.Tensor, ...] = split_qkv(torch.cat(parts), model.config)
        elif _is_gated(rule):
            pieces = tuple(torch.cat(halves) for halves in zip(*(part.chunk(2) for part in parts), strict=True))
        else:
            pieces = (torch.cat(parts, rule.dim) if rule.dim is not None and len(parts) > 1 else parts[0],)
        exported.update(zip(rule.hf, pieces, strict=True))
    return exported
