"""torch's tensors as arrays, without a copy where memory and layout allow; and storages' numbers.

Called where torch's function modes are off.
"""

from __future__ import annotations

import contextlib
import weakref
from collections import deque
from collections.abc import Callable
from functools import partial
from math import inf as INFINITY, prod
from typing import Any, Final

import ml_dtypes
import numpy as np
import torch
from torch import Tensor
from torch.autograd import forward_ad

from ag_visual.arrays.coo import Coo
from ag_visual.bridge.grad_mode import without_grad
from ag_visual.core.storage import uids
from ag_visual.engine.norms import norm2, squares
from ag_visual.events.log import SMALL, TINY

MOST_WRITES: Final = 64
"""Writes of one storage that are remembered, the last ones."""


class _Dtypes(dict[torch.dtype, Any]):
    """torch's dtype -> NumPy's; of what NumPy has no dtype for, bytes of that size."""

    def __missing__(self, dtype: torch.dtype) -> Any:
        name = str(dtype).removeprefix("torch.")
        found = getattr(ml_dtypes, name, None) or getattr(np, name, None)
        if name == "bool":
            found = np.bool_
        try:
            self[dtype] = kind = np.dtype(found or f"V{dtype.itemsize}")
        except TypeError:
            self[dtype] = kind = np.dtype("V1")
        return kind


dtypes = _Dtypes()


def lengths(shape: Any) -> tuple[int, ...]:
    """A shape whose lengths are all numbers: -1 for one that is none (ragged, symbolic)."""
    return tuple([length if type(length) is int else -1 for length in shape])


def shape_of(tensor: torch.Tensor) -> tuple[int, ...]:
    """The shape of any tensor, -1 for a length that it does not have: of nested ones."""
    try:
        return lengths(tensor.shape)
    except RuntimeError:
        return tuple(map(partial(_length, tensor), range(tensor.dim())))


def _length(tensor: torch.Tensor, dim: int) -> int:
    try:
        return int(tensor.size(dim))
    except RuntimeError:
        return -1


def array_of(tensor: torch.Tensor) -> Any:
    """The values of a tensor of any layout and device. Raises what torch raises for it.

    TypeError for one that computes by itself.
    """
    return unseen(_array_of, tensor)


def computes_itself(tensor: torch.Tensor) -> bool:
    """Whether its class has a `__torch_dispatch__`: code of others, and perhaps of all processes,
    that is to run when the program computes and not when it is looked at.
    """
    return type(tensor).__torch_dispatch__ is not _no_dispatch


def array_or_none(tensor: torch.Tensor | None) -> Any:
    """The same; None for no tensor, and for one that gives nobody its values."""
    try:
        return None if tensor is None else array_of(tensor)
    except (TypeError, RuntimeError):
        return None


def unseen(function: Callable[[Any], Any], tensor: Any) -> Any:
    """Call a function with a tensor, so that dispatch modes of the program's see nothing of it."""
    if torch._C._len_torch_dispatch_stack() and type(tensor) in PLAIN_TENSORS:
        with torch._C._DisableTorchDispatch():
            return function(tensor)
    return function(tensor)


def unseen_by_modes() -> contextlib.AbstractContextManager[Any]:
    """A block of which dispatch modes of the program's see nothing."""
    if torch._C._len_torch_dispatch_stack():
        return torch._C._DisableTorchDispatch()  # type: ignore[no-any-return]
    return contextlib.nullcontext()


_no_dispatch: Final[Any] = Tensor.__torch_dispatch__
PLAIN_TENSORS: Final = {Tensor, torch.nn.Parameter}
"""Others may have no memory of their own: without their own dispatch they must not be read."""


def _array_of(tensor: torch.Tensor) -> Any:
    if computes_itself(tensor):
        raise TypeError(f"{type(tensor).__name__} computes its values itself")
    tensor = tensor.detach()
    if tensor.layout is torch.sparse_coo:
        tensor = tensor.coalesce()
        indices, values = array_of(tensor.indices()), array_of(tensor.values())
        return Coo(indices, values, tuple(tensor.shape), True)
    if tensor.layout is not torch.strided:
        tensor = tensor.to_dense()
    if tensor.device.type != "cpu":
        tensor = tensor.cpu()
    tensor = tensor.resolve_conj().resolve_neg()
    kind = dtypes[tensor.dtype]
    if kind.type.__module__ == "ml_dtypes" or kind.kind == "V":
        width = {1: torch.uint8, 2: torch.int16}[tensor.element_size()]
        return tensor.contiguous().view(width).numpy().view(kind)
    return tensor.numpy()


def kept_array(tensor: torch.Tensor) -> Any:
    """The same, sooner for what most tensors are."""
    try:
        return unseen(shared_array, tensor)
    except (TypeError, RuntimeError):  # another device, dtype or layout; conjugated
        return array_of(tensor)


def shared_array(tensor: torch.Tensor) -> Any:
    """The memory of a tensor of the host's, as it lies. Raises where it has none."""
    if type(tensor) is not Tensor and computes_itself(tensor):
        return _array_of(tensor)  # it says why not
    return tensor.detach().numpy()


def tangent_of(tensor: Any) -> Any:
    """The array of the tangent that a tensor has at the open level of forward mode, or None."""
    if tensor is None or forward_ad._current_level < 0:
        return None
    try:
        return without_grad(_tangent_now, tensor)
    except RuntimeError:  # of functorch's levels; without values
        return None


def _tangent_now(tensor: Any) -> Any:
    tangent = torch._VF._unpack_dual(tensor, level=forward_ad._current_level)[1]
    return None if tangent is None else array_of(tangent)


def tensor_of(array: Any, like: Any) -> torch.Tensor:
    """An array that an observer made in the place of a gradient, as a tensor such as that was.

    like: that gradient, or what else has its dtype and device.
    """
    if type(array) is Coo:
        indices, values = torch.from_numpy(array.indices), torch.from_numpy(array.values)
        found = torch.sparse_coo_tensor(indices, values, array.shape)
    elif array.dtype.type.__module__ == "ml_dtypes":
        found = torch.from_numpy(np.asarray(array, np.float32)).to(like.dtype)
    else:
        found = torch.from_numpy(np.array(array))
    return found.to(device=like.device, dtype=like.dtype)


Figures = tuple[Any, Any]
"""What a run records of gradients: the numbers of a small one, nested as it is or an array, and
torch's dtype; else |g|^2 and None."""

_numpy: Final[Any] = Tensor.numpy

UNRECORDED: Final[Figures] = (None, None)
_NONE: Final[Figures] = (-1.0, None)

LISTED: Final = 24
"""Elements up to which a list of the numbers is made faster than an array that shares memory."""

_summed: Final = {torch.float32, torch.float64}
_listed: Final = {torch.float32, torch.float64, torch.float16, torch.complex64, torch.complex128}


def listed_as(shape: tuple[int, ...], dtype: Any) -> Any:
    """The dtype, where the numbers of such a gradient are recorded by a list; else None."""
    return dtype if dtype in _listed and 0 < prod(shape) <= LISTED else None


def figure(gradient: Any) -> Figures:
    """The figures of a gradient that arrives at a node."""
    try:
        if type(gradient) is Tensor:
            dtype, count = gradient.dtype, gradient.numel()
            if count > SMALL:  # as the end of this says, with calls less
                if dtype in _summed and not torch._C._len_torch_dispatch_stack():
                    flat = _numpy(gradient).ravel("K")
                    total = float(flat.dot(flat))
                    if TINY < total < INFINITY:
                        return total, None
            elif 0 < count <= LISTED and dtype in _listed:
                return gradient.tolist(), dtype
            array = array_of(gradient) if gradient.requires_grad else unseen(_numpy, gradient)
        elif gradient is None:
            return _NONE
        else:
            array = array_of(gradient)
    except (TypeError, RuntimeError):  # another device, dtype or layout; functorch's levels
        return _elsewhere(gradient)
    if type(array) is not np.ndarray:
        return norm2(array), None
    if 0 < array.nbytes <= SMALL and array.dtype.kind in "fci":
        return array.copy(), gradient.dtype
    return squares(array), None


def figures(grads: Any) -> Figures:
    """Those of all that arrive at a node: of several, the squares of all numbers."""
    if len(grads) == 1:
        return figure(grads[0])
    total = -1.0
    for gradient in grads:
        if gradient is not None:
            value, dtype = figure(gradient)
            squares = value if dtype is None else norm2(np.asarray(value, dtypes[dtype]))
            total = max(total, 0.0) + max(squares, 0.0) if squares == squares else squares
    return total, None


def _elsewhere(gradient: torch.Tensor) -> Figures:
    """The same where its memory is not the host's, or it hides its values."""
    if computes_itself(gradient):
        return _NONE
    try:
        norm = unseen(_norm, gradient)
    except (TypeError, RuntimeError):
        return _NONE
    return norm * norm, None


def _norm(gradient: torch.Tensor) -> float:
    return float(torch.linalg.vector_norm(gradient.detach().double()))


class Memory:
    """What is known of one storage: its number, and who wrote to it when.

    aliased: it is known through `.data`, whose writes no version counter of others sees.
    """

    __slots__ = ("__weakref__", "aliased", "ref", "number", "written", "writes")

    def __init__(self, ref: weakref.ref[Any]) -> None:
        self.ref = ref
        self.number = next(uids)
        self.aliased = False
        self.written = 0
        self.writes: deque[Any] | None = None

    @property
    def lives(self) -> bool:
        """Whether the storage does."""
        return self.ref() is not None


FEWEST: Final = 256
"""Storages of which something is remembered before those that are gone are left out."""


class _Memories(dict[int, Memory]):
    """By the `id` of a storage: one object of Python's as long as the storage lives.

    Nothing is called as one dies: its last owner is most often torch's engine amid a backward.
    """

    def __init__(self) -> None:
        super().__init__()
        self.most = FEWEST

    def leave_out_dead(self) -> None:
        """Forget those that are gone."""
        for key, memory in list(self.items()):
            if not memory.lives and self.get(key) is memory:
                del self[key]
        self.most = 2 * len(self) + FEWEST


_memories: Final = _Memories()


def memory_of(tensor: torch.Tensor) -> Memory | None:
    """The memory of a tensor; None where it has none of its own (sparse, functorch's levels)."""
    try:
        storage = tensor.untyped_storage()
    except (NotImplementedError, RuntimeError):
        return None
    key = id(storage)
    found = _memories.get(key)
    if found is None or found.ref() is not storage:
        if len(_memories) > _memories.most:
            _memories.leave_out_dead()
        found = _memories[key] = Memory(weakref.ref(storage))
    return found


def forget_all() -> None:
    """Nothing is known of any storage any more."""
    _memories.clear()
    _memories.most = FEWEST
