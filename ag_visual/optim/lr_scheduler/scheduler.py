"""The base of schedulers: counts epochs, asks `get_lr` for new rates, writes them to the groups."""

from __future__ import annotations

import types
from collections.abc import Callable, Sequence
from typing import Any

from ag_visual.core.source import warn
from ag_visual.core.tensor import Tensor
from ag_visual.optim.optimizer import Optimizer, number

_EPOCH = (
    "The epoch parameter in `scheduler.step()` was not necessary and is being deprecated where "
    "possible. Please use `scheduler.step()` to step the scheduler: with an epoch, the closed form "
    "is used instead of the chainable one, where there is one."
)
_ORDER = (
    "Detected call of `lr_scheduler.step()` before `optimizer.step()`. Call them in the opposite "
    "order: `optimizer.step()` before `lr_scheduler.step()`. Otherwise the first value of the "
    "learning rate schedule is skipped."
)


def check_optimizer(optimizer: Any) -> None:
    if not isinstance(optimizer, Optimizer):
        raise TypeError(f"{type(optimizer).__name__} is not an Optimizer")


def options(optimizer: Optimizer, key: str) -> list[Any]:
    """One option of all groups; tensors are copied, because they will be written."""
    values = (group[key] for group in optimizer.param_groups)
    return [v.clone() if isinstance(v, Tensor) else v for v in values]


def set_option(group: dict[str, Any], key: str, value: Any) -> None:
    """Write an option; a tensor stays the same object."""
    if isinstance(group.get(key), Tensor):
        group[key].fill_(number(value))
    else:
        group[key] = value


def per_group(name: str, optimizer: Optimizer, value: Any) -> list[Any]:
    """One value for each group from one for all, or from a list."""
    count = len(optimizer.param_groups)
    if not isinstance(value, list | tuple):
        return [value] * count
    if len(value) != count:
        raise ValueError(
            f"{name} must have the same length as optimizer.param_groups. {name} has {len(value)} "
            f"values, param_groups has {count}."
        )
    return list(value)


class LRScheduler:
    """Sets the learning rates of an optimizer; subclasses define `rate`, or `get_lr`."""

    _get_lr_called_within_step = False
    _is_initial = False
    _hidden: Sequence[str] = ("optimizer",)

    def __init__(self, optimizer: Optimizer, last_epoch: int = -1) -> None:
        check_optimizer(optimizer)
        self.optimizer = optimizer
        for i, group in enumerate(optimizer.param_groups):
            if last_epoch == -1:
                lr = group["lr"]
                group.setdefault("initial_lr", lr.clone() if isinstance(lr, Tensor) else lr)
            elif "initial_lr" not in group:
                raise KeyError(
                    f"param 'initial_lr' is not specified in param_groups[{i}] when resuming "
                    "scheduler with last_epoch >= 0: load the optimizer's state first, or start "
                    "with last_epoch=-1"
                )
        self.base_lrs = options(optimizer, "initial_lr")
        self.last_epoch = last_epoch
        if not optimizer._scheduled:
            optimizer._scheduled, optimizer._opt_called = True, False
        self._initial_step()

    def _initial_step(self) -> None:
        self._step_count = 0
        self._is_initial = True
        try:
            self.step()
        finally:
            self._is_initial = False

    def rate(self, lr: Any, base: Any) -> Any:
        """The next rate of a group from the present one and the one it began with."""
        raise NotImplementedError(f"{type(self).__name__} must define rate() or get_lr()")

    def get_lr(self) -> list[Any]:
        """The next rates of all groups; `step` calls it."""
        if not self._get_lr_called_within_step:
            warn(
                "To get the last learning rate computed by the scheduler, please use "
                "`get_last_lr()`."
            )
        groups = self.optimizer.param_groups
        return [self.rate(g["lr"], base) for g, base in zip(groups, self.base_lrs, strict=True)]

    def get_last_lr(self) -> list[Any]:
        """The rates that the last step set."""
        return self._last_lr

    def step(self, epoch: int | None = None) -> None:
        """Go to the next epoch, or to a given one."""
        if self._step_count == 1 and not self.optimizer._opt_called:
            warn(_ORDER)
        self._step_count += 1
        if epoch is not None:
            warn(_EPOCH)
        self._update_lr(epoch)

    def _update_lr(self, epoch: int | None = None) -> None:
        self._get_lr_called_within_step = True
        try:
            closed = getattr(self, "closed", None)
            if epoch is None:
                self.last_epoch += 1
                rates = self.get_lr()
            else:
                self.last_epoch = epoch
                rates = self.get_lr() if closed is None else [closed(b) for b in self.base_lrs]
        finally:
            self._get_lr_called_within_step = False
        self._write(rates)

    def _write(self, rates: list[Any]) -> None:
        for group, lr in zip(self.optimizer.param_groups, rates, strict=True):
            set_option(group, "lr", lr)
        self._last_lr = options(self.optimizer, "lr")

    def state_dict(self) -> dict[str, Any]:
        """Everything but the optimizer, and functions that are not objects with state."""
        return {k: v for k, v in self.__dict__.items() if k not in self._hidden}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Take over what `state_dict` gave."""
        self.__dict__.update(state_dict)


def saved_callable(function: Callable[..., Any] | None) -> dict[str, Any] | None:
    """What of a callable goes into a state dict: the attributes of an object, no plain function."""
    if function is None or isinstance(function, types.FunctionType):
        return None
    return dict(vars(function))


class _LRScheduler(LRScheduler):
    """torch's older name, which programs derive their own schedulers from."""
