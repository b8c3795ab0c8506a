"""Optimizers in torch's shape."""

from .adam import Adam, Adamax, AdamW, NAdam, RAdam
from .optimizer import Optimizer
from .rules import ASGD, SGD, Adadelta, Adagrad, RMSprop, Rprop

__all__ = [
    "ASGD",
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
]
