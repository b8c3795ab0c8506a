"""Composites as functions and methods: the built call of a body on the Tensor namespace."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any

from ag_visual.core import modes
from ag_visual.core.tensor import Tensor
from ag_visual.dispatch import arguments, interpreted
from ag_visual.dispatch.codegen.scope import slow_path_types
from ag_visual.dispatch.codegen.signature import ABSENT, head_of
from ag_visual.dispatch.codegen.source import lazily
from ag_visual.dispatch.out_argument import into, words_of
from ag_visual.dispatch.record import Op


def bind_namespace(
    body: Callable[..., Any],
    namespace: Any,
    name: str,
    out: bool | str = False,
    varargs: str | None = None,
    cast: Callable[..., Any] | None = None,
) -> Callable[..., Any]:
    """`body` with its first parameter fixed, as a function that can also be a method.

    out: as in a record. varargs: its parameter that is given one by one. cast: what is called in
    place of the body while mixed precision is on.
    """
    scope: dict[str, Any] = {"__name__": body.__module__, "body": body, "namespace": namespace}
    scope.update(into=into, explained=_explained, out_words=words_of(name, out))
    scope.update(odd=slow_path_types, number=arguments.plain_number, checked=arguments.checked)
    scope.update(one_by_one=arguments.one_by_one, DType=arguments.DType)
    function = lazily(
        name, scope, lambda scope: _bound_source(body, name, scope, bool(out), varargs)
    )
    scope["again"] = function
    if cast is not None:
        scope.update(cast=cast, modes=modes)
    function.__doc__ = body.__doc__
    bound = functools.partial(body, namespace)
    vars(function)["__wrapped__"] = bound
    if out:
        known = inspect.signature(bound)
        names = [p for p in known.parameters.values() if p.kind is not p.VAR_KEYWORD]
        rest = [p for p in known.parameters.values() if p.kind is p.VAR_KEYWORD]
        more = inspect.Parameter("out", inspect.Parameter.KEYWORD_ONLY, default=None)
        vars(function)["__signature__"] = known.replace(parameters=[*names, more, *rest])
    return function


def _explained(name: str, given: dict[str, Any], error: AttributeError) -> Exception:
    """A TypeError that names the argument, where the missing attribute was asked of no tensor."""
    for each, value in given.items():
        if value is error.obj and not isinstance(value, Tensor) and value is not None:
            found = interpreted.bad_argument(name, tuple(given), each, value)
            found.__suppress_context__ = True
            return found
    return error


def as_function(
    call: Callable[..., Any], name: str, parameter: inspect.Parameter
) -> Callable[..., Any]:
    """The function to a method that takes sizes one by one: it wants them as one tuple."""
    kind = arguments.kind_of(parameter)
    scope = {"call": call, "checked": arguments.checked, "kind": kind, "__name__": __name__}
    first = inspect.Parameter("input", inspect.Parameter.POSITIONAL_OR_KEYWORD)
    others = inspect.Parameter("named", inspect.Parameter.VAR_KEYWORD)

    def write(scope: dict[str, Any]) -> str:
        known = inspect.Signature([first, parameter, others])
        lines = head_of(known, scope, kinds={}).writer(name)
        sizes = parameter.name
        if parameter.default is not parameter.empty:
            scope[f"default_{sizes}"] = ABSENT
            lines.add(1, f"if named or {sizes} is default_{sizes}: return call(input, **named)")
        lines.add(1, f"given = checked({name!r}, {sizes!r}, kind, {sizes})")
        lines.add(1, "return call(input, given, **named)")
        return lines.text

    function = lazily(name, scope, write, f"{name} function")
    function.__doc__ = call.__doc__
    return function


def with_flag(op: Op, call: Callable[..., Any], inplace: Callable[..., Any]) -> Callable[..., Any]:
    """`name(input, ..., inplace=False)`: the op, or its in-place variant."""
    name = op.name
    kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
    first, flag = (
        inspect.Parameter("input", kind),
        inspect.Parameter("inplace", kind, default=False),
    )
    known = inspect.Signature([first, *list(op.signature.parameters.values())[1:], flag])
    scope = {
        "call": call,
        "variant": inplace,
        "__name__": f"{__name__.partition('.')[0]}.nn.functional",
    }

    def write(scope: dict[str, Any]) -> str:
        head = head_of(known, scope, kinds={})
        lines = head.writer(name)
        passed = ", ".join(list(head.passed.values())[:-1])
        lines.add(1, f"return (variant if inplace else call)({passed})")
        return lines.text

    function = lazily(name, scope, write, f"{name} with a flag")
    function.__doc__ = f"torch.{name}, in place if asked."
    vars(function)["__signature__"] = known
    return function


def _bound_source(
    body: Callable[..., Any], name: str, scope: dict[str, Any], out: bool, varargs: str | None
) -> str:
    signature = inspect.signature(functools.partial(body, None))
    parameters = signature.parameters
    found = {p.name: arguments.kind_of(p) for p in parameters.values()}
    kinds = {n: kind for n, kind in found.items() if kind is not None}
    head = head_of(signature, scope, kinds=kinds, varargs=varargs, out=out)
    lines = head.writer(name)
    passed = head.passed
    for n, p in parameters.items():
        if n == varargs:
            scope["parameter"] = p
            passed[n] = n
            otherwise = f"{n} = one_by_one({name!r}, parameter, {n}, named)"
            if p.annotation.startswith("SomeDims"):
                one = f"len({n}) == 1 and type({n}[0]) is int and not named"
                otherwise = f"{n} = {n}[0] if {one} else {otherwise.partition(' = ')[2]}"
            lines.add(1, otherwise)
        elif n in kinds:
            scope[f"kind_{n}"] = kinds[n]
            when = "if"
            if arguments.may_be_left_out(p):
                scope[f"default_{n}"] = ABSENT
                lines.add(1, f"if {n} is default_{n}: {n} = None")
                when = "elif"
            lines.add(1, f"{when} {head.checks[n]}: {n} = checked({name!r}, {n!r}, kind_{n}, {n})")
        elif p.annotation in (p.empty, "Any") and isinstance(p.default, (int, float)):
            # A tensor here would become part of the graph, where torch takes the number in it.
            lines.add(1, f"if {head.checks[n]}: {n} = number({name!r}, {n!r}, {n})")
    if out:
        by_name = [p for p in passed.values() if "=" in p or p[:2] == "**"]
        plain = "".join(f"{p}, " for p in passed.values() if p not in by_name)
        named = f"dict({', '.join(by_name)})"
        call = f"into({name!r}, out, body, (namespace, {plain}), {named}, False, out_words)"
        lines.add(1, f"if out is not None: return {call}")
    # What is not a tensor shows when the body asks it for something that tensors have.
    known = ", ".join(f"{n!r}: {n}" for n in parameters)
    if "cast" in scope:
        on = "modes.special and modes.state.autocast is not None"
        lines.add(1, f"if {on}: return cast(namespace, {', '.join(passed.values())})")
    lines.add(1, f"try: return body(namespace, {', '.join(passed.values())})")
    lines.add(1, f"except AttributeError as error: raise explained({name!r}, {{{known}}}, error)")
    return lines.text
