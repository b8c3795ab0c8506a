"""Reading and writing through indices, joining and casting: the same as torch."""

from __future__ import annotations

import warnings
from typing import Any

import numpy
import pytest

import ag_visual as ag

from ..oracle import torch
from ..programs import agree
from .side_by_side import compare, compare_failure, evaluate

READS = """
x[0]
x[-1]
x[0, 1]
x[0, 1, 2]
x[...]
x[:]
x[:, :]
x[()]
x[None]
x[0, None]
x[:, 0]
x[..., 0]
x[0, ..., 1]
x[0:1, 0]
x[0:2]
x[:, 1:]
x[:, ::2]
x[..., -3:-1]
x[2:1]
x[i]
x[:, i]
x[i, :, i]
x[i, i]
x[:, i, j[:2]]
x[0, i]
x[0, :, j[:2]]
x[i, 0]
x[[0, 1]]
x[[1, 0], [0, 1]]
x[[]]
x[True]
x[False]
x[None, :, [0, 1]]
x[x > 0]
x[b]
x[b, 0]
x[b, :2]
x[:, None, i]
x[np.array([0, 1])]
x[np.array([True, False])]
x[np.int64(1)]
x[t.tensor(1)]
x[i[0]:i[1] + 1]
x[j]
x[-i - 1]
x[i.reshape(2, 1), j]
x[i.int()]
o[...]
o[None]
o[()]
v[v > 10]
m[b]
m[range(2)]
z[0]
z[i]
x.index_select(0, j)
x.index_select(-1, i)
o.index_select(0, i[:1])
m.gather(1, t.stack([i, i]))
m.gather(0, t.stack([j, j]))
v.gather(0, j)
m.masked_select(b)
v.masked_select(b)
m.masked_select(v > 0)
m.take(t.tensor([[0, 5], [-1, 0]]))
t.take_along_dim(m, t.tensor([[0], [2]]), 1)
t.take_along_dim(m, j)
t.argwhere(m > 0)
t.nonzero(m > 0)
""".strip().splitlines()

WRITES = """
y[0] = 5.0
y[0] = 5
y[0] = t.tensor(5.0)
y[0] = o
y[0] = x[1] * 2
y[0] = v.sum()
y[0] = x[1, 2]
y[0] = x[1:2, :1, :]
y[:] = 5.0
y[...] = o
y[None] = 5.0
y[()] = o
y[0, 1] = x[1, 1] * x[0, 0]
y[:, 1:] = 0.0
y[..., ::2] = x[..., 1::2]
y[y > 0] = 5.0
y[y > 0] = o
y[b] = x[0, 0]
y[b, 0] = 1.0
y[i] = 5.0
y[i] = x[0]
y[0, i] = x[1, :2] * 3
y[:, i, 0] = m[:, :2]
y[i, i] = x[0, :2]
y[[1, 0], [2, 1]] = 2.0
y[True] = 5.0
y[i.reshape(2, 1), j] = x[..., :3, :]
y[0][1] = m[0, 0]
y[0] += x[1]
y[:, 1] *= 2.0
y[i] += 1.0
y[1:, 0] /= x[:1, 1]
y.select(0, 0)[1:3].copy_(x[1, 1:3])
y.fill_(2.0)
y.fill_(o)
y.zero_()
y[0].fill_diagonal_(2.0)
t.zero_(y)
t.fill_(y, 3.0)
y.copy_(x)
y.copy_(v.reshape(3, 1))
y.copy_(x.float())
y[0].zero_()
y.t = None; y[1].fill_(o)
""".strip().splitlines()
WRITES = [w for w in WRITES if "y.t = " not in w]

FUNCTIONS = """
m.scatter(1, t.stack([i, i]), x[0, :2, :2])
m.scatter(1, t.stack([i, i]), 1.5)
m.scatter(0, t.stack([j]), value=2.0)
m.scatter_add(1, t.stack([j, j]), x[0, :2, :3])
m.scatter_add(0, t.stack([j, j]), x[0, :2, :3])
w.scatter_(1, t.stack([i, i]), x[0, :2, 1:3])
w.scatter_(1, t.stack([i, i]), 0.5)
w.scatter_add_(1, t.stack([j, j]), x[0, :2, 1:])
m.index_add(0, i, m * 2)
m.index_add(1, j, m, alpha=2.5)
w.index_add_(0, i, m)
m.index_copy(0, i, m * 2)
w.index_copy_(1, t.tensor([2, 0]), m[:, :2])
m.index_fill(1, i, 1.5)
m.index_fill(1, i, o)
w.index_fill_(0, i[:1], 1.5)
w.index_fill_(0, i[:1], o)
m.index_put((i, i), v[:2])
m.index_put((i, i), o)
m.index_put((j, j), v, accumulate=True)
m.index_put((b,), o)
w.index_put_((i, i), v[:2])
w.index_put_((j,), m[j], accumulate=True)
m.masked_fill(b, 1.5)
m.masked_fill(b, o)
v.masked_fill(b, 0.0)
m.masked_fill(v > 0, 0.0)
w.masked_fill_(b, 1.5)
w.masked_fill_(b, o)
m.masked_scatter(b, x[0])
w.masked_scatter_(b, x)
v.masked_scatter(b, x)
m.put(i, v[:2])
m.put(t.tensor([[0, -1]]), x[0, 0, :2], accumulate=True)
w.put_(i, v[:2])
w.put_(t.tensor([5, 5]), v[:2], accumulate=True)
t.select_scatter(m, v, 0, 1)
t.slice_scatter(m, v.reshape(1, 3), 0, 1, 2)
t.diagonal_scatter(m, v[:2])
t.cat([x, y])
t.cat([x, y], -1)
t.cat([x, x.float()], 1)
t.cat([m, t.zeros(0)])
t.cat((v, v, v))
t.concat([m, m], 1)
t.stack([x, y])
t.stack([x, x], -1)
t.stack([o, o])
t.hstack([x, y])
t.hstack([v, v])
t.hstack([o, o])
t.vstack([v, v])
t.vstack([m, v])
t.dstack([v, v])
t.column_stack([v, v])
t.block_diag(m, v, o)
t.meshgrid(v, m[0], indexing="ij")
t.meshgrid(v, m[0], indexing="xy")
x.float()
x.double()
x.half()
x.long()
x.bool()
x.to(t.float32)
x.to(t.float64)
x.to(t.float64, copy=True)
x.to("cpu")
x.to(m)
x.type(t.float32)
x.type("torch.FloatTensor")
x.type_as(t.ones(1))
x.to(t.complex128)
x.cfloat()
z.real
z.imag
x.real
x.conj()
z.mT
t.view_as_real(z)
t.view_as_complex(x[..., :2].contiguous())
t.complex(m, v)
t.real(z)
t.imag(z)
z.conj_physical()
z.transpose(0, 1)
t.cat([z, m])
z.index_select(1, j)
z.clone()
""".strip().splitlines()

ERRORS = """
x[5] | index 5 is out of bounds for dimension 0 with size 2
x[-3] | index -3 is out of bounds for dimension 0 with size 2
x[0, 3] | is out of bounds for dimension
x[0, 0, 0, 0] | too many indices for tensor of dimension 3
x[1.5] | only integers, slices (`:`), ellipsis (`...`), None and long or byte Variables
x[{}] | are valid indices (got dict)
x[::-1] | step must be greater than zero
x[::0] | slice step cannot be zero
x["a"] | new(): invalid data type 'str'
x[1:3.5] | slice indices must be integers or None or have an __index__ method
o[0] | invalid index of a 0-dim tensor. Use `tensor.item()` in Python
x[t.tensor([5])] | index 5 is out of bounds for dimension 0 with size 2
x[:, t.tensor([-4])] | index -4 is out of bounds for dimension
x[t.tensor([1.5])] | tensors used as indices must be long, int, byte or bool tensors
x[t.tensor([True])] | The shape of the mask [1] at index 0 does not match the shape of the indexed
x[:, t.ones(2, 4).bool()] | The shape of the mask [2, 4] at index
x[i, j] | shape mismatch: indexing tensors could not be broadcast together with shapes [2], [3]
y[0] = t.ones(5) | must match the existing size (5)
y[0, 0, 0] = "a" | can't assign a str to a torch.DoubleTensor
y[0] = [1, 2, 3, 4] | can't assign a list to a torch.DoubleTensor
y[0] = 1j | value cannot be converted to type double without overflow
y[i] = t.ones(5).double() | shape mismatch: value tensor of shape [5] cannot be broadcast to
y[i] = t.ones(4) | Index put requires the source and destination dtypes match
y[y > 0] = t.ones(5).double() | shape mismatch: value tensor of shape [5] cannot be broadcast to
y[t.tensor([]).long()] = t.ones(2, 0, 3, 4).double() | shape mismatch: value tensor of shape [2, 0
o.clone()[o.isnan()] = t.ones(2, 0).double() | shape mismatch: value tensor of shape [2, 0] cannot
x.gather(0, i) | Index tensor must have the same number of dimensions as input tensor
m.gather(0, t.tensor([[5]])) | index 5 is out of bounds for dimension 0 with size 2
m.gather(0, t.tensor([[0.0]])) | gather(): Expected dtype int32/int64 for index
m.scatter(0, t.tensor([[5]]), 1.0) | index 5 is out of bounds for dimension 0 with size 2
m.scatter(1, i[None], t.ones(1, 2)) | scatter(): Expected self.dtype to be equal to src.dtype
m.index_select(0, t.tensor([5])) | index out of range in self
m.index_select(0, t.tensor([[0]])) | index_select(): Index is supposed to be a vector
m.index_select(0, t.tensor([0.0])) | index_select(): Expected dtype int32 or int64 for index
m.index_add(0, i, m[:1]) | Number of indices (2) should be equal to source.size(dim): (1)
m.index_fill(0, t.tensor([5]), 0.0) | index 5 is out of bounds for dimension 0 with size 2
m.masked_fill(b, v) | only supports a 0-dimensional value tensor, but got tensor with 1 dimension
m.masked_fill(m, 0.0) | masked_fill_ only supports boolean masks, but got mask with dtype
m.masked_fill(b[:, :2], 0.0) | at non-singleton dimension 1
m.masked_scatter(b.new_ones(2, 3), v) | Number of elements of source < number of ones in mask
m.take(t.tensor([7])) | tried to access index 7 on a tensor of 6 elements.
y.copy_(v[:2]) | must match the size of tensor b (2) at non-singleton dimension
y.fill_(v) | fill_ only supports 0-dimension value tensor but got tensor with 1 dimensions.
t.cat([]) | expected a non-empty list of Tensors
t.cat([x, v]) | Tensors must have same number of dimensions: got 3 and 1
t.cat([m, t.zeros(2, 4)]) | Expected size 3 but got size 4 for tensor number 1 in the list.
t.cat([o, o]) | zero-dimensional tensor (at position 0) cannot be concatenated
t.cat([m, 1]) | expected Tensor as element 1
t.stack([]) | stack expects a non-empty TensorList
t.stack([m, v]) | stack expects each tensor to be equal size, but got [2, 3] at entry 0 and [3]
t.stack([m, m], dim=5) | Dimension out of range (expected to be in range of [-3, 2], but got 5)
m.imag | imag is not implemented for tensors with non-complex dtypes
t.view_as_real(m) | view_as_real is only supported for complex tensors
t.view_as_complex(m) | Tensor must have a last dimension of size 2
t.view_as_complex(x[0, :2, :2].t()) | Tensor must have a last dimension with stride 1
x.to("foo") | device type at start of device string: foo
""".strip().splitlines()


@pytest.mark.oracle
@pytest.mark.parametrize("expression", READS + WRITES + FUNCTIONS)
def test_as_torch(expression: str) -> None:
    compare(expression)


@pytest.mark.oracle
@pytest.mark.parametrize("line", ERRORS)
def test_errors_as_torch(line: str) -> None:
    expression, _, phrase = line.partition(" | ")
    compare_failure(expression, phrase)


@pytest.mark.oracle
@pytest.mark.parametrize("expression", ["z.conj()", "z.H", "t.nonzero(m > 0, as_tuple=True)"])
def test_as_torch_but_for_what_is_a_view(expression: str) -> None:
    """torch conjugates lazily, in a view; here `conj` copies (NumPy has no lazy conjugation)."""
    compare(expression, look=False)


def test_scatter_of_a_larger_source_has_gradients() -> None:
    """torch computes these only where source and index have the same shape."""
    source = ag.ones(2, 4, requires_grad=True)
    index = ag.tensor([[0, 1]])
    for name in ("scatter", "scatter_add"):
        result = getattr(ag.zeros(2, 3), name)(1, index, source)
        (g,) = ag.autograd.grad((result * ag.tensor([1.0, 2.0, 3.0])).sum(), source)
        assert g.tolist() == [[1.0, 2.0, 0.0, 0.0], [0.0, 0.0, 0.0, 0.0]]


def test_a_mask_or_index_read_copies() -> None:
    for expression in ("x[i]", "x[b]", "x[True]", "x[[0]]"):
        scope, value = evaluate(expression, ag)
        assert not value._is_view()
        assert not numpy.shares_memory(value._array, scope["x"]._array)


def test_bytes_as_a_mask_warn() -> None:
    x = ag.tensor([1, 2, 3])
    with pytest.warns(UserWarning, match=r"indexing with dtype torch.uint8 is now deprecated"):
        assert x[ag.tensor([1, 0, 1], dtype=ag.uint8)].tolist() == [1, 3]


def test_a_nested_list_as_an_index_warns_and_counts_as_a_tuple() -> None:
    x = ag.arange(6).reshape(2, 3)
    with pytest.warns(UserWarning, match="non-tuple sequence for multidimensional indexing"):
        assert x[[[0, 1], [1, 2]]].tolist() == [1, 5]


def test_writing_integers_truncates_and_refuses_what_does_not_fit() -> None:
    x = ag.zeros(2, dtype=ag.int64)
    x[0] = 1.7
    x[1] = True
    assert x.tolist() == [1, 1]
    with pytest.raises(RuntimeError, match="value cannot be converted to type uint8_t without"):
        ag.zeros(2, dtype=ag.uint8)[0] = 300


def test_assignment_from_complex_drops_the_imaginary_part_with_a_warning() -> None:
    x = ag.zeros(1)
    with pytest.warns(UserWarning, match="Casting complex values to real discards"):
        x.copy_(ag.tensor([1 + 2j]))
    assert x.tolist() == [1.0]


def test_index_gradients_of_duplicates_add_up() -> None:
    x = ag.zeros(3, requires_grad=True)
    (x[ag.tensor([0, 0, 2, 0])] * ag.tensor([1.0, 2.0, 4.0, 8.0])).sum().backward()
    assert x.grad.tolist() == [11.0, 0.0, 4.0]


def test_nodes_have_torchs_saved_attributes() -> None:
    x = ag.ones(2, 3, requires_grad=True)
    i = ag.tensor([0, 1])
    node = x.index_add(0, i, x, alpha=2).grad_fn
    assert (node._saved_alpha, node._saved_dim, node._saved_source_dim) == (2, 0, 2)
    assert node._saved_index is i
    assert x[i].grad_fn._saved_indices == (i,)
    node = x.gather(0, i[None]).grad_fn
    assert (node._saved_dim, node._saved_sparse_grad, node._saved_self) == (0, False, x)


@pytest.mark.oracle
@pytest.mark.parametrize(
    "index", ["..., -1:", "..., 0:1", "..., :5", "0:1, None", "-1:", "1:, ..."]
)
@pytest.mark.parametrize("size", [0, 1, 2])
def test_a_slice_that_does_not_say_that_it_takes_everything_is_a_node(
    index: str, size: int
) -> None:
    def program(t: Any) -> Any:
        x = t.ones(size, requires_grad=True)
        return type(eval(f"x[{index}]", {"x": x}).grad_fn).__name__

    agree(program)


def test_reads_without_warnings_are_quiet() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for expression in READS:
            scope = {**evaluate("x", ag)[0]}
            eval(expression, scope)


def test_what_is_read_by_bools_is_row_major_where_channels_are_asked_for() -> None:
    for index in ((True,), (slice(None), True)):
        found = []
        for engine in (ag, torch):
            x = engine.tensor([[[1.0, 2.0]]])[index]
            found.append((x.stride(), engine.hstack([x, x]).stride()))
        assert found[0] == found[1]
