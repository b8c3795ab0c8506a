"""Weighted losses, variances of gaussian_nll_loss, ops without outputs, and fills."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.programs import agree, agree_in_words, told

LOSSES = ("mse_loss", "l1_loss", "huber_loss")


@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
@pytest.mark.parametrize("loss", LOSSES)
def test_weights(loss: str, reduction: str) -> None:
    def program(t: Any) -> Any:
        x = t.tensor([1.0, -2, 4], requires_grad=True)
        w = t.tensor([0.5, 0.25, 2], requires_grad=True)
        found = getattr(t.nn.functional, loss)(x, t.zeros(3), reduction=reduction, weight=w)
        found.sum().backward()
        return [found, x.grad, w.grad]

    agree(program)


@pytest.mark.parametrize("loss", LOSSES)
def test_weights_of_another_size(loss: str) -> None:
    agree_in_words(
        lambda t: told(
            lambda: getattr(t.nn.functional, loss)(t.ones(2), t.zeros(2), weight=t.ones(1))
        )
    )


VARIANCES = ["1.5", "-1.5", "t.ones(3)", "t.ones(2)", "t.ones(2, 1)", "t.ones(1, 1)", "t.ones(())"]


@pytest.mark.parametrize("var", VARIANCES)
def test_variances(var: str) -> None:
    def program(t: Any) -> Any:
        found: list[Any] = []

        def call() -> None:
            value = eval(var, {"t": t})
            loss = t.nn.functional.gaussian_nll_loss
            found.append(loss(t.full((2, 3), 2.0), t.zeros(2, 3), value))

        return [told(call), *found]

    agree_in_words(program)


def test_ops_without_outputs() -> None:
    agree(
        lambda t: [
            list(t.zeros(0, 3, requires_grad=True)),
            list(t.zeros(3, 0, requires_grad=True).unbind(1)),
            len(t.zeros(0, requires_grad=True).unbind()),
        ]
    )


@pytest.mark.filterwarnings("ignore:The reduce argument")
def test_scatter_writes_sums_and_products() -> None:
    def program(t: Any) -> Any:
        i = t.tensor([0, 0])
        return [
            t.ones(3).scatter_(0, i, 2.5, reduce="add"),
            t.ones(3).scatter_(0, i, t.ones(2) * 3, reduce="multiply"),
            told(lambda: t.ones(3).scatter_(0, i, 1.0, reduce="mean")),
        ]

    agree_in_words(program)


def test_index_add_keeps_the_index_for_its_source_alone() -> None:
    def program(t: Any) -> Any:
        x = t.ones(2, requires_grad=True)
        y = t.index_add(x, 0, t.tensor([0]), t.ones(1)).sum()
        y.backward()
        y.backward()
        return x.grad

    agree(program)


def test_complex_normal_numbers() -> None:
    def program(t: Any) -> Any:
        x = t.zeros(20_000, dtype=t.complex128).normal_(1, 2)
        y = t.normal(t.zeros(3, dtype=t.complex64), 1.0)
        spread = [abs(x.mean() - 1 - 1j).item() < 0.1, abs(x.var() - 4).item() < 0.3]
        return [*spread, str(x.dtype), str(y.dtype)]

    agree(program)


def test_statistics_of_groups_carry_gradients() -> None:
    def program(t: Any) -> Any:
        x = t.arange(24.0, dtype=t.float64).reshape(2, 4, 3).sin().requires_grad_()
        w = t.tensor([1.0, 2, 3, 4], dtype=t.float64, requires_grad=True)
        found = t.native_group_norm(x, w, None, 2, 4, 3, 2, 1e-5)
        loss = sum((each**2).sum() for each in found)
        first = t.autograd.grad(loss, (x, w), create_graph=True)
        second = t.autograd.grad(first[0].pow(2).sum(), x)
        return [[each.requires_grad for each in found], *first, *second]

    agree(program)


def test_powers_of_negative_numbers_with_complex_exponents() -> None:
    def program(t: Any) -> Any:
        e = t.tensor([1 + 2j, 0.5j, 2], dtype=t.complex128, requires_grad=True)
        b = t.tensor([-2.0, -1, 0], dtype=t.float64, requires_grad=True)
        found = [t.pow(-1, e), t.pow(b, e), t.pow(-1.5 + 1j, e)]
        sum(each.abs().sum() for each in found).backward()
        return [e.grad.real, e.grad.imag, b.grad]

    agree(program)


REPEATED: dict[str, Callable[..., Any]] = {
    "addmm": lambda t, x, c: t.addmm(x, c, c),
    "linear": lambda t, x, c: t.nn.functional.linear(c, c, x[0]),
    "addcmul": lambda t, x, c: t.addcmul(x, c, c),
    "scatter_add": lambda t, x, c: t.scatter_add(x, 0, t.zeros(1, 2, dtype=t.int64), c[:1]),
    "remainder": lambda t, x, c: t.remainder(x, c),
    "addmm of a factor": lambda t, x, c: t.addmm(c, x, c),
    "mul": lambda t, x, c: x * c,
}


@pytest.mark.parametrize("name", REPEATED)
def test_a_second_backward_where_nothing_saved_is_needed(name: str) -> None:
    def program(t: Any) -> Any:
        x = t.ones(2, 2, requires_grad=True)
        y = REPEATED[name](t, x, t.full((2, 2), 2.0)).sum()
        y.backward()
        return [told(lambda: y.backward())["error"], x.grad]

    agree(program)


PROBABILITIES: dict[str, Callable[..., Any]] = {
    "an ignored class": lambda t, x, loss: loss(x, x, ignore_index=0),
    "weights of other classes": lambda t, x, loss: loss(x, x, t.ones(2)),
    "no floats": lambda t, x, loss: loss(x, t.ones((2, 3), dtype=t.int64)),
    "no floats in one row": lambda t, x, loss: loss(x[0], t.ones(3, dtype=t.int64)),
    "a class for a number": lambda t, x, loss: loss(x[0, 0], t.tensor(0)),
    "smoothing, too": lambda t, x, loss: loss(x, x, ignore_index=1, label_smoothing=2.0),
    "right": lambda t, x, loss: loss(x, x, t.ones(3), ignore_index=-1, label_smoothing=0.5),
}


@pytest.mark.parametrize("name", PROBABILITIES)
def test_class_probabilities(name: str) -> None:
    def program(t: Any) -> Any:
        x = t.arange(6.0).reshape(2, 3)
        return told(lambda: PROBABILITIES[name](t, x, t.nn.functional.cross_entropy))

    agree_in_words(program)
