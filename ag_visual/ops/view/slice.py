"""Parts of a tensor as views: select, slice, narrow, unfold, and their inverses.

See ops/view/reshape.py for what rules of views may ask for.
"""

from __future__ import annotations

from operator import index as as_index

from ag_visual.arrays.backend import of_namespace
from ag_visual.arrays.kernels.order import copied
from ag_visual.core.tensor import Tensor
from ag_visual.dispatch.dims import wrap
from ag_visual.dispatch.families import structural, view_op
from ag_visual.dispatch.record import ErrorSample, Sample
from ag_visual.dispatch.table import composite, ops
from ag_visual.dispatch.vmap import Batch, along

# Selecting --------------------------------------------------------------------------------------


def _select(xp, self, dim: int, index: int):
    return self[(slice(None),) * dim + (index, ...)]


def _normal_select(self, dim, index) -> tuple[int, int]:
    if self.ndim == 0:
        raise IndexError("select() cannot be applied to a 0-dim tensor.")
    dim = wrap(dim, self.ndim)
    size = self.shape[dim]
    index = as_index(index)
    if not -size <= index < size:
        raise IndexError(
            f"select(): index {index} out of range for tensor of size {list(self.shape)} at "
            f"dimension {dim}"
        )
    return dim, index + size if index < 0 else index


select = view_op(
    "select",
    _select,
    vjp={"self": lambda F, g, self_shape, dim, index: F.select_backward(g, self_shape, dim, index)},
    normalize=_normal_select,
    samples=lambda make: [
        Sample((make((2, 3, 4)), 0, 1)),
        Sample((make((2, 3, 4)), -1, -2)),
        Sample((make((3,)), 0, 0)),
    ],
    errors=lambda make: [
        ErrorSample((make((2, 3)), 0, 2), IndexError, "index 2 out of range for tensor of size"),
        ErrorSample((make(()), 0, 0), IndexError, "cannot be applied to a 0-dim tensor"),
    ],
    doc="The slice `index` of `dim`, as a view without that dimension.",
)


def _select_backward(xp, self, input_sizes, dim: int, index: int):
    result = xp.zeros(input_sizes, dtype=self.dtype)
    result[(slice(None),) * dim + (index,)] = self
    return result


structural(
    "select_backward",
    _select_backward,
    vjp={"self": lambda F, g, dim, index: F.select(g, dim, index)},
    public=False,
    samples=lambda make: [Sample((make((2, 4)), (2, 3, 4), 1, 2))],
)


def _slice(xp, self, dim: int = 0, start=None, end=None, step: int = 1):
    return self[(slice(None),) * dim + (slice(start, end, step),)]


def _normal_slice(self, dim=0, start=None, end=None, step=1) -> tuple[int, ...]:
    if self.ndim == 0:
        raise IndexError("slice() cannot be applied to a 0-dim tensor.")
    dim = wrap(dim, self.ndim)
    if step <= 0:
        raise RuntimeError("slice step must be positive")
    size = self.shape[dim]
    start, end, step = slice(start, end, step).indices(size)
    return dim, start, max(start, end), step


slice_op = view_op(
    "slice",
    _slice,
    doc="The elements `start:end:step` of one dimension, as a view.",
    vjp={
        "self": lambda F, g, self_shape, dim, start, end, step: F.slice_backward(
            g, self_shape, dim, start, end, step
        )
    },
    normalize=_normal_slice,
    public=False,
    samples=lambda make: [
        Sample((make((4, 3)), 0, 1, 3, 1)),
        Sample((make((4, 5)), 1, -4, None, 2)),
        Sample((make((4, 5)), 1, 3, 2, 1)),
    ],
    part=lambda index, dim, start, end, step: (dim, start, end - start),
)


def _slice_backward(xp, self, input_sizes, dim: int, start: int, end: int, step: int):
    result = xp.zeros(input_sizes, dtype=self.dtype)
    result[(slice(None),) * dim + (slice(start, end, step),)] = self
    return result


structural(
    "slice_backward",
    _slice_backward,
    vjp={"self": lambda F, g, dim, start, end, step: F.slice(g, dim, start, end, step)},
    public=False,
    samples=lambda make: [Sample((make((2, 2)), (2, 5), 1, 1, 4, 2))],
)


def limits(name: str, self, dim, start: int, length: int) -> tuple[int, int, int]:
    """Dimension, start and length of a narrow, checked and counted from the front."""
    if self.ndim == 0:
        raise RuntimeError(f"{name}() cannot be applied to a 0-dim tensor.")
    dim = wrap(dim, self.ndim)
    size = self.shape[dim]
    if length < 0:
        raise RuntimeError(f"{name}(): length must be non-negative.")
    if not -size <= start <= size:
        raise IndexError(
            f"start out of range (expected to be in range of [{-size}, {size}], but got {start})"
        )
    start += size if start < 0 else 0
    if start + length > size:
        raise RuntimeError(f"start ({start}) + length ({length}) exceeds dimension size ({size}).")
    return dim, start, length


def start_of(start) -> int:
    """Where a part starts: an int, or a 0-d tensor of integers."""
    if isinstance(start, Tensor) and (start.ndim or start._array.dtype.kind not in "iu"):
        raise RuntimeError("start must be an 0-dim integral Tensor.")
    return as_index(start)


@composite("narrow", view=True)
def _narrow(F, self, dim: int, start, length: int):
    """`length` elements of a dimension from `start` on."""
    dim, start, length = limits("narrow", self, dim, start_of(start), length)
    return F.slice(self, dim, start, start + length, 1)


def _windows(xp, self, dimension: int, size: int, step: int):
    if self.ndim == 0:
        return self.reshape(1)[:size]
    count = (self.shape[dimension] - size) // step + 1
    stride = self.strides[dimension]
    shape = (*self.shape[:dimension], count, *self.shape[dimension + 1 :], size)
    strides = (*self.strides[:dimension], stride * step, *self.strides[dimension + 1 :], stride)
    return of_namespace(xp).as_strided(self, shape, strides)


def _normal_windows(self, dimension, size: int, step: int) -> tuple[int, int, int]:
    dim = wrap(dimension, self.ndim)
    longest = self.shape[dim] if self.ndim else 1
    if size > longest:
        raise RuntimeError(
            f"maximum size for tensor at dimension {dim} is {longest} but size is {size}"
        )
    if size < 0:
        raise RuntimeError(f"size is {size} but must be >= 0")
    if step <= 0:
        raise RuntimeError(f"step is {step} but must be > 0")
    return dim, size, step


view_op(
    "unfold",
    _windows,
    spaces="",  # torch.nn.functional has another function of that name
    vjp={
        "self": lambda F, g, self_shape, dimension, size, step: F.unfold_backward(
            g, self_shape, dimension, size, step
        )
    },
    normalize=_normal_windows,
    samples=lambda make: [
        Sample((make((5, 2)), 0, 3, 1)),
        Sample((make((2, 7)), 1, 2, 3)),
        Sample((make(()), 0, 1, 1)),
    ],
    doc="Windows of `size` elements of a dimension, each `step` further, in a last dimension.",
)


def _unfolded_slices(batch: Batch):
    """A slice without dimensions has given all of itself to each window."""
    return along(batch) if batch["input_sizes"] else batch.F.sum(batch["self"], (1,))


def _unfold_backward(xp, self, input_sizes, dim: int, size: int, step: int):
    result = xp.zeros(input_sizes, dtype=self.dtype)
    if not input_sizes:
        return result + self.reshape(-1).sum()
    count = self.shape[dim]
    for j in range(size):
        at = (slice(None),) * dim + (slice(j, j + step * (count - 1) + 1, step),)
        result[at] += self[..., j]
    return result


structural(
    "unfold_backward",
    _unfold_backward,
    vjp={"self": lambda F, g, dim, size, step: F.unfold(g, dim, size, step)},
    public=False,
    batch=_unfolded_slices,
    samples=lambda make: [Sample((make((3, 2, 3)), (5, 2), 0, 3, 1))],
)


# Arbitrary strides ------------------------------------------------------------------------------


def replacer(reader: str, order: str = "K"):
    """A kernel: a copy of self with `src` at the place that the view op reads."""
    read = ops[reader]

    def write(xp, self, src, *args):
        result = copied(xp, self) if order == "K" else xp.array(self, order=order, copy=True)
        place = read.view_array(xp, result, args)
        if place.shape != src.shape:
            raise RuntimeError(
                "expected src to have a size equal to the slice of self. src size = "
                f"{list(src.shape)}, slice size = {list(place.shape)}"
            )
        place[...] = src
        return result

    return write


_selected, _sliced = map(replacer, ("select", "slice"))
structural(
    "select_scatter",
    lambda xp, self, src, dim, index: _selected(xp, self, src, dim, index),
    vjp={
        "self": lambda F, g, src_shape, dim, index: F.select_scatter(
            g, F.zeros_of(g, src_shape), dim, index
        ),
        "src": lambda F, g, dim, index: F.select(g, dim, index),
    },
    normalize=lambda self, src, dim, index: ops["select"].normalize(self, dim, index),
    samples=lambda make: [Sample((make((2, 3)), make((2,)), 1, -1))],
    doc="`self` with `src` written to the slice `index` of `dim`.",
)
structural(
    "slice_scatter",
    lambda xp, self, src, dim=0, start=None, end=None, step=1: _sliced(
        xp, self, src, dim, start, end, step
    ),
    vjp={
        "self": lambda F, g, src_shape, dim, start, end, step: F.slice_scatter(
            g, F.zeros_of(g, src_shape), dim, start, end, step
        ),
        "src": lambda F, g, dim, start, end, step: F.slice(g, dim, start, end, step),
    },
    normalize=lambda self, src, *args: ops["slice"].normalize(self, *args),
    samples=lambda make: [Sample((make((2, 5)), make((2, 2)), 1, 0, 4, 2))],
    doc="`self` with `src` written to [start:end:step] of `dim`.",
)
