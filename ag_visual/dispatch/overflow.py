"""Numbers that a dtype cannot hold: refused as torch refuses them. Imports no op."""

from __future__ import annotations

import math
from typing import Any

import numpy

from ag_visual import dtypes
from ag_visual.dispatch.dtype_errors import in_macros


def check_overflow(value: Any, kind: dtypes.dtype) -> None:
    """Raise RuntimeError unless a dtype holds a number; negative ones may wrap around in uint8."""
    why = ""
    if isinstance(value, (complex, numpy.complexfloating)) and kind.category < 3:
        imaginary, value = value.imag, value.real
    else:
        imaginary = 0
    if imaginary != 0 and kind.category:  # a bool holds any number
        why = f"has the imaginary part {imaginary}"
    elif kind.category == 1:
        limits = numpy.iinfo(kind.np)
        least = -limits.max if limits.min == 0 else limits.min
        if not least <= value <= limits.max:  # NaN, too
            why = f"is not in [{least}, {limits.max}]"
    elif kind.category == 2 and math.isfinite(value) and abs(value) > dtypes.finfo(kind).max:
        why = f"is not in [-{dtypes.finfo(kind).max:g}, {dtypes.finfo(kind).max:g}]"
    if why:
        raise RuntimeError(
            f"value cannot be converted to type {_type_name(kind)} without overflow\n{value} {why}."
        )


def _type_name(kind: dtypes.dtype) -> str:
    """A dtype as these texts call it: int64_t, but int and float."""
    if kind.category == 1 and kind.name != "int32":
        return f"{kind.name}_t"
    return in_macros(kind)
