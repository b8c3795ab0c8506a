"""Generator: torch's random number generator object, on the streams of NumPy or CuPy.

Layer 1: imports backend.py. The numbers differ from torch's; shapes, ranges, dtypes and
errors don't.
"""

from __future__ import annotations

import secrets
from typing import Any, Final

import numpy

from ag_visual.arrays.backend import Array, Backend
from ag_visual.errors import out_of_memory

# The seed of a torch.Generator() nobody seeded.
DEFAULT_SEED: Final = 67280421310721

_HALVES: Final = 2


class Generator:
    """A stream of random numbers on one device, seeded and restorable.

    Example:
        >>> from ag_visual.arrays import CPU_BACKEND
        >>> g = Generator(CPU_BACKEND).manual_seed(0)
        >>> state = g.get_state()
        >>> first = g.rand((2,), "float32")
        >>> g.set_state(state)
        >>> bool((g.rand((2,), "float32") == first).all())
        True
    """

    __slots__ = ("__weakref__", "_bits", "_seed", "backend")

    def __init__(self, backend: Backend, seed: int | None = None) -> None:
        self.backend = backend
        self.manual_seed(DEFAULT_SEED if seed is None else seed)

    def manual_seed(self, seed: int) -> Generator:
        """Restart the stream; negative seeds count back from 2**64 as in torch."""
        number = int(seed)
        if not -(2**63) <= number < 2**64:
            raise RuntimeError(
                f"Overflow when unpacking long: a seed lies in [-2**63, 2**64), got {number}"
            )
        self._seed = number % 2**64
        self._bits = self.backend.random_bits(self._seed)
        return self

    def initial_seed(self) -> int:
        """The seed the stream began with."""
        return self._seed

    def seed(self) -> int:
        """Restart the stream from a seed of the operating system's and return it."""
        self.manual_seed(secrets.randbits(64))
        return self._seed

    def get_state(self) -> numpy.ndarray[Any, Any]:
        """The seed and the position in the stream, as host uint8."""
        head = self._seed.to_bytes(8, "little")
        return numpy.frombuffer(
            bytearray(head + self.backend.random_state(self._bits)), numpy.uint8
        )

    def set_state(self, state: numpy.ndarray[Any, Any]) -> None:
        """Return to a state of `get_state`; RuntimeError when it is not one."""
        raw = state.tobytes()
        if state.dtype != numpy.uint8 or len(raw) < 8:
            raise RuntimeError(
                "expected a torch.ByteTensor with a state from get_state(), got "
                f"{state.dtype} with {state.size} elements"
            )
        bits = self.backend.random_bits(0)
        try:
            self.backend.set_random_state(bits, raw[8:])
        except ValueError as problem:
            raise RuntimeError(f"RNG state is wrong size or foreign: {problem}") from None
        self._seed, self._bits = int.from_bytes(raw[:8], "little"), bits

    def rand(self, shape: tuple[int, ...], dtype: Any) -> Array:
        """Uniform on [0, 1), drawn directly in float32 or float64; complex has both parts so."""
        return self._real(self._bits.random, shape, numpy.dtype(dtype), 1.0)

    def randn(self, shape: tuple[int, ...], dtype: Any) -> Array:
        """Standard normal; a complex one has variance 1, half in each part."""
        return self._real(self._bits.standard_normal, shape, numpy.dtype(dtype), 0.5**0.5)

    def _real(
        self, draw: Any, shape: tuple[int, ...], dtype: numpy.dtype[Any], complex_scale: float
    ) -> Array:
        if dtype.kind == "c":
            part = numpy.float32 if dtype.itemsize == 8 else numpy.float64
            parts = self._draw(draw, (*shape, _HALVES), dtype=part)
            if complex_scale != 1.0:
                parts *= complex_scale
            return parts.view(dtype).reshape(shape)
        if dtype == numpy.float32 or dtype == numpy.float64:
            return self._draw(draw, shape, dtype=dtype.type)
        # Narrower types are rounded down from float32, so that rand stays below 1.
        drawn = self._draw(draw, shape, dtype=numpy.float32)
        if complex_scale == 1.0:
            steps = 2.0 ** (11 if dtype == numpy.float16 else 8)
            drawn = self.backend.xp.asarray(self.backend.xp.floor(drawn * steps) / steps)
        return drawn.astype(dtype)

    def _draw(self, draw: Any, shape: tuple[int, ...], *limits: int, dtype: Any) -> Array:
        """An array from the source: it is asked neither for scalars nor for nothing."""
        if 0 in shape:
            return self.backend.xp.empty(shape, dtype)
        try:
            return draw(*limits, size=shape or (1,), dtype=dtype).reshape(shape)
        except MemoryError as error:
            raise out_of_memory(error, "random numbers") from None

    def randint(self, low: int, high: int, shape: tuple[int, ...], dtype: Any) -> Array:
        """Integers from [low, high), in any dtype."""
        if low >= high:
            raise RuntimeError(
                f"random_ expects 'from' to be less than 'to', but got from={low} >= to={high}"
            )
        drawn = self._draw(self._bits.integers, shape, low, high, dtype=numpy.int64)
        return drawn.astype(dtype, copy=False)

    def randperm(self, n: int, dtype: Any = numpy.int64) -> Array:
        """A random order of the integers below `n`."""
        if n < 0:
            raise RuntimeError(f"n must be non-negative, got {n}")
        order = self.backend.xp.argsort(self._draw(self._bits.random, (n,), dtype=numpy.float64))
        return order.astype(dtype, copy=False)

    def bernoulli(self, p: float | Array, shape: tuple[int, ...]) -> Array:
        """A bool array, true with probability `p` (a number, or an array that broadcasts)."""
        if isinstance(p, (int, float)):
            if not 0.0 <= p <= 1.0:
                raise RuntimeError(f"bernoulli_ expects p to be in [0, 1], but got p={p}")
            dtype: Any = numpy.float32
        else:
            xp = self.backend.xp
            if p.size and not bool(xp.all((p >= 0) & (p <= 1))):
                raise RuntimeError("Expected p_in >= 0 && p_in <= 1 to be true for all elements")
            dtype = numpy.float64 if p.dtype == numpy.float64 else numpy.float32
        drawn = self._draw(self._bits.random, shape, dtype=dtype)
        return self.backend.asarray(drawn < p)

    def poisson(self, rate: Array) -> Array:
        """Poisson numbers (int64), one for each rate."""
        if rate.size == 0:
            return self.backend.xp.zeros(rate.shape, numpy.int64)
        wide = rate.astype(numpy.float64)
        return self.backend.asarray(self._bits.poisson(wide, size=rate.shape or (1,))).reshape(
            rate.shape
        )

    def standard_gamma(self, concentration: Array) -> Array:
        """Samples of Gamma(concentration, 1) in float64, one for each."""
        if concentration.size == 0:
            return self.backend.xp.zeros(concentration.shape, numpy.float64)
        wide = concentration.astype(numpy.float64)
        drawn = self._bits.standard_gamma(wide, size=wide.shape or (1,))
        return self.backend.asarray(drawn).reshape(wide.shape)

    def binomial(self, count: Array, p: Array, shape: tuple[int, ...]) -> Array:
        """How many of `count` trials with probability p succeed (int64); both broadcast."""
        if 0 in shape:
            return self.backend.xp.zeros(shape, numpy.int64)
        xp = self.backend.xp
        trials = xp.broadcast_to(count, shape).astype(numpy.int64)
        chance = xp.broadcast_to(p, shape).astype(numpy.float64)
        drawn = self._bits.binomial(trials, chance, size=shape or (1,))
        return self.backend.asarray(drawn).reshape(shape)

    def __repr__(self) -> str:
        return f"<Generator on '{self.backend.device_type}', seed {self._seed}>"
