"""torch.nn.utils: clipped gradients, parameters as a vector, parametrizations, sequences."""

from ag_visual import absent as _absent
from ag_visual.names import expose as _expose
from ag_visual.nn.utils import (
    parametrizations as parametrizations,
    parametrize as parametrize,
    rnn as rnn,
    stateless as stateless,
)
from ag_visual.nn.utils.clip_grad import (
    clip_grad_norm_ as clip_grad_norm_,
    clip_grad_value_ as clip_grad_value_,
    clip_grads_with_norm_ as clip_grads_with_norm_,
    get_total_norm as get_total_norm,
)
from ag_visual.nn.utils.convert_parameters import (
    parameters_to_vector as parameters_to_vector,
    vector_to_parameters as vector_to_parameters,
)
from ag_visual.nn.utils.fusion import (
    fuse_conv_bn_eval as fuse_conv_bn_eval,
    fuse_conv_bn_weights as fuse_conv_bn_weights,
    fuse_linear_bn_eval as fuse_linear_bn_eval,
    fuse_linear_bn_weights as fuse_linear_bn_weights,
)
from ag_visual.nn.utils.init import skip_init as skip_init
from ag_visual.nn.utils.reweighted import (
    remove_spectral_norm as remove_spectral_norm,
    remove_weight_norm as remove_weight_norm,
    spectral_norm as spectral_norm,
    weight_norm as weight_norm,
)

_expose(
    __name__,
    *("parametrizations", "parametrize", "rnn", "stateless"),
    shown=("clip_grad", "convert_parameters"),
)

__getattr__ = _absent.asked(__name__, "nn.utils")
