"""scaled_dot_product_attention: the fused op, and the composition that serves every case."""

from __future__ import annotations

import math
from typing import Any

from ag_visual import dtypes
from ag_visual.arrays.kernels import attention as kernels, softmax as softmaxes
from ag_visual.dispatch.dims import wrap
from ag_visual.dispatch.record import ROWS, Sample
from ag_visual.dispatch.table import composite, op
from ag_visual.dispatch.vmap import Batch, constant
from ag_visual.ops.reduction.along_dim import dim_samples


def _scaled(query, scale: float | None) -> float:
    return 1 / math.sqrt(query.shape[-1]) if scale is None else scale


def _flash(
    xp, query, key, value, attn_mask=None, dropout_p=0.0, is_causal=False, scale=None
) -> tuple[Any, Any]:
    mask = attn_mask if attn_mask is None else _wide_mask(xp, attn_mask)
    return kernels.attention(xp, query, key, value, mask, is_causal, _scaled(query, scale))


def _wide_mask(xp, mask):
    """float32 where it was narrower, as the scores that it is added to."""
    return mask.astype(xp.float32) if mask.dtype.itemsize == 2 else mask


def _flash_rule(
    F, g, query, key, value, attn_mask, dropout_p, is_causal, scale, output, logsumexp, needs
) -> tuple[Any, Any, Any]:
    factor = _scaled(query, scale)
    if not F.traced:
        mask = attn_mask if attn_mask is None else _wide_mask(F.xp, attn_mask)
        saved = (query, key, value, output, logsumexp, mask, is_causal, factor, needs)
        return kernels.attention_backward(F.xp, g, *saved)
    weights = F._safe_softmax(_scores(F, query, key, attn_mask, is_causal, factor), -1)
    slopes = F.matmul(g, F.transpose(value, -2, -1))
    slopes = weights * (slopes - F.sum(slopes * weights, -1, True)) * factor
    d_query = F.matmul(slopes, key) if needs[0] else None
    d_key = F.matmul(F.transpose(slopes, -2, -1), query) if needs[1] else None
    return d_query, d_key, F.matmul(F.transpose(weights, -2, -1), g) if needs[2] else None


def _scores(F, query, key, mask, is_causal: bool, factor: float):
    # Both factors before the product, as torch: in 16 bits the scores might overflow.
    root = math.sqrt(abs(factor))
    sign = -root if factor < 0 else root
    scores = F.matmul(query * sign, F.transpose(key, -2, -1) * root)
    if is_causal:
        mask = F.triangle_mask(scores, scores.shape[-2], scores.shape[-1])
    if mask is None:
        return scores
    if mask.dtype.category == 0:
        return F.where(mask, scores, -math.inf)
    return scores + mask


def _flash_samples(make):
    q, k, v = make((2, 2, 3, 4)), make((2, 2, 5, 4)), make((2, 2, 5, 4))
    yield Sample((q, k, v))
    yield Sample((q, k, v, make((3, 5)), 0.0, False, 0.7))
    yield Sample((q, k, v, (make((2, 1, 3, 5)) > -1) | (make((3, 5)) > 0)))
    yield Sample((q, k, v, None, 0.0, True))
    yield Sample((20 * q, 20 * k, v))


def _torch_flash(torch, *args):
    query, key, value, mask, dropout_p, is_causal, scale = args
    fused = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu
    if mask is not None and mask.dtype == torch.bool:
        # The aten op takes numbers alone; its caller turns a mask of bools into them.
        mask = torch.zeros(mask.shape, dtype=query.dtype).masked_fill(~mask, -math.inf)
    return fused(query, key, value, dropout_p, is_causal, attn_mask=mask, scale=scale)


def _in_front(batch: Batch):
    """The batch as one more dimension of heads; the mask alone may leave it out."""
    rank = batch.rank("query")
    whole = {n: batch.full(n) for n in ("query", "key", "value")}
    if batch["attn_mask"] is not None:
        whole["attn_mask"] = batch.padded("attn_mask", rank)
    return batch.run(**whole)


op(
    "scaled_dot_product_flash",
    _flash,
    vjp={("query", "key", "value"): _flash_rule},
    aten="_scaled_dot_product_flash_attention_for_cpu",
    inputs=("query", "key", "value", "attn_mask"),
    outputs=("output", "logsumexp"),
    differentiable=(0,),
    batch=_in_front,
    public=False,
    node="ScaledDotProductFlashAttentionForCpuBackward0",
    formula="output = softmax(query @ mT(key) * scale) @ value",
    public_name="scaled_dot_product_attention",
    oracle=_torch_flash,
    samples=_flash_samples,
    real_only=True,
)


def _safe(xp, self, dim):
    result = softmaxes.softmax(xp, self, dim)
    if not self.size:
        return result
    nothing = (self == -xp.inf).all(axis=dim, keepdims=True)
    return xp.where(nothing, 0, result).astype(self.dtype) if bool(nothing.any()) else result


op(
    "_safe_softmax",
    _safe,
    doc="softmax along `dim`; a row of nothing but -inf becomes zeros.",
    vjp={"self": lambda F, g, result, dim: F.softmax_backward(g, result, dim)},
    jvp={"self": lambda F, t_self, result, dim: F.softmax_backward(t_self, result, dim)},
    layout=ROWS,
    normalize=lambda self, dim: (wrap(dim, self.ndim),),
    public=False,
    samples=dim_samples(),
    real_only=True,
)


op(
    "triangle_mask",
    lambda xp, self, rows, columns: xp.tri(rows, columns, dtype=bool),
    public=False,
    batch=constant,
    samples=lambda make: [Sample((make((2,)), 3, 2))],
)


def _check(query, key, value, mask, dropout_p: float, causal: bool) -> None:
    dims = [x.ndim for x in (query, key, value)]
    if min(dims) < 2:
        raise RuntimeError(
            "Expected query, key, and value to all be  at least 2 dimensional, but got "
            f"query.dim: {dims[0]} key.dim: {dims[1]} and value.dim: {dims[2]} instead."
        )
    kinds = [x.dtype for x in (query, key, value)]
    if len(set(kinds)) > 1:
        names = [k.scalar_name.lower() for k in kinds]
        raise RuntimeError(
            "Expected query, key, and value to have the same dtype, but got query.dtype: "
            f"{names[0]} key.dtype: {names[1]} and value.dtype: {names[2]} instead."
        )
    if mask is not None:
        if causal:
            raise RuntimeError(
                "_scaled_dot_product_attention: Explicit attn_mask should not be set when "
                "is_causal=True"
            )
        if mask.dtype not in (dtypes.bool, dtypes.float32, query.dtype):
            raise RuntimeError(
                "Expected attn_mask dtype to be bool or float or to match query dtype, but got "
                f"attn_mask.dtype: {mask.dtype} and  query.dtype: {query.dtype} instead."
            )
    if not 0 <= dropout_p <= 1:
        raise RuntimeError(f"dropout probability has to be between 0 and 1, but got {dropout_p:g}")


def _fits(query, key, value, mask, dropout_p: float) -> bool:
    """Whether torch, too, takes its fused op: four dimensions of equal sizes, nothing dropped."""
    if dropout_p or not query.ndim == key.ndim == value.ndim == 4 or not query.numel():
        return False
    if query.shape[-1] != value.shape[-1] or not query.is_floating_point():
        return False
    if tuple(key.shape[:-1]) != tuple(value.shape[:-1]) or not key.numel():
        return False
    if tuple(query.shape[:2]) != tuple(key.shape[:2]) or query.shape[-1] != key.shape[-1]:
        return False
    return mask is None or (mask.ndim in (2, 4) and not mask.requires_grad)


@composite("scaled_dot_product_attention", method=False, spaces="nn.functional", autocast="lower")
def _attention(
    F,
    query,
    key,
    value,
    attn_mask=None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
):
    """softmax(query key^T * scale + mask) value; scale: 1 / sqrt(size of the last dimension).

    query: (..., L, E), key: (..., S, E), value: (..., S, V); attn_mask, broadcast to (..., L, S):
    numbers that are added, or False where a query may not look. is_causal: a query sees the keys
    up to its own place. enable_gqa: several heads of the query share one of key and value.
    """
    _check(query, key, value, attn_mask, dropout_p, is_causal)
    if enable_gqa and query.shape[-3] != key.shape[-3]:
        if query.shape[-3] % key.shape[-3] or query.shape[-3] % value.shape[-3]:
            raise RuntimeError(
                "Number of heads in key and value must divide the number of heads in query, but "
                f"got {key.shape[-3]}, {value.shape[-3]} and {query.shape[-3]}"
            )
        key = F.repeat_interleave(key, query.shape[-3] // key.shape[-3], -3)
        value = F.repeat_interleave(value, query.shape[-3] // value.shape[-3], -3)
    if attn_mask is not None and F.traced and attn_mask.dtype.category > 0:
        attn_mask = attn_mask.to(query.dtype)
    if _fits(query, key, value, attn_mask, dropout_p):
        given = (query, key, value, attn_mask, 0.0, bool(is_causal), scale)
        return F.scaled_dot_product_flash(*given)[0]
    factor, kind = _scaled(query, scale), query.dtype
    if kind.is_floating_point and kind.itemsize == 2:  # of which scores may overflow
        query, key, value = (x.float() for x in (query, key, value))
        floating = attn_mask is not None and attn_mask.dtype.is_floating_point
        attn_mask = attn_mask.float() if floating else attn_mask
    weights = F._safe_softmax(_scores(F, query, key, attn_mask, is_causal, factor), -1)
    if dropout_p:
        weights = F.dropout(weights, dropout_p)
    return F.matmul(weights, value).to(kind)
