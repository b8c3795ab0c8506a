"""torch.linalg's names: decompositions, solvers, norms and functions of matrices.

Layer 5: names what `ops` declares.
"""

from __future__ import annotations

from .errors import LinAlgError as LinAlgError
from .names import only as _only
from .ops.matrices import linalg as _names

globals().update(_names)

__all__ = sorted([*_names, "LinAlgError"])
__dir__ = _only(__all__, __name__)
