"""Random tensors: of a range, normal, and of other distributions with given parameters.

The numbers differ from torch's; shapes, ranges, dtypes, errors and gradients (zero) don't.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy

from ag_visual import devices, dtypes
from ag_visual.arrays import backend as backends
from ag_visual.arrays.random import Generator as ArrayGenerator
from ag_visual.core.level import all_values, anywhere, drawn
from ag_visual.core.tensor import Tensor
from ag_visual.devices import device as Device
from ag_visual.dispatch import vmap
from ag_visual.dispatch.arguments import checked, kind_named
from ag_visual.dispatch.dims import broadcast
from ag_visual.dispatch.dtype_errors import not_implemented
from ag_visual.dispatch.out_argument import into, made_into
from ag_visual.dispatch.record import ELEMENTWISE, ErrorSample, Sample
from ag_visual.dispatch.table import function, op
from ag_visual.errors import type_name
from ag_visual.ops.tensor.cast import dtype_of
from ag_visual.ops.tensor.generator import source_of
from ag_visual.ops.tensor.make import checked_leaf, shape_of, size_of

structural = functools.partial(op, jvp=None, holomorphic=False)


# Generators -------------------------------------------------------------------------------------


def _drawn(
    shape: tuple[int, ...],
    draw: Callable[[ArrayGenerator, tuple[int, ...]], Any],
    device,
    generator,
    requires_grad: bool,
) -> Tensor:
    """A leaf of random numbers: `draw(source, shape)`, with the batches of open levels in front."""
    where = Device((devices.default or "cpu") if device is None else device)
    backend = backends.backend_for(where)

    def array(whole: tuple[int, ...]) -> Any:
        return checked_leaf(draw(source_of(backend, generator), whole), requires_grad)

    with backend.on(where.index):
        result: Tensor = drawn(shape, array)
    return result._require_grad(True) if requires_grad else result


def float_only(name: str, kind: dtypes.dtype):
    if kind.category < 2:
        more = f": random floating-point numbers need a floating-point dtype, not {kind}"
        raise not_implemented(name, kind, more)
    return kind.np


def _model_of(
    name: str, input: Tensor, dtype: Any, device: Any
) -> tuple[tuple[int, ...], dtypes.dtype, Any]:
    """Shape, dtype and device of a tensor that is to be like another."""
    if not isinstance(input, Tensor):
        raise TypeError(
            f"{name}(): argument 'input' (position 1) must be Tensor, not {type_name(input)}"
        )
    kind = input.dtype if dtype is None else dtype_of(name, dtype)
    return tuple(input.shape), kind, input.device if device is None else device


def _floats(name: str, text: str) -> None:
    def drawing(kind: numpy.dtype[Any]) -> Callable[..., Any]:
        return lambda source, whole: getattr(source, name)(whole, kind)

    def create(
        *size,
        generator=None,
        out=None,
        dtype=None,
        layout=None,
        device=None,
        requires_grad: bool = False,
        pin_memory: bool = False,
        **named,
    ) -> Tensor:
        if out is not None:
            again = partial(create, *size, generator=generator, **named)
            return made_into(name, out, dtype, device, again)
        shape = size_of(name, size, named)
        kind = float_only(name, dtype_of(name, dtype))
        return _drawn(shape, drawing(kind), device, generator, requires_grad)

    def create_like(
        input: Tensor,
        *,
        generator=None,
        dtype=None,
        layout=None,
        device=None,
        requires_grad: bool = False,
        memory_format=None,
    ) -> Tensor:
        shape, model, device = _model_of(f"{name}_like", input, dtype, device)
        kind = float_only(f"{name}_like", model)
        return _drawn(shape, drawing(kind), device, generator, requires_grad)

    create.__name__ = create.__qualname__ = name
    create.__doc__ = f"{text}, in a new tensor of a shape: `{name}(2, 3)`."
    create_like.__name__ = create_like.__qualname__ = f"{name}_like"
    create_like.__doc__ = f"{text}, with the shape, dtype and device of `input`."
    function()(create)
    function()(create_like)


_floats("rand", "Uniform random numbers in [0, 1)")
_floats("randn", "Standard normal random numbers")


def _integers(first: int, last: int, shape: tuple[int, ...], kind, *where) -> Tensor:
    return _drawn(shape, lambda source, whole: source.randint(first, last, whole, kind), *where)


def span(name: str, low, high) -> tuple[int, int]:
    for value in (low, high):
        if not hasattr(value, "__index__"):
            raise TypeError(f"{name}(): bounds must be int, not {type(value).__name__}")
    return int(low), int(high)


@function()
def randint(
    *args,
    low: int | None = None,
    high: int | None = None,
    size=None,
    generator=None,
    out=None,
    dtype=None,
    layout=None,
    device=None,
    requires_grad: bool = False,
) -> Tensor:
    """Random integers in [low, high): `randint(high, size)` or `randint(low, high, size)`."""
    if out is not None:
        again = partial(randint, *args, low=low, high=high, size=size, generator=generator)
        return made_into("randint", out, dtype, device, again)
    given = list(args)
    if size is None:
        if not given:
            raise TypeError('randint() missing required argument: "size"')
        size = given.pop()
    if high is None:
        if not given:
            raise TypeError('randint() missing required argument: "high"')
        high = given.pop()
    if given:
        low = given.pop()
    if not isinstance(size, (tuple, list)):
        raise TypeError(
            f"randint(): argument 'size' must be tuple of ints, not {type(size).__name__}"
        )
    first, last = span("randint", 0 if low is None else low, high)
    shape = shape_of("randint", (size,))
    kind = dtype_of("randint", dtype, dtypes.int64).np
    return _integers(first, last, shape, kind, device, generator, requires_grad)


@function()
def randint_like(
    input: Tensor,
    low: int | None = None,
    high: int | None = None,
    *,
    generator=None,
    dtype=None,
    layout=None,
    device=None,
    requires_grad: bool = False,
    memory_format=None,
) -> Tensor:
    """Random integers in [low, high), with the shape, dtype and device of `input`."""
    first, last = span("randint_like", *((0, low) if high is None else (low or 0, high)))

    shape, kind, device = _model_of("randint_like", input, dtype, device)
    return _integers(first, last, shape, kind.np, device, generator, requires_grad)


@function()
def randperm(
    n: int,
    *,
    generator=None,
    out=None,
    dtype=None,
    layout=None,
    device=None,
    requires_grad: bool = False,
    pin_memory: bool = False,
) -> Tensor:
    """The integers below n in random order."""
    if out is not None:
        return made_into("randperm", out, dtype, device, partial(randperm, n, generator=generator))
    if n < 0:
        raise RuntimeError(f"Trying to create tensor with negative dimension {n}: [{n}]")
    kind = dtype_of("randperm", dtype, dtypes.int64).np

    def draw(source: ArrayGenerator, whole: tuple[int, ...]) -> Any:
        if len(whole) == 1:
            return source.randperm(n, kind)
        rows = [source.randperm(n, kind) for _ in range(math.prod(whole[:-1]))]
        return source.backend.xp.stack(rows).reshape(whole)

    return _drawn((n,), draw, device, generator, requires_grad)


# Distributions with parameters ------------------------------------------------------------------


def no_gradient(F, g):
    return F.zeros_of(g, tuple(g.shape))


def check_std(std) -> None:
    if std < 0:
        raise RuntimeError(f"normal expects std >= 0.0, but found std {std}")


def _normal(xp, shape, mean, std, kind, generator):
    drawn = source_of(backends.of_namespace(xp), generator).randn(shape, kind)
    return drawn * xp.asarray(std, dtype=kind) + xp.asarray(mean, dtype=kind)


def _normal_around(xp, self, std, generator=None):
    return _normal(xp, self.shape, self, std, self.dtype, generator)


def _normal_within(xp, self, mean, generator=None):
    return _normal(xp, self.shape, mean, self, self.dtype, generator)


def _normal_both(xp, self, std, generator=None):
    return _normal(xp, broadcast(self.shape, std.shape), self, std, self.dtype, generator)


def _random_op(name: str, kernel, node: str, inputs: tuple[str, ...] = ("self",)):
    """A random function of tensors, through which no gradient flows."""

    def samples(make):
        other = make((3, 1), low=0.5, high=1.0) if len(inputs) > 1 else 0.7
        yield Sample((make((3, 4), low=0.5, high=1.0), other), smooth=False)

    return structural(
        name,
        kernel,
        vjp=dict.fromkeys(inputs, no_gradient),
        inputs=inputs,
        public=False,
        public_name="normal",
        jvp=ELEMENTWISE,
        batch=vmap.random(vmap.elementwise),
        node=node,
        real_only=name != "normal_around",  # a mean may be complex, a deviation not
        samples=samples,
    )


_around = _random_op("normal_around", _normal_around, "NormalBackward1")
_within = _random_op("normal_within", _normal_within, "NormalBackward2")
_both = _random_op("normal_both", _normal_both, "NormalBackward3", ("self", "std"))


@function()
def normal(
    mean,
    std=1.0,
    size=None,
    *,
    generator=None,
    out=None,
    dtype=None,
    layout=None,
    device=None,
    requires_grad: bool = False,
) -> Tensor:
    """Normal random numbers: one per element of the tensors mean and/or std, or a shape of them."""
    if out is not None:
        again = partial(normal, mean, std, size, generator=generator)
        if isinstance(mean, Tensor) or isinstance(std, Tensor):
            return into("normal", out, again, (), {}, True)  # type: ignore[no-any-return]
        return made_into("normal", out, dtype, device, again)
    if not isinstance(std, Tensor):
        check_std(std)
    elif std.numel() and anywhere(all_values(std) < 0):
        raise RuntimeError("normal expects all elements of std >= 0.0")
    if isinstance(mean, Tensor):
        if isinstance(std, Tensor):
            return _both.call(mean, std, generator)  # type: ignore[no-any-return]
        return _around.call(mean, std, generator)  # type: ignore[no-any-return]
    if isinstance(std, Tensor):
        return _within.call(std, mean, generator)  # type: ignore[no-any-return]
    if size is None:
        raise TypeError('normal() missing required argument: "size" (mean and std are numbers)')
    shape = shape_of("normal", (size,))
    kind = float_only("normal", dtype_of("normal", dtype))
    scale, centre = kind.type(std), kind.type(of_parts(mean, kind))
    return _drawn(
        shape,
        lambda source, whole: source.randn(whole, kind) * scale + centre,
        device,
        generator,
        requires_grad,
    )


def _poisson(xp, self, generator=None):
    if self.size and bool((self < 0).any()):
        raise RuntimeError("invalid Poisson rate, expected rate to be non-negative")
    return source_of(backends.of_namespace(xp), generator).poisson(self).astype(self.dtype)


def _rates(self, generator) -> tuple[Any]:
    _floating("poisson_cpu", self)
    return (generator,)


def _floating(name: str, array) -> None:
    if array.dtype.kind not in "fV":
        raise not_implemented(name, dtypes.of_array(array))


structural(
    "poisson",
    _poisson,
    vjp={"self": no_gradient},
    jvp=ELEMENTWISE,
    normalize=_rates,
    batch=vmap.random(vmap.elementwise),
    method=False,
    real_only=True,
    samples=lambda make: [Sample((make((3, 4), low=0.1, high=9.0),), smooth=False)],
    errors=lambda make: [
        ErrorSample((make((2,), low=-2, high=-1),), RuntimeError, "invalid Poisson rate")
    ],
    doc="Poisson random numbers, one for each rate, in the dtype of the rates.",
)


def _binomial(xp, count, prob, generator=None):
    if count.size and bool((count < 0).any()):
        raise RuntimeError("binomial expects count >= 0")
    if prob.size and not bool(((prob >= 0) & (prob <= 1)).all()):
        raise RuntimeError("binomial expects 0 <= prob <= 1")
    shape = broadcast(count.shape, prob.shape)
    source = source_of(backends.of_namespace(xp), generator)
    return source.binomial(count, prob, shape).astype(prob.dtype)


def _counts(count, prob, generator) -> tuple[Any]:
    _floating("binomial_cpu", count)
    if count.dtype != prob.dtype:
        raise RuntimeError(
            f"binomial: expected count and prob of one dtype, got {dtypes.of_array(count)} and "
            f"{dtypes.of_array(prob)}"
        )
    return (generator,)


structural(
    "binomial",
    _binomial,
    vjp={"count": no_gradient, "prob": no_gradient},
    aten="aten::binomial",
    normalize=_counts,
    batch=vmap.random(vmap.elementwise),
    method=False,
    real_only=True,
    samples=lambda make: [
        Sample((numpy.array([[3.0], [9.0]]), make((4,), low=0.0, high=1.0)), smooth=False)
    ],
    errors=lambda make: [
        ErrorSample((numpy.array([2.0]), numpy.array([2.0])), RuntimeError, "0 <= prob <= 1")
    ],
    doc="How many of `count` trials succeed, each with probability `prob`, elementwise.",
)


def _chances(xp, self, p=None, generator=None):
    source = source_of(backends.of_namespace(xp), generator)
    return source.bernoulli(self if p is None else p, self.shape).astype(self.dtype)


structural(
    "bernoulli",
    _chances,
    vjp={"self": no_gradient},
    jvp=ELEMENTWISE,
    normalize=lambda self, p, generator: (_chance(self, p), generator),
    real_only=True,
    batch=vmap.random(vmap.leading()),
    samples=lambda make: [Sample((make((3, 4), low=0.0, high=1.0),), smooth=False)],
    errors=lambda make: [
        ErrorSample((make((2,), low=2, high=3),), RuntimeError, "p_in >= 0 && p_in <= 1")
    ],
    doc="1 with probability `self` (or p), elsewhere 0, elementwise.",
    out="casts check_overlap any_dtype",
)


def _chance(self, p):
    if p is None and self.dtype.kind not in "fV":
        kind = dtypes.of_array(self)
        raise not_implemented("bernoulli", kind, ": probabilities are floating-point")
    return p


def _check_weights(self: Any, num_samples: int, replacement: bool, generator: Any) -> Any:
    if self.ndim not in (1, 2):
        raise RuntimeError(f"prob_dist must be 1 or 2 dim\nIt has {self.ndim}.")
    if self.dtype.kind not in "fV":
        raise RuntimeError(
            "multinomial only supports floating-point dtypes for input, got: "
            f"{dtypes.of_array(self).scalar_name}"
        )
    if num_samples <= 0:
        raise RuntimeError(f"cannot sample n_sample <= 0 samples\n{num_samples} are asked for.")
    if not replacement and num_samples > self.shape[-1]:
        raise RuntimeError(
            "cannot sample n_sample > prob_dist.size(-1) samples without replacement\n"
            f"{num_samples} > {self.shape[-1]}."
        )
    return num_samples, replacement, generator


def _multinomial(
    xp: Any, self: Any, num_samples: int, replacement: bool = False, generator: Any = None
) -> Any:
    source = source_of(backends.of_namespace(xp), generator)
    if bool((self < 0).any()) or not bool(xp.isfinite(self).all()):
        raise RuntimeError("probability tensor contains either `inf`, `nan` or element < 0")
    weights = self.reshape(-1, self.shape[-1]).astype(numpy.float64)
    if source.backend.has_values and bool((weights.sum(axis=1) <= 0).any()):
        raise RuntimeError("invalid multinomial distribution (sum of probabilities <= 0)")
    if replacement:
        steps = weights.cumsum(axis=1)
        drawn = source.rand((*steps.shape[:1], num_samples), numpy.dtype(numpy.float64))
        at = (drawn * steps[:, -1:])[:, :, None] >= steps[:, None, :]
        found = at.sum(axis=-1)
    else:
        # The largest of weight ** (1 / u): a draw without replacement (Efraimidis and Spirakis).
        drawn = 1.0 - source.rand(weights.shape, numpy.dtype(numpy.float64))
        with numpy.errstate(divide="ignore"):
            keys = xp.where(weights > 0, -xp.log(drawn) / weights, xp.inf)
        found = xp.argsort(keys, axis=1)[:, :num_samples]
    return found.astype(numpy.int64).reshape((*self.shape[:-1], num_samples))


_choices = structural(
    "multinomial_of",
    _multinomial,
    inputs=("self",),
    public=False,
    public_name="multinomial",
    normalize=_check_weights,
    batch=vmap.random(vmap.folded("self", least=2)),
    real_only=True,
    oracle="multinomial",
    samples=lambda make: iter([Sample((make((3, 4), low=0.1, high=1.0), 2, True), smooth=False)]),
)


@function(method=True)
def multinomial(
    input: Tensor, num_samples: int, replacement: bool = False, *, generator=None, out=None
) -> Tensor:
    """Indices drawn from each row of weights, with or without replacement."""
    if out is not None:
        if isinstance(out, Tensor) and out.dtype is not dtypes.int64:
            raise RuntimeError(f"multinomial expects Long tensor out, got: {out.dtype.scalar_name}")
        again = partial(multinomial, input, num_samples, replacement, generator=generator)
        return into("multinomial", out, again, (), {})  # type: ignore[no-any-return]
    count = checked("multinomial", "num_samples", kind_named("int"), num_samples)
    return _choices.call(input, count, replacement, generator)  # type: ignore[no-any-return]


def of_parts(mean, kind):
    """A mean as torch takes it: of a complex number's parts each."""
    return mean * (1 + 1j) if kind.kind == "c" else mean
