"""The reference path of every op: interprets the record, handles everything.

`codegen` makes a fast wrapper from the same record for the common case; tests compare them.
"""

from __future__ import annotations

import collections
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy

from ag_visual import dtypes, promotion
from ag_visual.arrays import backend as backends
from ag_visual.arrays.kernels.order import copied
from ag_visual.arrays.quiet import quietly
from ag_visual.core import modes, source
from ag_visual.core.storage import FRESH
from ag_visual.core.tensor import (
    InferenceTensor,
    Tensor,
    _blank,
)
from ag_visual.dispatch import opmath
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
from ag_visual.dispatch.op_node import (
    _edges,
    _grown,
    borrows,
    link_views,
    make_node,
)
from ag_visual.dispatch.record import FLOAT, KEEP, Op
from ag_visual.errors import out_of_memory, type_name


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
        for name in op.ignored_kwargs:
            if name in kwargs:
                checked(called, name, flag, kwargs.pop(name))
        if varargs and varargs not in kwargs:
            args, kwargs[varargs] = args[:count], loose(called, varargs, args[count:])
        given = len(args)
        if given > positional and op.legacy_positional:
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
        if needed <= given <= positional and kwargs.keys() <= op.keyword:
            values = [*args, *defaults[given:]]
            for name, value in kwargs.items():
                values[names.index(name)] = value
            return values
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
    shown = "input" if name == "self" and not place and "input" not in names else name
    return TypeError(
        f"{called}(): argument '{shown}' (position {place + 1}) must be Tensor, "
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
        elif type(args[at]) in NUMPY_NUMBERS and op.policy != KEEP and name not in op.no_promotion:
            args[at] = pythons(args[at])
    return args


def _check_devices(op: Op, tensors: list[Tensor]) -> Any:
    """The backend of all tensors; 0-d CPU tensors may join any device, as in torch."""
    backend: Any = None
    first: Tensor | None = None
    for tensor in tensors:
        found = backends.backend_of(tensor._array)
        if backend is None or (backend is not found and tensor._array.ndim > 0):
            if first is not None and first._array.ndim > 0:
                raise RuntimeError(
                    f"{op.public_name}(): Expected all tensors to be on the same device, but found "
                    f"at least two devices, {first.device} and {tensor.device}. Move one with "
                    ".to(device)."
                )
            backend, first = found, tensor
    return backend


def promoted(op: Op, values: dict[str, Any]) -> dtypes.dtype:
    """The dtype in which a promoting op computes."""
    operands = []
    for name in op.inputs:
        value = values[name]
        if name in op.no_promotion:
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
        elif op.policy == KEEP or name in op.no_promotion or not isinstance(value, NUMBERS):
            raise bad_argument(op.public_name, op.params, name, value)
    for name in op.lists:
        items = values[name]
        if isinstance(items, Tensor) or not isinstance(items, (tuple, list)):
            raise no_list(op.public_name, name, op.params.index(name), items)
        for i, item in enumerate(items):
            if isinstance(item, Tensor):
                tensors.append(item)
            elif item is not None or not op.inputs:  # of indices, None leaves a dimension alone
                raise no_element(op.params.index(name), i, item)
    if not tensors and op.inputs:
        name = next(n for n in op.inputs if n not in op.no_promotion)
        raise bad_argument(op.public_name, op.params, name, values[name])
    backend = _check_devices(op, tensors)
    target = promoted(op, values) if op.policy != KEEP else None
    arrays: dict[str, Any] = {}
    for name in op.inputs:
        value = values[name]
        if isinstance(value, Tensor):
            array = value._array
            if type(array) is not backend.array_type:
                array = backend.from_numpy(array)
            if target is not None and array.dtype != target.np and name not in op.no_promotion:
                kind = target if array.ndim else opmath.number_dtype(op, name, target)
                array = copied(backend.xp, array, kind.np)
            arrays[name] = array
        elif value is not None and target is not None:
            kind = opmath.number_dtype(op, name, target)
            arrays[name] = backend.asarray(cast_number(value, kind), dtype=kind.np)
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


def check_dtypes(op: Op, check: Callable[..., str | None], values: dict[str, Any]) -> None:
    """Raise RuntimeError, in torch's words, for dtypes that this op does not promote."""
    kinds = [v.dtype if isinstance(v := values[n], Tensor) else None for n in op.compared]
    given = list(dict.fromkeys(k for k in kinds if k is not None))
    if len(given) > 1 and (text := check(*kinds)) is not None:
        raise RuntimeError(f"{text}. Convert one of them, .to({given[0]}) or .to({given[1]}).")


def check_real(op: Op, arrays: dict[str, Any]) -> None:
    for name in op.inputs:
        kind = getattr(arrays[name], "dtype", None)
        if kind is not None and kind.kind == "c":
            raise NotImplementedError(
                f"\"{op.public_name}\" not implemented for '{dtypes.of_numpy(kind).scalar_name}': "
                "it is a function of real numbers"
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
    args = _fitted(op, op.public_name, args)
    values = dict(zip(op.params, args, strict=True))
    if op.check is not None:
        op.check(*args)
    if op.dtype_check is not None:
        check_dtypes(op, op.dtype_check, values)
    backend, arrays = arrays_of(op, values)
    if op.real_only:
        check_real(op, arrays)
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
        if op.view or op.may_donate:
            seen = values[op.params[0]]
            out._store = seen._storage if op.view else FRESH
            out._memory = seen._array if seen._memory is None else seen._memory
        else:
            out._store = FRESH
        outputs.append(out)
    # Where no output can have a history, nobody asks the inputs for theirs: some can't be followed.
    if record_grad and op.rules and _grown(op, outputs):
        edges = _edges(op, values)
        if any(edge is not None for edge in edges) or borrows(op, values):
            make_node(op, values, arguments, outputs, edges)
    if op.rules and outputs and not outputs[0]._rg and (record_grad or modes.special):
        _set_origin(op, values, outputs, record_grad)
    if op.view and kind is Tensor:
        link_views(op, values[op.params[0]], arguments, outputs)
    return _package(op, outputs)


def _set_origin(op: Op, values: dict[str, Any], outputs: list[Any], record_grad: bool) -> None:
    """Remember why results of inputs that require grad don't."""
    if not borrows(op, values):
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
    given = {**arguments, **arrays}
    narrow = opmath.sixteen(op, arrays) if op.opmath else None
    try:
        if narrow is not None:
            return quietly(opmath.invoke, op, backend.xp, given, narrow)
        result = quietly(op.invoke, backend.xp, given, writing=writing)
    except (ValueError, IndexError) as error:
        raise kernel_error(op, arrays.values(), error) from None
    except MemoryError as error:
        raise out_of_memory(error, f"{op.public_name}()") from None
    except TypeError as error:
        _check_numbers(op, arguments)
        if not any(words in str(error) for words in _NO_SUCH_TYPE):
            raise
        kind = next(dtypes.of_array(a) for a in arrays.values() if hasattr(a, "dtype"))
        text = f"\"{op.public_name}\" not implemented for '{kind.scalar_name}'"
        raise NotImplementedError(text) from None
    _check_bools(op, arrays, result)
    return _narrowed(op, arrays, result) if op.narrows else result


_NO_SUCH_TYPE = "ufunc", "numpy boolean", "Wrong type ("
"""Words of what NumPy (and CuPy, the last) says where a function has no loop for a dtype."""


def _check_bools(op: Op, arrays: dict[str, Any], result: Any) -> None:
    """NumPy has no arithmetic on bools: it makes 8-bit integers or 16-bit floats of them."""
    if getattr(result, "dtype", None) not in _OF_BOOLS or "dtype" in op.params:
        return
    given = {array.dtype for array in arrays.values() if hasattr(array, "dtype")}
    if numpy.dtype(bool) in given and result.dtype not in given:
        raise NotImplementedError(
            f"\"{op.public_name}\" not implemented for 'Bool'. "
            "Convert with .int() or .float() first."
        )


_OF_BOOLS = (numpy.dtype(numpy.int8), numpy.dtype(numpy.float16))


def _check_numbers(op: Op, arguments: dict[str, Any]) -> None:
    """Say which argument is not a number though its default is one."""
    for name, value in arguments.items():
        default = op.signature.parameters[name].default
        if isinstance(default, NUMBERS) and not isinstance(value, NUMBERS):
            place = "" if name in op.keyword else f" (position {op.params.index(name) + 1})"
            raise TypeError(
                f"{op.public_name}(): argument '{name}'{place} must be Number, "
                f"not {type_name(value)}"
            ) from None


def _narrowed(op: Op, arrays: dict[str, Any], result: Any) -> Any:
    """The result in bfloat16 when the op computes in it: NumPy widens it beside a number."""
    given = [
        getattr(a, "dtype", None)
        for n, a in arrays.items()
        if n in op.inputs and n not in op.no_promotion
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


def kernel_error(op: Op, inputs: Iterable[Any], error: Exception) -> Exception:
    """What an exception of a kernel says to users: its inputs are arrays, numbers or None."""
    trace = error.__traceback__
    if trace is not None and source.ends_in_raise(trace):
        return error  # not of the array library, but of this package: it says what it has to
    shapes = [numpy.shape(x) for x in inputs if hasattr(x, "shape") or isinstance(x, NUMBERS)]
    if op.policy != KEEP and len(shapes) > 1:
        longest = max(len(s) for s in shapes)
        padded = [(1,) * (longest - len(s)) + s for s in shapes]
        for dim in range(longest - 1, -1, -1):
            sizes = [s[dim] for s in padded if s[dim] != 1]
            if len(set(sizes)) > 1:
                return RuntimeError(
                    f"{op.public_name}(): The size of tensor a ({sizes[0]}) must match the size of "
                    f"tensor b ({sizes[1]}) at non-singleton dimension {dim}. Shapes: "
                    f"{' and '.join(str(list(s)) for s in shapes)}"
                )
    kind = IndexError if isinstance(error, IndexError) else RuntimeError
    listed = " (shapes: {})".format(", ".join(str(list(s)) for s in shapes)) if shapes else ""
    return kind(f"{op.public_name}(): {error}{listed}")


def _package(op: Op, outputs: list[Any]) -> Any:
    if op.multi:
        return tuple(outputs)
    if len(outputs) == 1:
        return outputs[0]
    return named_tuple(op.namedtuple or op.name, op.outputs)(*outputs)


# (Type checkers want to see the fields.)
_namedtuple: Callable[[str, Sequence[str]], type[tuple[Any, ...]]] = collections.namedtuple
_named: dict[tuple[str, tuple[str, ...]], Any] = {}


def _tuple(*results: Any) -> tuple[Any, ...]:
    return results


def named_tuple(name: str, fields: Sequence[str]) -> Any:
    if fields[0] == "result0":  # torch gives these no names
        return _tuple
    key = (name, tuple(fields))
    if key not in _named:
        plain = _namedtuple(name, fields)
        body = {"__slots__": (), "__module__": "torch.return_types", "__repr__": _fields_in_lines}
        _named[key] = type(name, (plain,), {**body, "__reduce__": _to_make_again})
    return _named[key]


def _again(name: str, fields: Sequence[str], values: Sequence[Any]) -> Any:
    return named_tuple(name, fields)(*values)


def _to_make_again(self: Any) -> Any:
    """For pickle and copy: the class is made when it is first asked for."""
    return _again, (type(self).__name__, self._fields, tuple(self))


def _fields_in_lines(self: Any) -> str:
    """As torch prints results with several fields."""
    fields = ",\n".join(f"{n}={v!r}" for n, v in zip(self._fields, self, strict=True))
    return f"torch.return_types.{type(self).__name__}(\n{fields})"
