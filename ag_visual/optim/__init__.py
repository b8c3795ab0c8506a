"""Optimizers in torch's shape, and schedulers of their learning rates (`lr_scheduler`)."""

from ag_visual.names import only as _only
from ag_visual.optim import lr_scheduler, swa_utils
from ag_visual.optim.adam import Adam, Adamax, AdamW, NAdam, RAdam
from ag_visual.optim.lbfgs import LBFGS
from ag_visual.optim.optimizer import Optimizer
from ag_visual.optim.rules import ASGD, SGD, Adadelta, Adagrad, RMSprop, Rprop

__all__ = [
    "ASGD",
    "LBFGS",
    "SGD",
    "Adadelta",
    "Adagrad",
    "Adam",
    "AdamW",
    "Adamax",
    "NAdam",
    "Optimizer",
    "RAdam",
    "RMSprop",
    "Rprop",
    "lr_scheduler",
    "swa_utils",
]
__dir__ = _only(__all__, __name__)
