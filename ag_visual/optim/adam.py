"""Adam and its relatives: AdamW, Adamax, NAdam, RAdam."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

from ag_visual.arrays.coo import Coo
from ag_visual.core.tensor import Tensor
from ag_visual.dispatch.sparse import is_sparse
from ag_visual.dispatch.table import functions
from ag_visual.optim.optimizer import (
    Group,
    Optimizer,
    State,
    at_least_zero,
    betas_of,
    not_both,
    options,
    scalar,
)


class _Moments(Optimizer):
    """Base of rules with running means of the gradient and of its square."""

    by_parts = True

    def begin(self, p: Tensor, group: Group) -> State:
        zeros = functions["zeros_like"]
        return {"exp_avg": zeros(p), "exp_avg_sq": zeros(p)}

    def moments(self, g: Any, state: State, group: Group) -> tuple[Any, Any]:
        """Both running means, with this gradient in them."""
        beta1, beta2 = group["betas"]
        mean, square = state["exp_avg"], state["exp_avg_sq"]
        mean *= beta1
        mean += (1 - beta1) * g
        square *= beta2
        square += (1 - beta2) * (g * g)
        return mean, square


def _check_numbers(given: dict[str, Any]) -> None:
    """Refuse Tensors as options of a foreach step."""
    for name, value in given.items():
        if isinstance(value, Tensor):
            raise ValueError(
                f"{name} as a Tensor is not supported for capturable=False and foreach=True: give "
                "a number, or leave out foreach"
            )


class Adam(_Moments):
    """Kingma and Ba, "Adam: a method for stochastic optimization" (2014).

    amsgrad: Reddi, Kale and Kumar, "On the convergence of Adam and beyond" (2018).
    """

    elementwise = True

    def __init__(
        self,
        params: Iterable[Any],
        lr: Any = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0,
        amsgrad: bool = False,
        *,
        foreach: bool | None = None,
        maximize: bool = False,
        capturable: bool = False,
        differentiable: bool = False,
        fused: bool | None = None,
        decoupled_weight_decay: bool = False,
    ) -> None:
        at_least_zero(lr=lr, eps=eps, weight_decay=weight_decay)
        if foreach and not capturable:
            _check_numbers({"lr": lr, "betas[0]": betas[0], "betas[1]": betas[1]})
        betas = betas_of(betas)
        not_both(foreach, fused, differentiable)
        super().__init__(params, options(locals()))

    def begin(self, p: Tensor, group: Group) -> State:
        state = super().begin(p, group)
        if group["amsgrad"]:
            state["max_exp_avg_sq"] = functions["zeros_like"](p)
        return state

    def update(self, F: Any, p: Any, g: Any, state: State, group: Group, n: float) -> None:
        beta1, beta2 = group["betas"]
        mean, square = self.moments(g, state, group)
        if group["amsgrad"]:
            largest = state["max_exp_avg_sq"]
            largest[...] = square = F.maximum(largest, square)
        scale = F.sqrt(square)
        scale /= math.sqrt(1 - beta2**n)
        scale += group["eps"]
        p -= (group["lr"] / (1 - beta1**n)) * (mean / scale)

    def _update_sparse(self, p: Any, g: Coo, state: State, group: Group, n: float) -> None:
        raise RuntimeError(
            "Adam does not support sparse gradients, please consider SparseAdam instead"
        )


class AdamW(Adam):
    """Loshchilov and Hutter, "Decoupled weight decay regularization" (2017)."""

    def __init__(
        self,
        params: Iterable[Any],
        lr: Any = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 1e-2,
        amsgrad: bool = False,
        *,
        maximize: bool = False,
        foreach: bool | None = None,
        capturable: bool = False,
        differentiable: bool = False,
        fused: bool | None = None,
    ) -> None:
        super().__init__(params, **options(locals()), decoupled_weight_decay=True)


class Adamax(Optimizer):
    """Adam with the infinity norm. Kingma and Ba (2014), section 7."""

    by_parts = True
    elementwise = True

    def __init__(
        self,
        params: Iterable[Any],
        lr: Any = 2e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0,
        foreach: bool | None = None,
        *,
        maximize: bool = False,
        differentiable: bool = False,
        capturable: bool = False,
    ) -> None:
        at_least_zero(lr=lr, eps=eps, weight_decay=weight_decay)
        betas = betas_of(betas)
        super().__init__(params, options(locals()))

    def begin(self, p: Tensor, group: Group) -> State:
        zeros = functions["zeros_like"]
        return {"exp_avg": zeros(p), "exp_inf": zeros(p)}

    def update(self, F: Any, p: Any, g: Any, state: State, group: Group, n: float) -> None:
        beta1, beta2 = group["betas"]
        mean, largest = state["exp_avg"], state["exp_inf"]
        mean += (1 - beta1) * (g - mean)
        largest[...] = F.maximum(beta2 * largest, F.abs(g) + group["eps"])
        p -= (group["lr"] / (1 - beta1**n)) * (mean / largest)


class NAdam(_Moments):
    """Dozat, "Incorporating Nesterov momentum into Adam" (2016)."""

    elementwise = True
    numbers = ("mu_product",)

    def __init__(
        self,
        params: Iterable[Any],
        lr: Any = 2e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0,
        momentum_decay: float = 4e-3,
        decoupled_weight_decay: bool = False,
        *,
        foreach: bool | None = None,
        maximize: bool = False,
        capturable: bool = False,
        differentiable: bool = False,
    ) -> None:
        at_least_zero(lr=lr, eps=eps, weight_decay=weight_decay, momentum_decay=momentum_decay)
        betas = betas_of(betas)
        super().__init__(params, options(locals()))

    def begin(self, p: Tensor, group: Group) -> State:
        return {"mu_product": scalar(1.0), **super().begin(p, group)}

    def update(self, F: Any, p: Any, g: Any, state: State, group: Group, n: float) -> None:
        lr, decay, (beta1, beta2) = group["lr"], group["momentum_decay"], group["betas"]
        mu = beta1 * (1 - 0.5 * 0.96 ** (n * decay))
        mu_next = beta1 * (1 - 0.5 * 0.96 ** ((n + 1) * decay))
        product = state["mu_product"]
        product *= mu
        so_far = product.item()
        mean, square = self.moments(g, state, group)
        scale = F.sqrt(square / (1 - beta2**n)) + group["eps"]
        p -= (lr * (1 - mu) / (1 - so_far)) * (g / scale)
        p -= (lr * mu_next / (1 - so_far * mu_next)) * (mean / scale)


class RAdam(_Moments):
    """Liu et al., "On the variance of the adaptive learning rate and beyond" (2019)."""

    elementwise = True

    def __init__(
        self,
        params: Iterable[Any],
        lr: Any = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0,
        decoupled_weight_decay: bool = False,
        *,
        foreach: bool | None = None,
        maximize: bool = False,
        capturable: bool = False,
        differentiable: bool = False,
    ) -> None:
        at_least_zero(lr=lr, eps=eps, weight_decay=weight_decay)
        betas = betas_of(betas)
        super().__init__(params, options(locals()))

    def update(self, F: Any, p: Any, g: Any, state: State, group: Group, n: float) -> None:
        beta1, beta2 = group["betas"]
        mean, square = self.moments(g, state, group)
        change = mean / (1 - beta1**n)
        # Length of the running mean's approximated simple moving average, now and at last.
        last = 2 / (1 - beta2) - 1
        length = last - 2 * n * beta2**n / (1 - beta2**n)
        if length > 5:
            gain = (length - 4) * (length - 2) * last / ((last - 4) * (last - 2) * length)
            scale = F.sqrt(square) + group["eps"]
            change = change / scale * math.sqrt(gain * (1 - beta2**n))
        p -= group["lr"] * change


class SparseAdam(Optimizer):
    """Adam that moves, and averages, only those rows that a sparse gradient names.

    The means of other rows don't fade, so it is no Adam whose gradients are zero there.
    """

    def __init__(
        self,
        params: Iterable[Any],
        lr: Any = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        maximize: bool = False,
    ) -> None:
        at_least_zero(lr=lr, eps=eps)
        if not lr > 0:
            raise ValueError(f"Invalid learning rate: {lr}")
        if not eps > 0:
            raise ValueError(f"Invalid epsilon value: {eps}")
        betas = betas_of(betas)
        super().__init__(params, options(locals()))
        each = [
            ([i, j], p)
            for i, group in enumerate(self.param_groups)
            for j, p in enumerate(group["params"])
        ]
        if found := [place for place, p in each if is_sparse(p)]:
            raise ValueError(
                f"Sparse params at indices {found}: SparseAdam requires dense parameter tensors"
            )
        if found := [place for place, p in each if p.is_complex()]:
            raise ValueError(
                f"Complex params at indices {found}: SparseAdam does not support complex parameters"
            )

    def _begun(self, p: Tensor, group: Group) -> State:
        zeros = functions["zeros_like"]
        plain = p.detach()
        self.state[p] = state = {"step": 0, "exp_avg": zeros(plain), "exp_avg_sq": zeros(plain)}
        return state

    def _change(self, p: Tensor, grad: Tensor, group: Group, call_site: Any = None) -> None:
        if not is_sparse(grad):
            raise RuntimeError(
                "SparseAdam does not support dense gradients, please consider Adam instead"
            )
        self._change_sparse(p, grad._array, group)

    _change_traced = _change

    def _update_sparse(self, p: Any, g: Coo, state: State, group: Group, n: float) -> None:
        g = g.coalesced()
        if not g.values.size:
            return
        at = tuple(g.indices)
        (beta1, beta2), mean, square = group["betas"], state["exp_avg"], state["exp_avg_sq"]
        mean[at] += (1 - beta1) * (g.values - mean[at])
        square[at] += (1 - beta2) * (g.values * g.values - square[at])
        size = group["lr"] * math.sqrt(1 - beta2**n) / (1 - beta1**n)
        p[at] -= size * (mean[at] / (square[at] ** 0.5 + group["eps"]))
