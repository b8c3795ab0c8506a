"""torch.utils: what is around training."""

from . import checkpoint, data

__all__ = ["checkpoint", "data"]
