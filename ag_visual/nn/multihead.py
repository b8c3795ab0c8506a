"""Multi-head attention."""

from __future__ import annotations

from typing import Any

from ag_visual.nn import functional, init
from ag_visual.nn.heads import additive_masks
from ag_visual.nn.linear import Linear, new_parameter
from ag_visual.nn.module import Module


class NonDynamicallyQuantizableLinear(Linear):
    """`Linear` under the name that torch gives the last layer of an attention."""


class MultiheadAttention(Module):
    """softmax(Q K^T / sqrt(d)) V for several heads. Vaswani et al., "Attention is all you need".

    (L, N, E), or (N, L, E) with batch_first, or (L, E). kdim, vdim: where keys and values have
    another size. Returns (output, weights), the weights None unless they are asked for.
    """

    def __init__(
        self,
        embed_dim: int,
        num_heads: int,
        dropout: float = 0.0,
        bias: bool = True,
        add_bias_kv: bool = False,
        add_zero_attn: bool = False,
        kdim: int | None = None,
        vdim: int | None = None,
        batch_first: bool = False,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        if embed_dim <= 0 or num_heads <= 0:
            raise ValueError(
                "embed_dim and num_heads must be greater than 0, got "
                f"embed_dim={embed_dim} and num_heads={num_heads} instead"
            )
        self.embed_dim, self.num_heads, self.dropout = embed_dim, num_heads, dropout
        self.kdim = embed_dim if kdim is None else kdim
        self.vdim = embed_dim if vdim is None else vdim
        self._qkv_same_embed_dim = self.kdim == embed_dim == self.vdim
        self.batch_first, self.add_zero_attn = batch_first, add_zero_attn
        self.head_dim = embed_dim // num_heads
        if self.head_dim * num_heads != embed_dim:
            raise AssertionError("embed_dim must be divisible by num_heads")
        shapes: dict[str, tuple[int, ...] | None] = dict.fromkeys(
            ("q_proj_weight", "k_proj_weight", "v_proj_weight", "in_proj_weight", "in_proj_bias")
        )
        if self._qkv_same_embed_dim:
            shapes["in_proj_weight"] = (3 * embed_dim, embed_dim)
        else:
            shapes["q_proj_weight"] = (embed_dim, embed_dim)
            shapes["k_proj_weight"] = (embed_dim, self.kdim)
            shapes["v_proj_weight"] = (embed_dim, self.vdim)
        if bias:
            shapes["in_proj_bias"] = (3 * embed_dim,)
        for name, shape in shapes.items():
            value = None if shape is None else new_parameter(shape, device, dtype)
            self.register_parameter(name, value)
        self.out_proj = NonDynamicallyQuantizableLinear(embed_dim, embed_dim, bias, device, dtype)
        for name in ("bias_k", "bias_v"):
            row = new_parameter((1, 1, embed_dim), device, dtype) if add_bias_kv else None
            self.register_parameter(name, row)
        self._reset_parameters()

    def _reset_parameters(self) -> None:
        for name in ("in_proj_weight", "q_proj_weight", "k_proj_weight", "v_proj_weight"):
            weight = getattr(self, name)
            if weight is not None:
                init.xavier_uniform_(weight)
        for bias in (self.in_proj_bias, self.out_proj.bias):
            if bias is not None:
                init.zeros_(bias)
        for row in (self.bias_k, self.bias_v):
            if row is not None:
                init.xavier_normal_(row)

    def forward(
        self,
        query: Any,
        key: Any,
        value: Any,
        key_padding_mask: Any = None,
        need_weights: bool = True,
        attn_mask: Any = None,
        average_attn_weights: bool = True,
        is_causal: bool = False,
    ) -> tuple[Any, Any]:
        key_padding_mask, attn_mask = additive_masks(key_padding_mask, attn_mask, query)
        dims = query.dim()
        turned = self.batch_first and dims == 3
        if turned:
            # The same tensor stays one: its projections are then one product.
            given = {id(t): t for t in (query, key, value)}
            given = {one: t.transpose(0, 1) for one, t in given.items()}
            query, key, value = (given[id(t)] for t in (query, key, value))
        out, weights = functional.multi_head_attention_forward(
            query,
            key,
            value,
            self.embed_dim,
            self.num_heads,
            self.in_proj_weight,
            self.in_proj_bias,
            self.bias_k,
            self.bias_v,
            self.add_zero_attn,
            self.dropout,
            self.out_proj.weight,
            self.out_proj.bias,
            self.training,
            key_padding_mask,
            need_weights,
            attn_mask,
            not self._qkv_same_embed_dim,
            self.q_proj_weight,
            self.k_proj_weight,
            self.v_proj_weight,
            average_attn_weights=average_attn_weights,
            is_causal=is_causal,
        )
        return (out.transpose(0, 1) if turned else out), weights
