"""multi_head_attention_forward: nn.MultiheadAttention as a function of its weights."""

from __future__ import annotations

import math
from typing import Any

from ag_visual.dispatch.table import functions as F
from ag_visual.dtypes import bool as bool_


def multi_head_attention_forward(
    query: Any,
    key: Any,
    value: Any,
    embed_dim_to_check: int,
    num_heads: int,
    in_proj_weight: Any,
    in_proj_bias: Any,
    bias_k: Any,
    bias_v: Any,
    add_zero_attn: bool,
    dropout_p: float,
    out_proj_weight: Any,
    out_proj_bias: Any,
    training: bool = True,
    key_padding_mask: Any = None,
    need_weights: bool = True,
    attn_mask: Any = None,
    use_separate_proj_weight: bool = False,
    q_proj_weight: Any = None,
    k_proj_weight: Any = None,
    v_proj_weight: Any = None,
    static_k: Any = None,
    static_v: Any = None,
    average_attn_weights: bool = True,
    is_causal: bool = False,
) -> tuple[Any, Any]:
    """softmax(Q K^T / sqrt(d)) V for several heads, between linear layers.

    query: (L, N, E) or (L, E), key and value: (S, N, size) or (S, size). in_proj_weight: (3 E, E),
    or three matrices with use_separate_proj_weight. attn_mask: (L, S) or (N heads, L, S), and
    key_padding_mask: (N, S), are added to the scores, or True where nothing may be seen. Returns
    the result (L, N, E) and the weights (N, L, S), averaged over the heads, or None.
    Source: Vaswani et al., Attention is all you need (arXiv:1706.03762).
    """
    batched = _batched(query, key, value, key_padding_mask, attn_mask)
    same = key is query, value is key
    if not batched:
        query, key, value = (t.unsqueeze(1) for t in (query, key, value))
        if key_padding_mask is not None:
            key_padding_mask = key_padding_mask.unsqueeze(0)
    length, count, size = query.shape
    head = _head_size(size, embed_dim_to_check, num_heads)
    if is_causal and attn_mask is None:
        raise RuntimeError(
            "Need attn_mask if specifying the is_causal hint: pass "
            "nn.Transformer.generate_square_subsequent_mask(length)"
        )
    weights = (q_proj_weight, k_proj_weight, v_proj_weight)
    if not use_separate_proj_weight:
        weights = in_proj_weight
    q, k, v = _projected(query, key, value, same, weights, in_proj_bias)
    mask = _mask(q, num_heads, key.shape[0], key_padding_mask, attn_mask)
    extra = 0
    if bias_k is not None and bias_v is not None:
        if static_k is not None or static_v is not None:
            raise AssertionError("bias cannot be added to static key or value.")
        k = F["cat"]([k, bias_k.repeat(1, count, 1)], 0)
        v = F["cat"]([v, bias_v.repeat(1, count, 1)], 0)
        extra += 1
    q = _heads(q, num_heads, head)
    k = _heads(k, num_heads, head) if static_k is None else _static(static_k, q, count, "k")
    v = _heads(v, num_heads, head) if static_v is None else _static(static_v, q, count, "v")
    if add_zero_attn:
        k, v = (F["cat"]([t, t.new_zeros(*t.shape[:2], 1, head)], 2) for t in (k, v))
        extra += 1
    if mask is not None and extra:
        mask = F["pad"](mask, (0, extra))
    dropped = dropout_p if training else 0.0
    if not need_weights:
        out, seen = F["scaled_dot_product_attention"](q, k, v, mask, dropped), None
    else:
        scores = (q * math.sqrt(1 / head)) @ k.transpose(-2, -1)
        seen = F["softmax"](scores if mask is None else scores + mask, -1)
        seen = F["dropout"](seen, dropped) if dropped else seen
        out = seen @ v
        seen = seen.mean(1) if average_attn_weights else seen
    joined = out.permute(2, 0, 1, 3).reshape(length * count, size)
    result = F["linear"](joined, out_proj_weight, out_proj_bias)
    result = result.view(length, count, out_proj_weight.shape[0])
    if not batched:
        return result.squeeze(1), None if seen is None else seen.squeeze(0)
    return result, seen


def _head_size(size: int, expected: int, num_heads: int) -> int:
    if size != expected:
        raise AssertionError(f"was expecting embedding dimension of {expected}, but got {size}")
    if size % num_heads:
        raise AssertionError(f"embed_dim {size} not divisible by num_heads {num_heads}")
    return size // num_heads


def _heads(x: Any, num_heads: int, head: int) -> Any:
    """(L, N, E) as (N, heads, L, E / heads)."""
    return x.reshape(x.shape[0], x.shape[1], num_heads, head).permute(1, 2, 0, 3)


def _static(given: Any, q: Any, count: int, name: str) -> Any:
    """Keys or values that the caller has projected, (N heads, S, head)."""
    heads, head = q.shape[1], q.shape[3]
    if given.dim() != 3 or given.shape[0] != count * heads or given.shape[2] != head:
        raise AssertionError(
            f"expecting static_{name} of shape ({count * heads}, S, {head}), but got "
            f"{tuple(given.shape)}"
        )
    return given.reshape(count, heads, given.shape[1], head)


def _projected(
    query: Any, key: Any, value: Any, same: tuple[bool, bool], weights: Any, bias: Any
) -> Any:
    """Queries, keys and values in the embedding's size; in one product where they are one."""
    linear = F["linear"]
    if not isinstance(weights, tuple):
        if all(same):
            return linear(query, weights, bias).chunk(3, -1)
        weights = weights.chunk(3)
    biases = (None,) * 3 if bias is None else bias.chunk(3)
    return map(linear, (query, key, value), weights, biases)


def _mask(like: Any, num_heads: int, keys: int, padding: Any, given: Any) -> Any:
    """What is added to the scores: (N or 1, heads or 1, L or 1, S), or None."""
    length, count, _ = like.shape
    total = None
    if given is not None:
        given = _additive(given, like, "attn_mask")
        shapes = [(length, keys), (count * num_heads, length, keys)]
        if tuple(given.shape) not in shapes:
            raise RuntimeError(
                f"The shape of the {given.dim()}D attn_mask is {tuple(given.shape)}, but should be "
                f"{shapes[given.dim() == 3]}."
            )
        heads = (count, num_heads) if given.dim() == 3 else (1, 1)
        total = given.reshape(*heads, length, keys)
    if padding is not None:
        for dim, size in enumerate((count, keys)):
            if padding.shape[dim] != size:
                raise AssertionError(
                    f"Expected key_padded_mask.shape[{dim}] to be {size}, but got "
                    f"{padding.shape[dim]}: it has one value for each batch and key"
                )
        padding = _additive(padding, like, "key_padding_mask").view(count, 1, 1, keys)
        total = padding if total is None else total + padding
    return total


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
    return bool(dims == 3)
