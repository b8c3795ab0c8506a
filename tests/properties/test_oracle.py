"""Every op against torch on the record's samples: values, dtypes, gradients, node names."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy
import pytest

from ag_visual.dispatch.memory_overlap import repeats
from ag_visual.dispatch.record import Op

from ..oracle import torch
from .cases import (
    Call,
    arguments,
    calls,
    carrying,
    complex_calls,
    cotangents,
    differentiable,
    every,
    host,
    run,
)
from .checks import close, vjp

pytestmark = pytest.mark.oracle


def internal(op: Op) -> bool:
    """Whether the op is a part of others, without a public name."""
    return not op.public and op.public_name == op.name and op.oracle is None


REFUSALS = (
    "does not support automatic differentiation for outputs with complex",
    "not implemented",
)


def counterpart(op: Op) -> Callable[..., Any] | None:
    """How torch is called with the arguments of the record; None when it has no such op."""
    if op.oracle is False:
        return None
    if callable(op.oracle):
        return lambda *args, **kwargs: op.oracle(torch, *args, **kwargs)
    places = [torch, torch.Tensor, torch._C._nn, torch.nn.functional, torch.ops.aten]
    if internal(op):
        places = [torch.ops.aten]
    for place in places:
        found: Any = place
        for part in (op.oracle or op.public_name).split("."):
            found = getattr(found, part, None)
        if found is not None:
            return found  # type: ignore[no-any-return]
    return None


def theirs(call: Call) -> tuple[list[Any], dict[str, Any], dict[str, Any]]:
    """The arguments as torch takes them, and the leaves."""
    wanted = call.leaves
    leaves: dict[str, Any] = {}

    def given(label: str, value: Any) -> Any:
        if isinstance(value, numpy.ndarray):
            tensor = torch.tensor(value)
            if label in wanted:
                tensor.requires_grad_()
                leaves[label] = tensor
            return tensor
        if isinstance(value, numpy.dtype):
            return getattr(torch, value.name)
        return value

    values = {}
    for name, value in call.values.items():
        if name in call.op.lists:
            values[name] = [given(f"{name}[{i}]", v) for i, v in enumerate(value)]
        else:
            values[name] = given(name, value)
    positional, keyword = arguments(call.op, values)
    return positional, keyword, leaves


def listed(result: Any) -> list[Any]:
    return list(result) if isinstance(result, (tuple, list)) else [result]


def node(grad_fn: Any) -> str:
    return grad_fn.name().rpartition("::")[2]  # type: ignore[no-any-return]


def compare(call: Call, function: Callable[..., Any]) -> None:
    op = call.op
    values, leaves = call.tensors()
    ours = run(op, values)
    positional, keyword, their_leaves = theirs(call)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = listed(function(*positional, **keyword))
    # torch may leave out what only its node sees (the buffer of logsigmoid ...).
    for mine, expected in zip(ours, found, strict=False):
        assert tuple(mine.shape) == tuple(expected.shape)
        assert mine.dtype.name == str(expected.dtype).removeprefix("torch.")
        close(host(mine), expected.numpy(force=True), op.name, 1e-9, 1e-11)
    if not differentiable(op) or not leaves:
        return
    mine, expected = carrying(op, ours), carrying(op, found)
    assert [node(out.grad_fn) for out in mine] == [node(out.grad_fn) for out in expected]
    gs = cotangents(op, ours)
    grads = torch.autograd.grad(
        expected,
        list(their_leaves.values()),
        [torch.tensor(g) for g in gs],
        allow_unused=True,
    )
    own = vjp(call, gs)
    for label, theirs_ in zip(their_leaves, grads, strict=True):
        if theirs_ is not None:
            # Some of torch's constants are float32's (hardsigmoid's 1/6, celu's 1/alpha).
            gradient = theirs_.numpy(force=True)
            close(own[label], gradient, f"gradient of {label}", 1e-7, 1e-9)
            # A hook that writes into it is refused only where torch refuses it.
            assert repeats(gradient) or not repeats(own[label]), f"gradient of {label} is expanded"


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    with numpy.errstate(all="ignore"):
        yield


@every(lambda op: True)
def test_agreement_with_torch(op: Op) -> None:
    function = counterpart(op)
    assert function is not None or op.oracle is False or not op.public
    for call in calls(op):
        if call.smooth and call.oracle and function is not None:
            compare(call, function)


@every(lambda op: differentiable(op) and not op.real_only and not internal(op))
def test_agreement_with_torch_on_complex_numbers(op: Op) -> None:
    function = counterpart(op)
    for call in complex_calls(op):
        if call.smooth and call.oracle and function is not None:
            try:
                compare(call, function)
            except RuntimeError as error:
                if not any(phrase in str(error) for phrase in REFUSALS):
                    raise
