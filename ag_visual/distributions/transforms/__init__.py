"""torch.distributions.transforms' names: invertible maps and the logarithms of their Jacobians."""

from ag_visual.distributions.transforms.base import (
    ComposeTransform as ComposeTransform,
    IndependentTransform as IndependentTransform,
    ReshapeTransform as ReshapeTransform,
    Transform as Transform,
    _InverseTransform as _InverseTransform,
    identity_transform as identity_transform,
)
from ag_visual.distributions.transforms.elementwise import (
    AbsTransform as AbsTransform,
    AffineTransform as AffineTransform,
    CumulativeDistributionTransform as CumulativeDistributionTransform,
    ExpTransform as ExpTransform,
    PowerTransform as PowerTransform,
    SigmoidTransform as SigmoidTransform,
    SoftplusTransform as SoftplusTransform,
    TanhTransform as TanhTransform,
)
from ag_visual.distributions.transforms.parts import (
    CatTransform as CatTransform,
    StackTransform as StackTransform,
)
from ag_visual.distributions.transforms.vectors import (
    CorrCholeskyTransform as CorrCholeskyTransform,
    LowerCholeskyTransform as LowerCholeskyTransform,
    PositiveDefiniteTransform as PositiveDefiniteTransform,
    SoftmaxTransform as SoftmaxTransform,
    StickBreakingTransform as StickBreakingTransform,
)
from ag_visual.names import only as _only

__all__ = [
    "AbsTransform",
    "AffineTransform",
    "CatTransform",
    "ComposeTransform",
    "CorrCholeskyTransform",
    "CumulativeDistributionTransform",
    "ExpTransform",
    "IndependentTransform",
    "LowerCholeskyTransform",
    "PositiveDefiniteTransform",
    "PowerTransform",
    "ReshapeTransform",
    "SigmoidTransform",
    "SoftmaxTransform",
    "SoftplusTransform",
    "StackTransform",
    "StickBreakingTransform",
    "TanhTransform",
    "Transform",
    "identity_transform",
]
__dir__ = _only(__all__, __name__)
