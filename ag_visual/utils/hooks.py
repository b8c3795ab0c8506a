"""torch.utils.hooks: the handle that removes a hook.

Source: https://pytorch.org/docs/2.8/autograd.html#torch.Tensor.register_hook
"""

from __future__ import annotations

from ag_visual.core.hooks import RemovableHandle
from ag_visual.names import only as _only

__all__ = ["RemovableHandle"]
__dir__ = _only(__all__, __name__)
