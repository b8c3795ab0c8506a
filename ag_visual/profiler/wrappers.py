"""Puts a row of the span log around every op while somebody profiles, and nothing otherwise.

The functions of the table stay the same objects, wherever a program has kept them: what is
exchanged is their code (docs/notes/profiler).
"""

from __future__ import annotations

import enum
import functools
import inspect
import operator
from collections.abc import Callable, Iterator
from threading import RLock, get_ident
from types import CodeType, FunctionType
from typing import Any

from numpy import ndarray

from ag_visual.core.tensor import Tensor
from ag_visual.dispatch import table
from ag_visual.dispatch.codegen import source
from ag_visual.dispatch.codegen.source import defined
from ag_visual.dispatch.rules import OPERATED
from ag_visual.events import instrument
from ag_visual.events.clock import perf_counter_ns
from ag_visual.events.spans import MODULE, OP, label
from ag_visual.events.timed import Span
from ag_visual.nn.module import Module
from ag_visual.nn.utils.rnn import pad_sequence
from ag_visual.profiler import names

_BEGIN = """
def around(*args, **kwargs):
    run = '<run>'
    instrument = '<instrument>'
    spans = instrument.spans
    if spans is None: return run(*args, **kwargs)
    clock = '<clock>'
    thread = '<thread>'
    facts = 0 if spans.detail is None else spans.detail('<label>', {given}, kwargs)
    start = clock()
    try: out = run(*args, **kwargs)
    except BaseException:
        end = clock()
        spans.put(('<label>', start, end, thread(), -1, facts))
        raise
    {unless}
    end = clock()
    kind = '<Tensor>'
    edge = out._edge if type(out) is kind else None
    spans.put(('<label>', start, end, thread(), -1 if edge is None else edge[0].seq, facts))
    if spans.made is not None: spans.made({given}, out, end)
    return out
"""
_MAKE = """
def around(*args, **kwargs):
    run = '<run>'
    instrument = '<instrument>'
    out = run(*args, **kwargs)
    spans = instrument.spans
    if spans is not None and spans.held is not None:
        kind = '<Tensor>'
        spans.held("data", [each for each in args if isinstance(each, kind)], False)
        spans.held("data", [out], True)
    return out
"""
# In a file of the package by its name, so that it counts as none of the user's lines. Its texts
# stand for constants of each function.


def _code(template: str, skip: bool = False, silent: bool = False) -> CodeType:
    """skip: the first argument is the namespace. silent: no span where the result is given."""
    given = "args[1:]" if skip else "args"
    unless = f"if out is {given}[0]: return out" if silent else ""
    text = template.replace("{given}", given).replace("{unless}", unless)
    code: CodeType = defined(text, "around", {})["around"].__code__
    return code


class _Kind(enum.Enum):
    """What a function is, and so which code is put around it."""

    OP = 0
    COMPOSITE = 1  # the body of one
    SILENT = 2  # a composite that has no span where it returns what it was given
    DATA = 3  # makes a tensor of data: no op, but memory


_CODES = {
    _Kind.OP: _code(_BEGIN),
    _Kind.COMPOSITE: _code(_BEGIN, skip=True),
    _Kind.SILENT: _code(_BEGIN, skip=True, silent=True),
    _Kind.DATA: _code(_MAKE),
}


class _Around:
    """One function, its own code, and the code that it has while somebody profiles."""

    __slots__ = ("code", "function", "label", "plain", "which")

    def __init__(self, function: FunctionType, name: str, which: _Kind) -> None:
        self.function = function
        self.label = label(f"aten::{name}", OP)
        self.which = which
        self.plain = self.code = _CODES[which]  # until it is planned, one that no function has

    def plan(self, plain: CodeType) -> None:
        """Both codes, from the function's own."""
        function = self.function
        if not {"__signature__", "__wrapped__"} & vars(function).keys():
            vars(function)["__signature__"] = inspect.signature(function)
        own = FunctionType(
            plain,
            function.__globals__,
            function.__name__,
            function.__defaults__,
            function.__closure__,
        )
        own.__kwdefaults__ = function.__kwdefaults__
        values = {
            "<run>": own,
            "<instrument>": instrument,
            "<clock>": perf_counter_ns,
            "<thread>": get_ident,
            "<label>": self.label,
            "<Tensor>": Tensor,
        }
        code = _CODES[self.which]
        constants = tuple(
            values.get(each, each) if isinstance(each, str) else each for each in code.co_consts
        )
        # Python wants as many free variables as the function has; the code asks for none.
        code = code.replace(
            co_consts=constants, co_freevars=plain.co_freevars, co_name=plain.co_name
        )
        # Together: an interrupt must not leave one of them alone.
        self.plain, self.code = plain, code


class _Modules:
    """While somebody wants them: the forward of each module, by its class and its number there."""

    code: CodeType | None = None
    own: CodeType
    known: dict[int, tuple[Any, str]] = {}
    counts: dict[str, int] = {}

    @classmethod
    def span(cls, module: Any) -> Span:
        found = cls.known.get(id(module))
        if found is None:
            kind = type(module).__name__
            number = cls.counts[kind] = cls.counts.get(kind, -1) + 1
            found = cls.known[id(module)] = module, f"nn.Module: {kind}_{number}"
        return Span(found[1], MODULE)


_CALL = """
def around(self, *args, **kwargs):
    run = '<run>'
    begin = '<span>'
    with begin(self): return run(self, *args, **kwargs)
"""


def modules(on: bool) -> None:
    """Whether forwards of modules have spans."""
    call: Any = Module.__call__
    with _lock:
        if on and _Modules.code is None:
            _Modules.own = call.__code__
            run = FunctionType(call.__code__, call.__globals__, "__call__")
            code = defined(_CALL, "call", {})["around"].__code__
            values = {"<run>": run, "<span>": _Modules.span}
            constants = tuple(
                values.get(each, each) if isinstance(each, str) else each for each in code.co_consts
            )
            call.__code__ = _Modules.code = code.replace(co_consts=constants)
        elif not on and _Modules.code is not None:
            call.__code__ = _Modules.own
            _Modules.code = None
            _Modules.known.clear()
            _Modules.counts.clear()


_lock = RLock()  # a profile that nobody has any more ends wherever it is found


class _All:
    """The functions that are known so far, and how much was declared then."""

    def __init__(self) -> None:
        self.known: dict[int, _Around] = {}
        self.ready: list[_Around] = []  # those that have a code: most of a table is never called
        self.declared = 0
        self.on = False

    def add(self, function: FunctionType, name: str, which: _Kind) -> None:
        """Know one more."""
        if id(function) not in self.known:
            self.known[id(function)] = each = _Around(function, name, which)
            if not source.waits(function):
                self.ready.append(each)


_all = _All()


def install() -> None:
    """Let every op write a span."""
    declared = len(table.ops) + len(table.composites) + len(table.functions)
    with _lock:
        source.take_code = _take_code
        _all.on = True
        if _all.declared != declared:
            for function, name, which in _functions():
                _all.add(function, name, which)
            _all.declared = declared
        for each in _all.ready:  # hundreds: a call for each would be felt
            own = each.function.__code__
            if own is not each.code:
                if own is not each.plain:
                    each.plan(own)
                each.function.__code__ = each.code


def remove() -> None:
    """Give every op its own code back."""
    with _lock:
        _all.on = False
        for each in _all.ready:
            if each.function.__code__ is each.code:
                each.function.__code__ = each.plain


def _take_code(function: FunctionType, code: CodeType) -> None:
    """A built function was called for the first time."""
    with _lock:
        each = _all.known.get(id(function))
        if each is None:
            function.__code__ = code
            return
        _all.ready.append(each)
        each.plan(code)
        function.__code__ = each.code if _all.on else each.plain


_Named = Iterator[tuple[FunctionType, str, _Kind]]


def _functions() -> _Named:
    """Every function that is an op by torch's names, or makes tensors: (function, name, kind)."""
    for record in table.ops.values():
        name = names.name_of(record.name)
        yield from _plain(record.call, name)
        if record.inplace:
            yield from _plain(record.write, f"{name}_")
    for key, body in table.composites.items():
        for function, name, _ in _plain(body, names.name_of(key)):
            yield function, name, _Kind.SILENT if key in names.SILENT else _Kind.COMPOSITE
    for key, aten in names.METHODS.items():
        found = getattr(Tensor, key)
        yield from _plain(found.fget if isinstance(found, property) else found, aten)
    for sign, key in table.operators.items():
        for prefix in ("", "r", "i"):
            call = vars(Tensor).get(f"__{prefix}{sign}__")
            # Others call what has a span itself.
            if isinstance(call, FunctionType) and "finish" in call.__globals__:
                yield from _plain(call, f"{names.name_of(key) or key}{'_' * (prefix == 'i')}")
    for key in names.FUNCTIONS:
        yield from _plain(table.functions.get(key), key)
    for key in names.OF_DATA:
        yield from _plain(table.functions.get(key), key, _Kind.DATA)
    yield from _plain(pad_sequence, "pad_sequence")


def _plain(function: Any, name: str | None, kind: _Kind = _Kind.OP) -> _Named:
    if name and isinstance(function, FunctionType):
        yield function, name, kind


class TimedNamespace:
    """The ops on arrays of one library, each of which writes a span."""

    traced = False
    unobserved = False

    def __init__(self, raw: Any) -> None:
        self.xp = raw.xp
        self._raw = raw
        vars(self).update(_OPERATORS)

    def __getattr__(self, name: str) -> Callable[..., Any]:
        if name in table.composites:
            found: Callable[..., Any] = functools.partial(table.composites[name], self)
        else:
            found = _timed(getattr(self._raw, name), names.name_of(name) or name)
        setattr(self, name, found)
        return found


def _timed(run: Callable[..., Any], name: str) -> Callable[..., Any]:
    number = label(f"aten::{name}", OP)

    def timed(*args: Any, **kwargs: Any) -> Any:
        spans = instrument.spans
        if spans is None:
            return run(*args, **kwargs)
        facts = 0 if spans.detail is None else spans.detail(number, args, kwargs)
        start = perf_counter_ns()
        try:
            return run(*args, **kwargs)
        finally:
            end = perf_counter_ns()
            spans.put((number, start, end, get_ident(), -1, facts))

    return timed


def _operate(sign: str, key: str) -> Callable[..., Any]:
    """A Python operator of a rule: a span where it is one of arrays."""
    run = getattr(operator, sign)
    timed = _timed(run, names.name_of(key) or key)
    number = label(f"aten::{names.name_of(key) or key}", OP)

    def operate(left: Any, *right: Any) -> Any:
        if type(left) is not ndarray and not any(isinstance(x, ndarray) for x in (left, *right)):
            return run(left, *right)
        spans = instrument.spans
        if spans is None or spans.detail is not None:
            return timed(left, *right)
        start = perf_counter_ns()
        found = run(left, *right)
        end = perf_counter_ns()
        spans.put((number, start, end, get_ident(), -1, 0))
        return found

    return operate


_OPERATORS = {
    f"operate_{sign}": _operate(sign, table.operators[sign]) for sign in OPERATED.values()
}


class _Namespaces(dict[Any, TimedNamespace]):
    """A namespace of `dispatch.table.raw` -> its timed one."""

    def __missing__(self, raw: Any) -> TimedNamespace:
        return self.setdefault(raw, TimedNamespace(raw))


namespaces = _Namespaces()
