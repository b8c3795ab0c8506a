"""Every distribution with arguments of several shapes, the same for both packages."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy

import ag_visual

from ..oracle import torch

_rng = numpy.random.default_rng(0)


@dataclass(frozen=True, slots=True)
class Leaf:
    """An argument by which gradients are taken."""

    array: numpy.ndarray[Any, Any]


@dataclass(frozen=True, slots=True)
class Case:
    """One call of a distribution's class."""

    name: str
    args: tuple[Any, ...]
    named: dict[str, Any] = field(default_factory=dict)

    def make(self, t: Any) -> tuple[Any, list[Any]]:
        """The distribution, and the leaves it was made of."""
        leaves: list[Any] = []

        def value(given: Any) -> Any:
            if isinstance(given, numpy.ndarray):
                return t.tensor(given)
            if not isinstance(given, Leaf):
                return given
            leaves.append(t.tensor(given.array, requires_grad=True))
            return leaves[-1]

        args = [value(each) for each in self.args]
        named = {name: value(each) for name, each in self.named.items()}
        return getattr(t.distributions, self.name)(*args, **named), leaves


def real(*shape: int) -> Leaf:
    return Leaf(_rng.normal(size=shape))


def between(low: float, high: float) -> Callable[..., Leaf]:
    return lambda *shape: Leaf(_rng.uniform(low, high, shape))


positive, share, degrees = between(0.4, 3.0), between(0.1, 0.9), between(4.0, 9.0)


def definite(*shape: int) -> Leaf:
    root = _rng.normal(size=(*shape, shape[-1]))
    return Leaf(root @ root.swapaxes(-1, -2) + shape[-1] * numpy.eye(shape[-1]))


def triangle(*shape: int) -> Leaf:
    root = numpy.tril(_rng.normal(size=(*shape, shape[-1])))
    at = numpy.arange(shape[-1])
    root[..., at, at] = abs(root[..., at, at]) + 0.5
    return Leaf(root)


CASES: list[Case] = []


def _add(name: str, *args: Any, **named: Any) -> None:
    CASES.append(Case(name, args, named))


def _of_shape(*s: int) -> None:
    for name in ("Normal", "Laplace", "Cauchy", "VonMises", "LogNormal", "Gumbel"):
        _add(name, real(*s), positive(*s))
    for name in ("Gamma", "Beta", "InverseGamma", "Kumaraswamy", "Pareto", "Weibull"):
        _add(name, positive(*s), positive(*s))
    for name in ("Exponential", "Chi2", "Poisson", "HalfNormal", "HalfCauchy"):
        _add(name, positive(*s))
    _add("StudentT", positive(*s), real(*s), positive(*s))
    _add("Uniform", between(-2.0, 0.0)(*s), positive(*s))
    _add("FisherSnedecor", degrees(*s), degrees(*s))
    _add("GeneralizedPareto", real(*s), positive(*s), between(-0.9, 0.4)(*s))
    _add("Dirichlet", positive(*s, 3))
    _add("LogisticNormal", real(*s, 3), positive(*s, 3))
    heat = numpy.asarray(0.7)
    for kind, one, several in (("probs", share, share), ("logits", real, real)):
        for name, *first in (
            ("Bernoulli",),
            ("Geometric",),
            ("Binomial", numpy.asarray(5.0)),
            ("NegativeBinomial", positive(*s)),
            ("ContinuousBernoulli",),
            ("RelaxedBernoulli", heat),
        ):
            _add(name, *first, **{kind: one(*s)})
        for name, *first in (
            ("Categorical",),
            ("OneHotCategorical",),
            ("OneHotCategoricalStraightThrough",),
            ("Multinomial", 5),
            ("RelaxedOneHotCategorical", heat),
        ):
            _add(name, *first, **{kind: several(*s, 4)})
    _add("MultivariateNormal", real(*s, 3), definite(*s, 3))
    _add("MultivariateNormal", real(*s, 3), precision_matrix=definite(3))
    _add("MultivariateNormal", real(3), scale_tril=triangle(*s, 3))
    _add("LowRankMultivariateNormal", real(*s, 4), real(4, 2), positive(*s, 4))
    _add("Wishart", degrees(*s), definite(*s, 3))
    _add("Wishart", degrees(*s), precision_matrix=definite(3))
    _add("Wishart", degrees(*s), scale_tril=triangle(3))
    _add("LKJCholesky", 4, positive(*s))


_of_shape()
_of_shape(2, 3)
# corners: probabilities 0, 1/2 and 1, parameters up to which there is no moment, numbers alone
_add("ContinuousBernoulli", numpy.array([0.4995, 0.5, 0.2]))
_add("Bernoulli", numpy.array([0.0, 0.5, 1.0]))
_add("Categorical", numpy.array([0.0, 0.5, 0.5]))
_add("Multinomial", 3, numpy.array([0.0, 0.5, 0.5]))
_add("Geometric", numpy.array([1.0, 0.5]))
_add("NegativeBinomial", numpy.array([0.0, 2.0]), numpy.array([0.0, 0.5]))
_add("Binomial", numpy.asarray(3.0), numpy.array([0.0, 0.5, 1.0]))
_add("InverseGamma", numpy.array([0.5, 1.5, 3.0]), 1.0)
_add("Pareto", 1.0, numpy.array([0.5, 1.5, 3.0]))
_add("Gamma", numpy.array([0.5, 1.0, 3.0]), 2.0)
_add("Dirichlet", numpy.array([[0.5, 0.4, 0.3], [2.0, 0.4, 3.0]]))
_add("FisherSnedecor", numpy.array([1.0, 3.0, 5.0]), numpy.array([1.5, 3.0, 7.0]))
_add("StudentT", numpy.array([0.5, 1.5, 3.0]))
_add("Normal", 0.0, 1.0)
NAMES = sorted({case.name for case in CASES})


def of_name(name: str) -> list[Case]:
    return [case for case in CASES if case.name == name]


def seen(ask: Callable[[Any], tuple[Any, list[Any]]], t: Any) -> Any:
    """A value with its gradients by leaves, or the builtin class of the error that came."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            value, leaves = ask(t)
        except Exception as error:
            return next(c.__name__ for c in type(error).__mro__ if c.__module__ == "builtins")
        if not hasattr(value, "detach"):
            return repr(value).replace("ag_visual", "torch")
        array = value.detach().numpy()
        if not value.requires_grad:
            return array, str(value.dtype).rpartition(".")[2], None
        weights = t.tensor(numpy.cos(numpy.arange(array.size)).reshape(array.shape))
        total = (value * weights.to(value.dtype)).sum()
        slopes = t.autograd.grad(total, leaves, allow_unused=True)
    zero = [numpy.zeros(leaf.shape) for leaf in leaves]
    arrays = [z if s is None else s.numpy() for s, z in zip(slopes, zero, strict=True)]
    return array, str(value.dtype).rpartition(".")[2], arrays


def agree(what: str, ask: Callable[[Any], tuple[Any, list[Any]]]) -> None:
    """Both packages give one value, of one shape and dtype, with the same gradients."""
    ours, theirs = seen(ask, ag_visual), seen(ask, torch)
    if isinstance(theirs, str) or isinstance(ours, str):
        assert ours == theirs, what
        return
    assert ours[0].shape == theirs[0].shape, what
    assert ours[1] == theirs[1], what
    loose = 1e-5 if ours[1] == "float32" else 1e-6
    numpy.testing.assert_allclose(ours[0], theirs[0], loose, 1e-8, err_msg=what)
    assert (ours[2] is None) == (theirs[2] is None), what
    for mine, its in zip(ours[2] or (), theirs[2] or (), strict=True):
        numpy.testing.assert_allclose(mine, its, 1e-5, 1e-7, err_msg=f"gradient of {what}")
