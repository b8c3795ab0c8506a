"""An op at a level of vmap as built code: what `dispatch.levels` does there in the usual cases.

Where the op does the same on all slices at once, with other arguments (`elementwise`, `along`,
`vmap.Same`), its fast wrapper of the world below is called. Else its rule is asked, on arrays where
nothing below has a graph. What is not usual gives MISS. Names beside those of `forward`: x_ what an
input holds below the level, l_ whether it has the batch, n_ what `normalize` is told of it.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Collection
from typing import Any

import numpy as np
from numpy import asarray, ndarray

from ag_visual.arrays.quiet import IGNORE, errors
from ag_visual.core import modes, source
from ag_visual.core.level import Batched, Level, Lifted, wrap
from ag_visual.core.tensor import Tensor, from_array
from ag_visual.core.view import refresh
from ag_visual.dispatch import interpreted, vmap
from ag_visual.dispatch.codegen.at_level import MISS
from ag_visual.dispatch.codegen.forward import forward_below
from ag_visual.dispatch.codegen.scope import SHARED, fast_types
from ag_visual.dispatch.codegen.signature import head_of
from ag_visual.dispatch.codegen.source import Writer, lazily
from ag_visual.dispatch.record import KEEP, Op
from ag_visual.dispatch.rules import requests_of
from ag_visual.dispatch.stated import Same, Sliced
from ag_visual.dispatch.vmap import DIMS, SIZES, Batch, along, elementwise, rule_of


def of_slices(op: Op) -> Callable[..., Any] | None:
    """The op at a level of vmap: (level, grad mode, *arguments) to its result."""
    single = len(op.outputs) == 1 or (op.differentiable == (0,) and not op.view)
    rule = rule_of(op)
    if op.multi or op.lists or not op.inputs or not single or rule is None or vmap.draws(op):
        return None
    scope = {**SHARED, "op": op, "MISS": MISS, "normalize": op.normalize}
    scope.update(Batched=Batched, Lifted=Lifted, by_rule=_by_rule)
    scope["new_batched"] = functools.partial(object.__new__, Batched)
    scope["forward_below"] = forward_below(op, _reference_below(op))
    return lazily(op.name, scope, lambda scope: _source(op, rule, scope), f"{op.name} of slices")


def _reference_below(op: Op) -> Callable[..., Any]:
    """The op itself, where the innermost level is not open."""

    def below(*args: Any, **kwargs: Any) -> Any:
        state = modes.state
        return _where_below(state, state.levels[-1], op.call, *args, **kwargs)

    return below


def _where_below(
    state: Any, level: Level, function: Callable[..., Any], *args: Any, **kwargs: Any
) -> Any:
    """`function(*args, **kwargs)` in the world below the innermost level, in the usual modes."""
    mine = state.__dict__
    levels, inner, primal = mine["levels"], mine["differentiating"], mine["primal"]
    try:
        mine["levels"] = level.below
        mine["differentiating"] = level.outer
        mine["fast"] = mine["grad"] if level.fast else None
        mine["primal"] = False
        return function(*args, **kwargs)
    finally:
        mine["levels"] = levels
        mine["differentiating"] = inner
        mine["fast"] = None
        mine["primal"] = primal


def _source(op: Op, rule: Any, scope: dict[str, Any]) -> str:
    head = head_of(op.signature, scope, kinds=op.kinds, varargs=op.varargs, function=False)
    lines = Writer(f"def {op.name}(_level, _grad, {head.text}):")
    add = lines.add
    if op.varargs:
        add(1, "if named: return MISS")
        add(1, f"{op.varargs} = loose({op.public_name!r}, {op.varargs!r}, {op.varargs})")
    for name in op.arguments:
        if name != op.varargs:
            add(1, f"if {head.checks[name]}: return MISS")
    for name in op.inputs:
        add(1, f"if type({name}) is Batched and {name}.level is _level:")
        add(2, f"x_{name} = {name}.value")
        add(2, f"l_{name} = k_{name} = True")
        # (A level that is closed is peeled off by the interpreted path, or refused.)
        mine = f"type({name}) is Lifted or type({name}) is Batched) and {name}.level.is_here()"
        add(1, f"elif type({name}) is Tensor or type({name}) in fast or ({mine}:")
        add(2, f"x_{name} = {name}")
        add(2, f"l_{name} = False")
        add(2, f"k_{name} = True")
        numbers = f"type({name}) is float or type({name}) is int"
        promoted = op.policy != KEEP and name not in op.no_promotion
        others = [*[numbers] * promoted, *[f"{name} is None"] * (name in op.optional)]
        if others:
            add(1, f"elif {' or '.join(others)}:")
            add(2, f"x_{name} = {name}")
            add(2, f"l_{name} = k_{name} = False")
        add(1, "else: return MISS")
    add(1, f"_any = {' or '.join(f'l_{name}' for name in op.inputs)}")
    if op.normalize is not None:
        for name in op.inputs:
            add(1, f"n_{name} = getattr({name}, '_array', {name})")
            # The first slice, as an array: of no slices there is none.
            add(1, f"if l_{name} and type(n_{name}.array) is ndarray and _level.size:")
            add(2, f"n_{name} = n_{name}.array[0, ...]")
        given = [f"n_{p}" if p in op.inputs else p for p in op.params]
        left = f"{', '.join(op.arguments)}, = " if op.arguments else ""
        add(1, f"{left}normalize({', '.join(given)})")
    add(1, "_below = _grad if _level.fast else None")
    add(1, f"if not _any: return {_call(op, ())}")
    add(1, "if not _level.size: return MISS")
    several = len(op.outputs) > 1
    changed: list[str] = []
    other = _other(op, rule)
    if other is not None:
        scope["other"] = forward_below(other, _reference_below(other))
    # (The copying form of a view has the view's rule.)
    several = several or (other is not None and other.view is not op.view)
    usual = None if several else _usual(op, rule, scope, lines, changed)
    if usual is not None:
        depth = 1
        if usual:
            add(1, f"if {usual}:")
            depth = 2
        low = _call(op, changed) if other is None else _call(other, changed, "other")
        add(depth, f"low = {low}")
        _hide(lines, depth)
    if isinstance(rule, Sliced) and not (several or op.view or op.may_donate):
        _on_arrays(op, rule, scope, lines)
    if usual != "":
        values = ", ".join(f"{p!r}: {f'x_{p}' if p in op.inputs else p}" for p in op.params)
        has = ", ".join(f"{p!r}: {f'l_{p}' if p in op.inputs else False}" for p in op.params)
        add(1, f"return by_rule(op, _level, _grad, {{{values}}}, {{{has}}})")
    return lines.text


def _other(op: Op, rule: Any) -> Op | None:
    """The op that does for all slices what this one does for one, where it is another."""
    return op.table.of(rule.name) if isinstance(rule, Same) and rule.name else None


def _call(op: Op, changed: Collection[str], called: str = "forward_below") -> str:
    """The op below the level. changed: the arguments that are there in names with b_."""
    names = {p: f"x_{p}" if p in op.inputs else f"b_{p}" if p in changed else p for p in op.params}
    passed = [names[p] for p in op.params if p not in op.keyword]
    passed += [f"{p}={names[p]}" for p in op.keyword]
    return f"{called}(_below, {', '.join(passed)})"


def _usual(
    op: Op, rule: Any, scope: dict[str, Any], lines: Writer, changed: list[str]
) -> str | None:
    """When the op does the same on all slices: a condition, "" for always, None for never.

    changed: takes the arguments for which it writes others, in names with b_.
    """
    if rule is elementwise:
        return _aligned(op, lines)
    conditions = [f"(l_{name} or not k_{name})" for name in op.inputs[1:]]
    conditions += [f"l_{name}" for name in op.inputs[:1]] if conditions else []
    if rule is along:
        changed += [name for name in op.arguments if name in DIMS or name in SIZES]
        conditions.append(f"x_{op.inputs[0]}._array.ndim > 1")
        for name in changed:
            if name in DIMS:
                lines.add(1, f"if type({name}) is int: b_{name} = {name} + 1")
                lines.add(1, f"elif {name}: b_{name} = tuple([d + 1 for d in {name}])")
                lines.add(1, f"else: b_{name} = None")
                conditions.append(f"b_{name} is not None")
            else:
                lines.add(1, f"b_{name} = {name}")
                lines.add(1, f"if type({name}) is not int: b_{name} = (_level.size, *{name})")
        return " and ".join(conditions)
    if isinstance(rule, Same):
        changed += rule.arguments
        known = {**{a: a for a in op.arguments}, "slices": "_level.size"}
        known["whole"] = f"x_{op.inputs[0]}._array"
        known["rank"] = f"{known['whole']}.ndim - 1"
        for name, value in rule.arguments.items():
            scope[f"made_{name}"] = value
            text = f"made_{name}"
            if callable(value):
                text += f"({', '.join(known[request] for request in requests_of(value))})"
            lines.add(1, f"b_{name} = {text}")
        if rule.pads is not None:
            unsqueeze = op.table.of("unsqueeze")
            scope.update(
                pads=rule.pads, unsqueeze=forward_below(unsqueeze, _reference_below(unsqueeze))
            )
            asked = ", ".join(known[request] for request in requests_of(rule.pads))
            lines.add(1, f"for _ in range(pads({asked})):")
            lines.add(2, f"x_{op.inputs[0]} = unsqueeze(_below, x_{op.inputs[0]}, 1)")
        if rule.when is not None:
            scope["when"] = rule.when
            conditions.append(f"when({', '.join(known[r] for r in requests_of(rule.when))})")
        return " and ".join(conditions)
    return None


def _aligned(op: Op, lines: Writer) -> str:
    """Slices of as many dimensions, of one dtype, align with what has no batch and fewer."""
    if len(op.inputs) == 1:
        return ""
    add = lines.add
    add(1, "_rank = 0")
    for name in op.inputs:
        add(1, f"if l_{name}:")
        add(2, f"_array = x_{name}._array")
        add(2, "if not _rank: _rank, _kind = _array.ndim, _array.dtype")
        add(2, "elif _rank != _array.ndim or _kind is not _array.dtype: _rank = -1")
    for name in op.inputs:
        add(1, f"if k_{name} and not l_{name}:")
        add(2, f"_array = x_{name}._array")
        add(2, "if _rank <= _array.ndim or _kind is not _array.dtype: _rank = -1")
    return "_rank > 0"


def _on_arrays(op: Op, rule: Sliced, scope: dict[str, Any], lines: Writer) -> None:
    """The rule on arrays, where they are plain, of one dtype, and have no graph."""
    add = lines.add
    scope.update(rule=rule.function, raw=op.table.raw(np), errors=errors, IGNORE=IGNORE)
    plain = ["_level.fast"]
    first = op.inputs[0]
    for name in op.inputs:
        own = [f"(type(x_{name}) is Tensor or type(x_{name}) in fast)", f"not x_{name}._rg"]
        own.append(f"x_{name}._plain is {f'x_{first}._plain' if name != first else 'not None'}")
        own.append(
            f"(x_{name}._view is None or x_{name}._view.snapshot is x_{name}._store.snapshot)"
        )
        maybe = name in op.optional or op.policy != KEEP
        plain += [f"(not k_{name} or {' and '.join(own)})"] if maybe else own
        add(1, f"a_{name} = x_{name}._array" + (f" if k_{name} else x_{name}" if maybe else ""))
    known = {p: f"a_{p}" if p in op.inputs else p for p in op.params}
    known |= {f"has_{name}": f"l_{name}" for name in op.inputs}
    known |= {"F": "raw", "slices": "_level.size"}
    add(1, f"if {' and '.join(plain)}:")
    add(2, "_numpy_errors = errors.get()")
    add(2, "try:")
    add(3, "errors.set(IGNORE)")
    add(3, f"r = rule({', '.join(known[name] for name in rule.requests)})")
    add(2, "except Exception: return MISS")
    add(2, "finally: errors.set(_numpy_errors)")
    add(2, "if type(r) is not ndarray: r = asarray(r)")
    add(2, "low = blank_tensor()")
    add(2, "low._array = r")
    add(2, f"low._plain = x_{first}._plain if r.dtype is x_{first}._plain else None")
    add(2, "low._store = FRESH")
    add(2, "low._edge = low._view = low._memory = low._grad = low._leaf = None")
    add(2, "low._rg = False")
    _hide(lines, 2)


def _hide(lines: Writer, depth: int) -> None:
    """`low` as slices of the level."""
    lines.add(depth, "out = new_batched()")
    lines.add(depth, "out.level = _level")
    lines.add(depth, "out.value = low")
    lines.add(depth, "out._edge = out._view = out._grad = out._leaf = out._outline = None")
    lines.add(depth, "out._rg = False")
    lines.add(depth, "return out")


# By the rule ------------------------------------------------------------------------------------


def _by_rule(op: Op, level: Level, grad: bool, values: dict[str, Any], has: dict[str, bool]) -> Any:
    """What the batching rule of an op gives, on slices of a level."""
    rule: Any = rule_of(op)
    if level.fast and not op.view and not op.may_donate:
        cut: list[Any] = []
        arrays = _arrays(op, values, None if grad else cut)
        if arrays is not None:
            numpy_errors = errors.get()
            try:
                errors.set(IGNORE)
                found = rule(Batch(op.table.raw(np), op, level.size, arrays, has))
            except Exception:  # in the words of the interpreted path
                return MISS
            finally:
                errors.set(numpy_errors)
            several = isinstance(found, (tuple, list))
            outputs = [from_array(asarray(r)) for r in (found if several else [found])]
            if cut and op.rules:
                for out in outputs:
                    out._origin = ("no_grad", source.here())
            outputs = [wrap(Batched, level, out) for out in outputs]
            return interpreted._package(op, outputs)
    call = Batch(op.table.traced, op, level.size, values, has)
    found = _where_below(modes.state, level, rule, call)
    several = isinstance(found, (tuple, list))
    outputs = [wrap(Batched, level, out) for out in (found if several else [found])]
    return interpreted._package(op, outputs)


def _arrays(op: Op, values: dict[str, Any], cut: list[Any] | None) -> dict[str, Any] | None:
    """The call on arrays, where all of it is plain and has no graph.

    cut: where grad mode is off, a list for the names of those that have one nevertheless.
    """
    arrays = dict(values)
    kind = None
    for name in op.inputs:
        x = values[name]
        if type(x) is not Tensor and type(x) not in fast_types:
            if isinstance(x, Tensor):
                return None
            continue
        seen = x._view
        behind = seen is not None and seen.snapshot is not x._store.snapshot
        if cut is None:
            if behind:
                refresh(x)
            if x._rg:
                return None
        elif x._rg or (behind and seen.base._rg):  # of a refused view nobody asks for its history
            cut.append(name)
        array = arrays[name] = x._array
        if type(array) is not ndarray or array.dtype.num > LAST:
            return None
        if name in op.compared or (op.policy != KEEP and name not in op.no_promotion):
            if kind is None:
                kind = array.dtype
            if kind is not array.dtype or (op.policy != KEEP and x._plain is None):
                return None
    return arrays


LAST = np.dtype(np.float64).num
"""Up to this number of a dtype: bools, integers, float32 and float64."""
