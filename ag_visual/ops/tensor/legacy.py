"""What programs of torch 0.3 and 0.4 call on tensors and torch still answers.

`x.new(...)`, `x.volatile`, elementwise Python functions, shared memory.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import numpy

from ag_visual.arrays import shared
from ag_visual.arrays.backend import backend_of
from ag_visual.core.source import warn
from ag_visual.core.tensor import Tensor, before_write, wrote
from ag_visual.dispatch.arguments import NUMBERS, wrong_type
from ag_visual.ops.tensor.creation import empty
from ag_visual.ops.tensor.from_data import tensor
from ag_visual.ops.view.reshape import expand
from ag_visual.sizes import Size


def _new(self: Tensor, *args, device=None) -> Tensor:
    """A tensor in this one's dtype: of data (a sequence), or uninitialised in sizes (ints)."""
    where = self.device if device is None else device
    data = args[0] if len(args) == 1 else args or 0
    if isinstance(data, (Size, int, numpy.integer)):
        return empty(data, dtype=self.dtype, device=where)
    if len(args) > 1:
        return empty(*args, dtype=self.dtype, device=where)
    if isinstance(data, Tensor):
        if data.dtype is not self.dtype:
            raise TypeError(f"new(): expected a tensor of {self.dtype}, but got {data.dtype}")
        return data.detach()
    if not hasattr(data, "__len__") or isinstance(data, str):
        raise TypeError(f"new(): data must be a sequence (got {type(data).__name__})")
    return tensor(data, dtype=self.dtype, device=where)


def _volatile(self: Tensor) -> bool:
    """Always False, with a warning: `no_grad` has taken its place."""
    warn("volatile was removed (Variable.volatile is always False)")
    return False


def _called(self: Tensor, name: str, function: Callable[..., Any], *others: Tensor) -> Tensor:
    """Write `function` of each element, and of those of others, over it; no gradient flows."""
    if self.requires_grad:
        raise RuntimeError(
            f"Can't call {name}() on Variable that requires grad. Use var.detach().{name}() "
            "instead."
        )
    if not self.is_cpu:
        raise TypeError(f"{name} is only implemented on CPU tensors")
    if not callable(function):
        raise TypeError(f"{name}(): '{type(function).__name__}' object is not callable")
    before_write(self)
    array = self._array
    columns = [each._array.reshape(-1).tolist() for each in (self, *others)]
    values = [function(*each) for each in zip(*columns, strict=True)]
    for value in values:
        if not isinstance(value, (*NUMBERS, Tensor)):
            raise TypeError(f"must be real number, not {type(value).__name__}")
    found = numpy.array(values).astype(array.dtype, casting="unsafe")
    found = found.reshape(array.shape)
    wrote(self, name)
    array[...] = found
    return self


def _apply_(self: Tensor, callable: Callable[[Any], Any]) -> Tensor:
    """Each element replaced by a Python function of it. Slow: for small CPU tensors."""
    return _called(self, "apply_", callable)


def _map_(self: Tensor, tensor: Tensor, callable: Callable[[Any, Any], Any]) -> Tensor:
    """Each element replaced by a Python function of it and of its partner in `tensor`."""
    if not isinstance(tensor, Tensor):
        raise wrong_type("map_", "other", "Tensor", tensor)
    if tensor.dtype is not self.dtype:
        raise TypeError(f"map_: expected {self.type()} for 'other' (got {tensor.type()})")
    return _called(self, "map_", callable, expand.call(tensor.detach(), tuple(self.shape)))


def _map2_(self: Tensor, x: Tensor, y: Tensor, callable: Callable[[Any, Any, Any], Any]) -> Tensor:
    """Each element replaced by a Python function of it and of its partners in `x` and `y`."""
    others = []
    for name, other in (("x", x), ("y", y)):
        if not isinstance(other, Tensor):
            raise wrong_type("map2_", name, "Tensor", other)
        if other.dtype is not self.dtype:
            raise TypeError(f"map2_: expected {self.type()} for '{name}' (got {other.type()})")
        others.append(expand.call(other.detach(), tuple(self.shape)))
    return _called(self, "map2_", callable, *others)


def _is_shared(self: Tensor) -> bool:
    """Whether other processes may share the memory: that of CUDA always, as in torch."""
    array = self._array
    return backend_of(array).device_type != "cpu" or shared.memory_of(array) is not None


def _share_memory_(self: Tensor) -> Tensor:
    """Move the values to memory that processes share to which the tensor is sent.

    Raises RuntimeError for a view, whose base would stay where it is, and where the system has no
    such memory; OSError where it has no space left.
    """
    if self.is_shared() or self.device.type != "cpu":
        return self
    if not shared.POSSIBLE:
        raise RuntimeError("share_memory_: this system cannot send memory to another process")
    if self._is_view() or self._array.base is not None:
        raise RuntimeError(
            f"share_memory_: this tensor of shape {list(self.shape)} is a part of other memory, "
            "which would not be shared. Call share_memory_() on the tensor that it was made from, "
            "or on a clone()."
        )
    if _users(self) > _ALONE:
        warn(
            f"share_memory_: other tensors use the memory of this one of shape {list(self.shape)}, "
            "too (views, results of detach(), what a graph saved). They keep the memory as it is "
            "and see nothing of what is written from now on: make them afterwards."
        )
    self._exchange(shared.copied(self._array))
    return self


def _users(tensor: Tensor) -> int:
    return sys.getrefcount(tensor._array)


_ALONE = _users(tensor([0.0]))


for _method in (_new, _apply_, _map_, _map2_, _is_shared, _share_memory_):
    _method.__name__ = _method.__qualname__ = _method.__name__[1:]
    setattr(Tensor, _method.__name__, _method)
Tensor.volatile = property(_volatile)  # type: ignore[attr-defined]
