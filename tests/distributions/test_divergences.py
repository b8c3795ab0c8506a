"""kl_divergence: torch's table of pairs, their values and gradients, and which formula is taken."""

from __future__ import annotations

import importlib
from typing import Any

import pytest

import ag_visual as ag

from ..oracle import torch
from .cases import Case, agree, of_name


def _registered(t: Any) -> set[tuple[str, str]]:
    module = importlib.import_module(f"{t.__name__}.distributions.kl")
    return {(p.__name__, q.__name__) for p, q in module._KL_REGISTRY}


PAIRS = sorted(_registered(ag))
INHERITED = (
    ("LogNormal", "LogNormal"),
    ("RelaxedBernoulli", "RelaxedBernoulli"),
    ("Chi2", "Gamma"),
    ("HalfCauchy", "HalfCauchy"),
    ("InverseGamma", "InverseGamma"),
    ("OneHotCategoricalStraightThrough", "OneHotCategorical"),
    ("Weibull", "Weibull"),
    ("Normal", "StudentT"),
)


@pytest.mark.oracle
def test_the_table_is_torchs() -> None:
    assert _registered(ag) == _registered(torch)


def _compared(p_case: Case, q_case: Case) -> None:
    def program(t: Any) -> tuple[Any, list[Any]]:
        p, p_leaves = p_case.make(t)
        q, q_leaves = q_case.make(t)
        return t.distributions.kl_divergence(p, q), p_leaves + q_leaves

    agree(f"KL({p_case} || {q_case})", program)


@pytest.mark.oracle
@pytest.mark.parametrize("pair", [*PAIRS, *INHERITED], ids="-".join)
def test_divergences(pair: tuple[str, str]) -> None:
    p_name, q_name = pair
    for p_case in of_name(p_name):
        p, _ = p_case.make(ag)
        for q_case in of_name(q_name):
            if q_case.make(ag)[0].batch_shape == p.batch_shape:
                _compared(p_case, q_case)


def _double(value: Any) -> Any:
    return ag.tensor(value, dtype=ag.float64)


@pytest.mark.parametrize(
    "name", ["Wishart", "MultivariateNormal", "Dirichlet", "Gumbel", "Laplace"]
)
def test_divergence_is_the_mean_of_the_log_ratio(name: str) -> None:
    """Of a batch and one distribution, too: torch's sums the batch of Wisharts."""
    d = ag.distributions
    matrix, other = _double([[2.0, 0.5], [0.5, 1.0]]), _double([[1.0, -0.2], [-0.2, 1.5]])
    p, q = {
        "Wishart": lambda: (d.Wishart(_double(5.0), matrix), d.Wishart(_double([4.0, 6.0]), other)),
        "MultivariateNormal": lambda: (
            d.MultivariateNormal(_double([0.0, 1.0]), matrix),
            d.LowRankMultivariateNormal(_double([0.5, 0.0]), _double([[1.0], [0.5]]), other[0] + 1),
        ),
        "Dirichlet": lambda: (d.Dirichlet(_double([1.0, 2.0])), d.Dirichlet(_double([2.0, 3.0]))),
        "Gumbel": lambda: (d.Gumbel(_double(0.0), 1.0), d.Normal(_double([0.5, 1.0]), 2.0)),
        "Laplace": lambda: (d.Laplace(_double(0.0), 1.0), d.Laplace(_double([0.5, 1.0]), 2.0)),
    }[name]()
    ag.manual_seed(0)
    found = d.kl_divergence(p, q)
    drawn = p.sample((100000, *(1,) * len(q.batch_shape)))
    expected = (p.log_prob(drawn) - q.log_prob(drawn)).mean(0)
    assert found.shape == q.batch_shape
    assert ((found - expected).abs() < 0.02 * (1 + found)).all()


def test_the_nearest_formula_is_taken_and_ties_are_told() -> None:
    from ag_visual.distributions import kl

    class Left(ag.distributions.Normal): ...

    class Right(ag.distributions.Normal): ...

    before = dict(kl._KL_REGISTRY)
    try:
        ag.distributions.register_kl(Left, ag.distributions.Normal)(lambda p, q: "left")
        assert ag.distributions.kl_divergence(Left(0.0, 1.0), Right(0.0, 1.0)) == "left"
        ag.distributions.register_kl(ag.distributions.Normal, Right)(lambda p, q: "right")
        with pytest.warns(RuntimeWarning, match="Ambiguous kl_divergence"):
            ag.distributions.kl_divergence(Left(0.0, 1.0), Right(0.0, 1.0))
        assert ag.distributions.kl_divergence(Right(0.0, 1.0), Right(0.0, 1.0)) == "right"
    finally:
        kl._KL_REGISTRY.clear()
        kl._KL_REGISTRY.update(before)
        kl._KL_MEMOIZE.clear()
