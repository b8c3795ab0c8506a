"""Function.jvp as torch's: what it gets, sees and may return, in-place outputs and views."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import ag_visual

from ..programs import agree, raised
from .forward import dual, unpacked


def made(t: Any, forward: Any, jvp: Any = None, **more: Any) -> Any:
    """A Function class with these methods."""
    body = {key: staticmethod(value) for key, value in more.items()}
    body["forward"] = staticmethod(forward)
    if jvp is not None:
        body["jvp"] = staticmethod(jvp)
    return type("Made", (t.autograd.Function,), body)


def seen(t: Any, value: Any) -> Any:
    if isinstance(value, (tuple, list)):
        return [seen(t, each) for each in value]
    return unpacked(t, value) if isinstance(value, t.Tensor) else value


def in_level(program: Callable[[Any], Any]) -> Callable[[Any], Any]:
    def inside(t: Any) -> Any:
        with t.autograd.forward_ad.dual_level():
            return program(t)

    return inside


def written(ctx: Any, x: Any, *factors: Any) -> Any:
    """A forward that writes its input."""
    ctx.mark_dirty(x)
    return x.mul_(factors[0] if factors else 2)


def with_mark(ctx: Any, x: Any) -> Any:
    """A forward of two outputs, one of them marked as not differentiable."""
    y = x * 3
    ctx.mark_non_differentiable(y)
    return y, x * 2


GOOD: dict[str, Callable[[Any, Any], Any]] = {
    "one": lambda t, d: made(t, lambda c, x: x * 2, lambda c, m: m * 2).apply(d),
    "two": lambda t, d: made(t, lambda c, x: (x, x * 3)[1:], lambda c, m: m * 3).apply(d),
    "a tuple": lambda t, d: made(t, lambda c, x: x * 2, lambda c, m: (m * 2,)).apply(d),
    "its own tangent": lambda t, d: made(t, lambda c, x: x * 2, lambda c, m: m).apply(d),
    "other values": lambda t, d: made(
        t, lambda c, x: (x * 2, 5, None), lambda c, m: (m, None, None)
    ).apply(d),
    "no tensors": lambda t, d: made(t, lambda c, x: 5, lambda c, m: None).apply(d),
    "an integer": lambda t, d: made(t, lambda c, x: x.long(), lambda c, m: None).apply(d),
    "a marked one": lambda t, d: made(t, with_mark, lambda c, m: (None, m * 2)).apply(d),
    "another dtype": lambda t, d: made(t, lambda c, x: x * 2, lambda c, m: m.double()).apply(d),
    "complex": lambda t, d: made(t, lambda c, x: x * 2, lambda c, m: m * 1j).apply(d),
    "expanded": lambda t, d: made(
        t, lambda c, x: x * 2, lambda c, m: t.tensor(1.0).expand(2)
    ).apply(d),
    "written": lambda t, d: made(t, written, lambda c, m: m.mul_(2)).apply(d),
    "written without a tangent": lambda t, d: made(t, written, lambda c, m, u: u * 1).apply(
        t.ones(2), d
    ),
    "a view": lambda t, d: made(t, lambda c, x: x.view(2), lambda c, m: m.view(2)).apply(d),
    "an input": lambda t, d: made(t, lambda c, x: x, lambda c, m: m.view_as(m)).apply(d),
    "no tangents at all": lambda t, d: made(t, lambda c, x: x * 2).apply(t.ones(2)),
    "another layout": lambda t, d: made(
        t, lambda c, x: x * 2, lambda c, m: m.t().contiguous().t() * 2
    ).apply(dual(t, [[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]])),
    "a function in jvp": lambda t, d: made(
        t,
        lambda c, x: x * 2,
        lambda c, m: m * made(t, lambda c, y: y * 2, lambda c, n: n).apply(m),
    ).apply(d),
}


@pytest.mark.parametrize("case", GOOD)
def test_what_jvp_may_return(case: str) -> None:
    agree(in_level(lambda t: seen(t, GOOD[case](t, dual(t, [1.0, 2.0])))))


BAD: dict[str, Callable[[Any, Any], Any]] = {
    "no jvp": lambda t, d: made(t, lambda c, x: x * 2).apply(d),
    "too many": lambda t, d: made(t, lambda c, x: x * 2, lambda c, m: (m, m)).apply(d),
    "too few": lambda t, d: made(t, lambda c, x: (x * 2, x * 3), lambda c, m: m).apply(d),
    "a number": lambda t, d: made(t, lambda c, x: x * 2, lambda c, m: 3).apply(d),
    "a list": lambda t, d: made(t, lambda c, x: (x * 2, x), lambda c, m: [m, m]).apply(d),
    "None": lambda t, d: made(t, lambda c, x: x * 2, lambda c, m: None).apply(d),
    "integers": lambda t, d: made(t, lambda c, x: x * 2, lambda c, m: m.long()).apply(d),
    "another size": lambda t, d: made(t, lambda c, x: x * 2, lambda c, m: t.ones(3)).apply(d),
    "a dual": lambda t, d: made(t, lambda c, x: x * 2, lambda c, m: d).apply(d),
    "of an integer": lambda t, d: made(t, lambda c, x: x.long(), lambda c, m: m).apply(d),
    "of a marked one": lambda t, d: made(t, with_mark, lambda c, m: (m, m)).apply(d),
    "not written": lambda t, d: made(t, written, lambda c, m: m * 2).apply(d),
    "None of what is written": lambda t, d: made(t, written, lambda c, m: None).apply(d),
    "no view": lambda t, d: made(t, lambda c, x: x.view(2), lambda c, m: m * 2).apply(d),
    "no view of an input": lambda t, d: made(t, lambda c, x: x, lambda c, m: m).apply(d),
    "a view of another": lambda t, d: made(t, lambda c, x: x[:1], lambda c, m: t.ones(2)[:1]).apply(
        d
    ),
    "saved numbers": lambda t, d: made(
        t, lambda c, x: (c.save_for_forward(3), x * 2)[1], lambda c, m: m
    ).apply(d),
    "saved for backward": lambda t, d: made(
        t,
        lambda c, x: (c.save_for_backward(x), x * 2)[1],
        lambda c, m: m * c.saved_tensors[0],
    ).apply(d),
    "an error": lambda t, d: made(t, lambda c, x: x * 2, lambda c, m: m[7]).apply(d),
    "a leaf": lambda t, d: made(t, written, lambda c, m: m.mul_(2)).apply(
        dual(t, [1.0], requires_grad=True)
    ),
}


@pytest.mark.parametrize("case", BAD)
def test_what_jvp_may_not_return(case: str) -> None:
    def program(t: Any) -> Any:
        kind, text = raised(lambda: BAD[case](t, dual(t, [1.0, 2.0])))
        text = " ".join(text.split())
        return [kind, text.partition(" INTERNAL ASSERT FAILED")[0][:60]]

    agree(in_level(program))


@pytest.mark.parametrize("materialize", [True, False])
def test_missing_tangents(materialize: bool) -> None:
    def program(t: Any) -> Any:
        got: list[Any] = []

        def forward(ctx: Any, x: Any, y: Any, n: Any, k: float) -> Any:
            ctx.set_materialize_grads(materialize)
            return x * y * k

        def jvp(ctx: Any, *moves: Any) -> Any:
            got.extend(moves)
            return moves[0] * 1

        args = dual(t, [1.0, 2.0]), t.ones(2, requires_grad=True), t.arange(2), 3.0
        result = made(t, forward, jvp).apply(*args)
        return [seen(t, got), seen(t, result)]

    agree(in_level(program))


def test_what_forward_and_jvp_see() -> None:
    def program(t: Any) -> Any:
        fw = t.autograd.forward_ad
        modes: list[Any] = []

        def look(x: Any) -> None:
            modes.append([t.is_grad_enabled(), fw._is_fwd_grad_enabled(), unpacked(t, x)])

        def forward(ctx: Any, x: Any, y: Any) -> Any:
            look(x)
            ctx.kept = x
            return x * y

        def jvp(ctx: Any, m: Any, u: Any) -> Any:
            look(ctx.kept)
            modes.append(ctx.needs_input_grad)
            return m + u

        function = made(t, forward, jvp)
        d, leaf = dual(t, [1.0, 2.0]), t.ones(2, requires_grad=True)
        results = [function.apply(d, leaf)]
        with t.no_grad():
            results.append(function.apply(d, leaf))
        with fw._set_fwd_grad_enabled(False):
            results.append(function.apply(d, leaf))
        return [modes, seen(t, results)]

    agree(in_level(program))


def test_save_for_forward() -> None:
    def program(t: Any) -> Any:
        got: list[Any] = []

        def forward(ctx: Any, x: Any) -> Any:
            y = x * x
            ctx.save_for_backward(x)
            ctx.save_for_forward(x, y, None)
            return y

        def jvp(ctx: Any, m: Any) -> Any:
            got.append(seen(t, ctx.saved_tensors))
            return 2 * m * ctx.saved_tensors[0]

        def backward(ctx: Any, g: Any) -> Any:
            (x,) = ctx.saved_tensors
            return 2 * x * g

        x = t.tensor([1.0, 2.0], requires_grad=True)
        d = t.autograd.forward_ad.make_dual(x, t.tensor([3.0, 4.0]))
        y = made(t, forward, jvp, backward=backward).apply(d)
        tangent = t.autograd.forward_ad.unpack_dual(y).tangent
        (second,) = t.autograd.grad(tangent.sum(), x, retain_graph=True)
        (first,) = t.autograd.grad(y.sum(), x)
        return [got, seen(t, [y, first]), second]

    agree(in_level(program))


def test_setup_context_saves_for_forward() -> None:
    def program(t: Any) -> Any:
        def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
            ctx.save_for_forward(inputs[0], output)
            ctx.factor = inputs[1]

        def jvp(ctx: Any, m: Any, _: Any) -> Any:
            x, y = ctx.saved_tensors
            return m * ctx.factor + 0 * x * y

        function = made(t, lambda x, k: x * k, jvp, setup_context=setup_context)
        return seen(t, function.apply(dual(t, [1.0, 2.0]), 4.0))

    agree(in_level(program))


def test_written_inputs_and_views() -> None:
    def program(t: Any) -> Any:
        whole = dual(t, [[1.0, 2.0], [3.0, 4.0]]) * 1
        bare = t.ones(2, 2)
        made(t, written, lambda c, m: m.mul_(2)).apply(whole[0])
        made(t, written, lambda c, m, u: u * 1).apply(bare[0], dual(t, [1.0, 2.0]))
        part = made(t, lambda c, x: x[0], lambda c, m: m[0]).apply(whole)
        return seen(t, [whole, bare, part])

    agree(in_level(program))


def test_a_tangent_that_jvp_returned_as_it_was_is_not_shared() -> None:
    forward = ag_visual.autograd.forward_ad
    with forward.dual_level():
        d = dual(ag_visual, [1.0, 2.0])
        y = made(ag_visual, lambda c, x: x * 2, lambda c, m: m).apply(d)
        y.mul_(2)
        assert forward.unpack_dual(d).tangent.tolist() == [3.0, 6.0]


def by_columns(t: Any, function: Any, *inputs: Any) -> Any:
    given = inputs if len(inputs) > 1 else inputs[0]
    functional = t.autograd.functional
    found = functional.jacobian(function, given, vectorize=True, strategy="forward-mode")
    return list(found) if len(inputs) > 1 else found


def scaled(t: Any) -> Any:
    """A Function of two tensors and a number whose forward reads arrays."""

    def forward(ctx: Any, x: Any, k: float, y: Any) -> Any:
        ctx.save_for_forward(x, y)
        ctx.k = k
        return t.from_numpy(x.detach().numpy() * y.detach().numpy() * k), x.argmax()

    def jvp(ctx: Any, t_x: Any, t_k: None, t_y: Any) -> Any:
        x, y = ctx.saved_tensors
        return ctx.k * (t_x * y + t_y * x), None

    return made(t, forward, jvp)


def doubled(t: Any) -> Any:
    return made(t, lambda ctx, x: x * 2, lambda ctx, g: g * 2).apply


COLUMNS: dict[str, Callable[[Any, Any], Any]] = {
    "two inputs": lambda t, x: by_columns(t, lambda x, y: scaled(t).apply(x, 3.0, y)[0], x, x * 2),
    "one of them a constant": lambda t, x: by_columns(
        t, lambda x: scaled(t).apply(x, 3.0, t.ones_like(x))[0].sum(), x
    ),
    "all of them constants": lambda t, x: by_columns(
        t, lambda x: scaled(t).apply(t.ones(3), 3.0, t.ones(3))[0] * x, x
    ),
    "no jvp": lambda t, x: raised(lambda: by_columns(t, made(t, lambda ctx, x: x * 2).apply, x)),
    "a jvp that forgets": lambda t, x: raised(
        lambda: by_columns(t, made(t, lambda ctx, x: x * 2, lambda ctx, g: None).apply, x)
    )[0],
    "gradcheck of batches": lambda t, x: t.autograd.gradcheck(
        doubled(t),
        (x.requires_grad_(),),
        check_forward_ad=True,
        check_backward_ad=False,
        check_undefined_grad=False,
        check_batched_forward_grad=True,
    ),
    "vmap refuses it": lambda t, x: raised(lambda: t.vmap(doubled(t))(x))[1][:60],
    "jvp refuses it": lambda t, x: raised(lambda: t.func.jvp(doubled(t), (x,), (x,)))[1][:60],
}


@pytest.mark.parametrize("name", COLUMNS)
@pytest.mark.filterwarnings("ignore")
def test_jacobians_by_columns_of_functions_whose_forward_takes_ctx(name: str) -> None:
    agree(lambda t: COLUMNS[name](t, t.tensor([1.0, 2.0, 3.0], dtype=t.float64)))


def test_a_write_that_jvp_follows_may_be_batched() -> None:
    """torch's check that jvp wrote its tangent does not know slices."""
    twice = made(ag_visual, written, lambda ctx, g: g.mul_(2)).apply
    found = by_columns(ag_visual, lambda x: twice(x * 1), ag_visual.tensor([1.0, 2.0]))
    assert found.tolist() == [[2.0, 0.0], [0.0, 2.0]]
