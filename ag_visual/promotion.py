"""Which dtype an operation computes in: torch's promotion rules, decided before any kernel runs.

Layer 0: imports only dtypes. NumPy's own promotion is never relied on (it widens float32 with a 0-d
float64; torch does not).
"""

from __future__ import annotations

import builtins
from typing import Any, Final

from ag_visual import dtypes
from ag_visual.dtypes import COMPLEX, FLOAT, dtype
from ag_visual.errors import type_name

# Ranks: a dimensioned tensor beats a 0-d tensor beats a Python number of the same category.
SCALAR: Final = 0
ZERO_DIM: Final = 1
DIMENSIONED: Final = 2


def _promote(a: dtype, b: dtype) -> dtype | None:
    if a is b:
        return a
    if (a in dtypes.APART and b.category != FLOAT) or (b in dtypes.APART and a.category != FLOAT):
        return None
    if a.category != b.category:
        low, high = (a, b) if a.category < b.category else (b, a)
        if high.category == COMPLEX and low is dtypes.float64:
            return dtypes.complex128
        return high
    if a.category == FLOAT and a.itemsize == b.itemsize:
        return dtypes.float32  # float16 with bfloat16: neither holds the other
    if a.itemsize == b.itemsize:
        return dtypes.int16  # uint8 with int8
    return a if a.itemsize > b.itemsize else b


_TABLE: Final[tuple[tuple[dtype | None, ...], ...]] = tuple(
    tuple(_promote(a, b) for b in dtypes.ALL) for a in dtypes.ALL
)


def promote_types(type1: dtype, type2: dtype) -> dtype:
    """The smallest dtype that holds the values of both, as torch.promote_types."""
    return _TABLE[type1.index][type2.index] or _apart(type1, type2)


def _apart(type1: dtype, type2: dtype) -> dtype:
    """Refuse a pair that has no common type."""
    one, other = (t.scalar_name for t in (type1, type2))
    raise RuntimeError(
        "Promotion for uint16, uint32, uint64 types is not supported, attempted to promote "
        f"{one} and {other}. Convert one of them first."
    )


def _combine(higher: dtype | None, lower: dtype | None) -> dtype | None:
    """The result for a group of operands and one of lower rank, which counts by category only."""
    if higher is None or lower is None:
        return higher or lower
    if higher.category == COMPLEX:
        return higher
    if higher.category == FLOAT:
        return higher.to_complex() if lower.category == COMPLEX else higher
    if lower.category == COMPLEX and higher in dtypes.APART:
        return lower
    if higher.category == 0 or lower.category >= FLOAT:
        return promote_types(higher, lower)
    return higher


def scalar_dtype(value: Any) -> dtype:
    """What a Python number enters promotion as: bool, int64, default float or complex."""
    kind = type(value)
    if kind is builtins.float:
        return dtypes.get_default_dtype()
    if kind is builtins.int:
        return dtypes.int64
    if kind is builtins.bool:
        return dtypes.bool
    if isinstance(value, builtins.int):
        return dtypes.int64
    if isinstance(value, builtins.float):
        return dtypes.get_default_dtype()
    if isinstance(value, builtins.complex):
        return dtypes.get_default_complex_dtype()
    # NumPy numbers without a Python base class: np.float32, np.int64, np.bool_ ...
    numpy_type = getattr(value, "dtype", None)
    if numpy_type is None or getattr(value, "shape", ()) != ():
        raise TypeError(f"expected a number, got {type_name(value)}")
    return _weak(dtypes.of_numpy(numpy_type))


def _weak(of: dtype) -> dtype:
    if of.category == FLOAT:
        return dtypes.get_default_dtype()
    if of.category == COMPLEX:
        return dtypes.get_default_complex_dtype()
    return of if of.category == 0 else dtypes.int64


def result_type(*operands: tuple[dtype, int]) -> dtype:
    """The dtype of an operation on `operands`, each (dtype, rank).

    Rank 2 is a tensor with dimensions, 1 a 0-d tensor, 0 a Python number (see `scalar_dtype`). A
    lower rank raises the result only to a higher category, never to a wider type within one.
    """
    if not operands:
        raise TypeError("result_type needs at least one operand")
    groups: list[dtype | None] = [None, None, None]
    for of, rank in operands:
        current = _weak(of) if rank == SCALAR else of
        before = groups[rank]
        groups[rank] = current if before is None else promote_types(before, current)
    result = _combine(groups[DIMENSIONED], _combine(groups[ZERO_DIM], groups[SCALAR]))
    assert result is not None
    return result


def can_cast(from_: dtype, to: dtype) -> bool:
    """Whether torch casts `from_` to `to` implicitly: not to a lower category."""
    return from_.category <= to.category
