"""torch._foreach_*: each name gives, writes, differentiates and refuses what torch's does."""

from __future__ import annotations

import re
from typing import Any

import numpy
import pytest

import ag_visual as ag
from ag_visual import foreach

from ..oracle import torch


def lists(t: Any, seed: int = 0) -> list[Any]:
    rng = numpy.random.default_rng(seed)
    shapes = ((2,), (3, 2), ())
    return [t.tensor(rng.uniform(0.2, 0.9, shape), dtype=t.float64) for shape in shapes]


def arguments(t: Any, name: str) -> list[tuple[Any, ...]]:
    """What a function is tried with beside its first list."""
    inner = name.removeprefix("_foreach_").removesuffix("_")
    others, more = lists(t, 1), lists(t, 2)
    if inner in ("addcmul", "addcdiv"):
        return [(others, more), (others, more, 2.0), (others, more, [1, 2, 3])]
    if inner == "lerp":
        return [(others, 0.3), (others, more), (others, [0.1, 0.2, 0.3])]
    if inner in ("add", "mul", "div"):
        return [(2,), (others,), ([1, 2.0, 3],), (t.tensor(2.0, dtype=t.float64),)]
    if inner in ("sub", "clamp_max", "clamp_min", "maximum", "minimum", "pow"):
        return [(0.5,), (others,), ([1, 0.5, 3],)]
    if inner == "copy":
        return [(others,)]
    return [(), (1,)] if inner in ("norm", "powsum") else [()]


def gradients(t: Any, outs: Any, leaves: list[Any]) -> Any:
    total = sum(x.sum() for x in outs)
    try:
        return t.autograd.grad(total, leaves, allow_unused=True, materialize_grads=True)
    except RuntimeError:
        if t is ag:
            raise
        return []


@pytest.mark.oracle
@pytest.mark.parametrize("name", sorted(foreach.NAMES - {"_foreach_mm"}))
def test_each_is_torchs(name: str) -> None:
    written = name.endswith("_")
    for number in range(len(arguments(ag, name))):
        found = []
        for t in (ag, torch):
            leaves = [x.requires_grad_() for x in lists(t)]
            given = [x * 1 for x in leaves]
            out = getattr(t, name)(given, *arguments(t, name)[number])
            outs = given if written else out
            assert isinstance(out, list if written else tuple)
            grads = gradients(t, outs, leaves)
            found.append([*outs, *grads])
        # torch has no derivative of some that ours are made of.
        found = [each[: min(map(len, found))] for each in found]
        for ours, theirs in zip(*found, strict=True):
            assert tuple(ours.shape) == tuple(theirs.shape)
            numpy.testing.assert_allclose(
                ours.detach().numpy(), theirs.detach().numpy(), 1e-9, 1e-12
            )


@pytest.mark.oracle
@pytest.mark.parametrize(
    "use",
    [
        lambda t: t._foreach_add(lists(t), lists(t), alpha=2),
        lambda t: t._foreach_sub(lists(t), lists(t), alpha=0.5),
        lambda t: t._foreach_pow(2.0, lists(t)),
        lambda t: t._foreach_mm([t.ones(2, 3)], [t.ones(3, 1)]),
        lambda t: t._foreach_add(lists(t), [1]),
        lambda t: t._foreach_add(lists(t), lists(t)[:1]),
        lambda t: t._foreach_add([], 1),
        lambda t: t._foreach_sqrt(t.ones(2)),
        lambda t: t._foreach_sqrt([1, 2]),
        lambda t: t._foreach_zero_([t.ones(2, requires_grad=True)]),
    ],
)
def test_what_torch_gives_or_refuses(use: Any) -> None:
    told = []
    for t in (ag, torch):
        try:
            told.append(repr(use(t)))
        except (RuntimeError, TypeError) as error:
            told.append(re.sub(r" \(.*", "", str(error))[:60])
    assert told[0] == told[1]


@pytest.mark.oracle
def test_every_name_of_torchs_is_there() -> None:
    assert {n for n in dir(torch) if n.startswith("_foreach_")} == foreach.NAMES
