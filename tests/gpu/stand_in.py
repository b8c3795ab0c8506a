"""A make-believe CuPy and cupyx over the strict arrays of tests/arrays/strict.py, for no GPU.

`install` puts them where `import cupy` finds them: then ag_visual's own CuPy backend, torch.cuda
and the checks of an acceptance run do what they do on a GPU, as far as Python goes. Kernels are
NumPy's, run at once; streams, events and the memory pool only keep books.
"""

from __future__ import annotations

import sys
import threading
import time
import weakref
from contextlib import nullcontext
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy

from ..arrays import strict

FREE, TOTAL = 3 << 30, 4 << 30


class CUDARuntimeError(RuntimeError):
    """What CuPy raises where a call of the CUDA runtime fails."""


class MemoryPool:
    """cupy.cuda.MemoryPool: bytes of living arrays in blocks of 512, and those kept for reuse."""

    def __init__(self) -> None:
        self.used = self.held = 0
        self._seen: set[int] = set()

    def note(self, values: Any) -> None:
        """An array was made: count its memory, unless it is a part of counted memory."""
        while isinstance(values.base, numpy.ndarray):
            values = values.base
        key, size = id(values), -(-values.nbytes // 512) * 512
        if key in self._seen:
            return
        self._seen.add(key)
        self.used += size
        self.held = max(self.held, self.used)
        weakref.finalize(values, self._gone, key, size)

    def _gone(self, key: int, size: int) -> None:
        self._seen.discard(key)
        self.used -= size

    def used_bytes(self) -> int:
        return self.used

    def total_bytes(self) -> int:
        return self.held

    def free_all_blocks(self) -> None:
        self.held = self.used


class Device:
    """cupy.cuda.Device: there is one."""

    def __init__(self, device: int | None = None) -> None:
        self.id = 0 if device is None else int(device)
        if self.id:
            raise CUDARuntimeError("cudaErrorInvalidDevice: invalid device ordinal")

    def use(self) -> None:
        return

    def __enter__(self) -> Device:
        return self

    def __exit__(self, *_: object) -> None:
        return


class Stream:
    """cupy.cuda.Stream: in this thread the current one between `__enter__` and `__exit__`."""

    null: Stream
    _now = threading.local()
    _made = 0

    def __init__(self, null: bool = False, non_blocking: bool = False, ptds: bool = False) -> None:
        Stream._made += 1
        self.ptr = 0 if null else 0x1000 * Stream._made
        self.waited: list[Event] = []
        self._before: list[Stream] = []

    @classmethod
    def current(cls) -> Stream:
        return getattr(cls._now, "stream", cls.null)

    @property
    def done(self) -> bool:
        return True

    def use(self) -> Stream:
        Stream._now.stream = self
        return self

    def __enter__(self) -> Stream:
        self._before.append(Stream.current())
        return self.use()

    def __exit__(self, *_: object) -> None:
        self._before.pop().use()

    def synchronize(self) -> None:
        return

    def record(self, event: Event | None = None) -> Event:
        event = Event() if event is None else event
        event.record(self)
        return event

    def wait_event(self, event: Event) -> None:
        if event.stream is None:
            raise CUDARuntimeError("cudaErrorInvalidResourceHandle: the event was not recorded")
        self.waited.append(event)


class Event:
    """cupy.cuda.Event: the time of the clock when it was recorded."""

    def __init__(
        self, block: bool = False, disable_timing: bool = False, interprocess: bool = False
    ) -> None:
        self.timed, self.at = not disable_timing, 0
        self.stream: Stream | None = None

    def record(self, stream: Stream | None = None) -> None:
        self.stream, self.at = stream or Stream.current(), time.perf_counter_ns()

    def synchronize(self) -> None:
        return

    @property
    def done(self) -> bool:
        return True


Stream.null = Stream(null=True)
POOL = MemoryPool()


def elapsed(begun: Event, ended: Event) -> float:
    """cupy.cuda.get_elapsed_time: milliseconds."""
    if not (begun.timed and ended.timed and begun.stream and ended.stream):
        raise CUDARuntimeError("cudaErrorInvalidResourceHandle: invalid resource handle")
    return (ended.at - begun.at) / 1e6


_PROPERTIES = {
    "name": b"stand-in",
    "major": 0,
    "minor": 0,
    "totalGlobalMem": TOTAL,
    "multiProcessorCount": 1,
    "l2CacheSize": 0,
    "warpSize": 32,
    "maxThreadsPerMultiProcessor": 1024,
}


class Generator:
    """cupy.random.Generator over a bit generator, whose state is one array."""

    def __init__(self, bits: Philox) -> None:
        self.bit_generator = bits

    def __getattr__(self, name: str) -> Any:
        return getattr(self.bit_generator.source(), name)


class Philox:
    """cupy.random.Philox4x3210: the state holds the seed and how often numbers were drawn."""

    def __init__(self, seed: int) -> None:
        self._state = strict.wrap(numpy.array([seed % 2**64, 0], numpy.uint64))

    def source(self) -> Any:
        seed, drawn = (int(each) for each in self._state.get())
        self._state[1] += 1
        return strict.StrictRandom((seed + 1000003 * drawn) % 2**63)


_ATOMIC = {
    "add": ("int32", "uint32", "uint64", "float16", "float32", "float64"),
    "maximum": ("int32", "uint32", "uint64", "float32", "float64"),
    "minimum": ("int32", "uint32", "uint64", "float32", "float64"),
}


def _scatter(name: str) -> Any:
    def scatter(target: Any, index: Any, values: Any) -> None:
        if target.dtype.name not in _ATOMIC[name]:
            raise TypeError(f"cupyx.scatter_{name} does not support {target.dtype}")
        strict.STRICT._at(name, target, index, values)

    return scatter


class _Library(ModuleType):
    """A module that has what it was given, and the rest from the strict namespace."""

    def __init__(self, name: str, rest: Any = None, **given: Any) -> None:
        super().__init__(name)
        self.__dict__.update(given)
        self._rest = rest

    def __getattr__(self, name: str) -> Any:
        if self._rest is None or name.startswith("__"):
            raise AttributeError(f"the stand-in for {self.__name__} has no {name}")
        return getattr(self._rest, name)


def _asnumpy(array: Any, *_: Any) -> Any:
    return array.get() if type(array) is strict.StrictArray else numpy.asarray(array)


_PINNED: set[int] = set()


def _pinned(shape: Any, dtype: Any = float, order: str = "C") -> Any:
    made = numpy.empty(shape, dtype, order)
    _PINNED.add(made.ctypes.data)
    weakref.finalize(made, _PINNED.discard, made.ctypes.data)
    return made


def _attributes(pointer: int) -> SimpleNamespace:
    return SimpleNamespace(type=1 if pointer in _PINNED else 0)


def _modules() -> dict[str, ModuleType]:
    runtime = _Library(
        "cupy.cuda.runtime",
        CUDARuntimeError=CUDARuntimeError,
        getDeviceCount=lambda: 1,
        getDeviceProperties=lambda device: dict(_PROPERTIES),
        memGetInfo=lambda: (FREE, TOTAL),
        pointerGetAttributes=_attributes,
        memoryTypeHost=1,
        profilerStart=lambda: None,
        profilerStop=lambda: None,
    )
    cuda = _Library(
        "cupy.cuda",
        runtime=runtime,
        Device=Device,
        Stream=Stream,
        Event=Event,
        get_current_stream=Stream.current,
        get_elapsed_time=elapsed,
    )
    special = _Library("cupyx.scipy.special", strict.STRICT.special)
    sparse = _Library("cupyx.scipy.sparse", strict.STRICT.sparse)
    scipy = _Library("cupyx.scipy", special=special, sparse=sparse, __path__=[])
    random = _Library(
        "cupy.random", strict.STRICT.xp.random, Generator=Generator, Philox4x3210=Philox
    )
    cupy = _Library(
        "cupy",
        strict.STRICT.xp,
        __version__=f"{strict.SURFACE['version']} (stand-in)",
        asnumpy=_asnumpy,
        cuda=cuda,
        random=random,
        get_default_memory_pool=lambda: POOL,
    )
    cupyx = _Library(
        "cupyx",
        scipy=scipy,
        scatter_add=_scatter("add"),
        scatter_max=_scatter("maximum"),
        scatter_min=_scatter("minimum"),
        errstate=lambda **_: nullcontext(),
        empty_pinned=_pinned,
        __path__=[],
    )
    made = (cupy, cupyx, cuda, runtime, scipy, special, sparse, random)
    return {module.__name__: module for module in made}


def install() -> None:
    """Let `import cupy` find the stand-in, in this process."""
    sys.modules.update(_modules())
    strict.made = POOL.note
