"""Random tensors: of a range, normal, and of other distributions with given parameters.

The numbers differ from torch's; shapes, ranges, dtypes, errors and gradients (zero) don't.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy

from ag_visual import devices, dtypes
from ag_visual.arrays import backend as backends
from ag_visual.arrays.random import Generator as ArrayGenerator
from ag_visual.core.tensor import Tensor, from_array
from ag_visual.devices import device as Device
from ag_visual.dispatch import vmap
from ag_visual.dispatch.arguments import checked, kind_named
from ag_visual.dispatch.dims import broadcast
from ag_visual.dispatch.out_argument import into, made_into
from ag_visual.dispatch.record import ELEMENTWISE, ErrorSample, Sample
from ag_visual.dispatch.table import function, op
from ag_visual.ops.tensor.cast import dtype_of
from ag_visual.ops.tensor.creation import like
from ag_visual.ops.tensor.generator import source_of
from ag_visual.ops.tensor.make import leaf, shape_of

structural = functools.partial(op, jvp=None, holomorphic=False)


# Generators -------------------------------------------------------------------------------------


def _drawn(
    draw: Callable[[ArrayGenerator], Any], device: Any, generator: Any, requires_grad: bool
) -> Tensor:
    where = Device((devices.default or "cpu") if device is None else device)
    backend = backends.backend_for(where)
    with backend.on(where.index):
        return leaf(draw(source_of(backend, generator)), requires_grad)


def float_only(name: str, kind: dtypes.dtype) -> Any:
    if kind.category < 2:
        label = kind.scalar_name
        raise NotImplementedError(
            f"\"{name}\" not implemented for '{label}': random floating-point numbers need a "
            f"floating-point dtype, not {kind}"
        )
    return kind.np


def _floats(name: str, method: str, text: str) -> None:
    def create(
        *size: Any,
        generator: Any = None,
        out: Any = None,
        dtype: Any = None,
        layout: Any = None,
        device: Any = None,
        requires_grad: bool = False,
        pin_memory: bool = False,
        **named: Any,
    ) -> Tensor:
        if out is not None:
            again = partial(create, *size, generator=generator, **named)
            return made_into(name, out, dtype, device, again)
        if "size" in named:
            size = (named.pop("size"),)
        elif not size:
            raise TypeError(f'{name}() missing 1 required positional arguments: "size"')
        if named:
            raise TypeError(f"{name}() got an unexpected keyword argument '{next(iter(named))}'")
        shape = shape_of(name, size)
        kind = float_only(name, dtype_of(name, dtype))
        return _drawn(
            lambda source: getattr(source, method)(shape, kind), device, generator, requires_grad
        )

    def create_like(
        input: Tensor,
        *,
        generator: Any = None,
        dtype: Any = None,
        layout: Any = None,
        device: Any = None,
        requires_grad: bool = False,
        memory_format: Any = None,
    ) -> Tensor:
        def build(backend: Any, array: Any, kind: Any) -> Any:
            float_only(f"{name}_like", dtypes.of_numpy(kind))
            return getattr(source_of(backend, generator), method)(array.shape, kind)

        return like(input, f"{name}_like", build, dtype, device, requires_grad)

    create.__name__ = create.__qualname__ = name
    create.__doc__ = f"{text}, in a new tensor of a shape: `{name}(2, 3)`."
    create_like.__name__ = create_like.__qualname__ = f"{name}_like"
    create_like.__doc__ = f"{text}, with the shape, dtype and device of `input`."
    function()(create)
    function()(create_like)


_floats("rand", "rand", "Uniform random numbers in [0, 1)")
_floats("randn", "randn", "Standard normal random numbers")


def span(name: str, low: Any, high: Any) -> tuple[int, int]:
    for value in (low, high):
        if not hasattr(value, "__index__"):
            raise TypeError(f"{name}(): bounds must be int, not {type(value).__name__}")
    return int(low), int(high)


@function()
def randint(
    *args: Any,
    low: int | None = None,
    high: int | None = None,
    size: Any = None,
    generator: Any = None,
    out: Any = None,
    dtype: Any = None,
    layout: Any = None,
    device: Any = None,
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
    return _drawn(
        lambda source: source.randint(first, last, shape, kind), device, generator, requires_grad
    )


@function()
def randint_like(
    input: Tensor,
    low: int | None = None,
    high: int | None = None,
    *,
    generator: Any = None,
    dtype: Any = None,
    layout: Any = None,
    device: Any = None,
    requires_grad: bool = False,
    memory_format: Any = None,
) -> Tensor:
    """Random integers in [low, high), with the shape, dtype and device of `input`."""
    first, last = span("randint_like", *((0, low) if high is None else (low or 0, high)))

    def build(backend: Any, array: Any, kind: Any) -> Any:
        return source_of(backend, generator).randint(first, last, array.shape, kind)

    return like(input, "randint_like", build, dtype, device, requires_grad)


@function()
def randperm(
    n: int,
    *,
    generator: Any = None,
    out: Any = None,
    dtype: Any = None,
    layout: Any = None,
    device: Any = None,
    requires_grad: bool = False,
    pin_memory: bool = False,
) -> Tensor:
    """The integers below n in random order."""
    if out is not None:
        return made_into("randperm", out, dtype, device, partial(randperm, n, generator=generator))
    if n < 0:
        raise RuntimeError(f"Trying to create tensor with negative dimension {n}: [{n}]")
    kind = dtype_of("randperm", dtype, dtypes.int64).np
    return _drawn(lambda source: source.randperm(n, kind), device, generator, requires_grad)


# Distributions with parameters ------------------------------------------------------------------


def no_gradient(F: Any, g: Any) -> Any:
    return F.zeros_of(g, tuple(g.shape))


def check_std(std: Any) -> None:
    if std < 0:
        raise RuntimeError(f"normal expects std >= 0.0, but found std {std}")


def _normal(xp: Any, shape: Any, mean: Any, std: Any, kind: Any, generator: Any) -> Any:
    drawn = source_of(backends.of_namespace(xp), generator).randn(shape, kind)
    return drawn * xp.asarray(std, dtype=kind) + xp.asarray(mean, dtype=kind)


def _normal_around(xp: Any, self: Any, std: Any, generator: Any = None) -> Any:
    return _normal(xp, self.shape, self, std, self.dtype, generator)


def _normal_within(xp: Any, self: Any, mean: Any, generator: Any = None) -> Any:
    return _normal(xp, self.shape, mean, self, self.dtype, generator)


def _normal_both(xp: Any, self: Any, std: Any, generator: Any = None) -> Any:
    return _normal(xp, broadcast(self.shape, std.shape), self, std, self.dtype, generator)


def _random_op(name: str, kernel: Any, node: str, inputs: tuple[str, ...] = ("self",)) -> Any:
    """A random function of tensors, through which no gradient flows."""

    def samples(make: Any) -> Iterator[Sample]:
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
    mean: Any,
    std: Any = 1.0,
    size: Any = None,
    *,
    generator: Any = None,
    out: Any = None,
    dtype: Any = None,
    layout: Any = None,
    device: Any = None,
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
    elif std.numel() and bool((std._array < 0).any()):
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
    return _drawn(
        lambda source: source.randn(shape, kind) * kind.type(std) + kind.type(of_parts(mean, kind)),
        device,
        generator,
        requires_grad,
    )


def _poisson(xp: Any, self: Any, generator: Any = None) -> Any:
    if self.size and bool((self < 0).any()):
        raise RuntimeError("invalid Poisson rate, expected rate to be non-negative")
    return source_of(backends.of_namespace(xp), generator).poisson(self).astype(self.dtype)


def _rates(self: Any, generator: Any) -> tuple[Any]:
    _floating("poisson_cpu", self)
    return (generator,)


def _floating(name: str, array: Any) -> None:
    if array.dtype.kind not in "fV":
        label = dtypes.of_array(array).scalar_name
        raise NotImplementedError(f"\"{name}\" not implemented for '{label}'")


structural(
    "poisson",
    _poisson,
    vjp={"self": no_gradient},
    inputs=("self",),
    normalize=_rates,
    batch=vmap.random(vmap.elementwise),
    method=False,
    real_only=True,
    samples=lambda make: iter([Sample((make((3, 4), low=0.1, high=9.0),), smooth=False)]),
    errors=lambda make: iter(
        [ErrorSample((make((2,), low=-2, high=-1),), RuntimeError, "invalid Poisson rate")]
    ),
    doc="Poisson random numbers, one for each rate, in the dtype of the rates.",
)


def _binomial(xp: Any, count: Any, prob: Any, generator: Any = None) -> Any:
    if count.size and bool((count < 0).any()):
        raise RuntimeError("binomial expects count >= 0")
    if prob.size and not bool(((prob >= 0) & (prob <= 1)).all()):
        raise RuntimeError("binomial expects 0 <= prob <= 1")
    shape = broadcast(count.shape, prob.shape)
    source = source_of(backends.of_namespace(xp), generator)
    return source.binomial(count, prob, shape).astype(prob.dtype)


def _counts(count: Any, prob: Any, generator: Any) -> tuple[Any]:
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
    inputs=("count", "prob"),
    normalize=_counts,
    batch=vmap.random(vmap.elementwise),
    method=False,
    real_only=True,
    samples=lambda make: iter(
        [Sample((numpy.array([[3.0], [9.0]]), make((4,), low=0.0, high=1.0)), smooth=False)]
    ),
    errors=lambda make: iter(
        [ErrorSample((numpy.array([2.0]), numpy.array([2.0])), RuntimeError, "0 <= prob <= 1")]
    ),
    doc="How many of `count` trials succeed, each with probability `prob`, elementwise.",
)


def _chances(xp: Any, self: Any, p: Any = None, generator: Any = None) -> Any:
    source = source_of(backends.of_namespace(xp), generator)
    return source.bernoulli(self if p is None else p, self.shape).astype(self.dtype)


structural(
    "bernoulli",
    _chances,
    vjp={"self": no_gradient},
    jvp=ELEMENTWISE,
    inputs=("self",),
    normalize=lambda self, p, generator: (_chance(self, p), generator),
    real_only=True,
    batch=vmap.random(vmap.leading()),
    samples=lambda make: iter([Sample((make((3, 4), low=0.0, high=1.0),), smooth=False)]),
    errors=lambda make: iter(
        [ErrorSample((make((2,), low=2, high=3),), RuntimeError, "p_in >= 0 && p_in <= 1")]
    ),
    doc="1 with probability `self` (or p), elsewhere 0, elementwise.",
    out="casts check_overlap any_dtype",
)


def _chance(self: Any, p: Any) -> Any:
    if p is None and self.dtype.kind not in "fV":
        label = dtypes.of_array(self).scalar_name
        raise NotImplementedError(
            f"\"bernoulli\" not implemented for '{label}': probabilities are floating-point"
        )
    return p


@function(method=True)
def multinomial(
    input: Tensor,
    num_samples: int,
    replacement: bool = False,
    *,
    generator: Any = None,
    out: Any = None,
) -> Tensor:
    """Indices drawn from each row of weights, with or without replacement."""
    if out is not None:
        if isinstance(out, Tensor) and out.dtype is not dtypes.int64:
            raise RuntimeError(f"multinomial expects Long tensor out, got: {out.dtype.scalar_name}")
        again = partial(multinomial, input, num_samples, replacement, generator=generator)
        return into("multinomial", out, again, (), {})  # type: ignore[no-any-return]
    array = input._array
    backend = backends.backend_of(array)
    num_samples = checked("multinomial", "num_samples", kind_named("int"), num_samples)
    if array.ndim not in (1, 2):
        raise RuntimeError(f"prob_dist must be 1 or 2 dim\nIt has {array.ndim}.")
    if array.dtype.kind not in "fV":
        raise RuntimeError(
            "multinomial only supports floating-point dtypes for input, got: "
            f"{dtypes.of_array(array).scalar_name}"
        )
    if num_samples <= 0:
        raise RuntimeError(f"cannot sample n_sample <= 0 samples\n{num_samples} are asked for.")
    if not replacement and num_samples > array.shape[-1]:
        raise RuntimeError(
            "cannot sample n_sample > prob_dist.size(-1) samples without replacement\n"
            f"{num_samples} > {array.shape[-1]}."
        )
    xp, source = backend.xp, source_of(backend, generator)
    if bool((array < 0).any()) or not bool(xp.isfinite(array).all()):
        raise RuntimeError("probability tensor contains either `inf`, `nan` or element < 0")
    weights = array.reshape(-1, array.shape[-1]).astype(numpy.float64)
    if bool((weights.sum(axis=1) <= 0).any()):
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
    found = found.astype(numpy.int64).reshape((*array.shape[:-1], num_samples))
    return from_array(found)  # type: ignore[no-any-return]


# In place ---------------------------------------------------------------------------------------


def of_parts(mean: Any, kind: Any) -> Any:
    """A mean as torch takes it: of a complex number's parts each."""
    return mean * (1 + 1j) if kind.kind == "c" else mean
