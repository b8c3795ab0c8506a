"""torch.func: functions of functions. They compose in any order.

Source: https://pytorch.org/docs/2.8/func.html
"""

from __future__ import annotations

from ag_visual import absent as _absent
from ag_visual.func.forward import jvp as jvp, linearize as linearize
from ag_visual.func.inputs import debug_unwrap as debug_unwrap
from ag_visual.func.jacobians import hessian as hessian, jacfwd as jacfwd, jacrev as jacrev
from ag_visual.func.modules import (
    functional_call as functional_call,
    replace_all_batch_norm_modules_ as replace_all_batch_norm_modules_,
    stack_module_state as stack_module_state,
)
from ag_visual.func.reverse import grad as grad, grad_and_value as grad_and_value, vjp as vjp
from ag_visual.func.vmap import vmap as vmap
from ag_visual.names import expose as _expose

_expose(__name__)

__getattr__ = _absent.asked(__name__, "func")
