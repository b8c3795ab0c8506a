"""Custom Functions (SEMANTICS: both forms, ctx methods, errors), the same on torch."""

from __future__ import annotations

import warnings
from typing import Any

import pytest

import ag_visual
from tests.programs import agree, old_names, raised


def _square(t: Any) -> Any:
    class Square(t.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            ctx.save_for_backward(x)
            return x * x

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            (x,) = ctx.saved_tensors
            return 2 * x * g

    return Square


def test_forward_with_ctx_and_double_backward() -> None:
    def program(t: Any) -> Any:
        x = t.tensor([3.0], requires_grad=True)
        y = _square(t).apply(x)
        (g,) = t.autograd.grad(y, x, create_graph=True)
        (h,) = t.autograd.grad(g, x)
        return [y, g, h, y.grad_fn.name(), type(y.grad_fn).__name__]

    agree(program, [[9.0], [6.0], [2.0], "SquareBackward", "SquareBackward"])


def test_forward_with_setup_context() -> None:
    def program(t: Any) -> Any:
        class Scale(t.autograd.Function):
            @staticmethod
            def forward(x: Any, factor: float = 3.0) -> Any:
                return x * factor

            @staticmethod
            def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
                _, ctx.factor = inputs
                ctx.needed = ctx.needs_input_grad

            @staticmethod
            def backward(ctx: Any, g: Any) -> Any:
                return g * ctx.factor, None

        x = t.tensor([2.0], requires_grad=True)
        y = Scale.apply(x, 4.0)
        y.backward()
        return [y, x.grad, list(y.grad_fn.needed)]

    agree(program, [[8.0], [4.0], [True, False]])


def test_saved_output_is_part_of_the_graph() -> None:
    def program(t: Any) -> Any:
        class Exp(t.autograd.Function):
            @staticmethod
            def forward(ctx: Any, x: Any) -> Any:
                y = x.exp()
                ctx.save_for_backward(y)
                return y

            @staticmethod
            def backward(ctx: Any, g: Any) -> Any:
                (y,) = ctx.saved_tensors
                return g * y

        x = t.tensor([0.5], requires_grad=True)
        y = Exp.apply(x)
        (g,) = t.autograd.grad(y, x, create_graph=True)
        (h,) = t.autograd.grad(g, x, create_graph=True)
        return [g, h]

    agree(program)


def test_non_tensor_outputs_count_as_none() -> None:
    def program(t: Any) -> Any:
        seen: list[Any] = []

        class Many(t.autograd.Function):
            @staticmethod
            def forward(ctx: Any, x: Any, k: int, w: Any) -> Any:
                return x * 1, 3, x * w

            @staticmethod
            def backward(ctx: Any, *g: Any) -> Any:
                seen.append([None if v is None else v.tolist() for v in g])
                return g[0], None, g[2]

        x = t.tensor([1.0], requires_grad=True)
        w = t.tensor([2.0], requires_grad=True)
        a, three, b = Many.apply(x, 2, w)
        b.backward()
        return [three, seen, x.grad, w.grad, a.grad_fn is b.grad_fn]

    agree(program)


def test_materialize_grads_can_be_switched_off() -> None:
    def program(t: Any) -> Any:
        seen: list[Any] = []

        class Two(t.autograd.Function):
            @staticmethod
            def forward(ctx: Any, x: Any) -> Any:
                ctx.set_materialize_grads(False)
                return x * 1, x * 2

            @staticmethod
            def backward(ctx: Any, a: Any, b: Any) -> Any:
                seen.append(a is None)
                return b

        x = t.tensor([1.0], requires_grad=True)
        Two.apply(x)[1].backward()
        return [seen, x.grad]

    agree(program, [[True], [1.0]])


def test_a_dirty_input_loses_the_gradient_it_retained() -> None:
    def program(t: Any) -> Any:
        class Inc(t.autograd.Function):
            @staticmethod
            def forward(ctx: Any, x: Any) -> Any:
                ctx.mark_dirty(x)
                return x.add_(1)

            @staticmethod
            def backward(ctx: Any, g: Any) -> Any:
                return g * 10

        x = t.ones(2, requires_grad=True) * 2
        x.retain_grad()
        x.sum().backward(retain_graph=True)
        y = Inc.apply(x)
        seen = [x.grad is None, x.retains_grad]
        (y * 3).sum().backward()
        return [*seen, x.grad]

    agree(program, [True, True, [3.0, 3.0]])


def test_mark_dirty_returns_the_same_object() -> None:
    def program(t: Any) -> Any:
        class Inc(t.autograd.Function):
            @staticmethod
            def forward(ctx: Any, x: Any) -> Any:
                x.add_(1)
                ctx.mark_dirty(x)
                return x

            @staticmethod
            def backward(ctx: Any, g: Any) -> Any:
                return g * 10

        leaf = t.tensor([1.0], requires_grad=True)
        x = leaf * 1
        y = Inc.apply(x)
        y.backward()
        kind, text = raised(lambda: Inc.apply(t.tensor([1.0], requires_grad=True)))
        return [y is x, x._version, leaf.grad, kind, text.split(".")[0]]

    agree(
        program,
        [
            True,
            2,
            [10.0],
            "RuntimeError",
            "a leaf Variable that requires grad has been used in an in-place operation",
        ],
    )


def test_non_differentiable_outputs_and_inputs_returned_as_they_are() -> None:
    def program(t: Any) -> Any:
        class Pass(t.autograd.Function):
            @staticmethod
            def forward(ctx: Any, x: Any) -> Any:
                other = x * 2
                ctx.mark_non_differentiable(other)
                return x, other

            @staticmethod
            def backward(ctx: Any, g: Any, other: Any) -> Any:
                return g * 3

        x = t.tensor([1.0], requires_grad=True)
        a, b = Pass.apply(x)
        a.sum().backward()
        return [a is x, a._base is x, b.requires_grad, x.grad]

    agree(program, [False, True, False, [3.0]])


def test_once_differentiable() -> None:
    def program(t: Any) -> Any:
        class Twice(t.autograd.Function):
            @staticmethod
            def forward(ctx: Any, x: Any) -> Any:
                return x * 2

            @staticmethod
            @t.autograd.function.once_differentiable
            def backward(ctx: Any, g: Any) -> Any:
                return g * 2

        w = t.tensor([1.0], requires_grad=True)
        v = t.tensor([1.0], requires_grad=True)
        (g,) = t.autograd.grad(Twice.apply(w).sum(), w, create_graph=True)
        (h,) = t.autograd.grad(Twice.apply(w), w, v, create_graph=True)
        return [g.requires_grad, h.requires_grad, raised(lambda: h.sum().backward())]

    agree(program)


def test_results_are_cast_and_reduced_to_the_input() -> None:
    def program(t: Any) -> Any:
        class Wide(t.autograd.Function):
            @staticmethod
            def forward(ctx: Any, x: Any) -> Any:
                return x * 1

            @staticmethod
            def backward(ctx: Any, g: Any) -> Any:
                return t.ones(1, 2, dtype=t.float64)

        x = t.tensor([1.0, 2.0], requires_grad=True)
        Wide.apply(x).sum().backward()
        return [x.grad, str(x.grad.dtype)]

    agree(program, [[1.0, 1.0], "torch.float32"])


def _returning(t: Any, value: Any) -> Any:
    class Bad(t.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            return x * 1

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            return value

    return Bad


def test_nested_and_inplace_functions() -> None:
    t = ag_visual
    seen: list[Any] = []

    class Nested(t.autograd.function.NestedIOFunction):
        @staticmethod
        def forward_extended(ctx: Any, pair: Any, by_name: Any, factor: int) -> Any:
            ctx.save_for_backward(by_name["c"])
            ctx.factor = factor
            return (pair[0] * factor, [pair[1] * 3, {"c": by_name["c"] * 2}])

        @staticmethod
        def backward_extended(ctx: Any, a: Any, rest: Any) -> Any:
            seen.append([a.tolist(), rest[0].tolist(), rest[1]["c"].tolist()])
            (c,) = ctx.saved_tensors
            if not ctx.factor:
                return (None, rest[0] * 3), None, None
            return (a * ctx.factor, rest[0] * 3), {"c": rest[1]["c"] * c}, None

    x, y, z = (t.tensor([float(i)], requires_grad=True) for i in (1, 2, 3))
    a, (b, named) = Nested.apply_nested((x, y), {"c": z}, 5)
    (a + 10 * b + 100 * named["c"]).backward()
    assert [a.tolist(), b.tolist(), named["c"].tolist()] == [[5.0], [6.0], [6.0]]
    assert seen == [[[1.0], [10.0], [100.0]]]
    assert [v.grad.tolist() for v in (x, y, z)] == [[5.0], [30.0], [300.0]]
    a, (b, named) = Nested.apply_nested((x, y), {"c": z}, 0)
    assert t.autograd.grad(a + b + named["c"], (x, y, z), allow_unused=True)[1].tolist() == [3.0]
    with pytest.raises(NotImplementedError, match="forward_extended is not implemented"):
        t.autograd.NestedIOFunction.apply_nested(x)
    with pytest.warns(DeprecationWarning, match="should not be instantiated"):
        assert t.autograd.function.InplaceFunction(inplace=True).inplace


def test_errors_of_a_backward() -> None:
    def program(t: Any) -> Any:
        x = t.ones(5, 5, requires_grad=True)

        def attempt(value: Any) -> Any:
            return raised(lambda: _returning(t, value).apply(x).sum().backward())

        return [
            attempt("str"),
            attempt((None, 1)),
            attempt(t.ones(10)),
            raised(lambda: t.autograd.Function.apply(x)),
        ]

    agree(program)


def test_errors_of_ctx() -> None:
    class Save(ag_visual.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            ctx.save_for_backward("text")
            return x

    with pytest.raises(TypeError, match="save_for_backward can only save variables, but argument"):
        Save.apply(ag_visual.ones(1))
    with pytest.warns(DeprecationWarning, match="should not be instantiated"):
        _square(ag_visual)()
    with (
        pytest.warns(DeprecationWarning, match="should not be instantiated"),
        pytest.raises(RuntimeError, match="Legacy autograd"),
    ):
        _square(ag_visual)()(ag_visual.ones(1))


def test_ctx_is_the_node_and_is_freed() -> None:
    x = ag_visual.tensor([2.0], requires_grad=True)
    seen: list[Any] = []

    class Keep(ag_visual.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            ctx.save_for_backward(x)
            seen.append(ctx)
            return x * 2

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            return g * ctx.saved_tensors[0]

    y = Keep.apply(x)
    assert y.grad_fn is seen[0]
    assert seen[0].saved_tensors[0] is x
    y.backward()
    with pytest.raises(RuntimeError, match="after they have already been freed"):
        _ = y.grad_fn.saved_tensors
    with pytest.raises(RuntimeError, match="Specify retain_graph=True"):
        y.backward()


def test_saved_tensors_are_version_checked() -> None:
    x = ag_visual.tensor([2.0], requires_grad=True) * 1
    y = _square(ag_visual).apply(x)
    x.add_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation") as caught:
        y.backward()
    assert "x.add_(1)" in str(caught.value)


def test_reentrant_backward_200_deep() -> None:
    def program(t: Any) -> Any:
        class Deep(t.autograd.Function):
            @staticmethod
            def forward(ctx: Any, x: Any, depth: int) -> Any:
                ctx.depth = depth
                return x * 1

            @staticmethod
            def backward(ctx: Any, g: Any) -> Any:
                if ctx.depth > 0:
                    with t.enable_grad():
                        inner = t.ones(1, requires_grad=True)
                        Deep.apply(inner, ctx.depth - 1).sum().backward()
                    return inner.grad * g, None
                return g * 2, None

        x = t.ones(1, requires_grad=True)
        Deep.apply(x, 200).sum().backward()
        return x.grad

    agree(program, [2.0])


def test_errors_of_nested_backwards_reach_the_outer_one() -> None:
    class Fails(ag_visual.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any, depth: int) -> Any:
            ctx.depth = depth
            return x * 1

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            if ctx.depth == 0:
                raise KeyError("at the bottom")
            with ag_visual.enable_grad():
                inner = ag_visual.ones(1, requires_grad=True)
                Fails.apply(inner, ctx.depth - 1).sum().backward()
            return g, None

    with pytest.raises(KeyError, match="at the bottom"):
        Fails.apply(ag_visual.ones(1, requires_grad=True), 30).sum().backward()
    assert ag_visual.is_grad_enabled()


DIRTY = {
    "a leaf": lambda t: t.ones(3, requires_grad=True),
    "a view of a leaf": lambda t: t.ones(3, requires_grad=True)[1:],
    "a leaf that is a view": lambda t: t.ones(3)[1:].requires_grad_(),
    "computed": lambda t: t.ones(3, requires_grad=True) * 1,
    "a view": lambda t: (t.ones(3, requires_grad=True) * 1)[1:],
    "of several views": lambda t: (t.ones(2, 2, requires_grad=True) * 1).unbind(0)[0],
    "a view without history": lambda t: _without_history(t),
    "plain": lambda t: t.ones(3)[1:],
}


def _without_history(t: Any) -> Any:
    x = t.ones(3, requires_grad=True) * 1
    with t.no_grad():
        return x[1:]


@pytest.mark.parametrize("outputs", [1, 2])
@pytest.mark.parametrize("made", DIRTY)
def test_a_dirty_input_that_is_refused_and_its_gradient(made: str, outputs: int) -> None:
    def program(t: Any) -> Any:
        class Dirty(t.autograd.Function):
            @staticmethod
            def forward(ctx: Any, x: Any) -> Any:
                ctx.mark_dirty(x)
                x.mul_(2)
                return (x, x * 1)[:outputs] if outputs > 1 else x

            @staticmethod
            def backward(ctx: Any, *gs: Any) -> Any:
                return gs[0] * 2

        x = DIRTY[made](t)
        base = x._base  # alive
        x.grad = t.ones_like(x)
        kind, text = raised(lambda: Dirty.apply(x))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return kind, old_names(text)[:60].split("\n")[0], x.grad, x._version, base is None

    agree(program)
