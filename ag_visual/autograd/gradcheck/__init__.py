"""torch.autograd.gradcheck: derivatives by autograd compared with differences.

As in torch the name stands for two: `torch.autograd.gradcheck` is the function, and
`from torch.autograd.gradcheck import GradcheckError` reads the module.

Source: https://pytorch.org/docs/2.8/autograd.html#module-torch.autograd.gradcheck
"""

from __future__ import annotations

from ag_visual.autograd.gradcheck.check import gradcheck, gradgradcheck
from ag_visual.autograd.gradcheck.error import GradcheckError
from ag_visual.autograd.gradcheck.private import (
    get_analytical_jacobian,
    get_numerical_jacobian,
    get_numerical_jacobian_wrt_specific_input,
)
from ag_visual.names import only as _only

__all__ = [
    "GradcheckError",
    "get_analytical_jacobian",
    "get_numerical_jacobian",
    "get_numerical_jacobian_wrt_specific_input",
    "gradcheck",
    "gradgradcheck",
]
__dir__ = _only(__all__, __name__)
