"""Where a new tensor begins: its shape, dtype, device and whether it requires grad."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import numpy

from ag_visual import devices, dtypes
from ag_visual.arrays import backend as backends
from ag_visual.core.tensor import Tensor, from_array
from ag_visual.devices import device as Device
from ag_visual.errors import out_of_memory

NEEDS_FLOAT = "Only Tensors of floating point and complex dtype can require gradients"


def size_of(name: str, size: tuple[Any, ...], named: dict[str, Any]) -> tuple[int, ...]:
    """The shape from f(2, 3), f((2, 3)) or f(size=(2, 3)), which takes no other keyword."""
    if "size" in named:
        size = (named.pop("size"),)
    elif not size:
        raise TypeError(f'{name}() missing 1 required positional arguments: "size"')
    if named:
        raise TypeError(f"{name}() got an unexpected keyword argument '{next(iter(named))}'")
    return shape_of(name, size)


def shape_of(name: str, size: tuple[Any, ...]) -> tuple[int, ...]:
    """(2, 3) from either f(2, 3) or f((2, 3)), checked."""
    given: Any = size
    if len(size) == 1 and isinstance(size[0], (tuple, list)):
        given = size[0]
    shape = []
    for at, n in enumerate(given):
        try:
            if (not at and isinstance(n, (bool, numpy.bool_))) or getattr(n, "ndim", 0):
                raise TypeError  # True is 1 in later places only
            shape.append(operator.index(n))
        except TypeError:
            kind = type(n).__name__
            if given is size:
                raise TypeError(
                    f"{name}(): argument 'size' (position 1) must be tuple of ints, not {kind}"
                ) from None
            raise TypeError(
                f"{name}(): argument 'size' failed to unpack the object at pos {at + 1} with error "
                f'"type must be tuple of ints,but got {kind}"'
            ) from None
    for n in shape:
        if n < 0:
            prefix = "zeros: Dimension size must be non-negative.\n" if name == "zeros" else ""
            raise RuntimeError(
                f"{prefix}Trying to create tensor with negative dimension {n}: {list(shape)}"
            )
    return tuple(shape)


def make(build: Callable[[Any], Any], device=None, requires_grad: bool = False) -> Tensor:
    """A leaf around the array that `build(backend)` makes on a device (the default one)."""
    try:
        if device is None and devices.default is None:
            return leaf(build(_cpu), requires_grad)
        where = Device(devices.default if device is None else device)
        backend = backends.backend_for(where)
        with backend.on(where.index):
            return leaf(build(backend), requires_grad)
    except MemoryError as error:
        raise out_of_memory(error, "a new tensor") from None


_cpu = backends.backend_for("cpu")


def checked_leaf(array, requires_grad: bool):
    """The array, if it may require grad as it is asked to."""
    if requires_grad and dtypes.of_array(array).category < 2:
        raise RuntimeError(
            f"{NEEDS_FLOAT}, but this tensor is {dtypes.of_array(array)}: pass a floating-point "
            "dtype"
        )
    return array


def leaf(array: Any, requires_grad: bool) -> Tensor:
    """The array as a tensor, which may require grad if its dtype allows it."""
    checked_leaf(array, requires_grad)
    return from_array(array, bool(requires_grad))  # type: ignore[no-any-return]
