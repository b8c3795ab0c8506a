"""A node of torch's graph as readers know one (`events.live`).

Each node of C++ has a dictionary, `metadata`, that lives as long as it. A `TorchNode` lies in it:
it never holds torch's own node, as that would be a circle through C++ that nobody collects, but
finds it again from a living tensor above when somebody asks for saved values.
"""

from __future__ import annotations

import threading
import weakref
from collections import deque
from collections.abc import Callable, Sequence
from types import CodeType
from typing import Any, ClassVar, Final

import torch
from torch._C import DisableTorchFunction
from torch.autograd import forward_ad

from ag_visual.bridge import rule
from ag_visual.bridge.arrays import (
    array_or_none,
    dtypes,
    kept_array,
    lengths,
    listed_as,
    memory_of,
    shape_of,
    shared_array,
    tangent_of,
    unseen,
)
from ag_visual.bridge.grad_mode import leaving_grad_mode
from ag_visual.bridge.node_hooks import NodeHooks
from ag_visual.bridge.saved import (
    KEY,
    Kind,
    Last,
    Saved,
    kinds,
    learned_name,
    packed,
    read_saved,
    read_unpacked,
    saved_value,
    stand_in,
)
from ag_visual.events.live import FIRST, SavedField
from ag_visual.events.log import BREAK, EventLog, HookField, Saved as SavedColumns
from ag_visual.events.memory import CallSite

FREED: Final = "ag_visual freed"
"""Of a node's metadata: where the backward was called that freed it, while nothing is recorded."""

Birth = tuple[CodeType | None, int, int, int, int, int, Any, Any, "weakref.ref[Any] | None"]
"""Code and lasti of the line, when (perf_counter_ns), the thread, the first sequence number that
its operation may have given to a node; `Trusted.number` where no hook packed what it saved, else 0;
shape and torch's dtype of its result, None if unknown; the result, where it is to be looked at."""

CODE: Final = 0
FIRST_RANK: Final = 4
SHAPE: Final = 6
RESULT: Final = 8
"""Where in a `Birth` some of that is; `saved.UNPACKED` is another one."""

LEAF_RANK: Final = 2**64 - 1
"""torch's sequence number of all leaves."""

HOOKS: Final = "ag_visual hooks"
"""Of a node's metadata: hooks that were added to its tensors."""

BREAKS: Final = "ag_visual breaks"
"""Of a node's metadata: the name of its operation, a `Break` for each argument that had left."""

Break = tuple[int, str, CallSite, "weakref.ref[Any]", bool]
"""Which argument, how and where it left a graph, what it was taken from, whether that is a leaf."""

Hooked = tuple[HookField, Callable[[], Any]]
"""A hook, and a weak reference to the dictionary that has it until it is removed."""


beginning: Final[list[Any]] = []
"""The backwards that are about to begin, of which readers are told. (No attribute of the class: to
set one makes the interpreter forget how it finds the others.)"""


class TorchNode:
    """A node of torch's graph: `events.live.LiveNode`."""

    __slots__ = (
        *("__weakref__", "_code", "_lasti", "_name", "_tensor", "_variable", "above", "breaks"),
        *("computes", "freed", "hook", "hooks", "kind", "leaf", "listed", "made"),
        *("next_functions", "outputs", "saved", "seq", "simple", "storage", "task", "thread"),
        "unpacked",
    )
    next_functions: tuple[tuple[TorchNode | None, int], ...]

    unwired: ClassVar[deque[TorchNode]] = deque()
    """Nodes that those below them do not know of yet (`wire_back`)."""
    _wiring: ClassVar[threading.RLock] = threading.RLock()

    def know(self, function: Any, seq: int, metadata: Any, birth: Birth, last: Last) -> None:
        """Take down what a node is and has, of which much is lost with its backward.

        Its edges are another's task. (No constructor: that costs as much as half of this.)
        """
        of = type(function)
        if of is not last.of:
            last.of, last.kind = of, kinds[of]
        kind: Kind = last.kind
        self.seq = seq
        self.kind = of
        self._code, self._lasti, self.made, self.thread, _, unpacked, shape, dtype, _ = birth
        self.unpacked = unpacked
        self.saved: Sequence[Saved] = ()
        self.leaf = kind.leaf
        self.computes = kind.custom  # whether it runs Python code of the user's
        # The backward that is about to run it; what this package has put into torch's node.
        self.task: Any = None
        self.hook: Any = None
        self.above: weakref.ref[TorchNode] | list[weakref.ref[TorchNode]] | None = None
        self._tensor: weakref.ref[Any] | None = None  # a tensor that it made
        self.freed: CallSite = None
        self.hooks: list[Hooked] | None = None
        self.breaks: tuple[str, list[Any]] | None = None
        if kind.name is None:
            self._name = learned_name(kind, function)
            if kind.name is None and not kind.custom:
                self.kind = stand_in(kind, self._name)
        if metadata and (len(metadata) > 1 or KEY not in metadata):
            self.freed, self.hooks = metadata.get(FREED), metadata.get(HOOKS)
            self.breaks = metadata.get(BREAKS)
        # Whether it is one of C++ with one output and no leaf; torch's dtype of that, if small.
        if shape is not None and kind.single:
            if shape != kind.shape or dtype is not kind.dtype:
                kind.shape, kind.dtype = shape, dtype
                kind.outputs, kind.listed = ((shape, dtypes[dtype]),), listed_as(shape, dtype)
            # What nodes of one class mostly share is one object: a graph of small ops is this.
            self.outputs: Any = kind.outputs
            self.simple, self.listed = True, kind.listed
        elif kind.leaf:
            self.simple, self.listed = False, None
            variable = function.variable
            self._variable: weakref.ref[Any] = weakref.ref(variable)
            self.outputs = ((shape_of(variable), dtypes[variable.dtype]),)
            memory = memory_of(variable)  # the variable may be gone when its record is made
            self.storage = 0 if memory is None else memory.number
            return
        else:
            metas = function._input_metadata
            self.simple, self.listed = len(metas) == 1 and not kind.custom, None
            if self.simple:
                meta = metas[0]
                if kind.dtype is not meta.dtype or kind.shape != _shape(meta):
                    kind.shape, kind.dtype = _shape(meta), meta.dtype
                    kind.outputs = ((kind.shape, dtypes[kind.dtype]),)
                    kind.listed = listed_as(kind.shape, kind.dtype)
                self.outputs, self.listed = kind.outputs, kind.listed
                kind.single = kind.single or shape is not None
            else:
                found = tuple([(_shape(meta), dtypes[meta.dtype]) for meta in metas])
                self.outputs = found or (((), dtypes[torch.float32]),)
        if kind.tensors:
            if unpacked == last.trusted:
                self.saved = read_unpacked(function, kind, last)
            else:
                self.saved = read_saved(function, unpacked)
                if self.saved and self.saved[0].kind == "packed":
                    self.computes = True

    def __repr__(self) -> str:
        return f"<{self.name()} {self.seq} of torch>"

    # What readers ask ------------------------------------------------------------------------

    @property
    def variable(self) -> Any:
        """A leaf's tensor."""
        return self._variable() if self.leaf else None

    @property
    def call_site(self) -> CallSite:
        """Where in the user's code it was made."""
        return None if self._code is None else (self._code, self._lasti)

    @property
    def output_meta(self) -> list[tuple[tuple[int, ...], str]]:
        """Shape and dtype name of each output."""
        return [(shape, dtype.name) for shape, dtype in self.outputs]

    def name(self) -> str:
        """The operation as torch names it."""
        return kinds[self.kind].name or self._name

    def saved_fields(self) -> list[SavedField]:
        """Everything that it saved, without values; of a node that no tensor leads to, as then."""
        with DisableTorchFunction():
            function = self.function()
            now = self.saved if function is None else read_saved(function)
            gone = self.freed is not None or (function is not None and not now)
            known = {each.name: each for each in now}
            tangents = {}
            if forward_ad._current_level >= 0 and function is not None:
                tangents = {n: tangent_of(saved_value(function, n)) for n in known}
            found = []
            for was in self.saved:
                is_ = known.get(was.name, was)
                nbytes = 0 if was.dtype is None else was.dtype.itemsize
                for length in was.shape:
                    nbytes *= max(0, length)
                found.append(
                    SavedField(
                        *(was.name, was.kind, was.shape, was.dtype and was.dtype.name, nbytes),
                        None if was.memory is None else was.memory.number,
                        was.version,
                        None if gone or was.kind == "packed" else is_.now,
                        gone,
                        was.own,
                        tangent=tangents.get(was.name),
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
            return array_or_none(saved_value(function, name))

    def saved_number(self, name: str) -> float | None:
        """The number that it saved under a name, if there is one."""
        with DisableTorchFunction():
            value = getattr(self.function(), f"_saved_{name}", None)
            return value if isinstance(value, (int, float)) else None

    def saved_requires_grad(self, name: str) -> bool:
        """Whether a gradient goes to the input that was saved under this name."""
        with DisableTorchFunction():
            function = self.function()
            value = None if function is None else saved_value(function, name)
            return value is not None and value.requires_grad

    def saved_arrays(self, most: int) -> list[tuple[str, bool, Any]]:
        """Name, whether it is its own output, and array of each saved tensor that is there."""
        found: list[tuple[str, bool, Any]] = []
        if not self.saved or torch._C._len_torch_dispatch_stack():
            return found  # modes of the program's would see an own output being unpacked
        with DisableTorchFunction():
            function = self.function()
            if function is None:
                return found
            own = {each.name: each.own for each in self.saved if each.kind == "tensor"}
            for name, raw_name, attribute in kinds[self.kind].tensors:
                try:
                    raw = getattr(function, raw_name)
                    if type(raw) is not tuple:
                        if name in own and not packed(function, raw):
                            value = getattr(function, attribute)
                            if value is not None and value.numel() <= most:
                                found.append((name, own[name], kept_array(value)))
                    elif not any(packed(function, part) for part in raw):
                        for i, value in enumerate(getattr(function, attribute)):
                            each = f"{name}[{i}]"
                            if each in own and value is not None and value.numel() <= most:
                                found.append((each, own[each], kept_array(value)))
                except (RuntimeError, TypeError):  # given back, written since; without values
                    continue
        return found

    @property
    def hooked(self) -> bool:
        """Whether `hook_fields` may find any."""
        added = NodeHooks.active
        if self.hooks is not None or (added is not None and added.any):
            return True
        variable = self.variable
        return variable is not None and bool(
            variable._backward_hooks or getattr(variable, "_post_accumulate_grad_hooks", None)
        )

    def hook_fields(self) -> list[HookField]:
        """Its hooks; of tensors that are no leaves those that were seen when they were added."""
        with DisableTorchFunction():
            added, function = NodeHooks.active, self.function()
            own = {} if added is None or function is None else added.of(function)
            variable = self.variable
            if variable is None:
                found = [field for field, hooks in self.hooks or () if field.key in (hooks() or ())]
            else:
                found = _of_tensor(variable, "tensor", "_backward_hooks")
            found += own.get("pre", [])
            if variable is not None:
                found += _of_tensor(variable, "post_accumulate", "_post_accumulate_grad_hooks")
            return found + own.get("post", [])

    def kept_gradients(self) -> list[Any]:
        """The gradient of a leaf; torch shows nobody those of other nodes."""
        with DisableTorchFunction():
            variable = self.variable
            return [array_or_none(None if variable is None else variable.grad)]

    def value(self) -> Any:
        """The array of a leaf's variable."""
        with DisableTorchFunction():
            return array_or_none(self.variable)

    def leaf_status(self) -> tuple[int, Any] | None:
        """How often a leaf's values were written, and the first numbers of its gradient."""
        with DisableTorchFunction():
            variable = self.variable
            grad = None if variable is None else variable.grad
            if grad is None or not grad.is_cpu or grad.layout is not torch.strided:
                return None
            try:
                return variable._version, kept_array(grad).flat[:FIRST]
            except (TypeError, RuntimeError):  # without values
                return None

    def leaf_writes(self) -> int:
        """How often a leaf's values were written."""
        with DisableTorchFunction():
            variable = self.variable
            return 0 if variable is None else variable._version

    def result(self) -> Any:
        """The array of a tensor that it made, such as the one that a backward was called of."""
        with DisableTorchFunction():
            tensor = None if self._tensor is None else self._tensor()
            try:
                return None if tensor is None else unseen(shared_array, tensor)
            except (TypeError, RuntimeError):  # another device, dtype or layout; without values
                return None

    def tangent(self) -> Any:
        """The array of the tangent that a leaf's variable has now."""
        with DisableTorchFunction():
            return tangent_of(self.variable)

    def reason_against(self) -> str:
        """Why it is not called to look, a sentence; empty where it can be."""
        return rule.reason_against(self)

    def handed(self, grads: Sequence[Any]) -> list[Any]:
        """The gradients that it gives to its inputs for these (`events.live.Runnable`)."""
        return rule.handed(self, grads)

    def emit_creation(self, log: EventLog) -> None:
        """Emit into this log what its creation would have emitted."""
        if self.unwired:
            self.wire_back()
        if self.leaf:
            (meta,) = self.outputs
            log.keep(weakref.ref(self))
            log.leaf((self.made, self.thread, self.seq, *meta, self.storage, self._variable))
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
        how = self.kind, self._code, self._lasti
        log.node(self, *how, self.outputs, edges, saved, made=self.made, thread=self.thread)
        if self.breaks is not None:
            op, breaks = self.breaks
            for at, kind, place, maker, leaf in breaks:
                how = _argument(op, at), kind, *(place or (None, 0))
                log.emit((BREAK, self.made, self.thread, self.seq, *how, maker, leaf))

    def find_makers(self) -> None:
        """Take down which nodes made what left a graph: those tensors are alive now, or never."""
        if self.breaks is not None:
            op, breaks = self.breaks
            self.breaks = op, [(*how, _maker(source()), leaf) for *how, source, leaf in breaks]

    # Finding torch's own node ------------------------------------------------------------------

    def made_tensor(self, tensor: weakref.ref[Any]) -> None:
        """A tensor whose `grad_fn` it is."""
        self._tensor = tensor

    @classmethod
    def wire_back(cls) -> None:
        """Let nodes know which ones above have edges to them, as far as nobody has done it yet.

        Only `function` asks for it: it is done by who makes records, and not as a backward begins.
        """
        unwired = cls.unwired
        with cls._wiring:
            while unwired:
                node = unwired[0]
                ref = weakref.ref(node)
                for under, _ in node.next_functions:
                    if under is not None and not under.leaf:
                        under.used_by(ref)
                unwired.popleft()  # after it: an interrupt before it leaves one reference more

    def used_by(self, above: weakref.ref[TorchNode]) -> None:
        """A node above has an edge to this one."""
        known = self.above
        if not isinstance(known, list):
            self.above = above if known is None else [known, above]
            return
        count = len(known)
        if count > 8 and not count & (count - 1):
            self.above = known = [ref for ref in known if ref() is not None]
        known.append(above)

    def function(self) -> Any:
        """torch's own node, as far as a living tensor or a running backward leads to it."""
        if self.leaf:
            variable = self.variable
            if variable is None or not variable.requires_grad:
                return None
            if torch._C._functorch.is_functorch_wrapped_tensor(variable):
                return None  # of a level of torch.func: once it has ended, nothing can be asked
            try:
                edge = leaving_grad_mode(torch.autograd.graph.get_gradient_edge, variable)
            except RuntimeError:  # torch finds none of compressed sparse leaves: it takes a view
                return None
            function = edge.node
            return function if function.metadata.get(KEY) is self else None
        function = self._direct()
        if function is not None:
            return function
        if self.unwired:
            self.wire_back()
        seen: set[TorchNode] = {self}
        pending: list[tuple[TorchNode, tuple[TorchNode, ...]]] = [(self, ())]
        while pending:
            node, path = pending.pop()
            function = node._direct()
            if function is not None:
                return _down(function, path)
            users = node.above or ()
            for ref in users if isinstance(users, (list, tuple)) else (users,):
                above = ref()
                if above is not None and above not in seen:
                    seen.add(above)
                    pending.append((above, (node, *path)))
        return None

    def _direct(self) -> Any:
        for task in (*beginning, self.task):
            if task is not None:
                function = task.functions.get(self)
                if function is not None:
                    return function
        tensor = None if self._tensor is None else self._tensor()
        if tensor is None:
            return None
        function = tensor.grad_fn
        return function if function is not None and function.metadata.get(KEY) is self else None


def _shape(meta: Any) -> tuple[int, ...]:
    """The shape of one output; of a nested one without a shape that of nothing."""
    try:
        return lengths(meta.shape)
    except RuntimeError:
        return (-1,)


def leads(above: TorchNode, node: TorchNode) -> bool:
    """Whether a node has an edge to another one."""
    for below, _ in above.next_functions:  # noqa: SIM110 (a generator costs more than the rest)
        if below is node:
            return True
    return False


def _argument(op: str, at: int) -> str:
    """What torch calls an argument of an operation."""
    name = op.strip("_")
    for schema in torch._C._jit_get_schemas_for_operator(f"aten::{name}"):
        if at < len(schema.arguments):
            return str(schema.arguments[at].name)
    return f"argument {at + 1}"


def _maker(tensor: Any) -> int:
    """The number of the node that made a tensor, as far as it is known; else -1."""
    with DisableTorchFunction():
        function = None if tensor is None else tensor.grad_fn
        node = None if function is None else function.metadata.get(KEY)
    return node.seq if type(node) is TorchNode else -1


def _of_tensor(variable: Any, kind: str, name: str) -> list[HookField]:
    """The hooks that torch keeps in this attribute of a leaf's tensor."""
    return [
        HookField(kind, getattr(hook, "__qualname__", type(hook).__name__), 0, key, None)
        for key, hook in (getattr(variable, name, None) or {}).items()
    ]


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
