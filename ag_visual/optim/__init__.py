"""Optimizers in torch's shape: SGD, Adam, AdamW, RMSprop, Adagrad."""

from .optimizer import Optimizer
from .rules import SGD, Adagrad, Adam, AdamW, RMSprop

__all__ = ["SGD", "Adagrad", "Adam", "AdamW", "Optimizer", "RMSprop"]
