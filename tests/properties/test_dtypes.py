"""Promotion and integer inputs: each op's result dtype and values, as torch's."""

from __future__ import annotations

import itertools
import warnings
from typing import Any

import numpy
import pytest

from ag_visual.core.tensor import from_array
from ag_visual.dispatch.record import KEEP, Op

from ..oracle import torch
from .cases import arguments, calls, every, host
from .checks import close
from .test_oracle import counterpart, listed

pytestmark = [pytest.mark.oracle, pytest.mark.filterwarnings("ignore")]

KINDS = ("bool", "uint8", "int32", "int64", "float32", "float64", "complex64")


def arrays(kind: str) -> Any:
    """Small numbers that every dtype has, with and without dimensions."""
    return numpy.array([1, 2, 3, 1]).astype(kind), numpy.asarray(2).astype(kind)


def outcome(function: Any, wrap: Any, op: Op, values: dict[str, Any]) -> Any:
    """The first result as (dtype name, array), or None where the call is refused."""
    given = {k: wrap(v) if isinstance(v, numpy.ndarray) else v for k, v in values.items()}
    positional, keyword = arguments(op, given)
    try:
        result = listed(function(*positional, **keyword))[0]
    except (RuntimeError, TypeError, IndexError):
        return None
    if isinstance(result, torch.Tensor):
        return str(result.dtype).removeprefix("torch."), result.numpy(force=True)
    return result.dtype.name, host(result)


def tensor_names(op: Op) -> list[str]:
    values = calls(op)[0].values
    return [n for n in op.inputs if isinstance(values[n], numpy.ndarray)]


def promoting(op: Op) -> bool:
    reduces = "dim" in op.params or "reduction" in op.params
    return op.policy != KEEP and not op.no_promotion and not op.lists and not reduces


@every(promoting)
def test_promotion_as_torch(op: Op) -> None:
    function = counterpart(op)
    if function is None:
        return
    names = tensor_names(op)
    plain = calls(op)[0].values
    for kinds in itertools.product(KINDS, repeat=min(len(names), 2)):
        kinds = (*kinds, *kinds[-1:] * (len(names) - len(kinds)))
        for ranks in itertools.product((0, 1), repeat=min(len(names), 2)):
            ranks = (*ranks, *ranks[-1:] * (len(names) - len(ranks)))
            some = {n: arrays(k)[r] for n, k, r in zip(names, kinds, ranks, strict=True)}
            compare(op, function, {**plain, **some})


@every(lambda op: promoting(op) and len(op.inputs) == 2 and "other" in op.inputs)
def test_promotion_with_numbers_as_torch(op: Op) -> None:
    function = counterpart(op)
    plain = calls(op)[0].values
    for kind, rank, number in itertools.product(KINDS, (0, 1), (2, 1.5, True)):
        if function is not None:
            compare(op, function, {**plain, "self": arrays(kind)[rank], "other": number})


def compare(op: Op, function: Any, values: dict[str, Any]) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        expected = outcome(function, torch.tensor, op, values)
        if expected is None:
            return
        found = outcome(op.call, from_array, op, values)
    told = {k: getattr(v, "dtype", v) for k, v in values.items()}
    assert found is not None, told
    assert found[0] == expected[0], told
    close(found[1], expected[1], f"{told}", 1e-5, 1e-6)
