"""torch.optim.lr_scheduler: learning rates that change from epoch to epoch.

Each scheduler goes on from the rate that the group has now, as torch's do, so that several can be
chained; `step(epoch)` uses the closed form where there is one.
"""

from ag_visual.names import expose as _expose
from ag_visual.optim.lr_scheduler.combined import (
    ChainedScheduler as ChainedScheduler,
    SequentialLR as SequentialLR,
)
from ag_visual.optim.lr_scheduler.cycles import (
    CosineAnnealingWarmRestarts as CosineAnnealingWarmRestarts,
    CyclicLR as CyclicLR,
    OneCycleLR as OneCycleLR,
)
from ag_visual.optim.lr_scheduler.decay import (
    ConstantLR as ConstantLR,
    CosineAnnealingLR as CosineAnnealingLR,
    ExponentialLR as ExponentialLR,
    LambdaLR as LambdaLR,
    LinearLR as LinearLR,
    MultiplicativeLR as MultiplicativeLR,
    MultiStepLR as MultiStepLR,
    PolynomialLR as PolynomialLR,
    StepLR as StepLR,
)
from ag_visual.optim.lr_scheduler.plateau import ReduceLROnPlateau as ReduceLROnPlateau
from ag_visual.optim.lr_scheduler.scheduler import (
    LRScheduler as LRScheduler,
    _LRScheduler as _LRScheduler,
)

_expose(__name__)
