"""torch.utils.dlpack: tensors to and from other array libraries without a copy."""

from __future__ import annotations

from typing import Any

from ag_visual.core.tensor import Tensor
from ag_visual.dispatch.table import functions as F
from ag_visual.names import expose as _expose

from_dlpack = F["from_dlpack"]


def to_dlpack(tensor: Tensor) -> Any:
    """A DLPack capsule of the tensor's memory."""
    return tensor.__dlpack__()


_expose(__name__, "from_dlpack")
