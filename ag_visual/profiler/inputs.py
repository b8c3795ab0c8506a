"""What an op was called with: shapes, dtypes and strides of tensors, the values of numbers."""

from __future__ import annotations

import functools
from typing import Any, NamedTuple

import numpy

from ag_visual.core.tensor import Tensor

_CALLED = {
    "float32": "float",
    "float64": "double",
    "float16": "c10::Half",
    "bfloat16": "c10::BFloat16",
    "int64": "long int",
    "int32": "int",
    "int16": "short int",
    "int8": "signed char",
    "uint8": "unsigned char",
    "bool": "bool",
    "complex64": "c10::complex<float>",
    "complex128": "c10::complex<double>",
}
"""torch writes types as C++ does."""
SIZES = {
    called: 2 if name == "bfloat16" else numpy.dtype(name).itemsize
    for name, called in _CALLED.items()
}
"""Bytes of a number of each type."""


class Inputs(NamedTuple):
    """One entry for each argument: () and '' where it has no such thing."""

    dims: tuple[Any, ...]
    strides: tuple[Any, ...]
    types: tuple[str, ...]
    concrete: tuple[str, ...]
    named: tuple[tuple[str, str], ...] = ()

    @property
    def shapes(self) -> list[Any]:
        """Sizes as lists; a list of tensors has an empty one."""
        return [[] if d and isinstance(d[0], tuple) else list(d) for d in self.dims]


def inputs_of(args: Any, kwargs: Any) -> Inputs:
    """What is known of the arguments of a call."""
    found = [_described(each) for each in args]
    named = tuple((name, _text(value)) for name, value in kwargs.items()) if kwargs else ()
    if not found:
        return Inputs((), (), (), (), named)
    dims, strides, types, concrete = zip(*found, strict=True)
    return Inputs(dims, strides, types, concrete, named)


@functools.lru_cache(4096)
def _of_array(shape: Any, strides: Any, dtype: Any) -> tuple[Any, Any, str, str]:
    """What is known of all arrays of one layout; NumPy's `dtype.name` alone takes 3 us."""
    step = dtype.itemsize or 1
    steps = tuple([each // step for each in strides])
    return tuple(shape), steps, _CALLED.get(dtype.name, dtype.name), ""


def _described(value: Any) -> tuple[Any, Any, str, str]:
    if isinstance(value, Tensor):
        value = value._array
    if isinstance(value, numpy.ndarray) or hasattr(value, "strides"):
        return _of_array(value.shape, value.strides, value.dtype)
    if isinstance(value, (bool, int, float, complex)):
        return (), (), "Scalar", str(value)
    if isinstance(value, (tuple, list)) and value:
        if any(isinstance(each, (Tensor, numpy.ndarray)) for each in value):
            dims, strides, _, _ = zip(*map(_described, value), strict=True)
            return tuple(dims), tuple(strides), "TensorList", ""
        if all(isinstance(each, (bool, int, float)) for each in value):
            return (), (), "ScalarList", str(list(value))
    return (), (), "", _text(value) if isinstance(value, str) else ""


def _text(value: Any) -> str:
    if isinstance(value, (bool, int, float, complex, str)):
        return str(value)
    return str(list(value)) if isinstance(value, (tuple, list)) else type(value).__name__
