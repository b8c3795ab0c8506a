"""Products, parts, sums and softmaxes of sparse tensors, in both layouts, against torch."""

from __future__ import annotations

from typing import Any

import pytest

import ag_visual as ag
from ag_visual.autograd import gradcheck, gradgradcheck

from ..arrays.strict import STRICT
from ..oracle import torch as oracle
from ..programs import agree

pytestmark = pytest.mark.filterwarnings("ignore:Sparse")


def _coo(t: Any) -> Any:
    values = t.tensor([1.0, 2.0, 3.0, 4.0], dtype=t.float64)
    return t.sparse_coo_tensor([[0, 0, 1, 2], [2, 2, 0, 1]], values, (3, 3), requires_grad=True)


def _csr(t: Any) -> Any:
    return _coo(t).detach().to_sparse_csr().requires_grad_()


def _hybrid(t: Any) -> Any:
    values = t.arange(1.0, 7.0, dtype=t.float64).reshape(3, 2)
    return t.sparse_coo_tensor([[2, 1, 2]], values, (3, 2), requires_grad=True)


def _dense(t: Any, *shape: int) -> Any:
    values = t.arange(1.0, 1.0 + t.Size(shape).numel(), dtype=t.float64)
    return values.reshape(shape).requires_grad_()


def _index(t: Any, *at: int) -> Any:
    return t.tensor(at)


BOTH = {
    "mm": lambda t, a: t.mm(a, _dense(t, 3, 2)),
    "matmul": lambda t, a: a @ _dense(t, 3, 2),
    "sparse.mm": lambda t, a: t.sparse.mm(a, _dense(t, 3, 2)),
    "mv": lambda t, a: a.mv(_dense(t, 3)),
    "vector": lambda t, a: a @ _dense(t, 3),
    "dense first": lambda t, a: _dense(t, 2, 3) @ a,
    "addmm": lambda t, a: t.addmm(_dense(t, 3, 2), a, _dense(t, 3, 2), beta=0.5, alpha=2.0),
    "itself": lambda t, a: a @ a,
    "sparse.mm itself": lambda t, a: t.sparse.mm(a, a),
    "linear": lambda t, a: t.nn.functional.linear(a, _dense(t, 2, 3)),
    "t": lambda t, a: a.t(),
    "transpose": lambda t, a: a.transpose(0, 1),
    "to_dense": lambda t, a: a.to_dense(),
    "to_sparse": lambda t, a: a.to_sparse(),
    "to_sparse_csr": lambda t, a: a.to_sparse_csr(),
    "layout": lambda t, a: a.to_sparse(layout=t.sparse_csr),
    "times a number": lambda t, a: a * 2,
    "negated": lambda t, a: -a,
    "sum": lambda t, a: a.sum(),
    "added": lambda t, a: a + a,
    "product": lambda t, a: a * a,
    "cloned": lambda t, a: a.clone(),
    "float": lambda t, a: a.float(),
    "relu": lambda t, a: a.relu(),
    "dense plus": lambda t, a: _dense(t, 3, 3) + a,
    "many steps": lambda t, a: (a @ a.to_dense().relu() + t.sparse.mm(a, _dense(t, 3, 3))).tanh(),
}
COORDINATES = {
    "sparse.addmm": lambda t, a: t.sparse.addmm(
        _dense(t, 3, 2), a, _dense(t, 3, 2), beta=0.5, alpha=2.0
    ),
    "sparse.mm, dense first": lambda t, a: t.sparse.mm(_dense(t, 2, 3), a),
    "T": lambda t, a: a.T,
    "mT": lambda t, a: a.mT,
    "permute": lambda t, a: a.permute(1, 0),
    "sparse.sum": lambda t, a: t.sparse.sum(a),
    "sparse.sum of rows": lambda t, a: t.sparse.sum(a, 0),
    "sparse.sum of all": lambda t, a: t.sparse.sum(a, [0, 1]),
    "sparse.sum in float32": lambda t, a: t.sparse.sum(a, 0, dtype=t.float32),
    "softmax of columns": lambda t, a: t.sparse.softmax(a, 0),
    "softmax": lambda t, a: t.sparse.softmax(a, -1),
    "log_softmax": lambda t, a: t.sparse.log_softmax(a, 1),
    "stack": lambda t, a: t.stack([a, a.coalesce()], 1),
    "scaled by a column": lambda t, a: a * _dense(t, 3, 1),
    "times a product": lambda t, a: a * (_dense(t, 3, 2) @ _dense(t, 2, 3)),
}
#: what torch has no derivative of
FORWARD = {
    "sum of rows": lambda t, a: a.sum(0),
    "sum, kept": lambda t, a: a.sum(1, keepdim=True),
    "sum of all": lambda t, a: a.sum((0, 1)),
    "index_select": lambda t, a: a.index_select(0, _index(t, 2, 0, 0)),
    "index_select of columns": lambda t, a: a.index_select(1, _index(t, 2, 0)),
    "select": lambda t, a: a.select(1, -1),
    "a[0]": lambda t, a: a[0],
    "iteration": lambda t, a: t.stack(list(a)),
    "unbind": lambda t, a: t.stack(a.unbind(1)),
    "narrow_copy": lambda t, a: a.narrow_copy(0, 1, 2),
    "cat": lambda t, a: t.cat([a, a * 2]),
    "cat of columns": lambda t, a: t.cat([a, a * 2], 1),
    "unsqueeze": lambda t, a: a.unsqueeze(1),
    "bmm": lambda t, a: t.bmm(t.stack([a, a]), _dense(t, 2, 3, 2)),
    "times a row": lambda t, a: a * _dense(t, 3),
}
HYBRID = {
    "sum of rows": lambda t, a: t.sparse.sum(a, 0),
    "sum of values": lambda t, a: t.sparse.sum(a, 1),
    "softmax": lambda t, a: t.sparse.softmax(a, 0),
    "softmax of values": lambda t, a: t.sparse.softmax(a, 1),
}
HYBRID_FORWARD = {
    "index_select": lambda t, a: a.index_select(1, _index(t, 1, 1, 0)),
    "select": lambda t, a: a.select(1, 0),
    "select of rows": lambda t, a: a.select(0, 2),
    "cat": lambda t, a: t.cat([a, a], 1),
    "unsqueeze": lambda t, a: a.unsqueeze(2),
}


def _seen(t: Any, result: Any) -> Any:
    dense = result.to_dense() if result.layout != t.strided else result
    return dense, str(result.layout), tuple(result.shape), str(result.dtype)


def _program(make: Any, ask: Any) -> Any:
    def program(t: Any) -> Any:
        a = make(t)
        result = ask(t, a)
        value, *facts = _seen(t, result)
        (value * value.detach().cos()).sum().backward()
        return value, facts, a.grad.to_dense()

    return program


@pytest.mark.parametrize("name", BOTH)
@pytest.mark.parametrize("make", [_coo, _csr])
def test_both_layouts(make: Any, name: str) -> None:
    if make is _csr and name == "sparse.mm itself":
        return  # torch has no derivative
    if make is _csr and name in ("t", "transpose"):
        # A transposed matrix of rows has coordinates here, compressed columns in torch.
        agree(lambda t: BOTH[name](t, make(t)).to_dense())
        return
    agree(_program(make, BOTH[name]))


@pytest.mark.parametrize("ask", COORDINATES.values(), ids=COORDINATES)
def test_coordinates(ask: Any) -> None:
    agree(_program(_coo, ask))


@pytest.mark.parametrize("ask", HYBRID.values(), ids=HYBRID)
def test_hybrid(ask: Any) -> None:
    agree(_program(_hybrid, ask))


def _with_gradient(make: Any, ask: Any) -> None:
    agree(lambda t: _seen(t, ask(t, make(t))))
    a = make(ag).detach().coalesce()

    def of_values(values: Any) -> Any:
        x = ag.sparse_coo_tensor(a.indices(), values, a.shape)
        result = ask(ag, x)
        return result.to_dense() if result.layout != ag.strided else result

    values = a.values().clone().requires_grad_()
    assert gradcheck(of_values, (values,))
    assert gradgradcheck(of_values, (values,))


@pytest.mark.parametrize("ask", FORWARD.values(), ids=FORWARD)
def test_what_torch_does_not_differentiate(ask: Any) -> None:
    _with_gradient(_coo, ask)


@pytest.mark.parametrize("ask", HYBRID_FORWARD.values(), ids=HYBRID_FORWARD)
def test_hybrid_parts(ask: Any) -> None:
    _with_gradient(_hybrid, ask)


@pytest.mark.parametrize("name", ["sparse.mm", "itself", "dense first", "many steps"])
def test_second_derivatives_of_products(name: str) -> None:
    _with_gradient(_coo, BOTH[name])


PRODUCTS = {
    "mm": lambda t, a, b: a @ b,
    "sparse.mm": lambda t, a, b: t.sparse.mm(a, b),
    "dense first": lambda t, a, b: b @ a,
    "elements": lambda t, a, b: (a * b).to_dense(),
}


@pytest.mark.parametrize("ask", PRODUCTS.values(), ids=PRODUCTS)
def test_a_factor_that_is_written_is_told(ask: Any) -> None:
    a, b = _coo(ag), _dense(ag, 3, 3) * 1
    result = ask(ag, a, b)
    b.mul_(2)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        result.sum().backward()
    a, b = _coo(ag) * 1, _dense(ag, 3, 3)
    result = ask(ag, a, b)
    a.mul_(2)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        result.sum().backward()
    result = ask(ag, _coo(ag), _dense(ag, 3, 3))
    result.sum().backward()
    with pytest.raises(RuntimeError, match="backward through the graph a second time"):
        result.sum().backward()


def test_factors_pass_the_hooks_of_saved_tensors() -> None:
    def program(t: Any) -> Any:
        seen: list[str] = []

        def pack(x: Any) -> Any:
            seen.append(str(x.layout))
            return x.clone()

        a, b = _coo(t), _dense(t, 3, 2)
        with t.autograd.graph.saved_tensors_hooks(pack, lambda x: x):
            product = t.sparse.mm(a, b)
        product.sum().backward()
        return sorted(seen), a.grad.to_dense(), b.grad

    agree(program)


def test_the_gradient_of_a_factor_has_torchs_layout() -> None:
    def program(t: Any) -> Any:
        found = []
        for make in (_coo, _csr):
            for product in (t.sparse.mm, t.mm):
                a, b = make(t), _dense(t, 3, 2)
                product(a, b).sum().backward()
                found.append((str(a.grad.layout), str(b.grad.layout)))
        return found

    agree(program)


MADE = {
    "rows": lambda t: t.sparse_csr_tensor([0, 1, 3], [2, 0, 1], [3.0, 4.0, 5.0], (2, 3)),
    "without a size": lambda t: t.sparse_csr_tensor([0, 1, 2], [0, 1], [1.0, 2.0]),
    "integers": lambda t: t.sparse_csr_tensor([0, 0, 1], [1], [7], (2, 2)),
    "of dense": lambda t: t.tensor([[0.0, 2.0], [3.0, 0.0]], dtype=t.float64).to_sparse_csr(),
    "of none": lambda t: t.zeros(2, 3).to_sparse_csr(),
    "diagonals": lambda t: t.sparse.spdiags(
        t.arange(6.0).reshape(2, 3), t.tensor([0, -1]), (3, 3), layout=t.sparse_csr
    ),
}


@pytest.mark.parametrize("make", MADE.values(), ids=MADE)
def test_compressed_rows_are_torchs(make: Any) -> None:
    def program(t: Any) -> Any:
        x = make(t)
        parts = x.crow_indices(), x.col_indices(), x.values(), x.to_dense(), x.to_sparse().indices()
        facts = x.is_sparse, x.is_sparse_csr, str(x.layout), x._nnz(), tuple(x.shape)
        return repr(x), parts, facts

    agree(program)


REFUSED = {
    "ends": lambda t: t.sparse_csr_tensor([0, 1, 3], [0, 1], [1.0, 2.0], (2, 2), **_checked(t)),
    "column": lambda t: t.sparse_csr_tensor([0, 1, 2], [0, 5], [1.0, 2.0], (2, 2), **_checked(t)),
    "order": lambda t: t.sparse_csr_tensor([0, 2], [1, 0], [1.0, 2.0], (1, 2), **_checked(t)),
    "begin": lambda t: t.sparse_csr_tensor([1, 2], [1, 0], [1.0, 2.0], (1, 2), **_checked(t)),
    "rows": lambda t: t.sparse_csr_tensor([0, 1, 2], [0, 1], [1.0, 2.0], (5, 2), **_checked(t)),
    "crow_indices of dense": lambda t: t.ones(2).crow_indices(),
    "crow_indices of coordinates": lambda t: _coo(t).crow_indices(),
    "coalesce": lambda t: _csr(t).coalesce(),
    "indices": lambda t: _csr(t).indices(),
    "sum of rows": lambda t: _csr(t).sum(0),
    "sizes": lambda t: _coo(t) @ _dense(t, 2, 2),
    "sizes of sparse.mm": lambda t: t.sparse.mm(_coo(t), _dense(t, 2, 2)),
    "size of a vector": lambda t: _coo(t).mv(_dense(t, 2)),
    "dtypes": lambda t: _coo(t) @ t.ones(3, 2),
    "softmax dim": lambda t: t.sparse.softmax(_coo(t), 5),
    "sum dim": lambda t: t.sparse.sum(_coo(t), 5),
    "softmax of dense": lambda t: t.sparse.softmax(t.ones(2, 2), 1),
    "index": lambda t: _coo(t).index_select(0, _index(t, 7)),
    "t of rows": lambda t: _hybrid(t).t(),
    "transpose of rows": lambda t: _hybrid(t).transpose(0, 1),
    "cat with dense": lambda t: t.cat([_coo(t), _dense(t, 3, 3)]),
}


def _checked(t: Any) -> dict[str, Any]:
    return {"check_invariants": True}


@pytest.mark.parametrize("call", REFUSED.values(), ids=REFUSED)
def test_what_torch_refuses(call: Any) -> None:
    kinds = (RuntimeError, IndexError, NotImplementedError)
    with pytest.raises(kinds) as ours:
        call(ag)
    if oracle.__version__:
        with pytest.raises(kinds) as theirs:
            call(oracle)
        assert isinstance(ours.value, type(theirs.value))
        assert str(theirs.value)[:30] in str(ours.value)


class _Elsewhere:
    """The package, with new tensors on a device whose library is as strict as CuPy."""

    def __getattr__(self, name: str) -> Any:
        found = getattr(ag, name)
        if name in ("tensor", "ones", "zeros", "arange"):
            return lambda *args, **options: found(*args, **options).to(STRICT.device_type)
        return found


@pytest.mark.parametrize("make", [_coo, _csr, _hybrid])
def test_on_another_array_library(make: Any) -> None:
    groups = {_coo: (BOTH, COORDINATES, FORWARD), _csr: (BOTH,), _hybrid: (HYBRID, HYBRID_FORWARD)}
    for name, ask in (each for group in groups[make] for each in group.items()):
        found = []
        for t in (ag, _Elsewhere()):
            a = make(t)
            value, *_ = _seen(t, ask(t, a))
            (value * value).sum().backward()
            found.append((value.detach().cpu(), a.grad.to_dense().cpu()))
        assert value.device.type == STRICT.device_type, name
        for here, there in zip(*found, strict=True):
            assert ag.allclose(here, there), name


def test_a_graph_network_trains() -> None:
    """Two graph convolutions on a sparse adjacency, trained with torch's losses."""

    def program(t: Any) -> Any:
        edges = t.tensor([[0, 1, 2, 3, 0, 2], [1, 0, 3, 2, 2, 0]])
        adjacency = t.sparse_coo_tensor(edges, t.ones(6), (4, 4)).coalesce()
        degree = t.sparse.sum(adjacency, 1).to_dense()
        adjacency = adjacency * (1 / degree).unsqueeze(1)
        first, second = t.nn.Linear(3, 5), t.nn.Linear(5, 2)
        with t.no_grad():
            for p in [*first.parameters(), *second.parameters()]:
                p.copy_(t.arange(float(p.numel())).reshape(p.shape).cos() / 2)
        optimizer = t.optim.Adam([*first.parameters(), *second.parameters()], lr=0.05)
        x, y = t.arange(12.0).reshape(4, 3).sin(), t.tensor([0, 0, 1, 1])
        losses = []
        for _ in range(5):
            optimizer.zero_grad()
            hidden = t.relu(t.sparse.mm(adjacency, first(x)))
            loss = t.nn.functional.cross_entropy(adjacency @ second(hidden), y)
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
        return [round(each, 4) for each in losses]

    agree(program)


def test_values_that_are_learnt() -> None:
    """A sparse layer, whose values are the parameter, of attention weights."""

    def program(t: Any) -> Any:
        scores = t.arange(5.0, dtype=t.float64).sin().requires_grad_()
        at = t.tensor([[0, 0, 1, 2, 2], [0, 2, 1, 0, 1]])
        optimizer = t.optim.SGD([scores], lr=0.5)
        for _ in range(4):
            optimizer.zero_grad()
            weights = t.sparse.softmax(t.sparse_coo_tensor(at, scores, (3, 3)), 1)
            out = t.sparse.mm(weights, _dense(t, 3, 2).detach())
            (out**2).sum().backward()
            optimizer.step()
        return scores.detach()

    agree(program)


def test_narrow_dtypes_are_multiplied() -> None:
    for kind in (ag.float16, ag.bfloat16, ag.int64, ag.complex128):
        a = _coo(ag).detach().to(kind)
        b = ag.ones(3, 2, dtype=kind)
        assert ag.equal(a @ b, a.to_dense() @ b)
        assert (a @ b).dtype == kind


@pytest.mark.parametrize("make", [_coo, _csr])
@pytest.mark.parametrize("momentum", [0.0, 0.9])
def test_a_sparse_parameter_is_moved(make: Any, momentum: float) -> None:
    def program(t: Any) -> Any:
        weights = make(t)
        optimizer = t.optim.SGD([weights], lr=0.1, momentum=momentum)
        for _ in range(3):
            optimizer.zero_grad()
            (t.sparse.mm(weights, _dense(t, 3, 2).detach()) ** 2).sum().backward()
            optimizer.step()
        return weights.detach().to_dense(), str(weights.layout)

    agree(program)
    weights = make(ag)
    ag.sparse.mm(weights, ag.ones(3, 2, dtype=ag.float64)).sum().backward()
    ag.optim.SGD([weights], lr=0.1).step()
    assert weights._nnz() <= 4  # positions do not pile up
