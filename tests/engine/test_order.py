"""The order of nodes and hooks, as torch documents it."""

from __future__ import annotations

from typing import Any

import pytest

from tests.oracle import torch
from tests.programs import agree, raised


def test_ready_nodes_run_by_descending_sequence_number_and_leaves_at_once() -> None:
    def program(t: Any) -> Any:
        seen: list[str] = []
        x = t.tensor([1.0], requires_grad=True)
        a, b, c = x * 2, x * 3, x * 4
        z = (a + b) + c
        for name, tensor in (("a", a), ("b", b), ("c", c), ("z", z)):
            tensor.grad_fn.register_hook(lambda gi, go, n=name: seen.append(n))
        x.register_hook(lambda g: seen.append("x"))
        z.backward()
        return seen

    agree(program, ["z", "c", "b", "a", "x"])


def test_hooks_of_a_non_leaf_in_torchs_order() -> None:
    def program(t: Any) -> Any:
        seen: list[Any] = []
        x = t.tensor([1.0], requires_grad=True)
        y = x * 2
        y.grad_fn.register_prehook(lambda go: seen.append(("pre", go[0].item())))
        y.register_hook(lambda g: (seen.append(("tensor", g.item())), g * 5)[1])
        y.retain_grad()
        y.grad_fn.register_hook(lambda gi, go: seen.append(("post", gi[0].item(), go[0].item())))
        (y * 1).backward()
        return [seen, y.grad.item(), x.grad.item()]

    agree(program, [[["tensor", 1.0], ["pre", 5.0], ["post", 10.0, 5.0]], 5.0, 10.0])


def test_retain_grad_sees_all_tensor_hooks_but_no_pre_hook() -> None:
    def program(t: Any) -> Any:
        x = t.tensor([1.0], requires_grad=True)
        y = x * 2
        y.retain_grad()
        y.grad_fn.register_prehook(lambda go: (go[0] * 100,))
        y.register_hook(lambda g: g * 10)
        y.sum().backward()
        return [y.grad, x.grad]

    agree(program, [[10.0], [2000.0]])


def test_hooks_of_a_leaf_in_torchs_order() -> None:
    def program(t: Any) -> Any:
        seen: list[Any] = []
        x = t.tensor([1.0], requires_grad=True)
        y = x * 3
        node = y.grad_fn.next_functions[0][0]
        node.register_hook(lambda gi, go: seen.append(("post", len(gi), go[0].item())))
        x.register_post_accumulate_grad_hook(lambda p: seen.append(("after", p.grad.item())))
        node.register_prehook(lambda go: seen.append(("pre", go[0].item())))
        x.register_hook(lambda g: (seen.append(("tensor", g.item())), g * 2)[1])
        y.backward()
        return seen

    agree(program, [["tensor", 3.0], ["pre", 6.0], ["after", 6.0], ["post", 0, 6.0]])


def test_grad_runs_tensor_hooks_of_its_inputs_only() -> None:
    def program(t: Any) -> Any:
        seen: list[str] = []
        x = t.tensor([2.0], requires_grad=True)
        y = x * 2
        y.register_hook(lambda g: (seen.append("tensor"), g * 5)[1])
        y.grad_fn.register_prehook(lambda go: seen.append("pre"))
        y.grad_fn.register_hook(lambda gi, go: seen.append("post"))
        x.register_post_accumulate_grad_hook(lambda p: seen.append("after"))
        z = (y * y).sum()
        (gy,) = t.autograd.grad(z, y, retain_graph=True)
        first = list(seen)
        gx, gy2 = t.autograd.grad(z, (x, y))
        return [gy, first, gx, gy2, seen, x.grad is None]

    agree(program)


def test_a_tensor_hook_sees_the_sum_once() -> None:
    def program(t: Any) -> Any:
        seen: list[Any] = []
        x = t.tensor([1.0, 1.0], requires_grad=True)
        y = x * 1
        y.register_hook(lambda g: seen.append(g.tolist()))
        (y * 2 + y * 3).sum().backward()
        return seen

    agree(program, [[[5.0, 5.0][0], 5.0]])


def test_backward_inputs_accumulates_only_there() -> None:
    def program(t: Any) -> Any:
        seen: list[str] = []
        x = t.tensor([2.0], requires_grad=True)
        w = t.tensor([3.0], requires_grad=True)
        x.register_hook(lambda g: seen.append("x hook"))
        x.register_post_accumulate_grad_hook(lambda p: seen.append("x after"))
        w.register_hook(lambda g: seen.append("w hook"))
        y = x * w
        (y * y).sum().backward(inputs=[x])
        return [x.grad, w.grad is None, seen]

    agree(program, [[36.0], True, ["x hook", "x after"]])


def test_a_removed_hook_is_not_called_and_handles_are_context_managers() -> None:
    def program(t: Any) -> Any:
        seen: list[str] = []
        x = t.tensor([1.0], requires_grad=True)
        y = x * 2
        handle = y.register_hook(lambda g: seen.append("removed"))
        with y.register_hook(lambda g: seen.append("left")):
            pass
        y.register_hook(lambda g: seen.append("kept"))
        handle.remove()
        handle.remove()
        y.backward()
        return seen

    agree(program, ["kept"])


def test_a_tensor_hook_stays_with_its_node_while_retain_grad_moves() -> None:
    def program(t: Any) -> Any:
        seen: list[str] = []
        x = t.tensor([1.0], requires_grad=True)
        y = x * 2
        y.register_hook(lambda g: seen.append("before"))
        y.retain_grad()
        y.mul_(3)
        y.register_hook(lambda g: seen.append("after"))
        y.sum().backward()
        return [seen, y.grad, x.grad]

    agree(program, [["after", "before"], [1.0], [6.0]])


def test_a_non_leaf_input_of_backward_runs_with_all_its_hooks() -> None:
    def program(t: Any) -> Any:
        calls: list[Any] = []
        a = t.tensor([1.0, 2.0], requires_grad=True)
        b = a.exp()
        b.register_hook(lambda g: (calls.append("tensor"), g * 2)[1])
        b.grad_fn.register_prehook(lambda grads: (calls.append("pre"), (grads[0] * 10,))[1])
        b.grad_fn.register_hook(lambda grad_inputs, grads: calls.append(grads[0].tolist()))
        loss = b.sum()
        edge = t.autograd.graph.get_gradient_edge(b)
        loss.backward(inputs=(edge,), retain_graph=True)
        seen = [list(calls), b.retains_grad, a.grad]
        calls.clear()
        (g,) = t.autograd.grad(loss, b, retain_graph=True)
        seen += [list(calls), g]
        calls.clear()
        loss.backward(inputs=(b,))
        return [*seen, calls, b.grad, a.grad, raised(lambda: b.sum().backward())[0]]

    agree(program)


def test_a_hook_of_an_accumulator_sees_what_became_the_grad() -> None:
    def program(t: Any) -> Any:
        kept: list[Any] = []
        seen: list[Any] = []

        def add(leaf: Any) -> None:
            with t.no_grad():
                leaf.grad.add_(0.5)

        for hook in (lambda g: g - 2, lambda g: (kept.append(g - 2), kept[-1])[1], lambda g: None):
            x = t.ones(2, requires_grad=True)
            y = x * t.tensor([3.0, 4.0])
            x.register_hook(hook)
            x.register_post_accumulate_grad_hook(add)
            node = y.grad_fn.next_functions[0][0]
            node.register_hook(lambda grad_inputs, grads: seen.append(grads[0].tolist()))
            y.backward(t.tensor([1.0, 2.0]))
            seen.append(x.grad)
        return [seen, kept]

    agree(program)


def test_a_sequence_number_that_is_set_decides_who_runs_first() -> None:
    def program(t: Any) -> Any:
        calls: list[str] = []
        x = t.ones(2, requires_grad=True)
        a, b, c, d = x.exp(), x.sin(), x * 2, x * 3
        loss = (((a + b) + c) + d).sum()
        for name, y in (("a", a), ("b", b), ("c", c), ("d", d)):
            y.register_hook(lambda g, name=name: calls.append(name))
        loss.backward(retain_graph=True)
        seen = [list(calls), d.grad_fn._sequence_nr() > c.grad_fn._sequence_nr()]
        calls.clear()
        a.grad_fn._set_sequence_nr(2**40)
        b.grad_fn._set_sequence_nr(2**40 - 1)
        d.grad_fn._set_sequence_nr(0)
        loss.grad_fn._set_sequence_nr(0)
        loss.backward(retain_graph=True)
        seen += [list(calls), a.grad_fn._sequence_nr(), d.grad_fn._sequence_nr(), x.grad]
        calls.clear()
        t.autograd.grad((a * b).sum() + loss, (x, c))
        return [*seen, calls]

    agree(program)


def test_nodes_with_one_sequence_number_run_all_the_same() -> None:
    def program(t: Any) -> Any:
        x = t.ones(2, requires_grad=True)
        parts = [x * number for number in range(5)]
        for part in parts:
            part.grad_fn._set_sequence_nr(7)
        sum(parts, start=x).sum().backward()
        return x.grad

    agree(program)


@pytest.mark.parametrize("into_leaves", [False, True])
@pytest.mark.parametrize("wanted", ["a", "aw", "s", "sa"])
def test_the_order_of_a_backward_with_inputs(wanted: str, into_leaves: bool) -> None:
    def program(t: Any) -> Any:
        inside = t._C if t is torch else t.autograd.graph
        a, w = t.ones(2, requires_grad=True), t.ones(2, requires_grad=True)
        s = a * w
        loss = (s.sin() + a).sum()
        order: list[str] = []

        def look(g: Any) -> None:
            nodes = inside._current_graph_task_execution_order()
            order.extend(type(node).__name__ for node in nodes)

        loss.register_hook(look)
        inputs = [{"a": a, "w": w, "s": s}[name] for name in wanted]
        with t.autograd.set_multithreading_enabled(False):
            if into_leaves:
                loss.backward(inputs=inputs)
            else:
                t.autograd.grad(loss, inputs)
        return order

    agree(program)
