"""backward() and grad(): arguments, accumulation, freeing, depth, threads."""

from __future__ import annotations

import gc
import threading
import time
import warnings
import weakref
from collections.abc import Callable
from typing import Any

import pytest

import ag_visual
from ag_visual.core import tensor
from tests.programs import agree, expect, old_names, raised


def test_gradients_accumulate_in_the_same_object() -> None:
    def program(t: Any) -> Any:
        x = t.tensor([1.0, 2.0], requires_grad=True)
        (x * x).sum().backward()
        first = x.grad
        (x * 3).sum().backward()
        return [x.grad, x.grad is first]

    agree(program, [[5.0, 7.0], True])


def test_grad_with_create_graph_gives_higher_derivatives() -> None:
    def program(t: Any) -> Any:
        x = t.tensor([2.0], requires_grad=True)
        y = x * x * x
        (g,) = t.autograd.grad(y, x, create_graph=True)
        (h,) = t.autograd.grad(g, x, create_graph=True)
        (k,) = t.autograd.grad(h, x)
        return [g, h, k, g.requires_grad]

    agree(program, [[12.0], [12.0], [6.0], True])


def test_errors_of_arguments() -> None:
    def program(t: Any) -> Any:
        x = t.tensor([1.0, 2.0], requires_grad=True)
        n = t.tensor([1.0])
        z = t.tensor([1.0], requires_grad=True)
        y = x * 2
        calls = [
            lambda: n.backward(),
            lambda: y.backward(),
            lambda: y.backward(t.ones(3)),
            lambda: t.autograd.backward(y, t.ones(2), inputs=[]),
            lambda: t.autograd.grad(y.sum(), z),
            lambda: t.autograd.grad(y.sum(), n),
            lambda: t.autograd.grad(y.sum(), x, allow_unused=False, materialize_grads=True),
        ]
        return [raised(call) for call in calls]

    phrases = [
        "element 0 of tensors does not require grad and does not have a grad_fn",
        "grad can be implicitly created only for scalar outputs",
        "Mismatch in shape: grad_output[0] has a shape of torch.Size([3]) and output[0] has a "
        "shape of torch.Size([2]).",
        "`inputs` argument to `backward()` cannot be empty.",
        "The differentiated Tensor at index 0 appears to not have been used in the graph. Set "
        "allow_unused=True if this is the desired behavior.",
        "One of the differentiated Tensors does not require grad",
        "Expected allow_unused to be True or not passed when materialize_grads=True, but got: "
        "allow_unused=False.",
    ]
    kinds = ["RuntimeError"] * 6 + ["ValueError"]
    for (kind, text), expected_kind, phrase in zip(program(ag_visual), kinds, phrases, strict=True):
        assert kind == expected_kind
        assert phrase in text


def test_integer_tensors_cannot_require_grad() -> None:
    x = ag_visual.tensor([1, 2])
    with pytest.raises(RuntimeError, match="only Tensors of floating point"):
        x.requires_grad = True
    with pytest.raises(RuntimeError, match="Only Tensors of floating point and complex dtype"):
        ag_visual.tensor([1, 2], requires_grad=True)
    with pytest.raises(RuntimeError, match="requires_grad must be a bool"):
        x.requires_grad = 1


def test_allow_unused_and_materialize_grads() -> None:
    def program(t: Any) -> Any:
        x = t.tensor([1.0, 2.0], requires_grad=True)
        z = t.tensor([1.0, 1.0], requires_grad=True)
        y = (x * 2).sum()
        g, none = t.autograd.grad(y, (x, z), allow_unused=True, retain_graph=True)
        _, zeros = t.autograd.grad(y, (x, z), materialize_grads=True)
        return [g, none is None, zeros]

    agree(program, [[2.0, 2.0], True, [0.0, 0.0]])


def test_duplicate_outputs_and_inputs() -> None:
    def program(t: Any) -> Any:
        w = t.tensor([1.0, 2.0], requires_grad=True)
        s = (w * w).sum()
        return list(t.autograd.grad([s, s], [w, w]))

    agree(program, [[4.0, 8.0], [4.0, 8.0]])


def test_an_input_that_is_given_twice_has_one_gradient() -> None:
    def program(t: Any) -> Any:
        x = t.ones(2, requires_grad=True)
        y = x * 2
        edge = t.autograd.graph.get_gradient_edge(y)
        loss = (y * y).sum()
        for create_graph in (False, True):
            a, b, c, d, e = t.autograd.grad(
                loss, (x, y, x, y, edge), retain_graph=True, create_graph=create_graph
            )
        return [a is c, b is d, d is e, a, b]

    agree(program)


@pytest.mark.parametrize("create_graph", [False, True])
@pytest.mark.parametrize("dtype", ["bool", "int64", "float16", "float64"])
def test_gradients_are_given_in_the_dtype_of_what_they_are_of(
    dtype: str, create_graph: bool
) -> None:
    def program(t: Any) -> Any:
        seen: list[Any] = []
        given = t.tensor([1, 0]).to(getattr(t, dtype))
        leaf = t.ones(2, requires_grad=True)

        def look(g: Any) -> None:
            seen.append([str(g.dtype), g.tolist()])

        for root in (leaf, leaf + 3):
            handle = root.register_hook(look)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                root.backward(given, create_graph=create_graph)
            seen += [str(leaf.grad.dtype), leaf.grad]
            leaf.grad = None
            handle.remove()
            (g,) = t.autograd.grad([root], [leaf], [given], create_graph=create_graph)
            seen += [str(g.dtype), g]
        return seen

    agree(program)


def test_what_is_refused_leaves_retain_grad_as_it_was() -> None:
    def program(t: Any) -> Any:
        x = t.ones(2, requires_grad=True)
        y = x * 2
        loss = y.sum()
        requests = (
            lambda: t.ones(()).backward(inputs=[y]),
            lambda: t.autograd.backward(loss, t.ones(5), inputs=[y]),
            lambda: t.autograd.backward([loss, loss], [None], inputs=[y]),
            lambda: loss.backward(inputs=[3, y]),
            lambda: loss.backward(inputs=[y]),
        )
        return [[raised(request)[0], y.retains_grad] for request in requests]

    agree(program)


def test_second_backward_names_the_first_one() -> None:
    x = ag_visual.tensor([1.0], requires_grad=True)
    y = x * x
    y.backward()
    with pytest.raises(RuntimeError, match="Specify retain_graph=True") as caught:
        y.backward()
    text = str(caught.value)
    assert "y = x * x" in text or "x * x" in text
    assert "first backward" in text
    assert "y.backward()" in text
    with pytest.raises(RuntimeError, match="after they have already been freed"):
        _ = y.grad_fn._saved_self


def test_nodes_that_save_nothing_run_twice() -> None:
    def program(t: Any) -> Any:
        x = t.tensor([1.0], requires_grad=True)
        y = (x + 1).sum()
        y.backward()
        y.backward()
        return x.grad

    agree(program, [2.0])


def test_non_leaf_inputs_get_grad_without_retain_grad() -> None:
    def program(t: Any) -> Any:
        x = t.tensor([1.0], requires_grad=True)
        y = x * 2
        (y * y).sum().backward(inputs=[y])
        return [y.grad, x.grad is None]

    agree(program, [[4.0], True])


def test_broadcasting_and_dtypes_are_repaired_on_edges() -> None:
    def program(t: Any) -> Any:
        a = t.ones(3, 1, requires_grad=True)
        b = t.ones(4, dtype=t.float64, requires_grad=True)
        (a * b).sum().backward()
        return [a.grad, str(a.grad.dtype), b.grad, str(b.grad.dtype)]

    agree(program, [[[4.0]] * 3, "torch.float32", [3.0] * 4, "torch.float64"])


def test_gradients_given_by_the_user_are_not_aliased() -> None:
    def program(t: Any) -> Any:
        x = t.tensor([1.0, 2.0], requires_grad=True)
        given = t.ones(2)
        (x + 0).backward(given)
        x.grad.add_(5)
        return [given, x.grad]

    agree(program, [[1.0, 1.0], [6.0, 6.0]])


def test_expanded_gradients_are_materialised() -> None:
    def program(t: Any) -> Any:
        x = t.zeros(2, 3, requires_grad=True)
        x.sum().backward()
        return [list(x.grad.stride()), x.grad]

    agree(program, [[3, 1], [[1.0] * 3] * 2])


def test_grad_takes_the_layout_of_a_dense_leaf() -> None:
    def program(t: Any) -> Any:
        dense = t.zeros(3, 4).t().requires_grad_()
        (dense * 2).sum().backward()
        overlapping = t.zeros(1, 4).expand(3, 4).requires_grad_()
        (overlapping * 2).sum().backward()
        return [list(dense.grad.stride()), list(overlapping.grad.stride())]

    agree(program, [[1, 4], [4, 1]])


def test_create_graph_backward_warns_and_keeps_the_graph() -> None:
    x = ag_visual.tensor([3.0], requires_grad=True)
    with pytest.warns(UserWarning, match="reference cycle"):
        (x * x).backward(create_graph=True)
    assert x.grad is not None
    assert x.grad.requires_grad
    x.grad = None


def test_a_gradient_with_a_graph_is_added_to_in_place() -> None:
    def program(t: Any) -> Any:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            x = t.tensor([3.0], requires_grad=True)
            (x**3).sum().backward(create_graph=True)
            first = x.grad
            (x**2).sum().backward()
            seen = [x.grad is first, x.grad.requires_grad, x.grad.detach()]
            x.grad = None
        return seen

    # As torch does; run on ag_visual alone, because torch warns of this once a process.
    expect(program, [True, True, [33.0]])


def _chain(t: Any, length: int) -> Any:
    x = t.tensor([1.0], requires_grad=True)
    y = x
    for _ in range(length):
        y = y + 1
    return x, y


def test_deep_chains_run_and_are_freed_without_recursion() -> None:
    x, y = _chain(ag_visual, 100_000)
    node = weakref.ref(y.grad_fn)
    y.backward()
    assert x.grad.item() == 1.0
    del y
    assert node() is None


def test_dead_graphs_are_freed_by_reference_counting() -> None:
    gc.collect()
    gc.disable()
    try:
        x = ag_visual.tensor([1.0, 2.0], requires_grad=True)
        y = (x * 2).exp()
        y.register_hook(lambda g: g * 2)
        node, tensor = weakref.ref(y.grad_fn), weakref.ref(y)
        y.sum().backward()
        del y
        assert node() is None
        assert tensor() is None
    finally:
        gc.enable()


def test_threads_accumulate_exactly() -> None:
    x = ag_visual.tensor([0.0] * 1000, requires_grad=True)

    def work() -> None:
        for _ in range(20):
            (x * 1).sum().backward()

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert x.grad.tolist() == [160.0] * 1000


def test_of_threads_sharing_a_graph_exactly_one_succeeds() -> None:
    for _ in range(20):
        x = ag_visual.tensor([2.0], requires_grad=True)
        y = x * x
        results: list[bool] = []
        barrier = threading.Barrier(8)

        def work(y: Any = y, results: Any = results, barrier: Any = barrier) -> None:
            barrier.wait()
            try:
                y.backward()
                results.append(True)
            except RuntimeError:
                results.append(False)

        threads = [threading.Thread(target=work) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert results.count(True) == 1
        assert x.grad.tolist() == [4.0]


def test_grad_mode_is_thread_local_and_restored_after_errors() -> None:
    seen = []
    with ag_visual.no_grad():
        thread = threading.Thread(target=lambda: seen.append(ag_visual.is_grad_enabled()))
        thread.start()
        thread.join()
        assert not ag_visual.is_grad_enabled()
    assert seen == [True]
    with pytest.raises(ZeroDivisionError), ag_visual.no_grad():
        _ = 1 / 0
    assert ag_visual.is_grad_enabled()
    x = ag_visual.tensor([1.0], requires_grad=True)
    y = x * 2

    def fail(_: Any) -> None:
        raise ValueError("from a hook")

    y.register_hook(fail)
    with pytest.raises(ValueError, match="from a hook"):
        y.backward()
    assert ag_visual.is_grad_enabled()


def test_grad_modes_as_decorators_generators_and_functions() -> None:
    def program(t: Any) -> Any:
        x = t.tensor([1.0], requires_grad=True)

        @t.no_grad()
        def plain() -> Any:
            return (x * 2).requires_grad

        @t.no_grad()
        def steps() -> Any:
            yield t.is_grad_enabled()
            yield t.is_grad_enabled()

        seen = [plain()]
        for value in steps():
            seen += [value, t.is_grad_enabled()]
        t.set_grad_enabled(False)
        seen.append(t.is_grad_enabled())
        t.set_grad_enabled(True)
        with t.no_grad(), t.enable_grad():
            seen.append((x * 2).requires_grad)
        with t.set_grad_enabled(False):
            seen.append(t.is_grad_enabled())
        return [*seen, t.is_grad_enabled()]

    agree(program)


def test_reading_grad_of_a_non_leaf_warns() -> None:
    y = ag_visual.tensor([1.0], requires_grad=True) * 2
    with pytest.warns(UserWarning, match="not a leaf Tensor is being accessed"):
        assert y.grad is None


def test_complex_gradients_are_conjugate_wirtinger() -> None:
    def program(t: Any) -> Any:
        z = t.tensor([1.0 + 2.0j], requires_grad=True)
        (z * z).backward(t.tensor([1.0 + 0.0j]))
        first = z.grad
        z.grad = None
        r = t.tensor([3.0], requires_grad=True)
        (r * z).sum().backward(t.tensor(1.0 + 0.0j))
        return [[first.real, first.imag], [r.grad, str(r.grad.dtype)]]

    agree(program, [[[2.0], [-4.0]], [[1.0], "torch.float32"]])


def test_no_warning_is_left_by_infinities() -> None:
    def program(t: Any) -> Any:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            x = t.tensor([0.0, 1.0], requires_grad=True)
            x.log().sum().backward()
            y = t.tensor([0.0], requires_grad=True)
            y.sqrt().sum().backward()
            return [x.grad, y.grad]

    agree(program, [[float("inf"), 1.0], [float("inf")]])


def test_node_facts() -> None:
    def program(t: Any) -> Any:
        x = t.tensor([1.0], requires_grad=True)
        y = x * 2
        leaf = y.grad_fn.next_functions[0][0]
        y.grad_fn.metadata["k"] = 1
        return [
            y.grad_fn is y.grad_fn,
            leaf.variable is x,
            (x * 3).grad_fn.next_functions[0][0] is leaf,
            y.grad_fn.metadata,
            y.grad_fn.name(),
            leaf.name(),
            y.grad_fn(t.tensor([5.0])),
        ]

    agree(program)
    expect(lambda t: leaf_number(t), 2**64 - 1)


def test_a_gradient_whose_elements_share_memory_is_not_added_to() -> None:
    def program(t: Any) -> Any:
        x = t.tensor([1.0, 2.0, 3.0], requires_grad=True)
        x.grad = t.ones(1).expand(3)
        with pytest.raises(RuntimeError, match="more than one element of the written-to tensor"):
            (x * x).sum().backward()
        return x.grad

    agree(program, [1.0, 1.0, 1.0])


def test_threads_that_use_a_leaf_first_at_once_get_one_accumulator(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    born = tensor.AccumulateGrad

    def slow(leaf: Any, lock: Any) -> Any:
        time.sleep(0.05)
        return born(leaf, lock)

    monkeypatch.setattr(tensor, "AccumulateGrad", slow)
    x = ag_visual.ones(2, requires_grad=True)
    made: list[Any] = []
    threads = [threading.Thread(target=lambda: made.append(x * 2)) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    accumulators = {y.grad_fn.next_functions[0][0] for y in made}
    assert len(made) == 4
    assert len(accumulators) == 1


def leaf_number(t: Any) -> int:
    x = t.tensor([1.0], requires_grad=True)
    return (x * 2).grad_fn.next_functions[0][0]._sequence_nr()


QUIET: dict[str, Callable[[Any, Any], Any]] = {
    "masked_fill": lambda t, x: x.masked_fill(x > 0, 1),
    "where": lambda t, x: t.where(x > 1, x, 2 * x),
    "True": lambda t, x: x[True],
    "mask": lambda t, x: x[x > 1],
    "exp": lambda t, x: x.exp(),
}


@pytest.mark.parametrize("name", QUIET)
def test_a_node_of_which_no_gradient_is_wanted_looks_at_what_it_saved(name: str) -> None:
    """It is run, as its own gradient is wanted; its formulas are not."""

    def program(t: Any) -> Any:
        calls: list[str] = []

        def unpack(saved: Any) -> Any:
            calls.append("unpack")
            return saved * 1  # of a bool: an integer

        x = t.arange(3.0).requires_grad_()
        with t.autograd.graph.saved_tensors_hooks(lambda saved: saved, unpack):
            y = QUIET[name](t, x)
        y.grad_fn.register_hook(lambda given, got: calls.append(str([g is None for g in given])))
        y.sum().backward(inputs=[y], retain_graph=True)
        y.sum().backward(inputs=[y])
        kind, text = raised(lambda: y.sum().backward(inputs=[y]))
        return [calls[:2], len(calls) > 2, y.grad, kind, text[:40]]

    agree(program)


def test_a_node_of_which_no_gradient_is_wanted_refuses_what_was_written() -> None:
    def program(t: Any) -> Any:
        x = t.ones(2, requires_grad=True)
        y = x * 1
        z = y.exp()
        z.add_(1)
        kind, text = raised(lambda: z.sum().backward(inputs=[z]))
        once = [kind, text[:40]]
        w = y.sin()
        y.add_(1)
        kind, text = raised(lambda: w.sum().backward(inputs=[w]))
        return [once, kind, text[:40]]

    agree(program)


def test_hooks_of_a_lone_leaf_that_leads_to_no_input() -> None:
    def program(t: Any) -> Any:
        x, y = t.ones(2, requires_grad=True), t.ones(2, requires_grad=True)
        calls: list[Any] = []
        y.register_hook(lambda g: calls.append(g.tolist()))
        y.register_post_accumulate_grad_hook(lambda p: calls.append("accumulated"))
        found = t.autograd.grad(y, [x], t.ones(2), allow_unused=True)
        y.backward(t.ones(2), inputs=[x])
        return [found[0] is None, calls, y.grad is None]

    agree(program)


def test_hooks_of_a_leaf_that_gets_no_gradient() -> None:
    def program(t: Any) -> Any:
        class Nothing(t.autograd.Function):
            @staticmethod
            def forward(ctx: Any, x: Any) -> Any:
                return x * 2

            @staticmethod
            def backward(ctx: Any, g: Any) -> None:
                return None

        x, calls = t.ones(2, requires_grad=True), []
        y = Nothing.apply(x)
        node = y.grad_fn.next_functions[0][0]
        x.register_hook(lambda g: calls.append(f"tensor {g}"))
        node.register_prehook(lambda got: calls.append(f"before {got}"))
        node.register_hook(lambda given, got: calls.append(f"after {given} {got}"))
        x.register_post_accumulate_grad_hook(lambda p: calls.append(f"accumulated {p.grad}"))
        y.sum().backward()
        return [calls, x.grad is None]

    agree(program)


def test_what_has_no_derivative_says_so_whatever_arrives() -> None:
    def program(t: Any) -> Any:
        class First(t.autograd.Function):
            @staticmethod
            def forward(ctx: Any, x: Any, y: Any) -> Any:
                return x * y

            @staticmethod
            def backward(ctx: Any, g: Any) -> Any:
                return g, None

        x = t.ones(2, requires_grad=True)
        return ["not implemented" in raised(First.apply(x, 1 // x).sum().backward)[1]]

    agree(program, [True])


def test_a_hook_may_write_the_gradient_of_a_view_whose_base_was_written() -> None:
    def program(t: Any) -> Any:
        x = t.tensor([1.0, 2.0], requires_grad=True)
        y = x.permute((0,))
        x.register_hook(lambda g: g.clamp_(-1, 0.5))
        x.detach().mul_(1)
        y.sum().backward(create_graph=True)
        return x.grad

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        agree(program, [0.5, 0.5])


@pytest.mark.parametrize("with_graph", [False, True])
def test_a_gradient_is_added_to_one_of_another_shape_as_add_does(with_graph: bool) -> None:
    def grown(t: Any, x: Any, shape: Any) -> None:
        with t.no_grad():
            t.mul(t.ones(shape), 1, out=x)

    def given(t: Any, x: Any, shape: Any) -> None:
        x.data = t.ones(shape)

    def program(t: Any) -> Any:
        seen = []
        for change in (grown, given):
            for have, shape in ([(1, 2), (1,)], [(2,), ()], [(2,), (3,)], [(1,), (1, 2)]):
                x = t.ones(have, requires_grad=True)
                x.sum().backward()
                change(t, x, shape)
                y = (x * 3).sum()
                kind, text = raised(lambda y=y: y.backward(create_graph=with_graph))
                said = "" if with_graph else text.split(":")[0]
                seen.append([kind, said, list(x.grad.shape), x.grad])
        return seen

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        agree(program)


@pytest.mark.parametrize("with_graph", [False, True])
@pytest.mark.parametrize("shape", [(1, 2), (2, 3), (2, 2)])
def test_a_gradient_of_other_dimensions_is_refused(
    shape: tuple[int, int], with_graph: bool
) -> None:
    def turned(y: Any) -> None:
        y.t_()

    def given(y: Any) -> None:
        y.data = y.data.t().contiguous()

    def program(t: Any) -> Any:
        seen = []
        for change in (turned, given):
            x = t.ones(shape, requires_grad=True)
            y = x.triu()
            with t.no_grad():
                change(y)
            z = (y * t.arange(1.0, 1 + y.numel()).view(y.shape)).sum()
            kind, text = raised(lambda z=z: z.backward(create_graph=with_graph))
            seen.append([kind, old_names(text).split(".")[0], x.grad])
        return seen

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        agree(program)
