"""torch.utils: what is around training."""

from .. import absent as _absent
from . import checkpoint, data, hooks

__all__ = ["checkpoint", "data", "hooks"]

__getattr__ = _absent.asked(__name__, "utils")
