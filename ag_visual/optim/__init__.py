"""Optimizers in torch's shape, and schedulers of their learning rates (`lr_scheduler`)."""

from ag_visual import absent as _absent
from ag_visual.names import expose as _expose
from ag_visual.optim import lr_scheduler as lr_scheduler, swa_utils as swa_utils
from ag_visual.optim.adam import (
    Adam as Adam,
    Adamax as Adamax,
    AdamW as AdamW,
    NAdam as NAdam,
    RAdam as RAdam,
    SparseAdam as SparseAdam,
)
from ag_visual.optim.lbfgs import LBFGS as LBFGS
from ag_visual.optim.optimizer import Optimizer as Optimizer
from ag_visual.optim.rules import (
    ASGD as ASGD,
    SGD as SGD,
    Adadelta as Adadelta,
    Adafactor as Adafactor,
    Adagrad as Adagrad,
    RMSprop as RMSprop,
    Rprop as Rprop,
)

_expose(__name__, "lr_scheduler", "swa_utils")

__getattr__ = _absent.asked(__name__, "optim")
