"""torch.quasirandom: points that fill the unit cube evenly, by SciPy's Sobol sequences.

Joe, Kuo (2008), Constructing Sobol sequences with better two-dimensional projections.
"""

from __future__ import annotations

import inspect
import warnings
from typing import Any, Final

from scipy.stats import qmc

from ag_visual.dtypes import dtype as Dtype, get_default_dtype
from ag_visual.names import expose as _expose
from ag_visual.ops.tensor.from_data import tensor
from ag_visual.ops.tensor.random import randint

__all__ = ["SobolEngine"]

_RNG: Final = "rng" if "rng" in inspect.signature(qmc.Sobol).parameters else "seed"


class SobolEngine:
    """Points of a Sobol sequence in [0, 1) of some dimensions, each block of 2^m evenly spread.

    scramble: randomly shifted and mixed, by `seed`, without one by the default generator; the
    points that are not scrambled are PyTorch's, scrambled ones have numbers of their own. Raises
    ValueError for other dimensions than 1 to 21,201.

    >>> import ag_visual as torch
    >>> engine = torch.quasirandom.SobolEngine(dimension=2)
    >>> engine.draw(3).tolist()
    [[0.0, 0.0], [0.5, 0.5], [0.75, 0.25]]
    >>> engine.num_generated
    3
    """

    MAXBIT: Final = 30
    MAXDIM: Final = 21201

    def __init__(self, dimension: int, scramble: bool = False, seed: int | None = None) -> None:
        if not 1 <= dimension <= self.MAXDIM:
            raise ValueError(
                f"Supported range of dimensionality for SobolEngine is [1, {self.MAXDIM}]"
            )
        self.seed = seed
        self.scramble = scramble
        self.dimension = dimension
        self.num_generated = 0
        options: dict[str, Any] = {}
        if scramble:
            options[_RNG] = int(randint(0, 2**31, (1,))) if seed is None else seed
        self._points = qmc.Sobol(dimension, scramble=scramble, bits=self.MAXBIT, **options)

    def draw(self, n: int = 1, out: Any = None, dtype: Dtype | None = None) -> Any:
        """The next n points: n x dimension, of `dtype` (None: the default one), on the CPU."""
        if n < 0:
            raise RuntimeError(
                f"Trying to create tensor with negative dimension {n}: [{n}, {self.dimension}]"
            )
        with warnings.catch_warnings():
            # As in torch, `draw_base2` alone asks for powers of two.
            warnings.filterwarnings("ignore", "The balance properties of Sobol", UserWarning)
            numbers = self._points.random(n)
        self.num_generated += n
        found = tensor(numbers, dtype=dtype or get_default_dtype())
        return found if out is None else out.resize_as_(found).copy_(found)

    def draw_base2(self, m: int, out: Any = None, dtype: Dtype | None = None) -> Any:
        """The next 2^m points, where those drawn so far and these are a power of two together.

        Raises ValueError where they are not: the points would be spread less evenly.
        """
        n, before = 2**m, self.num_generated
        if (before + n) & (before + n - 1):
            raise ValueError(
                f"The balance properties of Sobol' points require n to be a power of 2. {before} "
                f"points have been previously generated, then: n={before}+2**{m}={before + n}. If "
                "you still want to do this, please use 'SobolEngine.draw()' instead."
            )
        return self.draw(n, out=out, dtype=dtype)

    def reset(self) -> SobolEngine:
        """Begin again with the first point, of the same scrambling."""
        self._points.reset()
        self.num_generated = 0
        return self

    def fast_forward(self, n: int) -> SobolEngine:
        """Leave out the next n points."""
        self._points.fast_forward(n)
        self.num_generated += n
        return self

    def __repr__(self) -> str:
        options = [f"dimension={self.dimension}"]
        if self.scramble:
            options.append("scramble=True")
        if self.seed is not None:
            options.append(f"seed={self.seed}")
        return f"{type(self).__name__}({', '.join(options)})"


_expose(__name__)
