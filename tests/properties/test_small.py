"""Small things: tensors without elements or dimensions, and floats of 16 bits."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy
import pytest

import ag_visual as ag
from ag_visual.core.tensor import from_array
from ag_visual.dispatch import vmap
from ag_visual.dispatch.record import Op

from ..oracle import torch
from .cases import (
    Array,
    Call,
    arguments,
    calls,
    carrying,
    cotangents,
    differentiable,
    every,
    host,
    run,
)
from .checks import check_met, close, gradients
from .test_oracle import counterpart, listed


def pointwise(op: Op) -> bool:
    return vmap.rule_of(op) is vmap.elementwise and not op.layout_dependent


def reshaped(call: Call, change: Callable[[Array], Array]) -> Call:
    """The call with every array input changed, whatever its dtype."""
    values = {
        name: change(value)
        if name in call.op.inputs and isinstance(value, numpy.ndarray)
        else value
        for name, value in call.values.items()
    }
    return Call(call.op, values, call.smooth, call.oracle)


def outcome(call: Call) -> tuple[list[Any], dict[str, Array]]:
    values, leaves = call.tensors(grad=differentiable(call.op))
    outputs = run(call.op, values)
    return outputs, gradients(call, outputs, leaves, cotangents(call.op, outputs))


@every(pointwise)
def test_no_elements(op: Op) -> None:
    call = calls(op)[0]
    expected, _ = outcome(call)
    found, grads = outcome(reshaped(call, lambda a: a.reshape(-1)[:0]))
    for out, full in zip(found, expected, strict=True):
        assert out.shape == (0,)
        assert out.dtype is full.dtype
    assert all(g.shape == (0,) for g in grads.values())


@every(lambda op: pointwise(op) and op.samples)
def test_no_dimensions(op: Op) -> None:
    """A 0-d tensor gives what a vector of that one element gives."""
    call = next(c for c in calls(op) if all(a.size for a in c.leaves.values()))
    one, one_grads = outcome(reshaped(call, lambda a: a.reshape(-1)[:1].copy()))
    scalar = reshaped(call, lambda a: a.reshape(-1)[:1].reshape(()))
    none, none_grads = outcome(scalar)
    for a, b in zip(none, one, strict=True):
        assert a.shape == ()
        assert a.dtype is b.dtype
        if call.smooth:
            numpy.testing.assert_array_equal(host(a), host(b)[0])
    for name, g in none_grads.items():
        assert g.shape == ()
        close(g, one_grads[name][0], name, 1e-12, 0)
    if differentiable(op):
        check_met(scalar)


HALVES = (("float16", 4e-3), ("bfloat16", 3e-2))


def narrowed(call: Call, dtype: Any) -> Call:
    return call.mapped(lambda a: a.astype(dtype) if a.dtype.kind == "f" else a)


@every(lambda op: True)
@pytest.mark.parametrize(("kind", "rtol"), HALVES, ids=[kind for kind, _ in HALVES])
@pytest.mark.oracle
def test_floats_of_16_bits_as_torch(op: Op, kind: str, rtol: float) -> None:
    """Where torch computes in half precision, so does this, with torch's dtypes and its values."""
    function = counterpart(op)
    if function is None:
        return
    dtype = getattr(ag, kind).np
    chosen = [
        narrowed(call, dtype)
        for call in calls(op)
        if call.smooth and call.oracle and call.leaves
        if all(a.size and a.dtype.kind == "f" for a in call.leaves.values())
    ]
    with warnings.catch_warnings(), numpy.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        found = [their_outcome(call, function, getattr(torch, kind)) for call in chosen]
        if None not in found:
            for call, expected in zip(chosen, found, strict=True):
                compare(call, expected, rtol)


def compare(call: Call, expected: Any, rtol: float) -> None:
    """torch's dtypes; values and gradients as near to the exact ones as torch's are."""
    op = call.op
    outputs, grads = outcome(call)
    exact, exact_grads = outcome(call.mapped(lambda a: a.astype(float)))
    theirs, their_grads = expected
    for mine, other, best in zip(
        carrying(op, outputs), carrying(op, theirs), carrying(op, exact), strict=True
    ):
        assert mine.dtype.name == str(other.dtype).removeprefix("torch.")
        if mine.is_floating_point():
            near(host(mine), other.detach().double().numpy(), host(best), rtol, op.name)
    for name, other in their_grads.items():
        assert grads[name].dtype == call.leaves[name].dtype
        near(grads[name], other, exact_grads[name], 4 * rtol, f"gradient of {name}")


def near(found: Array, other: Array, exact: Array, rtol: float, what: str) -> None:
    """On the scale of the whole: sums of rounded terms lose what the largest loses."""
    known = numpy.isfinite(exact) & numpy.isfinite(other)
    scale = numpy.max(abs(exact[known]), initial=0.1)
    limit = rtol * scale + 2 * numpy.max(abs(other - exact)[known], initial=0.0)
    close(found.astype(float)[known], exact[known], what, 0, float(limit))


def their_outcome(call: Call, function: Any, dtype: Any) -> Any:
    """torch's outputs and gradients, None where it does not compute in this dtype."""
    wanted = call.leaves
    leaves: dict[str, Any] = {}

    def given(label: str, value: Any) -> Any:
        if not isinstance(value, numpy.ndarray):
            return getattr(torch, value.name) if isinstance(value, numpy.dtype) else value
        if value.dtype.kind in "fV" and value.dtype.itemsize == 2:
            tensor = torch.tensor(value.astype(numpy.float32)).to(dtype)
        else:
            tensor = torch.tensor(value)
        if label in wanted:
            leaves[label] = tensor.requires_grad_()
        return tensor

    values = {
        name: [given(f"{name}[{i}]", v) for i, v in enumerate(value)]
        if name in call.op.lists
        else given(name, value)
        for name, value in call.values.items()
    }
    positional, keyword = arguments(call.op, values)
    try:
        found = listed(function(*positional, **keyword))
    except (RuntimeError, NotImplementedError, TypeError):
        return None
    if any(f.dtype is torch.complex32 for f in found):
        return None  # which NumPy has not
    grads: dict[str, Any] = {}
    outs = [o for o in carrying(call.op, found) if o.requires_grad]
    if outs and differentiable(call.op):
        own, _ = call.tensors(grad=False)
        gs = cotangents(call.op, run(call.op, own))
        gs = [
            torch.tensor(g.astype(numpy.float32)).to(o.dtype) for g, o in zip(gs, outs, strict=True)
        ]
        try:
            back = torch.autograd.grad(outs, list(leaves.values()), gs, allow_unused=True)
        except (RuntimeError, NotImplementedError):
            return [f.detach() for f in found], {}
        grads = {
            name: g.double().numpy()
            for name, g in zip(leaves, back, strict=True)
            if g is not None and not g.is_complex()
        }
    return [f.detach() for f in found], grads


def test_a_tensor_of_16_bits_is_made_of_an_array_of_them() -> None:
    assert from_array(numpy.ones(2, ag.bfloat16.np)).dtype is ag.bfloat16
