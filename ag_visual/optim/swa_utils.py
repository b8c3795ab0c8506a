"""Averages of weights: stochastic weight averaging and exponential moving averages."""

from __future__ import annotations

import copy
import itertools
import math
from collections.abc import Callable, Iterable
from typing import Any

from ag_visual.autograd.grad_mode import no_grad
from ag_visual.dispatch.table import functions as F
from ag_visual.names import expose as _expose
from ag_visual.nn.module import Module
from ag_visual.optim.lr_scheduler.scheduler import LRScheduler, per_group
from ag_visual.optim.optimizer import Optimizer

Average = Callable[[Any, Any, Any], Any]


def get_swa_avg_fn() -> Average:
    """The running mean: average + (p - average) / (n + 1)."""

    def mean(averaged: Any, current: Any, num_averaged: Any) -> Any:
        return averaged + (current - averaged) / (num_averaged + 1)

    return mean


def get_ema_avg_fn(decay: float = 0.999) -> Average:
    """decay * average + (1 - decay) * p."""
    if not 0.0 <= decay <= 1.0:
        raise ValueError(f"Invalid decay value {decay} provided. Please provide a value in [0,1].")

    def moving(averaged: Any, current: Any, num_averaged: Any) -> Any:
        return decay * averaged + (1 - decay) * current

    return moving


def get_swa_multi_avg_fn() -> Callable[[Any, Any, Any], None]:
    """`get_swa_avg_fn` written into lists of averages."""
    return _written(get_swa_avg_fn())


def get_ema_multi_avg_fn(decay: float = 0.999) -> Callable[[Any, Any, Any], None]:
    """`get_ema_avg_fn` written into lists of averages."""
    return _written(get_ema_avg_fn(decay))


def _written(rule: Average) -> Callable[[Any, Any, Any], None]:
    @no_grad()
    def update(averages: Any, current: Any, num_averaged: Any) -> None:
        for average, value in zip(averages, current, strict=True):
            average.copy_(rule(average, value, num_averaged))

    return update


class AveragedModel(Module):
    """A copy of a model whose parameters are averages: `update_parameters(model)` takes one in.

    Izmailov et al., "Averaging weights leads to wider optima and better generalization" (2018).
    """

    def __init__(
        self,
        model: Module,
        device: Any = None,
        avg_fn: Average | None = None,
        multi_avg_fn: Callable[[Any, Any, Any], None] | None = None,
        use_buffers: bool = False,
    ) -> None:
        super().__init__()
        if avg_fn is not None and multi_avg_fn is not None:
            raise AssertionError("Only one of avg_fn and multi_avg_fn should be provided")
        self.module = copy.deepcopy(model)
        if device is not None:
            self.module = self.module.to(device)
        self.register_buffer("n_averaged", F["tensor"](0, device=device))
        self.avg_fn, self.multi_avg_fn, self.use_buffers = avg_fn, multi_avg_fn, use_buffers

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        return self.module(*args, **kwargs)

    def _averaged(self, model: Any) -> list[Any]:
        parts: Iterable[Any] = model.parameters()
        return list(itertools.chain(parts, model.buffers()) if self.use_buffers else parts)

    @no_grad()
    def update_parameters(self, model: Module) -> None:
        """Take the present parameters of the model into the averages."""
        mine, theirs = self._averaged(self.module), self._averaged(model)
        theirs = [p.detach().to(a.device) for a, p in zip(mine, theirs, strict=True)]
        count = self.n_averaged
        if count.item() == 0:
            for average, value in zip(mine, theirs, strict=True):
                average.detach().copy_(value)
        elif self.multi_avg_fn is not None:
            self.multi_avg_fn([a.detach() for a in mine], theirs, count)
        else:
            rule = self.avg_fn or get_swa_avg_fn()
            for average, value in zip(mine, theirs, strict=True):
                average.detach().copy_(rule(average.detach(), value, count))
        if not self.use_buffers:
            for average, value in zip(self.module.buffers(), model.buffers(), strict=True):
                average.detach().copy_(value.detach().to(average.device))
        count += 1


@no_grad()
def update_bn(loader: Iterable[Any], model: Module, device: Any = None) -> None:
    """Compute the running statistics of all batch norms anew, from one pass over the data."""
    norms = [m for m in model.modules() if getattr(m, "running_mean", None) is not None]
    if not norms:
        return
    was_training = model.training
    momenta = [norm.momentum for norm in norms]
    model.train()
    for norm in norms:
        norm.reset_running_stats()
        norm.momentum = None
    for batch in loader:
        input = batch[0] if isinstance(batch, list | tuple) else batch
        model(input if device is None else input.to(device))
    for norm, momentum in zip(norms, momenta, strict=True):
        norm.momentum = momentum
    model.train(was_training)


class SWALR(LRScheduler):
    """Anneals the rates to `swa_lr` within `anneal_epochs`, and stays there."""

    def __init__(
        self,
        optimizer: Optimizer,
        swa_lr: Any,
        anneal_epochs: int = 10,
        anneal_strategy: str = "cos",
        last_epoch: int = -1,
    ) -> None:
        if anneal_strategy not in ("cos", "linear"):
            raise ValueError(
                f"anneal_strategy must be one of 'cos' or 'linear', instead got {anneal_strategy}"
            )
        if not isinstance(anneal_epochs, int) or anneal_epochs < 0:
            raise ValueError(f"anneal_epochs must be equal or greater than 0, got {anneal_epochs}")
        for group, rate in zip(
            optimizer.param_groups, per_group("swa_lr", optimizer, swa_lr), strict=True
        ):
            group["swa_lr"] = rate
        self.anneal_epochs, self.anneal_strategy = anneal_epochs, anneal_strategy
        super().__init__(optimizer, last_epoch)

    def _share(self, epoch: int) -> float:
        """How much of the way to `swa_lr` lies behind after this epoch."""
        part = max(0.0, min(1.0, epoch / max(1, self.anneal_epochs)))
        if self.anneal_strategy == "linear":
            return part
        return (1 - math.cos(math.pi * part)) / 2

    def get_lr(self) -> list[Any]:
        step = self._step_count - 1
        if self.anneal_epochs == 0:
            step = max(1, step)
        before, now = self._share(max(0, step - 1)), self._share(step)
        rates = []
        for group in self.optimizer.param_groups:
            goal = group["swa_lr"]
            # The rate that the group would have come from, had it gone the whole way.
            begun = goal if before == 1 else (group["lr"] - before * goal) / (1 - before)
            rates.append(goal * now + begun * (1 - now))
        return rates


_expose(__name__)
