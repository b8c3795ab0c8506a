"""Parametrizations: weight norm and spectral norm."""

from __future__ import annotations

from typing import Any

from ag_visual.autograd.grad_mode import no_grad
from ag_visual.names import only as _only
from ag_visual.nn import functional
from ag_visual.nn.module import Module
from ag_visual.nn.utils import parametrize


def norm_except(v: Any, dim: int) -> Any:
    """The 2-norm over all dimensions but one, with sizes kept at 1; -1: over all, one number."""
    if dim == -1:
        return v.square().sum().sqrt()
    dims = [d for d in range(v.dim()) if d != dim % v.dim()]
    return v.square().sum(dims, keepdim=True).sqrt() if dims else v.abs()


class _WeightNorm(Module):
    def __init__(self, dim: int | None = 0) -> None:
        super().__init__()
        self.dim = -1 if dim is None else dim

    def forward(self, weight_g: Any, weight_v: Any) -> Any:
        return weight_v * (weight_g / norm_except(weight_v, self.dim))

    def right_inverse(self, weight: Any) -> tuple[Any, Any]:
        return norm_except(weight, self.dim), weight.clone()


def weight_norm(module: Module, name: str = "weight", dim: int | None = 0) -> Module:
    """w = g v / |v|, with one g for each index of `dim`: originals `original0` and `original1`.

    Salimans and Kingma, "Weight normalization" (2016).
    """
    parametrize.register_parametrization(module, name, _WeightNorm(dim), unsafe=True)

    def renamed(state_dict: Any, prefix: str, local_metadata: Any, strict: Any, *rest: Any) -> None:
        """Names of the older `nn.utils.weight_norm`."""
        for old, new in ((f"{name}_g", "original0"), (f"{name}_v", "original1")):
            if prefix + old in state_dict:
                state_dict[f"{prefix}parametrizations.{name}.{new}"] = state_dict.pop(prefix + old)

    module._register_load_state_dict_pre_hook(renamed)
    return module


class _SpectralNorm(Module):
    def __init__(self, weight: Any, n_power_iterations: int, dim: int, eps: float) -> None:
        super().__init__()
        if not -weight.dim() <= dim < weight.dim():
            raise IndexError(
                "Dimension out of range (expected to be in range of "
                f"[-{weight.dim()}, {weight.dim() - 1}] but got {dim})"
            )
        if n_power_iterations <= 0:
            raise ValueError(
                "Expected n_power_iterations to be positive, but got "
                f"n_power_iterations={n_power_iterations}"
            )
        self.dim, self.eps = dim % weight.dim(), eps
        if weight.dim() > 1:
            self.n_power_iterations = n_power_iterations
            matrix = self._matrix(weight.detach())
            rows, columns = matrix.shape
            for key, size in (("_u", rows), ("_v", columns)):
                start = functional.normalize(matrix.new_empty(size).normal_(), dim=0, eps=eps)  # type: ignore[attr-defined]
                self.register_buffer(key, start)
            self._power(matrix, 15)

    def _matrix(self, weight: Any) -> Any:
        return weight.movedim(self.dim, 0).flatten(1)

    @no_grad()
    def _power(self, matrix: Any, count: int) -> None:
        """Turn u and v towards the singular vectors of the largest singular value."""
        for _ in range(count):
            u = functional.normalize(matrix.mv(self._v), dim=0, eps=self.eps)  # type: ignore[attr-defined]
            self._u = u
            self._v = functional.normalize(matrix.t().mv(u), dim=0, eps=self.eps)  # type: ignore[attr-defined]

    def forward(self, weight: Any) -> Any:
        if weight.dim() == 1:
            return functional.normalize(weight, dim=0, eps=self.eps)  # type: ignore[attr-defined]
        matrix = self._matrix(weight)
        if self.training:
            self._power(matrix.detach(), self.n_power_iterations)
        return weight / self._u.dot(matrix.mv(self._v))

    def right_inverse(self, value: Any) -> Any:
        """Any matrix whose largest singular value is 1 is its own original."""
        return value


def spectral_norm(
    module: Module,
    name: str = "weight",
    n_power_iterations: int = 1,
    eps: float = 1e-12,
    dim: int | None = None,
) -> Module:
    """Divide a weight by its largest singular value, found by power iterations in training.

    Miyato et al., "Spectral normalization for generative adversarial networks" (2018).
    """
    weight = getattr(module, name, None)
    if weight is None:
        raise ValueError(f"Module '{module}' has no parameter or buffer with name '{name}'")
    if dim is None:
        dim = int(type(module).__name__.startswith("ConvTranspose"))
    norm = _SpectralNorm(weight, n_power_iterations, dim, eps)
    return parametrize.register_parametrization(module, name, norm)


def remove_spectral_norm(module: Module, name: str = "weight") -> Module:
    """Keep the weight divided by its largest singular value as an ordinary parameter."""
    return parametrize.remove_parametrizations(module, name)


def remove_weight_norm(module: Module, name: str = "weight") -> Module:
    """Keep the normalized weight as an ordinary parameter."""
    return parametrize.remove_parametrizations(module, name)


__all__ = ["spectral_norm", "weight_norm"]
__dir__ = _only(__all__, __name__)
