"""Creation metadata of views: each way to make a view, a view of it, each way to write, as torch.

Under which circumstances a view was made (no_grad, inference mode, one of several, by a custom
Function) decides whether it, or its base, may be written later, and when the error comes.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest

from tests.programs import agree, raised


def _function(t: Any, forward: Any, backward: Any) -> Any:
    body = {"forward": staticmethod(forward), "backward": staticmethod(backward)}
    return type("Made", (t.autograd.Function,), body)


def _no_grad(t: Any, make: Callable[[], Any]) -> Any:
    with t.no_grad():
        return make()


def _inference(t: Any, make: Callable[[], Any]) -> Any:
    with t.inference_mode():
        return make()


def _viewed(t: Any, y: Any) -> Any:
    return _function(t, lambda ctx, x: x.view(2, 2), lambda ctx, g: g.view(4)).apply(y)


def _as_it_is(t: Any, y: Any) -> Any:
    return _function(t, lambda ctx, x: x, lambda ctx, g: g).apply(y)


def _halves(t: Any, y: Any) -> Any:
    made = _function(t, lambda ctx, x: (x[:2], x[2:]), lambda ctx, g, h: t.cat([g, h]))
    return made.apply(y)[1]


def _of_its_own(t: Any, y: Any) -> Any:
    made = _function(t, lambda ctx, x: (x * 2).view(2, 2), lambda ctx, g: g.view(4) * 2)
    return made.apply(y)


VIEWS: dict[str, Callable[[Any, Any], Any]] = {
    "view": lambda t, y: y.view(2, 2),
    "unbind": lambda t, y: y.view(2, 2).unbind(0)[1].view(2, 1),
    "split": lambda t, y: y.split(2)[0],
    "chunk": lambda t, y: y.chunk(2)[1],
    "split_with_sizes": lambda t, y: y.split_with_sizes([1, 3])[1],
    "iteration": lambda t, y: list(y.view(2, 2))[1],
    "tensor_split": lambda t, y: y.tensor_split(2)[1],
    "hsplit": lambda t, y: y.hsplit(2)[1],
    "vsplit": lambda t, y: y.view(2, 2).vsplit(2)[1],
    "custom view": _viewed,
    "custom input as it is": _as_it_is,
    "custom, two": _halves,
    "custom, of its own": _of_its_own,
    "no_grad": lambda t, y: _no_grad(t, lambda: y.view(2, 2)),
    "no_grad split": lambda t, y: _no_grad(t, lambda: y.split(2)[1]),
    "no_grad view of view": lambda t, y: _no_grad(t, lambda: y.view(2, 2).t()),
    "no_grad of split": lambda t, y: _no_grad(t, lambda: y.split(2)[0]).view(2, 1),
    "inference": lambda t, y: _inference(t, lambda: y.view(2, 2)),
    "inference split": lambda t, y: _inference(t, lambda: y.split(2)[1]),
    "inference of split": lambda t, y: _inference(t, lambda: y.split(2)[0].view(2, 1)),
    "detached": lambda t, y: y.detach().view(2, 2),
}
STEPS: dict[str, Callable[[Any, Any], Any]] = {
    "itself": lambda t, v: v,
    "view": lambda t, v: v.unsqueeze(0),
    "select": lambda t, v: v[0],
    "unbind": lambda t, v: v.unsqueeze(0).unbind(0)[0],
    "no_grad": lambda t, v: _no_grad(t, lambda: v.unsqueeze(0)),
    "inference": lambda t, v: _inference(t, lambda: v.unsqueeze(0)),
    "detach": lambda t, v: v.detach(),
    "custom view": lambda t, v: _function(
        t, lambda ctx, x: x.unsqueeze(0), lambda ctx, g: g[0]
    ).apply(v),
    "custom input as it is": _as_it_is,
    "custom, two": lambda t, v: _function(
        t, lambda ctx, x: (x, x.unsqueeze(0)), lambda ctx, g, h: g
    ).apply(v)[1],
}
WRITES: dict[str, Callable[[Any, Any], Any]] = {
    "recorded": lambda t, v: v.mul_(2),
    "no_grad": lambda t, v: _no_grad(t, lambda: v.mul_(2)),
    "inference": lambda t, v: _inference(t, lambda: v.mul_(2)),
    "with a source": lambda t, v: v.mul_(t.tensor(3.0, requires_grad=True)),
}
BASES: dict[str, Callable[[Any], Any]] = {
    "in the graph": lambda t: t.tensor([1.0, 2.0, 3.0, 4.0], requires_grad=True) * 1,
    "plain": lambda t: t.tensor([1.0, 2.0, 3.0, 4.0]),
    "leaf": lambda t: t.tensor([1.0, 2.0, 3.0, 4.0], requires_grad=True),
}


def _told(call: Callable[[], Any]) -> Any:
    """What a call gives, or what it raises: type and text without names of nodes."""
    answer: list[Any] = []
    kind, text = raised(lambda: answer.append(call()))
    said = re.sub(r"Backward\d*\b", "", text.split("\n")[0])
    return [kind, said[:80]] if kind else answer


def _facts(v: Any) -> Any:
    return [
        _told(lambda: v.requires_grad),
        _told(lambda: v.is_leaf),
        _told(lambda: None if v.grad_fn is None else v.grad_fn.name()),
        _told(lambda: v._version),
        v._is_view(),
    ]


@pytest.mark.parametrize("base", BASES)
@pytest.mark.parametrize("target", ["view", "base"])
@pytest.mark.parametrize("view", VIEWS)
def test_creation_metadata_propagates_to_views_of_views(view: str, target: str, base: str) -> None:
    def program(t: Any) -> Any:
        seen = []
        for step in STEPS:
            for write in WRITES:
                y = BASES[base](t)
                v = STEPS[step](t, VIEWS[view](t, y))
                told = _told(lambda v=v, y=y, w=write: WRITES[w](t, v if target == "view" else y))
                found = [_facts(v), _facts(y), y.detach(), _told(lambda v=v: (v * 2).requires_grad)]
                seen.append([step, write, told if told[0] == "RuntimeError" else None, found])
        return seen

    agree(program)
