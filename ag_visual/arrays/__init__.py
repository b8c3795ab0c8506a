"""Array libraries behind one small class: NumPy always, CuPy when somebody asks for it.

Layer 1: knows arrays, never Tensors. Imports layer 0 only.
"""

from ag_visual.arrays.backend import (
    Backend,
    BackendUnavailable,
    backend_for,
    backend_of,
    of_namespace,
    register,
    register_lazy,
    registered,
)
from ag_visual.arrays.numpy import BACKEND as CPU_BACKEND


def _load_cuda() -> Backend:
    from ag_visual.arrays.cupy import CupyBackend

    return CupyBackend()


def _load_meta() -> Backend:
    from ag_visual.arrays.meta import MetaBackend

    return MetaBackend()


register_lazy("cuda", _load_cuda)
register_lazy("meta", _load_meta)

__all__ = [
    "CPU_BACKEND",
    "Backend",
    "BackendUnavailable",
    "backend_for",
    "backend_of",
    "of_namespace",
    "register",
    "registered",
]
