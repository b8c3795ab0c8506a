"""Fast wrappers, built once as source from the record (as attrs and dataclasses do).

They serve the common case: plain tensors on NumPy, one dtype, no special mode but grad mode.
Everything else goes to the reference path in `interpreted`, with which tests compare them.
Measured on a small multiplication: interpreted 3.0 us forward and 3.0 backward, built 1.8 and 2.3.
"""

from __future__ import annotations

import functools
import inspect
import sys
from collections.abc import Callable, Iterable
from threading import get_ident
from typing import Any
from weakref import ref

import numpy

from ag_visual.core import modes, saved, source, view
from ag_visual.core.node import sequence
from ag_visual.core.storage import FRESH, ZERO, Storage, uids
from ag_visual.core.tensor import Tensor, accumulator, from_array, wrote
from ag_visual.dispatch import arguments, interpreted, op_node
from ag_visual.dispatch.codegen.source import lazily
from ag_visual.dispatch.memory import settled
from ag_visual.dispatch.out_argument import into
from ag_visual.dispatch.record import KEEP, Op
from ag_visual.dispatch.rules import call_source
from ag_visual.events import instrument
from ag_visual.events.clock import perf_counter_ns
from ag_visual.events.node_record import NodeSchema, node_record, row

fast_types: set[type] = {Tensor}
"""Exact types that may take the fast path."""
odd_types: set[type] = {Tensor, *arguments.NUMPY_NUMBERS}
"""Exact types that stand for a number in an argument and are none: see `plain_number`."""


def take_fast(kind: type) -> None:
    """Let a subclass of Tensor that changes nothing take the fast path."""
    fast_types.add(kind)
    odd_types.add(kind)


def _locate(frame: Any) -> tuple[Any, int]:
    """`source.place_of`, in one call."""
    inside = source.inside
    while frame is not None:
        code = frame.f_code
        if not inside[code.co_filename]:
            return code, frame.f_lasti
        frame = frame.f_back
    return None, 0


_SHARED: dict[str, Any] = {
    "__name__": "ag_visual.ops.built",  # the warnings filter of the package goes by this name
    "Tensor": Tensor,
    "fast": fast_types,
    "odd": odd_types,
    "blank_tensor": functools.partial(object.__new__, Tensor),
    "ndarray": numpy.ndarray,
    "asarray": numpy.asarray,
    "np": numpy,
    "F32": numpy.dtype(numpy.float32),
    "F64": numpy.dtype(numpy.float64),
    "Storage": Storage,
    "ZERO": ZERO,
    "FRESH": FRESH,
    "modes": modes,
    "instrument": instrument,
    "report_cuts": saved.report_cuts,
    "sequence": sequence,
    "uids": uids,
    "next": next,
    "getframe": sys._getframe,
    "inside": source.inside,
    "locate": _locate,
    "accumulator": accumulator,
    "refresh": view.refresh,
    "View": view.View,
    "child_meta": view.child_meta,
    "clock": perf_counter_ns,
    "thread": get_ident,
    "ref": ref,
    "unpack": saved.raw,
    "check": saved.check,
    "claim": saved.claim,
    "leaf": from_array,
    "wrote": wrote,
    "loose": arguments.loose,
    "DType": arguments.DType,
}


def bind_face(
    body: Callable[..., Any], face: Any, name: str, out: bool = False, varargs: str | None = None
) -> Callable[..., Any]:
    """`body` with its first parameter fixed, as a function that can also be a method.

    out: whether it takes `out=`, too. varargs: its parameter that is given one by one.
    """
    scope = {"body": body, "face": face, "__name__": body.__module__, "into": into, "told": _told}
    scope.update(renamed=_renamed, absent=_ABSENT, odd=odd_types, number=arguments.plain_number)
    scope.update(checked=arguments.checked, one_by_one=arguments.one_by_one, DType=arguments.DType)
    function = lazily(name, scope, lambda scope: _bound_source(body, name, scope, out, varargs))
    scope["again"] = function
    function.__doc__ = body.__doc__
    function.__wrapped__ = bound = functools.partial(body, face)  # type: ignore[attr-defined]
    if out:
        known = inspect.signature(bound)
        names = [p for p in known.parameters.values() if p.kind is not p.VAR_KEYWORD]
        rest = [p for p in known.parameters.values() if p.kind is p.VAR_KEYWORD]
        more = inspect.Parameter("out", inspect.Parameter.KEYWORD_ONLY, default=None)
        found = known.replace(parameters=[*names, more, *rest])
        function.__signature__ = found  # type: ignore[attr-defined]
    return function


def _told(name: str, given: dict[str, Any], error: AttributeError) -> Exception:
    """A TypeError that names the argument, where the missing attribute was asked of no tensor."""
    for each, value in given.items():
        if value is error.obj and not isinstance(value, Tensor) and value is not None:
            found = interpreted.bad_argument(name, tuple(given), each, value)
            found.__suppress_context__ = True
            return found
    return error


_ABSENT = object()
"""The value of a required `dim` that was not given, or given under NumPy's name."""


def _renamed(again: Callable[..., Any], named: dict[str, Any], **given: Any) -> Any:
    """The call with NumPy's names for `dim` and `keepdim`, or what is wrong with its names."""
    name = again.__name__
    for theirs, ours in arguments.NUMPY_NAMES.items():
        if theirs in named and ours in given:
            usual = inspect.signature(again).parameters[ours].default
            if given[ours] is not _ABSENT and given[ours] is not usual:
                raise TypeError(f"{name}() got both '{ours}' and '{theirs}': leave one out")
            given[ours] = named.pop(theirs)
    if named:
        raise TypeError(f"{name}() got an unexpected keyword argument '{next(iter(named))}'")
    known = inspect.signature(again).parameters
    for each, value in given.items():
        if value is _ABSENT and known[each].default is inspect.Parameter.empty:
            raise TypeError(f"{name}() missing 1 required positional argument: '{each}'")
    return again(**given)


def _takes_numpy_names(parameters: Iterable[inspect.Parameter]) -> bool:
    """Whether `axis=` and `keepdims=` can be told from the other arguments of a function."""
    parameters = list(parameters)
    at = next((i for i, p in enumerate(parameters) if p.name in ("dim", "keepdim")), None)
    if at is None or any(p.kind in (p.VAR_POSITIONAL, p.VAR_KEYWORD) for p in parameters):
        return False
    later = parameters[at + 1 :]
    return all(p.default is not p.empty or p.kind is p.KEYWORD_ONLY for p in later)


def as_function(
    call: Callable[..., Any], name: str, parameter: inspect.Parameter
) -> Callable[..., Any]:
    """The function to a method that takes sizes one by one: it wants them as one tuple."""
    kind = arguments.kind_of(parameter)
    absent = parameter.default is not parameter.empty
    source = (
        f"def {name}(input, {parameter.name}{'=absent' * absent}, **named):\n"
        + "    if named or dim is absent: return call(input, **named)\n" * absent
        + f"    given = checked({name!r}, {parameter.name!r}, kind, {parameter.name})\n"
        "    return call(input, given, **named)\n"
    )
    scope = {"call": call, "checked": arguments.checked, "kind": kind, "absent": _ABSENT}
    scope["__name__"] = __name__
    function = lazily(name, scope, lambda scope: source, f"{name} function")
    function.__doc__ = call.__doc__
    return function


def _bound_source(
    body: Callable[..., Any], name: str, scope: dict[str, Any], out: bool, varargs: str | None
) -> str:
    parameters = list(inspect.signature(body).parameters.values())[1:]
    head, passed = [], []
    names = [p.name for p in parameters]
    starred = caught = False
    renamed = _first_name(tuple(p.name for p in parameters))
    numpy_names = not varargs and _takes_numpy_names(parameters)
    for i, p in enumerate(parameters):
        if renamed and i == 0:
            head.append(renamed)
            passed.append(renamed)
            names[0] = renamed
            continue
        if p.name == varargs:
            head += [f"*{varargs}", "**named"]
            passed.append(varargs)
            continue
        if p.kind is p.VAR_POSITIONAL:
            head.append(f"*{p.name}")
            passed.append(f"*{p.name}")
            starred = True
            continue
        if p.kind is p.VAR_KEYWORD:
            caught = out
            head += ["out=None"] * out
            head.append(f"**{p.name}")
            passed.append(f"**{p.name}")
            continue
        if p.kind is p.KEYWORD_ONLY and not starred:
            head.append("*")
            starred = True
        default = ""
        if p.default is not p.empty:
            scope[f"d{i}"] = p.default
            default = "=absent" if arguments.may_be_left_out(p) else f"=d{i}"
        elif numpy_names and p.name == "dim":
            default = "=absent"
        head.append(p.name + default)
        passed.append(f"{p.name}={p.name}" if p.kind is p.KEYWORD_ONLY else p.name)
    lines = []
    for i, p in enumerate(parameters):
        given = "" if p.default is p.empty else f"{p.name} is not d{i} and "
        kind = arguments.kind_of(p)
        if p.name == varargs:
            scope["parameter"] = p
            fit = f"one_by_one({name!r}, parameter, {varargs}, named)"
            one = f"len({varargs}) == 1 and type({varargs}[0]) is int and not named"
            if p.annotation.startswith("SomeDims"):
                lines.append(f"    if {one}: {varargs} = {varargs}[0]")
                lines.append(f"    else: {varargs} = {fit}")
            else:
                lines.append(f"    {varargs} = {fit}")
        elif kind is not None:
            scope[f"kind{i}"] = kind
            fit = f"checked({name!r}, {p.name!r}, kind{i}, {p.name})"
            odd = kind.odd.format(p=p.name)
            when = f"if {given}{odd}"
            if arguments.may_be_left_out(p):
                lines.append(f"    if {p.name} is absent: {p.name} = None")
                when = f"elif {odd}"
            lines.append(f"    {when}: {p.name} = {fit}")
        elif p.annotation in (p.empty, "Any") and isinstance(p.default, (int, float)):
            # A tensor here would become part of the graph, where torch takes the number in it.
            number = f"number({name!r}, {p.name!r}, {p.name})"
            lines.append(f"    if {given}type({p.name}) in odd: {p.name} = {number}")
    # What is no tensor shows when the body asks it for something that tensors have.
    known = ", ".join(f"{p.name!r}: {h}" for p, h in zip(parameters, names, strict=True))
    lines += [
        f"    try: return body(face, {', '.join(passed)})",
        f"    except AttributeError as error: raise told({name!r}, {{{known}}}, error)",
    ]
    if out:
        head += [] if caught else ["out=None"] if starred else ["*", "out=None"]
        named = ", ".join(p for p in passed if "=" in p or p[:2] == "**")
        plain = "".join(f"{p}, " for p in passed if "=" not in p and p[:2] != "**")
        call = f"into({name!r}, out, body, (face, {plain}), dict({named}))"
        lines.insert(-2, f"    if out is not None: return {call}")
    if numpy_names:
        given = [*names, *["out"] * out]
        head.append("**named")
        lines.insert(0, _other_names(given, parameters))
    return "\n".join([f"def {name}({', '.join(head)}):", *lines]) + "\n"


def _other_names(given: Iterable[str], parameters: Iterable[inspect.Parameter]) -> str:
    """The line that leaves calls with other names than ours to `_renamed`."""
    needed = any(p.name == "dim" and p.default is p.empty for p in parameters)
    when = "named or dim is absent" if needed else "named"
    return f"    if {when}: return renamed(again, named, {', '.join(f'{n}={n}' for n in given)})"


def specialize(op: Op) -> None:
    """Replace the record's call and its node's `raw` by built ones, where it is plain enough."""
    single = len(op.outputs) == 1 or (op.differentiable == (0,) and not op.view)
    if not op.lists and not op.multi and single and op.inputs:
        op.call = forward(op)
    backward(op)


def backward(op: Op) -> None:
    """Give the record's node built rules, where it is plain enough."""
    if op.rules and not op.lists:
        op.node_class.raw = _raw(op)
        op.node_class.take = _raw(op, take=True)
        op.node_class.traced = _traced(op)


def _first_name(names: tuple[str, ...]) -> str:
    """What torch's functions call the tensor that is self to its methods."""
    return "input" if names[:1] == ("self",) and "input" not in names else ""


def _head(
    op: Op,
    scope: dict[str, Any],
    out: bool = False,
    called: bool = True,
    numpy_names: bool = True,
) -> str:
    parts: list[str] = []
    starred = False
    renamed = called and _first_name(op.params)
    numpy_names = numpy_names and called and _takes_numpy_names(op.signature.parameters.values())
    for name, p in op.signature.parameters.items():
        if renamed and name == "self":
            parts.append(renamed)
            continue
        if name == op.varargs:
            parts.append(f"*{name}")
            continue
        if p.kind is p.KEYWORD_ONLY and not starred and not op.varargs:
            parts.append("*old" if op.older and called else "*")
            starred = True
        default = ""
        if p.default is not p.empty:
            scope[f"default_{name}"] = p.default
            default = f"=default_{name}"
        elif numpy_names and name == "dim":
            default = "=absent"
        parts.append(name + default)
    if op.varargs:
        parts.append("**named")
    elif out:
        parts += ["out=None"] if starred else ["*", "out=None"]
    if numpy_names:
        parts.append("**named")
    return ", ".join(parts)


def forward(
    op: Op, places: bool = True, reference: Callable[..., Any] | None = None
) -> Callable[..., Any]:
    """The fast wrapper of an op, with `reference` for everything that is not plain.

    places=False leaves out source tracking, for measuring it.
    """
    kernel = op._kernel(numpy) if op.direct else op.kernel
    scope = {**_SHARED, "kernel": kernel, "slow": reference or op.compute}
    scope.update(normalize=op.normalize, op=op, cls=op.node_class)
    scope.update(renamed=_renamed, absent=_ABSENT)
    if len(op.outputs) > 1:
        scope["package"] = interpreted.named_tuple(op.returns or op.name, op.outputs)
    function = lazily(op.name, scope, lambda scope: _forward_source(op, places, scope))
    scope["again"] = function
    function.__doc__ = op.doc
    function.__signature__ = op.public_signature  # type: ignore[attr-defined]
    return function


def _forward_source(op: Op, places: bool, scope: dict[str, Any]) -> str:
    call = [
        f"*{p}" if p == op.varargs else (f"{p}={p}" if param.kind is param.KEYWORD_ONLY else p)
        for p, param in op.signature.parameters.items()
    ]
    if op.varargs:
        call.append("**named")
    slow = f"return slow({', '.join(call)})"
    # An operator has a reference of its own, takes no out= and no argument by name.
    called = scope["slow"] is op.compute
    out = op.out and called
    lines = [f"def {op.name}({_head(op, scope, out, called)}):"]
    if called and _takes_numpy_names(op.signature.parameters.values()):
        first = _first_name(op.params)
        known = [first if first and n == "self" else n for n in op.params]
        lines.append(_other_names([*known, *["out"] * out], op.signature.parameters.values()))
    if called and _first_name(op.params):
        lines.append("    self = input")

    def add(depth: int, text: str) -> None:
        lines.append("    " * depth + text)

    if op.older and called:
        add(1, f"if old: {_slow_old(op, out)}")
    if out and not op.varargs:
        add(1, f"if out is not None: {slow[:-1]}, out=out)")
    add(1, "grad = True if not modes.special else modes.now.fast")
    if op.varargs:
        add(1, f"if named: {slow}")
    # The first input that takes part in promotion says in which dtype the op computes.
    first = next(name for name in op.inputs if name not in op.aside)
    add(1, f"if grad is None or type({first}) is not Tensor and type({first}) not in fast: {slow}")
    if op.policy != KEEP:
        add(1, f"d = {first}._plain")
        add(1, f"if d is None: {slow}")
    add(1, f"a_{first} = {first}._array")
    if op.policy == KEEP:
        add(1, f"if type(a_{first}) is not ndarray: {slow}")
        if op.real:
            add(1, f"if {first}._plain is None and a_{first}.dtype.kind == 'c': {slow}")
        if op.narrows:  # bfloat16 has a number beyond those of NumPy's own dtypes
            add(1, f"if a_{first}.dtype.num > 255: {slow}")
    for name in op.inputs:
        if name == first:
            continue
        promoted = op.policy != KEEP and name not in op.aside
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
    _arguments_part(op, add, slow)
    if op.varargs:
        add(1, f"{op.varargs} = loose({op.called!r}, {op.varargs!r}, {op.varargs})")
    if op.normalize is not None:
        given = ", ".join(f"a_{p}" if p in op.inputs else p for p in op.params)
        left = f"{', '.join(op.arguments)}, = " if op.arguments else ""
        add(1, f"{left}normalize({given})")
    given = ", ".join(
        f"{p}={p}" if p in op.keyword else f"a_{p}" if p in op.inputs else p for p in op.params
    )
    run = f"kernel({given})" if op.direct else f"kernel(np, {given})"
    if op.usual is not None:
        function, argument, value = op.usual
        scope["usual"] = getattr(numpy, function)
        arrays = ", ".join(f"a_{p}" for p in op.params if p != argument)
        scope["value"] = value
        # True and 1.0 are not 1: the kernel refuses what torch refuses.
        run = f"usual({arrays}) if {argument} is value else {run}"
    if hasattr(op.kernel, "inlined"):
        arrays_ = [f"a_{p}" if p in op.inputs else p for p in op.params]
        run = call_source(op.kernel, "kernel", ["np", *arrays_], scope)
    extra = range(1, len(op.outputs))
    answer = f"package(out, {', '.join(f'out{i}' for i in extra)})" if extra else "out"
    # Bad shapes and floating-point warnings raised as errors: the reference path knows better.
    add(1, f"try: r = {run}")
    add(1, f"except Exception: {slow}")
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
        _node_part(op, scope, add, places, answer)
    add(1, "out._edge = None")
    if not op.view:
        add(1, "out._rg = False")
        if op.rules:
            add(1, f"if not grad and ({_asks(op, first)}): out._origin = 'no_grad', {_HERE}")
    else:
        add(1, "out._rg = not grad and w.base._rg and r.dtype.kind in 'fcV'")
        add(1, "w.made = locate(getframe(1))")
    add(1, f"return {answer}")
    return "\n".join(lines) + "\n"


def _slow_old(op: Op, out: bool) -> str:
    """The line for a call with more by position than there are tensors: see `arguments.older`."""
    tensors = ", ".join(p for p in op.params if p not in op.keyword)
    named = "".join(f", {p}={p}" for p in (*op.older, *["out"] * out))
    return f"return slow({tensors}, *old{named})"


def _arguments_part(op: Op, add: Callable[[int, str], None], slow: str) -> None:
    """Odd values of arguments: the reference path fits or refuses them."""
    for name in op.arguments:
        if name != op.varargs:
            usual = op.signature.parameters[name].default is not inspect.Parameter.empty
            given = f"{name} is not default_{name} and " if usual else ""
            kind = op.kinds.get(name)
            odd = f"type({name}) in odd" if kind is None else kind.odd.format(p=name)
            if kind is not None or not op.view:
                add(1, f"if {given}{odd}: {slow}")


_HERE = "locate(getframe(1))"


def _asks(op: Op, first: str) -> str:
    """Whether an input requires grad, as source: the result then remembers why it doesn't."""
    return " or ".join(
        f"{name}._rg" if name == first else f"k_{name} and {name}._rg" for name in op.differentiated
    )


def _node_part(
    op: Op, scope: dict[str, Any], add: Callable[[int, str], None], places: bool, answer: str
) -> None:
    edges = op.differentiated
    first = next(name for name in op.inputs if name not in op.aside)
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
    _report_part(op, scope, add)
    add(3, f"return {answer}")
    if op.policy == KEEP:
        add(1, f"elif grad and ({_asks(op, first)}): out._origin = 'dtype', {_HERE}")


def _report_part(op: Op, scope: dict[str, Any], add: Callable[[int, str], None]) -> None:
    """The record of saved.report_node, with what is known here written out."""
    kinds, numbers, declared = [], [], []
    for name in op.saves:
        own = name in op.outputs
        shape, dtype = f"z_{name}", f"y_{name}"
        if own:
            i = op.outputs.index(name)
            array, store = (f"out{i}._array", f"out{i}._storage") if i else ("r", "st")
            add(4, f"if node.s_{name} is {array}:")
            add(5, f"store = {store}")
        elif name in op.inputs:
            array = f"a_{name}"
            add(4, f"if node.s_{name} is {name} and type({array}) is ndarray:")
            add(5, f"store = {name}._store")
            add(5, f"if store is FRESH: store = {name}._storage")
        else:
            continue
        known = array == "r"
        add(5, f"{shape} = " + ("shape" if known else f"{array}.shape"))
        add(5, f"{dtype} = " + ("dtype" if known else f"{array}.dtype"))
        add(5, f"u_{name} = store.number")
        add(5, f"if not u_{name}: u_{name} = store.number = next(uids)")
        add(5, f"v_{name} = store.stamp[0]")
        add(4, "else:")
        add(5, f"{shape} = {dtype} = None")
        add(5, f"u_{name} = v_{name} = 0")
        kinds += (shape, dtype)
        numbers += (f"u_{name}", f"v_{name}")
        declared.append((name, own))
    scope["schema"] = schema = NodeSchema(op.node_class, 1, tuple(declared))
    scope["record"] = record = node_record(len(op.differentiated), len(declared))
    scope["pack"] = record.pack
    outputs = [f"0 if e_{n} is None else e_{n}[1]" for n in op.differentiated]
    seqs = [f"-1 if e_{n} is None else e_{n}[0].seq" for n in op.differentiated]
    packed = row(("last[2]", "clock()", "thread()", "node.seq"), seqs, numbers)
    add(4, "code = node.code")
    add(4, "lasti = node.lasti")
    add(4, f"facts = ({', '.join(row(('shape', 'dtype'), outputs, kinds))})")
    # To compare with the last facts of the place takes half as long as to look all of them up.
    add(4, f"last = sink.cache.get(lasti + {schema.spread})")
    add(4, "if last is None or last[1] is not code or last[0] != facts:")
    add(5, "last = sink.nodes[record].key(schema, code, lasti, facts)")
    add(4, "sink.keep(ref(node))")
    add(4, f"last[3](pack({', '.join(packed)}))")
    first = next(name for name in op.inputs if name not in op.aside)
    for name in op.differentiated:
        maybe = name in op.optional or (op.policy != KEEP and name != first)
        add(4, f"if {f'k_{name} and ' if maybe else ''}not g_{name}:")
        # To find a slot empty takes 0.25 us: once is enough.
        add(5, f"try: cut = {name}._origin")
        add(5, f"except AttributeError: cut = {name}._origin = None")
        told = f"report_cuts(node, (('{name}', {name}),))"
        add(5, f"if cut is not None or {name}._view is not None: {told}")


def inplace(op: Op, twin: str, reference: Callable[..., Any]) -> Callable[..., Any]:
    """The fast twin of an op: writes that autograd does not record, to memory without views."""
    if op.policy == KEEP or op.lists or op.varargs or op.writes or op.outputs != ("result",):
        return reference
    kernel = op._kernel(numpy) if op.direct else op.kernel
    scope = {**_SHARED, "kernel": kernel, "slow": reference, "normalize": op.normalize}
    scope["BOOL"] = numpy.dtype(bool)
    function = lazily(twin, scope, lambda scope: _inplace_source(op, twin, scope))
    function.__signature__ = op.signature  # type: ignore[attr-defined]
    return function


def _inplace_source(op: Op, twin: str, scope: dict[str, Any]) -> str:
    given = [f"{p}={p}" if p in op.keyword else p for p in op.params]
    slow = f"return slow({', '.join(given)})"
    lines = [f"def {twin}({_head(op, scope, numpy_names=False)}):"]
    if _first_name(op.params):
        lines.append("    self = input")

    def add(depth: int, text: str) -> None:
        lines.append("    " * depth + text)

    target = op.params[0]
    if op.older:
        add(1, f"if old: {_slow_old(op, False)}")
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
        fits = f"type(a_{name}) is not ndarray" if name in op.aside else f"{name}._plain is not d"
        add(2, f"if {fits}: {slow}")
        add(2, f"if grad and ({name}._rg or {name}._view is not None): {slow}")
        # On the same memory, itself included: the reference path refuses what torch refuses.
        add(2, f"x, y = {target}._store, {name}._store")
        add(2, f"if x is y and x is not FRESH or x.log is not None and x.log is y.log: {slow}")
        if name not in op.aside:
            add(1, f"elif type({name}) is float or type({name}) is int:")
            add(2, f"a_{name} = {name}")
        if name in op.optional:
            add(1, f"elif {name} is None: a_{name} = None")
        add(1, f"else: {slow}")
    arrays = ", ".join(f"a_{p}" if p in op.inputs else p for p in op.params)
    _arguments_part(op, add, slow)
    if op.normalize is not None:
        left = f"{', '.join(op.arguments)}, = " if op.arguments else ""
        add(1, f"{left}normalize({arrays})")
    arrays = ", ".join(
        f"{p}={p}" if p in op.keyword else f"a_{p}" if p in op.inputs else p for p in op.params
    )
    # Into a fresh array first: an exception must leave the target as it was.
    add(1, f"try: r = kernel({arrays})" if op.direct else f"try: r = kernel(np, {arrays})")
    add(1, f"except Exception: {slow}")
    # (What a comparison gives is written as ones and zeros.)
    add(1, f"if r.dtype is not d and r.dtype is not BOOL or r.shape != a_{target}.shape: {slow}")
    # Read-only memory (an expanded gradient in a hook) is refused there, with torch's words.
    add(1, f"try: a_{target}[...] = r")
    add(1, f"except ValueError: {slow}")
    # Nothing lets a signal in between the write and this call: it counts, whatever ends it.
    add(1, f"try: wrote({target}, {twin!r})")
    add(1, "except BaseException:")
    add(2, f"wrote({target}, {twin!r})")
    add(2, "raise")
    add(1, f"return {target}")
    return "\n".join(lines) + "\n"


def operator(op: Op) -> Callable[..., Any]:
    """The fast wrapper as Python's operators want it."""
    return forward(op, reference=interpreted.operator(op))


def _raw(op: Op, take: bool = False) -> Callable[..., Any]:
    scope = dict(_SHARED)
    name = "take" if take else "raw"
    return lazily(name, scope, lambda scope: _raw_source(op, take, scope), f"{op.name} {name}")


def _traced(op: Op) -> Callable[..., Any]:
    scope = {**_SHARED, "F": op.table.traced, "unpack": saved.traced}
    scope.update(slow=op_node.OpNode.traced, tied=op_node.tied)
    return lazily("traced", scope, lambda scope: _traced_source(op, scope), f"{op.name} traced")


def _traced_source(op: Op, scope: dict[str, Any]) -> str:
    """The node's Tensor face; complex ones take the reference path, which conjugates."""
    edges = op.differentiated
    lines = ["def traced(self, g):"]

    def add(depth: int, text: str) -> None:
        lines.append("    " * depth + text)

    add(1, "if self.dtype.kind == 'c': return slow(self, g)")
    add(1, f"{', '.join(f'e_{n}' for n in edges)}, = self.next")
    for name in op.saves:
        add(1, f"if {' or '.join(f'e_{i} is not None' for i in op.wanted_by(name))}:")
        add(2, f"x_{name} = self.s_{name}")
        if name in op.outputs:
            add(2, f"x_{name} = unpack(self, {name!r})")
            continue
        add(2, f"if type(x_{name}) is not Tensor: x_{name} = unpack(self, {name!r})")
        add(2, f"elif x_{name}._store.stamp is not self.t_{name}:")
        add(3, f"check(self, {name!r}, x_{name}._storage, self.t_{name})")
    answer = _answer(op, scope, add)
    add(1, f"return tied(self, {answer})" if op.fused else f"return {answer}")
    return "\n".join(lines) + "\n"


def _answer(
    op: Op, scope: dict[str, Any], add: Callable[[int, str], None], arrays: bool = False
) -> str:
    """The gradients of the inputs, each by its rule where it is wanted; rules of several first.

    arrays: whether they are arrays, for which some rules are written out.
    """
    edges = op.differentiated
    results: dict[str, str] = {}
    for i, rule in enumerate(op.rules):
        name = rule.inputs[0]
        scope[f"rule{i}"] = rule.function
        passed = []
        for request in rule.requests:
            if request in op.saves:
                passed.append(f"x_{request}")
            elif request in op.values:
                passed.append(f"self.a_{request}")
            elif request in op.shapes:
                passed.append(f"self.h_{request}")
            elif request == "needs":
                passed.append(f"({', '.join(f'e_{n} is not None' for n in rule.inputs)},)")
            else:
                passed.append("g" if request == "gs" else request)
        if rule.joint:
            add(1, f"if {' or '.join(f'e_{n} is not None' for n in rule.inputs)}:")
            add(2, f"{', '.join(f'j_{n}' for n in rule.inputs)}, = rule{i}({', '.join(passed)})")
            for n in rule.inputs:
                results[n] = f"j_{n} if e_{n} is not None else None"
            continue
        if arrays:
            found = call_source(rule.function, f"rule{i}", passed, scope)
        else:
            found = f"rule{i}({', '.join(passed)})"
        results[name] = f"{found} if e_{name} is not None else None"
    if len(edges) == 1 and not any(r in op.saves for rule in op.rules for r in rule.requests):
        # The engine drops a gradient that goes nowhere. (With saved values the rule must not be
        # called then: of a view without history nothing was read.)
        return f"({results[edges[0]].partition(' if e_')[0]},)"
    return f"({', '.join(results[n] for n in edges)},)"


def _raw_source(op: Op, take: bool, scope: dict[str, Any]) -> str:
    edges = op.differentiated
    lines = ["def take(self, F, g, place):" if take else "def raw(self, F, g):"]

    def add(depth: int, text: str) -> None:
        lines.append("    " * depth + text)

    add(1, f"{', '.join(f'e_{n}' for n in edges)}, = self.next")
    if take and op.saves:
        # A second backward may take the edges that need nothing of what the first one freed.
        needy = {i for name in op.saves for i in op.wanted_by(name)}
        some = needy < set(edges)
        if some:
            add(1, f"if {' or '.join(f'e_{n} is not None' for n in edges if n in needy)}:")
        # See saved.claim: nothing between the test and the store lets another thread in.
        add(1 + some, "if self.freed is None: self.freed = place")
        add(1 + some, "else: claim(self, place)")
    for name in op.saves:
        asked = op.wanted_by(name)
        add(1, f"if {' or '.join(f'e_{i} is not None' for i in asked)}:")
        add(2, f"x_{name} = self.s_{name}")
        if name in op.outputs:
            add(2, f"if type(x_{name}) is ndarray:")
            add(3, f"if self.o_{name}[0].stamp is not self.t_{name}:")
            add(4, f"check(self, {name!r}, self.o_{name}[0], self.t_{name})")
            add(2, f"else: x_{name} = unpack(self, {name!r})")
            continue
        add(2, f"if type(x_{name}) is Tensor:")
        add(3, f"if x_{name}._store.stamp is not self.t_{name}:")
        add(4, f"check(self, {name!r}, x_{name}._storage, self.t_{name})")
        add(3, f"x_{name} = x_{name}._array")
        add(2, f"elif type(x_{name}) is not float and type(x_{name}) is not int:")
        add(3, f"x_{name} = unpack(self, {name!r})")
    answer = _answer(op, scope, add, arrays=True)
    if take and op.saves:
        add(1, f"answer = {answer}")
        add(1, " = ".join(f"self.s_{n}" for n in op.saves) + " = None")
        answer = "answer"
    add(1, f"return {answer}")
    return "\n".join(lines) + "\n"


__all__ = ["backward", "bind_face", "forward", "inplace", "operator", "specialize", "take_fast"]
