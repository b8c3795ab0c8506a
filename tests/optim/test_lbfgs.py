"""L-BFGS against torch's: the same path, evaluation by evaluation."""

from __future__ import annotations

from typing import Any

import pytest

from tests.programs import agree, raised

OPTIONS: list[dict[str, Any]] = [
    {"lr": 0.1},
    {"lr": 0.5, "max_iter": 5, "history_size": 3},
    {"line_search_fn": "strong_wolfe"},
    {"line_search_fn": "strong_wolfe", "max_iter": 4, "history_size": 2},
    {"line_search_fn": "strong_wolfe", "max_eval": 7},
    {"lr": 0.2, "tolerance_grad": 0.5},
    {"lr": 1e-3, "tolerance_change": 0.1},
]


def _rosenbrock(x: Any, y: Any) -> Any:
    return (1 - x) ** 2 + 10 * (y - x**2) ** 2


def _quartic(x: Any, y: Any) -> Any:
    return (x**4 + (y - 1) ** 4 + 0.1 * (x * y).cos()).sum()


@pytest.mark.parametrize("options", OPTIONS)
@pytest.mark.parametrize("function", [_rosenbrock, _quartic])
def test_path(function: Any, options: dict[str, Any]) -> None:
    def program(t: Any) -> Any:
        x = t.tensor(-0.7, dtype=t.float64, requires_grad=True)
        y = t.tensor(1.5, dtype=t.float64, requires_grad=True)
        optimizer = t.optim.LBFGS([x, y], **options)
        seen: list[Any] = []

        def closure() -> Any:
            optimizer.zero_grad()
            loss = function(x, y)
            loss.backward()
            seen.append([x.item(), y.item(), loss.item()])
            return loss

        losses = [optimizer.step(closure).item() for _ in range(4)]
        state = optimizer.state[x]
        return [seen, losses, state["func_evals"], state["n_iter"]]

    agree(program)


def test_complex_parameters_and_missing_gradients() -> None:
    def program(t: Any) -> Any:
        z = t.tensor([1 + 2j, -1j], dtype=t.complex128, requires_grad=True)
        other = t.ones(2, dtype=t.float64, requires_grad=True)
        optimizer = t.optim.LBFGS([z, other], line_search_fn="strong_wolfe")

        def closure() -> Any:
            optimizer.zero_grad()
            loss = ((z - (3 - 1j)).abs() ** 4).sum()
            loss.backward()
            return loss

        optimizer.step(closure)
        return [t.view_as_real(z.detach()), other.detach()]

    agree(program)


def test_a_group_that_was_added_is_refused_by_the_step() -> None:
    def program(t: Any) -> Any:
        optimizer = t.optim.LBFGS([t.ones(2, requires_grad=True)])
        optimizer.add_param_group({"params": [t.ones(2, requires_grad=True)]})
        kind, text = raised(lambda: optimizer.step(lambda: t.ones(())))
        return [kind, text[:43]]

    agree(program)
