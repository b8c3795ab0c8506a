"""Moments, densities, distribution functions and entropies of every distribution are torch's."""

from __future__ import annotations

import warnings
from typing import Any

import numpy
import pytest

import ag_visual

from ..oracle import torch
from .cases import NAMES, Case, agree, of_name

PROPERTIES = (
    *("mean", "variance", "stddev", "mode", "batch_shape", "event_shape", "support"),
    *("has_rsample", "has_enumerate_support", "arg_constraints"),
)
PARAMETERS = (
    *("param_shape", "probs", "logits", "scale_tril", "covariance_matrix", "precision_matrix"),
    *("loc", "scale", "df", "concentration", "rate", "temperature"),
)
METHODS = ("entropy", "perplexity", "enumerate_support")
#: where torch has no number, or a wrong one: docs/guide/distributions.md
OWN = {("Kumaraswamy", "mode"), ("Weibull", "mode"), ("Multinomial", "expanded entropy")}
#: torch refuses float64 (2.13)
OWN |= {("GeneralizedPareto", what) for what in ("log_prob", "cdf")}
DISCRETE = ("Boolean", "Integer", "OneHot", "Multinomial")


def _asked(case: Case, what: str, ask: Any, expanded: bool = False) -> None:
    if (case.name, what) in OWN:
        return

    def program(t: Any) -> tuple[Any, list[Any]]:
        d, leaves = case.make(t)
        if expanded:
            d = d.expand((5, *d.batch_shape))
        return ask(t, d, leaves), leaves

    agree(f"{what} of {case}", program)


@pytest.mark.oracle
@pytest.mark.parametrize("name", NAMES)
def test_values_and_gradients(name: str) -> None:
    for case in of_name(name):
        theirs, _ = case.make(torch)
        _asked(case, "repr", lambda t, d, leaves: repr(d))
        for what in (*PROPERTIES, *(p for p in PARAMETERS if hasattr(theirs, p))):
            _asked(case, what, lambda t, d, leaves, what=what: getattr(d, what))
        for what in METHODS:
            _asked(case, what, lambda t, d, leaves, what=what: getattr(d, what)())
        for what in ("entropy", "mean", "repr"):
            called = f"expanded {what}"
            _asked(
                case,
                called,
                lambda t, d, leaves, what=what: (
                    repr(d) if what == "repr" else d.mean if what == "mean" else d.entropy()
                ),
                expanded=True,
            )
        torch.manual_seed(0)
        for expanded in (False, True):
            d = theirs.expand((5, *theirs.batch_shape)) if expanded else theirs
            with warnings.catch_warnings():  # torch's Wishart tells of singular samples
                warnings.simplefilter("ignore")
                drawn = d.sample((2,)).numpy()
            _densities(case, drawn, expanded)


def _densities(case: Case, value: Any, expanded: bool) -> None:
    def at(what: str) -> Any:
        def ask(t: Any, d: Any, leaves: list[Any]) -> Any:
            x = t.tensor(value)
            if x.is_floating_point() and not repr(d.support).startswith(DISCRETE):
                leaves.append(x.requires_grad_())
            if what == "cdf" and case.name in ("Gamma", "Chi2", "InverseGamma"):
                leaves.clear()  # the incomplete gamma function has no derivative by its order
                return d.cdf(x).detach()
            return getattr(d, what)(x)

        return ask

    def quantile(t: Any, d: Any, leaves: list[Any]) -> Any:
        u = numpy.random.default_rng(1).uniform(0.05, 0.95, (2, *d.batch_shape))
        leaves.append(t.tensor(u, requires_grad=True))
        return d.icdf(leaves[-1])

    for what in ("log_prob", "cdf"):
        _asked(case, what, at(what), expanded)
    _asked(case, "icdf", quantile, expanded)


@pytest.mark.parametrize("concentration", [-0.5, 0.0, 0.3])
def test_tail_of_a_generalized_pareto(concentration: float) -> None:
    import scipy.stats

    d = ag_visual.distributions.GeneralizedPareto(
        *(ag_visual.tensor(x, dtype=ag_visual.float64) for x in (1.0, 2.0, concentration))
    )
    expected = scipy.stats.genpareto(concentration, 1.0, 2.0)
    x = numpy.linspace(1.1, 4.9, 7)
    value = ag_visual.tensor(x)
    numpy.testing.assert_allclose(d.log_prob(value).numpy(), expected.logpdf(x), 1e-9)
    numpy.testing.assert_allclose(d.cdf(value).numpy(), expected.cdf(x), 1e-9)
    numpy.testing.assert_allclose(d.log_survival_function(value).numpy(), expected.logsf(x), 1e-9)
    numpy.testing.assert_allclose(d.log_cdf(value).numpy(), expected.logcdf(x), 1e-9)


def test_modes_that_torch_has_not() -> None:
    """At the mode the density's slope is 0."""
    for name in ("Kumaraswamy", "Weibull"):
        two, three = (ag_visual.tensor(x, dtype=ag_visual.float64) for x in (2.0, 3.0))
        d = getattr(ag_visual.distributions, name)(two, three)
        x = d.mode.detach().requires_grad_()
        [slope] = ag_visual.autograd.grad(d.log_prob(x), x)
        assert abs(slope.item()) < 1e-9
    below = ag_visual.distributions.Weibull(1.0, 0.5)
    assert below.mode.item() == 0.0
