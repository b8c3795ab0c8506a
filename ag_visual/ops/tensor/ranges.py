"""Ranges and grids: arange, range, linspace, logspace, eye, tril_indices."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy

from ag_visual import dtypes
from ag_visual.arrays.kernels.fused import multiply_add
from ag_visual.core.source import warn
from ag_visual.core.tensor import Tensor
from ag_visual.dispatch.arguments import checked, kind_named
from ag_visual.dispatch.out_argument import made_into
from ag_visual.dispatch.table import function
from ag_visual.ops.tensor.cast import cast_array, dtype_of
from ag_visual.ops.tensor.creation import number_of
from ag_visual.ops.tensor.make import make


@function()
def arange(
    start=None,
    end=None,
    step=1,
    *,
    out=None,
    dtype=None,
    layout=None,
    device=None,
    pin_memory: bool = False,
    requires_grad: bool = False,
) -> Tensor:
    """start, start + step, ... below end; int64 where all three are integers."""
    if out is not None:
        return made_into("arange", out, dtype, device, partial(arange, start, end, step))
    if end is None:
        start, end = None, start
    start = 0 if start is None else start
    start, end, step = (
        number_of("arange", n, v) for n, v in (("start", start), ("end", end), ("step", step))
    )
    whole = all(isinstance(v, (int, numpy.integer)) for v in (start, end, step))
    kind = dtype_of("arange", dtype, dtypes.int64 if whole else None).np
    if step == 0:
        raise RuntimeError("step must be nonzero")
    if any(isinstance(v, complex) for v in (start, end, step)):
        raise RuntimeError("value cannot be converted to type double without overflow")
    if not all(math.isfinite(v) for v in (start, end)):
        raise RuntimeError(f"unsupported range: {start} -> {end}")
    if (step > 0) != (end >= start) and start != end:
        raise RuntimeError(
            "upper bound and lower bound inconsistent with step sign\n"
            f"from {start} to {end} by {step}"
        )
    if not whole and kind.kind in "iu":  # torch counts in doubles, in int64 in whole numbers
        if kind == numpy.int64:
            start, end, step = int(start), int(end), int(step)
            if step == 0:
                raise ValueError("step must be nonzero")
        count = math.ceil((end - start) / step)
        start, step, whole = int(start), int(step), True
    else:
        count = -((start - end) // step) if whole else math.ceil((end - start) / step)

    def build(b):
        steps = b.xp.arange(int(count))
        if whole:
            return (start + steps * step).astype(kind)
        return (start + steps.astype(numpy.float64) * step).astype(kind)

    return make(build, device, requires_grad)


def _range_with_end(
    start=0,
    end=None,
    step=1,
    *,
    out=None,
    dtype=None,
    layout=None,
    device=None,
    requires_grad: bool = False,
) -> Tensor:
    """start, start + step, ... up to end, which is one of them. Deprecated: `arange` leaves it out.

    floor((end - start) / step) + 1 numbers of the default dtype. Raises RuntimeError for a step of
    0 or one that leads away from the end.
    """
    if out is not None:
        return made_into("range", out, dtype, device, partial(_range_with_end, start, end, step))
    warn(
        "torch.range is deprecated and will be removed in a future release because its behavior is "
        "inconsistent with Python's range builtin. Instead, use torch.arange, which produces "
        "values in [start, end)."
    )
    if end is None:
        raise TypeError('range() missing 1 required positional arguments: "end"')
    start, end, step = (
        number_of("range", n, v) for n, v in (("start", start), ("end", end), ("step", step))
    )
    kind = dtype_of("range", dtype).np
    if step == 0 or (kind.kind in "iu" and int(step) == 0):
        raise RuntimeError("step must be nonzero")
    if not all(math.isfinite(v) for v in (start, end)):
        raise RuntimeError(f"unsupported range: {start} -> {end}")
    if (step > 0) != (end >= start) and start != end:
        raise RuntimeError(
            f"upper bound and lower bound inconsistent with step sign\nfrom {start} to {end} by "
            f"{step}"
        )
    count = int((end - start) / step) + 1
    if kind.kind in "iu":
        start, step = int(start), int(step)

    def build(b):
        return (start + b.xp.arange(count) * step).astype(kind)

    return make(build, device, requires_grad)


_range_with_end.__name__ = _range_with_end.__qualname__ = "range"
function()(_range_with_end)


def evenly(xp, start, end, steps: int, kind):
    """As torch computes it, to the last digit: from both ends, so that a symmetric range is exactly
    symmetric, and with one rounding for each number.
    """
    wide = kind if kind.kind in "fc" and kind.itemsize >= 4 else numpy.dtype(numpy.float64)
    if steps <= 1:
        return xp.full((steps,), start, dtype=wide)
    at = xp.arange(steps).astype(wide)
    first, last = xp.asarray(start, dtype=wide), xp.asarray(end, dtype=wide)
    step = (last - first) / (steps - 1)
    if wide.kind == "c":
        up, down = first + at * step, last - (steps - 1 - at) * step
    else:
        up, down = (
            multiply_add(xp, at, step, first),
            multiply_add(xp, steps - 1 - at, -step, last),
        )
    return xp.where(xp.arange(steps) < steps // 2, up, down)


def _range(name: str, start, end, steps, dtype) -> tuple[Any, Any, int, Any]:
    """The ends of a range as numbers (no gradient flows to them), how many steps, and their dtype.

    The ends of a range of integers are without their fractions.
    """
    several = [
        f"{what} with {each.ndim} dimension(s)"
        for what, each in (("start", start), ("end", end))
        if isinstance(each, Tensor) and each.ndim
    ]
    if several:
        raise RuntimeError(
            f"{name} only supports 0-dimensional start and end tensors, but got "
            f"{' and '.join(several)}."
        )
    steps = checked(name, "steps", kind_named("int"), steps)
    if steps < 0:
        raise RuntimeError(f"number of steps must be non-negative\nIt is {steps}.")
    start, end = (
        number_of(name, what, each.detach() if isinstance(each, Tensor) else each)
        for what, each in (("start", start), ("end", end))
    )
    complex_ends = any(isinstance(v, (complex, numpy.complexfloating)) for v in (start, end))
    kind = dtype_of(name, dtype, dtypes.get_default_complex_dtype() if complex_ends else None).np
    if kind.kind in "iub":
        start, end = int(start), int(end)
    return start, end, steps, kind


@function()
def linspace(
    start,
    end,
    steps: int,
    *,
    out=None,
    dtype=None,
    layout=None,
    device=None,
    requires_grad: bool = False,
) -> Tensor:
    """`steps` numbers from start to end, both included, evenly spaced."""
    if out is not None:
        return made_into("linspace", out, dtype, device, partial(linspace, start, end, steps))
    start, end, steps, kind = _range("linspace", start, end, steps, dtype)
    return make(
        lambda b: cast_array(evenly(b.xp, start, end, steps, kind), kind), device, requires_grad
    )


@function()
def logspace(
    start,
    end,
    steps: int,
    base: float = 10.0,
    *,
    out=None,
    dtype=None,
    layout=None,
    device=None,
    requires_grad: bool = False,
) -> Tensor:
    """base**start ... base**end: `steps` numbers evenly spaced on a logarithmic scale."""
    if out is not None:
        return made_into("logspace", out, dtype, device, partial(logspace, start, end, steps, base))
    start, end, steps, kind = _range("logspace", start, end, steps, dtype)

    def build(b):
        line = evenly(b.xp, start, end, steps, numpy.dtype(numpy.float64))
        return cast_array(b.xp.asarray(base, dtype=line.dtype) ** line, kind)

    return make(build, device, requires_grad)


@function()
def eye(
    n: int,
    m: int | None = None,
    *,
    out=None,
    dtype=None,
    layout=None,
    device=None,
    requires_grad: bool = False,
) -> Tensor:
    """Ones on the diagonal of an n x m matrix of zeros."""
    if out is not None:
        return made_into("eye", out, dtype, device, partial(eye, n, m))
    for name, size in (("n", n), ("m", m)):
        if size is not None and size < 0:
            raise RuntimeError(f"{name} must be greater or equal to 0, got {size}")
    kind = dtype_of("eye", dtype).np
    return make(lambda b: b.xp.eye(n, m, dtype=kind), device, requires_grad)


def _triangle_indices(name: str, side: str) -> Callable[..., Tensor]:
    def create(row: int, col: int, offset: int = 0, *, dtype=None, device=None) -> Tensor:
        kind = dtype_of(name, dtype, dtypes.int64).np
        found = numpy.stack(getattr(numpy, side)(row, offset, col)).astype(kind)
        return make(lambda b: b.from_numpy(found), device)

    create.__name__ = create.__qualname__ = name
    create.__doc__ = f"Row and column numbers of a matrix's {name[:4]} part, row by row."
    return function()(create)


tril_indices = _triangle_indices("tril_indices", "tril_indices")
triu_indices = _triangle_indices("triu_indices", "triu_indices")
