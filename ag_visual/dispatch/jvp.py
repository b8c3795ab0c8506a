"""The directional derivative of an op, on arrays or on Tensors, from what its record says of jvp.

LINEAR: the op of the tangents, of all inputs together. ELEMENTWISE: see record. {input: rule}: the
sum of what each says, which may be LINEAR or ELEMENTWISE in that input. Where a record says nothing
(torch has no forward derivative there, either) the answer is None.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ag_visual.devices import device as Device
from ag_visual.dispatch.record import ELEMENTWISE, LINEAR, Op
from ag_visual.dispatch.rules import NotDifferentiable


def on_values(function: Callable[..., Any], op: Op, values: dict[str, Any]) -> Any:
    """A function of an op's parameters, called with these by name."""
    if not op.keyword:
        return function(*[values[p] for p in op.params])
    keyword, defaults = op.keyword, op.signature.parameters
    named = {p: values[p] for p in keyword if values[p] is not defaults[p].default}
    return function(*[values[p] for p in op.params if p not in keyword], **named)


def called(F: Any, op: Op, values: dict[str, Any]) -> Any:
    """An op of a namespace with its parameters by name."""
    return on_values(getattr(F, op.name), op, values)


def jvp(
    F: Any, op: Op, args: tuple[Any, ...], kwargs: dict[str, Any], tangents: dict[str, Any]
) -> tuple[Any, Any]:
    """The results of a call and their tangents, given those of some inputs.

    tangents: {input: tangent}, for a list a sequence with one for each. Of several results those
    that carry gradients have a tangent; theirs come as a tuple.
    """
    bound = op.signature.bind(*args, **kwargs)
    bound.apply_defaults()
    return jvp_values(F, op, dict(bound.arguments), tangents)


def jvp_values(
    F: Any, op: Op, given: dict[str, Any], tangents: dict[str, Any], in_place: Any = None
) -> tuple[Any, Any]:
    """The same, with the value of every parameter by name.

    in_place: a function that writes and gives the result; `given` is of before.
    """
    values = dict(given)
    tangents = _counting(op, tangents, in_place is not None)
    result = called(F, op, values) if in_place is None else in_place()
    return result, derived(F, op, values, result, tangents) if tangents else None


def derived(F: Any, op: Op, values: dict[str, Any], result: Any, tangents: dict[str, Any]) -> Any:
    """The tangents of the results of a call whose inputs have some."""
    if op.normalize is not None:
        arrays = {n: _array(values[n]) for n in op.params}
        values.update(zip(op.arguments, op.normalize(*arrays.values()), strict=True))
    if op.jvp == LINEAR:
        moved = called(F, op, {**values, **_moves(F, op, values, tangents)})
        return _carrying(op, moved)
    if op.jvp == ELEMENTWISE:
        return _slopes(F, op, values, result, tangents)
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
        total = added(total, part)
    several = isinstance(total, tuple) and len(total) == len(op.outputs)
    return _carrying(op, total) if several else total


def _counting(op: Op, tangents: dict[str, Any], inplace: bool) -> dict[str, Any]:
    """The tangents of what the op has a derivative in; raises where torch has none forwards."""
    if not op.rules:
        if op.aten:
            raise without_jvp(op, inplace)
        return {}
    known = op.diff_inputs
    counting = {name: tangents[name] for name in tangents if name in known}
    if counting and (op.jvp is None or type(op.jvp) is dict or op.not_implemented):
        for name in counting:
            if refusing(op, name):
                raise without_jvp(op, inplace)
    return counting


def refusing(op: Op, name: str) -> bool:
    """Whether there is no rule for an input."""
    if op.jvp is None or (type(op.jvp) is dict and name not in op.jvp):
        return True
    return op.not_implemented and any(
        isinstance(rule.function, NotDifferentiable) and name in rule.inputs for rule in op.rules
    )


def without_jvp(op: Op, inplace: bool) -> NotImplementedError:
    """What torch says of an op that has no directional derivative."""
    name = (op.aten or op.name) + "_" * inplace
    why = "" if op.aten.startswith("aten::") else " because it has not been implemented yet"
    return NotImplementedError(
        f"Trying to use forward AD with {name} that does not support it{why}.\n"
        "Differentiate it by backward, detach its input, or write it as an autograd.Function with "
        "a jvp."
    )


def _array(value: Any) -> Any:
    if isinstance(value, (tuple, list)):
        return tuple(_array(item) for item in value)
    return getattr(value, "_array", value)


def _carrying(op: Op, results: Any) -> Any:
    if op.multi or len(op.outputs) == 1:
        return results
    found = tuple(results[i] for i in op.differentiable)
    return found if len(found) > 1 else found[0]


def added(a: Any, b: Any) -> Any:
    """The sum of two tangents, or tuples of them; None is none."""
    if a is None or b is None:
        return b if a is None else a
    if isinstance(a, tuple):
        return tuple(added(x, y) for x, y in zip(a, b, strict=True))
    return a + b


def _zeros(F: Any, x: Any) -> Any:
    if isinstance(x, (tuple, list)):
        return tuple(_zeros(F, item) for item in x)
    return F.zeros_of(x, tuple(x.shape)) if hasattr(x, "shape") else x if x is None else 0 * x


def _moves(F: Any, op: Op, values: dict[str, Any], tangents: dict[str, Any]) -> dict[str, Any]:
    """Tangents of all inputs that have a derivative, zeros where none is given."""
    names = [n for n in op.diff_inputs if values[n] is not None]
    return {n: tangents[n] if n in tangents else _zeros(F, values[n]) for n in names}


class _Known(dict[str, Any]):
    """What a rule may ask for, by name; facts about inputs are looked up when asked for."""

    def __missing__(self, name: str) -> Any:
        tensor, _, what = name.rpartition("_")
        return fact(self[tensor], what)


def fact(value: Any, what: str) -> Any:
    """The shape, dtype, device ... of an input."""
    if what == "device":
        found = getattr(value, "device", None)
        return Device(found) if isinstance(found, str) else found
    return getattr(_array(value), what, () if what == "shape" else None)


def _known(F: Any, op: Op, values: dict[str, Any], result: Any) -> _Known:
    known = _Known(values)
    if len(op.outputs) > 1:
        known.update(zip(op.outputs, result, strict=True))
    else:
        known[op.outputs[0]] = result
    known["F"] = F
    return known


def _slopes(F: Any, op: Op, values: dict[str, Any], result: Any, tangents: dict[str, Any]) -> Any:
    """ELEMENTWISE: the slopes (the gradient of ones) times the tangent, added up as the result.

    A function that is not holomorphic is real: of its slope a + ib and the tangent the real part of
    the product counts.
    """
    known = _known(F, op, values, result)
    out = _carrying(op, result)
    if _pointwise(op, values, out, tangents):
        return _products(op, known, tangents)
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
                total = added(total, _moved(F, op, values, out, slope, tangents[name]))
    return total


def _pointwise(op: Op, values: dict[str, Any], out: Any, tangents: dict[str, Any]) -> bool:
    """Whether nothing is complex, broadcast or reduced: then a gradient is a slope times `g`."""
    if "keepdim" in op.params or isinstance(out, tuple):
        return False
    array = _array(out)
    shape, dtype = array.shape, array.dtype
    if dtype.kind == "c":
        return False
    for name, tangent in tangents.items():
        one, two = _array(values[name]), _array(tangent)
        if one.shape != shape or two.shape != shape or one.dtype != dtype or two.dtype != dtype:
            return False
    return True


def _products(op: Op, known: dict[str, Any], tangents: dict[str, Any]) -> Any:
    """The sum of the tangents times the slopes: the gradients as if the tangents were arriving."""
    total: Any = None
    for rule in op.rules:
        for at, name in enumerate(rule.inputs):
            if name not in tangents:
                continue
            known["g"] = tangents[name]
            known["gs"] = (known["g"],)
            known["needs"] = tuple(each == name for each in rule.inputs)
            found = rule(known)
            part = found[at] if rule.joint else found
            total = added(total, 0 * tangents[name] if part is None else part)
    return total


def _moved(F: Any, op: Op, values: dict[str, Any], out: Any, slope: Any, tangent: Any) -> Any:
    if slope is None:  # a constant
        return F.zeros_of(out, tuple(out.shape))
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
