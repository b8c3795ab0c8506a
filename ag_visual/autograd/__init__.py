"""torch.autograd: `backward`, `grad`, and the modules around them."""

from __future__ import annotations

from .api import backward, grad
from .grad_mode import enable_grad, is_grad_enabled, no_grad, set_grad_enabled

__all__ = ["backward", "enable_grad", "grad", "is_grad_enabled", "no_grad", "set_grad_enabled"]
