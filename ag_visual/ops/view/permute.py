"""The order and number of dimensions: transpose, permute, squeeze, unsqueeze, also in place.

See ops/view/reshape.py for what rules of views may ask for.
"""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from typing import Any

from ag_visual.arrays.backend import backend_of
from ag_visual.core import modes, saved as saved_fields, source, view
from ag_visual.core.dual import dual_of
from ag_visual.core.level import Wrapper
from ag_visual.core.source import warn
from ag_visual.core.tensor import Tensor, before_write, check_inplace, method, wrote
from ag_visual.dispatch.arguments import LEFT_OUT, Sizes, SomeDims, fitted, one_by_one
from ag_visual.dispatch.codegen.turn import turn
from ag_visual.dispatch.dims import sizes_of, wrap, wrap_all
from ag_visual.dispatch.families import view_op
from ag_visual.dispatch.geometry import geometry, start_at_base
from ag_visual.dispatch.interpreted import binder
from ag_visual.dispatch.memory import memory_of
from ag_visual.dispatch.record import ErrorSample, Sample
from ag_visual.dispatch.stated import Same
from ag_visual.dispatch.table import composite, ops
from ag_visual.dispatch.vmap import Batch, along
from ag_visual.events import instrument
from ag_visual.ops.view.reshape import back_to_shape

# The order of dimensions ------------------------------------------------------------------------


def _transpose(xp, self, dim0: int, dim1: int):
    return self.swapaxes(dim0, dim1) if self.ndim else self[...]


transpose = view_op(
    "transpose",
    _transpose,
    vjp={"self": lambda F, g, dim0, dim1: F.transpose(g, dim0, dim1)},
    normalize=lambda self, dim0, dim1: (wrap(dim0, self.ndim), wrap(dim1, self.ndim)),
    samples=lambda make: [
        Sample((make((2, 3, 4)), 0, -1)),
        Sample((make((2, 3)), 1, 0)),
        Sample((make(()), 0, 0)),
    ],
    errors=lambda make: [
        ErrorSample((make((2, 3)), 0, 2), IndexError, "Dimension out of range (expected to be")
    ],
    doc="Two dimensions exchanged, as a view.",
    symbol="ᵀ",
)


@composite("swapdims", view=True)
def _swapdims(F, self, dim0: int, dim1: int):
    """Another name of `transpose`."""
    return F.transpose(self, dim0, dim1)


@composite("swapaxes", view=True)
def _swapaxes(F, self, axis0: int, axis1: int):
    """Another name of `transpose`, with NumPy's names of its arguments."""
    return F.transpose(self, axis0, axis1)


def _permute(xp, self, dims: Sizes):
    return self.transpose(dims)


def _normal_dims(self, dims) -> tuple[Any, ...]:
    dims = sizes_of("permute", (dims,))
    if len(dims) != self.ndim:
        raise RuntimeError(
            "permute: number of dimensions in the tensor input does not match the length of the "
            f"desired ordering of dimensions i.e. input.dim() = {self.ndim} is not equal to "
            f"len(dims) = {len(dims)}"
        )
    found = tuple(wrap(d, self.ndim) for d in dims)
    if len(set(found)) != len(found):
        raise RuntimeError(f"permute(): duplicate dims are not allowed, got {list(dims)}.")
    return (found,)


def _inverse(dims: Sequence[int]) -> tuple[int, ...]:
    return tuple(sorted(range(len(dims)), key=dims.__getitem__))


permute = view_op(
    "permute",
    _permute,
    vjp={"self": lambda F, g, dims: F.permute(g, _inverse(dims))},
    batch=Same(dims=lambda dims: (0, *[d + 1 for d in dims])),
    normalize=_normal_dims,
    varargs="dims",
    samples=lambda make: [
        Sample((make((2, 3, 4)), (2, 0, 1))),
        Sample((make((2, 3)), (-1, 0))),
        Sample((make(()), ())),
    ],
    doc="The dimensions in another order, as a view.",
)


def _normal_t(self) -> tuple[()]:
    if self.ndim > 2:
        raise RuntimeError(
            f"t() expects a tensor with <= 2 dimensions, but self is {self.ndim}D; use "
            "transpose(dim0, dim1) or permute"
        )
    return ()


def _sibling(batch: Batch, name: str):
    """Another op of the same kind: a view, or a copy where this op is one."""
    return batch.on(name if batch.op.view else f"{name}_copy")


def _turn_slices(batch: Batch):
    dims = (1, 2) if batch.rank("self") == 2 else (0, 0)
    return _sibling(batch, "transpose")(batch["self"], *dims)


t = view_op(
    "t",
    lambda xp, self: self.T,
    vjp={"self": lambda F, g: F.t(g)},
    batch=Same("transpose", dim0=1, dim1=2, when=lambda rank: rank == 2, otherwise=_turn_slices),
    normalize=_normal_t,
    samples=lambda make: [Sample((make((2, 3)),)), Sample((make((3,)),))],
    errors=lambda make: [
        ErrorSample((make((2, 3, 4)),), RuntimeError, "t() expects a tensor with <= 2 dimensions")
    ],
    doc="A matrix transposed, as a view; a vector is itself.",
    symbol="ᵀ",
)


@composite("movedim", aliases=("moveaxis",), shape_only=True, view=True)
def _movedim(F, self, source: SomeDims, destination: SomeDims):
    """Dimensions moved to other places, the others in their order."""
    if isinstance(source, int) is not isinstance(destination, int):
        raise TypeError(
            f"movedim(): source and destination must both be int or both be tuple of ints, got "
            f"{source} and {destination}"
        )
    sources = (source,) if isinstance(source, int) else tuple(source)
    targets = (destination,) if isinstance(destination, int) else tuple(destination)
    if len(sources) != len(targets):
        raise RuntimeError(
            f"movedim: Invalid source or destination dims: source ({list(sources)} dims) should "
            f"contain the same number of dims as destination ({list(targets)} dims)"
        )
    ndim = self.ndim
    found = []
    for name, dims in (("source", sources), ("destination", targets)):
        wrapped = [wrap(d, ndim) for d in dims]
        if len(set(wrapped)) != len(wrapped):
            raise RuntimeError(f"movedim: repeated dim in `{name}` ({list(dims)})")
        found.append(wrapped)
    if ndim == 0:
        return F.alias(self)
    order = [d for d in range(ndim) if d not in found[0]]
    for to, from_ in sorted(zip(found[1], found[0], strict=True)):
        order.insert(to, from_)
    return F.permute(self, tuple(order))


def _turned(self: Tensor, name: str, only: bool = False) -> Tensor:
    """The transposed matrices; a tensor without dimensions is its own, as in torch."""
    if self._array.ndim == 0:
        instead = "This function is the identity in these cases."
        if name != "mT":
            instead = "Consider using x.conj()."
        text = f"Tensor.{name} is deprecated on 0-D tensors. {instead}"
        warn(text)
        return self
    if self._array.ndim != 2 if only else self._array.ndim < 2:
        what = "matrices (2-D tensors)" if only else "matrices or batches of matrices"
        raise RuntimeError(
            f"tensor.{name} is only supported on {what}. Got {self._array.ndim}-D tensor."
        )
    return transpose.call(self, -2, -1)  # type: ignore[no-any-return]


def _big_t(self: Tensor) -> Tensor:
    """The transposed matrix (for other numbers of dimensions, in reversed order)."""
    ndim = self._array.ndim
    if ndim not in (1, 2):
        warn(
            "The use of `x.T` on tensors of dimension other than 2 to reverse their shape is "
            "deprecated and it will throw an error in a future release. Consider `x.mT` to "
            "transpose batches of matrices or `x.permute(*torch.arange(x.ndim - 1, -1, -1))` to "
            "reverse the dimensions of a tensor."
        )
    return permute.call(self, tuple(range(ndim - 1, -1, -1)))


def _m_t(self: Tensor) -> Tensor:
    """The last two dimensions exchanged."""
    return _turned(self, "mT")


def _big_h(self: Tensor) -> Tensor:
    """The conjugate transposed of a matrix."""
    return _turned(self, "H", only=True).conj()


def _m_h(self: Tensor) -> Tensor:
    """The last two dimensions exchanged and conjugated."""
    return _turned(self, "mH").conj()


for _name, _getter in (("T", _big_t), ("mT", _m_t), ("H", _big_h), ("mH", _m_h)):
    setattr(Tensor, _name, property(_getter))


@composite("adjoint", symbol="ᵀ")
def _adjoint(F, self):
    """The last two dimensions exchanged and conjugated."""
    if self.ndim == 1:
        raise RuntimeError(
            "tensor.adjoint() is only supported on matrices or batches of matrices. Got 1-D tensor."
        )
    return F.conj(F.transpose(self, -2, -1) if self.ndim else self)


# Dimensions of size one -------------------------------------------------------------------------


def _squeeze_all(xp, self):
    return self.reshape(tuple(n for n in self.shape if n != 1))


def _squeeze_dim(xp, self, dim: int):
    if self.ndim == 0 or self.shape[dim] != 1:
        return self[...]
    return self[(slice(None),) * dim + (0, ...)]


def _squeeze_dims(xp, self, dim):
    return self[
        (*tuple(0 if i in dim and n == 1 else slice(None) for i, n in enumerate(self.shape)), ...)
    ]


def _normal_dim(self, dim) -> tuple[int]:
    return (wrap(dim, self.ndim),)


def _normal_several(self, dim) -> tuple[Any, ...]:
    return (wrap_all(dim, self.ndim),)


def _squeeze_samples(*arguments):
    return lambda make: [
        Sample((make(shape), *arguments)) for shape in ((1, 3, 1, 2), (1, 1), (2, 1))
    ]


_SQUEEZES = (
    ("squeeze_all", _squeeze_all, None, "SqueezeBackward0", _squeeze_samples()),
    ("squeeze_dim", _squeeze_dim, _normal_dim, "SqueezeBackward1", _squeeze_samples(-2)),
    ("squeeze_dims", _squeeze_dims, _normal_several, "SqueezeBackward2", _squeeze_samples((0, -1))),
)


def _squeeze_slices(batch: Batch):
    dims = tuple(i + 1 for i, n in enumerate(batch.shape("self")) if n == 1)
    return _sibling(batch, "squeeze_dims")(batch["self"], dims)


for _name, _kernel, _normal, _node, _samples in _SQUEEZES:
    view_op(
        _name,
        _kernel,
        vjp={"self": back_to_shape},
        batch=_squeeze_slices if _name == "squeeze_all" else along,
        normalize=_normal,
        public=False,
        public_name="squeeze",
        node=_node,
        also_saves=() if _normal is None else ("dim",),
        samples=_samples,
    )


@composite("squeeze", varargs="dim", shape_only=True, view=True)
def _squeeze(F, self, dim: SomeDims = LEFT_OUT):
    """Without the dimensions of size one (all, or those named)."""
    if dim is None:
        return F.squeeze_all(self)
    if isinstance(dim, tuple):
        return F.squeeze_dims(self, dim)
    return F.squeeze_dim(self, dim)


def _unsqueeze(xp, self, dim: int):
    return self[(slice(None),) * dim + (None,)]


def _unsqueeze_samples(make):
    for dim in (0, 1, -1):
        yield Sample((make((2, 3)), dim))
    yield Sample((make(()), 0))


unsqueeze = view_op(
    "unsqueeze",
    _unsqueeze,
    vjp={"self": lambda F, g, dim: F.squeeze_dim(g, dim)},
    batch=Same(dim=lambda dim: dim + 1),
    normalize=lambda self, dim: (wrap(dim, self.ndim + 1),),
    samples=_unsqueeze_samples,
    errors=lambda make: [
        ErrorSample((make((2, 3)), 3), IndexError, "expected to be in range of [-3, 2], but got 3")
    ],
    doc="A new dimension of size 1 at `dim`, as a view.",
)


# In place: the tensor itself gets another geometry ----------------------------------------------


def _in_place(variant: str, name: str, node_name: str) -> None:
    """`variant`: rebind a tensor's geometry by the view op `name`; memory is not written."""
    record = ops[name]
    bind = binder(record, variant)
    node_class = type(node_name, (record.node_class,), {"__slots__": ()})

    def call(self: Tensor, *args, **named) -> Tensor:
        args = fitted(variant, record, tuple(bind((self, *args), named)[1:]))
        if isinstance(self, Wrapper):
            return self.turn(record.call, variant, args)
        known = dual_of(self) if modes.duals else None
        before_write(self)
        tracked = modes.grad_enabled() and self.requires_grad
        if tracked:
            check_inplace(self, variant)
        if record.normalize is not None:
            args = tuple(record.normalize(self._array, *args))
        array = record.view_array(backend_of(self._array).xp, self._array, args)
        node = None
        if tracked:
            meta = (array.shape, array.dtype)
            node = node_class().start((self.gradient_edge(),), (meta,))
            for field in record.values:
                setattr(node, f"a_{field}", args[record.arguments.index(field)])
            for fact in record.shapes:
                setattr(node, f"h_{fact}", self._array.shape)
        seen, old = self._view, self._array
        wrote(self, variant)
        if seen is not None:
            # Of a write that nobody recorded this is one more: grad_fn is to follow the base.
            snapshot = self._storage.snapshot if tracked else seen.snapshot
            self._view = view.View(seen.base, seen, record, args, snapshot, seen.meta, old)
            self._view.own, self._view.made = seen.own, source.here()
        else:
            self.__dict__[view.TURNED] = self._storage.snapshot[0]
        if node is not None:  # first: gradients of what it was do not fit the new geometry
            before = self._edge
            self._edge = node.edge()
            view.move_retain_grad(self, before)
        self._exchange(array, memory_of(self))
        if node is not None and instrument.sink is not None:
            saved_fields.report_node(node)
        if known is not None:
            level, tangent = known
            level.give(self, record.call(tangent, *args))
        return self

    built = turn(record, variant, node_class, call)
    built.__doc__ = (
        f"`{variant[:-1]}` of this very tensor: its geometry changes, its memory does not."
    )
    setattr(Tensor, variant, built)


_in_place("t_", "t", "TBackward1")
_in_place("transpose_", "transpose", "TransposeBackward1")
_in_place("swapaxes_", "transpose", "TransposeBackward1")
_in_place("swapdims_", "transpose", "TransposeBackward1")
_in_place("unsqueeze_", "unsqueeze", "UnsqueezeBackward1")
_in_place("_squeeze_all_", "squeeze_all", "SqueezeBackward3")
_in_place("_squeeze_dim_", "squeeze_dim", "SqueezeBackward4")
_in_place("_squeeze_dims_", "squeeze_dims", "SqueezeBackward5")


_in_place("_as_strided_from_", "as_strided_from", "AsStridedBackward1")


@method("as_strided_")
def _as_strided_(self: Tensor, size, stride, storage_offset: int | None = None) -> Tensor:
    """`as_strided` of this very tensor: its geometry changes, its memory does not.

    Raises RuntimeError for a geometry that leaves the memory.
    """
    args = geometry("as_strided_", self, size, stride, storage_offset)
    self._as_strided_from_(*args)
    if self._view is not None:
        start_at_base(self, self._view, args)
    return self


_SQUEEZED = inspect.signature(_squeeze.__wrapped__).parameters["dim"]


@method("squeeze_")
def _squeeze_(self: Tensor, *dim, **named) -> Tensor:
    """`squeeze` of this very tensor: its geometry changes, its memory does not."""
    dims = one_by_one("squeeze_", _SQUEEZED, dim, named)
    if dims is None:
        return self._squeeze_all_()
    return self._squeeze_dims_(dims) if isinstance(dims, tuple) else self._squeeze_dim_(dims)
