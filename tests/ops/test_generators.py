"""Streams of random numbers: seeds, states, forks, and the distributions drawn from them."""

from __future__ import annotations

from typing import Any

import pytest

import ag_visual as ag

from ..arrays.strict import STRICT
from ..oracle import torch


@pytest.mark.oracle
def test_the_module_has_torchs_names() -> None:
    names = set(torch.random.__all__) - {"thread_safe_generator"}  # of processes that load data
    assert names <= set(ag.random.__all__)
    assert {n for n in dir(torch.Generator) if n[0] != "_" and "graphsafe" not in n} <= set(
        dir(ag.Generator)
    )


def test_seeds_and_states() -> None:
    g = ag.manual_seed(7)
    assert g is ag.default_generator
    assert ag.initial_seed() == 7
    state = ag.random.get_rng_state()
    first = ag.rand(3)
    ag.random.set_rng_state(state)
    assert ag.rand(3).tolist() == first.tolist()
    assert ag.random.seed() == ag.random.initial_seed() != 7


def test_a_generator_of_its_own() -> None:
    g = ag.Generator().manual_seed(3)
    other = g.clone_state()
    assert ag.rand(2, generator=g).tolist() == ag.rand(2, generator=other).tolist()
    assert (g.initial_seed(), str(g.device)) == (3, "cpu")
    g.set_state(other.get_state())
    assert ag.randn(2, generator=g).tolist() == ag.randn(2, generator=other).tolist()
    with pytest.raises(RuntimeError, match="CPU Generator does not use offset"):
        g.get_offset()


@pytest.mark.parametrize("enabled", [True, False])
def test_fork(enabled: bool) -> None:
    ag.manual_seed(5)
    with ag.random.fork_rng(devices=[STRICT.device_type], enabled=enabled):
        inside = [ag.rand(2).tolist(), ag.rand(2, device=STRICT.device_type).tolist()]
    again = [ag.rand(2).tolist(), ag.rand(2, device=STRICT.device_type).tolist()]
    assert (inside == again) is enabled


LAWS = {
    "exponential_": ((2.0,), 0.5, 0.25),
    "geometric_": ((0.25,), 4.0, 12.0),
    "log_normal_": ((0.0, 0.25), 1.0317, 0.0687),
    "uniform_": ((1.0, 4.0), 2.5, 0.75),
    "normal_": ((1.0, 2.0), 1.0, 4.0),
    "bernoulli_": ((0.3,), 0.3, 0.21),
    "random_": ((2, 5), 3.0, 2 / 3),
}


@pytest.mark.parametrize("name", LAWS)
def test_mean_and_variance_of_a_fill(name: str) -> None:
    arguments, mean, variance = LAWS[name]
    ag.manual_seed(1)
    x = ag.empty(40_000, dtype=ag.float64)
    assert getattr(x, name)(*arguments) is x
    assert abs(x.mean().item() - mean) < 0.03 * max(abs(mean), 1)
    assert abs(x.var().item() - variance) < 0.06 * variance


def test_cauchy_by_its_quartiles() -> None:
    ag.manual_seed(1)
    x = ag.empty(40_000, dtype=ag.float64).cauchy_(1.0, 2.0)
    q = x.quantile(ag.tensor([0.25, 0.5, 0.75], dtype=ag.float64))
    assert (q - ag.tensor([-1.0, 1.0, 3.0])).abs().max().item() < 0.1


@pytest.mark.parametrize(
    ("draw", "mean", "variance"),
    [
        (lambda: ag.poisson(ag.full((40_000,), 4.0)), 4.0, 4.0),
        (lambda: ag.binomial(ag.full((40_000,), 10.0), ag.tensor(0.3)), 3.0, 2.1),
    ],
    ids=["poisson", "binomial"],
)
def test_mean_and_variance_of_counts(draw: Any, mean: float, variance: float) -> None:
    ag.manual_seed(1)
    x = draw()
    assert x.dtype is ag.float32
    assert abs(x.mean().item() - mean) < 0.03 * mean
    assert abs(x.var().item() - variance) < 0.06 * variance


@pytest.mark.oracle
@pytest.mark.parametrize(
    ("call", "phrase"),
    [
        (lambda t: t.poisson(t.tensor([-1.0])), "invalid Poisson rate"),
        (lambda t: t.poisson(t.tensor([1])), "not implemented for 'Long'"),
        (lambda t: t.ones(2).exponential_(-1), "expects lambda > 0"),
        (lambda t: t.ones(2).geometric_(1.5), "expects p to be in (0, 1)"),
        (lambda t: t.ones(2).log_normal_(0, -1), "expects std > 0"),
        (lambda t: t.ones(2).cauchy_(0, -1), "expects sigma > 0"),
        (lambda t: t.ones(2).uniform_(2, 1), "expects to return a [from, to) range"),
        (lambda t: t.ones(2).normal_(0, -1), "expects std >= 0"),
        (lambda t: t.ones(2).bernoulli_(2), "expects p to be in [0, 1]"),
        (lambda t: t.ones(2).random_(3, 2), "expects 'from' to be less than 'to'"),
    ],
)
def test_errors_as_torch(call: Any, phrase: str) -> None:
    for engine in (ag, torch):
        with pytest.raises(RuntimeError) as caught:
            call(engine)
        assert phrase in str(caught.value)
