"""An op's own sample: what stands for a node that cannot say its derivative itself."""

from __future__ import annotations

import functools
import zlib
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from ag_visual.core import modes
from ag_visual.core.tensor import Tensor, from_array
from ag_visual.devices import device as Device
from ag_visual.dispatch import interpreted, op_node
from ag_visual.dispatch.op_node import OpNode
from ag_visual.dispatch.record import Op, Sample
from ag_visual.dispatch.table import ops
from ag_visual.observe.formulas.derivation import Derivation, derived, gradients_as_terms, ones_like
from ag_visual.observe.formulas.terms import input_term, labelled, trace


def op_by_node(name: str) -> Op | None:
    """The first op that makes nodes of this name; None where no op does."""
    return next(iter(ops_by_node(name)), None)


def ops_by_node(name: str) -> tuple[Op, ...]:
    """All ops that make nodes of this name."""
    return _ops_by_node(len(ops)).get(name, ())


@functools.lru_cache(maxsize=1)
def _ops_by_node(declared: int) -> dict[str, tuple[Op, ...]]:
    """Those of all names, among so many ops that are declared."""
    found: dict[str, tuple[Op, ...]] = {}
    for op in ops.values():
        if op.rules:
            found[op.node_name] = (*found.get(op.node_name, ()), op)
    return found


class _Maker:
    """`make(shape, low=, high=)` for samples: the same numbers each time.

    larger: every size from 2 on is one more.
    """

    def __init__(self, name: str, larger: bool) -> None:
        self.random = np.random.default_rng(zlib.crc32(name.encode()))
        self.larger = larger

    def __call__(self, shape: tuple[int, ...], low: float = -2.0, high: float = 2.0) -> Any:
        if self.larger:
            shape = tuple(n + (n > 1) for n in shape)
        return np.asarray(self.random.uniform(low, high, shape))


class _Call(OpNode):
    """Stands in for a node of a sample call; it has no number and is in no graph."""

    __slots__ = ("op",)


@modes.without_grad
def sample_derivation(op: Op, larger: bool = False) -> Derivation | None:
    """The same from the op's first sample that has elements, or None where it has none.

    larger: of larger tensors, which raises whatever the op raises where its arguments do not fit.
    """
    for sample in op.samples(_Maker(op.name, larger)) if op.samples else ():
        found = _of_sample(op, sample)
        if found is not None:
            return found
    return None


def _of_sample(op: Op, sample: Sample) -> Derivation | None:
    bound = op.signature.bind(*sample.args, **sample.kwargs)
    bound.apply_defaults()
    values = {name: _tensors(value) for name, value in bound.arguments.items()}
    inputs = [v for n in (*op.inputs, *op.lists) for v in _several(values[n])]
    arrays = [v for v in inputs if isinstance(v, Tensor)]
    if not arrays or any(v._array.size < 2 and v._array.ndim for v in arrays):
        return None
    call = record_call(op, values)
    node = call.node
    known = call.known | gradients_as_terms(node, ones_like(node, Device("cpu")))
    found = derived(node, known)
    found.sampled = True
    for rule in op.rules:
        if found.gradients.keys().isdisjoint(rule.inputs):
            try:  # inputs that no sample differentiates: their rule refuses
                trace(rule.function, known | {"needs": (True,) * len(rule.inputs)})
            except NotImplementedError as error:
                found.gradients.update(dict.fromkeys(rule.inputs, str(error)))
    return found


@dataclass(slots=True)
class CallRecord:
    """A call of an op that made no node: what its rules may ask for, by name, and its results."""

    node: Any
    known: dict[str, Any]
    outputs: list[Any]


def record_call(op: Op, values: dict[str, Any]) -> CallRecord:
    """Run an op's kernel, and gather what its rules ask for as terms."""
    backend, arrays = interpreted.arrays_of(op, values)
    arguments = interpreted._arguments(op, values, arrays)
    results = interpreted._compute(op, backend, arrays, arguments)
    several = op.multi or len(op.outputs) > 1
    outputs = [from_array(np.asarray(r)) for r in (results if several else [results])]
    known: dict[str, Any] = {}
    for name in op.saves:
        if name in op.outputs:
            known[name] = input_term(name, outputs[op.outputs.index(name)])
        else:
            known[name] = input_term(name, _whole(values[name]))
    for name in op.values:
        known[name] = input_term(name, arguments[name])
    for name in op.shapes:
        owner, _, what = name.rpartition("_")
        known[name] = labelled(name.replace("_", " "), op_node._fact(values[owner], what))
    node = _Call()
    node.op = op
    differentiable = range(len(outputs)) if op.multi else op.differentiable
    metas = [(outputs[i]._array.shape, outputs[i]._array.dtype) for i in differentiable]
    node.shape, node.dtype = metas[0]
    node.outs = tuple(metas) if op.multi or len(metas) > 1 else None
    given = [v for n in op.diff_inputs for v in _several(values[n])]
    edges: Any = tuple(
        (None, 0, v._array.shape, v._array.dtype)
        if isinstance(v, Tensor) and v._array.dtype.kind in "fc"
        else None
        for v in given
    )
    node.next = edges
    return CallRecord(node, known, outputs)


def _tensors(value: Any) -> Any:
    if isinstance(value, (np.ndarray, np.generic)):
        return from_array(np.asarray(value))
    if isinstance(value, (tuple, list)) and any(isinstance(v, np.ndarray) for v in value):
        return tuple(_tensors(v) for v in value)
    return value


def _several(value: Any) -> Iterable[Any]:
    return value if isinstance(value, (tuple, list)) else (value,)


def _whole(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value
