"""Tensors that are filled with random numbers in place."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import numpy

from ag_visual import dtypes
from ag_visual.arrays import backend as backends
from ag_visual.core import modes
from ag_visual.core.tensor import Tensor
from ag_visual.dispatch import vmap
from ag_visual.dispatch.record import ELEMENTWISE, Sample
from ag_visual.dispatch.table import ops
from ag_visual.ops.tensor.cast import cast_array
from ag_visual.ops.tensor.generator import source_of
from ag_visual.ops.tensor.random import (
    _normal,
    check_std,
    float_only,
    no_gradient,
    of_parts,
    span,
    structural,
)


def _fill(name: str, write, node: str, called: str, *given: float, real: bool = True):
    """An in-place random fill: `write(xp, self, ...)`; what was there gets no gradient."""

    def kernel(xp, self, *args):
        result = xp.empty_like(self)
        write(xp, result, *args)
        return result

    kernel.__signature__ = inspect.signature(write)  # type: ignore[attr-defined]
    return structural(
        name,
        kernel,
        vjp={"self": no_gradient},
        inplace=write,
        public=False,
        public_name=called,
        jvp=ELEMENTWISE,
        batch=vmap.random(vmap.leading(), vmap.drawn_once),
        node=node,
        real_only=real,
        samples=lambda make: [Sample((make((3, 4)), *given, None), smooth=False)],
        doc=f"Random numbers ({called.replace('_', '-')}) in place of what was there.",
    )


def _method(name: str, body: Callable[..., Any]) -> None:
    body.__name__ = body.__qualname__ = name
    setattr(Tensor, name, body)


def _normal_into(xp, self, mean, std, generator) -> None:
    self[...] = _normal(xp, self.shape, of_parts(mean, self.dtype), std, self.dtype, generator)


def _uniform_into(xp, self, low, high, generator) -> None:
    drawn = source_of(backends.of_namespace(xp), generator).rand(self.shape, self.dtype)
    self[...] = drawn * self.dtype.type(high - low) + self.dtype.type(low)


def _exponential_into(xp, self, lambd, generator) -> None:
    drawn = source_of(backends.of_namespace(xp), generator).rand(self.shape, self.dtype)
    self[...] = -xp.log1p(-drawn) / self.dtype.type(lambd)


def _log_normal_into(xp, self, mean, std, generator) -> None:
    self[...] = xp.exp(_normal(xp, self.shape, mean, std, self.dtype, generator))


def _cauchy_into(xp, self, median, sigma, generator) -> None:
    drawn = source_of(backends.of_namespace(xp), generator).rand(self.shape, self.dtype)
    self[...] = self.dtype.type(median) + self.dtype.type(sigma) * xp.tan(numpy.pi * (drawn - 0.5))


def _geometric_into(xp, self, p, generator) -> None:
    kind = numpy.dtype(numpy.float64)
    drawn = source_of(backends.of_namespace(xp), generator).rand(self.shape, kind)
    trials = xp.asarray(xp.floor(xp.log1p(-drawn) / numpy.log1p(-p)) + 1)
    self[...] = cast_array(trials, self.dtype)


def _random_into(xp, self, low: int, high: int, generator) -> None:
    source = source_of(backends.of_namespace(xp), generator)
    self[...] = source.randint(low, high, self.shape, self.dtype)


def _bernoulli_into(xp, self, p, generator) -> None:
    source = source_of(backends.of_namespace(xp), generator)
    self[...] = source.bernoulli(p, self.shape)


_normal_fill = _fill("normal_fill", _normal_into, "NormalBackward0", "normal", 0.5, 2.0, real=False)
_uniform_fill = _fill("uniform_fill", _uniform_into, "UniformBackward0", "uniform", -1.0, 2.0)
_exponential_fill = _fill(
    "exponential_fill", _exponential_into, "ExponentialBackward0", "exponential", 1.5
)
_log_normal_fill = _fill(
    "log_normal_fill", _log_normal_into, "LogNormalBackward0", "log_normal", 0.1, 0.5
)
_cauchy_fill = _fill("cauchy_fill", _cauchy_into, "CauchyBackward0", "cauchy", 0.5, 1.5)
_geometric_fill = _fill("geometric_fill", _geometric_into, "GeometricBackward0", "geometric", 0.3)
_bernoulli_fill = _fill("bernoulli_fill", _bernoulli_into, "BernoulliBackward2", "bernoulli", 0.4)
_random_fills = [
    _fill(f"random_fill{i}", _random_into, f"RandomBackward{i}", "random", 2, 9) for i in range(3)
]


def _normal_(self: Tensor, mean: float = 0.0, std: float = 1.0, *, generator=None) -> Tensor:
    """Fill with normal random numbers."""
    float_only("normal_", self.dtype)
    check_std(std)
    return _normal_fill.write(self, mean, std, generator)  # type: ignore[no-any-return]


# `from` is a keyword of Python: torch's name of the bound can only be passed by position here.
def _uniform_(
    self: Tensor, low: float = 0.0, to: float = 1.0, *, generator=None, **named
) -> Tensor:
    """Fill with random numbers from [low, to)."""
    low = named.pop("from", low)
    if named:
        raise TypeError(f"uniform_() got an unexpected keyword argument '{next(iter(named))}'")
    float_only("uniform_", self.dtype)
    if low > to:
        raise RuntimeError(
            f"uniform_ expects to return a [from, to) range, but found from={low} > to={to}"
        )
    return _uniform_fill.write(self, low, to, generator)  # type: ignore[no-any-return]


def _exponential_(self: Tensor, lambd: float = 1.0, *, generator=None) -> Tensor:
    """Fill with exponentially distributed random numbers of rate lambd."""
    float_only("exponential_", self.dtype)
    if lambd <= 0:
        raise RuntimeError(f"exponential_ expects lambda > 0.0, but found lambda={lambd}")
    return _exponential_fill.write(self, lambd, generator)  # type: ignore[no-any-return]


def _log_normal_(self: Tensor, mean: float = 1.0, std: float = 2.0, *, generator=None) -> Tensor:
    """Fill with exp of normal random numbers."""
    float_only("log_normal_", self.dtype)
    if std <= 0:
        raise RuntimeError(f"log_normal_ expects std > 0.0, but found std={std}")
    return _log_normal_fill.write(self, mean, std, generator)  # type: ignore[no-any-return]


def _cauchy_(self: Tensor, median: float = 0.0, sigma: float = 1.0, *, generator=None) -> Tensor:
    """Fill with Cauchy random numbers."""
    float_only("cauchy_", self.dtype)
    if sigma <= 0:
        raise RuntimeError(f"cauchy_ expects sigma > 0.0, but found sigma={sigma}")
    return _cauchy_fill.write(self, median, sigma, generator)  # type: ignore[no-any-return]


def _geometric_(self: Tensor, p: float, *, generator=None) -> Tensor:
    """Fill with the number of trials until the first success."""
    if not 0 < p < 1:
        raise RuntimeError(f"geometric_ expects p to be in (0, 1), but got p={p}")
    return _geometric_fill.write(self, p, generator)  # type: ignore[no-any-return]


def _largest(kind: dtypes.dtype) -> int:
    """Up to where `random_()` draws: what the dtype counts exactly."""
    if kind.category == 0:
        return 1
    if kind.category == 1:
        return int(numpy.iinfo(kind.np).max)
    digits = {"float16": 11, "bfloat16": 8, "float32": 24}.get(kind.name, 53)
    return int(2**digits)


def _random_(self: Tensor, *bounds, generator=None, **named) -> Tensor:
    """Fill with random integers: `random_()`, `random_(to)`, `random_(from, to)`."""
    low = named.pop("from", None)
    to = named.pop("to", None)
    if named:
        raise TypeError(f"random_() got an unexpected keyword argument '{next(iter(named))}'")
    given = [b for b in (*bounds[:-1], low, to, *bounds[-1:]) if b is not None]
    if len(given) > 2:
        raise TypeError(f"random_() takes at most two bounds, got {given}")
    if not given:
        first, last = 0, min(_largest(self.dtype), 2**63 - 2) + 1
        return _random_fills[2].write(self, first, last, generator)  # type: ignore[no-any-return]
    first, last = span("random_", *((0, *given) if len(given) == 1 else given))
    if first >= last:
        raise RuntimeError(
            f"random_ expects 'from' to be less than 'to', but got from={first} >= to={last}"
        )
    record = _random_fills[1 if len(given) == 1 else 0]
    return record.write(self, first, last, generator)  # type: ignore[no-any-return]


def _bernoulli_(self: Tensor, p=0.5, *, generator=None) -> Tensor:
    """Fill with ones (with probability p, a number or a tensor) and zeros."""
    if isinstance(p, Tensor) and modes.state.levels:
        chances = p.expand(self.shape)  # type: ignore[attr-defined]
        return self.copy_(ops["bernoulli"].call(chances))  # type: ignore[attr-defined, no-any-return]
    if isinstance(p, Tensor):
        p = p._array
    elif not 0.0 <= p <= 1.0:
        raise RuntimeError(f"bernoulli_ expects p to be in [0, 1], but got p={p}")
    return _bernoulli_fill.write(self, p, generator)  # type: ignore[no-any-return]


for _name, _body in (
    ("normal_", _normal_),
    ("uniform_", _uniform_),
    ("exponential_", _exponential_),
    ("log_normal_", _log_normal_),
    ("cauchy_", _cauchy_),
    ("geometric_", _geometric_),
    ("random_", _random_),
    ("bernoulli_", _bernoulli_),
):
    _method(_name, _body)
