"""torch.autograd.graph: nodes, gradient edges, saved-tensor hooks, multi-grad hooks.

Source: https://pytorch.org/docs/2.8/autograd.html#autograd-graph
"""

from __future__ import annotations

import contextlib
import threading
import weakref
from collections.abc import Callable, Generator, Iterable, Sequence
from typing import Any, Literal, NamedTuple

from ag_visual.arrays.backend import backend_of, data_pointer, is_array
from ag_visual.core import modes
from ag_visual.core.hooks import RemovableHandle
from ag_visual.core.node import AccumulateGrad, Node
from ag_visual.core.storage import Storage, unwritten
from ag_visual.core.tensor import Tensor, from_array
from ag_visual.devices import device as Device
from ag_visual.engine.run import running
from ag_visual.engine.task import GraphTask
from ag_visual.errors import type_name
from ag_visual.names import only as _only

__all__ = [
    "AccumulateGrad",
    "GradientEdge",
    "Node",
    "allow_mutation_on_saved_tensors",
    "disable_saved_tensors_hooks",
    "get_gradient_edge",
    "increment_version",
    "register_multi_grad_hook",
    "save_on_cpu",
    "saved_tensors_hooks",
]


class GradientEdge(NamedTuple):
    """Where a gradient goes: a node and the number of its output."""

    node: Node
    output_nr: int
    ownership_token: object = None


def get_gradient_edge(tensor: Tensor) -> GradientEdge:
    """The gradient edge of a tensor; raises RuntimeError when it requires no grad."""
    edge = tensor.gradient_edge() if tensor.requires_grad else None
    if edge is None:
        raise RuntimeError(
            "It is not possible to get the gradient edge for a Tensor that does not require "
            f"gradients (shape {list(tensor.shape)}, dtype {tensor.dtype})"
        )
    return GradientEdge(*edge[:2])


def increment_version(tensor: Tensor | Iterable[Tensor]) -> None:
    """Say that a tensor was modified by means that autograd cannot see."""
    from ag_visual.core.tensor import wrote

    if not isinstance(tensor, (Tensor, Iterable)):
        raise RuntimeError(
            f"increment_version expect a Iterable[Tensor] as input, but got {type_name(tensor)}"
        )
    for each in [tensor] if isinstance(tensor, Tensor) else tensor:
        wrote(each, "increment_version")


NO_SAVED_HOOKS = (
    "torch.func.{grad, vjp, jacrev, hessian} don't yet support saved tensor hooks. Please open an "
    "issue with your use case."
)


def check_saved_hooks() -> None:
    """Raise where saved-tensor hooks may not be used."""
    state = modes.state
    if state.saved_hooks_disabled is not None:
        raise RuntimeError(state.saved_hooks_disabled)
    if any(level.kind == "grad" for level in state.levels):
        raise RuntimeError(NO_SAVED_HOOKS)


class saved_tensors_hooks:
    """Pack every tensor that is saved inside with `pack_hook`, unpack it with `unpack_hook`.

    pack_hook(tensor) may return anything; unpack_hook must return a tensor from it. Only the
    innermost pair applies.

    >>> import ag_visual as ag
    >>> x = ag.tensor([2.], requires_grad=True)
    >>> with ag.autograd.graph.saved_tensors_hooks(lambda t: t * 1, lambda t: t):
    ...     y = x * x
    >>> y.backward()
    >>> x.grad
    tensor([4.])
    """

    def __init__(
        self, pack_hook: Callable[[Tensor], Any], unpack_hook: Callable[[Any], Tensor]
    ) -> None:
        self.pack_hook = pack_hook
        self.unpack_hook = unpack_hook

    def __enter__(self) -> None:
        check_saved_hooks()
        modes.changing()
        pair = self.pack_hook, self.unpack_hook
        modes.set_slow("saved_hooks", (*modes.state.saved_hooks, pair), 1)

    def __exit__(self, *_: object) -> None:
        modes.set_slow("saved_hooks", modes.state.saved_hooks[:-1], -1)


class save_on_cpu(saved_tensors_hooks):
    """Keep saved tensors on the CPU and move them back when backward needs them.

    pin_memory: into page-locked memory, from where they come back fastest. device_type: only
    tensors on this type of device are moved.
    """

    def __init__(self, pin_memory: bool = False, device_type: str = "cuda") -> None:
        def pack(tensor: Tensor) -> tuple[Device, Tensor]:
            if tensor.device.type == "cpu":
                return (tensor.device, tensor.clone() if pin_memory else tensor)
            array = tensor._array
            if pin_memory and is_array(array):
                return (tensor.device, from_array(backend_of(array).to_pinned(array)))
            return (tensor.device, tensor.cpu())

        def unpack(packed: tuple[Device, Tensor]) -> Tensor:
            device, tensor = packed
            moved: Tensor = tensor.to(device)
            return moved

        super().__init__(pack, unpack)


@contextlib.contextmanager
def disable_saved_tensors_hooks(error_message: str) -> Generator[None, None, None]:
    """Raise RuntimeError(error_message) where saved-tensor hooks are used inside."""
    state = modes.state
    if state.saved_hooks:
        raise RuntimeError(error_message)
    modes.changing()
    previous = state.saved_hooks_disabled
    state.saved_hooks_disabled = error_message
    try:
        yield
    finally:
        state.saved_hooks_disabled = previous


class _Handles(RemovableHandle):
    """Removes several hooks as one."""

    __slots__ = ("_handles",)

    def __init__(self, handles: Sequence[RemovableHandle]) -> None:
        self._handles = tuple(handles)
        self.id = handles[0].id if handles else -1

    def remove(self) -> None:
        for handle in self._handles:
            handle.remove()


def register_multi_grad_hook(
    tensors: Sequence[Tensor], fn: Callable[..., None], *, mode: Literal["all", "any"] = "all"
) -> RemovableHandle:
    """Call `fn` once per backward with the gradients of several tensors.

    mode "all": when all that will get a gradient have it, with a list in which the others are
    None. mode "any": with the first one. Nothing is kept alive: the hook goes with the graph.
    """
    if mode not in ("all", "any"):
        raise ValueError(f"Expects mode to be one of ('all', 'any') but got {mode}")
    lock = threading.Lock()
    if mode == "any":
        done: weakref.WeakSet[GraphTask] = weakref.WeakSet()

        def first(grad: Tensor) -> None:
            task = _task()
            with lock:
                if task in done:
                    return
                done.add(task)
            fn(grad)

        vars(first)["stands_for"] = fn
        return _Handles([t.register_hook(first) for t in tensors])

    count = len(tensors)
    owners = [_owner(t) for t in tensors]
    # Per backward: how many gradients are still to come, and those that came. Dropped with it.
    waiting: weakref.WeakKeyDictionary[GraphTask, list[Any]] = weakref.WeakKeyDictionary()

    def make(index: int) -> Callable[[Tensor], None]:
        def hook(grad: Tensor) -> None:
            task = _task()
            with lock:
                entry = waiting.get(task)
                if entry is None:
                    expected = sum(task.will_run(node) for node in map(_node_of, owners))
                    entry = waiting[task] = [expected, [None] * count]
                entry[0] -= 1
                entry[1][index] = grad
            if entry[0] == 0:
                fn(entry[1])

        vars(hook)["stands_for"] = fn
        return hook

    return _Handles([t.register_hook(make(i)) for i, t in enumerate(tensors)])


def _owner(tensor: Tensor) -> weakref.ref[Node | Tensor]:
    """What holds the hooks of a tensor: its node, or a leaf itself. Weakly: they hold this."""
    return weakref.ref(tensor.grad_fn or tensor)


def _node_of(owner: weakref.ref[Node | Tensor]) -> Node | None:
    found = owner()
    if not isinstance(found, Tensor):
        return found
    # Also where the level of a transform that it belongs to is closed: its graph is what runs.
    edge = Tensor.gradient_edge(found)
    return None if edge is None else edge[0]


def _task() -> GraphTask:
    task = running()
    if task is None:
        raise RuntimeError("multi-grad hooks run only during a backward pass")
    return task


def _current_graph_task_id() -> int:
    """The number of the backward that runs in this thread, -1 outside of one."""
    task = running()
    return -1 if task is None else int(task.id)


def _will_engine_execute_node(node: Node) -> bool:
    """Whether the backward that runs in this thread runs this node."""
    if not isinstance(node, Node):
        raise RuntimeError(
            f"_will_engine_execute_node expects an grad_fn, but got {type(node).__name__}"
        )
    return _get_should_execute_nodes([node])[0]


def _get_should_execute_nodes(nodes: Iterable[Node]) -> list[bool]:
    """`_will_engine_execute_node` of several nodes."""
    task = running()
    if task is None:
        raise RuntimeError(
            "_get_should_execute_nodes should only be called during the backward pass"
        )
    return [task.will_run(node) for node in nodes]


def _current_graph_task_execution_order() -> list[Node]:
    """All nodes of the running backward in the order in which they run."""
    task = running()
    if task is None:
        raise RuntimeError(
            "_current_graph_task_execution_order should only be called during the backward pass"
        )
    if modes.state.multithreading:
        raise RuntimeError(
            "get_current_graph_task_execution_order expects the current backward to be executed "
            "with multithreading disabled, e.g. by running:\n\n"
            ">>> with torch.autograd.set_multithreading_enabled(False):\n"
            "...     torch.autograd.grad(...)\n"
        )
    return list(task.execution_order())


class _Kept:
    """The values of one tensor that was saved while its mutation is allowed."""

    __slots__ = ("__weakref__", "array", "storage")

    def __init__(self, tensor: Tensor) -> None:
        self.array = tensor._array
        self.storage = tensor._storage

    def shows(self, array: Any) -> bool:
        """Whether this array looks at the same elements of the same memory."""
        mine = self.array
        return bool(
            array.dtype == mine.dtype
            and array.shape == mine.shape
            and array.strides == mine.strides
            and data_pointer(array) == data_pointer(mine)
        )

    def keep(self) -> None:
        """Copy the values: somebody is about to write them."""
        self.array = self.array.copy()
        self.storage = unwritten()

    def tensor(self) -> Tensor:
        result: Tensor = from_array(self.array)
        result._store = self.storage
        return result


class _Mutation:
    """What was saved under `allow_mutation_on_saved_tensors`, by storage."""

    def __init__(self) -> None:
        self.saved: weakref.WeakKeyDictionary[Storage, list[weakref.ref[_Kept]]] = (
            weakref.WeakKeyDictionary()
        )
        self.active = True

    def pack(self, tensor: Tensor) -> _Kept:
        known = self.saved.get(tensor._storage, ())
        alive = [kept for ref in known if (kept := ref()) is not None]
        # All of them are of this version: a write takes those of the version before it away.
        for kept in alive:
            if kept.shows(tensor._array):
                return kept
        kept = _Kept(tensor)
        self.saved[tensor._storage] = [weakref.ref(each) for each in (*alive, kept)]
        return kept

    def unpack(self, kept: _Kept) -> Tensor:
        if not self.active:
            raise AssertionError(
                "Trying to backward outside of the 'allow_mutation_on_saved_tensors' context"
                "in which the graph was originally recorded."
            )
        return kept.tensor()

    def before_write(self, tensor: Tensor) -> None:
        for ref in self.saved.pop(tensor._storage, ()):
            kept = ref()
            if kept is not None:
                kept.keep()


@contextlib.contextmanager
def allow_mutation_on_saved_tensors() -> Generator[_Mutation, None, None]:
    """Inside, in-place writes to saved tensors are fine: a write copies what was saved first.

    Forward and backward must both run inside. Raises RuntimeError when nested.

    >>> import ag_visual as ag
    >>> with ag.autograd.graph.allow_mutation_on_saved_tensors():
    ...     a = ag.tensor([2.], requires_grad=True)
    ...     b = a.clone()
    ...     out = b * b
    ...     _ = b.zero_()
    ...     out.backward()
    >>> a.grad
    tensor([4.])
    """
    if modes.state.mutation is not None:
        raise RuntimeError("allow_mutation_on_saved_tensors contexts cannot be nested")
    context = _Mutation()
    with saved_tensors_hooks(context.pack, context.unpack):
        try:
            modes.state.mutation = context
            yield context
        finally:
            modes.state.mutation = None
            context.active = False
            context.saved.clear()


__dir__ = _only(__all__, __name__)
