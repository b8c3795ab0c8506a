"""Modules with parameters or options: layers, activations, losses."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from ..ops.table import functions as F
from . import functional, init
from .module import Module
from .parameter import Parameter


def _parameter(shape: tuple[int, ...], device: Any, dtype: Any) -> Parameter:
    return Parameter(F["empty"](shape, device=device, dtype=dtype))


class Identity(Module):
    """Returns its input."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__()

    def forward(self, input: Any) -> Any:
        return input


class Linear(Module):
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
        self.weight = _parameter((out_features, in_features), device, dtype)
        self.register_parameter(
            "bias", _parameter((out_features,), device, dtype) if bias else None
        )
        self.reset_parameters()

    def reset_parameters(self) -> None:
        bound = 1 / math.sqrt(self.in_features) if self.in_features else 0.0
        init.uniform_(self.weight, -bound, bound)
        if self.bias is not None:
            init.uniform_(self.bias, -bound, bound)

    def forward(self, input: Any) -> Any:
        return functional.linear(input, self.weight, self.bias)

    def extra_repr(self) -> str:
        return (
            f"in_features={self.in_features}, out_features={self.out_features}, "
            f"bias={self.bias is not None}"
        )


def _pair(value: Any) -> tuple[int, int]:
    return (value, value) if isinstance(value, int) else tuple(value)  # type: ignore[return-value]


class Conv2d(Module):
    """2-d cross-correlation of (N, C, H, W) with (out, C/groups, kH, kW)."""

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: Any,
        stride: Any = 1,
        padding: Any = 0,
        dilation: Any = 1,
        groups: int = 1,
        bias: bool = True,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        if in_channels % groups or out_channels % groups:
            raise ValueError(
                f"in_channels {in_channels} and out_channels {out_channels} must be divisible by "
                f"groups {groups}"
            )
        self.in_channels, self.out_channels, self.groups = in_channels, out_channels, groups
        self.kernel_size, self.stride = _pair(kernel_size), _pair(stride)
        self.padding = padding if isinstance(padding, str) else _pair(padding)
        self.dilation = _pair(dilation)
        shape = (out_channels, in_channels // groups, *self.kernel_size)
        self.weight = _parameter(shape, device, dtype)
        self.register_parameter(
            "bias", _parameter((out_channels,), device, dtype) if bias else None
        )
        self.reset_parameters()

    def reset_parameters(self) -> None:
        bound = 1 / math.sqrt(init.fans(self.weight)[0])
        init.uniform_(self.weight, -bound, bound)
        if self.bias is not None:
            init.uniform_(self.bias, -bound, bound)

    def forward(self, input: Any) -> Any:
        return functional.conv2d(
            input, self.weight, self.bias, self.stride, self.padding, self.dilation, self.groups
        )

    def extra_repr(self) -> str:
        return (
            f"{self.in_channels}, {self.out_channels}, kernel_size={self.kernel_size}, "
            f"stride={self.stride}"
        )


class MaxPool2d(Module):
    """The largest value of each window."""

    def __init__(
        self, kernel_size: Any, stride: Any = None, padding: Any = 0, dilation: Any = 1
    ) -> None:
        super().__init__()
        self.kernel_size, self.stride = kernel_size, kernel_size if stride is None else stride
        self.padding, self.dilation = padding, dilation

    def forward(self, input: Any) -> Any:
        return functional.max_pool2d(
            input, self.kernel_size, self.stride, self.padding, self.dilation
        )

    def extra_repr(self) -> str:
        return f"kernel_size={self.kernel_size}, stride={self.stride}, padding={self.padding}"


class Embedding(Module):
    """Rows of a table by index. max_norm renormalises looked-up rows in place."""

    def __init__(
        self,
        num_embeddings: int,
        embedding_dim: int,
        padding_idx: int | None = None,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        self.num_embeddings, self.embedding_dim = num_embeddings, embedding_dim
        self.padding_idx = padding_idx
        self.weight = _parameter((num_embeddings, embedding_dim), device, dtype)
        init.normal_(self.weight)
        if padding_idx is not None:
            init.zeros_(self.weight.detach()[padding_idx])

    def forward(self, input: Any) -> Any:
        return functional.embedding(input, self.weight, self.padding_idx)

    def extra_repr(self) -> str:
        return f"{self.num_embeddings}, {self.embedding_dim}"


class Dropout(Module):
    """Sets elements to zero with probability p while training and scales the others."""

    def __init__(self, p: float = 0.5, inplace: bool = False) -> None:
        super().__init__()
        if not 0 <= p <= 1:
            raise ValueError(f"dropout probability has to be between 0 and 1, but got {p}")
        self.p, self.inplace = p, inplace

    def forward(self, input: Any) -> Any:
        return functional.dropout(input, self.p, self.training, self.inplace)

    def extra_repr(self) -> str:
        return f"p={self.p}, inplace={self.inplace}"


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

    def __init__(self, dim: int, unflattened_size: Any) -> None:
        super().__init__()
        self.dim, self.unflattened_size = dim, tuple(unflattened_size)

    def forward(self, input: Any) -> Any:
        return input.unflatten(self.dim, self.unflattened_size)


def _activation(name: str, function: str, *options: tuple[str, Any]) -> type[Module]:
    """A Module class around one of nn.functional's functions; options become its attributes."""

    def init(self: Any, *args: Any, **kwargs: Any) -> None:
        Module.__init__(self)
        names = [option for option, _ in options]
        if len(args) > len(names) or set(kwargs) - set(names):
            raise TypeError(f"{name}() takes the arguments {', '.join(names) or 'none'}")
        given = {**dict(options), **dict(zip(names, args, strict=False)), **kwargs}
        for option, value in given.items():
            setattr(self, option, value)

    def forward(self: Any, input: Any) -> Any:
        given = {option: getattr(self, option) for option, _ in options}
        if given.pop("inplace", False):
            return F[f"{function}_"](input, **given)
        return getattr(functional, function)(input, **given)

    def extra_repr(self: Any) -> str:
        return ", ".join(f"{option}={getattr(self, option)}" for option, _ in options)

    body = {
        "__init__": init,
        "forward": forward,
        "extra_repr": extra_repr,
        "__doc__": f"Applies `nn.functional.{function}`.",
        "__module__": __name__,
    }
    return type(name, (Module,), body)


ReLU = _activation("ReLU", "relu", ("inplace", False))
Sigmoid = _activation("Sigmoid", "sigmoid")
Tanh = _activation("Tanh", "tanh")
GELU = _activation("GELU", "gelu", ("approximate", "none"))
SiLU = _activation("SiLU", "silu", ("inplace", False))
ELU = _activation("ELU", "elu", ("alpha", 1.0), ("inplace", False))
LeakyReLU = _activation("LeakyReLU", "leaky_relu", ("negative_slope", 0.01), ("inplace", False))
Softplus = _activation("Softplus", "softplus", ("beta", 1.0), ("threshold", 20.0))
LogSigmoid = _activation("LogSigmoid", "logsigmoid")
Softmax = _activation("Softmax", "softmax", ("dim", None))
LogSoftmax = _activation("LogSoftmax", "log_softmax", ("dim", None))


class _Loss(Module):
    """Base of losses: `function(input, target, reduction=...)`."""

    function: Callable[..., Any]

    def __init__(self, reduction: str = "mean") -> None:
        super().__init__()
        self.reduction = reduction

    def forward(self, input: Any, target: Any) -> Any:
        return type(self).function(input, target, reduction=self.reduction)


class MSELoss(_Loss):
    """Mean squared error."""

    function = staticmethod(functional.mse_loss)


class L1Loss(_Loss):
    """Mean absolute error."""

    function = staticmethod(functional.l1_loss)


class BCELoss(_Loss):
    """Binary cross entropy of probabilities."""

    function = staticmethod(functional.binary_cross_entropy)


class BCEWithLogitsLoss(_Loss):
    """Binary cross entropy of logits."""

    function = staticmethod(functional.binary_cross_entropy_with_logits)


class NLLLoss(Module):
    """Negative log likelihood of log probabilities (N, C, ...) and class indices (N, ...)."""

    def __init__(
        self, weight: Any = None, ignore_index: int = -100, reduction: str = "mean"
    ) -> None:
        super().__init__()
        self.register_buffer("weight", weight)
        self.ignore_index, self.reduction = ignore_index, reduction

    def forward(self, input: Any, target: Any) -> Any:
        return functional.nll_loss(
            input,
            target,
            weight=self.weight,
            ignore_index=self.ignore_index,
            reduction=self.reduction,
        )


class CrossEntropyLoss(Module):
    """Cross entropy of logits (N, C, ...) and class indices (N, ...) or probabilities."""

    def __init__(
        self,
        weight: Any = None,
        ignore_index: int = -100,
        reduction: str = "mean",
        label_smoothing: float = 0.0,
    ) -> None:
        super().__init__()
        self.register_buffer("weight", weight)
        self.ignore_index, self.reduction = ignore_index, reduction
        self.label_smoothing = label_smoothing

    def forward(self, input: Any, target: Any) -> Any:
        return functional.cross_entropy(
            input,
            target,
            weight=self.weight,
            ignore_index=self.ignore_index,
            reduction=self.reduction,
            label_smoothing=self.label_smoothing,
        )
