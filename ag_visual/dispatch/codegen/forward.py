"""The forward of an op as built code."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy

from ag_visual.dispatch import interpreted
from ag_visual.dispatch.codegen.backward import backward
from ag_visual.dispatch.codegen.report import report_part
from ag_visual.dispatch.codegen.scope import SHARED
from ag_visual.dispatch.codegen.signature import arguments_part, head_of, kernel_call, with_older
from ag_visual.dispatch.codegen.source import Writer, lazily
from ag_visual.dispatch.memory import settled
from ag_visual.dispatch.record import KEEP, Op


def specialize(op: Op) -> None:
    """Replace the record's call and its node's `raw` by built ones, where it is plain enough."""
    single = len(op.outputs) == 1 or (op.differentiable == (0,) and not op.view)
    if not op.lists and not op.multi and single and op.inputs:
        op.call = forward(op)
    backward(op)


def forward(
    op: Op, places: bool = True, reference: Callable[..., Any] | None = None
) -> Callable[..., Any]:
    """The fast wrapper of an op, with `reference` for everything that is not plain.

    places=False leaves out source tracking, for measuring it.
    """
    scope = {**SHARED, "slow": reference or op.compute}
    scope.update(normalize=op.normalize, op=op, cls=op.node_class)
    if len(op.outputs) > 1:
        scope["package"] = interpreted.named_tuple(op.namedtuple or op.name, op.outputs)
    label = f"{op.name} operator" if reference else ""
    function = lazily(op.name, scope, lambda scope: _forward_source(op, places, scope), label)
    scope["again"] = function
    function.__doc__ = op.doc
    function.__signature__ = op.public_signature  # type: ignore[attr-defined]
    return function


def _forward_source(op: Op, places: bool, scope: dict[str, Any]) -> str:
    # An operator has a reference of its own, takes no out= and no argument by name.
    called = scope["slow"] is op.compute
    out = bool(op.out) and called
    old = bool(op.legacy_positional) and called
    head = head_of(
        op.signature,
        scope,
        kinds=op.kinds,
        varargs=op.varargs,
        out=out,
        old=old,
        function=called,
    )
    given = [*head.passed.values(), *["**named"] * bool(op.varargs)]
    slow = f"return slow({', '.join(given)})"
    lines = head.writer(op.name)
    add = lines.add
    if old:
        add(1, f"if old: return {with_older(op, out)}")
    if out and not op.varargs:
        add(1, f"if out is not None: {slow[:-1]}, out=out)")
    add(1, "grad = True if not modes.special else modes.now.fast")
    if op.varargs:
        add(1, f"if named: {slow}")
    # The first input that takes part in promotion says in which dtype the op computes.
    first = next(name for name in op.inputs if name not in op.no_promotion)
    add(1, f"if grad is None or type({first}) is not Tensor and type({first}) not in fast: {slow}")
    if op.policy != KEEP:
        add(1, f"d = {first}._plain")
        add(1, f"if d is None: {slow}")
    add(1, f"a_{first} = {first}._array")
    if op.policy == KEEP:
        add(1, f"if type(a_{first}) is not ndarray: {slow}")
        if op.real_only:
            add(1, f"if {first}._plain is None and a_{first}.dtype.kind == 'c': {slow}")
        if op.narrows:  # bfloat16 has a number beyond those of NumPy's own dtypes
            add(1, f"if a_{first}.dtype.num > 255: {slow}")
    for name in op.inputs:
        if name == first:
            continue
        promoted = op.policy != KEEP and name not in op.no_promotion
        add(1, f"if type({name}) is Tensor or type({name}) in fast:")
        add(2, f"a_{name} = {name}._array")
        add(2, f"k_{name} = True")
        if promoted:
            add(2, f"if {name}._plain is not d: {slow}")
        else:
            add(2, f"if type(a_{name}) is not ndarray: {slow}")
        if promoted:
            add(1, f"elif type({name}) is float or type({name}) is int:")
            add(2, f"a_{name} = {name}")
            add(2, f"k_{name} = False")
        if name in op.optional:
            add(1, f"elif {name} is None:")
            add(2, f"a_{name} = None")
            add(2, f"k_{name} = False")
        add(1, f"else: {slow}")
    for name in op.compared if op.policy == KEEP else ():
        if name != first:
            add(1, f"if k_{name} and a_{name}.dtype is not a_{first}.dtype: {slow}")
    arguments_part(op, head, lines, slow)
    run = kernel_call(op, scope)
    if op.fast_case is not None:
        function, argument, value = op.fast_case
        scope["usual"] = getattr(numpy, function)
        arrays = ", ".join(f"a_{p}" for p in op.params if p != argument)
        scope["value"] = value
        # True and 1.0 are not 1: the kernel refuses what torch refuses.
        run = f"usual({arrays}) if {argument} is value else {run}"
    extra = range(1, len(op.outputs))
    answer = f"package(out, {', '.join(f'out{i}' for i in extra)})" if extra else "out"
    # Bad shapes and floating-point warnings raised as errors: the reference path knows better.
    # Called when the exception is over, which is no context of what the reference path says.
    add(1, f"try: r = {run}")
    add(1, "except Exception: r = None")
    add(1, f"if r is None: {slow}")
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
    add(1, "dtype = r.dtype")
    floating = "dtype if dtype is F32 or dtype is F64 else None"
    add(1, f"out._plain = {floating if op.policy == KEEP else f'd if dtype is d else {floating}'}")
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
            f"out._view = w = View({parent} if v is None else v.base, v, op, {args}, st.stamp, "
            f"0 if grad and (v is None or not v.meta) else child_meta(v), a_{parent})",
        )
        add(1, f"m = {parent}._memory")
        add(1, f"out._memory = a_{parent} if m is None else m")
    else:
        add(1, "out._store = FRESH")
        add(1, "out._view = out._memory = None")
    add(1, "out._grad = out._leaf = None")
    if op.rules:
        _node_part(op, scope, lines, places, answer)
    add(1, "out._edge = None")
    if not op.view:
        add(1, "out._rg = False")
        if op.rules:
            add(1, f"if not grad and ({_asks(op, first)}): out._origin = 'no_grad', {_HERE}")
    else:
        add(1, "out._rg = not grad and w.base._rg and r.dtype.kind in 'fcV'")
        add(1, "w.made = locate(getframe(1))")
    add(1, f"return {answer}")
    return lines.text


_HERE = "locate(getframe(1))"


def _asks(op: Op, first: str) -> str:
    """Whether an input requires grad, as source: the result then remembers why it doesn't."""
    return " or ".join(
        f"{name}._rg" if name == first else f"k_{name} and {name}._rg" for name in op.diff_inputs
    )


def _node_part(op: Op, scope: dict[str, Any], lines: Writer, places: bool, answer: str) -> None:
    add = lines.add
    edges = op.diff_inputs
    first = next(name for name in op.inputs if name not in op.no_promotion)
    # As in torch, a stale view may still be converted to integers, which have no history.
    kinds = "(dtype is F32 or dtype is F64 or dtype.kind in 'fcV')"
    add(1, f"if grad and {kinds}:" if op.policy == KEEP else "if grad:")
    wants = []
    for name in edges:
        maybe = name in op.optional or (op.policy != KEEP and name != first)
        wants.append(f"g_{name}")
        depth = 2
        if maybe:
            add(2, f"g_{name} = False")
            add(2, f"if k_{name}:")
            depth = 3
        add(depth, f"v = {name}._view")
        add(depth, f"if v is not None and v.stamp is not {name}._store.stamp: refresh({name})")
        add(depth, f"g_{name} = {name}._rg")
    add(2, f"if {' or '.join(wants)}:")
    add(3, "node = cls()")
    for name in edges:
        add(3, f"e_{name} = ({name}._edge or accumulator({name})) if g_{name} else None")
    add(3, f"node.next = ({', '.join(f'e_{n}' for n in edges)},)")
    add(3, "node.seq = next(sequence)")
    if places:
        add(3, "frame = getframe(1)")
        add(3, "code = frame.f_code")
        add(3, "if inside[code.co_filename]: node.code, node.lasti = locate(frame)")
        add(3, "else:")
        add(4, "node.code = code")
        add(4, "node.lasti = frame.f_lasti")
    else:
        add(3, "node.code, node.lasti = None, 0")
    add(3, "node.shape = shape = r.shape")
    add(3, "node.dtype = dtype")
    add(3, "node.outs = node.hooks = node.freed = node._metadata = None")
    if op.outputs[0] in op.saves and not op.view:
        # Who writes the result later must be told of by a storage that the node holds, too.
        add(3, "out._store = st = Storage()")
        add(3, "st.stamp = ZERO")
        add(3, "st.log = None")
        add(3, "st.number = 0")
    for name in op.saves:
        asked = op.wanted_by(name)
        always = set(asked) >= set(edges)
        condition = " or ".join(f"g_{i}" for i in asked)
        if name in op.outputs:
            i = op.outputs.index(name)
            kept = f"out{i}._storage" if i else "st"
            add(3, f"node.o_{name} = ({kept}, {i}, {i == 0})")
            add(3, f"node.t_{name} = {kept}.stamp")
            value = f"out{i}._array" if i else "r"
            add(3, f"node.s_{name} = {value}" + ("" if always else f" if {condition} else None"))
            continue
        depth = 3
        if not always:
            add(3, f"if {condition}:")
            depth = 4
        plain = name == first
        stamp = f"{name}._store.stamp"
        if not plain:
            absent = f"(None if {name} is not None else False)" if name in op.optional else "None"
            stamp += f" if k_{name} else {absent}"
        add(depth, f"node.s_{name} = {name}")
        add(depth, f"node.t_{name} = {stamp}")
        if not always:
            add(3, f"else: node.s_{name}, node.t_{name} = None, False")
    for name in op.values:
        add(3, f"node.a_{name} = {name}")
    for name in op.shapes:
        owner, _, what = name.rpartition("_")
        maybe = owner != first
        fact = f"a_{owner}.{what}"
        if maybe:
            absent = f"() if a_{owner} is not None else None" if what == "shape" else "None"
            fact = f"{fact} if k_{owner} else ({absent})"
        add(3, f"node.h_{name} = {fact}")
    add(3, "out._edge = (node, 0, shape, dtype)")
    add(3, "out._rg = True")
    add(3, "sink = instrument.sink")
    add(3, "if sink is not None:")
    report_part(op, scope, lines)
    add(3, f"return {answer}")
    if op.policy == KEEP:
        add(1, f"elif grad and ({_asks(op, first)}): out._origin = 'dtype', {_HERE}")


def operator(op: Op) -> Callable[..., Any]:
    """The fast wrapper as Python's operators want it."""
    return forward(op, reference=interpreted.operator(op))
