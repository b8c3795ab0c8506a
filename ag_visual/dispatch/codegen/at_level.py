"""An op at a differentiating level as built code: the usual cases of `dispatch.levels`.

What is not usual gives MISS, and the interpreted path takes over. Names beside those of `forward`:
x_ the tensor that an input holds below the level, l_ whether an input belongs to it.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

from ag_visual.core.level import Lifted, shown
from ag_visual.dispatch.codegen.node import node_part
from ag_visual.dispatch.codegen.scope import SHARED
from ag_visual.dispatch.codegen.signature import head_of
from ag_visual.dispatch.codegen.source import Writer, lazily
from ag_visual.dispatch.op_node import link_views
from ag_visual.dispatch.record import Op

MISS: Any = object()
"""What built code answers where the case is not a usual one."""


def lifted(op: Op) -> Callable[..., Any] | None:
    """The op at a level that differentiates: (level, state, *arguments) to its result."""
    single = len(op.outputs) == 1 and not op.multi and not op.lists
    return _built(op, "at a level", _lifted_source) if single and op.inputs else None


def _built(
    op: Op,
    what: str,
    write: Callable[[Op, dict[str, Any]], str],
    more: dict[str, Any] | None = None,
) -> Callable[..., Any]:
    """A function of (level, state, *arguments) from its source."""
    scope = {**SHARED, "op": op, "cls": op.node_class, "MISS": MISS, "normalize": op.normalize}
    scope.update(Lifted=Lifted, shown=shown, link=link_views)
    scope.update(more or {})
    scope["new_lifted"] = functools.partial(object.__new__, Lifted)
    return lazily(op.name, scope, lambda scope: write(op, scope), f"{op.name} {what}")


def _head(op: Op, scope: dict[str, Any]) -> Writer:
    """The first lines: the parameters of the op behind the level and the state of the thread."""
    many = op.varargs
    head = head_of(op.signature, scope, kinds=op.kinds, varargs=many, function=False)
    lines = Writer(f"def {op.name}(_level, _state, {head.text}):")
    if many:
        lines.add(1, "if named: return MISS")
        lines.add(1, f"{many} = loose({op.public_name!r}, {many!r}, {many})")
    for name in op.arguments:
        if name != many:
            lines.add(1, f"if {head.checks[name]}: return MISS")
    return lines


def _below(op: Op, add: Callable[[int, str], None], then: Sequence[tuple[int, str]] = ()) -> None:
    """The op itself, where the level is not open, and the lines `then` after it."""
    passed = [f"x_{p}" if p in op.inputs else p for p in op.params if p not in op.keyword]
    passed += [f"{p}={f'x_{p}' if p in op.inputs else p}" for p in op.keyword]
    add(1, "_levels = _state.levels")
    add(1, "_state.levels = _level.below")
    add(1, "_state.differentiating = _level.outer")
    add(1, "_state.fast = _level.fast")
    add(1, "_primal = _state.primal")
    add(1, "_state.primal = False")
    add(1, "try:")
    add(2, f"low = op.call({', '.join(passed)})")
    for depth, text in then:
        add(depth, text)
    add(1, "finally:")
    add(2, "_state.levels = _levels")
    add(2, "_state.differentiating = _level.differentiating")
    add(2, "_state.fast = None")
    add(2, "_state.primal = _primal")


def _fields(add: Callable[[int, str], None]) -> None:
    add(1, "out.level = _level")
    add(1, "out.value = low")
    add(1, "out._edge = out._view = out._grad = out._leaf = None")
    add(1, "out._rg = False")


def _lifted_source(op: Op, scope: dict[str, Any]) -> str:
    lines = _head(op, scope)
    add = lines.add
    first = op.inputs[0]
    for name in op.inputs:
        add(1, f"if type({name}) is Lifted and {name}.level is _level:")
        add(2, f"x_{name} = {name}.value")
        add(2, f"l_{name} = k_{name} = True")
        if op.view and name == first:
            add(1, "else: return MISS")
            continue
        add(1, f"elif type({name}) is Tensor or type({name}) in fast:")
        add(2, f"x_{name} = {name}")
        add(2, f"l_{name} = False")
        add(2, f"k_{name} = True")
        add(1, f"elif {name} is None or type({name}) is float or type({name}) is int:")
        add(2, f"x_{name} = {name}")
        add(2, f"l_{name} = k_{name} = False")
        add(1, "else: return MISS")
    add(1, f"if not ({' or '.join(f'l_{name}' for name in op.inputs)}): return MISS")
    _below(op, add)
    if op.normalize is not None and (op.view or op.values):
        arrays = ", ".join(f"shown({p})" if p in op.inputs else p for p in op.params)
        add(1, f"[{', '.join(op.arguments)}] = normalize({arrays})")
    add(1, "out = new_lifted()")
    _fields(add)
    if op.view:
        known = ", ".join(f"{a!r}: {a}" for a in op.arguments)
        add(1, f"_given = {{{known}}}")
    if op.rules:
        add(1, "r = low._array")
        add(1, "dtype = r.dtype")
        for name in {n.rpartition("_")[0] for n in op.shapes}:
            add(1, f"a_{name} = {name}._array if k_{name} else {name}")
        node_part(op, scope, lines, True, "out", "True", lifted=True)
    if op.view:
        add(1, f"link(op, {first}, _given, [out])")
    add(1, "return out")
    return lines.text
