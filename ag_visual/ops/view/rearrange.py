"""Copies in another order: clone, flip, roll, triangles, repetitions."""

from __future__ import annotations

from typing import Any

from ag_visual.arrays.backend import backend_of
from ag_visual.arrays.kernels.order import copied, empty_as
from ag_visual.core.level import is_batchedtensor
from ag_visual.core.tensor import Tensor, from_array
from ag_visual.dispatch.arguments import Sizes, SomeDims
from ag_visual.dispatch.dims import sizes_of, wrap, wrap_all
from ag_visual.dispatch.families import structural
from ag_visual.dispatch.memory_overlap import ALLOWED, REFUSED
from ag_visual.dispatch.record import ROWS, ErrorSample, Op, Sample
from ag_visual.dispatch.table import composite
from ag_visual.dispatch.vmap import Batch, along, dynamic_shape, leading

structural(
    "clone_in",
    lambda xp, self, order="K": (
        copied(xp, self) if order == "K" else xp.array(self, order=order, copy=True)
    ),
    vjp={"self": lambda g: g},
    public=False,
    public_name="clone",
    node="CloneBackward0",
    batch=leading(),
    samples=lambda make: [Sample((make((2, 3)),))],
    oracle=lambda torch, self, *_: self.clone(),
)


@composite("clone", symbol="self")
def _clone_any(F, self, order: str = "K", *, memory_format=None):
    """A copy, in the graph: gradients flow back to `self`."""
    if memory_format is not None and str(memory_format) == "torch.contiguous_format":
        order = "C"
    return F.clone_in(self, order)


@composite("contiguous", spaces="", symbol="self", shape_only=True)
def _contiguous(F, self, memory_format=None):
    """`self` if its memory is row-major, else a copy that is."""
    array = self._array if F.traced else self
    return self if array.flags.c_contiguous else F.clone_in(self, "C")


def _flip(xp, self, dims: Sizes):
    # A copy: negative strides are no geometry of a tensor.
    at: list[Any] = [slice(None)] * self.ndim
    for d in dims:
        if self.ndim:
            at[d] = slice(None, None, -1)
    result = empty_as(xp, self)
    result[...] = self[tuple(at)]
    return result


structural(
    "flip",
    _flip,
    vjp={"self": lambda F, g, dims: F.flip(g, dims)},
    normalize=lambda self, dims: (wrap_all(dims, self.ndim),),
    varargs="dims",
    samples=lambda make: [
        Sample((make((2, 3)), (0,))),
        Sample((make((2, 3)), (0, -1))),
        Sample((make((2,)), ())),
    ],
    doc="The elements of some dimensions in reversed order.",
    shape_only=True,
)


def _flip_side(name: str, lines: str, dim: int, least: int) -> None:
    @composite(name, doc=f"The {lines} in reversed order, as a copy.")
    def side(F, self):
        if self.ndim < least:
            raise RuntimeError(f"Input must be >= {least}-d.")
        return F.flip(self, (dim,))


_flip_side("fliplr", "columns", 1, 2)
_flip_side("flipud", "rows", 0, 1)


def _roll(xp, self, shifts: SomeDims, dims: SomeDims = ()):
    if dims:
        return xp.roll(self, shifts, axis=dims)
    return xp.roll(self, shifts[0])  # type: ignore[index]


def _normal_roll(self, shifts, dims=()) -> tuple[Any, Any]:
    shifts = (shifts,) if isinstance(shifts, int) else tuple(shifts)
    dims = () if dims is None else (dims,) if isinstance(dims, int) else tuple(dims)
    if not shifts:
        raise RuntimeError("`shifts` required")
    if len(shifts) != len(dims) and not (len(shifts) == 1 and not dims):
        raise RuntimeError(
            f"shifts and dimensions must align. shifts: {len(shifts)}, dims:{len(dims)}"
        )
    if 0 in self.shape:
        return (0,), ()  # as torch: nothing moves, whatever dimensions are named
    return shifts, tuple(wrap(d, self.ndim) for d in dims)


def _roll_slices(batch: Batch):
    if batch["dims"]:
        return along(batch)
    x, F = batch["self"], batch.F
    flat = batch.run(self=F.reshape(x, (batch.size, -1)), dims=(1,))
    return F.reshape(flat, tuple(x.shape))


structural(
    "roll",
    _roll,
    vjp={"self": lambda F, g, shifts, dims: F.roll(g, tuple(-s for s in shifts), dims)},
    layout=ROWS,
    batch=_roll_slices,
    normalize=_normal_roll,
    samples=lambda make: [Sample((make((2, 3)), 1)), Sample((make((4, 3)), (1, -2), (0, 1)))],
    errors=lambda make: [
        ErrorSample((make((3,)), (1, 2)), RuntimeError, "shifts and dimensions must align")
    ],
    doc="The elements of some dimensions shifted around; without dims, of all in a row.",
    shape_only=True,
)


def _rot90(xp, self, k: int = 1, dims=(0, 1)):
    return xp.rot90(self, k, dims).copy()


def _normal_rot(self, k: int = 1, dims=(0, 1)) -> tuple[int, Any]:
    if len(dims) != 2:
        raise RuntimeError(f"expected total rotation dims == 2, but got dims = {len(dims)}")
    if self.ndim < 2:
        raise RuntimeError(f"expected total dims >= 2, but got total dims = {self.ndim}")
    found = tuple(wrap(d, self.ndim) for d in dims)
    if found[0] == found[1]:
        raise RuntimeError(
            f"expected rotation dims to be different, but got dim0 = {dims[0]} and dim1 = {dims[1]}"
        )
    return k, found


structural(
    "rot90",
    _rot90,
    vjp={"self": lambda F, g, k, dims: F.rot90(g, -k, dims)},
    normalize=_normal_rot,
    samples=lambda make: [Sample((make((2, 3)),)), Sample((make((2, 3, 2)), 3, (0, 2)))],
    doc="k quarter turns in the plane of two dimensions.",
    shape_only=True,
)


def _repeated_matrices(target, values) -> int:
    """`repeated` of tril_ and triu_: as in torch, matrices in rows of memory are written there.

    Those of several dimensions of which others than the first repeat their memory go through a
    copy.
    """
    array = target._array
    if array.ndim < 4:
        return ALLOWED
    expected = array.itemsize * array.shape[-1] * array.shape[-2]
    for dim in range(array.ndim - 3, -1, -1):
        size, stride = array.shape[dim], array.strides[dim]
        if dim or (stride and size > 1):
            if stride != expected:
                return REFUSED
            expected *= size
    return ALLOWED


def _triangle(name: str, doc: str) -> Op:
    def kernel(xp, self, diagonal: int = 0):
        return getattr(xp, name)(self, diagonal)

    def write(xp, self, diagonal: int = 0) -> None:
        # As torch writes it: only what becomes zero, whichever elements share a place.
        kept = kernel(xp, xp.ones(self.shape[-2:], bool), diagonal)
        self[..., ~kept] = 0

    def normal(self, diagonal: int = 0) -> tuple[int]:
        if self.ndim < 2:
            raise RuntimeError(f"{name}: input tensor must have at least 2 dimensions")
        return (diagonal,)

    def errors(make):
        yield ErrorSample((make((3,)),), RuntimeError, "must have at least 2 dimensions")

    return structural(
        name,
        kernel,
        vjp={"self": lambda F, g, diagonal: getattr(F, name)(g, diagonal)},
        layout=ROWS,
        batch=leading(),
        normalize=normal,
        inplace=write,
        repeated=_repeated_matrices,
        samples=lambda make: [Sample((make((3, 4)),)), Sample((make((2, 3, 3)), -1))],
        errors=errors,
        doc=doc,
    )


tril, triu = (
    _triangle("tril", doc="The part of matrices on and below a diagonal, zero elsewhere."),
    _triangle("triu", doc="The part of matrices on and above a diagonal, zero elsewhere."),
)


def _normal_repeat(self, repeats) -> tuple[Any, ...]:
    repeats = sizes_of("repeat", (repeats,))
    if len(repeats) < self.ndim:
        raise RuntimeError(
            "Number of dimensions of repeat dims can not be smaller than number of dimensions of "
            f"tensor: got {list(repeats)} for size {list(self.shape)}"
        )
    if any(n < 0 for n in repeats):
        raise RuntimeError(
            f"Trying to create tensor with negative dimension: repeat counts are {list(repeats)}"
        )
    return (repeats,)


def _repeat_slices(batch: Batch):
    repeats = batch["repeats"]
    return batch.run(self=batch.padded("self", len(repeats)), repeats=(1, *repeats))


def _repeat_back(F, g, self_shape, repeats):
    if 0 in repeats:
        return F.zeros_of(g, self_shape)
    extra = len(repeats) - len(self_shape)
    shape: list[int] = []
    dims: list[int] = []
    for i, n in enumerate(repeats):
        dims.append(len(shape))
        shape.append(n)
        if i >= extra:
            shape.append(self_shape[i - extra])
    if not dims:
        return g
    return F.sum(F.reshape(g, tuple(shape)), tuple(dims))


structural(
    "repeat",
    lambda xp, self, repeats: xp.tile(self, repeats),
    vjp={"self": _repeat_back},
    batch=_repeat_slices,
    normalize=_normal_repeat,
    varargs="repeats",
    samples=lambda make: [
        Sample((make((2, 3)), (2, 1))),
        Sample((make((2,)), (3, 2))),
        Sample((make((2,)), (0,))),
    ],
    doc="The tensor repeated along each dimension; new dimensions come first.",
    spaces="",
)


@composite("tile", varargs="dims")
def _tile(F, self, dims: Sizes):
    """Repeated along dimensions; missing counts are 1."""
    return F.repeat(self, (1,) * (self.ndim - len(dims)) + dims)


@composite("repeat_interleave")
def _repeat_interleave(F, self, repeats, dim: int | None = None, *, output_size: int | None = None):
    """Each element (slice) repeated in place: a number of times, or as a tensor says."""
    if dim is None:
        self, dim = F.flatten(self), 0
    dim = wrap(dim, self.ndim)
    shape = tuple(self.shape)
    if isinstance(repeats, Tensor):
        if is_batchedtensor(repeats):
            raise dynamic_shape("repeat_interleave")
        counts = repeats._array.reshape(-1)
        if counts.size not in (1, shape[dim]):
            raise RuntimeError(
                "repeats must be 0-dim or 1-dim tensor with as many elements as dimension "
                f"{dim} has ({shape[dim]}), got {counts.size}"
            )
        xp = backend_of(counts).xp
        places = xp.repeat(xp.arange(shape[dim]), xp.broadcast_to(counts, (shape[dim],)).tolist())
        return F.index_select(self, dim, from_array(places))
    if repeats < 0:
        raise RuntimeError("Repeats must be non-negative")
    wide = (*shape[: dim + 1], repeats, *shape[dim + 1 :])
    copied = F.clone(F.expand(F.unsqueeze(self, dim + 1), wide), "C")
    return F.view_size(copied, (*shape[:dim], shape[dim] * repeats, *shape[dim + 1 :]))
