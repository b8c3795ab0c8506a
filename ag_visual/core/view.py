"""Views: who looks into whose memory, and how a view's grad_fn follows writes to that memory.

`refresh` is the one version-checked function that a view's `requires_grad` and `grad_fn` go
through. Writing through a view rebases the history of its base with `CopySlices`; other views of
the base then regenerate their grad_fn, as torch does: lazily, as AsStridedBackward0.
"""

from __future__ import annotations

import functools
import weakref
from typing import Any

from ag_visual.arrays.backend import backend_of, of_namespace
from ag_visual.core import modes, saved
from ag_visual.core.diagnosis import errors
from ag_visual.core.node import Edge, Node
from ag_visual.events import instrument

DEFAULT, NO_GRAD, MULTI_OUTPUT, INFERENCE, IN_FUNCTION = range(5)
"""Under which circumstances a view was made (torch's CreationMeta)."""

_AMBIGUOUS = (
    " Given that this use case is ambiguous and error-prone, it is forbidden. You can clarify your "
    "code by moving both the view and the inplace either both inside the {} block (if you don't "
    "want the inplace to be tracked) or both outside (if you want the inplace to be tracked)."
)
_WHY = {
    NO_GRAD: _AMBIGUOUS.format("no_grad"),
    INFERENCE: _AMBIGUOUS.format("inference_mode"),
    MULTI_OUTPUT: (
        " This view is the output of a function that returns multiple views. Such functions do not "
        "allow the output views to be modified inplace. You should replace the inplace operation "
        "by an out-of-place one."
    ),
    IN_FUNCTION: (
        " This view was created inside a custom Function (or because an input was returned as-is) "
        "and the autograd logic to handle view+inplace would override the custom backward "
        "associated with the custom Function, leading to incorrect gradients. This behavior is "
        "forbidden. You can fix this by cloning the output of the custom Function."
    ),
}


Step = tuple[Any, Any, tuple[int, ...]]
TURNED = "_turned_at"
"""Attribute of a base that changed its own geometry in place: the version at which it did."""


class View:
    """How a tensor looks into `base`: the step `(op, args)` from `parent` (None: from base)."""

    __slots__ = (
        "own_tangent",
        "args",
        "base",
        "made",
        "meta",
        "op",
        "own",
        "parent",
        "seen",
        "snapshot",
    )

    def __init__(
        self,
        base: Any,
        parent: View | None,
        op: Any,
        args: Any,
        snapshot: tuple[int, int],
        meta: int,
        seen: Any,
    ) -> None:
        self.base = base
        self.parent = parent
        self.op = op
        self.args = args
        self.snapshot = snapshot  # of the storage, when the tensor's grad_fn was last right
        self.meta = meta
        self.own = False  # whether somebody asked for the view itself to require grad
        self.seen = seen  # the array that the step looked at
        self.made: Any = None  # where, for views that were made without a node
        # A reference to the tensor that the step made, where tangents are not shared with `parent`.
        self.own_tangent: Any = None

    def chain(self) -> list[View]:
        """The views from base to this one, first one first."""
        found = []
        view: View | None = self
        while view is not None:
            found.append(view)
            view = view.parent
        return found[::-1]

    def steps(self) -> list[Step]:
        """The steps from base to this view, first one first, each with the shape it looks at."""
        return [(view.op, view.args, view.seen.shape) for view in self.chain()]


def child_meta(parent: View | None, *, multi: bool = False) -> int:
    """The creation meta of a view made now: what is unusual now, else what it inherits."""
    inherited = DEFAULT if parent is None else parent.meta
    if inherited == INFERENCE or (modes.special and modes.state.inference):
        return INFERENCE
    if not modes.grad_enabled():
        return NO_GRAD
    if multi:
        return MULTI_OUTPUT
    return inherited


class AsStridedBackward0(Node):
    """Backward of a regenerated view: all steps from its base at once.

    strides: of the base, None where it is row-major. Its gradient lies in memory as it does.
    """

    __slots__ = ("a_size", "a_storage_offset", "a_stride", "steps", "strides")
    skips = True

    value_names = ("size", "stride", "storage_offset")

    def __init__(
        self,
        array: Any,
        offset: int | None,
        edge: Edge,
        steps: list[Step],
        strides: tuple[int, ...] | None,
    ) -> None:
        self.start((edge,), ((array.shape, array.dtype),))
        self.steps = steps
        self.strides = strides
        item = array.dtype.itemsize
        self.a_size = tuple(array.shape)
        self.a_stride = tuple(stride // item for stride in array.strides)
        self.a_storage_offset = offset
        if instrument.sink is not None:
            saved.report_node(self)

    _saved_size = property(lambda self: self.a_size)
    _saved_stride = property(lambda self: self.a_stride)
    _saved_storage_offset = property(lambda self: self.a_storage_offset)

    def raw(self, F: Any, g: Any) -> Any:
        return (None if self.next[0] is None else self._back(F, g),)

    def traced(self, g: Any) -> Any:
        if self.next[0] is None:
            return (None,)
        F = self.steps[0][0].table.traced
        found = self._back(F, g)
        # In memory of its own, as torch's: a hook may write it.
        return (F.clone(found, "C") if found is g or found._view is not None else found,)

    def _back(self, F: Any, g: Any) -> Any:
        for op, args, shape in reversed(self.steps):
            g = op.view_back(F, g, shape, args)
        if self.strides is None:
            return F.contiguous(g)
        array = g._array if F.traced else g
        return g if array.strides == self.strides else _laid(F, g, array, self.strides)


def _laid(F: Any, g: Any, array: Any, strides: tuple[int, ...]) -> Any:
    """A copy of a gradient (its array: `array`) with these strides, gaps of zeros included."""
    if hasattr(array, "unsupported") or (F.traced and modes.state.levels):
        return _laid_at_level(F, g, array, strides)
    memory = spread(backend_of(array).xp, array.shape, array.dtype, strides)
    if F.traced:
        return saved.constant(memory).copy_(g)
    memory[...] = g
    return memory


def _laid_at_level(F: Any, g: Any, array: Any, strides: tuple[int, ...]) -> Any:
    """The same, which belongs to the level of the gradient."""
    shape = tuple(array.shape)
    if not distinct(shape, strides, array.dtype.itemsize):
        return F.clone_in(g, "C")
    places = tuple(stride // array.dtype.itemsize for stride in strides)
    length = 0 if 0 in shape else 1
    length += sum((n - 1) * s for n, s in zip(shape, places, strict=True)) if length else 0
    return F.as_strided(F.as_strided_backward(g, (length,), shape, places, 0), shape, places)


def _own_strides(array: Any) -> tuple[int, ...] | None:
    """The strides of an array, None for a row-major one."""
    return None if array.flags.c_contiguous else array.strides


def spread(xp: Any, shape: Any, dtype: Any, strides: tuple[int, ...]) -> Any:
    """Zeros of a shape with these strides (in bytes), gaps included, in memory of their own.

    Row-major where the strides put several elements in one place.
    """
    item = dtype.itemsize
    if not distinct(shape, strides, item):
        return xp.zeros(shape, dtype)
    length = 1 + sum((n - 1) * s for n, s in zip(shape, strides, strict=True)) // item
    return of_namespace(xp).as_strided(xp.zeros((length,), dtype), shape, strides)


def distinct(shape: Any, strides: tuple[int, ...], item: int = 1) -> bool:
    """Do strides surely give every element a place of its own?"""
    end = item
    for stride, n in sorted(zip(strides, shape, strict=True)):
        if n > 1:
            if stride < end:
                return False
            end = stride * n
    return True


def _check_agreed(part: Any, mine: Any) -> None:
    """Refuse a gradient that has several values for one place in memory."""
    if not bool(((part == mine) | (mine != mine)).all()):
        raise RuntimeError(
            "unsupported operation: more than one element of the written-to tensor refers to a "
            "single memory location, and it was written through some of them alone. Please clone() "
            "the tensor before performing the operation."
        )


class CopySlices(Node):
    """History of a base written through a view: the rest passes, the slice goes to `fn`."""

    __slots__ = ("fn", "spent", "steps", "strides")

    def __init__(self, base: Any, edge: Edge, view: View, fn: Node) -> None:
        array = base._array
        self.start((edge, *fn.next[1:]), ((array.shape, array.dtype),))
        self.fn = fn
        self.spent = False  # whether a backward has released the function
        self.steps = view.steps()
        # Of a base that is not row-major: a step may look at its memory in another order.
        self.strides = _own_strides(array)
        self.code, self.lasti = fn.code, fn.lasti
        # An output that the function saved is what the view shows now: its history is ours.
        for name in fn.saved_names:
            owner = getattr(fn, f"o_{name}", None)
            if owner is not None and owner[2]:
                setattr(fn, f"o_{name}", (owner[0], owner[1], weakref.ref(self)))
        if instrument.sink is not None:
            saved.report_node(self)

    def name(self) -> str:
        return "torch::autograd::CopySlices"

    def raw(self, F: Any, g: Any) -> Any:
        self._check_unspent()
        table = self.steps[0][0].table
        xp = F.xp
        # A copy of the gradient that lies in memory as the base does.
        to = self.strides
        result = xp.array(g, order="C", copy=True) if to is None else _laid(F, g, g, to)
        part = result
        for op, args, _ in self.steps:
            part = op.view_array(xp, part, args)
        mine = xp.array(part, copy=True)
        if self.fn.holomorphic and part.dtype.kind == "c":
            # The engine conjugates by the base's dtype; the function sees the view's.
            grads = [x if x is None else F.conj(x) for x in self.fn.raw(F, F.conj(mine))]
        else:
            grads = list(self.fn.raw(F, mine))
        mine = grads[0]
        if mine is None:
            part[...] = 0
        else:
            mine = table.fit(xp, mine, part.shape, part.dtype)
            part[...] = mine
            if not distinct(part.shape, part.strides, part.dtype.itemsize):
                _check_agreed(part, mine)
        grads[0] = result
        return grads

    def traced(self, g: Any) -> Any:
        self._check_unspent()
        F, to = self.steps[0][0].table.traced, self.strides
        result = F.clone_in(g, "C") if to is None else _laid(F, g, g._array, to)
        part = result
        for op, args, _ in self.steps:
            part = op.replay(part, args)
        grads = list(self.fn.traced(part.clone()))
        mine = grads[0]
        if mine is None:
            part.zero_()
        else:
            level = getattr(mine, "level", None)
            if level is not None and getattr(result, "level", None) is not level:
                # The gradient has the slices of a vmap; so must what it is written into.
                zero = F.mul(F.cast(F.ne(mine, mine), g._array.dtype), 0).sum()
                result = part = F.add(result, zero)
                if to is not None:
                    result = part = _laid(F, result, result._array, to)
                for op, args, _ in self.steps:
                    part = op.replay(part, args)
            part.copy_(mine)
        grads[0] = result
        return grads

    def edge_of(self, array: Any) -> Edge:
        """Where gradients of the written view (`array`) go: through the base, to this node."""
        return AsStridedBackward0(array, None, self.edge(), self.steps, self.strides).edge()

    def acquire(self, call_site: Any) -> None:
        # As in torch the function is gone after its first run, whether it saved anything or not.
        saved.acquire(self, call_site)
        self.fn.acquire(call_site)

    def release(self) -> None:
        self.fn.release()
        self.spent = True

    def _check_unspent(self) -> None:
        if self.spent:
            raise errors.freed_graph(self)


def refresh(tensor: Any) -> None:
    """Bring a view's requires_grad and grad_fn up to date with its base."""
    view = tensor._view
    snapshot = tensor._storage.snapshot
    base = view.base
    if tensor._edge is None and not base._rg:
        view.snapshot = snapshot
        tensor._rg = view.own
        return
    if snapshot[0] == view.snapshot[0]:
        view.snapshot = snapshot
        if tensor._edge is None and tensor._array.dtype.kind in "fcV":
            tensor._rg = True
        return
    if view.meta != DEFAULT:
        raise errors.view_inplace(
            tensor,
            "",
            message(tensor, indirect=True),
            view.made or (tensor._edge and tensor._edge[0].call_site),
        )
    if base.__dict__.get(TURNED, -1) > view.snapshot[0]:
        raise RuntimeError(
            "A view cannot be followed any more: after it was made, its base (shape "
            f"{list(base._array.shape)}) changed its own geometry in place (t_, transpose_, "
            "squeeze_ or unsqueeze_) and was written. Change the geometry out of place, or make "
            "the view afterwards."
        )
    if modes.state.view_replay:
        _replay(tensor, view, snapshot)
        return
    old = tensor._edge
    tensor._edge = _regenerated(tensor, view)
    tensor._rg = True
    view.snapshot = snapshot
    move_retain_grad(tensor, old)


def _regenerated(tensor: Any, view: View) -> Edge:
    """A view's history by AsStridedBackward0, and by a step's own node where the dtype changes.

    (as_strided makes no elements of another dtype.) As in torch one node takes all steps up to the
    first that changes it; each step after that has its own.
    """
    # torch orders the two the same way: the base's history first, then the view's node.
    edge: Edge = view.base.gradient_edge()
    views = view.chain()
    arrays = [each.seen for each in views[1:]] + [tensor._array]
    run: list[Step] = []
    strides = _own_strides(view.base._array)  # of what the run begins with
    changed = False
    for each, array in zip(views, arrays, strict=True):
        changes = array.dtype != each.seen.dtype
        if not changes:
            run.append((each.op, each.args, each.seen.shape))
        if run and (changes or changed):
            strided = each.seen if changes else array
            offset = _offset(tensor, strided)
            edge = AsStridedBackward0(strided, offset, edge, run, strides).edge()
            run = []
        if changes:
            changed = True
            source = saved.constant(each.seen)
            source._edge, source._rg = edge, True
            again = modes.in_grad_mode(True, functools.partial(each.op.replay, source, each.args))
            edge = again._edge
        if not run:
            strides = _own_strides(array)
    if run:
        offset = _offset(tensor, tensor._array)
        edge = AsStridedBackward0(tensor._array, offset, edge, run, strides).edge()
    return edge


def _offset(tensor: Any, array: Any) -> int:
    """The storage offset of an array in the memory that a tensor looks into."""
    if hasattr(array, "unsupported"):
        return 0  # the outline of a slice
    pointer = backend_of(array).pointer
    start = array if tensor._memory is None else tensor._memory
    return int((pointer(array) - pointer(start)) // array.itemsize)


def _replay(tensor: Any, view: View, snapshot: tuple[int, int]) -> None:
    """Regenerate the history of a view by its own ops, one node each."""

    def play() -> Any:
        again = view.base
        for op, args, _ in view.steps():
            again = op.replay(again, args)
        return again

    again = modes.in_grad_mode(True, play)
    old = tensor._edge
    tensor._edge, tensor._rg = again._edge, True
    view.snapshot = snapshot
    move_retain_grad(tensor, old)


def move_retain_grad(tensor: Any, old: Edge) -> None:
    """retain_grad follows the tensor to its new node; other hooks stay with the old one."""
    if old is None or old[0].hooks is None:
        return
    ref = old[0].hooks.retain.pop(old[1], None)
    call_site = old[0].hooks.retained.pop(old[1], None)
    if ref is not None:
        edge = tensor._edge
        own = edge[0]._hooks()
        own.retain[edge[1]], own.retained[edge[1]] = ref, call_site


def message(tensor: Any, *, indirect: bool = False) -> str:
    """torch's text for a view that must not be modified, or (indirect) whose base was."""
    meta = tensor._view.meta
    edge = tensor._edge
    what = "its base or another view of its base has been" if indirect else "is being"
    if meta not in (NO_GRAD, INFERENCE) and edge is not None:
        start = f"Output {edge[1]} of {edge[0].name()} is a view and {what} modified inplace."
        return start + _WHY[meta]
    start = "A view was created in"
    if edge is not None:
        start = f"Output {edge[1]} of {edge[0].name()} is a view of a view which was created in"
    if meta == INFERENCE:
        return f"{start} inference mode and {what} modified inplace in normal mode.{_WHY[meta]}"
    return f"{start} no_grad mode and {what} modified inplace with grad mode enabled.{_WHY[meta]}"
