"""In-place writes that replace values: copy_, fill_, zero_. What was there gets zero gradient."""

from __future__ import annotations

import numpy

from ag_visual import dtypes
from ag_visual.arrays.backend import is_array
from ag_visual.arrays.kernels.order import empty_as
from ag_visual.core.source import warn
from ag_visual.core.tensor import Tensor, from_array
from ag_visual.dispatch.arguments import NUMBERS
from ag_visual.dispatch.families import zeros
from ag_visual.dispatch.memory_overlap import ALLOWED, unless_itself
from ag_visual.dispatch.overflow import check_overflow
from ag_visual.dispatch.record import LINEAR, Op, Sample
from ag_visual.dispatch.table import composite, function, op
from ag_visual.dispatch.vmap import Batch
from ag_visual.errors import type_name
from ag_visual.ops.tensor.cast import cast_array


def _nothing(F, g):
    return F.zeros_of(g)


def _stands_still(F, t_self):
    return zeros(F, t_self)


def number_for(value, array):
    """A number in the dtype of an array, refused where torch refuses it."""
    if isinstance(value, numpy.generic) and value.dtype == array.dtype:
        return value  # at a level below it is asked for again; NumPy's own has no bfloat16
    if not isinstance(value, NUMBERS):
        raise TypeError(
            f"can't assign a {type_name(value)} to a "
            f"torch.{dtypes.legacy_name(dtypes.of_array(array))}: pass a number or a Tensor"
        )
    kind = dtypes.of_array(array)
    check_overflow(value, kind)
    return cast_array(numpy.asarray(value), array.dtype)[()]


def by_kind(value, tensor_op: str, number_op: str) -> str:
    """Which of two ops serves a value: the one for tensors, or the one for numbers."""
    return tensor_op if isinstance(value, Tensor) or is_array(value) else number_op


def zero_dim(name: str, value) -> None:
    """Refuse a value with dimensions."""
    if value.ndim:
        raise RuntimeError(
            f"{name} only supports a 0-dimensional value tensor, but got tensor with {value.ndim} "
            "dimension(s)."
        )


def _filling(batch: Batch):
    """Every slice of the target, with the slices of the source aligned to it."""
    target, *sources = batch.tensors
    changed = {n: batch.padded(n, batch.rank(target)) for n in sources}
    if "value" in sources and "value" in batch:
        return batch.on("copy_values")(batch.full(target), changed["value"])
    return batch.run(**{target: batch.full(target)}, **changed)


def _copy_into(xp, self, src) -> None:
    self[...] = src.real if src.dtype.kind == "c" and self.dtype.kind not in "cb" else src


def _copied(xp, self, src):
    result = empty_as(xp, self)
    _copy_into(xp, result, src)
    return result


def _fits_into(self, src) -> tuple[()]:
    want, have = self.shape, src.shape
    for dim in range(-1, -len(have) - 1, -1):
        if -dim > len(want) or have[dim] not in (1, want[dim]):
            into = want[dim] if -dim <= len(want) else 1
            raise RuntimeError(
                f"The size of tensor a ({into}) must match the size of tensor b ({have[dim]}) at "
                f"non-singleton dimension {max(len(want), len(have)) + dim}: copy_ cannot write a "
                f"source of shape {list(have)} into shape {list(want)}"
            )
    return ()


_copy = op(
    "copy_values",
    _copied,
    doc="The values of `src` in place of those of `self`: what `self` held gets no gradient.",
    vjp={"self": _nothing, "src": lambda g: g},  # the edge sums and casts
    jvp=LINEAR,
    inplace=_copy_into,
    vmap_inplace="inplace arithmetic",
    repeated=unless_itself,
    normalize=_fits_into,
    public=False,
    public_name="copy",
    node="CopyBackwards",
    holomorphic=False,
    batch=_filling,
    samples=lambda make: [Sample((make((2, 3)), make((2, 3))))],
    oracle=lambda torch, self, src, *_: self.clone().copy_(src),
)


def copy_(self: Tensor, src, non_blocking: bool = False) -> Tensor:
    """Write the values of `src` (broadcast, and converted in dtype and device) into this tensor."""
    array = self._array
    if not isinstance(src, Tensor):
        src = from_array(numpy.asarray(number_for(src, array)))
    if src._array.dtype.kind == "c" and array.dtype.kind not in "cb":
        warn("Casting complex values to real discards the imaginary part")
    if type(src._array) is not type(array):
        src = src.to(self.device)  # type: ignore[attr-defined]
    return _copy.write(self, src)  # type: ignore[no-any-return]


Tensor.copy_ = copy_  # type: ignore[attr-defined]


def _fill_into(xp, self, value) -> None:
    self[...] = value


def _filled(xp, self, value):
    result = empty_as(xp, self)
    result[...] = value
    return result


def _fills(suffix: str, nodes: tuple[str, str], write, oracle) -> tuple[Op, Op]:
    """Filling with a number and with a 0-d tensor."""
    number = op(
        f"fill_number{suffix}",
        _filled,
        vjp={"self": _nothing},
        jvp={"self": _stands_still},
        inplace=write,
        repeated=ALLOWED,
        batch=_filling,
        public=False,
        public_name="fill",
        node=nodes[0],
        holomorphic=False,
        samples=lambda make: [Sample((make((2, 3)), 1.5))],
        oracle=oracle,
    )
    tensor = op(
        f"fill_tensor{suffix}",
        _filled,
        vjp={"self": _nothing, "value": lambda F, g: F.sum(g)},
        jvp={
            "self": _stands_still,
            "value": lambda F, t_value, self_shape: F.expand(t_value, self_shape),
        },
        may_alias=("value",),
        inplace=write,
        vmap_inplace="fill_",
        batch=_filling,
        public=False,
        public_name="fill",
        node=nodes[1],
        holomorphic=False,
        samples=lambda make: [Sample((make((2, 3)), make(())))],
        oracle=oracle,
    )
    return number, tensor


# torch's nodes of `fill` and `fill_` differ in name.
_fill_number, _fill_tensor = _fills(
    "",
    ("FillBackward2", "FillBackward3"),
    _fill_into,
    lambda torch, self, value: self.clone().fill_(value),
)
_fills("_new", ("FillBackward0", "FillBackward1"), False, None)
_zero = op(
    "zero_values",
    lambda xp, self: _filled(xp, self, 0),
    doc="Zeros in place of what was there, which gets no gradient.",
    vjp={"self": _nothing},
    inplace=lambda xp, self: _fill_into(xp, self, 0),
    repeated=ALLOWED,
    jvp={"self": _stands_still},
    public=False,
    public_name="zero",
    node="ZeroBackward0",
    holomorphic=False,
    batch=_filling,
    samples=lambda make: [Sample((make((2, 3)),))],
)


def _fill_value(self, value):
    """A number that the dtype of `self` can hold, or a 0-d tensor in its dtype."""
    if not isinstance(value, Tensor):
        return number_for(value, self._array)
    if value._array.ndim:
        raise RuntimeError(
            "fill_ only supports 0-dimension value tensor but got tensor with "
            f"{value._array.ndim} dimensions."
        )
    if value._array.dtype != self._array.dtype or type(value._array) is not type(self._array):
        return value.to(device=self.device, dtype=self.dtype)  # type: ignore[attr-defined]
    return value


def fill_(self: Tensor, value) -> Tensor:
    """Write one number, or the value of a 0-d tensor, everywhere."""
    value = _fill_value(self, value)
    record = _fill_tensor if isinstance(value, Tensor) else _fill_number
    return record.write(self, value)  # type: ignore[no-any-return]


@composite("fill", method=False)
def _fill(F, self, value):
    """One number, or the value of a 0-d tensor, in the shape and dtype of `self`."""
    value = _fill_value(self, value)
    return (F.fill_tensor_new if isinstance(value, Tensor) else F.fill_number_new)(self, value)


def zero_(input: Tensor) -> Tensor:
    """Write zeros everywhere."""
    return _zero.write(input)  # type: ignore[no-any-return]


def fill_diagonal_(self: Tensor, fill_value, wrap: bool = False) -> Tensor:
    """Write one number along the main diagonal; wrap: of a tall matrix, again below it."""
    shape = self._array.shape
    if len(shape) < 2:
        raise RuntimeError("dimensions must larger than 1")
    if len(shape) > 2 and len(set(shape)) > 1:
        raise RuntimeError(
            f"all dimensions of input must be of equal length, but the shape is {list(shape)}"
        )
    steps = sum(self.stride())
    count = min(shape)
    self.as_strided((count,), (steps,)).fill_(fill_value)  # type: ignore[attr-defined]
    if wrap and len(shape) == 2:
        rows, columns = shape
        for start in range(columns + 1, rows, columns + 1):
            rest = self[start : start + columns]  # type: ignore[index]
            rest.fill_diagonal_(fill_value)
    return self


for _write in (fill_, zero_):
    function(method=True)(_write)
Tensor.fill_diagonal_ = fill_diagonal_  # type: ignore[attr-defined]
