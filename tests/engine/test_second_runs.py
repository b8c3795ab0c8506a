"""Graphs that run twice, nodes whose inputs are made late, leaves whose data was exchanged."""

from __future__ import annotations

from typing import Any

import numpy
import pytest

import ag_visual
from ag_visual.dispatch import validate_grad
from tests.programs import agree, raised


@pytest.mark.parametrize("create_graph", [False, True])
@pytest.mark.parametrize("write", ["mul_", "add_", "zero_"])
def test_a_written_view_runs_backward_once(write: str, create_graph: bool) -> None:
    def program(t: Any) -> Any:
        x, w = t.ones(3, requires_grad=True), t.full((1,), 2.0, requires_grad=True)
        y = x.clone()
        getattr(y[:1], write)(*(() if write == "zero_" else (w,)))
        inputs = [x] if write == "zero_" else [x, w]

        def run(**how: Any) -> Any:
            return t.autograd.grad(y, inputs, t.ones(3), create_graph=create_graph, **how)

        first = [g.tolist() for g in run(retain_graph=True)]
        second = [g.tolist() for g in run(retain_graph=False)]
        kind, text = raised(lambda: run(retain_graph=False))
        return [first, second, kind, text[:50]]

    agree(program)


def test_a_function_of_a_view_whose_history_is_made_when_it_is_called() -> None:
    def program(t: Any) -> Any:
        class Two(t.autograd.Function):
            @staticmethod
            def forward(ctx: Any, a: Any, b: Any) -> Any:
                return a * 2, b * 3

            @staticmethod
            def backward(ctx: Any, g: Any, h: Any) -> Any:
                return g * 2, h * 3

        x = t.ones(4, requires_grad=True)
        y = x * 1
        view = y[:2]
        y.mul_(3)
        a, b = Two.apply(view, view)
        return list(t.autograd.grad(a.sum() + b.sum(), [x, y]))

    agree(program)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_hooks_of_an_accumulator_outlive_new_data_of_the_same_kind(dtype: str) -> None:
    def program(t: Any) -> Any:
        x, calls = t.ones(3, requires_grad=True), []
        accumulator = x.expand_as(x).grad_fn.next_functions[0][0]
        accumulator.register_hook(lambda *_: calls.append("hook"))
        x.data = t.zeros(3, dtype=getattr(t, dtype))
        (x * 2).sum().backward()
        return [calls, x.grad, str(x.grad.dtype)]

    agree(program)


@pytest.mark.parametrize("shape", [(2, 2), (3, 2)])
def test_a_gradient_of_the_shape_before_data_was_exchanged(shape: tuple[int, ...]) -> None:
    def program(t: Any) -> Any:
        x = t.ones(3, requires_grad=True)
        total = (x + 2).sum()
        x.data = t.ones(shape[::-1]).t()
        kind, text = raised(total.backward)
        return [kind, text[:20], x.grad is None]

    agree(program)


@pytest.mark.parametrize("rows", [0, 1, validate_grad._KEPT, validate_grad._KEPT + 1])
def test_a_sum_over_rows_keeps_no_large_array(rows: int) -> None:
    validate_grad._ones.cache_clear()
    g = numpy.arange(rows * 2, dtype=numpy.float64).reshape(rows, 2)
    found = validate_grad.fit(numpy, g, (2,), g.dtype)
    assert found.tolist() == g.sum(0).tolist()
    assert validate_grad._ones.cache_info().currsize == (rows <= validate_grad._KEPT)


def test_infinities_cancel_in_a_sum_over_rows_as_in_torch() -> None:
    inf, nan = float("inf"), float("nan")

    def program(t: Any) -> Any:
        bias = t.zeros(3, requires_grad=True)
        (t.zeros(2, 3) + bias).backward(t.tensor([[inf, inf, 1.0], [-inf, 2.0, nan]]))
        return [repr(bias.grad.tolist())]

    agree(program)


def test_the_node_of_a_gradient_that_cannot_be_differentiated() -> None:
    def program(t: Any) -> Any:
        class Once(t.autograd.Function):
            @staticmethod
            def forward(ctx: Any, x: Any) -> Any:
                return x * 2

            @staticmethod
            @t.autograd.function.once_differentiable
            def backward(ctx: Any, g: Any) -> Any:
                return g * 2

        x, v = t.zeros(2, requires_grad=True), t.ones(1, requires_grad=True)
        product = t.zeros(1).scatter_reduce(0, t.tensor([0, 0]), x, "prod")
        seen = []
        for y in (Once.apply(x), product):
            (g,) = t.autograd.grad(y, x, v.expand_as(y), create_graph=True)
            node = g.grad_fn
            seen += [type(node).__name__, node.name(), raised(lambda g=g: g.sum().backward())]
        return seen

    agree(program)


def test_a_leaf_that_looks_at_other_memory_gets_gradients_of_its_shape() -> None:
    def program(t: Any) -> Any:
        x = t.ones(3, requires_grad=True)
        older = x.expand_as(x)
        with t.no_grad():
            x.set_(t.ones(2, 2))
        (x * 2).sum().backward()
        return [x.grad, older.grad_fn is not None]

    agree(program)


@pytest.mark.parametrize("several", [False, True])
@pytest.mark.parametrize("into_leaves", [False, True])
def test_hooks_of_a_root_that_leads_to_no_input(several: bool, into_leaves: bool) -> None:
    def program(t: Any) -> Any:
        x, other, calls = t.ones(2, requires_grad=True), t.ones(2, requires_grad=True), []
        roots = [x * 2, other * 3] if several else [other * 3]
        for number, root in enumerate(roots):
            root.register_hook(lambda g, number=number: calls.append(number))
        ones = [t.ones(2) for _ in roots]
        if into_leaves:
            t.autograd.backward(roots, ones, inputs=[x])
        else:
            t.autograd.grad(roots, x, ones, allow_unused=True)
        return [calls, x.grad, other.grad]

    agree(program)


REPLACED: dict[str, Any] = {
    "a leaf": lambda t, x: _with_data(x, x.masked_select(x > 1)),
    "a result": lambda t, x: _with_data(t.stack([x, x]), x),
    "a number": lambda t, x: _with_data(x * 2, x.detach().max()),
    "wider": lambda t, x: _with_data(x[:1] * 2, x.detach()),
}


def _with_data(x: Any, data: Any) -> tuple[Any, Any]:
    x.data = data.detach()
    return x, data  # the graph that `data` has keeps the leaf's node


@pytest.mark.parametrize("create_graph", [False, True])
@pytest.mark.parametrize("name", REPLACED)
def test_gradients_are_those_of_the_shape_before_data_was_replaced(
    name: str, create_graph: bool
) -> None:
    def program(t: Any) -> Any:
        x = t.arange(3.0).requires_grad_()
        y, _kept = REPLACED[name](t, x)
        seen = []
        for total in (y.sum(), y.mean(), (y * y).sum()):
            kind, text = raised(
                lambda total=total: t.autograd.grad(
                    total, [x], create_graph=create_graph, allow_unused=True
                )
            )
            seen += [kind, text.partition(" returned ")[2]]
        return seen

    agree(program)


@pytest.mark.filterwarnings("ignore:Using backward\\(\\) with create_graph")
@pytest.mark.parametrize("create_graph", [False, True])
@pytest.mark.parametrize("shape", [(2,), (2, 3), (1,)])
def test_a_leaf_that_was_turned_beside_an_earlier_result_has_gradients(
    shape: tuple[int, ...], create_graph: bool
) -> None:
    def program(t: Any) -> Any:
        x = t.full(shape, 3.0, requires_grad=True)
        kept = x.floor()  # its graph has the leaf's node, which knows the old shape
        with t.no_grad():
            x.unsqueeze_(0)
        seen = []
        for y in ((x * x).sum(), x.sum(), x.sin().sum() + x.sum()):
            y.backward(create_graph=create_graph)
            assert x.grad.numel() == x.numel()
            seen.append(x.grad.reshape(-1).tolist())  # torch's of one element has one dimension
        return [seen, tuple(kept.shape)]

    agree(program)


def test_a_sparse_gradient_of_a_leaf_that_was_turned_is_dense() -> None:
    def program(t: Any) -> Any:
        w = t.arange(6.0).view(3, 2).requires_grad_()
        rows = t.nn.functional.embedding(t.tensor([0, 2, 0]), w, sparse=True)
        with t.no_grad():
            w.unsqueeze_(0)
        rows.sum().backward()
        return w.grad.to_dense().reshape(3, 2)

    agree(program)


@pytest.mark.filterwarnings("ignore:Using backward\\(\\) with create_graph")
@pytest.mark.parametrize("create_graph", [False, True])
def test_data_of_another_size_beside_an_earlier_result_is_refused(create_graph: bool) -> None:
    x = ag_visual.ones(1, requires_grad=True)
    kept = x.floor()
    x.data = ag_visual.ones(4, 1)
    with pytest.raises(RuntimeError, match=r"\(4, 1\) .* \(1,\): its data .* let go"):
        x.sin().sum().backward(create_graph=create_graph)
    assert x.grad is None
    del kept
    x.sin().sum().backward(create_graph=create_graph)
    assert x.grad is not None
    assert x.grad.shape == (4, 1)


def test_a_gradient_of_what_was_turned_without_a_history() -> None:
    def program(t: Any) -> Any:
        x = t.ones(2, requires_grad=True)
        y = x.sigmoid()
        with t.no_grad():
            y.unsqueeze_(-1)
        seen = [raised(lambda how=how: y.sum().backward(**how)) for how in ({}, {"inputs": [x]})]
        return [(kind, text.partition(" returned ")[2]) for kind, text in seen]

    agree(program)


NEW_SHAPES = [(), (1,), (2,), (1, 2), (2, 3), (6,)]
ROOTS: dict[str, Any] = {
    "sum": lambda t, x: x.sum(0),
    "product": lambda t, x: x * x,
    "one of several": lambda t, x: t.var_mean(x, 0)[1],
    "a slice": lambda t, x: x[t.tensor(0)],
    "a leaf": lambda t, x: x,
}


@pytest.mark.parametrize("create_graph", [False, True])
@pytest.mark.parametrize("name", ROOTS)
def test_a_backward_from_what_got_other_data(name: str, create_graph: bool) -> None:
    def program(t: Any) -> Any:
        seen = []
        for shape in NEW_SHAPES:
            x = t.arange(1.0, 7.0).view(2, 3).requires_grad_()
            kept, y = x * 2, ROOTS[name](t, x)
            y.data = t.ones(shape)

            def backward(x: Any = x, y: Any = y, shape: Any = shape) -> Any:
                g = t.full(shape, 2.0)
                return t.autograd.grad(y, [x], g, retain_graph=True, create_graph=create_graph)

            kind, text = raised(backward)
            seen.append([kind, text or backward(), kept])
        return seen

    agree(program)


READERS: dict[str, Any] = {
    "prod": lambda t, x: x.prod(),
    "min": lambda t, x: x.min(),
    "amax": lambda t, x: x.amax(),
    "norm": lambda t, x: x.norm(),
    "mul": lambda t, x: x * x,
    "var": lambda t, x: x.var(correction=0),
    "mean": lambda t, x: x.mean(),
}


@pytest.mark.parametrize("create_graph", [False, True])
@pytest.mark.parametrize("name", READERS)
def test_a_saved_tensor_that_got_other_data(name: str, create_graph: bool) -> None:
    def program(t: Any) -> Any:
        seen = []
        for before in [(1,), (2,), (2, 3)]:
            for shape in NEW_SHAPES:
                x = t.full(before, 2.0).requires_grad_()
                y = READERS[name](t, x).sum()
                x.data = t.full(shape, 3.0)

                def backward(x: Any = x, y: Any = y) -> Any:
                    return t.autograd.grad(y, [x], create_graph=create_graph, retain_graph=True)

                kind, text = raised(backward)
                told = text.partition(" returned an ")[2] if "invalid" in text else text[:0]
                seen.append([kind, told if kind else backward()[0].detach()])
        return seen

    agree(program)


def test_an_error_of_a_hook_is_what_a_backward_raises() -> None:
    def unpack(packed: Any) -> Any:
        raise ValueError("gone")

    x = ag_visual.ones(2, requires_grad=True)
    x.expand_as(x).data = ag_visual.ones(3)  # since then an array may not fit
    with ag_visual.autograd.graph.saved_tensors_hooks(lambda t: t, unpack):
        y = x * x
    with pytest.raises(ValueError, match="gone"):
        y.sum().backward()


def test_data_of_the_shape_before_takes_gradients_again() -> None:
    def program(t: Any) -> Any:
        x = t.ones(3, requires_grad=True)
        kept = x * 2
        x.data = t.ones(2)
        x.data = t.full((3,), 5.0)
        (x * x).sum().backward()
        return [x.grad, kept]

    agree(program, [[10.0] * 3, [2.0] * 3])


def test_the_function_of_a_written_view_is_gone_after_its_first_run() -> None:
    def program(t: Any) -> Any:
        x = t.ones(3, 2, requires_grad=True)
        y = x * 1
        y[0] = 2 * x[1]
        y.sum().backward()
        calls = [
            lambda: y.sum().backward(inputs=[y], retain_graph=True),
            lambda: y.sum().backward(retain_graph=True),
            lambda: t.autograd.grad(y.sum(), [x], create_graph=True),
        ]
        return [(kind, text[:40]) for kind, text in map(raised, calls)]

    agree(program)
