"""Generators of random numbers, and the default one of each device: ops draw from `source_of`."""

from __future__ import annotations

import contextlib
import secrets
from collections.abc import Iterable, Iterator
from typing import Any

import numpy

from ag_visual.arrays import backend as backends
from ag_visual.arrays.random import Generator as ArrayGenerator
from ag_visual.core.tensor import Tensor, from_array
from ag_visual.devices import device as Device
from ag_visual.dispatch.table import function


class Generator(ArrayGenerator):
    """A stream of random numbers on one device, seeded and restorable.

    >>> import ag_visual as ag
    >>> g = ag.Generator().manual_seed(0)
    >>> h = ag.Generator().manual_seed(0)
    >>> bool((ag.rand(3, generator=g) == ag.rand(3, generator=h)).all())
    True
    """

    __slots__ = ("device",)

    def __init__(self, device="cpu") -> None:
        self.device = Device(device)
        super().__init__(backends.backend_for(self.device))

    def get_state(self) -> Tensor:  # type: ignore[override]
        """The seed and the position in the stream, as a uint8 tensor."""
        return from_array(super().get_state())  # type: ignore[no-any-return]

    def set_state(self, state: Tensor) -> None:  # type: ignore[override]
        """Return to a state of `get_state`."""
        if not isinstance(state, Tensor):
            raise TypeError(f"expected a torch.ByteTensor, but got {type(state).__name__}")
        super().set_state(
            numpy.ascontiguousarray(backends.backend_of(state._array).to_numpy(state._array))
        )

    def get_offset(self) -> int:
        """Where in the stream a CUDA generator of torch is; no stream here counts."""
        raise RuntimeError(f"{self.device.type.upper()} Generator does not use offset")

    def set_offset(self, offset: int) -> None:
        """See `get_offset`; `set_state` returns to a place of the stream."""
        raise RuntimeError(f"{self.device.type.upper()} Generator does not use offset")

    def clone_state(self) -> Generator:
        """A new generator at the same place of the same stream."""
        other = Generator(self.device)
        other.set_state(self.get_state())
        return other


_default: dict[str, Generator] = {}


def default_of(device_type: str) -> Generator:
    """The default stream of a device type, seeded when it is first asked for."""
    found = _default.get(device_type)
    if found is None:
        found = _default[device_type] = Generator(device_type)
        if device_type != "cpu":
            found.manual_seed(default_of("cpu").initial_seed())
        else:
            found.manual_seed(secrets.randbits(63))
    return found


def source_of(backend, generator=None) -> ArrayGenerator:
    """The generator to draw from on a backend: the given one, or the device's default."""
    if generator is None:
        return default_of(backend.device_type)
    if not isinstance(generator, ArrayGenerator):
        raise TypeError(
            f"argument 'generator' must be torch.Generator, not {type(generator).__name__}"
        )
    if generator.backend is not backend:
        raise RuntimeError(
            f"Expected a '{backend.device_type}' device type for generator but found "
            f"'{generator.backend.device_type}'"
        )
    return generator


@function()
def manual_seed(seed: int) -> Generator:
    """Restart the default streams of all devices, and return that of the CPU."""
    found = default_of("cpu")
    found.manual_seed(seed)
    for other in _default.values():
        other.manual_seed(seed)
    return found


@function()
def seed() -> int:
    """Restart the default streams from a seed of the operating system's, and return it."""
    return manual_seed(secrets.randbits(64)).initial_seed()


@function()
def initial_seed() -> int:
    """The seed with which the default stream of the CPU began."""
    return default_of("cpu").initial_seed()


@function()
def get_rng_state() -> Tensor:
    """The state of the CPU's default stream, as a uint8 tensor."""
    return default_of("cpu").get_state()


@function()
def set_rng_state(new_state: Tensor) -> None:
    """Return the CPU's default stream to a state of `get_rng_state`."""
    default_of("cpu").set_state(new_state)


@contextlib.contextmanager
def fork_rng(
    devices: Iterable[Any] | None = None, enabled: bool = True, device_type: str = "cuda"
) -> Iterator[None]:
    """A block after which the default streams are where they were before it.

    devices: which devices' streams, besides the CPU's (all that are in use); enabled=False does
    nothing.
    """
    if not enabled:
        yield
        return
    kinds = set(_default) if devices is None else {Device(each).type for each in devices}
    kept = {kind: default_of(kind).get_state() for kind in {"cpu", *kinds}}
    try:
        yield
    finally:
        for kind, state in kept.items():
            default_of(kind).set_state(state)
