"""torch.fft's names: Fourier transforms of one, two and any number of dimensions.

Layer 5: names what `ops` declares.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ag_visual.names import only as _only
from ag_visual.ops.linalg.checks import fft as _names

globals().update(_names)

__all__ = sorted(_names)
__dir__ = _only(__all__, __name__)

if TYPE_CHECKING:

    def __getattr__(name: str) -> Any: ...  # what the declarations name
