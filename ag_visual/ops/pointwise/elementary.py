"""Elementary functions: exponentials, logarithms, roots, trigonometry; and erf, gamma."""

from __future__ import annotations

import math

from ag_visual.arrays.kernels.activation import arctan, arctan2, arctanh, cosh, expm1, log1p, sinh
from ag_visual.arrays.kernels.choice import where
from ag_visual.dispatch.families import binary, is_complex, pair_samples, unary
from ag_visual.dispatch.record import FLOAT
from ag_visual.ops.pointwise.special import in_float32, scipys

# Exponentials and logarithms ----------------------------------------------------------------------


unary(
    "exp",
    lambda result: result,
    doc="e to the power x, elementwise.",
    autocast="cuda float32",
    foreach="unary",
    symbol="e^",
    flops="elements",
)
unary(
    "exp2",
    lambda result: result * math.log(2),
    lambda xp, self: xp.exp2(self) if self.dtype.kind != "c" else xp.power(2, self),
    reference=lambda np, x: 2.0**x,
    doc="2 to the power x, elementwise.",
    spaces="torch special",
    symbol="2^",
)
unary(
    "expm1",
    lambda result: result + 1,
    expm1,
    reference=lambda np, x: np.exp(x) - 1,
    doc="exp(x) - 1, elementwise, exact for small x.",
    spaces="torch special",
    autocast="cuda float32",
    zero_preserving=True,
    foreach="unary",
)
unary(
    "log",
    lambda g, self: g / self,
    low=0.2,
    high=3.0,
    doc="The natural logarithm, elementwise: -inf at 0, NaN below.",
    symbol="ln",
    autocast="cuda float32",
    foreach="unary",
    flops="elements",
)
unary(
    "log2",
    lambda g, self: g / (self * math.log(2)),
    low=0.2,
    high=3.0,
    doc="The logarithm to base 2, elementwise.",
    autocast="cuda float32",
    foreach="unary",
)
unary(
    "log10",
    lambda g, self: g / (self * math.log(10)),
    low=0.2,
    high=3.0,
    doc="The logarithm to base 10, elementwise.",
    autocast="cuda float32",
    foreach="unary",
)
unary(
    "log1p",
    lambda g, self: g / (self + 1),
    log1p,
    low=-0.8,
    high=3.0,
    node="Log1PBackward0",
    reference=lambda np, x: np.log(1 + x),
    doc="log(1 + x), elementwise, exact for small x.",
    spaces="torch special",
    autocast="cuda float32",
    zero_preserving=True,
    foreach="unary",
)
unary(
    "sqrt",
    lambda g, result: g / (2 * result),
    low=0.2,
    high=3.0,
    doc="The square root, elementwise: NaN below 0.",
    zero_preserving=True,
    foreach="unary",
    symbol="√",
    flops="elements",
)
unary(
    "rsqrt",
    lambda F, g, result: -0.5 * g * F.pow(result, 3),
    lambda xp, self: 1 / xp.sqrt(self),
    low=0.2,
    high=3.0,
    reference=lambda np, x: x**-0.5,
    doc="1 / sqrt(x), elementwise.",
    autocast="cuda float32",
    foreach="unary",
    symbol="1/√",
    flops="elements",
)


def _reciprocal(xp, self):
    # (numpy.reciprocal of a complex zero has NaN for its infinity.)
    return 1 / self if self.dtype.kind == "c" else xp.reciprocal(self)


unary(
    "reciprocal",
    lambda g, result: -g * (result * result),
    _reciprocal,
    low=0.3,
    high=3.0,
    doc="1 / x, elementwise.",
    autocast="cuda float32",
    foreach="unary",
    symbol="1/",
    flops="elements",
)


def logaddexp(xp, self, other):
    """log(exp(self) + exp(other)), of complex numbers too."""
    if self.dtype.kind != "c":
        return xp.logaddexp(self, other)
    larger = self.real >= other.real
    most, least = where(xp, larger, self, other), where(xp, larger, other, self)
    nothing = most.real == -math.inf  # the sum is zero, whose logarithm has any imaginary part
    off = where(xp, nothing, 0, least - most)
    return where(xp, nothing, other, most + log1p(xp, xp.exp(off)))


def _share(F, self, other):
    """exp(self) / (exp(self) + exp(other)), without overflow."""
    return F.sigmoid(self - other)


binary(
    "logaddexp",
    lambda F, self, other: _share(F, self, other),
    lambda F, self, other: _share(F, other, self),
    logaddexp,
    policy=FLOAT,
    inplace=False,
    samples=pair_samples(),
    reference=lambda np, x, y: np.log(np.exp(x) + np.exp(y)),
)
binary(
    "logaddexp2",
    lambda F, self, other: _share(F, self * math.log(2), other * math.log(2)),
    lambda F, self, other: _share(F, other * math.log(2), self * math.log(2)),
    policy=FLOAT,
    inplace=False,
    samples=pair_samples(),
    real_only=True,
    doc="log2(2^self + 2^other), elementwise, without overflow.",
)


def _xlogy(xp, self, other):
    other = xp.asarray(other, dtype=self.dtype)  # a number's logarithm would be float64
    result = xp.asarray(self * xp.log(other))
    return where(xp, xp.equal(self, 0) & ~xp.isnan(other), xp.zeros_like(result), result)


binary(
    "xlogy",
    lambda F, g, self, other: F.masked_fill(F.xlogy(g, other), (self == 0) & (other <= 0), 0.0),
    lambda g, self, other: g * self / other,
    _xlogy,
    policy=FLOAT,
    opmath=False,
    samples=pair_samples(0.2, 2.0),
    real_only=True,
    reference=lambda np, x, y: x * np.log(y),
    doc="self * log(other), elementwise: 0 where self is 0, NaN where other is NaN.",
    spaces="torch special",
    inplace_function=True,
)


def _logit(xp, self, eps: float | None = None):
    x = self if eps is None else xp.clip(self, eps, 1 - eps)
    return xp.log(x / (1 - x))


def _logit_slope(F, g, self, eps: float | None):
    slope = g / F.abs(self * (1 - self))
    if eps is None:
        return F.where((self >= 0) & (self <= 1), slope, math.nan)
    return F.where((self >= eps) & (self <= 1 - eps), slope, 0.0)


unary(
    "logit",
    _logit_slope,
    _logit,
    opmath=False,
    low=0.1,
    high=0.9,
    real_only=True,
    reference=lambda np, x, eps: np.log(x) - np.log(1 - x),
    doc="log(x / (1 - x)), elementwise; eps: x is clamped to [eps, 1 - eps] first.",
    spaces="torch special",
)

# Trigonometry -------------------------------------------------------------------------------------


def _acosh_slope(F, g, self):
    if is_complex(self):
        return g * (F.rsqrt(self - 1) * F.rsqrt(self + 1))
    return g * F.rsqrt(self * self - 1)


unary(
    "sin",
    lambda F, self: F.cos(self),
    doc="The sine of x in radians, elementwise.",
    zero_preserving=True,
    foreach="unary",
    flops="elements",
)
unary(
    "cos",
    lambda F, self: -F.sin(self),
    doc="The cosine of x in radians, elementwise.",
    foreach="unary",
    flops="elements",
)
unary(
    "tan",
    lambda result: 1 + result * result,
    low=-1.2,
    high=1.2,
    doc="The tangent of x in radians, elementwise.",
    autocast="cuda float32",
    zero_preserving=True,
    foreach="unary",
)
unary(
    "asin",
    lambda F, self: F.rsqrt(1 - self * self),
    "arcsin",
    low=-0.8,
    high=0.8,
    doc="The inverse of sin, in [-pi/2, pi/2], elementwise: NaN outside of [-1, 1].",
    symbol="arcsin",
    autocast="cuda float32",
    zero_preserving=True,
    foreach="unary",
    aliases=("arcsin",),
)
unary(
    "acos",
    lambda F, self: -F.rsqrt(1 - self * self),
    "arccos",
    low=-0.8,
    high=0.8,
    doc="The inverse of cos, in [0, pi], elementwise: NaN outside of [-1, 1].",
    symbol="arccos",
    autocast="cuda float32",
    foreach="unary",
    aliases=("arccos",),
)
unary(
    "atan",
    lambda g, self: g / (self * self + 1),
    arctan,
    doc="The inverse of tan, in (-pi/2, pi/2), elementwise.",
    symbol="arctan",
    zero_preserving=True,
    foreach="unary",
    aliases=("arctan",),
)
unary(
    "sinh",
    lambda F, self: F.cosh(self),
    sinh,
    doc="The hyperbolic sine, (exp(x) - exp(-x)) / 2, elementwise.",
    autocast="cuda float32",
    zero_preserving=True,
    foreach="unary",
)
unary(
    "cosh",
    lambda F, self: F.sinh(self),
    cosh,
    doc="The hyperbolic cosine, (exp(x) + exp(-x)) / 2, elementwise.",
    autocast="cuda float32",
    foreach="unary",
)
unary(
    "asinh",
    lambda F, self: F.rsqrt(self * self + 1),
    "arcsinh",
    inplace_node="AsinhBackward1",
    reference=lambda np, x: np.log(x + np.sqrt(x * x + 1)),
    doc="The inverse of sinh, log(x + sqrt(x^2 + 1)), elementwise.",
    zero_preserving=True,
    aliases=("arcsinh",),
)
unary(
    "acosh",
    _acosh_slope,
    "arccosh",
    inplace_node="AcoshBackward1",
    low=1.2,
    high=3.0,
    doc="The inverse of cosh, log(x + sqrt(x^2 - 1)), elementwise: NaN below 1.",
    aliases=("arccosh",),
)
unary(
    "atanh",
    lambda g, self: g / (1 - self * self),
    arctanh,
    inplace_node="AtanhBackward1",
    low=-0.8,
    high=0.8,
    reference=lambda np, x: 0.5 * np.log((1 + x) / (1 - x)),
    doc="The inverse of tanh, log((1 + x) / (1 - x)) / 2, elementwise.",
    zero_preserving=True,
    aliases=("arctanh",),
)


def _per_square(F, part, self, other):
    """part / (self^2 + other^2): 0 at the origin, where further derivatives are NaN."""
    part, self, other = (_floating(x) for x in (part, self, other))
    square = self * self + other * other
    return part * F.where(square == 0, 0.0, 1 / square)


def _floating(x):
    """Integers beside floating-point numbers, whose squares and negatives may wrap around."""
    return x * 1.0 if getattr(x, "_array", x).dtype.kind in "iub" else x


binary(
    "atan2",
    lambda F, self, other: _per_square(F, other, self, other),
    lambda F, self, other: -_per_square(F, self, self, other),
    arctan2,
    policy=FLOAT,
    samples=pair_samples(0.3, 2.0),
    real_only=True,
    doc="The angle of the point (other, self), in (-pi, pi], elementwise.",
    vmap_inplace="",
    autocast="cuda widest",
    aliases=("arctan2",),
)
binary(
    "hypot",
    lambda self, result: self / result,
    lambda other, result: other / result,
    samples=pair_samples(0.3, 2.0),
    real_only=True,
    reference=lambda np, x, y: np.sqrt(x * x + y * y),
    doc="sqrt(self^2 + other^2), elementwise.",
)


def _sinc_slope(F, g, self):
    x = self * math.pi
    square_ = x * self
    slope = g * ((x * F.cos(x) - F.sin(x)) / square_)
    return F.where(square_ == 0, 0.0, slope)


unary(
    "sinc",
    _sinc_slope,
    in_float32(lambda xp, self: xp.sinc(self)),
    low=0.2,
    high=2.0,
    reference=lambda np, x: np.sin(np.pi * x) / (np.pi * x),
    doc="sin(pi x) / (pi x), elementwise: 1 at 0.",
    spaces="torch special",
)
unary(
    "deg2rad",
    lambda: math.pi / 180,
    inplace=True,
    real_only=True,
    node="Deg2RadBackward0",
    doc="x * pi / 180, elementwise: degrees to radians.",
    zero_preserving=True,
)
unary(
    "rad2deg",
    lambda: 180 / math.pi,
    inplace=True,
    real_only=True,
    node="Rad2DegBackward0",
    doc="x * 180 / pi, elementwise: radians to degrees.",
    zero_preserving=True,
)

# Special functions --------------------------------------------------------------------------------


_GAUSS = 2 / math.sqrt(math.pi)
unary(
    "erf",
    lambda F, self: _GAUSS * F.exp(-(self * self)),
    scipys("erf", "erf_vml_cpu"),
    real_only=True,
    doc="The error function, 2 / sqrt(pi) times the integral of exp(-t^2) from 0 to x.",
    spaces="torch special",
    zero_preserving=True,
    foreach="unary",
)
unary(
    "erfc",
    lambda F, self: -_GAUSS * F.exp(-(self * self)),
    scipys("erfc", "erfc_vml_cpu"),
    real_only=True,
    doc="1 - erf(x), elementwise, exact where erf is nearly 1.",
    spaces="torch special",
    foreach="unary",
)
unary(
    "erfinv",
    lambda F, self: F.exp(F.erfinv(self) ** 2) / _GAUSS,
    scipys("erfinv", "erfinv_vml_cpu"),
    low=-0.8,
    high=0.8,
    real_only=True,
    doc="The inverse of erf on (-1, 1), elementwise.",
    spaces="torch special",
    inplace_function=False,
    autocast="cuda float32",
    zero_preserving=True,
)
unary(
    "lgamma",
    lambda F, self: F.digamma(self),
    scipys("gammaln", "lgamma_vml_cpu"),
    low=0.3,
    high=3.0,
    real_only=True,
    doc="log |gamma(x)|, elementwise.",
    spaces="torch special.gammaln",
    symbol="lnΓ",
    inplace_function=False,
    foreach="unary",
)
unary(
    "digamma",
    lambda F, self: F.polygamma_of(self, 1),
    scipys("psi", "digamma_cpu"),
    low=0.3,
    high=3.0,
    real_only=True,
    doc="The derivative of log gamma(x), elementwise.",
    spaces="torch special special.psi",
    symbol="ψ",
    inplace_function=False,
)
