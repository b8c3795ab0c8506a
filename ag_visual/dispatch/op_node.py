"""The node of an op: what it saves, its edges, its class."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from operator import attrgetter
from typing import Any, ClassVar

import numpy

from ag_visual.arrays import backend as backends
from ag_visual.core import modes, saved, source, view
from ag_visual.core.diagnosis import errors
from ag_visual.core.node import Edge, Meta, Node
from ag_visual.core.saved_packed import Packed
from ag_visual.core.saved_tensor import raw_saved
from ag_visual.core.tensor import (
    InferenceTensor,
    Tensor,
    _blank,
    from_array,
)
from ag_visual.dispatch.arguments import NUMBERS
from ag_visual.dispatch.opmath import NARROW
from ag_visual.dispatch.record import Op
from ag_visual.dispatch.validate_grad import fit_edge, fit_traced
from ag_visual.events import instrument


class OpNode(Node):
    """A node of a declared op. Subclasses carry the record and the slots of what it saves."""

    __slots__ = ()
    skips = True
    op: Op
    tied: ClassVar[type[Tied]]  # of an op with `fused` inputs

    def skip(self, place: Any) -> tuple[None, ...]:
        for name in self.saved_names:
            saved.raw(self, name)  # refused where it was freed or written
        return super().skip(place)

    def raw(self, F: Any, g: Any) -> list[Any]:
        return self._run(F, g, saved.raw)

    def traced(self, g: Any) -> Sequence[Any]:
        F = self.op.table.traced
        if self.op.holomorphic and self.dtype.kind == "c":
            conj = [x if x is None else F.conj(x) for x in g] if self.outs else F.conj(g)
            found = [x if x is None else F.conj(x) for x in self._run(F, conj, saved.traced)]
        else:
            found = self._run(F, g, saved.traced)
        return tied(self, found) if self.op.fused else found

    def _run(self, F: Any, g: Any, unpack: Callable[[Any, str], Any]) -> list[Any]:
        op = self.op
        known: dict[str, Any] = {"F": F, "g": g, "gs": g}
        edges = op.diff_inputs
        wanted = dict(zip(edges, (edge is not None for edge in self.next), strict=False))
        if op.lists and op.lists[0] in edges:
            wanted = {op.lists[0]: True}
        for name in op.shapes:
            known[name] = getattr(self, f"h_{name}")
        for name in op.values:
            known[name] = getattr(self, f"a_{name}")
        for name in op.kept:
            if any(wanted[i] for i in op.wanted_by(name)):
                unpack(self, name)
        grads: dict[str, Any] = {}
        for rule in op.rules:
            if not any(wanted[i] for i in rule.inputs):
                continue
            known["needs"] = tuple(wanted[i] for i in rule.inputs)
            result = rule.function(
                *[unpack(self, n) if n in op.saves else known[n] for n in rule.requests]
            )
            if rule.joint:
                grads.update(zip(rule.inputs, result, strict=True))
            else:
                grads[rule.inputs[0]] = result
        if op.lists and op.lists[0] in edges:
            return list(grads[op.lists[0]])
        return [grads.get(i) if wanted[i] else None for i in edges]

    def __call__(self, *grads: Any) -> Any:
        """The gradients of the inputs, in their shapes and dtypes, from those of the outputs."""
        found = super().__call__(*grads)
        F = self.op.table.traced
        fitted = []
        for edge, g in zip(self.next, found if type(found) is tuple else (found,), strict=True):
            if edge is not None and g is not None:
                g = fit_edge(fit_traced, F, self, edge, g)
            fitted.append(g)
        return tuple(fitted) if type(found) is tuple else fitted[0]

    def release(self) -> None:
        for name in self.op.saves:
            setattr(self, f"s_{name}", None)


class Tied(Node):
    """History of a gradient that is the same whatever the op's inputs are.

    torch forms it in one op that takes some of these inputs, so it requires grad as they do. As
    there, the gradient of a single input is zeros, and of several inputs none gets any.
    """

    __slots__ = ()

    def raw(self, F: Any, g: Any) -> list[Any]:
        return [None if m is None else F.xp.zeros(*m) for m in self._metas()]

    def traced(self, g: Any) -> list[Any]:
        xp = backends.backend_of(g._array).xp
        return [None if m is None else from_array(xp.zeros(*m)) for m in self._metas()]

    def _metas(self) -> list[Meta | None]:
        edge = self.next[1]
        if edge is None or len(self.next) > 2:
            return [None] * len(self.next)
        node, number, shape, dtype = edge
        return [None, (node.outs or ())[number] if shape is None else (shape, dtype)]


def tied(node: OpNode, grads: Sequence[Any]) -> Sequence[Any]:
    """Gradients of a fused backward: those that are constants still lead to the op's inputs."""
    if not modes.grad_enabled() or modes.state.levels:
        return grads
    op = node.op
    edges = [e for e, name in zip(node.next, op.diff_inputs, strict=True) if name in op.fused]
    if not any(edges):
        return grads
    return [g if g is None or g._rg else _tie(node.tied, edges, g) for g in grads]


def _tie(cls: type[Tied], edges: list[Edge], g: Tensor) -> Tensor:
    result: Tensor = _blank(Tensor, g._array)
    result._store = g._storage
    tie = cls().start((None, *edges), ((g._array.shape, g._array.dtype),))
    result._edge = tie.edge()
    result._rg = True
    if instrument.sink is not None:
        saved.report_node(tie)
    return result


def _value(node: OpNode, name: str) -> Any:
    """What `node._saved_<name>` reads."""
    value = saved.traced(node, name)
    if isinstance(value, NUMBERS):
        return from_array(numpy.asarray(value))
    return value


def make_node_class(op: Op) -> type[OpNode]:
    """The node class of a record, with torch's attribute names."""
    slots = [f"s_{n}" for n in op.saves] + [f"t_{n}" for n in op.saves]
    slots += [f"o_{n}" for n in op.saves if n in op.outputs]
    slots += [f"a_{n}" for n in op.values] + [f"h_{n}" for n in op.shapes]
    body: dict[str, Any] = {
        "__slots__": tuple(slots),
        "__module__": "torch.autograd.graph",
        "op": op,
        "holomorphic": op.holomorphic,
        "saved_names": op.saves,
        "value_names": tuple(n for n in op.values if n not in op.not_exposed),
    }
    for name in op.saves:
        body[f"_saved_{name}"] = property(functools.partial(_value, name=name))
        body[f"_raw_saved_{name}"] = property(functools.partial(raw_saved, name=name))
    for name in op.values:
        if name in op.not_exposed:
            continue
        body[f"_saved_{name}"] = property(attrgetter(f"a_{name}"))
    if op.not_implemented:
        # It says so whatever arrives, and whoever wants its gradients.
        body.update(runs_undefined=True, skips=False)
    if op.fused:
        name = f"{op.node_name.removesuffix('0')}Backward0"
        body["tied"] = type(name, (Tied,), {"__slots__": (), "__module__": body["__module__"]})
    return type(op.node_name, (OpNode,), body)


def _edges(op: Op, values: dict[str, Any]) -> list[Edge]:
    edges: list[Edge] = []
    for name in op.diff_inputs:
        value = values[name]
        if name in op.lists:
            edges.extend(None if v is None else v.gradient_edge() for v in value)
        else:
            edges.append(value.gradient_edge() if isinstance(value, Tensor) else None)
    return edges


def _given(op: Op, values: dict[str, Any]) -> list[Tensor]:
    given = [values[n] for n in op.diff_inputs if n not in op.lists]
    given += [v for n in op.lists if n in op.diff_inputs for v in values[n]]
    return [v for v in given if isinstance(v, Tensor)]


def borrows(op: Op, values: dict[str, Any]) -> bool:
    """Does a view without history take part, which requires grad because its base does?"""
    return any(v._rg for v in _given(op, values))


def may_be_recorded(op: Op, values: dict[str, Any]) -> bool:
    """Does an operand require grad, or will it when it is brought up to date with its base?"""
    return any(
        v.requires_grad
        or (v._view is not None and v._view.base._rg and v._array.dtype.kind in "fcV")
        for v in _given(op, values)
    )


def _grown(op: Op, outputs: list[Tensor]) -> list[int]:
    """The numbers of the outputs that can have a history."""
    differentiable = range(len(outputs)) if op.multi else op.differentiable
    return [i for i in differentiable if outputs[i]._array.dtype.kind in "fcV"]


def make_node(
    op: Op,
    values: dict[str, Any],
    arguments: dict[str, Any],
    outputs: list[Tensor],
    edges: list[Edge],
    inplace: bool = False,
) -> OpNode:
    """The node of this call, with everything it saves, made history of the outputs.

    inplace: before the write, which makes it history and hands saved outputs to hooks.
    """
    grown = _grown(op, outputs)
    metas = tuple((outputs[i]._array.shape, outputs[i]._array.dtype) for i in grown)
    narrow = op.narrow_class is not None and outputs[0]._array.dtype in NARROW
    cls = op.narrow_class if narrow else op.node_class
    node: OpNode = cls().start(tuple(edges), metas)
    if op.multi and node.outs is None:
        node.outs = metas
    if not inplace:
        for number, i in enumerate(grown):
            outputs[i]._edge = node.edge(number)
            outputs[i]._rg = True
    wanted = dict(zip(op.diff_inputs, (e is not None for e in edges), strict=False))
    if op.lists and op.lists[0] in op.diff_inputs:
        wanted = dict.fromkeys(op.diff_inputs, True)
    for name in op.saves:
        needed = any(wanted.get(i, False) for i in op.wanted_by(name))
        _save(op, node, name, values, outputs, needed, inplace)
        if modes.special and not inplace:
            saved.guard(node, name)
    for name in op.values:
        setattr(node, f"a_{name}", arguments[name])
    for name in op.shapes:
        owner, _, what = name.rpartition("_")
        setattr(node, f"h_{name}", _fact(values[owner], what))
    if instrument.sink is not None and not inplace:
        saved.report_node(node)
        saved.report_breaks(node, ((name, values[name]) for name in op.diff_inputs))
    return node


def _fact(value: Any, what: str) -> Any:
    """The shape, dtype or device of an input (of each, for a list)."""
    if value is None:
        return None
    if isinstance(value, (tuple, list)):
        return tuple(_fact(v, what) for v in value)
    if not isinstance(value, Tensor):
        return () if what == "shape" else None
    return value.device if what == "device" else getattr(value._array, what)


def _save(
    op: Op,
    node: OpNode,
    name: str,
    values: dict[str, Any],
    outputs: list[Tensor],
    needed: bool,
    inplace: bool,
) -> None:
    slot, snapshot = f"s_{name}", f"t_{name}"
    if name in op.outputs:
        number = op.outputs.index(name)
        out = outputs[number]
        differentiable = number in op.differentiable
        if differentiable:
            number = op.differentiable.index(number)  # as the node's edges count
        setattr(node, f"o_{name}", (out._storage, number, differentiable))
        if modes.state.saved_hooks and needed and not inplace:
            pack, unpack = modes.state.saved_hooks[-1]
            packed = Packed(pack, unpack, out, number if differentiable else None)
            setattr(node, slot, packed)
        else:
            setattr(node, slot, out._own() if needed else None)
        setattr(node, snapshot, out._storage.snapshot)
        return
    value = values[name] if needed else None
    if isinstance(value, list):
        value = tuple(value)
    for part in value if isinstance(value, tuple) else (value,):
        if type(part) is InferenceTensor and not modes.state.levels:
            raise errors.cannot_be_saved()  # at a level it is a constant: of the level, as in torch
    if isinstance(value, Tensor) and modes.state.saved_hooks:
        pack, unpack = modes.state.saved_hooks[-1]
        setattr(node, snapshot, value._storage.snapshot)
        setattr(node, slot, Packed(pack, unpack, value))
        return
    if isinstance(value, tuple) and modes.state.saved_hooks:
        pack, unpack = modes.state.saved_hooks[-1]
        setattr(node, snapshot, saved.stamp_of(value))
        packed_ = [Packed(pack, unpack, v) if isinstance(v, Tensor) else v for v in value]
        setattr(node, slot, tuple(packed_))
        return
    setattr(node, slot, value)
    setattr(node, snapshot, saved.stamp_of(value))


def link_views(op: Op, source_: Tensor, arguments: dict[str, Any], outputs: list[Tensor]) -> None:
    """Tell each output of a view op what it looks into."""
    parent = source_._view
    base = source_ if parent is None else parent.base
    args = tuple(arguments[n] for n in op.arguments)
    meta = view.child_meta(parent, multi=op.multi)
    for i, out in enumerate(outputs):
        step_op, step_args = (ListItem(op, i), args) if op.multi else (op, args)
        snapshot, seen = out._storage.snapshot, source_._array
        out._view = view.View(base, parent, step_op, step_args, snapshot, meta, seen)
        if out._edge is None:
            out._view.made = source.here()
            out._rg = base._rg and out._array.dtype.kind in "fcV"


class ListItem:
    """One output of a view op with several, as a step that can be replayed."""

    __slots__ = ("public_name", "index", "op")

    def __init__(self, op: Op, index: int) -> None:
        self.op = op
        self.index = index
        self.public_name = op.public_name

    @property
    def table(self) -> Any:
        return self.op.table

    def view_array(self, xp: Any, array: Any, args: tuple[Any, ...]) -> Any:
        return self.op._kernel(xp)(array, *args)[self.index]

    def replay(self, tensor: Tensor, args: tuple[Any, ...]) -> Any:
        return self.op.call(tensor, *args)[self.index]

    def view_back(self, F: Any, g: Any, shape: tuple[int, ...], args: tuple[Any, ...]) -> Any:
        count = len(self.op._kernel(numpy)(numpy.broadcast_to(numpy.empty(()), shape), *args))
        gs: list[Any] = [None] * count
        gs[self.index] = g
        known = dict(zip(self.op.params[1:], args, strict=True))
        known.update(F=F, gs=gs, g=g, self_shape=shape, self_dtype=g.dtype)
        return self.op.rules[0](known)
