"""What a view shares with its memory: geometry changed in place, expanded memory, `.data`, sets."""

from __future__ import annotations

import warnings
from typing import Any

import pytest

import ag_visual as ag
from ag_visual.errors import SilentWriteWarning
from tests.programs import agree, raised

# Leaves that are views, and inference tensors ---------------------------------------------------


TURNS = ("squeeze_()", "unsqueeze_(0)", "transpose_(0, 1)", "swapaxes_(0, 1)", "t_()")


def test_a_leaf_that_is_a_view_stays_a_leaf() -> None:
    def program(t: Any) -> Any:
        seen = []
        for turn in TURNS:
            p = t.zeros(6).view(3, 2).requires_grad_()
            with t.no_grad():
                eval(f"p.{turn}", {"p": p})
            (p * p + p).sum().backward()
            seen.append([p.grad, p.is_leaf, p.requires_grad])
        p = t.zeros(4).view(2, 2).requires_grad_()
        p.as_strided((2,), (2,), 1).sum().backward()
        return [seen, p.grad]

    agree(program)


def test_geometry_changed_in_place_asks_inference_mode() -> None:
    def program(t: Any) -> Any:
        found = []
        for change in (*TURNS, "as_strided_((2,), (1,))", "swapdims_(0, 1)", "resize_(1)"):
            with t.inference_mode():
                c = t.ones(2, 2, requires_grad=True)
            found.append(raised(lambda c=c, s=change: eval(f"c.{s}", {"c": c}))[1][:60])
        return found

    agree(program)


def test_inference_tensors_alone_record_nothing_outside() -> None:
    def program(t: Any) -> Any:
        with t.inference_mode():
            c = t.ones(1, 2, 3, requires_grad=True)
            c.resize_(1, 3)
            c.resize_as_(t.ones(3, 1))
        made = [c.view(-1), c[0], c.t(), c * c, c.exp(), c + c, t.cat([c, c]), c.unbind(0)[1]]
        told = [[x.requires_grad, x.is_leaf, x.is_inference(), x._is_view()] for x in made]
        with_normal = raised(lambda: c * t.ones(3, 1, requires_grad=True))[1][:47]
        return [told, with_normal]

    agree(program)


# Memory exchanged -------------------------------------------------------------------------------


def test_data_that_is_given_brings_its_memory() -> None:
    def program(t: Any) -> Any:
        p = t.arange(6.0)[2:]
        p.data = t.ones(3)
        q = t.arange(6.0)[2:]
        q.data = t.arange(9.0)[3:]
        views = p.as_strided((2,), (1,), 1), q.as_strided((2,), (1,), 1)
        return [p.storage_offset(), q.storage_offset(), *views]

    agree(program)


def test_set_gives_a_leaf_another_accumulator() -> None:
    def program(t: Any) -> Any:
        x = t.ones(2, requires_grad=True)
        out, edge = x.clone(), t.autograd.graph.get_gradient_edge(x)
        with t.no_grad():
            x.set_(t.rand(2))
        unused = raised(lambda: t.autograd.grad(out.sum(), x, retain_graph=True))[1]
        return ["appears to not have been used" in unused, t.autograd.grad(out.sum(), edge)]

    agree(program)


def test_resizing_to_the_same_shape_is_no_write() -> None:
    def program(t: Any) -> Any:
        x = t.rand(3)
        x.resize_(3)
        x.resize_as_(x.clone())
        return x._version

    agree(program, 0)


def test_a_parameter_shares_the_version_of_what_it_was_made_of() -> None:
    def program(t: Any) -> Any:
        memory = t.arange(6.0)
        p = t.nn.Parameter(memory[2:])
        memory.add_(1)
        seen = [p._version, p.storage_offset(), p._is_view()]
        with t.no_grad():
            p.add_(1)
        return [seen, p._version, memory._version, memory]

    agree(program)


def test_as_strided_in_place_of_a_view() -> None:
    def program(t: Any) -> Any:
        x = t.arange(6.0, requires_grad=True)
        b = (x * 1).reshape(2, 3)
        v = b.t()
        v.as_strided_((2,), (1,))
        v.mul_(3)
        return [v, v._is_view(), b, t.autograd.grad(b.sum(), x)[0]]

    agree(program)


def test_as_strided_of_complex_views_and_of_column_major_memory() -> None:
    def program(t: Any) -> Any:
        z = t.view_as_complex(t.arange(8.0).view(4, 2)).as_strided((2,), (2,), 1)
        eye = t.zeros_like(t.zeros(3, 3).t()).fill_diagonal_(1.0)
        y = t.arange(6.0).view(2, 3).t().contiguous().t().requires_grad_()
        w = y.clone().as_strided((2, 2), (1, 2), 1)
        return [t.view_as_real(z), eye, w, t.autograd.grad((w * w).sum(), y)[0]]

    agree(program)


def test_second_derivatives_through_a_strided_view() -> None:
    def program(t: Any) -> Any:
        x = t.arange(12.0).view(3, 4).requires_grad_()
        seen = []
        for v in (x.t(), x[1:], x[:1].expand(3, 4)):
            w = v.as_strided((2, 2), (1, 2), v.storage_offset() + 1)
            (g,) = t.autograd.grad((w**3).sum(), x, create_graph=True)
            seen += [g, *t.autograd.grad((g * g).sum(), x)]
        return seen

    agree(program)


def test_a_chain_with_complex_views_is_written() -> None:
    def program(t: Any) -> Any:
        x = t.arange(4.0).view(2, 2).add(1).requires_grad_()
        r = t.view_as_real(t.view_as_complex(x.clone()))
        r.mul_(2)
        b = t.view_as_complex(x.clone()).reshape(-1)
        b.mul_(2)
        return t.autograd.grad(r.sum() + b.sum().abs(), x)

    agree(program)


# Expanded memory, masks, out= ------------------------------------------------------------------


WRITES = (
    "zero_()",
    "fill_(2)",
    "fill_(t.tensor(2.0))",
    "masked_fill_(mask, 7.0)",
    "masked_fill_(mask, t.tensor(7.0))",
    "index_fill_(1, t.tensor([0]), 7.0)",
    "index_put_((t.tensor([0]),), t.tensor(7.0))",
    "index_put_((t.tensor([0]),), t.tensor(7.0), accumulate=True)",
    "__setitem__(t.tensor([0]), 1.0)",
    "__setitem__(False, 1.0)",
    "__setitem__(True, 1.0)",
    "__setitem__(..., 1.0)",
    "__setitem__(0, 1.0)",
    "detach().add_(1.0)",
    "add_(1.0)",
    "copy_(t.ones(2, 3))",
)


@pytest.mark.parametrize("write", WRITES)
def test_writes_to_expanded_memory(write: str) -> None:
    def program(t: Any) -> Any:
        e = t.arange(3.0).expand(2, 3)
        mask = t.tensor([[True, False, False]] * 2)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            kind, text = raised(lambda: eval(f"e.{write}", {"e": e, "t": t, "mask": mask}))
        return [e, kind, text[:60], [str(w.message)[:45] for w in caught]]

    agree(program)


def test_threshold_in_place_and_what_is_false() -> None:
    def program(t: Any) -> Any:
        e = t.arange(3.0).expand(2, 3)
        t.nn.functional.threshold_(e, 0.5, 9.0)
        y = t.arange(4.0)
        y[False] = y.detach()
        b = t.tensor([1.0, 0, 2, 0, 3, 0, 4, 0])
        s = b[::2]
        s.masked_scatter_(t.tensor([False, True, True, True]), s)
        return [e, y, y._version, s]

    agree(program)


def test_out_of_another_shape_keeps_its_memory() -> None:
    def program(t: Any) -> Any:
        x, y = t.arange(6.0), t.arange(6.0)
        part, whole = x[2:5], y.detach()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            t.add(t.ones(2), 1, out=part)
            t.add(t.ones(2), 1, out=whole)
        return [x, part, part.storage_offset(), y, whole]

    agree(program)


def test_kron_and_quantile_are_no_views() -> None:
    def program(t: Any) -> Any:
        p = t.tensor(1.0, requires_grad=True)
        x = t.arange(6.0).view(2, 3)
        seen = []
        made = (
            lambda: t.kron(x, x),
            lambda: t.kron(x[0, 0], x[0, 1]),
            lambda: x.quantile(0.5),
            lambda: x.quantile(0.5, 0, keepdim=True),
            lambda: x.quantile(t.tensor([0.2, 0.5]), 1),
            lambda: x.nanquantile(0.5, 1),
        )
        for make in made:
            with t.no_grad():
                y = make()
            seen.append([y._is_view(), y.stride(), y])
            y *= p
        return seen

    agree(program)


def test_attention_gives_heads_back_in_the_layout_of_the_query() -> None:
    def program(t: Any) -> Any:
        f = t.nn.functional.scaled_dot_product_attention
        q = t.arange(640.0).view(2, 10, 4, 8).div(640).transpose(1, 2)
        turned = t.arange(640.0).view(2, 4, 8, 10).div(640).transpose(2, 3)
        y = f(q, q, q)
        return [y.stride(), y.transpose(1, 2).view(2, 10, 32), f(turned, q, q).stride()]

    agree(program)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32"])
def test_special_functions_of_repeated_rows_are_row_major(dtype: str) -> None:
    def program(t: Any) -> Any:
        x = t.tensor([0.25, 0.5], dtype=getattr(t, dtype)).expand(3, 2)
        names = ("erf", "erfc", "erfinv", "lgamma", "digamma", "sinc", "i0")
        return [getattr(t, name)(x).stride() for name in names]

    agree(program)


@pytest.mark.parametrize("product", ["mm", "addmm", "linear"])
@pytest.mark.parametrize("with_graph", [False, True])
def test_gradients_of_factors_are_laid_out_as_the_factors(product: str, with_graph: bool) -> None:
    def multiplied(t: Any, a: Any, b: Any) -> Any:
        if product == "addmm":
            return t.addmm(t.zeros(2, 4), a, b)
        return t.nn.functional.linear(a, b.t()) if product == "linear" else a.mm(b)

    def laid(t: Any, rows: int, columns: int) -> Any:
        by_rows = t.ones(rows, columns)
        by_columns = t.ones(columns, rows).t()
        with_gaps = t.ones(columns, rows + 1).t()[:rows]
        repeated = t.ones(columns).expand(rows, columns)
        return [by_rows, by_columns, with_gaps, repeated]

    def program(t: Any) -> Any:
        seen = []
        for a in laid(t, 2, 3):
            for b in laid(t, 3, 4):
                factors = [a.requires_grad_(), b.requires_grad_()]
                y = multiplied(t, *factors).sum()
                found = t.autograd.grad(y, factors, create_graph=with_graph)
                seen.append([[list(g.stride()), g.sum()] for g in found])
        return seen

    agree(program)


def test_strides_of_tensors_without_elements() -> None:
    def program(t: Any) -> Any:
        made = (t.ones(0, 3), t.zeros(2, 0, 3), t.rand(3, 0), t.ones(0, 3).exp(), t.arange(0))
        return [x.stride() for x in made]

    agree(program)


# Writes beside what was saved -------------------------------------------------------------------


def _written(column: int) -> Any:
    x = ag.ones(3, requires_grad=True)
    k = ag.zeros(3, 2) + 0 * x[:, None]
    y = k[:, :1] * x[:, None]
    k.data[:, column] = 7.0
    return x, y.sum()


def test_a_write_beside_what_was_saved_warns_of_nothing() -> None:
    x, loss = _written(1)
    loss.backward()  # warnings are errors here
    assert x.grad.tolist() == [0.0, 0.0, 0.0]


def test_a_write_into_what_was_saved_warns() -> None:
    _, loss = _written(0)
    with pytest.warns(SilentWriteWarning, match="silently wrong"):
        loss.backward()


def test_each_of_several_saved_tensors_is_asked_for_its_own_bytes() -> None:
    class Double(ag.autograd.Function):
        @staticmethod
        def forward(ctx: Any, a: Any, b: Any) -> Any:
            ctx.save_for_backward(a[:1], b[1:], None)
            return a * b

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            a, b, _ = ctx.saved_tensors
            return g * a, g * b.sum()

    a, b = (ag.ones(3, requires_grad=True) * 1 for _ in range(2))
    loss = Double.apply(a, b).sum()
    a.data[1] = 3.0
    b.data[0] = 2.0
    for _ in range(2):
        loss.backward(retain_graph=True)
    b.data[1] = 2.0
    with pytest.warns(SilentWriteWarning):
        loss.backward()


GROWN: list[tuple[Any, Any, Any]] = [
    ((2, 2), (Ellipsis, 0), (1, 3)),
    ((6,), slice(1, 3), (2, 2)),
    ((6,), slice(1, 5), (2,)),
    ((2, 3), (slice(None), 1), (3,)),
]


@pytest.mark.filterwarnings("ignore:An output with one or more elements was resized")
@pytest.mark.parametrize(("shape", "part", "size"), GROWN)
def test_the_gradient_of_a_view_of_another_size_goes_where_it_looks_now(
    shape: Any, part: Any, size: Any
) -> None:
    def of_out(t: Any) -> Any:
        x = t.ones(shape).requires_grad_()
        y = (x * 2)[part]
        with t.no_grad():
            t.sin(t.ones(size), out=y)
        (y * t.arange(1.0, y.numel() + 1).reshape(size)).sum().backward()
        return [x.grad, type(y.grad_fn).__name__, list(y.grad_fn._saved_size)]

    def of_a_written_base(t: Any) -> Any:
        x, w = t.zeros(shape), t.ones(shape, requires_grad=True)
        y = x[part].resize_(size)
        x.add_(w * t.arange(1.0, x.numel() + 1).reshape(shape))
        (y * y).sum().backward()
        return [w.grad, y, type(y.grad_fn).__name__]

    def of_a_written_view(t: Any) -> Any:
        x, w = t.zeros(shape), t.ones(size, requires_grad=True)
        x[part].resize_(size).add_(w)
        (x * t.arange(1.0, x.numel() + 1).reshape(shape)).sum().backward()
        return [w.grad, x]

    for program in (of_out, of_a_written_base, of_a_written_view):
        agree(program)


@pytest.mark.filterwarnings("ignore:An output with one or more elements was resized")
def test_parts_of_complex_numbers_of_another_size_have_the_gradient_of_all_their_elements() -> None:
    def grown(t: Any) -> Any:
        z = t.tensor([1 + 1j, 2.0, 3.0], requires_grad=True)
        y = z.imag
        with t.no_grad():
            t.mul(t.ones(2, 2), 1, out=y)
        return z, y

    def nodes(t: Any) -> Any:
        node = grown(t)[1].grad_fn
        return [type(node).__name__, type(node.next_functions[0][0]).__name__]

    agree(nodes)
    z, y = grown(ag)
    (g,) = ag.autograd.grad((y * ag.tensor([[1.0, 2.0], [3.0, 4.0]])).sum(), z)
    assert g.tolist() == [1j, 2 + 3j, 4]


def test_an_as_strided_view_before_a_part_of_complex_numbers_has_a_gradient() -> None:
    for write in ("y", "w"):
        z = ag.tensor([1 + 1j, 2.0, 3.0], requires_grad=True)
        y = z * 1
        w = y.imag[1:].as_strided((2,), (2,), 1)
        {"y": y, "w": w}[write].mul_(2)
        assert ag.autograd.grad(w.sum(), z)[0].tolist() == [2j, 2j, 0]
