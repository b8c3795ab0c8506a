"""torch.xpu: devices of this type are only names here; what programs ask is answered with no."""

from __future__ import annotations

from ag_visual import absent as _absent
from ag_visual.names import expose as _expose


def is_available() -> bool:
    """False."""
    return False


def device_count() -> int:
    """0."""
    return 0


def manual_seed(seed: int) -> None:
    """Does nothing: there is no device with random numbers."""


_expose(__name__)

__getattr__ = _absent.asked(__name__, "xpu")
