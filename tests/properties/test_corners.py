"""Every name of the list at the corners of its domain, as torch has it there: tensors without
dimensions, empty batches, infinite gradients, integers and bools, expanded destinations.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Any

import numpy
import pytest

import ag_visual as ag

from ..oracle import torch
from . import opinfo
from .test_golden import reasons, rows

pytestmark = [pytest.mark.oracle, pytest.mark.filterwarnings("ignore")]

OPEN = ("empty", "empty_like", "empty_permuted", "new_empty", "new_empty_strided", "resize")
"""Names whose elements nobody has set."""
TIES = ("argsort", "kthvalue", "sort", "topk")
"""Names that choose freely among equal elements, of which integers have many."""
CRASHES = ("nn.functional.pdist",)
"""Names with which torch 2.13 ends the process in the backward of an empty batch."""


@dataclass
class Changed:
    """A sample with other tensors."""

    input: Any
    args: Any
    kwargs: Any
    output_process_fn_grad: Any


Change = Callable[[Any], Any]


def mapped(value: Any, change: Change) -> Any:
    """Nested arguments with every tensor changed."""
    if isinstance(value, torch.Tensor):
        return change(value)
    if type(value) in (list, tuple):
        return type(value)(mapped(item, change) for item in value)
    if isinstance(value, dict):
        return {key: mapped(item, change) for key, item in value.items()}
    return value


def changed(sample: Any, change: Change) -> Any:
    parts = [mapped(part, change) for part in (sample.input, sample.args, sample.kwargs)]
    return Changed(*parts, sample.output_process_fn_grad)


def leaf(tensor: Any, like: Any) -> Any:
    return tensor.detach().clone().requires_grad_(like.requires_grad)


def pointed(sample: Any) -> Any:
    """Every tensor by its first element."""
    return changed(sample, lambda t: leaf(t.flatten()[:1].reshape(()), t) if t.numel() else t)


def emptied(sample: Any) -> Any:
    """Nothing in the first dimension, of all tensors that have the same size there."""
    first = opinfo.leaves_of(sample.input, torch.Tensor)
    size = first[0].shape[0] if first and first[0].ndim else None

    def without(tensor: Any) -> Any:
        return leaf(tensor[:0], tensor) if tensor.ndim and tensor.shape[0] == size else tensor

    return changed(sample, without)


def infinite(info: Any, sample: Any, function: Callable[..., Any]) -> str:
    """New NaN in gradients, where one element of what arrives is infinite or NaN itself."""
    mine, theirs = opinfo.sides(info, sample, function)
    try:
        expected = gradients(theirs)
    except Exception as error:
        raise opinfo.SampleRefused from error
    return fresh_nan(gradients(mine), expected)


def fresh_nan(found: list[Any], expected: list[Any]) -> str:
    """NaN among gradients that have none in torch and are finite there; '' for nothing."""
    for a, b in zip(found, expected, strict=True):
        both = a is not None and b is not None
        if both and not numpy.isnan(b).any() and (numpy.isnan(a) & numpy.isfinite(b)).any():
            return f"{numpy.isnan(a).sum()} NaN among {a.size}, none in torch"
    return ""


def gradients(side: opinfo.Side) -> list[Any]:
    outs = [out for out in side.outputs(*side.leaves) if out.requires_grad]
    gs = opinfo.random_like([opinfo.array_of(out) for out in outs], 1)
    found: list[Any] = []
    if not outs or not side.leaves:
        return [None] * (2 * len(side.leaves))
    for value in (numpy.inf, numpy.nan):
        for g in gs:
            g.reshape(-1)[-1:] = value
        weights = [side.wrap(g) for g in gs]
        found += side.engine.autograd.grad(
            outs, side.leaves, weights, retain_graph=True, allow_unused=True
        )
    return [None if g is None else opinfo.array_of(g) for g in found]


CORNERS = ("no dimensions", "empty batch", "infinite gradient", "int64", "bool")


def compared(info: Any, sample: Any, function: Callable[..., Any], corner: str) -> str:
    """What differs in a corner, '' for nothing."""
    if corner == "no dimensions":
        return opinfo.compare(info, pointed(sample), function, False)
    if corner == "empty batch":
        return opinfo.compare(info, emptied(sample), function, False)
    if corner == "infinite gradient":
        return infinite(info, sample, function) if info.supports_autograd else ""
    return opinfo.compare(info, sample, function, False)


def asked(name: str, corner: str) -> bool:
    """Whether torch says anything there."""
    integers = corner in ("int64", "bool")
    if name.startswith(OPEN) or (integers and name in TIES):
        return False
    return not (corner == "empty batch" and name in CRASHES)


def differences(name: str, corner: str) -> Iterator[str]:
    kind = getattr(torch, corner, torch.float64)
    for info in opinfo.infos(name):
        function = opinfo.ours_of(info)
        if function is None or kind not in info.supported_dtypes("cpu"):
            continue
        grad = kind is torch.float64 and info.supports_autograd
        torch.manual_seed(0)
        for sample in islice(info.sample_inputs("cpu", kind, requires_grad=grad), 1):
            told = attempt(info, sample, function, corner)
            if told:
                yield f"{info.variant_test_name or 'plain'}: {told}"


def attempt(info: Any, sample: Any, function: Callable[..., Any], corner: str) -> str:
    try:
        with warnings.catch_warnings(), numpy.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            return compared(info, sample, function, corner)
    except opinfo.SampleRefused:
        return ""
    except Exception as error:
        return f"{type(error).__name__}: {error}".splitlines()[0]


@pytest.mark.parametrize("corner", CORNERS)
def test_every_name_agrees_in_the_corner(corner: str) -> None:
    names = [name for name in rows("ops.tsv") if name not in reasons("agreement")]
    found = [f"{n}, {told}" for n in names if asked(n, corner) for told in differences(n, corner)]
    assert not found, "\n".join(found)


# The check finds injected faults ------------------------------------------------------------------


def first_sample(name: str, kind: Any) -> tuple[Any, Any]:
    (info,) = opinfo.infos(name)
    torch.manual_seed(0)
    return info, next(iter(info.sample_inputs("cpu", kind, requires_grad=kind.is_floating_point)))


@pytest.mark.parametrize(
    ("corner", "name", "function"),
    [
        ("no dimensions", "exp", lambda x: ag.exp(x).reshape(tuple(x.shape) or (1,))),
        ("empty batch", "exp", lambda x: ag.exp(x) + 0 * x.max()),
        ("infinite gradient", "abs", lambda x: ag.abs(x) + 0 * x.sum()),
        ("int64", "abs", lambda x: ag.abs(x) * 1.0),
        ("bool", "logical_not", lambda x: 1 - x.int()),
    ],
)
def test_the_comparison_finds_injected_faults(corner: str, name: str, function: Any) -> None:
    info, sample = first_sample(name, getattr(torch, corner, torch.float64))
    right = opinfo.ours_of(info)
    assert right is not None
    assert not attempt(info, sample, right, corner)
    assert attempt(info, sample, function, corner)
