"""Quantiles, covariance, distances, integrals, differences and choices, as torch's."""

from __future__ import annotations

import pytest

from .side_by_side import compare, compare_failure, each_expression, each_failure

SAME = """
t.cdist(m.detach(), x.detach()[..., :3], 0.7)
t.cdist(x.detach(), x.detach()[0] * 2)
t.nn.functional.pdist(x[0].detach(), 3.)
m.renorm(2, 0, 0.5)
z.renorm(3, 1, 0.5)
y = m * 1; y.renorm_(1, 0, 0.5)
t.polar(v, v * 2)
t.cov(m)
t.cov(z)
t.diagflat(v, 1)
"""

ALIKE = """
t.quantile(m, 0.3)
m.quantile(0.3, dim=0, keepdim=True)
m.quantile(t.tensor([0.1, 0.5], dtype=t.float64), dim=1)
m.quantile(t.tensor([0.1, 0.5], dtype=t.float64), dim=1, keepdim=True)
m.quantile(t.tensor([0.5], dtype=t.float64))
x.quantile(v[:2].sigmoid(), dim=-1)
m.quantile(0.4, interpolation="lower")
m.quantile(0.4, 1, interpolation="higher")
m.quantile(0.4, 1, interpolation="midpoint")
m.quantile(0.5, 1, interpolation="nearest")
o.quantile(0.5)
o.quantile(0.5, dim=0, keepdim=True)
t.tensor([float("nan"), 1.]).quantile(0.2)
t.nanquantile(t.tensor([float("nan"), 1, 2, 4]), 0.5)
t.nanquantile(t.tensor([[float("nan")] * 2, [1., float("nan")]]), 0.5, dim=1)
m.nanquantile(t.tensor([0.1, 0.5], dtype=t.float64), dim=1)
t.cov(v)
t.cov(o)
t.cov(m, correction=0)
t.cov(m, fweights=t.tensor([1, 2, 1]))
t.cov(m, aweights=t.tensor([1., 2, 0.5], dtype=t.float64))
t.cov(m, fweights=t.tensor([1, 2, 1]), aweights=v.detach().abs(), correction=2)
t.cov(t.tensor([1, 2, 4]))
t.cov(t.zeros(2, 0))
m.cov()
m.corrcoef()
z.corrcoef()
v.corrcoef()
t.trapezoid(x)
t.trapz(x, dx=0.5, dim=0)
t.trapezoid(x, t.tensor([0., 1, 4], dtype=t.float64), dim=1)
t.trapezoid(m, m * m)
t.trapezoid(t.tensor([1, 2, 4]))
t.trapezoid(t.zeros(2, 0))
t.trapezoid(z, v)
t.cumulative_trapezoid(x, dx=0.5, dim=1)
t.cumulative_trapezoid(m, v)
t.cumulative_trapezoid(t.tensor([1, 2, 4]))
t.gradient(x, dim=(1, 2))
t.gradient(v)
t.gradient(z, dim=1)
t.gradient(x, spacing=2., dim=1, edge_order=2)
t.gradient(x, spacing=[2., 0.5], dim=(1, 2))
t.gradient(x[0], spacing=(t.tensor([0., 1, 3]), t.tensor([0., 1, 2, 5])), edge_order=2)
t.gradient(x[0], dim=1, spacing=[t.tensor([0., 1, 3, 4])])
t.gradient(t.tensor([1, 2, 4]))
t.cartesian_prod(v, v * 2)
t.cartesian_prod(t.tensor([1, 2]), t.tensor([3, 4]), t.tensor([5]))
t.cartesian_prod(v)
t.combinations(v)
t.combinations(v, 1)
t.combinations(v, 2, True)
t.combinations(t.tensor([1, 2]), 3)
t.combinations(v.detach(), 0)
"""

ERRORS = """
t.quantile(t.tensor([1, 2]), .5) | input tensor must be either float or double dtype
t.quantile(m, 1.5) | q must be in the range [0, 1] but got 1.5
t.quantile(m, t.tensor([[.5]])) | q must be a scalar or 1D tensor
t.quantile(m, t.tensor([.5])) | q tensor must be same dtype as the input tensor
t.quantile(t.tensor([]), .5) | input tensor must be non-empty
t.quantile(m, .5, interpolation="foo") | interpolation must be one of linear, lower, higher
t.quantile(m, t.tensor([.1, 2], dtype=t.float64)) | q values must be in the range [0, 1]
t.cov(x) | expected input to have two or fewer dimensions
t.cov(b) | bool dtype is not supported for input
t.cov(m, fweights=v) | expected fweights to have integral dtype but got fweights with Double
t.cov(m, fweights=t.tensor([1, 2])) | there are observations in the input but got 2 != 3
t.cov(m, fweights=t.tensor([1, 2, -1])) | fweights cannot be negative
t.cov(m, aweights=t.tensor([1, 2, 1])) | expected aweights to have floating point dtype
t.corrcoef(x) | expected input to have two or fewer dimensions
t.trapezoid(v, v[:2]) | There must be one `x` value for each sample point
t.trapezoid(b) | bool is not supported
t.trapezoid(o) | tensor has no dimensions
t.gradient(v, edge_order=3) | only supports edge_order=1 and edge_order=2.
t.gradient(v[:1]) | expected each dimension size to be at least edge_order+1
t.gradient(m, spacing=[1., 2., 3.]) | dim argument was not given, but got a list of length 3
t.gradient(m, spacing=[2., 3.], dim=0) | argument of length 2 and a dim argument of length 1.
t.gradient(m, dim=5) | Dimension out of range
t.gradient(m, dim=(0, 0)) | appears multiple times in the list of dims
t.cdist(m, m, compute_mode="foo") | foo is not a valid value for compute_mode
t.cdist(i, i) | cdist only supports
t.nn.functional.pdist(i[None]) | pdist only supports floating-point dtypes
t.polar(v, i) | Expected both inputs to be Half, Float or Double tensors
t.polar(v, v.float()) | Expected object of scalar type
t.cartesian_prod(m) | Expect a 1D vector, but got shape [2, 3]
t.combinations(v, -1) | Expect a non-negative number, but got -1
"""


@pytest.mark.oracle
@each_expression(SAME)
def test_as_torch(expression: str) -> None:
    compare(expression)


@pytest.mark.oracle
@each_expression(ALIKE)
@pytest.mark.filterwarnings("ignore:cov")
def test_values_and_gradients_as_torch(expression: str) -> None:
    compare(expression, look=False)


@pytest.mark.oracle
@each_failure(ERRORS)
def test_errors_as_torch(expression: str, phrase: str) -> None:
    compare_failure(expression, phrase)
