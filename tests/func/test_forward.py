"""func.jvp, jacfwd, linearize: each statement of the design, as in torch; modules as functions."""

from __future__ import annotations

import contextlib
import functools
from collections import namedtuple
from typing import Any

import pytest

import ag_visual as ag
from tests.func.programs import Program, same
from tests.programs import expect

PROGRAMS: dict[str, Program] = {}
Pair = namedtuple("Pair", "left right")


def program(function: Program) -> Program:
    PROGRAMS[function.__name__] = function
    return function


def many(name: str, programs: dict[str, Program]) -> None:
    PROGRAMS.update((f"{name}: {key}", each) for key, each in programs.items())


def x3(t: Any, *, grad: bool = False) -> Any:
    return t.tensor([1.0, 2.0, 3.0], requires_grad=grad)


def push(t: Any, function: Any, **options: Any) -> Any:
    return t.func.jvp(function, (x3(t),), (t.ones(3),), **options)


many(
    "jvp",
    {
        "sin": lambda t: push(t, t.sin),
        "a tangent of another float dtype": lambda t: t.func.jvp(
            t.sin, (x3(t),), (x3(t).double(),)
        ),
        "integer output": lambda t: push(t, lambda x: (x.long(), x * 2)),
        "independent output": lambda t: push(t, lambda x: t.ones(2)),
        "the input": lambda t: push(t, lambda x: x),
        "aux": lambda t: push(t, lambda x: (x**2, {"a": x * 3}), has_aux=True),
        "strict": lambda t: push(t, lambda x: x**2, strict=True),
        "trees": lambda t: t.func.jvp(
            lambda a, b: {"p": a * b["x"], "q": [a.sum()]},
            (x3(t), {"x": x3(t)}),
            (t.ones(3), {"x": x3(t)}),
        ),
        "no_grad inside": lambda t: push(t, lambda x: t.no_grad()(t.sin)(x)),
        "no_grad outside": lambda t: t.no_grad()(push)(t, t.sin),
        "forward mode off outside": lambda t: off(t),
        "views and writes": lambda t: push(t, writes(t)),
        "captured requires grad": lambda t: push(t, lambda x: x * x3(t, grad=True)),
        "tangent requires grad": lambda t: t.func.jvp(t.sin, (x3(t),), (x3(t, grad=True),)),
        "primal requires grad": lambda t: t.func.jvp(t.sin, (x3(t, grad=True),), (x3(t),)),
        "size 0": lambda t: t.func.jvp(t.sin, (t.zeros(0),), (t.zeros(0),)),
        "complex": lambda t: [
            t.view_as_real(x)
            for x in t.func.jvp(lambda z: z * z, (t.tensor([1 + 2j]),), (t.tensor([1j]),))
        ],
        "control flow": lambda t: push(t, lambda x: x if x.sum() > 0 else -x),
        "of jvp": lambda t: push(t, lambda x: push(t, lambda y: (x * y).sin())[1]),
        "of grad": lambda t: push(t, t.func.grad(lambda x: (x**3).sum())),
        "in a hook": lambda t: push(t, lambda x: x.detach() * x),
        "a zero of slices": lambda t: 1 / push(t, t.vmap(lambda a: (a * -1).mul_(0)))[1],
    },
)


def matrix(t: Any) -> Any:
    """A transposed view of a part of its memory, which a tangent does not share."""
    return t.arange(8.0)[1:7].view(2, 3).t()


def tangent(t: Any, function: Any, *, dual: bool = False) -> Any:
    """That of a function of `matrix`, along one whose elements lie row by row."""
    x, moved = matrix(t), t.arange(1.0, 7).view(3, 2)
    if not dual:
        return t.func.jvp(function, (x,), (moved,))[1]
    fw = t.autograd.forward_ad
    with fw.dual_level():
        return fw.unpack_dual(function(fw.make_dual(x, moved))).tangent.clone()


def through(view: Any) -> Any:
    """A function that writes through a view of what it returns."""

    def function(x: Any) -> Any:
        y = x * 1
        view(y).mul_(3)
        return y

    return function


def diagonal(t: Any) -> Any:
    return lambda x: (x * 1).fill_diagonal_(2.0, True)


def relaid(x: Any) -> Any:
    """Something whose derivatives read what was written through a view of strides."""
    y = x * x
    y.as_strided(y.shape, y.stride()).mul_(3)
    return y.sin()


def numbers(t: Any, x: Any) -> Any:
    return t.arange(1.0, x.numel() + 1).view(x.shape)


def nested(t: Any, nest: str) -> Any:
    """Derivatives of `relaid` in a nest: s of a sum, j along a tangent, v of slices, r of all."""
    each: dict[str, Any] = {
        "s": lambda f: t.func.grad(lambda x: (lambda y: (y * numbers(t, y)).sum())(f(x))),
        "j": lambda f: lambda x: t.func.jvp(f, (x,), (numbers(t, x),))[1],
        "v": lambda f: lambda x: t.vmap(f, -1)(t.stack([x, x * 2], -1)),
        "r": lambda f: lambda x: t.func.jacrev(f)(x).sum(0),
    }
    function: Any = relaid
    for name in reversed(nest):
        function = each[name](function)
    return function(matrix(t) / 4)


many(
    "strides in a nest",
    {
        nest: functools.partial(nested, nest=nest)
        for nest in ("ss", "js", "sj", "vjj", "jsv", "svs", "vr")
    },
)
many(
    "as_strided",
    {
        "before a view": lambda t: tangent(t, lambda a: a[1:].as_strided((2,), (1,), 1)),
        "around a view": lambda t: tangent(t, lambda a: a[1].as_strided((2, 2), (1, 2), 2)),
        "of a dual": lambda t: tangent(t, lambda a: a[1].as_strided((2,), (1,), 1), dual=True),
        "of a result": lambda t: tangent(t, lambda a: (a * 1)[1:].as_strided((2,), (2,), 0)),
        "a place twice": lambda t: tangent(t, lambda a: a.as_strided((3,), (0,)), dual=True),
        "written": lambda t: tangent(t, through(lambda y: y.as_strided((2,), (2,)))),
        "of a slice, written": lambda t: t.vmap(
            lambda x: push(t, lambda a: through(lambda y: y.as_strided((2,), (2,)))(a * x))[1]
        )(t.ones(2, 3)),
        "a diagonal of slices": lambda t: t.vmap(lambda x: t.func.jvp(diagonal(t), (x,), (x,))[1])(
            t.arange(1.0, 17).view(2, 4, 2)
        ),
        "a diagonal in slices": lambda t: (
            lambda x: t.func.jvp(t.vmap(diagonal(t)), (x,), (x,))[1]
        )(t.arange(1.0, 17).view(2, 4, 2)),
        "beyond a slice": lambda t: t.func.jacfwd(lambda a: a[1].as_strided((2,), (1,), 1))(
            matrix(t)
        ),
    },
)


def stale(t: Any, *shape: int) -> Any:
    """A view that autograd refuses: its base was written after it was made in no_grad."""
    base = t.zeros(shape, requires_grad=True) * 1
    with t.no_grad():
        view = base[:]
    base.mul_(2)
    return view


many(
    "stale views",
    {
        "that are returned": lambda t: push_of(t, lambda a: a, stale(t, 2)),
        "that are not read": lambda t: push_of(t, lambda a: t.ones(2), stale(t, 2)),
        "in a vmap": lambda t: t.vmap(lambda x: push_of(t, lambda a: a, x))(stale(t, 2, 2)),
        "of vmap": lambda t: push_of(t, t.vmap(lambda a: a), stale(t, 2)),
        "of a grad": lambda t: push_of(t, t.func.grad(lambda a: t.ones(())), stale(t, 2)),
        "in no_grad": lambda t: t.no_grad()(push_of)(t, lambda a: a, stale(t, 2)),
        "as tangents": lambda t: t.func.jvp(lambda a: a, (t.ones(2),), (stale(t, 2),))[0],
        "without elements": lambda t: t.vmap(t.vmap(t.sin))(stale(t, 2, 0)),
    },
)


def push_of(t: Any, function: Any, x: Any) -> Any:
    return t.func.jvp(function, (x,), (t.ones(2),))[1]


def off(t: Any) -> Any:
    with t.autograd.forward_ad._set_fwd_grad_enabled(False):
        return push(t, t.sin)


def writes(t: Any) -> Any:
    def function(x: Any) -> Any:
        y = x.clone()
        v = y[1:]
        v.mul_(x[:2])
        y.t_() if y.dim() == 2 else y.add_(1)
        z = t.zeros(2, 2)
        z[0] = v
        z.fill_diagonal_(2.0)
        return y * 2, v, z

    return function


@program
def in_a_dual_level(t: Any) -> Any:
    fw = t.autograd.forward_ad
    dual = t.func.grad(lambda x: fw.enter_dual_level() * 0.0 + x) if False else None
    with fw.dual_level():
        x = fw.make_dual(x3(t), t.ones(3))
        return dual, fw.unpack_dual(t.func.grad(lambda y: (y**3).sum())(x)).tangent


many(
    "jacfwd",
    {
        "square": lambda t: t.func.jacfwd(lambda x: x**2 * x.sum())(x3(t)),
        "trees": lambda t: t.func.jacfwd(lambda x: {"a": x["u"] ** 2, "b": (x["v"].sum(),)})(
            {"u": x3(t), "v": t.ones(2)}
        ),
        "dtype": lambda t: t.func.jacfwd(lambda x: x.double())(t.ones(2)),
        "integer output": lambda t: t.func.jacfwd(lambda x: x.long())(t.ones(2)),
        "aux": lambda t: t.func.jacfwd(lambda x: (x**2, x.sum()), has_aux=True)(x3(t)),
        "size 0": lambda t: t.func.jacfwd(t.sin)(t.zeros(0)),
        "0-d": lambda t: t.func.jacfwd(t.sin)(t.tensor(0.5)),
        "independent": lambda t: t.func.jacfwd(lambda x: t.ones(2))(x3(t)),
        "argnums": lambda t: t.func.jacfwd(t.mul, argnums=(1, 0))(x3(t), x3(t)),
        "captured": lambda t: t.func.jacfwd(lambda x: x * x3(t, grad=True))(x3(t)),
        "of jacrev": lambda t: t.func.jacfwd(t.func.jacrev(lambda x: x**3))(x3(t)),
        # Its lanes stand in the tangents alone: what a derivative saved has one axis less.
        "of activations": lambda t: [
            t.func.jacfwd(getattr(t, name))(x3(t))
            for name in ("tanh", "sigmoid", "relu", "exp", "sqrt", "erf")
        ],
        "jacrev of it": lambda t: t.func.jacrev(t.func.jacfwd(lambda x: x**3))(x3(t)),
        "twice": lambda t: t.func.jacfwd(t.func.jacfwd(lambda x: x**3))(x3(t)),
        "random": lambda t: t.func.jacfwd(lambda x: x * t.rand(3), randomness="same")(
            x3(t)
        ).count_nonzero(),
        "under vmap": lambda t: t.func.vmap(t.func.jacfwd(t.sin))(t.ones(2, 3)),
    },
)
many(
    "linearize",
    {
        "sin": lambda t: (lambda out, f: (out, f(t.ones(3)), f(x3(t))))(
            *t.func.linearize(t.sin, x3(t))
        ),
        "trees": lambda t: (lambda out, f: (out, f({"a": x3(t)}, t.tensor(2.0))))(
            *t.func.linearize(lambda d, y: (d["a"] * y, d["a"].sum()), {"a": x3(t)}, t.tensor(3.0))
        ),
        "mapped": lambda t: t.func.vmap(t.func.linearize(t.sin, x3(t))[1])(t.eye(3)),
    },
)


def net(t: Any, *, batch_norm: bool = False) -> Any:
    modules = [t.nn.Linear(3, 2), t.nn.BatchNorm1d(2)] if batch_norm else [t.nn.Linear(3, 2)]
    found = t.nn.Sequential(*modules)
    with t.no_grad():
        for i, p in enumerate(found.parameters()):
            p.copy_(t.arange(p.numel(), dtype=p.dtype).reshape(p.shape) / 4 + i)
    return found


def tied(t: Any) -> Any:
    class Tied(t.nn.Module):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.a = t.nn.Parameter(t.ones(1))
            self.b = self.a

        def forward(self, x: Any) -> Any:
            return x + self.a * 10 + self.b * 100

    return Tied()


@program
def unknown_names_are_ignored(t: Any) -> Any:
    model = net(t)
    out = t.func.functional_call(model, {"nothing": t.ones(1), "0.bias": t.ones(2)}, t.ones(3))
    return out, sorted(dict(model.named_parameters()))


@program
def several_dicts(t: Any) -> Any:
    call = t.func.functional_call
    both = [{"0.bias": t.zeros(2)}, {"0.weight": t.ones(2, 3)}]
    return call(net(t), both, (t.ones(3),)), call(net(t), tuple(both), (), {"input": t.ones(3)})


@program
def buffers_given_are_written(t: Any) -> Any:
    model = net(t, batch_norm=True)
    given = {name: b.clone() for name, b in model.named_buffers()}
    out = t.func.functional_call(model, given, t.arange(6.0).reshape(2, 3))
    return out, given, dict(model.named_buffers())


@program
def restored_after_an_error(t: Any) -> Any:
    model = net(t)
    with contextlib.suppress(RuntimeError):
        t.func.functional_call(model, {"0.weight": t.ones(5, 5)}, t.ones(3))
    return model(t.ones(3))


@program
def ties(t: Any) -> Any:
    call, model, one = t.func.functional_call, tied(t), t.ones(1)
    return (
        *(call(model, {"a": 2 * one}, one), call(model, {"b": 2 * one}, one)),
        call(model, {"a": 2 * one}, one, tie_weights=False),
        (lambda same: call(model, {"a": same, "b": same}, one))(2 * one),
        *(call(model, {"a": 3 * one}, one, strict=True), model(one)),
    )


@program
def gradients_of_a_module(t: Any) -> Any:
    model = net(t)
    params = {name: p.detach() for name, p in model.named_parameters()}

    def loss(params: Any, x: Any) -> Any:
        return (t.func.functional_call(model, params, (x,)) ** 2).sum()

    each = t.func.vmap(t.func.grad(loss), in_dims=(None, 0))(params, t.eye(3))
    return t.func.grad(loss)(params, t.ones(3)), each, [p.grad for p in model.parameters()]


@program
def states_are_stacked(t: Any) -> Any:
    models = [net(t, batch_norm=True).eval() for _ in range(2)]
    params, buffers = t.func.stack_module_state(models)

    def call(p: Any, b: Any, x: Any) -> Any:
        return t.func.functional_call(models[0], (p, b), (x,))

    out = t.func.vmap(call, in_dims=(0, 0, None))(params, buffers, t.ones(4, 3))
    out.sum().backward()
    kinds = [(type(p) is t.Tensor, p.is_leaf, list(p.grad.shape)) for p in params.values()]
    return out, params, buffers, kinds


@program
def states_without_gradients(t: Any) -> Any:
    models = [net(t).requires_grad_(False) for _ in range(2)]
    return t.func.stack_module_state(models)


@pytest.mark.parametrize("name", PROGRAMS)
def test_as_in_torch(name: str) -> None:
    same(PROGRAMS[name])


def test_named_tuples_stay() -> None:
    found = ag.func.grad(lambda p: (p.left * p.right).sum())(
        Pair(ag.ones(2), ag.tensor([2.0, 3.0]))
    )
    assert type(found) is Pair
    assert found.left.tolist() == [2.0, 3.0]


def test_negative_argnums_count_from_the_end() -> None:
    """(torch 2.13 gives zeros.)"""
    x = ag.tensor([1.0, 2.0])
    expect(lambda t: ag.func.jacfwd(ag.mul, argnums=-1)(x, x + 1), [[1.0, 0.0], [0.0, 2.0]])


class Doubled(ag.autograd.Function):
    """Its jvp is an op that no tape has seen: that of another Function."""

    @staticmethod
    def forward(x: Any) -> Any:
        return x * 2

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        pass

    @staticmethod
    def jvp(ctx: Any, t: Any) -> Any:
        return Doubled.apply(t)


def written(x: Any) -> Any:
    y = ag.zeros(3)
    y[1:] = x[:2] * x[1:]
    return y.mul_(x) + x.detach()


@pytest.mark.parametrize(
    ("function", "runs"),
    [
        (lambda x: (ag.tanh(x @ ag.ones((3, 2))).sum() * x, {"one": ag.ones(2), "x": x}), 1),
        (lambda x: ag.stack([x, ag.arange(3.0) * x]).cumsum(0).split(1), 1),
        (written, 3),
        (lambda x: Doubled.apply(x) * x, 3),
    ],
)
def test_linearize_runs_the_function_once_unless_it_writes(function: Any, runs: int) -> None:
    called = []

    def counted(x: Any) -> Any:
        called.append(x)
        return function(x)

    x = ag.tensor([1.0, 2.0, 3.0])
    out, push = ag.func.linearize(counted, x)
    flat = ag.utils._pytree.tree_leaves
    for t in (ag.tensor([1.0, 0.5, 2.0]), ag.zeros(3)):
        expected = ag.func.jvp(function, (x,), (t,))
        pairs = zip(flat(expected), flat((out, push(t))), strict=True)
        assert all(ag.equal(one, other) for one, other in pairs)
    assert len(called) == runs


def test_what_linearize_gives_can_be_transformed_and_differentiated() -> None:
    x = ag.tensor([1.0, 2.0, 3.0], requires_grad=True)
    _, push = ag.func.linearize(lambda x: x**3, x)
    slope = (3 * x * x).detach()
    assert ag.equal(ag.vmap(push)(ag.eye(3)), ag.diag(slope))
    assert ag.equal(ag.func.jvp(push, (ag.zeros(3),), (ag.ones(3),))[1], slope)
    push(ag.ones(3)).sum().backward()
    assert ag.equal(x.grad, (6 * x).detach())


def test_linearize_takes_control_flow_and_vmap() -> None:
    def program(t: Any) -> Any:
        _, pushed = t.func.linearize(lambda x: x * 3 if x > 0 else -x, t.tensor(1.0))
        rows = t.func.vmap(lambda a: t.func.linearize(t.sin, a)[1](t.ones(3)))(t.zeros(2, 3))
        return pushed(t.tensor(2.0)), rows

    expect(program, (6.0, [[1.0] * 3] * 2))


def test_tangents_are_unpacked_inside() -> None:
    def seen_of(t: Any) -> Any:
        unpack, x = t.autograd.forward_ad.unpack_dual, x3(t)
        seen = []

        def f(x: Any) -> Any:
            primal, tangent = unpack(x * x)
            seen.append([repr(primal), repr(tangent), unpack(t.ones(2)).tangent])
            return primal, tangent, x + unpack(x).primal

        jvp = t.func.jvp
        return [
            jvp(f, (x,), (3 * x,)),
            t.vmap(lambda a: jvp(f, (a,), (a,))[0])(x),
            t.func.grad(lambda a: jvp(f, (a,), (a,))[0][1].sum())(x),
            t.func.jacfwd(lambda a: unpack(a * a).tangent)(x),
            unpack(x).tangent,
            seen,
        ]

    assert seen_of(ag)[0][0][1].tolist() == [6.0, 24.0, 54.0]
    same(seen_of)
