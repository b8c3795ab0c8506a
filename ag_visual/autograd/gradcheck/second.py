"""What `gradgradcheck` checks: the backward of a function, as a function by itself."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ag_visual import dtypes
from ag_visual.autograd.api import grad
from ag_visual.autograd.gradcheck.problem import differentiable, is_differentiable
from ag_visual.core.tensor import Tensor
from ag_visual.dispatch.table import functions


class Backward:
    """The gradients of a function, as a function of its arguments and of the incoming gradients."""

    def __init__(self, func: Callable[..., Any], given: tuple[Any, ...]) -> None:
        self._func = func
        self._count = len(given)
        self._wanted = [number for number, each in enumerate(given) if is_differentiable(each)]
        self.arguments: list[int] = []
        """By which arguments the gradients are that the last call returned."""

    def __call__(self, *args: Any) -> tuple[Tensor, ...]:
        given = list(args[: self._count])
        for number in self._wanted:
            given[number].requires_grad_()  # forward mode gives it without
        found: tuple[Tensor | None, ...] = grad(
            differentiable(self._func(*given)),
            [given[number] for number in self._wanted],
            args[self._count :],
            create_graph=True,
            allow_unused=True,
        )
        arrived = [
            (number, gradient)
            for number, gradient in zip(self._wanted, found, strict=True)
            if gradient is not None
        ]
        self.arguments = [number for number, _ in arrived]
        return tuple(gradient for _, gradient in arrived)

    def argument(self, number: int) -> str:
        """What an argument is, for a report."""
        if number < self._count:
            return f"argument {number} of the function"
        return f"the gradient of result {number - self._count} of the function"

    def result(self, number: int) -> str:
        """What a result is."""
        return f"the gradient by argument {self.arguments[number]} of the function"


def drawn(output: Tensor, contiguous: bool) -> Tensor:
    """A gradient for an output, from the program's own random numbers."""
    shape = tuple(output.shape)
    if not contiguous and shape:
        shape = (*shape[:-1], 2 * shape[-1])
    found = _uniform(shape, output)
    if not contiguous and shape:
        found = found[..., ::2]
    result: Tensor = found.detach()
    return result.requires_grad_()


def _uniform(shape: tuple[int, ...], like: Tensor) -> Any:
    """Numbers from -1 to 1, and so for the imaginary parts of complex ones."""
    dtype = like.dtype
    real = dtypes.float64 if dtype.is_complex else dtype
    found = functions["rand"](shape, dtype=real, device=like.device) * 2 - 1
    if not dtype.is_complex:
        return found
    return (found + 1j * _uniform(shape, found)).to(dtype)
