"""Multi-head attention."""

from __future__ import annotations

import math
from typing import Any

from ..dtypes import bool as bool_
from ..ops.table import functions as F
from . import functional, init
from .linear import Linear, new_parameter
from .module import Module


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
        if is_causal and attn_mask is None:
            raise RuntimeError(
                "Need attn_mask if specifying the is_causal hint: pass "
                "nn.Transformer.generate_square_subsequent_mask(length)"
            )
        batched = _batched(query, key, value, key_padding_mask, attn_mask)
        turned = self.batch_first or not batched  # to (N, L, E), in which the rest is written
        same = key is query, value is key
        query, key, value = (
            (t if self.batch_first else t.transpose(0, 1)) if batched else t.unsqueeze(0)
            for t in (query, key, value)
        )
        if key_padding_mask is not None and not batched:
            key_padding_mask = key_padding_mask.unsqueeze(0)
        count, length, _ = query.shape
        q, k, v = self._projected(query, key, value, same)
        mask = self._mask(q, count, length, key.shape[1], key_padding_mask, attn_mask)
        if self.bias_k is not None:
            k = F["cat"]([k, self.bias_k.expand(count, -1, -1)], 1)
            v = F["cat"]([v, self.bias_v.expand(count, -1, -1)], 1)
        if self.add_zero_attn:
            k, v = (F["cat"]([t, t.new_zeros(count, 1, self.embed_dim)], 1) for t in (k, v))
        q, k, v = (
            t.view(count, t.shape[1], self.num_heads, self.head_dim).transpose(1, 2)
            for t in (q, k, v)
        )
        dropped = self.dropout if self.training else 0.0
        weights = None
        if need_weights:
            scores = (q * math.sqrt(1 / self.head_dim)) @ k.transpose(-2, -1)
            weights = functional.softmax(scores if mask is None else scores + mask, -1)
            if dropped:
                weights = functional.dropout(weights, dropped)
            out = weights @ v
            weights = weights.mean(1) if average_attn_weights else weights
        else:
            out = functional.scaled_dot_product_attention(q, k, v, mask, dropped)
        out = self.out_proj(out.transpose(1, 2).reshape(count, length, self.embed_dim))
        if not batched:
            return out.squeeze(0), None if weights is None else weights.squeeze(0)
        return out if turned else out.transpose(0, 1), weights

    def _projected(self, query: Any, key: Any, value: Any, same: tuple[bool, bool]) -> Any:
        """Queries, keys and values in the embedding's size; in one product where they are one."""
        linear = functional.linear
        if self._qkv_same_embed_dim:
            if all(same):
                return linear(query, self.in_proj_weight, self.in_proj_bias).chunk(3, -1)
            weights = self.in_proj_weight.chunk(3)
        else:
            weights = self.q_proj_weight, self.k_proj_weight, self.v_proj_weight
        biases = (None,) * 3 if self.in_proj_bias is None else self.in_proj_bias.chunk(3)
        return map(linear, (query, key, value), weights, biases)

    def _mask(self, like: Any, count: int, length: int, keys: int, padding: Any, given: Any) -> Any:
        """What is added to the scores: (N or 1, heads or 1, L, S), or None."""
        total = None
        if given is not None:
            given = _additive(given, like, "attn_mask")
            shapes = [(length, keys), (count * self.num_heads, length, keys)]
            if tuple(given.shape) not in shapes:
                raise RuntimeError(
                    f"The shape of the {given.dim()}D attn_mask is {tuple(given.shape)}, but "
                    f"should be {shapes[given.dim() == 3]}."
                )
            heads = (count, self.num_heads) if given.dim() == 3 else (1, 1)
            total = given.reshape(*heads, length, keys)
        if padding is not None:
            if tuple(padding.shape) != (count, keys):
                raise AssertionError(
                    f"key_padding_mask should be of shape {(count, keys)}, but is "
                    f"{tuple(padding.shape)}"
                )
            padding = _additive(padding, like, "key_padding_mask").view(count, 1, 1, keys)
            total = padding if total is None else total + padding
        more = (self.bias_k is not None) + self.add_zero_attn
        return total if total is None or not more else functional.pad(total, (0, more))


def _additive(mask: Any, like: Any, name: str) -> Any:
    """A mask as numbers to add: -inf where a boolean one is True."""
    if mask.dtype is bool_:
        return F["zeros_like"](mask, dtype=like.dtype).masked_fill_(mask, -math.inf)
    if not mask.is_floating_point():
        raise AssertionError(f"only bool and floating types of {name} are supported")
    return mask


def _batched(query: Any, key: Any, value: Any, padding: Any, mask: Any) -> bool:
    dims = query.dim()
    if dims not in (2, 3):
        raise AssertionError(
            f"query should be unbatched 2D or batched 3D tensor but received {dims}-D query tensor"
        )
    if key.dim() != dims or value.dim() != dims:
        kind = "batched (3-D)" if dims == 3 else "unbatched (2-D)"
        raise AssertionError(
            f"For {kind} `query`, expected `key` and `value` to be {dims}-D but found "
            f"{key.dim()}-D and {value.dim()}-D tensors respectively"
        )
    if padding is not None and padding.dim() != dims - 1:
        raise AssertionError(
            f"expected `key_padding_mask` to be `None` or {dims - 1}-D but found {padding.dim()}-D "
            "tensor instead"
        )
    if mask is not None and mask.dim() not in (2, 3):
        raise AssertionError(
            f"expected `attn_mask` to be `None`, 2-D or 3-D but found {mask.dim()}-D tensor instead"
        )
    return dims == 3
