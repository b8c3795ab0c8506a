"""`jvp` and `linearize`: forward mode of functions.

Source: https://pytorch.org/docs/2.8/func.api.html
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ag_visual.autograd.forward_ad import checked_tangent
from ag_visual.core import dual, modes, view
from ag_visual.core.dual import ForwardLevel
from ag_visual.core.level import Level, Tape, Wrapper, is_batchedtensor, lift, settle
from ag_visual.core.tensor import Tensor
from ag_visual.dispatch.jvp import called
from ag_visual.dispatch.memory import line_of, memory_of, reach
from ag_visual.dispatch.table import traced
from ag_visual.func.inputs import check_outputs, lowered, split_aux
from ag_visual.utils._pytree import tree_flatten, tree_map, tree_unflatten

_JVP = "jvp(f, primals, tangents)"


def jvp(
    func: Callable[..., Any],
    primals: tuple[Any, ...],
    tangents: tuple[Any, ...],
    *,
    strict: bool = False,
    has_aux: bool = False,
) -> Any:
    """`func(*primals)`, and its directional derivative at the primals along the tangents.

    primals, tangents: tuples of one structure, of Tensors with the same shapes. has_aux: `func`
    returns (output, aux): (output, derivative, aux). strict: RuntimeError for an output that does
    not depend on the primals, whose derivative is zeros otherwise.

    >>> import ag_visual as ag
    >>> ag.func.jvp(ag.sin, (ag.tensor(0.),), (ag.tensor(2.),))
    (tensor(0.), tensor(2.))
    """
    return _jvp(func, primals, tangents, strict, has_aux, False)


def pushed(
    func: Callable[..., Any], primals: tuple[Tensor, ...], tangents: tuple[Tensor, ...]
) -> Any:
    """The derivative alone, also through custom Functions whose forward takes ctx."""
    return _jvp(func, primals, tangents, False, False, True)[1]


def _jvp(
    func: Callable[..., Any],
    primals: tuple[Any, ...],
    tangents: tuple[Any, ...],
    strict: bool,
    has_aux: bool,
    old_form: bool,
) -> Any:
    if not isinstance(primals, tuple):
        raise RuntimeError(
            f"{_JVP}: Expected primals to be a tuple. E.g. it should be valid to call f(*primals)."
        )
    given, spec = tree_flatten(primals)
    moves, moves_spec = tree_flatten(tangents)
    if spec != moves_spec:
        raise RuntimeError(
            f"{_JVP}: Expected primals and tangents to have the same python structure. For "
            "example, if primals is a tuple of 3 tensors, tangents also must be. Got primals with "
            f"structure {spec} and tangents with structure {moves_spec}"
        )
    if not given:
        raise RuntimeError(f"{_JVP}: Expected primals to contain at least one Tensor.")
    for what, leaves in (("primals", given), ("tangents", moves)):
        for leaf in leaves:
            if not isinstance(leaf, Tensor):
                raise RuntimeError(
                    f"{_JVP}: Expected {what} to only contain Tensors, got {type(leaf)}"
                )
    level = Level("jvp")
    level.old_form = old_form
    if modes.plain_duals:
        raise RuntimeError("Nested forward mode AD is not supported at the moment")
    forward = ForwardLevel(level.depth)
    try:
        inputs = []
        for primal, tangent in zip(given, moves, strict=True):
            checked_tangent(primal, tangent)
            primal = settle(primal)
            if _behind(primal):
                traced.view_as(primal, primal)  # as torch's dual is a view: refused where one is
            leaf = lift(level, primal)
            forward.give(leaf, lift(level, _beside(primal, settle(tangent))))
            inputs.append(leaf)
        output = level.run(_with_forward, func, *tree_unflatten(inputs, spec))
        aux = None
        if has_aux:
            output, aux = split_aux(output, _JVP)
        leaves, out_spec = tree_flatten(output)
        check_outputs(output, _JVP)
        values = [lowered(level, leaf) for leaf in leaves]
        found = [_tangent(level, leaf, strict) for leaf in leaves]
    finally:
        forward.close()
    result = tree_unflatten(values, out_spec), tree_unflatten(found, out_spec)
    return (*result, tree_map(settle, lowered(level, aux))) if has_aux else result


def _behind(tensor: Any) -> bool:
    """Whether a tensor, or one that it holds, is a view that its base was written after."""
    while True:
        seen = tensor._view
        if seen is not None and seen.snapshot is not tensor._store.snapshot:
            return True
        if not isinstance(tensor, Wrapper):
            return False
        tensor = tensor.value


def _beside(primal: Tensor, tangent: Tensor) -> Tensor:
    """A tangent that lies in memory as its primal does: itself, or a copy, zeros around it."""
    array, slices = primal._array, is_batchedtensor(primal)
    there = dual.same_strides(array, tangent._array)
    if not (slices or is_batchedtensor(tangent) or primal._memory is None):
        there = dual.same_layout(primal, tangent)
    if there or not view.distinct(array.shape, array.strides, array.itemsize):
        return tangent
    shape, stride = array.shape, primal.stride()
    offset = 0 if slices else primal.storage_offset()
    length = reach(shape, stride) if slices else len(line_of(memory_of(primal), array))
    line: Tensor = traced.as_strided_backward(tangent, (length,), shape, stride, offset)
    return line[offset:].as_strided(shape, stride)


def _with_forward(func: Callable[..., Any], *args: Any) -> Any:
    previous = modes.state.forward
    modes.state.forward = True
    try:
        return func(*args)
    finally:
        modes.state.forward = previous


def _tangent(level: Level, output: Tensor, strict: bool) -> Any:
    """The tangent of an output, below the level."""
    known = dual.dual_of(output) if getattr(output, "level", None) is level else None
    if known is not None:
        return lowered(level, known[1])
    if strict:
        raise RuntimeError(
            "jvp(f, primals, tangents, strict=True): The output of f is independent of the "
            "inputs. This is not allowed with strict=True."
        )
    return _zeros(lowered(level, output))


def linearize(func: Callable[..., Any], *primals: Any) -> tuple[Any, Callable[..., Any]]:
    """`func(*primals)` and a function from tangents to the directional derivative there.

    The function takes one tangent for each primal, of its structure, shape and dtype. It runs the
    ops on tangents alone, which were kept while `func` ran; where `func` writes in place it runs
    again, at each call.

    >>> import ag_visual as ag
    >>> out, push = ag.func.linearize(ag.sin, ag.tensor(0.))
    >>> push(ag.tensor(3.))
    tensor(3.)
    """
    given, spec = tree_flatten(primals)
    tensors = [leaf for leaf in given if isinstance(leaf, Tensor)]
    for leaf in tensors:
        checked_tangent(leaf, leaf)
    if not tensors or len(tensors) < len(given):
        func(*primals)  # refuses them, or jvp does
    tape = Tape()
    inputs = [lift(tape, _zeros(leaf)) if isinstance(leaf, Tensor) else leaf for leaf in given]
    try:
        found = modes.at_levels(
            tape.above, True, False, False, jvp, func, primals, tree_unflatten(inputs, spec)
        )
    finally:
        tape.open = False
        tape.above, tape.differentiating = (), None
    output, (moved, out_spec) = tree_map(settle, found[0]), tree_flatten(found[1])
    program = _program(tape, inputs, moved)
    tape.steps, tape.constants = None, []  # its tensors name it: nothing of it is to be left

    def push(*tangents: Any) -> Any:
        moves, moves_spec = tree_flatten(tangents)
        if moves_spec != spec:
            raise RuntimeError(
                f"Expected the tangents {moves_spec} to have the same argspec as the primals {spec}"
            )
        for index, (primal, tangent) in enumerate(zip(given, moves, strict=True)):
            start = f"tangent:{index} with "
            end = "of the corresponding primal."
            if tangent.shape != primal.shape:
                raise RuntimeError(
                    f"{start}shape {tangent.shape} in flattened pytree doesn't match the shape "
                    f"{primal.shape} {end}"
                )
            if tangent.dtype != primal.dtype:
                raise RuntimeError(
                    f"{start}dtype {tangent.dtype} in flattened pytree doesn't match the dtype "
                    f"{primal.dtype} {end}"
                )
        if program is None:
            return jvp(func, primals, tangents)[1]
        steps, results = program
        known = dict(enumerate(moves))
        for op, values, numbers in steps:
            made = called(traced, op, {n: _current(v, known) for n, v in values.items()})
            known.update(
                zip(numbers, made if op.multi or len(op.outputs) > 1 else [made], strict=True)
            )
        return tree_unflatten(
            [known[x.number] if isinstance(x, _Slot) else x.clone() for x in results], out_spec
        )

    return output, push


def _zeros(value: Tensor) -> Tensor:
    value = settle(value).detach()
    zeros: Tensor = traced.zeros_of(value, tuple(value.shape))
    return zeros


class _Slot:
    """A tensor of a program: the input of that number, or the result of a step."""

    __slots__ = ("number",)

    def __init__(self, number: int) -> None:
        self.number = number


def _program(tape: Tape, inputs: list[Any], outputs: list[Any]) -> Any:
    """The steps that depend on the inputs (op, arguments, numbers of its results), and the outputs.

    None where something was written, or made by something else than ops. No tensor of the tape is
    left in it.
    """
    if tape.steps is None:
        return None
    slots = {id(x): _Slot(number) for number, x in enumerate(inputs)}
    still = {id(x) for x in tape.constants}
    steps, count = [], len(inputs)
    for op, values, made in tape.steps:
        given = {id(x) for value in values.values() for x in _on(tape, value)}
        if not given <= slots.keys() | still:
            return None
        if not given & slots.keys():
            still.update(map(id, made))
            continue
        arguments = {name: _compiled(value, slots) for name, value in values.items()}
        numbers = range(count, count + len(made))
        steps.append((op, arguments, numbers))
        slots.update((id(x), _Slot(number)) for number, x in zip(numbers, made, strict=True))
        count += len(made)
    if not {id(x) for x in _on(tape, outputs)} <= slots.keys() | still:
        return None
    return steps, [_compiled(x, slots) for x in outputs]


def _on(tape: Tape, value: Any) -> list[Any]:
    """The tensors of a tape in an argument."""
    items = value if isinstance(value, (list, tuple)) else [value]
    return [x for x in items if getattr(x, "level", None) is tape]


def _compiled(value: Any, slots: dict[int, _Slot]) -> Any:
    """An argument with slots in the place of what moves."""
    if isinstance(value, list):
        return [_compiled(item, slots) for item in value]
    return slots[id(value)] if id(value) in slots else settle(value)


def _current(value: Any, known: dict[int, Any]) -> Any:
    """An argument as it is in this run of the steps."""
    if isinstance(value, list):
        return [_current(item, known) for item in value]
    return known[value.number] if isinstance(value, _Slot) else value


__all__ = ["jvp", "linearize"]
