"""Views and rearrangements: the same values, graphs and gradients as torch's."""

from __future__ import annotations

import warnings
from typing import Any

import numpy
import pytest

import ag_visual as ag

from ..programs import agree
from .side_by_side import compare, compare_failure

VIEWS = """
x.view(6, 4)
x.view((2, -1))
x.view(-1)
x.view(2, 3, 4)
o.view(1, 1)
x.reshape(6, 4)
x.reshape(-1, 2)
m.t().reshape(6)
m.t().reshape(3, 2)
t.reshape(x, (4, 6))
x.flatten()
x.flatten(0, 1)
x.flatten(1)
t.flatten(o)
x.ravel()
m.t().ravel()
m.t().flatten()
x.unflatten(2, (2, 2))
x.unflatten(-1, (-1, 2))
x.view_as(x)
x.reshape_as(x)
m.T
m.mT
x.mT
m.H
x.mH
m.t()
v.t()
x.transpose(0, -1)
x.transpose(0, 0)
t.transpose(x, 1, 2)
x.swapaxes(0, 1)
x.swapdims(0, 1)
x.permute(2, 0, 1)
x.permute((0, 2, 1))
t.permute(x, (2, 1, 0))
x.movedim(0, -1)
x.movedim((0, 1), (1, 2))
x.moveaxis(0, 2)
x.unsqueeze(0)
x.unsqueeze(-1)
x.squeeze()
x.unsqueeze(1).squeeze()
x.unsqueeze(1).squeeze(1)
x.unsqueeze(1).squeeze(0)
x.unsqueeze(1).squeeze((1, 2))
v.expand(2, 3)
v.expand((4, -1))
v.expand_as(m)
v.broadcast_to(2, 3)
o.expand(2, 2)
t.broadcast_tensors(v, m)
x.select(0, -1)
x.narrow(2, 1, 2)
x.narrow(0, -1, 1)
x.diagonal()
x.diagonal(1, 0, 2)
x.diagonal(offset=-1, dim1=1, dim2=2)
x.diagonal(10)
x.unbind()
x.unbind(-1)
x.unbind(1)[2]
x.split(1)
x.split(2, 1)
x.split([1, 1])
x.split([1, 0, 3], dim=2)
x.split_with_sizes([1, 3], 2)
x.chunk(2)
x.chunk(3, -1)
x.tensor_split(2)
x.tensor_split(3, 2)
x.tensor_split((1, 2), 2)
x.hsplit(3)
x.vsplit(2)
x.dsplit(2)
x.unfold(2, 3, 1)
x.unfold(2, 2, 2)
v.unfold(0, 2, 1)
x.as_strided((2, 2), (1, 2), 3)
y.as_strided((3, 3), (1, 1))
x.detach()
x.contiguous()
t.atleast_2d(v)
t.atleast_3d(v, m)
t.atleast_1d(o)
list(x)[1]
""".strip().splitlines()

COPIES = """
x.clone()
m.t().clone()
m.t().contiguous()
x.flip(0)
x.flip(0, -1)
x.flip([])
t.flip(x, (1,))
t.fliplr(m)
t.flipud(m)
x.roll(1)
x.roll(-2, 2)
x.roll((1, 2), (0, 2))
t.rot90(m)
t.rot90(x, 3, (1, 2))
m.tril()
m.triu(1)
x.tril(-1)
x.repeat(2, 1, 1)
x.repeat(2, 1, 3, 1)
v.repeat(0)
x.tile(2)
x.tile((2, 1, 1, 1))
m.repeat_interleave(2, 0)
m.repeat_interleave(i + 1, 0)
t.diag(m)
t.diag(v)
t.diag(v, -1)
t.diag_embed(m)
t.diag_embed(m, 1, 0, 2)
x.sum_to_size(2, 1, 4)
x.sum_to_size(3, 1)
x.sum_to_size(2, 3, 4)
""".strip().splitlines()

GEOMETRY = """
y.squeeze_()
y.unsqueeze_(0)
y.unsqueeze_(0).squeeze_()
y.unsqueeze_(1).squeeze_(1)
y.unsqueeze_(1).squeeze_((0, 1))
y.transpose_(0, 1)
y.as_strided_((2, 2), (1, 2), 1)
y.swapaxes_(0, 2)
w.t_()
w.t_() * v[:2]
""".strip().splitlines()

ERRORS = """
x.view(5, -1) | shape '[5, -1]' is invalid for input of size 24
x.view(-1, -1) | only one dimension can be inferred
x.view(-2, 3) | invalid shape dimension -2
t.zeros(0).view(0, -1) | the unspecified dimension size -1 can be any value and is ambiguous
m.t().view(6) | view size is not compatible with input tensor's size and stride
x.reshape(7) | shape '[7]' is invalid for input of size 24
x.transpose(0, 3) | Dimension out of range (expected to be in range of [-3, 2], but got 3)
x.t() | t() expects a tensor with <= 2 dimensions, but self is 3D
x.permute(0, 1) | number of dimensions in the tensor input does not match the length of the desired
x.permute(0, 1, 1) | permute(): duplicate dims are not allowed
x.permute(0, 1, 5) | Dimension out of range (expected to be in range of [-3, 2], but got 5)
v.mT | tensor.mT is only supported on matrices or batches of matrices. Got 1-D tensor.
v.adjoint() | tensor.adjoint() is only supported on matrices or batches of matrices. Got 1-D
v.H | tensor.H is only supported on matrices (2-D tensors). Got 1-D tensor.
x.squeeze(5) | Dimension out of range (expected to be in range of [-3, 2], but got 5)
x.squeeze((0, 0)) | dim 0 appears multiple times in the list of dims
x.unsqueeze(5) | Dimension out of range (expected to be in range of [-4, 3], but got 5)
v.expand(2, 4) | must match the existing size (3) at non-singleton dimension 1.  Target sizes: [2,
v.expand(-1, 3) | isn't allowed in a leading, non-existing dimension 0
m.expand(3) | must be greater or equal to the number of dimensions in the tensor (2)
x.select(0, 5) | select(): index 5 out of range for tensor of size [2, 3, 4] at dimension 0
o.select(0, 0) | select() cannot be applied to a 0-dim tensor.
x.narrow(0, 0, 5) | start (0) + length (5) exceeds dimension size (2).
x.narrow(0, 5, 1) | start out of range (expected to be in range of [-2, 2], but got 5)
x.narrow(0, 0, -1) | narrow(): length must be non-negative.
x.diagonal(0, 0, 0) | diagonal dimensions cannot be identical 0, 0
o.unbind() | Dimension specified as 0 but tensor has no dimensions
x.split(0) | split_size can only be 0 if dimension size is 0, but got dimension size of 2
x.split(-1) | split expects split_size be non-negative, but got split_size=-1
x.split([1, 2]) | split_with_sizes expects split_sizes to sum exactly to 2
x.split([-1, 3]) | split_sizes have only non-negative entries
x.chunk(0) | chunk expects `chunks` to be greater than 0, got: 0
x.unfold(0, 3, 1) | maximum size for tensor at dimension 0 is 2 but size is 3
x.unfold(0, 1, 0) | step is 0 but must be > 0
x.as_strided((5, 5), (5, 5)) | are out of bounds for storage of size 192
x.as_strided((2,), (1, 1)) | mismatch in length of strides and shape
x.as_strided((2,), (-1,)) | Negative strides are not supported at the moment, got strides: [-1]
x.flip(0, 0) | dim 0 appears multiple times in the list of dims
x.roll((1, 2)) | shifts and dimensions must align. shifts: 2, dims:0
v.tril() | input tensor must have at least 2 dimensions
x.repeat(2) | Number of dimensions of repeat dims can not be smaller than number of dimensions
x.flatten(2, 1) | flatten() has invalid args: start_dim cannot come after end_dim
o.unflatten(0, (1, 1)) | Dimension specified as 0 but tensor has no dimensions
x.unflatten(0, (3, 3)) | Provided sizes [3, 3] don't multiply up to the size of dim 0 (2)
x.movedim((0, 1), (1,)) | movedim: Invalid source or destination dims
x.movedim((0, 0), (1, 2)) | movedim: repeated dim in `source` ([0, 0])
t.broadcast_tensors(v, v[:2]) | The size of tensor a (3) must match the size of tensor b (2)
x.sum_to_size(5) | is not expandable to size {[2, 3, 4]}
t.rot90(m, 1, (0, 0)) | expected rotation dims to be different, but got dim0 = 0 and dim1 = 0
""".strip().splitlines()


@pytest.mark.oracle
@pytest.mark.parametrize("expression", VIEWS + COPIES + GEOMETRY)
def test_as_torch(expression: str) -> None:
    compare(expression)


@pytest.mark.oracle
@pytest.mark.parametrize("line", ERRORS)
def test_errors_as_torch(line: str) -> None:
    expression, _, phrase = line.partition(" | ")
    compare_failure(expression, phrase)


@pytest.mark.parametrize("expression", VIEWS)
def test_views_share_memory_and_have_no_negative_strides(expression: str) -> None:
    from .side_by_side import evaluate, listed

    _, value = evaluate(expression, ag)
    for output in listed(value):
        if not output._is_view():
            continue
        base = output._base
        assert output._storage is base._storage
        if output.numel():
            assert numpy.shares_memory(output._array, base._array)
        assert all(stride >= 0 for stride in output.stride())


NOTHING_BEHIND = """
t.tensor([])
t.ones(0, 3)
t.ones(3, 0, 2)
t.tensor([[], []])
t.tensor(1.)[None]
t.ones(2, 3)[None]
t.ones(2, 3)[:, None]
t.ones(2, 3).t()[None, ..., None]
t.tensor(1.).view(1, 1)
t.ones(1).expand(4, 1)
t.ones(3).expand(1, 3)
t.ones(1, 3).expand(2, 3)[None]
t.ones(2, 3)[:0]
t.ones(0, 3) * 1
""".strip().splitlines()


@pytest.mark.oracle
@pytest.mark.parametrize("expression", NOTHING_BEHIND)
def test_strides_of_new_dimensions_and_empty_tensors(expression: str) -> None:
    agree(lambda t: eval(expression, {"t": t}).stride())


@pytest.mark.oracle
@pytest.mark.parametrize("copy", ["clone()", "double()", "bool()", "to(t.int32)"])
def test_copies_of_expanded_memory_are_row_major(copy: str) -> None:
    agree(lambda t: eval(f"x.{copy}", {"t": t, "x": t.arange(3.0).expand(2, 3)}).stride(), [3, 1])


@pytest.mark.oracle
@pytest.mark.parametrize("name", ["zeros_like", "ones_like", "empty_like"])
def test_tensors_like_expanded_ones_are_row_major(name: str) -> None:
    agree(lambda t: getattr(t, name)(t.arange(3.0).expand(2, 3)).stride(), [3, 1])
    agree(lambda t: t.full_like(t.arange(3.0).expand(2, 3), 2.0).stride(), [3, 1])


@pytest.mark.oracle
@pytest.mark.parametrize("name", ["mT", "H", "mH", "adjoint"])
def test_a_number_is_its_own_transposed(name: str) -> None:
    def program(t: Any) -> Any:
        x = t.tensor(2.0, requires_grad=True)
        found = getattr(x, name)
        return (found if name != "adjoint" else found()) is x

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # deprecated, as in torch
        agree(program, True)


@pytest.mark.parametrize("expression", COPIES)
def test_copies_share_no_memory(expression: str) -> None:
    from .side_by_side import evaluate, listed

    scope, value = evaluate(expression, ag)
    for output in listed(value):
        if output._is_view() or output is scope["x"]:
            continue
        for leaf in ("x", "m", "v"):
            assert not numpy.shares_memory(output._array, scope[leaf]._array)


def test_every_view_can_be_written() -> None:
    base = ag.zeros(3, 3)
    base.diagonal().fill_(2.0)
    base[1].expand(1, 3).add_(1.0)
    base.unfold(0, 3, 1)[0, 0, 0] = 7.0
    base.as_strided((1,), (1,), 8).mul_(5.0)
    assert base.tolist() == [[7.0, 0.0, 0.0], [1.0, 3.0, 1.0], [0.0, 0.0, 10.0]]


def test_a_view_as_another_dtype_shares_bytes() -> None:
    x = ag.tensor([1.0, 2.0])
    bits = x.view(ag.int32)
    bits[0] = 0
    assert x.tolist() == [0.0, 2.0]
    assert ag.zeros(4).view(ag.float64).shape == (2,)
    with pytest.raises(RuntimeError, match=r"self.size\(-1\) must be divisible by 2"):
        ag.zeros(3).view(ag.float64)


def test_the_gradient_of_a_geometry_without_elements_is_dense() -> None:
    def program(t: Any) -> Any:
        leaf = t.arange(4.0)[::2].requires_grad_()
        (g,) = t.autograd.grad(leaf.as_strided((0,), (1,)).sum(), [leaf])
        return t.tensor(g.stride()), g

    agree(program)
