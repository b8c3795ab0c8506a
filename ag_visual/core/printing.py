"""How a tensor prints: torch's format, from the array's values on the host.

`tensor_repr` serves Tensor.__repr__; the options are the package's `set_printoptions`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from typing import Any

import numpy

from ag_visual import dtypes
from ag_visual.arrays import backend as backends
from ag_visual.core import modes
from ag_visual.core.dual import dual_of


@dataclass(slots=True)
class Options:
    """precision: digits; threshold: elements beyond which a tensor is summarised; edgeitems: what
    a summary shows at each end; linewidth: columns; sci_mode: None chooses by the values.
    """

    precision: int = 4
    threshold: float = 1000
    edgeitems: int = 3
    linewidth: int = 80
    sci_mode: bool | None = None


options = PRINT_OPTS = Options()  # the second name is torch's
_PROFILES: dict[str, dict[str, Any]] = {
    "default": {"precision": 4, "threshold": 1000, "edgeitems": 3, "linewidth": 80},
    "short": {"precision": 2, "threshold": 1000, "edgeitems": 2, "linewidth": 80},
    "full": {"precision": 4, "threshold": math.inf, "edgeitems": 3, "linewidth": 80},
}


def set_printoptions(
    precision: int | None = None,
    threshold: float | None = None,
    edgeitems: int | None = None,
    linewidth: int | None = None,
    profile: str | None = None,
    sci_mode: bool | None = None,
) -> None:
    """Set how tensors print.

    precision: digits after the point (4). threshold: number of elements beyond which a summary is
    shown (1000). edgeitems: elements at each end of a summary (3). linewidth: columns (80).
    profile: 'default', 'short' or 'full'. sci_mode: scientific notation always, never, or (None)
    where the values' range asks for it.
    """
    changes: dict[str, Any] = {}
    if profile is not None:
        if profile not in _PROFILES:
            raise ValueError(f"profile is one of {', '.join(_PROFILES)}, not {profile!r}")
        changes.update(_PROFILES[profile])
    given = {
        "precision": precision,
        "threshold": threshold,
        "edgeitems": edgeitems,
        "linewidth": linewidth,
    }
    changes.update({name: value for name, value in given.items() if value is not None})
    for name, value in changes.items():
        setattr(options, name, value)
    options.sci_mode = sci_mode


def get_printoptions() -> dict[str, Any]:
    """The options, as keywords of `set_printoptions`."""
    return asdict(options)


@contextmanager
def printoptions(**kwargs: Any) -> Iterator[None]:
    """`set_printoptions` for a block."""
    before = get_printoptions()
    set_printoptions(**kwargs)
    try:
        yield
    finally:
        set_printoptions(**before)


# Values -----------------------------------------------------------------------------------------

Format = Callable[[Any], str]


def _formatter(values: Any) -> tuple[Format, int]:
    """How to print one of these real values, and how wide that gets."""
    if values.dtype.kind in "biu":
        width = max((len(str(value)) for value in values.reshape(-1).tolist()), default=1)
        return lambda value: str(value).rjust(width), width
    flat = values.reshape(-1).astype(numpy.float64)
    shown = flat[numpy.isfinite(flat) & (flat != 0)]
    if shown.size == 0:
        return lambda value: _whole(value), 1
    size = numpy.abs(shown)
    whole = bool((shown == numpy.ceil(shown)).all())
    smallest, largest = size.min(), size.max()
    scientific = options.sci_mode
    if scientific is None:
        with numpy.errstate(over="ignore"):
            wide = largest / smallest > 1000.0
        scientific = bool(wide or largest > 1.0e8 or smallest < 1.0e-4)
    digits = options.precision
    if scientific:
        width = max(len(f"{value:.{digits}e}") for value in shown.tolist())
        return lambda value: f"{value:{width}.{digits}e}", width
    if whole:
        width = max(len(f"{value:.0f}") for value in shown.tolist()) + 1
        return lambda value: _whole(value).rjust(width), width
    width = max(len(f"{value:.{digits}f}") for value in shown.tolist())
    return lambda value: f"{value:.{digits}f}".rjust(width), width


def _whole(value: float) -> str:
    """A float that is an integer, with the point that says it is a float."""
    return f"{value:.0f}" + ("" if math.isinf(value) or math.isnan(value) else ".")


def _complex_formatter(values: Any) -> tuple[Format, int]:
    real, real_width = _formatter(values.real)
    imag, imag_width = _formatter(values.imag)

    def both(value: complex) -> str:
        second = f"{imag(value.imag)}j".lstrip()
        sign = "" if second[0] in "+-" else "+"
        return f"{real(value.real)}{sign}{second}"

    return both, real_width + imag_width + 1


def _edges(array: Any) -> Any:
    """The elements that a summary shows, as an array."""
    for dim, size in enumerate(array.shape):
        if size > 2 * options.edgeitems:
            keep = [*range(options.edgeitems), *range(size - options.edgeitems, size)]
            array = array.take(keep, axis=dim)
    return array


def _rows(array: Any, indent: int, summarize: bool, show: Format, width: int) -> str:
    if array.ndim == 0:
        return show(array.item())
    count = array.shape[0]
    edge = options.edgeitems
    cut = summarize and count > 2 * edge
    if array.ndim == 1:
        if summarize and not edge:
            items = ["..."]
        elif cut:
            head, tail = array[:edge].tolist(), array[-edge:].tolist()
            items = [*map(show, head), " ...", *map(show, tail)]
        else:
            items = [*map(show, array.tolist())]
        per_line = max(1, (options.linewidth - indent) // (width + 2))
        lines = [", ".join(items[i : i + per_line]) for i in range(0, len(items), per_line)]
        return "[" + (",\n" + " " * (indent + 1)).join(lines) + "]"
    places = [*range(edge), *range(count - edge, count)] if cut else [*range(count)]
    parts = [_rows(array[i], indent + 1, summarize, show, width) for i in places]
    if cut:
        parts.insert(edge, "...")
    separator: str = "," + "\n" * int(array.ndim - 1) + " " * (indent + 1)
    return "[" + separator.join(parts) + "]"


def _values(array: Any, indent: int) -> str:
    if array.size == 0:
        return "[]"
    summarize = array.size > options.threshold
    sample = _edges(array) if summarize else array
    formatter = _complex_formatter if array.dtype.kind == "c" else _formatter
    show, width = formatter(sample)
    if array.dtype.kind == "V":  # bfloat16: Python's format does not know it
        array = array.astype(numpy.float32)
    return _rows(array, indent, summarize, show, width)


# The whole --------------------------------------------------------------------------------------


def _tensor_str(self: Any, indent: int) -> str:
    # torch's name, which writers of files import.
    return _values(self._array, indent)


def _suffixed(text: str, suffixes: list[str], indent: int, apart: bool = False) -> str:
    """apart: whether the first of them begins a new line in any case."""
    parts = [text]
    length = len(text) - text.rfind("\n") + 1
    for i, suffix in enumerate(suffixes):
        if (apart and not i) or length + len(suffix) + 2 > options.linewidth:
            parts.append(",\n" + " " * indent + suffix)
            length = indent + len(suffix)
        else:
            parts.append(", " + suffix)
            length += len(suffix) + 2
    return "".join(parts) + ")"


def _graph_suffix(tensor: Any) -> str | None:
    try:
        node = tensor.grad_fn
    except RuntimeError:
        # A view that autograd cannot follow: looking at it must not raise.
        return "grad_fn=<Invalid>"
    if node is not None:
        return f"grad_fn=<{type(node).__name__}>"
    return "requires_grad=True" if tensor.requires_grad else None


def tensor_repr(tensor: Any) -> str:
    """What repr shows of a tensor, as torch's does."""
    name = type(tensor).__name__
    prefix = "tensor(" if name in ("Tensor", "Parameter") else f"{name}("
    backend = backends.backend_of(tensor._array)
    array = backend.to_numpy(tensor._array) if backend.has_values else tensor._array
    kind, default = tensor.dtype, dtypes.get_default_dtype()
    suffixes = []
    if tensor.device.type != "cpu":
        suffixes.append(f"device='{tensor.device}'")
    if array.size == 0 or not backend.has_values:
        if array.ndim != 1 or not backend.has_values:
            suffixes.append(f"size={tuple(array.shape)}")
        if kind is not default:
            suffixes.append(f"dtype={kind!r}")
    else:
        if not options.edgeitems:
            suffixes.append(f"size={tuple(array.shape)}")
        plain = (default, dtypes.get_default_complex_dtype(), dtypes.int64, dtypes.bool)
        if kind not in plain:
            suffixes.append(f"dtype={kind!r}")
    graph = _graph_suffix(tensor)
    if graph is not None:
        suffixes.append(graph)
    known = dual_of(tensor) if modes.duals and modes.forward_enabled() else None
    if known is not None:
        tangent = known[1]
        suffixes.append(f"tangent={tangent if tangent.ndim else tangent.item()}")
    text = _values(array, len(prefix)) if backend.has_values else "..."
    return _suffixed(prefix + text, suffixes, len(prefix))


def _part(name: str, tensor: Any, indent: int) -> str:
    """The indices or values of a sparse tensor."""
    head = f"{name}=tensor("
    array = backends.backend_of(tensor).to_numpy(tensor)
    text = head + _values(array, indent + len(head))
    if array.size == 0:
        text += f", size={tuple(array.shape)}"
    return text + ")"


def sparse_repr(tensor: Any) -> str:
    """What repr shows of a sparse tensor: indices and values, each as a tensor."""
    held = tensor._array
    prefix = "tensor("
    suffixes = [f"size={tuple(held.shape)}", f"nnz={held.nnz}"]
    if tensor.device.type != "cpu":
        suffixes.append(f"device='{tensor.device}'")
    plain = (
        dtypes.get_default_dtype(),
        dtypes.get_default_complex_dtype(),
        dtypes.int64,
        dtypes.bool,
    )
    if tensor.dtype not in plain:
        suffixes.append(f"dtype={tensor.dtype!r}")
    suffixes.append(f"layout={tensor.layout!r}")
    graph = _graph_suffix(tensor)
    if graph is not None:
        suffixes.append(graph)
    indent = len(prefix)
    gap = ",\n" + " " * indent
    if held.csr:
        text = prefix + _part("crow_indices", held.row_ends(), indent) + gap
        text += _part("col_indices", held.indices[1], indent) + gap
    else:
        text = prefix + _part("indices", held.indices, indent) + gap
    text += _part("values", held.values, indent)
    return _suffixed(text, suffixes, indent, apart=not held.csr)
