"""One class per update rule. Arguments are torch's; each cites its paper."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ..core.tensor import Tensor
from ..ops.table import functions as F
from .optimizer import Optimizer


def _positive(**values: float) -> None:
    for name, value in values.items():
        if value < 0.0:
            raise ValueError(f"Invalid {name}: {value}")


class SGD(Optimizer):
    """Stochastic gradient descent with momentum (Sutskever et al. 2013)."""

    def __init__(
        self,
        params: Iterable[Any],
        lr: float = 1e-3,
        momentum: float = 0.0,
        dampening: float = 0.0,
        weight_decay: float = 0.0,
        nesterov: bool = False,
        *,
        maximize: bool = False,
    ) -> None:
        _positive(lr=lr, momentum=momentum, weight_decay=weight_decay)
        if nesterov and (momentum <= 0 or dampening != 0):
            raise ValueError("Nesterov momentum requires a momentum and zero dampening")
        super().__init__(
            params,
            {
                "lr": lr,
                "momentum": momentum,
                "dampening": dampening,
                "weight_decay": weight_decay,
                "nesterov": nesterov,
                "maximize": maximize,
            },
        )

    def update(self, p: Tensor, g: Any, group: dict[str, Any], state: dict[str, Any]) -> None:
        if group["maximize"]:
            g = -g
        if group["weight_decay"]:
            g = g.add(p, alpha=group["weight_decay"])
        momentum = group["momentum"]
        if momentum:
            buffer = state.get("momentum_buffer")
            if buffer is None:
                buffer = state["momentum_buffer"] = g.detach().clone()
            else:
                buffer.mul_(momentum).add_(g, alpha=1 - group["dampening"])
            g = g.add(buffer, alpha=momentum) if group["nesterov"] else buffer
        p.add_(g, alpha=-group["lr"])


class Adam(Optimizer):
    """Kingma and Ba, "Adam: a method for stochastic optimization" (2014)."""

    by_parts = True
    decoupled = False

    def __init__(
        self,
        params: Iterable[Any],
        lr: float = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0.0,
        amsgrad: bool = False,
        *,
        maximize: bool = False,
    ) -> None:
        _positive(lr=lr, eps=eps, weight_decay=weight_decay)
        for i, beta in enumerate(betas):
            if not 0.0 <= beta < 1.0:
                raise ValueError(f"Invalid beta parameter at index {i}: {beta}")
        super().__init__(
            params,
            {
                "lr": lr,
                "betas": betas,
                "eps": eps,
                "weight_decay": weight_decay,
                "amsgrad": amsgrad,
                "maximize": maximize,
            },
        )

    def update(self, p: Tensor, g: Any, group: dict[str, Any], state: dict[str, Any]) -> None:
        lr, (beta1, beta2) = group["lr"], group["betas"]
        if group["maximize"]:
            g = -g
        if group["weight_decay"]:
            if self.decoupled:
                p.mul_(1 - lr * group["weight_decay"])
            else:
                g = g.add(p, alpha=group["weight_decay"])
        if not state:
            state.update(step=0, exp_avg=F["zeros_like"](p), exp_avg_sq=F["zeros_like"](p))
            if group["amsgrad"]:
                state["max_exp_avg_sq"] = F["zeros_like"](p)
        state["step"] += 1
        step = state["step"]
        mean, square = state["exp_avg"], state["exp_avg_sq"]
        mean.mul_(beta1).add_(g, alpha=1 - beta1)
        square.mul_(beta2).add_(g * g, alpha=1 - beta2)
        if group["amsgrad"]:
            state["max_exp_avg_sq"] = square = F["maximum"](state["max_exp_avg_sq"], square)
        scale = (square / (1 - beta2**step)).sqrt_().add_(group["eps"])
        p.add_(mean / scale, alpha=-lr / (1 - beta1**step))


class AdamW(Adam):
    """Loshchilov and Hutter, "Decoupled weight decay regularization" (2017)."""

    decoupled = True

    def __init__(
        self,
        params: Iterable[Any],
        lr: float = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 1e-2,
        amsgrad: bool = False,
        *,
        maximize: bool = False,
    ) -> None:
        super().__init__(params, lr, betas, eps, weight_decay, amsgrad, maximize=maximize)


class RMSprop(Optimizer):
    """Hinton, lecture 6e of "Neural networks for machine learning" (2012)."""

    by_parts = True

    def __init__(
        self,
        params: Iterable[Any],
        lr: float = 1e-2,
        alpha: float = 0.99,
        eps: float = 1e-8,
        weight_decay: float = 0.0,
        momentum: float = 0.0,
        centered: bool = False,
    ) -> None:
        _positive(lr=lr, eps=eps, weight_decay=weight_decay, momentum=momentum, alpha=alpha)
        super().__init__(
            params,
            {
                "lr": lr,
                "alpha": alpha,
                "eps": eps,
                "weight_decay": weight_decay,
                "momentum": momentum,
                "centered": centered,
            },
        )

    def update(self, p: Tensor, g: Any, group: dict[str, Any], state: dict[str, Any]) -> None:
        alpha = group["alpha"]
        if group["weight_decay"]:
            g = g.add(p, alpha=group["weight_decay"])
        if not state:
            state["square_avg"] = F["zeros_like"](p)
            state["momentum_buffer"] = F["zeros_like"](p)
            state["grad_avg"] = F["zeros_like"](p)
        square = state["square_avg"]
        square.mul_(alpha).add_(g * g, alpha=1 - alpha)
        scale = square
        if group["centered"]:
            state["grad_avg"].mul_(alpha).add_(g, alpha=1 - alpha)
            scale = square - state["grad_avg"] * state["grad_avg"]
        step = g / (scale.sqrt() + group["eps"])
        if group["momentum"]:
            step = state["momentum_buffer"].mul_(group["momentum"]).add_(step)
        p.add_(step, alpha=-group["lr"])


class Adagrad(Optimizer):
    """Duchi, Hazan and Singer, "Adaptive subgradient methods" (2011)."""

    by_parts = True

    def __init__(
        self,
        params: Iterable[Any],
        lr: float = 1e-2,
        lr_decay: float = 0.0,
        weight_decay: float = 0.0,
        initial_accumulator_value: float = 0.0,
        eps: float = 1e-10,
    ) -> None:
        _positive(lr=lr, lr_decay=lr_decay, weight_decay=weight_decay, eps=eps)
        super().__init__(
            params,
            {
                "lr": lr,
                "lr_decay": lr_decay,
                "weight_decay": weight_decay,
                "initial_accumulator_value": initial_accumulator_value,
                "eps": eps,
            },
        )

    def update(self, p: Tensor, g: Any, group: dict[str, Any], state: dict[str, Any]) -> None:
        if group["weight_decay"]:
            g = g.add(p, alpha=group["weight_decay"])
        if not state:
            state["step"] = 0
            state["sum"] = F["full_like"](p, group["initial_accumulator_value"])
        state["step"] += 1
        rate = group["lr"] / (1 + (state["step"] - 1) * group["lr_decay"])
        state["sum"].add_(g * g)
        p.add_(g / (state["sum"].sqrt() + group["eps"]), alpha=-rate)
