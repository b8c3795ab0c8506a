"""torch.fft's names: Fourier transforms of one, two and any number of dimensions.

Layer 5: names what `ops` declares.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ag_visual.dispatch.table import spaces as _spaces
from ag_visual.names import only as _only

globals().update(_spaces["fft"])

__all__ = sorted(_spaces["fft"])
__dir__ = _only(__all__, __name__)

if TYPE_CHECKING:

    def __getattr__(name: str) -> Any: ...  # what the declarations name
