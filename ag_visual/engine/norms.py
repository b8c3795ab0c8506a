"""Sums of squares of gradients, in the range of their numbers and not of their squares."""

from __future__ import annotations

import sys
from math import inf as INFINITY
from typing import Any

import numpy
from numpy import vdot

from ag_visual.arrays.coo import Coo
from ag_visual.events.live import gradient_array
from ag_visual.events.log import SMALLEST, TINY


def norm2(value: Any) -> float:
    """Sum of squares of a gradient, -1.0 where there is none or it has no values."""
    if value is None:
        return -1.0
    array = gradient_array(value)
    if type(array) is numpy.ndarray:
        return squares(array)
    if type(array) is Coo:
        return norm2(array.coalesced().values)
    return float((abs(array) ** 2).sum()) if getattr(type(array), "has_values", True) else -1.0


def squares(g: Any) -> float:
    """Sum of squares of a NumPy gradient; infinite or NaN only if an element is, 0 if all are."""
    kind = g.dtype.kind
    if kind == "c":
        total = float(vdot(g, g).real)
    else:
        if g.itemsize == 2:  # bfloat16, which NumPy's dot does not know, and float16
            g = g.astype(numpy.float32)
        flat = g.ravel("K")  # as it lies in memory: of what is transposed, too, without a copy
        total = float(flat.dot(flat))
    if TINY < total < INFINITY:
        return total
    # Squares leave the range of a dtype long before its numbers do, at both ends.
    if not numpy.isfinite(g).all():
        return total
    wide = g.astype(numpy.complex128 if kind == "c" else numpy.float64)
    total = min(float(vdot(wide, wide).real), sys.float_info.max)
    return total if total or not wide.any() else SMALLEST
