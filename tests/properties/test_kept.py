"""Bytes kept for backward: no op saves more memory than torch's does on the same call."""

from __future__ import annotations

import warnings
from typing import Any

import numpy
import pytest

import ag_visual as ag
from ag_visual.arrays.backend import data_pointer
from ag_visual.autograd.graph import saved_tensors_hooks
from ag_visual.core.tensor import Tensor
from ag_visual.dispatch.record import Op

from ..oracle import torch
from .cases import Call, calls, differentiable, every, run
from .test_oracle import counterpart, theirs

pytestmark = pytest.mark.oracle


def own_block(tensor: Tensor) -> tuple[int, int]:
    """Address and bytes of the memory that a tensor keeps alive: its base's, for a view."""
    array: Any = tensor._array
    while isinstance(getattr(array, "base", None), numpy.ndarray):
        array = array.base
    return data_pointer(array), array.nbytes


def their_block(tensor: Any) -> tuple[int, int]:
    storage = tensor.untyped_storage()
    return storage.data_ptr(), storage.nbytes()


def kept(hooks: Any, block: Any, call: Any) -> int:
    """The bytes of all memory that nodes of a call save, each block once."""
    blocks: dict[int, int] = {}
    alive = []

    def pack(tensor: Any) -> Any:
        address, size = block(tensor)
        blocks[address] = size
        alive.append(tensor)
        return tensor

    with hooks(pack, lambda tensor: tensor):
        alive.append(call())
    return sum(blocks.values())


def own_bytes(call: Call) -> int:
    values, _ = call.tensors()
    return kept(saved_tensors_hooks, own_block, lambda: run(call.op, values))


def their_bytes(call: Call, function: Any) -> int:
    positional, keyword, _ = theirs(call)
    return kept(
        torch.autograd.graph.saved_tensors_hooks,
        their_block,
        lambda: function(*positional, **keyword),
    )


@every(differentiable)
def test_no_more_is_kept_than_torch_keeps(op: Op) -> None:
    function = counterpart(op)
    if function is None:
        return
    for call in calls(op):
        if not (call.smooth and call.oracle and call.leaves):
            continue
        with warnings.catch_warnings(), numpy.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            mine, other = own_bytes(call), their_bytes(call, function)
        assert mine <= other, f"{mine} bytes, torch keeps {other}"


def _refused(backward: Any) -> bool:
    try:
        backward()
    except RuntimeError as error:
        return "modified by an inplace operation" in str(error)
    return False


@every(lambda op: op.kept and differentiable(op))
def test_what_no_rule_reads_is_refused_where_it_was_written(op: Op) -> None:
    """As torch does, whose formulas read all that they save."""
    names = [name for name in op.kept if name in op.inputs]
    call = next((c for c in calls(op) if c.leaves and c.smooth), None)
    if not names or call is None:
        return
    for name in names:
        values, _ = call.tensors()
        if not isinstance(values[name], Tensor):
            continue
        out = next(o for o in run(op, values) if o.requires_grad)
        with ag.no_grad():
            values[name].mul_(1)
        assert _refused(lambda out=out: out.backward(ag.ones_like(out))), name


def test_the_count_sees_blocks_once_and_whole() -> None:
    x = ag.ones(4, 5, requires_grad=True)
    half = x[:2]
    assert kept(saved_tensors_hooks, own_block, lambda: half * half) == x.nbytes
    assert kept(saved_tensors_hooks, own_block, lambda: x.exp()) == x.nbytes
    assert kept(saved_tensors_hooks, own_block, lambda: x * x.exp()) == 2 * x.nbytes
