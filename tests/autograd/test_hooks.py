"""Hooks on tensors, nodes, leaves and groups of tensors: what they see, change and may return."""

from __future__ import annotations

import collections
import functools
import gc
import threading
import warnings
import weakref
from typing import Any

import pytest

import ag_visual
from tests.programs import agree, expect, raised


def test_tensor_hooks_precede_pre_hooks_and_each_sees_the_previous_result() -> None:
    def program(t: Any) -> Any:
        seen: list[Any] = []
        x = t.tensor([1.0], requires_grad=True)
        y = x * 2
        y.grad_fn.register_prehook(lambda go: (seen.append(("pre", go[0].item())), (go[0] * 7,))[1])
        y.register_hook(lambda g: (seen.append(("a", g.item())), g * 2)[1])
        y.register_hook(lambda g: (seen.append(("b", g.item())), g * 3)[1])
        y.grad_fn.register_hook(
            lambda gi, go: (seen.append(("post", gi[0].item(), go[0].item())), (gi[0] + 1, None))[1]
        )
        y.backward()
        return [seen, x.grad]

    agree(program)


def test_grad_runs_no_hooks_of_accumulators_and_no_post_accumulate_hooks() -> None:
    def program(t: Any) -> Any:
        seen: list[str] = []
        x = t.tensor([2.0], requires_grad=True)
        y = x * 3
        leaf = y.grad_fn.next_functions[0][0]
        leaf.register_prehook(lambda go: seen.append("leaf pre"))
        leaf.register_hook(lambda gi, go: seen.append("leaf post"))
        x.register_post_accumulate_grad_hook(lambda p: seen.append("after"))
        x.register_hook(lambda g: (seen.append("tensor"), g * 5)[1])
        y.grad_fn.register_prehook(lambda go: seen.append("y pre"))
        y.grad_fn.register_hook(lambda gi, go: seen.append("y post"))
        (g,) = t.autograd.grad(y, x)
        return [g, seen, x.grad is None]

    agree(program, [[15.0], ["y pre", "y post", "tensor"], True])


def test_a_captured_input_with_a_deeper_input_runs_with_all_its_hooks() -> None:
    def program(t: Any) -> Any:
        seen: list[str] = []
        x = t.tensor([2.0], requires_grad=True)
        y = x * 3
        y.register_hook(lambda g: (seen.append("tensor"), g * 5)[1])
        y.grad_fn.register_prehook(lambda go: (seen.append("pre"), (go[0] * 100,))[1])
        y.grad_fn.register_hook(lambda gi, go: seen.append("post"))
        z = y * 2
        gy, gx = t.autograd.grad(z, (y, x))
        return [gy, gx, seen]

    agree(program)


def test_hooks_on_one_output_of_several() -> None:
    def program(t: Any) -> Any:
        seen: list[Any] = []
        x = t.tensor([1.0, 2.0, 3.0], requires_grad=True)
        a, _, c = x.unbind()
        a.register_hook(lambda g: (seen.append(("a", g.item())), g * 10)[1])
        c.register_hook(lambda g: seen.append(("c", g.item())))
        a.grad_fn.register_prehook(lambda go: seen.append(("pre", [g is None for g in go])))
        a.retain_grad()
        (a * 2 + c * 3).backward()
        return [seen, x.grad, a.grad, len(seen)]

    agree(program)


def test_hook_result_must_keep_dtype_size_and_type() -> None:
    def program(t: Any) -> Any:
        def attempt(hook: Any) -> Any:
            x = t.tensor([1.0, 2.0], requires_grad=True)
            (x * 2).register_hook(hook)
            y = x * 2
            y.register_hook(hook)
            kind, text = raised(lambda: y.sum().backward())
            return [kind, text[:45]]

        return [
            attempt(lambda g: g.double()),
            attempt(lambda g: g.narrow(0, 0, 1)),
            attempt(lambda g: "no"),
            attempt(lambda g: None),
        ]

    agree(program)


def test_wrong_numbers_of_values_from_node_hooks() -> None:
    def program(t: Any) -> Any:
        def attempt(post: bool) -> Any:
            x = t.tensor([1.0], requires_grad=True)
            y = x * x
            if post:
                y.grad_fn.register_hook(lambda gi, go: (gi[0],) * 5)
            else:
                y.grad_fn.register_prehook(lambda go: (go[0],) * 5)
            kind, text = raised(lambda: y.backward())
            return [kind, text[:100]]

        return [attempt(True), attempt(False)]

    agree(program)


RETURNED: dict[str, Any] = {
    "a tensor": lambda t, g: g,
    "a tuple": lambda t, g: (g * 2, None),
    "a short tuple": lambda t, g: (g * 2,),
    "a list": lambda t, g: [g * 2, None],
    "nothing in it": lambda t, g: (None, None),
    "a number": lambda t, g: 3,
    "a number in it": lambda t, g: (3, None),
    "for nothing": lambda t, g: (g, g),
    "another size": lambda t, g: (t.ones(3), None),
    "another type": lambda t, g: (g.double(), None),
}


@pytest.mark.parametrize("what", RETURNED)
@pytest.mark.parametrize("when", ["before", "after"])
def test_what_node_hooks_may_return(when: str, what: str) -> None:
    def program(t: Any) -> Any:
        x = t.tensor([1.0, 2.0], requires_grad=True)
        first, second = (x.view(1, 2) * 1).unbind(1)
        pair = t.stack([first, second], 1)
        node = (pair * t.ones(2)).grad_fn if when == "after" else first.grad_fn
        result = RETURNED[what]
        if when == "after":
            y = pair * t.ones(2)
            y.grad_fn.register_hook(lambda inputs, grads: result(t, inputs[0].view(1, 2)))
        else:
            y = (first * 3).sum()
            node.register_prehook(lambda grads: result(t, grads[0]))
        kind, text = raised(lambda: y.sum().backward())
        return [kind, text[:70].split(" (was")[0], x.grad is None or x.grad]

    agree(program)


def test_removal_inside_the_hook() -> None:
    def program(t: Any) -> Any:
        seen: list[str] = []
        x = t.tensor([1.0], requires_grad=True)
        y = x * 2

        def once(g: Any) -> None:
            seen.append("once")
            handle.remove()

        handle = y.register_hook(once)
        y.register_hook(lambda g: seen.append("always"))
        y.backward(retain_graph=True)
        y.backward()
        return seen

    agree(program, ["once", "always", "always"])


def test_leaf_hooks_result_reaches_grad_and_can_be_removed() -> None:
    def program(t: Any) -> Any:
        x = t.tensor([1.0], requires_grad=True)
        handle = x.register_hook(lambda g: g * 10)
        (x * 2).backward()
        first = x.grad.clone()
        handle.remove()
        (x * 2).backward()
        return [first, x.grad]

    agree(program, [[20.0], [22.0]])


def test_post_accumulate_hook_may_drop_the_gradient() -> None:
    def program(t: Any) -> Any:
        seen: list[Any] = []
        x = t.tensor([1.0], requires_grad=True)

        def step(p: Any) -> None:
            seen.append(p.grad.item())
            with t.no_grad():
                p.add_(p.grad, alpha=-0.5)
            p.grad = None

        x.register_post_accumulate_grad_hook(step)
        (x * 2).backward()
        (x * 3).backward()
        return [seen, x, x.grad is None]

    agree(program, [[2.0, 3.0], [-1.5], True])


def test_hooks_registered_before_and_after_an_in_place_op() -> None:
    def program(t: Any) -> Any:
        seen: list[Any] = []
        x = t.tensor([1.0], requires_grad=True)
        y = x * 2
        y.register_hook(lambda g: seen.append(("before", g.item())))
        y.retain_grad()
        y.mul_(3)
        y.register_hook(lambda g: seen.append(("after", g.item())))
        y.retain_grad()
        y.sum().backward()
        return [seen, y.grad, y.retains_grad]

    agree(program)


def test_retain_grad_moves_with_a_base_that_is_written_through_a_view() -> None:
    def program(t: Any) -> Any:
        x = t.tensor([1.0, 2.0], requires_grad=True)
        y = x * 2
        y.retain_grad()
        y.narrow(0, 0, 1).mul_(3)
        y.sum().backward()
        return [y.grad, x.grad, y.grad_fn.name()]

    agree(program)


def test_retain_grad_accumulates_and_is_idempotent() -> None:
    def program(t: Any) -> Any:
        x = t.tensor([1.0], requires_grad=True)
        x.retain_grad()
        y = x * 2
        y.retain_grad()
        y.retain_grad()
        first = y.retains_grad
        (y * 3).backward(retain_graph=True)
        (y * 4).backward()
        return [y.grad, first, x.retains_grad, x.grad]

    agree(program)


def test_multi_grad_hook_all_calls_once_with_none_for_the_unused() -> None:
    def program(t: Any) -> Any:
        calls: list[Any] = []
        a, b, c = (t.tensor([float(i)], requires_grad=True) for i in (1, 2, 3))

        def hook(grads: Any) -> None:
            calls.append([None if g is None else g.item() for g in grads])

        handle = t.autograd.graph.register_multi_grad_hook((a, b, c), hook)
        (a * b).backward()
        (a * b * c).backward()
        handle.remove()
        (a * b).backward()
        return calls

    agree(program, [[2.0, 1.0, None], [6.0, 3.0, 2.0]])


def test_multi_grad_hook_any_calls_with_the_first() -> None:
    def program(t: Any) -> Any:
        calls: list[Any] = []
        a, b = (t.tensor([float(i)], requires_grad=True) for i in (1, 2))
        x, y = a * 2, b * 3
        t.autograd.graph.register_multi_grad_hook(
            (x, y), lambda g: calls.append(g.item()), mode="any"
        )
        z = x * y
        z.backward(retain_graph=True)
        z.backward()
        return calls

    agree(program)


def test_multi_grad_hook_of_non_leaves_under_grad_and_inputs() -> None:
    def program(t: Any) -> Any:
        calls: list[Any] = []
        a = t.tensor([1.0], requires_grad=True)
        b = t.tensor([2.0], requires_grad=True)
        x, y = a * 2, b * 3

        def hook(grads: Any) -> None:
            calls.append([None if g is None else g.item() for g in grads])

        t.autograd.graph.register_multi_grad_hook((x, y), hook)
        z = x * y
        z.backward(inputs=[a], retain_graph=True)
        t.autograd.grad(z, (a, b))
        return calls

    agree(program)


def test_multi_grad_hook_is_thread_safe() -> None:
    calls: list[Any] = []
    leaves = [ag_visual.ones(2, requires_grad=True) for _ in range(4)]
    ag_visual.autograd.graph.register_multi_grad_hook(
        leaves, lambda grads: calls.append(len(grads))
    )

    def work() -> None:
        for _ in range(20):
            sum((leaf * 2).sum() for leaf in leaves).backward()  # type: ignore[union-attr]

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert calls == [4] * 80


def test_hooks_do_not_leak() -> None:
    gc.disable()
    try:
        x = ag_visual.ones(2, requires_grad=True)
        y = x * 2
        y.register_hook(lambda g: g * 2)
        x.register_hook(lambda g: g)
        y.retain_grad()
        node, leaf = weakref.ref(y.grad_fn), weakref.ref(y.grad_fn.next_functions[0][0])
        y.sum().backward()
        del y
        assert node() is None
        assert leaf() is None
        ref = weakref.ref(x)
        del x
        assert ref() is None
    finally:
        gc.enable()


def test_a_cycle_made_by_a_hook_is_collected() -> None:
    x = ag_visual.ones(2, requires_grad=True)
    y = x * 2
    y.register_hook(functools.partial(ag_visual.mul, y.detach()))
    y.register_hook(y.register_hook)  # the node holds the hook, the hook holds y
    ref = weakref.ref(y.grad_fn)
    del y
    gc.collect()
    assert ref() is None


def test_hooks_of_tensors_without_grad() -> None:
    def program(t: Any) -> Any:
        n = t.ones(2)
        x = t.ones(2, requires_grad=True)
        calls = [
            lambda: n.register_hook(lambda g: g),
            lambda: n.retain_grad(),
            lambda: n.register_post_accumulate_grad_hook(lambda p: None),
            lambda: (x * 2).register_post_accumulate_grad_hook(lambda p: None),
            lambda: t.autograd.graph.register_multi_grad_hook((x,), lambda g: g, mode="foo"),
        ]
        return [[kind, text[:60]] for kind, text in map(raised, calls)]

    agree(program)


def test_a_hook_may_run_backward_and_sees_grad_mode() -> None:
    def program(t: Any) -> Any:
        seen: list[Any] = []
        x = t.tensor([2.0], requires_grad=True)
        w = t.tensor([3.0], requires_grad=True)

        def hook(g: Any) -> None:
            seen.append(t.is_grad_enabled())
            with t.enable_grad():
                (w * w).backward()

        y = x * 2
        y.register_hook(hook)
        y.backward()
        return [seen, w.grad, x.grad]

    agree(program, [[False], [6.0], [2.0]])


def test_hook_names_are_those_of_the_functions() -> None:
    def program(t: Any) -> Any:
        def change_type(g: Any) -> Any:
            return g.double()

        x = t.ones(1, requires_grad=True)
        y = x * 2
        y.register_hook(change_type)
        return raised(lambda: y.backward())[1]

    expect(
        program,
        "hook 'change_type' has changed the type of value (was torch.FloatTensor got "
        "torch.DoubleTensor)",
    )


def test_node_hooks_and_pre_hooks_run_in_registration_order() -> None:
    def program(t: Any) -> Any:
        seen: list[Any] = []
        x = t.ones(1, requires_grad=True)
        y = x * 2
        node = y.grad_fn
        node.register_hook(lambda gi, go: (seen.append(gi[0].item()), (gi[0] * 2, None))[1])
        node.register_hook(lambda gi, go: (seen.append(gi[0].item()), (gi[0] * 2, None))[1])
        node.register_prehook(lambda go: (seen.append(go[0].item()), (go[0] * 3,))[1])
        node.register_prehook(lambda go: (seen.append(go[0].item()), None)[1])
        y.backward()
        return [seen, x.grad]

    agree(program)


def test_accumulator_hooks() -> None:
    def program(t: Any) -> Any:
        seen: list[Any] = []
        x = t.ones(1, requires_grad=True)
        y = x * 2
        leaf = y.grad_fn.next_functions[0][0]
        leaf.register_prehook(lambda go: (go[0] * 3,))
        leaf.register_hook(lambda gi, go: seen.append([gi, go[0].item()]))
        y.backward()
        return [seen, x.grad]

    agree(program, [[[[], 6.0]], [6.0]])


WRITES: dict[str, Any] = {
    "mul_": lambda g: g.mul_(3),
    "clamp_": lambda g: g.clamp_(-0.5, 0.25),
    "add_": lambda g: g.add_(g.detach().clone()),
    "=": lambda g: g.__setitem__(..., 5.0),
}


@pytest.mark.parametrize("how", WRITES)
def test_what_a_hook_may_write(how: str) -> None:
    def program(t: Any) -> Any:
        seen: list[Any] = []
        losses = (
            lambda x: x.sum(),
            lambda x: (x + 1).sum(0).sum(),
            lambda x: x.mean(),
            lambda x: x.mean(0).sum(),
            lambda x: (x * x).mean(),
            lambda x: x.std(),
        )
        for shape in ((), (1,), (3,), (2, 3)):
            for number, loss in enumerate(losses):
                x = t.ones(shape, requires_grad=True)
                x.register_hook(lambda g: (WRITES[how](g), None)[1])
                if (number == 5 and x.numel() < 2) or (shape == () and number in (1, 3)):
                    continue
                error, text = raised(lambda x=x, loss=loss: loss(x).backward())
                seen.append([shape, number, error, "more than one element" in text, x.grad])
        return seen

    agree(program)


def test_a_function_may_write_the_gradient_it_is_given() -> None:
    def program(t: Any) -> Any:
        class Scaled(t.autograd.Function):
            @staticmethod
            def forward(ctx: Any, x: Any) -> Any:
                return x * 2

            @staticmethod
            def backward(ctx: Any, g: Any) -> Any:
                return g.mul_(2)

        x = t.ones(3, requires_grad=True)
        Scaled.apply(x).mean().backward()
        return [x.grad, raised(Scaled.apply(x).sum().backward)[0]]

    agree(program)


def test_a_gradient_that_grad_returns_may_be_written() -> None:
    def program(t: Any) -> Any:
        x, one = t.ones(3, requires_grad=True), t.ones(1, requires_grad=True)
        gradients = [
            *t.autograd.grad(x.mean() + one.sum(), (x, one)),
            *t.autograd.grad(x.mean() * one.sum(), (x, one), create_graph=True),
        ]
        return [g.detach().mul_(2).add_(1) for g in gradients]

    agree(program)


@pytest.mark.parametrize("create_graph", [False, True])
def test_retain_grad_adds_up_over_backwards(create_graph: bool) -> None:
    def program(t: Any) -> Any:
        seen: list[Any] = []
        for shape in ((), (3, 4)):
            x = t.ones(shape, requires_grad=True)
            y = (x * 2).t() if shape else x * 2
            y.retain_grad()
            for _ in range(3):
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    (y * y).sum().backward(retain_graph=True, create_graph=create_graph)
                history = y.grad.grad_fn and type(y.grad.grad_fn).__name__
                seen += [y.grad, list(y.grad.stride()), history]
            y.grad = x.grad = None
        return seen

    agree(program)


def test_the_hooks_of_a_leaf_may_be_assigned_as_a_dict_or_none() -> None:
    def program(t: Any) -> Any:
        x = t.ones(2, requires_grad=True)
        shown = [x._backward_hooks]
        x._backward_hooks = collections.OrderedDict({7: lambda g: g * 3})
        handle = x.register_hook(lambda g: g + 1)
        (x * 2).sum().backward()
        shown += [x.grad, isinstance(x._backward_hooks, collections.OrderedDict)]
        handle.remove()
        x._backward_hooks = None
        (x * 2).sum().backward()
        return [*shown, x.grad, x._backward_hooks]

    agree(program)


def test_hooks_assigned_to_a_tensor_without_grad_are_not_called() -> None:
    def program(t: Any) -> Any:
        x = t.ones(2)
        x._backward_hooks = {0: lambda g: 1 / 0}
        w = t.ones(2, requires_grad=True)
        (x * w).sum().backward()
        return [w.grad, sorted(x._backward_hooks)]

    agree(program)


@pytest.mark.parametrize("bad", [3, "hooks", [print]])
def test_what_is_no_dict_of_hooks_is_refused(bad: Any) -> None:
    x = ag_visual.ones(2, requires_grad=True)
    with pytest.raises(TypeError, match=f"dict of hooks or None, but got {type(bad).__name__}"):
        x._backward_hooks = bad


def test_gradients_with_slices_are_not_retained_outside_of_their_vmap() -> None:
    x = ag_visual.ones(3, requires_grad=True)
    y = x * 2
    y.retain_grad()
    cotangents = ag_visual.eye(3)
    for times in (1, 2):
        (found,) = ag_visual.autograd.grad(
            y, x, cotangents, is_grads_batched=True, retain_graph=True
        )
        assert found.tolist() == (2 * cotangents).tolist()
        y.sum().backward(retain_graph=True)
        assert y.grad is not None
        assert y.grad.tolist() == [times] * 3
