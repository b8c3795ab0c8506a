"""torch.cuda.memory: what CuPy's memory pool holds. Everything is 0 where there is no GPU."""

from __future__ import annotations

from collections import OrderedDict
from typing import Any

from ag_visual.arrays import backend as backends
from ag_visual.cuda.gpu import at, is_available
from ag_visual.names import expose as _expose

_peaks: dict[int, list[int]] = {}
"""The most bytes allocated and reserved that a question has seen, by device."""


def _pool(device: Any) -> tuple[int, int, int]:
    """Bytes that arrays take, bytes that the pool holds, and the number of the device."""
    if not is_available():
        return 0, 0, 0
    cupy = backends.backend_for("cuda").xp
    with at(device):
        pool = cupy.get_default_memory_pool()
        where = cupy.cuda.Device().id
        used, held = pool.used_bytes(), pool.total_bytes()
    peak = _peaks.setdefault(where, [0, 0])
    # Memory that arrays once took stays in the pool until it is given back.
    peak[:] = max(peak[0], used), max(peak[1], held)
    return used, held, where


def memory_allocated(device: Any = None) -> int:
    """Bytes that arrays take in CuPy's pool."""
    return _pool(device)[0]


def memory_reserved(device: Any = None) -> int:
    """Bytes that CuPy's pool holds: those of arrays, and those it keeps for reuse."""
    return _pool(device)[1]


def max_memory_allocated(device: Any = None) -> int:
    """An upper bound of what arrays took: the bytes that the pool has held since the last reset.

    CuPy counts no maximum of what arrays take.
    """
    return max_memory_reserved(device)


def max_memory_reserved(device: Any = None) -> int:
    """The most bytes that the pool held at a question since `reset_peak_memory_stats`."""
    where = _pool(device)[2]
    return _peaks.get(where, [0, 0])[1]


def reset_peak_memory_stats(device: Any = None) -> None:
    """Begin the maxima anew: what the pool keeps for reuse is given back to the device."""
    empty_cache()
    _peaks.pop(_pool(device)[2], None)


reset_max_memory_allocated = reset_peak_memory_stats


def empty_cache() -> None:
    """Give memory that CuPy keeps for reuse back to the device."""
    if is_available():
        backends.backend_for("cuda").xp.get_default_memory_pool().free_all_blocks()


def mem_get_info(device: Any = None) -> tuple[int, int]:
    """Free and all bytes of the device; raises BackendUnavailable where there is none."""
    with at(device):
        free, total = backends.backend_for("cuda").xp.cuda.runtime.memGetInfo()
    return int(free), int(total)


def memory_stats(device: Any = None) -> OrderedDict[str, int]:
    """What the pool tells, under torch's names; empty where there is no GPU."""
    if not is_available():
        return OrderedDict()
    used, held, where = _pool(device)
    peak = _peaks[where]
    return OrderedDict(
        {
            "allocated_bytes.all.current": used,
            "allocated_bytes.all.peak": peak[1],
            "reserved_bytes.all.current": held,
            "reserved_bytes.all.peak": peak[1],
        }
    )


def memory_summary(device: Any = None, abbreviated: bool = False) -> str:
    """A table of `memory_stats`, in bytes."""
    stats = memory_stats(device)
    return "\n".join(f"{name:30} {value:>16,}" for name, value in stats.items())


_expose(__name__)
