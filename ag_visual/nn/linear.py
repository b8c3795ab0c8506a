"""Linear maps, and modules that only change a shape."""

from __future__ import annotations

import math
from typing import Any

from ag_visual.dispatch.table import functions as F
from ag_visual.nn import functional, init
from ag_visual.nn.module import Module
from ag_visual.nn.parameter import Parameter


def new_parameter(shape: tuple[int, ...], device: Any, dtype: Any) -> Parameter:
    """A parameter without values yet."""
    return Parameter(F["empty"](shape, device=device, dtype=dtype))


class Weighted(Module):
    """Base: a weight and a bias with values from U(-1/sqrt(fan_in), 1/sqrt(fan_in))."""

    weight: Any

    def _make(self, shape: tuple[int, ...], out: int, bias: bool, device: Any, dtype: Any) -> None:
        self.weight = new_parameter(shape, device, dtype)
        shift = new_parameter((out,), device, dtype) if bias else None
        self.register_parameter("bias", shift)
        self.reset_parameters()

    def _fan_in(self) -> int:
        return self.weight.shape[1]  # type: ignore[no-any-return]

    def reset_parameters(self) -> None:
        """New values from that distribution."""
        fan_in = self._fan_in()
        bound = 1 / math.sqrt(fan_in) if fan_in else 0.0
        init.uniform_(self.weight, -bound, bound)
        if self.bias is not None:
            init.uniform_(self.bias, -bound, bound)


class Identity(Module):
    """Returns its input, whatever it was made with."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__()

    def forward(self, input: Any) -> Any:
        return input


class Linear(Weighted):
    """y = x W^T + b with W of shape (out_features, in_features)."""

    def __init__(
        self,
        in_features: int,
        out_features: int,
        bias: bool = True,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        self.in_features, self.out_features = in_features, out_features
        self._make((out_features, in_features), out_features, bias, device, dtype)

    def forward(self, input: Any) -> Any:
        own = self._parameters
        try:  # a third of what `self.weight` costs
            weight, bias = own["weight"], own["bias"]
        except KeyError:  # computed, for instance by a parametrization
            weight, bias = self.weight, self.bias
        return functional.linear(input, weight, bias)

    def extra_repr(self) -> str:
        return (
            f"in_features={self.in_features}, out_features={self.out_features}, "
            f"bias={self.bias is not None}"
        )


class Bilinear(Weighted):
    """y_k = x1^T W_k x2 + b_k with W of shape (out_features, in1_features, in2_features)."""

    def __init__(
        self,
        in1_features: int,
        in2_features: int,
        out_features: int,
        bias: bool = True,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        if in1_features <= 0:
            raise ValueError(f"in1_features must be > 0, but got {in1_features}")
        self.in1_features, self.in2_features = in1_features, in2_features
        self.out_features = out_features
        shape = (out_features, in1_features, in2_features)
        self._make(shape, out_features, bias, device, dtype)

    def forward(self, input1: Any, input2: Any) -> Any:
        return functional.bilinear(input1, input2, self.weight, self.bias)

    def extra_repr(self) -> str:
        return (
            f"in1_features={self.in1_features}, in2_features={self.in2_features}, "
            f"out_features={self.out_features}, bias={self.bias is not None}"
        )


class Flatten(Module):
    """Flattens a range of dimensions."""

    def __init__(self, start_dim: int = 1, end_dim: int = -1) -> None:
        super().__init__()
        self.start_dim, self.end_dim = start_dim, end_dim

    def forward(self, input: Any) -> Any:
        return input.flatten(self.start_dim, self.end_dim)

    def extra_repr(self) -> str:
        return f"start_dim={self.start_dim}, end_dim={self.end_dim}"


class Unflatten(Module):
    """Splits one dimension into several."""

    def __init__(self, dim: Any, unflattened_size: Any) -> None:
        super().__init__()
        if not isinstance(dim, int):
            raise TypeError(
                f"invalid argument type {type(dim).__name__} for dim: dimensions have no names "
                "here, give its number"
            )
        if not isinstance(unflattened_size, (tuple, list)):
            raise TypeError(
                "unflattened_size must be a tuple of ints, but found type "
                f"{type(unflattened_size).__name__}"
            )
        for i, size in enumerate(unflattened_size):
            if not isinstance(size, int):
                raise TypeError(
                    "unflattened_size must be tuple of ints, but found element of type "
                    f"{type(size).__name__} at pos {i}"
                )
        self.dim, self.unflattened_size = dim, tuple(unflattened_size)

    def forward(self, input: Any) -> Any:
        return input.unflatten(self.dim, self.unflattened_size)

    def extra_repr(self) -> str:
        return f"dim={self.dim}, unflattened_size={self.unflattened_size}"
