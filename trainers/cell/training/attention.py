"""Core attention for Megatron layer specs, the same on CPU and GPU: SDPA, causal within each packed trajectory."""

import math
from typing import Any

import torch
import torch.nn.functional as functional
from megatron.core.packed_seq_params import PackedSeqParams
from megatron.core.process_groups_config import ProcessGroupCollection
from megatron.core.transformer.enums import AttnMaskType
from megatron.core.transformer.module import MegatronModule
from megatron.core.transformer.transformer_config import TransformerConfig
from megatron.core.utils import divide


class SdpaCoreAttention(MegatronModule):
    """`thd` inputs [t, h, d] with cu_seqlens attend block-diagonally; `sbhd` inputs [s, b, h, d] causally.

    A boolean mask, True = hidden (Megatron's convention), replaces causality in both. Neither context parallelism nor
    dropout.
    """

    def __init__(
        self,
        config: TransformerConfig,
        layer_number: int,
        attn_mask_type: AttnMaskType,
        attention_type: str,
        softmax_scale: float | None = None,
        pg_collection: ProcessGroupCollection | None = None,
        **_: Any,
    ) -> None:
        super().__init__(config=config)
        if config.context_parallel_size != 1 or config.attention_dropout:
            raise ValueError("this core attention knows neither context parallelism nor dropout")
        groups = pg_collection or ProcessGroupCollection.use_mpu_process_groups(required_pgs=["tp"])
        self.num_heads = divide(config.num_attention_heads, groups.tp.size())
        self.num_groups = divide(config.num_query_groups, groups.tp.size())
        self.scale = softmax_scale or 1.0 / math.sqrt(config.kv_channels)

    def forward(
        self,
        query: torch.Tensor,
        key: torch.Tensor,
        value: torch.Tensor,
        attention_mask: torch.Tensor | None,
        attn_mask_type: AttnMaskType | None = None,
        attention_bias: torch.Tensor | None = None,
        packed_seq_params: PackedSeqParams | None = None,
    ) -> torch.Tensor:
        if attention_bias is not None:
            raise ValueError("attention bias is not supported")
        if packed_seq_params is None:
            q, k, v = (x.permute(1, 2, 0, 3) for x in (query, key, value))
            out = self._attend(q, k, v, attention_mask)
            return out.permute(2, 0, 1, 3).flatten(2)
        if attention_mask is not None:
            q, k, v = (x.transpose(0, 1)[None] for x in (query, key, value))
            out = self._attend(q, k, v, attention_mask)
            return out[0].transpose(0, 1).flatten(1)
        lengths = packed_seq_params.cu_seqlens_q.diff().tolist()
        parts = zip(*(x.transpose(0, 1)[None].split(lengths, dim=2) for x in (query, key, value)), strict=True)
        out = torch.cat([self._attend(q, k, v, None) for q, k, v in parts], dim=2)
        return out[0].transpose(0, 1).flatten(1)

    def _attend(
        self, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, hidden: torch.Tensor | None
    ) -> torch.Tensor:
        """[b, h, s, d] in and out."""
        return functional.scaled_dot_product_attention(
            query,
            key,
            value,
            attn_mask=None if hidden is None else ~hidden,
            is_causal=hidden is None,
            scale=self.scale,
            enable_gqa=self.num_heads != self.num_groups,
        )
