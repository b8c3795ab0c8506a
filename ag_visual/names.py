"""Names beyond the ops: where functions live that `torch` itself does not have, and our own names.

Layer 0: may import nothing of the package. tests/properties/test_names.py compares with torch.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable


def _names(text: str) -> frozenset[str]:
    return frozenset(text.split())


METHODS = _names(
    """
    absolute_ add_ addbmm_ addcdiv_ addcmul_ addmm_ addr_ arctan2_ atan2_ baddbmm_ bitwise_and_
    bitwise_left_shift_ bitwise_not_ bitwise_or_ bitwise_right_shift_ bitwise_xor_ contiguous
    copysign_ cumprod_ cumsum_ digamma_ div_ divide_ eq_ erfinv_ expand expand_as float_power_
    floor_divide_ fmod_ ge_ greater_ greater_equal_ gt_ heaviside_ hypot_ igamma_ igammac_
    index_add_ index_copy_ index_reduce_ le_ lerp_ less_ less_equal_ lgamma_ logical_and_
    logical_not_ logical_or_ logical_xor_ lt_ masked_scatter_ max_pool2d_with_indices_backward
    mul_ multiply_ mvlgamma_ native_dropout_backward ne_ nextafter_ not_equal_ pow_ put_
    remainder_ renorm_ repeat reshape_as scatter_add_ scatter_reduce_ sgn_ sign_ sub_ subtract_
    sum_to_size tril_ triu_ true_divide_ view view_as
    """
)
"""Functions that torch has as methods of Tensor (or in torch.ops.aten) alone."""

OWN: dict[str, tuple[str, ...]] = {
    "": (
        "check_node",
        "compare",
        "debugger",
        "explain",
        "get_printoptions",
        "lesson",
        "load_ipython_extension",
        "load_recording",
        "printoptions",
        "record",
        "save_recording",
        "show",
        "to_dot",
    ),
    "autograd": ("guard",),
    "autograd.graph": ("AccumulateGrad",),
    "Tensor": ("gradient_edge",),
    "Generator": (
        "backend",
        "bernoulli",
        "binomial",
        "poisson",
        "rand",
        "randint",
        "randn",
        "randperm",
    ),
    "dtype": ("category", "index", "name", "np", "scalar_name"),
    "optim.Optimizer": ("begin", "by_parts", "keeps", "update"),
}
"""The names of this package that torch does not have, by the namespace that they stand in."""


def only(names: Iterable[str], module: str) -> Callable[[], list[str]]:
    """A module's `__dir__`: its public names, without what it imports to define them."""
    listed = tuple(names)

    def __dir__() -> list[str]:
        special = [name for name in vars(sys.modules[module]) if name.startswith("__")]
        return sorted({*special, *listed})

    return __dir__
