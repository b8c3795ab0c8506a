"""In-place variants as torch's: the history of the written tensor, what may not be written."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy
import pytest

import ag_visual as ag
from ag_visual.core.tensor import from_array
from ag_visual.dispatch.record import Op
from ag_visual.dispatch.table import ops

from ..oracle import torch
from ..programs import old_names
from .cases import Call, arguments, calls, every, host, refuses, run
from .test_oracle import node

pytestmark = pytest.mark.oracle


def variant(op: Op) -> Callable[..., Any] | None:
    """torch's in-place variant of an op."""
    name = f"{op.public_name}_"
    places = (torch.Tensor, torch, torch._C._nn)
    return next((f for f in (getattr(p, name, None) for p in places) if f is not None), None)


# Where the written tensor comes from ----------------------------------------------------------


def in_no_grad(engine: Any, x: Any) -> Any:
    with engine.no_grad():
        return x.unsqueeze(0)[0]


TARGETS: dict[str, Callable[[Any, Any], Any]] = {
    "computed": lambda engine, x: x * 1,
    "a leaf": lambda engine, x: x,
    "a view of a computed one": lambda engine, x: (x * 1).unsqueeze(0)[0],
    "a view made in no_grad": in_no_grad,
    "one of several views": lambda engine, x: (x * 1).unsqueeze(0).unbind(0)[0],
}


class Engine:
    """A package, how it makes a tensor of an array, and its form of the op."""

    def __init__(self, package: Any, wrap: Callable[[Any], Any], write: Callable[..., Any]) -> None:
        self.package = package
        self.wrap = wrap
        self.write = write

    def tensors(self, call: Call, wanted: set[str]) -> dict[str, Any]:
        """The arguments, those of the wanted inputs that can requiring grad."""

        def given(name: str, value: Any) -> Any:
            if isinstance(value, (tuple, list)) and (name in call.op.lists):
                return [given(name, item) for item in value]
            if not isinstance(value, numpy.ndarray):
                return value
            tensor = self.wrap(value.copy())
            return (
                tensor.requires_grad_() if name in wanted and value.dtype.kind in "fc" else tensor
            )

        return {name: given(name, value) for name, value in call.values.items()}

    def outcome(self, call: Call, wanted: set[str], source: str) -> Any:
        """What writing does: ("refused", ...), or the history and the gradients."""
        first = call.op.params[0]
        values = self.tensors(call, wanted)
        leaves = [v for n, v in values.items() if n in wanted and hasattr(v, "requires_grad")]
        leaves = [leaf for leaf in leaves if leaf.requires_grad]
        target = TARGETS[source](self.package, values[first])
        positional, keyword = arguments(call.op, {**values, first: target})
        self.package.manual_seed(11)
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                self.write(*positional, **keyword)
            history = target.grad_fn
        except Exception as error:
            return "raises", type(error), str(error)
        if history is None:
            return "plain", target.requires_grad, tuple(target.shape)
        edges = [node(edge) for edge, _ in history.next_functions if edge is not None]
        told = node(history), edges, tuple(target.shape)
        flow = [] if refuses(call.op) else self.gradients(target, leaves)
        return "recorded", told, flow

    def gradients(self, target: Any, leaves: list[Any]) -> Any:
        try:
            ones = self.package.ones_like(target)
            found = self.package.autograd.grad(target, leaves, ones, allow_unused=True)
        except Exception as error:
            return error
        return [numpy.zeros(1) if g is None else g.numpy(force=True) for g in found]


def difference(ours: Any, theirs: Any) -> str:
    """What differs, '' for nothing."""
    if theirs[0] == "raises":
        refused = ours[0] == "raises" and old_names(theirs[2])[:40] in old_names(ours[2])
        return "" if refused else f"{ours}, torch refuses: {theirs[2]}"
    if ours[:2] != theirs[:2]:
        return f"{ours[:2]}, torch has {theirs[:2]}"
    if theirs[0] == "plain" or isinstance(theirs[2], Exception):
        return ""  # torch lacks a derivative or fails to form it
    if isinstance(ours[2], Exception):
        return f"{ours[2]}, torch has {theirs[2]}"
    for mine, other in zip(ours[2], theirs[2], strict=True):
        if not numpy.allclose(mine, other, rtol=1e-6, atol=1e-9, equal_nan=True):
            return f"gradient {mine}, torch has {other}"
    return ""


def differences(op: Op, write: Callable[..., Any], function: Callable[..., Any]) -> Iterator[str]:
    first = op.params[0]
    names = {name for each in (op, *op.inplace_variants) for name in each.diff_inputs} or {
        *op.inputs
    }
    ours, theirs = Engine(ag, from_array, write), Engine(torch, torch.tensor, function)
    fitting = [c for c in calls(op) if c.oracle and isinstance(c.values[first], numpy.ndarray)]
    # The first sample has tensors, the last one numbers where the op takes them.
    for call in fitting if len(fitting) < 3 else (fitting[0], fitting[-1]):
        plain = theirs.outcome(call, set(), "computed")
        if plain[0] == "raises" or plain[2] != call.values[first].shape:
            continue  # the result does not fit
        for source in TARGETS:
            for wanted in (names, {first}, names - {first}):
                if wanted and (wanted == {first} or "computed" in source):
                    expected = theirs.outcome(call, wanted, source)
                    told = difference(ours.outcome(call, wanted, source), expected)
                    if told:
                        yield f"{source}, {sorted(wanted)}: {told}"


# Expanded destinations --------------------------------------------------------------------------


def into_expanded(engine: Engine, call: Call) -> Any:
    """What writing into a tensor whose rows are one row in memory leaves there, or what it says."""
    first = call.op.params[0]
    values = engine.tensors(call, set())
    row = values[first][:1].clone()
    target = row.expand(values[first].shape)
    positional, keyword = arguments(call.op, {**values, first: target})
    engine.package.manual_seed(11)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            engine.write(*positional, **keyword)
    except Exception as error:
        return str(error)
    return row.numpy(force=True)


def same_rows(call: Call) -> bool:
    """Whether the op says one thing of each row, so that a tensor of one row can hold it."""
    first = call.op.params[0]
    values, _ = call.tensors(grad=False)
    values[first] = values[first][:1].expand(values[first].shape).clone()
    result = host(run(call.op, values)[0])
    return bool(numpy.all(result == result[:1]))


def expansions(op: Op, write: Callable[..., Any], function: Callable[..., Any]) -> Iterator[str]:
    ours, theirs = Engine(ag, from_array, write), Engine(torch, torch.tensor, function)
    for call in calls(op):
        array = call.values[op.params[0]]
        if not isinstance(array, numpy.ndarray) or not array.ndim or len(array) < 2:
            continue
        if theirs.outcome(call, set(), "computed")[0] == "raises":
            continue
        mine, expected = into_expanded(ours, call), into_expanded(theirs, call)
        if isinstance(expected, str):
            if "single memory location" in expected and "single memory location" not in mine:
                yield f"{mine}, torch refuses"
        elif same_rows(call) and (isinstance(mine, str) or not numpy.allclose(mine, expected)):
            yield f"{mine}, torch has {expected}"


@every(lambda op: op.inplace)
def test_an_expanded_tensor_is_written_or_refused_as_in_torch(op: Op) -> None:
    function = variant(op)
    if function is not None:
        with numpy.errstate(all="ignore"):
            assert not [*expansions(op, op.write, function)]


@every(lambda op: op.inplace)
def test_what_is_written_has_torchs_history(op: Op) -> None:
    function = variant(op)
    if function is not None:
        with numpy.errstate(all="ignore"):
            assert not [*differences(op, op.write, function)]


# The checks find injected faults ------------------------------------------------------------------


def test_a_write_without_history_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    op = ops["gt"]
    assert not [*differences(op, op.write, torch.Tensor.gt_)]
    monkeypatch.setattr(op, "inplace_variants", ())
    assert len([*differences(op, op.write, torch.Tensor.gt_)]) >= 4


def test_a_write_into_expanded_memory_is_found() -> None:
    def write(self: Any) -> Any:
        self._array = ag.relu(self)._array
        return self

    assert not [*expansions(ops["relu"], ops["relu"].write, torch.Tensor.relu_)]
    assert [*expansions(ops["relu"], write, torch.Tensor.relu_)]
