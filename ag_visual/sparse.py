"""torch.sparse's names: products, sums and softmaxes of sparse tensors.

Layer 5: names what `ops.sparse` declares.
"""

from ag_visual import absent as _absent
from ag_visual.names import only as _only
from ag_visual.ops.sparse.forms import (
    sparse_log_softmax as log_softmax,
    sparse_softmax as softmax,
    sparse_sum as sum,
    spdiags,
)
from ag_visual.ops.sparse.legacy import LEGACY as _LEGACY
from ag_visual.ops.sparse.products import sparse_addmm as addmm, sparse_mm as mm

__all__ = ["addmm", "log_softmax", "mm", "softmax", "spdiags", "sum", *_LEGACY]
globals().update(_LEGACY)
__dir__ = _only(__all__, __name__)
__getattr__ = _absent.asked(__name__, "sparse")
