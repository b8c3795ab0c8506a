"""torch.special's names: special functions, most of them also the package's own under other names.

Layer 5: names what `ops` declares.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ag_visual.dispatch.table import spaces as _spaces
from ag_visual.names import only as _only

globals().update(_spaces["special"])

__all__ = sorted(_spaces["special"])
__dir__ = _only(__all__, __name__)

if TYPE_CHECKING:

    def __getattr__(name: str) -> Any: ...  # what the declarations name
