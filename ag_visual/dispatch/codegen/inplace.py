"""In-place variants as built code."""

from __future__ import annotations

import ast
from collections.abc import Callable
from typing import Any

import numpy

from ag_visual.dispatch.codegen.scope import SHARED
from ag_visual.dispatch.codegen.signature import (
    arguments_part,
    arrays_of,
    head_of,
    kernel_call,
    kernel_part,
    with_older,
)
from ag_visual.dispatch.codegen.source import Writer, lazily
from ag_visual.dispatch.record import KEEP, Op


def inplace(op: Op, variant: str, reference: Callable[..., Any]) -> Callable[..., Any]:
    """The fast variant of an op: writes that autograd does not record, to memory without views."""
    if op.policy == KEEP or op.lists or op.varargs or op.writes or op.outputs != ("result",):
        return reference
    scope = {**SHARED, "slow": reference, "normalize": op.normalize}
    scope["BOOL"] = numpy.dtype(bool)
    return op.shown(
        lazily(variant, scope, lambda scope: _inplace_source(op, variant, scope)), variant
    )


def _inplace_source(op: Op, variant: str, scope: dict[str, Any]) -> str:
    old = bool(op.legacy_positional)
    head = head_of(op.signature, scope, kinds=op.kinds, old=old, numpy_names=False)
    slow = f"return slow({', '.join(head.passed.values())})"
    lines = head.writer(variant)
    add = lines.add
    target = op.params[0]
    if old:
        add(1, f"if old: return {with_older(op, False)}")
    add(1, "grad = True if not modes.special else modes.now.fast")
    add(
        1, f"if grad is None or type({target}) is not Tensor and type({target}) not in fast: {slow}"
    )
    # Part of other memory, as a view is or was: its elements may be one place, or another's.
    add(1, f"if {target}._memory is not None or grad and {target}._rg: {slow}")
    add(1, f"a_{target} = {target}._array")
    add(1, f"d = {target}._plain")
    add(1, f"if d is None: {slow}")
    for name in op.inputs:
        if name == target:
            continue
        add(1, f"if type({name}) is Tensor or type({name}) in fast:")
        add(2, f"a_{name} = {name}._array")
        fits = (
            f"type(a_{name}) is not ndarray"
            if name in op.no_promotion
            else f"{name}._plain is not d"
        )
        add(2, f"if {fits}: {slow}")
        add(2, f"if grad and ({name}._rg or {name}._view is not None): {slow}")
        # On the same memory, itself included: the reference path refuses what torch refuses.
        add(2, f"x, y = {target}._store, {name}._store")
        add(2, f"if x is y and x is not FRESH or x.log is not None and x.log is y.log: {slow}")
        if name not in op.no_promotion:
            add(1, f"elif type({name}) is float or type({name}) is int:")
            add(2, f"a_{name} = {name}")
        if name in op.optional:
            add(1, f"elif {name} is None: a_{name} = None")
        add(1, f"else: {slow}")
    arguments_part(op, head, lines, slow)
    _at_once(op, variant, scope, lines, slow)
    # Into a fresh array first: an exception must leave the target as it was.
    kernel_part(op, scope, lines, slow)
    # (What a comparison gives is written as ones and zeros.)
    add(1, f"if r.dtype is not d and r.dtype is not BOOL or r.shape != a_{target}.shape: {slow}")
    # Read-only memory (an expanded gradient in a hook) is refused there, with torch's words.
    add(1, f"try: a_{target}[...] = r")
    add(1, f"except ValueError: {slow}")
    # Nothing lets a signal in between the write and this call: it counts, whatever ends it.
    add(1, f"try: wrote({target}, {variant!r})")
    add(1, "except BaseException:")
    add(2, f"wrote({target}, {variant!r})")
    add(2, "raise")
    add(1, f"return {target}")
    return lines.text


_FALLS_BACK = "TypeError, ValueError, FloatingPointError, RuntimeWarning"


def _at_once(op: Op, variant: str, scope: dict[str, Any], lines: Writer, slow: str) -> None:
    """Of two arrays, a ufunc writes where it reads: what it refuses is refused before the write."""
    if len(op.inputs) != 2:
        return
    called = ast.parse(kernel_call(op, scope, arrays_of(op)), mode="eval").body
    if not (isinstance(called, ast.Call) and isinstance(called.func, ast.Name)):
        return
    ufunc = scope.get(called.func.id)
    if not (isinstance(ufunc, numpy.ufunc) and len(called.args) == ufunc.nin == 2):
        return
    target, other = op.inputs
    lines.add(1, f"if type(a_{other}) is ndarray:")
    # What a number is refused for here is refused before anything was written.
    lines.add(2, f"try: x, y = {', '.join(map(ast.unparse, called.args))}")
    lines.add(2, f"except ({_FALLS_BACK}): {slow}")
    lines.add(2, "try:")
    # (Where they are errors, they are raised when all is written.)
    lines.add(3, f"try: {called.func.id}(x, y, a_{target})")
    lines.add(3, "except (FloatingPointError, RuntimeWarning): pass")
    lines.add(3, f"wrote({target}, {variant!r})")
    lines.add(2, f"except ({_FALLS_BACK}): pass")
    # A signal may come when the ufunc has written: it counts, whatever ends it.
    lines.add(2, "except BaseException:")
    lines.add(3, f"wrote({target}, {variant!r})")
    lines.add(3, "raise")
    lines.add(2, f"else: return {target}")
    lines.add(2, slow)
