"""torch.autograd: `backward`, `grad`, and the modules around them.

Source: https://pytorch.org/docs/2.8/autograd.html
"""

from __future__ import annotations

from ag_visual import absent as _absent
from ag_visual.autograd import anomaly_mode, forward_ad, function, functional, grad_mode, graph
from ag_visual.autograd.anomaly_mode import detect_anomaly, set_detect_anomaly
from ag_visual.autograd.api import backward, grad
from ag_visual.autograd.function import Function, NestedIOFunction
from ag_visual.autograd.grad_mode import (
    _force_original_view_tracking,
    _unsafe_preserve_version_counter,
    enable_grad,
    inference_mode,
    is_grad_enabled,
    is_inference_mode_enabled,
    is_multithreading_enabled,
    is_view_replay_enabled,
    no_grad,
    set_grad_enabled,
    set_multithreading_enabled,
)
from ag_visual.autograd.gradcheck import gradcheck, gradgradcheck
from ag_visual.autograd.guard import guard
from ag_visual.autograd.variable import Variable, variable
from ag_visual.core.saved_tensor import SavedTensor
from ag_visual.devices import DeviceType
from ag_visual.names import only as _only

_is_checkpoint_valid = Variable._execution_engine.is_checkpoint_valid

__all__ = [
    "DeviceType",
    "Function",
    "NestedIOFunction",
    "SavedTensor",
    "Variable",
    "anomaly_mode",
    "backward",
    "detect_anomaly",
    "enable_grad",
    "forward_ad",
    "function",
    "functional",
    "grad",
    "grad_mode",
    "gradcheck",
    "gradgradcheck",
    "graph",
    "guard",
    "inference_mode",
    "no_grad",
    "set_detect_anomaly",
    "set_grad_enabled",
    "set_multithreading_enabled",
    "variable",
]
__dir__ = _only(__all__, __name__)

__getattr__ = _absent.asked(__name__, "autograd")
