"""Every optimizer against torch's, step by step from the same weights."""

from __future__ import annotations

from typing import Any

import pytest

from tests.programs import agree

RULES: dict[str, tuple[str, dict[str, Any]]] = {
    "sgd": ("SGD", {"lr": 0.1}),
    "momentum": ("SGD", {"lr": 0.01, "momentum": 0.9, "weight_decay": 0.01}),
    "nesterov": ("SGD", {"lr": 0.01, "momentum": 0.9, "nesterov": True}),
    "dampening": ("SGD", {"lr": 0.001, "momentum": 0.9, "dampening": 0.3, "maximize": True}),
    "adam": ("Adam", {"lr": 0.05}),
    "adam, decayed": ("Adam", {"lr": 0.05, "weight_decay": 0.1, "betas": (0.8, 0.9), "eps": 1e-3}),
    "amsgrad": ("Adam", {"lr": 0.05, "amsgrad": True}),
    "adamw": ("AdamW", {"lr": 0.05, "weight_decay": 0.3}),
    "rmsprop": ("RMSprop", {"lr": 0.02}),
    "centered": ("RMSprop", {"lr": 0.02, "momentum": 0.5, "centered": True, "weight_decay": 0.1}),
    "adagrad": ("Adagrad", {"lr": 0.1}),
    "adagrad, decayed": (
        "Adagrad",
        {"lr": 0.1, "lr_decay": 0.1, "weight_decay": 0.1, "initial_accumulator_value": 0.2},
    ),
}


def _trained(t: Any, values: list[Any], name: str, options: dict[str, Any]) -> list[Any]:
    """The parameter after each of five steps on |p^2 - 1|^2."""
    p = t.tensor(values, requires_grad=True)
    optimizer = getattr(t.optim, name)([p], **options)
    seen = []
    for _ in range(5):
        optimizer.zero_grad()
        (p * p - 1).abs().pow(2).sum().backward()
        optimizer.step()
        parts = t.view_as_real(p.detach()) if p.is_complex() else p.detach()
        seen.append(parts.double().tolist())
    return seen


def _about(seen: list[Any]) -> list[Any]:
    """float32 gives six digits, and five steps lose one."""
    return [_about(v) if isinstance(v, list) else round(v, 4) for v in seen]


@pytest.mark.parametrize("rule", RULES)
def test_real_parameters(rule: str) -> None:
    agree(lambda t: _about(_trained(t, [0.5, -2.0, 1.3], *RULES[rule])))


@pytest.mark.parametrize("rule", [r for r in RULES if "maximize" not in RULES[r][1]])
def test_complex_parameters(rule: str) -> None:
    agree(lambda t: _about(_trained(t, [0.5 + 1j, -1.0 - 0.3j], *RULES[rule])))


@pytest.mark.parametrize("name", ["SGD", "Adam", "AdamW", "RMSprop", "Adagrad"])
def test_state_goes_on_in_another_optimizer(name: str) -> None:
    def program(t: Any) -> Any:
        p = t.tensor([0.5, -2.0], requires_grad=True)
        first = getattr(t.optim, name)([p], lr=0.1)
        for _ in range(2):
            first.zero_grad()
            (p**3).sum().backward()
            first.step()
        second = getattr(t.optim, name)([p], lr=0.7)
        second.load_state_dict(first.state_dict())
        second.step()
        return _about([p.detach().double().tolist(), second.param_groups[0]["lr"]])

    agree(program)
