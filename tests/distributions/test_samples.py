"""Samples have the distribution that they are drawn from, and move with its parameters."""

from __future__ import annotations

import warnings
from typing import Any

import numpy
import pytest
import scipy.special
import scipy.stats

import ag_visual as ag

from ..oracle import torch
from .cases import NAMES, of_name

COUNT = 4000
#: torch's samples have not the distribution that its log_prob says
WRONG = {"LKJCholesky"}


@pytest.mark.oracle
@pytest.mark.parametrize("name", [name for name in NAMES if name not in WRONG])
def test_samples_are_distributed_as_torchs(name: str) -> None:
    ag.manual_seed(1)
    torch.manual_seed(1)
    for case in of_name(name):
        drawn, leaves = [], []
        for t in (ag, torch):
            d, inputs = case.make(t)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                draws = d.sample((COUNT,))
            assert not draws.requires_grad
            assert bool(d.support.check(draws).all()), case
            drawn.append(draws.numpy())
            leaves.append(inputs)
        ours, theirs = drawn
        assert ours.shape == theirs.shape, case
        assert ours.dtype == theirs.dtype, case
        columns = zip(ours.reshape(COUNT, -1).T, theirs.reshape(COUNT, -1).T, strict=True)
        for mine, its in columns:
            assert scipy.stats.ks_2samp(mine, its, method="asymp").pvalue > 1e-7, case


def test_correlations_of_lkj() -> None:
    """A correlation r of LKJ(eta) has (r + 1) / 2 of Beta(a, a) with a = eta - 1 + dim / 2."""
    ag.manual_seed(0)
    for eta in (1.0, 2.5):
        d = ag.distributions.LKJCholesky(4, eta)
        factor = d.sample((COUNT,))
        assert bool(d.support.check(factor).all())
        rows, columns = numpy.tril_indices(4, -1)
        found = (factor @ factor.mT).numpy()[:, rows, columns]
        expected = scipy.stats.beta(eta + 1, eta + 1)
        for each in found.T:
            assert scipy.stats.kstest((each + 1) / 2, expected.cdf).pvalue > 1e-4


PATHWISE = (
    *("Normal", "Laplace", "Cauchy", "Uniform", "Exponential", "ContinuousBernoulli"),
    *("LogNormal", "HalfNormal", "HalfCauchy", "Gumbel", "Kumaraswamy", "Pareto", "Weibull"),
)


@pytest.mark.oracle
@pytest.mark.parametrize("name", PATHWISE)
def test_samples_move_as_their_distribution_function_says(name: str) -> None:
    """F(x; a) = u with u held: dx/da = -(dF/da) / (dF/dx)."""
    ag.manual_seed(0)
    for case in of_name(name):
        d, leaves = case.make(ag)
        if not leaves:
            continue
        drawn = d.rsample()
        moved = ag.autograd.grad(drawn.sum(), leaves)
        theirs, inputs = case.make(torch)
        x = torch.tensor(drawn.detach().numpy())
        slopes = torch.autograd.grad(theirs.cdf(x).sum(), inputs)
        density = theirs.log_prob(x).exp().detach()
        for mine, slope in zip(moved, slopes, strict=True):
            numpy.testing.assert_allclose(mine.numpy(), (-slope / density).numpy(), 1e-6, 1e-8)


def _difference(function: Any, a: Any, h: float = 1e-4) -> Any:
    return (function(a + h) - function(a - h)) / (2 * h)


def test_gamma_samples_move_with_their_concentration() -> None:
    ag.manual_seed(0)
    a = ag.linspace(0.2, 40.0, 200, dtype=ag.float64, requires_grad=True)
    x = ag.distributions.Gamma(a, 1.0).rsample()
    x.sum().backward()
    u = scipy.special.gammainc(a.detach().numpy(), x.detach().numpy())
    expected = _difference(lambda b: scipy.special.gammaincinv(b, u), a.detach().numpy())
    numpy.testing.assert_allclose(a.grad.numpy(), expected, 1e-4, 1e-7)


def test_beta_samples_move_with_both_concentrations() -> None:
    ag.manual_seed(0)
    a = ag.linspace(0.3, 9.0, 100, dtype=ag.float64, requires_grad=True)
    b = ag.linspace(7.0, 0.4, 100, dtype=ag.float64, requires_grad=True)
    x = ag.distributions.Beta(a, b).rsample()
    x.sum().backward()
    p, q, at = a.detach().numpy(), b.detach().numpy(), x.detach().numpy()
    u = scipy.special.betainc(p, q, at)
    by_a = _difference(lambda c: scipy.special.betaincinv(c, q, u), p)
    by_b = _difference(lambda c: scipy.special.betaincinv(p, c, u), q)
    numpy.testing.assert_allclose(a.grad.numpy(), by_a, 1e-4, 1e-7)
    numpy.testing.assert_allclose(b.grad.numpy(), by_b, 1e-4, 1e-7)


@pytest.mark.oracle
def test_implicit_gradients_are_torchs() -> None:
    """torch's come from fits, which are good to three digits."""
    rng = numpy.random.default_rng(0)
    a = 10 ** rng.uniform(-2, 3, 500)
    x = numpy.maximum(rng.standard_gamma(a), 1e-300)
    found = ag._standard_gamma_grad(ag.tensor(a), ag.tensor(x)).numpy()
    expected = torch._standard_gamma_grad(torch.tensor(a), torch.tensor(x)).numpy()
    numpy.testing.assert_allclose(found, expected, 3e-3)
    b = 10 ** rng.uniform(-2, 3, 500)
    y = numpy.clip(rng.beta(a, b), 1e-300, 1 - 1e-16)
    found = ag._dirichlet_grad(*map(ag.tensor, (y, a, a + b))).numpy()
    expected = torch._dirichlet_grad(*map(torch.tensor, (y, a, a + b))).numpy()
    numpy.testing.assert_allclose(found, expected, 5e-3)


def test_dirichlet_samples_move_within_the_simplex() -> None:
    """Both directions of differentiation, and their average against the mean's gradient."""
    ag.manual_seed(0)
    a = ag.tensor([0.5, 2.0, 4.0], dtype=ag.float64, requires_grad=True)
    drawn = ag.distributions.Dirichlet(a).rsample((20000,))
    [whole] = ag.autograd.grad(drawn.sum(), a, retain_graph=True)
    assert whole.abs().max().item() < 1e-8
    [found] = ag.autograd.grad(drawn.mean(0)[1], a)
    [expected] = ag.autograd.grad(ag.distributions.Dirichlet(a).mean[1], a)
    numpy.testing.assert_allclose(found.numpy(), expected.numpy(), atol=5e-3)
    state = ag.random.get_rng_state()

    def draw(a: Any) -> Any:
        ag.random.set_rng_state(state)
        return ag.distributions.Dirichlet(a, validate_args=False).rsample()

    direction = ag.tensor([0.3, -1.0, 0.7], dtype=ag.float64)
    _, ahead = ag.func.jvp(draw, (a.detach(),), (direction,))
    back = ag.func.jacrev(draw)(a.detach())
    numpy.testing.assert_allclose(ahead.numpy(), (back @ direction).numpy(), 1e-9)


def test_tiny_concentrations_neither_underflow_nor_leave_the_simplex() -> None:
    ag.manual_seed(0)
    a = ag.full((1000, 3), 1e-3, requires_grad=True)
    drawn = ag.distributions.Dirichlet(a).rsample()
    assert bool(drawn.isfinite().all())
    assert bool((drawn > 0).all())
    drawn[:, 0].sum().backward()
    assert bool(a.grad.isfinite().all())
    gammas = ag.distributions.Gamma(a[:, 0], 1.0).rsample()
    assert bool((gammas > 0).all())


def test_moments_of_what_is_made_of_others() -> None:
    ag.manual_seed(0)
    d = ag.distributions
    mixture = d.MixtureSameFamily(
        d.Categorical(ag.tensor([0.3, 0.7])),
        d.Independent(d.Normal(ag.tensor([[0.0, 1.0], [3.0, -2.0]]), 0.5), 1),
    )
    drawn = mixture.sample((20000,))
    numpy.testing.assert_allclose(drawn.mean(0).numpy(), mixture.mean.numpy(), atol=0.05)
    numpy.testing.assert_allclose(drawn.var(0).numpy(), mixture.variance.numpy(), rtol=0.05)
    assert mixture.expand((4,)).sample((5,)).shape == (5, 4, 2)


def test_what_a_seed_draws_is_drawn_again() -> None:
    for name in NAMES:
        case = of_name(name)[0]
        drawn = []
        for _ in range(2):
            ag.manual_seed(3)
            drawn.append(case.make(ag)[0].sample((3,)))
        assert ag.equal(*drawn), name
