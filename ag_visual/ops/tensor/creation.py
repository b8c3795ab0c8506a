"""New tensors from data, shapes and ranges. None of these is differentiable; all may be leaves.

`shape_of`, `dtype_of` and `make` also serve random.py.
"""

from __future__ import annotations

import functools
import math
import operator
import warnings
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy

from ag_visual import devices, dtypes, promotion
from ag_visual.arrays import backend as backends
from ag_visual.arrays.kernels.fused import multiply_add
from ag_visual.arrays.kernels.order import empty_as
from ag_visual.core.tensor import Tensor, from_array, method
from ag_visual.devices import device as Device
from ag_visual.dispatch.arguments import checked, kind_named, plain_number, refused
from ag_visual.dispatch.memory_overlap import repeats
from ag_visual.dispatch.out_argument import made_into
from ag_visual.dispatch.overflow import refuse_overflow
from ag_visual.dispatch.table import function
from ag_visual.errors import type_name
from ag_visual.ops.tensor.cast import cast_array, dtype_of

NEEDS_FLOAT = "Only Tensors of floating point and complex dtype can require gradients"


# Arguments --------------------------------------------------------------------------------------


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
            told = "zeros: Dimension size must be non-negative.\n" if name == "zeros" else ""
            raise RuntimeError(
                f"{told}Trying to create tensor with negative dimension {n}: {list(shape)}"
            )
    return tuple(shape)


def make(
    build: Callable[[Any], Any],
    device: Any = None,
    requires_grad: bool = False,
) -> Tensor:
    """A leaf around the array that `build(backend)` makes on a device (the default one)."""
    if device is None and devices.default is None:
        return leaf(build(_cpu), requires_grad)
    where = Device(devices.default if device is None else device)
    backend = backends.backend_for(where)
    with backend.on(where.index):
        return leaf(build(backend), requires_grad)


_cpu = backends.backend_for("cpu")


def leaf(array: Any, requires_grad: bool) -> Tensor:
    """The array as a tensor, which may require grad if its dtype allows it."""
    if requires_grad and dtypes.of_array(array).category < 2:
        raise RuntimeError(
            f"{NEEDS_FLOAT}, but this tensor is {dtypes.of_array(array)}: pass a floating-point "
            "dtype"
        )
    return from_array(array, bool(requires_grad))  # type: ignore[no-any-return]


# From data --------------------------------------------------------------------------------------


def _leaf_types(data: Sequence[Any], found: set[type]) -> None:
    kinds = set(map(type, data))
    found |= kinds
    if list in kinds or tuple in kinds:
        for item in data:
            if isinstance(item, (list, tuple)):
                _leaf_types(item, found)


def _without_tensors(data: Any) -> Any:
    if isinstance(data, Tensor):
        if data.numel() != 1:
            raise ValueError(
                "only one element tensors can be converted to Python scalars; to join tensors of "
                f"shape {list(data.shape)} use stack or cat"
            )
        return backends.backend_of(data._array).to_numpy(data._array).reshape(())[()]
    if isinstance(data, (list, tuple)):
        return [_without_tensors(item) for item in data]
    return data


def _check_rectangle(data: Any, shape: tuple[int, ...], dim: int = 0) -> None:
    """Raise torch's error for the first place where nested sequences differ in length."""
    nested = isinstance(data, (list, tuple))
    if dim == len(shape):
        if nested:
            raise TypeError(f"'{type(data).__name__}' object cannot be interpreted as a number")
        return
    if not nested:
        raise TypeError("not a sequence")
    if len(data) != shape[dim]:
        raise ValueError(f"expected sequence of length {shape[dim]} at dim {dim} (got {len(data)})")
    for item in data:
        _check_rectangle(item, shape, dim + 1)


def _first_shape(data: Any) -> tuple[int, ...]:
    shape = []
    while isinstance(data, (list, tuple)):
        shape.append(len(data))
        if not data:
            break
        data = data[0]
    return tuple(shape)


def _first_leaf(data: Any) -> Any:
    while isinstance(data, (list, tuple)) and data:
        data = data[0]
    return data


def _sequence_array(data: Any) -> tuple[Any, dtypes.dtype]:
    """A NumPy array of nested sequences of numbers, and the dtype torch infers for it."""
    kinds: set[type] = set()
    if isinstance(data, (list, tuple)):
        _leaf_types(data, kinds)
    else:
        kinds.add(type(data))
    if any(issubclass(kind, Tensor) for kind in kinds):
        data = _without_tensors(data)
        kinds.clear()
        _leaf_types(data, kinds)
    for kind in kinds:
        if issubclass(kind, (str, bytes)):
            # torch looks at the first element for the number of dimensions.
            deep = _first_leaf(data) if kind is not type(data) else None
            if isinstance(deep, kind):
                raise ValueError(f"too many dimensions '{kind.__name__}'")
            raise TypeError(f"new(): invalid data type '{kind.__name__}'")
    try:
        array = numpy.array(data)
    except ValueError:
        _check_rectangle(data, _first_shape(data))
        raise
    except OverflowError:
        raise ValueError("Overflow when unpacking long long") from None
    if array.dtype == object or array.dtype == numpy.uint64:
        _check_rectangle(data, _first_shape(data))
        if any(issubclass(kind, int) for kind in kinds) and all(
            issubclass(kind, (int, float, list, tuple)) for kind in kinds
        ):
            raise ValueError("Overflow when unpacking long long")
        odd = next((k for k in kinds if not issubclass(k, (int, float, list, tuple))), type(data))
        raise RuntimeError(f"Could not infer dtype of {odd.__name__}")
    if array.size == 0:
        return array, dtypes.get_default_dtype()
    if any(issubclass(kind, numpy.ndarray) for kind in kinds):
        return array, dtypes.of_array(array)
    leaves = [kind for kind in kinds if not issubclass(kind, (list, tuple))]
    return array, functools.reduce(promotion.promote_types, map(_type_of, leaves))


def _type_of(kind: type) -> dtypes.dtype:
    """The dtype that a number of this type asks for."""
    if issubclass(kind, numpy.generic):
        return dtypes.of_numpy(numpy.dtype(kind))
    for python, found in ((bool, dtypes.bool), (int, dtypes.int64)):
        if issubclass(kind, python):
            return found
    if issubclass(kind, complex):
        return dtypes.get_default_complex_dtype()
    return dtypes.get_default_dtype()


def _fits(array: Any, target: dtypes.dtype) -> None:
    """Raise for Python numbers that `target` cannot hold."""
    if target.category != 1 or not array.size or array.dtype.kind not in "iuf":
        return
    limits = numpy.iinfo(target.np)
    if array.min() < limits.min or array.max() > limits.max:
        raise RuntimeError(f"value cannot be converted to type {target.name} without overflow")


def array_from(name: str, data: Any, dtype: Any, *, copy: bool) -> Any:
    """A host or device array of what a user gave: numbers, nested sequences, arrays, tensors."""
    target = None if dtype is None else dtype_of(name, dtype)
    if isinstance(data, Tensor):
        array = data._array
    elif isinstance(data, (numpy.ndarray, numpy.generic)):
        array = numpy.asarray(data)
        checked_numpy(array)
    elif any(isinstance(data, b.array_type) for b in backends.registered()):
        array = data
    elif hasattr(data, "__array__"):
        array = numpy.asarray(data)
        checked_numpy(array)
    else:
        if not isinstance(data, (list, tuple)) and isinstance(data, Sequence | range):
            data = data if isinstance(data, (str, bytes)) else list(data)
        array, inferred = _sequence_array(data)
        if target is not None:
            if array.dtype.kind == "c" and target.category < 3:
                raise TypeError("must be real number, not complex")
            _fits(array, target)
        return array.astype((target or inferred).np, copy=False)
    if target is not None and array.dtype != target.np:
        return cast_array(array, target.np)
    return array.copy(order="C") if copy else array


def checked_numpy(array: Any) -> Any:
    """The array, if tensors have its dtype."""
    try:
        dtypes.of_numpy(array.dtype)
    except TypeError as error:
        raise TypeError(
            f"can't convert np.ndarray of type numpy.{array.dtype.type.__name__}: {error}"
        ) from None
    return array


def moved(array: Any, device: Any, like: Any = None) -> Any:
    """The array on the wanted device; without one it stays."""
    if device is None:
        return array
    where = Device(device)
    target = backends.backend_for(where)
    here = backends.backend_of(array)
    if here is target and where.index in (None, here.device(array).index):
        return array
    with target.on(where.index):
        return target.from_numpy(here.to_numpy(array))


def _new_place(data: Any, device: Any) -> Any:
    """Where host data goes: to the given device, else to the default one; None: it stays."""
    if device is None and devices.default is not None and not backends.is_array(data):
        return devices.default
    return device


@function()
def tensor(
    data: Any,
    *,
    dtype: Any = None,
    device: Any = None,
    requires_grad: bool = False,
    pin_memory: bool = False,
) -> Tensor:
    """A new leaf with a copy of `data`: numbers, nested sequences, arrays.

    dtype: inferred (bool, int64, the default float or complex dtype; an array keeps its own).
    Raises ValueError for ragged sequences, TypeError or RuntimeError for what is no number.

    >>> import ag_visual as ag
    >>> ag.tensor([[1, 2], [3, 4]])
    tensor([[1, 2],
            [3, 4]])
    """
    if isinstance(data, Tensor):
        warnings.warn(
            "To copy construct from a tensor, it is recommended to use "
            "sourceTensor.detach().clone() or "
            "sourceTensor.detach().clone().requires_grad_(True), rather than "
            "torch.tensor(sourceTensor).",
            UserWarning,
            stacklevel=2,
        )
    device = _new_place(data, device)
    return leaf(moved(array_from("tensor", data, dtype, copy=True), device), requires_grad)


@function()
def as_tensor(data: Any, dtype: Any = None, device: Any = None) -> Tensor:
    """`data` as a tensor, without a copy (and in the graph) where dtype and device allow it."""
    if isinstance(data, Tensor):
        if dtype is None and device is None:
            return data
        return data.to(dtype=dtype, device=device)  # type: ignore[attr-defined, no-any-return]
    device = _new_place(data, device)
    return leaf(moved(array_from("as_tensor", data, dtype, copy=False), device), False)


@function()
def from_numpy(ndarray: Any) -> Tensor:
    """A tensor that shares memory with a NumPy array: writes to one are seen in the other."""
    if not isinstance(ndarray, numpy.ndarray):
        raise TypeError(f"expected np.ndarray (got {type(ndarray).__name__})")
    array = numpy.asarray(ndarray)
    checked_numpy(array)
    if any(stride < 0 for stride in array.strides):
        raise ValueError(
            "At least one stride in the given numpy array is negative, and tensors with negative "
            "strides are not currently supported. (You can probably work around this by making a "
            "copy of your array with array.copy().)"
        )
    if not array.flags.writeable:
        warnings.warn(
            "The given NumPy array is not writable, and PyTorch does not support non-writable "
            "tensors. Copy the array (array.copy()) before you write to the tensor.",
            UserWarning,
            stacklevel=2,
        )
    result: Tensor = from_array(array)
    if repeats(array):
        result._memory = array
    return result


@function()
def scalar_tensor(
    s: complex, *, dtype: Any = None, device: Any = None, requires_grad: bool = False
) -> Tensor:
    """A 0-d tensor of one number, in the default dtype."""
    return full((), s, dtype=dtype_of("scalar_tensor", dtype), device=device).requires_grad_(
        requires_grad
    )


# Filled -----------------------------------------------------------------------------------------


def _filled(name: str, method: str, text: str) -> Callable[..., Tensor]:
    def create(
        *size: Any,
        out: Any = None,
        dtype: Any = None,
        layout: Any = None,
        device: Any = None,
        pin_memory: bool = False,
        requires_grad: bool = False,
        **named: Any,
    ) -> Tensor:
        if out is not None:
            return made_into(name, out, dtype, device, partial(create, *size, **named))
        if "size" in named:
            size = (named.pop("size"),)
        elif not size:
            raise TypeError(f'{name}() missing 1 required positional arguments: "size"')
        named.pop("memory_format", None)
        if named:
            raise TypeError(f"{name}() got an unexpected keyword argument '{next(iter(named))}'")
        shape = shape_of(name, size)
        kind = dtype_of(name, dtype).np
        return make(lambda b: getattr(b.xp, method)(shape, dtype=kind), device, requires_grad)

    create.__name__ = create.__qualname__ = name
    create.__doc__ = text
    return function()(create)


zeros = _filled("zeros", "zeros", "Zeros in a new tensor of a shape: `zeros(2, 3)`.")
ones = _filled("ones", "ones", "Ones in a new tensor of a shape: `ones(2, 3)`.")
empty = _filled("empty", "empty", "A new tensor of a shape with whatever was in memory.")


def _number_dtype(value: Any) -> dtypes.dtype:
    if isinstance(value, (bool, numpy.bool_)):
        return dtypes.bool
    if isinstance(value, (int, numpy.integer)):
        return dtypes.int64
    return (
        dtypes.get_default_complex_dtype()
        if isinstance(value, (complex, numpy.complexfloating))
        else dtypes.get_default_dtype()
    )


def _number(name: str, argument: str, value: Any) -> Any:
    """A Python number, from a number or a 0-d tensor that requires no grad."""
    if isinstance(value, Tensor):
        return plain_number(name, argument, value)
    if isinstance(value, (bool, int, float, complex, numpy.number, numpy.bool_)):
        return value
    raise TypeError(f"{name}(): argument '{argument}' must be Number, not {type_name(value)}")


def _full_array(backend: Any, shape: tuple[int, ...], value: Any, kind: Any) -> Any:
    return backend.xp.full(shape, cast_array(numpy.asarray(value), kind)[()], dtype=kind)


@function()
def full(
    size: Any,
    fill_value: Any,
    *,
    out: Any = None,
    dtype: Any = None,
    layout: Any = None,
    device: Any = None,
    pin_memory: bool = False,
    requires_grad: bool = False,
) -> Tensor:
    """A new tensor of a shape filled with one number, whose dtype it takes."""
    if out is not None:
        return made_into("full", out, dtype, device, partial(full, size, fill_value))
    value = _number("full", "fill_value", fill_value)
    dtype = dtype_of("full", dtype, _number_dtype(value))
    refuse_overflow(value, dtype)
    kind = dtype.np
    if not isinstance(size, (tuple, list)):
        raise refused("full", "size", "tuple of ints", size)
    shape = shape_of("full", (size,))
    return make(lambda b: _full_array(b, shape, value, kind), device, requires_grad)


@function()
def empty_strided(
    size: Sequence[int],
    stride: Sequence[int],
    *,
    dtype: Any = None,
    device: Any = None,
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
    dtype: Any,
    device: Any,
    requires_grad: bool,
) -> Tensor:
    """A leaf of the same shape, dtype, layout and device, unless told otherwise.

    build: `(backend, prototype array, array dtype) -> array`.
    """
    if not isinstance(input, Tensor):
        raise TypeError(
            f"{name}(): argument 'input' (position 1) must be Tensor, not {type_name(input)}"
        )
    array = input._array
    kind = array.dtype if dtype is None else dtype_of(name, dtype).np
    if device is None:
        return leaf(build(backends.backend_of(array), array, kind), requires_grad)
    where = Device(device)
    backend = backends.backend_for(where)
    with backend.on(where.index):
        here = moved(array, where)
        return leaf(build(backend, here, kind), requires_grad)


def _filled_like(name: str, value: int | None, text: str) -> Callable[..., Tensor]:
    def create(
        input: Tensor,
        *,
        dtype: Any = None,
        layout: Any = None,
        device: Any = None,
        requires_grad: bool = False,
        memory_format: Any = None,
        pin_memory: bool = False,
    ) -> Tensor:
        def build(b: Any, a: Any, kind: Any) -> Any:
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
    fill_value: Any,
    *,
    dtype: Any = None,
    layout: Any = None,
    device: Any = None,
    requires_grad: bool = False,
    memory_format: Any = None,
    pin_memory: bool = False,
) -> Tensor:
    """One number everywhere, with the shape, dtype and device of `input`."""
    value = _number("full_like", "fill_value", fill_value)

    def build(b: Any, a: Any, kind: Any) -> Any:
        refuse_overflow(value, dtypes.of_numpy(kind))
        result = empty_as(b.xp, a, kind)
        result[...] = cast_array(numpy.asarray(value), kind)[()]
        return result

    return like(input, "full_like", build, dtype, device, requires_grad)


def _new(name: str, create: Callable[..., Tensor], text: str) -> None:
    def method(
        self: Tensor, *args: Any, dtype: Any = None, device: Any = None, **named: Any
    ) -> Any:
        return create(
            *args,
            dtype=self.dtype if dtype is None else dtype,
            device=self.device if device is None else device,
            **named,
        )

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
    data: Any,
    *,
    dtype: Any = None,
    device: Any = None,
    requires_grad: bool = False,
    pin_memory: bool = False,
) -> Tensor:
    """A copy of `data` in this tensor's dtype and on its device."""
    where = self.device if device is None else device
    kind = self.dtype if dtype is None else dtype
    return leaf(moved(array_from("new_tensor", data, kind, copy=True), where), requires_grad)


# Ranges -----------------------------------------------------------------------------------------


@function()
def arange(
    start: Any = None,
    end: Any = None,
    step: Any = 1,
    *,
    out: Any = None,
    dtype: Any = None,
    layout: Any = None,
    device: Any = None,
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
        _number("arange", n, v) for n, v in (("start", start), ("end", end), ("step", step))
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

    def build(b: Any) -> Any:
        steps = b.xp.arange(int(count))
        if whole:
            return (start + steps * step).astype(kind)
        return (start + steps.astype(numpy.float64) * step).astype(kind)

    return make(build, device, requires_grad)


def evenly(xp: Any, start: Any, end: Any, steps: int, kind: Any) -> Any:
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


def _range_dtype(name: str, dtype: Any, *ends: Any) -> Any:
    complex_ends = any(isinstance(v, (complex, numpy.complexfloating)) for v in ends)
    return dtype_of(name, dtype, dtypes.get_default_complex_dtype() if complex_ends else None).np


def _ends(name: str, start: Any, end: Any, steps: Any) -> tuple[Any, Any, int]:
    """The ends of a range as numbers (no gradient flows to them), and the number of its steps."""
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
        _number(name, what, each.detach() if isinstance(each, Tensor) else each)
        for what, each in (("start", start), ("end", end))
    )
    return start, end, steps


def _whole(kind: Any, start: Any, end: Any) -> tuple[Any, Any]:
    """The ends as a range of integers has them: without their fractions."""
    return (int(start), int(end)) if kind.kind in "iub" else (start, end)


@function()
def linspace(
    start: Any,
    end: Any,
    steps: int,
    *,
    out: Any = None,
    dtype: Any = None,
    layout: Any = None,
    device: Any = None,
    requires_grad: bool = False,
) -> Tensor:
    """`steps` numbers from start to end, both included, evenly spaced."""
    if out is not None:
        return made_into("linspace", out, dtype, device, partial(linspace, start, end, steps))
    start, end, steps = _ends("linspace", start, end, steps)
    kind = _range_dtype("linspace", dtype, start, end)
    start, end = _whole(kind, start, end)
    return make(
        lambda b: cast_array(evenly(b.xp, start, end, steps, kind), kind), device, requires_grad
    )


@function()
def logspace(
    start: Any,
    end: Any,
    steps: int,
    base: float = 10.0,
    *,
    out: Any = None,
    dtype: Any = None,
    layout: Any = None,
    device: Any = None,
    requires_grad: bool = False,
) -> Tensor:
    """base**start ... base**end: `steps` numbers evenly spaced on a logarithmic scale."""
    if out is not None:
        return made_into("logspace", out, dtype, device, partial(logspace, start, end, steps, base))
    start, end, steps = _ends("logspace", start, end, steps)
    kind = _range_dtype("logspace", dtype, start, end)
    start, end = _whole(kind, start, end)

    def build(b: Any) -> Any:
        line = evenly(b.xp, start, end, steps, numpy.dtype(numpy.float64))
        return cast_array(b.xp.asarray(base, dtype=line.dtype) ** line, kind)

    return make(build, device, requires_grad)


@function()
def eye(
    n: int,
    m: int | None = None,
    *,
    out: Any = None,
    dtype: Any = None,
    layout: Any = None,
    device: Any = None,
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
    def create(
        row: int, col: int, offset: int = 0, *, dtype: Any = None, device: Any = None
    ) -> Tensor:
        kind = dtype_of(name, dtype, dtypes.int64).np
        found = numpy.stack(getattr(numpy, side)(row, offset, col)).astype(kind)
        return make(lambda b: b.from_numpy(found), device)

    create.__name__ = create.__qualname__ = name
    create.__doc__ = f"Row and column numbers of a matrix's {name[:4]} part, row by row."
    return function()(create)


tril_indices = _triangle_indices("tril_indices", "tril_indices")
triu_indices = _triangle_indices("triu_indices", "triu_indices")
