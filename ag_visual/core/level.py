"""Levels of function transforms, and the tensors that belong to one: `Lifted` and `Batched`.

A transform opens a level, wraps its inputs, calls the function and unwraps what comes out. Which
level handles an op is said by its arguments: the innermost among them (`dispatch.levels`). What
values cannot say is ambient, in `modes.state.levels`: to which level a new tensor belongs, whether
random ops may be called, which tensors are captured.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NoReturn

import numpy

from ag_visual.arrays import backend as backends
from ag_visual.core import dual, modes, saved, source
from ag_visual.core.node import Edge
from ag_visual.core.storage import Storage
from ag_visual.core.tensor import Tensor, check_inplace, differentiating_level, from_array
from ag_visual.devices import device as Device
from ag_visual.events import instrument, ranges
from ag_visual.events.live import whole


class Level:
    """One open transform.

    kind: 'grad', 'jvp' or 'vmap'. grad, inference: the modes outside of it. size, randomness: of a
    vmap. old_form: whether custom Functions whose forward takes ctx may be called at it.
    """

    __slots__ = (
        "__weakref__",
        "above",
        "below",
        "depth",
        "differentiating",
        "fast",
        "grad",
        "inference",
        "kind",
        "old_form",
        "open",
        "outer",
        "call_site",
        "randomness",
        "recorded",
        "size",
    )

    def __init__(self, kind: str, size: int = 0, randomness: str = "error") -> None:
        modes.count_level(1)
        self.open = True
        here = modes.state.__dict__
        outer = here["levels"]
        self.kind = kind
        self.old_form = False
        self.depth = len(outer) + 1
        self.size = size
        self.randomness = randomness
        # A vmap leaves grad mode alone: below it, it is what it is in the function.
        self.grad = True if kind == "vmap" else here["grad"]
        self.inference = here["inference"]
        self.call_site = source.here()
        self.below, self.above = outer, (*outer, self)
        self.outer = outer[-1].differentiating if outer else None
        self.differentiating = self.outer if kind == "vmap" else self
        # What built code asks of the world below: None where levels are left.
        self.fast = None if outer else True
        # Whether what is outside of all levels is recorded there, if it is inside of this one.
        self.recorded = (not outer or outer[-1].recorded) and self.grad and not self.inference

    def __del__(self) -> None:
        # Its tensors hold it: none is left.
        if hasattr(self, "open"):
            modes.count_level(-1)

    def run(self, function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        """`function(*args, **kwargs)` inside of this level, which is closed afterwards."""
        grad = modes.state.grad if self.kind == "vmap" else True
        depth = ranges.depth()
        try:
            if instrument.sink is not None:
                ranges.enter_level(self.kind, self.depth, self.size, self.call_site)
            return modes.at_levels(self.above, grad, False, False, function, *args, **kwargs)
        finally:
            self.open = False
            # They name the level itself.
            self.above, self.differentiating = (), None
            ranges.leave_to(depth)

    def whole(self, tensor: Tensor) -> Tensor:
        """What comes out of a vmap: all slices, the batch in front."""
        if isinstance(tensor, Batched) and tensor.level is self:
            return tensor.value
        tensor = settle(tensor)
        expanded: Tensor = tensor.expand((self.size, *tensor.shape))
        return expanded

    def is_here(self) -> bool:
        """Whether it is open in this thread."""
        levels = modes.state.levels
        return self.depth <= len(levels) and levels[self.depth - 1] is self


class Tape(Level):
    """A level that keeps the ops on its tensors, for who runs them again on others.

    steps: (op, its parameters by name, its results); None where something was written, which no
    run of the steps repeats. constants: tensors that were made inside.
    """

    __slots__ = ("constants", "steps")

    steps: list[tuple[Any, dict[str, Any], list[Lifted]]] | None

    def __init__(self) -> None:
        super().__init__("tape")
        self.steps = []
        self.constants: list[Lifted] = []


class Wrapper(Tensor):
    """A tensor at a level: what it holds (`value`) is one of the levels below, or of none."""

    __slots__ = ("level", "value")

    level: Level
    value: Tensor

    _plain = None  # never on a fast path

    @property
    def _store(self) -> Storage:
        return self.value._store  # one memory, one version counter

    @_store.setter
    def _store(self, storage: Storage) -> None:
        self.value._store = storage

    @property
    def _memory(self) -> Any:
        return self.value._memory

    @property
    def device(self) -> Device:
        return self.value.device

    def is_inference(self) -> bool:
        return False

    def detach(self) -> Tensor:
        result: Tensor = wrap(type(self), self.level, self.value.detach())
        return result

    def _settled(self) -> Tensor:
        """What is left of it where levels of grad and jvp are closed."""
        tensor: Any = self
        while isinstance(tensor, Lifted) and not tensor.level.open:
            tensor = tensor.value
        return tensor  # type: ignore[no-any-return]

    def turn(self, op: Callable[..., Tensor], name: str, args: tuple[Any, ...]) -> Tensor:
        """What an op that changes geometry in place (`t_`) makes of it: the view of what it was."""
        if modes.grad_enabled() and self._rg:
            check_inplace(self, name)
        if isinstance(self.level, Tape):
            self.level.steps = None
        before = wrap(type(self), self.level, self.value)
        before._edge, before._rg, before._view = self._edge, self._rg, self._view
        known = getattr(self, "_dual", None)
        if known is not None:
            before._dual = known
        after: Any = op(before, *args)
        self.value, self._edge, self._rg = after.value, after._edge, after._rg
        self._view = after._view
        if known is not None and known[0].open:
            known[0].give(self, after._dual[1])
        return self

    def _take_data(self, value: Tensor) -> None:
        where = "under vmap" if type(self) is Batched else "inside functorch"
        raise RuntimeError(f"mutating directly with `.data` {where} transform is not allowed.")

    def no_storage(self) -> NotImplementedError:
        """Of what asks for the memory of a tensor that stands for others."""
        return NotImplementedError("Cannot access storage of " + self.kind_name())

    def __reduce_ex__(self, protocol: Any) -> NoReturn:
        raise self.no_storage()

    def __deepcopy__(self, memo: Any) -> Any:
        raise self.no_storage()

    def share_memory_(self) -> NoReturn:
        raise self.no_storage()

    def kind_name(self) -> str:
        """What torch calls such a tensor in its messages."""
        raise NotImplementedError


class Lifted(Wrapper):
    """A tensor that a differentiating level (grad, jvp) follows: it has a graph of that level."""

    __slots__ = ()

    @property
    def _array(self) -> Any:
        return self.value._array

    def gradient_edge(self) -> Edge:
        # Of a level that is closed, what is left is the value.
        return super().gradient_edge() if self.level.open else self.value.gradient_edge()

    def _exchange(self, new: Any, memory: Any = None) -> None:
        self.value._exchange(new, memory)

    def numpy(self, *, force: bool = False) -> Any:
        if self.requires_grad and modes.grad_enabled() and not force:
            return super().numpy()  # refuses
        raise _no_pointer()

    def data_ptr(self) -> int:
        raise _no_pointer()

    def _own(self) -> Any:
        return Kept(self)

    def kind_name(self) -> str:
        return "TensorWrapper"

    def item(self) -> Any:
        if type(self._array) is Outline and self._array.size == 1:
            raise no_value()
        return super().item()

    def __bool__(self) -> bool:
        if type(self._array) is Outline and self._array.size == 1:
            raise no_value()
        return super().__bool__()

    @property
    def data(self) -> Tensor:
        return lift(self.level, self.value.data)

    @data.setter
    def data(self, value: Any) -> None:
        self._take_data(value)

    def __repr__(self) -> str:
        inner = repr(self.value).replace("\n", "\n" + " " * 4)
        number = self.level.depth if self.level.open else -2
        return f"GradTrackingTensor(lvl={number}, value=\n    {inner}\n)"


class Batched(Wrapper):
    """The slices of a tensor, which a vmap level hides: it shows the shape of one.

    The first dimension of `value` is the batch. It has no graph of its own: what is recorded is
    recorded below, for all slices at once.
    """

    __slots__ = ("_outline",)

    _outline: Outline | None

    @property
    def _array(self) -> Any:
        array, found = self.value._array, self._outline
        if found is None or found.array is not array:
            self._outline = found = Outline(array, self.level)
        return found

    def gradient_edge(self) -> Edge:
        return None

    def kind_name(self) -> str:
        return "BatchedTensorImpl"

    @property
    def data(self) -> Tensor:
        raise RuntimeError("accessing `data` under vmap transform is not allowed")

    @data.setter
    def data(self, value: Any) -> None:
        self._take_data(value)

    def detach_(self) -> Tensor:
        raise RuntimeError(
            "Can't detach views in-place. Use detach() instead. Inside of vmap a tensor is a view "
            "of all slices."
        )

    def data_ptr(self) -> int:
        raise _no_pointer()

    def numpy(self, *, force: bool = False) -> Any:
        raise _no_pointer()

    def tolist(self) -> Any:
        raise _no_pointer()

    def __dlpack__(self, **named: Any) -> Any:
        raise _no_pointer()

    def __bool__(self) -> bool:
        raise data_dependent()

    def __repr__(self) -> str:
        inner = repr(self.value).replace("\n", "\n" + " " * 4)
        return f"BatchedTensor(lvl={self.level.depth}, bdim=0, value=\n    {inner}\n)"


for _kind in (Wrapper, Lifted, Batched):
    _kind.__name__ = _kind.__qualname__ = "Tensor"


def _no_pointer() -> RuntimeError:
    return RuntimeError(
        "Cannot access data pointer of Tensor that doesn't have storage: inside of a function that "
        "is transformed a tensor stands for others (of a vmap: for all slices). Return what is to "
        "be read, and read it outside."
    )


def no_item() -> RuntimeError:
    return RuntimeError(
        "vmap: It looks like you're calling .item() on a Tensor. We don't support vmap over "
        "calling .item() on a Tensor, please try to rewrite what you're doing with other "
        "operations. If error is occurring somewhere inside PyTorch internals, please file a bug "
        "report."
    )


def no_value() -> RuntimeError:
    return RuntimeError(
        "vmap: It looks like you're either (1) calling .item() on a Tensor or (2) attempting to "
        "use a Tensor in some data-dependent control flow: a slice of a vmap has no value. Use "
        "torch.where, or what works on all elements, instead."
    )


def data_dependent() -> RuntimeError:
    return RuntimeError(
        "vmap: It looks like you're attempting to use a Tensor in some data-dependent control "
        "flow. We don't support that yet, please file an issue at "
        "https://github.com/pytorch/pytorch/issues . Use torch.where instead."
    )


def escaped(level: Level) -> RuntimeError:
    return RuntimeError(
        "Either your tensor may have escaped from inside a function being vmapped and this is a "
        "user error (see https://pytorch.org/functorch/stable/ux_limitations.html): it holds the "
        f"slices of a vmap (level {level.depth}) that is over or runs in another thread. Return "
        "what you need from the function that is mapped."
    )


class Outline:
    """What a slice of an array looks like: everything of it but its values."""

    __slots__ = ("array", "dtype", "itemsize", "level", "ndim", "shape", "strides")

    itemsize: int

    def __init__(self, array: Any, level: Level) -> None:
        self.array = array
        self.level = level
        self.shape = array.shape[1:]
        self.strides = array.strides[1:]
        self.ndim = array.ndim - 1
        self.dtype = array.dtype
        self.itemsize = array.dtype.itemsize

    @property
    def whole(self) -> Any:
        """The array of all slices, of every level: what an observer may look at."""
        return getattr(self.array, "whole", self.array)

    @property
    def size(self) -> int:
        return math.prod(self.shape)

    @property
    def device(self) -> Any:
        array = all_values(self)
        return backends.backend_of(array).device(array)

    @property
    def nbytes(self) -> int:
        return self.size * self.itemsize

    @property
    def flags(self) -> Any:
        # Of one slice: those of the array with the batch taken away.
        if type(self.array) is numpy.ndarray and len(self.array):
            return self.array[0, ...].flags
        return self.stand_in().flags

    @property
    def base(self) -> Any:
        return self.array

    def stand_in(self) -> Any:
        """An array without memory to speak of that has these strides."""
        return numpy.lib.stride_tricks.as_strided(
            numpy.zeros((), self.dtype), self.shape, self.strides
        )

    def item(self) -> NoReturn:
        raise no_item()

    def __bool__(self) -> bool:
        raise data_dependent()

    def __array__(self, dtype: Any = None, copy: Any = None) -> NoReturn:
        raise _no_pointer()

    def unsupported(self) -> RuntimeError:
        """Why no kernel may have it."""
        if not self.level.is_here():
            return escaped(self.level)
        return RuntimeError(
            "vmap: this function has no batching rule: it asks for the values of a slice"
        )


def shown(value: Any) -> Any:
    """The array of a tensor, of slices one of their shape; a non-tensor as it is."""
    array = getattr(value, "_array", value)
    return array.stand_in() if type(array) is Outline else array


def all_values(x: Any) -> Any:
    """The array of a Tensor, of a slice that of all slices: for questions that concern them all."""
    array = getattr(x, "_array", x)
    while type(array) is Outline:
        array = array.array
    return array


def is_batchedtensor(x: Any) -> bool:
    """Whether a tensor stands for slices of a vmap, and has no values of its own."""
    return type(getattr(x, "_array", None)) is Outline


def not_batched(name: str) -> RuntimeError:
    return RuntimeError(
        f"Batching rule not implemented for aten::{name}. We could not generate a fallback: call "
        "it outside of the vmap, or loop over the slices."
    )


def anywhere(mask: Any) -> bool:
    """Whether a mask, a Tensor or an array, is true anywhere, in whichever slice."""
    return bool(all_values(mask).any())


def levelled_like(x: Any, array: Any) -> Any:
    """A new tensor of an array that has the batches of `x` in front, and hides them as `x` does."""
    if not isinstance(x, Wrapper):
        return _plain(array)
    lower = levelled_like(x.value, array)
    return wrap(type(x), x.level, lower)


def with_batches(x: Any, made: Any) -> Any:
    """A new tensor, of its own for each slice of `x`."""
    values, array = all_values(x), all_values(made)
    sizes = values.shape[: values.ndim - x._array.ndim]
    if not sizes:
        return made
    result = numpy.empty_like(array, shape=(*sizes, *array.shape))
    result[...] = array
    return levelled_like(x, result)


def _plain(array: Any) -> Any:
    return modes.at_levels((), True, modes.state.inference, False, from_array, array)


def no_randomness() -> RuntimeError:
    return RuntimeError(
        "vmap: called random operation while in randomness error mode. Please either use the "
        "'same' or 'different' randomness flags on vmap or perform the randomness operation out of "
        "vmap"
    )


def drawn(shape: tuple[int, ...], draw: Callable[[tuple[int, ...]], Any]) -> Any:
    """A new tensor of random numbers: `draw` is given the shape, with the batches in front whose
    slices are to have different ones.
    """
    levels = modes.state.levels
    if not levels:
        return from_array(draw(shape))
    different = []
    for level in reversed(levels):
        if level.kind == "vmap":
            if level.randomness == "error":
                raise no_randomness()
            if level.randomness == "different":
                different.append(level)
    result = _plain(draw((*(level.size for level in reversed(different)), *shape)))
    for level in levels:
        if level in different:
            result = wrap(Batched, level, result)
        elif level.kind != "vmap":
            result = lift(level, result)
    return result


def wrap(kind: type[Wrapper], level: Level, value: Any) -> Any:
    """A tensor of a level around one of below."""
    result: Any = object.__new__(kind)
    result.level = level
    result.value = value
    result._edge = None
    result._rg = False
    result._view = None
    result._grad = None
    result._leaf = None
    if kind is Batched:
        result._outline = None
    return result


def lift(level: Level, value: Any) -> Lifted:
    """A tensor of below as a constant of a differentiating level."""
    result: Lifted = wrap(Lifted, level, value)
    return result


def lift_new(level: Level, value: Any) -> Lifted:
    """A tensor that was made inside of a differentiating level: of those around it, too, so that
    it may be written at each of them.
    """
    outer = level.outer
    if outer is not None and (value.level.depth if isinstance(value, Wrapper) else 0) < outer.depth:
        value = lift_new(outer, value)
    result = lift(level, value)
    if isinstance(level, Tape):
        level.constants.append(result)
    return result


differentiating_level(lift_new)


class Kept(saved.OwnValue):
    """A saved own output of a node at a level: what it held, below."""

    __slots__ = ("level", "value")

    def __init__(self, output: Lifted) -> None:
        self.level = output.level
        self.value = output.value

    @property
    def array(self) -> Any:
        return self.value._array

    def rebuilt(self, storage: Storage, edge: Edge) -> Any:
        if not self.level.open:
            return self.value
        result = lift(self.level, self.value)
        result._rg = edge is not None
        result._edge = edge
        return result


def tangent_of(value: Any) -> Any:
    """The array of the tangent of a tensor or a saved own output, at the level nearest to it."""
    while True:
        found = getattr(value, "_dual", None)
        if found is not None:
            return found[1]._array if found[0].open else None
        if not isinstance(value, (Wrapper, Kept)):
            break
        value = value.value
    array = value.array if isinstance(value, saved.OwnValue) else getattr(value, "_array", value)
    array = whole(array)
    entry = dual.shown.get(id(array))
    return entry[2]._array if entry is not None and entry[0]() is array else None


saved.tangent_of = tangent_of


def settle(tensor: Any) -> Any:
    """A tensor without the wrappers of levels that are closed."""
    return tensor._settled() if isinstance(tensor, Wrapper) else tensor
