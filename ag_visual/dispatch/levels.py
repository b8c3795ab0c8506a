"""An op at a level: what grad, jvp and vmap make of one call, and what forward mode adds to it.

The innermost level among the arguments decides. Its rule runs in the world below, where that level
is not open, on what the arguments hold: there the same question is asked again, until plain tensors
are left. Tensors with tangents (of the innermost level among the arguments, or plain ones) give
their results tangents; the rules for these run where tangents do not count.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ag_visual.core import modes
from ag_visual.core.level import (
    Batched,
    Level,
    Lifted,
    Tape,
    Wrapper,
    escaped,
    lift,
    lift_new,
    no_randomness,
    shown,
    wrap,
)
from ag_visual.core.tensor import Tensor, check_inplace, rebase
from ag_visual.dispatch import tangents, vmap
from ag_visual.dispatch.codegen.scope import slow_path_types
from ag_visual.dispatch.inplace import _assignable, run_inplace
from ag_visual.dispatch.interpreted import (
    _arguments,
    _fitted,
    _package,
    run,
)
from ag_visual.dispatch.jvp import called
from ag_visual.dispatch.op_node import _edges, _grown, borrows, link_views, make_node
from ag_visual.dispatch.record import Op
from ag_visual.dispatch.tangents import depth_of

slow_path_types.update((Lifted, Batched))


def unusual() -> bool:
    """Whether ops have to ask for levels and tangents."""
    return modes.levelled > 0 or modes.duals > 0


# Where an op belongs ----------------------------------------------------------------------------


def _settled(value: Any) -> Any:
    """An argument without wrappers of levels that are closed."""
    while isinstance(value, Wrapper):
        level = value.level
        if level.is_here():
            return value
        if type(value) is Batched or level.open:
            raise escaped(level)
        value = value.value
    return value


def _sorted_out(op: Op, args: list[Any]) -> tuple[dict[str, Any], int]:
    """The values by name, without closed levels, and the depth of the innermost level."""
    values: dict[str, Any] = {}
    depth = 0
    for name, value in zip(op.params, args, strict=True):
        if isinstance(value, Wrapper):
            value = _settled(value)
            depth = max(depth, depth_of(value))
        elif name in op.lists and isinstance(value, (tuple, list)):
            value = [_settled(item) for item in value]
            depth = max([depth, *map(depth_of, value)])
        values[name] = value
    return values, depth


def below(levels: tuple[Level, ...], depth: int) -> tuple[Any, ...]:
    """The world in which only `depth` levels are open: its levels, grad mode and inference mode."""
    state = modes.state
    grad, inference = state.grad, state.inference
    for level in levels[depth:]:
        grad = grad and level.grad
        inference = inference or level.inference
    return levels[:depth], grad, inference


def call_below(level: Level, function: Callable[..., Any], *args: Any) -> Any:
    """`function(*args)` in the world below a level that is open here."""
    return modes.at_levels(*below(modes.state.levels, level.depth - 1), False, function, *args)


def _world(levels: tuple[Level, ...], depth: int) -> tuple[Any, ...]:
    """Where the tangents of a call are computed: the levels up to that of its arguments."""
    if depth == len(levels):
        return levels, modes.state.grad, modes.state.inference
    return below(levels, depth)


def at_level(op: Op, args: list[Any]) -> Any:
    """One call of an op where levels are open, or tensors may have tangents."""
    levels = modes.state.levels
    if not levels and (given := tangents.of_plain(op, args)) is not None:
        return tangents.plain(op, args, given)
    args = _fitted(op, op.public_name, args)
    values, depth = _sorted_out(op, args)
    state = modes.state
    levels = state.levels
    if levels and vmap.draws(op):
        values, depth = _spread(op, values, depth, levels)
    moves = tangents.found(op, values, depth, levels)
    if moves:
        if depth and levels[depth - 1].kind == "jvp" and not _followed(values, moves):
            result = _pushed(op, values, levels[depth - 1], levels, moves)
        else:
            result = tangents.moved(op, values, _world(levels, depth), moves)
        return result if depth == len(levels) else _adopted(op, result, levels)
    if not depth:
        if not levels:
            return run(op, list(values.values()))
        world = below(levels, 0)
        result = modes.at_levels(*world, False, called, op.table.traced, op, values)
        return _adopted(op, result, levels)
    level = levels[depth - 1]
    rule = _batched if level.kind == "vmap" else _lifted
    result = rule(op, values, level, levels)
    return _adopted(op, result, levels)


def levelled_among(args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    """Whether a tensor of a level is among what a call was given."""
    for value in args:
        if isinstance(value, Wrapper):
            return True
    return bool(kwargs) and any(isinstance(value, Wrapper) for value in kwargs.values())


def outside(op: Op, level: Level, state: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """A call on tensors of no level, none of them with a tangent: as built code goes below."""
    levels, primal = state.levels, state.primal
    try:
        state.levels = ()
        state.differentiating = None
        state.fast = True
        state.primal = False
        result = op.call(*args, **kwargs)
    finally:
        state.levels = levels
        state.differentiating = level.differentiating
        state.fast = None
        state.primal = primal
    return result if level.differentiating is None else _adopted(op, result, levels)


def _spread(
    op: Op, values: dict[str, Any], depth: int, levels: tuple[Level, ...]
) -> tuple[dict[str, Any], int]:
    """The values of a random op, with a batch where a vmap wants other numbers for each slice."""
    for level in reversed(levels[depth:]):
        if level.kind != "vmap":
            continue
        if level.randomness == "error":
            raise no_randomness()
        if level.randomness == "different":
            name = op.params[0]
            x = values[name]
            spread = wrap(Batched, level, x.expand((level.size, *x.shape)))
            return {**values, name: spread}, level.depth
    return values, depth


def _check_fill(written: Any, levels: tuple[Level, ...]) -> None:
    """May random numbers be written into a tensor that the innermost vmap levels don't map?"""
    for level in reversed(levels[depth_of(written) :]):
        if level.kind == "vmap" and level.randomness == "error":
            raise no_randomness()
        if level.kind == "vmap" and level.randomness == "different":
            raise RuntimeError(
                "vmap: Cannot ask for different inplace randomness on an unbatched tensor. This "
                "will appear like same randomness. Make a new tensor of random numbers, or fill "
                "one that has the batch: torch.empty_like(x)."
            )


def _adopted(op: Op, result: Any, levels: tuple[Level, ...]) -> Any:
    """A result of tensors from outside of the innermost differentiating level belongs to it."""
    level = levels[-1].differentiating
    if level is None or op.view:
        return result
    return _each(op, result, lambda x: x if depth_of(x) >= level.depth else lift_new(level, x))


def _each(op: Op, result: Any, change: Any) -> Any:
    if not op.multi and len(op.outputs) == 1:
        return change(result)
    return _package(op, [change(x) for x in result])


# Differentiating levels -------------------------------------------------------------------------


def _held(value: Any, level: Level) -> Any:
    """What an argument holds at a level."""
    if isinstance(value, Wrapper):
        return value.value if value.level is level else value
    if type(value) is list:
        return [_held(item, level) for item in value]
    return value


def _lifted(op: Op, values: dict[str, Any], level: Level, levels: tuple[Level, ...]) -> Any:
    """Computed below; what it is a function of is recorded at this level."""
    lower = {name: _held(value, level) for name, value in values.items()}
    world = below(levels, level.depth - 1)
    found = modes.at_levels(*world, False, called, op.table.traced, op, lower)
    several = op.multi or len(op.outputs) > 1
    outputs: list[Any] = [lift(level, r) for r in (found if several else [found])]
    if isinstance(level, Tape) and level.steps is not None:
        level.steps.append((op, values, outputs))
    records = bool(op.rules) and modes.grad_enabled() and bool(_grown(op, outputs))
    if not (records or op.view):
        return _package(op, outputs)
    arguments: dict[str, Any] = {}
    edges = _edges(op, _seen(values, level)) if records else []
    grows = any(edge is not None for edge in edges) or _borrows(op, values, level, edges)
    if grows or op.view:
        arguments = _normalized(op, values)
    if grows:
        make_node(op, values, arguments, outputs, edges)
    if op.view:
        seen = values[op.params[0]]
        if depth_of(seen) == level.depth:
            link_views(op, seen, arguments, outputs)
    return _package(op, outputs)


def _pushed(
    op: Op, values: dict[str, Any], level: Level, levels: tuple[Level, ...], moves: dict[str, Any]
) -> Any:
    """Computed below with what the tangents hold there: at a level of jvp nothing is recorded."""
    lower = {name: _held(value, level) for name, value in values.items()}
    held = {
        name: [each and (each[0], _held(each[1], level)) for each in known]
        if isinstance(known, list)
        else (known[0], _held(known[1], level))
        for name, known in moves.items()
    }
    world = below(levels, level.depth - 1)
    found, given = modes.at_levels(*world, False, tangents.pushed, op, lower, held)
    several = op.multi or len(op.outputs) > 1
    outputs: list[Tensor] = [lift(level, r) for r in (found if several else [found])]
    seen = values[op.params[0]]
    if op.view and depth_of(seen) == level.depth:
        link_views(op, seen, _normalized(op, values), outputs)
    forward = tangents.level_of(moves)
    for place, tangent in given:
        forward.give(outputs[place], lift(level, tangent))
    return _package(op, outputs)


def _followed(values: dict[str, Any], moves: dict[str, Any]) -> bool:
    """Whether an argument has a graph at a level of jvp, being made of what requires grad there."""
    given = [*values.values()]
    for known in moves.values():
        given.extend(known if isinstance(known, list) else [known[1]])
    return modes.grad_enabled() and any(_grows(value) for value in given)


def _grows(value: Any) -> bool:
    if isinstance(value, (list, tuple)):
        return any(_grows(item) for item in value)
    return isinstance(value, Lifted) and value._rg


def _seen(values: dict[str, Any], level: Level) -> dict[str, Any]:
    """The arguments whose history this level knows: those of below are constants here."""
    return {name: _own(value, level) for name, value in values.items()}


def _own(value: Any, level: Level) -> Any:
    if type(value) is list:
        return [_own(item, level) for item in value]
    return value if isinstance(value, Wrapper) and value.level is level else None


def _borrows(op: Op, values: dict[str, Any], level: Level, edges: list[Any]) -> bool:
    return bool(edges) and borrows(op, _seen(values, level))


def _normalized(op: Op, values: dict[str, Any]) -> dict[str, Any]:
    """The arguments as a node keeps them, from the outlines of the tensors."""
    arrays = {}
    for name in (*op.inputs, *op.lists):
        value = values[name]
        if name in op.lists:
            arrays[name] = tuple(None if v is None else shown(v) for v in value)
        else:
            arrays[name] = shown(value)
    return _arguments(op, values, arrays)


# vmap -------------------------------------------------------------------------------------------


def _has(value: Any, level: Level) -> bool:
    """Whether an argument has the batch of a level."""
    return isinstance(value, Wrapper) and value.level is level


def _batched(op: Op, values: dict[str, Any], level: Level, levels: tuple[Level, ...]) -> Any:
    """One call on the batches, below."""
    world = below(levels, level.depth - 1)
    found = modes.at_levels(*world, False, _batch, op, values, level)
    return _each(op, found, lambda x: wrap(Batched, level, x))


def _batch(op: Op, values: dict[str, Any], level: Level) -> Any:
    lower: dict[str, Any] = {}
    has: dict[str, Any] = {}
    for name, value in values.items():
        if type(value) is list:
            lower[name] = tuple(_held(item, level) for item in value)
            has[name] = tuple(_has(item, level) for item in value)
        else:
            has[name] = _has(value, level)
            lower[name] = value.value if has[name] else value
    return vmap.run_rule(op.table.traced, op, level.size, lower, has, level.randomness)


# In place ---------------------------------------------------------------------------------------


def at_level_inplace(op: Op, name: str, args: list[Any]) -> Any:
    """One call of an in-place op where levels are open, or tensors may have tangents."""
    args = _fitted(op, name, args)
    target = args[0]
    if not isinstance(target, Tensor):
        return run_inplace(op, name, args)
    values, depth = _sorted_out(op, args)
    written = values[op.params[0]]
    levels = modes.state.levels
    inner = levels[-1].differentiating if levels else None
    if inner is not None and depth_of(written) < inner.depth:
        raise _captured(name)
    if levels and vmap.draws(op):
        _check_fill(written, levels)
    moves = tangents.found(op, values, depth, levels)
    if moves:
        tangents.write(op, values, _world(levels, depth), moves)
    elif depth:
        level = levels[depth - 1]
        write = _write_batched if level.kind == "vmap" else _write_lifted
        write(op, name, values, level, levels)
    elif levels:
        modes.at_levels(*below(levels, 0), False, tangents.written, op, values)
    else:
        run_inplace(op, name, list(values.values()))
    return target


def _captured(name: str) -> RuntimeError:
    return RuntimeError(
        "During a grad (vjp, jvp, grad, etc) transform, the function provided attempted to call "
        f"in-place operation (aten::{name}) that would mutate a captured Tensor. This is not "
        "supported; please rewrite the function being transformed to explicitly accept the "
        "mutated Tensor(s) as inputs."
    )


def _write_lifted(
    op: Op, name: str, values: dict[str, Any], level: Level, levels: tuple[Level, ...]
) -> None:
    """Written below; the write is made part of the history at this level."""
    if isinstance(level, Tape):
        level.steps = None
    target = values[op.params[0]]
    lower = {n: _held(value, level) for n, value in values.items()}
    world = below(levels, level.depth - 1)
    edges: list[Any] = []
    if modes.grad_enabled() and op.rules and target._array.dtype.kind in "fcV":
        edges = _edges(op, _seen(values, level))
        if any(edge is not None for edge in edges) or _borrows(op, values, level, edges):
            check_inplace(target, name)
            edges = _edges(op, _seen(values, level))
    grows = any(edge is not None for edge in edges) or _borrows(op, values, level, edges)
    node = None
    if grows:
        if op.params[0] in op.saves:
            # The rule wants the value from before the write.
            before = modes.at_levels(*world, False, lower[op.params[0]].clone)
            copy = lift(level, before)
            copy._edge, copy._rg = target._edge, target._rg
            values = {**values, op.params[0]: copy}
        arguments = _normalized(op, values)
        node = make_node(op, values, arguments, [target], edges, inplace=True)
    modes.at_levels(*world, False, tangents.written, op, lower)
    if node is None:
        return
    for each in op.saves:
        if each in op.outputs:
            setattr(node, f"t_{each}", target._storage.snapshot)
            if getattr(node, f"s_{each}") is not None:
                setattr(node, f"s_{each}", target._own())
    rebase(target, node)


def _write_batched(
    op: Op, name: str, values: dict[str, Any], level: Level, levels: tuple[Level, ...]
) -> None:
    """Computed by the batching rule, then written over all slices."""
    target = values[op.params[0]]
    if not _has(target, level):
        called = f"aten::{name}" if op.vmap_inplace is None else op.vmap_inplace
        if not called:
            shape = list(target._array.shape)
            raise RuntimeError(
                f"output with shape {shape} doesn't match the broadcast shape "
                f"{[level.size, *shape]} in {name}: an argument has a batch, and self has none. "
                f"Use the op that is not in-place instead of {name}."
            )
        raise RuntimeError(
            f"vmap: {called}(self, *extra_args) is not possible because there exists a Tensor "
            "`other` in extra_args that has more elements than `self`. This happened due to "
            "`other` being vmapped over but `self` not being vmapped over in a vmap. Please try "
            f"to use the out-of-place operators instead of {name}: it has a batch of "
            f"{level.size} slices, and self has none."
        )
    world = below(levels, level.depth - 1)
    modes.at_levels(*world, False, _write_batch, op, name, values, level)


def _recorded(values: dict[str, Any], level: Level) -> bool:
    """Whether a tensor among the arguments may have a graph below a level, of any kind."""
    lower = (_held(value, level) for value in values.values())
    return any(isinstance(x, Tensor) and (type(x) is not Tensor or x._rg) for x in lower)


def _write_batch(op: Op, name: str, values: dict[str, Any], level: Level) -> None:
    front = values[op.params[0]].value
    if modes.grad_enabled() and _recorded(values, level):
        # What is recorded below keeps the values from before the write.
        values = {**values, op.params[0]: wrap(Batched, level, front.clone())}
    result = _batch(op, values, level)
    _assignable(op, name, front._array, result._array if op.outputs == ("result",) else result)
    op.table.of("copy_values").write(front, result)


__all__ = [
    "at_level",
    "at_level_inplace",
    "below",
    "call_below",
    "levelled_among",
    "outside",
    "unusual",
]
