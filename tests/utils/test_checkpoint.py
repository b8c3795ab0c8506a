"""Checkpointing, both ways: values, gradients, random numbers, what is saved, and errors."""

from __future__ import annotations

import contextlib
import gc
import importlib
import warnings
import weakref
from typing import Any

import pytest

import ag_visual
from ag_visual.utils.checkpoint import (
    CheckpointError,
    checkpoint,
    set_checkpoint_debug_enabled,
    set_checkpoint_early_stop,
)
from tests.programs import agree, raised


def _of(t: Any) -> Any:
    return importlib.import_module(f"{t.__name__}.utils.checkpoint")


@pytest.mark.parametrize("reentrant", [True, False])
def test_gradients_are_those_without_checkpoint(reentrant: bool) -> None:
    def program(t: Any) -> Any:
        w = t.tensor([2.0, 3.0], requires_grad=True)
        x = t.tensor([0.5, 0.25], requires_grad=True)
        calls: list[int] = []

        def block(v: Any, scale: float) -> Any:
            calls.append(1)
            return (v * w).sin().exp() * scale

        y = _of(t).checkpoint(block, x * 1, 3.0, use_reentrant=reentrant)
        (y * y).sum().backward()
        return [y, x.grad, w.grad, len(calls)]

    agree(program)


@pytest.mark.parametrize("reentrant", [True, False])
def test_several_outputs_nested_and_none_arguments(reentrant: bool) -> None:
    def program(t: Any) -> Any:
        run = _of(t).checkpoint
        x = t.tensor([0.5, 0.25], requires_grad=True)

        def inner(v: Any) -> Any:
            return v.sin() * v

        def outer(v: Any, nothing: Any) -> Any:
            a = run(inner, v, use_reentrant=reentrant)
            return a.exp(), v * 2, nothing

        a, b, nothing = run(outer, x, None, use_reentrant=reentrant)
        (a.sum() + (b * b).sum()).backward()
        return [x.grad, nothing is None]

    agree(program)


def test_autograd_grad_and_inputs() -> None:
    def program(t: Any) -> Any:
        x = t.tensor([0.5], requires_grad=True)
        seen = []
        for reentrant in (False, True):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                y = _of(t).checkpoint(lambda v: v.exp(), x, use_reentrant=reentrant)
                kind, text = raised(
                    lambda: seen.append(t.autograd.grad(y, x, retain_graph=True)[0])  # noqa: B023
                )
                kind2, _ = raised(lambda: y.backward(inputs=[x]))  # noqa: B023
            seen.append([kind, text[:66], kind2])
        return seen

    agree(program)


def test_double_backward_without_reentrance() -> None:
    def program(t: Any) -> Any:
        x = t.tensor([0.5, 2.0], requires_grad=True)
        y = _of(t).checkpoint(lambda v: (v * v).exp() * v, x, use_reentrant=False)
        (g,) = t.autograd.grad(y.sum(), x, create_graph=True)
        (h,) = t.autograd.grad(g.sum(), x)
        return [g, h]

    agree(program)


def test_a_retained_graph_recomputes_each_time() -> None:
    def program(t: Any) -> Any:
        calls: list[int] = []
        x = t.tensor([0.5], requires_grad=True)

        def block(v: Any) -> Any:
            calls.append(1)
            return v.sin().exp()

        y = _of(t).checkpoint(block, x, use_reentrant=False)
        y.backward(retain_graph=True)
        y.backward()
        return [x.grad, len(calls)]

    agree(program)


def test_random_numbers_are_drawn_again_and_the_stream_goes_on() -> None:
    x = ag_visual.ones(100, requires_grad=True)

    def drop(v: Any) -> Any:
        return v * (ag_visual.rand(100) > 0.5)

    for reentrant in (False, True):
        x.grad = None
        ag_visual.manual_seed(1)
        y = checkpoint(lambda v: drop(v).exp() * v, x, use_reentrant=reentrant)
        state = ag_visual.get_rng_state()
        y.sum().backward()
        expected = ag_visual.where(y > 2, 2 * y, y).detach()  # e (1 + 1) where kept, else 1
        assert ag_visual.allclose(x.grad, expected)
        assert bool((ag_visual.get_rng_state() == state).all())
    x.grad = None
    y = checkpoint(lambda v: drop(v).exp() * v, x, use_reentrant=False, preserve_rng_state=False)
    y.sum().backward()
    kept = ag_visual.where(y > 2, 2 * y, y).detach()
    assert not ag_visual.allclose(x.grad, kept)


def test_early_stop() -> None:
    def program(t: Any) -> Any:
        module = _of(t)
        seen: list[str] = []
        x = t.tensor([0.5], requires_grad=True)

        def block(v: Any) -> Any:
            seen.append("start")
            y = v.sin()
            z = y * 2
            seen.append("end")
            return z

        module.checkpoint(block, x, use_reentrant=False).backward()
        with module.set_checkpoint_early_stop(False):
            y = module.checkpoint(block, x, use_reentrant=False)
        y.backward()
        return seen

    agree(program, ["start", "end", "start", "start", "end", "start", "end"])


def test_context_fn() -> None:
    def program(t: Any) -> Any:
        seen: list[str] = []

        @contextlib.contextmanager
        def noted(name: str) -> Any:
            seen.append(f"enter {name}")
            try:
                yield
            finally:
                seen.append(f"leave {name}")

        x = t.tensor([0.5], requires_grad=True)
        y = _of(t).checkpoint(
            lambda v: v.exp(),
            x,
            use_reentrant=False,
            context_fn=lambda: (noted("forward"), noted("recompute")),
        )
        y.backward()
        return seen

    agree(program)


def test_keyword_arguments() -> None:
    def program(t: Any) -> Any:
        x, w = t.tensor([0.5], requires_grad=True), t.tensor([2.0], requires_grad=True)

        def block(v: Any, *, weight: Any, power: int = 2) -> Any:
            return (v * weight).exp() ** power

        _of(t).checkpoint(block, x, use_reentrant=False, weight=w, power=3).backward()
        kind, text = raised(lambda: _of(t).checkpoint(block, x, use_reentrant=True, weight=w))
        return [x.grad, w.grad, kind, text]

    agree(program)


def test_what_differs_is_named() -> None:
    x = ag_visual.ones(3, requires_grad=True)
    calls: list[int] = []

    def more(v: Any) -> Any:
        calls.append(1)
        return v.sin() if len(calls) % 2 else v

    def shape(v: Any) -> Any:
        calls.append(1)
        return (v.sin() if len(calls) % 2 else v.narrow(0, 0, 2).sin()).sum()

    with pytest.raises(CheckpointError, match="A different number of tensors was saved") as caught:
        checkpoint(more, x, use_reentrant=False).sum().backward()
    assert "first difference: saved by test_checkpoint.py" in str(caught.value)
    calls.clear()
    with pytest.raises(CheckpointError, match="have different metadata") as caught:
        checkpoint(shape, x, use_reentrant=False).backward()
    assert "tensor at position 0" in str(caught.value)
    calls.clear()
    with set_checkpoint_debug_enabled(True), set_checkpoint_early_stop(False):
        y = checkpoint(more, x, use_reentrant=False).sum()
    with pytest.raises(CheckpointError, match="Saved during the original forward"):
        y.backward()
    calls.clear()
    kind = ag_visual.float64

    def dtype(v: Any) -> Any:
        calls.append(1)
        return (v if len(calls) % 2 else v.to(kind)).sin().sum()

    checkpoint(dtype, x, use_reentrant=False, determinism_check="none").backward()
    assert ag_visual.allclose(x.grad, x.cos())


def test_errors_of_arguments() -> None:
    def program(t: Any) -> Any:
        run = _of(t).checkpoint
        x = t.ones(1, requires_grad=True)
        seen = [
            raised(lambda: run(t.exp, x, use_reentrant=False, determinism_check="no"))[0],
            raised(lambda: run(t.exp, x, use_reentrant=True, debug=True)),
            raised(lambda: _of(t).checkpoint_sequential([t.exp], 1, x, use_reentrant=False, a=1)),
        ]
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            run(t.exp, t.ones(1))
        return [seen, [str(w.message)[:60] for w in caught]]

    agree(program)


def test_an_input_that_was_written_since_is_an_error_that_names_the_line() -> None:
    x = ag_visual.ones(2, requires_grad=True) * 1
    y = checkpoint(lambda v: v.exp(), x, use_reentrant=False)
    x.add_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation") as caught:
        y.sum().backward()
    assert "x.add_(1)" in str(caught.value)


def test_under_no_grad_it_is_a_plain_call() -> None:
    def program(t: Any) -> Any:
        x = t.ones(1, requires_grad=True)
        with t.no_grad():
            y = _of(t).checkpoint(t.exp, x, use_reentrant=False)
        return y.requires_grad

    agree(program, False)


@pytest.mark.parametrize("reentrant", [True, False])
def test_checkpoint_sequential(reentrant: bool) -> None:
    def program(t: Any) -> Any:
        x = t.tensor([0.1, 0.2], requires_grad=True)
        chain = [t.sin, t.exp, lambda v: v * v, t.cos, lambda v: v + 1]
        y = _of(t).checkpoint_sequential(chain, 2, x, use_reentrant=reentrant)
        y.sum().backward()
        return [y, x.grad]

    agree(program)


def test_nothing_but_the_inputs_is_kept_alive() -> None:
    kept: list[Any] = []

    def block(v: Any) -> Any:
        a = v.sin()
        kept.append(weakref.ref(a))
        return a.exp().sum()

    gc.disable()
    try:
        x = ag_visual.ones(2, requires_grad=True)
        y = checkpoint(block, x, use_reentrant=False)
        assert kept[0]() is None
        node = weakref.ref(y.grad_fn)
        y.backward()
        del y
        assert node() is None
        assert all(ref() is None for ref in kept)
    finally:
        gc.enable()


def test_is_checkpoint_valid_is_public_in_autograd() -> None:
    assert ag_visual.autograd._is_checkpoint_valid()


def test_a_tensor_without_history_is_unpacked_as_the_object_it_is() -> None:
    def program(t: Any) -> Any:
        same: list[bool] = []
        y = t.tensor([3.0, 4.0])

        class Scaled(t.autograd.Function):
            @staticmethod
            def forward(ctx: Any, x: Any, y: Any) -> Any:
                ctx.save_for_backward(y)
                return x * y

            @staticmethod
            def backward(ctx: Any, g: Any) -> Any:
                (saved,) = ctx.saved_tensors
                same.append(saved is y)
                return g * saved, None

        x = t.ones(2, requires_grad=True)
        _of(t).checkpoint(lambda v: Scaled.apply(v, y), x, use_reentrant=False).sum().backward()
        return [same, x.grad]

    agree(program)


def test_debug_says_why_the_lists_are_there() -> None:
    calls: list[int] = []

    def other_each_time(v: Any) -> Any:
        calls.append(1)
        return v.exp() if len(calls) == 1 else (v * v).sin()

    x = ag_visual.ones(2, requires_grad=True)
    y = checkpoint(other_each_time, x, use_reentrant=False, debug=True, early_stop=False)
    with pytest.raises(CheckpointError, match="because you passed `debug=True` to checkpoint"):
        y.sum().backward()
