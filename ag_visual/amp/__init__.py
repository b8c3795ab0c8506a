"""torch.amp: mixed precision. What is done for an op stands in its declaration (`autocast`)."""

from ag_visual.amp.autocast_mode import (
    autocast as autocast,
    custom_bwd as custom_bwd,
    custom_fwd as custom_fwd,
    is_autocast_available as is_autocast_available,
)
from ag_visual.amp.grad_scaler import GradScaler as GradScaler
from ag_visual.names import only as _only

__all__ = ["GradScaler", "autocast", "custom_bwd", "custom_fwd", "is_autocast_available"]
__dir__ = _only([*__all__, "autocast_mode", "grad_scaler"], __name__)
