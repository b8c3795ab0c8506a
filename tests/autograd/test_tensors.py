"""Tensor functions around the graph: leaves, requires_grad, grad, data, copies, the 0.4 names."""

from __future__ import annotations

import copy
import io
import pickle
import warnings
from typing import Any

import pytest

import ag_visual
from tests.programs import agree, expect, raised


def test_requires_grad_rules() -> None:
    def program(t: Any) -> Any:
        x = t.ones(2, requires_grad=True)
        y = x * 2
        n = t.ones(2, dtype=t.int64)
        y.requires_grad_()
        calls = [
            lambda: y.requires_grad_(False),
            lambda: setattr(y, "requires_grad", False),
            lambda: n.requires_grad_(),
            lambda: setattr(n, "requires_grad", True),
            lambda: setattr(t.ones(2), "requires_grad", 3),
            lambda: t.ones(2, dtype=t.int64, requires_grad=True),
        ]
        seen = [[kind, text[:30]] for kind, text in map(raised, calls)]
        n.requires_grad_(False)
        z = t.ones(2)
        z.requires_grad = True
        z.requires_grad = False
        return [seen, z.requires_grad, x.is_leaf, y.is_leaf, n.is_leaf, (n + 1).requires_grad]

    agree(program)


def test_requires_grad_cannot_be_deleted() -> None:
    def program(t: Any) -> Any:
        return raised(lambda: delattr(t.ones(1), "requires_grad"))

    agree(program)


def test_grad_assignment() -> None:
    def program(t: Any) -> Any:
        x = t.ones(5, 5, requires_grad=True)
        calls = [
            lambda: setattr(x, "grad", 1),
            lambda: setattr(x, "grad", t.ones(2, 2)),
            lambda: setattr(x, "grad", x),
        ]
        seen = [[kind, text[:60]] for kind, text in map(raised, calls)]
        g = t.ones(5, 5)
        x.grad = g
        same = x.grad is g
        x.grad = None
        empty = x.grad is None
        x.grad = g
        del x.grad
        return [seen, same, empty, x.grad is None]

    agree(program)
    x = ag_visual.ones(2, requires_grad=True)
    with pytest.raises(RuntimeError, match="with dtype 'double' to a tensor with dtype 'float'"):
        x.grad = ag_visual.ones(2, dtype=ag_visual.float64)  # 2.13 has another text


def test_data_shares_memory_and_setting_it_replaces_memory() -> None:
    def program(t: Any) -> Any:
        x = t.ones(2, requires_grad=True)
        d = x.data
        d.mul_(3)
        seen = [x.tolist(), d.requires_grad, d.is_leaf, x._version]
        x.data = t.zeros(3)
        (x * 2).sum().backward()
        seen += [x.grad, list(x.shape), x.requires_grad]
        calls = [
            lambda: setattr(x, "data", None),
            lambda: setattr(x, "data", t.ones(2, dtype=t.int64)),
            lambda: delattr(x, "data"),
        ]
        return [seen, [[kind, text[:45]] for kind, text in map(raised, calls)]]

    agree(program)


def test_data_set_to_another_dtype_or_shape_before_backward() -> None:
    def program(t: Any) -> Any:
        x = t.ones(2)
        x.data = t.ones(3, dtype=t.float64)
        y = t.ones(2, requires_grad=True)
        first = (y * 2).sum()
        first.backward()
        y.data = t.ones(2, dtype=t.float64)
        y.grad = None
        (y * 3).sum().backward()
        return [str(x.dtype), list(x.shape), str(y.grad.dtype), y.grad]

    agree(program)


def test_detach_shares_memory_and_is_cut_off() -> None:
    def program(t: Any) -> Any:
        x = t.ones(2, requires_grad=True)
        y = (x * 2).detach()
        z = y * x
        z.sum().backward()
        return [y.requires_grad, y.is_leaf, x.grad, y.grad_fn is None]

    agree(program)


def test_deepcopy_of_leaves() -> None:
    def program(t: Any) -> Any:
        x = t.ones(2, requires_grad=True)
        (x * 3).sum().backward()
        x.note = {"a": [1]}
        y = copy.deepcopy(x)
        same = copy.deepcopy([x, x])
        kind, text = raised(lambda: copy.deepcopy(x * 2))
        y.data.mul_(5)
        return [
            y.requires_grad,
            y.grad,
            y.grad is x.grad,
            x,
            y,
            same[0] is same[1],
            y.note == x.note and y.note is not x.note,
            kind,
            text[:70],
        ]

    agree(program)


def test_shallow_copy_and_pickle() -> None:
    def program(t: Any) -> Any:
        x = t.ones(2, requires_grad=True)
        x.note = "kept"
        y = pickle.loads(pickle.dumps(x))
        buffer = io.BytesIO()
        pickle.dump([x.detach(), t.ones(2, dtype=t.int64)], buffer)
        a, b = pickle.loads(buffer.getvalue())
        return [y, y.requires_grad, y.is_leaf, a.requires_grad, str(b.dtype)]

    agree(program)
    x = ag_visual.ones(2, requires_grad=True)
    assert pickle.loads(pickle.dumps(x)).tolist() == [1.0, 1.0]
    computed = pickle.loads(pickle.dumps(x * 2))
    assert (computed.is_leaf, computed.requires_grad) == (True, True)


def test_numpy_of_tensors_in_the_graph() -> None:
    def program(t: Any) -> Any:
        x = t.ones(2, requires_grad=True)
        kind, text = raised(lambda: x.numpy())
        return [kind, text, x.detach().numpy(), x.numpy(force=True)]

    agree(program)


def test_numbers_from_tensors_that_require_grad_warn() -> None:
    x = ag_visual.tensor(2.0, requires_grad=True)
    with pytest.warns(UserWarning, match="Converting a tensor with requires_grad=True to a scalar"):
        assert float(x) == 2.0


def test_variable_and_its_relatives() -> None:
    def program(t: Any) -> Any:
        V = t.autograd.Variable
        x = V(t.ones(2), requires_grad=True)
        y = V(t.ones(2))
        return [
            isinstance(x, t.Tensor),
            isinstance(t.ones(1), V),
            x.requires_grad,
            y.requires_grad,
            type(x).__name__,
        ]

    agree(program)
    with pytest.warns(UserWarning, match="volatile was removed and now has no effect"):
        ag_visual.autograd.Variable(ag_visual.ones(2), volatile=True)
    assert ag_visual.autograd.variable([1.0], requires_grad=True).requires_grad


def test_variable_shares_memory() -> None:
    def program(t: Any) -> Any:
        a = t.ones(2)
        x = t.autograd.Variable(a, requires_grad=True)
        a.mul_(3)
        return [x, a.requires_grad, x.is_leaf]

    agree(program)


def test_old_argument_names() -> None:
    x = ag_visual.ones(2, requires_grad=True)
    with pytest.warns(FutureWarning, match="grad_variables"):
        ag_visual.autograd.backward([x * 2], grad_variables=[ag_visual.ones(2)])
    assert x.grad.tolist() == [2.0, 2.0]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with pytest.raises(RuntimeError, match="arguments both passed to"):
            ag_visual.autograd.backward([x], [x], grad_variables=[x])
    with pytest.warns(FutureWarning, match="only_inputs argument is deprecated"):
        ag_visual.autograd.grad((x * 2).sum(), x, only_inputs=False)


def test_decorating_a_class_warns() -> None:
    def program(t: Any) -> Any:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")

            @t.no_grad()
            class Thing:
                def __init__(self) -> None:
                    self.mode = t.is_grad_enabled()

        return [Thing().mode, caught[0].category.__name__, str(caught[0].message)[:50]]

    agree(program)


def test_grad_modes_and_coroutines() -> None:
    def program(t: Any) -> Any:
        import asyncio

        seen: list[Any] = []

        @t.no_grad()
        def generator() -> Any:
            seen.append(t.is_grad_enabled())
            got = yield 1
            seen.append([got, t.is_grad_enabled()])
            try:
                yield 2
            except ValueError:
                seen.append(t.is_grad_enabled())
            with t.enable_grad():
                yield t.is_grad_enabled()
            return 4

        g = generator()
        seen.append(next(g))
        seen.append(t.is_grad_enabled())
        seen.append(g.send("sent"))
        seen.append(g.throw(ValueError()))
        try:
            next(g)
        except StopIteration as stop:
            seen.append(stop.value)
        seen.append(t.is_grad_enabled())

        async def work() -> bool:
            with t.no_grad():
                return t.is_grad_enabled()

        seen.append(asyncio.run(work()))
        return seen

    agree(program)


def test_set_grad_enabled_in_its_three_uses() -> None:
    def program(t: Any) -> Any:
        seen = []
        with t.set_grad_enabled(False):
            seen.append(t.is_grad_enabled())
        t.set_grad_enabled(False)
        seen.append(t.is_grad_enabled())
        t.set_grad_enabled(True)

        @t.set_grad_enabled(False)
        def inner() -> bool:
            return t.is_grad_enabled()

        return [*seen, inner(), t.is_grad_enabled(), repr(t.set_grad_enabled(True))]

    agree(program)


def test_grad_of_a_view_of_a_leaf_and_of_slices_in_lists() -> None:
    def program(t: Any) -> Any:
        x = t.arange(6.0).requires_grad_()
        parts = [x.narrow(0, i, 2) for i in (0, 2, 4)]
        sum((p * (i + 1)).sum() for i, p in enumerate(parts)).backward()  # type: ignore[union-attr]
        return [x.grad]

    agree(program, [[1.0, 1.0, 2.0, 2.0, 3.0, 3.0]])


def test_memory_of_attributes_and_weak_references() -> None:
    import weakref

    x = ag_visual.ones(2)
    x.name_of_mine = 3
    ref = weakref.ref(x)
    assert ref().name_of_mine == 3  # type: ignore[union-attr]
    del x
    assert ref() is None


def test_complex_gradients_at_edges() -> None:
    def program(t: Any) -> Any:
        z = t.tensor([1.0 + 2.0j, 0.0 + 0.0j], requires_grad=True)
        z.abs().sum().backward()
        a = t.view_as_real(z.grad)
        w = t.tensor([1.0 + 2.0j], requires_grad=True)
        (w * w).real.sum().backward()
        b = t.view_as_real(w.grad)
        r = t.tensor([2.0], requires_grad=True)
        (r * t.tensor([1.0 + 3.0j])).abs().sum().backward()
        v = t.tensor([1.0 + 1.0j], requires_grad=True)
        kind, text = raised(lambda: (v * v).sum().backward())
        return [a, b, r.grad, str(r.grad.dtype), kind, text[:60]]

    agree(program)


def test_expect_texts_that_2_13_changed() -> None:
    expect(
        lambda t: raised(lambda: t.autograd.grad(t.ones(1), []))[1],
        "grad requires non-empty inputs.",
    )


def test_in_asks_whether_any_element_is_equal() -> None:
    agree(
        lambda t: [2.0 in t.eye(2), 1 in t.eye(2), t.ones(2) in t.eye(2), True in t.zeros(2, 0)],
        [False, True, True, False],
    )


def test_dir_names_only_what_a_tensor_has() -> None:
    x = ag_visual.ones(2, 2)
    # Complex numbers and matrices alone have them, as in torch: RuntimeError for others.
    special = {"imag", "H", "mH", "mT"}
    assert [name for name in dir(x) if name not in special and not hasattr(x, name)] == []
    assert "__cuda_array_interface__" not in dir(x)
    y = ag_visual.ones(2, requires_grad=True).detach()
    assert "_origin" in dir(y), "it says where the tensor was detached"


def test_memory_formats_and_same_memory() -> None:
    def program(t: Any) -> Any:
        x = t.zeros(2, 3)
        contiguous = t.contiguous_format
        return [
            x.is_contiguous(memory_format=contiguous),
            x.t().is_contiguous(memory_format=contiguous),
            raised(lambda: x.is_contiguous(memory_format=3)),
            [x.is_set_to(y) for y in (x, x.view(2, 3), x.clone(), x[0], x.t())],
        ]

    agree(program)


def test_reversed_flips_the_rows() -> None:
    def program(t: Any) -> Any:
        x = t.arange(4.0, requires_grad=True)
        y = reversed(x.view(2, 2))
        (y * t.tensor([[1.0, 2.0], [3.0, 4.0]])).sum().backward()
        return [y.detach(), x.grad, reversed(t.tensor(4))]

    agree(program)


def test_a_function_of_three_and_the_default_type() -> None:
    def program(t: Any) -> Any:
        x = t.ones(2, 2)
        x.map2_(t.ones(2) * 2, t.ones(1, 2) * 3, lambda a, b, c: a + b * c)
        refused = raised(lambda: x.map2_(x, t.ones(2, dtype=t.int64), lambda a, b, c: a))[0]
        typed = t.ones(2, dtype=t.int64).type(t.Tensor)
        return [x, refused, str(typed.dtype)]

    agree(program)


def test_checks_that_raise() -> None:
    def program(t: Any) -> Any:
        kinds = [
            raised(lambda name=name: getattr(t, name)(False, lambda: "why"))
            for name in ("_check", "_check_index", "_check_value", "_check_type")
        ]
        return [
            t._check(True),
            kinds,
            raised(lambda: t._check(3))[0],
            t._assert_async(t.tensor(1)),
            raised(lambda: t._assert_async(t.tensor(0))),
            raised(lambda: t._assert_async(t.tensor(0), "said")),
            raised(lambda: t._assert(t.tensor(False), "said")),
        ]

    agree(program)


def test_devices_that_are_names_only() -> None:
    def program(t: Any) -> Any:
        named = [t.device(n) for n in ("xpu", "mps", "meta", "xla:0")] + [t.device("hpu", 1)]
        unknown = raised(lambda: t.device("foo"))[0]
        return [[(repr(d), d == t.device(str(d))) for d in named], unknown]

    agree(program)
    with pytest.raises(RuntimeError, match="no array library serves device type 'xpu'"):
        ag_visual.ones(2, device="xpu")
