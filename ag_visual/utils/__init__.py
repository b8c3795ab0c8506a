"""torch.utils: what is around training."""

from ag_visual import absent as _absent
from ag_visual.names import only as _only
from ag_visual.utils import _pytree as _pytree, checkpoint, data, hooks
from ag_visual.utils.swap import swap_tensors

__all__ = ["checkpoint", "data", "hooks", "swap_tensors"]
__dir__ = _only(__all__, __name__)
__getattr__ = _absent.asked(__name__, "utils")
