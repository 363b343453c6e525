"""The tiny Qwen3 policy: 0.19 million parameters, started so that it can copy."""

from __future__ import annotations

from typing import Any

import torch
from transformers import Qwen3Config, Qwen3ForCausalLM

VOCABULARY_MULTIPLE = 128
CONTEXT_TOKENS = 4096


def build_model(num_tokens: int, end_of_turn: int, padding: int, seed: int) -> Qwen3ForCausalLM:
    """An untrained policy for a tokenizer of `num_tokens` tokens (the embedding is padded to a multiple of 128)."""
    torch.manual_seed(seed)
    config = Qwen3Config(
        vocab_size=-(-num_tokens // VOCABULARY_MULTIPLE) * VOCABULARY_MULTIPLE,
        hidden_size=64,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        head_dim=32,
        intermediate_size=128,
        tie_word_embeddings=True,
        max_position_embeddings=CONTEXT_TOKENS,
        rope_theta=10_000.0,  # type: ignore[call-arg]  # taken over `**kwargs`
        initializer_range=0.1,
        bos_token_id=None,
        eos_token_id=end_of_turn,
        pad_token_id=padding,
        use_cache=True,
        dtype="float32",
    )
    model = Qwen3ForCausalLM(config)
    for layer in model.model.layers:
        _start_as_copier(layer.self_attn, config)
    return model


@torch.no_grad()
def _start_as_copier(attention: Any, config: Any) -> None:
    """v_proj orthogonal, o_proj its transpose over (heads / kv heads): every head starts by passing on the token it
    attends to. Without this start, copying a word from the prompt is not learnt in the budget."""
    kv_heads, width, hidden = config.num_key_value_heads, config.head_dim, config.hidden_size
    shared = config.num_attention_heads // kv_heads
    orthogonal = torch.linalg.qr(torch.randn(max(hidden, kv_heads * width), max(hidden, kv_heads * width)))[0]
    value = orthogonal[: kv_heads * width, :hidden]
    per_head = value.view(kv_heads, width, hidden).repeat_interleave(shared, 0).reshape(-1, hidden)
    attention.v_proj.weight.copy_(value)
    attention.o_proj.weight.copy_(per_head.T / shared)
