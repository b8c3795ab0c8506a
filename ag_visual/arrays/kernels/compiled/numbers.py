"""Functions of one number, which loops that call them are vectorised with.

Layer 1.
"""

from __future__ import annotations

import math
from typing import Any

import numpy
from numba.extending import overload

from ag_visual.arrays.kernels.compiled.making import ordered

_F, _I = numpy.float32, numpy.int32
_D, _L = numpy.float64, numpy.int64

# ln 2 in two parts, of which the first has few bits: a product with a power of two is exact.
_LN2_F = (_F(0.693359375), _F(math.log(2) - 0.693359375))
_LN2_D = (_D(0.6931471803691238), _D(1.9082149292705877e-10))


@ordered
def _reduced32(x):
    """exp(x) = (1 + p) 2^n: p and n."""
    k = numpy.floor(x * _F(1 / math.log(2)) + _F(0.5))
    r = x - k * _LN2_F[0]
    r = r - k * _LN2_F[1]
    p = _F(1 / 5040)
    p = p * r + _F(1 / 720)
    p = p * r + _F(1 / 120)
    p = p * r + _F(1 / 24)
    p = p * r + _F(1 / 6)
    p = p * r + _F(1 / 2)
    p = p * r + _F(1)
    return p * r, _I(k) if k == k else _I(0)


@ordered
def _reduced64(x):
    k = numpy.floor(x * (1 / math.log(2)) + 0.5)
    r = x - k * _LN2_D[0]
    r = r - k * _LN2_D[1]
    p = 1 / 6227020800
    p = p * r + 1 / 479001600
    p = p * r + 1 / 39916800
    p = p * r + 1 / 3628800
    p = p * r + 1 / 362880
    p = p * r + 1 / 40320
    p = p * r + 1 / 5040
    p = p * r + 1 / 720
    p = p * r + 1 / 120
    p = p * r + 1 / 24
    p = p * r + 1 / 6
    p = p * r + 1 / 2
    p = p * r + 1.0
    return p * r, _I(k) if k == k else _I(0)


@ordered
def _power32(n):
    """2^n for -126 <= n <= 127."""
    return _I((n + _I(127)) << _I(23)).view(numpy.float32)


@ordered
def _power64(n):
    return _L((_L(n) + _L(1023)) << _L(52)).view(numpy.float64)


@ordered
def exp32(x):
    x = _F(90) if x > _F(90) else x
    x = _F(-110) if x < _F(-110) else x
    p, n = _reduced32(x)
    half = _I(n >> _I(1))  # 2^n itself may be no number where the result is one
    return (p + _F(1)) * _power32(half) * _power32(_I(n - half))


@ordered
def _exp64(x):
    x = 710.0 if x > 710.0 else x
    x = -760.0 if x < -760.0 else x
    p, n = _reduced64(x)
    half = _I(n >> _I(1))
    return (p + 1.0) * _power64(half) * _power64(_I(n - half))


@ordered
def expm1_32(x):
    """exp(x) - 1, as (p 2^a + (2^a - 2^-b)) 2^b where exp(x) is (1 + p) 2^(a + b)."""
    y = _F(90) if x > _F(90) else x
    y = _F(-110) if y < _F(-110) else y
    p, n = _reduced32(y)
    half = _I(n >> _I(1))
    rest = _I(n - half)
    scale = _power32(half)
    y = (p * scale + (scale - _power32(_I(-rest)))) * _power32(rest)
    return x if x == _F(0) else y  # which keeps its sign


@ordered
def log1p_32(x):
    """log(1 + x): of the rounded sum u, and what was rounded off over u. (As Cephes' logf.)"""
    u = _F(1) + x
    bits = _F(u).view(numpy.int32)
    n = _I(_I(bits - _I(0x3F3504F3)) >> _I(23))  # u is m 2^n, m from sqrt(1/2) to sqrt(2)
    f = _I(bits - _I(n << _I(23))).view(numpy.float32) - _F(1)
    k, square = _F(n), f * f
    p = _F(7.0376836292e-2)
    p = p * f + _F(-1.1514610310e-1)
    p = p * f + _F(1.1676998740e-1)
    p = p * f + _F(-1.2420140846e-1)
    p = p * f + _F(1.4249322787e-1)
    p = p * f + _F(-1.6668057665e-1)
    p = p * f + _F(2.0000714765e-1)
    p = p * f + _F(-2.4999993993e-1)
    p = p * f + _F(3.3333331174e-1)
    y = p * f * square + k * _LN2_F[1]
    y = y - _F(0.5) * square
    y = (f + (y + (x - (u - _F(1))) / u)) + k * _LN2_F[0]
    y = y if x < _F(3.4e38) else x  # infinity and NaN
    y = y if u > _F(0) or u != u else (_F(-numpy.inf) if u == _F(0) else _F(numpy.nan))
    return x if x == _F(0) else y


@ordered
def _half_power32(y):
    """exp(y) / 2, which is a number where sinh and cosh are."""
    y = _F(90) if y > _F(90) else y
    p, n = _reduced32(y)
    half = _I(n >> _I(1))
    return (p + _F(1)) * _power32(half) * _power32(_I(n - half - _I(1)))


@ordered
def sinh32(x):
    y = abs(x)
    u = expm1_32(_F(20) if y > _F(20) else y)
    small = _F(0.5) * (u + u / (u + _F(1)))
    y = _half_power32(y) if y > _F(10) else small
    y = -y if x < _F(0) else y
    return x if x == _F(0) or x != x else y  # a zero keeps its sign


@ordered
def cosh32(x):
    half = _half_power32(abs(x))
    return half + _F(0.25) / half


@ordered
def _arctan(q):
    """The angle of 0 <= q <= 1, in float64 to the digits of float32."""
    z = q * q
    p = 0.0010844927338754058
    p = p * z - 0.007166164803330337
    p = p * z + 0.022203454698167827
    p = p * z - 0.0442736679900909
    p = p * z + 0.06710113966850645
    p = p * z - 0.08796117546454985
    p = p * z + 0.11053784749838944
    p = p * z - 0.14279048416265633
    p = p * z + 0.19999595854108893
    p = p * z - 0.3333332366562392
    p = p * z + 0.9999999996145256
    return p * q


@ordered
def arctan2_32(y, x):
    a, b = abs(y), abs(x)
    least, most = (b, a) if a > b else (a, b)
    q = _D(least) / _D(most)
    q = 0.0 if most == _F(0) else q
    q = 1.0 if least == _F(numpy.inf) else q
    angle = _arctan(q)
    angle = 0.5 * math.pi - angle if a > b else angle
    angle = math.pi - angle if _F(x).view(numpy.int32) < _I(0) else angle
    found = _F(-angle if _F(y).view(numpy.int32) < _I(0) else angle)
    return x + y if x != x or y != y else found


@ordered
def arctanh32(x):
    y = abs(x)
    y = _F(0.5) * log1p_32(_F(2) * y / (_F(1) - y))
    y = -y if x < _F(0) else y
    return x if x == _F(0) else y


@ordered
def _tanh32(x):
    """u / (u + 2) with u = exp(2 |x|) - 1."""
    y = _F(2) * abs(x)
    y = _F(40) if y > _F(40) else y
    p, n = _reduced32(y)
    scale = _power32(n)
    u = p * scale + (scale - _F(1))
    y = u / (u + _F(2))
    return -y if x < _F(0) else y


@ordered
def _tanh64(x):
    y = 2.0 * abs(x)
    y = 80.0 if y > 80.0 else y
    p, n = _reduced64(y)
    scale = _power64(n)
    u = p * scale + (scale - 1.0)
    y = u / (u + 2.0)
    return -y if x < 0.0 else y


@ordered
def _sigmoid32(x):
    return _F(1) / (_F(1) + exp32(-x))


@ordered
def _sigmoid64(x):
    return 1.0 / (1.0 + _exp64(-x))


@ordered
def _key32(x):
    """An integer for each number, in their order; a NaN is above or below all."""
    bits = _F(x).view(numpy.int32)
    return _I(bits ^ _I(_I(bits >> _I(31)) & _I(0x7FFFFFFF)))


@ordered
def _key64(x):
    bits = _D(x).view(numpy.int64)
    return bits ^ ((bits >> _L(63)) & _L(0x7FFFFFFFFFFFFFFF))


@ordered
def _of_key32(key):
    return _I(key ^ _I(_I(key >> _I(31)) & _I(0x7FFFFFFF))).view(numpy.float32)


@ordered
def _of_key64(key):
    return _L(key ^ ((key >> _L(63)) & _L(0x7FFFFFFFFFFFFFFF))).view(numpy.float64)


@ordered
def _kept32(x, at):
    return _I(_F(x).view(numpy.int32) & ~_I(at >> _I(31))).view(numpy.float32)


@ordered
def _kept64(x, at):
    return _L(_D(x).view(numpy.int64) & ~(_L(at) >> _L(63))).view(numpy.float64)


def kept(x, at):
    """x, and 0 where the int32 `at` is negative: by bits, as a jump waits where it is not foreseen.

    (So that it is 0 of NaN and infinities, too.)
    """
    raise NotImplementedError


@overload(kept)
def _kept(x, at):
    return (lambda x, at: _kept32(x, at)) if x.bitwidth == 32 else (lambda x, at: _kept64(x, at))


def _by_type(narrow: Any, wide: Any) -> Any:
    """A function of one number that is `narrow` of 32 bits and `wide` of 64."""

    def either(x):
        raise NotImplementedError

    @overload(either)
    def _chosen(x):
        return (lambda x: narrow(x)) if x.bitwidth == 32 else (lambda x: wide(x))

    return either


exp = _by_type(exp32, _exp64)
sigmoid = _by_type(_sigmoid32, _sigmoid64)
tanh = _by_type(_tanh32, _tanh64)
key_of = _by_type(_key32, _key64)
from_key = _by_type(_of_key32, _of_key64)
