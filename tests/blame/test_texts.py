"""What an in-place error says of the saved tensor, side by side with torch."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest

import ag_visual

from ..oracle import torch


def _written_later(t: Any, y: Any) -> Any:
    v = y[0]
    z = v * v
    y.add_(1)
    return z


def _taken_after_a_write(t: Any, y: Any) -> Any:
    y.add_(1)
    return _written_later(t, y)


def _written_through_the_view(t: Any, y: Any) -> Any:
    v = y[0]
    v.mul_(2)
    z = v * v
    v.add_(1)
    return z


def _another_view_written(t: Any, y: Any) -> Any:
    v = y[0]
    z = v * v
    y[1:].add_(1)
    return z


def _the_base(t: Any, y: Any) -> Any:
    z = y * y
    y[0].add_(1)
    return z


def _own_output(t: Any, y: Any) -> Any:
    z = y.exp()
    z.view(2, 2).add_(1)
    return z


def _own_output_written_in_place(t: Any, y: Any) -> Any:
    v = y.view(2, 2)[1]
    v.exp_()
    v.add_(1)
    return v


def _constant(t: Any, y: Any) -> Any:
    c = t.zeros(4)
    v = c[:2]
    z = v * y[:2]
    c[1] = 2
    return z


def _constant_that_joins_the_graph(t: Any, y: Any) -> Any:
    c = t.zeros(4)
    v = c[:2]
    z = v * y[:2]
    c[1] = y[0]
    return z


def _leaf(t: Any, y: Any) -> Any:
    x = t.ones(4, requires_grad=True)
    z = x * y
    with t.no_grad():
        x.add_(1)
    return z


def _second_of_several(t: Any, y: Any) -> Any:
    values, _ = y.sort()
    best = t.stack([y, values]).max(0)
    z = best.values * best.values
    best.values.add_(1)
    return z


PROGRAMS = [
    _written_later,
    _taken_after_a_write,
    _written_through_the_view,
    _another_view_written,
    _the_base,
    _own_output,
    _own_output_written_in_place,
    _constant,
    _constant_that_joins_the_graph,
    _leaf,
    _second_of_several,
]


def _said(t: Any, program: Callable[[Any, Any], Any]) -> str:
    y = t.ones(4, requires_grad=True) * 1
    with pytest.raises(RuntimeError) as caught:
        program(t, y).sum().backward()
    first = str(caught.value).split("\n")[0].partition(" Hint: ")[0]
    return re.sub(r"Backward\d", "", first)  # torch 2.13 names the forward op, 2.8 the node


@pytest.mark.parametrize("program", PROGRAMS)
def test_the_saved_tensor_is_described_as_torch_does(program: Any) -> None:
    assert _said(ag_visual, program) == _said(torch, program)


def test_a_tensor_that_two_variables_lead_to_is_listed_once() -> None:
    y = ag_visual.ones(4, requires_grad=True).exp()
    row = y[1:]
    same = row
    kept = [row, y.detach()]
    loose = kept[1]
    row.add_(1)
    with pytest.raises(RuntimeError) as caught:
        y.sum().backward()
    names = [alias["name"] for alias in caught.value.fields["aliases"]]  # type: ignore[attr-defined]
    assert sorted(names) == ["loose", "row"]
    assert same is row
    assert loose is kept[1]


def test_a_graph_that_two_variables_hold_is_named_once() -> None:
    h = ag_visual.ones(2, requires_grad=True).exp()
    same = [h]
    (h * h).sum().backward()
    with pytest.raises(RuntimeError) as caught:
        (same[0] * 2).sum().backward()
    assert caught.value.fields["holders"] == ["h"]  # type: ignore[attr-defined]


def test_one_of_several_views_is_described_by_its_op() -> None:
    y = ag_visual.ones(2, 3, requires_grad=True) * 1
    first, second = y.unbind(0)
    z = first * first
    with ag_visual.no_grad():
        y.add_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation") as caught:
        z.sum().backward()
    ways = {alias["name"]: alias["how"] for alias in caught.value.fields["aliases"]}  # type: ignore[attr-defined]
    assert ways["second"] == "a view: unbind of `y`"
    assert second.shape == (3,)
