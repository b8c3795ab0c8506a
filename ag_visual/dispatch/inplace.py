"""In-place variants: what may be written, and how the write is recorded."""

from __future__ import annotations

from typing import Any

import numpy

from ag_visual import dtypes, promotion
from ag_visual.core import modes, saved
from ag_visual.core.saved_packed import Packed
from ag_visual.core.storage import FRESH
from ag_visual.core.tensor import Tensor, _blank, before_write, check_inplace, rebase, wrote
from ag_visual.dispatch.interpreted import (
    _arguments,
    _compute,
    _fitted,
    arrays_of,
    bad_argument,
    check_dtypes,
    check_real,
)
from ag_visual.dispatch.memory_overlap import check_internal_overlap, check_operand_overlap
from ag_visual.dispatch.op_node import _edges, borrows, make_node, may_be_recorded
from ag_visual.dispatch.record import Op
from ag_visual.events import instrument


def _can_hold(target: numpy.dtype[Any], dtype: numpy.dtype[Any]) -> bool:
    return promotion.can_cast(dtypes.of_numpy(dtype), dtypes.of_numpy(target))


def run_inplace(op: Op, variant: str, args: list[Any]) -> Tensor:
    args = _fitted(op, variant, args)
    values = dict(zip(op.params, args, strict=True))
    if op.check is not None:
        op.check(*args)
    if op.dtype_check is not None:
        check_dtypes(op, op.dtype_check, values)
    target = values[op.params[0]]
    if not isinstance(target, Tensor):
        raise bad_argument(op.public_name, op.params, op.params[0], target)
    before_write(target)
    op = _recorded_as(op, values)
    edges = []
    # Only an in-place comparison may write into integers beside a tensor that requires grad.
    if modes.grad_enabled() and op.rules and target._array.dtype.kind in "fcV":
        # The written tensor first: the edges would blame a view for the write to its base.
        if may_be_recorded(op, values):
            check_inplace(target, variant)
        edges = _edges(op, values)
    grows = any(edge is not None for edge in edges) or bool(edges and borrows(op, values))
    if (
        grows
        and op.params[0] in op.saves
        and any(
            e is not None
            for i, e in zip(op.diff_inputs, edges, strict=True)
            if i in op.wanted_by(op.params[0])
        )
    ):
        # The rule wants the value from before the write; the node keeps a copy of it.
        values = {**values, op.params[0]: _copy_of(target)}
    backend, arrays = arrays_of(op, values)
    if op.real_only:
        check_real(op, arrays)
    arguments = _arguments(op, values, arrays)
    _check_overlaps(op, variant, target, values)
    array = target._array
    result = None
    if op.writes is None:
        result = _assignable(op, variant, array, _compute(op, backend, arrays, arguments))
    # What it saves is saved before the write: it may be refused, and hooks are to see it as it was.
    node = make_node(op, values, arguments, [target], edges, inplace=True) if grows else None
    root = target if target._view is None else target._view.base
    history = root._edge

    def written() -> None:
        """The write is there: count it, and make it part of the history."""
        wrote(target, variant)
        if node is None:
            return
        results = [name for name in op.saves if name in op.outputs]
        for name in results:
            setattr(node, f"t_{name}", target._storage.snapshot)
        for name in op.saves if modes.special else ():
            saved.guard(node, name)
        if instrument.sink is not None:
            saved.report_node(node)
            saved.report_breaks(node, ((name, values[name]) for name in op.diff_inputs))
        rebase(target, node)
        for name in results if modes.state.saved_hooks else ():
            if getattr(node, f"s_{name}") is not None:
                setattr(node, f"s_{name}", Packed(*modes.state.saved_hooks[-1], target, 0))

    if op.writes is not None:
        try:
            _compute(op, backend, arrays, arguments, writing=True)
        except Exception:
            raise
        except BaseException:
            wrote(target, variant)  # an interrupt: perhaps it has written
            raise
    try:
        if op.writes is None:
            array[...] = result
        written()
    except Exception:
        raise
    except BaseException:  # an interrupt, after the write: its history must not be missing
        if root._edge is history:
            written()
        raise
    return target


def _recorded_as(op: Op, values: dict[str, Any]) -> Op:
    """The op as its in-place variant is recorded: see `inplace_node` of `record.Op`."""
    for variant in op.inplace_variants:
        if all(isinstance(values[name], Tensor) for name in variant.diff_inputs):
            return variant
    return op


def _check_overlaps(op: Op, variant: str, target: Tensor, values: dict[str, Any]) -> None:
    repeated = op.repeated
    check_internal_overlap(
        target, variant, repeated(target, values) if callable(repeated) else repeated
    )
    for name in op.inputs[1:]:
        if name not in op.may_alias:
            check_operand_overlap(target, values[name], variant, no_overlap=op.no_overlap)
    for name in op.lists:
        for value in values[name]:
            check_operand_overlap(target, value, variant, no_overlap=op.no_overlap)


def _assignable(op: Op, variant: str, array: Any, result: Any) -> Any:
    """A kernel's result, if shape and dtype allow that it is written into the array."""
    if op.outputs != ("result",):
        result = result[0]
    shape = getattr(result, "shape", ())
    if shape != array.shape:
        raise RuntimeError(
            f"output with shape {list(array.shape)} doesn't match the broadcast shape "
            f"{list(shape)} in {variant}"
        )
    if result.dtype != array.dtype and not _can_hold(array.dtype, result.dtype):
        raise RuntimeError(
            f"result type {dtypes.of_numpy(result.dtype).name} can't be cast to the desired output "
            f"type {dtypes.of_numpy(array.dtype).name} in {variant}"
        )
    return result


def _copy_of(tensor: Tensor) -> Tensor:
    copy: Tensor = _blank(Tensor, tensor._array.copy())
    copy._store = FRESH
    copy._edge = tensor._edge
    copy._rg = tensor._rg
    return copy
