"""New tensors of a shape, or like another one: not differentiable; all may be leaves."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy

from ag_visual import dtypes
from ag_visual.arrays import backend as backends
from ag_visual.arrays.coo import Coo
from ag_visual.arrays.kernels.order import arranged, empty_as, sorted_dims
from ag_visual.core.level import Wrapper, all_values, levelled_like, with_batches
from ag_visual.core.sparse import tensor_of
from ag_visual.core.tensor import Tensor, method
from ag_visual.devices import device as Device
from ag_visual.dispatch.arguments import plain_number, wrong_type
from ag_visual.dispatch.out_argument import made_into
from ag_visual.dispatch.overflow import check_overflow
from ag_visual.dispatch.table import function
from ag_visual.errors import type_name
from ag_visual.ops.tensor.cast import cast_array, dtype_of
from ag_visual.ops.tensor.from_data import array_from, moved
from ag_visual.ops.tensor.make import leaf, make, shape_of, size_of


@function()
def scalar_tensor(s: complex, *, dtype=None, device=None, requires_grad: bool = False) -> Tensor:
    """A 0-d tensor of one number, in the default dtype."""
    result = full((), s, dtype=dtype_of("scalar_tensor", dtype), device=device)
    return result._require_grad(True) if requires_grad else result


# Filled -----------------------------------------------------------------------------------------


def _filled(name: str, method: str, text: str) -> Callable[..., Tensor]:
    def create(
        *size,
        out=None,
        dtype=None,
        layout=None,
        device=None,
        pin_memory: bool = False,
        requires_grad: bool = False,
        **named,
    ) -> Tensor:
        if out is not None:
            return made_into(name, out, dtype, device, partial(create, *size, **named))
        named.pop("memory_format", None)
        shape = size_of(name, size, named)
        kind = dtype_of(name, dtype).np
        return make(lambda b: getattr(b.xp, method)(shape, dtype=kind), device, requires_grad)

    create.__name__ = create.__qualname__ = name
    create.__doc__ = text
    return function()(create)


zeros = _filled("zeros", "zeros", "Zeros in a new tensor of a shape: `zeros(2, 3)`.")
ones = _filled("ones", "ones", "Ones in a new tensor of a shape: `ones(2, 3)`.")
empty = _filled("empty", "empty", "A new tensor of a shape with whatever was in memory.")


def _number_dtype(value) -> dtypes.dtype:
    if isinstance(value, (bool, numpy.bool_)):
        return dtypes.bool
    if isinstance(value, (int, numpy.integer)):
        return dtypes.int64
    return (
        dtypes.get_default_complex_dtype()
        if isinstance(value, (complex, numpy.complexfloating))
        else dtypes.get_default_dtype()
    )


def number_of(name: str, argument: str, value):
    """A Python number, from a number or a 0-d tensor that requires no grad."""
    if isinstance(value, Tensor):
        return plain_number(name, argument, value)
    if isinstance(value, (bool, int, float, complex, numpy.number, numpy.bool_)):
        return value
    raise TypeError(f"{name}(): argument '{argument}' must be Number, not {type_name(value)}")


def _full_array(backend, shape: tuple[int, ...], value, kind):
    return backend.xp.full(shape, cast_array(numpy.asarray(value), kind)[()], dtype=kind)


@function()
def full(
    size,
    fill_value,
    *,
    out=None,
    dtype=None,
    layout=None,
    device=None,
    pin_memory: bool = False,
    requires_grad: bool = False,
) -> Tensor:
    """A new tensor of a shape filled with one number, whose dtype it takes."""
    if out is not None:
        return made_into("full", out, dtype, device, partial(full, size, fill_value))
    value = number_of("full", "fill_value", fill_value)
    dtype = dtype_of("full", dtype, _number_dtype(value))
    check_overflow(value, dtype)
    kind = dtype.np
    if not isinstance(size, (tuple, list)):
        raise wrong_type("full", "size", "tuple of ints", size)
    shape = shape_of("full", (size,))
    return make(lambda b: _full_array(b, shape, value, kind), device, requires_grad)


@function()
def empty_strided(
    size: Sequence[int],
    stride: Sequence[int],
    *,
    dtype=None,
    device=None,
    requires_grad: bool = False,
) -> Tensor:
    """A new tensor with given strides (in elements) and whatever was in memory."""
    shape = shape_of("empty_strided", (tuple(size),))
    if len(shape) != len(stride):
        raise RuntimeError(
            f"mismatch in length of strides and shape: {list(stride)} and {list(shape)}"
        )
    kind = dtype_of("empty_strided", dtype).np
    needed = 1 + sum((n - 1) * s for n, s in zip(shape, stride, strict=True))
    needed = 0 if 0 in shape else needed
    strides = tuple(s * kind.itemsize for s in stride)
    return make(
        lambda b: b.as_strided(b.xp.empty((needed,), dtype=kind), shape, strides),
        device,
        requires_grad,
    )


# Like another -----------------------------------------------------------------------------------


def like(
    input: Tensor,
    name: str,
    build: Callable[[Any, Any, Any], Any],
    dtype,
    device,
    requires_grad: bool,
) -> Tensor:
    """A leaf of the same shape, dtype, layout and device, unless told otherwise.

    build: `(backend, prototype array, array dtype) -> array`.
    """
    if not isinstance(input, Tensor):
        raise TypeError(
            f"{name}(): argument 'input' (position 1) must be Tensor, not {type_name(input)}"
        )
    array = all_values(input)
    kind = array.dtype if dtype is None else dtype_of(name, dtype).np
    if type(array) is Coo:
        if name not in ("zeros_like", "empty_like"):
            raise array.unsupported()
        return tensor_of(array.nothing(kind))._require_grad(requires_grad)
    if device is None:
        made = build(backends.backend_of(array), array, kind)
    else:
        where = Device(device)
        backend = backends.backend_for(where)
        with backend.on(where.index):
            made = build(backend, _shaped_as(array, backend), kind)
    if not isinstance(input, Wrapper):
        return leaf(made, requires_grad)
    result: Tensor = levelled_like(input, made)
    return result._require_grad(True) if requires_grad else result


def _shaped_as(array, backend):
    """An array of this shape and order on the backend's current device, with any values."""
    if backends.backend_of(array) is backend:
        return array
    dims = sorted_dims(array.shape, array.strides)
    return arranged(backend.xp, array.shape, dims, array.dtype)


def _filled_like(name: str, value: int | None, text: str) -> Callable[..., Tensor]:
    def create(
        input: Tensor,
        *,
        dtype=None,
        layout=None,
        device=None,
        requires_grad: bool = False,
        memory_format=None,
        pin_memory: bool = False,
    ) -> Tensor:
        def build(b, a, kind):
            result = empty_as(b.xp, a, kind)
            if value is not None:
                result[...] = value
            return result

        return like(input, name, build, dtype, device, requires_grad)

    create.__name__ = create.__qualname__ = name
    create.__doc__ = text
    return function()(create)


zeros_like = _filled_like("zeros_like", 0, "Zeros with the shape, dtype and device of `input`.")
ones_like = _filled_like("ones_like", 1, "Ones with the shape, dtype and device of `input`.")
empty_like = _filled_like("empty_like", None, "Uninitialised, with the shape and dtype of `input`.")


@function()
def full_like(
    input: Tensor,
    fill_value,
    *,
    dtype=None,
    layout=None,
    device=None,
    requires_grad: bool = False,
    memory_format=None,
    pin_memory: bool = False,
) -> Tensor:
    """One number everywhere, with the shape, dtype and device of `input`."""
    value = number_of("full_like", "fill_value", fill_value)

    def build(b, a, kind):
        check_overflow(value, dtypes.of_numpy(kind))
        result = empty_as(b.xp, a, kind)
        result[...] = cast_array(numpy.asarray(value), kind)[()]
        return result

    return like(input, "full_like", build, dtype, device, requires_grad)


def _new(name: str, create: Callable[..., Tensor], text: str) -> None:
    def method(self: Tensor, *args, dtype=None, device=None, **named):
        result = create(
            *args,
            dtype=self.dtype if dtype is None else dtype,
            device=self.device if device is None else device,
            **named,
        )
        return with_batches(self, result) if isinstance(self, Wrapper) else result

    method.__name__ = method.__qualname__ = name
    method.__doc__ = text
    setattr(Tensor, name, method)


_new("new_zeros", zeros, "Zeros of a shape, in this tensor's dtype and on its device.")
_new("new_ones", ones, "Ones of a shape, in this tensor's dtype and on its device.")
_new("new_empty", empty, "Uninitialised, of a shape, in this tensor's dtype and on its device.")
_new("new_full", full, "One number in a shape, in this tensor's dtype and on its device.")
_new("new_empty_strided", empty_strided, "Uninitialised, with given strides, in this dtype.")


@method("new_tensor")
def _new_tensor(
    self: Tensor,
    data,
    *,
    dtype=None,
    device=None,
    requires_grad: bool = False,
    pin_memory: bool = False,
) -> Tensor:
    """A copy of `data` in this tensor's dtype and on its device."""
    where = self.device if device is None else device
    kind = self.dtype if dtype is None else dtype
    return leaf(moved(array_from("new_tensor", data, kind, copy=True), where), requires_grad)
