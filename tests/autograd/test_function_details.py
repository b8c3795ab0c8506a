"""Custom Functions, each behaviour as torch: outputs, inputs, marks, gradients, errors."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import pytest

import ag_visual
from tests.programs import agree, old_names, raised


def made(t: Any, forward: Any, backward: Any = lambda ctx, g: g, name: str = "Made", **more: Any):
    """A Function class with these methods."""
    body = {key: staticmethod(value) for key, value in more.items()}
    body |= {"forward": staticmethod(forward), "backward": staticmethod(backward)}
    return type(name, (t.autograd.Function,), body)


def leaf(t: Any, *values: float) -> Any:
    return t.tensor(list(values) or [1.0, 2.0], requires_grad=True)


def said(call: Callable[[], Any]) -> Any:
    """Type and beginning of the text of what a call raises."""
    kind, text = raised(call)
    return [kind, old_names(text)[:60]]


def listed(values: Any) -> Any:
    return [None if v is None else [v.tolist(), str(v.dtype)] for v in values]


def marked(t: Any) -> Any:
    """A function of one tensor that is returned as it is, marked as written."""

    def forward(ctx: Any, x: Any) -> Any:
        x.mul_(2)
        ctx.mark_dirty(x)
        return x

    return made(t, forward, lambda ctx, g: g * 10)


# Outputs ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("how", ["zeros", "none", "all none"])
def test_non_differentiable_outputs_get_zeros_unless_not_wanted(how: str) -> None:
    def program(t: Any) -> Any:
        seen: list[Any] = []

        def forward(ctx: Any, x: Any) -> Any:
            a, b, c = x * 2, x > 1, x * 3
            ctx.mark_non_differentiable(b, c)
            if how == "none":
                ctx._materialize_non_diff_grads = False
            if how == "all none":
                ctx.set_materialize_grads(False)
            return a, b, c, x * 4

        def backward(ctx: Any, *grads: Any) -> Any:
            seen.append(listed(grads))
            return grads[0]

        x = leaf(t)
        a, b, c, _ = made(t, forward, backward).apply(x)
        a.sum().backward()
        return [seen, b.requires_grad, c.requires_grad, c.grad_fn is None, x.grad]

    agree(program)


def test_integer_outputs_carry_no_gradient_and_get_zeros() -> None:
    def program(t: Any) -> Any:
        seen: list[Any] = []

        def backward(ctx: Any, *grads: Any) -> Any:
            seen.append(listed(grads))
            return grads[0]

        x = leaf(t)
        results = made(t, lambda ctx, x: (x * 2, x > 1, x.to(t.int32)), backward).apply(x)
        results[0].sum().backward()
        return [seen, [v.requires_grad for v in results], [v.is_leaf for v in results]]

    agree(program)


def test_only_a_tuple_is_several_outputs() -> None:
    def program(t: Any) -> Any:
        x = leaf(t)
        two = made(t, lambda ctx, x: [x * 2, x * 3]).apply(x)
        nested = made(t, lambda ctx, x: (x * 2, (x * 3,)), lambda ctx, g, h: g).apply(x)
        number = made(t, lambda ctx, x: 3).apply(x)
        nothing = made(t, lambda ctx, x: None).apply(x)
        mapping = made(t, lambda ctx, x: {"a": x * 2}).apply(x)
        return [
            [type(two).__name__, two[0].requires_grad],
            [nested[0].requires_grad, nested[1][0].requires_grad],
            [number, nothing is None, mapping["a"].requires_grad],
        ]

    agree(program)


def test_an_input_returned_as_it_is_becomes_a_view() -> None:
    def program(t: Any) -> Any:
        x, plain = leaf(t), t.ones(2)
        same = made(t, lambda ctx, x: x, lambda ctx, g: g * 5)
        y = same.apply(x)
        y.sum().backward()
        z = same.apply(plain)
        both = made(t, lambda ctx, x, p: (x, p), lambda ctx, g, h: (g, h)).apply(x * 1, plain)
        twice = made(t, lambda ctx, x: (x, x), lambda ctx, g, h: g + 2 * h).apply(x)
        return [
            [y is x, y._base is x, x.grad, y.grad_fn.name(), said(lambda: y.add_(1))],
            [z is plain, z._is_view(), z.requires_grad, said(lambda: z.mul_(leaf(t)))],
            [both[1] is plain, both[1].requires_grad, plain.requires_grad],
            [said(lambda: both[0].mul_(2)), twice[0] is twice[1]],
        ]

    agree(program)


def test_a_view_returned_by_a_function_must_not_be_written() -> None:
    def program(t: Any) -> Any:
        y = leaf(t) * 1
        view = made(t, lambda ctx, x: x.view(2, 1), lambda ctx, g: g.view(2)).apply(y)
        own = made(t, lambda ctx, x: (x * 2).view(2, 1), lambda ctx, g: g.view(2) * 2).apply(y)
        detached = made(t, lambda ctx, x: x.detach()).apply(y)
        return [
            [said(lambda: view.mul_(2)), said(lambda: view[0].mul_(2))],
            [own._is_view(), said(lambda: own.mul_(3)), own.grad_fn.name()],
            [detached.grad_fn.name(), said(lambda: detached.mul_(2))],
            said(lambda: (y.mul_(2), view.grad_fn)),
        ]

    agree(program)


def test_what_enable_grad_recorded_inside_of_forward_is_dropped() -> None:
    def program(t: Any) -> Any:
        def forward(ctx: Any, x: Any) -> Any:
            with t.enable_grad():
                inner = x.detach().requires_grad_()
                (ctx.slope,) = t.autograd.grad(inner.exp().sum(), inner)
                return x * 2

        x = leaf(t)
        y = made(t, forward, lambda ctx, g: g * ctx.slope).apply(x)
        y.sum().backward()
        return [x.grad, y.grad_fn.name()]

    agree(program)


# Inputs and ctx ---------------------------------------------------------------------------------


def test_needs_input_grad_tells_which_inputs_require_grad() -> None:
    def program(t: Any) -> Any:
        seen: list[Any] = []

        def forward(ctx: Any, x: Any, y: Any, k: int) -> Any:
            seen.append(list(ctx.needs_input_grad))
            return x * y

        def backward(ctx: Any, g: Any) -> Any:
            seen.append(list(ctx.needs_input_grad))
            return g, g, None

        x, plain = leaf(t), t.ones(2)
        function = made(t, forward, backward)
        function.apply(x, plain, 3).sum().backward()
        with t.no_grad():
            function.apply(x, plain, 3)
        return [seen, x.grad]

    agree(program)


def test_default_arguments() -> None:
    def program(t: Any) -> Any:
        def forward(ctx: Any, x: Any, k: int = 3) -> Any:
            ctx.k = k
            return x * k

        def separate(x: Any, k: int = 3) -> Any:
            return x * k

        def setup(ctx: Any, inputs: Any, output: Any) -> None:
            ctx.k, ctx.count = inputs[1], len(inputs)

        x = leaf(t)
        made(t, forward, lambda ctx, g: g * ctx.k).apply(x).sum().backward()
        y = made(t, separate, lambda ctx, g: (g * ctx.k, None), setup_context=setup).apply(x)
        y.sum().backward()
        return [x.grad, y.grad_fn.count]

    agree(program)


def test_setup_context_sees_inputs_and_output() -> None:
    def program(t: Any) -> Any:
        seen: list[Any] = []

        def setup(ctx: Any, inputs: Any, output: Any) -> None:
            seen.append([type(inputs).__name__, type(output).__name__, len(output)])
            ctx.save_for_backward(inputs[0], output[1])

        def backward(ctx: Any, g: Any, h: Any) -> Any:
            x, o = ctx.saved_tensors
            return g * 2 + h * 3 * o * x

        x = leaf(t)
        a, b = made(t, lambda x: (x * 2, x * 3), backward, setup_context=setup).apply(x)
        (a + b).sum().backward()
        return [x.grad, seen]

    agree(program)


def test_vjp_is_another_name_of_backward() -> None:
    def program(t: Any) -> Any:
        body = {"forward": lambda ctx, x: x * 2, "vjp": lambda ctx, g: g * 7}
        methods = {k: staticmethod(v) for k, v in body.items()}
        x = leaf(t)
        type("V", (t.autograd.Function,), methods).apply(x).sum().backward()
        return x.grad

    agree(program, [7.0, 7.0])


def test_save_for_backward_none_twice_and_wrong() -> None:
    def program(t: Any) -> Any:
        def forward(ctx: Any, x: Any) -> Any:
            ctx.save_for_backward(x)
            ctx.save_for_backward(None, x)
            return x * 2

        def backward(ctx: Any, g: Any) -> Any:
            nothing, x = ctx.saved_tensors
            return g * x if nothing is None else g

        x = leaf(t)
        made(t, forward, backward).apply(x).sum().backward()
        wrong = made(t, lambda ctx, x: (ctx.save_for_backward([x]), x * 1)[1])
        forward_wrong = made(t, lambda ctx, x: (ctx.save_for_forward(3), x * 1)[1])
        return [x.grad, said(lambda: wrong.apply(x)), said(lambda: forward_wrong.apply(x))]

    agree(program)


def test_ctx_before_the_call_is_recorded() -> None:
    def program(t: Any) -> Any:
        seen: list[Any] = []

        def forward(ctx: Any, x: Any) -> Any:
            seen.append([type(ctx).__name__, ctx.name(), list(ctx.needs_input_grad)])
            seen.append([list(ctx.saved_tensors), dict(ctx.metadata)])
            ctx.register_hook(lambda inputs, grads: seen.append("hook"))
            ctx.mine = 3
            return x * 2

        x = leaf(t)
        y = made(t, forward).apply(x)
        y.sum().backward()
        node = y.grad_fn
        return [seen, node.mine, node.requires_grad, [n[0].name() for n in node.next_functions]]

    agree(program)


def test_a_call_that_records_nothing_has_an_empty_ctx() -> None:
    def program(t: Any) -> Any:
        seen: list[Any] = []

        def forward(ctx: Any, x: Any) -> Any:
            ctx.save_for_backward(x)
            seen.append(ctx)
            return x * 2

        y = made(t, forward).apply(t.ones(2))
        ctx = seen[0]
        needed = list(ctx.needs_input_grad)
        return [len(ctx.saved_tensors), len(ctx.next_functions), needed, y.requires_grad]

    agree(program)


def test_classes_of_functions_and_their_nodes() -> None:
    def program(t: Any) -> Any:
        function, graph = t.autograd.function, t.autograd.graph
        first = made(t, lambda ctx, x: x * 2, lambda ctx, g: g * 2, name="First")
        second = type("Second", (first,), {"backward": staticmethod(lambda ctx, g: g * 3)})
        x = leaf(t)
        node = second.apply(x).grad_fn
        second.apply(x).sum().backward()
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            instance = second()
            inplace = function.InplaceFunction(inplace=True).inplace
        return [
            [x.grad, node.name(), type(node).__name__],
            [issubclass(second, function.FunctionCtx), isinstance(node, function.FunctionCtx)],
            [isinstance(node, function.BackwardCFunction), isinstance(node, graph.Node)],
            [issubclass(type(node), graph.Node), function._ContextMethodMixin.__name__],
            [[w.category.__name__ for w in caught], said(lambda: instance(x)), inplace],
        ]

    agree(program)


def test_methods_that_must_be_overridden() -> None:
    def program(t: Any) -> Any:
        function = t.autograd.Function
        return [
            said(lambda: function.forward(1)),
            said(lambda: function.backward(1)),
            said(lambda: function.jvp(1)),
            said(lambda: function.setup_context(1, 2, 3)),
            said(lambda: function.vmap(1, 2, 3)),
        ]

    agree(program)


def test_old_ctx_names_warn() -> None:
    def program(t: Any) -> Any:
        def forward(ctx: Any, x: Any) -> Any:
            ctx.save_for_backward(x)
            ctx.mark_shared_storage((x, x))
            return x * 2

        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            x = leaf(t)
            found = made(t, forward).apply(x).grad_fn.saved_variables
        return [[w.category.__name__ for w in caught], found[0] is x]

    agree(program)


# Written inputs ---------------------------------------------------------------------------------


def test_a_written_view_rewrites_the_history_of_its_base() -> None:
    def program(t: Any) -> Any:
        x = leaf(t, 1.0, 2.0, 3.0)
        base = x * 1
        view = base[1:]
        y = marked(t).apply(view)
        base.sum().backward()
        return [y is view, base.grad_fn.name(), view.grad_fn.name(), base, x.grad]

    agree(program)


def test_what_may_not_be_marked_as_written() -> None:
    def program(t: Any) -> Any:
        def two(ctx: Any, x: Any) -> Any:
            ctx.mark_dirty(x)
            return x, x * 1

        several = made(t, two, lambda ctx, g, h: g)
        return [
            said(lambda: marked(t).apply(leaf(t))),
            said(lambda: marked(t).apply(leaf(t)[1:])),
            said(lambda: several.apply((leaf(t) * 1)[1:])),
        ]

    agree(program)


def test_a_written_input_under_no_grad_is_written_and_not_recorded() -> None:
    def program(t: Any) -> Any:
        x, plain = leaf(t), t.ones(2)
        with t.no_grad():
            y = marked(t).apply(x)
        z = marked(t).apply(plain)
        return [x._version, x.is_leaf, x.requires_grad, y.requires_grad, y, z is plain]

    agree(program)


def test_a_written_input_joins_the_graph_and_its_saved_copies_are_stale() -> None:
    def program(t: Any) -> Any:
        def scale(ctx: Any, x: Any, w: Any) -> Any:
            x.mul_(w)
            ctx.mark_dirty(x)
            return x

        w, plain = leaf(t), t.ones(2)
        y = made(t, scale, lambda ctx, g: (g, g)).apply(plain, w)
        y.sum().backward()
        a = leaf(t)
        x = a * 1
        square = x * x
        once = marked(t)
        once.apply(once.apply(x))
        x.sum().backward()
        stale = said(lambda: square.sum().backward())
        return [y is plain, plain.grad_fn.name(), w.grad, plain._version, a.grad, x, stale]

    agree(program)


def test_a_saved_input_that_forward_writes_is_saved_as_written() -> None:
    def program(t: Any) -> Any:
        def forward(ctx: Any, x: Any) -> Any:
            ctx.save_for_backward(x)
            x.mul_(2)
            ctx.mark_dirty(x)
            return x

        a = leaf(t)
        made(t, forward, lambda ctx, g: g * ctx.saved_tensors[0]).apply(a * 1).sum().backward()
        return a.grad

    agree(program)


# Gradients --------------------------------------------------------------------------------------

RETURNED: dict[str, Callable[[Any, Any], Any]] = {
    "none": lambda t, g: None,
    "nones too many": lambda t, g: (g, None, None),
    "too many": lambda t, g: (g, g),
    "a list": lambda t, g: [g],
    "to be summed": lambda t, g: g.new_ones(3, 2),
    "to be expanded": lambda t, g: t.tensor(3.0),
    "double": lambda t, g: g.double() * 3,
    "integers": lambda t, g: g.to(t.int64) * 3,
    "complex": lambda t, g: g * (1 + 2j),
    "a string": lambda t, g: "no",
}


@pytest.mark.parametrize("what", RETURNED)
def test_what_backward_may_return(what: str) -> None:
    def program(t: Any) -> Any:
        x = leaf(t)
        function = made(t, lambda ctx, x: x * 1, lambda ctx, g: RETURNED[what](t, g))
        told = said(lambda: function.apply(x).sum().backward())
        return [told, None if x.grad is None else [x.grad, str(x.grad.dtype)]]

    agree(program)


def test_gradients_of_arguments_that_are_no_tensors_or_need_none() -> None:
    def program(t: Any) -> Any:
        two = made(t, lambda ctx, x, other: x * 1, lambda ctx, g: (g, g))
        x = leaf(t)
        number = said(lambda: two.apply(x, 3).sum().backward())
        two.apply(x, t.ones(2)).sum().backward()
        few = made(t, lambda ctx, x, k: x * 1)
        return [number, x.grad, said(lambda: few.apply(x, 3).sum().backward())]

    agree(program)


def test_a_none_gradient_goes_on_as_undefined() -> None:
    def program(t: Any) -> Any:
        seen: list[Any] = []
        x = leaf(t)
        y = x * 2
        y.register_hook(lambda g: seen.append(g))
        made(t, lambda ctx, x: x * 1, lambda ctx, g: None).apply(y).sum().backward()
        return [x.grad is None, seen]

    agree(program)


@pytest.mark.parametrize("materialize", [True, False])
@pytest.mark.parametrize("by", ["function", "pre-hook"])
@pytest.mark.parametrize("create_graph", [True, False])
def test_several_outputs_of_which_none_gets_a_gradient(
    by: str, materialize: bool, create_graph: bool
) -> None:
    def program(t: Any) -> Any:
        seen: list[Any] = []

        def forward(ctx: Any, x: Any) -> Any:
            ctx.set_materialize_grads(materialize)
            return x * 1, x * 2

        def backward(ctx: Any, *grads: Any) -> Any:
            seen.append(listed(grads))
            return grads[0]

        x = leaf(t)
        a, b = made(t, forward, backward).apply(x)
        if by == "function":
            none = lambda ctx, g: (None, None)  # noqa: E731
            end = made(t, lambda ctx, p, q: p + q, none).apply(a, b)
        else:
            a.grad_fn.register_prehook(lambda grads: (None, None))
            end = a + b
        (g,) = t.autograd.grad(end.sum(), x, allow_unused=True, create_graph=create_graph)
        return [seen, g]

    agree(program)


def test_a_function_that_saves_nothing_runs_backward_twice() -> None:
    def program(t: Any) -> Any:
        x = leaf(t)
        y = made(t, lambda ctx, x: x * 2, lambda ctx, g: g * 2).apply(x)
        y.backward(t.ones(2))
        y.backward(t.ones(2))
        return [x.grad, said(lambda: y.grad_fn.saved_tensors)]

    agree(program)


def test_once_differentiable_marks_its_results() -> None:
    def program(t: Any) -> Any:
        once = t.autograd.function.once_differentiable
        x = leaf(t)
        function = made(t, lambda ctx, x: x * 2, once(lambda ctx, g: g * 2))
        v = t.ones(2, requires_grad=True)
        (g,) = t.autograd.grad(function.apply(x), x, v, create_graph=True)
        (h,) = t.autograd.grad(function.apply(x), x, t.ones(2), create_graph=True)
        return [
            g.requires_grad,
            g.grad_fn.name(),
            h.requires_grad,
            said(lambda: g.sum().backward()),
        ]

    agree(program)


def _graph(node: Any) -> Any:
    """A node's name with those of what is behind it."""
    return node and [type(node).__name__, [_graph(behind) for behind, _ in node.next_functions]]


def test_the_graph_of_gradients_that_are_differentiable_once() -> None:
    def program(t: Any) -> Any:
        once = t.autograd.function.once_differentiable
        function = made(t, lambda ctx, a, b, c: a * b * c, once(lambda ctx, g: (g, None, g * 2)))
        a, b, c = leaf(t), leaf(t), leaf(t)
        v = t.ones(2, requires_grad=True)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            function.apply(a, b, c).backward(v, create_graph=True)
        history, other = a.grad.grad_fn, c.grad.grad_fn
        seen = [_graph(history), _graph(other), b.grad]
        error, number = other.next_functions[1]
        seen += [error is history.next_functions[1][0], number]
        seen += [error.next_functions[0][0] is error.next_functions[0][0]]
        a.grad = c.grad = None
        return seen

    agree(program)


def test_what_lies_behind_a_gradient_that_is_differentiable_once_is_not_left_out() -> None:
    # torch ends the graph there: its `grad` returns what comes by other ways alone.
    once = ag_visual.autograd.function.once_differentiable
    function = made(ag_visual, lambda ctx, x: x * 2, once(lambda ctx, g: g * 2))
    w = leaf(ag_visual)
    x = w * 3
    y = function.apply(x)
    (g,) = ag_visual.autograd.grad((y * y).sum(), x, create_graph=True)
    with pytest.raises(RuntimeError, match="differentiate twice"):
        ag_visual.autograd.grad(g.sum() + y.sum(), w)


def test_grad_mode_in_forward_and_backward() -> None:
    def program(t: Any) -> Any:
        seen: list[bool] = []

        def forward(ctx: Any, x: Any) -> Any:
            seen.append(t.is_grad_enabled())
            return x * 1

        def backward(ctx: Any, g: Any) -> Any:
            seen.append(t.is_grad_enabled())
            return g * 1

        x = leaf(t)
        y = made(t, forward, backward).apply(x)
        t.autograd.grad(y.sum(), x, retain_graph=True)
        t.autograd.grad(y.sum(), x, create_graph=True)
        return seen

    agree(program, [False, False, True])


def test_errors_in_forward_and_backward_leave_the_modes_alone() -> None:
    def program(t: Any) -> Any:
        def fail(*args: Any) -> Any:
            raise KeyError("mine")

        x = leaf(t)
        first = raised(lambda: made(t, fail).apply(x))
        after = t.is_grad_enabled()
        second = raised(lambda: made(t, lambda ctx, x: x * 1, fail).apply(x).sum().backward())
        return [first, after, second, t.is_grad_enabled()]

    agree(program)


def test_raw_saved_tensors_of_a_custom_function() -> None:
    def program(t: Any) -> Any:
        seen: list[Any] = []

        def forward(ctx: Any, x: Any) -> Any:
            y = x.exp()
            ctx.save_for_backward(x, y)
            return y

        x = leaf(t)
        y = made(t, forward, lambda ctx, g: g * ctx.saved_tensors[1]).apply(x)
        pack = lambda v: (seen.append(v.requires_grad), v)[1]  # noqa: E731
        y.grad_fn._raw_saved_tensors[1].register_hooks(pack, lambda v: (seen.append("back"), v)[1])
        y.sum().backward()
        return [seen, x.grad, said(lambda: y.grad_fn._raw_saved_tensors)]

    agree(program)


def test_marking_what_is_no_input_as_dirty_warns_and_goes_on() -> None:
    def program(t: Any) -> Any:
        def forward(ctx: Any, x: Any) -> Any:
            y = x.clone()
            ctx.mark_dirty(y)
            return y

        x = leaf(t)
        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always")
            y = made(t, forward, lambda ctx, g: g * 3).apply(x)
        y.sum().backward()
        said = [str(w.message)[:62] for w in told if w.category is UserWarning]
        return [said, y._version, x.grad]

    agree(program)


def test_dirty_views_are_refused_for_how_they_were_made_before_their_leaf() -> None:
    def program(t: Any) -> Any:
        x = leaf(t)
        parts = [x.split(1)[0], x.view(2)]
        texts = [raised(lambda part=part: marked(t).apply(part))[1] for part in parts]
        return [text[text.index(" is ") :].splitlines()[0] for text in texts]

    agree(program)


def test_a_view_from_a_function_that_recorded_nothing_is_still_from_a_function() -> None:
    def program(t: Any) -> Any:
        results = []
        for forward in (lambda ctx, x: x.view_as(x), lambda ctx, x: x):
            view = made(t, forward).apply(t.ones(2))
            results.append(raised(lambda view=view: view.add_(leaf(t)))[1][:175])
        return results

    agree(program)


def test_an_input_returned_as_it_is_keeps_its_subclass() -> None:
    def program(t: Any) -> Any:
        class Named(t.Tensor):
            pass

        x = leaf(t).as_subclass(Named)
        y = made(t, lambda ctx, x: x).apply(x)
        y.sum().backward(inputs=[x])
        kinds = [raised(lambda cls=cls: x.as_subclass(cls)) for cls in (int, 3)]
        return [
            [type(x).__name__, x.requires_grad, type(x.grad_fn).__name__],
            [type(y).__name__, x.grad],
            [[kind, text[:78]] for kind, text in kinds],
        ]

    agree(program)


@pytest.mark.oracle
def test_a_write_that_is_refused_after_forward_counts_as_torch_counts_it() -> None:
    def program(torch: Any) -> Any:
        class Doubled(torch.autograd.Function):
            @staticmethod
            def forward(ctx: Any, x: Any) -> Any:
                ctx.mark_dirty(x)
                return x.mul_(2)

            @staticmethod
            def backward(ctx: Any, g: Any) -> Any:
                return g * 2

        x = torch.ones(2, requires_grad=True)
        y = torch.ones(2, requires_grad=True) * 1
        Doubled.apply(y)
        return [raised(lambda: Doubled.apply(x))[0], x._version, y._version]

    agree(program)
