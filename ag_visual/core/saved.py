"""Saved tensors: how a node keeps them, checks them and gives them back.

A node keeps a field `x` in the slot `s_x` with the snapshot of its storage in `t_x`; a saved own
output keeps its array in `s_x` and its storage in `o_x`, because holding the output Tensor would
make a cycle. `s_x` may also hold a number, None, a tuple of tensors, or a `Packed` value.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from threading import get_ident
from typing import Any
from weakref import ref

from numpy import ndarray

from ag_visual.core import modes, saved_packed
from ag_visual.core.diagnosis import checksum, errors, variable_names
from ag_visual.core.saved_packed import Packed
from ag_visual.core.source import last_return
from ag_visual.core.storage import unwritten
from ag_visual.events import instrument
from ag_visual.events.clock import perf_counter_ns
from ag_visual.events.live import SavedField, lanes, whole
from ag_visual.events.log import BREAK, EventLog, Saved

NOTHING = False
"""The snapshot of a field that holds nothing (an input left out): there is nothing to free."""

_tensor_type: Any = None  # core.tensor.Tensor, set there: the one cycle of this layer
_rebuild: Callable[..., Any]


def bind(tensor_type: Any, rebuild: Callable[..., Any]) -> None:
    """Called once by core.tensor."""
    global _tensor_type, _rebuild
    _tensor_type, _rebuild = tensor_type, rebuild
    saved_packed.bind(tensor_type, rebuild)
    variable_names.tensor_type = tensor_type


def constant(array: Any) -> Any:
    """A Tensor around an array, outside of every graph."""
    return _rebuild(array, unwritten(), None)


class OwnValue:
    """A saved own output that is more than an array: one of a level, or one with a tangent."""

    __slots__ = ()

    @property
    def array(self) -> Any:
        raise NotImplementedError

    def __getattr__(self, name: str) -> Any:
        return getattr(self.array, name)  # shape, dtype, nbytes: for who describes it

    def rebuilt(self, storage: Any, edge: Any) -> Any:
        """It as a Tensor with this edge."""
        raise NotImplementedError


class OwnOutput:
    """A saved own output inside a tuple of saved tensors: what the slots `s_x`, `o_x` hold."""

    __slots__ = ("_array", "_storage", "differentiable", "number")

    def __init__(self, array: Any, storage: Any, number: int, differentiable: bool) -> None:
        self._array = array
        self._storage = storage
        self.number = number
        self.differentiable = differentiable

    def tensor(self, node: Any) -> Any:
        edge = node.edge(self.number) if self.differentiable else None
        return _rebuild(self._array, self._storage, edge)


def check(node: Any, name: str, storage: Any, then: tuple[int, int]) -> None:
    """Raise when the saved field was written since; warn when only `.data` wrote it."""
    now = storage.snapshot
    if now == then:
        _check_attached(node, name)
        if checksum.kept and checksum.changed(node, name, storage):
            raise errors.written_around(node, name, storage, then)
        return
    if now[0] != then[0]:
        raise errors.modified(node, name, storage, then)
    value = getattr(node, f"s_{name}")
    parts = value if isinstance(value, tuple) else (value,)
    own = [p._array for p in parts if getattr(p, "_storage", None) is storage] or [value]
    if any(storage.touched_since(then[1], array) for array in own):
        errors.warn_silent(node, name, storage, then)
    if isinstance(value, tuple):
        now = tuple(now if t is then else t for t in getattr(node, f"t_{name}"))
    setattr(node, f"t_{name}", now)


def _check_attached(node: Any, name: str) -> None:
    """Raise when the saved input has left the graph since, through which its gradient goes on."""
    op = getattr(node, "op", None)
    if op is None or name not in op.diff_inputs or op.lists:
        return
    edge = node.next[op.diff_inputs.index(name)]
    value = getattr(node, f"s_{name}")
    if edge is None or edge[0].leaf or not isinstance(value, _tensor_type):
        return
    if value._edge is None:
        raise errors.detached(node, name, value)


def raw(node: Any, name: str) -> Any:
    """The field as an array (or a number, or None when it was not saved)."""
    value = getattr(node, f"s_{name}")
    if value is None:
        if node.freed is not None and getattr(node, f"t_{name}") is not NOTHING:
            raise errors.freed_graph(node)
        return None
    if isinstance(value, Packed):
        return value.tensor(node)._array
    if isinstance(value, _tensor_type):
        check(node, name, value._storage, getattr(node, f"t_{name}"))
        return value._array
    if isinstance(value, tuple):
        return tuple(getattr(v, "_array", v) for v in traced_all(node, name, value))
    owner = getattr(node, f"o_{name}", None)
    if owner is not None:
        check(node, name, owner[0], getattr(node, f"t_{name}"))
    return value.array if isinstance(value, OwnValue) else value


def traced(node: Any, name: str) -> Any:
    """The field as a Tensor that is part of the graph (or a number, or None)."""
    value = getattr(node, f"s_{name}")
    if value is None:
        if node.freed is not None and getattr(node, f"t_{name}") is not NOTHING:
            raise errors.freed_graph(node)
        return None
    if isinstance(value, Packed):
        return value.tensor(node)
    if isinstance(value, _tensor_type):
        check(node, name, value._storage, getattr(node, f"t_{name}"))
        return value._settled() if hasattr(value, "level") else value
    if isinstance(value, tuple):
        return traced_all(node, name, value)
    owner = getattr(node, f"o_{name}", None)
    if owner is None:
        return value
    storage, number, differentiable = owner
    check(node, name, storage, getattr(node, f"t_{name}"))
    if isinstance(differentiable, ref):
        # The node wrote through a view; this is the node of its base.
        base_node = differentiable()
        if base_node is not None:
            array = value.array if isinstance(value, OwnValue) else value
            return _rebuild(value, storage, base_node.edge_of(array))
    return _rebuild(value, storage, node.edge(number) if differentiable else None)


def traced_all(node: Any, name: str, value: tuple[Any, ...]) -> tuple[Any, ...]:
    """The items of a saved sequence as Tensors, each checked."""
    found = []
    for item, then in zip(value, getattr(node, f"t_{name}"), strict=True):
        if isinstance(item, Packed):
            found.append(item.tensor(node))
            continue
        if isinstance(item, (_tensor_type, OwnOutput)):
            check(node, name, item._storage, then)
        found.append(item.tensor(node) if isinstance(item, OwnOutput) else item)
    return tuple(found)


def acquire(node: Any, call_site: Any) -> None:
    """Mark the node's saved tensors as taken by the backward at `call_site`, or raise.

    Of two backwards that share a graph exactly one passes: between the test and the store no
    bytecode lets another thread in (no call and no jump backwards).
    """
    if node.freed is None:
        node.freed = call_site
    else:
        raise errors.freed_graph(node)


def peek(node: Any, name: str) -> Any:
    """What is in the field, unchecked: an array (of all lanes), a number, a tuple of tensors."""
    return whole(held(node, name))


def held(node: Any, name: str) -> Any:
    """The same; inside of a vmap what stands for the slices of an array."""
    value = getattr(node, f"s_{name}", None)
    if isinstance(value, _tensor_type):
        return value._array
    if isinstance(value, Packed) or value is None:
        return None
    return value.array if isinstance(value, OwnValue) else value


def _no_tangent(value: Any) -> Any:
    return None


tangent_of = _no_tangent
"""The array of the tangent that a tensor, or a saved own output, has now; set by core.level."""


def guard(node: Any, name: str) -> None:
    """Fingerprint a field that was just saved, when a guard is on."""
    whole = modes.state.guard
    if whole is None:
        return
    value, then = getattr(node, f"s_{name}"), getattr(node, f"t_{name}")
    owner = getattr(node, f"o_{name}", None)

    def taken(array: Any, storage: Any, snapshot: Any) -> Any:
        # Written already (`x.mul_(x)`): what is there is not what was saved.
        if storage.snapshot != snapshot:
            return snapshot
        return checksum.remember(node, name, array, storage, whole)

    if isinstance(value, tuple):
        then = tuple(
            taken(v._array, v._storage, t) if isinstance(v, (_tensor_type, OwnOutput)) else t
            for v, t in zip(value, then, strict=True)
        )
    elif isinstance(value, _tensor_type):
        then = taken(value._array, value._storage, then)
    elif owner is not None and value is not None and not isinstance(value, Packed):
        then = taken(value, owner[0], then)
    setattr(node, f"t_{name}", then)


def stamp_of(value: Any) -> Any:
    """The snapshot to keep beside a saved value."""
    if value is None:
        return NOTHING
    if isinstance(value, _tensor_type):
        return value._storage.snapshot
    if isinstance(value, tuple):
        return tuple(
            v._storage.snapshot if isinstance(v, (_tensor_type, OwnOutput)) else None for v in value
        )
    return None


def _one(node: Any, name: str, value: Any, then: Any) -> Any:
    freed = node.freed is not None and value is None and then is not NOTHING
    owner = getattr(node, f"o_{name}", None)
    if isinstance(value, (_tensor_type, OwnOutput)):
        storage, array = value._storage, value._array
    elif isinstance(value, Packed):
        return SavedField(name, "packed", value.shape, freed=freed)
    elif owner is not None and value is not None:
        storage, array = owner[0], value.array if isinstance(value, OwnValue) else value
    else:
        kind = "tensor" if freed else "value"
        return SavedField(name, kind, freed=freed, value=value)
    return SavedField(
        name=name,
        kind="tensor",
        shape=array.shape,
        dtype=array.dtype.name,
        nbytes=whole(array).nbytes,
        storage_uid=storage.uid,
        version_then=None if then is None else then[0],
        version_now=storage.snapshot[0],
        freed=freed,
        own_output=owner is not None or isinstance(value, OwnOutput),
        lanes=lanes(array),
        tangent=tangent_of(value),
    )


def describe(node: Any) -> list[Any]:
    """`SavedField` of every field the node saved or freed."""
    found: list[Any] = []
    for name in node.saved_names:
        value = getattr(node, f"s_{name}")
        then = getattr(node, f"t_{name}")
        if value is None and (node.freed is None or then is NOTHING):
            continue
        if isinstance(value, tuple):
            snapshots = then or (None,) * len(value)
            found.extend(
                _one(node, name, v, t)._replace(name=f"{name}[{i}]")
                for i, (v, t) in enumerate(zip(value, snapshots, strict=True))
            )
        else:
            found.append(_one(node, name, value, then))
    for name in node.value_names:
        found.append(SavedField(name, "value", value=getattr(node, f"a_{name}")))
    return found


# What an observer hears -------------------------------------------------------------------------


class _Slots(dict[tuple[str, ...], tuple[tuple[str, str, str, str], ...]]):
    """saved_names -> (name, slots of the value, of its owner, of its snapshot) of each."""

    def __missing__(self, names: tuple[str, ...]) -> tuple[tuple[str, str, str, str], ...]:
        self[names] = found = tuple((name, f"s_{name}", f"o_{name}", f"t_{name}") for name in names)
        return found


_slots = _Slots()


def arrays(node: Any, most: int) -> list[tuple[str, bool, Any]]:
    """(name, whether it is the node's own output, whole array) of what it saved and still has.

    most: elements of the largest that is given.
    """
    found: list[tuple[str, bool, Any]] = []
    for name, slot, owner_slot, _ in _slots[node.saved_names]:
        value = getattr(node, slot)
        if value is None:
            continue
        if isinstance(value, tuple):
            for i, part in enumerate(value):
                if isinstance(part, (_tensor_type, OwnOutput)):
                    array = whole(part._array)
                    if array.size <= most:
                        found.append((f"{name}[{i}]", isinstance(part, OwnOutput), array))
            continue
        own = not isinstance(value, _tensor_type)
        if not own:
            array = value._array
        elif isinstance(value, Packed) or getattr(node, owner_slot, None) is None:
            continue
        else:
            array = value.array if isinstance(value, OwnValue) else value
        if type(array) is not ndarray:
            array = whole(array)
        if array.size <= most:
            found.append((name, own, array))
    return found


def report_node(node: Any, log: EventLog | None = None) -> None:
    """Emit the record of a new node, to the event sink or to the given log.

    events.node_record says what is in it; dispatch.codegen writes the same out for its ops.
    """
    log = log or instrument.sink
    if log is None:
        return
    kept: Saved = ([], [], [])
    for name, slot, owner_slot, stamp_slot in _slots[node.saved_names]:
        value = getattr(node, slot)
        if value is not None:
            then = getattr(node, stamp_slot, None)
            _describe_saved(kept, name, value, getattr(node, owner_slot, None), then)
    edges = [(-1, 0) if edge is None else (edge[0].seq, edge[1]) for edge in node.next]
    outputs = node.outs or ((node.shape, node.dtype),)
    log.node(node, type(node), node.code, node.lasti, outputs, edges, kept)


def origin_of(tensor: Any) -> tuple[Any, ...] | None:
    """How and where a tensor, or what it is a view of, left the graph; None where nobody knows."""
    seen = tensor._view
    origin = getattr(tensor, "_origin", None)
    if origin is None and seen is not None:
        origin = getattr(seen.base, "_origin", None)
    return origin


def report_breaks(node: Any, inputs: Iterable[tuple[str, Any]]) -> None:
    """Emit which (name, input) of a node left another graph before they came here."""
    log = instrument.sink
    if log is None:
        return
    for name, value in inputs:
        for part in value if isinstance(value, (list, tuple)) else (value,):
            if not isinstance(part, _tensor_type) or part._rg:
                continue
            origin = origin_of(part)
            if origin is None:
                continue
            kind, call_site, *rest = origin
            graph = rest[0] if rest else None
            maker = None if graph is None else graph()
            from_leaf = bool(rest) and graph is None
            facts = (name, kind, *(call_site or (None, 0)), -1 if maker is None else maker.seq)
            log.emit((BREAK, perf_counter_ns(), get_ident(), node.seq, *facts, from_leaf))


def report_none(node: Any, name: str, backward: Any, edge: Any) -> None:
    """Emit that a backward returned no gradient for an input that wanted one."""
    if instrument.sink is not None:
        facts = (name, "none", *(last_return(backward) or (None, 0)), edge[0].seq, False)
        instrument.sink.emit((BREAK, perf_counter_ns(), get_ident(), node.seq, *facts))


def _describe_saved(kept: Saved, name: str, value: Any, owner: Any, then: Any) -> None:
    """Add each tensor of one saved field.

    then: the snapshot, or snapshots, that it was saved with. A graph may be told long after that.
    """
    if isinstance(value, tuple):
        for i, part in enumerate(value):
            _describe_saved(kept, f"{name}[{i}]", part, None, then[i] if then else None)
        return
    if isinstance(value, Packed):  # what a pack hook made of it: no tensor of ours
        return
    own = owner is not None or isinstance(value, OwnOutput)
    if owner is not None:
        storage, array = owner[0], value
    elif isinstance(value, (_tensor_type, OwnOutput)):
        storage, array = value._storage, value._array
    else:
        return
    version = (then or storage.snapshot)[0]
    names, kinds, numbers = kept
    names.append((name, own))
    kinds += (array.shape, array.dtype)
    numbers += (storage.uid, version)


def report_leaf(node: Any, log: EventLog | None = None) -> None:
    """Emit the record of a new AccumulateGrad, to the event sink or to the given log."""
    log = log or instrument.sink
    if log is not None:
        variable = node.variable
        storage = variable._store
        uid = storage.number or variable._storage.uid
        now, thread = perf_counter_ns(), get_ident()
        log.keep(ref(node))
        log.leaf((now, thread, node.seq, node.shape, node.dtype, uid, ref(variable)))
