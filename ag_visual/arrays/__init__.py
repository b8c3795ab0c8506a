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
    registered,
)
from ag_visual.arrays.numpy import BACKEND as CPU_BACKEND

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
