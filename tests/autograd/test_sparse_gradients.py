"""Sparse gradients: what gives one, how the engine adds them up, who sees them; against torch."""

from __future__ import annotations

from typing import Any

import numpy
import pytest

import ag_visual as ag
from tests.arrays.strict import STRICT
from tests.programs import agree, expect

# torch tells once that it does not look whether indices are in bounds.
pytestmark = pytest.mark.filterwarnings("ignore:Sparse invariant checks")

INDICES = [[1, 2], [1, 0]]


def _dense(x: Any) -> Any:
    return x.to_dense() if x.is_sparse else x


def _table(torch: Any) -> Any:
    return (torch.arange(12, dtype=torch.float64).reshape(4, 3) + 1).requires_grad_()


def _looked_up(torch: Any, w: Any, power: int = 2, **options: Any) -> Any:
    F = torch.nn.functional
    return (F.embedding(torch.tensor(INDICES), w, sparse=True, **options) ** power).sum()


def _bags(torch: Any, w: Any, mode: str = "sum", **options: Any) -> Any:
    F = torch.nn.functional
    found = F.embedding_bag(torch.tensor(INDICES), w, mode=mode, sparse=True, **options)
    return (found**3).sum()


LOSSES = {
    "embedding": lambda t, w: _looked_up(t, w),
    "padding": lambda t, w: _looked_up(t, w, padding_idx=1),
    "max_norm": lambda t, w: _looked_up(t, w, max_norm=1.0),
    "sum": _bags,
    "mean": lambda t, w: _bags(t, w, "mean"),
    "padded bags": lambda t, w: _bags(t, w, padding_idx=1),
    "weighted bags": lambda t, w: _bags(
        t, w, per_sample_weights=t.tensor([[0.5, 2.0], [1.0, -1.0]], dtype=t.float64)
    ),
    "twice": lambda t, w: _looked_up(t, w) + _looked_up(t, w, 3),
    "of a product": lambda t, w: _looked_up(t, w * 2),
    "of a square": lambda t, w: _looked_up(t, w * w),
    "of exp": lambda t, w: _looked_up(t, (w / 9).exp()),
    "of a sum": lambda t, w: _looked_up(t, w + 1),
    "with dense": lambda t, w: _looked_up(t, w) + (w**2).sum(),
    "after dense": lambda t, w: (w**2).sum() + _looked_up(t, w),
    "of a broadcast sum": lambda t, w: _looked_up(t, w[:1] + t.zeros(4, 1, dtype=t.float64)),
}


@pytest.mark.parametrize("loss", LOSSES.values(), ids=LOSSES)
def test_gradients_are_torchs(loss: Any) -> None:
    def program(torch: Any) -> Any:
        w = _table(torch)
        first = torch.autograd.grad(loss(torch, w), w)[0]
        seen = [first.is_sparse, _dense(first)]
        for _ in range(2):
            loss(torch, w).backward()
            seen += [w.grad.is_sparse, _dense(w.grad)]
        (w**3).sum().backward()
        seen += [w.grad.is_sparse, w.grad]
        loss(torch, w).backward()
        return [*seen, w.grad.is_sparse, w.grad]

    agree(program)


def test_an_accumulated_gradient_is_the_same_object_while_it_is_sparse() -> None:
    def program(torch: Any) -> Any:
        w = _table(torch)
        _looked_up(torch, w).backward()
        first = w.grad
        _looked_up(torch, w).backward()
        return w.grad is first, first.coalesce().indices(), first.coalesce().values()

    agree(program)


def test_the_rows_that_were_not_looked_up_take_no_memory() -> None:
    w = ag.empty(0, 1).expand(0, 1).new_zeros(1_000_000, 8).requires_grad_()
    ag.nn.functional.embedding(ag.tensor([5, 7]), w, sparse=True).sum().backward()
    assert w.grad is not None
    assert w.grad._array.nbytes < 1000


@pytest.mark.parametrize("power", [2, 3])
def test_of_second_order(power: int) -> None:
    def program(torch: Any) -> Any:
        w = _table(torch)
        (g,) = torch.autograd.grad(_looked_up(torch, w, power), w, create_graph=True)
        again = torch.autograd.grad((g.to_dense() ** 2).sum(), w, retain_graph=True)[0]
        values = torch.autograd.grad((g.coalesce().values() ** 2).sum(), w)[0]
        return g.requires_grad, type(g.grad_fn).__name__, _dense(again), _dense(values)

    agree(program)


def test_hooks_see_it() -> None:
    def program(torch: Any) -> Any:
        w, seen = _table(torch), []
        w.register_hook(lambda g: seen.append((g.is_sparse, g._nnz())))
        w.register_hook(lambda g: g.coalesce())
        w.register_post_accumulate_grad_hook(lambda p: seen.append(p.grad.is_coalesced()))
        y = w * 2
        y.retain_grad()
        h = torch.nn.functional.embedding(torch.tensor(INDICES), y, sparse=True)
        h.grad_fn.register_hook(lambda ins, outs: seen.append((ins[0].is_sparse, len(outs))))
        (h**2).sum().backward()
        return seen, y.grad.is_sparse, y.grad.to_dense(), w.grad.to_dense()

    agree(program)


def test_a_hook_may_not_make_it_dense() -> None:
    w = _table(ag)
    w.register_hook(lambda g: g.to_dense())
    with pytest.raises(RuntimeError, match=r"was torch.sparse.DoubleTensor got torch.DoubleTensor"):
        _looked_up(ag, w).backward()


def test_a_function_of_the_users_gets_it() -> None:
    def program(torch: Any) -> Any:
        class Twice(torch.autograd.Function):
            @staticmethod
            def forward(ctx: Any, x: Any) -> Any:
                return x * 2

            @staticmethod
            def backward(ctx: Any, g: Any) -> Any:
                seen.append(g.is_sparse)
                return g * 2

        seen: list[bool] = []
        w = _table(torch)
        _looked_up(torch, Twice.apply(w)).backward()
        return seen, w.grad.to_dense()

    agree(program)


def test_in_anomaly_mode() -> None:
    w = _table(ag)
    with pytest.warns(UserWarning, match="Anomaly"), ag.autograd.detect_anomaly():
        _looked_up(ag, w).backward()
    assert w.grad is not None
    assert w.grad.is_sparse
    with (
        pytest.warns(UserWarning),
        pytest.raises(RuntimeError, match="returned nan values in its 0th output"),
        ag.autograd.detect_anomaly(),
    ):
        _looked_up(ag, w.detach().mul(numpy.nan).requires_grad_()).backward()


def test_what_is_refused() -> None:
    def program(torch: Any) -> Any:
        w, seen = _table(torch), []
        for call in (
            lambda: _looked_up(torch, w, scale_grad_by_freq=True).backward(),
            lambda: _bags(torch, w, "max"),
            lambda: _bags(torch, w, scale_grad_by_freq=True).backward(),
        ):
            try:
                call()
            except (RuntimeError, ValueError) as error:
                seen.append((type(error).__name__, str(error)))
        return seen

    agree(program)


def test_batched_gradients_are_refused() -> None:
    w = _table(ag)
    with pytest.raises(NotImplementedError, match=r"aten::view.*to_dense"):
        ag.autograd.grad(_looked_up(ag, w), w, ag.ones(2, dtype=ag.float64), is_grads_batched=True)


def test_modules() -> None:
    def program(torch: Any) -> Any:
        seen = []
        for layer in (
            torch.nn.Embedding(4, 3, sparse=True),
            torch.nn.EmbeddingBag(4, 3, sparse=True, mode="sum"),
        ):
            layer(torch.tensor(INDICES)).sum().backward()
            g = layer.weight.grad
            layer.zero_grad(set_to_none=False)
            seen += [repr(layer), g.is_sparse, g._nnz(), layer.weight.grad.to_dense()]
        return seen

    agree(program)


def test_of_a_function_transform() -> None:
    def program(torch: Any) -> Any:
        w = _table(torch).detach()
        g = torch.func.grad(lambda x: _looked_up(torch, x))(w)
        slices = torch.func.vmap(lambda x: _looked_up(torch, x))(w.expand(2, 4, 3))
        return g.is_sparse, g.to_dense(), slices

    agree(program)


def test_of_nothing() -> None:
    def program(torch: Any) -> Any:
        w = _table(torch)
        none = torch.tensor([], dtype=torch.int64)
        torch.nn.functional.embedding(none, w, sparse=True).sum().backward()
        first = (w.grad._nnz(), w.grad.to_dense())
        _looked_up(torch, w).backward()
        return first, w.grad.to_dense()

    agree(program)


def test_deep_copies_of_parameters_have_it() -> None:
    import copy

    def program(torch: Any) -> Any:
        w = _table(torch)
        _looked_up(torch, w).backward()
        other = copy.deepcopy(w)
        return other.grad.is_sparse, other.grad is not w.grad, other.grad.to_dense()

    agree(program)


def test_random_programs() -> None:
    """Tables that are looked up and used as they are, in any order, in several backwards."""
    for seed in range(25):

        def program(torch: Any, seed: int = seed) -> Any:
            draw = numpy.random.default_rng(seed)
            w = torch.tensor(draw.normal(size=(6, 2)), requires_grad=True)
            for _ in range(draw.integers(1, 4)):
                total = w.new_zeros(())
                for _ in range(draw.integers(1, 4)):
                    at = torch.tensor(draw.integers(0, 6, size=draw.integers(1, 5)))
                    x = w if draw.random() < 0.5 else w * float(draw.normal())
                    sparse = bool(draw.random() < 0.7)
                    rows = torch.nn.functional.embedding(at, x, sparse=sparse)
                    total = total + (rows**2).sum()
                total.backward()
            return w.grad.is_sparse, _dense(w.grad)

        agree(program)


def test_gradients_may_be_sparse_from_the_start() -> None:
    def program(torch: Any) -> Any:
        w = _table(torch)
        seed = torch.ones(4, 3, dtype=torch.float64).to_sparse(1)
        (w * 2).backward(seed)
        torch.autograd.backward([w], [seed])
        return w.grad.is_sparse, w.grad.to_dense()

    agree(program)


def test_a_dense_gradient_takes_a_sparse_one_in_place() -> None:
    w = _table(ag)
    (w * 2).sum().backward()
    g = w.grad
    _looked_up(ag, w).backward()
    assert w.grad is g
    expect(
        lambda torch: w.grad, [[4.0, 6.0, 8.0], [18.0, 22.0, 26.0], [16.0, 18.0, 20.0], [2.0] * 3]
    )


def test_on_another_array_library() -> None:
    """One as strict as CuPy, whose arrays know nothing of ours."""
    device = STRICT.device_type
    for loss in (_looked_up, _bags, LOSSES["of a square"], LOSSES["with dense"]):
        found = []
        for where in ("cpu", device):
            w = _table(ag).detach().to(where).requires_grad_()
            at = Elsewhere(where)
            loss(at, w).backward()
            loss(at, w).backward()
            assert w.grad is not None
            seen = _dense(w.grad).clone()
            (w**2).sum().backward()
            loss(at, w).backward()
            found.append([seen.cpu().tolist(), w.grad.cpu().tolist()])
        assert found[0] == found[1]
    s = ag.sparse_coo_tensor([[0, 2]], [1.0, 2.0], (3,), requires_grad=True)
    moved = s.to(device)
    assert moved.is_sparse
    assert moved.device.type == device
    (moved.to_dense() ** 2).sum().backward()
    assert s.grad is not None
    assert s.grad.cpu().to_dense().tolist() == [2.0, 0.0, 4.0]


class Elsewhere:
    """The package, with new tensors on a device."""

    def __init__(self, device: str) -> None:
        self._device = device

    def __getattr__(self, name: str) -> Any:
        found = getattr(ag, name)
        if name == "tensor":
            return lambda *args, **kwargs: found(*args, **kwargs).to(self._device)
        return found
