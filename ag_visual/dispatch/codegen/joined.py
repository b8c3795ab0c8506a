"""Two ops in a row as one built call, for composites whose middle result nobody sees.

The nodes are those of both ops, with all that they save, and emitted as theirs. While somebody
profiles, the ops are called one by one.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from ag_visual.dispatch.codegen.node import fields_part, place_part
from ag_visual.dispatch.codegen.report import report_part
from ag_visual.dispatch.codegen.scope import SHARED
from ag_visual.dispatch.codegen.source import Writer, lazily
from ag_visual.dispatch.record import Op


def joined(
    name: str, first: Op, then: Op, kernel: Callable[..., Any], fixed: dict[str, Any]
) -> Callable[..., Any]:
    """`then(first(self), ...)`, its first result; None where both have to be called.

    kernel: `(xp, *arrays, *arguments)` gives the arrays of first, and of all that then gives, fresh
    and row by row; None, or an error, of what it is not for. fixed: arguments of both that the call
    does not take, None for a tensor that is not given.
    """
    scope = {**SHARED, "kernel": kernel, "cls": first.node_class, "cls_then": then.node_class}
    scope.update(fixed)
    source = functools.partial(_source, name, first, then, fixed)
    return lazily(name, scope, source, f"{name} joined")


def _source(name: str, first: Op, then: Op, fixed: dict[str, Any], scope: dict[str, Any]) -> str:
    (x,) = first.inputs
    middle, *tensors = then.inputs
    others = [each for each in tensors if each not in fixed]
    arguments = [each for each in (*first.arguments, *then.arguments) if each not in fixed]
    lines = Writer(f"def {name}({', '.join([x, *others, *arguments])}):")
    add = lines.add
    add(1, "if instrument.spans is not None: return None")
    add(1, "grad = True if not modes.special else modes.now.fast")
    for each in (x, *others):
        add(1, f"if type({each}) is not Tensor and type({each}) not in fast: return None")
        add(1, f"a_{each} = {each}._array")
        add(1, f"if type(a_{each}) is not ndarray: return None")
    add(1, f"if grad is None or {x}._plain is None: return None")
    given = [f"a_{each}" for each in (x, *others)]
    add(1, f"try: found = kernel(np, {', '.join([*given, *arguments])})")
    add(1, "except Exception: return None")
    add(1, "if found is None: return None")
    further = "".join(f", r{i}" for i in range(1, len(then.outputs)))
    add(1, f"r, r_then{further} = found")
    add(1, "dtype = d = r.dtype")
    _tensor_part(lines, 1)
    add(1, "if grad:")
    add(2, f"v = {x}._view")
    add(2, f"if v is not None and v.snapshot is not {x}._store.snapshot: refresh({x})")
    add(2, f"g_{x} = {x}._rg")
    add(2, f"if g_{x}:")
    add(3, "node = cls()")
    fields_part(first, lines)
    place_part(lines, True)
    report_part(first, scope, lines)
    add(3, f"{middle}, a_{middle}, g_{middle} = out, r, True")
    for each in tensors:
        add(3, f"k_{each} = {each not in fixed}")
        if each in fixed:
            add(3, f"a_{each} = None")
    add(3, "r = r_then")
    _tensor_part(lines, 3)
    for i in range(1, len(then.outputs)):
        add(3, f"st{i} = Storage()")
        add(3, f"st{i}.snapshot = ZERO")
        add(3, f"st{i}.log = None")
        add(3, f"st{i}.number = 0")
    add(3, "node = cls_then()")
    add(3, "node.code, node.lasti = code, lasti")
    fields_part(then, lines, apart=True)
    report_part(then, scope, lines, "cls_then", apart=True)
    add(3, "return out")
    add(1, "out._array = r_then")
    add(1, "out._edge = None")
    add(1, "out._rg = False")
    add(1, "return out")
    return lines.text


def _tensor_part(lines: Writer, depth: int) -> None:
    """`out`, a tensor of the array `r`, which is of `dtype`; its history is not known here."""
    add = lines.add
    add(depth, "out = blank_tensor()")
    add(depth, "out._array = r")
    add(depth, "out._plain = dtype")
    add(depth, "out._store = FRESH")
    add(depth, "out._view = out._memory = out._grad = out._leaf = None")
