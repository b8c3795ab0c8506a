"""The dropout family."""

from __future__ import annotations

from typing import Any

from ag_visual.nn import functional
from ag_visual.nn.module import Module


class _DropoutNd(Module):
    """Base: `function(input, p, training, inplace)`."""

    function: str

    def __init__(self, p: float = 0.5, inplace: bool = False) -> None:
        super().__init__()
        if not 0 <= p <= 1:
            raise ValueError(f"dropout probability has to be between 0 and 1, but got {p}")
        self.p, self.inplace = p, inplace

    def forward(self, input: Any) -> Any:
        return getattr(functional, self.function)(input, self.p, self.training, self.inplace)

    def extra_repr(self) -> str:
        return f"p={self.p}, inplace={self.inplace}"


class Dropout(_DropoutNd):
    """Sets elements to zero with probability p while training and scales the others.

    Hinton et al., "Improving neural networks by preventing co-adaptation of feature detectors"
    (2012).
    """

    function = "dropout"


class Dropout1d(_DropoutNd):
    """`Dropout` of whole channels of (N, C, L)."""

    function = "dropout1d"


class Dropout2d(_DropoutNd):
    """`Dropout` of whole channels of (N, C, H, W)."""

    function = "dropout2d"


class Dropout3d(_DropoutNd):
    """`Dropout` of whole channels of (N, C, D, H, W)."""

    function = "dropout3d"


class AlphaDropout(_DropoutNd):
    """Dropout that keeps mean and variance after SELU. Klambauer et al. (2017)."""

    function = "alpha_dropout"


class FeatureAlphaDropout(_DropoutNd):
    """`AlphaDropout` of whole channels."""

    function = "feature_alpha_dropout"
