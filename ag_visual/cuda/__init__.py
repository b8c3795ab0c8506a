"""torch.cuda: what programs ask before they choose a device. Tensors on it need CuPy."""

from __future__ import annotations

from contextlib import AbstractContextManager
from types import SimpleNamespace
from typing import Any

from ag_visual import absent as _absent
from ag_visual.arrays import backend as backends
from ag_visual.cuda.gpu import at as _at, is_available as is_available
from ag_visual.cuda.memory import (
    empty_cache as empty_cache,
    max_memory_allocated as max_memory_allocated,
    max_memory_reserved as max_memory_reserved,
    mem_get_info as mem_get_info,
    memory_allocated as memory_allocated,
    memory_reserved as memory_reserved,
    memory_stats as memory_stats,
    memory_summary as memory_summary,
    reset_max_memory_allocated as reset_max_memory_allocated,
    reset_peak_memory_stats as reset_peak_memory_stats,
)
from ag_visual.cuda.random import (
    get_rng_state as get_rng_state,
    get_rng_state_all as get_rng_state_all,
    initial_seed as initial_seed,
    manual_seed as manual_seed,
    manual_seed_all as manual_seed_all,
    seed as seed,
    seed_all as seed_all,
    set_rng_state as set_rng_state,
    set_rng_state_all as set_rng_state_all,
)
from ag_visual.cuda.streams import (
    Event as Event,
    Stream as Stream,
    StreamContext as StreamContext,
    current_stream as current_stream,
    default_stream as default_stream,
    set_stream as set_stream,
    stream as stream,
)
from ag_visual.devices import device as Device
from ag_visual.errors import OutOfMemoryError as OutOfMemoryError
from ag_visual.names import expose as _expose


def device_count() -> int:
    """How many CUDA devices there are (0 where none can be used)."""
    return backends.backend_for("cuda").count() if is_available() else 0


def init() -> None:
    """Load CuPy now; raises BackendUnavailable, saying what is missing."""
    backends.backend_for("cuda")


def is_initialized() -> bool:
    """Whether CuPy is loaded."""
    return any(each.device_type == "cuda" for each in backends.registered())


def set_device(device: Any) -> None:
    """Let 'cuda' mean this device from now on; a negative number changes nothing.

    Raises BackendUnavailable where there is no such device.
    """
    index = device if isinstance(device, int) else Device(device).index
    if index is None or index < 0:
        return
    backend = backends.backend_for("cuda")
    with backend.on(index):
        pass
    backend.xp.cuda.Device(index).use()


def get_device_properties(device: Any = None) -> Any:
    """Name, `major` and `minor` capability, `total_memory` (bytes), `multi_processor_count`."""
    properties = _properties(device)
    name = (
        properties["name"].decode()
        if isinstance(properties["name"], bytes)
        else str(properties["name"])
    )
    return SimpleNamespace(
        name=name,
        major=properties["major"],
        minor=properties["minor"],
        total_memory=properties["totalGlobalMem"],
        multi_processor_count=properties["multiProcessorCount"],
        L2_cache_size=properties["l2CacheSize"],
        warp_size=properties["warpSize"],
        max_threads_per_multi_processor=properties["maxThreadsPerMultiProcessor"],
    )


def _properties(device: Any) -> Any:
    where = current_device() if device is None else Device(device).index or 0
    return backends.backend_for("cuda").xp.cuda.runtime.getDeviceProperties(where)


def get_device_capability(device: Any = None) -> tuple[int, int]:
    """The compute capability of a GPU: (major, minor)."""
    properties = _properties(device)
    return properties["major"], properties["minor"]


def is_bf16_supported(including_emulation: bool = True) -> bool:
    """Whether tensors on the GPU may be torch.bfloat16: by conversion, where there is a GPU."""
    return including_emulation and is_available()


def current_device() -> int:
    """The number of the device that 'cuda' means now."""
    backend = backends.backend_for("cuda")
    return backend.device(backend.xp.empty(())).index or 0


def device(device: Any) -> AbstractContextManager[Any]:
    """A block in which 'cuda' means this device."""
    where = Device(device)
    return backends.backend_for("cuda").on(where.index)


def get_device_name(device: Any = None) -> str:
    """The name of a GPU."""
    return str(get_device_properties(device).name)


class CudaError(RuntimeError):
    """A function of CUDA failed: its number."""

    def __init__(self, code: int) -> None:
        super().__init__(f"CUDA error {code}")


def check_error(res: int) -> None:
    """Raises CudaError for a number that is not 0."""
    if res != 0:
        raise CudaError(res)


def cudart() -> Any:
    """CUDA's functions that start and stop Nsight and the like; each returns 0.

    Raises BackendUnavailable, saying what is missing.
    """
    runtime = backends.backend_for("cuda").xp.cuda.runtime

    def start() -> int:
        runtime.profilerStart()
        return 0

    def stop() -> int:
        runtime.profilerStop()
        return 0

    return SimpleNamespace(cudaProfilerStart=start, cudaProfilerStop=stop)


def synchronize(device: Any = None) -> None:
    """Wait until all work given to the device is done."""
    with _at(device):
        backends.backend_for("cuda").synchronize()


_expose(__name__, "OutOfMemoryError")

_asked = _absent.asked(__name__, "cuda")


def __getattr__(name: str) -> Any:
    # A variable of torch's, which libraries that save random states look at.
    return is_initialized() if name == "_initialized" else _asked(name)
