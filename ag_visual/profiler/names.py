"""torch's names of ops, where the table has others, and what is none of torch's ops."""

from __future__ import annotations

_RENAMED = {
    "true_divide": "div",
    "cast": "to",
    "cross_entropy": "cross_entropy_loss",
    "nll_loss": "nll_loss_nd",
    "vector_norm": "linalg_vector_norm",
    "unsafe_view": "_unsafe_view",
    "softmax_layer": "softmax",
    "log_softmax_layer": "log_softmax",
    "logsigmoid": "log_sigmoid",
    "dropout1d": "feature_dropout",
    "dropout2d": "feature_dropout",
    "dropout3d": "feature_dropout",
    "grid_sample": "grid_sampler",
    "affine_grid": "affine_grid_generator",
    "im2col_unfold": "im2col",
    "fold": "col2im",
    "lu": "_lu_with_info",
    "conj": "_conj",
    "unique_values": "_unique2",
    "unique_in_row": "unique_consecutive",
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
        *("unique_values", "unique_dim", "unique_in_row"),
    )
)
"""Ops whose own name is torch's, although they have another public one."""
_TRANSPARENT = frozenset(
    (
        *("getitem", "norm", "interpolate", "upsample", "upsample_nearest", "upsample_bilinear"),
        *("normalize", "local_response_norm", "softmin", "softsign", "tanhshrink", "unique"),
        *("lp_pool1d", "lp_pool2d", "lp_pool3d", "max_unpool1d", "gaussian_nll_loss"),
        *("multilabel_soft_margin_loss", "triplet_margin_with_distance_loss", "split"),
        *("linear_cross_entropy", "svd_lowrank", "pca_lowrank"),
    )
)
"""Python functions in torch, too: what they call is seen, they are not."""
SILENT = frozenset({"contiguous", "conj"})
"""Composites without a span where they return what they were given."""

METHODS = {
    "item": "item",
    "detach": "detach",
    "__rsub__": "rsub",
    "T": "numpy_T",
    "mT": "mT",
    "H": "matrix_H",
    "mH": "mH",
    "to": "to",
    **dict.fromkeys(
        (
            *("bool", "byte", "char", "short", "int", "long", "half", "bfloat16", "float"),
            *("double", "cfloat", "cdouble"),
        ),
        "to",
    ),
    "type_as": "type_as",
    "__bool__": "is_nonzero",
    **dict.fromkeys(("__float__", "__int__", "__complex__", "__index__"), "item"),
    "new_zeros": "new_zeros",
    "new_ones": "new_ones",
    "new_empty": "new_empty",
    "new_empty_strided": "new_empty_strided",
    "new_full": "new_full",
    "resize_": "resize_",
}
"""What tensors have beside the functions of the table: methods and properties."""
_CREATION = (
    *("zeros", "ones", "empty", "full", "rand", "randn", "randint", "randperm", "arange", "eye"),
    *("linspace", "logspace", "zeros_like", "ones_like", "empty_like", "full_like", "rand_like"),
    *("randn_like", "randint_like", "scalar_tensor", "empty_strided", "normal", "empty_permuted"),
    *("triu_indices", "tril_indices", "hann_window", "hamming_window", "bartlett_window"),
    *("blackman_window", "kaiser_window"),
)
FUNCTIONS = (*_CREATION, "fill_", "zero_", "histogramdd", "resize_as_")
"""Functions of the table that are neither ops nor composites."""
OF_DATA = ("tensor", "as_tensor", "asarray", "from_numpy", "frombuffer", "from_dlpack")
"""Functions of the table that make tensors of data: no ops, but what they make takes memory."""
NEVER_RECORDED = frozenset(
    (
        "torch::autograd::AccumulateGrad",
        "autograd::engine::evaluate_function: torch::autograd::AccumulateGrad",
        *(f"aten::{name}" for name in _CREATION),
    )
)
"""What no graph ever holds as an op: in torch it has no sequence number."""


def op_name(name: str, public: str) -> str:
    """The same of an op that is one of several of a public name."""
    found = name if name in _ATEN else public.replace(".", "_")
    return _RENAMED.get(found, found)


def aten_of(name: str) -> str | None:
    """torch's name, without "aten::", of an op or composite of the table; None: it has none."""
    return None if name in _TRANSPARENT else _RENAMED.get(name, name)
