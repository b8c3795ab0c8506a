"""Distributions inside of function transforms, and on an array library as strict as CuPy."""

from __future__ import annotations

from typing import Any

import pytest

import ag_visual as ag

from ..arrays.strict import STRICT
from ..programs import agree
from .cases import NAMES, Case, of_name

DEVICE = STRICT.device_type


# torch's functorch makes use of its own older names.
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_densities_are_mapped_and_differentiated() -> None:
    def program(t: Any) -> Any:
        d = t.distributions

        def normal(m: Any) -> Any:
            return d.Normal(m, 1.5).log_prob(t.tensor(0.5))

        def gamma(a: Any) -> Any:
            return d.Gamma(a, 1.0, validate_args=False).log_prob(t.tensor(2.0))

        at = t.tensor([0.5, 1.0, 2.0])
        return [
            t.func.vmap(normal)(at),
            t.func.vmap(t.func.grad(normal))(at),
            t.func.hessian(normal)(at[0]),
            t.func.vmap(t.func.grad(gamma))(at),
            t.func.jvp(gamma, (at[1],), (at[2],)),
        ]

    agree(program)


def test_parameters_are_checked_in_every_slice() -> None:
    normal = ag.distributions.Normal
    at = ag.tensor([1.0, -1.0])
    with pytest.raises(ValueError, match="Expected parameter scale"):
        ag.func.vmap(lambda scale: normal(0.0, scale).log_prob(ag.tensor(0.0)))(at)
    gamma = ag.distributions.Gamma(1.0, 1.0)
    with pytest.raises(ValueError, match="to be within the support"):
        ag.func.vmap(gamma.log_prob)(at)
    wide = ag.stack([ag.eye(2), 2 * ag.eye(2)])
    whole = ag.distributions.MultivariateNormal(ag.zeros(2), wide).log_prob(ag.ones(2))
    each = ag.func.vmap(
        lambda m: ag.distributions.MultivariateNormal(ag.zeros(2), m).log_prob(ag.ones(2))
    )(wide)
    assert ag.allclose(each, whole)


@pytest.mark.parametrize("name", ["Gamma", "Beta", "Dirichlet", "StudentT", "Normal"])
def test_slices_draw_for_themselves(name: str) -> None:
    shape = {"Dirichlet": (5, 3)}.get(name, (5,))
    count = 2 if name in ("Gamma", "Beta", "Normal") else 1
    at = [ag.ones(shape) for _ in range(count)]

    def draw(*args: Any) -> Any:
        return getattr(ag.distributions, name)(*args).rsample((2,))

    found = ag.func.vmap(draw, randomness="different")(*at)
    assert found.shape[:2] == (5, 2)
    assert len(set(found.reshape(5, -1)[:, 0].tolist())) == 5


class _Elsewhere:
    """The package, with tensors on the strict device."""

    def __getattr__(self, name: str) -> Any:
        return getattr(ag, name)

    def tensor(self, data: Any, requires_grad: bool = False) -> Any:
        return ag.tensor(data).to(DEVICE).requires_grad_(requires_grad)


def _on_device(case: Case) -> None:
    d, leaves = case.make(_Elsewhere())
    if not leaves:
        return
    drawn = d.rsample((2,)) if d.has_rsample else d.sample((2,))
    assert drawn.device.type == DEVICE, case
    if drawn.requires_grad:
        drawn.sum().backward(retain_graph=True)
    at = drawn.detach()
    for ask in (lambda: d.log_prob(at), lambda: d.mean, lambda: d.entropy(), lambda: d.cdf(at)):
        try:
            found = ask()
        except NotImplementedError:
            continue
        assert found.device.type == DEVICE, case
        if found.requires_grad and case.name not in ("Gamma", "Chi2", "InverseGamma"):
            found.sum().backward(retain_graph=True)


@pytest.mark.parametrize("name", NAMES)
def test_on_another_array_library(name: str) -> None:
    _on_device(of_name(name)[0])
