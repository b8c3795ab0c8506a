"""torch.nn.utils.fusion: a batch norm in evaluation, made a part of the layer before it."""

from __future__ import annotations

import copy
from typing import Any

from ag_visual.names import expose as _expose
from ag_visual.nn.parameter import Parameter


def fuse_conv_bn_eval(conv: Any, bn: Any, transpose: bool = False) -> Any:
    """A copy of a convolution that computes `bn(conv(x))` in evaluation mode.

    transpose: the convolution is a transposed one.

    Raises:
        AssertionError: one of them is in training mode, or the norm has no statistics.
    """
    fused = _copied(conv, bn)
    fused.weight, fused.bias = fuse_conv_bn_weights(
        fused.weight, fused.bias, *_of_norm(bn), transpose
    )
    return fused


def fuse_conv_bn_weights(
    conv_w: Any,
    conv_b: Any,
    bn_rm: Any,
    bn_rv: Any,
    bn_eps: float,
    bn_w: Any,
    bn_b: Any,
    transpose: bool = False,
) -> tuple[Parameter, Parameter]:
    """Weight and bias of `fuse_conv_bn_eval`, from those of both and the norm's statistics."""
    rows = (1, -1) if transpose else (-1, 1)
    shape = (*rows, *[1] * (conv_w.dim() - 2))
    scale = (bn_rv + bn_eps).rsqrt()
    if bn_w is not None:
        scale = scale * bn_w
    bias = (-bn_rm if conv_b is None else conv_b - bn_rm) * scale
    if bn_b is not None:
        bias = bias + bn_b
    kind = conv_w.dtype if conv_b is None else conv_b.dtype
    weight = (conv_w * scale.reshape(shape)).to(dtype=conv_w.dtype)
    trained = conv_b is not None and conv_b.requires_grad
    return Parameter(weight, conv_w.requires_grad), Parameter(bias.to(dtype=kind), trained)


def fuse_linear_bn_eval(linear: Any, bn: Any) -> Any:
    """A copy of a linear layer that computes `bn(linear(x))` in evaluation mode.

    Raises:
        AssertionError: one of them is in training mode, the norm has no statistics, or another
            number of features than the layer's and than 1.
    """
    fused = _copied(linear, bn)
    if bn.num_features not in (1, linear.out_features):
        raise AssertionError(
            "To fuse, linear.out_features == bn.num_features or bn.num_features == 1, got "
            f"linear.out_features={linear.out_features} and bn.num_features={bn.num_features}"
        )
    fused.weight, fused.bias = fuse_linear_bn_weights(fused.weight, fused.bias, *_of_norm(bn))
    return fused


def fuse_linear_bn_weights(
    linear_w: Any, linear_b: Any, bn_rm: Any, bn_rv: Any, bn_eps: float, bn_w: Any, bn_b: Any
) -> tuple[Parameter, Parameter]:
    """Weight and bias of `fuse_linear_bn_eval`, from those of both and the norm's statistics."""
    return fuse_conv_bn_weights(linear_w, linear_b, bn_rm, bn_rv, bn_eps, bn_w, bn_b)


def _copied(layer: Any, bn: Any) -> Any:
    if layer.training or bn.training:
        raise AssertionError("Fusion only for eval!")
    if bn.running_mean is None or bn.running_var is None:
        raise AssertionError("bn.running_mean and bn.running_var must not be None")
    return copy.deepcopy(layer)


def _of_norm(bn: Any) -> tuple[Any, ...]:
    return bn.running_mean, bn.running_var, bn.eps, bn.weight, bn.bias


_expose(__name__)
