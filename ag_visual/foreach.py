"""torch._foreach_*: one operation on each tensor of a list, as optimizers write them.

Results are tuples; those whose names end in _ write in place and give the list back. Each name is
made of the function of one tensor when it is first asked for, as `foreach` of its declaration says:

    unary, lerp, ternary     the lists that it takes beside the first: none, ends and weights, two
    binary                   a list or a number for all
    binary tensor            or a tensor without dimensions
    binary alpha             and the factor of the other
    binary number:clamp_min  for a number, and in place, it is another function
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

from ag_visual import dtypes, linalg
from ag_visual.core.tensor import Tensor
from ag_visual.dispatch.table import foreach, functions as F
from ag_visual.errors import type_name
from ag_visual.events.spans import OP
from ag_visual.events.timed import Span

PREFIX: Final = "_foreach_"


def _checked(name: str, tensors: Any, place: int = 1, called: str = "self") -> Sequence[Any]:
    if not isinstance(tensors, list | tuple):
        raise TypeError(
            f"{name}(): argument '{called}' (position {place}) must be tuple of Tensors, not "
            f"{type_name(tensors)}"
        )
    for at, tensor in enumerate(tensors):
        if not isinstance(tensor, Tensor):
            raise TypeError(
                f"expected Tensor as element {at} in argument {place - 1}, but got "
                f"{type_name(tensor)}"
            )
    if not tensors:
        raise RuntimeError("Tensor list must have at least one tensor.")
    return tensors


def _paired(tensors: Sequence[Any], others: Any) -> Sequence[Any]:
    """Something for each tensor: a list of tensors or numbers, or one for all."""
    if not isinstance(others, list | tuple):
        return [others] * len(tensors)
    if len(others) != len(tensors):
        if others and isinstance(others[0], Tensor):
            raise RuntimeError(
                "Tensor lists must have the same number of tensors, got "
                f"{len(tensors)} and {len(others)}"
            )
        raise RuntimeError("Tensor list must have same number of elements as scalar list.")
    return others


def _rounded(tensor: Any, number: Any) -> Any:
    """A number in the 16 bits of a tensor; anything else is as it was."""
    narrow = tensor.dtype in (dtypes.float16, dtypes.bfloat16) and isinstance(number, float)
    return tensor.new_tensor(number) if narrow else number


def _called(name: str, written: bool, of_number: str) -> Callable[..., Any]:
    """The function of one tensor, or the one that writes into it."""
    suffix = "_" if written else ""

    def call(tensor: Any, *args: Any, **kwargs: Any) -> Any:
        known = name
        if written or not isinstance(args[0] if args else None, Tensor):
            known = of_number
        return getattr(tensor, known + suffix)(*args, **kwargs)

    return call


def _of_lists(name: str, written: bool) -> Callable[..., Any]:
    kind, *words = foreach[name].split()
    other_name = next((each.partition(":")[2] for each in words if ":" in each), name)
    one, public = _called(name, written, other_name), f"{PREFIX}{name}{'_' * written}"

    def unary(self: Any) -> Any:
        return [one(t) for t in _checked(public, self)]

    def binary(self: Any, other: Any, *, alpha: Any = 1) -> Any:
        if name == "pow" and not isinstance(self, list | tuple):
            return [F["pow"](self, t) for t in _checked(public, other, 2, "exponent")]
        if isinstance(other, Tensor) and (other.dim() or "tensor" not in words):
            raise RuntimeError(
                f"{public}(): 'other' should be a number, a list or a tensor without dimensions, "
                f"but has shape {tuple(other.shape)}"
            )
        scale = {} if alpha == 1 or "alpha" not in words else {"alpha": alpha}
        tensors = _checked(public, self)
        others = _paired(tensors, other)
        if written and name == "mul":  # torch's first factor is the number: it is rounded first
            others = [_rounded(t, o) for t, o in zip(tensors, others, strict=True)]
        return [one(t, o, **scale) for t, o in zip(tensors, others, strict=True)]

    def ternary(self: Any, tensor1: Any, tensor2: Any, value: Any = 1, **named: Any) -> Any:
        tensors = _checked(public, self)
        given = named.get("scalars", value)
        if isinstance(given, Tensor):
            given = given.tolist() if given.dim() else given.item()
        lists = (_paired(tensors, each) for each in (tensor1, tensor2, given))
        return [one(t, a, b, value=v) for t, a, b, v in zip(tensors, *lists, strict=True)]

    def lerp(self: Any, tensors1: Any, weight: Any) -> Any:
        tensors = _checked(public, self)
        lists = (_paired(tensors, each) for each in (tensors1, weight))
        return [one(t, end, w) for t, end, w in zip(tensors, *lists, strict=True)]

    made: dict[str, Callable[..., Any]] = {
        "unary": unary,
        "binary": binary,
        "ternary": ternary,
        "lerp": lerp,
    }
    return made[kind]


def _copied(self: Any, src: Any, non_blocking: bool = False) -> Any:
    tensors = _checked(f"{PREFIX}copy_", self)
    return [t.copy_(s) for t, s in zip(tensors, _paired(tensors, src), strict=True)]


def _normed(self: Any, ord: Any = 2, dtype: Any = None) -> Any:
    return [linalg.vector_norm(t, ord, dtype=dtype) for t in _checked(f"{PREFIX}norm", self)]


def _power_sums(self: Any, ord: Any = 2, dtype: Any = None) -> Any:
    tensors = _checked(f"{PREFIX}powsum", self)
    return [(t if dtype is None else t.to(dtype)).abs().pow(ord).sum() for t in tensors]


def _products(self: Any, mat2: Any) -> Any:
    tensors = _checked(f"{PREFIX}mm", self)
    return [t.mm(m) for t, m in zip(tensors, _paired(tensors, mat2), strict=True)]


_OTHERS: Final[dict[str, Callable[..., Any]]] = {
    "clone": lambda self, **kw: [t.clone(**kw) for t in _checked(f"{PREFIX}clone", self)],
    "copy_": _copied,
    "max": lambda self: [t.max() for t in _checked(f"{PREFIX}max", self)],
    "mm": _products,
    "norm": _normed,
    "powsum": _power_sums,
    "zero_": lambda self: [t.zero_() for t in _checked(f"{PREFIX}zero_", self)],
}
NAMES: Final = frozenset(
    f"{PREFIX}{name}" for name in (*_OTHERS, *foreach, *(f"{name}_" for name in foreach))
)


def named(name: str) -> Callable[..., Any]:
    """The function of one of NAMES."""
    inner = name.removeprefix(PREFIX)
    written = inner.endswith("_")
    body = _OTHERS.get(inner) or _of_lists(inner.removesuffix("_"), written)

    def call(*args: Any, **kwargs: Any) -> Any:
        with Span(f"aten::{name}", OP, args):
            found = body(*args, **kwargs)
        return found if written else tuple(found)

    call.__name__ = call.__qualname__ = name
    call.__module__ = __name__.partition(".")[0]
    return call
