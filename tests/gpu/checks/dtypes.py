"""Everyday expressions in every dtype, and of two dtypes: what comes out, and as what."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy

import ag_visual as ag

from ..page import Machine, check, for_each

REAL = (
    *("bool", "uint8", "int8", "int16", "int32", "int64"),
    *("float16", "bfloat16", "float32", "float64"),
)
DTYPES = (*REAL, "complex64", "complex128")
TESTS = "logical_not isnan isinf isfinite signbit"
ROUNDS = "abs neg sign sgn positive square conj_physical floor ceil trunc round reciprocal"
ONES = "sqrt rsqrt exp expm1 log log1p log2 sin cos tan tanh sinh cosh asin atan sigmoid"
SPECIAL = "erf erfc lgamma digamma sinc i0 deg2rad rad2deg angle"
SUMS = "sum prod mean amax amin argmax argmin any all cumsum cumprod count_nonzero logsumexp"
PAIRS = (
    *("add", "sub", "mul", "div", "floor_divide", "remainder", "fmod", "pow", "maximum"),
    *("fmin", "atan2", "hypot", "copysign", "eq", "lt", "ge", "logical_and", "logical_xor"),
    *("bitwise_and", "bitwise_or", "bitwise_left_shift", "gcd", "true_divide", "xlogy"),
)
NUMBERS = (2, -1, 1.5, True, 300)


def _unary() -> dict[str, Callable[[Any], Any]]:
    found: dict[str, Callable[[Any], Any]] = {
        name: getattr(ag, name) for name in f"{TESTS} {ROUNDS} {ONES} {SPECIAL}".split()
    }
    for name in SUMS.split():
        found[name] = lambda x, n=name: getattr(ag, n)(x, 0)
    found["invert"] = lambda x: ~x
    found["sort"] = lambda x: ag.sort(x)[0]
    found["unique"] = ag.unique
    found["nonzero"] = ag.nonzero
    found["masked"] = lambda x: x[x != 0]
    found["where"] = lambda x: ag.where(x != 0, x, 2)
    found["matmul"] = lambda x: x.reshape(2, 2) @ x.reshape(2, 2)
    found["softmax"] = lambda x: ag.softmax(x, 0)
    found["clamp"] = lambda x: ag.clamp(x, 1, 2)
    for number in NUMBERS:
        found[f"+ {number}"] = lambda x, n=number: x + n
        found[f"{number} -"] = lambda x, n=number: n - x
        found[f"* {number}"] = lambda x, n=number: x * n
        found[f"/ {number}"] = lambda x, n=number: x / n
        found[f"// {number}"] = lambda x, n=number: x // n
        found[f"% {number}"] = lambda x, n=number: x % n
        found[f"** {number}"] = lambda x, n=number: x**n
        found[f"< {number}"] = lambda x, n=number: x < n
        found[f"== {number}"] = lambda x, n=number: x == n
    return found


def _came(work: Callable[..., Any], *given: Any) -> tuple[str, Any]:
    """The dtype and values of a result, or what was raised."""
    try:
        with numpy.errstate(all="ignore"):
            found = work(*given)
    except Exception as refused:
        return type(refused).__name__, None
    wide = ag.complex128 if found.dtype.is_complex else ag.float64
    return str(found.dtype), found.cpu().to(wide).numpy()


def _same(work: Callable[..., Any], device: str, *given: Any) -> None:
    here = _came(work, *given)
    there = _came(work, *(x.to(device) for x in given))
    assert here[0] == there[0], f"{there[0]} instead of {here[0]}"
    if here[1] is not None:
        narrow = "16" in here[0]
        tolerance = 2e-2 if narrow else 1e-5
        numpy.testing.assert_allclose(there[1], here[1], rtol=tolerance, atol=tolerance)


def _tensor(dtype: str, turned: bool = False) -> Any:
    values = [3, 0, 1, 2][:: -1 if turned else 1]
    return ag.tensor(values).to(getattr(ag, dtype))


@check("dtypes")
def functions_of_one_tensor(machine: Machine) -> str:
    """And of a tensor and a number."""
    return for_each(
        (f"{name} of {dtype}", lambda d=dtype, f=work: _same(f, machine.device, _tensor(d)))
        for name, work in _unary().items()
        for dtype in DTYPES
    )


@check("dtypes")
def functions_of_two_dtypes(machine: Machine) -> str:
    """Promotion, in place, too. On the stand-in, which promotes as NumPy does, every function meets
    each dtype on either side once, and every pair of dtypes two functions.
    """

    def case(name: str, a: str, b: str) -> None:
        work = getattr(ag, name)
        _same(work, machine.device, _tensor(a), _tensor(b, turned=True))
        into = getattr(ag.Tensor, f"{name}_", None)
        if into is not None:
            _same(lambda x, y: into(x.clone(), y), machine.device, _tensor(a), _tensor(b, True))

    return for_each(
        (f"{name} of {a} and {b}", lambda n=name, a=a, b=b: case(n, a, b))
        for number, name in enumerate(PAIRS)
        for at, a in enumerate(DTYPES)
        for b in (DTYPES if machine.real else [DTYPES[(at + number) % len(DTYPES)]])
    )
