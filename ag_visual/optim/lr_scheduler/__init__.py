"""torch.optim.lr_scheduler: learning rates that change from epoch to epoch.

Each scheduler goes on from the rate that the group has now, as torch's do, so that several can be
chained; `step(epoch)` uses the closed form where there is one.
"""

from ag_visual.names import only as _only
from ag_visual.optim.lr_scheduler.combined import ChainedScheduler, SequentialLR
from ag_visual.optim.lr_scheduler.cycles import CosineAnnealingWarmRestarts, CyclicLR, OneCycleLR
from ag_visual.optim.lr_scheduler.decay import (
    ConstantLR,
    CosineAnnealingLR,
    ExponentialLR,
    LambdaLR,
    LinearLR,
    MultiplicativeLR,
    MultiStepLR,
    PolynomialLR,
    StepLR,
)
from ag_visual.optim.lr_scheduler.plateau import ReduceLROnPlateau
from ag_visual.optim.lr_scheduler.scheduler import LRScheduler

__all__ = [
    "ChainedScheduler",
    "ConstantLR",
    "CosineAnnealingLR",
    "CosineAnnealingWarmRestarts",
    "CyclicLR",
    "ExponentialLR",
    "LRScheduler",
    "LambdaLR",
    "LinearLR",
    "MultiStepLR",
    "MultiplicativeLR",
    "OneCycleLR",
    "PolynomialLR",
    "ReduceLROnPlateau",
    "SequentialLR",
    "StepLR",
]
__dir__ = _only(__all__, __name__)
