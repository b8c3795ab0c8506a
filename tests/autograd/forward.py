"""Helpers of the tests of forward mode: dual tensors as plain data, errors by their beginning."""

from __future__ import annotations

import importlib
import warnings
from collections.abc import Callable
from typing import Any

from ..oracle import torch
from ..programs import old_names, raised

if torch.__version__:
    with warnings.catch_warnings():
        # The first make_dual imports it, with warnings of torch's about itself.
        warnings.simplefilter("ignore")
        importlib.import_module("torch._decomp.decompositions_for_jvp")


def unpacked(t: Any, x: Any) -> Any:
    """The values of a tensor and, where it has a tangent, its dtype, values and strides."""
    primal, tangent = t.autograd.forward_ad.unpack_dual(x)
    if tangent is None:
        return [primal.tolist(), None]
    return [primal.tolist(), str(tangent.dtype), tangent.tolist(), list(tangent.stride())]


def dual(t: Any, values: Any, moves: Any = None, **options: Any) -> Any:
    """A dual tensor of two lists of numbers; by default its tangent is three times its values."""
    x = t.tensor(values, **options)
    tangent = x.detach() * 3 if moves is None else t.tensor(moves)
    return t.autograd.forward_ad.make_dual(x, tangent)


def said(call: Callable[[], Any]) -> Any:
    """Type and beginning of the text of what a call raises."""
    kind, text = raised(call)
    return [kind, old_names(text)[:70]]
