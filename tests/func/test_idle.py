"""A level that has nothing to do changes nothing, for every op: value, dtype, shape, history."""

from __future__ import annotations

from collections.abc import Callable
from itertools import islice
from typing import Any

import numpy
import pytest

import ag_visual as ag
from ag_visual.core.tensor import Tensor
from ag_visual.dispatch.record import Op
from ag_visual.dispatch.table import ops
from tests.properties.cases import every
from tests.properties.test_batching import call, has_rule, names_of, stacks, tensors

SAMPLES = 2


def facts(outs: list[Any]) -> list[Any]:
    return [
        (out.dtype, tuple(out.shape), out.requires_grad) if isinstance(out, Tensor) else out
        for out in outs
    ]


def given(op: Op, values: dict[str, Any]) -> tuple[dict[str, Any], list[str]]:
    """A call's arguments as tensors, of which what can requires grad; and which are tensors."""
    made, _ = tensors(op, values, True)
    return made, [n for n in names_of(op, values) if isinstance(made[n], Tensor)]


def in_grad(op: Op, values: dict[str, Any], names: list[str]) -> list[Any]:
    kept: list[Any] = []

    def function(x: Any) -> Any:
        kept.extend(call(op, values))
        return x

    ag.func.grad(function)(ag.tensor(1.0))
    return [getattr(out, "value", out) for out in kept]


def in_vmap(op: Op, values: dict[str, Any], names: list[str]) -> list[Any]:
    batches = {name: values[name].unsqueeze(0) for name in names}
    if not batches:
        return call(op, values)
    found = ag.vmap(lambda named: tuple(call(op, {**values, **named})))(batches)
    return [out.squeeze(0) for out in found]


def beside_a_vmap(op: Op, values: dict[str, Any], names: list[str]) -> list[Any]:
    found = ag.vmap(lambda x: tuple(call(op, values)))(ag.zeros(1))
    return [out.squeeze(0) for out in found]


def in_jvp(op: Op, values: dict[str, Any], names: list[str]) -> list[Any]:
    function = lambda x: (x, tuple(call(op, values)))  # noqa: E731
    return list(ag.func.jvp(function, (ag.zeros(1),), (ag.zeros(1),), has_aux=True)[2])


FORMS: dict[str, Callable[[Op, dict[str, Any], list[str]], list[Any]]] = {
    "grad of another input": in_grad,
    "a batch of one": in_vmap,
    "beside a batch": beside_a_vmap,
    "jvp of another input": in_jvp,
}


def kinds(op: Op) -> bool:
    return has_rule(op) and bool(op.samples) and op.name != "masked_select"


def checked(op: Op) -> None:
    for slices in islice(stacks(op), SAMPLES):
        values, names = given(op, slices[0])
        plain = call(op, values)
        if not all(isinstance(out, Tensor) for out in plain):
            continue
        for form, run in FORMS.items():
            found = run(op, values, names)
            for out, want, one, other in zip(found, plain, facts(found), facts(plain), strict=True):
                if form.startswith("jvp"):
                    one, other = one[:2], other[:2]  # aux is detached
                assert one == other, f"{op.name}, {form}: {one} is not {other}"
                a, b = (x.detach().numpy().astype(complex) for x in (out, want))
                assert numpy.allclose(a, b, 1e-9, 1e-11, equal_nan=True), f"{op.name}, {form}"


@every(kinds)
def test_an_idle_level_changes_nothing(op: Op) -> None:
    checked(op)


def test_it_finds_a_level_that_changes_something(monkeypatch: pytest.MonkeyPatch) -> None:
    op = ops["mul"]
    checked(op)
    monkeypatch.setattr(op, "batch", lambda batch: batch.run() * 2)
    with pytest.raises(AssertionError, match="batch of one"):
        checked(op)
