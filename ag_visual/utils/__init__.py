"""torch.utils: what is around training."""

from . import checkpoint

__all__ = ["checkpoint"]
