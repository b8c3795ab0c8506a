"""Tensors of given data: tensor, as_tensor, from_numpy."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import numpy

from ag_visual import devices, dtypes, promotion
from ag_visual.arrays import backend as backends
from ag_visual.core.level import Outline
from ag_visual.core.source import warn
from ag_visual.core.tensor import Tensor, from_array
from ag_visual.devices import device as Device
from ag_visual.dispatch.memory_overlap import repeats
from ag_visual.dispatch.table import function
from ag_visual.ops.tensor.cast import cast_array, dtype_of
from ag_visual.ops.tensor.make import leaf


def _leaf_types(data: Sequence[Any], found: set[type]) -> None:
    kinds = set(map(type, data))
    found |= kinds
    if list in kinds or tuple in kinds:
        for item in data:
            if isinstance(item, (list, tuple)):
                _leaf_types(item, found)


def _without_tensors(data):
    if isinstance(data, Tensor):
        if data.numel() != 1:
            raise ValueError(
                "only one element tensors can be converted to Python scalars; to join tensors of "
                f"shape {list(data.shape)} use stack or cat"
            )
        array = data._array
        if type(array) is Outline:
            array.item()  # refused: a slice has no value
        return backends.backend_of(array).to_numpy(array).reshape(())[()]
    if isinstance(data, (list, tuple)):
        return [_without_tensors(item) for item in data]
    return data


def _check_rectangle(data, shape: tuple[int, ...], dim: int = 0) -> None:
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


def _first_shape(data) -> tuple[int, ...]:
    shape = []
    while isinstance(data, (list, tuple)):
        shape.append(len(data))
        if not data:
            break
        data = data[0]
    return tuple(shape)


def _first_leaf(data):
    while isinstance(data, (list, tuple)) and data:
        data = data[0]
    return data


def _sequence_array(data) -> tuple[Any, dtypes.dtype]:
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


def _fits(array, target: dtypes.dtype) -> None:
    """Raise for Python numbers that `target` cannot hold."""
    if target.category != 1 or not array.size or array.dtype.kind not in "iuf":
        return
    limits = numpy.iinfo(target.np)
    if array.min() < limits.min or array.max() > limits.max:
        raise RuntimeError(f"value cannot be converted to type {target.name} without overflow")


def array_from(name: str, data, dtype, *, copy: bool):
    """A host or device array of what a user gave: numbers, nested sequences, arrays, tensors."""
    target = None if dtype is None else dtype_of(name, dtype)
    if isinstance(data, Tensor):
        array = data._array
        if type(array) is Outline:
            raise _no_copy(name)
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


def _no_copy(name: str) -> RuntimeError:
    return RuntimeError(
        "Can't detach views in-place. Use detach() instead. Inside of vmap a tensor is a view of "
        f"all slices, which torch.{name} cannot copy: write x.clone(), or x.detach()."
    )


def checked_numpy(array):
    """The array, if tensors have its dtype."""
    try:
        dtypes.of_numpy(array.dtype)
    except TypeError as error:
        raise TypeError(
            f"can't convert np.ndarray of type numpy.{array.dtype.type.__name__}: {error}"
        ) from None
    return array


def moved(array, device, like=None):
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


def _new_place(data, device):
    """Where host data goes: to the given device, else to the default one; None: it stays."""
    if device is None and devices.default is not None and not backends.is_array(data):
        return devices.default
    return device


@function()
def tensor(
    data, *, dtype=None, device=None, requires_grad: bool = False, pin_memory: bool = False
) -> Tensor:
    """A new leaf with a copy of `data`: numbers, nested sequences, arrays.

    dtype: inferred (bool, int64, the default float or complex dtype; an array keeps its own).
    Raises ValueError for ragged sequences, TypeError or RuntimeError for other than numbers.

    >>> import ag_visual as ag
    >>> ag.tensor([[1, 2], [3, 4]])
    tensor([[1, 2],
            [3, 4]])
    """
    if isinstance(data, Tensor):
        warn(
            "To copy construct from a tensor, it is recommended to use "
            "sourceTensor.detach().clone() or "
            "sourceTensor.detach().clone().requires_grad_(True), rather than "
            "torch.tensor(sourceTensor)."
        )
    device = _new_place(data, device)
    return leaf(moved(array_from("tensor", data, dtype, copy=True), device), requires_grad)


@function()
def as_tensor(data, dtype=None, device=None) -> Tensor:
    """`data` as a tensor, without a copy (and in the graph) where dtype and device allow it."""
    if isinstance(data, Tensor):
        if dtype is None and device is None:
            return data
        return data.to(dtype=dtype, device=device)  # type: ignore[attr-defined, no-any-return]
    device = _new_place(data, device)
    return leaf(moved(array_from("as_tensor", data, dtype, copy=False), device), False)


@function()
def from_numpy(ndarray) -> Tensor:
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
        warn(
            "The given NumPy array is not writable, and PyTorch does not support non-writable "
            "tensors. Copy the array (array.copy()) before you write to the tensor."
        )
    result: Tensor = from_array(array)
    if repeats(array):
        result._memory = array
    return result
