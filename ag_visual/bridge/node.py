"""A node of torch's graph as readers know one (`events.live`), and finding new ones in a graph.

Each node of C++ has a dictionary, `metadata`, that lives as long as it. A `TorchNode` lies in it:
it never holds torch's own node, as that would be a circle through C++ that nobody collects, but
finds it again from a living tensor above when somebody asks for saved values.
"""

from __future__ import annotations

import operator
import re
import weakref
from bisect import bisect_left
from collections.abc import Callable, Sequence
from threading import get_ident
from time import perf_counter_ns
from types import CodeType
from typing import Any, Final, NamedTuple

import torch
from torch._C import DisableTorchFunction, _is_torch_function_mode_enabled

from ag_visual.bridge.arrays import Memory, array_of, dtypes, measured, memory_of
from ag_visual.events import instrument
from ag_visual.events.live import SavedField
from ag_visual.events.log import EventLog, HookField, Saved as SavedColumns
from ag_visual.events.memory import CallSite
from ag_visual.events.node_record import sequence

KEY: Final = "ag_visual"
"""Of a node's metadata: a `Birth` until somebody looks, then its `TorchNode`."""

FREED: Final = "ag_visual freed"
"""Of a node's metadata: where the backward was called that freed it, while nothing is recorded."""

Birth = tuple[CodeType | None, int, int, int, int, Any, Any]
"""Code and lasti of the line, when (perf_counter_ns), the thread, the first sequence number that
its operation may have given to a node; shape and torch's dtype of its result, None if unknown."""

Root = tuple[Any, "weakref.ref[Any] | None"]
"""torch's node that a graph ends in, and the tensor that it made."""

NO_BIRTH: Final[Birth] = (None, 0, 0, 0, 0, None, None)

HOOKS: Final = "ag_visual hooks"
"""Of a node's metadata: hooks that were added to its tensors."""

Hooked = tuple[HookField, Callable[[], Any]]
"""A hook, and a weak reference to the dictionary that has it until it is removed."""

VERSIONS: Final = re.compile(r"is at version (\d+); expected version (\d+) instead")


class Kind(NamedTuple):
    """What nodes of one class of torch's may have saved: (name, raw attribute, attribute)."""

    leaf: bool
    tensors: tuple[tuple[str, str, str], ...]
    values: tuple[tuple[str, str], ...]


_custom: Final = Kind(False, (("saved_tensors", "_raw_saved_tensors", "saved_tensors"),), ())


class _Kinds(dict[type, Kind]):
    def __missing__(self, kind: type) -> Kind:
        if issubclass(kind, torch.autograd.function.BackwardCFunction):
            return _custom  # classes of the user's: not kept
        names = [name.removeprefix("_saved_") for name in dir(kind) if name.startswith("_saved_")]
        raw = {name for name in names if hasattr(kind, f"_raw_saved_{name}")}
        self[kind] = found = Kind(
            kind.__name__ == "AccumulateGrad",
            tuple((n, f"_raw_saved_{n}", f"_saved_{n}") for n in names if n in raw),
            tuple((n, f"_saved_{n}") for n in names if n not in raw),
        )
        return found


kinds = _Kinds()


class Saved(NamedTuple):
    """One saved tensor as it was when it was first looked at. version: the one it was saved at."""

    name: str
    kind: str  # tensor or packed
    shape: tuple[int, ...]
    dtype: Any
    memory: Memory | None
    version: int
    own: bool
    now: int


def read_saved(function: Any) -> list[Saved]:
    """What a node of torch's has saved and not yet given back; runs no hook of the user's."""
    found: list[Saved] = []
    for name, raw_name, attribute in kinds[type(function)].tensors:
        try:
            raw = getattr(function, raw_name)
        except RuntimeError:
            return []  # it has given everything back
        if type(raw) is tuple:
            for index, part in enumerate(raw):
                if part.unpack_hook is not None:
                    found.append(_packed(f"{name}[{index}]"))
                else:
                    _read_part(function, f"{name}[{index}]", part, attribute, index, found)
        elif raw.unpack_hook is not None:
            found.append(_packed(name))
        else:
            try:
                value = getattr(function, attribute)
                if value is None:
                    continue
                own = value.grad_fn is function
                what = name, "tensor", value.shape, dtypes[value.dtype], memory_of(value)
                now = value._version
            except RuntimeError:
                _read_part(function, name, raw, attribute, None, found)
            else:
                found.append(_new(Saved, (*what, now, own, now)))
    return found


_new: Final = tuple.__new__


def _packed(name: str) -> Saved:
    return Saved(name, "packed", (), None, None, 0, False, 0)


def _read_part(
    function: Any, name: str, raw: Any, attribute: str, index: int | None, found: list[Saved]
) -> None:
    """One of several tensors, or one that was written or that counts no versions."""
    then: int | None = None
    try:
        value = getattr(function, attribute)
        if index is not None and value is not None:
            value = value[index]
    except RuntimeError as error:
        version = VERSIONS.search(str(error))
        if version is None:
            return
        value, then = raw.data, int(version[2])
        own = index is None and _is_own(name)
    else:
        own = value is not None and value.grad_fn is function
    if value is None:
        return
    now = _version(value)
    kept = value.shape, dtypes[value.dtype], memory_of(value)
    found.append(Saved(name, "tensor", *kept, now if then is None else then, own, now))


def _is_own(name: str) -> bool:
    """Whether torch calls so what is the node's own output; where that can't be asked any more."""
    return name.startswith(("result", "output"))


def _version(tensor: Any) -> int:
    try:
        return int(tensor._version)
    except RuntimeError:  # inference tensors count no versions
        return 0


_with_one_output: Final[set[type]] = set()
"""Classes whose nodes have one output where their operation returns one tensor."""


class TorchNode:
    """A node of torch's graph: `events.live.LiveNode`."""

    __slots__ = (
        *("__weakref__", "_above", "_name", "_tensor", "_variable", "computes", "freed", "handle"),
        "hooks",
        *("kind", "leaf", "made", "next_functions", "outputs", "call_site", "saved", "seq", "task"),
        "thread",
    )

    def __init__(self, function: Any, metadata: Any, birth: Birth, thread: int) -> None:
        of = type(function)
        kind = kinds[of]
        self.seq = next(sequence)
        self.kind = of
        self._name: str = function.name()
        self.leaf = kind.leaf
        code, lasti, made, its_thread, _, shape, dtype = birth
        self.call_site: CallSite = None if code is None else (code, lasti)
        self.made = made or perf_counter_ns()
        self.thread = its_thread or thread
        self.next_functions: tuple[tuple[TorchNode | None, int], ...] = ()
        self.freed: CallSite = metadata.get(FREED)
        self.hooks: list[Hooked] | None = metadata.get(HOOKS)
        self.task: Any = None  # the backward that is about to run it, or ran it last
        self.handle: Any = None  # of the hook of this package in torch's node
        self._above: list[weakref.ref[TorchNode]] | None = None
        self._tensor: weakref.ref[Any] | None = None  # a tensor that it made
        self._variable: weakref.ref[Any] | None = None
        self.saved: list[Saved] = []
        self.computes = kind is _custom  # whether it runs Python code of the user's
        if kind.leaf:
            variable = function.variable
            self._variable = weakref.ref(variable)
            self.outputs: Any = ((tuple(variable.shape), dtypes[variable.dtype]),)
            return
        if shape is not None and of in _with_one_output:
            self.outputs = ((shape, dtypes[dtype]),)
        else:
            found = [(tuple(meta.shape), dtypes[meta.dtype]) for meta in function._input_metadata]
            if shape is not None and len(found) == 1 and kind is not _custom:
                _with_one_output.add(of)
            self.outputs = tuple(found) or (((), dtypes[torch.float32]),)
        self.saved = saved = read_saved(function)
        if saved and saved[0].kind == "packed":
            self.computes = True

    def __repr__(self) -> str:
        return f"<{self.name()} {self.seq} of torch>"

    # What readers ask ------------------------------------------------------------------------

    @property
    def variable(self) -> Any:
        """A leaf's tensor."""
        return None if self._variable is None else self._variable()

    @property
    def output_meta(self) -> list[tuple[tuple[int, ...], str]]:
        """Shape and dtype name of each output."""
        return [(shape, dtype.name) for shape, dtype in self.outputs]

    def name(self) -> str:
        """The operation as torch names it."""
        return "torch::autograd::AccumulateGrad" if self.leaf else self._name

    def saved_fields(self) -> list[SavedField]:
        """Everything that it saved, without values; of a node that no tensor leads to, as then."""
        with DisableTorchFunction():
            function = self.function()
            now = self.saved if function is None else read_saved(function)
            gone = self.freed is not None or (function is not None and not now)
            known = {each.name: each for each in now}
            found = []
            for was in self.saved:
                is_ = known.get(was.name, was)
                nbytes = 0 if was.dtype is None else was.dtype.itemsize
                for length in was.shape:
                    nbytes *= length
                found.append(
                    SavedField(
                        *(was.name, was.kind, was.shape, was.dtype and was.dtype.name, nbytes),
                        None if was.memory is None else was.memory.number,
                        was.version,
                        None if gone or was.kind == "packed" else is_.now,
                        gone,
                        was.own,
                    )
                )
            if function is not None:
                for name, attribute in kinds[type(function)].values:
                    value = getattr(function, attribute, None)
                    if value is not None:
                        found.append(SavedField(name, "value", value=value))
            return found

    def saved_array(self, name: str) -> Any:
        """The saved array of a name from `saved_fields`; None where it is gone."""
        with DisableTorchFunction():
            function = self.function()
            if function is None:
                return None
            whole, _, index = name.partition("[")
            for own, raw_name, attribute in kinds[type(function)].tensors:
                if own != whole:
                    continue
                try:
                    raw = getattr(function, raw_name)
                    raw = raw[int(index[:-1])] if index else raw
                    if raw.unpack_hook is not None:
                        return None
                    value = getattr(function, attribute)
                    value = value[int(index[:-1])] if index else value
                except RuntimeError:
                    return None
                return None if value is None else array_of(value)
            return None

    @property
    def hooked(self) -> bool:
        """Whether `hook_fields` may find any."""
        if self.hooks is not None:
            return True
        variable = self.variable
        return variable is not None and bool(
            variable._backward_hooks or getattr(variable, "_post_accumulate_grad_hooks", None)
        )

    def hook_fields(self) -> list[HookField]:
        """The hooks of a leaf's tensor, and of others those that were seen when they were added."""
        variable = self.variable
        if variable is None:
            return [field for field, hooks in self.hooks or () if field.key in (hooks() or ())]
        found = []
        for kind, name in (
            ("tensor", "_backward_hooks"),
            ("post_accumulate", "_post_accumulate_grad_hooks"),
        ):
            for key, hook in (getattr(variable, name, None) or {}).items():
                called = getattr(hook, "__qualname__", type(hook).__name__)
                found.append(HookField(kind, called, 0, key, None))
        return found

    def kept_gradients(self) -> list[Any]:
        """The gradient of a leaf; torch shows nobody those of other nodes."""
        with DisableTorchFunction():
            variable = self.variable
            grad = None if variable is None else variable.grad
            return [None if grad is None else array_of(grad)]

    def value(self) -> Any:
        """The array of a leaf's variable."""
        with DisableTorchFunction():
            variable = self.variable
            return None if variable is None else array_of(variable)

    def tangent(self) -> Any:
        """Tangents of torch's forward mode are not followed."""
        return None

    def emit_birth(self, log: EventLog) -> None:
        """Emit into this log what its birth would have told."""
        if self.leaf:
            assert self._variable is not None
            (meta,) = self.outputs
            memory = None
            variable = self._variable()
            if variable is not None:
                with DisableTorchFunction():
                    memory = memory_of(variable)
            log.keep(weakref.ref(self))
            number = 0 if memory is None else memory.number
            log.leaf((self.made, self.thread, self.seq, *meta, number, self._variable))
            return
        names: list[tuple[str, bool]] = []
        facts: list[Any] = []
        numbers: list[int] = []
        for each in self.saved:
            if each.memory is not None:
                names.append((each.name, each.own))
                facts += (each.shape, each.dtype)
                numbers += (each.memory.number, each.version)
        saved: SavedColumns = names, facts, numbers
        edges = [(-1 if below is None else below.seq, at) for below, at in self.next_functions]
        code, lasti = self.call_site or (None, 0)
        when = {"made": self.made, "thread": self.thread}
        log.node(self, self.kind, code, lasti, self.outputs, edges, saved, **when)

    # Finding torch's own node ------------------------------------------------------------------

    def made_tensor(self, tensor: weakref.ref[Any]) -> None:
        """A tensor whose `grad_fn` it is."""
        self._tensor = tensor

    def used_by(self, above: weakref.ref[TorchNode]) -> None:
        """A node above has an edge to this one."""
        known = self._above
        if known is None:
            self._above = [above]
            return
        count = len(known)
        if count > 8 and not count & (count - 1):
            self._above = known = [ref for ref in known if ref() is not None]
        known.append(above)

    def function(self) -> Any:
        """torch's own node, as far as a living tensor or a running backward leads to it."""
        if self.leaf:
            variable = self.variable
            if variable is None or not variable.requires_grad:
                return None
            function = torch.autograd.graph.get_gradient_edge(variable).node
            return function if function.metadata.get(KEY) is self else None
        seen: set[TorchNode] = {self}
        pending: list[tuple[TorchNode, tuple[TorchNode, ...]]] = [(self, ())]
        while pending:
            node, path = pending.pop()
            function = node._direct()
            if function is not None:
                return _down(function, path)
            for ref in node._above or ():
                above = ref()
                if above is not None and above not in seen:
                    seen.add(above)
                    pending.append((above, (node, *path)))
        return None

    def _direct(self) -> Any:
        task = self.task
        if task is not None:
            function = task.functions.get(self)
            if function is not None:
                return function
        tensor = None if self._tensor is None else self._tensor()
        if tensor is None:
            return None
        function = tensor.grad_fn
        return function if function is not None and function.metadata.get(KEY) is self else None

    # Running -----------------------------------------------------------------------------------

    def before_run(self, grads: Any) -> Any:
        """torch's prehook: what arrives, perhaps changed by who is paused here.

        There is no hook after a node: it has run when the next one of its thread begins.
        """
        now = perf_counter_ns()
        task = self.task
        if task is None or task.over:
            return None
        try:
            running, thread = task.running, get_ident()
            if thread in running:
                task.ran(running.pop(thread), now)
            task.current = self
            if instrument.gate is None and not _is_torch_function_mode_enabled():
                arrived = None if instrument.sink is None else measured(grads)
                running[thread] = self, arrived, perf_counter_ns()
                return None
            with DisableTorchFunction():
                changed = None
                gate = instrument.gate
                if gate is not None:
                    changed = task.gated(gate, self, grads)
                arrived = None
                if instrument.sink is not None:
                    arrived = measured(grads if changed is None else changed)
            running[thread] = self, arrived, perf_counter_ns()
            return changed
        except Exception as error:
            task.failed(error)
            return None

    def unhook(self) -> None:
        """Take the hook of this package out of torch's node."""
        handle, self.handle = self.handle, None
        if handle is not None:
            handle.remove()


def remember_hook(function: Any, field: HookField, hooks: Callable[[], Any]) -> None:
    """A hook was added to a tensor that this node of torch's made."""
    metadata = function.metadata
    metadata.setdefault(HOOKS, []).append((field, hooks))
    node = metadata.get(KEY)
    if type(node) is TorchNode:
        node.hooks = metadata[HOOKS]


def _down(function: Any, path: tuple[TorchNode, ...]) -> Any:
    """Torch's node at the end of a path of nodes below this one."""
    for node in path:
        for below, _ in function.next_functions:
            if below is not None and below.metadata.get(KEY) is node:
                function = below
                break
        else:
            return None
    return function


def discover(
    roots: Sequence[Root], others: Sequence[Root], thread: int
) -> tuple[list[TorchNode], dict[TorchNode, Any]]:
    """Find the new nodes below `roots` and below others.

    Returns the new ones in the order in which torch made them, and all nodes below `roots`, each
    with torch's own. thread: of those of which nobody saw the operation.
    """
    births: dict[Any, Birth] = {}
    known: dict[Any, Any] = {None: None}
    edges: dict[Any, Any] = {}
    pending = [(function, NO_BIRTH) for function, _ in roots]
    # The last ones first: most of the others are found below them.
    later = [(function, NO_BIRTH) for function, _ in others]
    reached: list[Any] | None = None  # all below `roots`, once those were walked
    while pending or reached is None:
        if not pending:
            pending, reached = later, list(edges)
            continue
        function, around = pending.pop()
        if function in known:
            continue
        if function in births:
            # Reached before from another operation: the one that made it may come later.
            if births[function][0] is not None or not _made_in(function, around):
                continue
            births[function] = birth = *around[:5], None, None
        else:
            mine = function.metadata.get(KEY)
            if type(mine) is TorchNode:
                known[function] = mine
                if reached is not None:
                    continue
                birth = NO_BIRTH
            else:
                if mine is not None:
                    birth = mine
                elif _made_in(function, around):
                    birth = *around[:5], None, None  # shape and dtype are of the node above
                else:
                    birth = NO_BIRTH
                births[function] = birth
        below = edges.get(function)
        if below is None:
            below = edges[function] = function.next_functions
        for following, _ in below:
            if following not in known:
                pending.append((following, birth))
    order = sorted(births, key=_rank)
    leaves = bisect_left(order, _LEAF_RANK, key=_rank)
    order = order[leaves:] + order[:leaves]
    new = []
    for function in order:
        metadata = function.metadata
        node = TorchNode(function, metadata, births[function], thread)
        known[function] = metadata[KEY] = node
        new.append(node)
    for function, node in zip(order, new, strict=True):
        below = edges[function]
        if below:
            node.next_functions = edges_of = tuple([(known[each], at) for each, at in below])
            ref = weakref.ref(node)
            for under, _ in edges_of:
                if under is not None and not under.leaf:
                    under.used_by(ref)
    for function, tensor in (*roots, *others):
        if tensor is not None:
            known[function].made_tensor(tensor)
    return new, {known[function]: function for function in reached or ()}


_LEAF_RANK: Final = 2**64 - 1
_rank: Final = operator.methodcaller("_sequence_nr")
"""torch's sequence number, and that of all leaves."""


def _made_in(function: Any, birth: Birth) -> bool:
    """Whether the operation that made a node above made this one, too."""
    return birth[0] is not None and birth[4] <= function._sequence_nr() < _LEAF_RANK
