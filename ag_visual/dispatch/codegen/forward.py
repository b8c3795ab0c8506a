"""The forward of an op as built code."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy

from ag_visual.arrays.quiet import IGNORE, errors
from ag_visual.dispatch import interpreted, opmath
from ag_visual.dispatch.codegen.backward import backward
from ag_visual.dispatch.codegen.node import RECORDED, node_part
from ag_visual.dispatch.codegen.scope import SHARED
from ag_visual.dispatch.codegen.several import several_views
from ag_visual.dispatch.codegen.signature import arguments_part, head_of, kernel_part, with_older
from ag_visual.dispatch.codegen.source import Writer, lazily
from ag_visual.dispatch.memory import settled
from ag_visual.dispatch.record import KEEP, Op


def specialize(op: Op) -> None:
    """Replace the record's call and its node's `raw` by built ones, where it is plain enough."""
    single = len(op.outputs) == 1 or (op.differentiable == (0,) and not op.view)
    if not op.lists and not op.multi and single and op.inputs:
        op.call = forward(op)
    elif op.multi and op.view and op.normalize is not None:
        op.call = several_views(op)
    backward(op)


def forward(
    op: Op, call_sites: bool = True, reference: Callable[..., Any] | None = None, only: str = ""
) -> Callable[..., Any]:
    """The fast wrapper of an op, with `reference` for everything that is not plain.

    call_sites=False leaves out source tracking, for measuring it. only: what the arrays `a_...` of
    its inputs have to be, as source; asking costs less than what a kernel's refusal does.
    """
    scope = _scope(op, reference or op.straight)
    scope["with_out"] = op.compute
    label = f"{op.name} operator" if reference else ""
    function = lazily(
        op.name, scope, lambda scope: _forward_source(op, call_sites, scope, only), label
    )
    scope["again"] = function
    if _has_narrow(op) and not only:
        scope["narrow"] = _narrow(op, call_sites, scope["slow"], f"{label or op.name} of 16 bits")
    return op.shown(function)


def _keeps_dtype(op: Op, kernel: Any) -> bool:
    """Whether its result is of its inputs' dtype, where that is float32 or float64.

    To ask the result costs a thirtieth of a small op.
    """
    if op.policy == KEEP or op.no_promotion or not isinstance(kernel, numpy.ufunc):
        return False
    return all(f"{kind * kernel.nin}->{kind}" in kernel.types for kind in "fd")


def _has_narrow(op: Op) -> bool:
    return op.opmath and not (op.view or op.layout or op.varargs or len(op.outputs) > 1)


def _narrow(op: Op, call_sites: bool, slow: Callable[..., Any], label: str) -> Callable[..., Any]:
    """The fast wrapper for 16-bit floats, which the other one calls: see `dispatch.opmath`."""
    scope = _scope(op, slow)
    scope.update(with_out=op.compute, cls=op.narrow_class or op.node_class)
    scope.update(
        widened=opmath.widened,
        narrowed=opmath.narrowed,
        rounded=opmath.rounded,
        errors=errors,
        IGNORE=IGNORE,
    )
    function = lazily(
        op.name, scope, lambda scope: _forward_source(op, call_sites, scope, narrow=True), label
    )
    scope["again"] = function
    return function


def forward_below(op: Op, slow: Callable[..., Any]) -> Callable[..., Any]:
    """The fast wrapper of an op in the world below a level, for code that is built at levels.

    It is given the grad mode there, None where levels are left, and arguments in their normal
    form.
    """
    scope = _scope(op, slow)
    label = f"{op.name} below"
    return lazily(op.name, scope, lambda scope: _forward_source(op, True, scope, below=True), label)


def _scope(op: Op, slow: Callable[..., Any]) -> dict[str, Any]:
    scope = {**SHARED, "slow": slow}
    scope.update(normalize=op.normalize, op=op, cls=op.node_class, NARROW=opmath.NARROW)
    if len(op.outputs) > 1:
        scope["package"] = interpreted.named_tuple(op.namedtuple or op.name, op.outputs)
    return scope


def _forward_source(
    op: Op,
    call_sites: bool,
    scope: dict[str, Any],
    only: str = "",
    below: bool = False,
    narrow: bool = False,
) -> str:
    # An operator has a reference of its own, takes no out= and no argument by name.
    called = scope["slow"] is op.straight
    out = bool(op.out) and called
    old = bool(op.legacy_positional) and called
    head = head_of(
        op.signature, scope, kinds=op.kinds, varargs=op.varargs, out=out, old=old, function=called
    )
    given = [*head.passed.values(), *["**named"] * bool(op.varargs)]
    lines = head.writer(op.name)
    if below:
        given = [f"{p}={p}" if p in op.keyword else p for p in op.params]
        known = [p for p in op.params if p not in op.keyword]
        known += ["*", *op.keyword] if op.keyword else []
        lines = Writer(f"def {op.name}(grad, {', '.join(known)}):")
    slow = f"return slow({', '.join(given)})"
    add = lines.add
    if old:
        add(1, f"if old: return {with_older(op, out, 'with_out')}")
    if out and not op.varargs:
        add(1, f"if out is not None: return with_out({', '.join(given)}, out=out)")
    recorded = "grad" if below or op.view else RECORDED
    if op.view and not below:
        add(1, "grad = True if not modes.special else modes.now.fast")
    if op.varargs and not below:  # an out= is among them
        add(1, f"if named: return {'with_out' if called else 'slow'}({', '.join(given)})")
    # The first input that takes part in promotion says in which dtype the op computes.
    first = next(name for name in op.inputs if name not in op.no_promotion)
    other = f"type({first}) is not Tensor and type({first}) not in fast"
    unusual = "grad is None" if recorded == "grad" else "modes.slowed and modes.now.fast is None"
    add(1, f"if {unusual} or {other}: {slow}")
    # NumPy widens bfloat16 beside numbers, where the kernel does not see to it.
    brain = op.policy == KEEP and op.narrows and not narrow and "narrow" not in scope
    to_narrow = f"return narrow({', '.join(given)})" if "narrow" in scope else slow
    if op.policy != KEEP and not narrow:
        add(1, f"d = {first}._plain")
        add(1, f"if d is None: {to_narrow}")
    add(1, f"a_{first} = {first}._array")
    if narrow:
        add(1, f"d = a_{first}.dtype")
        add(1, f"if d not in NARROW or type(a_{first}) is not ndarray: {slow}")
    elif op.policy == KEEP:
        add(1, f"if type(a_{first}) is not ndarray: {slow}")
        if "narrow" in scope:
            add(1, f"if {first}._plain is None and a_{first}.dtype in NARROW: {to_narrow}")
        if op.real_only:
            add(1, f"if {first}._plain is None and a_{first}.dtype.kind == 'c': {slow}")
        if brain:  # bfloat16 has a number beyond those of NumPy's own dtypes
            add(1, f"brain = a_{first}.dtype.num > 255")
    for name in op.inputs:
        if name == first:
            continue
        promoted = op.policy != KEEP and name not in op.no_promotion
        add(1, f"if type({name}) is Tensor or type({name}) in fast:")
        add(2, f"a_{name} = {name}._array")
        add(2, f"k_{name} = True")
        if narrow and name not in op.no_promotion:
            add(2, f"if type(a_{name}) is not ndarray or a_{name}.dtype is not d: {slow}")
        elif promoted:
            add(2, f"if {name}._plain is not d: {slow}")
        else:
            add(2, f"if type(a_{name}) is not ndarray: {slow}")
        if promoted:
            add(1, f"elif type({name}) is float or type({name}) is int:")
            add(2, f"a_{name} = {name}")
            add(2, f"k_{name} = False")
            if narrow:
                add(2, f"if not -6e4 < {name} < 6e4: {slow}")
        if name in op.optional:
            add(1, f"elif {name} is None:")
            add(2, f"a_{name} = None")
            add(2, f"k_{name} = False")
        add(1, f"else: {slow}")
    if op.compared and op.policy == KEEP and not narrow:
        scope.update(op=op, check_dtypes=interpreted.check_dtypes)
        given_dtypes = ", ".join(f"{name!r}: {name}" for name in op.compared)
        asked = f"check_dtypes(op, op.dtype_check, {{{given_dtypes}}})"
        for name in op.compared:
            if name != first:
                add(1, f"if k_{name} and a_{name}.dtype is not a_{first}.dtype: {asked}")
    if only:
        add(1, f"if not ({only}): {slow}")
    if not below:
        arguments_part(op, head, lines, slow)
    kernel_part(op, scope, lines, slow, narrow)
    if brain:
        scope["narrowed_brain"] = functools.partial(interpreted._narrowed, op)
        arrays = ", ".join(f"{name!r}: a_{name}" for name in op.inputs)
        add(1, f"if brain: r = narrowed_brain({{{arrays}}}, r)")
    extra = range(1, len(op.outputs))
    answer = f"package(out, {', '.join(f'out{i}' for i in extra)})" if extra else "out"
    if extra:
        add(1, f"r, {', '.join(f'r{i}' for i in extra)} = r")
    add(1, "if type(r) is not ndarray: r = asarray(r)")
    if op.layout:
        scope["settled"] = functools.partial(settled, op.layout)
        add(1, "elif not r.flags.c_contiguous: r = settled(np, r)")
    for i in extra:
        add(1, f"if type(r{i}) is not ndarray: r{i} = asarray(r{i})")
        add(1, f"out{i} = leaf({f'settled(np, r{i})' if op.layout else f'r{i}'})")
    add(1, "out = blank_tensor()")
    add(1, "out._array = r")
    same = not narrow and _keeps_dtype(op, scope.get("kernel"))
    add(1, "dtype = d" if same else "dtype = r.dtype")
    floating = "dtype if dtype is F32 or dtype is F64 else None"
    if narrow:
        floating = "None"
    elif same:
        floating = "d"
    elif op.policy != KEEP:
        floating = f"d if dtype is d else {floating}"
    add(1, f"out._plain = {floating}")
    if op.view:
        parent = op.inputs[0]
        add(1, f"st = {parent}._store")
        add(1, f"if st is FRESH: st = {parent}._storage")
        add(1, "out._store = st")
        add(1, f"v = {parent}._view")
        args = ", ".join(op.arguments)
        args = f"({args},)" if op.arguments else "()"
        add(
            1,
            f"out._view = w = View({parent} if v is None else v.base, v, op, {args}, st.snapshot, "
            f"0 if grad and (v is None or not v.meta) else child_meta(v), a_{parent})",
        )
        add(1, f"m = {parent}._memory")
        add(1, f"out._memory = a_{parent} if m is None else m")
    else:
        add(1, "out._store = FRESH")
        add(1, "out._view = out._memory = None")
    add(1, "out._grad = out._leaf = None")
    if op.rules:
        node_part(op, scope, lines, call_sites, answer, recorded)
    add(1, "out._edge = None")
    if not op.view:
        add(1, "out._rg = False")
    else:
        add(1, "out._rg = not grad and w.base._rg and r.dtype.kind in 'fcV'")
        add(1, "w.made = locate(getframe(1))")
    add(1, f"return {answer}")
    return lines.text
