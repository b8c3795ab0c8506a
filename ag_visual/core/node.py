"""The backward graph: nodes, their edges, and the node that accumulates into a leaf.

An edge is `(node, output number, shape, dtype)`, or None where no gradient flows. Where the node
has several outputs, `outs` tells their shapes and dtypes: shape is None, and dtype None or the
`Replaced` shape. Op nodes are subclasses made by `dispatch.record` from each declaration; what they
save is described by `saved_names`.
"""

from __future__ import annotations

import operator
import sys
import threading
import traceback
import weakref
from collections.abc import Callable
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np

from ag_visual import dtypes
from ag_visual.arrays.backend import backend_of
from ag_visual.core import modes, saved, source
from ag_visual.core.hooks import HookTable, NodeHooks, RemovableHandle, register
from ag_visual.devices import device as Device
from ag_visual.events import instrument
from ag_visual.events.live import FIRST, SavedField
from ag_visual.events.log import EventLog, HookField
from ag_visual.events.node_record import Told, sequence
from ag_visual.sizes import Size

Target = tuple["Node", int, tuple[int, ...] | None, Any]
Edge = Target | None
Meta = tuple[tuple[int, ...], Any]
"""Shape and array dtype of one output."""


class Replaced(tuple[int, ...]):
    """A shape that gradients were to have, of a tensor that has another one (`now`) since.

    So of `x.data = y` and of an operation that turns a tensor under no_grad. As in torch, what the
    tensor was before says which gradients it takes, as long as somebody holds its node.
    """

    now: tuple[int, ...]
    ever: ClassVar[bool] = False  # whether some tensor's was

    @classmethod
    def by(cls, was: tuple[int, ...], now: tuple[int, ...]) -> tuple[int, ...]:
        """The shape for an edge to a tensor that has changed from `was` to `now`."""
        if tuple(was) == now:
            return now
        Replaced.ever = True
        shape = cls(was)
        shape.now = now
        return shape


renumbered: weakref.WeakKeyDictionary[Node, int] | None = None
"""What `_set_sequence_nr` gave; None before the first. `seq` stays: a recorder goes by it."""

LAST = 2**64 - 1
"""torch's sequence number of AccumulateGrad: runs as soon as it is ready."""


class Node(Told):
    """One operation in the backward graph (torch's `grad_fn`)."""

    next: tuple[Edge, ...]
    seq: int
    code: Any
    lasti: int
    shape: tuple[int, ...]
    dtype: Any
    outs: tuple[Meta, ...] | None  # several outputs; None: one, described by shape and dtype
    hooks: NodeHooks | None
    freed: tuple[Any, int] | None  # the call site of the backward that freed the saved tensors
    _metadata: dict[Any, Any] | None
    __slots__ = ("__weakref__", *__annotations__)

    leaf: ClassVar[bool] = False
    variable: Any = None  # of a leaf
    runs_undefined: ClassVar[bool] = False  # whether it runs when no gradient arrived
    skips: ClassVar[bool] = False  # whether it computes nothing when no input's gradient is wanted
    holomorphic: ClassVar[bool] = False
    value_names: ClassVar[tuple[str, ...]] = ()

    # No __init__: a class without one makes its objects in two thirds of the time.

    def start(self, edges: tuple[Edge, ...], outputs: tuple[Meta, ...]) -> Self:
        """Fill in a new node, at the user's line that made it."""
        self.next = edges
        self.seq = next(sequence)
        call_site = source.here()
        self.code, self.lasti = (None, 0) if call_site is None else call_site
        self.shape, self.dtype = outputs[0]
        self.outs = outputs if len(outputs) > 1 else None
        self.hooks = None
        self.freed = None
        self._metadata = None
        if modes.anomaly is not None:
            self.keep_stack()
        if modes.streams is not None:
            modes.streams.made(self)
        return self

    def keep_stack(self) -> None:
        """Anomaly mode: keep the whole stack, and the node whose backward made this one."""
        frames = traceback.extract_stack(source.outside(sys._getframe(1)))
        self.metadata["traceback_"] = traceback.format_list(frames)
        self.metadata["parent_"] = modes.state.node

    def edge(self, number: int = 0) -> Edge:
        """Where gradients of an output go, with what the engine fits them to.

        The engine reads it there and not from the node: attributes of objects of many classes cost
        it 20 ns each, the items of a tuple 3.
        """
        if self.outs is None:
            return self, number, self.shape, self.dtype
        return self, number, None, None

    @property
    def saved_names(self) -> tuple[str, ...]:
        """The fields that it saves."""
        return ()

    # What it computes ------------------------------------------------------------------------

    def raw(self, F: Any, g: Any) -> Any:
        """Gradients of the inputs as arrays; `g` is an array (or a list for several outputs)."""
        raise NotImplementedError(f"{type(self).__name__} has no array form")

    def take(self, F: Any, g: Any, call_site: Any) -> Any:
        """`raw`, and release what was saved: at most one caller gets it."""
        self.acquire(call_site)
        result = self.raw(F, g)
        self.release()
        return result

    def timed(self, F: Any, g: Any, call_site: Any) -> Any:
        """`take`, or `raw` where call_site is None, while somebody profiles: with the ops of F."""
        return self.raw(F, g) if call_site is None else self.take(F, g, call_site)

    def acquire(self, call_site: Any) -> None:
        """Take what was saved for the backward at `call_site`, or raise: an earlier one has it."""
        if self.saved_names:
            saved.acquire(self, call_site)

    def traced(self, g: Any) -> Any:
        """The same on Tensors, recorded while grad mode is on."""
        raise NotImplementedError(f"{type(self).__name__} has no Tensor form")

    def skip(self, call_site: Any) -> tuple[None, ...]:
        """What it gives where no gradient has arrived or none is wanted: as torch, it is run.

        call_site: of the backward that lets go of what was saved; None keeps that.
        """
        if call_site is not None and self.freed is None:
            self.acquire(call_site)
            self.release()
        return (None,) * len(self.next)

    def release(self) -> None:
        """Drop what was saved (`freed` is set by the engine)."""

    # What can be seen of it ------------------------------------------------------------------

    def name(self) -> str:
        """torch's name of the operation, such as 'MulBackward0'."""
        return type(self).__name__

    kind = property(type)  # in C, as it is asked of all nodes of a graph

    def __repr__(self) -> str:
        return f"<{type(self).__name__} object at {id(self):#x}>"

    @property
    def next_functions(self) -> tuple[tuple[Node | None, int], ...]:
        return tuple((None, 0) if edge is None else edge[:2] for edge in self.next)

    @property
    def metadata(self) -> dict[Any, Any]:
        if self._metadata is None:
            self._metadata = {}
        return self._metadata

    def _sequence_nr(self) -> int:
        """A number that grows with each node; of ready nodes backward runs the highest first."""
        return self.seq if renumbered is None else renumbered.get(self, self.seq)

    def _set_sequence_nr(self, number: int) -> None:
        """Change that number, and with it when the node runs. (A leaf's stays: it never waits.)"""
        global renumbered
        if renumbered is None:
            renumbered = weakref.WeakKeyDictionary()
        renumbered[self] = operator.index(number)

    @property
    def requires_grad(self) -> bool:
        """True: a node is there because something requires grad."""
        return True

    @property
    def _input_metadata(self) -> list[InputMetadata]:
        """What gradients this node takes: one entry for each of its outputs in forward."""
        outs = self.outs or ((self.shape, self.dtype),)
        where = _device(self)
        return [InputMetadata(Size(s), dtypes.of_numpy(d), where) for s, d in outs]

    @property
    def output_meta(self) -> tuple[tuple[tuple[int, ...], str], ...]:
        """Shape and dtype name of each output."""
        outs = self.outs or ((self.shape, self.dtype),)
        return tuple((shape, getattr(dtype, "name", str(dtype))) for shape, dtype in outs)

    @property
    def call_site(self) -> Any:
        return None if self.code is None else (self.code, self.lasti)

    def saved_fields(self) -> list[SavedField]:
        """Everything this node saved, without values."""
        return saved.describe(self)

    def saved_array(self, name: str) -> Any:
        """The saved array of that name, or None when it was freed or not saved."""
        field, _, index = name.removesuffix("]").partition("[")
        value = saved.held(self, field)
        if not index:
            return value
        part = value[int(index)] if isinstance(value, tuple) and int(index) < len(value) else None
        return getattr(part, "_array", part)

    def saved_arrays(self, most: int) -> list[tuple[str, bool, Any]]:
        """Name, whether it is its own output, and array of each saved tensor that is there."""
        return saved.arrays(self, most)

    def saved_requires_grad(self, name: str) -> bool:
        """Whether a gradient goes to the input that was saved under this name."""
        field, _, index = name.removesuffix("]").partition("[")
        value = getattr(self, f"s_{field}", None)
        part = value[int(index)] if index and isinstance(value, tuple) else value
        return bool(getattr(part, "requires_grad", False))

    @property
    def hooked(self) -> bool:
        """Whether it may have hooks."""
        return self.hooks is not None

    def hook_fields(self) -> list[HookField]:
        """Its hooks in the order in which the engine runs them."""
        return [] if self.hooks is None else self.hooks.described()

    def kept_gradients(self) -> list[Any]:
        """The gradient of each output as an array where retain_grad() kept it."""
        retain = {} if self.hooks is None else self.hooks.retain
        # By output number: they stand in the order in which retain_grad() was called.
        kept = [retain[i]() if i in retain else None for i in range(len(self.outs or ((),)))]
        return [None if t is None or t._grad is None else t._grad._array for t in kept]

    def value(self) -> Any:
        """The array of a leaf's variable; this is not a leaf."""
        return None

    def tangent(self) -> Any:
        """The tangent of a leaf's variable; this is not a leaf."""
        return None

    def leaf_writes(self) -> int:
        """How often a leaf's values were written; this is not a leaf."""
        return 0

    def leaf_status(self) -> tuple[int, Any] | None:
        """A leaf's writes, and the first numbers of its gradient; this is not a leaf."""
        return None

    def emit_creation(self, log: EventLog) -> None:
        """Emit into this log what its creation would have emitted."""
        saved.report_node(self, log)

    # Hooks -----------------------------------------------------------------------------------

    def _hooks(self) -> NodeHooks:
        if self.hooks is None:
            self.hooks = NodeHooks()
        return self.hooks

    def register_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """Call `hook(grad_inputs, grad_outputs)` after this node ran; it may replace these."""
        return register(self._hooks().post, hook)

    def register_prehook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """Call `hook(grad_outputs)` before this node runs; it may replace them."""
        return register(self._hooks().pre, hook)

    def __call__(self, *grads: Any) -> Any:
        expected = len(self.outs) if self.outs else 1
        if len(grads) != expected:
            raise TypeError(f"expected {expected} arguments, got {len(grads)} instead")
        result = tuple(self.traced(list(grads) if self.outs else grads[0]))
        return result[0] if len(result) == 1 else result


class InputMetadata(NamedTuple):
    """Shape, dtype and device of one gradient that a node takes."""

    shape: Size
    dtype: dtypes.dtype
    device: Any
    is_tensor_subclass: bool = False
    is_nested_tensor: bool = False


def _device(node: Node) -> Any:
    """The device a node computes on: that of what it saved, else of the nearest leaf."""
    seen = {node}
    pending = [node]
    while pending:
        current = pending.pop()
        if isinstance(current, AccumulateGrad):
            return current.variable.device
        for name in current.saved_names:
            array = saved.peek(current, name)
            if hasattr(array, "dtype"):
                return backend_of(array).device(array)
        for edge in current.next:
            if edge is not None and edge[0] not in seen:
                seen.add(edge[0])
                pending.append(edge[0])
    return Device("cpu")


class Error(Node):
    """History of gradients that cannot be differentiated: to run it raises RuntimeError."""

    __slots__ = ("_ends", "message", "returned")
    message: str
    # The gradients of a backward that is differentiable once, at which torch's graph ends. The
    # edges go on here: a gradient that misses what lies behind must be an error, not too small.
    returned: tuple[Any, ...] | None
    _ends: tuple[tuple[Node | None, int], ...]

    def name(self) -> str:
        return "torch::autograd::Error"

    @property
    def next_functions(self) -> tuple[tuple[Node | None, int], ...]:
        if self.returned is None:
            return super().next_functions
        if not hasattr(self, "_ends"):
            self._ends = tuple(
                (None if g is None else AccumulateGrad(g, threading.Lock()), 0)
                for g in self.returned
            )
        return self._ends

    def raw(self, F: Any, g: Any) -> Any:
        raise RuntimeError(self.message)

    def traced(self, g: Any) -> Any:
        raise RuntimeError(self.message)


def ending(
    message: str,
    edges: tuple[Edge, ...],
    outputs: tuple[Meta, ...],
    returned: tuple[Any, ...] | None = None,
) -> Error:
    """A new `Error` with this message, for tensors of these shapes and dtypes."""
    node = Error().start(edges, outputs)
    node.message = message
    node.returned = returned
    return node


class AccumulateGrad(Node):
    """The sink of the graph: adds into `variable.grad`."""

    __slots__ = ("lock", "variable")

    leaf = True
    # The same of every leaf: each forward makes one for every parameter.
    next, code, lasti, outs, freed = (), None, 0, None, None

    def __init__(self, variable: Any, lock: Any) -> None:
        self.variable = variable
        self.lock = lock
        self.seq = next(sequence)
        array = variable._array
        self.shape = array.shape
        self.dtype = array.dtype
        self.hooks = self._metadata = None
        if instrument.sink is not None:
            saved.report_leaf(self)

    def name(self) -> str:
        return "torch::autograd::AccumulateGrad"

    def _sequence_nr(self) -> int:
        return LAST

    @property
    def hooked(self) -> bool:
        leaf = self.variable._leaf
        return self.hooks is not None or bool(leaf and (leaf.hooks or leaf.post_accumulate))

    def hook_fields(self) -> list[HookField]:
        leaf = self.variable._leaf or LeafState()
        after = list(leaf.post_accumulate.described("post_accumulate"))
        own = NodeHooks() if self.hooks is None else self.hooks
        return [*leaf.hooks.described("tensor"), *own.described(after)]

    def kept_gradients(self) -> list[Any]:
        grad = self.variable._grad
        return [None if grad is None else grad._array]

    def value(self) -> Any:
        return self.variable._array

    def leaf_writes(self) -> int:
        return int(self.variable._storage.writes)

    def leaf_status(self) -> tuple[int, Any] | None:
        grad = self.variable._grad
        array = None if grad is None else grad._array
        if type(array) is not np.ndarray:
            return None
        return self.variable._storage.writes, array.flat[:FIRST]

    def tangent(self) -> Any:
        return saved.tangent_of(self.variable)

    def emit_creation(self, log: EventLog) -> None:
        saved.report_leaf(self, log)


class LeafState:
    """What a leaf keeps beside its data: its accumulator (weakly) and its own hooks."""

    __slots__ = ("accumulator", "hooks", "lock", "post_accumulate")

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.accumulator: weakref.ref[AccumulateGrad] | None = None
        self.hooks = HookTable()
        self.post_accumulate = HookTable()
