"""Exponential families: entropies and divergences from the log normaliser alone."""

from __future__ import annotations

from typing import Any

from ag_visual.autograd import grad
from ag_visual.autograd.grad_mode import enable_grad
from ag_visual.distributions.distribution import Distribution
from ag_visual.distributions.utils import sum_rightmost

__all__ = ["ExponentialFamily"]


class ExponentialFamily(Distribution):
    """p(x) = exp(<t(x), eta> - A(eta) + k(x)), with natural parameters eta and log normaliser A.

    The entropy is A(eta) - <eta, grad A(eta)> - E[k(x)], with the gradient by automatic
    differentiation. Source: Nielsen and Nock, "Entropies and cross-entropies of exponential
    families" (2010).
    """

    @property
    def _natural_params(self) -> tuple[Any, ...]:
        raise NotImplementedError

    def _log_normalizer(self, *natural_params: Any) -> Any:
        raise NotImplementedError

    @property
    def _mean_carrier_measure(self) -> float:
        raise NotImplementedError

    def _normalizer_and_moments(self) -> tuple[Any, list[Any], tuple[Any, ...]]:
        """A(eta), eta, and grad A(eta): the expected sufficient statistics."""
        with enable_grad():
            given = self._natural_params
            params = [p if p.requires_grad else p.detach().requires_grad_() for p in given]
            normalizer = self._log_normalizer(*params)
            return normalizer, params, grad(normalizer.sum(), params, create_graph=True)

    def entropy(self) -> Any:
        carrier = self._mean_carrier_measure
        normalizer, params, moments = self._normalizer_and_moments()
        result = normalizer - carrier
        for param, moment in zip(params, moments, strict=True):
            event = param.dim() - len(self.batch_shape)
            result = result - sum_rightmost(param * moment, event)
        return result
