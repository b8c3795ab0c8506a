"""Anomaly mode: warnings with forward stacks, NaN checks, nested for double backward."""

from __future__ import annotations

import warnings
from typing import Any

import pytest

import ag_visual
from tests.oracle import torch
from tests.programs import agree, raised


def _texts(program: Any, t: Any) -> list[str]:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        program(t)
    return [str(w.message) for w in caught]


def test_entering_warns_and_leaving_restores() -> None:
    def program(t: Any) -> Any:
        seen = []
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            with t.autograd.detect_anomaly():
                seen += [t.is_anomaly_enabled(), t.is_anomaly_check_nan_enabled()]
            with t.autograd.detect_anomaly(check_nan=False):
                seen += [t.is_anomaly_enabled(), t.is_anomaly_check_nan_enabled()]
                with t.autograd.set_detect_anomaly(False):
                    seen.append(t.is_anomaly_enabled())
                seen.append(t.is_anomaly_enabled())
        return [seen, len(caught), str(caught[0].message), t.is_anomaly_enabled()]

    agree(program)


def test_nan_raises_and_names_the_output() -> None:
    def program(t: Any) -> Any:
        class Bad(t.autograd.Function):  # type: ignore[name-defined, misc]
            @staticmethod
            def forward(ctx: Any, a: Any, b: Any) -> Any:
                return a * b

            @staticmethod
            def backward(ctx: Any, g: Any) -> Any:
                return g, g * float("nan")

        seen = []
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            with t.autograd.detect_anomaly():
                x, y = t.ones(2, requires_grad=True), t.ones(2, requires_grad=True)
                z = Bad.apply(x, y).sum()
                seen.append(raised(lambda: z.backward(retain_graph=True)))
            with t.autograd.detect_anomaly(check_nan=False):
                z.backward()
                seen.append(y.grad)
        return seen

    agree(program)


def test_the_warning_shows_the_forward_stack() -> None:
    def made_here(t: Any, x: Any) -> Any:
        return (x - 1).sqrt()

    def program(t: Any) -> Any:
        with t.autograd.detect_anomaly():
            x = t.ones(2, requires_grad=True)
            y = made_here(t, x).mul(0).sum()
            assert raised(y.backward)[0] == "RuntimeError"

    for t in (ag_visual, torch):
        texts = [text for text in _texts(program, t) if "Error detected" in text]
        assert len(texts) == 1
        assert texts[0].startswith(
            "Error detected in SqrtBackward0. Traceback of forward call that caused the error:\n"
        )
        assert "in made_here" in texts[0]
        assert "(x - 1).sqrt()" in texts[0]


def test_check_nan_false_keeps_the_traceback() -> None:
    def program(t: Any) -> Any:
        class Fail(t.autograd.Function):  # type: ignore[name-defined, misc]
            @staticmethod
            def forward(ctx: Any, x: Any) -> Any:
                return x * 1

            @staticmethod
            def backward(ctx: Any, g: Any) -> Any:
                raise ValueError("mine")

        with t.autograd.detect_anomaly(check_nan=False):
            y = Fail.apply(t.ones(2, requires_grad=True)).sum()
            assert raised(y.backward) == ("ValueError", "mine")

    texts = _texts(program, ag_visual)
    assert sum("Error detected in FailBackward" in text for text in texts) == 1


def test_a_node_made_in_a_backward_has_a_parent_trace_too() -> None:
    def program(t: Any) -> Any:
        with t.autograd.detect_anomaly():
            x = t.tensor([0.0], requires_grad=True)
            y = (x * x).sum() ** 1.5
            (g,) = t.autograd.grad(y, x, create_graph=True)
            kind, _ = raised(lambda: t.autograd.grad(g, x))
            assert kind == "RuntimeError"

    for t in (ag_visual, torch):
        _, *texts = _texts(program, t)
        assert len(texts) == 2
        assert texts[0].startswith("Error detected in PowBackward0. Traceback of forward call")
        assert texts[1].startswith(
            "\n\nPrevious calculation was induced by PowBackward0. Traceback of forward call that "
            "induced the previous calculation:\n"
        )


def test_the_hint_of_the_version_error_changes() -> None:
    def program(t: Any) -> Any:
        x = t.ones(2, requires_grad=True)
        y = x * 1
        z = y * y
        y.add_(1)
        return raised(lambda: z.sum().backward())[1]

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with ag_visual.autograd.detect_anomaly():
            assert "Hint: the backtrace further above shows the operation" in program(ag_visual)
    assert "backtrace further above" not in program(ag_visual)


def test_without_anomaly_mode_errors_still_name_lines() -> None:
    x = ag_visual.ones(2, requires_grad=True)
    y = x.exp()
    y.add_(1)
    with pytest.raises(RuntimeError, match=r"test_anomaly.py, line \d+: x.exp\(\)"):
        y.sum().backward()


def test_traceback_in_metadata() -> None:
    def program(t: Any) -> Any:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            with t.autograd.detect_anomaly():
                y = t.ones(2, requires_grad=True) * 2
        return [
            "traceback_" in y.grad_fn.metadata,
            "line" in "".join(y.grad_fn.metadata["traceback_"]),
        ]

    agree(program)


def test_nan_that_comes_from_outside_is_found_at_the_node_that_makes_it() -> None:
    def program(t: Any) -> Any:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            with t.autograd.detect_anomaly():
                x = t.tensor([-1.0, 1.0], requires_grad=True)
                y = x.sqrt()
                z = (y * 0).sum()
                return raised(lambda: z.backward())

    agree(program)


def test_warnings_that_are_errors_do_not_hide_the_error(capsys: pytest.CaptureFixture[str]) -> None:
    def program(t: Any) -> Any:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            with t.autograd.detect_anomaly():
                y = t.tensor([-1.0, 1.0], requires_grad=True).sqrt().mul(0).sum()
                warnings.simplefilter("error")
                seen = raised(y.backward)
        return [seen, "UserWarning: Error detected in SqrtBackward0" in capsys.readouterr().err]

    agree(program)


def test_a_node_that_was_made_outside_has_no_stack() -> None:
    def program(t: Any) -> Any:
        y = t.tensor([-1.0, 1.0], requires_grad=True).sqrt().mul(0).sum()
        with t.autograd.detect_anomaly():
            raised(y.backward)

    for t in (ag_visual, torch):
        assert _texts(program, t)[-1].startswith(
            "Error detected in SqrtBackward0. No forward pass information available. Enable detect "
            "anomaly during forward pass for more information."
        )


def test_nan_for_an_input_that_wants_no_gradient_is_found_too() -> None:
    def program(t: Any) -> Any:
        class Product(t.autograd.Function):  # type: ignore[name-defined, misc]
            @staticmethod
            def forward(ctx: Any, a: Any, power: int, b: Any) -> Any:
                return a * b**power

            @staticmethod
            def backward(ctx: Any, g: Any) -> Any:
                return g * float("nan"), None, g

        calls: list[Any] = []
        y = Product.apply(t.ones(2), 1, t.ones(2, requires_grad=True))
        y.grad_fn.register_hook(lambda grad_inputs, grads: calls.append(list(grad_inputs)))
        y.sum().backward(retain_graph=True)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            with t.autograd.detect_anomaly():
                seen = [calls, raised(lambda: y.sum().backward(retain_graph=True))]
                y.grad_fn.register_hook(lambda grad_inputs, grads: (t.zeros(2), grads[0]))
                return [*seen, raised(y.sum().backward)]

    agree(program)
