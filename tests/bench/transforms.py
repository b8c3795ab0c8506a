"""The programs of function transforms and forward mode that are timed."""

from __future__ import annotations

import importlib
import itertools
from collections.abc import Callable
from typing import Any

import numpy

from .cases import Case, Engine


def _weights(engine: Engine, *sizes: int) -> list[tuple[Any, Any]]:
    rng = numpy.random.default_rng(0)
    return [
        (engine.tensor(rng.normal(size=(n, m)) / n**0.5), engine.tensor(numpy.zeros(m)))
        for n, m in itertools.pairwise(sizes)
    ]


def _net(engine: Engine, *sizes: int) -> tuple[Callable[[Any], Any], Any]:
    """A tanh net and an input of it."""
    tanh = engine.t.tanh
    layers = _weights(engine, *sizes)

    def net(x: Any) -> Any:
        for w, b in layers:
            x = tanh(x @ w + b)
        return x

    return net, engine.tensor(numpy.random.default_rng(1).normal(size=sizes[0]))


def _func(engine: Engine) -> Any:
    return importlib.import_module(f"{engine.t.__name__}.func")


def _functional(engine: Engine) -> Any:
    return importlib.import_module(f"{engine.t.__name__}.autograd.functional")


def jacobian(engine: Engine) -> Case:
    """`functional.jacobian(vectorize=True)` of a 64-64-64 tanh net."""
    net, x = _net(engine, 64, 64, 64)
    whole = _functional(engine).jacobian
    return lambda: whole(net, x, vectorize=True)


def jacrev(engine: Engine) -> Case:
    """`func.jacrev` of a 64-64-64 tanh net."""
    net, x = _net(engine, 64, 64, 64)
    whole = _func(engine).jacrev(net)
    return lambda: whole(x)


def jacfwd(engine: Engine) -> Case:
    """`func.jacfwd` of a 64-64-64 tanh net."""
    net, x = _net(engine, 64, 64, 64)
    whole = _func(engine).jacfwd(net)
    return lambda: whole(x)


def hessian(engine: Engine) -> Case:
    """`func.hessian` of a 16-32-1 tanh net."""
    net, x = _net(engine, 16, 32, 1)
    whole = _func(engine).hessian(lambda x: net(x).sum())
    return lambda: whole(x)


def hvp(engine: Engine) -> Case:
    """`functional.hvp` of a 64-64-64 tanh net."""
    net, x = _net(engine, 64, 64, 64)
    product = _functional(engine).hvp
    v = engine.tensor(numpy.ones(64))
    return lambda: product(lambda x: net(x).sum(), x, v)


def dual(engine: Engine) -> Case:
    """Forward mode through four layers of 64, on a batch of 32."""
    net, _ = _net(engine, 64, 64, 64, 64, 64)
    x = engine.tensor(numpy.random.default_rng(1).normal(size=(32, 64)))
    v = engine.tensor(numpy.ones((32, 64)))
    forward = importlib.import_module(f"{engine.t.__name__}.autograd.forward_ad")

    def run() -> None:
        with forward.dual_level():
            forward.unpack_dual(net(forward.make_dual(x, v)))

    return run


def per_sample(engine: Engine) -> Case:
    """The gradients of a 16-32-10 net for each of 1,000 samples: vmap(grad(loss))."""
    t = engine.t
    func = _func(engine)
    rng = numpy.random.default_rng(0)
    weights = tuple(_weights(engine, 16, 32, 10))
    x = engine.tensor(rng.normal(size=(1000, 16)))
    target = t.from_numpy(rng.integers(0, 10, 1000))
    cross_entropy = t.nn.functional.cross_entropy

    def loss(weights: Any, x: Any, target: Any) -> Any:
        (w, b), (v, c) = weights
        return cross_entropy(t.tanh(x @ w + b) @ v + c, target)

    each = func.vmap(func.grad(loss), in_dims=(None, 0, 0))
    return lambda: each(weights, x, target)


def vmap(engine: Engine) -> Case:
    """A 64-64-64 tanh net mapped over 100 inputs."""
    net, _ = _net(engine, 64, 64, 64)
    x = engine.tensor(numpy.random.default_rng(1).normal(size=(100, 64)))
    each = _func(engine).vmap(net)
    return lambda: each(x)


def batched_grad(engine: Engine) -> Case:
    """64 rows of a Jacobian by `is_grads_batched`."""
    net, x = _net(engine, 64, 64, 64)
    x = x.requires_grad_()
    rows = engine.tensor(numpy.eye(64))
    grad = engine.t.autograd.grad
    return lambda: grad(net(x), x, rows, is_grads_batched=True)


def gradcheck(engine: Engine) -> Case:
    """`gradcheck` of tanh(a @ b), 4 x 5 and 5 x 3."""
    t = engine.t
    rng = numpy.random.default_rng(0)
    a = t.from_numpy(rng.normal(size=(4, 5))).requires_grad_()
    b = t.from_numpy(rng.normal(size=(5, 3))).requires_grad_()
    check = t.autograd.gradcheck
    return lambda: check(lambda a, b: t.tanh(a @ b), (a, b))


CASES: dict[str, Callable[[Engine], Case]] = {
    "jacobian, vectorised, 64-64-64": jacobian,
    "jacrev, 64-64-64": jacrev,
    "jacfwd, 64-64-64": jacfwd,
    "hessian, 16-32-1": hessian,
    "hvp, 64-64-64": hvp,
    "dual of four layers": dual,
    "per-sample gradients, 1,000": per_sample,
    "vmap of a net, 100": vmap,
    "batched grad, 64 rows": batched_grad,
    "gradcheck of tanh(a @ b)": gradcheck,
}
