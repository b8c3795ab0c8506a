"""Every scheduler against torch's: 40 epochs of rates and momenta, alone, combined and resumed."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable
from typing import Any

import pytest

import ag_visual as ag
from tests.oracle import torch
from tests.programs import agree, raised

EPOCHS = 40
Make = Callable[[Any, Any], Any]
# S is the engine's lr_scheduler module, o the optimizer with two groups.
SCHEDULERS: dict[str, Make] = {
    "lambda": lambda S, o: S.LambdaLR(o, lambda e: 0.9**e),
    "lambdas": lambda S, o: S.LambdaLR(o, [lambda e: 1 / (e + 1), lambda e: e]),
    "multiplicative": lambda S, o: S.MultiplicativeLR(o, lambda e: 0.9 + 0.01 * (e % 3)),
    "step": lambda S, o: S.StepLR(o, 7, 0.5),
    "multistep": lambda S, o: S.MultiStepLR(o, [3, 9, 9, 30], 0.5),
    "constant": lambda S, o: S.ConstantLR(o, 0.25, 6),
    "linear": lambda S, o: S.LinearLR(o, 0.2, 0.9, 11),
    "exponential": lambda S, o: S.ExponentialLR(o, 0.9),
    "polynomial": lambda S, o: S.PolynomialLR(o, 13, 1.7),
    "cosine": lambda S, o: S.CosineAnnealingLR(o, 7, 0.01),
    "restarts": lambda S, o: S.CosineAnnealingWarmRestarts(o, 5),
    "longer restarts": lambda S, o: S.CosineAnnealingWarmRestarts(o, 3, 2, 0.01),
    "triangular": lambda S, o: S.CyclicLR(o, 0.01, [0.1, 0.3], 4, 7),
    "triangular2": lambda S, o: S.CyclicLR(o, 0.01, 0.1, 4, mode="triangular2"),
    "exp_range": lambda S, o: S.CyclicLR(o, 0.01, 0.1, 4, mode="exp_range", gamma=0.95),
    "own cycle": lambda S, o: S.CyclicLR(
        o, 0.01, 0.1, 5, scale_fn=lambda x: 1 / x, cycle_momentum=False
    ),
    "one cycle": lambda S, o: S.OneCycleLR(o, [0.3, 0.2], 41),
    "three phases": lambda S, o: S.OneCycleLR(
        o, 0.3, epochs=6, steps_per_epoch=7, three_phase=True, anneal_strategy="linear"
    ),
    "sequential": lambda S, o: S.SequentialLR(
        o, [S.ConstantLR(o, 0.5, 4), S.ExponentialLR(o, 0.9), S.StepLR(o, 5)], [6, 20]
    ),
    "chained": lambda S, o: S.ChainedScheduler([S.ConstantLR(o, 0.5, 4), S.ExponentialLR(o, 0.9)]),
    "nested": lambda S, o: S.ChainedScheduler(
        [S.SequentialLR(o, [S.ConstantLR(o, 0.5, 2), S.StepLR(o, 3)], [4]), S.ExponentialLR(o, 0.9)]
    ),
}


def _optimizer(t: Any, name: str = "SGD") -> Any:
    a, b = t.ones(1, requires_grad=True), t.ones(2, requires_grad=True)
    options = {"momentum": 0.9} if name == "SGD" else {}
    return getattr(t.optim, name)([{"params": [a]}, {"params": [b], "lr": 0.05}], 0.1, **options)


def _now(optimizer: Any, scheduler: Any) -> Any:
    groups = [
        [g["lr"], g.get("momentum"), list(g.get("betas", ()))] for g in optimizer.param_groups
    ]
    return [groups, list(scheduler.get_last_lr()), scheduler.last_epoch]


def _epochs(optimizer: Any, scheduler: Any, count: int) -> list[Any]:
    seen = [_now(optimizer, scheduler)] if hasattr(scheduler, "last_epoch") else []
    for _ in range(count):
        optimizer.step()
        scheduler.step()
        seen.append([g["lr"] for g in optimizer.param_groups])
        if hasattr(scheduler, "last_epoch"):
            seen.append(_now(optimizer, scheduler))
    return seen


@pytest.mark.parametrize("optimizer", ["SGD", "Adam"])
@pytest.mark.parametrize("name", SCHEDULERS)
def test_rates(name: str, optimizer: str) -> None:
    def program(t: Any) -> Any:
        o = _optimizer(t, optimizer)
        return _epochs(o, SCHEDULERS[name](t.optim.lr_scheduler, o), EPOCHS)

    agree(program)


@pytest.mark.parametrize("name", SCHEDULERS)
def test_saved_and_loaded(name: str) -> None:
    def program(t: Any) -> Any:
        make = lambda o: SCHEDULERS[name](t.optim.lr_scheduler, o)  # noqa: E731
        one = _optimizer(t)
        first = make(one)
        _epochs(one, first, 9)
        saved = first.state_dict()
        two = _optimizer(t)
        second = make(two)
        two.load_state_dict(one.state_dict())
        second.load_state_dict(saved)
        return _epochs(two, second, 9)

    agree(program)


@pytest.mark.parametrize(
    "name", [n for n in SCHEDULERS if n not in ("chained", "sequential", "nested")]
)
@pytest.mark.filterwarnings("ignore:The epoch parameter")
def test_at_a_given_epoch(name: str) -> None:
    """The closed form, where there is one."""

    def program(t: Any) -> Any:
        o = _optimizer(t)
        o.step()
        scheduler = SCHEDULERS[name](t.optim.lr_scheduler, o)
        o.step()
        seen = []
        for epoch in (3, 17, 4, 0):
            scheduler.step(epoch)
            seen.append(_now(o, scheduler))
        return seen

    agree(program)


@pytest.mark.parametrize(
    "options",
    [
        {"patience": 2},
        {"patience": 1, "mode": "max", "factor": 0.5, "threshold": 0.2},
        {"patience": 0, "threshold_mode": "abs", "threshold": 0.1, "cooldown": 2},
        {"patience": 0, "min_lr": [0.01, 0.03], "eps": 0.001},
        {"patience": 1, "mode": "max", "threshold_mode": "abs"},
    ],
)
def test_plateau(options: dict[str, Any]) -> None:
    def program(t: Any) -> Any:
        o = _optimizer(t)
        scheduler = t.optim.lr_scheduler.ReduceLROnPlateau(o, **options)
        seen = []
        for i in range(EPOCHS):
            o.step()
            scheduler.step(t.tensor(math.sin(i / 3) + 5 / (i + 1)))
            seen.append([_now(o, scheduler), scheduler.best, scheduler.num_bad_epochs])
        return [seen, sorted(scheduler.state_dict())]

    agree(program)


@pytest.mark.parametrize(
    "make",
    [
        lambda S, o: S.StepLR("no optimizer", 3),
        lambda S, o: S.LambdaLR(o, [abs]),
        lambda S, o: S.MultiplicativeLR(o, [abs, 3]),
        lambda S, o: S.StepLR(o, 3, last_epoch=4),
        lambda S, o: S.CyclicLR(o, 0.1, [0.1]),
        lambda S, o: S.CyclicLR(o, 0.1, 0.2, mode="odd"),
        lambda S, o: S.OneCycleLR(o, 0.1),
        lambda S, o: S.OneCycleLR(o, 0.1, -1),
        lambda S, o: S.OneCycleLR(o, 0.1, epochs=0, steps_per_epoch=1),
        lambda S, o: S.OneCycleLR(o, 0.1, 9, pct_start=2),
        lambda S, o: S.OneCycleLR(o, 0.1, 9, anneal_strategy="odd"),
        lambda S, o: S.CosineAnnealingWarmRestarts(o, 0),
        lambda S, o: S.CosineAnnealingWarmRestarts(o, 3, 0),
        lambda S, o: S.SequentialLR(o, [], []),
        lambda S, o: S.SequentialLR(o, [S.StepLR(o, 3)], [3]),
        lambda S, o: S.ChainedScheduler([S.ReduceLROnPlateau(o)]),
        lambda S, o: S.ReduceLROnPlateau(o, "odd"),
        lambda S, o: S.ReduceLROnPlateau(o, min_lr=[0.1]),
    ],
)
def test_bad_arguments(make: Make) -> None:
    """The same kind of error, with torch's words up to where ours say more."""

    def program(t: Any) -> Any:
        kind, text = raised(lambda: make(t.optim.lr_scheduler, _optimizer(t)))
        return [kind, text[:50]]

    agree(program)


def test_signatures_are_torchs() -> None:
    for name in ag.optim.lr_scheduler.__all__:
        ours, theirs = (getattr(t.optim.lr_scheduler, name) for t in (ag, torch))
        pairs = [
            {k: (p.default, p.kind) for k, p in inspect.signature(cls).parameters.items()}
            for cls in (ours, theirs)
        ]
        assert pairs[0] == pairs[1], name
    theirs = {n for n in torch.optim.lr_scheduler.__all__ if not n.startswith("_")}
    assert set(ag.optim.lr_scheduler.__all__) == theirs


def test_a_scheduler_before_its_optimizer_warns() -> None:
    scheduler = ag.optim.lr_scheduler.StepLR(_optimizer(ag), 3)
    with pytest.warns(UserWarning, match="before `optimizer.step"):
        scheduler.step()
    with pytest.warns(UserWarning, match="get_last_lr"):
        scheduler.get_lr()


def test_a_tensor_as_rate_stays_the_same_tensor() -> None:
    lr = ag.tensor(0.5)
    o = ag.optim.SGD([ag.ones(1, requires_grad=True)], lr=lr)
    scheduler = ag.optim.lr_scheduler.ExponentialLR(o, 0.5)
    o.step()
    scheduler.step()
    assert o.param_groups[0]["lr"] is lr
    assert lr.item() == 0.25
    assert scheduler.base_lrs[0].item() == 0.5
