"""Dropout of elements and of channels."""

from __future__ import annotations

from typing import Any

from ag_visual.arrays import backend as backends
from ag_visual.core.level import all_values, drawn
from ag_visual.core.source import warn
from ag_visual.dispatch.families import elementwise
from ag_visual.dispatch.record import ELEMENTWISE, FLOAT, Sample
from ag_visual.dispatch.table import composite, op
from ag_visual.dispatch.vmap import Batch, leading, random
from ag_visual.ops.tensor.generator import source_of


def _check_probability(p: float) -> None:
    if not 0.0 <= p <= 1.0:
        raise ValueError(f"dropout probability has to be between 0 and 1, but got {p}")


def _dropped(F, input, p: float, shape: tuple[int, ...]):
    """input * mask / (1 - p): the product is what torch's graph on the CPU shows."""
    if p == 0:
        return input
    if p == 1:
        return F.mul(input, F.zeros_of(input, ()))
    dtype, source = input._array.dtype, source_of(backends.backend_of(all_values(input)))

    def mask(whole: tuple[int, ...]) -> Any:
        kept = source.bernoulli(1 - p, whole).astype(dtype)
        kept /= 1 - p
        return kept

    return F.mul(input, drawn(shape, mask))


def _noised(F, input, p: float, training: bool, inplace: bool, whole: int | None):
    """Dropout of elements, or (whole = number of leading dimensions) of whole channels."""
    _check_probability(p)
    if not training:
        return input
    shape = tuple(input.shape)
    if whole is not None:
        shape = (*shape[:whole], *(1,) * (len(shape) - whole))
    result = _dropped(F, input, p, shape)
    return input.copy_(result) if inplace and result is not input else result


@composite("dropout", method=False, spaces="torch nn.functional")
def _dropout(F, input, p: float = 0.5, training: bool = True, inplace: bool = False):
    """Zero each element with probability p and multiply the others with 1 / (1 - p)."""
    return _noised(F, input, p, training, inplace, None)


def _leading(rank: int, dims: int) -> int:
    """How many dimensions stand before those of a channel: (N, C, ...) or (C, ...)."""
    if dims in (rank + 1, rank + 2):
        if rank != 2:
            return dims - rank
        if dims == 3:
            _warn(
                "dropout2d: Received a 3D input to dropout2d and assuming that channel-wise 1D "
                "dropout behavior is desired: the input is taken as (N, C, L). To keep that and "
                "silence this warning, use dropout1d."
            )
        return 2
    if rank == 1:
        raise RuntimeError(
            f"dropout1d: Expected 2D or 3D input, but received a {dims}D input. Channel-wise "
            "dropout with 1 spatial dimension takes (N, C, L) or (C, L)."
        )
    _warn(
        f"dropout{rank}d: Received a {dims}-D input to dropout{rank}d, which is deprecated: "
        f"channel-wise dropout with {rank} spatial dimensions takes {rank + 1}D or {rank + 2}D "
        "inputs. To keep the behavior and silence this warning, use dropout."
    )
    return 2 if rank == 2 else 1


def _warn(text: str) -> None:
    warn(text)


def _declare_dropout(rank: int) -> None:
    def body(F, input, p: float = 0.5, training: bool = True, inplace: bool = False):
        _check_probability(p)
        leading = _leading(rank, input.ndim)
        if p and training and input.ndim < leading:
            raise RuntimeError("Feature dropout requires at least 2 dimensions in the input")
        return _noised(F, input, p, training, inplace, leading)

    body.__doc__ = f"Dropout of whole channels: of (N, C, ...) with {rank} spatial dimension(s)."
    composite(f"dropout{rank}d", method=False, spaces="nn.functional", profiled="feature_dropout")(
        body
    )


for _rank in (1, 2, 3):
    _declare_dropout(_rank)


def _native_dropout(xp, input, p: float, train=True) -> tuple[Any, Any]:
    if not train or p == 0:
        return input.copy(), xp.ones(input.shape, bool)
    mask = source_of(backends.backend_of(input)).bernoulli(1 - p, input.shape)
    return input * mask * (0.0 if p == 1 else 1 / (1 - p)), mask


def _native_rule(F, g, result1, p: float, train):
    scale = 1.0 if not train or p == 0 else 0.0 if p == 1 else 1 / (1 - p)
    return F.native_dropout_backward(g, result1, scale)


def _native_backward(xp, grad_output, mask, scale: float):
    return grad_output * mask * scale


def _one_mask(batch: Batch) -> Any:
    """The same elements of each slice are dropped."""
    x = batch["input"]
    ones = batch.F.zeros_of(x, batch.shape("input")) + 1
    kept, mask = batch.run(input=ones)
    return x * kept, batch.filled(mask, False)


op(
    "native_dropout",
    _native_dropout,
    vjp={"input": _native_rule},
    outputs=("result0", "result1"),
    differentiable=(0,),
    method=False,
    jvp=ELEMENTWISE,
    batch=random(leading(), _one_mask),
    samples=lambda make: [Sample((make((3, 4)), 0.5, True), smooth=False)],
    not_exposed=("train",),
    doc="`dropout` with the mask that it drew.",
)
elementwise(
    "native_dropout_backward",
    _native_backward,
    {"grad_output": lambda F, g, mask, scale: F.native_dropout_backward(g, mask, scale)},
    inputs=("grad_output", "mask"),
    policy=FLOAT,
    no_promotion=("mask",),
    method=False,
    samples=lambda make: [Sample((make((3, 4)), make((3, 4)) > 0, 2.0))],
    also_saves=("grad_output",),
    doc="The gradient of `native_dropout`: grad_output where the mask is true, times scale.",
    formula=lambda grad_output, mask, scale: grad_output * mask * scale,
    spaces="",
)
