"""The table of ops and its two namespaces: `traced` maps Tensors to Tensors, `raw(xp)` arrays.

`op` declares one op; `composite` declares a function written on the namespace `F` it is given.
"""

from __future__ import annotations

import difflib
import functools
import inspect
from collections.abc import Callable, Sequence
from dataclasses import fields
from typing import Any

import numpy

from ag_visual.core.diagnosis import operands, repair, source_rewrite
from ag_visual.core.tensor import Tensor
from ag_visual.dispatch import entry, interpreted, jvp as jvp_rules, op_node, validate_grad, vmap
from ag_visual.dispatch.autocast import casting, casts_of
from ag_visual.dispatch.codegen.backward import backward
from ag_visual.dispatch.codegen.composite import as_function, bind_namespace, with_flag
from ag_visual.dispatch.codegen.forward import specialize
from ag_visual.dispatch.codegen.inplace import inplace as built_inplace
from ag_visual.dispatch.memory import settled
from ag_visual.dispatch.narrow_node import narrow_class
from ag_visual.dispatch.record import Op

ops: dict[str, Op] = {}
composites: dict[str, Callable[..., Any]] = {}
fit = validate_grad.fit


cast_bodies: dict[str, Callable[..., Any]] = {}
"""The composites that mixed precision looks at, as it calls them."""


class Raw:
    """The op namespace on arrays of one library. Attributes are made when first asked for."""

    traced = False
    # Nobody is told of what ops run on arrays: a rule may multiply them without a call.
    unobserved = True

    def __init__(self, xp: Any) -> None:
        self.xp = xp

    def __getattr__(self, name: str) -> Callable[..., Any]:
        if name in composites:
            function: Callable[..., Any] = functools.partial(composites[name], self)
        elif name in ops:
            function = _raw(ops[name], self.xp)
        else:
            raise AttributeError(f"no op is called {name!r}")
        setattr(self, name, function)
        return function


def _raw(op: Op, xp: Any) -> Callable[..., Any]:
    call = _kernel(op, xp)
    if not op.layout:
        return call
    lay = functools.partial(settled, op.layout, xp)
    if op.multi or len(op.outputs) > 1:
        return lambda *args, **kwargs: tuple(map(lay, call(*args, **kwargs)))

    def laid(*args: Any, **kwargs: Any) -> Any:
        result = call(*args, **kwargs)
        return result if result.flags.c_contiguous else lay(result)

    return laid


def _kernel(op: Op, xp: Any) -> Callable[..., Any]:
    kernel = op._kernel(xp)
    normalize = op.normalize
    if normalize is None and not op.varargs:
        return kernel
    bind = interpreted.binder(op, op.public_name)
    count = len(op.params) - len(op.arguments)
    if op.arguments != op.params[count:] or op.keyword:
        return lambda *args, **kwargs: _invoked(op, xp, bind(args, kwargs))

    def call(*args: Any, **kwargs: Any) -> Any:
        values = bind(args, kwargs)
        if normalize is not None:
            values[count:] = normalize(*values)
        return kernel(*values)

    return call


def _invoked(op: Op, xp: Any, values: list[Any]) -> Any:
    """A kernel whose arguments come between its arrays, or by keyword."""
    known = dict(zip(op.params, values, strict=True))
    if op.normalize is not None:
        known.update(zip(op.arguments, op.normalize(*values), strict=True))
    return op.invoke(xp, known)


class Traced:
    """The op namespace on Tensors."""

    xp = None
    traced = True
    unobserved = False

    def __getattr__(self, name: str) -> Callable[..., Any]:
        if name in composites:
            body = cast_bodies.get(name) or composites[name]
            function: Callable[..., Any] = functools.partial(body, self)
        elif name in ops:
            function = ops[name].call
        else:
            raise AttributeError(f"no op is called {name!r}")
        setattr(self, name, function)
        return function


traced = Traced()
_raws: dict[int, Raw] = {}


def raw(xp: Any) -> Raw:
    """The raw namespace on one array library."""
    found = _raws.get(id(xp))
    if found is None:
        found = _raws[id(xp)] = Raw(xp)
    return found


raw_numpy = raw(numpy)


def batch(
    record: Op | str,
    args: tuple[Any, ...],
    in_dims: tuple[Any, ...],
    kwargs: dict[str, Any] | None = None,
    *,
    namespace: Any = traced,
    randomness: str = "error",
    inplace: bool = False,
) -> Any:
    """An op on stacked inputs, in one call: see `vmap.batch`. The batch comes first.

    inplace: its in-place variant; see `vmap.batch_inplace`.
    """
    found = ops[record] if isinstance(record, str) else record
    run = vmap.batch_inplace if inplace else vmap.batch
    return run(namespace, found, args, in_dims, kwargs, randomness)


def jvp(
    record: Op | str,
    args: tuple[Any, ...],
    tangents: dict[str, Any],
    kwargs: dict[str, Any] | None = None,
    *,
    namespace: Any = traced,
) -> tuple[Any, Any]:
    """An op's results and their tangents, by what its record says of jvp: see `dispatch.jvp`."""
    found = ops[record] if isinstance(record, str) else record
    return jvp_rules.jvp(namespace, found, args, kwargs or {}, tangents)


class _Table:
    """What core objects reach through an op, without importing this layer."""

    traced = traced
    fit = staticmethod(validate_grad.fit)
    raw = staticmethod(raw)
    of = ops.__getitem__


_table = _Table()
symbols: dict[str, str] = {}
"""How formulas write ops and composites: see `symbol` of a record."""
moved: set[str] = set()
"""The ops and composites whose results have the elements of self in other places."""
names_in_profiles: dict[str, str] = {}
"""What the profiler calls ops and composites, where they say so: see `profiled` of a record."""
flops: dict[str, str] = {}
"""How the operations of ops and composites are counted: see `flops` of a record."""
foreach: dict[str, str] = {}
"""What `torch._foreach_name` takes, by name: see `foreach` of a record."""
return_types: dict[str, tuple[str, ...]] = {}
"""The fields of torch's named tuples, by their names."""
operators: dict[str, str] = {}
"""The op or composite that each of Python's operators calls: {"truediv": "true_divide"}."""
functions: dict[str, Callable[..., Any]] = {}
"""Public functions by torch's name, wherever they stand."""

spaces: dict[str, dict[str, Callable[..., Any]]] = {
    space: {} for space in ("torch", "nn.functional", "linalg", "special", "fft")
}
"""The public functions of each of torch's namespaces."""

# Where pickle finds a public function again, for instance as the activation of a module.
_PACKAGE = __name__.partition(".")[0]


_OPTIONS = frozenset(each.name for each in fields(Op) if each.init) - {"name", "kernel", "table"}


def op(name: str, kernel: str | Callable[..., Any], **options: Any) -> Op:
    """Declare an op: its options are the fields of `record.Op`, where each is explained."""
    if name in ops:
        raise TypeError(f"op {name!r} is declared twice")
    for unknown in options.keys() - _OPTIONS:
        near = difflib.get_close_matches(unknown, _OPTIONS, 1)
        meant = f"; did you mean {near[0]!r}?" if near else ""
        raise TypeError(f"op {name!r}: there is no option {unknown!r}{meant}")
    record = Op(name=name, kernel=kernel, table=_table, **options)
    ops[name] = record
    entry.equip(record)
    specialize(record)
    if record.public:
        several = record.signature.parameters.get(record.varargs or "")
        _publish(name, record.call, record.method, several, record.spaces)
    _offer(name, functions.get(name, record.call), record.spaces)
    _write(name, record.symbol, record.shape_only or (record.view and not record.multi))
    if record.inplace:
        for each in record.inplace_variants:
            each.node_class = op_node.make_node_class(each)
            each.narrow_class = narrow_class(each)
            backward(each)
        write = built_inplace(record, f"{record.public_name}_", entry.inplace_variant(record))
        record.write = write
        if record.public:
            functions[f"{name}_"] = write
            if record.inplace_function and "torch" in record.spaces.split():
                spaces["torch"][f"{name}_"] = write
        if record.public and record.method:
            setattr(Tensor, f"{name}_", write)
    alias(name, *record.aliases)
    _offer_inplace(record)
    _list(name, record.foreach, record.operands, record.view and not record.multi)
    _profile(name, record.profiled, record.flops)
    offered = record.namedtuple or (name if record.spaces else "")
    if offered and len(record.outputs) > 1 and record.outputs[0] != "result0":
        return_types.setdefault(offered, tuple(record.outputs))
    return record


def _publish(
    name: str, call: Callable[..., Any], method: bool, several: inspect.Parameter | None, where: str
) -> None:
    """Make a call the function and the method of a name; only methods take sizes one by one."""
    function = call if several is None else as_function(call, name, several)
    functions[name] = function
    first = where.partition(" ")[0]
    function.__module__ = f"{_PACKAGE}.{first}" if first == "nn.functional" else _PACKAGE
    if method:
        setattr(Tensor, name, call)


def _offer(name: str, call: Callable[..., Any], where: str) -> None:
    """Put a function into torch's namespaces: see `spaces` of a record."""
    for path in where.split():
        space, _, own = (path, "", name) if path in spaces else path.rpartition(".")
        spaces[space][own] = call


def _write(name: str, symbol: str, shape_only: bool) -> None:
    """Note how formulas show an op."""
    if symbol:
        symbols[name] = symbol
    if shape_only:
        moved.add(name)


def _offer_inplace(op: Op) -> None:
    """The in-place variant in nn.functional, as `functional_inplace` of a record says."""
    words, inplace = op.functional_inplace.split(), f"{op.name}_"
    if words:
        repair.module_ops.add(inplace)
    if "function" in words:
        _offer(inplace, op.write, "nn.functional")
    if "flag" in words:
        _offer(op.name, with_flag(op, op.call, op.write), "nn.functional")


def _list(name: str, lists: str, shows_operands: bool, view: bool) -> None:
    """Note what `_foreach_name` takes, and what the diagnosis of errors reads in source text."""
    if lists:
        foreach[name] = lists
    if shows_operands:
        operands.calls.add(name)
    if view:
        source_rewrite.views.add(name)


def _profile(name: str, profiled: str, count: str) -> None:
    if profiled:
        names_in_profiles[name] = profiled
    if count:
        flops[name] = count


def alias(name: str, *others: str) -> None:
    """Further names of a public function, of its method and of its in-place variant."""
    for suffix in ("", "_"):
        function = functions.get(name + suffix)
        if function is None:
            continue
        for other in others:
            functions[other + suffix] = function
            for names in spaces.values():
                if names.get(name + suffix) is function:
                    names[other + suffix] = function
            if hasattr(Tensor, name + suffix):
                setattr(Tensor, other + suffix, function)


def composite(
    name: str | None = None,
    *,
    public: bool = True,
    method: bool = True,
    aliases: Sequence[str] = (),
    out: bool | str = False,
    doc: str | None = None,
    varargs: str | None = None,
    spaces: str | None = None,
    symbol: str = "",
    shape_only: bool = False,
    autocast: str = "",
    foreach: str = "",
    operands: bool = False,
    view: bool = False,
    profiled: str = "",
    flops: str = "",
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Declare a function of other ops: `def name(F, self, ...)`, usable on both namespaces.

    out: as in a record; autocast, too, but without it its ops are looked at one by one.
    doc: its docstring, where the body has none.
    varargs: the last parameter, a tuple of ints, which the method takes one by one, too. spaces,
    symbol, shape_only, foreach, operands, view, profiled, flops: as in a record; also UNSEEN.
    """
    where = spaces if spaces is not None else "torch" if public else ""

    def declare(body: Callable[..., Any]) -> Callable[..., Any]:
        body.__doc__ = doc or body.__doc__
        key = name or body.__name__
        if key in composites or key in ops:
            raise TypeError(f"op {key!r} is declared twice")
        composites[key] = body
        casts = casts_of(autocast)
        if casts is not None:
            cast_bodies[key] = casting(casts, body)
        _write(key, symbol, shape_only)
        _list(key, foreach, operands, view)
        _profile(key, profiled, flops)
        call = bind_namespace(body, traced, key, out, varargs, cast_bodies.get(key))
        several = inspect.signature(body).parameters.get(varargs or "")
        for each in (key, *aliases):
            if public:
                _publish(each, call, method, several, where)
            _offer(each, functions.get(each, call), where)
        return call

    return declare


def named_tuple(name: str, *fields: str) -> Any:
    """Declare the named tuple that a function of other ops gives, `torch.return_types.name`."""
    return_types[name] = fields
    return interpreted.named_tuple(name, fields)


def function(
    *, name: str | None = None, method: bool = False, spaces: str = "torch", symbol: str = ""
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Make a plain function (one that is neither op nor composite) public under torch's name."""

    def declare(body: Callable[..., Any]) -> Callable[..., Any]:
        key = name or body.__name__
        if "torch" in spaces:
            functions[key] = body
        _offer(key, body, spaces)
        _write(key, symbol, False)
        if body.__name__ != key:  # errors and pickle call it by its public name
            body.__name__ = body.__qualname__ = key
            body.__module__ = _PACKAGE
        if method:
            setattr(Tensor, key, body)
        return body

    return declare
