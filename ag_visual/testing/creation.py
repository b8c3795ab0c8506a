"""make_tensor: random values for tests."""

from __future__ import annotations

import math
from typing import Any

from ag_visual.core.source import warn
from ag_visual.devices import device as Device
from ag_visual.dispatch.table import functions as F
from ag_visual.dtypes import bool as boolean, dtype as DType, finfo, iinfo, int64


def make_tensor(
    *shape: Any,
    dtype: DType,
    device: str | Device,
    low: float | None = None,
    high: float | None = None,
    requires_grad: bool = False,
    noncontiguous: bool = False,
    exclude_zero: bool = False,
    memory_format: Any = None,
) -> Any:
    """A tensor of values uniform in [low, high).

    Without bounds: [-9, 9) for floating point and complex numbers (each part), -9 to 9 for
    integers, 0 to 9 for unsigned ones. Bounds beyond the dtype's numbers are taken as these.
    noncontiguous: one with gaps in memory, where it has two elements; exclude_zero: the smallest
    positive number in the place of 0.

    Raises:
        ValueError: bounds that are NaN, empty or outside the dtype; a gradient of integers.
    """
    sizes = tuple(shape[0]) if len(shape) == 1 and not hasattr(shape[0], "__index__") else shape
    counted = not (dtype.is_floating_point or dtype.is_complex)
    if noncontiguous and memory_format is not None:
        raise ValueError(
            "The parameters `noncontiguous` and `memory_format` are mutually exclusive, but got "
            f"noncontiguous={noncontiguous!r} and memory_format={memory_format!r}"
        )
    if requires_grad and counted:
        raise ValueError(
            "`requires_grad=True` is not supported for boolean and integral dtypes, but got "
            f"dtype={dtype}"
        )
    first, last = _bounds(low, high, dtype, counted)
    gaps = noncontiguous and math.prod(sizes) > 1
    drawn = (*sizes[:-1], 2 * sizes[-1]) if gaps else sizes
    if counted:
        result = F["randint"](first, last, drawn, device=device, dtype=dtype)
    else:
        result = F["empty"](drawn, device=device, dtype=dtype)
        (F["view_as_real"](result) if dtype.is_complex else result).uniform_(first, last)
    if gaps:
        result = result[..., 1::2]
    elif memory_format is not None:
        result = result.clone(memory_format=memory_format)
    if exclude_zero:
        tiny = 1 if counted else finfo(dtype).tiny
        result[result == 0] = tiny
    return result._require_grad(True) if requires_grad else result


def _bounds(low: Any, high: Any, dtype: DType, counted: bool) -> tuple[Any, Any]:
    if dtype == boolean:
        least, most, usual = 0, 2, (0, 2)
    elif counted:
        # The end of a range of int64 must be one, too.
        least, most = iinfo(dtype).min, iinfo(dtype).max + (dtype != int64)
        usual = (-9, 10)
    else:
        least, most = finfo(dtype).min, finfo(dtype).max
        usual = (-9, 9)
    first, last = usual[0] if low is None else low, usual[1] if high is None else high
    if math.isnan(first) or math.isnan(last):
        raise ValueError(f"`low` and `high` cannot be NaN, but got low={first!r} and high={last!r}")
    if first == last and not counted:
        warn(
            "Passing `low==high` to `torch.testing.make_tensor` for floating or complex types is "
            "deprecated since 2.1 and will be removed in 2.3. Use `torch.full(...)` instead.",
            FutureWarning,
        )
    elif first >= last:
        raise ValueError(f"`low` must be less than `high`, but got {first} >= {last}")
    elif last < least or first >= most:
        raise ValueError(
            f"The value interval specified by `low` and `high` is [{first}, {last}), but {dtype} "
            f"only supports [{least}, {most})"
        )
    first, last = (min(max(each, least), most) for each in (first, last))
    return (math.ceil(first), math.ceil(last)) if counted else (first, last)
