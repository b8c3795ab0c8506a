"""In-place forms: what may be written, and how the write is recorded."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ag_visual import dtypes, promotion
from ag_visual.core import modes, saved
from ag_visual.core.storage import FRESH
from ag_visual.core.tensor import (
    Tensor,
    _blank,
    before_write,
    check_inplace,
    rebase,
    wrote,
)
from ag_visual.dispatch.interpreted import (
    _arguments,
    _compute,
    _fitted,
    arrays_of,
    bad_argument,
    binder,
    refuse_complex,
    refuse_unlike,
)
from ag_visual.dispatch.memory_overlap import refuse_internal, refuse_shared
from ag_visual.dispatch.op_node import _edges, borrows, make_node, may_be_recorded
from ag_visual.dispatch.record import Op
from ag_visual.events import instrument


def _can_hold(target: Any, dtype: Any) -> bool:
    return promotion.can_cast(dtypes.of_numpy(dtype), dtypes.of_numpy(target))


def inplace_twin(op: Op) -> Callable[..., Any]:
    """`name_`: the same op, written into its first argument."""
    twin = f"{op.public_name}_"
    bind = binder(op, twin)

    def call(*args: Any, **kwargs: Any) -> Any:
        return run_inplace(op, twin, bind(args, kwargs))

    call.__name__ = call.__qualname__ = twin
    call.__signature__ = op.signature  # type: ignore[attr-defined]
    op.write = call
    return call


def run_inplace(op: Op, twin: str, args: list[Any]) -> Any:
    args = _fitted(op, twin, args)
    values = dict(zip(op.params, args, strict=True))
    if op.check is not None:
        op.check(*args)
    if op.dtype_check is not None:
        refuse_unlike(op, values)
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
            check_inplace(target, twin)
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
        refuse_complex(op, arrays)
    arguments = _arguments(op, values, arrays)
    _refuse_overlap(op, twin, target, values)
    array = target._array
    result = None
    if op.writes is None:
        result = _assignable(op, twin, array, _compute(op, backend, arrays, arguments))
    # What it saves is saved before the write: it may be refused, and hooks are to see it as it was.
    node = make_node(op, values, arguments, [target], edges, inplace=True) if grows else None
    root = target if target._view is None else target._view.base
    history = root._edge

    def written() -> None:
        """The write is there: count it, and make it part of the history."""
        wrote(target, twin)
        if node is None:
            return
        results = [name for name in op.saves if name in op.outputs]
        for name in results:
            setattr(node, f"t_{name}", target._storage.stamp)
        for name in op.saves if modes.special else ():
            saved.guard(node, name)
        if instrument.sink is not None:
            saved.report_node(node)
            saved.report_cuts(node, ((name, values[name]) for name in op.diff_inputs))
        rebase(target, node)
        for name in results if modes.state.saved_hooks else ():
            if getattr(node, f"s_{name}") is not None:
                setattr(node, f"s_{name}", saved.Packed(*modes.state.saved_hooks[-1], target, 0))

    if op.writes is not None:
        try:
            _compute(op, backend, arrays, arguments, writing=True)
        except Exception:
            raise
        except BaseException:
            wrote(target, twin)  # an interrupt: perhaps it has written
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
    """The op as its in-place form is recorded: see `inplace_node` of `record.Op`."""
    for twin in op.inplace_variants:
        if all(isinstance(values[name], Tensor) for name in twin.diff_inputs):
            return twin
    return op


def _refuse_overlap(op: Op, twin: str, target: Any, values: dict[str, Any]) -> None:
    repeated = op.repeated
    refuse_internal(target, twin, repeated(target, values) if callable(repeated) else repeated)
    for name in op.inputs[1:]:
        if name not in op.may_alias:
            refuse_shared(target, values[name], twin, apart=op.no_overlap)
    for name in op.lists:
        for value in values[name]:
            refuse_shared(target, value, twin, apart=op.no_overlap)


def _assignable(op: Op, twin: str, array: Any, result: Any) -> Any:
    """A kernel's result, if shape and dtype allow that it is written into the array."""
    if op.outputs != ("result",):
        result = result[0]
    shape = getattr(result, "shape", ())
    if shape != array.shape:
        raise RuntimeError(
            f"output with shape {list(array.shape)} doesn't match the broadcast shape "
            f"{list(shape)} in {twin}"
        )
    if result.dtype != array.dtype and not _can_hold(array.dtype, result.dtype):
        raise RuntimeError(
            f"result type {dtypes.of_numpy(result.dtype).name} can't be cast to the desired output "
            f"type {dtypes.of_numpy(array.dtype).name} in {twin}"
        )
    return result


def _copy_of(tensor: Any) -> Any:
    copy = _blank(Tensor, tensor._array.copy())
    copy._store = FRESH
    copy._edge = tensor._edge
    copy._rg = tensor._rg
    return copy
