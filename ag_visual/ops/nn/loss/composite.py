"""Losses that torch makes of smaller ops, and the distances in them."""

from __future__ import annotations

import functools
import math
from typing import Any

from ag_visual.core.level import anywhere
from ag_visual.core.source import warn
from ag_visual.core.tensor import Tensor
from ag_visual.dispatch.record import UNSEEN
from ag_visual.dispatch.table import composite
from ag_visual.ops.nn.loss.pointwise import reduced, reduction_of, weighted
from ag_visual.promotion import promote_types


@composite("kl_div", method=False, spaces="torch nn.functional", autocast="float32")
def _kl_div(
    F,
    input,
    target,
    size_average=None,
    reduce=None,
    reduction: str = "mean",
    log_target: bool = False,
):
    """target (log target - input) of log-probabilities `input`; 'batchmean' divides by the rows."""
    if log_target:
        loss = F.exp(target) * (target - input)
    else:
        loss = F.xlogy(target, target) - target * input
    if reduction == "mean" and size_average is None and reduce is None:
        warn(
            "reduction: 'mean' divides the total loss by both the batch size and the support size."
            "'batchmean' divides only by the batch size, and aligns with the KL div math "
            "definition.'mean' will be changed to behave the same as 'batchmean' in the next major "
            "release."
        )
    if reduction == "batchmean":
        return F.sum(loss) / input.shape[0]
    return reduced(F, loss, reduction_of(reduction, size_average, reduce))


@composite("poisson_nll_loss", method=False, spaces="torch nn.functional", autocast="float32")
def _poisson_nll_loss(
    F,
    input,
    target,
    log_input: bool = True,
    full: bool = False,
    size_average=None,
    eps: float = 1e-8,
    reduce=None,
    reduction: str = "mean",
):
    """exp(input) - target * input, of counts whose logarithm of the rate is predicted."""
    rate, log_rate = (F.exp(input), input) if log_input else (input, F.log(input + eps))
    loss = rate - target * log_rate
    if full:
        extra = target * F.log(target) - target + 0.5 * F.log(2 * math.pi * target)
        loss = loss + F.masked_fill(extra, target <= 1, 0.0)
    return reduced(F, loss, reduction_of(reduction, size_average, reduce))


@composite("gaussian_nll_loss", method=False, spaces="nn.functional", profiled=UNSEEN)
def _gaussian_nll_loss(
    F,
    input,
    target,
    var: Tensor | float,
    full: bool = False,
    eps: float | Tensor = 1e-6,
    reduction: str = "mean",
):
    """(log var + (input - target)^2 / var) / 2, with var, a number or a tensor, not below eps."""
    if not isinstance(var, Tensor):
        var = F.zeros_of(input, tuple(input.shape)) + var
    if anywhere(var < 0):
        raise ValueError("var has negative entry/entries")
    sizes, given = tuple(input.shape), tuple(var.shape)
    if given != sizes:
        if given == sizes[:-1]:
            var = F.unsqueeze(var, -1)
        elif (
            len(given) != len(sizes)
            or sum(m for n, m in zip(sizes, given, strict=True) if n != m) != 1
        ):
            raise ValueError(
                f"var is of incorrect size\nIt is {list(given)}, and the input {list(sizes)}."
            )
    # As torch: the bound holds for the value, the gradient passes.
    least = eps.detach() if isinstance(eps, Tensor) else eps
    bounded = var + F.clamp_min(var.detach(), least) - var.detach()
    loss = 0.5 * (F.log(bounded) + (input - target) ** 2 / bounded)
    if full:
        loss = loss + 0.5 * math.log(2 * math.pi)
    return reduced(F, loss, reduction_of(reduction))


@composite("hinge_embedding_loss", method=False, spaces="torch nn.functional", autocast="float32")
def _hinge_embedding_loss(
    F, input, target, margin: float = 1.0, size_average=None, reduce=None, reduction: str = "mean"
):
    """input where target is 1, max(0, margin - input) where it is -1."""
    far = F.where(target != 1, F.clamp_min(margin - input, 0), 0.0)
    near = F.where(target != -1, input, 0.0)
    return reduced(F, far + near, reduction_of(reduction, size_average, reduce))


@composite("margin_ranking_loss", method=False, spaces="torch nn.functional", autocast="float32")
def _margin_ranking_loss(
    F,
    input1,
    input2,
    target,
    margin: float = 0,
    size_average=None,
    reduce=None,
    reduction: str = "mean",
):
    """max(0, -target (input1 - input2) + margin)."""
    loss = F.clamp_min(-target * (input1 - input2) + margin, 0)
    return reduced(F, loss, reduction_of(reduction, size_average, reduce))


def _in_common(F, *tensors: Tensor) -> tuple[Any, ...]:
    """The tensors in one floating dtype."""
    common = functools.reduce(promote_types, (x.dtype for x in tensors))
    if common.category != 2:
        raise RuntimeError(
            f"expected common dtype to be floating point, yet common dtype is {common.scalar_name}"
        )
    return tuple(x if x.dtype is common else F.cast(x, common.np) for x in tensors)


@composite("cosine_similarity", method=False, spaces="torch nn.functional", autocast="cuda float32")
def _cosine_similarity(F, x1, x2, dim: int = 1, eps: float = 1e-8):
    """The cosine of the angle between vectors along `dim`; norms not below eps."""
    if F.traced:
        x1, x2 = _in_common(F, x1, x2)
    x1, x2 = F.broadcast_tensors(x1, x2)
    first = x1 / F.clamp_min(F.norm(x1, 2, dim, True), eps)
    second = x2 / F.clamp_min(F.norm(x2, 2, dim, True), eps)
    return F.sum(first * second, dim)


@composite("pairwise_distance", method=False, spaces="torch nn.functional")
def _pairwise_distance(F, x1, x2, p: float = 2.0, eps: float = 1e-6, keepdim: bool = False):
    """The p-norm of x1 - x2 + eps over the last dimension."""
    return F.norm(x1 - x2 + eps, p, -1, keepdim)


@composite("cosine_embedding_loss", method=False, spaces="torch nn.functional", autocast="float32")
def _cosine_embedding_loss(
    F,
    input1,
    input2,
    target,
    margin: float = 0,
    size_average=None,
    reduce=None,
    reduction: str = "mean",
):
    """1 - cos where target is 1, max(0, cos - margin) where it is -1."""
    if target.ndim > 1:
        raise RuntimeError("0D or 1D target tensor expected, multi-target not supported")
    if {input1.ndim, input2.ndim} != {target.ndim + 1}:
        raise RuntimeError(
            f"{target.ndim}D target tensor expects {target.ndim + 1}D input tensors, but found "
            f"inputs with sizes {list(input1.shape)} and {list(input2.shape)}."
        )
    dim = 0 if input1.ndim == 1 else 1
    tiny = 1e-12  # torch's own, so that zero vectors have a cosine
    norms = (F.sum(input1 * input1, dim) + tiny) * (F.sum(input2 * input2, dim) + tiny)
    cos = F.sum(input1 * input2, dim) / F.sqrt(norms)
    loss = F.where(target == 1, 1 - cos, 0.0) + F.where(
        target == -1, F.clamp_min(cos - margin, 0), 0.0
    )
    return reduced(F, loss, reduction_of(reduction, size_average, reduce))


@composite("multilabel_soft_margin_loss", method=False, spaces="nn.functional", profiled=UNSEEN)
def _multilabel_soft_margin_loss(
    F, input, target, weight=None, size_average=None, reduce=None, reduction: str = "mean"
):
    """The binary cross entropy of logits, averaged over the classes (last dimension)."""
    loss = -(target * F.logsigmoid(input) + (1 - target) * F.logsigmoid(-input))
    loss = F.sum(weighted(loss, weight), -1) / input.shape[-1]
    return reduced(F, loss, reduction_of(reduction, size_average, reduce))
