"""Transforms, constraints and the registries against torch: values, Jacobians, shapes, sets."""

from __future__ import annotations

import copy
import importlib
import pickle
from collections.abc import Callable
from typing import Any

import numpy
import pytest

import ag_visual as ag

from .cases import agree

_rng = numpy.random.default_rng(3)
TRANSFORMS: dict[str, Callable[[Any, Any], Any]] = {
    "exp": lambda t, d: d.ExpTransform(),
    "inverse": lambda t, d: d.ExpTransform().inv.inv,
    "power": lambda t, d: d.PowerTransform(2.5),
    "powers": lambda t, d: d.PowerTransform(t.tensor([2.0, -1.0, 0.5])),
    "sigmoid": lambda t, d: d.SigmoidTransform(),
    "tanh": lambda t, d: d.TanhTransform(),
    "softplus": lambda t, d: d.SoftplusTransform(),
    "abs": lambda t, d: d.AbsTransform(),
    "affine": lambda t, d: d.AffineTransform(1.0, -2.0),
    "affines": lambda t, d: d.AffineTransform(
        t.tensor([0.0, 1.0, 2.0]), t.tensor([1.0, -2.0, 3.0]), event_dim=1
    ),
    "affine event": lambda t, d: d.AffineTransform(0.0, 2.0, event_dim=1),
    "softmax": lambda t, d: d.SoftmaxTransform(),
    "stick": lambda t, d: d.StickBreakingTransform(),
    "correlation": lambda t, d: d.CorrCholeskyTransform(),
    "reshape": lambda t, d: d.ReshapeTransform((3,), (3, 1)),
    "independent": lambda t, d: d.IndependentTransform(d.ExpTransform(), 1),
    "composed": lambda t, d: d.ComposeTransform(
        [d.AffineTransform(0.0, 0.5), d.SigmoidTransform(), d.AffineTransform(0.0, 2.0)]
    ),
    "composed event": lambda t, d: d.ComposeTransform(
        [d.StickBreakingTransform(), d.ExpTransform()]
    ),
    "stack": lambda t, d: d.StackTransform(
        [d.ExpTransform(), d.AffineTransform(1.0, 2.0), d.TanhTransform()], -1
    ),
    "cat": lambda t, d: d.CatTransform([d.ExpTransform(), d.AffineTransform(1.0, 2.0)], -1, [1, 2]),
    "cdf": lambda t, d: d.CumulativeDistributionTransform(d.Normal(0.5, 2.0)),
    "identity": lambda t, d: d.identity_transform,
    "lower": lambda t, d: d.LowerCholeskyTransform(),
    "definite": lambda t, d: d.PositiveDefiniteTransform(),
}
SHAPES: tuple[tuple[int, ...], ...] = ((), (3,), (2, 3), (3, 3), (6,))


def _input(name: str) -> Any:
    x = _rng.normal(size=(2, 3, 3) if name in ("lower", "definite") else (2, 3))
    return abs(x) if name.startswith("power") else x


@pytest.mark.oracle
@pytest.mark.parametrize("name", TRANSFORMS)
def test_transforms(name: str) -> None:
    at, make = _input(name), TRANSFORMS[name]

    def asked(ask: Callable[..., Any], cache: int = 0) -> Callable[[Any], tuple[Any, list[Any]]]:
        def program(t: Any) -> tuple[Any, list[Any]]:
            x = t.tensor(at, requires_grad=True)
            f = make(t, t.distributions)
            f = f.with_cache(1) if cache else f
            return ask(f, x, f(x)), [x]

        return program

    for cache in (0, 1):
        agree("y", asked(lambda f, x, y: y, cache))
        agree("inverse", asked(lambda f, x, y: f.inv(y), cache))
        agree("determinant", asked(lambda f, x, y: f.log_abs_det_jacobian(x, y), cache))
        agree("its inverse's", asked(lambda f, x, y: f.inv.log_abs_det_jacobian(y, x), cache))
    for what in ("sign", "bijective", "event_dim", "domain", "codomain"):
        agree(what, asked(lambda f, x, y, what=what: getattr(f, what)))
        agree(what, asked(lambda f, x, y, what=what: getattr(f.inv, what)))
    agree("repr", asked(lambda f, x, y: repr(f) + repr(f.inv)))
    for shape in SHAPES:
        agree("shape", asked(lambda f, x, y, shape=shape: tuple(f.forward_shape(shape))))
        agree("shape", asked(lambda f, x, y, shape=shape: tuple(f.inverse_shape(shape))))


@pytest.mark.oracle
@pytest.mark.parametrize("name", TRANSFORMS)
@pytest.mark.parametrize("event", [0, 1])
def test_transformed_distributions(name: str, event: int) -> None:
    def make(t: Any) -> Any:
        d = t.distributions
        zero = t.zeros(2, 3, dtype=t.float64)
        base = d.Independent(d.Normal(zero, zero + 1), event)
        return d.TransformedDistribution(base, [TRANSFORMS[name](t, d)])

    def shapes(t: Any) -> tuple[Any, list[Any]]:
        d = make(t)
        wide = d.expand((4, *d.batch_shape))
        drawn = tuple(d.rsample((5,)).shape), tuple(wide.sample().shape)
        return (tuple(d.batch_shape), tuple(d.event_shape), d.support, d.has_rsample, drawn), []

    agree("shapes", shapes)
    if name in ("lower", "definite", "correlation"):
        return  # not for vectors of three
    ag.manual_seed(0)
    value = make(ag).sample((2,)).numpy()

    def density(what: str, value: Any) -> Callable[[Any], tuple[Any, list[Any]]]:
        def program(t: Any) -> tuple[Any, list[Any]]:
            x = t.tensor(value, requires_grad=True)
            return getattr(make(t), what)(x), [x]

        return program

    agree("log_prob", density("log_prob", value))
    if not event:
        agree("cdf", density("cdf", value))
        agree("icdf", density("icdf", numpy.full((2, 3), 0.3)))


CONSTRAINTS: dict[str, Callable[[Any], Any]] = {
    "greater_than": lambda c: c.greater_than(2.0),
    "greater_than_eq": lambda c: c.greater_than_eq(2.0),
    "less_than": lambda c: c.less_than(3.0),
    "interval": lambda c: c.interval(-2.0, 5.0),
    "half_open": lambda c: c.half_open_interval(1.0, 2.0),
    "independent": lambda c: c.independent(c.positive, 1),
    "thrice": lambda c: c.independent(c.positive, 3),
    "integers": lambda c: c.integer_interval(0, 3),
    "multinomial": lambda c: c.multinomial(2),
    "mixture": lambda c: c.MixtureSameFamilyConstraint(c.positive),
    "cat": lambda c: c.cat([c.real, c.positive], -1, [1, 2]),
    "stack": lambda c: c.stack([c.real, c.positive, c.unit_interval], -1),
    **{
        name: lambda c, name=name: getattr(c, name)
        for name in (
            *("real", "positive", "nonnegative", "unit_interval", "simplex", "real_vector"),
            *("lower_cholesky", "lower_triangular", "corr_cholesky", "positive_definite"),
            *("positive_semidefinite", "square", "symmetric", "boolean", "one_hot", "dependent"),
            *("nonnegative_integer", "positive_integer"),
        )
    },
}
VALUES = (
    _rng.normal(size=(2, 3, 3)),
    numpy.eye(3),
    numpy.tril(numpy.ones((2, 3, 3))),
    numpy.diag([1.0, 2.0, 0.0]),
    _rng.uniform(size=(2, 3)),
    numpy.array([0.0, 1.0, 0.0]),
)


@pytest.mark.oracle
@pytest.mark.parametrize("name", CONSTRAINTS)
def test_constraints_and_registries(name: str) -> None:
    def of(t: Any) -> Any:
        return CONSTRAINTS[name](t.distributions.constraints)

    agree("repr", lambda t: (repr(of(t)), []))
    agree("is_discrete", lambda t: (of(t).is_discrete, []))
    agree("event_dim", lambda t: (of(t).event_dim, []))
    for value in VALUES:
        agree(f"{name} of {value}", lambda t, value=value: (of(t).check(t.tensor(value)), []))
    for registry in ("biject_to", "transform_to"):
        for shape in ((3,), (2, 3), (3, 3), (6,)):
            at = _rng.normal(size=shape)

            def program(t: Any, registry: str = registry, at: Any = at) -> tuple[Any, list[Any]]:
                x = t.tensor(at, requires_grad=True)
                return getattr(t.distributions, registry)(of(t))(x), [x]

            agree(f"{registry} {name} {shape}", program)


@pytest.mark.oracle
@pytest.mark.parametrize("diag", range(-2, 3))
def test_triangles_as_vectors(diag: int) -> None:
    def program(t: Any) -> tuple[Any, list[Any]]:
        utils = importlib.import_module(f"{t.__name__}.distributions.utils")
        matrix = t.arange(32.0).reshape(2, 4, 4).requires_grad_()
        vector = utils.tril_matrix_to_vec(matrix, diag)
        return utils.vec_to_tril_matrix(vector, diag), [matrix]

    agree("there and back", program)


def test_a_cache_gives_back_the_very_tensor() -> None:
    f = ag.distributions.ComposeTransform(
        [ag.distributions.TanhTransform(), ag.distributions.AffineTransform(0.0, 2.0)]
    ).with_cache()
    x = ag.tensor([20.0])  # tanh(20) is 1: without the cache its inverse is infinite
    assert f.inv(f(x)) is x
    again = copy.deepcopy(f)
    assert again.inv(again(x)) is x


@pytest.mark.parametrize("kind", [pickle.dumps, copy.deepcopy])
def test_distributions_are_copied_and_pickled(kind: Any) -> None:
    d = ag.distributions
    for each in (
        d.LogNormal(0.0, 1.0),
        d.Beta(2.0, 3.0),
        d.MultivariateNormal(ag.zeros(2), ag.eye(2)),
    ):
        other = kind(each)
        other = pickle.loads(other) if isinstance(other, bytes) else other
        at = ag.full(each.event_shape, 0.5)
        assert ag.equal(other.log_prob(at), each.log_prob(at))
