"""Forward mode of one op: results get tangents where arguments have some, in-place ops write them.

`levels` calls this with the arguments of the innermost level. The rules run where tangents do not
count (`modes.state.primal`): so do their ops, on the built path.
"""

from __future__ import annotations

from typing import Any

from ag_visual.core import dual, modes, saved
from ag_visual.core.dual import ForwardLevel
from ag_visual.core.level import Wrapper
from ag_visual.core.node import Edge
from ag_visual.core.saved_packed import Packed
from ag_visual.core.storage import Storage
from ag_visual.core.tensor import Tensor, _rebuild
from ag_visual.core.view import distinct
from ag_visual.dispatch import jvp as jvp_rules
from ag_visual.dispatch.interpreted import _fitted, run
from ag_visual.dispatch.memory import reach
from ag_visual.dispatch.record import LINEAR, Op
from ag_visual.layouts import contiguous_format

Known = tuple[ForwardLevel, Tensor]
"""A level of forward mode, and a tangent at it."""


def depth_of(value: Any) -> int:
    """The depth of the level that a value belongs to; 0 for none."""
    return value.level.depth if isinstance(value, Wrapper) else 0


# Which arguments have tangents ------------------------------------------------------------------


def of_plain(op: Op, args: list[Any]) -> dict[str, Any] | None:
    """Level and tangent of each input that has one; None where an argument belongs to a level."""
    state = modes.state
    moves: dict[str, Any] = {}
    if modes.levelled:
        for value in args:
            if isinstance(value, (tuple, list)):
                if any(isinstance(item, Wrapper) for item in value):
                    return None
            elif isinstance(value, Wrapper):
                return None
    if state.primal or not modes.duals or not state.forward or state.inference:
        return moves
    for name, value in zip(op.params, args, strict=True):
        if isinstance(value, Tensor):
            known = dual.dual_of(value)
            if known is not None:
                moves[name] = known
        elif name in op.lists and isinstance(value, (tuple, list)):
            items = [dual.dual_of(v) if isinstance(v, Tensor) else None for v in value]
            if any(item is not None for item in items):
                moves[name] = items
    return {name: moves[name] for name in moves if name in op.inputs or name in op.lists}


def found(op: Op, values: dict[str, Any], depth: int, levels: tuple[Any, ...]) -> dict[str, Any]:
    """The same among the arguments of the innermost level, which is at this depth."""
    moves: dict[str, Any] = {}
    if not modes.duals or not modes.forward_enabled():
        return moves
    if modes.state.primal and depth == len(levels):
        return moves
    for name in op.inputs:
        value = values[name]
        if isinstance(value, Tensor) and depth_of(value) == depth:
            known = dual.dual_of(value)
            if known is not None:
                moves[name] = known
    for name in op.lists:
        items = [
            dual.dual_of(v) if isinstance(v, Tensor) and depth_of(v) == depth else None
            for v in values[name]
        ]
        if any(item is not None for item in items):
            moves[name] = items
    return moves


def level_of(moves: dict[str, Any]) -> ForwardLevel:
    """The level of forward mode of these tangents."""
    first = next(iter(moves.values()))
    if isinstance(first, list):
        first = next(item for item in first if item is not None)
    level: ForwardLevel = first[0]
    return level


def _directions(op: Op, values: dict[str, Any], moves: dict[str, Any]) -> dict[str, Any]:
    """The tangents by input: zeros for the tensors of a list that have none."""
    directions: dict[str, Any] = {}
    for name, known in moves.items():
        if isinstance(known, list):
            pairs = zip(values[name], known, strict=True)
            directions[name] = [_zeros_like(op, v) if k is None else k[1] for v, k in pairs]
        else:
            directions[name] = known[1]
    return directions


def _zeros_like(op: Op, value: Any) -> Any:
    if value is None:
        return None
    value = value.detach()
    return op.table.traced.zeros_of(value, tuple(value.shape))


# Results ----------------------------------------------------------------------------------------


def plain(op: Op, args: list[Any], moves: dict[str, Any]) -> Any:
    """One call of an op on tensors of no level."""
    state = modes.state
    if not moves:
        if state.primal or not modes.plain_duals:
            return run(op, args)
        if op.varargs:
            args = _fitted(op, op.public_name, args)
        try:
            state.primal = True
            return (
                op.call(*args)
                if not op.keyword
                else jvp_rules.on_values(op.call, op, dict(zip(op.params, args, strict=True)))
            )
        finally:
            state.primal = False
    values = dict(zip(op.params, _fitted(op, op.public_name, args), strict=True))
    directions = _directions(op, values, moves)
    try:
        state.primal = True
        result, tangents = jvp_rules.jvp_values(op.table.traced, op, values, directions)
        if tangents is not None:
            _give(op, level_of(moves), result, tangents, directions)
    finally:
        state.primal = False
    return result


def moved(op: Op, values: dict[str, Any], world: tuple[Any, ...], moves: dict[str, Any]) -> Any:
    """The result of a call at a level, with its tangent."""
    return modes.at_levels(*world, True, _moved, op, values, moves)


def _moved(op: Op, values: dict[str, Any], moves: dict[str, Any]) -> Any:
    directions = _directions(op, values, moves)
    result, tangents = jvp_rules.jvp_values(op.table.traced, op, values, directions)
    if tangents is not None:
        _give(op, level_of(moves), result, tangents, directions)
    return result


def _give(
    op: Op, level: ForwardLevel, result: Any, tangents: Any, directions: dict[str, Any]
) -> None:
    """Give results their tangents."""
    results = result if op.multi or len(op.outputs) > 1 else [result]
    for place, tangent in _places(op, tangents):
        out = results[place]
        if tangent is None or out._array.dtype.kind not in "fcV":
            continue
        level.give(out, _laid(op, out, tangent, directions))
        if out._edge is not None:
            _keep_tangent(op, out)


def _places(op: Op, tangents: Any) -> list[tuple[int, Any]]:
    """The number of the result that each tangent is of."""
    if op.multi:
        return list(enumerate(tangents))
    if len(op.outputs) == 1:
        return [(0, tangents)]
    several = tangents if len(op.differentiable) > 1 else [tangents]
    return list(zip(op.differentiable, several, strict=True))


def pushed(op: Op, lower: dict[str, Any], moves: dict[str, Any]) -> tuple[Any, Any]:
    """Results below a level of `func.jvp`, and the number and tangent of each that has one.

    lower, moves: what arguments and tangents hold at the level, so that rules need not pass it.
    """
    directions = _directions(op, lower, moves)
    result, tangents = jvp_rules.jvp_values(op.table.traced, op, lower, directions)
    if tangents is None:
        return result, []
    results = result if op.multi or len(op.outputs) > 1 else [result]
    return result, [
        (place, laid(op, results[place], tangent, directions))
        for place, tangent in _places(op, tangents)
        if tangent is not None and results[place]._array.dtype.kind in "fcV"
    ]


def laid(op: Op, out: Any, tangent: Any, directions: dict[str, Any]) -> Any:
    """A tangent below a level, as its tensor there: see `_laid`."""
    tangent = _shaped(op, out, tangent, directions)
    if not op.view and any(shares(tangent, each) for each in directions.values()):
        return tangent.clone()
    return (
        tangent
        if dual.same_strides(out._array, tangent._array)
        else _in_order(op.table.traced, out, tangent)
    )


def _in_order(F: Any, out: Any, tangent: Any) -> Any:
    """A copy of a tangent that lies in memory as its tensor does, as far as that goes."""
    array = out._array
    strides = array.strides
    order = sorted(range(len(strides)), key=lambda dim: -strides[dim])
    back = sorted(range(len(order)), key=order.__getitem__)
    result = tangent.permute(order).clone(memory_format=contiguous_format).permute(back)
    alike = dual.same_strides(array, result._array)
    if alike or not distinct(array.shape, strides, array.itemsize):
        return result
    # There are gaps between its elements: those of other slices.
    places = tuple(stride // array.itemsize for stride in strides)
    line = (reach(array.shape, places),)
    return F.as_strided(
        F.as_strided_backward(tangent, line, array.shape, places, 0), array.shape, places
    )


def shares(tangent: Any, direction: Any) -> bool:
    """Whether a tangent lies in the memory of another one, or of one in a list."""
    if isinstance(direction, list):
        return any(shares(tangent, each) for each in direction)
    return tangent is direction or _memory(tangent) is _memory(direction)


def _memory(tensor: Any) -> Any:
    while isinstance(tensor, Wrapper):
        tensor = tensor.value
    return tensor._array if tensor._memory is None else tensor._memory


def _laid(op: Op, out: Any, tangent: Any, directions: dict[str, Any]) -> Any:
    """A tangent with the shape and the layout of its tensor, a view where that is one."""
    tangent = _shaped(op, out, tangent, directions)
    have, want = tangent._array, out._array
    if not op.view and (tangent._view is not None or _given(tangent, directions)):
        if isinstance(out, Wrapper):
            return tangent.clone()
        return dual.blank_like(out, have.dtype).copy_(tangent)
    if have.strides == want.strides or dual.same_strides(want, have):
        return tangent
    return dual.laid_as(out, tangent)


def _shaped(op: Op, out: Any, tangent: Any, directions: dict[str, Any]) -> Any:
    """A tangent with the shape of its tensor, and the dtype where a number promoted it."""
    have, want = tangent._array, out._array
    real = have.dtype.kind != "c" and want.dtype.kind != "c"
    if real and have.dtype != want.dtype and want.ndim and _of_numbers(directions):
        tangent = op.table.traced.cast(tangent, want.dtype)
        have = tangent._array
    if have.shape != want.shape:
        tangent = tangent.expand(want.shape)
    return tangent


def _of_numbers(directions: dict[str, Any]) -> bool:
    """Whether an operand without dimensions has a tangent: its dtype is not that of the result."""
    return any(getattr(each, "ndim", 1) == 0 for each in directions.values())


def _given(tangent: Any, directions: dict[str, Any]) -> bool:
    """Whether a tangent is that of an input."""
    return any(
        tangent is each if not isinstance(each, list) else any(tangent is x for x in each)
        for each in directions.values()
    )


def _keep_tangent(op: Op, out: Any) -> None:
    """Its node gives a saved own output back with the tangent."""
    node, number = out._edge[:2]
    for name in op.saves:
        owner = getattr(node, f"o_{name}", None)
        if owner is not None and owner[1] == number and owner[2]:
            kept = getattr(node, f"s_{name}", None)
            if isinstance(kept, Packed):
                kept.dual = out._dual
            elif kept is not None and not isinstance(kept, DualOutput):
                setattr(node, f"s_{name}", DualOutput(kept, out._dual))


class DualOutput(saved.OwnValue):
    """A saved own output of a node that has a tangent."""

    __slots__ = ("_dual", "_value")

    def __init__(self, value: Any, dual: tuple[ForwardLevel, Tensor]) -> None:
        self._value = value  # an array, or what a level keeps
        self._dual = dual

    @property
    def array(self) -> Any:
        value = self._value
        return value.array if isinstance(value, saved.OwnValue) else value

    def rebuilt(self, storage: Storage, edge: Edge) -> Any:
        value = self._value
        if isinstance(value, saved.OwnValue):
            result = value.rebuilt(storage, edge)
        else:
            result = _rebuild(value, storage, edge)
        level, tangent = self._dual
        if level.open:
            level.give(result, tangent)
        return result


# In place ---------------------------------------------------------------------------------------


def written(op: Op, values: dict[str, Any]) -> Any:
    """The in-place op with its parameters by name."""
    return jvp_rules.on_values(op.write, op, values)


def write(op: Op, values: dict[str, Any], world: tuple[Any, ...], moves: dict[str, Any]) -> None:
    """Write, and write the tangent of what is written into the target's tangent."""
    modes.at_levels(*world, True, _write, op, values, moves)


def _write(op: Op, values: dict[str, Any], moves: dict[str, Any]) -> None:
    first = op.params[0]
    target = values[first]
    directions = _directions(op, values, moves)
    F = op.table.traced
    if len(op.outputs) > 1:
        _, tangent = jvp_rules.jvp_values(F, op, values, directions)
        written(op, values)
        tangent = tangent[0] if isinstance(tangent, tuple) else tangent
    else:
        # The rules want the values of before; random ops draw but once.
        before = {**values, first: target.clone()} if op.jvp != LINEAR else values
        if first in directions:
            directions[first] = directions[first].clone()
        _, tangent = jvp_rules.jvp_values(F, op, before, directions, lambda: written(op, values))
    if target._array.dtype.kind not in "fcV":
        return
    set_tangent(F, target, tangent, level_of(moves))
    if target._edge is not None and getattr(target, "_dual", None) is not None:
        _keep_tangent(op, target)


def set_tangent(F: Any, target: Any, tangent: Any, level: ForwardLevel) -> None:
    """Write a new tangent into the old one, which views of the target may share. None: zeros."""
    known = dual.dual_of(target)
    if known is None:
        if tangent is None:
            return
        base, _ = dual.origin(target)
        base = target if base is None else base
        kind = target._array.dtype.kind == base._array.dtype.kind
        dtype = tangent._array.dtype if kind else base._array.dtype
        level.give(base, _blank(F, base, dtype, tangent))
        known = dual.dual_of(target)
        assert known is not None
    old: Any = known[1]
    if tangent is None:
        old.zero_()
        return
    if old._array.strides.count(0):
        # Expanded, and the op was let write it: each place in memory once.
        for dim, (size, stride) in enumerate(zip(old.shape, old._array.strides, strict=True)):
            if size > 1 and stride == 0:
                old, tangent = old.narrow(dim, 0, 1), tangent.narrow(dim, 0, 1)
    old.copy_(tangent)


def _blank(F: Any, tensor: Any, dtype: Any, tangent: Any) -> Any:
    """Zeros as the tangent of a tensor, into which this one can be written."""
    if not isinstance(tensor, Wrapper):
        return dual.blank_like(tensor, dtype)
    zeros = F.zeros_of(tensor.detach(), tuple(tensor.shape))
    if all(level.kind != "vmap" for level in modes.state.levels):
        return zeros
    # If the tangent has the slices of a vmap, the zeros have them, too.
    return F.add(zeros, F.sum(F.mul(F.cast(F.ne(tangent, tangent), zeros._array.dtype), 0)))


__all__ = [
    "depth_of",
    "found",
    "laid",
    "level_of",
    "moved",
    "of_plain",
    "plain",
    "pushed",
    "set_tangent",
    "shares",
    "write",
    "written",
]
