"""Adam and its relatives: AdamW, Adamax, NAdam, RAdam."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

from ag_visual.core.tensor import Tensor
from ag_visual.dispatch.table import functions
from ag_visual.optim.optimizer import (
    Group,
    Optimizer,
    State,
    at_least_zero,
    betas_of,
    not_both,
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


class Adam(_Moments):
    """Kingma and Ba, "Adam: a method for stochastic optimization" (2014).

    amsgrad: Reddi, Kale and Kumar, "On the convergence of Adam and beyond" (2018).
    """

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
        at_least_zero(lr=("learning rate", lr), eps=("epsilon value", eps))
        betas = betas_of(betas)
        at_least_zero(weight_decay=("weight_decay value", weight_decay))
        not_both(foreach, fused, differentiable)
        defaults = {
            "lr": lr,
            "betas": betas,
            "eps": eps,
            "weight_decay": weight_decay,
            "amsgrad": amsgrad,
            "maximize": maximize,
            "foreach": foreach,
            "capturable": capturable,
            "differentiable": differentiable,
            "fused": fused,
            "decoupled_weight_decay": decoupled_weight_decay,
        }
        super().__init__(params, defaults)

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
        super().__init__(
            params,
            lr,
            betas,
            eps,
            weight_decay,
            amsgrad,
            foreach=foreach,
            maximize=maximize,
            capturable=capturable,
            differentiable=differentiable,
            fused=fused,
            decoupled_weight_decay=True,
        )


class Adamax(Optimizer):
    """Adam with the infinity norm. Kingma and Ba (2014), section 7."""

    by_parts = True

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
        at_least_zero(lr=("learning rate", lr), eps=("epsilon value", eps))
        betas = betas_of(betas)
        at_least_zero(weight_decay=("weight_decay value", weight_decay))
        defaults = {
            "lr": lr,
            "betas": betas,
            "eps": eps,
            "weight_decay": weight_decay,
            "foreach": foreach,
            "maximize": maximize,
            "differentiable": differentiable,
            "capturable": capturable,
        }
        super().__init__(params, defaults)

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
        at_least_zero(lr=("learning rate", lr), eps=("epsilon value", eps))
        betas = betas_of(betas)
        at_least_zero(
            weight_decay=("weight_decay value", weight_decay),
            momentum_decay=("momentum_decay value", momentum_decay),
        )
        defaults = {
            "lr": lr,
            "betas": betas,
            "eps": eps,
            "weight_decay": weight_decay,
            "momentum_decay": momentum_decay,
            "decoupled_weight_decay": decoupled_weight_decay,
            "maximize": maximize,
            "foreach": foreach,
            "capturable": capturable,
            "differentiable": differentiable,
        }
        super().__init__(params, defaults)

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
        at_least_zero(lr=("learning rate", lr), eps=("epsilon value", eps))
        betas = betas_of(betas)
        at_least_zero(weight_decay=("weight_decay value", weight_decay))
        defaults = {
            "lr": lr,
            "betas": betas,
            "eps": eps,
            "weight_decay": weight_decay,
            "maximize": maximize,
            "foreach": foreach,
            "capturable": capturable,
            "decoupled_weight_decay": decoupled_weight_decay,
            "differentiable": differentiable,
        }
        super().__init__(params, defaults)

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
