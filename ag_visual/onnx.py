"""torch.onnx: libraries ask whether they are exported; they never are."""

from __future__ import annotations

from ag_visual import absent as _absent
from ag_visual.names import expose as _expose


def is_in_onnx_export() -> bool:
    """False: nothing is exported."""
    return False


_expose(__name__)

__getattr__ = _absent.asked(__name__, "onnx")
