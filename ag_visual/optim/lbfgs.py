"""L-BFGS, with a line search for the strong Wolfe conditions.

Source: Nocedal and Wright, "Numerical optimization" (2006), algorithms 7.4, 3.5 and 3.6; the
constants, the bracketing and the stopping rules are torch's, so that both take the same path.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from ag_visual.autograd.grad_mode import enable_grad, no_grad
from ag_visual.core.tensor import Tensor
from ag_visual.dispatch.sparse import is_sparse
from ag_visual.dispatch.table import functions as F
from ag_visual.optim.optimizer import Optimizer, at_least_zero, number, options


class LBFGS(Optimizer):
    """Liu and Nocedal, "On the limited memory BFGS method for large scale optimization" (1989).

    `step(closure)` calls the closure several times; it computes the loss and its gradients.
    """

    def __init__(
        self,
        params: Iterable[Any],
        lr: Any = 1,
        max_iter: int = 20,
        max_eval: int | None = None,
        tolerance_grad: float = 1e-7,
        tolerance_change: float = 1e-9,
        history_size: int = 100,
        line_search_fn: str | None = None,
    ) -> None:
        at_least_zero(lr=lr)
        if line_search_fn not in (None, "strong_wolfe"):
            raise RuntimeError(f"only 'strong_wolfe' is supported, but got {line_search_fn!r}")
        max_eval = max_iter * 5 // 4 if max_eval is None else max_eval
        super().__init__(params, options(locals()))
        if len(self.param_groups) != 1:
            raise ValueError("LBFGS doesn't support per-parameter options (parameter groups)")

    # Parameters and gradients as one vector ----------------------------------------------------

    def _gradient(self) -> Tensor:
        parts = []
        for p in self.param_groups[0]["params"]:
            g = F["zeros_like"](p) if p.grad is None else p.grad
            g = g.to_dense() if is_sparse(g) else g
            parts.append((F["view_as_real"](g) if g.is_complex() else g).reshape(-1))
        return F["cat"](parts)

    def _move(self, step: float, direction: Tensor) -> None:
        offset = 0
        for p in self.param_groups[0]["params"]:
            real = F["view_as_real"](p) if p.is_complex() else p
            count = real.numel()
            real.add_(direction[offset : offset + count].view(real.shape), alpha=step)
            offset += count

    @no_grad()
    def step(self, closure: Callable[[], Any]) -> Any:  # type: ignore[override]
        """Up to `max_iter` iterations; returns the loss before the first one."""
        if len(self.param_groups) != 1:
            raise AssertionError(
                f"Expected exactly one param_group, but got {len(self.param_groups)}: LBFGS moves "
                "all parameters along one direction"
            )
        group = self.param_groups[0]
        lr, max_iter = number(group["lr"]), group["max_iter"]
        tolerance_grad, tolerance_change = group["tolerance_grad"], group["tolerance_change"]
        evaluate = enable_grad()(closure)
        state = self.state[group["params"][0]]
        state.setdefault("func_evals", 0)
        state.setdefault("n_iter", 0)
        first_loss = evaluate()
        loss, g = float(number(first_loss)), self._gradient()
        evals, previous = 1, loss
        state["func_evals"] += 1
        if _largest(g) <= tolerance_grad:
            return first_loss
        d, t = state.get("d"), state.get("t")
        for i in range(1, max_iter + 1):
            state["n_iter"] += 1
            d = self._direction(state, g, d, t)
            state["prev_flat_grad"], previous = g.clone(), loss
            t = lr
            if state["n_iter"] == 1:
                t = min(1.0, 1.0 / g.abs().sum().item()) * lr
            slope = g.dot(d).item()
            if slope > -tolerance_change:
                break
            used = 0
            if group["line_search_fn"] is not None:
                start = [p.clone() for p in group["params"]]

                def at(step: float, d: Any = d, start: Any = start) -> Point:
                    self._move(step, d)
                    value = float(number(evaluate()))
                    found = self._gradient()
                    for p, values in zip(group["params"], start, strict=True):
                        p.copy_(values)
                    return Point(step, value, found, found.dot(d).item())

                here = Point(0.0, loss, g, slope)
                found, used = strong_wolfe(at, here, t, _largest(d), group["max_eval"] - evals)
                loss, g, t = found.value, found.gradient, found.step
                self._move(t, d)
            else:
                self._move(t, d)
                if i != max_iter:  # in the last iteration nobody asks for the loss
                    loss, g = float(number(evaluate())), self._gradient()
                    used = 1
            evals += used
            state["func_evals"] += used
            if (
                evals >= group["max_eval"]
                or _largest(g) <= tolerance_grad
                or _largest(d) * abs(t) <= tolerance_change
                or abs(loss - previous) < tolerance_change
            ):
                break
        state["d"], state["t"], state["prev_loss"] = d, t, previous
        return first_loss

    def _direction(self, state: dict[str, Any], g: Tensor, d: Any, t: Any) -> Tensor:
        """Minus the inverse Hessian times g, from the remembered steps (the two-loop recursion)."""
        if state["n_iter"] == 1:
            state.update(old_dirs=[], old_stps=[], ro=[], H_diag=1.0)
            return -g
        changes, steps, weights = state["old_dirs"], state["old_stps"], state["ro"]
        y, s = g - state["prev_flat_grad"], d * t
        curvature = y.dot(s).item()
        if curvature > 1e-10:
            if len(changes) == self.param_groups[0]["history_size"]:
                for remembered in (changes, steps, weights):
                    del remembered[0]
            changes.append(y)
            steps.append(s)
            weights.append(1.0 / curvature)
            state["H_diag"] = curvature / y.dot(y).item()
        q = -g
        along = []
        for y, s, weight in reversed(list(zip(changes, steps, weights, strict=True))):
            along.append(s.dot(q).item() * weight)
            q.add_(y, alpha=-along[-1])
        r: Tensor = q * state["H_diag"]
        for y, s, weight, a in zip(changes, steps, weights, reversed(along), strict=True):
            r.add_(s, alpha=a - y.dot(r).item() * weight)
        return r


def _largest(values: Tensor) -> float:
    return values.abs().max().item()  # type: ignore[attr-defined, no-any-return]


class Point(NamedTuple):
    """A step along the search direction: the loss there, its gradient, and the slope."""

    step: float
    value: float
    gradient: Any
    slope: float


def cubic_minimum(a: Point, b: Point, bounds: tuple[float, float] | None = None) -> float:
    """Where the cubic through two values and slopes is least, within bounds (the two points)."""
    if a.step > b.step:
        a, b = b, a
    low, high = bounds or (a.step, b.step)
    mean = a.slope + b.slope - 3 * (a.value - b.value) / (a.step - b.step)
    square = mean * mean - a.slope * b.slope
    if not square >= 0:
        return (low + high) / 2
    root = math.sqrt(square)
    ratio = (b.slope + root - mean) / (b.slope - a.slope + 2 * root)
    return min(max(b.step - (b.step - a.step) * ratio, low), high)


def strong_wolfe(
    at: Callable[[float], Point],
    start: Point,
    t: float,
    size: float,
    most: int,
    c1: float = 1e-4,
    c2: float = 0.9,
    tolerance: float = 1e-9,
) -> tuple[Point, int]:
    """A step with enough decrease (c1) and small slope (c2), and how often `at` was asked.

    size: the largest component of the direction. most: how many trials there may be.
    """

    def too_high(point: Point) -> bool:
        return point.value > start.value + c1 * point.step * start.slope

    def flat(point: Point) -> bool:
        return abs(point.slope) <= -c2 * start.slope

    previous, new = start, at(t)
    asked, trials = 1, 0
    bracket = [start, new]
    while trials < most:
        bracket = [previous, new]
        if too_high(new) or (trials > 1 and new.value >= previous.value):
            break
        if flat(new):
            return new, asked
        if new.slope >= 0:
            break
        bounds = (new.step + 0.01 * (new.step - previous.step), new.step * 10)
        t = cubic_minimum(previous, new, bounds)
        previous, new = new, at(t)
        asked += 1
        trials += 1
    else:
        bracket = [start, new]
    stuck = False
    low, high = sorted(bracket, key=lambda point: point.value)
    while trials < most and abs(high.step - low.step) * size >= tolerance:
        t = cubic_minimum(*bracket)
        ends = sorted((low.step, high.step))
        margin = 0.1 * (ends[1] - ends[0])
        if min(ends[1] - t, t - ends[0]) < margin:
            # Close to an end once more, or on it: a tenth away from it instead.
            if stuck or t >= ends[1] or t <= ends[0]:
                t = ends[1] - margin if abs(t - ends[1]) < abs(t - ends[0]) else ends[0] + margin
                stuck = False
            else:
                stuck = True
        else:
            stuck = False
        new = at(t)
        asked += 1
        trials += 1
        if too_high(new) or new.value >= low.value:
            high = new
        else:
            if flat(new):
                return new, asked
            if new.slope * (high.step - low.step) >= 0:
                high = low
            low = new
        low, high = sorted((low, high), key=lambda point: point.value)
        bracket = [low, high]
    return low, asked
