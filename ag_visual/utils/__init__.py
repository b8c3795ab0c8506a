"""torch.utils: what is around training."""

from . import checkpoint, data, hooks

__all__ = ["checkpoint", "data", "hooks"]
