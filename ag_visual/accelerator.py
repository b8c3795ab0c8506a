"""torch.accelerator: the GPU, where there is one, without its name."""

from __future__ import annotations

from typing import Any

from ag_visual import absent as _absent, cuda
from ag_visual.devices import device as Device
from ag_visual.names import expose as _expose


def is_available() -> bool:
    """Whether CuPy is installed and a GPU answers."""
    return cuda.is_available()


def device_count() -> int:
    """How many GPUs there are."""
    return cuda.device_count()


def current_accelerator(check_available: bool = False) -> Device | None:
    """device('cuda') where a GPU can be used, else None."""
    return Device("cuda") if cuda.is_available() else None


def _needed() -> None:
    if not cuda.is_available():
        raise RuntimeError("Cannot access accelerator device when none is available.")


def current_device_index() -> int:
    """The number of the GPU that 'cuda' means now; RuntimeError where there is none."""
    _needed()
    return cuda.current_device()


current_device_idx = current_device_index


def set_device_index(device: Any, /) -> None:
    """Let 'cuda' mean this GPU; RuntimeError where there is none."""
    _needed()
    cuda.set_device(device)


set_device_idx = set_device_index


def current_stream(device: Any = None, /) -> Any:
    """The stream that kernels run in; RuntimeError where there is no GPU."""
    _needed()
    return cuda.current_stream(device)


def set_stream(stream: Any) -> None:
    """Let kernels run in this stream."""
    _needed()
    cuda.set_stream(stream)


def synchronize(device: Any = None, /) -> None:
    """Wait until all work given to the GPU is done; RuntimeError where there is none."""
    _needed()
    cuda.synchronize(device)


def empty_cache() -> None:
    """Give memory that CuPy keeps for reuse back to the device."""
    cuda.empty_cache()


def memory_allocated(device_index: Any = None, /) -> int:
    """Bytes that arrays take; RuntimeError where there is no GPU."""
    _needed()
    return cuda.memory_allocated(device_index)


def memory_reserved(device_index: Any = None, /) -> int:
    """Bytes that CuPy's pool holds; RuntimeError where there is no GPU."""
    _needed()
    return cuda.memory_reserved(device_index)


def max_memory_allocated(device_index: Any = None, /) -> int:
    """The most bytes that arrays took; RuntimeError where there is no GPU."""
    _needed()
    return cuda.max_memory_allocated(device_index)


def max_memory_reserved(device_index: Any = None, /) -> int:
    """The most bytes that CuPy's pool held; RuntimeError where there is no GPU."""
    _needed()
    return cuda.max_memory_reserved(device_index)


def reset_peak_memory_stats(device_index: Any = None, /) -> None:
    """Begin the maxima anew; RuntimeError where there is no GPU."""
    _needed()
    cuda.reset_peak_memory_stats(device_index)


_expose(__name__)

__getattr__ = _absent.asked(__name__, "accelerator")
