"""vmap: inputs and outputs as trees, chunks, batch sizes, in-place writes, views, composition."""

from __future__ import annotations

import warnings
from typing import Any

import pytest

import ag_visual as ag
from ag_visual.dispatch import entry

from ..programs import agree, agree_in_words, told


def rows(t: Any, *shape: int) -> Any:
    """Different numbers in a shape."""
    count = 1
    for n in shape:
        count *= n
    return (t.arange(float(count), dtype=t.float64).reshape(shape) + 1) / 7


def test_dimensions_of_inputs_and_outputs() -> None:
    def program(t: Any) -> Any:
        x, y = rows(t, 2, 3, 4), rows(t, 4, 2)

        def f(a: Any, b: Any) -> Any:
            return a @ b, (a.sum(), [a[..., 0], b])

        found = t.vmap(f, in_dims=(0, 1), out_dims=(1, (0, [-1, 0])))(x, y)
        return [
            found,
            t.vmap(f, (-3, -1))(x, y),
            t.vmap(f, (None, 1))(x[0], y),
            t.vmap(lambda d: d["a"].sum() * d["b"][0], ({"a": 2, "b": (0,)},))({"a": x, "b": (y,)}),
        ]

    agree(program)


def test_outputs_that_do_not_depend_on_the_batch_are_expanded() -> None:
    def program(t: Any) -> Any:
        found = t.vmap(lambda x: (t.ones(2), x))(rows(t, 3))
        return [found[0], found[0].stride(), found[1]]

    agree(program)


def test_no_batch_dimension_passes_what_is_no_tensor() -> None:
    agree(lambda t: t.vmap(lambda x: ("name", 3, x), out_dims=(None, None, 0))(rows(t, 2)))


def test_keyword_arguments_are_the_same_for_all_slices() -> None:
    agree(
        lambda t: t.vmap(lambda x, *, y, k: x * y + k, in_dims=0)(
            rows(t, 2, 3), y=rows(t, 2, 3), k=2
        )
    )


@pytest.mark.parametrize("size", [1, 2, 4, 9])
def test_chunks(size: int) -> None:
    def program(t: Any) -> Any:
        calls = []

        def f(x: Any, y: Any) -> Any:
            calls.append(tuple(x.shape))
            return x.sin() * y, x.sum()

        found = t.vmap(f, (1, None), out_dims=(1, 0), chunk_size=size)(rows(t, 3, 7), rows(t, 3))
        return [found, calls]

    agree(program)


def test_no_slices() -> None:
    def program(t: Any) -> Any:
        calls = []
        found = t.vmap(lambda x: calls.append(1) or (x @ rows(t, 3, 2)).sum(0))(
            rows(t, 2, 4, 3)[:0]
        )
        return [list(found.shape), calls]

    agree(program)


def test_what_a_slice_looks_like() -> None:
    def program(t: Any) -> Any:
        seen: list[Any] = []

        def f(x: Any) -> Any:
            seen.extend([list(x.shape), x.dim(), len(x), list(x.stride()), x.is_contiguous()])
            seen.extend([x.is_leaf, x.requires_grad, x.numel(), str(x.dtype), str(x.device)])
            seen.append(isinstance(x, t.Tensor) and type(x) is t.Tensor)
            return x

        t.vmap(f, in_dims=1)(rows(t, 3, 2, 4).requires_grad_())
        return seen

    def names(value: Any) -> Any:
        return [str(v).replace("torch.", "") if isinstance(v, str) else v for v in value]

    agree(lambda t: names(program(t))[:-1])
    assert isinstance(program(ag)[0], list)


def test_slices_of_no_dimensions_promote_as_such() -> None:
    def program(t: Any) -> Any:
        found = t.vmap(lambda x: x * t.ones(2))(rows(t, 3).double())
        return [str(found.dtype).replace("torch.", ""), found]

    agree(program)


def test_slices_are_refused_by_the_dtype_that_they_have() -> None:
    agree(lambda t: told(lambda: t.vmap(lambda x: t.tensor(True) - x)(t.ones(2, 3)))["error"])


def test_a_slice_is_printed_with_its_level() -> None:
    seen: list[str] = []
    ag.vmap(ag.vmap(lambda x: seen.append(repr(x)) or x))(ag.ones(2, 2))
    assert seen[0].startswith("BatchedTensor(lvl=2, bdim=0, value=\n    BatchedTensor(lvl=1")


def test_writes_into_a_slice_reach_the_callers_tensor() -> None:
    def program(t: Any) -> Any:
        x, y = rows(t, 2, 3, 2), rows(t, 3, 2)

        def f(a: Any, b: Any) -> Any:
            a.mul_(2)
            a[0] = 7
            a[1:, 0] += b
            v = a.t()
            v[1].zero_()
            a[..., 1:].add_(b.sum())
            return a.clone()

        return [t.vmap(f, in_dims=(1, 0))(x, y[:, :1]), x, y]

    agree(program)


def test_new_tensors_like_a_slice_can_be_written() -> None:
    def program(t: Any) -> Any:
        def f(x: Any) -> Any:
            found = [t.zeros_like(x).add_(x), t.full_like(x, 2.0).mul_(x), x.new_zeros(3)]
            found[2][1] = x[0]
            return [*found, x.new_full((2,), 3.0).add_(x[1]), x.new_ones(2, 2), x.new_tensor([1.0])]

        return t.vmap(f, in_dims=1)(rows(t, 3, 2))

    agree(program)


def test_indices_that_differ_between_slices() -> None:
    def program(t: Any) -> Any:
        x, i = rows(t, 3, 2, 2), t.tensor([0, 1, 0])

        def read(x: Any, i: Any) -> Any:
            return x[i], x[:, i], x[i, i], x[..., i], x[i, None], x[i, [0, 1]], rows(t, 2, 3)[i]

        def write(x: Any, i: Any) -> Any:
            x = x.clone()
            x[i] = 0.5
            x[0, i] = x.sum()
            x[:, i] += 1
            return x

        return [t.vmap(read)(x, i), t.vmap(write)(x, i)]

    agree(program)


def test_transforms_compose_in_any_order() -> None:
    def program(t: Any) -> Any:
        f, w, x = t.func, rows(t, 3, 3), rows(t, 4, 3)
        warnings.simplefilter("ignore")  # torch's own, of its forward mode

        def loss(w: Any, x: Any) -> Any:
            return (w @ x).tanh().prod() + (x[0] ** 3)

        return [
            t.vmap(f.grad(loss), (None, 0))(w, x),
            f.grad(lambda w: t.vmap(loss, (None, 0))(w, x).sum())(w),
            t.vmap(lambda x: f.grad(lambda w: t.vmap(lambda v: loss(w, x * v))(x).sum())(w))(x),
            f.jvp(t.vmap(f.grad(loss), (None, 0)), (w, x), (w + 1, x - 1))[1],
            t.vmap(lambda x: f.hessian(loss, argnums=1)(w, x))(x),
            t.vmap(t.vmap(loss, (None, 0)), (0, None))(rows(t, 2, 3, 3), x),
        ]

    with warnings.catch_warnings():
        agree(program)


def test_gradients_flow_out_of_a_vmap() -> None:
    def program(t: Any) -> Any:
        x, w = rows(t, 4, 3).requires_grad_(), rows(t, 3).requires_grad_()
        t.vmap(lambda x: (x * w).sin().sum())(x).sum().backward()
        return [x.grad, w.grad]

    agree(program)


def test_per_sample_gradients_of_a_net() -> None:
    def program(t: Any) -> Any:
        net = t.nn.Sequential(t.nn.Linear(3, 4), t.nn.Tanh(), t.nn.Linear(4, 2))
        params = {k: rows(t, *v.shape) for k, v in net.named_parameters()}

        def loss(params: Any, x: Any, y: Any) -> Any:
            out = t.func.functional_call(net, params, (x.unsqueeze(0),))
            return t.nn.functional.cross_entropy(out, y.unsqueeze(0))

        net = net.double()
        found = t.vmap(t.func.grad(loss), (None, 0, 0))(params, rows(t, 5, 3), t.arange(5) % 2)
        return [found[name] for name in sorted(found)]

    agree(program)


def test_batch_norm() -> None:
    def program(t: Any) -> Any:
        x, mean, var = rows(t, 2, 4, 3).sin(), rows(t, 2, 3) * 0, rows(t, 2, 3) + 1
        norm = t.nn.functional.batch_norm
        return [
            t.vmap(lambda x, a, b: norm(x, a, b, training=True))(x, mean, var),
            mean,
            var,
            t.vmap(lambda x: norm(x, None, None, training=True))(x),
            t.vmap(lambda x: norm(x, mean[0], var[0]))(x),
        ]

    agree(program)


def test_as_strided_stays_within_a_slice() -> None:
    def program(t: Any) -> Any:
        x = rows(t, 2, 6)
        found = t.vmap(lambda x: x.as_strided((2, 3), (1, 2)))(x)
        t.vmap(lambda x: x.as_strided((2,), (3,), 0).zero_())(x)
        return [found, x, told(lambda: t.vmap(lambda x: x.as_strided((9,), (1,)))(x))]

    agree_in_words(program)


def test_numbers_of_the_dtype_reach_the_slices() -> None:
    """A number that was made one of bfloat16 is asked for again at each level."""

    def program(t: Any) -> Any:
        x = t.tensor([1.0, 2.0], dtype=t.bfloat16, requires_grad=True)
        y = (x * 1).masked_fill_(x > 1, 2)
        g = t.ones(2, 2, dtype=t.bfloat16)
        return t.autograd.grad(y, [x], g, is_grads_batched=True)[0].float()

    agree(program)


def test_nothing_is_left_behind_by_an_error() -> None:
    from ag_visual.core import modes

    before = modes.special
    with pytest.raises(ZeroDivisionError):
        ag.vmap(lambda x: ag.vmap(lambda y: 1 // 0)(x))(ag.ones(2, 2))
    assert modes.state.levels == ()
    assert modes.special == before
    assert ag.vmap(ag.sin)(ag.zeros(2)).tolist() == [0.0, 0.0]


def test_what_is_usual_is_built_code(monkeypatch: pytest.MonkeyPatch) -> None:
    interpreted = []
    at_level = entry.at_level
    told_of = lambda op, args: interpreted.append(op.name) or at_level(op, args)  # noqa: E731
    monkeypatch.setattr(entry, "at_level", told_of)
    w, b, x = rows(ag, 4, 4), rows(ag, 4), rows(ag, 3, 4)

    def net(x: Any) -> Any:
        h = ag.tanh(x @ w + b) * (b * 2)
        h = ag.log_softmax(w @ h, 0).unsqueeze(1).expand(4, 3).transpose(0, 1).reshape(4, 3)
        return (h.t() @ w).sum(0).permute(0)[1:] - h.mean()

    ag.vmap(net)(x)
    leaf = x[0].clone().requires_grad_()
    ag.autograd.grad(net(leaf), leaf, rows(ag, 2, 3), is_grads_batched=True)
    assert interpreted == []


def test_without_grad_nobody_asks_for_the_history_of_a_refused_view() -> None:
    def program(t: Any) -> Any:
        x = rows(t, 2, 3).requires_grad_()
        part = x.split(1, 0)[0]
        with t.no_grad():
            x.sub_(1)
            copied = t.func.vmap(lambda a: a.clone())(part)
            slopes = t.func.vmap(t.func.grad(lambda a: (a.clone() * a).sum()))(part)
        return [copied, slopes, raised_by(lambda: t.func.vmap(lambda a: a.clone())(part))]

    def raised_by(call: Any) -> str:
        try:
            call()
        except RuntimeError as error:
            return "is a view and its base" if "is a view and its base" in str(error) else "other"
        return "nothing"

    agree(program)
