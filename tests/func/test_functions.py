"""Custom Functions at levels: which methods run, on what and how often; rules for vmap."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import ag_visual as ag
from tests.func.programs import Program, same, saw


class Classes:
    """The Functions of the programs, on one engine; `log` has what their methods saw."""

    def __init__(self, t: Any) -> None:
        self.t = t
        self.log: list[Any] = []
        log = self.log.append
        base = t.autograd.Function

        class Cube(base):  # type: ignore[misc, valid-type]
            generate_vmap_rule = True

            @staticmethod
            def forward(x: Any) -> Any:
                log(["forward", list(x.shape), t.is_grad_enabled()])
                return x**3, 3 * x**2

            @staticmethod
            def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
                log(["setup", list(inputs[0].shape), ctx.needs_input_grad])
                ctx.save_for_backward(inputs[0], output[1])
                ctx.save_for_forward(inputs[0], output[1])

            @staticmethod
            def backward(ctx: Any, g: Any, g_slope: Any) -> Any:
                x, slope = ctx.saved_tensors
                log(["backward", list(g.shape), list(x.shape)])
                return g * slope + g_slope * 6 * x

            @staticmethod
            def jvp(ctx: Any, t_x: Any) -> Any:
                x, slope = ctx.saved_tensors
                return t_x * slope, 6 * x * t_x

        class Mul(base):  # type: ignore[misc, valid-type]
            generate_vmap_rule = True

            @staticmethod
            def forward(x: Any, y: Any, k: float) -> Any:
                return x * y * k

            @staticmethod
            def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
                x, y, ctx.k = inputs
                ctx.save_for_backward(x, y)
                ctx.save_for_forward(x, y)
                ctx.x = x
                ctx.both = {"y": [y]}
                log(ctx.needs_input_grad)

            @staticmethod
            def backward(ctx: Any, g: Any) -> Any:
                _, y = ctx.saved_tensors
                wants = ctx.needs_input_grad
                log(wants)
                g_x = g * (y if t is not ag else ctx.both["y"][0]) * ctx.k if wants[0] else None
                return g_x, g * ctx.x * ctx.k if wants[1] else None, None

            @staticmethod
            def jvp(ctx: Any, t_x: Any, t_y: Any, _: Any) -> Any:
                x, y = ctx.saved_tensors
                return (t_x * y + x * t_y) * ctx.k

        class Own(base):  # type: ignore[misc, valid-type]
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

            @staticmethod
            def vmap(info: Any, in_dims: Any, x: Any, y: Any) -> Any:
                log([info.batch_size, info.randomness, in_dims, list(x.shape), list(y.shape)])
                x = x.unsqueeze(-1) if in_dims[0] is None else x.movedim(in_dims[0], -1)
                y = y.unsqueeze(-1) if in_dims[1] is None else y.movedim(in_dims[1], -1)
                return Own.apply(x, y), max(x.dim(), y.dim()) - 1

        class Sort(base):  # type: ignore[misc, valid-type]
            generate_vmap_rule = True

            @staticmethod
            def forward(x: Any) -> Any:
                values, order = x.sort()
                return values, order, values.detach() * 1

            @staticmethod
            def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
                ctx.mark_non_differentiable(output[1], output[2])
                ctx.save_for_backward(output[1])
                ctx.set_materialize_grads(False)

            @staticmethod
            def backward(ctx: Any, g: Any, g_order: Any, g_copy: Any) -> Any:
                return t.zeros_like(g).scatter(-1, ctx.saved_tensors[0], g)

        class Double(base):  # type: ignore[misc, valid-type]
            generate_vmap_rule = True

            @staticmethod
            def forward(x: Any) -> Any:
                return x.mul_(2)

            @staticmethod
            def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
                ctx.mark_dirty(inputs[0])

            @staticmethod
            def backward(ctx: Any, g: Any) -> Any:
                return g * 2

            @staticmethod
            def jvp(ctx: Any, t_x: Any) -> Any:
                return t_x.mul_(2)

        self.cube: Callable[..., Any] = lambda x: Cube.apply(x)[0]
        self.mul, self.own, self.sort, self.double = Mul.apply, Own.apply, Sort.apply, Double.apply

    def made(self, **methods: Any) -> Any:
        """`apply` of a class with these methods."""
        generated = methods.pop("generated", False)
        body = {name: staticmethod(each) for name, each in methods.items()}
        found = type("Fn", (self.t.autograd.Function,), {**body, "generate_vmap_rule": generated})
        return found.apply  # type: ignore[attr-defined]

    def plain(self, **methods: Any) -> Any:
        """`made`, where only some methods are of interest."""
        given = {
            "forward": lambda x: x * 2,
            "setup_context": lambda ctx, inputs, output: None,
            "backward": lambda ctx, g: g * 2,
        }
        return self.made(**{**given, **methods})

    def doubled(self, x: Any) -> Any:
        y = x.clone()
        return self.double(y) * y


def v3(t: Any) -> Any:
    return t.tensor([1.0, 2.0, 3.0])


def rows(t: Any) -> Any:
    return t.arange(6.0).reshape(2, 3) + 1


def sort_loss(c: Classes) -> Any:
    def loss(x: Any) -> Any:
        values, _, copy = c.sort(x)
        return (values * v3(c.t) * copy).sum()

    return loss


def once(function: Any) -> Any:
    return lambda t: t.autograd.function.once_differentiable(function)


PROGRAMS: dict[str, Callable[[Any, Any, Classes], Any]] = {
    "grad": lambda t, f, c: f.grad(lambda x: c.cube(x).sum())(v3(t)),
    "grad twice": lambda t, f, c: f.grad(lambda x: f.grad(lambda x: c.cube(x).sum())(x).sum())(
        v3(t)
    ),
    "hessian": lambda t, f, c: f.hessian(lambda x: c.cube(x).sum())(v3(t)),
    "jacrev": lambda t, f, c: f.jacrev(c.cube)(v3(t)),
    "vmap": lambda t, f, c: f.vmap(c.cube)(rows(t)),
    "vmap twice": lambda t, f, c: f.vmap(f.vmap(c.cube))(rows(t)),
    "vmap three times": lambda t, f, c: f.vmap(f.vmap(f.vmap(c.cube)))(rows(t).reshape(1, 2, 3)),
    "vmap of grad": lambda t, f, c: f.vmap(f.grad(lambda x: c.cube(x).sum()))(rows(t)),
    "grad of vmap": lambda t, f, c: f.grad(lambda x: f.vmap(c.cube)(x).sum())(rows(t)),
    "grad of vmap of vmap": lambda t, f, c: f.grad(lambda x: f.vmap(f.vmap(c.cube))(x).sum())(
        rows(t)
    ),
    "vmap of grad of vmap": lambda t, f, c: f.vmap(f.grad(lambda x: f.vmap(c.cube)(x).sum()))(
        rows(t)
    ),
    "vmap of vmap of grad": lambda t, f, c: f.vmap(f.vmap(f.grad(c.cube)))(rows(t)),
    "vmap of hessian": lambda t, f, c: f.vmap(f.hessian(lambda x: c.cube(x).sum()))(rows(t)),
    "jvp": lambda t, f, c: f.jvp(c.cube, (v3(t),), (v3(t),)),
    "jacfwd": lambda t, f, c: f.jacfwd(c.cube)(v3(t)),
    "jvp of vmap": lambda t, f, c: f.jvp(f.vmap(c.cube), (v3(t),), (v3(t),)),
    "vmap of jvp": lambda t, f, c: f.vmap(lambda x: f.jvp(c.cube, (x,), (x,)))(v3(t)),
    "jvp of grad": lambda t, f, c: f.jvp(f.grad(lambda x: c.cube(x).sum()), (v3(t),), (v3(t),)),
    "grad of jvp": lambda t, f, c: f.grad(lambda x: f.jvp(c.cube, (x,), (x,))[1].sum())(v3(t)),
    "two inputs": lambda t, f, c: f.grad(lambda x, y: c.mul(x, y, 2.0).sum(), argnums=(0, 1))(
        v3(t), v3(t) + 1
    ),
    "one input": lambda t, f, c: f.grad(lambda x: c.mul(x, v3(t), 2.0).sum())(v3(t)),
    "not mapped": lambda t, f, c: f.vmap(lambda x: c.mul(x, v3(t), 2.0))(rows(t)),
    "sum over a batch": lambda t, f, c: f.grad(
        lambda y: f.vmap(lambda x: c.mul(x, y, 2.0))(rows(t)).sum()
    )(v3(t)),
    "sum over one of two": lambda t, f, c: f.grad(
        lambda x, y: f.vmap(c.mul, in_dims=(0, None, None))(x, y, 2.0).sum(), argnums=(0, 1)
    )(rows(t), v3(t)),
    "sum over two batches": lambda t, f, c: f.grad(
        lambda y: f.vmap(f.vmap(lambda x: c.mul(x, y, 2.0)))(rows(t)).sum()
    )(t.tensor(2.0)),
    "in_dims": lambda t, f, c: f.vmap(c.mul, in_dims=(1, 0, None), out_dims=1)(
        rows(t).t(), rows(t), 2.0
    ),
    "tangent of what is not mapped": lambda t, f, c: f.jvp(
        lambda y: f.vmap(lambda x: c.mul(x, y, 2.0))(rows(t)), (v3(t),), (v3(t),)
    ),
    "both Jacobians": lambda t, f, c: f.jacrev(lambda x, y: c.mul(x, y, 3.0), argnums=(0, 1))(
        v3(t), v3(t)
    ),
    "own rule": lambda t, f, c: f.vmap(c.own)(rows(t), rows(t)),
    "own rule, not mapped": lambda t, f, c: f.vmap(lambda x: c.own(x, v3(t)))(rows(t)),
    "own rule, nothing mapped": lambda t, f, c: f.vmap(lambda x: c.own(v3(t), v3(t)) + x)(rows(t)),
    "own rule, gradient": lambda t, f, c: f.grad(lambda x: f.vmap(c.own)(x, rows(t)).sum())(
        rows(t)
    ),
    "own rule, of gradient": lambda t, f, c: f.vmap(f.grad(lambda x: c.own(x, x).sum()))(rows(t)),
    "own rule twice": lambda t, f, c: f.vmap(f.vmap(c.own))(
        rows(t).reshape(1, 2, 3), rows(t).reshape(1, 2, 3)
    ),
    "own rule, random": lambda t, f, c: f.vmap(c.own, randomness="different")(rows(t), rows(t)),
    "fixed outputs": lambda t, f, c: f.grad(sort_loss(c))(-v3(t)),
    "fixed outputs mapped": lambda t, f, c: f.vmap(c.sort)(-rows(t)),
    "fixed outputs, vmap of grad": lambda t, f, c: f.vmap(f.grad(sort_loss(c)))(-rows(t)),
    "fixed outputs, grad of vmap": lambda t, f, c: f.grad(lambda x: f.vmap(sort_loss(c))(x).sum())(
        -rows(t)
    ),
    "dirty": lambda t, f, c: f.grad(lambda x: c.doubled(x).sum())(v3(t)),
    "dirty is the same": lambda t, f, c: f.grad(
        lambda x: (lambda y: (c.log.append(c.double(y) is y), y.sum())[1])(x.clone())
    )(v3(t)),
    "dirty, vmap of grad": lambda t, f, c: f.vmap(f.grad(lambda x: c.doubled(x).sum()))(rows(t)),
    "dirty leaf": lambda t, f, c: f.grad(lambda x: c.double(x).sum())(v3(t)),
    "dirty, jvp": lambda t, f, c: f.jvp(c.doubled, (v3(t),), (v3(t),)),
    "input returned": lambda t, f, c: f.grad(lambda x: c.plain(forward=lambda x: x)(x).sum())(
        v3(t)
    ),
    "input returned, mapped": lambda t, f, c: f.vmap(c.plain(forward=lambda x: x, generated=True))(
        rows(t)
    ),
    "view returned": lambda t, f, c: f.vmap(
        f.grad(
            lambda x: c.plain(
                forward=lambda x: x.view(3, 1), backward=lambda ctx, g: g.view(3), generated=True
            )(x).sum()
        )
    )(rows(t)),
    "constant returned": lambda t, f, c: f.grad(
        lambda x: c.plain(forward=lambda x: t.ones(3))(x).sum()
    )(v3(t)),
    "None returned": lambda t, f, c: f.vmap(
        c.plain(
            forward=lambda x: (x * 2, None, "a"),
            backward=lambda ctx, g, a, b: g * 2,
            generated=True,
        ),
        out_dims=(0, None, None),
    )(rows(t)),
    "own output saved": lambda t, f, c: f.vmap(
        f.hessian(
            lambda x: c.made(
                forward=lambda x: x.exp(),
                setup_context=lambda ctx, i, o: (ctx.save_for_backward(o), ctx.save_for_forward(o)),
                backward=lambda ctx, g: g * ctx.saved_tensors[0],
                jvp=lambda ctx, t_x: t_x * ctx.saved_tensors[0],
                generated=True,
            )(x).sum()
        )
    )(rows(t)),
    "None for a gradient": lambda t, f, c: f.grad(
        lambda x: c.plain(backward=lambda ctx, g: None)(x).sum()
    )(v3(t)),
    "None for rows": lambda t, f, c: f.jacrev(
        c.plain(backward=lambda ctx, g: None, generated=True)
    )(v3(t)),
    "once": lambda t, f, c: f.vmap(
        f.grad(lambda x: c.plain(backward=once(lambda ctx, g: g * 2)(t), generated=True)(x).sum())
    )(rows(t)),
    "once, twice": lambda t, f, c: f.grad(
        lambda x: f.grad(
            lambda x: c.made(
                forward=lambda x: x**2,
                setup_context=lambda ctx, i, o: ctx.save_for_backward(*i),
                backward=once(lambda ctx, g: g * 2 * ctx.saved_tensors[0])(t),
            )(x).sum()
        )(x).sum()
    )(v3(t)),
    "hook on an output": lambda t, f, c: f.grad(
        lambda x: (lambda y: (y.register_hook(lambda g: g * 10), y.sum())[1])(c.cube(x))
    )(v3(t)),
    "batched gradients": lambda t, f, c: (
        lambda x: t.autograd.grad(c.cube(x), x, t.eye(3), is_grads_batched=True)
    )(v3(t).requires_grad_()),
    "defaults": lambda t, f, c: f.vmap(
        c.plain(
            forward=lambda x, k=2.0: x * k,
            setup_context=lambda ctx, i, o: c.log.append(len(i)),
            backward=lambda ctx, g, *a: (g * 2, None),
            generated=True,
        )
    )(rows(t)),
    "captured, requires grad": lambda t, f, c: (
        lambda w: t.autograd.grad(f.grad(lambda x: c.cube(w * x).sum())(v3(t)).sum(), w)
    )(t.ones(3, requires_grad=True)),
    "the old form, without a level": lambda t, f, c: f.vmap(
        lambda x: c.made(forward=lambda ctx, x: x * 2, backward=lambda ctx, g: g)(v3(t)) + x
    )(rows(t)),
    "the old form, under jvp": lambda t, f, c: f.jvp(
        lambda x: c.made(forward=lambda ctx, x: x * 2, backward=lambda ctx, g: g)(v3(t)) + x,
        (v3(t),),
        (v3(t),),
    ),
    "no backward": lambda t, f, c: f.grad(
        lambda x: c.made(forward=lambda x: x * 2, setup_context=lambda ctx, inputs, output: None)(
            x
        ).sum()
    )(v3(t)),
    "both rules": lambda t, f, c: f.vmap(c.plain(vmap=lambda i, d, x: (x, 0), generated=True))(
        rows(t)
    ),
    "rule without out_dims": lambda t, f, c: f.vmap(c.plain(vmap=lambda i, d, x: x))(rows(t)),
    "too many out_dims": lambda t, f, c: f.vmap(c.plain(vmap=lambda i, d, x: (x, (0, 0))))(rows(t)),
    "out_dims in a list": lambda t, f, c: f.vmap(c.plain(vmap=lambda i, d, x: ((x, x), [0, 0])))(
        rows(t)
    ),
    "one of out_dims for two": lambda t, f, c: f.vmap(c.plain(vmap=lambda i, d, x: ((x, x), 0)))(
        rows(t)
    ),
    "out_dims None": lambda t, f, c: f.vmap(c.plain(vmap=lambda i, d, x: (t.ones(3), None)))(
        rows(t)
    ),
    "negative out_dims": lambda t, f, c: f.vmap(
        c.plain(vmap=lambda i, d, x: (x.movedim(0, -1), -1))
    )(rows(t)),
    "wrong count": lambda t, f, c: f.grad(
        lambda x: c.plain(backward=lambda ctx, g: 1 / 0)(x).sum()
    )(v3(t)),
    "error in forward": lambda t, f, c: f.vmap(f.grad(c.plain(forward=lambda x: 1 / 0)))(rows(t)),
    "random without leave": lambda t, f, c: f.vmap(
        c.plain(forward=lambda x: x * t.rand(3), generated=True)
    )(rows(t)),
}


def run(name: str) -> Program:
    def program(t: Any) -> Any:
        c = Classes(t)
        result = PROGRAMS[name](t, t.func, c)
        return result, c.log

    return program


@pytest.mark.parametrize("name", PROGRAMS)
def test_as_in_torch(name: str) -> None:
    same(run(name))


def test_dirty_inputs_may_be_mapped() -> None:
    """(torch refuses.)"""
    c = Classes(ag)
    assert ag.vmap(c.doubled)(rows(ag)).tolist() == (4 * rows(ag) ** 2).tolist()
    found = ag.func.grad(lambda x: ag.vmap(c.doubled)(x).sum())(rows(ag))
    assert found.tolist() == (8 * rows(ag)).tolist()


def test_a_captured_tensor_is_not_dirtied() -> None:
    """(torch lets it through.)"""

    def program(t: Any) -> Any:
        z = v3(t)
        return t.func.grad(lambda x: (Classes(t).double(z) * x).sum())(v3(t))

    assert saw(program, ag)[0] == "RuntimeError"
