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
    key_padding_mask, attn_mask = additive_masks(key_padding_mask, attn_mask, query)
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
    masked = length, count, num_heads, key.shape[0]
    # Then the hint stands for the mask, as in torch, which trusts it.
    causal = is_causal and key_padding_mask is None and not need_weights
    mask = None if causal else _mask(attn_mask, *masked)
    extra = 0
    if bias_k is not None and bias_v is not None:
        if static_k is not None or static_v is not None:
            raise AssertionError("bias cannot be added to static key or value.")
        k = F["cat"]([k, bias_k.repeat(1, count, 1)], 0)
        v = F["cat"]([v, bias_v.repeat(1, count, 1)], 0)
        extra += 1
    q = _heads(q, num_heads, head)
    k = _heads(k, num_heads, head) if static_k is None else _static(static_k, q, "k")
    v = _heads(v, num_heads, head) if static_v is None else _static(static_v, q, "v")
    if add_zero_attn:
        k, v = (F["cat"]([t, t.new_zeros(t.shape[0], 1, head)], 1) for t in (k, v))
        extra += 1
    mask = _with_padding(mask, key_padding_mask, *masked)
    if mask is not None and extra:
        mask = F["pad"](mask, (0, extra))
    dropped = dropout_p if training else 0.0
    seen = None
    if not need_weights:
        if mask is not None:
            one = mask.shape[0] == 1
            mask = mask.unsqueeze(0) if one else mask.view(count, num_heads, -1, k.shape[1])
        q, k, v = (t.view(count, num_heads, t.shape[1], head) for t in (q, k, v))
        attend = F["scaled_dot_product_attention"]
        out = attend(q, k, v, mask, dropped, causal).permute(2, 0, 1, 3)
    else:
        q, k = q * math.sqrt(1 / head), k.transpose(-2, -1)
        scores = F["bmm"](q, k) if mask is None else F["baddbmm"](mask, q, k)
        seen = F["softmax"](scores, -1)
        seen = F["dropout"](seen, dropped) if dropped else seen
        out = F["bmm"](seen, v).transpose(0, 1)
    joined = out.reshape(length * count, size)
    result = F["linear"](joined, out_proj_weight, out_proj_bias)
    result = result.view(length, count, out_proj_weight.shape[0])
    if seen is not None:
        seen = seen.view(count, num_heads, length, seen.shape[2])
        seen = seen.mean(1) if average_attn_weights else seen
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
    """(L, N, E) as (N heads, L, E / heads)."""
    return x.view(x.shape[0], x.shape[1] * num_heads, head).transpose(0, 1)


def _static(given: Any, q: Any, name: str) -> Any:
    """Keys or values that the caller has projected, (N heads, S, head)."""
    heads, _, head = q.shape
    if given.dim() != 3 or given.shape[0] != heads or given.shape[2] != head:
        raise AssertionError(
            f"expecting static_{name} of shape ({heads}, S, {head}), but got {tuple(given.shape)}"
        )
    return given


def _projected(
    query: Any, key: Any, value: Any, same: tuple[bool, bool], weights: Any, bias: Any
) -> Any:
    """Queries, keys and values in the embedding's size; in one product what is one tensor."""
    linear = F["linear"]
    if not isinstance(weights, tuple):
        if all(same):
            return _parted(linear(query, weights, bias), 3)
        if key is value:
            size = query.shape[-1]
            own, other = weights.split_with_sizes([size, 2 * size])
            own_bias = other_bias = None
            if bias is not None:
                own_bias, other_bias = bias.split_with_sizes([size, 2 * size])
            projected = linear(query, own, own_bias)
            return projected, *_parted(linear(key, other, other_bias), 2)
        weights = weights.chunk(3)
    biases = (None,) * 3 if bias is None else bias.chunk(3)
    return map(linear, (query, key, value), weights, biases)


def _parted(x: Any, parts: int) -> tuple[Any, ...]:
    """(L, N, parts E) as contiguous (L, N, E)."""
    stacked = x.unflatten(-1, (parts, x.shape[-1] // parts)).unsqueeze(0).transpose(0, -2)
    stacked = stacked.squeeze(-2).contiguous()
    return tuple(stacked[i] for i in range(parts))


def _mask(given: Any, length: int, count: int, num_heads: int, keys: int) -> Any:
    """What the caller adds to the scores: (N heads or 1, L, S), or None."""
    if given is None:
        return None
    shapes = [(length, keys), (count * num_heads, length, keys)]
    if tuple(given.shape) not in shapes:
        raise RuntimeError(
            f"The shape of the {given.dim()}D attn_mask is {tuple(given.shape)}, but should be "
            f"{shapes[given.dim() == 3]}."
        )
    return given.unsqueeze(0) if given.dim() == 2 else given


def _with_padding(
    mask: Any, padding: Any, length: int, count: int, num_heads: int, keys: int
) -> Any:
    """A mask, and what hides keys of single batches: (N heads or 1, L or 1, S), or None."""
    if padding is None:
        return mask
    for dim, size in enumerate((count, keys)):
        if padding.shape[dim] != size:
            raise AssertionError(
                f"Expected key_padded_mask.shape[{dim}] to be {size}, but got "
                f"{padding.shape[dim]}: it has one value for each batch and key"
            )
    padding = padding.view(count, 1, 1, keys).expand(-1, num_heads, -1, -1)
    padding = padding.reshape(count * num_heads, 1, keys)
    return padding if mask is None else mask + padding


def additive_masks(padding: Any, given: Any, like: Any) -> tuple[Any, Any]:
    """Both masks as what is added to scores, in the dtype of a tensor."""
    masks = {"key_padding_mask": padding, "attn_mask": given}
    padding, given = (
        None if mask is None else _additive(mask, like, name) for name, mask in masks.items()
    )
    return padding, given


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
