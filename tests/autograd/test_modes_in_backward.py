"""Modes that user code changes inside of a backward: undone before the next node and at the end."""

from __future__ import annotations

import contextlib

import pytest

import ag_visual as ag
from ag_visual.core import modes

from ..oracle import torch
from ..programs import agree

HELD: list[object] = []  # what a mode is on for: dropped inside of the backward, it would end


@pytest.fixture(autouse=True)
def nothing_held():
    """Dropped after the test, in a mode that torch's inference mode would restore too late."""
    yield
    HELD.clear()
    ag.set_grad_enabled(True)
    if torch.__version__:
        torch.set_grad_enabled(True)


def grad_on(lib):
    lib.set_grad_enabled(True)


def grad_off(lib):
    lib.set_grad_enabled(False)


def inference(lib):
    entered = lib.inference_mode()
    entered.__enter__()
    HELD.append(entered)


def hooks(lib):
    lib.autograd.graph.saved_tensors_hooks(lambda t: t * 2, lambda t: t).__enter__()


def no_hooks(lib):
    refusing = lib.autograd.graph.disable_saved_tensors_hooks("refused")
    refusing.__enter__()
    HELD.append(refusing)


def replay(lib):
    lib.autograd._force_original_view_tracking(True)


def state(lib):
    """What is on in this thread, as far as a program can see it."""
    x = lib.ones(1, requires_grad=True)
    with lib.enable_grad():
        packs = False
        if not lib.is_inference_mode_enabled():
            y = x.exp()
            packs = y.grad_fn._saved_result.item() != y.item()
    refuses = False
    try:
        with lib.autograd.graph.saved_tensors_hooks(lambda t: t, lambda t: t):
            pass
    except RuntimeError:
        refuses = True
    return lib.is_grad_enabled(), lib.is_inference_mode_enabled(), packs, refuses


CHANGES = [grad_on, grad_off, inference, hooks, no_hooks, replay]
PLACES = ["c tensor", "c pre", "c post", "b tensor", "x tensor", "x post-accumulate", "callback"]


@pytest.mark.filterwarnings("ignore:Using backward:UserWarning")
@pytest.mark.parametrize("create_graph", [False, True])
@pytest.mark.parametrize("where", PLACES)
@pytest.mark.parametrize("change", CHANGES)
def test_each_node_starts_with_the_modes_of_the_backward(change, where, create_graph):
    def program(lib):
        x = lib.ones(2, requires_grad=True)
        b = x * 3
        c = b * 4
        seen = []

        def at(name):
            def hook(*_):
                seen.append((name, state(lib)))
                if name == where:
                    change(lib)

            return hook

        engine = lib.autograd.Variable._execution_engine
        c.register_hook(lambda g: engine.queue_callback(at("callback")))
        c.register_hook(at("c tensor"))
        c.grad_fn.register_prehook(at("c pre"))
        c.grad_fn.register_hook(at("c post"))
        b.register_hook(at("b tensor"))
        x.register_hook(at("x tensor"))
        x.register_post_accumulate_grad_hook(at("x post-accumulate"))
        try:
            c.sum().backward(create_graph=create_graph)
            seen.append(("after", state(lib)))
        finally:
            x.grad = None
        return seen

    agree(program)
    assert modes.special == 0


@pytest.mark.parametrize("change", CHANGES)
def test_a_backward_that_fails_leaves_the_modes_as_they_were(change):
    def program(lib):
        x = lib.ones(2, requires_grad=True)
        y = x * 2

        def hook(g):
            change(lib)
            raise ValueError

        y.register_hook(hook)
        loss = y.sum()
        with lib.no_grad():
            with contextlib.suppress(ValueError):
                loss.backward()
            inside = state(lib)
        return inside, state(lib)

    agree(program)
    assert modes.special == 0


def test_hooks_that_are_entered_inside_keep_nothing_alive():
    x = ag.ones(2, requires_grad=True)
    y = x * 2
    y.register_hook(lambda g: hooks(ag))
    y.sum().backward()
    assert modes.state.saved_hooks == ()
    assert modes.state.slow == 0
    assert modes.state.fast is True


def test_a_backward_inside_of_another_undoes_only_its_own():
    seen = []

    def inner(g):
        ag.set_grad_enabled(True)
        z = ag.ones(2, requires_grad=True) * 2
        z.register_hook(lambda g: hooks(ag))
        z.sum().backward()
        seen.append((ag.is_grad_enabled(), modes.state.saved_hooks))

    x = ag.ones(2, requires_grad=True)
    y = x * 2
    y.register_hook(inner)
    x.register_hook(lambda g: seen.append(ag.is_grad_enabled()))
    y.sum().backward()
    assert seen == [(True, ()), False]
    assert ag.is_grad_enabled()


def test_inference_mode_lasts_as_long_as_its_object():
    def program(lib):
        seen = []
        lib.inference_mode().__enter__()
        seen.append(lib.is_inference_mode_enabled())
        outer = lib.inference_mode()
        outer.__enter__()
        seen.append((lib.is_inference_mode_enabled(), lib.is_grad_enabled()))
        del outer
        seen.append((lib.is_inference_mode_enabled(), lib.is_grad_enabled()))
        return seen

    agree(program)
    assert modes.special == 0


def test_grad_modes_nest_in_themselves():
    def program(lib):
        seen = []
        off, on = lib.no_grad(), lib.enable_grad()
        with off, on, lib.inference_mode(), lib.inference_mode(False):
            seen.append((lib.is_grad_enabled(), lib.is_inference_mode_enabled()))
            with lib.set_grad_enabled(False) as nothing:
                seen.append((lib.is_grad_enabled(), nothing))
            seen.append(lib.is_grad_enabled())
        seen.append(lib.is_grad_enabled())
        return seen

    agree(program)
    assert modes.special == 0
