"""What the profiler calls ops, and the methods and functions that are none but have a span, too."""

from __future__ import annotations

from ag_visual.dispatch.record import OWN, UNSEEN
from ag_visual.dispatch.table import names_in_profiles, ops

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


def name_of(key: str) -> str | None:
    """torch's name, without "aten::", of an op or composite of the table; None: it has none."""
    declared = names_in_profiles.get(key, "")
    if declared == UNSEEN:
        return None
    if declared and declared != OWN:
        return declared
    return ops[key].public_name.replace(".", "_") if key in ops and not declared else key
