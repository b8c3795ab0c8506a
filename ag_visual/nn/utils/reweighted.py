"""torch.nn.utils.weight_norm and spectral_norm: a weight that a hook computes before each call.

The older forms of the parametrizations of these names, with the names that programs and checkpoints
know: `weight_g` and `weight_v`; `weight_orig`, `weight_u` and `weight_v`.
"""

from __future__ import annotations

from typing import Any

from ag_visual.autograd.grad_mode import no_grad
from ag_visual.core.source import warn
from ag_visual.nn import functional
from ag_visual.nn.convolution import ConvTranspose1d, ConvTranspose2d, ConvTranspose3d
from ag_visual.nn.module import Module
from ag_visual.nn.parameter import Parameter, UninitializedParameter
from ag_visual.nn.utils.parametrizations import norm_except


class _Reweighted:
    """Base of the hooks: `name` is a plain attribute of the module, set before each forward."""

    said = ""  # what errors call it

    def __init__(self, name: str, dim: int) -> None:
        self.name, self.dim = name, dim

    def compute_weight(self, module: Any, *again: bool) -> Any:
        """The weight, with its history."""
        raise NotImplementedError

    def __call__(self, module: Any, inputs: Any) -> None:
        setattr(module, self.name, self.compute_weight(module, module.training))

    def put(self, module: Module) -> None:
        """Call this hook before each forward of the module."""
        if _hook_of(module, type(self), self.name):
            raise RuntimeError(
                f"Cannot register two {self.said} hooks on the same parameter {self.name}"
            )
        weight: Any = module._parameters[self.name]
        if weight is None:
            raise ValueError(f"{self.said} needs a parameter, but `{self.name}` is None")
        if isinstance(weight, UninitializedParameter):
            raise ValueError(
                f"{self.said} cannot be applied to the parameter `{self.name}`, which waits for "
                "its input: call the module once before"
            )
        del module._parameters[self.name]
        self._begin(module, weight)
        module.register_forward_pre_hook(self)

    def _begin(self, module: Module, weight: Any) -> None:
        """Register what the weight is computed from."""
        raise NotImplementedError

    def remove(self, module: Module) -> None:
        """Make the present weight a parameter again; the hook stays where it is."""
        with no_grad():
            weight = self.compute_weight(module, False).detach()
        delattr(module, self.name)
        self._end(module)
        module.register_parameter(self.name, Parameter(weight))

    def _end(self, module: Any) -> None:
        raise NotImplementedError


class WeightNorm(_Reweighted):
    """The hook of `weight_norm`."""

    said = "weight_norm"

    def compute_weight(self, module: Any, *again: bool) -> Any:
        g, v = getattr(module, f"{self.name}_g"), getattr(module, f"{self.name}_v")
        return v * (g / norm_except(v, self.dim))

    def _begin(self, module: Module, weight: Any) -> None:
        norm = norm_except(weight.detach(), self.dim)
        module.register_parameter(f"{self.name}_g", Parameter(norm))
        module.register_parameter(f"{self.name}_v", Parameter(weight.detach()))
        setattr(module, self.name, self.compute_weight(module))

    def _end(self, module: Any) -> None:
        for part in ("g", "v"):
            del module._parameters[f"{self.name}_{part}"]


class SpectralNorm(_Reweighted):
    """The hook of `spectral_norm`."""

    said = "spectral_norm"

    def __init__(
        self, name: str = "weight", n_power_iterations: int = 1, dim: int = 0, eps: float = 1e-12
    ) -> None:
        super().__init__(name, dim)
        if n_power_iterations <= 0:
            raise ValueError(
                "Expected n_power_iterations to be positive, but got "
                f"n_power_iterations={n_power_iterations}"
            )
        self.n_power_iterations, self.eps = n_power_iterations, eps

    def reshape_weight_to_matrix(self, weight: Any) -> Any:
        """(size of dim, all others)."""
        return weight.movedim(self.dim, 0).flatten(1)

    def _unit(self, vector: Any) -> Any:
        return functional.normalize(vector, dim=0, eps=self.eps)  # type: ignore[attr-defined]

    def compute_weight(self, module: Any, do_power_iteration: bool = False, *_: bool) -> Any:
        """The weight divided by u W v; in training u and v are turned before, in place."""
        weight = getattr(module, f"{self.name}_orig")
        u, v = getattr(module, f"{self.name}_u"), getattr(module, f"{self.name}_v")
        matrix = self.reshape_weight_to_matrix(weight)
        if do_power_iteration:
            with no_grad():
                for _ in range(self.n_power_iterations):
                    v.copy_(self._unit(matrix.t().mv(u)))
                    u.copy_(self._unit(matrix.mv(v)))
                # A graph keeps copies: the next call writes u and v again.
                u, v = u.clone(), v.clone()
        return weight / u.dot(matrix.mv(v))

    def _begin(self, module: Module, weight: Any) -> None:
        sizes = self.reshape_weight_to_matrix(weight.detach()).shape
        u, v = (self._unit(weight.detach().new_empty(size).normal_(0, 1)) for size in sizes)
        module.register_parameter(f"{self.name}_orig", weight)
        setattr(module, self.name, weight.data)  # what initializes a weight finds one
        module.register_buffer(f"{self.name}_u", u)
        module.register_buffer(f"{self.name}_v", v)

    def _end(self, module: Any) -> None:
        for part in ("u", "v", "orig"):
            delattr(module, f"{self.name}_{part}")


def weight_norm(module: Module, name: str = "weight", dim: int | None = 0) -> Module:
    """w = g v / |v|, with one g for each index of `dim` (None: one g): `weight_g` and `weight_v`.

    Salimans and Kingma, "Weight normalization" (2016).

    Raises:
        RuntimeError: the weight is normalized already.
        ValueError: it waits for the input of a lazy module, or there is none.
    """
    warn(
        "`torch.nn.utils.weight_norm` is deprecated in favor of "
        "`torch.nn.utils.parametrizations.weight_norm`.",
        FutureWarning,
    )
    WeightNorm(name, -1 if dim is None else dim).put(module)
    return module


def spectral_norm(
    module: Module,
    name: str = "weight",
    n_power_iterations: int = 1,
    eps: float = 1e-12,
    dim: int | None = None,
) -> Module:
    """Divide a weight by its largest singular value, found by power iterations in training.

    `weight_orig` is the parameter; `weight_u` and `weight_v` begin at random. dim: which dimension
    counts outputs (1 in transposed convolutions, else 0).
    Miyato et al., "Spectral normalization for generative adversarial networks" (2018).

    Raises:
        RuntimeError: the weight is normalized already.
        ValueError: it waits for the input of a lazy module, or there is none.
    """
    if dim is None:
        dim = int(isinstance(module, ConvTranspose1d | ConvTranspose2d | ConvTranspose3d))
    SpectralNorm(name, n_power_iterations, dim, eps).put(module)
    return module


def _hook_of(module: Module, kind: type[_Reweighted], name: str) -> list[tuple[int, Any]]:
    hooks: Any = module._forward_pre_hooks.items()
    return [(k, hook) for k, hook in hooks if isinstance(hook, kind) and hook.name == name]


def _removed(module: Module, kind: type[_Reweighted], name: str) -> Module:
    found = _hook_of(module, kind, name)
    if not found:
        raise ValueError(f"{kind.said} of '{name}' not found in {module}")
    [(key, hook)] = found
    hook.remove(module)
    del module._forward_pre_hooks[key]
    return module


def remove_weight_norm(module: Module, name: str = "weight") -> Module:
    """Keep the normalized weight as an ordinary parameter."""
    return _removed(module, WeightNorm, name)


def remove_spectral_norm(module: Module, name: str = "weight") -> Module:
    """Keep the weight divided by its largest singular value as an ordinary parameter."""
    return _removed(module, SpectralNorm, name)
