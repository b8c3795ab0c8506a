"""Errors of distributions are of torch's types and begin with torch's words."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import pytest

import ag_visual as ag

from ..oracle import torch
from ..programs import raised


def _calls(t: Any) -> list[Callable[[], Any]]:
    d, tensor, ones, zeros = t.distributions, t.tensor, t.ones, t.zeros
    c = d.constraints
    two = d.Normal(zeros(2), ones(2))
    half = d.Bernoulli(ones(2) * 0.5)

    class Narrow(d.Normal):
        def __init__(self) -> None:
            super().__init__(0.0, 1.0)

    class Bare(d.Distribution): ...

    class Own(d.Distribution):
        arg_constraints = {"a": c.positive}
        support = c.positive

        def __init__(self, a: Any, validate_args: bool | None = None) -> None:
            self.a = a
            super().__init__(a.shape, validate_args=validate_args)

    bare = Bare(validate_args=False)
    counts = d.Binomial(tensor([1.0, 2.0]), tensor([0.1, 0.2]))
    return [
        lambda: d.Normal(0.0, -1.0),
        lambda: d.Normal(zeros(2), tensor([-1.0, 1.0])),
        lambda: d.Normal("a", 1.0),
        lambda: d.Normal(zeros(2), ones(3)),
        lambda: two.log_prob(1.0),
        lambda: two.log_prob(zeros(3)),
        lambda: two.enumerate_support(),
        lambda: two.rsample(3),
        lambda: d.Gamma(1.0, 1.0).log_prob(tensor(-1.0)),
        lambda: d.Gamma(1.0, 1.0).icdf(0.5),
        lambda: d.Beta(1.0, 1.0).cdf(tensor(0.5)),
        lambda: d.Poisson(1.0).rsample(),
        lambda: d.Poisson(1.0).entropy(),
        lambda: d.Dirichlet(ones(3)).log_prob(ones(2)),
        lambda: d.Dirichlet(tensor(1.0)),
        lambda: d.Bernoulli(),
        lambda: d.Bernoulli(0.1, 0.2),
        lambda: d.Bernoulli(0.3).log_prob(tensor(2.0)),
        lambda: d.Categorical(tensor(1.0)),
        lambda: d.Categorical(logits=tensor(1.0)),
        lambda: d.Categorical(tensor([-1.0, 2.0])),
        lambda: d.Categorical(tensor([0.5, 0.5])).log_prob(tensor(2)),
        lambda: d.OneHotCategorical(tensor([0.5, 0.5])).log_prob(tensor([1.0, 1.0])),
        lambda: d.Multinomial(3, tensor([0.5, 0.5])).log_prob(tensor([2.0, 2.0])),
        lambda: d.Multinomial(ones(2), ones(2)),
        lambda: d.Uniform(1.0, 0.0),
        lambda: d.Geometric(0.0),
        lambda: d.NegativeBinomial(1.0, 1.0),
        lambda: d.Binomial(-1, 0.5),
        lambda: counts.entropy(),
        lambda: counts.enumerate_support(),
        lambda: d.Independent(two, 2),
        lambda: d.Independent(half, 1).enumerate_support(),
        lambda: d.TransformedDistribution(two, [1]),
        lambda: d.TransformedDistribution(two, 3),
        lambda: d.TransformedDistribution(d.Normal(0.0, 1.0), d.StickBreakingTransform()),
        lambda: d.MixtureSameFamily(two, two),
        lambda: d.MixtureSameFamily(d.Categorical(ones(2)), 1),
        lambda: d.MixtureSameFamily(d.Categorical(ones(3)), two),
        lambda: d.MixtureSameFamily(d.Categorical(ones(4, 3)), d.Normal(zeros(5, 3), 1.0)),
        lambda: d.MultivariateNormal(tensor(0.0), t.eye(2)),
        lambda: d.MultivariateNormal(zeros(2)),
        lambda: d.MultivariateNormal(zeros(2), zeros(2)),
        lambda: d.MultivariateNormal(zeros(2), scale_tril=zeros(2)),
        lambda: d.MultivariateNormal(zeros(2), precision_matrix=zeros(2)),
        lambda: d.MultivariateNormal(zeros(2), -t.eye(2)),
        lambda: d.MultivariateNormal(zeros(2), -t.eye(2), validate_args=False),
        lambda: d.LowRankMultivariateNormal(tensor(0.0), ones(2, 1), ones(2)),
        lambda: d.LowRankMultivariateNormal(zeros(2), ones(2), ones(2)),
        lambda: d.LowRankMultivariateNormal(zeros(2), ones(3, 1), ones(2)),
        lambda: d.LowRankMultivariateNormal(zeros(2), ones(2, 1), ones(3)),
        lambda: d.Wishart(tensor(0.5), t.eye(2)),
        lambda: d.Wishart(tensor(3.0)),
        lambda: d.Wishart(tensor(3.0), ones(2)),
        lambda: d.LKJCholesky(1),
        lambda: d.ContinuousBernoulli(2.0, validate_args=True),
        lambda: d.VonMises(0.0, -1.0),
        lambda: d.HalfNormal(-1.0),
        lambda: d.LogNormal(0.0, -1.0),
        lambda: d.Pareto(1.0, -1.0),
        lambda: d.Kumaraswamy(-1.0, 1.0),
        lambda: d.StudentT(-1.0),
        lambda: d.Chi2(-1.0),
        lambda: d.Beta(-1.0, 1.0),
        lambda: d.RelaxedBernoulli(tensor(1.0), tensor(2.0)),
        lambda: d.kl_divergence(two, d.StudentT(1.0)),
        lambda: d.kl_divergence(d.LogNormal(0.0, 1.0), d.Weibull(1.0, 1.0)),
        lambda: d.kl_divergence(d.Independent(two, 1), d.Independent(two, 0)),
        lambda: d.kl_divergence(d.Binomial(2, 0.5), d.Binomial(3, 0.5)),
        lambda: d.biject_to(c.dependent),
        lambda: d.transform_to(c.boolean),
        lambda: d.biject_to.register(1, 2),
        lambda: c.dependent.check(1),
        lambda: c.dependent.event_dim,
        lambda: c.dependent.is_discrete,
        lambda: c.independent(c.real, 2).check(zeros(2)),
        lambda: d.Transform(cache_size=3),
        lambda: d.ReshapeTransform((2,), (3,)),
        lambda: d.ReshapeTransform((2,), (2,)).forward_shape((3,)),
        lambda: d.ReshapeTransform((2, 3), (6,)).event_dim,
        lambda: Narrow().expand((2,)),
        lambda: bare.expand((2,)),
        lambda: bare.mode,
        lambda: bare.mean,
        lambda: bare.rsample(),
        lambda: Own(tensor(-1.0)),
        lambda: Own(tensor(1.0))._validate_sample(tensor(-1.0)),
        lambda: d.Distribution.set_default_validate_args(3),
    ]


def _raised(call: Callable[[], Any]) -> tuple[str, str]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return raised(call)


@pytest.mark.oracle
def test_errors_are_torchs() -> None:
    for ours, theirs in zip(_calls(ag), _calls(torch), strict=True):
        kind, text = _raised(ours)
        expected, words = _raised(theirs)
        assert kind == expected != "", (text, words)
        if "iterable" not in words:  # Python's own
            assert words[:40] in text.replace("ag_visual", "torch"), (text, words)


def test_warnings_of_a_bare_class() -> None:
    class Bare(ag.distributions.Distribution): ...

    with pytest.warns(UserWarning, match="does not define `arg_constraints`"):
        Bare()
    with pytest.warns(FutureWarning, match="sample_n"):
        ag.distributions.Normal(0.0, 1.0).sample_n(2)
    with pytest.warns(UserWarning, match="Low df values"):
        ag.distributions.Wishart(1.5, ag.eye(2))


def test_a_class_of_ones_own_is_expanded_by_its_parameters() -> None:
    class Mine(ag.distributions.Normal): ...

    d = Mine(0.0, 1.0).expand((3,))
    assert type(d) is Mine
    assert d.sample((2,)).shape == (2, 3)
