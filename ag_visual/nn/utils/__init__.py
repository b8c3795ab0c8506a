"""torch.nn.utils: clipped gradients, parameters as a vector, parametrizations, sequences.

`weight_norm` and `spectral_norm` are the parametrizations: the older implementations of torch,
which changed weights in hooks, are left out.
"""

from ag_visual import absent as _absent
from ag_visual.names import only as _only
from ag_visual.nn.utils import parametrizations, parametrize, rnn, stateless
from ag_visual.nn.utils.clip_grad import (
    clip_grad_norm_,
    clip_grad_value_,
    clip_grads_with_norm_,
    get_total_norm,
)
from ag_visual.nn.utils.convert_parameters import parameters_to_vector, vector_to_parameters
from ag_visual.nn.utils.parametrizations import (
    remove_spectral_norm,
    remove_weight_norm,
    spectral_norm,
    weight_norm,
)

__all__ = [
    "clip_grad_norm_",
    "clip_grad_value_",
    "clip_grads_with_norm_",
    "get_total_norm",
    "parameters_to_vector",
    "parametrizations",
    "parametrize",
    "remove_spectral_norm",
    "remove_weight_norm",
    "rnn",
    "spectral_norm",
    "stateless",
    "vector_to_parameters",
    "weight_norm",
]
__dir__ = _only([*__all__, "clip_grad", "convert_parameters"], __name__)

__getattr__ = _absent.asked(__name__, "nn.utils")
