"""torch.nn.grad: the gradients of convolutions with respect to one of their inputs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ag_visual.autograd.api import grad
from ag_visual.names import expose as _expose
from ag_visual.nn import functional


def _of_input(count: int) -> Callable[..., Any]:
    def gradient(
        input_size: Any,
        weight: Any,
        grad_output: Any,
        stride: Any = 1,
        padding: Any = 0,
        dilation: Any = 1,
        groups: int = 1,
    ) -> Any:
        input = grad_output.new_zeros(tuple(input_size))
        return _gradient(count, input, weight, 0, grad_output, (stride, padding, dilation, groups))

    return _named(gradient, f"conv{count}d_input", "input", "of a convolution of this size")


def _of_weight(count: int) -> Callable[..., Any]:
    def gradient(
        input: Any,
        weight_size: Any,
        grad_output: Any,
        stride: Any = 1,
        padding: Any = 0,
        dilation: Any = 1,
        groups: int = 1,
    ) -> Any:
        weight = grad_output.new_zeros(tuple(weight_size))
        return _gradient(count, input, weight, 1, grad_output, (stride, padding, dilation, groups))

    return _named(gradient, f"conv{count}d_weight", "weight", "of this size of a convolution")


def _named(function: Any, name: str, what: str, whose: str) -> Callable[..., Any]:
    function.__name__ = function.__qualname__ = name
    function.__doc__ = (
        f"The gradient of {name[:6]} for the {what} {whose}, from that of the output."
    )
    return function  # type: ignore[no-any-return]


def _gradient(
    count: int, input: Any, weight: Any, which: int, g: Any, options: tuple[Any, ...]
) -> Any:
    """A convolution is linear in each: the other's values are all that its gradient needs."""
    pair = [input.detach(), weight.detach()]
    pair[which].requires_grad_()
    out = getattr(functional, f"conv{count}d")(*pair, None, *options)
    return grad(out, pair[which], g)[0]


conv1d_input, conv2d_input, conv3d_input = map(_of_input, (1, 2, 3))
conv1d_weight, conv2d_weight, conv3d_weight = map(_of_weight, (1, 2, 3))

_expose(__name__)
