"""What readers ask of a graph that lives: the one protocol between an engine and its observers.

The recorder and the session know an engine by what it writes into the event log and by this: any
engine whose nodes and backwards answer it can be watched. Only what runs the rule of an op
(formulas, numbers, checks of one node) asks for a node of core.node. Nothing here runs a hook or a
rule, or is recorded.
"""

from __future__ import annotations

import itertools
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, Protocol, Self

from ag_visual.arrays.coo import Coo
from ag_visual.events.log import EventLog, HookField
from ag_visual.events.memory import CallSite

tasks: Iterator[int] = itertools.count(1)
"""The numbers of backwards, of whichever engine."""

WRITTEN_OUT = 1 << 20
"""Elements up to which observers look at sparse gradients as if they were dense."""

FIRST = 64
"""Numbers of a gradient that `LiveNode.leaf_status` gives."""


class SavedField(NamedTuple):
    """What is known of one saved field without looking at its values."""

    name: str
    kind: str  # tensor, packed (by a hook of the user's) or value
    shape: tuple[int, ...] | None = None
    dtype: str | None = None
    nbytes: int = 0
    storage_uid: int | None = None
    version_then: int | None = None
    version_now: int | None = None
    freed: bool = False
    own_output: bool = False
    lanes: tuple[int, ...] = ()  # slices it stands for at each vmap around; `shape` is that of one
    tangent: Any = None  # the array of the tangent that it has now, in forward mode
    value: Any = None


class LiveNode(Protocol):
    """A node of a backward graph: weakly referable, hashed by identity."""

    @property
    def seq(self) -> int:
        """Its number, drawn from `events.node_record.sequence`: it grows from node to node."""

    @property
    def leaf(self) -> bool:
        """Whether it accumulates the gradient of a leaf."""

    @property
    def variable(self) -> Any:
        """A leaf's tensor, which is weakly referable; None of other nodes."""

    @property
    def freed(self) -> CallSite:
        """Where the backward was called that freed what it saved; None before that."""

    @property
    def call_site(self) -> CallSite:
        """Where in the user's code it was made."""

    @property
    def next_functions(self) -> Sequence[tuple[Self | Any | None, int]]:
        """Its edges: the node below and which of its outputs, (None, 0) where none goes on."""

    @property
    def output_meta(self) -> Sequence[tuple[tuple[int, ...], str]]:
        """Shape and dtype name of each output."""

    def name(self) -> str:
        """The operation as torch names it, such as 'MulBackward0'."""

    @property
    def kind(self) -> Any:
        """What it shares with all nodes of its operation, which have one name; hashable."""

    def saved_fields(self) -> list[SavedField]:
        """Everything that it saved, without values."""

    def saved_array(self, name: str) -> Any:
        """The saved array of a name from `saved_fields` (see `whole`); None where it is gone."""

    def saved_arrays(self, most: int) -> list[tuple[str, bool, Any]]:
        """Of each saved tensor that is still there, of at most so many elements: its name, whether
        it is the node's own output, and its array, of all slices. Asked of many nodes.
        """

    def saved_number(self, name: str) -> float | None:
        """The number that it saved under a name, such as an exponent; None if there is none."""

    def saved_requires_grad(self, name: str) -> bool:
        """Whether a gradient goes to a saved input: a node made it, or it is a leaf."""

    @property
    def hooked(self) -> bool:
        """Whether `hook_fields` may find any: asked of many nodes."""

    def hook_fields(self) -> list[HookField]:
        """Its hooks in the order in which the engine runs them."""

    def kept_gradients(self) -> list[Any]:
        """The gradient of each output that somebody keeps (`.grad`), an array; None for none."""

    def value(self) -> Any:
        """The array of a leaf's variable; None of other nodes."""

    def leaf_status(self) -> tuple[int, Any] | None:
        """How often a leaf's values were written, and the first numbers of the gradient that it has
        (a NumPy array); None where it has none, or one that cannot be looked at for nothing.
        """

    def leaf_writes(self) -> int:
        """How often a leaf's values were written, whether it has a gradient or not."""

    def tangent(self) -> Any:
        """The array of the tangent that a leaf's variable has now; None of other nodes."""

    def emit_creation(self, log: EventLog) -> None:
        """Emit into this log what its creation would have emitted."""


class Runnable(LiveNode, Protocol):
    """A node of another engine whose rule an observer may run, to see numbers."""

    def reason_against(self) -> str:
        """Why it is not run, a sentence; empty where it can be. Never code of the program's."""

    def handed(self, grads: Sequence[Any]) -> list[Any]:
        """The gradients that it gives to its inputs for these, arrays or None, one for each output.

        Runs no hook, lets go of nothing that it saved and records nothing. Raises what its own rule
        raises.
        """


class LiveBackward(Protocol):
    """A backward under way: what `instrument.begin`, `end` and `gate` are given as the task."""

    id: int
    thread: int
    order: int  # nodes that have run
    total: int  # nodes that will
    call_site: CallSite  # where in the user's code it was called
    parent: Any  # the backward inside of which it runs, or None
    root_edges: Sequence[Any]  # edges to its roots, each a tuple whose first item is the node
    counts: Mapping[Any, Any]  # by all nodes that it may reach
    retain: bool  # the graph may run again: it keeps what it saved
    needed: Collection[Any] | None  # those that it runs: None: all of them; empty: not known
    error: str  # the name of the error that it ended in; '' without one, and before its end

    def results(self) -> Sequence[Any]:
        """The array of each tensor that it was called of, None where one is not at hand. Asked as
        it begins: later it has none.
        """


class Engine(Protocol):
    """Another engine that writes events, as readers meet its tensors among a user's variables."""

    tensor_type: type

    @property
    def duals(self) -> bool:
        """Whether a level of its forward mode is open, at which tensors have tangents."""

    def is_leaf(self, tensor: Any) -> bool:
        """Whether it is a leaf that requires grad."""

    def node_of(self, tensor: Any) -> LiveNode | None:
        """The node that made a tensor, or that accumulates a leaf's gradient; None: no graph."""

    def place_of(self, tensor: Any) -> tuple[LiveNode, int] | None:
        """The node that made a tensor and which of its outputs it is, without looking for nodes."""

    def storage_of(self, tensor: Any) -> int:
        """The number of its storage; 0 where it has none yet."""

    def array_of(self, tensor: Any) -> Any:
        """Its values. Raises where they cannot be read."""

    def explain(self, x: Any, loss: Any, frame: Any) -> Any:
        """What `observe.diagnose.explain` answers of its tensors."""


engines: list[Engine] = []
"""The engines that are watched beside this package's own."""


def engine_of(value: Any) -> Engine | None:
    """The engine, beside this package's own, whose tensor a value is."""
    for engine in engines:
        if issubclass(type(value), engine.tensor_type):
            return engine
    return None


def whole(array: Any) -> Any:
    """The array of all slices where this one stands for a slice of each (inside of a vmap)."""
    return getattr(array, "whole", array)


def lanes(array: Any) -> tuple[int, ...]:
    """How many slices an array stands for, at each level of a vmap, the outermost first."""
    every = whole(array)
    return () if every is array else tuple(every.shape[: every.ndim - array.ndim])


def first_lane(array: Any) -> Any:
    """The first slice where an array stands for several, else the array."""
    return whole(array)[(*(0,) * len(lanes(array)), ...)]


def many_at_once(node: LiveNode, gradients: Sequence[Any] = ()) -> str:
    """Why a node is not one computation but those of many slices (vmap); empty where it is one."""
    fields = [field.lanes for field in node.saved_fields()]
    arrived = [lanes(getattr(g, "_array", g)) for g in gradients if g is not None]
    sizes = max([lanes(node.value()), *fields, *arrived], key=len, default=())
    if not sizes:
        return ""
    count = " x ".join(map(str, sizes))
    return (
        f"{node.name()} stands for {count} slices at once (vmap), which are not told one by one: "
        "pick a lane of its tensors to see one"
    )


def gradient_array(gradient: Any) -> Any:
    """A gradient that a gate was given: an array, or a tensor that holds one in `_array`."""
    return whole(getattr(gradient, "_array", gradient))


def written_out(array: Any) -> Any:
    """An array with all its elements; of a sparse one that is large, only what it holds."""
    if type(array) is not Coo:
        return array
    return array.dense() if array.size <= WRITTEN_OUT else array.coalesced().values
