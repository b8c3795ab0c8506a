"""Public functions take torch's names of their parameters as keywords, on both namespaces."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import numpy
import pytest

import ag_visual as ag

from ..oracle import torch
from .cases import for_all
from .test_golden import GOLDEN, public

LINES = (GOLDEN / "parameters.tsv").read_text(encoding="utf-8").splitlines()
ROWS = [tuple(line.split("\t")) for line in LINES[2:]]


class Foreign:
    """What no function takes: it gets as far as the body where the names are right."""


def unknown(function: Callable[..., Any], names: list[str]) -> str:
    """What a call says against these names, or ''."""
    try:
        function(**{name: Foreign() for name in names})
    except TypeError as error:
        text = str(error)
        for phrase in ("unexpected keyword", "missing", "multiple values", "too many positional"):
            if phrase in text and "Foreign" not in text:
                return text
    except Exception:
        return ""
    return ""


def test_a_function_takes_torchs_names() -> None:
    def check(row: tuple[str, ...]) -> None:
        name, parameters = row
        assert unknown(public(name), parameters.split(",")) == ""

    for_all(ROWS, check)


METHODS = [
    (name, parameters)
    for name, parameters in ROWS
    if "." not in name and parameters.startswith("input") and hasattr(ag.Tensor, name)
]


def test_a_method_takes_torchs_names() -> None:
    def check(row: tuple[str, ...]) -> None:
        name, parameters = row
        names = parameters.split(",")[1:]
        if names and name != "split":  # torch's method has other names than its function
            assert unknown(getattr(ag.ones(2, 2), name), names) == ""

    for_all(METHODS, check)


def test_the_list_is_torchs() -> None:
    """Every function of the list exists in torch, and those with a signature have the names."""
    for name, parameters in ROWS:
        found: Any = torch
        for part in name.split("."):
            found = getattr(found, part)
        try:
            known = inspect.signature(found).parameters
        except (TypeError, ValueError):
            continue
        if not any(p.kind in (p.VAR_KEYWORD, p.VAR_POSITIONAL) for p in known.values()):
            assert set(parameters.split(",")) <= set(known), name


def test_a_wrong_name_is_noticed() -> None:
    assert "nothing" in unknown(ag.add, ["input", "nothing"])
    assert "nothing" in unknown(ag.sum, ["input", "nothing"])


X = numpy.arange(24.0).reshape(2, 3, 4)

# Calls whose overloads name the same argument differently.
CALLS: list[Callable[[Any, Any], Any]] = [
    lambda t, x: t.reshape(input=x, shape=(6, 4)),
    lambda t, x: x.reshape(shape=(4, 6)),
    lambda t, x: t.tile(input=x, dims=(2, 1)),
    lambda t, x: t.broadcast_to(input=x, size=(2, 2, 3, 4)),
    lambda t, x: t.split(tensor=x, split_size_or_sections=2, dim=2)[1],
    lambda t, x: x.split(split_size=[1, 3], dim=2)[1],
    lambda t, x: t.tensor_split(input=x, sections=3, dim=1)[2],
    lambda t, x: t.tensor_split(input=x, indices=(1,), dim=1)[1],
    lambda t, x: t.hsplit(input=x, indices=(2,))[0],
    lambda t, x: t.vsplit(input=x, sections=2)[0],
    lambda t, x: t.permute(input=x, dims=(2, 0, 1)),
    lambda t, x: t.clamp_min(input=x, min=3.0),
    lambda t, x: x.clamp_max(max=3.0),
    lambda t, x: t.swapaxes(input=x, axis0=0, axis1=2),
    lambda t, x: x.swapdims(dim0=0, dim1=2),
    lambda t, x: (x * 1).transpose_(dim0=0, dim1=2),
    lambda t, x: t.arange(end=5, dtype=t.float64),
    lambda t, x: t.linalg.vector_norm(x=x, ord=2, dim=(0, 2)),
    lambda t, x: t.special.legendre_polynomial_p(x=x / 24, n=t.tensor(3.0)),
    lambda t, x: t.scatter(x, 0, t.zeros(1, 3, 4, dtype=t.int64), 2.0, reduce="multiply"),
    lambda t, x: t.zero_(input=x * 1),
    lambda t, x: t.sum(input=x, dim=(0, 1), keepdim=True),
    lambda t, x: t.flatten(input=x, start_dim=1, end_dim=2),
]


def test_scatter_with_a_reduction_is_told_of_its_successor() -> None:
    # (torch says it once in a process: perhaps it has.)
    x = ag.tensor(X)
    with pytest.warns(UserWarning, match="Use torch.scatter_reduce instead"):
        found = ag.scatter(x, 0, ag.zeros(1, 3, 4, dtype=ag.int64), x[1:], reduce="add")
    numpy.testing.assert_array_equal(found.numpy()[0], X[0] + X[1])


@pytest.mark.parametrize("call", range(len(CALLS)))
def test_calls_by_keyword_are_torchs(call: int) -> None:
    ours, theirs = (CALLS[call](t, t.tensor(X)) for t in (ag, torch))
    assert tuple(ours.shape) == tuple(theirs.shape)
    numpy.testing.assert_allclose(ours.numpy(), theirs.numpy())
