"""Families of ops: from one derivative follow vjp, jvp, in-place variant, promotion and samples.

Rules leave out conjugation: for holomorphic ops the engine conjugates the incoming gradient and
the results when the output is complex (docs/notes/holomorphic-rules).
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from typing import Any

import numpy

from ag_visual import dtypes, promotion
from ag_visual.dispatch import vmap
from ag_visual.dispatch.overflow import check_overflow
from ag_visual.dispatch.record import EACH, FLOAT, LINEAR, PROMOTE, ErrorSample, Op, Sample, camel
from ag_visual.dispatch.rules import Carried, NotDifferentiable, requesting, requests_of
from ag_visual.dispatch.table import composite, op, ops


def is_complex(x: Any) -> bool:
    """Whether a rule's value, a Tensor or an array, is complex."""
    kind: str = getattr(x, "_array", x).dtype.kind
    return kind == "c"


def zeros(F: Any, x: Any) -> Any:
    """Zeros of the shape of x, without history: the derivative of a step."""
    return F.zeros_of(x, tuple(x.shape))


def zeros_like(F: Any, x: Any) -> Any:
    """The same in the order of x, where torch makes them so."""
    return F.zeros_of(x)


def number_in(number: Any, dtype: Any) -> Any:
    """A Python number as torch converts it to the dtype of an array: a fraction is cut off, a
    negative number wraps around in an unsigned dtype, and what does not fit is refused.
    """
    if dtype.kind == "b":
        return bool(number)
    if isinstance(number, complex):
        check_overflow(number, dtypes.of_numpy(dtype))
    if dtype.kind not in "iu":
        return number
    whole = int(number)
    check_overflow(whole, dtypes.of_numpy(dtype))
    return whole % (int(numpy.iinfo(dtype).max) + 1) if dtype.kind == "u" else whole


_FLAT = "It is zero almost everywhere: detach the input, or use a smooth function."


def not_differentiable(name: str, why: str = _FLAT) -> Callable[..., Any]:
    """The rule of an op that torch does not differentiate: its backward says so."""
    return NotDifferentiable(f"the derivative for '{name}' is not implemented. {why}")


def _times(derivative: Callable[..., Any], carried: str) -> Callable[..., Any]:
    """The rule `carried * derivative(...)`, asking for what the derivative asks for.

    A derivative that takes `g` itself (`g / self`) is linear in it: `carried` goes there.
    """
    requests = requests_of(derivative)
    if "g" not in requests:
        return Carried(carried, derivative)
    if carried == "g":
        return derivative
    with_tangent = functools.partial(derivative)
    return requesting(*(carried if name == "g" else name for name in requests))(with_tangent)


def _as_torch_rounds(options: dict[str, Any]) -> None:
    """The usual way of elementwise ops with 16-bit floats."""
    options.setdefault("opmath", True)
    options.setdefault("rounding", EACH)


EXACT: Any = {"opmath": False, "rounding": ""}
"""Options of an elementwise op that has nothing to round: it picks elements, or their signs."""


def unary_samples(low: float, high: float) -> Callable[[Any], Iterator[Sample]]:
    """Samples of an elementwise op on values between low and high."""

    def samples(make: Any) -> Iterator[Sample]:
        for shape in ((3, 4), (), (5,), (2, 0, 3), (2, 1, 3)):
            yield Sample((make(shape, low=low, high=high),))

    return samples


def unary(
    name: str,
    derivative: Callable[..., Any] | None,
    kernel: str | Callable[..., Any] | None = None,
    *,
    policy: str = FLOAT,
    low: float = -2.0,
    high: float = 2.0,
    **options: Any,
) -> Op:
    """An elementwise function of one tensor; `derivative` of self and/or result."""
    rules = None if derivative is None else {"self": _times(derivative, "g")}
    moves = None if derivative is None else {"self": _times(derivative, "t_self")}
    options.setdefault("inplace", True)
    options.setdefault("inplace_function", True)
    options.setdefault("samples", unary_samples(low, high))
    options.setdefault("batch", vmap.elementwise)
    options.setdefault("jvp", moves)
    _as_torch_rounds(options)
    return op(name, kernel or name, vjp=rules, policy=policy, inputs=("self",), **options)


def binary_samples(
    low: float = -2.0, high: float = 2.0, low2: float | None = None, high2: float | None = None
) -> Callable[[Any], Iterator[Sample]]:
    """Samples of a broadcasting op of two tensors, and of a tensor and a number."""
    low2 = low if low2 is None else low2
    high2 = high if high2 is None else high2

    def samples(make: Any) -> Iterator[Sample]:
        pairs = [((3, 4), (3, 4)), ((3, 4), (4,)), ((3, 1), (1, 4)), ((), (2,)), ((2, 0), (1, 1))]
        for a, b in pairs:
            yield Sample((make(a, low=low, high=high), make(b, low=low2, high=high2)))
        yield Sample((make((2, 3), low=low, high=high), round((low2 + 2 * high2) / 3, 1)))

    return samples


def pair_samples(
    low: float = -2.0, high: float = 2.0, low2: float | None = None, high2: float | None = None
) -> Callable[[Any], Iterator[Sample]]:
    """Samples of a broadcasting op of two tensors that takes no number."""

    def samples(make: Any) -> Iterator[Sample]:
        for sample in binary_samples(low, high, low2, high2)(make):
            if not isinstance(sample.args[1], float):
                yield sample

    return samples


def binary_errors(make: Any) -> Iterator[ErrorSample]:
    """Shapes that do not broadcast, and an argument that is not a tensor."""
    yield ErrorSample((make((2, 3)), make((4,))), RuntimeError, "must match the size of tensor")
    yield ErrorSample((make((2, 3)), "text"), TypeError, "must be Tensor")


def binary(
    name: str,
    d_self: Callable[..., Any] | None,
    d_other: Callable[..., Any] | None,
    kernel: str | Callable[..., Any] | None = None,
    *,
    policy: str = PROMOTE,
    **options: Any,
) -> Op:
    """A broadcasting elementwise function of two tensors, or of a tensor and a number."""
    given = {"self": d_self, "other": d_other}
    rules = {k: _times(d, "g") for k, d in given.items() if d is not None}
    moves = {k: _times(d, f"t_{k}") for k, d in given.items() if d is not None}
    options.setdefault("inplace", True)
    options.setdefault("samples", binary_samples())
    options.setdefault("batch", vmap.elementwise)
    options.setdefault("errors", binary_errors)
    options.setdefault("jvp", moves or None)
    _as_torch_rounds(options)
    if kernel is None or isinstance(kernel, str):
        options.setdefault("params", ("self", "other"))
    return op(
        name,
        kernel or name,
        vjp=rules or None,
        policy=policy,
        inputs=options.pop("inputs", ("self", "other")),
        **options,
    )


def elementwise(
    name: str,
    kernel: str | Callable[..., Any],
    derivatives: dict[str, Callable[..., Any]],
    **options: Any,
) -> Op:
    """An elementwise function of any number of tensors: one derivative for each, as in `unary`."""
    options.setdefault("policy", PROMOTE)
    options.setdefault("inputs", tuple(derivatives))
    options.setdefault("batch", vmap.elementwise)
    options.setdefault("jvp", {k: _times(d, f"t_{k}") for k, d in derivatives.items()})
    _as_torch_rounds(options)
    return op(name, kernel, vjp={k: _times(d, "g") for k, d in derivatives.items()}, **options)


def compared(name: str, kernel: str, **options: Any) -> Op:
    """A comparison: broadcasts and promotes, gives bools, has no derivative.

    Its in-place variant writes ones and zeros among numbers that may have one: it is zero.
    """
    step = {"self": _flat, "other": _flat}
    nodes = {f"{camel(name)}Backward1": step, f"{camel(name)}Backward0": {"self": _flat}}
    return binary(name, None, None, kernel, inplace_node=nodes, **EXACT, **options)


def _flat(F: Any, g: Any) -> Any:
    return zeros(F, g)


def tested(name: str, kernel: str | Callable[..., Any], **options: Any) -> Op:
    """An elementwise question: gives bools, has no derivative."""
    options.setdefault("inplace", False)
    return unary(name, None, kernel, policy="keep", **EXACT, **options)


structural = functools.partial(op, jvp=LINEAR, holomorphic=False)
"""An op that moves elements: linear, and the same for a conjugate."""
view_op = functools.partial(structural, view=True)


def promoted_with(F: Any, self: Any, *numbers: Any) -> Any:
    """`self` in the dtype it has together with Python numbers: (int tensor, 0.5) is a float."""
    if F.traced:
        rank = 2 if self._array.ndim else 1
        operands = [(promotion.scalar_dtype(x), 0) for x in numbers if x is not None]
        target = promotion.result_type((self.dtype, rank), *operands)
        if target is not self.dtype:
            return F.cast(self, target.np)
    return self


def chosen_variant(
    name: str, choose: Callable[..., str], spaces: str = "", aliases: tuple[str, ...] = ()
) -> None:
    """The in-place variant of a composite: that of the op which `choose(arguments)` names."""

    def body(F: Any, self: Any, *args: Any, **kwargs: Any) -> Any:
        return ops[choose(*args, **kwargs)].write(self, *args, **kwargs)

    body.__doc__ = f"`{name[:-1]}`, written into its first argument, which it returns."
    composite(name, spaces=spaces, aliases=aliases)(body)
