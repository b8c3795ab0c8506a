"""Arguments that are not tensors: what each takes follows from the annotation of its parameter.

`bool`, `int`, `float`, `DType`, `SomeDims` (one int or several), `Sizes` (several), and `| None`.
Used by the wrappers of ops and composites, and by op files for what their signatures cannot say.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy

from ag_visual import dtypes
from ag_visual.core.source import warn
from ag_visual.core.tensor import Tensor
from ag_visual.errors import type_name

SomeDims = int | tuple[int, ...]
Sizes = tuple[int, ...]
DType = dtypes.dtype
NUMPY_NAMES = {"axis": "dim", "keepdims": "keepdim"}
"""What NumPy calls them; torch's functions take either."""
NUMBERS = (bool, int, float, complex, numpy.number, numpy.bool_)
_PYTHON = {"b": bool, "i": int, "u": int, "f": float, "c": complex}
NUMPY_NUMBERS = frozenset(
    kind for kind in numpy.sctypeDict.values() if numpy.dtype(kind).kind in _PYTHON
)
"""NumPy's numbers, which no op sees: beside an array they count with the dtype that they have."""
LEFT_OUT: Any = None
"""The default of an argument that may be left out, but not be None."""


@dataclass(frozen=True, slots=True)
class Kind:
    """What an argument takes: torch's word for it, the common case as a test, and all others."""

    word: str
    odd: str
    """A condition on {p}, true for values that `fit` has to look at."""
    fit: Callable[[Any], Any]
    """The value as the op wants it, or None where it is none of the kind."""
    optional: bool = False


def _flag(value: Any) -> bool | None:
    return value if isinstance(value, bool) else None


def _whole(value: Any) -> int | None:
    if isinstance(value, (int, numpy.integer)) and not isinstance(value, bool):
        return int(value)
    if isinstance(value, Tensor) and value._array.dtype.kind in "iu" and not value._array.ndim:
        return int(value.item())
    return None


def pythons(value: Any) -> Any:
    """One of NumPy's numbers as Python's, which is as torch counts it: by its category alone."""
    return _PYTHON[value.dtype.kind](value)


def _number(value: Any) -> Any:
    if type(value) in NUMPY_NUMBERS and type(value) is not numpy.bool_:
        value = pythons(value)
    return value if isinstance(value, (bool, int, float)) else None


def _sizes(value: Any) -> tuple[int, ...] | None:
    """Like torch, which looks at the type of the first: a later True is 1."""
    if not isinstance(value, (tuple, list)):
        return None
    found = []
    for i, each in enumerate(value):
        whole = int(each) if i and isinstance(each, bool) else _whole(each)
        if whole is None:
            return None
        found.append(whole)
    return tuple(found)


def _dims(value: Any) -> Any:
    one = _whole(value)
    return one if one is not None else _sizes(value)


def _dtype(value: Any) -> Any:
    return (
        value if isinstance(value, dtypes.dtype) or value in (bool, int, float, complex) else None
    )


_PLAIN = {
    "bool": Kind("bool", "{p} is not False and {p} is not True", _flag),
    "int": Kind("int", "type({p}) is not int", _whole),
    "float": Kind("float", "type({p}) is not float and type({p}) is not int", _number),
    "SomeDims": Kind("tuple of ints", "type({p}) is not int", _dims),
    "Sizes": Kind("tuple of ints", "True", _sizes),
    "DType": Kind("torch.dtype", "type({p}) is not DType", _dtype),
}


def _or_none(kind: Kind) -> Kind:
    return Kind(kind.word, f"{{p}} is not None and {kind.odd}", kind.fit, True)


_KINDS = _PLAIN | {f"{name} | None": _or_none(kind) for name, kind in _PLAIN.items()}


def kind_named(annotation: str) -> Kind:
    """The kind of an annotation, for a body that takes other things in that place, too."""
    return _KINDS[annotation]


def kind_of(parameter: inspect.Parameter) -> Kind | None:
    """What a parameter's annotation says of its values; None where it says nothing."""
    return _KINDS.get(parameter.annotation)


def may_be_left_out(parameter: inspect.Parameter) -> bool:
    """Whether an argument may be left out, but not be None: `dim: int = LEFT_OUT`."""
    kind = kind_of(parameter)
    return kind is not None and not kind.optional and parameter.default is LEFT_OUT


def wrong_type(called: str, name: str, word: str, value: Any) -> TypeError:
    """That an argument is of another type, in torch's words."""
    given = type_name(value)
    if isinstance(value, (numpy.ndarray, numpy.generic)):
        given = f"numpy.{given}"
    elif isinstance(value, (tuple, list)) and word == "tuple of ints":
        at, bad = next((i, x) for i, x in enumerate(value) if _whole(x) is None)
        return TypeError(
            f"{called}(): argument '{name}' must be {word}, but found element of type "
            f"{type_name(bad)} at pos {at}: {value!r}"
        )
    value = f": {value!r}" if isinstance(value, (bool, int, float, complex, str)) else ""
    return TypeError(f"{called}(): argument '{name}' must be {word}, not {given}{value}")


def no_list(called: str, name: str, at: int, value: Any) -> TypeError:
    """That an argument is no sequence of tensors."""
    return TypeError(
        f"{called}(): argument '{name}' (position {at + 1}) must be tuple of Tensors, not "
        f"{type_name(value)}"
    )


def no_element(at: int, i: int, value: Any) -> TypeError:
    """That an element of a sequence of tensors is none."""
    return TypeError(f"expected Tensor as element {i} in argument {at}, but got {type_name(value)}")


def tensors_of(called: str, values: Any, name: str = "tensors") -> tuple[Any, ...]:
    """A sequence of tensors (or of arrays, on the raw namespace) as a tuple."""
    if not isinstance(values, (tuple, list)):
        raise no_list(called, name, 0, values)
    for i, each in enumerate(values):
        if not isinstance(each, Tensor) and (each is None or isinstance(each, (*NUMBERS, str))):
            raise no_element(0, i, each)
    return tuple(values)


def plain_number(called: str, name: str, value: Any) -> Any:
    """The number in a 0-d tensor, or in NumPy's, for an argument that takes no gradient."""
    if type(value) in NUMPY_NUMBERS:
        return pythons(value)
    if value._array.ndim == 0 and not value.requires_grad:
        return value.item()
    why = (
        "no gradient flows to it: pass its .item() or .detach()"
        if value._array.ndim == 0
        else f"it has the shape {list(value.shape)}"
    )
    raise TypeError(f"{called}(): argument '{name}' must be Number, not {type_name(value)} ({why})")


def checked(called: str, name: str, kind: Kind, value: Any) -> Any:
    """A value of an argument as the op wants it."""
    if value is None and kind.optional:
        return None
    found = kind.fit(value)
    if found is None and isinstance(value, Tensor) and kind.word == "float":
        return plain_number(called, name, value)
    if found is None:
        raise wrong_type(called, name, kind.word, value)
    return found


_NOTHING = object()


def one_by_one(called: str, p: inspect.Parameter, values: Any, named: dict[str, Any]) -> Any:
    """What a method was given for its last parameter: ints one by one, a tuple, or by name."""
    for theirs, ours in NUMPY_NAMES.items():
        if theirs in named and ours == p.name and ours not in named:
            named[ours] = named.pop(theirs)
    kind = _KINDS[p.annotation]
    given = named.pop(p.name) if p.name in named and not values else _NOTHING
    if named:
        bad = next(iter(named))
        why = "multiple values for" if bad == p.name else "an unexpected keyword"
        raise TypeError(f"{called}() got {why} argument '{bad}'")
    if given is not _NOTHING:
        return checked(called, p.name, kind, given)
    if not values and p.default is not p.empty:
        return p.default
    if len(values) == 1 and kind.fit is _dims:
        return checked(called, p.name, kind, values[0])
    return loose(called, p.name, values)


def loose(called: str, name: str, values: tuple[Any, ...]) -> tuple[int, ...]:
    """(2, 3) from either f(2, 3) or f((2, 3)), where a method takes its sizes one by one."""
    if not values:
        raise TypeError(f'{called}() missing 1 required positional arguments: "{name}"')
    if len(values) > 1 and isinstance(values[0], (tuple, list)):
        raise TypeError(
            f"{called}() takes 1 positional argument but {len(values)} were given: give '{name}' "
            "as one tuple, or its ints one by one"
        )
    one = values[0]
    given = one if len(values) == 1 and isinstance(one, (tuple, list)) else values
    for each in given:
        if type(each) is not int:
            break
    else:
        return tuple(given)
    found = _sizes(given)
    if found is None:
        raise wrong_type(called, name, "tuple of ints", one if len(values) == 1 else given)
    return found


def older(
    called: str, op: Any, args: tuple[Any, ...], named: dict[str, Any]
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """The call `x.add(2, y)` of old programs as it is written today: `x.add(y, alpha=2)`."""
    tensors = len(op.params) - len(op.legacy_positional)
    extra = len(args) - tensors
    at = [i for i, each in enumerate(args) if not isinstance(each, Tensor)][:extra]
    if len(at) < extra or extra > len(op.legacy_positional) or any(i > extra for i in at):
        raise TypeError(
            f"{called}() takes {tensors} positional arguments but {len(args)} were given; "
            f"name {' and '.join(op.legacy_positional)}"
        )
    factors = dict(zip(op.legacy_positional, (args[i] for i in at), strict=False))
    others = ", ".join(f"Tensor {name}" for name in op.params[1:tensors])
    factors_now = "".join(f", Number {name} = 1" for name in op.legacy_positional)
    warn(
        f"This overload of {called} is deprecated:\n\t{called}(Number "
        f"{', Number '.join(factors)}, {others})\nConsider using one of the following signatures "
        f"instead:\n\t{called}({others}, *{factors_now})"
    )
    return tuple(each for i, each in enumerate(args) if i not in at), {**named, **factors}


def fitted(called: str, op: Any, values: tuple[Any, ...]) -> tuple[Any, ...]:
    """The arguments of an op, in their order, each as its kind wants it."""
    kinds = (op.kinds.get(name) for name in op.arguments)
    return tuple(
        value if kind is None else checked(called, name, kind, value)
        for name, kind, value in zip(op.arguments, kinds, values, strict=False)
    )
