"""ctc_loss: how likely a label sequence is, over all its alignments with a longer input."""

from __future__ import annotations

from typing import Any

import numpy

from ag_visual import dtypes
from ag_visual.arrays.kernels import ctc as kernels
from ag_visual.dispatch.dtype_errors import not_implemented
from ag_visual.dispatch.families import not_differentiable
from ag_visual.dispatch.record import OWN, ErrorSample, Sample
from ag_visual.dispatch.table import composite, op
from ag_visual.dispatch.vmap_layers import aligned
from ag_visual.ops.nn.loss.pointwise import MEAN, SUM, reduction_of


def _lengths(name: str, given) -> tuple[int, ...]:
    """Lengths as a tuple, from a tensor or a sequence."""
    array = getattr(given, "_array", None)
    if array is None:
        return tuple(int(n) for n in given)
    if array.dtype.kind not in "iu":
        raise RuntimeError(f"{name} must be integral")
    return tuple(int(n) for n in given.tolist())


def _check(
    log_probs, targets, input_lengths: tuple[int, ...], target_lengths: tuple[int, ...], blank: int
) -> None:
    asked = "(while checking arguments for ctc_loss_allocate_outputs)"
    if log_probs.ndim != 3:
        raise RuntimeError(
            f"Expected 3-dimensional tensor, but got {log_probs.ndim}-dimensional tensor for "
            f"argument #1 'log_probs' {asked}"
        )
    if log_probs.dtype.name not in ("float32", "float64"):
        kind = dtypes.of_array(log_probs)
        raise not_implemented("ctc_loss_cpu", kind, ". Use float32 or float64.")
    steps, rows, classes = log_probs.shape
    if not 0 <= blank < classes:
        raise RuntimeError(f"blank must be in label range: 0 <= {blank} < {classes}")
    for name, lengths in (("input_lengths", input_lengths), ("target_lengths", target_lengths)):
        if len(lengths) != rows:
            raise RuntimeError(f"{name} must be of size batch_size: {rows}, not {len(lengths)}")
        if min(lengths, default=0) < 0:
            raise RuntimeError(f"{name} must not be negative, got {min(lengths)}")
    for length in input_lengths:
        if length > steps:
            raise RuntimeError(
                f"Expected input_lengths to have value at most {steps}, but got value {length} "
                f"{asked}"
            )
    longest, total = max(target_lengths, default=0), sum(target_lengths)
    if targets.ndim == 1 and targets.shape[0] != total:
        raise RuntimeError(
            f"Expected tensor to have size {total} at dimension 0, but got size "
            f"{targets.shape[0]} for argument #2 'targets' {asked}"
        )
    if targets.ndim == 2 and targets.shape[1] < longest:
        raise RuntimeError(
            f"Expected tensor to have size at least {longest} at dimension 1, but got size "
            f"{targets.shape[1]} for argument #2 'targets' {asked}"
        )


def _ctc(
    xp,
    log_probs,
    targets,
    input_lengths,
    target_lengths,
    blank: int = 0,
    zero_infinity: bool = False,
) -> tuple[Any, Any]:
    _check(log_probs, targets, input_lengths, target_lengths, blank)
    labels = kernels.extended(xp, targets, target_lengths, blank)
    lengths = (xp.asarray(input_lengths, xp.int64), xp.asarray(target_lengths, xp.int64))
    return kernels.forward(xp, log_probs, labels, *lengths)


def _ctc_backward(
    xp,
    grad_output,
    log_probs,
    targets,
    input_lengths,
    target_lengths,
    neg_log_likelihood,
    log_alpha,
    blank: int,
    zero_infinity: bool = False,
):
    labels = kernels.extended(xp, targets, target_lengths, blank)
    lengths = (xp.asarray(input_lengths, xp.int64), xp.asarray(target_lengths, xp.int64))
    saved = (neg_log_likelihood, log_alpha, zero_infinity)
    return kernels.backward(xp, grad_output, log_probs, labels, *lengths, *saved)


def _rule(
    F, g, log_probs, targets, input_lengths, target_lengths, result0, result1, blank, zero_infinity
):
    given = (log_probs, targets, input_lengths, target_lengths)
    return F._ctc_loss_backward(g, *given, result0, result1, blank, zero_infinity)


def _given(make) -> tuple[Any, ...]:
    scores = make((5, 2, 4))
    log_probs = scores - numpy.log(numpy.exp(scores).sum(axis=2, keepdims=True))
    return log_probs, numpy.array([[1, 1], [2, 3]]), (5, 4), (2, 1), 0


# Not smooth: torch's gradient is that of the logits behind a log_softmax, not of the values.
op(
    "_ctc_loss",
    _ctc,
    profiled=OWN,
    vjp={"log_probs": _rule},
    inputs=("log_probs", "targets"),
    outputs=("result0", "result1"),
    differentiable=(0,),
    method=False,
    public_name="ctc_loss",
    batch=aligned,
    samples=lambda make: [Sample(_given(make), smooth=False)],
    errors=lambda make: _errors(make),
    real_only=True,
    doc="Connectionist temporal classification: losses, and what its backward needs.",
)
op(
    "_ctc_loss_backward",
    _ctc_backward,
    vjp={
        "grad_output": not_differentiable("_ctc_loss_backward"),
        "log_probs": not_differentiable("_ctc_loss_backward"),
    },
    aten="aten::_ctc_loss_backward",
    inputs=("grad_output", "log_probs", "targets", "neg_log_likelihood", "log_alpha"),
    public=False,
    node="NotImplemented",
    batch=aligned,
    samples=lambda make: [
        Sample((make((2,)), *_given(make)[:4], *_ctc(numpy, *_given(make)), 0), smooth=False)
    ],
    real_only=True,
)


def _errors(make):
    log_probs, targets, *_ = _given(make)
    for lengths, text in (
        (((6, 4), (2, 1)), "Expected input_lengths to have value at most 5, but got value 6"),
        (((5,), (2, 1)), "input_lengths must be of size batch_size"),
        (
            ((5, 4), (3, 1)),
            "Expected tensor to have size at least 3 at dimension 1, but got size 2",
        ),
    ):
        yield ErrorSample((log_probs, targets, *lengths), RuntimeError, text)
    yield ErrorSample(
        (log_probs, targets, (5, 4), (2, 1), 7), RuntimeError, "blank must be in label range"
    )


@composite("ctc_loss", method=False, spaces="torch nn.functional", autocast="cpu float32")
def _ctc_loss(
    F,
    log_probs,
    targets,
    input_lengths,
    target_lengths,
    blank: int = 0,
    reduction="mean",
    zero_infinity: bool = False,
):
    """-log of the probability of `targets`, summed over all alignments with the input.

    log_probs: (T, N, C) or (T, C), from a log_softmax; targets: (N, S), or all in one row;
    lengths: N each. 'mean' divides each loss by its target's length, then averages; zero_infinity
    makes impossible alignments (and their gradients) 0. Source: Graves et al., ICML 2006.
    """
    number = reduction if isinstance(reduction, int) else reduction_of(reduction)
    single = log_probs.ndim == 2
    given = log_probs if not single else F.unsqueeze(log_probs, 1)
    if single and getattr(input_lengths, "ndim", 1) == 0:
        input_lengths, target_lengths = input_lengths.reshape(1), target_lengths.reshape(1)
    inputs = _lengths("input_lengths", input_lengths)
    counts = _lengths("target_lengths", target_lengths)
    loss = F._ctc_loss(given, targets, inputs, counts, blank, zero_infinity)[0]
    if zero_infinity:
        loss = F.where(loss == float("inf"), 0.0, loss)
    if number == MEAN:
        divisor = F.cast(F.index_of(loss, [max(n, 1) for n in counts]), loss._array.dtype)
        return F.mean(F.div(loss, divisor))
    if number == SUM:
        return F.sum(loss)
    return F.squeeze(loss, 0) if single else loss
