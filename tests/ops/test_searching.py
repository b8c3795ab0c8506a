"""Searching, counting, distinct values and histograms, as torch's."""

from __future__ import annotations

import pytest

from .side_by_side import compare, compare_failure, each_expression, each_failure

SAME = """
t.searchsorted(t.tensor([1., 3, 3, 9]), t.tensor([[3., 0], [9, float("nan")]]))
t.searchsorted(t.tensor([1., 3, 3, 9]), t.tensor([3., 10]), side="right")
t.searchsorted(t.tensor([1., 3]), 2)
t.searchsorted(t.tensor([3., 1]), t.tensor([2., 3]), sorter=t.tensor([1, 0]), out_int32=True)
t.searchsorted(t.tensor([[1, 3, 5], [2, 4, 6]]), t.tensor([[3, 6], [3, 6]]), right=True)
t.bucketize(t.tensor([[1., 2, 3]]), t.tensor([1., 2]))
t.bucketize(2.5, t.tensor([1., 2]), right=True)
t.bucketize(m, t.tensor([-0.5, 0.5], dtype=t.float64))
t.isin(t.tensor([1, 2, 3]), t.tensor([2, 3]))
t.isin(2, t.tensor([2, 3]))
t.isin(t.tensor([1., 2.5]), 2.5, invert=True)
t.isin(t.tensor([1., float("nan")]), t.tensor([float("nan"), 1.]))
t.unique(t.tensor([3, 1, 3]))
t.unique(t.tensor([[3, 1], [1, 3]]), return_inverse=True, return_counts=True)
t.unique(t.tensor([[1, 2], [1, 2], [0, 5]]), dim=0, return_inverse=True, return_counts=True)
t.unique(t.tensor([[1, 2, 1], [1, 2, 1]]), dim=1, return_counts=True)
t.unique(t.tensor([float("nan"), 1, float("nan")]))
t.unique(t.tensor([]))
t.unique(t.tensor([True, False, True]))
t.tensor([2, 1, 2]).unique(True, False, True)
t.unique(m.detach())
t.unique_consecutive(t.tensor([1, 1, 2, 1]), return_inverse=True, return_counts=True)
t.unique_consecutive(t.tensor([[1, 1], [2, 1]]), return_inverse=True)
t.unique_consecutive(t.tensor([[1, 1], [1, 1], [2, 1]]), dim=0, return_counts=True)
t.unique_consecutive(t.tensor([]), return_counts=True)
t.bincount(t.tensor([1, 3, 1]))
t.bincount(t.tensor([1, 3, 1]), t.tensor([.5, 1, 2]), minlength=6)
t.bincount(t.tensor([1, 3, 1], dtype=t.uint8), t.tensor([1, 1, 2]))
t.bincount(t.tensor([], dtype=t.int64), minlength=2)
t.nonzero_static(t.tensor([[1, 0], [0, 3]]), size=3)
t.nonzero_static(t.tensor(5), size=2)
t.unravel_index(t.tensor([3, 5]), (2, 3))
t.unravel_index(t.tensor([[9, -1]]), (2, 3))
t.unravel_index(t.tensor(3), 6)
t.histc(t.tensor([1., 2, 1]), 4, 0, 3)
t.histc(t.tensor([1., 5, 2.5, 2.4999]), 4, 1, 1)
t.histc(t.tensor([1., float("nan"), 9]), bins=3, min=0, max=3)
t.histogram(t.tensor([1., 2, 1]), 4, range=(0., 3.))
t.histogram(t.tensor([1., 2, 1, 7]), t.tensor([0., 1, 2]))
t.histogram(t.tensor([1., 2, 1]), 4, weight=t.tensor([1., 2, 4]), density=True)
t.histogram(t.tensor([]), 2)
t.histogramdd(t.tensor([[0., 1], [1, 0], [2, 0]]), bins=[2, 3]).hist
t.histogramdd(t.tensor([[0., 1], [1, 0], [2, 0]]), bins=[2, 3]).bin_edges
t.histogramdd(t.tensor([[[0., 1]], [[1, 2]]]), bins=2, range=[0., 1., 0., 1.], density=True).hist
t.histogramdd(t.tensor([[0., 1], [1, 2]]), [t.tensor([0., 2])] * 2, weight=t.tensor([1., 4])).hist
t.mode(t.tensor([3, 1, 3, 1, 1, 3]))
t.tensor([[1., 2, 2]]).mode(1, keepdim=True)
t.nanmedian(t.tensor([float("nan"), 3, 1, 2, 5]))
t.nanmedian(t.tensor([[float("nan"), float("nan")], [1., 2]]), 1)
t.tensor([]).nanmedian()
m.nanmedian()
t.cummax(t.tensor([1., float("nan"), 3]), 0)
t.cummin(t.tensor([2., 2, 1, 1]), 0)
t.cummax(t.tensor([2, 1, 2, 2]), 0)
t.cummin(t.zeros(0), 0)
x.cummax(1)
x.mode(1)
v.scatter_reduce(0, j, m[0], "prod")
v.scatter_reduce(0, j, m[0], "amax", include_self=False)
t.arange(4).scatter_reduce(0, t.tensor([0, 0, 0]), t.tensor([1, 2, 4]), "mean")
y = v * 1; y.scatter_reduce_(0, j, m[0], "mean")
y = m * 1; y.index_reduce_(1, j, m, "amin")
m.index_reduce(0, i, m * 2, "mean", include_self=False)
"""

ERRORS = """
t.searchsorted(t.tensor([1., 3]), t.tensor([2.]), side="middle") | side can only be
t.searchsorted(t.tensor([1., 3]), t.tensor([2.]), right=True, side="left") | opposites
t.searchsorted(t.tensor([[1., 3]]), 2.) | input value can be a scalar only when
t.searchsorted(t.tensor([1., 3]), t.tensor([2.]), sorter=t.tensor([0])) | must have the same size
t.bucketize(t.tensor([1.]), t.tensor([[1.]])) | tensor must be 1 dimension
t.isin(1, 2) | isin()
t.unique(t.tensor(3), dim=0) | tensor has no dimensions
t.unique(m).sum().backward() | the derivative for '_unique2' is not implemented
t.unique(m, dim=0).sum().backward() | the derivative for 'unique_dim' is not implemented
t.unique_consecutive(m).sum().backward() | 'unique_consecutive' is not implemented
t.bincount(t.tensor([[1]])) | bincount only supports 1-d non-negative integral inputs.
t.bincount(t.tensor([1]), minlength=-1) | minlength should be >= 0
t.unravel_index(t.tensor([1.]), (2, 3)) | expected 'indices' to be integer dtype
t.unravel_index(t.tensor([1]), (2, -3)) | 'shape' cannot have negative values
t.histogram(t.tensor([1, 2]), 2) | not implemented for 'Long'
t.histogram(t.tensor([1., 2]), t.tensor([0, 1])) | should have the same dtype
t.histogramdd(t.tensor([1.]), bins=2) | at least 2 dimensions
t.histogramdd(t.tensor([[0., 1]]), bins=[2, 2, 2]) | must be equal to the innermost dimension
t.mode(t.tensor([])) | to have non-zero size
v.scatter_reduce(0, j, m[0].float(), "sum") | Expected self.dtype to be equal to src.dtype
v.index_reduce(0, j, m[0].float(), "mean") | must have the same scalar type
"""


@pytest.mark.oracle
@each_expression(SAME)
def test_as_torch(expression: str) -> None:
    compare(expression)


@pytest.mark.oracle
@each_failure(ERRORS)
def test_errors_as_torch(expression: str, phrase: str) -> None:
    compare_failure(expression, phrase)
