"""torch.__config__: what the package computes with."""

from __future__ import annotations

import platform

import numpy
import scipy

from ag_visual.names import expose as _expose


def show() -> str:
    """Lines that tell Python, NumPy, its BLAS, SciPy, and CuPy where a GPU can be used."""
    from ag_visual import cuda

    blas = numpy.show_config(mode="dicts")["Build Dependencies"]["blas"]  # type: ignore[call-overload, index]
    lines = [
        "ag_visual computes with:",
        f"  - Python {platform.python_version()}",
        f"  - NumPy {numpy.__version__}, BLAS {blas['name']} {blas['version']}",
        f"  - SciPy {scipy.__version__}",
    ]
    if cuda.is_available():
        import cupy

        lines.append(f"  - CuPy {cupy.__version__} on {cuda.get_device_name()}")
    return "\n".join(lines) + "\n"


def parallel_info() -> str:
    """How many threads NumPy's BLAS may use."""
    from ag_visual.switches import get_num_threads

    return f"threads of NumPy's BLAS: {get_num_threads()}\n"


_expose(__name__)
