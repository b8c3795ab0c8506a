"""torch.utils: what is around training."""

from ag_visual import absent as _absent
from ag_visual.names import only as _only
from ag_visual.utils import checkpoint, data, hooks

__all__ = ["checkpoint", "data", "hooks"]
__dir__ = _only(__all__, __name__)
__getattr__ = _absent.asked(__name__, "utils")
