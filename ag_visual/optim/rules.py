"""Plain and adaptive update rules: SGD, RMSprop, Adagrad, Adadelta, Rprop, ASGD, Adafactor.

Arguments are torch's; each cites its paper. The Adam family is in `adam`.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

from ag_visual.arrays.coo import Coo
from ag_visual.core.tensor import Tensor
from ag_visual.dispatch.table import functions
from ag_visual.dtypes import finfo, of_array
from ag_visual.optim.optimizer import (
    Group,
    Optimizer,
    State,
    at_least_zero,
    not_both,
    options,
    scalar,
)


class SGD(Optimizer):
    """p -= lr g; momentum as in Sutskever et al., "On the importance of initialization" (2013)."""

    keeps = False
    elementwise = True

    def __init__(
        self,
        params: Iterable[Any],
        lr: Any = 1e-3,
        momentum: float = 0,
        dampening: float = 0,
        weight_decay: float = 0,
        nesterov: bool = False,
        *,
        maximize: bool = False,
        foreach: bool | None = None,
        differentiable: bool = False,
        fused: bool | None = None,
    ) -> None:
        at_least_zero(lr=lr, momentum=momentum, weight_decay=weight_decay)
        if nesterov and (momentum <= 0 or dampening != 0):
            raise ValueError("Nesterov momentum requires a momentum and zero dampening")
        not_both(foreach, fused, differentiable)
        super().__init__(params, options(locals()))

    def update(self, F: Any, p: Any, g: Any, state: State, group: Group, n: float) -> None:
        momentum = group["momentum"]
        if momentum:
            buffer = state.get("momentum_buffer")
            if buffer is None:
                buffer = state["momentum_buffer"] = F.clone(g)
            else:
                buffer *= momentum
                buffer += (1 - group["dampening"]) * g
            g = g + momentum * buffer if group["nesterov"] else buffer
        p -= group["lr"] * g

    def _update_sparse(self, p: Any, g: Coo, state: State, group: Group, n: float) -> None:
        if group["fused"]:
            raise RuntimeError("`_fused_sgd` does not support sparse gradients")
        if group["weight_decay"]:
            raise RuntimeError(
                "add(sparse, dense) is not supported. Use add(dense, sparse) instead: "
                "weight_decay is of all rows, leave it out with sparse gradients"
            )
        momentum = group["momentum"]
        if momentum:
            buffer = state.get("momentum_buffer")
            if buffer is None:
                buffer = state["momentum_buffer"] = g.copy()
            else:
                buffer *= momentum
                buffer += g * (1 - group["dampening"])
            g = g + buffer * momentum if group["nesterov"] else buffer
        (g * -group["lr"]).add_to(p)


class RMSprop(Optimizer):
    """g over its running root mean square. Hinton, "Neural networks for machine learning", 6e."""

    by_parts = True
    elementwise = True

    def __init__(
        self,
        params: Iterable[Any],
        lr: Any = 1e-2,
        alpha: float = 0.99,
        eps: float = 1e-8,
        weight_decay: float = 0,
        momentum: float = 0,
        centered: bool = False,
        capturable: bool = False,
        foreach: bool | None = None,
        maximize: bool = False,
        differentiable: bool = False,
    ) -> None:
        at_least_zero(lr=lr, eps=eps, momentum=momentum, weight_decay=weight_decay, alpha=alpha)
        super().__init__(params, options(locals()))

    def begin(self, p: Tensor, group: Group) -> State:
        zeros = functions["zeros_like"]
        state = {"square_avg": zeros(p)}
        if group["momentum"] > 0:
            state["momentum_buffer"] = zeros(p)
        if group["centered"]:
            state["grad_avg"] = zeros(p)
        return state

    def update(self, F: Any, p: Any, g: Any, state: State, group: Group, n: float) -> None:
        alpha, square = group["alpha"], state["square_avg"]
        square *= alpha
        square += (1 - alpha) * (g * g)
        scale = square
        if group["centered"]:
            mean = state["grad_avg"]
            mean += (1 - alpha) * (g - mean)
            scale = square - mean * mean
        change = g / (F.sqrt(scale) + group["eps"])
        if group["momentum"] > 0:
            buffer = state["momentum_buffer"]
            buffer *= group["momentum"]
            buffer += change
            change = buffer
        p -= group["lr"] * change


class Adagrad(Optimizer):
    """Duchi, Hazan and Singer, "Adaptive subgradient methods" (2011)."""

    by_parts = True
    elementwise = True

    def __init__(
        self,
        params: Iterable[Any],
        lr: Any = 1e-2,
        lr_decay: float = 0,
        weight_decay: float = 0,
        initial_accumulator_value: float = 0,
        eps: float = 1e-10,
        foreach: bool | None = None,
        *,
        maximize: bool = False,
        differentiable: bool = False,
        fused: bool | None = None,
    ) -> None:
        at_least_zero(lr=lr, lr_decay=lr_decay, weight_decay=weight_decay, eps=eps)
        at_least_zero(initial_accumulator_value=initial_accumulator_value)
        not_both(foreach, fused, differentiable)
        super().__init__(params, options(locals()))
        # torch makes this state at once, for processes that share it.
        for each in self.param_groups:
            for p in each["params"]:
                self._begun(p, each)

    def share_memory(self) -> None:
        """Put its sums of squares into memory that processes share."""
        for group in self.param_groups:
            for p in group["params"]:
                self.state[p]["sum"].share_memory_()

    def begin(self, p: Tensor, group: Group) -> State:
        start = group["initial_accumulator_value"]
        value = complex(start, start) if p.is_complex() else start
        return {"sum": functions["full_like"](p, value)}

    def update(self, F: Any, p: Any, g: Any, state: State, group: Group, n: float) -> None:
        total = state["sum"]
        total += g * g
        rate = group["lr"] / (1 + (n - 1) * group["lr_decay"])
        p -= rate * (g / (F.sqrt(total) + group["eps"]))

    def _update_sparse(self, p: Any, g: Coo, state: State, group: Group, n: float) -> None:
        if group["fused"]:
            raise RuntimeError("`fused` does not support sparse grad or complex param")
        if group["weight_decay"]:
            raise RuntimeError("weight_decay option is not compatible with sparse gradients")
        g = g.coalesced()
        total, at = state["sum"], tuple(g.indices)
        total[at] += g.values * g.values
        rate = group["lr"] / (1 + (n - 1) * group["lr_decay"])
        p[at] -= rate * (g.values / (total[at] ** 0.5 + group["eps"]))


class Adadelta(Optimizer):
    """Zeiler, "ADADELTA: an adaptive learning rate method" (2012)."""

    by_parts = True
    elementwise = True

    def __init__(
        self,
        params: Iterable[Any],
        lr: Any = 1.0,
        rho: float = 0.9,
        eps: float = 1e-6,
        weight_decay: float = 0,
        foreach: bool | None = None,
        *,
        capturable: bool = False,
        maximize: bool = False,
        differentiable: bool = False,
    ) -> None:
        at_least_zero(lr=lr, eps=eps, weight_decay=weight_decay)
        if not 0.0 <= rho <= 1.0:
            raise ValueError(f"Invalid rho value: {rho}")
        super().__init__(params, options(locals()))

    def begin(self, p: Tensor, group: Group) -> State:
        zeros = functions["zeros_like"]
        return {"square_avg": zeros(p), "acc_delta": zeros(p)}

    def update(self, F: Any, p: Any, g: Any, state: State, group: Group, n: float) -> None:
        rho, eps = group["rho"], group["eps"]
        square, moved = state["square_avg"], state["acc_delta"]
        square *= rho
        square += (1 - rho) * (g * g)
        change = F.sqrt(moved + eps) / F.sqrt(square + eps) * g
        moved *= rho
        moved += (1 - rho) * (change * change)
        p -= group["lr"] * change


class Rprop(Optimizer):
    """Riedmiller and Braun, "A direct adaptive method for faster backpropagation" (1993)."""

    by_parts = True
    elementwise = True

    def __init__(
        self,
        params: Iterable[Any],
        lr: Any = 1e-2,
        etas: tuple[float, float] = (0.5, 1.2),
        step_sizes: tuple[float, float] = (1e-6, 50),
        *,
        capturable: bool = False,
        foreach: bool | None = None,
        maximize: bool = False,
        differentiable: bool = False,
    ) -> None:
        at_least_zero(lr=lr)
        if not 0.0 < etas[0] < 1.0 < etas[1]:
            raise ValueError(f"Invalid eta values: {etas[0]}, {etas[1]}")
        super().__init__(params, options(locals()))

    def begin(self, p: Tensor, group: Group) -> State:
        lr = float(group["lr"])
        size = functions["full_like"](p, complex(lr, lr) if p.is_complex() else lr)
        return {"prev": functions["zeros_like"](p), "step_size": size}

    def update(self, F: Any, p: Any, g: Any, state: State, group: Group, n: float) -> None:
        (shrink, grow), (least, most) = group["etas"], group["step_sizes"]
        previous, size = state["prev"], state["step_size"]
        agreement = g * previous
        factor = F.where(agreement > 0, grow, F.where(agreement < 0, shrink, 1.0))
        size *= factor
        size[...] = F.clamp(size, least, most)
        g = F.where(agreement < 0, 0.0, g)
        p -= F.sign(g) * size
        previous[...] = g


class ASGD(Optimizer):
    """Polyak and Juditsky, "Acceleration of stochastic approximation by averaging" (1992).

    The averages are in `state[p]["ax"]`.
    """

    by_parts = True
    elementwise = True
    numbers = ("eta", "mu")

    def __init__(
        self,
        params: Iterable[Any],
        lr: Any = 1e-2,
        lambd: float = 1e-4,
        alpha: float = 0.75,
        t0: float = 1e6,
        weight_decay: float = 0,
        foreach: bool | None = None,
        maximize: bool = False,
        differentiable: bool = False,
        capturable: bool = False,
    ) -> None:
        at_least_zero(lr=lr, weight_decay=weight_decay)
        super().__init__(params, options(locals()))

    def begin(self, p: Tensor, group: Group) -> State:
        return {
            "eta": scalar(float(group["lr"])),
            "mu": scalar(1.0),
            "ax": functions["zeros_like"](p),
        }

    def update(self, F: Any, p: Any, g: Any, state: State, group: Group, n: float) -> None:
        lr, lambd = group["lr"], group["lambd"]
        eta, mu, mean = state["eta"], state["mu"], state["ax"]
        rate = eta.item()
        p *= 1 - lambd * rate
        p -= rate * g
        weight = mu.item()
        if weight == 1:  # infinite ones have no difference
            mean[...] = p
        else:
            mean += (p - mean) * weight
        eta[...] = lr / (1 + lambd * lr * n) ** group["alpha"]
        mu[...] = 1 / max(1, n - group["t0"])


class Adafactor(Optimizer):
    """Shazeer and Stern, "Adafactor: adaptive learning rates with sublinear memory cost" (2018).

    Of matrices the mean squares of rows and columns are kept instead of those of each element.
    lr: the largest relative size of a step, and the factor of weight_decay, which is decoupled.
    eps: the least root of a mean square (None: the dtype's own), and the least size of a parameter
    that a step is relative to. d: updates of a larger root mean square are scaled down to it.
    Raises ValueError for options out of range; `step` RuntimeError for complex parameters.
    """

    def __init__(
        self,
        params: Iterable[Any],
        lr: Any = 1e-2,
        beta2_decay: float = -0.8,
        eps: tuple[float | None, float] = (None, 1e-3),
        d: float = 1.0,
        weight_decay: float = 0.0,
        *,
        foreach: bool | None = None,
        maximize: bool = False,
    ) -> None:
        defaults = options(locals())
        if isinstance(lr, Tensor):
            at_least_zero(lr=lr)
        for called, value, least, most in (
            ("Learning rate", lr, 0.0, math.inf),
            ("beta2_decay", beta2_decay, -math.inf, 0.0),
            ("epsilon1", 0.0 if eps[0] is None else eps[0], 0.0, math.inf),
            ("epsilon2", eps[1], 0.0, math.inf),
            ("Clipping threshold d", d, 1.0, math.inf),
            ("weight_decay", weight_decay, 0.0, math.inf),
        ):
            if not least <= value <= most:
                bound = f"<= {most:.0f}" if most == 0.0 else f">= {least:.0f}"
                raise ValueError(f"{called} should be {bound} but is: {value}")
        super().__init__(params, defaults)

    def begin(self, p: Tensor, group: Group) -> State:
        zeros = functions["zeros_like"]
        if p.is_complex():
            raise RuntimeError("Adafactor does not support complex parameters")
        if p.ndim < 2:
            return {"variance": zeros(p)}
        return {"row_var": zeros(p[..., :1]), "col_var": zeros(p[..., :1, :])}

    def _change(self, p: Tensor, grad: Tensor, group: Group, call_site: Any) -> None:
        super()._change(p, grad, _left(group), call_site)

    def _change_traced(self, p: Tensor, grad: Tensor, group: Group) -> None:
        super()._change_traced(p, grad, _left(group))

    def update(self, F: Any, p: Any, g: Any, state: State, group: Group, n: float) -> None:
        lr, (least, smallest) = group["lr"], group["eps"]
        if least is None:
            least = finfo(p.dtype if isinstance(p, Tensor) else of_array(p)).eps
        share = n ** group["beta2_decay"]
        size = max(smallest, _root_mean_square(F, p)) * min(lr, n**-0.5)
        if group["decay"]:
            p *= 1 - lr * group["decay"]
        square = g * g
        if "variance" in state:
            estimate = state["variance"]
            estimate += share * (square - estimate)
        else:
            rows, columns = state["row_var"], state["col_var"]
            rows += share * (F.mean(square, (-1,), True) - rows)
            columns += share * (F.mean(square, (-2,), True) - columns)
            estimate = rows * columns / F.clamp(F.mean(rows, (-2,), True), least)
        change = g / F.sqrt(F.clamp(estimate, least * least))
        p -= (size / max(1.0, _root_mean_square(F, change) / group["d"])) * change


def _left(group: Group) -> Group:
    """The group of a rule that decays weights by itself, after it has looked at them."""
    return {**group, "weight_decay": 0.0, "decay": group["weight_decay"]}


def _root_mean_square(F: Any, x: Any) -> float:
    return math.sqrt(F.mean(x * x).item())
