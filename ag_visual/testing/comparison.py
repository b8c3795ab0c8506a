"""assert_close: two tensors, arrays, numbers, or sequences and mappings of them, are close."""

from __future__ import annotations

import cmath
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy

from ag_visual import dtypes
from ag_visual.core.source import warn
from ag_visual.core.tensor import Tensor
from ag_visual.dispatch.sparse import is_sparse
from ag_visual.dispatch.table import functions as F

_BY_DTYPE: Final = {
    dtypes.float16: (1e-3, 1e-5),
    dtypes.bfloat16: (1.6e-2, 1e-5),
    dtypes.float32: (1.3e-6, 1e-5),
    dtypes.float64: (1e-7, 1e-7),
    dtypes.complex64: (1.3e-6, 1e-5),
    dtypes.complex128: (1e-7, 1e-7),
}
_OF_NUMBERS: Final = {int: dtypes.int64, float: dtypes.float64, complex: dtypes.complex128}


class _Mismatch(Exception):
    """What differs, and the path of indices and keys to it."""

    def __init__(self, text: str, path: tuple[Any, ...], kind: type[Exception] = AssertionError):
        self.text, self.path, self.kind = text, path, kind


@dataclass(frozen=True, slots=True)
class _Rules:
    rtol: float | None
    atol: float | None
    equal_nan: bool
    subclasses: bool
    device: bool
    dtype: bool
    layout: bool
    stride: bool

    def tolerances(self, *kinds: Any) -> tuple[float, float]:
        """The given ones, or the loosest default of some dtypes."""
        if self.rtol is not None and self.atol is not None:
            return self.rtol, self.atol
        found = [_BY_DTYPE.get(kind, (0.0, 0.0)) for kind in kinds]
        return max(r for r, _ in found), max(a for _, a in found)


def assert_close(
    actual: Any,
    expected: Any,
    *,
    allow_subclasses: bool = True,
    rtol: float | None = None,
    atol: float | None = None,
    equal_nan: bool = False,
    check_device: bool = True,
    check_dtype: bool = True,
    check_layout: bool = True,
    check_stride: bool = False,
    msg: str | Callable[[str], str] | None = None,
) -> None:
    """|actual - expected| <= atol + rtol |expected| for every element; NaN where both have one if
    `equal_nan`.

    Tensors, NumPy arrays, numbers, booleans and None, or sequences and mappings of them. Without
    tolerances those of the dtype hold (float32: rtol 1.3e-6, atol 1e-5; integers: equal).
    msg: the text of the error, or a function that makes it from the text that it would have.

    Raises:
        AssertionError: they differ; the text counts elements and tells the greatest differences.
        ValueError: one tolerance without the other.
        TypeError: values that cannot be compared.
    """
    if (rtol is None) != (atol is None):
        raise ValueError(
            "Both 'rtol' and 'atol' must be either specified or omitted, but got no "
            f"{'rtol' if rtol is None else 'atol'}."
        )
    rules = _Rules(
        rtol,
        atol,
        equal_nan,
        allow_subclasses,
        check_device,
        check_dtype,
        check_layout,
        check_stride,
    )
    try:
        pairs = list(_pairs(actual, expected, rules, ()))
        for left, right, path in pairs:
            _compare(left, right, rules, path)
    except _Mismatch as found:
        text = found.text
        if found.path:
            text += "\n\nThe failure occurred for item " + "".join(f"[{p!r}]" for p in found.path)
        if found.kind is AssertionError:
            text = msg(text) if callable(msg) else text if msg is None else msg
        raise found.kind(text) from None


def assert_allclose(
    actual: Any,
    expected: Any,
    rtol: float | None = None,
    atol: float | None = None,
    equal_nan: bool = True,
    msg: str = "",
) -> None:
    """torch's older name: `assert_close` that checks neither device nor dtype nor strides."""
    warn(
        "`torch.testing.assert_allclose()` is deprecated since 1.12 and will be removed in a "
        "future release. Please use `torch.testing.assert_close()` instead.",
        FutureWarning,
    )
    left, right = (
        each if isinstance(each, Tensor) else F["tensor"](each) for each in (actual, expected)
    )
    if rtol is None and atol is None:
        rtol, atol = map(
            max, zip(*(_BY_DTYPE.get(t.dtype, (0.0, 0.0)) for t in (left, right)), strict=True)
        )
    assert_close(
        left,
        right,
        rtol=rtol,
        atol=atol,
        equal_nan=equal_nan,
        check_device=True,
        check_dtype=False,
        check_stride=False,
        msg=msg or None,
    )


Pair = tuple[Any, Any, tuple[Any, ...]]


def _pairs(actual: Any, expected: Any, rules: _Rules, path: tuple[Any, ...]) -> Iterable[Pair]:
    """The values to compare, without the sequences and mappings around them."""
    both = (actual, expected)
    if all(isinstance(each, Sequence) and not isinstance(each, str) for each in both):
        if len(actual) != len(expected):
            lengths = f"{len(actual)} != {len(expected)}"
            raise _Mismatch(f"The length of the sequences mismatch: {lengths}", path)
        for at, (left, right) in enumerate(zip(actual, expected, strict=True)):
            yield from _pairs(left, right, rules, (*path, at))
    elif all(isinstance(each, Mapping) for each in both):
        if actual.keys() != expected.keys():
            lacking, added = (
                sorted(one.keys() - other.keys(), key=str)
                for one, other in ((expected, actual), (actual, expected))
            )
            raise _Mismatch(
                "The keys of the mappings do not match:\n"
                f"Missing keys in the actual mapping: {lacking}\n"
                f"Additional keys in the actual mapping: {added}",
                path,
            )
        for key in actual:
            yield from _pairs(actual[key], expected[key], rules, (*path, key))
    else:
        if not _comparable(actual, expected, rules):
            raise _Mismatch(
                "No comparison pair was able to handle inputs of type "
                f"{type(actual)} and {type(expected)}.",
                path,
                TypeError,
            )
        yield actual, expected, path


def _comparable(actual: Any, expected: Any, rules: _Rules) -> bool:
    both = (actual, expected)
    if actual is None or expected is None:
        return True
    if all(isinstance(each, bool | numpy.bool_) for each in both):
        return True
    if all(isinstance(each, int | float | complex | numpy.number) for each in both):
        return True
    if all(isinstance(each, Tensor) for each in both):
        return rules.subclasses or type(actual) is type(expected)
    return all(isinstance(each, numpy.ndarray) for each in both)


def _compare(actual: Any, expected: Any, rules: _Rules, path: tuple[Any, ...]) -> None:
    if actual is None or expected is None:
        if actual is not expected:
            raise _Mismatch(f"None mismatch: {actual} is not {expected}", path)
    elif isinstance(actual, Tensor):
        _compare_tensors(actual, expected, rules, path)
    elif isinstance(actual, numpy.ndarray):
        _compare_tensors(F["as_tensor"](actual), F["as_tensor"](expected), rules, path)
    elif all(isinstance(each, bool | numpy.bool_) for each in (actual, expected)):
        if bool(actual) is not bool(expected):
            raise _Mismatch(f"Booleans mismatch: {bool(actual)} is not {bool(expected)}", path)
    else:
        _compare_numbers(_plain(actual), _plain(expected), rules, path)


def _plain(number: Any) -> Any:
    return number.item() if isinstance(number, numpy.number) else number


def _compare_numbers(actual: Any, expected: Any, rules: _Rules, path: tuple[Any, ...]) -> None:
    if rules.dtype and type(actual) is not type(expected):
        raise _Mismatch(
            f"The (d)types do not match: {type(actual)} != {type(expected)}.",
            path,
        )
    rtol, atol = rules.tolerances(*(_OF_NUMBERS[type(each)] for each in (actual, expected)))
    if actual == expected or (rules.equal_nan and actual != actual and expected != expected):
        return
    difference = abs(actual - expected)
    finite = math.isfinite(difference) and cmath.isfinite(expected)
    if finite and difference <= atol + rtol * abs(expected):
        return
    equal = rtol == atol == 0
    relative = difference / abs(expected) if expected else math.inf
    allowed = ["" if equal else f" (up to {each} allowed)" for each in (atol, rtol)]
    raise _Mismatch(
        f"Scalars are not {'equal' if equal else 'close'}!\n\n"
        f"Expected {expected} but got {actual}.\n"
        f"Absolute difference: {difference}{allowed[0]}\n"
        f"Relative difference: {relative}{allowed[1]}",
        path,
    )


def _compare_tensors(actual: Any, expected: Any, rules: _Rules, path: tuple[Any, ...]) -> None:
    for name, left, right, checked in (
        ("shape", actual.shape, expected.shape, True),
        ("layout", actual.layout, expected.layout, rules.layout),
        ("device", actual.device, expected.device, rules.device),
        ("dtype", actual.dtype, expected.dtype, rules.dtype),
    ):
        if checked and left != right:
            raise _unlike(name, left, right, path)
    strided = not is_sparse(actual) and not is_sparse(expected)
    if rules.stride and strided and actual.stride() != expected.stride():
        raise _unlike("stride()", actual.stride(), expected.stride(), path)
    rtol, atol = rules.tolerances(actual.dtype, expected.dtype)
    left, right = (_dense(each, expected.device) for each in (actual, expected))
    if left.dtype != right.dtype:
        kind = F["promote_types"](left.dtype, right.dtype)
        left, right = left.to(kind), right.to(kind)
    matches = F["isclose"](left, right, rtol=rtol, atol=atol, equal_nan=rules.equal_nan)
    if bool(matches.all()):
        return
    raise _Mismatch(_differences(left, right, matches, rtol, atol), path)


def _unlike(name: str, left: Any, right: Any, path: tuple[Any, ...]) -> _Mismatch:
    return _Mismatch(f"The values for attribute '{name}' do not match: {left} != {right}.", path)


def _dense(tensor: Any, device: Any) -> Any:
    found = tensor.detach().to(device)
    return found.to_dense() if is_sparse(found) else found


def _differences(left: Any, right: Any, matches: Any, rtol: float, atol: float) -> str:
    equal = rtol == atol == 0
    if not left.dtype.is_floating_point and not left.dtype.is_complex:
        left, right = left.to(dtypes.int64), right.to(dtypes.int64)
    difference = (left - right).abs()
    relative = difference / right.abs()
    if not matches.ndim:
        lines = [f"Expected {right.item()} but got {left.item()}."]
        words = ("Absolute", "Relative")
        subject = "Scalars"
    else:
        total, wrong = matches.numel(), int((~matches).sum())
        lines = [f"Mismatched elements: {wrong} / {total} ({wrong / total:.1%})"]
        words = ("Greatest absolute", "Greatest relative")
        subject = "Tensor-likes"
    for word, values, allowed in zip(words, (difference, relative), (atol, rtol), strict=True):
        values = F["where"](matches, F["zeros_like"](values), values).flatten()
        at = int(values.argmax())
        place = ""
        if matches.ndim:
            index = tuple(int(i) for i in numpy.unravel_index(at, tuple(matches.shape)))
            place = f" at index {index}"
        limit = "" if equal else f" (up to {allowed} allowed)"
        lines.append(f"{word} difference: {values[at].item()}{place}{limit}")
    return f"{subject} are not {'equal' if equal else 'close'}!\n\n" + "\n".join(lines)
