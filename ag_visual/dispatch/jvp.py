"""The directional derivative of an op, on arrays or on Tensors, from what its record says of jvp.

LINEAR: the op of the tangents, of all inputs together. ELEMENTWISE: see record. {input: rule}: the
sum of what each says, which may be LINEAR or ELEMENTWISE in that input. Where a record says nothing
(torch has no forward derivative there, either) the answer is None.
"""

from __future__ import annotations

from typing import Any

from ag_visual.dispatch.record import ELEMENTWISE, LINEAR, Op
from ag_visual.dispatch.vmap import called


def jvp(
    F: Any, op: Op, args: tuple[Any, ...], kwargs: dict[str, Any], tangents: dict[str, Any]
) -> tuple[Any, Any]:
    """The results of a call and their tangents, given those of some inputs.

    tangents: {input: tangent}, for a list a sequence with one for each. Of several results those
    that carry gradients have a tangent; theirs come as a tuple.
    """
    bound = op.signature.bind(*args, **kwargs)
    bound.apply_defaults()
    values = dict(bound.arguments)
    result = called(F, op, values)
    if op.jvp is None:
        return result, None
    if op.normalize is not None:
        arrays = {n: _array(values[n]) for n in op.params}
        values.update(zip(op.arguments, op.normalize(*arrays.values()), strict=True))
    if op.jvp == LINEAR:
        moved = called(F, op, {**values, **_moves(F, op, values, tangents)})
        return result, _carrying(op, moved)
    if op.jvp == ELEMENTWISE:
        return result, _slopes(F, op, values, result, tangents)
    total: Any = None
    known = _known(F, op, values, result)
    for name, tangent in tangents.items():
        rule = op.jvp[name]
        if rule == LINEAR:
            part = _carrying(op, called(F, op, {**values, name: tangent}))
        elif rule == ELEMENTWISE:
            part = _slopes(F, op, values, result, {name: tangent})
        else:
            known[f"t_{name}"] = tangent
            part = rule(known)
        total = _sum(total, part)
    several = isinstance(total, tuple) and len(total) == len(op.outputs)
    return result, _carrying(op, total) if several else total


def _array(value: Any) -> Any:
    if isinstance(value, (tuple, list)):
        return tuple(_array(item) for item in value)
    return getattr(value, "_array", value)


def _carrying(op: Op, results: Any) -> Any:
    if op.multi or len(op.outputs) == 1:
        return results
    found = tuple(results[i] for i in op.differentiable)
    return found if len(found) > 1 else found[0]


def _sum(a: Any, b: Any) -> Any:
    if a is None or b is None:
        return b if a is None else a
    if isinstance(a, tuple):
        return tuple(_sum(x, y) for x, y in zip(a, b, strict=True))
    return a + b


def _zeros(F: Any, x: Any) -> Any:
    if isinstance(x, (tuple, list)):
        return tuple(_zeros(F, item) for item in x)
    return F.zeros_of(x, tuple(x.shape)) if hasattr(x, "shape") else x if x is None else 0 * x


def _moves(F: Any, op: Op, values: dict[str, Any], tangents: dict[str, Any]) -> dict[str, Any]:
    """Tangents of all inputs that have a derivative, zeros where none is given."""
    names = [n for n in op.diff_inputs if values[n] is not None]
    return {n: tangents[n] if n in tangents else _zeros(F, values[n]) for n in names}


def _known(F: Any, op: Op, values: dict[str, Any], result: Any) -> dict[str, Any]:
    """What a rule may ask for, by name."""
    results = result if len(op.outputs) > 1 else (result,)
    known = {**values, **dict(zip(op.outputs, results, strict=True)), "F": F}
    for name in (*op.inputs, *op.lists):
        array = _array(values[name])
        for fact in ("shape", "dtype", "strides"):
            known[f"{name}_{fact}"] = getattr(array, fact, () if fact == "shape" else None)
        known[f"{name}_device"] = getattr(values[name], "device", None)
    return known


def _slopes(F: Any, op: Op, values: dict[str, Any], result: Any, tangents: dict[str, Any]) -> Any:
    """ELEMENTWISE: the slopes (the gradient of ones) times the tangent, added up as the result.

    A function that is not holomorphic is real: of its slope a + ib and the tangent the real part of
    the product counts.
    """
    known = _known(F, op, values, result)
    out = _carrying(op, result)
    known["g"] = F.zeros_of(out, tuple(out.shape)) + 1
    total: Any = None
    for rule in op.rules:
        wanted = tuple(name in tangents for name in rule.inputs)
        if not any(wanted):
            continue
        known["needs"] = wanted
        known["gs"] = (known["g"],)
        found = rule(known)
        for name, slope in zip(rule.inputs, found if rule.joint else (found,), strict=True):
            if name in tangents:
                total = _sum(total, _moved(F, op, values, out, slope, tangents[name]))
    return total


def _moved(F: Any, op: Op, values: dict[str, Any], out: Any, slope: Any, tangent: Any) -> Any:
    moved = (slope if op.holomorphic else F.conj(slope)) * tangent
    if _array(out).dtype.kind != "c" == _array(moved).dtype.kind:
        moved = F.real(moved)
    shape = tuple(out.shape)
    if "keepdim" in op.params:
        moved = F.sum(moved, _dims(values["dim"]), values["keepdim"]) if moved.ndim else moved
    elif not shape:
        moved = F.sum(moved)
    return F.expand(moved, shape)


def _dims(dim: Any) -> Any:
    """What the op reduces: () stands for everything."""
    return None if dim == () else dim
