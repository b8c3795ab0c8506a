"""The copying forms of views: `<view>_copy`, each derived from its view op; unsafe_split, too.

A copy has the view's kernel, arguments, derivative and samples; its node bears the view's name and
"_copy", as torch's.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from ag_visual import dtypes
from ag_visual.core.level import is_batchedtensor
from ag_visual.dispatch.arguments import DType, checked, kind_named
from ag_visual.dispatch.geometry import geometry
from ag_visual.dispatch.record import LINEAR, ErrorSample, Op, Sample
from ag_visual.dispatch.table import composite, op, ops

# These declare the views.
from ag_visual.ops.tensor import cast  # noqa: F401
from ag_visual.ops.view import permute, reshape  # noqa: F401
from ag_visual.ops.view.as_strided import strided_forward
from ag_visual.ops.view.slice import limits, start_of
from ag_visual.ops.view.split import chunk_size


def _derived(
    view: str, name: str, node: str, read: Callable[..., Any], *, called: str, **options
) -> Op:
    """An op with a view op's arguments, derivative and samples; `read` takes its array(s)."""
    record = ops[view]

    def kernel(xp, self, *args):
        found = record.view_array(xp, self, args)
        return list(map(read, found)) if record.multi else read(found)

    if callable(record.kernel):
        kernel.__signature__ = inspect.signature(record.kernel)  # type: ignore[attr-defined]
    options.setdefault("public", name == called)
    options.setdefault("layout_dependent", record.layout_dependent)
    return op(
        name,
        options.pop("kernel", kernel),
        vjp={rule.inputs[0]: rule.function for rule in record.rules} or None,
        jvp=options.pop("jvp", LINEAR),
        batch=record.batch,
        holomorphic=False,
        inputs=record.inputs,
        outputs="list" if record.multi else record.outputs,
        normalize=record.normalize,
        public_name=called,
        node=node,
        also_saves=record.also_saves,
        real_only=record.real_only,
        samples=record.samples,
        errors=record.errors,
        **options,
    )


def _copy(view: str, called: str = "", **options) -> None:
    called = called or f"{view}_copy"
    node = f"{ops[view].node_name}_copy"
    public = called.removesuffix("_copy")
    options.setdefault("doc", f"`{public}`, as a copy that shares no memory with the tensor.")
    _derived(view, f"{view}_copy", node, lambda x: x.copy(), called=called, method=False, **options)


for _name in ("alias", "diagonal", "expand", "permute", "select", "slice", "split_with_sizes"):
    _copy(_name)
for _name in ("t", "transpose", "unbind", "unfold", "unsqueeze", "view_as_real"):
    _copy(_name)
# torch has no derivative of this one.
_copy("view_as_complex", oracle=False)
_copy("split_even", "split_copy")
for _name in ("squeeze_all", "squeeze_dim", "squeeze_dims"):
    _copy(_name, "squeeze_copy")
_copy(
    "as_strided_from",
    "as_strided_copy",
    jvp={"self": strided_forward},
    not_exposed=("input_geometry",),
    oracle=lambda torch, self, *geometry: torch.as_strided_copy(self, *geometry[:3]),
)
_copy(
    "view_size",
    "view_copy",
    kernel=lambda xp, self, size: self.reshape(size).copy(),
    layout_dependent=False,
)
_copy("view_dtype", "view_copy")


@composite("split_copy", method=False)
def _split_copy(F, self, split_size: int, dim: int = 0):
    """Parts of a dimension, of one size but for the last, as copies."""
    return F.split_even_copy(self, split_size, dim)


@composite("squeeze_copy", method=False, out=True)
def _squeeze_copy(F, self, dim=None):
    """Without the dimensions of size one (all, or those named), as a copy."""
    if dim is None:
        return F.squeeze_all_copy(self)
    if isinstance(dim, (tuple, list)):
        return F.squeeze_dims_copy(self, tuple(dim))
    return F.squeeze_dim_copy(self, dim)


@composite("as_strided_copy", method=False, out=True)
def _as_strided_copy(F, self, size, stride, storage_offset: int | None = None):
    """What `as_strided` sees, as a copy."""
    if is_batchedtensor(self):
        return F.clone(F.as_strided(self, size, stride, storage_offset))
    return F.as_strided_from_copy(self, *geometry("as_strided", self, size, stride, storage_offset))


@composite("view_copy", method=False, out=True)
def _view_copy(F, self, size=None, *, dtype: DType | None = None):
    """The same elements in another shape, or their bytes as another dtype, as a copy."""
    kind = size if isinstance(size, dtypes.dtype) else dtype
    if kind is not None:
        return F.view_dtype_copy(self, kind.np)
    return F.view_size_copy(self, checked("view_copy", "size", kind_named("Sizes"), size))


def _narrowed(xp, self, dim: int, start: int, length: int):
    return self[(slice(None),) * dim + (slice(start, start + length),)].copy()


def _narrow_samples(make):
    yield Sample((make((4, 3)), 0, 1, 2))
    yield Sample((make((2, 5)), -1, 3, 2))
    yield Sample((make((2, 5)), -1, -2, 2), oracle=False)  # torch's backward fails


op(
    "narrow_copy",
    _narrowed,
    vjp={
        "self": lambda F, g, self_shape, dim, start, length: F.slice_backward(
            g, self_shape, dim, start, start + length, 1
        )
    },
    jvp=LINEAR,
    holomorphic=False,
    normalize=lambda self, dim, start, length: limits("narrow", self, dim, start_of(start), length),
    samples=_narrow_samples,
    errors=lambda make: [
        ErrorSample((make((2, 3)), 0, 1, 5), RuntimeError, "exceeds dimension size (2)")
    ],
    doc="`length` elements of a dimension from `start` on, as a copy.",
)


# Parts that are not views to autograd ------------------------------------------------------------


def _as_is(part):
    return part


_derived(
    "split_even",
    "unsafe_split",
    "UnsafeSplitBackward0",
    _as_is,
    called="unsafe_split",
    may_donate=True,
    doc="`split` whose parts are not views to autograd: write either them or the tensor.",
)
_derived(
    "split_with_sizes",
    "unsafe_split_with_sizes",
    "UnsafeSplitWithSizesBackward0",
    _as_is,
    called="unsafe_split_with_sizes",
    may_donate=True,
    doc="`split_with_sizes` whose parts are not views to autograd: write them or the tensor.",
)


@composite("unsafe_chunk")
def _unsafe_chunk(F, self, chunks: int, dim: int = 0):
    """`chunk` whose parts are not views to autograd: write either them or the tensor."""
    step = chunk_size(self, chunks, dim)
    if step == 0:
        return F.unsafe_split_with_sizes(self, (0,) * chunks, dim)
    return F.unsafe_split(self, step, dim)
