"""The engine: which nodes run and in which order, nesting, callbacks, edges as roots and inputs."""

from __future__ import annotations

import gc
import threading
import warnings
import weakref
from contextlib import nullcontext
from typing import Any

import pytest

import ag_visual
from ag_visual.core import source
from tests.oracle import every_warning, torch
from tests.programs import agree, expect, raised


def test_gradient_edges_as_roots_and_inputs() -> None:
    def program(t: Any) -> Any:
        edge = t.autograd.graph.get_gradient_edge
        x = t.tensor([2.0, 3.0], requires_grad=True)
        y = x * x
        z = y.sum()
        leaf = edge(x)
        seen = [
            leaf.node.name(),
            leaf.output_nr,
            edge(y).node is y.grad_fn,
            t.autograd.grad(z, edge(x), retain_graph=True)[0],
            t.autograd.grad(z, [edge(y), x], retain_graph=True),
            t.autograd.grad(edge(z), x, grad_outputs=t.tensor(3.0), retain_graph=True)[0],
        ]
        t.autograd.backward(edge(y), t.ones(2), inputs=[edge(x)], retain_graph=True)
        t.autograd.backward([edge(z), y], [t.tensor(1.0), t.ones(2)])
        return [*seen, x.grad]

    agree(program)


def test_gradient_edge_of_one_output_of_several() -> None:
    def program(t: Any) -> Any:
        edge = t.autograd.graph.get_gradient_edge
        x = t.tensor([1.0, 2.0], requires_grad=True)
        a, b = (x * 2).unbind()
        e = edge(b)
        return [
            e.output_nr,
            t.autograd.grad(e, x, grad_outputs=t.tensor(5.0), retain_graph=True)[0],
            t.autograd.grad(a * 3 + b * 4, [edge(a), e])[0],
        ]

    agree(program)


def test_materialize_grads_and_gradient_edges() -> None:
    def program(t: Any) -> Any:
        x = t.tensor([2.0], requires_grad=True)
        w = t.tensor([2.0, 3.0], requires_grad=True)
        y = x * 2
        gx, gw = t.autograd.grad(y, [x, w], materialize_grads=True, retain_graph=True)
        return [gx, gw]

    agree(program)


def test_materialize_grads_refuses_only_edges_without_a_gradient() -> None:
    def program(t: Any) -> Any:
        edge = t.autograd.graph.get_gradient_edge
        used = t.tensor([2.0], requires_grad=True).clone()
        unused = t.tensor([2.0], requires_grad=True).clone()
        keep: dict[str, Any] = {"materialize_grads": True, "retain_graph": True}
        y = (used * 2).sum()
        found = t.autograd.grad(y, (edge(used), unused), **keep)
        kind, text = raised(lambda: t.autograd.grad(y, (used, edge(unused)), **keep))
        return [list(found), kind, text[:71]]

    agree(program)


def test_materialized_zeros_require_grad_in_2_8() -> None:
    x = ag_visual.ones(2, requires_grad=True)
    w = ag_visual.ones(3, requires_grad=True)
    _, gw = ag_visual.autograd.grad((x * x).sum(), [x, w], materialize_grads=True)
    assert gw.requires_grad  # not in 2.13
    assert gw.tolist() == [0.0] * 3


def test_inputs_limit_the_graph_to_what_is_needed() -> None:
    def program(t: Any) -> Any:
        seen: list[str] = []
        x, w = t.ones(1, requires_grad=True), t.ones(1, requires_grad=True)
        a, b = x * 2, w * 3
        a.grad_fn.register_hook(lambda gi, go: seen.append("a"))
        b.grad_fn.register_hook(lambda gi, go: seen.append("b"))
        (a + b).backward(inputs=[x])
        return [seen, x.grad, w.grad is None]

    agree(program, [["a"], [2.0], True])


def test_nodes_that_cannot_be_differentiated_do_not_run_when_not_needed() -> None:
    def program(t: Any) -> Any:
        class Bad(t.autograd.Function):  # type: ignore[name-defined, misc]
            @staticmethod
            def forward(ctx: Any, x: Any) -> Any:
                return x * 1

            @staticmethod
            def backward(ctx: Any, g: Any) -> Any:
                raise RuntimeError("must not run")

        x, w = t.ones(1, requires_grad=True), t.ones(1, requires_grad=True)
        z = x * 2 + Bad.apply(w)
        (g,) = t.autograd.grad(z, x, retain_graph=True)
        return [g, raised(lambda: z.backward())[1]]

    agree(program, [[2.0], "must not run"])


def test_a_non_leaf_input_of_backward_gets_grad_and_what_is_above_is_left_alone() -> None:
    def program(t: Any) -> Any:
        x = t.ones(2, requires_grad=True)
        y = x * 2
        z = (y * y).sum()
        z.backward(inputs=[y, x], retain_graph=True)
        first = [y.grad, x.grad]
        z.backward(inputs=[y])
        return [*first, y.grad, x.grad]

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        agree(program)


def test_callbacks_run_at_the_end_of_their_graph_task() -> None:
    def program(t: Any) -> Any:
        seen: list[Any] = []
        engine = t.autograd.Variable._execution_engine
        x = t.ones(1, requires_grad=True)
        w = t.ones(1, requires_grad=True)

        def inner(g: Any) -> None:
            engine.queue_callback(lambda: seen.append("inner callback"))
            seen.append("inner")

        def outer(g: Any) -> None:
            engine.queue_callback(lambda: seen.append("outer callback"))
            with t.enable_grad():
                u = w * 2
                u.register_hook(inner)
                u.backward()
            seen.append("outer")

        y = x * 2
        y.register_hook(outer)
        x.register_hook(lambda g: seen.append("leaf"))
        y.backward()
        return [seen, raised(lambda: engine.queue_callback(lambda: None))]

    agree(program)


def test_callbacks_may_queue_callbacks_and_their_errors_reach_the_caller() -> None:
    def program(t: Any) -> Any:
        seen: list[Any] = []
        engine = t.autograd.Variable._execution_engine

        def fail() -> None:
            raise ValueError("from a callback")

        def first() -> None:
            seen.append("first")
            engine.queue_callback(lambda: seen.append("second"))

        x = t.ones(1, requires_grad=True)
        y = x * 2
        handle = y.register_hook(lambda g: engine.queue_callback(first))
        y.backward(retain_graph=True)
        handle.remove()
        y.register_hook(lambda g: engine.queue_callback(fail))
        kind, text = raised(lambda: y.backward())
        return [seen, kind, text]

    agree(program)


def test_is_checkpoint_valid() -> None:
    def program(t: Any) -> Any:
        seen: list[bool] = []
        engine = t.autograd.Variable._execution_engine
        x = t.ones(1, requires_grad=True)
        y = x * 2
        y.register_hook(lambda g: seen.append(engine.is_checkpoint_valid()))
        y.backward(retain_graph=True)
        t.autograd.grad(y, x, retain_graph=True)
        y.backward(inputs=[x])
        return [seen, engine.is_checkpoint_valid()]

    agree(program, [[True, False, False], True])


def test_undefined_gradients_propagate() -> None:
    def program(t: Any) -> Any:
        seen: list[Any] = []

        class Nothing(t.autograd.Function):  # type: ignore[name-defined, misc]
            @staticmethod
            def forward(ctx: Any, x: Any) -> Any:
                return x * 1

            @staticmethod
            def backward(ctx: Any, g: Any) -> Any:
                return None

        x = t.ones(2, requires_grad=True)
        y = x * 2
        y.grad_fn.register_hook(lambda gi, go: seen.append([g is None for g in (*gi, *go)]))
        y.register_hook(lambda g: seen.append("tensor hook"))
        Nothing.apply(y).sum().backward()
        return [seen, x.grad is None]

    agree(program)


def test_none_is_given_for_outputs_without_gradient_when_not_materialized() -> None:
    def program(t: Any) -> Any:
        seen: list[Any] = []

        class Two(t.autograd.Function):  # type: ignore[name-defined, misc]
            @staticmethod
            def forward(ctx: Any, x: Any) -> Any:
                ctx.set_materialize_grads(False)
                return x * 1, x * 2

            @staticmethod
            def backward(ctx: Any, a: Any, b: Any) -> Any:
                seen.append([a is None, b is None])
                return a if b is None else b * 2

        x = t.ones(2, requires_grad=True)
        a, b = Two.apply(x)
        a.sum().backward(retain_graph=True)
        b.sum().backward()
        return [seen, x.grad]

    agree(program)


def test_reentrant_backward_accumulates_and_errors_reach_the_parent() -> None:
    def program(t: Any) -> Any:
        class Nested(t.autograd.Function):  # type: ignore[name-defined, misc]
            @staticmethod
            def forward(ctx: Any, x: Any) -> Any:
                with t.enable_grad():
                    ctx.x = x.detach().requires_grad_()
                    ctx.y = ctx.x * ctx.x
                return ctx.y.detach()

            @staticmethod
            def backward(ctx: Any, g: Any) -> Any:
                with t.enable_grad():
                    ctx.y.backward(g, retain_graph=True)
                if float(g.sum()) > 5:
                    raise ValueError("too large")
                return ctx.x.grad

        x = t.tensor([3.0], requires_grad=True)
        Nested.apply(x).backward()
        y = Nested.apply(x) * 10
        return [x.grad, raised(lambda: y.backward())[1]]

    agree(program)


def test_grad_mode_inside_a_backward_is_create_graph() -> None:
    def program(t: Any) -> Any:
        seen: list[bool] = []
        x = t.tensor([2.0], requires_grad=True)
        y = x * x
        y.register_hook(lambda g: seen.append(t.is_grad_enabled()))
        t.autograd.grad(y, x, retain_graph=True)
        t.autograd.grad(y, x, create_graph=True)
        with t.no_grad():
            t.autograd.grad(y, x)
        return seen

    agree(program, [False, True, False])


def test_cpu_backward_runs_in_the_calling_thread() -> None:
    def program(t: Any) -> Any:
        seen: list[bool] = []
        me = threading.get_ident()
        x = t.ones(1, requires_grad=True)
        y = x * 2
        y.register_hook(lambda g: seen.append(threading.get_ident() == me))
        y.backward()
        return seen

    agree(program, [True])


def test_deep_graphs_of_every_kind_of_node() -> None:
    class Same(ag_visual.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            return x * 1

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            return g

    depth = 20_000
    x = ag_visual.ones(1, requires_grad=True)
    chains = {
        "function": lambda y: y + 1,
        "branching": lambda y: y * 0.5 + y * 0.5,
        "view": lambda y: y.view(1),
        "in place": lambda y: y.add_(0.0),
        "written view": lambda y: (y.view(1).mul_(1.0), y)[1],
        "custom": Same.apply,
    }
    for name, step in chains.items():
        count = depth if name != "custom" else depth // 10
        y = x * 1
        for _ in range(count):
            y = step(y)
        x.grad = None
        y.backward()
        assert x.grad.tolist() == [1.0], name
        node = weakref.ref(y.grad_fn)
        del y
        assert node() is None, name


def test_a_deep_graph_is_dropped_without_a_backward() -> None:
    x = ag_visual.ones(1, requires_grad=True)
    y = x * 1
    for _ in range(100_000):
        y = y + 1
    node = weakref.ref(y.grad_fn)
    gc.disable()
    try:
        del y
        assert node() is None
    finally:
        gc.enable()


def test_errors_inside_a_thread_stay_there_and_leave_the_modes_alone() -> None:
    def program(t: Any) -> Any:
        seen: list[Any] = []

        def work() -> None:
            x = t.ones(2, requires_grad=True)
            seen.append(raised(lambda: (x * 2).backward())[0])
            seen.append(t.is_grad_enabled())

        with t.no_grad():
            thread = threading.Thread(target=work)
            thread.start()
            thread.join()
        return seen

    agree(program, ["RuntimeError", True])


def test_is_grads_batched_gives_the_jacobian() -> None:
    def program(t: Any) -> Any:
        x = t.tensor([1.0, 2.0, 3.0], requires_grad=True)
        y = x * x
        (jacobian,) = t.autograd.grad(y, x, t.eye(3), is_grads_batched=True, retain_graph=True)
        kind, text = raised(
            lambda: t.autograd.grad(y, x, t.ones(3, 2), is_grads_batched=True, retain_graph=True)
        )
        return [jacobian, kind, text[:90]]

    agree(program)


def test_integer_and_unrelated_roots() -> None:
    def program(t: Any) -> Any:
        x = t.ones(2, requires_grad=True)
        n = t.ones(2)
        return [
            raised(lambda: t.autograd.backward([x.sum(), n.sum()]))[1][:70],
            raised(lambda: t.autograd.grad(x.sum(), [x, n]))[1][:55],
            raised(lambda: t.autograd.grad([], [x]))[0] != "",
        ][:2]

    agree(program)


def test_accumulate_grad_layouts() -> None:
    def program(t: Any) -> Any:
        seen = []
        dense = t.ones(3, 4).t().clone().requires_grad_()
        other = t.empty_strided((3, 4), (1, 3)).fill_(1).requires_grad_()
        (dense * 2).sum().backward()
        (other * 2).sum().backward()
        seen += [dense.grad.stride(), other.grad.stride()]
        base = t.ones(4, 4)
        gaps = base.as_strided((2, 2), (1, 3)).detach().requires_grad_()
        (gaps * 2).sum().backward()
        seen.append(gaps.grad.stride())
        flat = t.ones(1).expand(4).detach().requires_grad_()
        (flat * 2).sum().backward()
        seen.append(flat.grad.stride())
        given = t.ones(3)
        x = t.ones(3, requires_grad=True)
        x.backward(given)
        given.mul_(5)
        seen.append(x.grad)
        first = x.grad
        (x * 2).sum().backward()
        seen.append(x.grad is first)
        return [list(s) if isinstance(s, tuple) else s for s in seen]

    agree(program)


def test_existing_grad_with_create_graph_gives_a_new_tensor() -> None:
    def program(t: Any) -> Any:
        x = t.ones(3, requires_grad=True)
        (x * x).sum().backward()
        first = x.grad
        once = every_warning() if t is torch else nullcontext()
        with once, warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            (x * x).sum().backward(create_graph=True)
        return [x.grad is first, x.grad.requires_grad, x.grad, first, len(caught)]

    agree(program)


def test_a_strided_grad_that_is_set_by_the_user_keeps_its_layout() -> None:
    def program(t: Any) -> Any:
        x = t.ones(2, 3, requires_grad=True)
        x.grad = t.ones(3, 2).t()
        (x * 2).sum().backward()
        return [list(x.grad.stride()), x.grad]

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # 2.13 warns of the layout
        agree(program)


def test_grad_of_the_same_tensor_as_output_and_input() -> None:
    def program(t: Any) -> Any:
        x = t.tensor([2.0], requires_grad=True)
        y = x * 3
        return [
            t.autograd.grad(x, x, t.tensor([5.0]))[0],
            t.autograd.grad(y, y, t.tensor([5.0]))[0],
            t.autograd.grad([y, y], [x, x], [t.tensor([1.0]), t.tensor([2.0])]),
        ]

    agree(program)


def test_a_leaf_as_root() -> None:
    def program(t: Any) -> Any:
        seen: list[str] = []
        x = t.tensor(2.0, requires_grad=True)
        x.register_hook(lambda g: seen.append("hook"))
        x.backward()
        x.backward(t.tensor(3.0))
        return [x.grad, seen]

    agree(program)


def test_calling_a_node() -> None:
    def program(t: Any) -> Any:
        x = t.tensor([2.0], requires_grad=True)
        y = x * x
        a, _ = x.expand(2).unbind()
        return [
            y.grad_fn(t.tensor([3.0])),
            raised(lambda: y.grad_fn(t.tensor([3.0]), t.tensor([3.0]))),
            a.grad_fn(t.tensor(1.0), None),
            isinstance(y.grad_fn, t.autograd.graph.Node),
            issubclass(type(y.grad_fn), t.autograd.graph.Node),
            isinstance(x, t.autograd.graph.Node),
        ]

    agree(program)


def test_input_metadata_of_nodes() -> None:
    def program(t: Any) -> Any:
        x = t.ones(2, 3, requires_grad=True)
        (meta,) = (x * 2).grad_fn._input_metadata
        return [list(meta.shape), str(meta.dtype), str(meta.device)]

    agree(program)


def test_sequence_numbers_grow() -> None:
    def program(t: Any) -> Any:
        x = t.ones(1, requires_grad=True)
        a = x * 2
        b = a * 2
        return [b.grad_fn._sequence_nr() - a.grad_fn._sequence_nr()]

    agree(program, [1])


def test_will_engine_execute_node() -> None:
    graph = ag_visual.autograd.graph
    seen: list[Any] = []
    x, w = ag_visual.ones(1, requires_grad=True), ag_visual.ones(1, requires_grad=True)
    a, b = x * 2, w * 3
    other = w * 5
    c = a + b
    leaf = a.grad_fn.next_functions[0][0]

    def look(g: Any) -> None:
        seen.append(
            [
                graph._will_engine_execute_node(node)
                for node in (a.grad_fn, b.grad_fn, other.grad_fn, leaf)
            ]
        )
        seen.append(graph._get_should_execute_nodes([a.grad_fn, b.grad_fn]))

    c.register_hook(look)
    c.backward(retain_graph=True)
    assert seen == [[True, True, False, True], [True, True]]
    seen.clear()
    c.backward(inputs=[x], retain_graph=True)
    assert seen == [[True, False, False, True], [True, False]]
    assert raised(lambda: graph._will_engine_execute_node(x))[1].startswith(
        "_will_engine_execute_node expects an grad_fn, but got Tensor"
    )
    assert "during the backward pass" in raised(lambda: graph._get_should_execute_nodes([]))[1]
    assert (
        "are currently running autograd.grad()"
        in (raised(lambda: ag_visual.autograd.grad(c, x, retain_graph=True))[1])
    )


def test_current_graph_task_execution_order() -> None:
    graph = ag_visual.autograd.graph
    seen: list[Any] = []
    x = ag_visual.ones(1, requires_grad=True)
    a = x * 2
    b = a * 3

    def look(g: Any) -> None:
        seen.extend(type(n).__name__ for n in graph._current_graph_task_execution_order())

    b.register_hook(look)
    with ag_visual.autograd.set_multithreading_enabled(False):
        b.backward(retain_graph=True)
    assert seen == ["MulBackward0", "MulBackward0", "AccumulateGrad"]
    with pytest.raises(RuntimeError, match="multithreading disabled"):
        b.backward(retain_graph=True)
    with pytest.raises(RuntimeError, match="should only be called during the backward pass"):
        graph._current_graph_task_execution_order()


def test_graph_task_ids() -> None:
    def program(t: Any) -> Any:
        seen: list[int] = []
        current = (
            t._C._current_graph_task_id if t is torch else t.autograd.graph._current_graph_task_id
        )
        x = t.ones(1, requires_grad=True)
        y = x * 2
        y.register_hook(lambda g: seen.append(current()))
        y.backward(retain_graph=True)
        y.backward()
        return [len(set(seen)), current()]

    agree(program, [2, -1])


def test_an_unused_output_of_a_multi_output_node() -> None:
    def program(t: Any) -> Any:
        x = t.tensor([[1.0, 5.0], [3.0, 2.0]], requires_grad=True)
        values, indices = x.max(1)
        values.sum().backward()
        return [x.grad, indices.requires_grad]

    agree(program)


def test_branches_are_summed_and_user_arrays_are_never_written() -> None:
    def program(t: Any) -> Any:
        x = t.ones(3, requires_grad=True)
        g = t.ones(3)
        a, b, c = x + 0, x + 0, x + 0
        t.autograd.backward([a, b, c], [g, g, g])
        return [x.grad, g]

    agree(program, [[3.0] * 3, [1.0] * 3])


def test_hooks_on_grads_do_not_alias() -> None:
    def program(t: Any) -> Any:
        kept: list[Any] = []
        x = t.ones(2, requires_grad=True)
        y = x + 0
        z = x + 0
        y.register_hook(lambda g: kept.append(g))
        g = t.ones(2)
        t.autograd.backward([y, z], [g, g])
        x.grad.mul_(10)
        return [kept, g, x.grad]

    agree(program)


def test_concurrent_backwards_over_a_shared_trunk() -> None:
    x = ag_visual.ones(100, requires_grad=True)
    trunk = (x * 2).sin()
    heads = [(trunk * float(i)).sum() for i in range(1, 9)]
    threads = [
        threading.Thread(target=lambda h=head: h.backward(retain_graph=True)) for head in heads
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    expected = (x * 2).cos().detach() * 2 * sum(range(1, 9))
    assert ag_visual.allclose(x.grad, expected, rtol=1e-5)


def test_expect_is_used_where_2_8_and_2_13_differ() -> None:
    expect(lambda t: raised(lambda: t.autograd.grad(t.ones(1), []))[0], "ValueError")


def test_batched_gradients_of_unused_inputs_and_of_no_batch() -> None:
    def program(t: Any) -> Any:
        x, z = t.ones(3, requires_grad=True), t.ones(3, requires_grad=True)

        def batched(inputs: Any, grads: Any, **more: Any) -> Any:
            return t.autograd.grad(x * 2, inputs, grads, is_grads_batched=True, **more)

        return [
            raised(lambda: batched([x, z], t.eye(3)))[0],
            batched([x, z], t.eye(3), allow_unused=True)[1],
            batched([x, z], t.eye(3), materialize_grads=True)[1].detach(),
            raised(lambda: batched([x], t.zeros(0, 3)))[0],
            raised(lambda: t.autograd.grad([x.sum()], [x], [None], is_grads_batched=True))[0],
        ]

    agree(program)


def test_what_a_backward_records_has_the_place_that_called_for_it() -> None:
    x = ag_visual.ones(3, requires_grad=True)
    y = (x @ ag_visual.ones((3, 3))).tanh().sum()
    (g,) = ag_visual.autograd.grad(y, x, create_graph=True)
    lines = {source.resolve_call_site(node.call_site).source_line.strip() for node in recorded(g)}
    assert lines == {
        "(g,) = ag_visual.autograd.grad(y, x, create_graph=True)",
        "y = (x @ ag_visual.ones((3, 3))).tanh().sum()",
    }


def recorded(tensor: Any) -> list[Any]:
    """The nodes that lead to a tensor, but for leaves."""
    nodes = [tensor.grad_fn]
    for node in nodes:
        nodes.extend(e for e, _ in node.next_functions if e is not None and not e.leaf)
    return nodes
