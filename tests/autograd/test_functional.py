"""torch.autograd.functional: every structure of inputs and outputs, every flag, as in torch."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy
import pytest
from hypothesis import given, settings, strategies as st

import ag_visual as ag
from ag_visual.autograd import functional
from tests.oracle import torch
from tests.programs import agree, raised


def shown(value: Any) -> Any:
    """Structure, numbers, dtype and whether it can be differentiated."""
    if isinstance(value, tuple):
        return ["tuple", *map(shown, value)]
    kind = str(value.dtype)
    return [kind, list(value.shape), value.requires_grad, value.detach().numpy()]


def points(t: Any, *, grad: bool = False) -> tuple[Any, Any]:
    x = t.tensor([0.5, 2.0, -1.0], dtype=t.float64, requires_grad=grad)
    y = t.tensor([[1.0], [3.0]], dtype=t.float64, requires_grad=grad)
    return x, y


# name: (function, whether it takes one tensor, a tuple of one, or two)
FUNCTIONS: dict[str, tuple[Callable[..., Any], str]] = {
    "one to one": (lambda t, x: x**3 + x.roll(1), "one"),
    "one to tuple": (lambda t, x: (x**2, x.sin().sum()), "one"),
    "one to 1-tuple": (lambda t, x: (x.exp(),), "one"),
    "1-tuple to one": (lambda t, x: x.exp().sum(), "1-tuple"),
    "two to one": (lambda t, x, y: x * y + y**2, "two"),
    "two to two": (lambda t, x, y: (x.sum() * y, x.sin()), "two"),
    "one is unused": (lambda t, x, y: (x**2, x.cos() * 2), "two"),
    "linear": (lambda t, x, y: (2 * x).sum() + (3 * y).sum(), "two"),
    "constant": (lambda t, x: t.ones(2, dtype=t.float64), "one"),
    "detached": (lambda t, x: x.detach() ** 2, "one"),
    "partly constant": (lambda t, x: (x**2, x.detach()), "one"),
    "several dtypes": (lambda t, x: (x.float() * 2, x**2), "one"),
    "no_grad inside": (lambda t, x: t.no_grad()(lambda: x**2)(), "one"),
    "to complex": (lambda t, x: x * (1 + 2j), "one"),
    "custom": (lambda t, x: cube(t).apply(x), "one"),
}
SCALARS: dict[str, tuple[Callable[..., Any], str]] = {
    "cubes": (lambda t, x: (x**3).sum(), "one"),
    "shape (1,)": (lambda t, x: (x**3).sum().reshape(1), "one"),
    "1-tuple": (lambda t, x: (x.exp() * x).sum(), "1-tuple"),
    "mixed": (lambda t, x, y: (x * y).sin().sum(), "two"),
    "one is linear": (lambda t, x, y: (x**2).sum() + y.sum(), "two"),
    "one is unused": (lambda t, x, y: (x**2).prod(), "two"),
    "linear": (lambda t, x: 2 * x.sum(), "one"),
    "constant": (lambda t, x: t.ones((), dtype=t.float64), "one"),
}


def cube(t: Any) -> Any:
    """x ** 3 as a custom function."""

    class Cube(t.autograd.Function):  # type: ignore[misc]
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            ctx.save_for_backward(x)
            return x**3

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            (x,) = ctx.saved_tensors
            return 3 * x**2 * g

    return Cube


def arguments(t: Any, kind: str, grad: bool) -> Any:
    x, y = points(t, grad=grad)
    return {"one": x, "1-tuple": (x,), "two": (x, y)}[kind]


def like(t: Any, value: Any) -> Any:
    """A vector for inputs or outputs."""
    if isinstance(value, tuple):
        return tuple(like(t, each) for each in value)
    numbers = t.arange(1, value.numel() + 1, dtype=t.float64).reshape(value.shape)
    return numbers.to(value.dtype)


def outcome(call: Callable[[], Any]) -> Any:
    """What a call gives, or its error's type and first line."""
    found: list[Any] = []
    error, text = raised(lambda: found.append(shown(call())))
    return [error, text.partition("\n")[0]] if error else found


@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize("grad", [False, True])
def test_jacobians(name: str, grad: bool) -> None:
    function, kind = FUNCTIONS[name]

    def program(t: Any) -> Any:
        seen = []
        for flags in ({}, {"create_graph": True}, {"strict": True}, {"vectorize": True}):
            for more in ({}, {"create_graph": True, "strict": "strict" in flags}):
                inputs = arguments(t, kind, grad)
                called = {**flags, **more}
                seen.append(
                    outcome(
                        lambda inputs=inputs, called=called: t.autograd.functional.jacobian(
                            lambda *a: function(t, *a), inputs, **called
                        )
                    )
                )
        return seen

    agree(program)


@pytest.mark.parametrize("name", SCALARS)
@pytest.mark.parametrize("grad", [False, True])
def test_hessians(name: str, grad: bool) -> None:
    function, kind = SCALARS[name]

    def program(t: Any) -> Any:
        flags = ({}, {"create_graph": True}, {"strict": True}, {"vectorize": True})
        return [
            outcome(
                lambda called=called: t.autograd.functional.hessian(
                    lambda *a: function(t, *a), arguments(t, kind, grad), **called
                )
            )
            for called in flags
        ]

    agree(program)


@pytest.mark.parametrize("product", ["vjp", "jvp", "vhp", "hvp"])
@pytest.mark.parametrize("create_graph", [False, True])
@pytest.mark.parametrize("strict", [False, True])
def test_products(product: str, create_graph: bool, strict: bool) -> None:
    for (name, (function, kind)), grad in itertools.product(
        (FUNCTIONS if product[1:] == "vp" and product[0] in "vj" else SCALARS).items(),
        (False, True),
    ):

        def program(t: Any, function: Any = function, kind: str = kind, grad: bool = grad) -> Any:
            inputs = arguments(t, kind, grad)
            given = inputs if isinstance(inputs, tuple) else (inputs,)
            v = like(t, function(t, *given) if product == "vjp" else inputs)
            return outcome(
                lambda: getattr(t.autograd.functional, product)(
                    lambda *a: function(t, *a), inputs, v, create_graph=create_graph, strict=strict
                )
            )

        try:
            agree(program)
        except AssertionError as error:
            raise AssertionError(f"{name}, inputs that require grad: {grad}") from error


@pytest.mark.parametrize("product", ["vjp", "jvp", "vhp", "hvp"])
def test_the_vector_of_a_number_may_be_left_out(product: str) -> None:
    def program(t: Any) -> Any:
        x = t.tensor([2.0], dtype=t.float64)
        return shown(getattr(t.autograd.functional, product)(lambda x: x.exp().sum(), x))

    agree(program)


def _rolled(t: Any) -> Any:
    """A Function whose gradient is that of no function: its derivative is not symmetric."""

    class Rolled(t.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            ctx.save_for_backward(x)
            return x * x

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            return g * ctx.saved_tensors[0].roll(1) * t.arange(3.0)

    return Rolled.apply


def _hooked(where: str) -> Any:
    def made(t: Any) -> Any:
        def function(x: Any) -> Any:
            y = x * x.roll(1)
            at = {"input": x, "inner": y}[where]
            at.register_hook(lambda g: g * t.arange(3.0) + x.roll(1) ** 2)
            return y.exp()

        return function

    return made


@pytest.mark.parametrize("create_graph", [False, True])
@pytest.mark.parametrize("made", [_rolled, _hooked("input"), _hooked("inner")])
def test_hvp_of_gradients_that_are_those_of_no_function(made: Any, create_graph: bool) -> None:
    def program(t: Any) -> Any:
        function = made(t)
        x, v = t.tensor([1.0, 2.0, 3.0]), t.tensor([1.0, 10.0, 100.0])
        hvp, vhp = t.autograd.functional.hvp, t.autograd.functional.vhp
        return [
            shown(each(lambda x: function(x).sum(), x, v, create_graph=create_graph)[1])
            for each in (hvp, vhp)
        ]

    agree(program)
    (*_, hvp), (*_, vhp) = program(ag)
    assert not numpy.allclose(hvp, vhp)


def test_results_can_be_differentiated_with_create_graph() -> None:
    def program(t: Any) -> Any:
        a = t.autograd.functional
        x, _ = points(t, grad=True)
        v = t.ones_like(x)
        seen = []
        for found in (
            a.jacobian(lambda x: x**3, x, create_graph=True),
            a.jacobian(lambda x: x**3, x, create_graph=True, vectorize=True),
            a.hessian(lambda x: (x**4).sum(), x, create_graph=True),
            a.vjp(lambda x: x**3, x, v, create_graph=True)[1],
            a.jvp(lambda x: x**3, x, v, create_graph=True)[1],
            a.vhp(lambda x: (x**4).sum(), x, v, create_graph=True)[1],
            a.hvp(lambda x: (x**4).sum(), x, v, create_graph=True)[1],
        ):
            seen.append(t.autograd.grad(found.sum(), x)[0])
        return seen

    agree(program)


def test_outside_nothing_changes() -> None:
    """Under no_grad it works, no `.grad` is touched, and the function sees leaves."""

    def program(t: Any) -> Any:
        seen: list[Any] = []

        def function(x: Any) -> Any:
            seen.append([x.requires_grad, x.is_leaf, t.is_grad_enabled()])
            return (x**2).sum()

        x, _ = points(t, grad=True)
        a = t.autograd.functional
        with t.no_grad():
            for name in ("jacobian", "hessian"):
                seen.append(shown(getattr(a, name)(function, x)))
                seen.append(shown(getattr(a, name)(function, x, create_graph=True)))
            for name in ("vjp", "jvp", "vhp", "hvp"):
                v = t.ones(()).double() if name == "vjp" else t.ones_like(x)
                seen.append(shown(getattr(a, name)(function, x, v)))
                seen.append(shown(getattr(a, name)(function, x, v, create_graph=True)))
        return [*seen, x.grad is None, x._version, t.is_grad_enabled()]

    agree(program)


@settings(max_examples=15)
@given(data=st.data())
def test_they_agree_with_each_other(data: st.DataObject) -> None:
    """Rows, a batch of rows and products give the same Jacobian, at random functions and shapes."""
    sizes = st.lists(st.integers(1, 3), min_size=0, max_size=2)
    shape = data.draw(sizes)
    steps = data.draw(st.lists(st.sampled_from(["sin", "exp", "tanh", "square"]), max_size=3))
    reduced = data.draw(st.booleans())
    draw = numpy.random.default_rng(data.draw(st.integers(0, 99)))
    x = ag.tensor(draw.uniform(-1, 1, shape))

    def function(x: Any) -> Any:
        for step in steps:
            x = getattr(x, step)() * x
        return x.sum() if reduced else x

    rows: Any = functional.jacobian(function, x)
    output = function(x)
    assert rows.shape == (*output.shape, *x.shape)
    assert ag.allclose(rows, functional.jacobian(function, x, vectorize=True))
    v = ag.tensor(draw.uniform(-1, 1, output.shape))
    u = ag.tensor(draw.uniform(-1, 1, shape))
    matrix = rows.reshape(output.numel(), x.numel())
    assert ag.allclose(functional.vjp(function, x, v)[1].reshape(-1), v.reshape(-1) @ matrix)
    assert ag.allclose(functional.jvp(function, x, u)[1].reshape(-1), matrix @ u.reshape(-1))

    def total(x: Any) -> Any:
        return function(x).sum()

    second = functional.hessian(total, x).reshape(x.numel(), x.numel())
    assert ag.allclose(second, second.T)
    assert ag.allclose(functional.vhp(total, x, u)[1].reshape(-1), second @ u.reshape(-1))
    assert ag.allclose(functional.hvp(total, x, u)[1].reshape(-1), second @ u.reshape(-1))


# Errors -------------------------------------------------------------------------------------------

A = Callable[[Any, Any], Any]
"""A cause: given the engine and its `autograd.functional`."""


def _times_a_weight(t: Any) -> Callable[..., Any]:
    """Linear in its argument, though its gradient requires grad."""
    weight = t.ones(2, requires_grad=True)
    return lambda x: (x * weight).sum()


ERRORS: dict[str, A] = {
    "F1": lambda t, f: f.jacobian(t.sin, 3),
    "F2": lambda t, f: f.jacobian(t.sin, (t.tensor(1.0), 3)),
    "F4": lambda t, f: f.jacobian(lambda x: 3, t.tensor(1.0)),
    "F5": lambda t, f: f.jacobian(lambda x: (x, 3), t.tensor(1.0)),
    "F6": lambda t, f: f.jacobian(lambda x: x.detach(), t.tensor(1.0), strict=True),
    "F7": lambda t, f: f.jacobian(lambda x: t.tensor(3.0), t.tensor(1.0), strict=True),
    "F8": lambda t, f: f.jacobian(lambda x, y: x, (t.tensor(1.0), t.tensor(1.0)), strict=True),
    "F8b": lambda t, f: f.jacobian(lambda x, y: (x, y), (t.ones(2), t.ones(2)), strict=True),
    "F9": lambda t, f: f.jacobian(lambda x: x * 2, t.tensor(1.0), strict=True, create_graph=True),
    "F10": lambda t, f: f.jacobian(t.sin, t.tensor(1.0), strict=True, vectorize=True),
    "F11": lambda t, f: f.jacobian(t.sin, t.tensor(1.0), strategy="forward-mode"),
    "F11b": lambda t, f: f.jacobian(t.sin, t.tensor(1.0), strategy="forward-mode", strict=True),
    "F12": lambda t, f: f.jacobian(t.sin, t.tensor(1.0), strategy="x"),
    "F13": lambda t, f: f.jacobian(
        t.sin, t.tensor(1.0), strategy="forward-mode", vectorize=True, create_graph=True
    ),
    "F14": lambda t, f: f.hessian(t.sin, t.ones(2)),
    "F15": lambda t, f: f.hessian(lambda x: 3, t.ones(2)),
    "F16": lambda t, f: f.hessian(lambda x: (x.sum(), x.sum()), t.ones(2)),
    "F17": lambda t, f: f.hessian(lambda x: (x * 2).sum(), t.ones(2), strict=True),
    "F18": lambda t, f: f.hessian(lambda x: t.tensor(2.0), t.ones(2), strict=True),
    "F19": lambda t, f: f.hessian(lambda x: (x**2).sum(), t.ones(2), outer_jacobian_strategy="x"),
    "F20": lambda t, f: f.hessian(
        lambda x: (x**2).sum(), t.ones(2), outer_jacobian_strategy="forward-mode"
    ),
    "F21": lambda t, f: f.hessian(
        lambda x: (x**2).sum(),
        t.ones(2),
        outer_jacobian_strategy="forward-mode",
        vectorize=True,
        create_graph=True,
    ),
    "F22": lambda t, f: f.hessian(lambda x: (x**2).sum(), t.ones(2), strict=True, vectorize=True),
    "F23": lambda t, f: f.hessian(lambda x, y: (x**2).sum(), (t.ones(2), t.ones(2)), strict=True),
    "F24": lambda t, f: f.vjp(t.sin, t.ones(2)),
    "F25": lambda t, f: f.vjp(t.sin, t.ones(2), t.ones(3)),
    "F25b": lambda t, f: f.vjp(lambda x: (x, x * 2), t.ones(2), (t.ones(2), t.ones(3))),
    "F26": lambda t, f: f.vjp(t.sin, t.ones(2), 3),
    "F27": lambda t, f: f.vjp(t.sin, t.ones(2), (t.ones(2), t.ones(2))),
    "F27b": lambda t, f: f.vjp(lambda x: (x, x * 2), t.ones(2), (t.ones(2),)),
    "F28": lambda t, f: f.vjp(lambda x: (x.sum(), x.sum()), t.ones(2)),
    "F29": lambda t, f: f.vjp(lambda x: x.detach(), t.ones(2), t.ones(2), strict=True),
    "F29b": lambda t, f: f.vjp(lambda x, y: x * 2, (t.ones(2), t.ones(2)), t.ones(2), strict=True),
    "F30": lambda t, f: f.vjp(
        lambda x: x * 2, t.ones(2), t.ones(2), strict=True, create_graph=True
    ),
    "F31": lambda t, f: f.jvp(t.sin, t.ones(2)),
    "F32": lambda t, f: f.jvp(t.sin, t.ones(2), t.ones(3)),
    "F33": lambda t, f: f.jvp(t.sin, (t.ones(2),), 3),
    "F34": lambda t, f: f.jvp(lambda x: x.detach(), t.ones(2), t.ones(2), strict=True),
    "F34b": lambda t, f: f.jvp(
        lambda x, y: x * 2, (t.ones(2), t.ones(2)), (t.ones(2), t.ones(2)), strict=True
    ),
    "F35": lambda t, f: f.jvp(
        lambda x: 2 * x, t.ones(2), t.ones(2), strict=True, create_graph=True
    ),
    "F36": lambda t, f: f.vhp(t.sin, t.ones(2), t.ones(2)),
    "F37": lambda t, f: f.vhp(lambda x: x.sum(), t.ones(2)),
    "F37b": lambda t, f: f.vhp(lambda x: (x.sum(),), t.ones(2), t.ones(2)),
    "F38": lambda t, f: f.vhp(lambda x: x.sum(), t.ones(2), t.ones(2), strict=True),
    "F38b": lambda t, f: f.vhp(
        lambda x, y: (x**3).sum() + (y**3).sum() * 0 + y.sum(),
        (t.ones(2), t.ones(2)),
        (t.ones(2), t.ones(2)),
        strict=True,
        create_graph=True,
    ),
    "F38c": lambda t, f: f.vhp(
        lambda x: (x**2).sum(), t.ones(2), t.ones(2), strict=True, create_graph=True
    ),
    "F39": lambda t, f: f.hvp(t.sin, t.ones(2), t.ones(2)),
    "F40": lambda t, f: f.hvp(lambda x: x.sum(), t.ones(2), t.ones(2), strict=True),
    "F40b": lambda t, f: f.hvp(
        lambda x: (x**2).sum(), t.ones(2), t.ones(2), strict=True, create_graph=True
    ),
    "F38d": lambda t, f: f.vhp(_times_a_weight(t), t.ones(2), t.ones(2), strict=True),
    "F40c": lambda t, f: f.hvp(_times_a_weight(t), t.ones(2), t.ones(2), strict=True),
    "F17b": lambda t, f: f.hessian(_times_a_weight(t), t.ones(2), strict=True),
    "F35b": lambda t, f: f.jvp(
        lambda x: x * t.ones(2, requires_grad=True), t.ones(2), t.ones(2), strict=True
    ),
    "F41": lambda t, f: f.hvp(lambda x: (x**2).sum(), t.ones(2), t.ones(3)),
    "F42": lambda t, f: f.jacobian(lambda a: a**2, [t.tensor(1.0)]),
    "F43": lambda t, f: f.jacobian(lambda a: [a**2], t.tensor(1.0)),
    "F44": lambda t, f: f.jacobian(lambda a: a**2, t.zeros(0)),
    "F45": lambda t, f: f.hessian(lambda a: ((a**3).sum(),), t.ones(2)),
}
BEGINNINGS: dict[str, A] = {
    "F3": lambda t, f: f.jacobian(t.sin, t.tensor(1)),
    "F46": lambda t, f: f.jacobian(lambda a: a.mul_(2), t.ones(2)),
}
"""Errors of the engine, whose text goes on to say more."""


def _told(cause: A, t: Any) -> tuple[str, str]:
    kind, text = raised(lambda: cause(t, t.autograd.functional))
    return kind, text.replace("ag_visual.", "torch.")


@pytest.mark.parametrize("name", ERRORS)
def test_errors_are_torchs(name: str) -> None:
    assert _told(ERRORS[name], ag) == _told(ERRORS[name], torch)


@pytest.mark.parametrize("name", BEGINNINGS)
def test_errors_of_the_engine_begin_as_torchs(name: str) -> None:
    kind, text = _told(BEGINNINGS[name], torch)
    seen, told = _told(BEGINNINGS[name], ag)
    assert seen == kind
    assert told.lower().startswith(text.partition(".")[0].lower())


def test_the_input_that_a_constant_jacobian_belongs_to_is_named() -> None:
    """torch gives the number of the output in its place."""

    def call() -> Any:
        inputs = ag.ones(2), ag.ones(2)
        return functional.jacobian(
            lambda x, y: x**2 + 2 * y, inputs, strict=True, create_graph=True
        )

    assert "is independent of input 1." in raised(call)[1]
