"""Schedulers that follow one curve: steps, lines, powers, a cosine, or the user's function."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any

from ag_visual.optim.lr_scheduler.scheduler import LRScheduler, options, saved_callable
from ag_visual.optim.optimizer import Optimizer


class _ByFunction(LRScheduler):
    """Base of schedulers with a function of the epoch for each group."""

    _hidden = ("optimizer", "lr_lambdas")

    def __init__(
        self,
        optimizer: Optimizer,
        lr_lambda: Callable[[int], float] | list[Callable[[int], float]],
        last_epoch: int = -1,
    ) -> None:
        count = len(optimizer.param_groups)
        given = lr_lambda if isinstance(lr_lambda, list | tuple) else [lr_lambda] * count
        if len(given) != count:
            raise ValueError(f"Expected {count} lr_lambdas, but got {len(given)}")
        for each in given:
            if not callable(each):
                raise TypeError(f"lr_lambda should be a function, but got {type(each).__name__}")
        self.lr_lambdas = list(given)
        super().__init__(optimizer, last_epoch)

    def state_dict(self) -> dict[str, Any]:
        return {**super().state_dict(), "lr_lambdas": list(map(saved_callable, self.lr_lambdas))}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        super().load_state_dict({k: v for k, v in state_dict.items() if k != "lr_lambdas"})
        for function, saved in zip(self.lr_lambdas, state_dict["lr_lambdas"], strict=True):
            if saved is not None:
                vars(function).update(saved)


class LambdaLR(_ByFunction):
    """base * lr_lambda(epoch)."""

    def get_lr(self) -> list[Any]:
        pairs = zip(self.lr_lambdas, self.base_lrs, strict=True)
        return [base * function(self.last_epoch) for function, base in pairs]


class MultiplicativeLR(_ByFunction):
    """lr * lr_lambda(epoch)."""

    def get_lr(self) -> list[Any]:
        rates = options(self.optimizer, "lr")
        if self._is_initial:
            return rates
        pairs = zip(self.lr_lambdas, rates, strict=True)
        return [lr * function(self.last_epoch) for function, lr in pairs]


class StepLR(LRScheduler):
    """Multiplied by gamma every `step_size` epochs."""

    def __init__(
        self, optimizer: Optimizer, step_size: int, gamma: float = 0.1, last_epoch: int = -1
    ) -> None:
        self.step_size, self.gamma = step_size, gamma
        super().__init__(optimizer, last_epoch)

    def rate(self, lr: Any, base: Any) -> Any:
        if self.last_epoch == 0 or self.last_epoch % self.step_size:
            return lr
        return lr * self.gamma

    def closed(self, base: Any) -> Any:
        return base * self.gamma ** (self.last_epoch // self.step_size)


class MultiStepLR(LRScheduler):
    """Multiplied by gamma at each milestone."""

    def __init__(
        self,
        optimizer: Optimizer,
        milestones: Iterable[int],
        gamma: float = 0.1,
        last_epoch: int = -1,
    ) -> None:
        self.milestones, self.gamma = Counter(milestones), gamma
        super().__init__(optimizer, last_epoch)

    def rate(self, lr: Any, base: Any) -> Any:
        times = self.milestones.get(self.last_epoch, 0)
        return lr * self.gamma**times if times else lr

    def closed(self, base: Any) -> Any:
        reached = bisect_right(sorted(self.milestones.elements()), self.last_epoch)
        return base * self.gamma**reached


class ConstantLR(LRScheduler):
    """Multiplied by `factor` until epoch `total_iters`."""

    def __init__(
        self,
        optimizer: Optimizer,
        factor: float = 1.0 / 3,
        total_iters: int = 5,
        last_epoch: int = -1,
    ) -> None:
        if not 0 <= factor <= 1:
            raise ValueError(
                f"Constant multiplicative factor expected to be between 0 and 1, but got {factor}."
            )
        self.factor, self.total_iters = factor, total_iters
        super().__init__(optimizer, last_epoch)

    def rate(self, lr: Any, base: Any) -> Any:
        if self.last_epoch == 0:
            return lr * self.factor
        return lr * (1.0 / self.factor) if self.last_epoch == self.total_iters else lr

    def closed(self, base: Any) -> Any:
        return base if self.last_epoch >= self.total_iters else base * self.factor


class LinearLR(LRScheduler):
    """A line from `start_factor` to `end_factor` in `total_iters` epochs."""

    def __init__(
        self,
        optimizer: Optimizer,
        start_factor: float = 1.0 / 3,
        end_factor: float = 1.0,
        total_iters: int = 5,
        last_epoch: int = -1,
    ) -> None:
        if not 0 < start_factor <= 1:
            raise ValueError(
                "Starting multiplicative factor expected to be greater than 0 and less or equal "
                f"to 1, but got {start_factor}."
            )
        if not 0 <= end_factor <= 1:
            raise ValueError(
                "Ending multiplicative factor expected to be between 0 and 1, but got "
                f"{end_factor}."
            )
        self.start_factor, self.end_factor = start_factor, end_factor
        self.total_iters = total_iters
        super().__init__(optimizer, last_epoch)

    def rate(self, lr: Any, base: Any) -> Any:
        if self.last_epoch == 0:
            return lr * self.start_factor
        if self._is_initial or self.last_epoch > self.total_iters:
            return lr
        rise = self.end_factor - self.start_factor
        reached = self.total_iters * self.start_factor + (self.last_epoch - 1) * rise
        return lr * (1.0 + rise / reached)

    def closed(self, base: Any) -> Any:
        part = min(self.total_iters, self.last_epoch) / self.total_iters
        return base * (self.start_factor + (self.end_factor - self.start_factor) * part)


class ExponentialLR(LRScheduler):
    """Multiplied by gamma in each epoch."""

    def __init__(self, optimizer: Optimizer, gamma: float, last_epoch: int = -1) -> None:
        self.gamma = gamma
        super().__init__(optimizer, last_epoch)

    def rate(self, lr: Any, base: Any) -> Any:
        return lr if self._is_initial else lr * self.gamma

    def closed(self, base: Any) -> Any:
        return base * self.gamma**self.last_epoch


class PolynomialLR(LRScheduler):
    """base * (1 - epoch / total_iters) ** power."""

    def __init__(
        self, optimizer: Optimizer, total_iters: int = 5, power: float = 1.0, last_epoch: int = -1
    ) -> None:
        self.total_iters, self.power = total_iters, power
        super().__init__(optimizer, last_epoch)

    def _left(self, epoch: int) -> float:
        return 1.0 - epoch / self.total_iters

    def rate(self, lr: Any, base: Any) -> Any:
        if self._is_initial or self.last_epoch > self.total_iters:
            return lr
        return lr * (self._left(self.last_epoch) / self._left(self.last_epoch - 1)) ** self.power

    def closed(self, base: Any) -> Any:
        return base * self._left(min(self.total_iters, self.last_epoch)) ** self.power


class CosineAnnealingLR(LRScheduler):
    """Half a cosine from the base rate to `eta_min` in `T_max` epochs, and back.

    Loshchilov and Hutter, "SGDR: stochastic gradient descent with warm restarts" (2017), without
    the restarts.
    """

    def __init__(
        self, optimizer: Optimizer, T_max: int, eta_min: float = 0.0, last_epoch: int = -1
    ) -> None:
        self.T_max, self.eta_min = T_max, eta_min
        super().__init__(optimizer, last_epoch)

    def _height(self, epoch: int) -> float:
        return 1 + math.cos(math.pi * epoch / self.T_max)

    def rate(self, lr: Any, base: Any) -> Any:
        if self._is_initial:
            return lr
        if self._step_count == 1 and self.last_epoch > 0:
            return self.closed(base)
        if (self.last_epoch - 1 - self.T_max) % (2 * self.T_max) == 0:  # the lowest point: 0 / 0
            return lr + (base - self.eta_min) * (1 - math.cos(math.pi / self.T_max)) / 2
        ratio = self._height(self.last_epoch) / self._height(self.last_epoch - 1)
        return ratio * (lr - self.eta_min) + self.eta_min

    def closed(self, base: Any) -> Any:
        return self.eta_min + (base - self.eta_min) * self._height(self.last_epoch) / 2
