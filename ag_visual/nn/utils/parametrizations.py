"""Parametrizations: weight norm, spectral norm and orthogonal matrices."""

from __future__ import annotations

from typing import Any

from ag_visual import linalg
from ag_visual.autograd.grad_mode import no_grad
from ag_visual.core.tensor import Tensor
from ag_visual.dispatch.table import functions as F
from ag_visual.dtypes import finfo
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


class _Orthogonal(Module):
    """A matrix with orthonormal columns (rows, where it is wide) computed from any other."""

    base: Any

    def __init__(self, weight: Any, orthogonal_map: str, *, use_trivialization: bool) -> None:
        super().__init__()
        if weight.is_complex() and orthogonal_map == "householder":
            raise ValueError("The householder parametrization does not support complex tensors.")
        self.shape, self.orthogonal_map = weight.shape, orthogonal_map
        if use_trivialization:
            self.register_buffer("base", None)

    def forward(self, X: Any) -> Any:
        wide = X.shape[-2] < X.shape[-1]
        tall = X.mT if wide else X
        if self.orthogonal_map == "householder":
            below = tall.tril(-1)
            tau = 2.0 / (1.0 + below.square().sum(-2))
            # The diagonal holds signs, which have no derivative.
            signs = tall.detach().diagonal(dim1=-2, dim2=-1).int()
            found = linalg.householder_product(below, tau) * signs.unsqueeze(-2)
        else:
            found = self._of_skew(tall.tril())
        if hasattr(self, "base"):
            found = self.base @ found
        return found.mT if wide else found

    def _of_skew(self, low: Any) -> Any:
        """The first columns of an orthogonal matrix: the exponential or Cayley's map of one that is
        skew.
        """
        n, k = low.shape[-2:]
        if n != k:
            low = F["cat"]([low, low.new_zeros(*low.shape[:-1], n - k)], -1)
        skew = low - low.mH
        if self.orthogonal_map == "matrix_exp":
            found = F["matrix_exp"](skew)
        else:
            eye = F["eye"](n, dtype=skew.dtype, device=skew.device)
            found = linalg.solve(eye - 0.5 * skew, eye + 0.5 * skew)
        return found if n == k else found[..., :k]

    @no_grad()
    def right_inverse(self, Q: Any) -> Any:
        if Q.shape != self.shape:
            raise ValueError(
                f"Expected a matrix or batch of matrices of shape {self.shape}. Got a tensor of "
                f"shape {Q.shape}."
            )
        wide = Q.shape[-2] < Q.shape[-1]
        tall = Q.mT if wide else Q
        if hasattr(self, "base"):
            self.base = _completed(tall)
            start = F["zeros_like"](Q)
            start.diagonal(dim1=-2, dim2=-1).fill_(-1)
            return start
        if self.orthogonal_map != "householder":
            raise NotImplementedError(
                "It is not possible to assign to the matrix exponential or the Cayley "
                "parametrizations when use_trivialization=False."
            )
        # Reflectors and R; columns turn with the signs of R's diagonal.
        found, tau = F["geqrf"](tall)
        signs = found.diagonal(dim1=-2, dim2=-1)
        signs.sign_()
        signs[tau == 0] *= -1  # no reflection: the column was there already
        return found.mT if wide else found


def _completed(tall: Any) -> Any:
    """A square orthogonal matrix whose first columns span those of `tall`, equal to it if it is
    one itself.
    """
    n, k = tall.shape[-2:]
    if n == k:
        eye = F["eye"](n, dtype=tall.dtype, device=tall.device)
        # A multiple of the rounding error, over all products of columns.
        slack = 10 * n * finfo(tall.dtype).eps
        if F["allclose"](tall.mH @ tall, eye.expand(tall.shape), atol=slack):
            return tall.clone()
    else:
        tall = F["cat"]([tall, F["randn_like"](tall.new_empty(*tall.shape[:-1], n - k))], -1)
    reflectors, tau = F["geqrf"](tall)
    found = linalg.householder_product(reflectors, tau)
    return found * reflectors.diagonal(dim1=-2, dim2=-1).sgn().unsqueeze(-2)


def orthogonal(
    module: Module,
    name: str = "weight",
    orthogonal_map: str | None = None,
    *,
    use_trivialization: bool = True,
) -> Module:
    """Keep a matrix (or each of a batch) orthogonal: Q^H Q = I, or Q Q^H = I where it is wide.

    orthogonal_map: 'matrix_exp' or 'cayley' of a skew matrix, or a 'householder' product;
    matrix_exp for square and complex ones unless said otherwise. use_trivialization: times a fixed
    matrix, which helps training. Lezcano Casado, "Trivializations for gradient-based optimization
    on manifolds" (2019).

    Raises:
        ValueError: no such tensor, one of less than two dimensions, an unknown map, a householder
            product of complex numbers.
    """
    weight = getattr(module, name, None)
    if not isinstance(weight, Tensor):
        raise ValueError(f"Module '{module}' has no parameter or buffer with name '{name}'")
    if weight.ndim < 2:
        raise ValueError(
            f"Expected a matrix or batch of matrices. Got a tensor of {weight.ndim} dimensions."
        )
    if orthogonal_map is None:
        square = weight.shape[-2] == weight.shape[-1]
        orthogonal_map = "matrix_exp" if square or weight.is_complex() else "householder"
    if orthogonal_map not in ("matrix_exp", "cayley", "householder"):
        raise ValueError(
            'orthogonal_map has to be one of "matrix_exp", "cayley", "householder". Got: '
            f"{orthogonal_map}"
        )
    kept = _Orthogonal(weight, orthogonal_map, use_trivialization=use_trivialization)
    return parametrize.register_parametrization(module, name, kept, unsafe=True)


__all__ = ["orthogonal", "spectral_norm", "weight_norm"]
__dir__ = _only(__all__, __name__)
