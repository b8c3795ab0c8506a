"""16-bit floats as torch computes with them: in float32, rounded once ("opmath").

What is said of an op stands in its declaration: `opmath`, `rounds` and `rounding` of a record.
"""

from __future__ import annotations

from typing import Any, Final

import numpy

from ag_visual import dtypes
from ag_visual.arrays.kernels.order import copied
from ag_visual.dispatch.record import KEEP, Op

NARROW: Final = frozenset((dtypes.float16.np, dtypes.bfloat16.np))
WIDE: Final = dtypes.float32.np


def number_dtype(op: Op, name: str, target: dtypes.dtype) -> dtypes.dtype:
    """In which dtype a number for an input enters the kernel, where the op computes in `target`."""
    wide = op.opmath and target.np in NARROW and name not in op.rounds
    return dtypes.float32 if wide else target


def sixteen(op: Op, arrays: dict[str, Any]) -> Any:
    """The 16-bit NumPy dtype that the op computes in, or None."""
    found = None
    for name in op.inputs:
        dtype = getattr(arrays[name], "dtype", None)
        if dtype is None or name in op.no_promotion:
            continue
        if dtype in NARROW and found in (None, dtype):
            found = dtype
        elif op.policy == KEEP:
            return None  # two dtypes, of which the kernel may say something
    return found


def widened(xp: Any, value: Any) -> Any:
    """16-bit floating-point arrays as float32, those of a sequence, too; all else as it was."""
    if isinstance(value, tuple | list):
        return type(value)(widened(xp, each) for each in value)
    narrow = getattr(value, "dtype", None) in NARROW
    return copied(xp, value, WIDE) if narrow else value


def narrowed(value: Any, dtype: Any) -> Any:
    """A float32 array (or number of NumPy's) in 16 bits; anything else is as it was."""
    return value.astype(dtype) if getattr(value, "dtype", None) == WIDE else value


def rounded(number: Any, dtype: Any) -> Any:
    """A real number as a 16-bit dtype holds it; anything else is as it was."""
    real = isinstance(number, (int, float)) and not isinstance(number, bool)
    return float(numpy.asarray(number).astype(dtype)) if real else number


def invoke(op: Op, xp: Any, given: dict[str, Any], dtype: Any) -> Any:
    """The kernel on arrays of this 16-bit dtype and arguments, by name."""
    values = {
        name: widened(xp, rounded(value, dtype) if name in op.rounds else value)
        for name, value in given.items()
    }
    result = op.invoke(xp, values)
    if isinstance(result, tuple):
        return tuple(narrowed(each, dtype) for each in result)
    return narrowed(result, dtype)
