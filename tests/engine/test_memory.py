"""Memory: long loops stay flat, and dead graphs of every kind go by reference counting alone."""

from __future__ import annotations

import contextlib
import gc
import sys
import tracemalloc
import weakref
from collections.abc import Callable
from typing import Any

import pytest

import ag_visual as ag


def _step(parameters: list[Any], x: Any) -> None:
    w, b = parameters
    loss = ((x @ w + b).tanh() ** 2).sum()
    loss.backward()
    with ag.no_grad():
        for p in parameters:
            p -= 0.001 * p.grad
            p.grad = None


def test_a_training_loop_keeps_memory_flat() -> None:
    parameters = [ag.ones(3, 3, requires_grad=True), ag.zeros(3, requires_grad=True)]
    x = ag.ones(4, 3)
    gc.collect()
    gc.disable()
    try:
        for _ in range(100):
            _step(parameters, x)
        tracemalloc.start()
        for _ in range(50):
            _step(parameters, x)
        gc.collect()
        before = tracemalloc.get_traced_memory()[0]
        for _ in range(2000):
            _step(parameters, x)
        cyclic = gc.collect()  # empties the interpreter's free lists, too
        after = tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()
        gc.enable()
    assert cyclic == 0, "a step left reference cycles"
    assert after - before < 20_000, f"2,000 steps kept {after - before} bytes"
    log = parameters[0]._storage.known()
    assert len(log.first) + len(log.last) == 16


@pytest.mark.parametrize("leak", [False, True])
def test_a_hundred_thousand_steps_keep_memory_flat(leak: bool) -> None:
    w = ag.ones(3, requires_grad=True)
    x = ag.ones(3)
    optimizer = ag.optim.SGD([w], lr=1e-4)
    kept = []

    def steps(count: int) -> None:
        for _ in range(count):
            optimizer.zero_grad()
            loss = (w * x).sum()
            loss.backward()
            optimizer.step()
            if leak:
                kept.append(loss)

    gc.collect()
    gc.disable()  # what only the collector would free counts as kept
    try:
        steps(2_000 if leak else 20_000)  # the interpreter's own pools have filled by then
        before = sys.getallocatedblocks()
        steps(2_000 if leak else 80_000)
        grown = sys.getallocatedblocks() - before
    finally:
        gc.enable()
    assert (grown > 2_000) if leak else (grown < 500), f"{grown} blocks of memory more"


class _Custom(ag.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        y = x.exp()
        ctx.save_for_backward(x, y)
        return y

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        return g * ctx.saved_tensors[1]


def _in_place(x: Any) -> Any:
    y = x * 1
    y.view(2).mul_(x)
    return y.tanh_()


def _hooked(x: Any) -> Any:
    y = x.exp()
    y.register_hook(lambda g: g * 2)
    y.retain_grad()
    return y


def _packed(x: Any) -> Any:
    with ag.autograd.graph.saved_tensors_hooks(lambda t: t.detach(), lambda t: t):
        return (x * x).exp()


def _packed_as_it_is(x: Any) -> Any:
    with ag.autograd.graph.saved_tensors_hooks(lambda t: t, lambda t: t):
        return (x * x).exp().tanh_()


def _packed_raw(x: Any) -> Any:
    y = x.exp()
    y.grad_fn._raw_saved_result.register_hooks(lambda t: t, lambda t: t)
    return _Custom.apply(y)


def _packed_custom(x: Any) -> Any:
    with ag.autograd.graph.saved_tensors_hooks(lambda t: (t, (1, t)), lambda p: p[1][1]):
        return _Custom.apply(x)


def _saved_on_cpu(x: Any) -> Any:
    with ag.autograd.graph.save_on_cpu():
        return (x * x).exp()


def _multi_grad(mode: Any) -> Callable[[Any], Any]:
    def make(x: Any) -> Any:
        y = x.exp()
        z = y * x
        register = ag.autograd.graph.register_multi_grad_hook
        register([x, y, z], lambda grads: None, mode=mode)
        register([x, z], lambda grads: None, mode=mode).remove()
        return z

    return make


def _mutable(x: Any) -> Any:
    with ag.autograd.graph.allow_mutation_on_saved_tensors():
        y = x.exp()
        y.mul_(2)
        return y


def _anomalous(x: Any) -> Any:
    with pytest.warns(UserWarning), ag.autograd.detect_anomaly():
        return x.exp()


def _second(x: Any) -> Any:
    (g,) = ag.autograd.grad((x * x).exp().sum(), x, create_graph=True)
    return g


KINDS: dict[str, Callable[[Any], Any]] = {
    "chain": lambda x: (x * 2).exp().sum(),
    "own output": lambda x: x.exp().tanh().sigmoid(),
    "views": lambda x: x.view(2, 1).t().select(0, 0),
    "in place": _in_place,
    "custom": _Custom.apply,
    "hooks": _hooked,
    "packed": _packed,
    "packed as it is": _packed_as_it_is,
    "packed raw": _packed_raw,
    "packed custom": _packed_custom,
    "saved on the CPU": _saved_on_cpu,
    "multi-grad hook, all": _multi_grad("all"),
    "multi-grad hook, any": _multi_grad("any"),
    "mutation": _mutable,
    "anomaly": _anomalous,
    "second order": _second,
    "list": lambda x: ag.cat([x, x * 2]),
    "several outputs": lambda x: x.exp().unbind(0)[0],
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("ran", [False, True])
def test_dead_graphs_are_freed_by_reference_counting(kind: str, ran: bool) -> None:
    gc.disable()
    try:
        x = ag.ones(2, requires_grad=True)
        y = KINDS[kind](x)
        nodes = [weakref.ref(y.grad_fn)]
        pending = [y.grad_fn]
        while pending:
            for edge in pending.pop().next:
                if edge is not None:
                    nodes.append(weakref.ref(edge[0]))
                    pending.append(edge[0])
        del edge
        if ran and kind != "mutation":
            y.sum().backward()
        tensor = weakref.ref(y)
        del y
        assert tensor() is None
        alive = [ref() for ref in nodes if ref() is not None]
        assert not alive, [type(node).__name__ for node in alive]
        leaf = weakref.ref(x)
        del x
        assert leaf() is None
    finally:
        gc.enable()


def test_an_error_keeps_no_tensor_alive_once_it_is_gone() -> None:
    gc.disable()
    try:
        x = ag.ones(2, requires_grad=True)
        y = x.exp()
        y.add_(1)
        with contextlib.suppress(RuntimeError):
            y.sum().backward()
        node, tensor = weakref.ref(y.grad_fn), weakref.ref(y)
        del y
        assert tensor() is None
        assert node() is None
    finally:
        gc.enable()
