"""nll_loss and cross_entropy: losses of class indices, or of class probabilities."""

from __future__ import annotations

import math

from ag_visual import dtypes
from ag_visual.arrays.kernels import loss as kernels
from ag_visual.dispatch import dtype_errors
from ag_visual.dispatch.codegen.joined import joined
from ag_visual.dispatch.families import zeros
from ag_visual.dispatch.record import LINEAR, OWN, ROWS, ErrorSample, Sample
from ag_visual.dispatch.rules import calls
from ag_visual.dispatch.table import composite, op, ops
from ag_visual.dispatch.vmap_layers import picked_classes, picked_classes_back
from ag_visual.ops.nn.loss.pointwise import MEAN, NONE, SUM, reduction_of
from ag_visual.ops.nn.softmax import log_probabilities


def _kind(x) -> str:
    return dtypes.of_array(x).scalar_name


def _check_classes(self, target, weight) -> None:
    if target.dtype.kind not in "iu" or target.dtype.itemsize not in (1, 8):
        raise RuntimeError(
            f"expected target dtype to be Long or Byte, but got {_kind(target)}. Convert class "
            "indices with .long()"
        )
    if weight is not None and weight.shape != (self.shape[1 if self.ndim > 1 else 0],):
        raise RuntimeError(
            "weight tensor should be defined either for all "
            f"{self.shape[1 if self.ndim > 1 else 0]} classes or no classes but got weight tensor "
            f"of shape: {list(weight.shape)}"
        )


def _nll(xp, self, target, weight=None, reduction: int = MEAN, ignore_index: int = -100):
    _check_classes(self, target, weight)
    return kernels.nll_loss(xp, self, target, weight, reduction, ignore_index)


def _classes(make, shape: tuple[int, ...], count: int):
    return (make(shape, low=0.0, high=count - 0.01)).astype(int)


def _nll_samples(shapes):
    def samples(make):
        for shape in shapes:
            classes = shape[1] if len(shape) > 1 else shape[0]
            rest = (*shape[:1], *shape[2:]) if len(shape) > 1 else ()
            target = _classes(make, rest, classes)
            for reduction in (MEAN, SUM, NONE):
                yield Sample((make(shape), target, None, reduction, -100))
            weight = make((classes,), low=0.3, high=2.0)
            yield Sample((make(shape), target, weight, MEAN, -100))
            if rest:
                target = target.copy()
                target.reshape(-1)[0] = 1
                yield Sample((make(shape), target, weight, MEAN, 1))

    return samples


def _nll_back_samples(shape: tuple[int, ...]):
    def samples(make):
        import numpy

        target = _classes(make, (*shape[:1], *shape[2:]), shape[1])
        weight = make((shape[1],), low=0.3, high=2.0)
        total = numpy.asarray(float(target.size))
        yield Sample((make(()), make(shape), target, weight, SUM, -100, total))
        yield Sample((make(()), make(shape), target, None, MEAN, -100, total))
        yield Sample((make(target.shape), make(shape), target, None, NONE, -100, total))

    return samples


def _nll_ops(name: str, title: str, shapes) -> None:
    """nll_loss for rows of classes, or for images of them: torch has a node for each."""
    known = ("self", "target", "weight", "reduction", "ignore_index", "total_weight")

    def again(F, g, target, weight, reduction: int, ignore_index: int):
        return getattr(F, f"{name}_forward")(g, target, weight, reduction, ignore_index)[0]

    op(
        f"{name}_forward",
        _nll,
        vjp={"self": calls(f"{name}_backward", "g", *known)},
        jvp=LINEAR,
        batch=picked_classes,
        inputs=("self", "target", "weight"),
        outputs=("output", "total_weight"),
        differentiable=(0,),
        layout=ROWS,
        public=False,
        node=f"{title}Backward0",
        public_name="nll_loss",
        profiled=OWN,
        dtype_check=lambda self, weight: dtype_errors.scalar_type(self, weight),
        oracle=f"_C._nn.{name}",
        samples=_nll_samples(shapes),
        errors=lambda make: [
            ErrorSample((make((2, 3)), make((2,))), RuntimeError, "to be Long or Byte"),
            ErrorSample(
                (make((2, 3)), _classes(make, (2,), 3) + 9), IndexError, "is out of bounds"
            ),
        ],
        real_only=True,
        formula="output = -Sum(n, weight[target[n]] * self[n, target[n]]) / divisor",
    )
    op(
        f"{name}_backward",
        kernels.nll_loss_backward,
        # The loss is linear in the scores: its second derivative is zero, not none.
        vjp={"grad_output": again, "self": lambda F, g: zeros(F, g)},
        jvp={"grad_output": LINEAR, "self": lambda F, t_self: zeros(F, t_self)},
        batch=picked_classes_back,
        inputs=("grad_output", "self", "target", "weight", "total_weight"),
        public=False,
        node=f"{title}BackwardBackward0",
        samples=_nll_back_samples(shapes[0]),
        real_only=True,
        formula="result[n, c] = -grad_output * weight[c] * (c == target[n]) / divisor",
    )


_nll_ops("nll_loss", "NllLoss", ((3, 4), (4,)))
_nll_ops("nll_loss2d", "NllLoss2D", ((2, 3, 2, 2),))


def _shape(x) -> tuple[int, ...]:
    """The shape without torch's Size around it, which costs 0.5 us: losses ask often."""
    return getattr(x, "_array", x).shape  # type: ignore[no-any-return]


_of_rows = joined(
    "cross_entropy_of_rows",
    ops["log_softmax_dim"],
    ops["nll_loss_forward"],
    kernels.of_scores,
    {"dim": 1, "weight": None},
)


def _nll_of(F, input, target, weight, reduction: int, ignore_index: int):
    """The node that torch takes for so many dimensions."""
    if len(_shape(input)) in (1, 2):
        return F.nll_loss_forward(input, target, weight, reduction, ignore_index)[0]
    if input.ndim == 4:
        return F.nll_loss2d_forward(input, target, weight, reduction, ignore_index)[0]
    rows, classes, *rest = input.shape
    flat = F.reshape(input, (rows, classes, 1, math.prod(rest)))
    spots = F.reshape(target, (rows, 1, math.prod(rest)))
    result = F.nll_loss2d_forward(flat, spots, weight, reduction, ignore_index)[0]
    return F.reshape(result, (rows, *rest)) if reduction == NONE else result


@composite(
    "nll_loss", method=False, spaces="nn.functional", autocast="float32", profiled="nll_loss_nd"
)
def _nll_loss(
    F,
    input,
    target,
    weight=None,
    size_average=None,
    ignore_index: int = -100,
    reduce=None,
    reduction: str = "mean",
):
    """-weight[target] * input[target] of log-probabilities, averaged over the weights.

    input: (C), (N, C) or (N, C, d1, ...); target: class indices of the shape without C.
    """
    number = reduction_of(reduction, size_average, reduce)
    _check_picked(_shape(input), _shape(target))
    return _nll_of(F, input, target, weight, number, ignore_index)


def _check_picked(shape: tuple[int, ...], picked: tuple[int, ...]) -> None:
    """A target has the shape of the input without its classes."""
    if len(shape) > 1 and shape[:1] != picked[:1]:
        raise ValueError(
            f"Expected input batch_size ({shape[0]}) to match target batch_size "
            f"({picked[0] if picked else 0})."
        )
    if len(shape) == 1 == len(picked) and picked != (1,):
        raise ValueError(
            f"For 1D input, 1D target must have size 1, but got target size: {picked[0]}"
        )
    expected = shape[:1] + shape[2:] if len(shape) > 1 else ()
    if len(shape) == 2 and len(picked) > 1:
        raise RuntimeError(
            f"0D or 1D target tensor expected, multi-target not supported: got target size "
            f"{list(picked)} for input size {list(shape)}"
        )
    if picked != expected:
        raise RuntimeError(
            f"Expected target size {list(expected)}, got {list(picked)}: input has shape "
            f"{list(shape)} with classes in dimension {min(len(shape) - 1, 1)}"
        )


def _smoothed(
    F, logp, target, weight, reduction: int, ignore_index: int, smoothing: float, dim: int
):
    """The part of label smoothing that spreads over all classes."""
    shape = [1] * logp.ndim
    shape[dim] = -1
    spread = logp if weight is None else logp * F.reshape(weight, tuple(shape))
    loss = -F.sum(spread, dim)
    ignored = target == ignore_index
    loss = F.masked_fill(loss, ignored, 0.0)
    if reduction == NONE:
        return loss
    if reduction == SUM:
        return F.sum(loss)
    if weight is None:
        return F.sum(loss) / (target != ignore_index).sum()
    known = F.reshape(F.masked_fill(target, ignored, 0), (-1,))
    used = F.reshape(F.index_select(weight, 0, known), tuple(target.shape))
    used = F.masked_fill(used, ignored, 0.0)
    return F.sum(loss) / F.sum(used)


def _check_probabilities(shape: tuple[int, ...], target, weight, ignore_index: int) -> None:
    if not target.is_floating_point():
        raise RuntimeError(
            "Expected floating point type for target with class probabilities, got "
            f"{target.dtype.scalar_name}. Class indices have the input's shape without its classes"
        )
    if ignore_index >= 0:
        raise RuntimeError("ignore_index is not supported for floating point target")
    classes = shape[1] if len(shape) > 1 else math.prod(shape)
    if weight is not None and tuple(weight.shape) != (classes,):
        raise RuntimeError(
            f"cross_entropy: weight tensor should be defined either for all {classes} classes or "
            f"no classes but got weight tensor of shape: {list(weight.shape)}"
        )


def _cross_entropy_probabilities(F, input, target, weight, reduction: int, smoothing: float):
    dim = 0 if input.ndim == 1 else 1
    if smoothing:
        target = target * (1 - smoothing) + smoothing / max(input.shape[dim], 1)
    loss = F.log_softmax(input, dim) * target
    if weight is not None:
        shape = [1] * input.ndim
        shape[dim] = -1
        loss = loss * F.reshape(weight, tuple(shape))
    if reduction == NONE:
        return -F.sum(loss, dim)
    total = -F.sum(loss)
    if reduction == SUM:
        return total
    return total / (math.prod(input.shape) / input.shape[dim] if 0 not in input.shape else 0.0)


@composite(
    "cross_entropy",
    method=False,
    spaces="nn.functional",
    autocast="float32",
    profiled="cross_entropy_loss",
)
def _cross_entropy(
    F,
    input,
    target,
    weight=None,
    size_average=None,
    ignore_index: int = -100,
    reduce=None,
    reduction: str = "mean",
    label_smoothing: float = 0.0,
):
    """nll_loss of log_softmax(input) over the classes.

    input: (C), (N, C) or (N, C, d1, ...) of any real numbers; target: class indices, or
    probabilities of the input's shape. Source: https://pytorch.org/docs/2.8/nn.functional.html
    """
    number = reduction_of(reduction, size_average, reduce)
    if weight is None and not label_smoothing and F.traced:
        loss = _of_rows(input, target, number, ignore_index)
        if loss is not None:
            return loss
    shape, picked = _shape(input), _shape(target)
    if picked == shape:
        _check_probabilities(shape, target, weight, ignore_index)
    if not 0.0 <= label_smoothing <= 1.0:
        raise RuntimeError(f"label_smoothing must be between 0.0 and 1.0. Got: {label_smoothing}")
    if picked == shape:
        return _cross_entropy_probabilities(F, input, target, weight, number, label_smoothing)
    dim = 0 if len(shape) == 1 else 1
    logp = log_probabilities(F, input, dim)
    _check_picked(shape, picked)
    loss = _nll_of(F, logp, target, weight, number, ignore_index)
    if not label_smoothing:
        return loss
    spread = _smoothed(F, logp, target, weight, number, ignore_index, label_smoothing, dim)
    return loss * (1 - label_smoothing) + spread * (label_smoothing / input.shape[dim])
