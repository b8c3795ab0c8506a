"""The reference path of every op: interprets the record, handles everything.

`codegen` makes a fast wrapper from the same record for the common case; tests compare them.
"""

from __future__ import annotations

import collections
import dis
from collections.abc import Callable, Sequence
from typing import Any

import numpy

from ag_visual import dtypes, promotion
from ag_visual.arrays import backend as backends
from ag_visual.arrays.kernels.order import copied
from ag_visual.arrays.quiet import quietly
from ag_visual.core import modes, saved, seam, source, view
from ag_visual.core.node import Node
from ag_visual.core.saved_tensor import raw_saved
from ag_visual.core.storage import FRESH
from ag_visual.core.tensor import (
    InferenceTensor,
    Tensor,
    _blank,
    before_write,
    cannot_be_saved,
    check_inplace,
    from_array,
    rebase,
    wrote,
)
from ag_visual.dispatch.arguments import (
    NUMBERS,
    NUMPY_NAMES,
    NUMPY_NUMBERS,
    checked,
    kind_named,
    loose,
    no_element,
    no_list,
    older,
    plain_number,
    pythons,
)
from ag_visual.dispatch.memory import settled
from ag_visual.dispatch.memory_overlap import refuse_internal, refuse_shared
from ag_visual.dispatch.out_argument import accepting_out
from ag_visual.dispatch.record import FLOAT, KEEP, PROMOTE, Op
from ag_visual.dispatch.validate_grad import fit_edge, fit_traced
from ag_visual.errors import type_name


class OpNode(Node):
    """A node of a declared op. Subclasses carry the record and the slots of what it saves."""

    __slots__ = ()
    skips = True
    op: Op

    def skip(self, place: Any) -> tuple[None, ...]:
        for name in self.saved_names:
            saved.raw(self, name)  # refused where it was freed or written
        return super().skip(place)

    def raw(self, F: Any, g: Any) -> list[Any]:
        return self._run(F, g, saved.raw)

    def traced(self, g: Any) -> list[Any]:
        F = self.op.table.traced
        if self.op.holomorphic and self.dtype.kind == "c":
            conj = [x if x is None else F.conj(x) for x in g] if self.outs else F.conj(g)
            found = [x if x is None else F.conj(x) for x in self._run(F, conj, saved.traced)]
        else:
            found = self._run(F, g, saved.traced)
        return tied(self, found) if self.op.fused else found

    def _run(self, F: Any, g: Any, unpack: Callable[[Any, str], Any]) -> list[Any]:
        op = self.op
        known: dict[str, Any] = {"F": F, "g": g, "gs": g}
        edges = op.differentiated
        wanted = dict(zip(edges, (edge is not None for edge in self.next), strict=False))
        if op.lists and op.lists[0] in edges:
            wanted = {op.lists[0]: True}
        for name in op.shapes:
            known[name] = getattr(self, f"h_{name}")
        for name in op.values:
            known[name] = getattr(self, f"a_{name}")
        for name in op.kept:
            if any(wanted[i] for i in op.wanted_by(name)):
                unpack(self, name)
        grads: dict[str, Any] = {}
        for rule in op.rules:
            if not any(wanted[i] for i in rule.inputs):
                continue
            known["needs"] = tuple(wanted[i] for i in rule.inputs)
            arguments = {
                name: unpack(self, name) if name in op.saves else known[name]
                for name in rule.requests
            }
            result = rule.function(**arguments)
            if rule.joint:
                grads.update(zip(rule.inputs, result, strict=True))
            else:
                grads[rule.inputs[0]] = result
        if op.lists and op.lists[0] in edges:
            return list(grads[op.lists[0]])
        return [grads.get(i) if wanted[i] else None for i in edges]

    def __call__(self, *grads: Any) -> Any:
        """The gradients of the inputs, in their shapes and dtypes, from those of the outputs."""
        found = super().__call__(*grads)
        F = self.op.table.traced
        fitted = []
        for edge, g in zip(self.next, found if type(found) is tuple else (found,), strict=True):
            if edge is not None and g is not None:
                g = fit_edge(fit_traced, F, self, edge, g)
            fitted.append(g)
        return tuple(fitted) if type(found) is tuple else fitted[0]

    def release(self) -> None:
        for name in self.op.saves:
            setattr(self, f"s_{name}", None)


class Tied(Node):
    """History of a gradient that is the same whatever the op's inputs are.

    torch forms it in one op that takes some of these inputs, so it requires grad as they do. As
    there, the gradient of a single input is zeros, and of several inputs none gets any.
    """

    __slots__ = ()

    def raw(self, F: Any, g: Any) -> list[Any]:
        return [None if m is None else F.xp.zeros(*m) for m in self._metas()]

    def traced(self, g: Any) -> list[Any]:
        xp = backends.backend_of(g._array).xp
        return [None if m is None else from_array(xp.zeros(*m)) for m in self._metas()]

    def _metas(self) -> list[Any]:
        if len(self.next) > 2:
            return [None] * len(self.next)
        node, number, shape, dtype = self.next[1]  # type: ignore[misc]
        return [None, node.outs[number] if shape is None else (shape, dtype)]


def tied(node: Any, grads: Sequence[Any]) -> Sequence[Any]:
    """Gradients of a fused backward: those that are constants still lead to the op's inputs."""
    if not modes.grad_enabled():
        return grads
    op = node.op
    edges = [e for e, name in zip(node.next, op.differentiated, strict=True) if name in op.fused]
    if not any(edges):
        return grads
    return [g if g is None or g._rg else _tie(node.tied, edges, g) for g in grads]


def _tie(cls: Any, edges: list[Any], g: Any) -> Any:
    result = _blank(Tensor, g._array)
    result._store = g._storage
    tie = cls().start((None, *edges), ((g._array.shape, g._array.dtype),))
    result._edge = tie.edge()
    result._rg = True
    if seam.sink is not None:
        saved.report_node(tie)
    return result


def _value(node: Any, name: str) -> Any:
    """What `node._saved_<name>` reads."""
    value = saved.traced(node, name)
    if isinstance(value, NUMBERS):
        return from_array(numpy.asarray(value))
    return value


def make_node_class(op: Op) -> type[OpNode]:
    """The node class of a record, with torch's attribute names."""
    slots = [f"s_{n}" for n in op.saves] + [f"t_{n}" for n in op.saves]
    slots += [f"o_{n}" for n in op.saves if n in op.outputs]
    slots += [f"a_{n}" for n in op.values] + [f"h_{n}" for n in op.shapes]
    body: dict[str, Any] = {
        "__slots__": tuple(slots),
        "__module__": "torch.autograd.graph",
        "op": op,
        "holomorphic": op.holomorphic,
        "saved_names": op.saves,
        "value_names": tuple(n for n in op.values if n not in op.hidden),
    }
    for name in op.saves:
        body[f"_saved_{name}"] = property(lambda self, n=name: _value(self, n))
        body[f"_raw_saved_{name}"] = property(lambda self, n=name: raw_saved(self, n))
    for name in op.values:
        if name in op.hidden:
            continue
        body[f"_saved_{name}"] = property(lambda self, n=name: getattr(self, f"a_{n}"))
    if any(hasattr(rule.function, "refuses") for rule in op.rules):
        # It says so whatever arrives, and whoever wants its gradients.
        body.update(runs_undefined=True, skips=False)
    if op.fused:
        name = f"{op.node_name.removesuffix('0')}Backward0"
        body["tied"] = type(name, (Tied,), {"__slots__": (), "__module__": body["__module__"]})
    return type(op.node_name, (OpNode,), body)


def equip(op: Op) -> None:
    """Give a record its node class and its reference call."""
    op.node_class = make_node_class(op)
    bind = binder(op, op.called)

    def call(*args: Any, **kwargs: Any) -> Any:
        return run(op, bind(args, kwargs))

    if op.out:
        call = accepting_out(op.called, call, op.policy != KEEP)
    call.__signature__ = op.public_signature  # type: ignore[attr-defined]
    call.__name__ = call.__qualname__ = op.name
    call.__doc__ = op.doc
    op.compute = call
    op.call = call


def operator(op: Op) -> Callable[..., Any]:
    """The reference call as Python's operators want it: NotImplemented for foreign operands."""
    known = (Tensor, *NUMBERS)

    def call(self: Any, other: Any, **kwargs: Any) -> Any:
        if isinstance(other, numpy.ndarray):
            other = from_array(other)  # as torch, which keeps the result a tensor of the graph
        elif not isinstance(other, known):
            return NotImplemented
        return op.compute(self, other, **kwargs)

    return call


def binder(op: Op, called: str) -> Callable[[tuple[Any, ...], dict[str, Any]], list[Any]]:
    """A function from what a call was given to the value of each parameter."""
    signature, names, varargs = op.signature, op.params, op.varargs
    count = len(op.params) - len(op.arguments)
    parameters = signature.parameters.values()
    defaults = [p.default for p in parameters]
    positional = sum(p.kind is p.POSITIONAL_OR_KEYWORD for p in parameters)
    needed = sum(p.default is p.empty for p in parameters)
    flag = kind_named("bool")
    total = len(names)

    def bind(args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[Any]:
        for name in op.idle:
            if name in kwargs:
                checked(called, name, flag, kwargs.pop(name))
        if varargs and varargs not in kwargs:
            args, kwargs[varargs] = args[:count], loose(called, varargs, args[count:])
        given = len(args)
        if given > positional and op.older:
            args, kwargs = older(called, op, args, kwargs)
            given = len(args)
        if not kwargs and needed <= given <= positional:
            # What signature.bind would say, without its 3 us.
            return [*args, *defaults[given:]] if given < total else [*args]
        if "input" in kwargs and "self" in names and "input" not in names:
            kwargs["self"] = kwargs.pop("input")
        for theirs, ours in NUMPY_NAMES.items():
            if theirs in kwargs and ours in names and ours not in kwargs:
                kwargs[ours] = kwargs.pop(theirs)
        try:
            bound = signature.bind(*args, **kwargs)
        except TypeError as error:
            raise TypeError(f"{called}(): {error}") from None
        bound.apply_defaults()
        return [bound.arguments[n] for n in names]

    return bind


def flat(args: tuple[Any, ...]) -> tuple[Any, ...]:
    """(2, 3) from either f(2, 3) or f((2, 3))."""
    if len(args) == 1 and isinstance(args[0], (tuple, list)):
        return tuple(args[0])
    return args


# Forward ----------------------------------------------------------------------------------------


def bad_argument(called: str, names: Sequence[str], name: str, value: Any) -> TypeError:
    """An argument that should be a tensor; `self`, which is no method's here, is `input`."""
    place = names.index(name)
    told = "input" if name == "self" and not place and "input" not in names else name
    return TypeError(
        f"{called}(): argument '{told}' (position {place + 1}) must be Tensor, "
        f"not {type_name(value)}"
    )


def _fitted(op: Op, called: str, args: list[Any]) -> list[Any]:
    """What was given, each argument of its kind, with numbers where tensors stand for them."""
    for at, name in enumerate(op.params):
        if name in op.arguments:
            kind = op.kinds.get(name)
            if kind is not None:
                args[at] = checked(called, name, kind, args[at])
            elif isinstance(args[at], Tensor) or type(args[at]) in NUMPY_NUMBERS:
                args[at] = plain_number(called, name, args[at])
        elif type(args[at]) in NUMPY_NUMBERS and op.policy != KEEP and name not in op.aside:
            args[at] = pythons(args[at])
    return args


def _check_devices(op: Op, tensors: list[Any]) -> Any:
    """The backend of all tensors; 0-d CPU tensors may join any device, as in torch."""
    backend: Any = None
    first: Any = None
    for tensor in tensors:
        found = backends.backend_of(tensor._array)
        if backend is None or (backend is not found and tensor._array.ndim > 0):
            if first is not None and first._array.ndim > 0:
                raise RuntimeError(
                    f"{op.called}(): Expected all tensors to be on the same device, but found at "
                    f"least two devices, {first.device} and {tensor.device}. Move one with "
                    ".to(device)."
                )
            backend, first = found, tensor
    return backend


def promoted(op: Op, values: dict[str, Any]) -> Any:
    """The dtype in which a promoting op computes (an array dtype)."""
    operands = []
    for name in op.inputs:
        value = values[name]
        if name in op.aside:
            continue
        if isinstance(value, Tensor):
            operands.append((value.dtype, 2 if value._array.ndim else 1))
        elif value is not None:
            operands.append((promotion.scalar_dtype(value), 0))
    target = promotion.result_type(*operands)
    if op.policy == FLOAT and target.category < 2:
        target = dtypes.get_default_dtype()
    return target


def arrays_of(op: Op, values: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
    """The backend and the kernel's arrays, promoted as the record says."""
    tensors = []
    for name in op.inputs:
        value = values[name]
        if isinstance(value, Tensor):
            tensors.append(value)
        elif value is None and name in op.optional:
            continue
        elif op.policy == KEEP or name in op.aside or not isinstance(value, NUMBERS):
            raise bad_argument(op.called, op.params, name, value)
    for name in op.lists:
        items = values[name]
        if isinstance(items, Tensor) or not isinstance(items, (tuple, list)):
            raise no_list(op.called, name, op.params.index(name), items)
        for i, item in enumerate(items):
            if isinstance(item, Tensor):
                tensors.append(item)
            elif item is not None or not op.inputs:  # of indices, None leaves a dimension alone
                raise no_element(op.params.index(name), i, item)
    if not tensors and op.inputs:
        name = next(n for n in op.inputs if n not in op.aside)
        raise bad_argument(op.called, op.params, name, values[name])
    backend = _check_devices(op, tensors)
    target = promoted(op, values) if op.policy != KEEP else None
    arrays: dict[str, Any] = {}
    for name in op.inputs:
        value = values[name]
        if isinstance(value, Tensor):
            array = value._array
            if type(array) is not backend.array_type:
                array = backend.from_numpy(array)
            if target is not None and array.dtype != target.np and name not in op.aside:
                array = copied(backend.xp, array, target.np)
            arrays[name] = array
        elif value is not None and target is not None:
            arrays[name] = backend.asarray(cast_number(value, target), dtype=target.np)
        else:
            arrays[name] = value
    for name in op.lists:
        arrays[name] = tuple(None if v is None else v._array for v in values[name])
    return backend, arrays


def cast_number(value: Any, target: dtypes.dtype) -> Any:
    """A Python number as `target` holds it: integers wrap around, as torch's do."""
    if target.category == 1 and isinstance(value, int):
        return numpy.asarray(value).astype(target.np)
    return value


def refuse_unlike(op: Op, values: dict[str, Any]) -> None:
    """Dtypes that this op does not promote, told in torch's words."""
    kinds = [v.dtype if isinstance(v := values[n], Tensor) else None for n in op.compared]
    given = list(dict.fromkeys(k for k in kinds if k is not None))
    if len(given) > 1 and (text := op.alike(*kinds)) is not None:  # type: ignore[misc]
        raise RuntimeError(f"{text}. Convert one of them, .to({given[0]}) or .to({given[1]}).")


def _refuse_complex(op: Op, arrays: dict[str, Any]) -> None:
    for name in op.inputs:
        kind = getattr(arrays[name], "dtype", None)
        if kind is not None and kind.kind == "c":
            told = dtypes.legacy_name(dtypes.of_numpy(kind)).removesuffix("Tensor")
            raise NotImplementedError(
                f"\"{op.called}\" not implemented for '{told}': it is a function of real numbers"
            )


def _arguments(op: Op, values: dict[str, Any], arrays: dict[str, Any]) -> dict[str, Any]:
    """The plain arguments, checked and completed."""
    names = op.arguments
    if op.normalize is None:
        return {n: values[n] for n in names}
    given = [arrays[n] if n in arrays else values[n] for n in op.params]
    done = op.normalize(*given)
    return dict(zip(names, done, strict=True))


def run(op: Op, args: list[Any]) -> Any:
    """One call of an op: kernel, outputs, node."""
    args = _fitted(op, op.called, args)
    values = dict(zip(op.params, args, strict=True))
    if op.check is not None:
        op.check(*args)
    if op.alike is not None:
        refuse_unlike(op, values)
    backend, arrays = arrays_of(op, values)
    if op.real:
        _refuse_complex(op, arrays)
    arguments = _arguments(op, values, arrays)
    results = _compute(op, backend, arrays, arguments)
    several = op.multi or len(op.outputs) > 1
    found = list(results) if several else [results]
    found = [r if backends.is_array(r) else backend.asarray(r) for r in found]
    if op.layout:
        found = [settled(op.layout, backend.xp, r) for r in found]
    # As in torch: what has inference tensors alone for inputs is no matter of autograd's.
    record_grad = modes.grad_enabled() and not _all_inference(op, values)
    outputs = []
    kind = _kind(op, values)
    for r in found:
        out = _blank(kind, r)
        if op.view or op.reuses:
            seen = values[op.params[0]]
            out._store = seen._storage if op.view else FRESH
            out._memory = seen._array if seen._memory is None else seen._memory
        else:
            out._store = FRESH
        outputs.append(out)
    # Where no output can have a history, nobody asks the inputs for theirs: some can't be followed.
    if record_grad and op.rules and _grown(op, outputs):
        edges = _edges(op, values)
        if any(edge is not None for edge in edges) or _borrows(op, values):
            _make_node(op, values, arguments, outputs, edges)
    if op.rules and outputs and not outputs[0]._rg and (record_grad or modes.special):
        _tell_origin(op, values, outputs, record_grad)
    if op.view and kind is Tensor:
        _link_views(op, values[op.params[0]], arguments, outputs)
    return _package(op, outputs)


def _tell_origin(op: Op, values: dict[str, Any], outputs: list[Any], record_grad: bool) -> None:
    """Remember why results of inputs that require grad don't."""
    if not _borrows(op, values):
        return
    kind = "dtype" if record_grad else "inference" if modes.state.inference else "no_grad"
    for out in outputs:
        out._origin = (kind, source.here())


def _all_inference(op: Op, values: dict[str, Any]) -> bool:
    given = [values[name] for name in op.inputs]
    for name in op.lists:
        given.extend(values[name])
    kinds = {type(value) for value in given if isinstance(value, Tensor)}
    return kinds == {InferenceTensor}


def _kind(op: Op, values: dict[str, Any]) -> type[Tensor]:
    """Inference mode makes inference tensors, but views take after what they look into."""
    if op.view:
        seen = type(values[op.params[0]])
        return InferenceTensor if seen is InferenceTensor else Tensor
    return InferenceTensor if modes.special and modes.state.inference else Tensor


def _compute(
    op: Op, backend: Any, arrays: dict[str, Any], arguments: dict[str, Any], writing: bool = False
) -> Any:
    """Run the kernel, silently where NumPy would warn of inf and nan, with torch's error types."""
    try:
        result = quietly(op.invoke, backend.xp, {**arguments, **arrays}, writing=writing)
    except (ValueError, IndexError) as error:
        raise _kernel_error(op, arrays, error) from None
    except TypeError as error:
        _refuse_odd_numbers(op, arguments)
        if "ufunc" not in str(error) and "numpy boolean" not in str(error):
            raise
        kind = next(dtypes.of_array(a) for a in arrays.values() if hasattr(a, "dtype"))
        told = dtypes.legacy_name(kind).removesuffix("Tensor")
        raise NotImplementedError(f"\"{op.called}\" not implemented for '{told}'") from None
    _refuse_bools(op, arrays, result)
    return _narrowed(op, arrays, result) if op.narrows else result


def _refuse_bools(op: Op, arrays: dict[str, Any], result: Any) -> None:
    """NumPy has no arithmetic on bools: it makes 8-bit integers or 16-bit floats of them."""
    if getattr(result, "dtype", None) not in _OF_BOOLS:
        return
    given = {array.dtype for array in arrays.values() if hasattr(array, "dtype")}
    if numpy.dtype(bool) in given and result.dtype not in given:
        raise NotImplementedError(
            f"\"{op.called}\" not implemented for 'Bool'. Convert with .int() or .float() first."
        )


_OF_BOOLS = (numpy.dtype(numpy.int8), numpy.dtype(numpy.float16))


def _refuse_odd_numbers(op: Op, arguments: dict[str, Any]) -> None:
    """Say which argument is no number though its default is one."""
    for name, value in arguments.items():
        usual = op.signature.parameters[name].default
        if isinstance(usual, NUMBERS) and not isinstance(value, NUMBERS):
            place = "" if name in op.keyword else f" (position {op.params.index(name) + 1})"
            raise TypeError(
                f"{op.called}(): argument '{name}'{place} must be Number, not {type_name(value)}"
            ) from None


def _narrowed(op: Op, arrays: dict[str, Any], result: Any) -> Any:
    """The result in bfloat16 when the op computes in it: NumPy widens it beside a number."""
    given = [
        getattr(a, "dtype", None) for n, a in arrays.items() if n in op.inputs and n not in op.aside
    ]
    dtype = given[0] if given else None
    if dtype is None or dtype.kind != "V" or any(d is not None and d.kind == "f" for d in given):
        return result
    if isinstance(result, tuple):
        return tuple(
            _narrow(r, dtype) if i in op.differentiable else r for i, r in enumerate(result)
        )
    return _narrow(result, dtype)


def _narrow(result: Any, dtype: Any) -> Any:
    kind = getattr(result, "dtype", None)
    return result.astype(dtype) if kind is not None and kind.kind == "f" else result


_RAISE = dis.opmap["RAISE_VARARGS"]


def _in_own_words(error: Exception) -> bool:
    """Was it raised by a `raise` of this package, and not by the array library it calls?"""
    trace: Any = error.__traceback__
    while trace.tb_next is not None:
        trace = trace.tb_next
    code = trace.tb_frame.f_code
    return source.inside[code.co_filename] and code.co_code[trace.tb_lasti] == _RAISE


def _kernel_error(op: Op, arrays: dict[str, Any], error: Exception) -> Exception:
    if _in_own_words(error):
        return error
    shapes = [tuple(a.shape) for a in arrays.values() if hasattr(a, "shape")]
    if op.policy != KEEP and len(shapes) > 1:
        longest = max(len(s) for s in shapes)
        padded = [(1,) * (longest - len(s)) + s for s in shapes]
        for dim in range(longest - 1, -1, -1):
            sizes = [s[dim] for s in padded if s[dim] != 1]
            if len(set(sizes)) > 1:
                return RuntimeError(
                    f"{op.called}(): The size of tensor a ({sizes[0]}) must match the size of "
                    f"tensor b ({sizes[1]}) at non-singleton dimension {dim}. Shapes: "
                    f"{' and '.join(str(list(s)) for s in shapes)}"
                )
    kind = IndexError if isinstance(error, IndexError) else RuntimeError
    listed = " (shapes: {})".format(", ".join(str(list(s)) for s in shapes)) if shapes else ""
    return kind(f"{op.called}(): {error}{listed}")


def _package(op: Op, outputs: list[Any]) -> Any:
    if op.multi:
        return tuple(outputs)
    if len(outputs) == 1:
        return outputs[0]
    return named_tuple(op.returns or op.name, op.outputs)(*outputs)


_named: dict[tuple[str, tuple[str, ...]], Any] = {}


def _tuple(*results: Any) -> tuple[Any, ...]:
    return results


def named_tuple(name: str, fields: tuple[str, ...]) -> Any:
    if fields[0] == "result0":  # torch gives these no names
        return _tuple
    key = (name, fields)
    if key not in _named:
        plain: Any = collections.namedtuple(name, fields)  # type: ignore[misc]
        body = {"__slots__": (), "__module__": "torch.return_types", "__repr__": _fields_in_lines}
        _named[key] = type(name, (plain,), body)
    return _named[key]


def _fields_in_lines(self: Any) -> str:
    """As torch prints results with several fields."""
    fields = ",\n".join(f"{n}={v!r}" for n, v in zip(self._fields, self, strict=True))
    return f"torch.return_types.{type(self).__name__}(\n{fields})"


def _edges(op: Op, values: dict[str, Any]) -> list[Any]:
    edges: list[Any] = []
    for name in op.differentiated:
        value = values[name]
        if name in op.lists:
            edges.extend(None if v is None else _edge(v) for v in value)
        else:
            edges.append(_edge(value) if isinstance(value, Tensor) else None)
    return edges


def _edge(tensor: Any) -> Any:
    return tensor.gradient_edge()


def _given(op: Op, values: dict[str, Any]) -> list[Any]:
    given = [values[n] for n in op.differentiated if n not in op.lists]
    given += [v for n in op.lists if n in op.differentiated for v in values[n]]
    return [v for v in given if isinstance(v, Tensor)]


def _borrows(op: Op, values: dict[str, Any]) -> bool:
    """Does a view without history take part, which requires grad because its base does?"""
    return any(v._rg for v in _given(op, values))


def _may_be_recorded(op: Op, values: dict[str, Any]) -> bool:
    """Does an operand require grad, or will it when it is brought up to date with its base?"""
    return any(
        v._rg or (v._view is not None and v._view.base._rg and v._array.dtype.kind in "fcV")
        for v in _given(op, values)
    )


def _grown(op: Op, outputs: list[Any]) -> list[int]:
    """The numbers of the outputs that can have a history."""
    differentiable = range(len(outputs)) if op.multi else op.differentiable
    return [i for i in differentiable if outputs[i]._array.dtype.kind in "fcV"]


def _make_node(
    op: Op,
    values: dict[str, Any],
    arguments: dict[str, Any],
    outputs: list[Any],
    edges: list[Any],
    inplace: bool = False,
) -> Any:
    """The node of this call, with everything it saves, made history of the outputs.

    inplace: before the write, which makes it history and hands saved outputs to hooks.
    """
    grown = _grown(op, outputs)
    metas = tuple((outputs[i]._array.shape, outputs[i]._array.dtype) for i in grown)
    node = op.node_class().start(tuple(edges), metas)
    if op.multi and node.outs is None:
        node.outs = metas
    if not inplace:
        for number, i in enumerate(grown):
            outputs[i]._edge = node.edge(number)
            outputs[i]._rg = True
    wanted = dict(zip(op.differentiated, (e is not None for e in edges), strict=False))
    if op.lists and op.lists[0] in op.differentiated:
        wanted = dict.fromkeys(op.differentiated, True)
    for name in op.saves:
        needed = any(wanted.get(i, False) for i in op.wanted_by(name))
        _save(op, node, name, values, outputs, needed, inplace)
        if modes.special and not inplace:
            saved.guard(node, name)
    for name in op.values:
        setattr(node, f"a_{name}", arguments[name])
    for name in op.shapes:
        owner, _, what = name.rpartition("_")
        setattr(node, f"h_{name}", _fact(values[owner], what))
    if seam.sink is not None and not inplace:
        saved.report_node(node)
        saved.report_cuts(node, ((name, values[name]) for name in op.differentiated))
    return node


def _fact(value: Any, what: str) -> Any:
    """The shape, dtype or device of an input (of each, for a list)."""
    if value is None:
        return None
    if isinstance(value, (tuple, list)):
        return tuple(_fact(v, what) for v in value)
    if not isinstance(value, Tensor):
        return () if what == "shape" else None
    return value.device if what == "device" else getattr(value._array, what)


def _save(
    op: Op,
    node: Any,
    name: str,
    values: dict[str, Any],
    outputs: list[Any],
    needed: bool,
    inplace: bool,
) -> None:
    slot, stamp = f"s_{name}", f"t_{name}"
    if name in op.outputs:
        number = op.outputs.index(name)
        out = outputs[number]
        differentiable = number in op.differentiable
        if differentiable:
            number = op.differentiable.index(number)  # as the node's edges count
        setattr(node, f"o_{name}", (out._storage, number, differentiable))
        if modes.state.saved_hooks and needed and not inplace:
            pack, unpack = modes.state.saved_hooks[-1]
            packed = saved.Packed(pack, unpack, out, number if differentiable else None)
            setattr(node, slot, packed)
        else:
            setattr(node, slot, out._array if needed else None)
        setattr(node, stamp, out._storage.stamp)
        return
    value = values[name] if needed else None
    if isinstance(value, list):
        value = tuple(value)
    for part in value if isinstance(value, tuple) else (value,):
        if type(part) is InferenceTensor:
            raise cannot_be_saved()
    if isinstance(value, Tensor) and modes.state.saved_hooks:
        pack, unpack = modes.state.saved_hooks[-1]
        setattr(node, stamp, value._storage.stamp)
        setattr(node, slot, saved.Packed(pack, unpack, value))
        return
    if isinstance(value, tuple) and modes.state.saved_hooks:
        pack, unpack = modes.state.saved_hooks[-1]
        setattr(node, stamp, saved.stamp_of(value))
        packed_ = [saved.Packed(pack, unpack, v) if isinstance(v, Tensor) else v for v in value]
        setattr(node, slot, tuple(packed_))
        return
    setattr(node, slot, value)
    setattr(node, stamp, saved.stamp_of(value))


def _link_views(op: Op, source_: Any, arguments: dict[str, Any], outputs: list[Any]) -> None:
    """Tell each output of a view op what it looks into."""
    parent = source_._view
    base = source_ if parent is None else parent.base
    args = tuple(arguments[n] for n in op.arguments)
    meta = view.child_meta(parent, multi=op.multi)
    for i, out in enumerate(outputs):
        step_op, step_args = (ListItem(op, i), args) if op.multi else (op, args)
        stamp, seen = out._storage.stamp, source_._array
        out._view = view.View(base, parent, step_op, step_args, stamp, meta, seen)
        if out._edge is None:
            out._view.made = source.here()
            out._rg = base._rg and out._array.dtype.kind in "fcV"


class ListItem:
    """One output of a view op with several, as a step that can be replayed."""

    __slots__ = ("called", "index", "op")

    def __init__(self, op: Op, index: int) -> None:
        self.op = op
        self.index = index
        self.called = op.called

    @property
    def table(self) -> Any:
        return self.op.table

    def view_array(self, xp: Any, array: Any, args: Any) -> Any:
        return self.op._kernel(xp)(array, *args)[self.index]

    def replay(self, tensor: Any, args: Any) -> Any:
        return self.op.call(tensor, *args)[self.index]

    def view_back(self, F: Any, g: Any, shape: Any, args: Any) -> Any:
        count = len(self.op._kernel(numpy)(numpy.broadcast_to(numpy.empty(()), shape), *args))
        gs = [None] * count
        gs[self.index] = g
        rule = self.op.rules[0]
        known = dict(zip(self.op.params[1:], args, strict=True))
        known.update(F=F, gs=gs, g=g, self_shape=shape, self_dtype=g.dtype)
        return rule.function(**{name: known[name] for name in rule.requests})


# In place ---------------------------------------------------------------------------------------


def _can_hold(target: Any, dtype: Any) -> bool:
    return promotion.can_cast(dtypes.of_numpy(dtype), dtypes.of_numpy(target))


def inplace_twin(op: Op) -> Callable[..., Any]:
    """`name_`: the same op, written into its first argument."""
    twin = f"{op.called}_"
    bind = binder(op, twin)

    def call(*args: Any, **kwargs: Any) -> Any:
        return run_inplace(op, twin, bind(args, kwargs))

    call.__name__ = call.__qualname__ = twin
    call.__signature__ = op.signature  # type: ignore[attr-defined]
    op.write = call
    return call


def run_inplace(op: Op, twin: str, args: list[Any]) -> Any:
    args = _fitted(op, twin, args)
    values = dict(zip(op.params, args, strict=True))
    if op.check is not None:
        op.check(*args)
    if op.alike is not None:
        refuse_unlike(op, values)
    target = values[op.params[0]]
    if not isinstance(target, Tensor):
        raise bad_argument(op.called, op.params, op.params[0], target)
    before_write(target)
    op = _recorded_as(op, values)
    edges = []
    # Only an in-place comparison may write into integers beside a tensor that requires grad.
    if modes.grad_enabled() and op.rules and target._array.dtype.kind in "fcV":
        # The written tensor first: the edges would blame a view for the write to its base.
        if _may_be_recorded(op, values):
            check_inplace(target, twin)
        edges = _edges(op, values)
    grows = any(edge is not None for edge in edges) or bool(edges and _borrows(op, values))
    if (
        grows
        and op.params[0] in op.saves
        and any(
            e is not None
            for i, e in zip(op.differentiated, edges, strict=True)
            if i in op.wanted_by(op.params[0])
        )
    ):
        # The rule wants the value from before the write; the node keeps a copy of it.
        values = {**values, op.params[0]: _copy_of(target)}
    backend, arrays = arrays_of(op, values)
    if op.real:
        _refuse_complex(op, arrays)
    arguments = _arguments(op, values, arrays)
    _refuse_overlap(op, twin, target, values)
    array = target._array
    result = None
    if op.writes is None:
        result = _assignable(op, twin, array, _compute(op, backend, arrays, arguments))
    # What it saves is saved before the write: it may be refused, and hooks are to see it as it was.
    node = _make_node(op, values, arguments, [target], edges, inplace=True) if grows else None
    root = target if target._view is None else target._view.base
    history = root._edge

    def written() -> None:
        """The write is there: count it, and make it part of the history."""
        wrote(target, twin)
        if node is None:
            return
        results = [name for name in op.saves if name in op.outputs]
        for name in results:
            setattr(node, f"t_{name}", target._storage.stamp)
        for name in op.saves if modes.special else ():
            saved.guard(node, name)
        if seam.sink is not None:
            saved.report_node(node)
            saved.report_cuts(node, ((name, values[name]) for name in op.differentiated))
        rebase(target, node)
        for name in results if modes.state.saved_hooks else ():
            if getattr(node, f"s_{name}") is not None:
                setattr(node, f"s_{name}", saved.Packed(*modes.state.saved_hooks[-1], target, 0))

    if op.writes is not None:
        try:
            _compute(op, backend, arrays, arguments, writing=True)
        except Exception:
            raise
        except BaseException:
            wrote(target, twin)  # an interrupt: perhaps it has written
            raise
    try:
        if op.writes is None:
            array[...] = result
        written()
    except Exception:
        raise
    except BaseException:  # an interrupt, after the write: its history must not be missing
        if root._edge is history:
            written()
        raise
    return target


def _recorded_as(op: Op, values: dict[str, Any]) -> Op:
    """The op as its in-place form is recorded: see `twin` in `table.op`."""
    for twin in op.twins:
        if all(isinstance(values[name], Tensor) for name in twin.differentiated):
            return twin
    return op


def _refuse_overlap(op: Op, twin: str, target: Any, values: dict[str, Any]) -> None:
    repeated = op.repeated
    refuse_internal(target, twin, repeated(target, values) if callable(repeated) else repeated)
    for name in op.inputs[1:]:
        if name not in op.free:
            refuse_shared(target, values[name], twin, apart=op.apart)
    for name in op.lists:
        for value in values[name]:
            refuse_shared(target, value, twin, apart=op.apart)


def _assignable(op: Op, twin: str, array: Any, result: Any) -> Any:
    """A kernel's result, if shape and dtype allow that it is written into the array."""
    if op.outputs != ("result",):
        result = result[0]
    shape = getattr(result, "shape", ())
    if shape != array.shape:
        raise RuntimeError(
            f"output with shape {list(array.shape)} doesn't match the broadcast shape "
            f"{list(shape)} in {twin}"
        )
    if result.dtype != array.dtype and not _can_hold(array.dtype, result.dtype):
        raise RuntimeError(
            f"result type {dtypes.of_numpy(result.dtype).name} can't be cast to the desired output "
            f"type {dtypes.of_numpy(array.dtype).name} in {twin}"
        )
    return result


def _copy_of(tensor: Any) -> Any:
    copy = _blank(Tensor, tensor._array.copy())
    copy._store = FRESH
    copy._edge = tensor._edge
    copy._rg = tensor._rg
    return copy


__all__ = [
    "PROMOTE",
    "OpNode",
    "equip",
    "flat",
    "inplace_twin",
    "named_tuple",
    "run",
]
