"""Optimizers in torch's shape, and schedulers of their learning rates (`lr_scheduler`)."""

from ..names import only as _only
from . import lr_scheduler, swa_utils
from .adam import Adam, Adamax, AdamW, NAdam, RAdam
from .lbfgs import LBFGS
from .optimizer import Optimizer
from .rules import ASGD, SGD, Adadelta, Adagrad, RMSprop, Rprop

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
