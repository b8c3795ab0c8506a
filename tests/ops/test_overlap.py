"""Writes that read the memory they write: what torch refuses is refused with its text."""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from typing import Any

import pytest

import ag_visual

from ..oracle import torch


def _rows(t: Any) -> Any:
    return t.arange(9.0).view(3, 3)


def _store(x: Any, index: Any, value: Any) -> Any:
    x[index] = value
    return x


HEAD, TAIL = slice(None, -1), slice(1, None)
SOME = [0, 1]

# What is written, with what: `t` the module, `x` three rows of three, `i` two indices of rows.
WRITES: dict[str, Callable[[Any, Any, Any], Any]] = {
    "setitem": lambda t, x, i: _store(x, TAIL, x[HEAD]),
    "setitem of a row": lambda t, x, i: _store(x, HEAD, x[1]),
    "setitem of itself": lambda t, x, i: _store(x, slice(None), x),
    "setitem of a number": lambda t, x, i: _store(x, 0, x[1, 1]),
    "setitem by indices": lambda t, x, i: _store(x, i, x[TAIL]),
    "setitem by indices of a number": lambda t, x, i: _store(x, i, x[1, 1]),
    "setitem by a mask": lambda t, x, i: _store(x, x > 3, x[0, 0]),
    "setitem by a mask of a row": lambda t, x, i: _store(x, x[:, 0] > 3, x[1]),
    "copy_": lambda t, x, i: x[1:].copy_(x[:-1]),
    "copy_ through detach": lambda t, x, i: x[1:].copy_(x.detach()[:-1]),
    "copy_ through data": lambda t, x, i: x[1:].copy_(x.data[:-1]),
    "copy_ of its transpose": lambda t, x, i: x.copy_(x.t()),
    "add_": lambda t, x, i: x[1:].add_(x[:-1]),
    "add_ of itself": lambda t, x, i: x.add_(x),
    "add_ of the same view": lambda t, x, i: x[1:].add_(x[1:]),
    "add_ of its transpose": lambda t, x, i: x.add_(x.t()),
    "both transposed": lambda t, x, i: x.t().add_(x.t()),
    "add_ of a row of its own": lambda t, x, i: x.add_(x[0]),
    "add_ of a number of its own": lambda t, x, i: x.mul_(x[0, 0]),
    "another row": lambda t, x, i: x[0].add_(x[1]),
    "in another shape": lambda t, x, i: x.view(1, 9).add_(x.view(9)),
    "empty": lambda t, x, i: x[1:1].add_(x[1:1]),
    "one element": lambda t, x, i: x[1:2, 1:2].add_(x[1:2, 1:2]),
    "with gaps": lambda t, x, i: x.view(9)[::4].add_(x.view(9)[::4]),
    "lt_": lambda t, x, i: x[1:].lt_(x[:-1]),
    "addcmul_": lambda t, x, i: x[1:].addcmul_(x[:-1], x[1:]),
    "lerp_": lambda t, x, i: x[1:].lerp_(x[:-1], 0.5),
    "clamp_": lambda t, x, i: x[1:].clamp_(x[:-1], x[1:]),
    "addr_": lambda t, x, i: x.addr_(x[0], x[1]),
    "fill_": lambda t, x, i: x.fill_(x[1, 1]),
    "masked_fill_": lambda t, x, i: x.masked_fill_(x > 3, x[0, 0]),
    "index_add_": lambda t, x, i: x.index_add_(0, i, x[1:]),
    "index_add_ of itself": lambda t, x, i: x[:2].index_add_(0, i, x[:2]),
    "index_copy_": lambda t, x, i: x.index_copy_(0, i, x[1:]),
    "index_fill_": lambda t, x, i: x.index_fill_(0, i, x[1, 1]),
    "index_fill_ by itself": lambda t, x, i: i.index_fill_(0, i, 1),
    "index_put_": lambda t, x, i: x.index_put_((i,), x[1:]),
    "scatter_": lambda t, x, i: x.scatter_(0, i.view(2, 1), x[1:]),
    "scatter_add_": lambda t, x, i: x.scatter_add_(0, i.view(2, 1), x),
    "put_": lambda t, x, i: x.put_(i, x[0, 1:]),
}


def _outcome(module: ModuleType, write: Callable[[Any, Any, Any], Any]) -> Any:
    x, i = _rows(module), module.tensor(SOME)
    try:
        return write(module, x, i).tolist()
    except RuntimeError as error:
        text = str(error)
        assert "unsupported operation: some elements of the input tensor and the written" in text
        assert x.tolist() == _rows(module).tolist()
        assert x._version == 0
        return "refused"


@pytest.mark.parametrize("name", WRITES)
def test_writes_of_shared_memory(name: str) -> None:
    assert _outcome(ag_visual, WRITES[name]) == _outcome(torch, WRITES[name])


def test_the_refusal_says_what_to_do() -> None:
    y = ag_visual.arange(4.0)
    with pytest.raises(RuntimeError, match=r"^unsupported .*Please clone\(\)") as caught:
        y[1:] = y[:-1]
    assert "copy_ writes shape [3] into [3]" in str(caught.value)
    y[1:] = y[:-1].clone()
    assert y.tolist() == [0.0, 0.0, 1.0, 2.0]


def test_arrays_of_numpy_are_not_looked_into() -> None:
    array = ag_visual.arange(4.0).numpy()
    a, b = ag_visual.from_numpy(array), ag_visual.from_numpy(array)
    assert a[1:].copy_(b[:-1]).tolist() == [0.0, 1.0, 2.0]
