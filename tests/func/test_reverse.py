"""func.grad, grad_and_value, vjp and jacrev: each statement of the design, as in torch."""

from __future__ import annotations

from typing import Any

import pytest

import ag_visual as ag
from tests.func.programs import Program, same, values

PROGRAMS: dict[str, Program] = {}


def program(function: Program) -> Program:
    PROGRAMS[function.__name__] = function
    return function


def x3(t: Any, *, grad: bool = False) -> Any:
    return t.tensor([1.0, 2.0, 3.0], requires_grad=grad)


def captured(t: Any, function: Any) -> list[Any]:
    """Whether the gradient of x -> function(x, w) has a graph, and its derivative by w."""
    w = t.tensor(3.0, requires_grad=True)
    gradient = t.func.grad(lambda x: function(x, w))(t.tensor(2.0))
    if not gradient.requires_grad:
        return [False]
    return [True, gradient, *t.autograd.grad(gradient, w, allow_unused=True)]


def many(name: str, programs: dict[str, Program]) -> None:
    PROGRAMS.update((f"{name}: {key}", each) for key, each in programs.items())


def logged(t: Any, ask: Any) -> Any:
    """What `ask` sees of a tensor inside of grad."""
    seen: list[Any] = []
    t.func.grad(lambda a: (seen.append(ask(a)), a.sum())[1])(x3(t))
    return seen


many(
    "outputs",
    {
        "integer": lambda t: t.func.grad(lambda x: x.long())(t.tensor(3.5)),
        "independent": lambda t: t.func.grad(lambda x: t.tensor(2.0) + 0)(t.tensor(3.5)),
        "of another dtype": lambda t: t.func.grad(lambda x: x.double() ** 2)(t.tensor(3.0)),
        "bool": lambda t: t.func.grad(lambda x: x > 1)(t.tensor(3.0)),
        "the input itself": lambda t: t.func.grad(lambda x: x)(t.tensor(3.0)),
        "a view": lambda t: t.func.grad(lambda x: x[1])(x3(t)),
        "complex input": lambda t: (
            t.func.grad(lambda x: (x * x.conj()).real.sum())(t.tensor([1 + 2j])).real
        ),
        "size 0": lambda t: t.func.grad(lambda x: (x * 2).sum())(t.zeros(0, 3)),
    },
)


def constant(t: Any) -> Any:
    with t.inference_mode():
        return t.tensor([2.0, 3.0, 4.0]) * 1


def product(t: Any) -> Any:
    class Product(t.autograd.Function):  # type: ignore[misc, name-defined]
        @staticmethod
        def forward(x: Any, y: Any) -> Any:
            return x * y

        @staticmethod
        def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
            ctx.save_for_backward(*inputs)

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            x, y = ctx.saved_tensors
            return g * y, g * x

    return Product.apply


def slope(t: Any, function: Any) -> Any:
    c = constant(t)
    return t.func.grad(lambda x: function(x, c).sum())


many(
    "an inference tensor",
    {
        "captured": lambda t: slope(t, t.mul)(x3(t)),
        "in place": lambda t: slope(t, lambda x, c: x.clone().mul_(c) * x)(x3(t)),
        "twice": lambda t: (lambda inner: slope(t, lambda x, c: inner(x) * c * x)(constant(t)))(
            slope(t, t.mul)
        ),
        "of slices": lambda t: t.vmap(slope(t, lambda x, c: (x * c).sin()))(constant(t)),
        "of a function": lambda t: slope(t, product(t))(x3(t)),
        "beside a graph": lambda t: slope(t, t.mul)(x3(t, grad=True)),
    },
)
many(
    "argnums",
    {
        "negative": lambda t: t.func.grad(t.mul, argnums=-1)(t.tensor(2.0), t.tensor(3.0)),
        "tuple": lambda t: t.func.grad(t.mul, argnums=(1, 0))(t.tensor(2.0), t.tensor(3.0)),
        "tuple of one": lambda t: t.func.grad(t.mul, argnums=(1,))(t.tensor(2.0), t.tensor(3.0)),
        "mixed signs": lambda t: t.func.grad(t.mul, argnums=(0, -1))(t.tensor(2.0), t.tensor(3.0)),
        "the same twice": lambda t: t.func.grad(t.mul, argnums=(0, -2))(
            t.tensor(2.0), t.tensor(3.0)
        ),
        "a tree": lambda t: t.func.grad(
            lambda p, s: (p["a"] * p["b"][0]).sum() * s, argnums=(0, 1)
        )({"a": x3(t), "b": [x3(t)]}, t.tensor(2.0)),
        "others are anything": lambda t: t.func.grad(lambda x, s, n, k: x * len(s) * n * k["v"])(
            t.tensor(2.0), "abc", 2, {"v": t.tensor(5)}
        ),
        "keywords": lambda t: t.func.grad(lambda x, *, y: x * y)(t.tensor(2.0), y=t.tensor(3.0)),
        "of vjp": lambda t: t.func.jacrev(t.mul, argnums=(0, 1))(x3(t), x3(t)),
    },
)
many(
    "the gradient depends on what the function took along",
    {
        name: lambda t, write=write: captured(t, write)
        for name, write in {
            "a product": lambda x, w: x * w,
            "a write": lambda x, w: x.clone().mul_(w),
            "a write into a slice": lambda x, w: x.clone()[...].mul_(w),
            "a copy": lambda x, w: x * x.new_empty(()).copy_(w),
            "a fill": lambda x, w: x * x.clone().fill_(w),
        }.items()
    },
)
many(
    "aux",
    {
        "grad": lambda t: t.func.grad(lambda x: (x**2, {"y": x * 3, "z": [x]}), has_aux=True)(
            t.tensor(2.0)
        ),
        "both": lambda t: t.func.grad_and_value(lambda x: (x**2, x * 3), has_aux=True)(
            t.tensor(2.0)
        ),
        "vjp": lambda t: t.func.vjp(lambda x: (x**2, x * 3), t.tensor(2.0), has_aux=True)[::2],
        "jacrev": lambda t: t.func.jacrev(lambda x: (x**2, x.sum()), has_aux=True)(x3(t)),
        "of an input that requires grad": lambda t: (
            t.func.grad(lambda x: (x**2, x * 3), has_aux=True)(t.tensor(2.0, requires_grad=True))[
                1
            ].shape
        ),
        "a list of two": lambda t: t.func.grad(lambda x: [x, x], has_aux=True)(t.tensor(2.0)),
        "None": lambda t: t.func.grad(lambda x: (x, None), has_aux=True)(t.tensor(2.0)),
    },
)


@program
def results_require_grad(t: Any) -> Any:
    w = t.ones(3, requires_grad=True)
    grad, both = t.func.grad, t.func.grad_and_value
    with t.no_grad():
        off = grad(lambda a: (w * a * a).sum())(x3(t))
    return (
        *(grad(lambda a: (w * a).sum())(x3(t)), both(lambda a: (w * a).sum())(x3(t)), off),
        *(grad(lambda a: (a * a).sum())(x3(t, grad=True)), grad(t.sum)(x3(t, grad=True))),
        *(both(lambda a: t.tensor(2.0) + 0)(x3(t, grad=True)), grad(lambda a: (a**2).sum())(x3(t))),
        t.func.jacrev(lambda a: a * a * w)(x3(t)),
        t.func.hessian(lambda a: (a * a * w).sum())(x3(t)),
    )


@program
def captured_tensors_get_their_gradients(t: Any) -> Any:
    w = t.ones(3, requires_grad=True)
    t.func.grad(lambda a: (w * a**2).sum())(x3(t)).sum().backward()
    return w.grad


@program
def in_inference_mode(t: Any) -> Any:
    with t.inference_mode():
        result = t.func.grad(lambda a: (a**3).sum())(x3(t))
    return result * 1


@program
def no_grad_inside(t: Any) -> Any:
    def constant(a: Any) -> Any:
        with t.no_grad():
            b = a * 2
        return (b * a).sum()

    def around_inner(a: Any) -> Any:
        with t.no_grad():
            return t.func.grad(lambda b: (a * b).sum())(x3(t)).sum()

    def in_inner(a: Any) -> Any:
        def inner(b: Any) -> Any:
            with t.no_grad():
                c = a * b
            return (c * b).sum()

        return t.func.grad(inner)(a).sum()

    def both(a: Any) -> Any:
        def inner(b: Any) -> Any:
            with t.no_grad():
                return (a * b).sum()

        return t.func.grad_and_value(inner)(x3(t))[1]

    each = [constant, around_inner, in_inner, both]
    return [t.func.grad(function)(x3(t)) for function in each]


@program
def the_input_is_a_leaf(t: Any) -> Any:
    return logged(t, lambda a: [a.is_leaf, a.requires_grad, a.grad_fn is None, a.grad is None])


@program
def values_are_seen(t: Any) -> Any:
    def function(x: Any) -> Any:
        y = x if x.sum() > 0 else -x
        return y.sum() * x[0].item() * float(x[1].detach()) * x.tolist()[2]

    return [t.func.grad(function)(x3(t)), t.func.grad(function)(-x3(t))]


@program
def detached_values(t: Any) -> Any:
    detached = t.func.grad(lambda x: (x * x.detach()).sum())(x3(t))
    data = t.func.grad(lambda x: (x * x.data).sum())(x3(t))
    return detached, data


@program
def writes_to_data_are_the_callers(t: Any) -> Any:
    x, y = x3(t), x3(t)
    result = t.func.grad(lambda a: (a.data.mul_(2), (a**2).sum())[1])(x)
    other = t.func.grad(lambda a: (a.detach().mul_(2), (a**2).sum())[1])(y)
    return result, x, other, y


@program
def new_tensors_are_written(t: Any) -> Any:
    def function(x: Any) -> Any:
        a = t.zeros(4)
        a[0], a[1:] = x[1] * 2, x**2
        a[:2].mul_(x[:2])
        a.requires_grad = False if not a.requires_grad else a.requires_grad
        return (a * a.view(2, 2).t().reshape(4)).sum()

    return t.func.grad(function)(x3(t)), t.func.vjp(function, x3(t))[0]


@program
def parameters_are_made_inside(t: Any) -> Any:
    def function(x: Any) -> Any:
        layer = t.nn.Linear(3, 2)
        with t.no_grad():
            layer.weight.fill_(0.5)
        p = t.nn.Parameter(t.ones(2))
        return (layer(x) * p).sum() - layer.bias.sum()

    return t.func.grad(function)(x3(t))


@program
def geometry_of_new_tensors(t: Any) -> Any:
    return logged(t, lambda a: list(t.zeros(3).resize_(2).shape) + list(t.zeros(3).set_(a).shape))


@program
def hooks_run_at_the_level(t: Any) -> Any:
    seen: list[Any] = []

    def function(a: Any) -> Any:
        b = a.sin()
        b.register_hook(lambda g: (seen.append(list(g.shape)), g * 10)[1])
        b.grad_fn.register_hook(lambda gi, go: (gi[0] * 5,))
        a.register_hook(lambda g: g + 1)
        return b.sum()

    found = t.func.grad(function)(x3(t))
    rows = t.func.vmap(t.func.grad(function))(t.ones(2, 3))
    return found, rows, seen


@program
def a_multi_grad_hook_of_a_leaf(t: Any) -> Any:
    hook = t.autograd.graph.register_multi_grad_hook
    return t.func.grad(lambda a: (hook([a], lambda g: None), (a**2).sum())[1])(x3(t))


@program
def autograd_grad_inside(t: Any) -> Any:
    return t.func.grad(lambda x: t.autograd.grad(x**3, x, create_graph=True)[0])(t.tensor(2.0))


@program
def autograd_grad_inside_without_a_graph(t: Any) -> Any:
    return t.func.grad(lambda x: t.autograd.grad(x**3, x)[0])(t.tensor(2.0))


@program
def captured_tensors_are_constants_inside(t: Any) -> Any:
    w = t.ones(3, requires_grad=True)
    seen = logged(t, lambda a: [w.requires_grad, (w * 2).requires_grad, (w * a).requires_grad])
    return seen, t.func.grad(lambda x: t.autograd.grad((w * x).sum(), w)[0].sum())(x3(t))


@program
def what_escaped_is_a_value(t: Any) -> Any:
    kept: list[Any] = []
    t.func.grad(lambda a: (kept.append(a * 2), a.sum())[1])(x3(t))
    (x,) = kept
    product = t.func.grad(lambda y: (x * y).sum())(x3(t))
    return x.requires_grad, x.is_leaf, x + 1, product, x.mul_(3) * 1, repr(x).split("(")[0]


@program
def vjp_is_called_often(t: Any) -> Any:
    out, pull = t.func.vjp(lambda a: a**2, x3(t))
    return out, pull(t.ones(3)), pull(t.ones(3, requires_grad=True)), pull(t.ones(3).double())


@program
def vjp_of_trees(t: Any) -> Any:
    out, pull = t.func.vjp(lambda a, b: {"p": (a * b["x"],), "q": [a]}, x3(t), {"x": x3(t)})
    return out, pull({"p": (t.ones(3),), "q": [t.ones(3)]})


@program
def vjp_of_unused_and_of_no_primal(t: Any) -> Any:
    unused = t.func.vjp(lambda a, b: a, x3(t), x3(t))
    return unused[1](t.ones(3)), t.func.vjp(lambda: t.ones(2))[1](t.ones(2))


@program
def vjp_lets_go_of_the_graph(t: Any) -> Any:
    _, pull = t.func.vjp(t.sin, x3(t))
    first = pull(t.ones(3), retain_graph=False)
    return first, pull(t.ones(3))


@program
def pulled_back_twice(t: Any) -> Any:
    def twice(a: Any) -> Any:
        return t.func.vjp(t.sin, a)[1](t.ones(3))[0].sum()

    return t.func.grad(twice)(x3(t)), t.func.vmap(t.func.vjp(t.sin, x3(t))[1])(t.eye(3))


many(
    "jacrev",
    {
        "trees": lambda t: t.func.jacrev(lambda x: {"a": x["u"] ** 2, "b": (x["v"].sum(),)})(
            {"u": x3(t), "v": t.ones(2)}
        ),
        "dtype": lambda t: t.func.jacrev(lambda x: x.double())(t.ones(2)),
        "size 0": lambda t: (t.func.jacrev(t.sin)(t.zeros(0)), t.func.jacrev(t.sin)(t.zeros(0, 2))),
        "0-d": lambda t: t.func.jacrev(t.sin)(t.tensor(0.5)),
        "independent": lambda t: t.func.jacrev(lambda x: t.ones(2))(x3(t)),
        "captured": lambda t: (lambda w: t.func.jacrev(lambda x: w * 2)(x3(t)))(x3(t, grad=True)),
        "chunks": lambda t: t.func.jacrev(lambda x: x**2 * x.sum(), chunk_size=2)(x3(t)),
        "chunks of 1": lambda t: t.func.jacrev(lambda x: x**2, chunk_size=1)(x3(t)),
        "more chunks than rows": lambda t: t.func.jacrev(lambda x: x**2, chunk_size=9)(x3(t)),
        "two outputs": lambda t: t.func.jacrev(lambda x: (x**2, x.sum()), chunk_size=2)(x3(t)),
        "nested": lambda t: t.func.jacrev(t.func.jacrev(lambda x: x**3))(x3(t)),
        "hessian of a vector": lambda t: t.func.hessian(lambda x: x**3)(x3(t)),
        "hessian of two": lambda t: t.func.hessian(lambda x, y: (x * y**2).sum(), argnums=(0, 1))(
            x3(t), x3(t)
        ),
    },
)


@pytest.mark.parametrize("name", PROGRAMS)
def test_as_in_torch(name: str) -> None:
    same(PROGRAMS[name])


def test_saved_hooks_outside_of_a_pull() -> None:
    def hooked(t: Any) -> Any:
        _, pull = t.func.vjp(t.sin, x3(t))
        with t.autograd.graph.saved_tensors_hooks(lambda x: x, lambda x: x):
            return pull(x3(t)), t.func.vmap(t.sin)(x3(t)), t.func.jvp(t.sin, (x3(t),), (x3(t),))

    same(hooked)


def test_calls_are_counted() -> None:
    calls = []
    ag.func.jacrev(lambda x: (calls.append(1), x**2)[1], chunk_size=1)(values(ag, 5))
    assert len(calls) == 1
