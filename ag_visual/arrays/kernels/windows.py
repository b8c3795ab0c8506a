"""The largest element of windows of any places: adaptive and fractional max pooling, unpooling.

Layer 1. A window is a row of flat positions in the spatial part, filled up with its last one.
Ties take the first position, NaN the last one, as torch does.
"""

from __future__ import annotations

from math import prod
from typing import Any

import numpy

from ag_visual.arrays.backend import Array, of_namespace

Ints = tuple[int, ...]


def adaptive_windows(spatial: Ints, size: Ints) -> Any:
    """(1, windows, places): [floor(i n / out), ceil((i + 1) n / out)) along every dimension."""
    lines = []
    for n, out in zip(spatial, size, strict=True):
        at = numpy.arange(out)
        start, end = at * n // out, -(-(at + 1) * n // out)
        count = int((end - start).max(initial=1))
        lines.append(numpy.minimum(start[:, None] + numpy.arange(count), end[:, None] - 1)[None])
    return _joined(lines, spatial)


def fractional_windows(samples: Any, spatial: Ints, size: Ints, kernel: Ints) -> Any:
    """(planes, windows, places) of windows of one size at random starts.

    samples: (planes, rank) in [0, 1), in the order of the dimensions, on the host.
    Source: Graham, Fractional max-pooling (arXiv:1412.6071).
    """
    lines = []
    for at, (n, out, k) in enumerate(zip(spatial, size, kernel, strict=True)):
        u = samples[:, at : at + 1]
        start = numpy.full((len(u), out), n - k)
        if out > 1:
            alpha = samples.dtype.type((n - k) / (out - 1))
            steps = numpy.arange(out - 1, dtype=samples.dtype)
            start[:, :-1] = ((steps + u) * alpha).astype(int) - (u * alpha).astype(int)
        lines.append(start[:, :, None] + numpy.arange(k))
    return _joined(lines, spatial)


def _joined(lines: list[Any], spatial: Ints) -> Any:
    """Positions along each dimension (planes, out, places) as flat positions of their product."""
    total = numpy.zeros((1, 1, 1), numpy.int64)
    for at, line in enumerate(lines):
        unit = prod(spatial[at + 1 :])
        both = total[:, :, None, :, None] + (line * unit)[:, None, :, None, :]
        total = both.reshape(len(both), prod(both.shape[1:3]), prod(both.shape[3:]))
    return total


def largest(xp: Any, input: Array, windows: Any, size: Ints) -> tuple[Array, Array]:
    """The largest element of each window, and its flat position in the spatial part (int64)."""
    rank = len(size)
    lead = input.shape[:-rank]
    flat = input.reshape(prod(lead), prod(input.shape[-rank:]))
    places = of_namespace(xp).from_numpy(windows)
    wide = (flat.shape[0], *windows.shape[1:])
    if windows.shape[0] == 1:
        values = xp.take(flat, places[0].reshape(-1), axis=1).reshape(wide)
    else:
        row = places.reshape(flat.shape[0], prod(windows.shape[1:]))
        values = xp.take_along_axis(flat, row, axis=1).reshape(wide)
    chosen = _last_nan_or_first_largest(xp, values)[..., None]
    best = xp.take_along_axis(values, chosen, axis=-1)
    indices = xp.take_along_axis(xp.broadcast_to(places, wide), chosen, axis=-1)
    return best.reshape(lead + size), indices.reshape(lead + size)


def _last_nan_or_first_largest(xp: Any, values: Array) -> Array:
    compared = values.astype(xp.float32) if values.dtype.kind == "V" else values
    chosen = compared.argmax(axis=-1)
    if compared.dtype.kind == "f" and compared.size:
        unknown = xp.isnan(compared)
        if bool(unknown.any()):
            last = compared.shape[-1] - 1 - unknown[..., ::-1].argmax(axis=-1)
            chosen = xp.where(unknown.any(axis=-1), last, chosen)
    return chosen


def unpool(xp: Any, self: Array, indices: Array, size: Ints) -> Array:
    """Zeros of spatial `size` with the elements of self at their flat positions."""
    rank = len(size)
    lead = self.shape[: self.ndim - rank]
    planes, volume = prod(lead), prod(size)
    if indices.size and (int(indices.min()) < 0 or int(indices.max()) >= volume):
        outside = (indices < 0) | (indices >= volume)
        raise RuntimeError(
            f"Found an invalid max index: {int(indices[outside][0])} (output volumes are of size "
            f"{'x'.join(map(str, size))})"
        )
    result = xp.zeros((planes * volume,), self.dtype)
    start = xp.arange(planes, dtype=xp.int64).reshape(-1, 1) * volume
    places = indices.reshape(planes, prod(self.shape[self.ndim - rank :])) + start
    result[places.reshape(-1)] = self.reshape(-1)
    return result.reshape(*lead, *size)
