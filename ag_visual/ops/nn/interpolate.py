"""interpolate: an op per method and number of dimensions, as torch has them, and its backward op.

Every method is separable: one axis after the other, each a table of taps
(arrays/kernels/resample.py).
"""

from __future__ import annotations

import math
from typing import Any

import numpy

from ag_visual import dtypes
from ag_visual.arrays.kernels import resample as kernels
from ag_visual.core.source import warn
from ag_visual.dispatch.arguments import NUMBERS, kind_named
from ag_visual.dispatch.dtype_errors import not_implemented
from ag_visual.dispatch.record import LINEAR, OWN, UNSEEN, ErrorSample, Sample
from ag_visual.dispatch.rules import calls, takes
from ag_visual.dispatch.table import composite, op
from ag_visual.dispatch.vmap import folded

_SCALES = {1: ("scales",), 2: ("scales_h", "scales_w"), 3: ("scales_d", "scales_h", "scales_w")}
# torch's name: the kernel's method, dimensions, whether align_corners is asked for.
_OPS: dict[str, tuple[str, int, bool]] = {
    **{f"upsample_nearest{rank}d": ("nearest", rank, False) for rank in (1, 2, 3)},
    **{f"_upsample_nearest_exact{rank}d": ("exact", rank, False) for rank in (1, 2, 3)},
    "upsample_linear1d": ("linear", 1, True),
    "upsample_bilinear2d": ("linear", 2, True),
    "upsample_trilinear3d": ("linear", 3, True),
    "upsample_bicubic2d": ("cubic", 2, True),
    "_upsample_bilinear2d_aa": ("smooth linear", 2, True),
    "_upsample_bicubic2d_aa": ("smooth cubic", 2, True),
}


def _check(name: str, rank: int, self, size, nearest: bool) -> None:
    if self.ndim != rank + 2 or not all(self.shape[1:]):
        raise RuntimeError(
            f"Expected {rank + 2}D tensor with only the batch dimension possibly empty as input to "
            f"{name}, but got a tensor of shape {list(self.shape)}"
        )
    if min(size) <= 0:
        raise RuntimeError(
            "Input and output sizes should be greater than 0, but got input "
            f"{list(self.shape[2:])} and output {list(size)}"
        )
    taken = "fVu" if nearest or (rank == 2 and self.dtype == numpy.uint8) else "fV"
    if self.dtype.kind not in taken:
        raise not_implemented(name, dtypes.of_array(self), ". Convert with .float() first.")


def _declare(name: str, method: str, rank: int, aligns: bool) -> None:
    """The op and its backward op. Their parameters follow torch's saved attributes."""
    flag = ("align_corners",) if aligns else ()
    options = (*flag, *_SCALES[rank])
    scales = dict.fromkeys(_SCALES[rank])
    title = "".join(part[:1].upper() + part[1:] for part in name.strip("_").split("_"))
    title = title.replace("1d", "1D").replace("2d", "2D").replace("3d", "3D")

    def split(given: tuple[Any, ...]) -> tuple[bool, tuple[Any, ...]]:
        return (given[0], given[1:]) if aligns else (False, given)

    @takes("xp", "self", "output_size", *flag, **scales)
    def forward(xp, self, size, *given):
        align, ratios = split(given)
        _check(name, rank, self, size, method in ("nearest", "exact"))
        if self.dtype == numpy.uint8 and method not in ("nearest", "exact"):
            for at in reversed(range(rank)):
                numbers = (size[at], align, ratios[at])
                self = kernels.resample_bytes(xp, self, at + 2, method, *numbers)
            return xp.ascontiguousarray(self)
        for at in range(rank):
            self = kernels.resample(xp, self, at + 2, method, size[at], align, ratios[at])
        return self

    @takes("xp", "grad_output", "output_size", "input_size", *flag, **scales)
    def backward(xp, g, _, size, *given):
        align, ratios = split(given)
        for at in reversed(range(rank)):
            g = kernels.resample_back(xp, g, at + 2, method, size[at + 2], align, ratios[at])
        return g

    shape = (2, 3, *(4, 5, 3)[:rank])
    target = (6, 3, 4)[:rank]
    flags = ((False,), (True,)) if aligns else ((),)
    ratio = tuple(t / n for t, n in zip(target, shape[2:], strict=True))

    def samples(make):
        for flag in flags:
            yield Sample((make(shape), target, *flag))
        yield Sample((make(shape), target, *flags[0], *ratio))

    def back_samples(make):
        for flag in flags:
            yield Sample((make((*shape[:2], *target)), target, shape, *flag))

    op(
        name,
        forward,
        vjp={"self": calls(f"{name}_backward", "g", "output_size", "self_shape", *options)},
        jvp=LINEAR,
        batch=folded("self"),
        public=False,
        public_name="interpolate",
        profiled=OWN,
        oracle=f"ops.aten.{name}",
        node=f"{title}Backward0",
        samples=samples,
        errors=lambda make: [
            ErrorSample(
                (make((2, 3)), target, *flags[0]), RuntimeError, f"Expected {rank + 2}D tensor"
            ),
            ErrorSample(
                (make(shape), (0,) * rank, *flags[0]), RuntimeError, "should be greater than 0"
            ),
        ],
        real_only=True,
        autocast="cuda float32",
    )
    op(
        f"{name}_backward",
        backward,
        vjp={"grad_output": calls(name, "g", "output_size", *options)},
        jvp=LINEAR,
        batch=folded("grad_output", sizes=("input_size",)),
        public=False,
        node=f"{title}BackwardBackward0",
        samples=back_samples,
        real_only=True,
    )


for _name, _facts in _OPS.items():
    _declare(_name, *_facts)


_MODES = {
    ("nearest", 1): "upsample_nearest1d",
    ("nearest", 2): "upsample_nearest2d",
    ("nearest", 3): "upsample_nearest3d",
    ("nearest-exact", 1): "_upsample_nearest_exact1d",
    ("nearest-exact", 2): "_upsample_nearest_exact2d",
    ("nearest-exact", 3): "_upsample_nearest_exact3d",
    ("linear", 1): "upsample_linear1d",
    ("bilinear", 2): "upsample_bilinear2d",
    ("trilinear", 3): "upsample_trilinear3d",
    ("bicubic", 2): "upsample_bicubic2d",
}
_SMOOTH = {"bilinear": "_upsample_bilinear2d_aa", "bicubic": "_upsample_bicubic2d_aa"}


def _whole(n, size) -> int:
    kind = kind_named("int")
    found = n if type(n) is int else kind.fit(n)
    if found is None:
        kinds = [type(each) for each in (size if isinstance(size, (list, tuple)) else (size,))]
        raise TypeError(
            "expected size to be one of int or Tuple[int] or Tuple[int, int] or Tuple[int, int, "
            f"int], but got size with types {kinds}"
        )
    return found  # type: ignore[no-any-return]


def _sizes(input, size, scale_factor, recompute) -> tuple[tuple[int, ...], tuple[Any, ...]]:
    """The output size, and the ratios where the caller gave some and wants them used."""
    rank = input.ndim - 2
    spatial = tuple(input.shape)[2:]
    none = (None,) * rank
    if size is not None and scale_factor is not None:
        raise ValueError("only one of size or scale_factor should be defined")
    if size is None and scale_factor is None:
        raise ValueError("either size or scale_factor should be defined")
    given = size if size is not None else scale_factor
    what = "output size" if size is not None else "scale_factor"
    if isinstance(given, (list, tuple)):
        if len(given) != rank:
            raise ValueError(
                f"Input and {what} must have the same number of spatial dimensions, but got input "
                f"with spatial dimensions of {list(spatial)} and {what} of {given}. Please provide "
                f"input tensor in (N, C, d1, d2, ...,dK) format and {what} in (d1, d2, ...,dK) "
                "format."
            )
        each = tuple(given)
    else:
        each = (given,) * rank
    if size is not None:
        if recompute:
            raise ValueError("recompute_scale_factor is not meaningful with an explicit size.")
        return tuple(_whole(n, size) for n in each), none
    if not all(isinstance(s, NUMBERS) for s in each):
        raise TypeError(f"scale_factor must be a number or several, not {scale_factor!r}")
    ratios = tuple(float(s) for s in each)
    sizes = tuple(math.floor(n * s) for n, s in zip(spatial, ratios, strict=True))
    return sizes, none if recompute else ratios


@composite("interpolate", method=False, spaces="nn.functional", profiled=UNSEEN)
def _interpolate(
    F,
    input,
    size=None,
    scale_factor=None,
    mode: str = "nearest",
    align_corners: bool | None = None,
    recompute_scale_factor: bool | None = None,
    antialias: bool = False,
):
    """(N, C, d1, ...) resampled to another size.

    mode: 'nearest', 'nearest-exact', 'area' (means of windows) for one to three dimensions,
    'linear', 'bilinear', 'bicubic', 'trilinear' for as many as the name says; antialias widens the
    filters of bilinear and bicubic where the image shrinks. align_corners: the centres of the
    corner pixels stay where they are.
    """
    if mode in ("nearest", "area", "nearest-exact"):
        if align_corners is not None:
            raise ValueError(
                "align_corners option can only be set with the interpolating modes: linear | "
                "bilinear | bicubic | trilinear"
            )
    elif align_corners is None:
        align_corners = False
    sizes, ratios = _sizes(input, size, scale_factor, recompute_scale_factor)
    rank = input.ndim - 2
    if antialias and mode not in _SMOOTH:
        raise ValueError(
            "Anti-alias option is restricted to bilinear and bicubic modes and requires a 4-D "
            "tensor as input"
        )
    if mode == "area" and rank in (1, 2, 3):
        return getattr(F, f"adaptive_avg_pool{rank}d")(input, sizes)
    if antialias and rank == 2:
        return getattr(F, _SMOOTH[mode])(input, sizes, align_corners, *ratios)
    name = _MODES.get((mode, rank))
    if name is None:
        raise _unsupported(input, mode)
    if align_corners is None:
        return getattr(F, name)(input, sizes, *ratios)
    return getattr(F, name)(input, sizes, align_corners, *ratios)


def _unsupported(input, mode: str) -> NotImplementedError:
    fits = {m: rank for m, rank in _MODES if rank in (1, 2, 3) and "nearest" not in m}
    if mode in fits and 3 <= input.ndim <= 5:
        return NotImplementedError(
            f"Got {input.ndim}D input, but {mode} mode needs {fits[mode] + 2}D input"
        )
    return NotImplementedError(
        "Input Error: Only 3D, 4D and 5D input Tensors supported "
        f"(got {input.ndim}D) for the modes: nearest | linear | bilinear | bicubic | trilinear | "
        f"area | nearest-exact (got {mode})"
    )


def _old(name: str) -> None:
    warn(f"`nn.functional.{name}` is deprecated. Use `nn.functional.interpolate` instead.")


@composite("upsample", method=False, spaces="nn.functional", profiled=UNSEEN)
def _upsample(
    F, input, size=None, scale_factor=None, mode: str = "nearest", align_corners: bool | None = None
):
    """interpolate under its old name; warns."""
    _old("upsample")
    return F.interpolate(input, size, scale_factor, mode, align_corners)


@composite("upsample_nearest", method=False, spaces="nn.functional", profiled=UNSEEN)
def _upsample_nearest(F, input, size=None, scale_factor=None):
    """interpolate by the nearest element; warns."""
    _old("upsample_nearest")
    return F.interpolate(input, size, scale_factor, "nearest")


@composite("upsample_bilinear", method=False, spaces="nn.functional", profiled=UNSEEN)
def _upsample_bilinear(F, input, size=None, scale_factor=None):
    """Bilinear interpolate with align_corners; warns."""
    _old("upsample_bilinear")
    return F.interpolate(input, size, scale_factor, "bilinear", True)
