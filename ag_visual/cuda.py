"""torch.cuda: what programs ask before they choose a device. Tensors on it need CuPy."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Any

from ag_visual import absent as _absent
from ag_visual.arrays import backend as backends
from ag_visual.devices import device as Device
from ag_visual.names import only as _only

__all__ = [
    "current_device",
    "device",
    "device_count",
    "empty_cache",
    "get_device_name",
    "init",
    "is_available",
    "manual_seed",
    "manual_seed_all",
    "synchronize",
]


def is_available() -> bool:
    """Whether CuPy is installed and a GPU answers."""
    try:
        return backends.backend_for("cuda").count() > 0
    except backends.BackendUnavailable:
        return False


def device_count() -> int:
    """How many CUDA devices there are (0 where none can be used)."""
    return backends.backend_for("cuda").count() if is_available() else 0


def init() -> None:
    """Load CuPy now; raises BackendUnavailable, saying what is missing."""
    backends.backend_for("cuda")


def current_device() -> int:
    """The number of the device that 'cuda' means now."""
    backend = backends.backend_for("cuda")
    return backend.device(backend.xp.empty(())).index or 0


def device(index: Any) -> AbstractContextManager[Any]:
    """A block in which 'cuda' means this device."""
    where = Device(index)
    return backends.backend_for("cuda").on(where.index)


def get_device_name(device: Any = None) -> str:
    """The name of a GPU."""
    backend = backends.backend_for("cuda")
    where = current_device() if device is None else Device(device).index or 0
    name = backend.xp.cuda.runtime.getDeviceProperties(where)["name"]
    return name.decode() if isinstance(name, bytes) else str(name)


def synchronize(device: Any = None) -> None:
    """Wait until all work given to the device is done."""
    backend = backends.backend_for("cuda")
    with backend.on(None if device is None else Device(device).index):
        backend.synchronize()


def empty_cache() -> None:
    """Give memory that CuPy keeps for reuse back to the device."""
    if is_available():
        backends.backend_for("cuda").xp.get_default_memory_pool().free_all_blocks()


def manual_seed(seed: int) -> None:
    """Restart the random stream of the current device."""
    from ag_visual.ops.tensor import generator

    if is_available():
        generator.source_of(backends.backend_for("cuda")).manual_seed(seed)


manual_seed_all = manual_seed
__dir__ = _only(__all__, __name__)

__getattr__ = _absent.asked(__name__, "cuda")
