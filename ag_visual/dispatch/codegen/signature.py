"""Heads of built functions: one builder, for ops, their in-place variants and composites.

And what ops and in-place variants do with arguments: check them, hand them on to the kernel.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy

from ag_visual.dispatch import arguments, interpreted
from ag_visual.dispatch.codegen.source import Writer
from ag_visual.dispatch.record import KEEP, Op
from ag_visual.dispatch.rules import ON_FLOATS, call_source

ABSENT = object()
"""The value of a `dim` that was not given (None would be refused), or given under NumPy's name."""


@dataclass(frozen=True, slots=True)
class Head:
    """A signature as the first lines of a function; ABSENT and the defaults go to its scope."""

    text: str
    # What each parameter is handed on as: x, x=x, *x.
    passed: dict[str, str]
    # Under which condition a parameter has a value that its kind does not know, or a tensor's.
    checks: dict[str, str]
    # The line that leaves calls with NumPy's names to `renamed`, and `self = input`.
    begin: tuple[str, ...]

    def writer(self, name: str) -> Writer:
        """A function that begins with it."""
        lines = Writer(f"def {name}({self.text}):")
        for line in self.begin:
            lines.add(1, line)
        return lines


def head_of(
    signature: inspect.Signature,
    scope: dict[str, Any],
    *,
    kinds: dict[str, arguments.Kind],
    varargs: str | None = None,
    out: bool = False,
    old: bool = False,
    function: bool = True,
    numpy_names: bool = True,
) -> Head:
    """The head of a function with this signature.

    kinds: what parameters take. varargs: the one that is given one by one. out: whether it takes
    `out=`; old: whether factors may be given by position. function: it is called by name, so that
    its `self` is `input`, and, with numpy_names, its `dim` also NumPy's `axis`.
    """
    parameters = list(signature.parameters.values())
    first = parameters[0].name if parameters else ""
    renamed = function and first == "self" and "input" not in signature.parameters
    numpy_names = numpy_names and function and not varargs and _takes_numpy_names(parameters)
    parts, passed, checks = [], {}, {}
    starred = caught = False
    for p in parameters:
        name = p.name
        passed[name] = f"{name}={name}" if p.kind is p.KEYWORD_ONLY else name
        if p.kind is p.VAR_POSITIONAL or name == varargs:
            passed[name] = f"*{name}"
            parts.append(f"*{name}")
            starred = True
            continue
        if p.kind is p.VAR_KEYWORD:
            passed[name] = f"**{name}"
            parts += [*["out=None"] * out, f"**{name}"]
            caught = True
            continue
        if p.kind is p.KEYWORD_ONLY and not starred:
            parts.append("*old" if old else "*")
            starred = True
        default = given = ""
        if p.default is not p.empty:
            scope[f"default_{name}"] = p.default
            default = f"=default_{name}"
            given = f"{name} is not default_{name} and "
        elif numpy_names and name == "dim":
            default = "=absent"
        parts.append(("input" if renamed and name == "self" else name) + default)
        kind = kinds.get(name)
        checks[name] = given + (f"type({name}) in odd" if kind is None else kind.odd.format(p=name))
    if out and not varargs and not caught:
        parts += ["out=None"] if starred else ["*", "out=None"]
    if varargs or numpy_names:
        parts.append("**named")
    begin = []
    if numpy_names:
        scope.update(renamed=_renamed, absent=ABSENT)
        asked = any(p.name == "dim" and p.default is p.empty for p in parameters)
        when = "named or dim is absent" if asked else "named"
        names = ["input" if renamed and n == "self" else n for n in passed] + ["out"] * out
        handed = ", ".join(f"{n}={n}" for n in names)
        begin.append(f"if {when}: return renamed(again, named, {handed})")
    if renamed:
        begin.append("self = input")
    return Head(", ".join(parts), passed, checks, tuple(begin))


def arguments_part(op: Op, head: Head, lines: Writer, slow: str) -> None:
    """Odd values are the reference path's, which fits or refuses them; others are completed."""
    for name in op.arguments:
        if name != op.varargs and (name in op.kinds or not op.view):
            lines.add(1, f"if {head.checks[name]}: {slow}")
    if op.varargs:
        lines.add(1, f"{op.varargs} = loose({op.public_name!r}, {op.varargs!r}, {op.varargs})")
    if op.normalize is not None:
        left = f"{', '.join(op.arguments)}, = " if op.arguments else ""
        lines.add(1, f"{left}normalize({', '.join(arrays_of(op))})")


def kernel_part(
    op: Op, scope: dict[str, Any], lines: Writer, slow: str, narrow: bool = False
) -> None:
    """`r`, the kernel's result, or what it refuses in the words of the reference path.

    That path asks `check` first: so does this, when the exception is over, which is then no context
    of what it says. Where floating-point warnings are errors it runs itself. narrow: of 16-bit
    floats, whose dtype is `d`.
    """
    given = _wide(op, lines) if narrow else arrays_of(op)
    called = kernel_call(op, scope, given)
    if narrow:  # rounding to 16 bits often overflows: see arrays.quiet
        lines.add(1, "numpy_errors = errors.get()")
        lines.add(1, "try:")
        lines.add(2, "errors.set(IGNORE)")
        lines.add(2, f"r = narrowed({called}, d)")
    else:
        lines.add(1, f"try: r = {called}")
    scope.update(op=op, kernel_error=interpreted.kernel_error)
    failure = f"kernel_error(op, ({', '.join(f'a_{p}' for p in op.inputs)},), error)"
    if op.check is None:
        lines.add(1, "except RuntimeError: raise")
        lines.add(1, f"except (ValueError, IndexError) as error: raise {failure} from None")
        lines.add(1, "except Exception: r = None")
    else:
        lines.add(1, "except RuntimeError as error: r, failed = None, error")
        lines.add(1, f"except (ValueError, IndexError) as error: r, failed = None, {failure}")
        lines.add(1, "except Exception: r = failed = None")
    if narrow:
        lines.add(1, "finally: errors.set(numpy_errors)")
    if op.check is None:
        lines.add(1, f"if r is None: {slow}")
        return
    scope["check_given"] = op.check
    lines.add(1, "if r is None:")
    lines.add(2, "try:")
    lines.add(3, f"if failed is None: {slow}")
    lines.add(3, f"check_given({', '.join(op.params)})")
    lines.add(3, "raise failed")
    lines.add(2, "finally: failed = None  # it would hold this frame, and this frame it")


def _wide(op: Op, lines: Writer) -> list[str]:
    """What the kernel is given for 16-bit floats: see `opmath.invoke`."""
    for name in op.params:
        value = f"a_{name}" if name in op.inputs else name
        if name in op.rounds:
            # (All integers up to 256 are 16-bit numbers.)
            number = f"type({name}) is float or type({name}) is int and not -257 < {name} < 257"
            lines.add(1, f"w_{name} = rounded({value}, d) if {number} else {value}")
            value = f"w_{name}"
        if name in op.inputs:
            lines.add(1, f"w_{name} = widened(np, {value})")
    return [f"w_{p}" if p in op.inputs or p in op.rounds else p for p in op.params]


def kernel_call(op: Op, scope: dict[str, Any], given: list[str]) -> str:
    """The call of the kernel as source; its names are put into `scope`."""
    if hasattr(op.kernel, "inlined"):
        facts = {} if op.policy == KEEP else ON_FLOATS
        return call_source(op.kernel, "kernel", ["np", *given], scope, facts)
    direct = isinstance(op.kernel, str)
    scope["kernel"] = op._kernel(numpy) if direct else op.kernel
    given = [f"{p}={a}" if p in op.keyword else a for p, a in zip(op.params, given, strict=True)]
    return f"kernel({', '.join(given if direct else ['np', *given])})"


def arrays_of(op: Op) -> list[str]:
    """The names of a kernel's arguments: those of arrays for tensors."""
    return [f"a_{p}" if p in op.inputs else p for p in op.params]


def with_older(op: Op, out: bool, called: str = "slow") -> str:
    """The call with more by position than there are tensors: see `arguments.older`."""
    tensors = ", ".join(p for p in op.params if p not in op.keyword)
    named = "".join(f", {p}={p}" for p in (*op.legacy_positional, *["out"] * out))
    return f"{called}({tensors}, *old{named})"


def _takes_numpy_names(parameters: list[inspect.Parameter]) -> bool:
    """Whether `axis=` and `keepdims=` can be told from the other arguments of a function."""
    at = next((i for i, p in enumerate(parameters) if p.name in ("dim", "keepdim")), None)
    if at is None or any(p.kind in (p.VAR_POSITIONAL, p.VAR_KEYWORD) for p in parameters):
        return False
    later = parameters[at + 1 :]
    return all(p.default is not p.empty or p.kind is p.KEYWORD_ONLY for p in later)


def _renamed(again: Callable[..., Any], named: dict[str, Any], **given: Any) -> Any:
    """The call with NumPy's names for `dim` and `keepdim`, or what is wrong with its names."""
    name = again.__name__
    for theirs, ours in arguments.NUMPY_NAMES.items():
        if theirs in named and ours in given:
            default = inspect.signature(again).parameters[ours].default
            if given[ours] is not ABSENT and given[ours] is not default:
                raise TypeError(f"{name}() got both '{ours}' and '{theirs}': leave one out")
            given[ours] = named.pop(theirs)
    if named:
        raise TypeError(f"{name}() got an unexpected keyword argument '{next(iter(named))}'")
    known = inspect.signature(again).parameters
    for each, value in given.items():
        if value is ABSENT and known[each].default is inspect.Parameter.empty:
            raise TypeError(f"{name}() missing 1 required positional argument: '{each}'")
    return again(**given)
