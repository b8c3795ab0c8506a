"""What readers ask of a graph that lives: the one protocol between an engine and its observers.

The recorder and the session know an engine by what it writes into the event log and by this: any
engine whose nodes and backwards answer it can be watched. Only what runs the rule of an op
(formulas, numbers, checks of one node) asks for a node of core.node. Nothing here runs a hook or a
rule, or is recorded.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, Protocol, Self

from ag_visual.events.log import EventLog, HookField
from ag_visual.events.memory import Place


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
    def freed(self) -> Place:
        """Where the backward was called that freed what it saved; None before that."""

    @property
    def place(self) -> Place:
        """Where in the user's code it was made."""

    @property
    def next_functions(self) -> Sequence[tuple[Self | Any | None, int]]:
        """Its edges: the node below and which of its outputs, (None, 0) where none goes on."""

    @property
    def output_meta(self) -> Sequence[tuple[tuple[int, ...], str]]:
        """Shape and dtype name of each output."""

    def name(self) -> str:
        """The operation as torch names it, such as 'MulBackward0'."""

    def saved_fields(self) -> list[SavedField]:
        """Everything that it saved, without values."""

    def saved_array(self, name: str) -> Any:
        """The saved array of a name from `saved_fields`; None where it is gone."""

    @property
    def hooked(self) -> bool:
        """Whether `hook_fields` may find any: asked of many nodes."""

    def hook_fields(self) -> list[HookField]:
        """Its hooks in the order in which the engine runs them."""

    def kept_gradients(self) -> list[Any]:
        """The gradient of each output that somebody keeps (`.grad`), as an array; None for none."""

    def value(self) -> Any:
        """The array of a leaf's variable; None of other nodes."""

    def emit_birth(self, log: EventLog) -> None:
        """Emit into this log what its birth would have told."""


class LiveBackward(Protocol):
    """A backward under way: what `instrument.begin`, `end` and `gate` are given as the task."""

    id: int
    thread: int
    order: int  # nodes that have run
    total: int  # nodes that will
    parent: Any  # the backward inside of which it runs, or None
    starts: Sequence[Any]  # edges to its roots, each a tuple whose first item is the node
    counts: Mapping[Any, int]  # all nodes that it may reach


def gradient_array(gradient: Any) -> Any:
    """A gradient that a gate was given: an array, or a tensor that holds one in `_array`."""
    return getattr(gradient, "_array", gradient)
