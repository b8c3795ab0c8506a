"""`axis=` and `keepdims=`, as NumPy calls them, wherever torch's functions take them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import ag_visual
from tests.programs import agree

CALLS: dict[str, Callable[[Any, Any], Any]] = {
    "sum": lambda t, x: x.sum(axis=0, keepdims=True),
    "sum of two": lambda t, x: t.sum(x, axis=(0, 1)),
    "mean": lambda t, x: t.mean(x, axis=1, keepdims=True),
    "max": lambda t, x: list(x.max(axis=1)),
    "argmax": lambda t, x: x.argmax(axis=1, keepdims=True),
    "std": lambda t, x: x.std(axis=0),
    "softmax": lambda t, x: x.softmax(axis=1),
    "cumsum": lambda t, x: t.cumsum(x, axis=1),
    "sort": lambda t, x: list(x.sort(axis=0)),
    "unsqueeze": lambda t, x: x.unsqueeze(axis=0),
    "cat": lambda t, x: t.cat([x, x], axis=1),
    "stack": lambda t, x: t.stack([x, x], axis=1),
    "unbind": lambda t, x: list(t.unbind(x, axis=1)),
    "out": lambda t, x: t.sum(x, axis=0, out=t.empty(3)),
    "linalg": lambda t, x: t.linalg.vector_norm(x, axis=1),
}


@pytest.mark.parametrize("name", CALLS)
def test_axis_is_dim(name: str) -> None:
    agree(lambda t: CALLS[name](t, t.tensor([[1.0, 5.0, 2.0], [4.0, 0.0, 3.0]])))


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda x: x.sum(dim=0, axis=0), r"sum\(\) got both 'dim' and 'axis'"),
        (lambda x: x.sum(axes=0), r"sum\(\) got an unexpected keyword argument 'axes'"),
        (lambda x: x.cumsum(), r"cumsum\(\) missing 1 required positional argument: 'dim'"),
        (lambda x: x.relu(axis=0), r"relu\(\) got an unexpected keyword argument 'axis'"),
    ],
)
def test_other_names_are_refused(call: Callable[[Any], Any], words: str) -> None:
    with pytest.raises(TypeError, match=words):
        call(ag_visual.ones(2, 3))
