"""Gradient conventions where a derivative is a matter of taste: ties, jumps, zeros, infinities."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.programs import agree

INF, NAN = float("inf"), float("nan")

# Name: the function of the module and of x, the values of x (float64).
KINKS: dict[str, tuple[Callable[[Any, Any], Any], tuple[float, ...]]] = {
    "max splits ties evenly": (lambda t, x: x.max(), (1, 3, 3)),
    "min splits ties evenly": (lambda t, x: x.min(), (1, 1, 3)),
    "amax splits ties evenly": (lambda t, x: x.amax(), (1, 3, 3)),
    "amin splits ties evenly": (lambda t, x: x.amin(0), (1, 1, 3)),
    "aminmax splits ties evenly": (lambda t, x: x.aminmax()[0], (1, 1, 2)),
    "median splits ties evenly": (lambda t, x: x.median(), (1, 3, 3)),
    "max of a dimension picks its index": (lambda t, x: x.max(0).values, (1, 3, 3)),
    "min of a dimension picks its index": (lambda t, x: x.min(0)[0], (1, 1, 3)),
    "median of a dimension picks its index": (lambda t, x: x.median(0)[0], (3, 3, 1)),
    "topk picks its index": (lambda t, x: x.topk(1)[0], (2, 2, 1)),
    "mode picks its index": (lambda t, x: x.mode(0)[0], (2, 2, 1)),
    "sort keeps the order of ties": (lambda t, x: x.sort()[0][:1], (1, 1)),
    "cummax of ties": (lambda t, x: x.cummax(0)[0], (1, 1, 0)),
    "maximum of a tie": (lambda t, x: t.maximum(x, x.detach()), (1, 2)),
    "minimum of a tie": (lambda t, x: t.minimum(x, x.detach()), (1, 2)),
    "abs at 0": (lambda t, x: x.abs(), (0, -1)),
    "sign": (lambda t, x: x.sign(), (0, 1)),
    "round": (lambda t, x: x.round(), (0.5, 1)),
    "relu at 0": (lambda t, x: x.relu(), (0, 1)),
    "relu6 at its bounds": (lambda t, x: t.nn.functional.relu6(x), (0, 6, 3)),
    "clamp at its bounds": (lambda t, x: x.clamp(0, 1), (0, 1, 0.5, 2)),
    "clamp_min at its bound": (lambda t, x: x.clamp_min(0), (0, 1)),
    "clamp_max at its bound": (lambda t, x: x.clamp_max(0), (0, 1)),
    "hardtanh at its bounds": (lambda t, x: t.nn.functional.hardtanh(x), (-1, 1, 0)),
    "leaky_relu at 0": (lambda t, x: t.nn.functional.leaky_relu(x), (0, 1)),
    "elu at 0": (lambda t, x: t.nn.functional.elu(x), (0, 1)),
    "threshold at it": (lambda t, x: t.nn.functional.threshold(x, 1.0, 0.0), (1, 2)),
    "hardsigmoid at its bounds": (lambda t, x: t.nn.functional.hardsigmoid(x), (-3, 3, 0)),
    "hardswish at its bounds": (lambda t, x: t.nn.functional.hardswish(x), (-3, 3, 0)),
    "norm at 0": (lambda t, x: x.norm(), (0, 0)),
    "1-norm at 0": (lambda t, x: x.norm(1), (0, 1)),
    "infinity norm of ties": (lambda t, x: x.norm(INF), (2, 2)),
    "dist at 0": (lambda t, x: t.dist(x, x.detach()), (1, 2)),
    "sqrt at 0": (lambda t, x: x.sqrt(), (0, 1)),
    "rsqrt at 0": (lambda t, x: x.rsqrt(), (0, 1)),
    "log at 0": (lambda t, x: x.log(), (0, 1)),
    "reciprocal at 0": (lambda t, x: x.reciprocal(), (0, 1)),
    "asin at 1": (lambda t, x: x.asin(), (1, 0)),
    "acos at 1": (lambda t, x: x.acos(), (1, 0)),
    "atan2 at the origin": (lambda t, x: t.atan2(x, x.detach() * 0), (0, 1)),
    "sinc at 0": (lambda t, x: x.sinc(), (0, 1)),
    "prod with one zero": (lambda t, x: x.prod(), (0, 2, 3)),
    "prod with two zeros": (lambda t, x: x.prod(), (0, 0, 3)),
    "cumprod with a zero": (lambda t, x: x.cumprod(0), (2, 0, 3)),
    "x ** 0": (lambda t, x: x**0, (0, 2)),
    "0 ** x": (lambda t, x: t.tensor(0.0, dtype=t.float64) ** x, (0, 2)),
    "std of equal values": (lambda t, x: x.std(), (1, 1, 1)),
    "var of equal values": (lambda t, x: x.var(), (1, 1, 1)),
    "logsumexp with -inf": (lambda t, x: x.logsumexp(0), (-INF, 0)),
    "hypot at 0": (lambda t, x: t.hypot(x, x.detach()), (0, 1)),
    "xlogy at 0": (lambda t, x: t.xlogy(x, x), (0, 1)),
    "an index that is there twice": (lambda t, x: x[t.tensor([0, 0, 1])], (1, 2)),
    "fmod": (lambda t, x: x.fmod(1.0), (0, 1.5)),
    "nansum": (lambda t, x: x.nansum(), (1, NAN)),
    "nan_to_num": (lambda t, x: x.nan_to_num(), (1, NAN, INF)),
    "where keeps the nan of the other branch": (
        lambda t, x: t.where(x > 0, x.sqrt(), x * 0),
        (0, 1),
    ),
    "smooth_l1_loss at 0": (lambda t, x: t.nn.functional.smooth_l1_loss(x, x.detach()), (1, 2)),
    "l1_loss at 0": (lambda t, x: t.nn.functional.l1_loss(x, x.detach()), (1, 2)),
    "huber_loss at its bound": (lambda t, x: t.nn.functional.huber_loss(x, x.detach() + 1), (1, 2)),
}


@pytest.mark.parametrize("name", KINKS)
def test_gradient_conventions_at_non_smooth_points(name: str) -> None:
    function, values = KINKS[name]

    def program(t: Any) -> Any:
        x = t.tensor([float(v) for v in values], dtype=t.float64, requires_grad=True)
        return t.autograd.grad(function(t, x).sum(), x)

    agree(program)


# Straight on both sides of such points; their second derivative is zero and there.
STRAIGHT: dict[str, Callable[[Any, Any], Any]] = {
    "relu": lambda t, x: t.relu(x),
    "leaky_relu": lambda t, x: t.nn.functional.leaky_relu(x, 0.2),
    "hardtanh": lambda t, x: t.nn.functional.hardtanh(x),
    "relu6": lambda t, x: t.nn.functional.relu6(x),
    "threshold": lambda t, x: t.nn.functional.threshold(x, 0.1, 0.0),
}


@pytest.mark.parametrize("name", STRAIGHT)
def test_a_gradient_of_straight_pieces_has_a_gradient_of_zero(name: str) -> None:
    def program(t: Any) -> Any:
        x = t.tensor([-2.0, -0.5, 0.5, 2.0, 8.0], requires_grad=True)
        (g,) = t.autograd.grad(STRAIGHT[name](t, x).sum(), x, create_graph=True)
        return [g.requires_grad, g, *t.autograd.grad(g.sum(), x)]

    agree(program)


# Functions of complex z (and real x) with a real value: gradients are conjugate Wirtinger.
COMPLEX: dict[str, Callable[[Any, Any, Any], Any]] = {
    "|z|^2": lambda t, z, x: (z * z.conj()).real,
    "Re z^2": lambda t, z, x: (z**2).real,
    "Im z^3": lambda t, z, x: (z**3).imag,
    "|z|": lambda t, z, x: z.abs(),
    "angle": lambda t, z, x: z.angle(),
    "Re z Im z": lambda t, z, x: z.real * z.imag,
    "conj": lambda t, z, x: (z.conj() * 1j).imag,
    "exp": lambda t, z, x: z.exp().abs(),
    "sqrt": lambda t, z, x: z.sqrt().real,
    "1 / z": lambda t, z, x: (1 / z).real,
    "real times complex": lambda t, z, x: (x * z).abs(),
    "real as complex": lambda t, z, x: (x.to(t.complex64) * z.detach()).imag + 0 * z.real,
    "view_as_real": lambda t, z, x: t.view_as_real(x * z),
    "sum with a real": lambda t, z, x: (z + x).abs(),
}


@pytest.mark.parametrize("name", COMPLEX)
def test_complex_gradients_are_conjugate_wirtinger(name: str) -> None:
    def program(t: Any) -> Any:
        z = t.tensor([1 + 2j, 3 - 1j], requires_grad=True)
        x = t.tensor([2.0, -1.0], requires_grad=True)
        gz, gx = t.autograd.grad(COMPLEX[name](t, z, x).sum(), (z, x), allow_unused=True)
        real = [str(gz.dtype), None if gx is None else str(gx.dtype)]
        return [t.view_as_real(gz * 1), gx, real]

    agree(program)


def test_complex_edges() -> None:
    def program(t: Any) -> Any:
        zero = t.zeros(2, dtype=t.complex64, requires_grad=True)
        (g,) = t.autograd.grad(zero.abs().sum(), zero)
        z = t.tensor(1 + 2j, requires_grad=True)
        w = z * z
        try:
            w.backward()
        except RuntimeError as error:
            told = str(error)[:74]
        w.backward(t.tensor(1 + 0j))
        return [g.abs(), told, z.grad.real, z.grad.imag]

    agree(program)
