"""Padding: with a constant (one node, as in torch), and by reflection, repetition or wrapping."""

from __future__ import annotations

from typing import Any

from ag_visual.dispatch.arguments import checked, kind_named
from ag_visual.dispatch.record import OWN, ErrorSample, Sample
from ag_visual.dispatch.table import composite, op
from ag_visual.dispatch.vmap import constant, leading


def _pairs(pad) -> list[tuple[int, int]]:
    """(before, after) of each padded dimension, the last one first."""
    return [(pad[i], pad[i + 1]) for i in range(0, len(pad), 2)]


def _constant_pad(xp, self, pad, value=0):
    size = list(self.shape)
    inner = [slice(None)] * self.ndim
    source = [slice(None)] * self.ndim
    for at, (before, after) in enumerate(_pairs(pad), 1):
        n = size[-at]
        size[-at] = n + before + after
        inner[-at] = slice(max(before, 0), size[-at] - max(after, 0))
        source[-at] = slice(max(-before, 0), n - max(-after, 0))
    # What is cut off at both ends of a dimension has to be there.
    cuts = [max(-before, 0) + max(-after, 0) for before, after in reversed(_pairs(pad))]
    if any(cut > n for cut, n in zip(cuts, self.shape[self.ndim - len(cuts) :], strict=True)):
        raise RuntimeError("narrow(): length must be non-negative.")
    if min(size, default=1) < 0:
        raise RuntimeError(
            f"The input size {list(self.shape)}, plus padding {list(pad)}, resulted in a negative "
            f"output size {size}"
        )
    result = xp.full(tuple(size), value, self.dtype)
    result[tuple(inner)] = self[tuple(source)]
    return result


def _normal_pad(self, pad, value) -> tuple[Any, Any]:
    pad = tuple(pad)
    if len(pad) % 2:
        raise RuntimeError(f"Padding length must be divisible by 2\nIt is {len(pad)}.")
    if len(pad) > 2 * self.ndim:
        raise RuntimeError(
            "Padding length should be less than or equal to two times the input dimension but got "
            f"padding length {len(pad)} and input of dimension {self.ndim}"
        )
    return pad, 0 if value is None else value


op(
    "constant_pad_nd",
    _constant_pad,
    profiled=OWN,
    public_name="pad",
    oracle="constant_pad_nd",
    vjp={"self": lambda F, g, pad: F.constant_pad_nd(g, tuple(-p for p in pad), 0)},
    jvp={"self": lambda F, t_self, pad: F.constant_pad_nd(t_self, pad, 0)},
    normalize=_normal_pad,
    method=False,
    batch=leading(),
    samples=lambda make: [
        Sample((make((2, 3)), (1, 2), 0.5)),
        Sample((make((2, 3, 4)), (1, -1, 0, 2), 0)),
        Sample((make((3,)), (-1, -1))),
    ],
    errors=lambda make: [
        ErrorSample((make((2,)), (1,)), RuntimeError, "Padding length must be divisible by 2")
    ],
    doc="Margins filled with one number; `pad` has (before, after) for the last dimension first.",
)


_OPS = {"reflect": "reflection", "replicate": "replication"}


def _circle(n: int, before: int, after: int) -> list[int]:
    """Which element each place repeats; what negative padding cuts off is no part of the circle."""
    if max(before, after) > n:
        raise RuntimeError(
            "Padding value causes wrapping around more than once.\n"
            f"It is ({before}, {after}) at a dimension of size {n}."
        )
    if n + before + after < 1:
        raise RuntimeError("Negative padding value is resulting in an empty dimension")
    start, size = max(-before, 0), n - max(-before, 0) - max(-after, 0)
    return [start + i % size for i in range(-max(before, 0), size + max(after, 0))]


@composite("pad", method=False, spaces="nn.functional")
def _pad(F, input, pad, mode: str = "constant", value=None):
    """Pad the last dimensions: pad = (last before, last after, one earlier before, ...).

    mode: 'constant' (with `value`, 0), 'reflect', 'replicate' or 'circular'.
    """
    pad = checked("pad", "pad", kind_named("Sizes"), pad)
    if mode == "constant":
        return F.constant_pad_nd(input, pad, 0 if value is None else value)
    if mode not in ("reflect", "replicate", "circular"):
        raise NotImplementedError(f"Unrecognised padding mode {mode}")
    if value is not None and value != 0:
        raise RuntimeError(f'Padding mode "{mode}" doesn\'t take in value argument')
    rank = len(pad) // 2
    if len(pad) not in (2, 4, 6) or input.ndim not in (rank + 1, rank + 2):
        raise NotImplementedError(
            f"Padding size {len(pad)} is not supported for {input.ndim}D input tensor.\n"
            "Supported combinations for non-constant padding:\n"
            "  - 2D or 3D input: padding size = 2 (pads last dimension)\n"
            "  - 3D or 4D input: padding size = 4 (pads last 2 dimensions)\n"
            "  - 4D or 5D input: padding size = 6 (pads last 3 dimensions)"
        )
    if mode in _OPS:
        return getattr(F, f"{_OPS[mode]}_pad{rank}d")(input, pad)
    for at, (before, after) in enumerate(_pairs(pad), 1):
        if before or after:
            dim = input.ndim - at
            index = F.index_of(input, _circle(input.shape[dim], before, after))
            input = F.index_select(input, dim, index)
    return input


# Integers from Python, on the device of another tensor.
op(
    "index_of",
    lambda xp, self, values: xp.asarray(values, dtype=xp.int64),
    batch=constant,
    public=False,
    samples=lambda make: [Sample((make((2,)), [1, 0, 2]))],
    symbol="index",
)
