"""Values on demand: range, counts, histogram and a small picture of one array, within a byte limit.

Up to `EXACT` elements are all looked at; of larger arrays a regular subgrid, and the answer says
so. Never raises for odd values: NaN, infinities, no elements, any dtype.
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from ag_visual.arrays.backend import backend_of
from ag_visual.arrays.coo import Coo
from ag_visual.arrays.quiet import quietly, silent

EXACT: Final = 2_000_000
"""Elements that are all looked at; a larger array is sampled down to at most this many."""

DEFAULT_LIMIT: Final = 32_768
SMALLEST_LIMIT: Final = 1024
BINS: Final = 32
CELLS: Final = 1024
_SHOWN: Final = 6
_BYTES_PER_CELL: Final = 14

Floats = NDArray[np.float64]


def summarize(array: Any, limit: int = DEFAULT_LIMIT, most: int = EXACT) -> dict[str, Any]:
    """A `Values` record of the schema for an array of any backend; as JSON at most `limit` bytes.

    Complex elements count by their absolute value; True counts as 1. most: elements to look at.
    Raises ValueError for a limit below 1024 bytes.
    """
    if limit < SMALLEST_LIMIT:
        raise ValueError(
            f"limit should be at least {SMALLEST_LIMIT} bytes for one summary, but is {limit}"
        )
    if type(array) is Coo:
        return _sparse(array, limit, most)
    host = np.asarray(backend_of(array).to_numpy(subgrid(array, most)))
    values = _real(host)
    finite = values[np.isfinite(values)]
    found: dict[str, Any] = {
        "shape": [int(n) for n in array.shape],
        "dtype": str(array.dtype.name),
        "numel": int(array.size),
        "bytes": int(array.nbytes),
        "min": _number(finite.min()) if finite.size else None,
        "max": _number(finite.max()) if finite.size else None,
        "mean": _number(_mean(finite)) if finite.size else None,
        "norm": _number(_norm(finite)) if finite.size == values.size else None,
        "nan": int(np.count_nonzero(np.isnan(values))),
        "inf": int(np.count_nonzero(np.isinf(values))),
        "zero": int(np.count_nonzero(values == 0)),
        "sampled": int(values.size),
        "histogram": histogram(finite, BINS),
        "picture": None,
        "text": _text(array),
    }
    room = limit - _size(found)
    cells = min(CELLS, room // _BYTES_PER_CELL)
    if cells >= 1 and values.size:
        found["picture"] = picture(values, cells, pooled=values.size < array.size)
    while _size(found) > limit:
        _shrink(found, values, array)
    return found


def matrix_picture(matrix: Any, cells: int) -> dict[str, Any]:
    """A `Picture` of a matrix in at most so many cells."""
    host = np.asarray(backend_of(matrix).to_numpy(subgrid(matrix, EXACT)))
    return picture(_real(host), cells, pooled=host.size < matrix.size)


def _sparse(array: Coo, limit: int, most: int) -> dict[str, Any]:
    """The record of a sparse array: numbers are of the values that it holds, the picture of all."""
    own = array.coalesced()
    kind = "sparse rows" if array.csr else "sparse"
    head = f"{kind}, nnz={array.nnz} of shape {list(array.shape)}: values "
    found = summarize(own.values, limit - len(head), most)
    found["shape"] = [int(n) for n in array.shape]
    rest = int(array.size) - int(own.values.size)
    found["zero"] += rest
    found["sampled"] += rest
    found.update(numel=int(array.size), bytes=array.nbytes, text=head + found["text"], picture=None)
    cells = min(CELLS, (limit - _size(found)) // _BYTES_PER_CELL)
    if cells >= 1 and array.size:
        found["picture"] = _pattern(own, cells, most)
    return found


def _pattern(own: Coo, cells: int, most: int) -> dict[str, Any]:
    """Where a coalesced array holds values: of each block of the matrix the one farthest from 0.

    A block of which nothing is held is 0, as its elements are.
    """
    width = own.shape[-1] if own.shape else 1
    height = own.size // width
    rows, cols = _fitting(height, width, cells)
    step = max(1, -(-own.values.size // most))
    host = backend_of(own.values).to_numpy
    inner = own.values.size // max(1, own.nnz)
    at = (host(own.flat())[:, None] * inner + np.arange(inner)).reshape(-1)[::step]
    values = _real(np.asarray(host(own.values))).reshape(-1)[::step]
    block = (at // width * rows // height) * cols + at % width * cols // width
    found = np.zeros(rows * cols)
    order = np.argsort(np.where(np.isfinite(values), np.abs(values), np.inf), kind="stable")
    found[block[order]] = values[order]  # the last one stays
    return {
        "rows": rows,
        "cols": cols,
        "values": [_short(v) if math.isfinite(v) else None for v in found.tolist()],
        "pooled": rows * cols < own.size,
    }


def subgrid(array: Any, most: int) -> Any:
    """At most `most` elements: one from each of equal stretches of the longest dimensions.

    Which one is drawn at random (always the same way), so that no sample falls in step with a
    repeating layout.
    """
    draw = np.random.default_rng(0)
    while array.size > most:
        longest = max(range(array.ndim), key=lambda i: array.shape[i])
        length = array.shape[longest]
        parts = max(length // math.ceil(array.size / most), 1)
        bounds = np.arange(parts + 1) * length // parts
        index = draw.integers(bounds[:-1], bounds[1:])
        place = (slice(None),) * longest + (backend_of(array).asarray(index),)
        array = array[place]
    return array


@silent
def _real(host: NDArray[Any]) -> Floats:
    if host.dtype.kind == "c":
        return np.abs(host.astype(np.complex128))
    return host.astype(np.float64)


def _mean(finite: Floats) -> float:
    """The mean without overflow on the way."""
    largest = float(np.abs(finite).max())
    return float((finite / largest).mean()) * largest if largest else 0.0


def _norm(values: Floats) -> float:
    """The 2-norm without overflow on the way."""
    largest = float(np.abs(values).max()) if values.size else 0.0
    if largest == 0.0:
        return 0.0
    return largest * math.sqrt(float(np.square(values / largest).sum()))


def _number(value: Any) -> float | None:
    number = float(value)
    return number if math.isfinite(number) else None


def _short(value: float) -> float:
    rounded = float(f"{value:.5g}")
    return rounded if math.isfinite(rounded) else value


def histogram(finite: Floats, bins: int) -> dict[str, Any]:
    """Counts of finite values between their minimum and maximum. One bin where all are equal."""
    if not finite.size:
        return {"edges": [], "counts": []}
    low, high = float(finite.min()), float(finite.max())
    if low == high:
        return {"edges": [low, high], "counts": [int(finite.size)]}
    # Halved, so that the range of the largest floats does not overflow.
    low, high = low / 2, high / 2
    width = high - low
    if width == 0 or width / bins == 0:
        return {"edges": [low * 2, high * 2], "counts": [int(finite.size)]}
    places = np.minimum(((finite / 2 - low) / width * bins).astype(np.int64), bins - 1)
    counts = np.bincount(places, minlength=bins)
    edges = [low + width * (i / bins) for i in range(bins)]
    return {"edges": [*(2 * edge for edge in edges), high * 2], "counts": [int(n) for n in counts]}


def picture(values: Floats, cells: int, *, pooled: bool) -> dict[str, Any]:
    """The values as a matrix (leading dimensions one below the other) of at most `cells` means."""
    matrix = values.reshape(-1, values.shape[-1]) if values.ndim else values.reshape(1, 1)
    rows, cols = _fitting(matrix.shape[0], matrix.shape[1], cells)
    means = _pool(matrix, rows, cols)
    return {
        "rows": rows,
        "cols": cols,
        "values": [_short(v) if math.isfinite(v) else None for v in means.ravel().tolist()],
        "pooled": pooled or means.size < matrix.size,
    }


def _fitting(rows: int, cols: int, cells: int) -> tuple[int, int]:
    """The largest picture of these proportions, neither side longer than the matrix."""
    if rows * cols <= cells:
        return rows, cols
    side = max(int(math.sqrt(cells)), 1)
    if rows <= side:
        return rows, max(min(cols, cells // rows), 1)
    if cols <= side:
        return max(min(rows, cells // cols), 1), cols
    return side, max(cells // side, 1)


def _pool(matrix: Floats, rows: int, cols: int) -> Floats:
    """Means of the finite values of each block; NaN for a block without any."""
    if (rows, cols) == matrix.shape:
        return matrix
    good = np.isfinite(matrix)
    count = _block_sums(good.astype(np.float64), rows, cols)
    scale = float(np.abs(matrix[good]).max()) if good.any() else 1.0
    scale = scale or 1.0
    total = _block_sums(np.where(good, matrix, 0.0) / scale, rows, cols)
    return np.asarray(quietly(np.divide, total, count) * scale)


def _block_sums(matrix: Floats, rows: int, cols: int) -> Floats:
    for axis, parts in ((0, rows), (1, cols)):
        starts = np.arange(parts) * matrix.shape[axis] // parts
        matrix = np.add.reduceat(matrix, starts, axis=axis)
    return matrix


def _text(array: Any) -> str:
    """The first few values in reading order."""
    if not array.size:
        return "[]"
    corner = array[(0,) * (array.ndim - 1)][:_SHOWN] if array.ndim else array
    host = np.asarray(backend_of(array).to_numpy(corner)).reshape(-1)
    shown = ", ".join(_value_text(v) for v in host)
    if not array.ndim:
        return shown
    return f"[{shown}, ...]" if array.size > host.size else f"[{shown}]"


def _value_text(value: Any) -> str:
    kind = np.asarray(value).dtype.kind
    if kind in "biu":
        return str(value)
    if kind == "c":
        return f"{complex(value):.4g}"
    return f"{float(value):.4g}"


def _size(found: dict[str, Any]) -> int:
    return len(json.dumps(found, allow_nan=False))


def _shrink(found: dict[str, Any], values: Floats, array: Any) -> None:
    """Make the answer smaller: first the picture, then the histogram, last the shape's text."""
    shown = found["picture"]
    if shown is not None:
        cells = len(shown["values"]) // 2
        found["picture"] = (
            picture(values, cells, pooled=values.size < array.size) if cells else None
        )
        return
    counts: Sequence[int] = found["histogram"]["counts"]
    if len(counts) > 1:
        finite = values[np.isfinite(values)]
        found["histogram"] = histogram(finite, len(counts) // 2)
        return
    found["text"] = ""
