"""What `backward` and `grad` may be given, and what happened to leaves since the forward."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import ag_visual
from tests.programs import agree, raised

ITERABLES: dict[str, Callable[[list[Any]], Any]] = {
    "list": list,
    "tuple": tuple,
    "iterator": iter,
    "generator": lambda values: (v for v in values),
    "values of a dict": lambda values: dict(enumerate(values)).values(),
}


@pytest.mark.parametrize("kind", ITERABLES)
def test_tensors_may_come_from_any_iterable(kind: str) -> None:
    def program(t: Any) -> Any:
        several = ITERABLES[kind]
        x = t.tensor([1.0, 2.0], requires_grad=True)
        y = t.tensor([3.0, 4.0], requires_grad=True)
        z = t.tensor([5.0, 6.0], requires_grad=True)
        found = t.autograd.grad(
            several([(x * y).sum(), x * z]), several([x, y]), several([None, z])
        )
        outputs, grads = several([x.sum(), y * z]), several([None, t.ones(2)])
        t.autograd.backward(outputs, grads, inputs=several([x, y]))
        (x * y * z).sum().backward(inputs=several([z]))
        return [found, x.grad, y.grad, z.grad]

    agree(program)


def test_parameters_of_a_module_are_an_iterable() -> None:
    def program(t: Any) -> Any:
        layer = t.nn.Linear(2, 1)
        with t.no_grad():
            layer.weight.copy_(t.tensor([[2.0, 3.0]]))
        return t.autograd.grad(layer(t.ones(1, 2)).sum(), layer.parameters())

    agree(program, [[[1.0, 1.0]], [1.0]])


def test_what_is_no_tensor_is_refused() -> None:
    x = ag_visual.ones(2, requires_grad=True)
    grad = ag_visual.autograd.grad
    with pytest.raises(TypeError, match="'int' object is not iterable"):
        grad(x.sum(), 3)
    with pytest.raises(TypeError, match="'float' object is not iterable"):
        grad(2.0, x)
    with pytest.raises(RuntimeError, match="all inputs have to be Tensors or GradientEdges, but"):
        grad(x.sum(), [3])
    with pytest.raises(TypeError, match="element 1 of tensors must be a Tensor, but got int"):
        ag_visual.autograd.backward([x.sum(), 3])
    with pytest.raises(ValueError, match="is_grads_batched=True needs grad_outputs"):
        grad(x.sum(), x, is_grads_batched=True)


@pytest.mark.parametrize("how", ["detach_", "requires_grad_", "data", "in place", "requires_grad"])
def test_a_leaf_that_changed_since_the_forward(how: str) -> None:
    def program(t: Any) -> Any:
        seen: list[Any] = []
        x = t.tensor([1.0, 2.0], requires_grad=True)
        x.register_hook(lambda g: seen.append(g.tolist()))
        y = x * 2
        if how == "detach_":
            x.detach_()
        elif how == "requires_grad_":
            x.requires_grad_(False)
        elif how == "data":
            x.data = t.zeros(2)
        elif how == "requires_grad":
            x.requires_grad = False
        else:
            with t.no_grad():
                x.mul_(5)
        y.sum().backward()
        return [seen, None if x.grad is None else x.grad]

    agree(program)


@pytest.mark.filterwarnings("ignore:Using backward")
@pytest.mark.parametrize("create_graph", [False, True])
@pytest.mark.parametrize("how", ["detach_", "requires_grad_"])
def test_a_leaf_that_was_written_with_what_came_of_it(how: str, create_graph: bool) -> None:
    def program(t: Any) -> Any:
        x = t.tensor([1.0, 2.0], requires_grad=True)
        y = x * x
        x.detach_() if how == "detach_" else x.requires_grad_(False)
        x.copy_(y)
        kind, text = raised(lambda: x.sum().backward(create_graph=create_graph))
        first = text.partition(":")[0]
        return [kind, first, x.grad_fn is None, x.is_leaf]

    agree(program)


def test_a_grad_of_another_shape_is_not_added_to() -> None:
    x = ag_visual.ones(2, requires_grad=True)
    (x * 1).sum().backward()
    x.data = ag_visual.zeros(3)
    with pytest.raises(RuntimeError, match=r"The size of tensor a .* set \.grad to None"):
        (x * 2).sum().backward()
    assert x.grad.tolist() == [1.0, 1.0]


def test_a_leaf_view_that_requires_grad_must_not_be_written() -> None:
    def program(t: Any) -> Any:
        base = t.ones(2)
        view = base[:1].requires_grad_()
        kind, text = raised(lambda: view.add_(1))
        base.add_(1)
        return [kind, text[:60], view.requires_grad, view.is_leaf, base[1:].requires_grad]

    agree(program)


def test_the_setter_refuses_what_is_no_leaf() -> None:
    def program(t: Any) -> Any:
        y = t.ones(2, requires_grad=True) * 2
        told = [
            raised(lambda value=value, z=z: setattr(z, "requires_grad", value))
            for z in (y, y[:1])
            for value in (True, False)
        ]
        return [[kind, text[:63]] for kind, text in told] + [y.requires_grad_() is y]

    agree(program)


def test_an_accumulator_may_be_called() -> None:
    def program(t: Any) -> Any:
        seen: list[str] = []
        x = t.tensor([1.0, 2.0], requires_grad=True)
        x.register_hook(lambda g: seen.append("tensor hook"))
        x.register_post_accumulate_grad_hook(lambda p: seen.append("after"))
        node = (x * 1).grad_fn.next_functions[0][0]
        results = [list(node(t.ones(2))), list(node(t.ones(2) * 2))]
        first = x.grad
        with t.no_grad():
            node(t.ones(2))
        return [results, x.grad, x.grad is first, seen, raised(lambda: node())]

    agree(program)


def test_a_captured_node_counts_as_one_that_runs() -> None:
    def program(t: Any) -> Any:
        calls: list[Any] = []
        x = t.tensor([1.0, 2.0], requires_grad=True)
        y = x * 2
        z = y * 3

        def hook(grads: Any) -> None:
            calls.append([None if g is None else g.tolist() for g in grads])

        t.autograd.graph.register_multi_grad_hook((y, z), hook)
        t.autograd.grad(z.sum(), y)
        return calls

    agree(program)


@pytest.mark.oracle
def test_a_view_of_a_leaf_made_in_no_grad_has_no_gradient() -> None:
    def program(torch: Any) -> Any:
        x = torch.ones(2, requires_grad=True)
        with torch.no_grad():
            view = x.view(2, 1)
        (g,) = torch.autograd.grad(x.sum(), [view], allow_unused=True)
        return [view.requires_grad, g]

    agree(program)
