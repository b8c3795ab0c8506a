"""Sparse tensors in coordinate form: made, shown, computed with; against torch."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import numpy
import pytest

import ag_visual as ag
from tests.oracle import torch as oracle
from tests.programs import agree

# torch tells once that it does not look whether indices are in bounds.
pytestmark = pytest.mark.filterwarnings("ignore:Sparse invariant checks")


def _made(torch: Any, **options: Any) -> Any:
    values = torch.tensor([1.0, 2.0, 3.0], dtype=torch.float64)
    return torch.sparse_coo_tensor([[0, 0, 1], [2, 2, 0]], values, (2, 3), **options)


def _hybrid(torch: Any) -> Any:
    values = torch.arange(6, dtype=torch.float64).reshape(3, 2)
    return torch.sparse_coo_tensor([[3, 1, 3]], values, (4, 2))


def _seen(x: Any) -> Any:
    return [
        x.is_sparse,
        x._nnz(),
        x.is_coalesced(),
        x.sparse_dim(),
        x.dense_dim(),
        tuple(x.shape),
        str(x.dtype),
        str(x.layout),
        x._indices(),
        x._values(),
        x.to_dense(),
    ]


MADE = {
    "plain": _made,
    "hybrid": _hybrid,
    "without a size": lambda t: t.sparse_coo_tensor([[0, 2]], [1, 2]),
    "of a size": lambda t: t.sparse_coo_tensor((2, 3)),
    "of a size by name": lambda t: t.sparse_coo_tensor(size=(2, 3), dtype=t.float64),
    "of nothing": lambda t: t.sparse_coo_tensor(t.empty(2, 0, dtype=t.int64), t.empty(0), (2, 3)),
    "of a dtype": lambda t: _made(t, dtype=t.float32),
    "coalesced by promise": lambda t: t.sparse_coo_tensor(
        [[0, 2]], [1.0, 2.0], (3,), is_coalesced=True
    ),
    "coalesce": lambda t: _made(t).coalesce(),
    "coalesce hybrid": lambda t: _hybrid(t).coalesce(),
    "to_sparse": lambda t: t.tensor([[0.0, 2.0], [3.0, 0.0]]).to_sparse(),
    "to_sparse of rows": lambda t: t.tensor([[0.0, 0.0], [3.0, 0.0]]).to_sparse(1),
    "to_sparse of zeros": lambda t: t.zeros(2, 3).to_sparse(),
    "to_sparse of sparse": lambda t: _made(t).to_sparse(),
    "sparse_mask": lambda t: t.arange(6.0).reshape(2, 3).sparse_mask(_made(t).coalesce()),
    "clone": lambda t: _made(t).clone(),
    "detach": lambda t: _made(t).detach(),
    "zero_": lambda t: _made(t).zero_(),
    "zeros_like": lambda t: t.zeros_like(_hybrid(t)),
    "times": lambda t: _made(t) * 2,
    "times, from the left": lambda t: 2.5 * _made(t),
    "times a tensor": lambda t: _made(t) * t.tensor(2.0, dtype=t.float64),
    "divided": lambda t: _made(t) / 2,
    "negated": lambda t: -_made(t),
    "added to itself": lambda t: _made(t) + _made(t),
    "added, coalesced": lambda t: _made(t).coalesce() + t.eye(2, 3, dtype=t.float64).to_sparse(),
    "subtracted": lambda t: _made(t).coalesce() - _made(t).coalesce(),
    "add with alpha": lambda t: _made(t).add(_made(t), alpha=3),
    "add_": lambda t: _made(t).add_(_made(t)),
    "mul_": lambda t: _made(t).mul_(2),
    "div_": lambda t: _made(t).div_(2),
    "neg_": lambda t: _made(t).neg_(),
    "times a dense one": lambda t: _made(t) * t.arange(6, dtype=t.float64).reshape(2, 3),
    "in another dtype": lambda t: _made(t).to(t.float32),
    "float": lambda t: _made(t).float(),
    "abs": lambda t: (-_made(t)).abs(),
    "square": lambda t: _made(t).square(),
    "pow": lambda t: _made(t).pow(3),
    "sqrt": lambda t: _hybrid(t).sqrt(),
    "isnan": lambda t: _made(t).isnan(),
    "copied": lambda t: copy.deepcopy(_made(t)),
    "pickled": lambda t: pickle.loads(pickle.dumps(_made(t))),
}


@pytest.mark.parametrize("make", MADE.values(), ids=MADE)
def test_it_is_what_torchs_is(make: Any) -> None:
    def program(torch: Any) -> Any:
        return _seen(make(torch)), repr(make(torch))

    agree(program)


NUMBERS = {
    "sum": lambda s: s.sum(),
    "norm": lambda s: s.norm(),
    "1-norm": lambda s: s.norm(1),
    "largest": lambda s: s.norm(float("inf")),
    "facts": lambda s: [s.numel(), s.ndim, len(s), s.element_size(), s.is_leaf, s.is_contiguous()],
    "dense first": lambda s: s.to_dense() + s,
    "dense minus": lambda s: s.to_dense() - s,
    "in place": lambda s: s.to_dense().add_(s, alpha=2),
    "dense stays": lambda s: s.to_dense().to_dense(),
    "of dense": lambda s: [s.to_dense().sparse_dim(), s.to_dense().dense_dim()],
}


@pytest.mark.parametrize("ask", NUMBERS.values(), ids=NUMBERS)
@pytest.mark.parametrize("make", [_made, _hybrid])
def test_what_comes_of_it_is_torchs(make: Any, ask: Any) -> None:
    agree(lambda torch: ask(make(torch)))


REFUSED = {
    "indices": lambda t: _made(t).indices(),
    "values": lambda t: _made(t).values(),
    "sparse first": lambda t: _made(t) + _made(t).to_dense(),
    "a number": lambda t: _made(t) + 1,
    "other sizes": lambda t: _made(t) + _hybrid(t),
    "indices of dense": lambda t: t.ones(2).indices(),
    "values of dense": lambda t: t.ones(2).values(),
    "coalesce of dense": lambda t: t.ones(2).coalesce(),
    "is_coalesced of dense": lambda t: t.ones(2).is_coalesced(),
    "_nnz of dense": lambda t: t.ones(2)._nnz(),
    "exp": lambda t: _made(t).exp(),
    "view": lambda t: _made(t).view(-1),
    "numpy": lambda t: _made(t).numpy(),
    "tolist": lambda t: _made(t).tolist(),
    "data_ptr": lambda t: _made(t).data_ptr(),
    "storage": lambda t: _made(t).untyped_storage(),
    "nbytes": lambda t: _made(t).nbytes,
    "item": lambda t: _made(t).item(),
    "contiguous": lambda t: _made(t).contiguous(),
    "nnz": lambda t: t.sparse_coo_tensor([[0, 2]], [1.0, 2, 3], (4,)),
    "dimensions": lambda t: t.sparse_coo_tensor([[0, 1]], t.ones(2, 3), (4,)),
    "values that don't fit": lambda t: t.sparse_coo_tensor([[0, 1]], t.ones(2, 3), (4, 5)),
    "a broken promise": lambda t: t.sparse_coo_tensor(
        [[1, 0]], [1.0, 2.0], (3,), is_coalesced=True, check_invariants=True
    ),
    "out of bounds": lambda t: t.sparse_coo_tensor([[5]], [1.0], (3,), check_invariants=True),
    "a leaf": lambda t: _made(t, requires_grad=True).mul_(2),
}


@pytest.mark.parametrize("call", REFUSED.values(), ids=REFUSED)
def test_what_torch_refuses(call: Any) -> None:
    with pytest.raises((RuntimeError, TypeError, NotImplementedError)) as ours:
        call(ag)
    if oracle.__version__:
        with pytest.raises((RuntimeError, TypeError, NotImplementedError)) as theirs:
            call(oracle)
        assert isinstance(ours.value, type(theirs.value))
        first = str(theirs.value).split("\n")[0].partition(" backend")[0].rstrip(".")
        assert str(ours.value).replace("\n", " ").startswith(first)


@pytest.mark.parametrize("name", ["exp", "cos", "flip", "tril", "cumsum"])
def test_what_has_no_rule_says_what_to_do(name: str) -> None:
    arguments = {"flip": (0,), "cumsum": (0,)}.get(name, ())
    with pytest.raises(NotImplementedError, match=r"SparseCPU.*\.to_dense\(\)"):
        getattr(_made(ag), name)(*arguments)


def test_every_op_that_is_given_one_has_a_rule_or_says_so() -> None:
    """Nothing gets at an array that is not there."""
    silent = []
    for name, function in sorted(vars(ag.Tensor).items()):
        if name[0] == "_" or not callable(function):
            continue
        try:
            result = getattr(_made(ag), name)()
        except (RuntimeError, TypeError, ValueError, AttributeError, IndexError) as error:
            told = str(error)
            if isinstance(error, AttributeError) and "Coo" in told:
                silent.append((name, told))
        else:
            if isinstance(result, ag.Tensor) and result.layout == ag.strided and result.ndim == 2:
                assert name in ("to_dense", "new_empty", "new_zeros"), name
    assert not silent


LOSSES = {
    "to_dense": lambda t, s: (s.to_dense() ** 2).sum(),
    "values": lambda t, s: (s.coalesce().values() ** 2).sum(),
    "sum": lambda t, s: s.sum() ** 2,
    "times": lambda t, s: ((s * 3).to_dense() ** 2).sum(),
    "divided": lambda t, s: ((s / 3).to_dense() ** 2).sum(),
    "negated": lambda t, s: ((-s).to_dense() ** 3).sum(),
    "added": lambda t, s: ((s + s * 2).to_dense() ** 2).sum(),
    "subtracted": lambda t, s: ((s * 3 - s.coalesce()).to_dense() ** 2).sum(),
    "dense first": lambda t, s: ((t.ones(2, 3, dtype=t.float64) + s) ** 2).sum(),
    "clone": lambda t, s: (s.clone().to_dense() ** 2).sum(),
    "cast": lambda t, s: (s.to(t.float32).to_dense() ** 2).sum(),
}


@pytest.mark.parametrize("loss", LOSSES.values(), ids=LOSSES)
def test_gradients_flow_to_values(loss: Any) -> None:
    def program(torch: Any) -> Any:
        v = torch.tensor([1.0, 2.0, 3.0], dtype=torch.float64, requires_grad=True)
        s = torch.sparse_coo_tensor([[0, 0, 1], [2, 2, 0]], v, (2, 3))
        loss(torch, s).backward()
        leaf = _made(torch, requires_grad=True)
        loss(torch, leaf).backward()
        return s.is_leaf, type(s.grad_fn).__name__, v.grad, leaf.is_leaf, leaf.grad.to_dense()

    agree(program)


@pytest.mark.parametrize("masked", [True, False])
def test_gradients_through_to_sparse(masked: bool) -> None:
    def program(torch: Any) -> Any:
        x = torch.tensor([[1.0, 0.0], [2.0, 3.0]], dtype=torch.float64, requires_grad=True)
        y = x.to_sparse().to_dense(masked_grad=masked)
        (g,) = torch.autograd.grad((y.exp()).sum(), x)
        (h,) = torch.autograd.grad((x.to_sparse().values() ** 2).sum(), x)
        return g, h

    agree(program)


@pytest.mark.parametrize("masked", [True, False])
@pytest.mark.parametrize("coalesced", [True, False])
def test_gradcheck(masked: bool, coalesced: bool) -> None:
    def program(torch: Any) -> Any:
        s = _made(torch).coalesce() if coalesced else _made(torch)
        s.requires_grad_()
        seen: list[Any] = []
        for f in (
            lambda x: x.to_dense(),
            lambda x: x.to_dense(masked_grad=masked),
            lambda x: (x * 2).to_dense(masked_grad=masked),
            lambda x: x.coalesce().values(),
        ):
            if f(s).ndim == 1 and not masked:
                continue  # there a changed element makes the output longer
            seen.append(torch.autograd.gradcheck(f, s, masked=masked, raise_exception=False))
        return seen

    agree(program)


def test_gradcheck_of_sparse_outputs_and_gradients() -> None:
    def program(torch: Any) -> Any:
        seen = []
        x = torch.ones(3, 2, dtype=torch.float64, requires_grad=True)
        s = torch.ones(3, dtype=torch.float64).to_sparse().requires_grad_()
        at = torch.tensor([0, 2])
        check, twice = torch.autograd.gradcheck, torch.autograd.gradgradcheck
        F = torch.nn.functional
        for call in (
            lambda: check(torch.sin, s),
            lambda: check(lambda x: x.to_sparse(), x),
            lambda: check(lambda x: F.embedding(at, x, sparse=True), x),
            lambda: twice(lambda x: F.embedding(at, x, sparse=True), x),
        ):
            try:
                seen.append(call())
            except (ValueError, RuntimeError) as error:
                seen.append((type(error).__name__, str(error)))
        return seen

    agree(program)


def test_functions_that_are_zero_at_zero_have_gradients() -> None:
    s = _made(ag, requires_grad=True)
    s.sin().to_dense().sum().backward()
    assert s.grad is not None
    expected = [[0, 0, numpy.cos(3)], [numpy.cos(3), 0, 0]]
    numpy.testing.assert_allclose(s.grad.to_dense().numpy(), expected)


def test_indices_are_checked_always() -> None:
    for indices, told in (([[0, 3]], "found index 3"), ([[0, -1]], "found negative index -1")):
        with pytest.raises(RuntimeError, match=told):
            ag.sparse_coo_tensor(indices, [1.0, 2.0], (3,))


def test_random_sums() -> None:
    for seed in range(30):

        def program(torch: Any, seed: int = seed) -> Any:
            draw = numpy.random.default_rng(seed)
            total = None
            for _ in range(draw.integers(2, 5)):
                count = int(draw.integers(0, 5))
                at = torch.tensor(draw.integers(0, 3, size=(2, count)))
                values = torch.tensor(draw.normal(size=(count, 2)))
                each = torch.sparse_coo_tensor(at, values, (3, 3, 2))
                each = each.coalesce() if draw.random() < 0.5 else each
                each = each * float(draw.normal())
                total = each if total is None else total + each
            found = total.coalesce()
            return found.indices(), found.values(), total.to_dense()

        agree(program)
