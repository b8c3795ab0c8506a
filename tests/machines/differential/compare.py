"""What of a tensor is looked at, and where two of them differ."""

from __future__ import annotations

import cmath
from collections.abc import Iterator
from dataclasses import dataclass
from math import isfinite
from typing import Any

import numpy

from ...oracle import torch

FIELDS = ("shape", "dtype", "stride", "offset", "requires_grad", "is_leaf", "retains_grad")
FIELDS += ("is_view", "inference", "version", "node", "edges", "base")
LOOKS = {"shape": "tuple({}.shape)", "stride": "{}.stride()", "offset": "{}.storage_offset()"}
LOOKS |= {"is_view": "{}._is_view()", "inference": "{}.is_inference()", "version": "{}._version"}
LOOKS |= {"node": "{}.grad_fn", "edges": "{}.grad_fn.next_functions", "base": "{}._base"}
VERSION = FIELDS.index("version")
NOWHERE = "of no element"  # strides of dimensions of size 1, any of an empty tensor
IN_ORDER = "of another order"  # strides of results that are not row-major in torch
OF_VIEWS = "of views"  # strides of views, not row-major in torch
IN_ROWS = "row-major in torch alone"  # strides of results that fill their memory
INTEGERS = "of integers"  # requires_grad: of integers and bools
OWN = "of its own for a view"  # strides of results that are views in torch alone, not row-major
# (Of a gradient: not how it was made, which its version and its base would tell.)
GRADIENT_FIELDS = ("shape", "dtype", "stride", "requires_grad", "node")
FAILED = "INTERNAL ASSERT FAILED"  # what torch says of a fault of its own
UNKNOWN = "NaN in torch alone"
HERE_ALONE = "NaN here, zero in torch"
ELSEWHERE = "NaN at other places"  # or in ag_visual alone
PARTS = "of parts of one that is not finite"  # complex numbers
ONE_FINITE = "finite in one alone"  # complex numbers, where the others agree
DIGITS = {"float16": 2e-2, "bfloat16": 1e-1, "float32": 1e-4, "complex64": 1e-4}
EXACT = 1e-7  # float64, complex128
INEXACT = ("float", "bfloat", "complex")

Names = tuple[dict[int, str], dict[int, str]]  # of each engine: id -> name
Births = tuple[int, int]  # of each engine: a tensor's version when it was named


@dataclass(frozen=True, slots=True)
class Difference:
    """The first thing that differs after a line: of which tensor, what, and what each has."""

    kind: str
    name: str
    ours: str
    theirs: str
    about: str = ""  # what tells causes of one kind apart

    @property
    def look(self) -> str:
        """The expression that shows it in a script."""
        kind = self.about if self.kind == "grad" else self.kind
        kind = "stride" if kind in (IN_ORDER, IN_ROWS, OF_VIEWS, NOWHERE) else kind
        usual = f"{{}}.{kind}" if kind in FIELDS else "{}"
        return self.name and LOOKS.get(kind, usual).format(self.name)


def of_values(difference: Difference) -> bool:
    """Is it one of numbers, of shape or dtype, or of what requires grad?"""
    kind = difference.about if difference.kind == "grad" else difference.kind
    return kind not in (*FIELDS, IN_ORDER, IN_ROWS) or kind in ("shape", "dtype", "requires_grad")


def builtin(error: BaseException) -> str:
    """The builtin class of an exception."""
    return next(each.__name__ for each in type(error).__mro__ if each.__module__ == "builtins")


def errors(ours: BaseException | None, theirs: BaseException | None) -> Difference | None:
    """A line raises on both engines, ours torch's class or a subclass of it, or on none."""
    if ours is None and theirs is None:
        return None
    if theirs is not None and ours is not None:
        wanted = builtin(theirs)
        failed = FAILED in str(theirs)  # and may have left tensors broken
        if not failed and any(each.__name__ == wanted for each in type(ours).__mro__):
            return None
        kind = "class"
    else:
        kind = "raises" if theirs is None else "accepts"
    seen, expected = _first_line(ours), _first_line(theirs)
    about = "".join(
        "#" if each.isdigit() else each for each in (expected if ours is None else seen)
    )
    return Difference(kind, "", seen, expected, about[:60])


def stops(ours: BaseException | None, theirs: BaseException) -> Difference:
    """Why torch stops at a line, where ours goes on or stops later: what it did may differ."""
    return Difference("accepts", "", _first_line(ours), _first_line(theirs))


def _first_line(error: BaseException | None) -> str:
    if error is None:
        return "nothing is raised"
    return f"{type(error).__name__}: {error}".split("\n")[0]


def tensors(
    ours: Any, theirs: Any, name: str, names: Names, births: Births
) -> Iterator[Difference]:
    """The differences of two values that a program named.

    Versions are counted from those that the tensors had when they were named (`births`): whether an
    engine computes a result by writing into it is its own affair.
    """
    if theirs is None or ours is None:
        if ours is not theirs:
            yield Difference("none", name, shown(ours), shown(theirs))
        return
    seen, expected = (
        _look(tensor, *about) for tensor, *about in zip((ours, theirs), names, births, strict=True)
    )
    for field, a, b in zip(FIELDS, seen, expected, strict=True):
        if a != b:
            told = f"{a} for {b}" if field in ("dtype", "node", "is_view", "base") else ""
            if field == "requires_grad" and not expected[1].startswith(INEXACT):
                told = INTEGERS
            if field in ("stride", "offset") and _placed(seen) == _placed(expected):
                told = NOWHERE
            elif field == "stride" and _placed(seen)[0] == _placed(expected)[0]:
                told = NOWHERE  # the offset, which differs, comes next
            elif field == "stride" and not theirs.is_contiguous():
                told = OF_VIEWS if ours._is_view() else OWN
                told = told if theirs._is_view() else IN_ORDER
            elif field == "stride" and _turned(seen):
                told = IN_ROWS
            yield Difference(field, name, str(a), str(b), told)
    values = _values(ours), _values(theirs)
    if not same(*values, expected[1]):
        yield Difference("values", name, shown(ours), shown(theirs), _unknown(*values, expected[1]))
    elif expected[1].startswith("complex") and not _alike(*values):
        yield Difference("values", name, shown(ours), shown(theirs), PARTS)
    if expected[5] is True or expected[6] is True:  # else it has none, and torch warns
        yield from _gradients(ours.grad, theirs.grad, f"{name}.grad")


def _placed(fields: tuple[Any, ...]) -> Any:
    """Strides and offset as far as they say where elements lie."""
    shape, _, strides, offset = fields[:4]
    if 0 in shape or isinstance(strides, str):
        return strides if isinstance(strides, str) else shape
    return [s for s, n in zip(strides, shape, strict=True) if n > 1], offset


def _turned(fields: tuple[Any, ...]) -> bool:
    """Does a tensor fill its memory, in whatever order its dimensions lie?"""
    shape, _, strides = fields[:3]
    if isinstance(strides, str):
        return False
    expected = 1
    for stride, size in sorted((s, n) for s, n in zip(strides, shape, strict=True) if n > 1):
        if stride != expected:
            return False
        expected *= size
    return True


def _in_rows(tensor: Any) -> bool:
    return not tensor._is_view() and bool(tensor.is_contiguous())


def _gradients(ours: Any, theirs: Any, name: str) -> Iterator[Difference]:
    if ours is None or theirs is None:
        if ours is not theirs:
            yield Difference("grad", name, shown(ours), shown(theirs), "none")
        return
    seen, expected = _look(ours, {}, 0), _look(theirs, {}, 0)
    for field, a, b in zip(FIELDS, seen, expected, strict=True):
        if field == "stride" and _placed(seen)[0] == _placed(expected)[0]:
            continue
        if a != b and field in GRADIENT_FIELDS:
            about = field
            if field == "stride" and _in_rows(ours) and not theirs.is_contiguous():
                about = IN_ORDER
            elif field == "stride" and theirs.is_contiguous() and _turned(seen):
                about = IN_ROWS
            yield Difference("grad", name, str(a), str(b), about)
    values = _values(ours), _values(theirs)
    if not same(*values, expected[1]):
        told = _unknown(*values, expected[1]) or "values"
        yield Difference("grad", name, shown(ours), shown(theirs), told)


def _node(node: Any) -> str:
    return "" if node is None else node.name().rsplit("::")[-1]


def _edges(node: Any) -> Any:
    return None if node is None else [(_node(fn), at) for fn, at in node.next_functions]


def _base(tensor: Any, names: dict[int, str]) -> str:
    base = tensor._base
    return "" if base is None else names.get(id(base), "one without a name")


READ = (
    lambda t, names: tuple(t.shape),
    lambda t, names: str(t.dtype)[6:],
    lambda t, names: t.stride(),
    lambda t, names: t.storage_offset(),
    lambda t, names: t.requires_grad,
    lambda t, names: t.is_leaf,
    lambda t, names: t.retains_grad,
    lambda t, names: t._is_view(),
    lambda t, names: t.is_inference(),
    lambda t, names: t._version,
    lambda t, names: _node(t.grad_fn),
    lambda t, names: _edges(t.grad_fn),
    _base,
)


def _look(tensor: Any, names: dict[int, str], birth: int) -> tuple[Any, ...]:
    """The fields of a tensor; its base by name, its version counted from its birth."""
    fields = [_read(each, tensor, names) for each in READ]
    if isinstance(fields[VERSION], int):
        fields[VERSION] -= birth
    return tuple(fields)


def shown(tensor: Any) -> str:
    """A tensor for people; one may be too broken for its repr."""
    try:
        return repr(tensor)
    except Exception as error:
        return f"a tensor whose repr raises {type(error).__name__}: {error}"


def version(tensor: Any) -> int:
    """Its version now; 0 for one that has none."""
    found = _read(READ[VERSION], tensor, {})
    return found if isinstance(found, int) else 0


def _read(field: Any, tensor: Any, names: dict[int, str]) -> Any:
    try:
        return field(tensor, names)
    except Exception as error:
        return f"raises {builtin(error)}" + (f" ({FAILED})" if FAILED in str(error) else "")


def _values(tensor: Any) -> Any:
    """Its numbers. (torch's zeros without memory have them in a copy alone.)"""
    zeros = not hasattr(tensor, "_array") and tensor._is_zerotensor()
    return _read(lambda t, names: t.tolist(), tensor.clone() if zeros else tensor, {})


def same(ours: Any, theirs: Any, dtype: str) -> bool:
    """Do nested lists of numbers agree, to the digits of their dtype?"""
    if ours == theirs:
        return True
    if isinstance(ours, str) or isinstance(theirs, str):
        return False  # one that cannot be read
    a, b = _flat(ours), _flat(theirs)
    digits = DIGITS.get(dtype, EXACT) if dtype.startswith(INEXACT) else 0
    scale = max((abs(v) for v in b if cmath.isfinite(v)), default=1.0)
    close = digits * max(1.0, scale)
    return len(a) == len(b) and all(_close(v, w, close) for v, w in zip(a, b, strict=True))


def _unknown(ours: Any, theirs: Any, dtype: str) -> str:
    """`UNKNOWN` where values differ in nothing but that some are NaN in torch.

    `HERE_ALONE` where some are NaN here that are zero in torch. `ELSEWHERE` where some are NaN in
    either engine alone, and the others agree. `ONE_FINITE` where they are complex, and are not
    finite in one of the two.
    """
    if isinstance(ours, str) or isinstance(theirs, str):
        return ""
    a, b = _flat(ours), _flat(theirs)
    if len(a) != len(b):
        return ""
    if any(isinstance(v, complex) for v in b):
        both = [(v, w) for v, w in zip(a, b, strict=True) if cmath.isfinite(v) == cmath.isfinite(w)]
        return ONE_FINITE if same([v for v, _ in both], [w for _, w in both], dtype) else ""
    known = [(v, w) for v, w in zip(a, b, strict=True) if w == w]
    if same([v for v, _ in known], [w for _, w in known], dtype):
        return UNKNOWN
    here = [w for v, w in known if v != v]
    known = [(v, w) for v, w in known if v == v]
    if not same([v for v, _ in known], [w for _, w in known], dtype):
        return ""
    both = all(v != v for v, w in zip(a, b, strict=True) if w != w)
    return HERE_ALONE if both and not any(here) else ELSEWHERE


def _alike(ours: Any, theirs: Any) -> bool:
    """Have complex numbers infinities and NaN in the same parts?"""
    parts = [[part for z in _flat(each) for part in (z.real, z.imag)] for each in (ours, theirs)]
    pairs = zip(*parts, strict=True)
    return all((isfinite(a) and isfinite(b)) or a == b or (a != a and b != b) for a, b in pairs)


def _close(a: Any, b: Any, close: float) -> bool:
    if isinstance(b, complex):
        if not cmath.isfinite(b):
            return not cmath.isfinite(a)  # one infinity, whatever its parts are
        return _close(a.real, b.real, close) and _close(a.imag, b.imag, close)
    return a == b or (a != a and b != b) or abs(a - b) <= close


def align(ours: Any, theirs: Any, signs: bool = False) -> None:
    """Give a tensor the last digits of another one, where the two agree.

    signs: the signs of its zeros, too.
    """
    if ours is None or theirs is None or str(ours.dtype) != str(theirs.dtype):
        return
    dtype, mine = str(theirs.dtype)[6:], ours._array
    inexact = dtype.startswith(INEXACT) and mine.flags.writeable
    if not inexact or mine.shape != tuple(theirs.shape):
        return
    values = _values(ours), _values(theirs)
    if isinstance(values[1], str) or not same(*values, dtype):
        return
    # (A copy: torch resizes no memory that NumPy looks at.)
    theirs = theirs.detach().clone().resolve_conj().resolve_neg()
    if dtype == "bfloat16":  # NumPy's torch has none
        other = theirs.view(torch.int16).numpy().view(mine.dtype)
    else:
        other = theirs.numpy()
    pairs = [(mine, other)]
    if dtype.startswith("complex"):
        pairs = [(mine.real, other.real), (mine.imag, other.imag)]
    for a, b in pairs:
        other = numpy.signbit(a) != numpy.signbit(b) if signs else False
        a[(a != b) | other] = b[(a != b) | other]


def _flat(value: Any) -> list[Any]:
    return [each for row in value for each in _flat(row)] if isinstance(value, list) else [value]
