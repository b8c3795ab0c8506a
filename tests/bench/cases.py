"""The programs that are timed, each written once on the names that all three engines share.

An engine is a small namespace: its module, and how to make tensors.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy

CHAIN = 200
LARGE = 20
RETAINED = 40


class Engine:
    """One engine under test: `torch`-like modules, or HIPS autograd through its own interface."""

    def __init__(self, name: str, module: Any) -> None:
        self.name = name
        self.t = module

    def tensor(self, array: Any, grad: bool = False) -> Any:
        result = self.t.from_numpy(numpy.array(array, dtype=numpy.float32))
        return result.requires_grad_() if grad else result


Case = Callable[[], None]


def chain(engine: Engine, backward: bool) -> Case:
    """CHAIN multiplications of 4 elements; time is per op."""
    x = engine.tensor(numpy.ones(4), grad=True)
    y = engine.tensor(numpy.ones(4))
    one = engine.tensor(numpy.ones(4))

    def run() -> None:
        h = x
        for _ in range(CHAIN):
            h = h * y
        if backward:
            h.backward(one)

    return run


def mlp(engine: Engine) -> Case:
    """One training step of a 64-64-10 network on 64 digits, with plain SGD on tensors."""
    t = engine.t
    rng = numpy.random.default_rng(0)
    x = engine.tensor(rng.random((64, 64)))
    target = t.from_numpy(rng.integers(0, 10, 64))
    w1 = engine.tensor(rng.normal(size=(64, 64)) / 8, grad=True)
    b1 = engine.tensor(numpy.zeros(64), grad=True)
    w2 = engine.tensor(rng.normal(size=(64, 10)) / 8, grad=True)
    b2 = engine.tensor(numpy.zeros(10), grad=True)
    parameters = (w1, b1, w2, b2)
    cross_entropy = t.nn.functional.cross_entropy

    def run() -> None:
        hidden = t.relu(x @ w1 + b1)
        loss = cross_entropy(hidden @ w2 + b2, target)
        loss.backward()
        with t.no_grad():
            for p in parameters:
                p -= 0.01 * p.grad
                p.grad = None

    return run


def no_grad_chain(engine: Engine) -> Case:
    """CHAIN multiplications of 4 elements under no_grad."""
    x = engine.tensor(numpy.ones(4), grad=True)
    y = engine.tensor(numpy.ones(4))

    def run() -> None:
        h = x
        with engine.t.no_grad():
            for _ in range(CHAIN):
                h = h * y

    return run


def mlp_modules(engine: Engine) -> Case:
    """The step of `mlp` with nn.Linear, nn.ReLU and optim.SGD."""
    t = engine.t
    t.manual_seed(0)
    rng = numpy.random.default_rng(0)
    x = engine.tensor(rng.random((64, 64)))
    target = t.from_numpy(rng.integers(0, 10, 64))
    net = t.nn.Sequential(t.nn.Linear(64, 64), t.nn.ReLU(), t.nn.Linear(64, 10))
    optimizer = t.optim.SGD(net.parameters(), lr=0.01)
    loss_of = t.nn.CrossEntropyLoss()

    def run() -> None:
        optimizer.zero_grad()
        loss_of(net(x), target).backward()
        optimizer.step()

    return run


def rnn(engine: Engine) -> Case:
    """An RNN of 100 steps with 16 hidden units on a batch of 8, forward and backward."""
    t = engine.t
    rng = numpy.random.default_rng(0)
    w = engine.tensor(rng.normal(size=(16, 16)) / 4, grad=True)
    u = engine.tensor(rng.normal(size=(4, 16)) / 2, grad=True)
    b = engine.tensor(numpy.zeros(16), grad=True)
    steps = [engine.tensor(rng.normal(size=(8, 4))) for _ in range(100)]

    def run() -> None:
        h = steps[0] @ u
        for x in steps:
            h = t.tanh(h @ w + x @ u + b)
        h.sum().backward()
        w.grad = u.grad = b.grad = None

    return run


def conv_net(engine: Engine) -> Case:
    """32 images of 28 x 28 through two 3 x 3 convolutions and a pool, forward and backward."""
    t = engine.t
    functional = t.nn.functional
    rng = numpy.random.default_rng(0)
    x = engine.tensor(rng.normal(size=(32, 1, 28, 28)))
    w1 = engine.tensor(rng.normal(size=(8, 1, 3, 3)) / 3, grad=True)
    b1 = engine.tensor(numpy.zeros(8), grad=True)
    w2 = engine.tensor(rng.normal(size=(16, 8, 3, 3)) / 8, grad=True)
    b2 = engine.tensor(numpy.zeros(16), grad=True)

    def run() -> None:
        h = t.relu(functional.conv2d(x, w1, b1, padding=1))
        h = t.relu(functional.conv2d(h, w2, b2, padding=1))
        functional.max_pool2d(h, 2).sum().backward()
        w1.grad = b1.grad = w2.grad = b2.grad = None

    return run


def convolution(engine: Engine, kernel: int, stride: int, groups: int = 1) -> Case:
    """One convolution of 32 x 16 x 28 x 28, forward and backward."""
    functional = engine.t.nn.functional
    rng = numpy.random.default_rng(0)
    x = engine.tensor(rng.normal(size=(32, 16, 28, 28)), grad=True)
    w = engine.tensor(rng.normal(size=(16, 16 // groups, kernel, kernel)) / 8, grad=True)
    options = {"stride": stride, "padding": kernel // 2, "groups": groups}

    def run() -> None:
        functional.conv2d(x, w, **options).sum().backward()
        x.grad = w.grad = None

    return run


def attention(engine: Engine) -> Case:
    """scaled_dot_product_attention of 8 x 4 x 64 x 32, forward and backward."""
    rng = numpy.random.default_rng(0)
    q, k, v = (engine.tensor(rng.normal(size=(8, 4, 64, 32)), grad=True) for _ in range(3))
    g = engine.tensor(rng.normal(size=(8, 4, 64, 32)))
    attend = engine.t.nn.functional.scaled_dot_product_attention

    def run() -> None:
        attend(q, k, v).backward(g)
        q.grad = k.grad = v.grad = None

    return run


def softmax(engine: Engine, *shape: int) -> Case:
    """softmax over the last dimension, forward and backward."""
    rng = numpy.random.default_rng(0)
    x = engine.tensor(rng.normal(size=shape), grad=True)
    g = engine.tensor(rng.normal(size=shape))

    def run() -> None:
        engine.t.softmax(x, -1).backward(g)
        x.grad = None

    return run


def layer_norm(engine: Engine, *shape: int) -> Case:
    """layer_norm over the last dimension with weight and bias, forward and backward."""
    rng = numpy.random.default_rng(0)
    x = engine.tensor(rng.normal(size=shape), grad=True)
    g = engine.tensor(rng.normal(size=shape))
    weight = engine.tensor(rng.normal(size=shape[-1]), grad=True)
    bias = engine.tensor(rng.normal(size=shape[-1]), grad=True)

    def run() -> None:
        engine.t.nn.functional.layer_norm(x, shape[-1:], weight, bias).backward(g)
        x.grad = weight.grad = bias.grad = None

    return run


def cross_entropy(engine: Engine) -> Case:
    """cross_entropy of 64 x 10 scores, forward and backward."""
    rng = numpy.random.default_rng(0)
    x = engine.tensor(rng.normal(size=(64, 10)), grad=True)
    target = engine.t.from_numpy(rng.integers(0, 10, 64))

    def run() -> None:
        engine.t.nn.functional.cross_entropy(x, target).backward()
        x.grad = None

    return run


def double_backward(engine: Engine) -> Case:
    """The gradient of a gradient's square through 20 multiplications and tanhs of 16 elements."""
    t = engine.t
    x = engine.tensor(numpy.linspace(0.1, 1.0, 16), grad=True)

    def run() -> None:
        h = x
        for _ in range(10):
            h = t.tanh(h * x)
        (g,) = t.autograd.grad(h.sum(), x, create_graph=True)
        (g * g).sum().backward()
        x.grad = None

    return run


def large(engine: Engine) -> Case:
    """LARGE elementwise operations on a million elements, forward and backward."""
    x = engine.tensor(numpy.linspace(0.5, 1.5, 1_000_000), grad=True)

    def run() -> None:
        h = x
        for _ in range(LARGE // 2):
            h = (h * 1.01).sin()
        h.sum().backward()
        x.grad = None

    return run


def retained(engine: Engine) -> Case:
    """RETAINED operations on 100,000 elements whose graph stays alive until the end."""
    x = engine.tensor(numpy.linspace(0.5, 1.5, 100_000), grad=True)
    y = engine.tensor(numpy.ones(100_000), grad=True)

    def run() -> None:
        h = x
        kept = []
        for _ in range(RETAINED):
            h = h * y
            kept.append(h)
        h.sum().backward()
        x.grad = y.grad = None

    return run


def hips_chain(backward: bool) -> Case:
    """The chain on HIPS autograd, which has no tensors: a function and its gradient."""
    import autograd
    import autograd.numpy as anp

    x = numpy.ones(4, dtype=numpy.float32)
    y = numpy.ones(4, dtype=numpy.float32)

    def forward(h: Any) -> Any:
        for _ in range(CHAIN):
            h = h * y
        return anp.sum(h)

    gradient = autograd.grad(forward)
    return (lambda: gradient(x)) if backward else (lambda: forward(x))


TURN = 0.01
"""Seconds of one turn. A loop that trains does not hand the caches to another library each step."""


def best(
    cases: dict[str, Case],
    seconds: float,
    turn: float = TURN,
    clock: Callable[[], float] = time.perf_counter,
) -> dict[str, float]:
    """The best time of each case in seconds, measured in turns until `seconds` have passed.

    turn: how long a case has its turn; 0 for one run each, which measures with cold caches.
    clock: what is measured; `time.process_time` counts all threads and no waiting.
    """
    found = dict.fromkeys(cases, float("inf"))
    for run in cases.values():
        run()
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        for name, run in cases.items():
            over = time.perf_counter() + turn
            while True:
                started = clock()
                run()
                found[name] = min(found[name], clock() - started)
                if time.perf_counter() >= over:
                    break
    return found


def turns(
    cases: dict[str, Case], seconds: float, clock: Callable[[], float] = time.perf_counter
) -> dict[str, list[float]]:
    """What each case took in each turn of one run, until `seconds` have passed."""
    found: dict[str, list[float]] = {name: [] for name in cases}
    for run in cases.values():
        run()
        run()
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        for name, run in cases.items():
            started = clock()
            run()
            found[name].append(clock() - started)
    return found
