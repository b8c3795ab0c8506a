"""torch's names of ops, where the table has others, and what is none of torch's ops."""

from __future__ import annotations

_RENAMED = {
    "true_divide": "div",
    "cast": "to",
    "cross_entropy": "cross_entropy_loss",
    "nll_loss": "nll_loss_nd",
    "vector_norm": "linalg_vector_norm",
    "unsafe_view": "_unsafe_view",
}
_ATEN = frozenset(
    (
        *("native_layer_norm", "native_group_norm", "max_pool2d_with_indices", "im2col", "col2im"),
        *("max_pool3d_with_indices", "nll_loss_forward", "nll_loss2d_forward", "constant_pad_nd"),
        *("log_sigmoid_forward", "_ctc_loss", "unsafe_view", "upsample_nearest1d"),
        *("upsample_nearest2d", "upsample_nearest3d", "_upsample_nearest_exact1d"),
        *("_upsample_nearest_exact2d", "_upsample_nearest_exact3d", "upsample_linear1d"),
        *("upsample_bilinear2d", "upsample_trilinear3d", "upsample_bicubic2d"),
        *("_upsample_bilinear2d_aa", "_upsample_bicubic2d_aa"),
    )
)
"""Ops whose own name is torch's, although they have another public one."""
_TRANSPARENT = frozenset({"getitem", "norm", "interpolate"})
"""Python functions in torch, too: what they call is seen, they are not."""

METHODS = {
    "item": "item",
    "detach": "detach",
    "__rsub__": "rsub",
    "T": "numpy_T",
    "mT": "mT",
    "H": "matrix_H",
    "mH": "mH",
}
"""What tensors have beside the functions of the table: methods and properties."""
FUNCTIONS = (
    *("zeros", "ones", "empty", "full", "rand", "randn", "randint", "randperm", "arange", "eye"),
    *("linspace", "logspace", "zeros_like", "ones_like", "empty_like", "full_like", "rand_like"),
    *("randn_like", "randint_like", "scalar_tensor", "empty_strided", "fill_", "zero_"),
)
"""Functions of the table that are neither ops nor composites."""


def op_name(name: str, public: str) -> str | None:
    """The same of an op that is one of several of a public name."""
    return aten_of(name if name in _ATEN else public.replace(".", "_"))


def aten_of(name: str) -> str | None:
    """torch's name, without "aten::", of an op or composite of the table; None: it has none."""
    return None if name in _TRANSPARENT else _RENAMED.get(name, name)
