"""Custom Functions as people write them, and what they get wrong.

Each sees on ag_visual what it sees on torch.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

import pytest

from tests.programs import agree_in_words, idiom, idioms_of, told


@idiom
def legacy_function(t: Any) -> Any:
    class Exp(t.autograd.Function):
        @staticmethod
        def forward(ctx, i):
            r = i.exp()
            ctx.save_for_backward(r)
            return r

        @staticmethod
        def backward(ctx, g):
            (r,) = ctx.saved_variables
            return g * r

    x = t.tensor([1.0, 2.0], requires_grad=True)
    Exp.apply(x).sum().backward()
    return [x.grad, told(lambda: Exp()(x)), str(Exp.apply(x).grad_fn)[:14]]


@idiom
def custom_two_outputs(t: Any) -> Any:
    class F(t.autograd.Function):
        @staticmethod
        def forward(ctx, a, b, k=2):
            ctx.k = k
            ctx.save_for_backward(a, b)
            ctx.set_materialize_grads(False)
            return a * k, b * a

        @staticmethod
        def backward(ctx, g1, g2):
            a, b = ctx.saved_tensors
            ga = None
            if g1 is not None:
                ga = g1 * ctx.k
            if g2 is not None:
                ga = (ga if ga is not None else 0) + g2 * b
            gb = None if g2 is None else g2 * a
            return ga, gb, None

    a = t.tensor(2.0, requires_grad=True)
    b = t.tensor(3.0, requires_grad=True)
    p, q = F.apply(a, b, 5)
    p.backward()
    r = [a.grad.clone(), b.grad]
    p, q = F.apply(a, b)
    (p + q).backward()
    return [
        *r,
        a.grad,
        b.grad,
        p.grad_fn.name(),
        q.grad_fn is p.grad_fn,
        p.grad_fn.needs_input_grad,
        told(lambda: F.apply(a, b)[1].backward(t.ones(3))),
    ]


@idiom
def straight_through(t: Any) -> Any:
    class STE(t.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return (x > 0).to(x.dtype)

        @staticmethod
        def backward(ctx, g):
            return t.nn.functional.hardtanh(g)

    x = t.linspace(-1, 1, 5, dtype=t.float64).requires_grad_()
    y = STE.apply(x)
    (y * t.arange(5.0, dtype=t.float64)).sum().backward()
    return [y, x.grad]


@idiom
def once_diff(t: Any) -> Any:
    from_f = importlib.import_module(f"{t.__name__}.autograd.function")

    class F(t.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x**2

        @staticmethod
        @from_f.once_differentiable
        def backward(ctx, g):
            (x,) = ctx.saved_tensors
            return 2 * x * g

    x = t.ones(2, requires_grad=True)
    (g,) = t.autograd.grad(F.apply(x).sum(), x, create_graph=True)
    return [g, told(lambda: g.sum().backward())]


@idiom
def function_mistakes(t: Any) -> Any:
    Fn = t.autograd.Function

    def mk(fwd, bwd):
        return type("M", (Fn,), dict(forward=staticmethod(fwd), backward=staticmethod(bwd)))

    x = t.ones(2, requires_grad=True)
    A = mk(lambda ctx, x: x * 2, lambda ctx, g: (g, g))
    B = mk(lambda ctx, x: x * 2, lambda ctx, g: t.ones(3))
    C = mk(lambda ctx, x: x * 2, lambda ctx, g: 3)
    D = mk(lambda ctx, x: 3, lambda ctx, g: g)
    E = mk(lambda ctx, x, y: x * 2, lambda ctx, g: g)

    class NoB(Fn):
        @staticmethod
        def forward(ctx, x):
            return x * 2

    class NoF(Fn):
        pass

    def sv(ctx, x):
        ctx.save_for_backward(3)
        return x

    S = mk(sv, lambda ctx, g: g)

    def dirty(ctx, x):
        ctx.mark_dirty(t.ones(1))
        return x * 1

    Di = mk(dirty, lambda ctx, g: g)
    return [
        told(lambda: A.apply(x).sum().backward()),
        told(lambda: B.apply(x).sum().backward()),
        told(lambda: C.apply(x).sum().backward()),
        D.apply(x),
        told(lambda: E.apply(x, x).sum().backward()),
        told(lambda: NoB.apply(x).sum().backward()),
        told(lambda: NoF.apply(x)),
        told(lambda: S.apply(x)),
        told(lambda: Di.apply(x)),
        told(lambda: Fn.apply(x)),
    ]


@idiom
def function_ctx_attrs(t: Any) -> Any:
    class F(t.autograd.Function):
        @staticmethod
        def forward(x, s):
            return x * s

        @staticmethod
        def setup_context(ctx, inputs, output):
            x, s = inputs
            ctx.s = s
            ctx.save_for_backward(x)
            ctx.mark_non_differentiable()

        @staticmethod
        def backward(ctx, g):
            return g * ctx.s, None

    x = t.ones(3, requires_grad=True)
    F.apply(x, 4.0).sum().backward()
    return [x.grad]


@idiom
def reentrant(t: Any) -> Any:
    class R(t.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            with t.enable_grad():
                ctx.x = x.detach().requires_grad_()
                ctx.y = (ctx.x**2).sum()
            return ctx.y.detach()

        @staticmethod
        def backward(ctx, g):
            ctx.y.backward(g)
            return ctx.x.grad

    x = t.ones(3, requires_grad=True)
    (R.apply(x) * 2).backward()
    return [x.grad]


@idiom
def tutorial_legendre(t: Any) -> Any:
    class L(t.autograd.Function):
        @staticmethod
        def forward(ctx, input):
            ctx.save_for_backward(input)
            return 0.5 * (5 * input**3 - 3 * input)

        @staticmethod
        def backward(ctx, g):
            (input,) = ctx.saved_tensors
            return g * 1.5 * (5 * input**2 - 1)

    x = t.linspace(-1, 1, 10, dtype=t.float64)
    a = t.full((), 0.3, dtype=t.float64, requires_grad=True)
    P3 = L.apply
    y = a * P3(a + x)
    y.sum().backward()
    return [a.grad, y.grad_fn.next_functions[1][0].name()]


@pytest.mark.parametrize("program", idioms_of(globals()), ids=lambda each: each.__name__)
def test_an_idiom_sees_what_it_sees_on_torch(program: Callable[[Any], Any]) -> None:
    agree_in_words(program)
