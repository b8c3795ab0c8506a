"""torch.version: the release of PyTorch whose behaviour the package follows; scripts compare it."""

from __future__ import annotations

from typing import Any

from ag_visual import absent as _absent
from ag_visual.names import only as _only
from ag_visual.torch_version import TorchVersion as _TorchVersion

__version__ = _TorchVersion("2.8.0+ag_visual")
__dir__ = _only(["cuda", "debug", "git_version", "hip", "rocm", "xpu"], __name__)

debug = False
git_version = "Unknown"
hip = rocm = xpu = None
_missing = _absent.asked(__name__, "version")


def __getattr__(name: str) -> Any:
    if name != "cuda":
        return _missing(name)
    # CuPy's, where a GPU can be used.
    from ag_visual import cuda

    if not cuda.is_available():
        return None
    from ag_visual.arrays.backend import backend_for

    number = backend_for("cuda").xp.cuda.runtime.runtimeGetVersion()
    return f"{number // 1000}.{number % 1000 // 10}"
