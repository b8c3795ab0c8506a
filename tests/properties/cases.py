"""What the table-driven tests run on: every op of the table with its samples, as arrays or Tensors.

A test names the property's condition on the record (`every(lambda op: op.rules)`); there is no list
of ops and no list of exceptions anywhere.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy

import ag_visual as ag
from ag_visual.core.tensor import Tensor, from_array
from ag_visual.dispatch.record import Op, Sample
from ag_visual.dispatch.rules import NotDifferentiable
from ag_visual.dispatch.table import ops

from ..groups import Decorator, each

Array = numpy.ndarray[Any, Any]
T = TypeVar("T")


def every(condition: Callable[[Op], Any]) -> Decorator:
    """Call a test with each `op` of the table that meets a condition on its record, in groups."""
    chosen = [op for op in ops.values() if op.samples and condition(op)]
    return each("op", chosen, lambda op: op.name)


def for_all(items: Iterable[T], check: Callable[[T], None]) -> None:
    """A check holds for each item of a list; one that fails names all of which it does not hold."""
    failed = []
    for item in items:
        try:
            check(item)
        except Exception as error:
            told = str(error).strip().splitlines() or [""]
            failed.append(f"{item}: {type(error).__name__}: {told[0]}")
    assert not failed, f"{len(failed)} do not hold:\n" + "\n".join(failed)


def refuses(op: Op) -> bool:
    """Whether the op's derivative is an error, as torch's NotImplemented node."""
    tagged = bool(op.rules) and all(
        isinstance(rule.function, NotDifferentiable) for rule in op.rules
    )
    return tagged or op.node_name == "NotImplemented"


def differentiable(op: Op) -> bool:
    return bool(op.rules) and not refuses(op)


class Maker:
    """`make(shape, low=, high=)`: a float64 array of a record's samples; the same in every run."""

    def __init__(self, name: str) -> None:
        self.random = numpy.random.default_rng(zlib.crc32(name.encode()))

    def __call__(self, shape: tuple[int, ...], low: float = -2.0, high: float = 2.0) -> Array:
        return numpy.asarray(self.random.uniform(low, high, shape))


@dataclass(frozen=True, slots=True)
class Call:
    """One sample with its arguments by name, arrays still arrays."""

    op: Op
    values: dict[str, Any]
    smooth: bool
    oracle: bool

    @property
    def leaves(self) -> dict[str, Array]:
        """The arrays with respect to which the op has a derivative, by name (or `name[i]`)."""
        found = {}
        for name in self.op.diff_inputs:
            value = self.values[name]
            for label, item in _items(name, value):
                if isinstance(item, numpy.ndarray) and item.dtype.kind in "fc":
                    found[label] = item
        return found

    def replaced(self, leaves: dict[str, Array]) -> Call:
        """The call with other arrays in place of some leaves."""
        values = dict(self.values)
        for label, array in leaves.items():
            name, _, index = label.partition("[")
            if index:
                items = list(values[name])
                items[int(index[:-1])] = numpy.asarray(array)
                values[name] = tuple(items)
            else:
                values[name] = numpy.asarray(array)
        return Call(self.op, values, self.smooth, self.oracle)

    def mapped(self, change: Callable[[Array], Array]) -> Call:
        """The call with every floating-point input changed."""
        values = dict(self.values)
        for name in (*self.op.inputs, *self.op.lists):
            items = [
                change(item)
                if isinstance(item, numpy.ndarray) and item.dtype.kind in "fc"
                else item
                for _, item in _items(name, values[name])
            ]
            values[name] = tuple(items) if name in self.op.lists else items[0]
        return Call(self.op, values, self.smooth, self.oracle)

    def tensors(
        self, wrap: Callable[[Array], Any] = from_array, grad: bool = True
    ) -> tuple[dict[str, Any], dict[str, Tensor]]:
        """The arguments with a Tensor (of wrap's array) for each array input, and the leaves."""
        wanted = self.leaves if grad else {}
        values, leaves = dict(self.values), {}
        for name in (*self.op.inputs, *self.op.lists):
            made = []
            for label, item in _items(name, values[name]):
                if isinstance(item, numpy.ndarray):
                    item = wrap(item.copy(order="K"))
                    if label in wanted:
                        item.requires_grad_()
                        leaves[label] = item
                made.append(item)
            values[name] = tuple(made) if name in self.op.lists else made[0]
        return values, leaves


def _items(name: str, value: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(value, (tuple, list)):
        for i, item in enumerate(value):
            yield f"{name}[{i}]", item
    else:
        yield name, value


def arguments(op: Op, values: dict[str, Any]) -> tuple[list[Any], dict[str, Any]]:
    """Positional and keyword arguments of a call."""
    positional = [values[p] for p in op.params if p not in op.keyword]
    return positional, {p: values[p] for p in op.keyword}


def call_of(op: Op, sample: Sample) -> Call:
    bound = op.signature.bind(*sample.args, **sample.kwargs)
    bound.apply_defaults()
    values = dict(bound.arguments)
    for name in op.inputs:
        if isinstance(values[name], numpy.generic):
            values[name] = numpy.asarray(values[name])
    return Call(op, values, sample.smooth, sample.oracle)


def calls(op: Op) -> list[Call]:
    """All samples of an op."""
    return [call_of(op, sample) for sample in op.samples(Maker(op.name))]


def complex_calls(op: Op) -> list[Call]:
    """The samples of an op with imaginary parts added to what it differentiates."""
    random = Maker(f"{op.name} complex")

    def added(array: Array) -> Array:
        return numpy.asarray(array + 1j * random(array.shape, -0.4, 0.4))

    return [
        call.replaced({label: added(array) for label, array in call.leaves.items()})
        for call in calls(op)
    ]


def listed(result: Any) -> list[Tensor]:
    return list(result) if isinstance(result, tuple) else [result]


def run(op: Op, values: dict[str, Any], function: Callable[..., Any] | None = None) -> list[Tensor]:
    """The outputs of one call; random ops draw the same numbers in every run."""
    ag.manual_seed(11)
    positional, keyword = arguments(op, values)
    return listed((function or op.call)(*positional, **keyword))


def carrying(op: Op, outputs: list[Any]) -> list[Any]:
    """Those outputs that carry gradients."""
    return outputs if op.multi else [outputs[i] for i in op.differentiable]


def host(tensor: Any) -> Array:
    """The values of a Tensor of any device, as a NumPy array."""
    return numpy.asarray(tensor.numpy(force=True))


def settled(op: Op, number: int, out: Any, g: Array) -> Array:
    """A gradient of an output that does not depend on the phases of its columns."""
    if op.outputs[number if not op.multi else 0] not in op.gauge_outputs:
        return g
    v = host(out)
    turn = numpy.sum(v.conj() * g, -2, keepdims=True).imag
    return numpy.asarray(g - 1j * v * turn / numpy.sum(abs(v) ** 2, -2, keepdims=True))


def cotangents(op: Op, outputs: list[Any]) -> list[Array]:
    """A gradient for each differentiable output, the same in every run."""
    random = numpy.random.default_rng(5)
    found = []
    numbers = range(len(outputs)) if op.multi else op.differentiable
    for number, out in zip(numbers, carrying(op, outputs), strict=True):
        g = random.uniform(-1, 1, tuple(out.shape))
        if out.is_complex():
            g = g + 1j * random.uniform(-1, 1, tuple(out.shape))
        found.append(numpy.asarray(settled(op, number, out, g), dtype=out.dtype.np))
    return found
