"""What one gradcheck looks at: a function, its inputs, the outputs that it gave, the tolerances.

All of gradcheck may import this; numbers are compared on the host, as float64 or complex128.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy

from ag_visual.arrays.backend import backend_of
from ag_visual.arrays.coo import Coo
from ag_visual.core.tensor import Tensor

Numbers = numpy.ndarray[Any, Any]
Outputs = tuple[Tensor, ...]


@dataclass(slots=True)
class Problem:
    """One function at one point. Inputs and outputs are counted as torch counts them: among those
    that require grad.
    """

    func: Callable[..., Any]
    given: tuple[Any, ...]
    """All arguments."""
    checked: tuple[int, ...]
    """Which of them are checked."""
    outputs: Outputs
    """What the first call gave, as far as it requires grad."""
    positions: tuple[int, ...]
    """Where these outputs stand among all that the function returns."""
    eps: float
    atol: float
    rtol: float
    nondet_tol: float = 0.0
    check_grad_dtypes: bool = False
    explain: bool = True
    """Whether somebody reads why it failed: if not, it is not found out."""

    @property
    def inputs(self) -> Outputs:
        """The inputs that are checked."""
        return tuple(self.given[position] for position in self.checked)

    @property
    def tolerances(self) -> tuple[float, float]:
        return self.atol, self.rtol


def as_tuple(value: Any) -> tuple[Any, ...]:
    """A tuple or a list as a tuple, any other value as a tuple of one."""
    return tuple(value) if isinstance(value, (tuple, list)) else (value,)


def differentiable(value: Any) -> Outputs:
    """Of what a function returned, the tensors that require grad."""
    return tuple(output for output in as_tuple(value) if output.requires_grad)


def is_differentiable(value: object) -> bool:
    """Whether an argument is a tensor that has derivatives and asks for them."""
    if not isinstance(value, Tensor) or not value.requires_grad:
        return False
    return value.dtype.is_floating_point or value.dtype.is_complex


def numbers(tensor: Tensor) -> Numbers:
    """The values on the host, row by row in one dimension; the memory may be the tensor's own."""
    array = tensor._array
    if type(array) is Coo:
        array = array.dense()
    if type(array) is not numpy.ndarray:
        array = backend_of(array).to_numpy(array)
    return array.ravel()


def wide(tensor: Tensor) -> Any:
    """The dtype in which the numbers of a tensor are compared."""
    return numpy.complex128 if tensor.dtype.is_complex else numpy.float64


def close(analytical: Any, numerical: Any, atol: float, rtol: float) -> Any:
    """Which entries agree: |a - n| <= atol + rtol |n|, as torch.allclose; NaN never does."""
    with numpy.errstate(all="ignore"):
        near = numpy.abs(analytical - numerical) <= atol + rtol * numpy.abs(numerical)
    return near | (analytical == numerical)
