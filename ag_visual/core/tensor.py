"""The Tensor: a `TensorBase` with its place in the graph. No mathematics: ops add that.

`_edge` is where gradients of this tensor go: `(node, output number)`; None for leaves, whose
accumulator is found through `_leaf`. `_rg` is requires_grad as far as this object knows; a view
asks `view.refresh` first. Upper layers attach methods with `method`.
"""

from __future__ import annotations

import copy
import weakref
from collections.abc import Callable, Mapping
from sys import _getframe
from threading import get_ident
from typing import Any

import numpy

from ag_visual import dtypes
from ag_visual.arrays import backend as backends, shared
from ag_visual.core import detach_sites, hooks, modes, saved, source, view
from ag_visual.core.diagnosis import errors
from ag_visual.core.node import AccumulateGrad, Edge, LeafState, Node, Replaced
from ag_visual.core.source import caller, warn
from ag_visual.core.storage import FRESH, Storage
from ag_visual.core.tensor_base import TensorBase, births
from ag_visual.devices import device as Device
from ag_visual.errors import type_name
from ag_visual.events import instrument
from ag_visual.events.clock import perf_counter_ns


class Tensor(TensorBase):
    """A multi-dimensional array that autograd can follow.

    `Tensor(data)` makes a copy in the default dtype; prefer `ag.tensor(data)`.
    """

    __slots__ = ("_dual", "_edge", "_grad", "_leaf", "_origin", "_rg")

    _edge: Edge
    _rg: bool
    _grad: Tensor | None
    _leaf: LeafState | None
    # How and where a tensor came to require no grad, ("detach", call site, ...): set only where one
    # that does was given, and read by `explain` alone. Usually the slot is empty.
    _origin: tuple[Any, ...] | None
    # Its tangent and the level of forward mode that this is of; usually the slot is empty.
    _dual: tuple[Any, Tensor]

    def __new__(cls, *data: Any, device: Any = None) -> Any:
        default = dtypes.get_default_dtype().np
        if len(data) == 1 and not isinstance(data[0], int):
            source_ = data[0]
            if isinstance(source_, Tensor):
                return from_array(source_._array, cls=cls)
            array = numpy.array(source_, dtype=default)
        else:
            array = numpy.empty(data if data else (0,), dtype=default)
        target = backends.backend_for(Device("cpu") if device is None else device)
        return from_array(target.from_numpy(array), cls=cls)

    # The graph -------------------------------------------------------------------------------

    @property
    def requires_grad(self) -> bool:
        """Whether gradients of this tensor are wanted, or of something it was computed from."""
        view_ = self._view
        if view_ is None or self._edge is not None:
            return self._rg
        return view_.own or view_.base._rg

    @requires_grad.setter
    def requires_grad(self, value: Any) -> None:
        if not isinstance(value, bool):
            raise RuntimeError("requires_grad must be a bool")
        if value and self._edge is not None:
            raise RuntimeError("you can only change requires_grad flags of leaf variables.")
        self._require_grad(value)

    @requires_grad.deleter
    def requires_grad(self) -> None:
        raise RuntimeError("requires_grad must be a bool")

    def _require_grad(self, requires_grad: bool) -> Tensor:
        """`requires_grad_`, which `autograd.api` attaches."""
        # As in torch a view is not brought up to date with its base for this, nor refused.
        if self._edge is not None:
            if requires_grad:
                return self
            raise RuntimeError(
                "you can only change requires_grad flags of leaf variables. If you want to use a "
                "computed variable in a subgraph that doesn't require differentiation use "
                "var_no_grad = var.detach()."
            )
        if requires_grad and self.is_inference() and not modes.state.inference:
            raise RuntimeError(
                "Setting requires_grad=True on inference tensor outside InferenceMode is not "
                "allowed. Make a clone outside of it first."
            )
        if requires_grad and self.dtype.category < 2:
            raise RuntimeError(
                "only Tensors of floating point dtype can require gradients (and complex ones), "
                f"but this tensor is {self.dtype}"
            )
        view_ = self._view
        if view_ is not None:
            # A view of a tensor that requires grad does so, too, whether it is asked to or not.
            view_.own = bool(requires_grad)
            requires_grad = requires_grad or view_.base._rg
        if self._rg is not bool(requires_grad):
            self._rg = bool(requires_grad)
            # A new object: views look at their base again.
            self._storage.snapshot = (*self._storage.snapshot,)
        return self

    @property
    def grad_fn(self) -> Node | None:
        """The node that made this tensor; None for a leaf."""
        view_ = self._view
        if view_ is not None and view_.snapshot is not self._store.snapshot:
            view.refresh(self)
        return None if self._edge is None else self._edge[0]

    @property
    def _grad_fn(self) -> Node | None:
        return self.grad_fn

    @_grad_fn.setter
    def _grad_fn(self, value: Any) -> None:
        if value is not None:
            raise TypeError(f"_grad_fn can be only set to None, not to a {type(value).__name__}")
        self.detach_()

    @_grad_fn.deleter
    def _grad_fn(self) -> None:
        raise RuntimeError("Deletion of _grad_fn not allowed. Detach tensor instead!")

    @property
    def _backward_hooks(self) -> hooks.HookTable | None:
        """The tensor hooks of this tensor, None when there are none."""
        node = self.grad_fn
        if node is None:
            return (self._leaf and self._leaf.hooks) or None
        return (node.hooks and node.hooks.tensor.get(self.output_nr)) or None

    @_backward_hooks.setter
    def _backward_hooks(self, value: Any) -> None:
        if value is not None and not isinstance(value, Mapping):
            raise TypeError(
                f"_backward_hooks must be a dict of hooks or None, but got {type(value).__name__}"
            )
        node = self.grad_fn
        if node is not None:
            node._hooks().tensor[self.output_nr] = hooks.HookTable(value)
        elif value or self._leaf is not None:
            _leaf_state(self).hooks = hooks.HookTable(value)

    @_backward_hooks.deleter
    def _backward_hooks(self) -> None:
        raise RuntimeError(
            "Deletion of _backwards_hooks not allowed! Remove them by their handles."
        )

    @property
    def is_leaf(self) -> bool:
        """Whether no recorded operation made this tensor: gradients collect in its `.grad`."""
        return self.grad_fn is None

    @property
    def output_nr(self) -> int:
        """Which output of `grad_fn` this tensor is."""
        return 0 if self._edge is None else self._edge[1]

    def gradient_edge(self) -> Edge:
        """Where gradients of this tensor go, or None when it needs none."""
        view_ = self._view
        if view_ is not None and view_.snapshot is not self._store.snapshot:
            view.refresh(self)
        if self._edge is not None:
            return self._edge
        return accumulator(self) if self._rg else None

    @property
    def grad(self) -> Tensor | None:
        """The gradient that backward passes added up, None before the first; leaves have one."""
        if self._grad is None and self._edge is not None and not self.retains_grad:
            warn(
                "The .grad attribute of a Tensor that is not a leaf Tensor is being accessed. Its "
                ".grad attribute won't be populated during autograd.backward(). If you indeed want "
                "the .grad field to be populated for a non-leaf Tensor, use .retain_grad() on the "
                "non-leaf Tensor. If you access the non-leaf Tensor by mistake, make sure you "
                "access the leaf Tensor instead."
            )
        return self._grad

    @grad.setter
    def grad(self, value: Any) -> None:
        if value is None:
            self._grad = None
            return
        if not isinstance(value, Tensor):
            raise TypeError(
                "assigned grad expected to be a Tensor or None but got grad of type "
                f"{type(value).__name__}"
            )
        if value is self:
            raise RuntimeError("can't assign Variable as its own grad")
        if value._array.dtype != self._array.dtype:
            given, own = errors.c_name(value), errors.c_name(self)
            raise RuntimeError(
                f"attempting to assign a gradient with dtype '{given}' to a tensor with dtype "
                f"'{own}'. Please ensure that the gradient and the tensor have the same dtype"
            )
        if value.device != self.device:
            raise RuntimeError(
                f"attempting to assign a gradient with device type '{value.device.type}' to a "
                f"tensor with device type '{self.device.type}'. Please ensure that the gradient "
                "and the tensor are on the same device"
            )
        if value._array.shape != self._array.shape:
            raise RuntimeError(
                f"attempting to assign a gradient of size '{list(value._array.shape)}' to a tensor "
                f"of size '{list(self._array.shape)}'. Please ensure that the gradient and the "
                "tensor are the same size"
            )
        self._grad = value

    @grad.deleter
    def grad(self) -> None:
        self._grad = None

    def detach(self) -> Tensor:
        """The same memory and version counter, outside of the graph."""
        kind = InferenceTensor if self.is_inference() else Tensor
        result: Tensor = _blank(kind, self._array)
        result._store = self._storage
        result._memory = self._memory
        self._set_origin(result, "detach")
        return result

    def _set_origin(self, result: Tensor, kind: str) -> None:
        """Remember at a tensor made from this one why it requires no grad."""
        if self._rg:
            edge = self._edge
            here = source.here()
            result._origin = (kind, here, None if edge is None else weakref.ref(edge[0]))
            detach_sites.note(here)
        elif (origin := saved.origin_of(self)) is not None:
            result._origin = origin

    def detach_(self) -> Tensor:
        """Take this tensor out of the graph; it becomes a leaf that requires no grad."""
        if self._view is not None:
            raise RuntimeError(
                "Can't detach views in-place. Use detach() instead. If you are using "
                "DistributedDataParallel (DDP) for training, and gradient_as_bucket_view is set as "
                "True, gradients are views of DDP buckets, and hence detach_() cannot be called on "
                "these gradients. To fix this error, please refer to the Optimizer.zero_grad() "
                "function in torch/optim/optimizer.py as a reference."
            )
        self._set_origin(self, "detach_")
        if self._rg:
            # A new object: who saved this looks again, and views without history at their base.
            self._storage.snapshot = (*self._storage.snapshot,)
        self._edge, self._rg = None, False
        if hasattr(self, "_dual"):
            del self._dual
        return self

    @property
    def data(self) -> Tensor:
        """The same memory with a version counter of its own: writes to it are not seen by autograd.

        (They are seen here all the same: a saved tensor that was written this way warns.)
        """
        result: Tensor = _blank(Tensor, self._array)
        result._store = self._storage.alias()
        result._memory = self._memory
        self._set_origin(result, "data")
        return result

    @data.setter
    def data(self, value: Any) -> None:
        if not isinstance(value, Tensor):
            raise TypeError(f"Variable data has to be a tensor, but got {type_name(value)}")
        if value.device != self.device:
            raise RuntimeError(
                "Attempted to call `variable.set_data(tensor)`, but `variable` and `tensor` have "
                f"incompatible tensor type: {self.device} and {value.device}."
            )
        self._take_data(value)

    @data.deleter
    def data(self) -> None:
        raise RuntimeError("Deleting tensor data is not allowed. Delete tensor instead!")

    def _take_data(self, value: Tensor) -> None:
        """`data = value`, which may also be on another device (a module that moves there)."""
        if self._rg and value.dtype.category < 2:
            raise RuntimeError(
                "data set to a tensor that requires gradients must be floating point or complex "
                f"dtype, but got {value.dtype}"
            )
        self._exchange(value._array, value._memory)

    def _exchange(self, new: Any, memory: Any = None) -> None:
        """Put another array, a part of `memory`, in the place of this tensor's."""
        old = self._array
        self._array = new
        self._memory = memory
        self._plain = plain(new)
        leaf, edge = self._leaf, self._edge
        if leaf is not None and (type(new) is not type(old) or new.dtype != old.dtype):
            leaf.accumulator = None  # it says what gradients the old array had
        if new.shape == old.shape:
            return
        node = None if leaf is None or leaf.accumulator is None else leaf.accumulator()
        if node is not None:
            node.shape = Replaced.by(node.shape, new.shape)
        if edge is not None and edge[2] is not None:
            self._edge = *edge[:2], Replaced.by(edge[2], new.shape), edge[3]
        elif edge is not None:
            shape = Replaced.by(edge[0].outs[edge[1]][0], new.shape)  # type: ignore[index]
            self._edge = *edge[:3], shape if type(shape) is Replaced else None

    def _own(self) -> Any:  # what a node that saves this output of its own keeps: no cycle
        return self._array

    # Hooks -----------------------------------------------------------------------------------

    def register_hook(self, hook: Callable[[Tensor], Any]) -> hooks.RemovableHandle:
        """Call `hook(grad)` when the gradient of this tensor is known; it may return another."""
        if not self.requires_grad:
            raise RuntimeError("cannot register a hook on a tensor that doesn't require gradient")
        node = self.grad_fn
        if node is None:
            return hooks.register(_leaf_state(self).hooks, hook)
        return hooks.register(node._hooks().of_output(self.output_nr), hook)

    def register_post_accumulate_grad_hook(
        self, hook: Callable[[Tensor], None]
    ) -> hooks.RemovableHandle:
        """Call `hook(tensor)` after a backward has accumulated into this leaf's `.grad`."""
        if not self.requires_grad:
            raise RuntimeError("cannot register a hook on a tensor that doesn't require gradient")
        if self.grad_fn is not None:
            raise RuntimeError(
                "post accumulate grad hooks cannot be registered on non-leaf tensors"
            )
        return hooks.register(_leaf_state(self).post_accumulate, hook)

    @property
    def retains_grad(self) -> bool:
        """Whether `retain_grad` was called on this non-leaf."""
        edge = self._edge
        if edge is None or edge[0].hooks is None:
            return False
        ref = edge[0].hooks.retain.get(edge[1])
        return ref is not None and ref() is self

    # Copying ---------------------------------------------------------------------------------

    def __deepcopy__(self, memo: dict[int, Any]) -> Tensor:
        if not self.is_leaf:
            raise RuntimeError(
                "Only Tensors created explicitly by the user (graph leaves) support the deepcopy "
                "protocol at the moment. If you were attempting to deepcopy a module, this may be "
                "because of a tensor in it that was computed: detach it first."
            )
        if id(self) in memo:
            return memo[id(self)]  # type: ignore[no-any-return]
        result = from_array(self._array.copy(), requires_grad=self._rg, cls=type(self))
        memo[id(self)] = result
        result._grad = copy.deepcopy(self._grad, memo)
        result.__dict__.update(copy.deepcopy(self.__dict__, memo))
        return result

    def __reduce_ex__(self, protocol: Any) -> Any:
        """The values, without the graph: what comes back is a leaf, as in torch."""
        backend = backends.backend_of(self._array)
        array = backend.to_numpy(self._array) if backend.has_values else self._array
        return _unpickle, (
            shared.sendable(array),
            str(self.device),
            self.requires_grad,
            type(self),
            dict(self.__dict__),
        )

    def __repr__(self) -> str:
        from ag_visual.core.printing import tensor_repr

        return tensor_repr(self)


_new = object.__new__


_F32, _F64 = numpy.dtype(numpy.float32), numpy.dtype(numpy.float64)


def plain(array: Any) -> Any:
    """What `_plain` of a tensor with this array is."""
    if type(array) is not numpy.ndarray:
        return None
    dtype = array.dtype
    return dtype if dtype is _F32 or dtype is _F64 else None


def _blank(cls: type, array: Any) -> Any:
    result: Any = _new(cls)
    result._array = array
    result._plain = plain(array)
    result._view = result._memory = result._edge = result._grad = result._leaf = None
    result._rg = False
    return result


class InferenceTensor(Tensor):
    """A tensor made in inference mode. A type of its own keeps it off every fast path."""

    __slots__ = ()

    @property
    def _version(self) -> int:
        raise RuntimeError("Inference tensors do not track version counter.")

    def is_inference(self) -> bool:
        return True

    def __deepcopy__(self, memo: dict[int, Any]) -> Tensor:
        result: Tensor = from_array(self._array.copy(), self._rg)
        memo[id(self)] = result
        return result

    def __reduce_ex__(self, protocol: Any) -> Any:
        """The values, without the graph: what comes back is a leaf, as in torch."""
        rebuild, (array, device, requires_grad, _, extra) = super().__reduce_ex__(protocol)
        return rebuild, (array, device, requires_grad, Tensor, extra)


InferenceTensor.__name__ = InferenceTensor.__qualname__ = "Tensor"


def from_array(array: Any, requires_grad: bool = False, cls: type[Tensor] = Tensor) -> Tensor:
    """A new leaf around `array` (no copy)."""
    level = None
    if modes.special and cls is Tensor:
        state = modes.state
        level = state.differentiating
        if state.inference:
            cls = InferenceTensor
    result: Tensor = _new(cls)
    result._array = array
    result._plain = plain(array)
    result._store = FRESH
    result._view = result._memory = result._edge = result._grad = result._leaf = None
    result._rg = False
    if level is not None:
        result = _lift(level, result)
    result._rg = requires_grad
    return result


_lift: Callable[[Any, Tensor], Tensor]


def differentiating_level(lift: Callable[[Any, Tensor], Tensor]) -> None:
    """Called once by core.level: how a new tensor becomes one of a level that differentiates."""
    global _lift
    _lift = lift


def _rebuild(array: Any, storage: Storage, edge: Edge) -> Tensor:
    """A saved own output, or what an unpack hook gave, as a Tensor of the graph again."""
    if isinstance(array, saved.OwnValue):
        return array.rebuilt(storage, edge)  # type: ignore[no-any-return]
    result: Tensor = _blank(Tensor, array)
    result._store = storage
    result._rg = edge is not None
    if edge is not None and edge[0].leaf:
        # The stand-in of a leaf: its gradients go to the leaf's own accumulator.
        result._leaf = LeafState()
        result._leaf.accumulator = weakref.ref(edge[0])  # type: ignore[arg-type]
    else:
        result._edge = edge
    return result


saved.bind(Tensor, _rebuild)


def _unpickle(array: Any, device: str, requires_grad: bool, cls: type, extra: Any) -> Any:
    target = backends.backend_for(Device(device))
    result = from_array(target.from_numpy(array), requires_grad, cls)
    result.__dict__.update(extra)
    return result


def _leaf_state(tensor: Tensor) -> LeafState:
    with births:
        if tensor._leaf is None:
            tensor._leaf = LeafState()
        return tensor._leaf


def accumulator(tensor: Tensor) -> Edge:
    """The edge into the AccumulateGrad of a leaf; the same node as long as somebody holds it.

    None for a view without history that requires grad only because its base does.
    """
    state = tensor._leaf
    ref = None if state is None else state.accumulator
    node = None if ref is None else ref()
    if node is None:
        if tensor._view is not None and not tensor._view.own:
            return None
        with births:
            state = state or _leaf_state(tensor)
            if (born := state.accumulator) is not ref:  # in another thread, meanwhile
                node = None if born is None else born()
            if node is None:
                node = AccumulateGrad(tensor, state.lock)
                state.accumulator = weakref.ref(node)
    return node, 0, node.shape, node.dtype


def method(name: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Attach a function of an upper layer as `Tensor.<name>`, which is what errors call it."""

    def attach(function: Callable[..., Any]) -> Callable[..., Any]:
        function.__name__, function.__qualname__ = name, f"Tensor.{name}"
        setattr(Tensor, name, function)
        return function

    return attach


def check_inplace(tensor: Tensor, op: str) -> None:
    """Raise when an in-place op that needs grad may not write `tensor` (grad mode is on)."""
    view_ = tensor._view
    if view_ is None:
        if tensor._rg and tensor._edge is None:
            raise errors.leaf_inplace(tensor, op, view=False)
        return
    # First: bringing such a view up to date would blame the write to its base.
    if view_.meta != view.DEFAULT:
        made = view_.made or (tensor._edge and tensor._edge[0].call_site)
        raise errors.view_inplace(tensor, op, view.message(tensor), made)
    base = view_.base
    if view_.snapshot is not tensor._storage.snapshot and (base._edge is not None or not base._rg):
        view.refresh(tensor)
    if base._edge is None and (base._rg or tensor._rg):
        raise errors.leaf_inplace(tensor, op, view=True)


def before_write(tensor: Tensor) -> None:
    """What every in-place op calls before it writes: may it, and does somebody need a copy?"""
    if type(tensor) is InferenceTensor and not modes.state.inference:
        raise RuntimeError(
            "Inplace update to inference tensor outside InferenceMode is not allowed."
            "You can make a clone to get a normal tensor before doing inplace update."
            "See https://github.com/pytorch/rfcs/pull/17 for more details."
        )
    if modes.special and modes.state.mutation is not None:
        modes.state.mutation.before_write(tensor)


def wrote(tensor: Tensor, op: str) -> None:
    """Count a write to `tensor` at the user's line that called for it."""
    frame: Any = _getframe(1).f_back  # what calls this is of the package
    known = frame is not None and frame.f_code is caller.code
    call_site = (frame.f_code, frame.f_lasti) if known else source.call_site_of(frame)
    storage = tensor._store if tensor._store is not FRESH else tensor._storage
    storage.wrote(op, call_site, tensor._array)
    sink = instrument.sink
    if sink is not None:
        code, lasti = call_site or (None, 0)
        version, writes = storage.snapshot
        uid = storage.number or storage.uid
        sink.write((perf_counter_ns(), get_ident(), uid, version, writes, op, code, lasti))


def rebase(tensor: Tensor, node: Node) -> None:
    """Make `node` the history of a tensor that was just written in place."""
    view_ = tensor._view
    if view_ is None:
        old = tensor._edge
        tensor._edge = node.edge()
        tensor._rg = True
        view.move_retain_grad(tensor, old)
        return
    base = view_.base
    old = base._edge
    base._edge = view.CopySlices(base, base.gradient_edge(), view_, node).edge()
    base._rg = True
    view.move_retain_grad(base, old)
    view.refresh(tensor)
