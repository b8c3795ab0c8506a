"""torch.nn.utils: clipped gradients, parameters as a vector, parametrizations, sequences."""

from . import rnn

__all__ = ["rnn"]
