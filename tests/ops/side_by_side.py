"""One expression on ag_visual and on torch: values, shapes, dtypes, graphs, gradients, errors.

Expressions see `t` (the engine) and these tensors: x 2x3x4, m 2x3, v 3, o 0-d, z complex 2x3 (all
require grad), y = x * 1, w = m * 1, i and j index vectors, b a mask like m.
"""

from __future__ import annotations

import warnings
from typing import Any

import numpy
import pytest

import ag_visual as ag

from ..oracle import torch

LEAVES = ("x", "m", "v", "o", "z")


def tensors(t: Any) -> dict[str, Any]:
    """The named tensors, equal on both engines."""
    rng = numpy.random.default_rng(7)
    arrays = {
        "x": rng.standard_normal((2, 3, 4)),
        "m": rng.standard_normal((2, 3)),
        "v": rng.standard_normal(3),
        "o": rng.standard_normal(()),
        "z": rng.standard_normal((2, 3)) + 1j * rng.standard_normal((2, 3)),
    }
    found = {name: t.tensor(array).requires_grad_() for name, array in arrays.items()}
    found["y"], found["w"] = found["x"] * 1, found["m"] * 1
    found["i"], found["j"] = t.tensor([0, 1]), t.tensor([1, 0, 1])
    found["b"] = t.tensor(arrays["m"] > 0)
    return found


def evaluate(expression: str, t: Any) -> tuple[dict[str, Any], Any]:
    """The namespace and the expression's value (or that of `y` after a statement)."""
    scope = {**tensors(t), "t": t, "np": numpy}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return scope, eval(expression, scope)
        except SyntaxError:
            exec(expression, scope)
            return scope, scope["y"]


def listed(value: Any) -> list[Any]:
    return list(value) if isinstance(value, (tuple, list)) else [value]


def graph(node: Any) -> Any:
    """The names of a node and of what it leads to."""
    if node is None:
        return None
    below = [graph(following) for following, _ in node.next_functions]
    return (node.name().rpartition("::")[2], *below)


def seen(tensor: Any) -> dict[str, Any]:
    """What can be told of one tensor without its values."""
    return {
        "shape": tuple(tensor.shape),
        "dtype": repr(tensor.dtype),
        "requires_grad": tensor.requires_grad,
        "leaf": tensor.is_leaf,
        "view": tensor._is_view(),
        "version": tensor._version,
        "graph": graph(tensor.grad_fn),
        "output": tensor.output_nr,
    }


def numbers(tensor: Any) -> Any:
    return tensor.detach().resolve_conj().numpy()


def total(values: list[Any], t: Any) -> Any:
    """A real scalar on which every element of the outputs weighs differently."""
    result = None
    for output in values:
        if not output.requires_grad:
            continue
        weights = numpy.linspace(0.5, 1.5, output.numel()).reshape(tuple(output.shape))
        if output.is_complex():
            output = t.view_as_real(output.resolve_conj())
            weights = numpy.stack([weights, 2 * weights], axis=-1)
        weighted = (output * output * t.tensor(weights).to(output.dtype)).sum().double()
        result = weighted if result is None else result + weighted
    return result


def gradients(scope: dict[str, Any], values: list[Any], t: Any) -> dict[str, Any]:
    """First and second derivatives of `total` by the leaves."""
    loss = total(values, t)
    if loss is None:
        return {}
    leaves = [scope[name] for name in LEAVES]
    first = t.autograd.grad(loss, leaves, create_graph=True, allow_unused=True)
    found = {name: g for name, g in zip(LEAVES, first, strict=True) if g is not None}
    second = total([g for g in first if g is not None and g.requires_grad], t)
    if second is not None:
        again = t.autograd.grad(second, leaves, allow_unused=True)
        found.update(
            (f"{name}, second", g) for name, g in zip(LEAVES, again, strict=True) if g is not None
        )
    return {name: numbers(g) for name, g in found.items()}


def compare(expression: str, *, look: bool = True) -> None:
    """Assert that both engines see the same; look=False leaves graphs and views out."""
    (ours, mine), (theirs, other) = evaluate(expression, ag), evaluate(expression, torch)
    mine, other = listed(mine), listed(other)
    assert len(mine) == len(other)
    for a, b in zip(mine, other, strict=True):
        if look:
            assert seen(a) == seen(b)
        else:
            assert (tuple(a.shape), repr(a.dtype)) == (tuple(b.shape), repr(b.dtype))
        numpy.testing.assert_allclose(numbers(a), numbers(b), rtol=1e-12, atol=1e-12)
    found, expected = gradients(ours, mine, ag), gradients(theirs, other, torch)
    assert found.keys() == expected.keys()
    for name, g in expected.items():
        numpy.testing.assert_allclose(found[name], g, rtol=1e-10, atol=1e-10, err_msg=name)


def failure(expression: str, t: Any) -> tuple[str, str]:
    """The builtin type and the text of what an expression raises."""
    try:
        evaluate(expression, t)
    except Exception as error:
        names = [cls.__name__ for cls in type(error).__mro__ if cls.__module__ == "builtins"]
        return names[0], str(error)
    raise AssertionError(f"{expression} raised nothing on {t.__name__}")


def compare_failure(expression: str, phrase: str) -> None:
    """Assert that both raise the same type, and that both texts hold the phrase."""
    kind, text = failure(expression, ag)
    assert phrase in text
    theirs = failure(expression, torch)
    assert kind == theirs[0], theirs
    assert phrase in theirs[1], theirs[1]


def lines(text: str) -> list[str]:
    return [line for line in text.strip().splitlines() if line]


def each_expression(text: str) -> Any:
    """A test for each line."""
    return pytest.mark.parametrize("expression", lines(text))


def each_failure(text: str) -> Any:
    """A test for each line: an expression, and the phrase of its error behind ` | `."""
    split = [line.split(" | ", 1) for line in lines(text)]
    return pytest.mark.parametrize(("expression", "phrase"), split)
