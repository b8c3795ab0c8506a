"""Views and in-place writes: who shares a version, whose history changes, and what is forbidden."""

from __future__ import annotations

import warnings
from typing import Any

import pytest

import ag_visual
from tests.oracle import torch
from tests.programs import agree, expect, old_names, raised


def test_base_and_views_share_one_version_counter_and_detach_does_too() -> None:
    def program(t: Any) -> Any:
        x = t.zeros(4)
        v = x.view(2, 2)
        d = x.detach()
        data = x.data
        v.add_(1)
        seen = [x._version, v._version, d._version, data._version]
        d.add_(1)
        seen += [x._version, v._version, d._version]
        data.add_(1)
        return [*seen, x._version, data._version, x]

    agree(program, [1, 1, 1, 0, 2, 2, 2, 2, 1, [3.0] * 4])


def test_in_place_on_a_view_rebases_its_base() -> None:
    def program(t: Any) -> Any:
        x = t.ones(4, requires_grad=True)
        y = x * 2
        v = y.narrow(0, 1, 2)
        v.mul_(t.tensor([3.0, 5.0]))
        seen = [
            y.grad_fn.name(),
            v.grad_fn.name(),
            [f and f.name() for f, _ in y.grad_fn.next_functions],
        ]
        (y * t.tensor([1.0, 10.0, 100.0, 1000.0])).sum().backward()
        return [seen, x.grad, y, v]

    agree(program)


def test_writing_the_base_regenerates_the_grad_fn_of_its_views() -> None:
    def program(t: Any) -> Any:
        x = t.ones(4, requires_grad=True)
        y = x * 2
        v = y.narrow(0, 1, 2)
        first = v.grad_fn.name()
        y.mul_(3)
        second = v.grad_fn.name()
        v.sum().backward()
        return [first, second, x.grad]

    agree(program, ["SliceBackward0", "AsStridedBackward0", [0.0, 6.0, 6.0, 0.0]])


def test_a_view_of_a_view_regenerates_from_the_base() -> None:
    def program(t: Any) -> Any:
        x = t.arange(12.0).requires_grad_()
        y = x * 1
        v = y.view(3, 4).t().narrow(0, 1, 2).select(1, 1)
        y.mul_(3)
        name = v.grad_fn.name()
        (v * t.tensor([2.0, 5.0])).sum().backward()
        return [name, x.grad, v]

    agree(program)


def test_in_place_with_a_source_that_requires_grad_makes_the_base_require_grad() -> None:
    def program(t: Any) -> Any:
        base = t.zeros(4)
        other = base.narrow(0, 0, 3)
        w = t.tensor([1.0, 2.0], requires_grad=True)
        v = base.narrow(0, 1, 2)
        v.mul_(0).add_(w)
        seen = [base.requires_grad, base.grad_fn.name(), other.requires_grad, other.is_leaf]
        (base * base).sum().backward()
        return [seen, w.grad]

    agree(program)


def test_each_row_written_in_a_loop() -> None:
    def program(t: Any) -> Any:
        x = t.tensor([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]], requires_grad=True)
        out = t.zeros(3, 2)
        for i in range(3):
            out.select(0, i).copy_(x.select(0, i) * (i + 1))
        out.sum().backward()
        return [out, x.grad]

    agree(program, [[[1.0, 2.0], [6.0, 8.0], [15.0, 18.0]], [[1.0, 1.0], [2.0, 2.0], [3.0, 3.0]]])


MULTI = (
    "unbind",
    "split",
    "chunk",
    "split_with_sizes",
    "iteration",
    "view of unbind",
)


@pytest.mark.parametrize("how", MULTI)
def test_outputs_of_multi_output_views_must_not_be_written(how: str) -> None:
    def program(t: Any) -> Any:
        def first(y: Any) -> Any:
            if how == "unbind":
                return y.unbind(0)[0]
            if how == "split":
                return y.split(1)[0]
            if how == "chunk":
                return y.chunk(2)[0]
            if how == "split_with_sizes":
                return y.split([1, 1])[0]
            if how == "iteration":
                return next(iter(y))
            return y.unbind(0)[0].view(2)

        def attempt(write: Any) -> Any:
            y = t.ones(2, 2, requires_grad=True) * 1
            v = first(y)
            kind, text = raised(lambda: write(v))
            return [kind, old_names(text)[:60]]

        return [attempt(lambda v: v.mul_(2)), attempt(lambda v: v.add_(1))]

    agree(program)


def test_metadata_of_a_multi_output_view_must_not_be_written_either() -> None:
    def program(t: Any) -> Any:
        y = t.ones(2, 1, requires_grad=True) * 1
        v = y.unbind(0)[0]
        kind, text = raised(lambda: v.squeeze_())
        return [kind, old_names(text)[:50]]

    agree(program)


def test_a_base_whose_multi_output_views_exist_may_be_written() -> None:
    def program(t: Any) -> Any:
        x = t.ones(2, 2, requires_grad=True)
        y = x * 1
        a, _ = y.unbind(0)
        y.mul_(3)
        seen = [y.grad_fn.name()]
        kind, text = raised(lambda: a.grad_fn)
        y.sum().backward()
        return [seen, kind, old_names(text)[:100], x.grad]

    agree(program)


def test_no_grad_view_written_with_grad() -> None:
    def program(t: Any) -> Any:
        base = t.ones(2, requires_grad=True) * 1
        with t.no_grad():
            v = base.view(2)
        one = raised(lambda: v.mul_(2))
        with t.no_grad():
            w = base.view(2)
        inner = w.view(2)
        two = raised(lambda: inner.mul_(2))
        with t.no_grad():
            a, _ = base.unbind()
        three = raised(lambda: a.mul_(2))
        return [[kind, old_names(text)[:200]] for kind, text in (one, two, three)]

    agree(program)


@pytest.mark.parametrize("name", ["sin", "exp", "neg", "square", "sum", "abs"])
def test_an_op_on_a_view_without_history_leads_nowhere(name: str) -> None:
    def program(t: Any) -> Any:
        x = t.tensor([1.0, 2.0], requires_grad=True)
        with t.no_grad():
            v = x.view(2)
        y = getattr(v, name)()
        (y * 2).sum().backward(retain_graph=True)
        (y * 3).sum().backward()
        z = v * x
        z.sum().backward()
        nothing = list(y.grad_fn.next_functions[0])
        return [v.requires_grad, v.is_leaf, y.requires_grad, nothing, v.grad is None, x.grad]

    agree(program)


def test_no_grad_view_written_in_no_grad_raises_lazily() -> None:
    def program(t: Any) -> Any:
        base = t.ones(2, requires_grad=True) * 1
        with t.no_grad():
            v = base.view(2)
            v.mul_(2)
        first = [base._version, v._version, base.grad_fn.name()]
        kind, text = raised(lambda: v.grad_fn)
        kind2, _ = raised(lambda: v.is_leaf)
        return [first, kind, text[:110], kind2]

    agree(program)


def test_writing_leaves_and_views_of_leaves() -> None:
    def program(t: Any) -> Any:
        x = t.ones(2, requires_grad=True)
        calls = [lambda: x.add_(1), lambda: x.view(2).add_(1), lambda: x.narrow(0, 0, 1).zero_()]
        seen = [[kind, text.split("\n")[0]] for kind, text in map(raised, calls)]
        with t.no_grad():
            x.add_(1)
            x.view(2).add_(1)
        return [seen, x, x._version]

    agree(program)


def test_a_no_grad_write_of_a_leaf_is_seen_by_saved_tensors() -> None:
    def program(t: Any) -> Any:
        x = t.ones(2, requires_grad=True)
        y = (x * x).sum()
        with t.no_grad():
            x.mul_(2)
        kind, text = raised(lambda: y.backward())
        return [kind, text[:87]]

    agree(program)


def test_detach_in_place() -> None:
    def program(t: Any) -> Any:
        leaf = t.ones(2, requires_grad=True)
        leaf.detach_()
        y = t.ones(2, requires_grad=True) * 2
        v = y.view(2)
        kind, text = raised(lambda: v.detach_())
        before = v.requires_grad
        y.detach_()
        return [
            leaf.requires_grad,
            kind,
            text[:50],
            y.requires_grad,
            y.is_leaf,
            before,
            v.requires_grad,
            t.ones(2).detach_().requires_grad,
        ]

    agree(program)


def test_output_written_by_its_own_function_is_saved_as_the_new_version() -> None:
    def program(t: Any) -> Any:
        x = t.tensor([-1.0, 2.0], requires_grad=True)
        y = (x * 1).exp_()
        y.sum().backward()
        a = t.tensor([0.5, 1.0], requires_grad=True)
        b = a * 2
        b.sqrt_()
        b.sum().backward()
        return [x.grad, a.grad, b._version]

    agree(program)


SAVES = {
    "exp saves its result": (lambda t, x: x.exp(), True),
    "10 * x saves nothing": (lambda t, x: 10 * x, False),
    "x + 1 saves nothing": (lambda t, x: x + 1, False),
    "pow saves its input": (lambda t, x: x**3, False),
    "tanh saves its result": (lambda t, x: x.tanh(), True),
    "sqrt saves its result": (lambda t, x: x.sqrt(), True),
    "sin saves its input": (lambda t, x: x.sin(), False),
    "neg saves nothing": (lambda t, x: -x, False),
}


@pytest.mark.parametrize("name", SAVES)
def test_what_an_op_saves_decides_which_write_is_legal(name: str) -> None:
    make, result_fails = SAVES[name]

    def program(t: Any) -> Any:
        seen = []
        for target in ("input", "result"):
            x = t.tensor([0.5, 2.0], requires_grad=True)
            middle = x * 1
            y = make(t, middle)
            (middle if target == "input" else y).add_(1)
            seen.append(raised(y.sum().backward)[0])
        return seen

    seen = program(ag_visual)
    assert (seen[1] == "RuntimeError") == result_fails
    agree(program)


def test_version_error_text_names_type_size_producer_and_versions() -> None:
    def program(t: Any) -> Any:
        x = t.ones(5, 5, requires_grad=True)
        y = x + 1
        z = y * y
        y.add_(1)
        return raised(lambda: z.sum().backward())[1].split("\n")[0]

    expect(  # 2.8 prints the node name; 2.13 the name of the forward op
        program,
        "one of the variables needed for gradient computation has been modified by an inplace "
        "operation: [torch.FloatTensor [5, 5]], which is output 0 of AddBackward0, is at version "
        "1; expected version 0 instead.",
    )


def test_views_of_complex_and_real() -> None:
    def program(t: Any) -> Any:
        x = t.tensor([1.0, 2.0, 3.0, 4.0], requires_grad=True)
        y = x * 1
        z = t.view_as_complex(y.view(2, 2))
        z.mul_(2j)
        y.sum().backward()
        c = t.tensor([1.0 + 2.0j], requires_grad=True)
        d = c * 1
        d.real.mul_(3)
        t.view_as_real(d).sum().backward()
        return [x.grad, y, t.view_as_real(c.grad)]

    agree(program)


def test_bytes_as_another_dtype_share_memory_and_version_but_no_history() -> None:
    def program(t: Any) -> Any:
        seen = []
        for kind in (t.float32, t.int32, t.float16, t.uint8):
            y = t.tensor([1.0, 2.0], requires_grad=True) * 1
            z = y * y
            v = y.view(kind)
            seen.append([v is y, v.requires_grad, v.is_leaf, v._is_view(), v._version])
            v.zero_()
            seen.append([v._version, y._version, y.requires_grad, y])
            seen.append(raised(lambda z=z: z.sum().backward())[1][:60])
        c = t.tensor([1 + 2j], requires_grad=True) * 1
        return [seen, c.view(t.float32), c.view(t.float32).requires_grad]

    agree(program)


def test_data_has_its_own_counter_and_its_writes_warn() -> None:
    x = ag_visual.tensor([2.0], requires_grad=True)
    y = x * x
    x.data.mul_(10)
    assert x._version == 0
    with pytest.warns(ag_visual.errors.SilentWriteWarning, match="written through .data"):
        y.backward()


def test_as_strided_view_and_write() -> None:
    def program(t: Any) -> Any:
        x = t.arange(6.0).requires_grad_()
        y = x * 1
        v = y.as_strided((2, 2), (2, 1), 1)
        v.mul_(2)
        w = y.as_strided((2,), (3,))
        (w * t.tensor([1.0, 10.0])).sum().backward()
        return [y, v, w, x.grad, v.grad_fn.name()]

    agree(program)


def test_a_view_of_a_leaf_made_before_it_required_grad() -> None:
    def program(t: Any) -> Any:
        x = t.ones(2)
        v = x.view(2)
        x.requires_grad_()
        seen = [v.requires_grad, v.is_leaf, v.grad_fn is None]
        kind, text = raised(lambda: v.add_(1))
        return [seen, kind, text[:60]]

    agree(program)


def test_a_base_that_begins_to_require_grad_through_another_view() -> None:
    def program(t: Any) -> Any:
        base = t.zeros(4)
        a, b = base.narrow(0, 0, 2), base.narrow(0, 1, 2)
        w = t.ones(2, requires_grad=True)
        a.copy_(w)
        seen = [b.requires_grad, b.grad_fn.name()]
        b.mul_(t.tensor([5.0, 7.0]))
        (base * t.tensor([1.0, 2.0, 3.0, 4.0])).sum().backward()
        return [seen, w.grad, base]

    agree(program)


def test_view_through_copyslices_with_several_inputs() -> None:
    def program(t: Any) -> Any:
        x = t.arange(1.0, 5.0).requires_grad_()
        w = t.tensor([2.0, 3.0], requires_grad=True)
        y = x * 1
        y.narrow(0, 1, 2).mul_(w)
        y.view(2, 2).select(1, 0).add_(w, alpha=2)
        (y * y).sum().backward()
        return [x.grad, w.grad, y]

    agree(program)


def test_double_backward_through_a_written_view() -> None:
    def program(t: Any) -> Any:
        x = t.arange(1.0, 5.0).requires_grad_()
        y = x * x
        y.narrow(0, 1, 2).mul_(x.narrow(0, 0, 2))
        (g,) = t.autograd.grad((y * y).sum(), x, create_graph=True)
        (h,) = t.autograd.grad(g.sum(), x)
        return [g, h]

    agree(program)


def test_in_place_is_recorded_only_with_grad_mode_on() -> None:
    def program(t: Any) -> Any:
        x = t.ones(2, requires_grad=True)
        y = x * 2
        node = y.grad_fn
        with t.no_grad():
            y.mul_(5)
        return [y.grad_fn is node, y._version, y.requires_grad]

    agree(program, [True, 1, True])


def test_base_and_is_view() -> None:
    def program(t: Any) -> Any:
        x = t.ones(2, 3)
        v = x.t().select(0, 1)
        return [v._base is x, v._is_view(), x._is_view(), x._base is None, x.detach()._is_view()]

    seen = program(ag_visual)
    assert seen[:4] == program(torch)[:4] == [True, True, False, True]


def test_force_original_view_tracking_replays_views() -> None:
    def program(t: Any) -> Any:
        with t.autograd.grad_mode._force_original_view_tracking(True):
            x = t.ones(4, requires_grad=True)
            y = x * 2
            v = y.view(2, 2)
            y.mul_(3)
            name = v.grad_fn.name()
            w = y.narrow(0, 1, 2)
            w.mul_(2)
            (v.sum() + w.sum()).backward()
        return [name, w.grad_fn.name(), x.grad]

    agree(program)


def test_a_write_to_a_view_that_is_behind_its_base_blames_the_write_and_not_the_base() -> None:
    def program(t: Any) -> Any:
        x = t.ones(3, requires_grad=True)
        with t.no_grad():
            view = x[:2]
            x.add_(1)
        y = x * 1
        with t.no_grad():
            other = y[:2]
        part = y.unbind()[0]
        y.add_(1)
        leaf = t.ones(2, requires_grad=True)
        calls = [
            lambda: view.add_(1),
            lambda: other.mul_(2),
            lambda: part.zero_(),
            lambda: leaf.add_(other),
            lambda: t.ones(2).add_(other),
        ]
        return [(kind, old_names(text.split("\n")[0])[:90]) for kind, text in map(raised, calls)]

    agree(program)


def _history(fn: Any) -> list[str]:
    """The names of the nodes from one on, along their first edges."""
    names = []
    while fn is not None:
        names.append(fn.name())
        fn = fn.next_functions[0][0] if fn.next_functions else None
    return names


@pytest.mark.parametrize("turn", ["t_", "squeeze_", "unsqueeze_", "transpose_"])
def test_a_view_that_is_turned_without_grad_follows_its_base(turn: str) -> None:
    def program(t: Any) -> Any:
        dims = {"unsqueeze_": (0,), "transpose_": (0, 1)}.get(turn, ())
        x = t.ones(2, 2, requires_grad=True)
        leaf_view = x.view_as(x)
        y = x * 2
        with t.no_grad():
            plain = t.ones(2, 2)[:1]
            getattr(leaf_view, turn)(*dims)
            getattr(plain, turn)(*dims)
            made_without = y[:1]
            getattr(made_without, turn)(*dims)
        seen = [_history(leaf_view.grad_fn), plain.is_leaf, plain.requires_grad]
        seen.append(raised(lambda: made_without.is_leaf)[0])
        (leaf_view * 3).sum().backward()
        return [*seen, leaf_view, x.grad]

    agree(program)


def test_a_view_of_another_dtype_is_followed_by_its_own_node() -> None:
    def program(t: Any) -> Any:
        x = t.ones(4, 2, requires_grad=True)
        y = x * 1
        views = [y[:2]]
        views.append(t.view_as_complex(views[-1]))
        views.append(views[-1][1:])
        views.append(t.view_as_real(views[-1]))
        views.append(views[-1][0])
        views.append(views[2].real)
        y.mul_(2)
        seen = [_history(view.grad_fn) for view in views]
        sum((view.abs() * n).sum() for n, view in enumerate(views, 1)).backward()
        return [seen, x.grad]

    agree(program)


def test_a_vector_times_a_matrix_is_no_view() -> None:
    def program(t: Any) -> Any:
        product = t.ones(3, requires_grad=True) @ t.ones(3, 2)
        return [product._is_view(), product._version, _history(product.grad_fn), product]

    agree(program)


@pytest.mark.parametrize("mode", ["no_grad", "inference_mode"])
def test_a_view_without_history_requires_grad_as_long_as_its_base_does(mode: str) -> None:
    def program(t: Any) -> Any:
        def seen(make: Any) -> Any:
            x = t.ones(2, 2, requires_grad=True)
            with getattr(t, mode)():
                v = make(x)
            found = [v.requires_grad]
            for wanted in (False, True, False):
                x.requires_grad_(wanted)
                found.append(v.requires_grad)
            return [*found, (v * 2).requires_grad]

        steps = [lambda x: x.view(4), lambda x: x[0], lambda x: x.unbind()[1], lambda x: x.t()[0]]
        return [seen(make) for make in steps]

    agree(program, [[True, False, True, False, False]] * 4)


@pytest.mark.parametrize("mode", ["no_grad", "inference_mode"])
def test_a_view_that_cannot_be_followed_may_be_converted_to_integers(mode: str) -> None:
    """What has no gradient asks nobody for a history."""

    def program(t: Any) -> Any:
        x = t.ones(2, requires_grad=True) * 1
        with getattr(t, mode)():
            v = x.view(2)
        x.add_(1)
        with t.autograd.graph.saved_tensors_hooks(lambda s: s, lambda s: s):  # the slow path
            slow = [v.long(), v.to(t.bool)]
        return [v.long(), v.bool(), v.type(t.int32), *slow, raised(lambda: v.double())[0]]

    agree(program)


CHAINS = [
    "t.real",
    "t.real.t()",
    "t.imag[0][1:]",
    "t.t()[0].real.unsqueeze(0)",
    "torch.view_as_complex(torch.view_as_real(t)[1:])[0]",
    "torch.view_as_complex(torch.view_as_real(t)).real[0]",
]


@pytest.mark.parametrize("steps", CHAINS)
def test_each_step_after_a_change_of_dtype_has_a_node_of_its_own(steps: str) -> None:
    def program(torch: Any) -> Any:
        x = torch.tensor([[1 + 1j, 2, 3j], [4, 5, 6]], requires_grad=True)
        t = x * 1
        v = eval(steps)
        t.mul_(2j)
        nodes, offset = _history(v.grad_fn), v.grad_fn._saved_storage_offset
        v.abs().sum().backward()
        return nodes, offset, x.grad.real, x.grad.imag

    agree(program)


STALE = {
    "unbind": lambda t, x: x.unbind(0)[0],
    "no_grad": lambda t, x: _without_grad(t, x),
    "as it is": lambda t, x: _as_it_is(t).apply(x),
}


def _without_grad(t: Any, x: Any) -> Any:
    with t.no_grad():
        return x[0]


def _as_it_is(t: Any) -> Any:
    class AsItIs(t.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            return x

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            return g

    return AsItIs


@pytest.mark.parametrize("made", STALE)
def test_a_function_takes_a_refused_view_where_it_records_nothing(made: str) -> None:
    def program(t: Any) -> Any:
        x = t.tensor([1.0, 2.0], requires_grad=True) * 1
        v = STALE[made](t, x)
        x.mul_(3)
        with t.no_grad():
            y = _as_it_is(t).apply(v)
        return y.tolist(), raised(lambda: _as_it_is(t).apply(v))[0]

    agree(program)


@pytest.mark.parametrize("made", STALE)
@pytest.mark.parametrize("special", [False, True])
def test_a_refused_view_may_be_converted_to_integers(made: str, special: bool) -> None:
    def program(t: Any) -> Any:
        x = t.tensor([1.0, 2.0], requires_grad=True) * 1
        v = STALE[made](t, x)
        x.mul_(3)
        hooks = t.autograd.graph.saved_tensors_hooks(lambda y: y, lambda y: y)
        with hooks if special else t.enable_grad():
            found = [v.bool(), v.long(), v.to(t.int32), v.type(t.uint8)]
            refused = [raised(lambda: v.double())[0], raised(lambda: v.to(t.float16))[0]]
        return found, [each.requires_grad for each in found], refused

    agree(program)


@pytest.mark.parametrize("change", ["requires_grad_", "set", "leave"])
@pytest.mark.parametrize("value", [True, False])
def test_requires_grad_of_a_view_that_is_behind_its_base(change: str, value: bool) -> None:
    def changed(v: Any) -> tuple[str, str]:
        def call() -> None:
            if change == "set":
                v.requires_grad = value
            elif change == "requires_grad_":
                v.requires_grad_(value)

        return raised(call)[0], v.requires_grad, (v * 2).requires_grad if v.dim() else None

    def program(t: Any) -> Any:
        seen = []
        x = t.zeros(2, 2, requires_grad=True)
        with t.no_grad():
            v, number = x[0], x[0, 0]
            x.mul_(2)
        seen += [changed(number), raised(lambda: v * 2)[0], raised(lambda: v.grad_fn)[0]]
        x.detach_()
        seen += [changed(v), changed(v)]
        x = t.zeros(2, 2)
        v = x[0]
        x[1].copy_(t.ones(2, requires_grad=True))
        seen += [changed(v), v.is_leaf]
        return seen

    agree(program)


def test_a_place_that_was_written_through_one_of_its_elements_has_no_gradient() -> None:
    """Torch refuses it too, where ours gave that of the element which was not written."""

    def program(t: Any) -> Any:
        x = t.arange(1.0, 5.0, requires_grad=True) * 1
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            x.expand(2, 4)[t.tensor([0])] = 1.0
        return raised((x * x).sum().backward)[1][:50]

    agree(program)


def test_a_write_that_is_refused_leaves_the_history_of_a_view() -> None:
    def program(t: Any) -> Any:
        x = t.arange(3.0).requires_grad_()
        v = x[None]
        x.detach().mul_(1)
        refused = raised(lambda: v.mul_(2))[0]
        x.requires_grad_(False)
        return refused, [node for node, _ in v.grad_fn.next_functions]

    agree(program)


def test_a_view_of_a_leaf_that_is_detached_in_place_requires_no_grad() -> None:
    def program(t: Any) -> Any:
        x = t.ones(2, 2, requires_grad=True)
        with t.no_grad():
            v, own = x.t(), x.view(-1)
        own.requires_grad_()
        y = v * 2
        x.detach_()
        return y.requires_grad, [
            (each.requires_grad, (each * 2).requires_grad) for each in (v, own)
        ]

    agree(program, [True, [[False, False], [True, True]]])


@pytest.mark.parametrize("with_graph", [False, True])
def test_the_gradient_of_a_regenerated_view_has_memory_of_its_own(with_graph: bool) -> None:
    def program(t: Any) -> Any:
        seen = []
        for step in (
            "transpose(0, 0)",
            "view(2, 1)",
            "unsqueeze(0)",
            "expand(3, 2)",
            "narrow(0, 0, 1)",
        ):
            y = t.tensor([1.0, 2.0], requires_grad=True) * 1
            v = eval(f"y.{step}", {"y": y})
            with t.no_grad():
                y.mul_(2)
            (g,) = t.autograd.grad(v.sum(), [y], create_graph=with_graph)
            seen.append([g, g.stride(), g.requires_grad])
        return seen

    agree(program)


def test_a_hook_may_write_the_gradient_of_what_was_stacked() -> None:
    def program(t: Any) -> Any:
        x = t.tensor([1.0, 2.0], requires_grad=True)
        y = x.exp()
        y.register_hook(lambda g: g.mul_(2))
        z = t.stack([x, y])
        (g,) = t.autograd.grad((z * z).sum(), [x], create_graph=True)
        nodes = sorted(node.name() for node, _ in z.grad_fn.next_functions if node)
        g.sum().backward()
        return nodes, g, x.grad

    agree(program)


def test_values_that_are_set_lose_leading_ones_by_a_view() -> None:
    def program(t: Any) -> Any:
        x = t.arange(6.0).view(2, 3).t().requires_grad_()
        y = t.zeros(2, 3, 2)
        y[t.tensor([0])] = x[None]
        z = t.zeros(2, 3, 2)
        z[...] = x[None, None]
        nodes = [y.grad_fn.next_functions[-1][0].name(), z.grad_fn.next_functions[-1][0].name()]
        (y * y + z).sum().backward()
        return nodes, y, z, x.grad

    agree(program)


@pytest.mark.parametrize("made", ["view(1)", "tensor_split(2, 0)[0]", "unbind()[0]"])
@pytest.mark.parametrize("later", ["requires_grad_(False)", "detach_()"])
def test_a_view_without_history_is_written_once_its_base_needs_no_gradient(
    made: str, later: str
) -> None:
    def program(t: Any) -> Any:
        x = t.ones(1, requires_grad=True)
        with t.no_grad():
            view = eval(f"x.{made}")
        eval(f"x.{later}")
        view.fill_(3)
        view.mul_(2)
        return [x, x.requires_grad, view.requires_grad, (view * 2).requires_grad]

    agree(program)
