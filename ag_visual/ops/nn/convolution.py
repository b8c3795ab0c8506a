"""Convolution and its two backward ops: three bilinear ops, each the others' derivative."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ag_visual import dtypes
from ag_visual.arrays.kernels import conv as kernels
from ag_visual.core.diagnosis.operands import as_written
from ag_visual.dispatch.arguments import checked, kind_named
from ag_visual.dispatch.dtype_errors import in_macros, scalar_type
from ag_visual.dispatch.record import ErrorSample, Sample
from ag_visual.dispatch.rules import requesting
from ag_visual.dispatch.table import composite, op
from ag_visual.dispatch.vmap_layers import convolved, convolved_for_input, convolved_for_weight

Ints = tuple[int, ...]


def ints(name: str, value, count: int, what: str) -> Ints:
    """One number for each spatial dimension, from one for all or from a sequence."""
    if type(value) is not int:
        value = checked(name, what, kind_named("SomeDims"), value)
    found = (value,) * count if isinstance(value, int) else value
    if len(found) == 1 and count > 1:
        found = found * count
    if len(found) != count:
        raise RuntimeError(
            f"expected {what} to be a single integer value or a list of {count} values to match "
            f"the {name} dimensions, but got {what}={list(found)}"
        )
    return found


def _transposed_size(input: Ints, weight: Ints, *options) -> Ints:
    """The shape that a transposed convolution gives for these shapes."""
    stride, padding, dilation, output_padding, groups = options
    sizes = zip(input[2:], weight[2:], stride, padding, dilation, output_padding, strict=True)
    spatial = ((n - 1) * s - 2 * p + d * (k - 1) + o + 1 for n, k, s, p, d, o in sizes)
    return (input[0], weight[1] * groups, *spatial)


def _check(input, weight, bias, stride, dilation, *rest) -> None:
    padding, transposed, groups = rest
    if input.dtype != weight.dtype:
        raise RuntimeError(scalar_type(dtypes.of_array(input), dtypes.of_array(weight)))
    if bias is not None and bias.dtype != input.dtype:
        kinds = [in_macros(dtypes.of_array(a)) for a in (input, bias)]
        raise RuntimeError(f"Input type ({kinds[0]}) and bias type ({kinds[1]}) should be the same")
    if min(stride) <= 0:
        raise RuntimeError("non-positive stride is not supported")
    if min(dilation) <= 0:
        raise RuntimeError(f"dilation should be greater than zero, but got {list(dilation)}")
    if groups <= 0:
        raise RuntimeError("non-positive groups is not supported")
    if weight.shape[0] < groups:
        raise RuntimeError(
            f"Given groups={groups}, expected weight to be at least {groups} at dimension 0, but "
            f"got weight of size {list(weight.shape)} instead"
        )
    if 0 in weight.shape[2:]:
        raise RuntimeError(
            "kernel size should be greater than zero, but got a kernel of size "
            f"{list(weight.shape[2:])}"
        )
    if weight.shape[0] % groups:
        raise RuntimeError(
            f"Given groups={groups}, expected weight to be divisible by {groups} at dimension 0, "
            f"but got weight of size {list(weight.shape)} instead"
        )
    channels = weight.shape[0] if transposed else weight.shape[1] * groups
    if input.shape[1] != channels:
        raise RuntimeError(
            f"Given {'transposed=1, ' if transposed else f'groups={groups}, '}weight of size "
            f"{list(weight.shape)}, expected input{list(input.shape)} to have {channels} channels, "
            f"but got {input.shape[1]} channels instead" + as_written(input.shape, weight.shape)
        )
    count = weight.shape[1] * groups if transposed else weight.shape[0]
    if bias is not None and bias.shape != (count,):
        raise RuntimeError(
            f"Given {'transposed=1, ' if transposed else ''}weight of size {list(weight.shape)}, "
            f"expected bias to be 1-dimensional with {count} elements, but got bias of size "
            f"{list(bias.shape)} instead"
        )
    if not transposed:
        padded = [n + 2 * p for n, p in zip(input.shape[2:], padding, strict=True)]
        spans = [d * (k - 1) + 1 for k, d in zip(weight.shape[2:], dilation, strict=True)]
        if any(n < k for n, k in zip(padded, spans, strict=True)):
            raise RuntimeError(
                f"Calculated padded input size per channel: ({' x '.join(map(str, padded))}). "
                f"Kernel size: ({' x '.join(map(str, spans))}). Kernel size can't be greater than "
                "actual input size"
            )


def _convolution(
    xp,
    input,
    weight,
    bias=None,
    stride=(),
    padding=(),
    dilation=(),
    transposed: bool = False,
    output_padding=(),
    groups: int = 1,
):
    _check(input, weight, bias, stride, dilation, padding, transposed, groups)
    if not transposed:
        return kernels.conv2d(xp, input, weight, bias, stride, padding, dilation, groups)
    options = (stride, padding, dilation, output_padding, groups)
    size = _transposed_size(input.shape, weight.shape, *options)
    if min(size[2:]) < 1:
        sizes = (" x ".join(map(str, each)) for each in (input.shape[2:], size[2:]))
        raise RuntimeError(
            "Given input size per channel: ({}). Calculated output size per channel: ({}). "
            "Output size is too small".format(*sizes)
        )
    result = kernels.conv2d_input(xp, input, weight, size, stride, padding, dilation, groups)
    if bias is not None:
        result = result + bias.reshape((-1,) + (1,) * (input.ndim - 2))
    return result


def _for_input(
    xp, grad_output, weight, size, stride, padding, dilation, transposed, output_padding, groups
):
    if transposed:
        found = kernels.conv2d(xp, grad_output, weight, None, stride, padding, dilation, groups)
        # Output padding as large as the stride leaves room for windows that no input made.
        inner = found[(..., *(slice(0, n) for n in size[2:]))]
        return found if inner.shape == found.shape else xp.ascontiguousarray(inner)
    return kernels.conv2d_input(xp, grad_output, weight, size, stride, padding, dilation, groups)


def _for_weight(
    xp, grad_output, input, size, stride, padding, dilation, transposed, output_padding, groups
):
    small, large = (input, grad_output) if transposed else (grad_output, input)
    return kernels.conv2d_weight(xp, small, large, size, stride, padding, dilation, groups)


_OPTIONS = ("stride", "padding", "dilation", "transposed", "output_padding", "groups")


def _rule(name: str, *passed: str | None) -> Callable[..., Any]:
    """The rule that calls an op with what it asks for (None is passed on), and with all options."""
    absent = [at for at, each in enumerate(passed) if each is None]

    def rule(F, *known):
        given = list(known)
        for at in absent:
            given.insert(at, None)
        return getattr(F, name)(*given)

    return requesting("F", *filter(None, passed), *_OPTIONS)(rule)


_CASES: tuple[tuple[Any, ...], ...] = (
    # input, weight, stride, padding, dilation, transposed, output_padding, groups
    ((2, 3, 5, 4), (4, 3, 3, 2), (1, 1), (0, 0), (1, 1), False, (0, 0), 1),
    ((1, 4, 5, 5), (2, 2, 2, 3), (2, 1), (1, 2), (1, 1), False, (0, 0), 2),
    ((2, 2, 6, 6), (3, 2, 2, 2), (1, 2), (0, 1), (2, 2), False, (0, 0), 1),
    ((2, 3, 7), (2, 3, 3), (2,), (1,), (1,), False, (0,), 1),
    ((1, 3, 3, 4), (3, 2, 2, 3), (2, 1), (1, 0), (1, 1), True, (1, 0), 1),
)


def _samples(make):
    for at, (input, weight, *options) in enumerate(_CASES):
        out = weight[1] * options[5] if options[3] else weight[0]
        yield Sample((make(input), make(weight), make((out,)) if at % 2 else None, *options))


def _output_shape(input: Ints, weight: Ints, options) -> Ints:
    stride, padding, dilation, transposed, output_padding, groups = options
    if transposed:
        return _transposed_size(input, weight, stride, padding, dilation, output_padding, groups)
    size = kernels.output_size(input[2:], weight[2:], stride, padding, dilation)
    return (input[0], weight[0], *size)


def _input_samples(make):
    for input, weight, *options in _CASES:
        g = make(_output_shape(input, weight, options))
        yield Sample((g, make(weight), input, *options))


def _weight_samples(make):
    for input, weight, *options in _CASES:
        g = make(_output_shape(input, weight, options))
        yield Sample((g, make(input), weight, *options))


def _errors(make):
    options = ((1, 1), (0, 0), (1, 1), False, (0, 0), 1)
    yield ErrorSample(
        (make((2, 2, 4, 4)), make((5, 3, 3, 3)), None, *options), RuntimeError, "to have 3 channels"
    )
    yield ErrorSample(
        (make((2, 3, 2, 2)), make((5, 3, 3, 3)), None, *options), RuntimeError, "can't be greater"
    )
    narrow = make((5, 3, 3, 3)).astype("float32")
    yield ErrorSample(
        (make((2, 3, 4, 4)), narrow, None, *options), RuntimeError, "expected scalar type"
    )


op(
    "convolution",
    _convolution,
    doc="Each output is a sum over a window of the input, weighted by the kernel: `weight`.",
    vjp={
        "input": _rule("conv_for_input", "g", "weight", "input_shape"),
        "weight": _rule("conv_for_weight", "g", "input", "weight_shape"),
        "bias": lambda F, g: F.sum(g, (0, *range(2, g.ndim))),
    },
    jvp={
        "input": _rule("convolution", "t_input", "weight", None),
        "weight": _rule("convolution", "input", "t_weight", None),
        "bias": lambda F, t_bias, result: F.expand(
            F.reshape(t_bias, (-1,) + (1,) * (result.ndim - 2)), tuple(result.shape)
        ),
    },
    public=False,
    also_saves=("input", "weight"),
    fused=("input", "weight"),
    batch=convolved,
    samples=_samples,
    errors=_errors,
    formula="result[n, c, p] = bias[c] + Sum(k, r, weight[c, k, r] * input[n, k, p * stride + r])",
)
op(
    "conv_for_input",
    _for_input,
    doc="What a convolution's output gives back to its input: the kernels, added up at each place.",
    vjp={
        "grad_output": _rule("convolution", "g", "weight", None),
        "weight": _rule("conv_for_weight", "grad_output", "g", "weight_shape"),
    },
    jvp={
        "grad_output": _rule("conv_for_input", "t_grad_output", "weight", "size"),
        "weight": _rule("conv_for_input", "grad_output", "t_weight", "size"),
    },
    public=False,
    node="ConvolutionBackwardBackward0",
    batch=convolved_for_input,
    samples=_input_samples,
    formula="result[n, k, q] = Sum(c, r, weight[c, k, r] * grad_output[n, c, (q - r) / stride])",
)
op(
    "conv_for_weight",
    _for_weight,
    doc="What a convolution's output gives back to its kernel: the sum over all windows.",
    vjp={
        "grad_output": _rule("convolution", "input", "g", None),
        "input": _rule("conv_for_input", "grad_output", "g", "input_shape"),
    },
    jvp={
        "grad_output": _rule("conv_for_weight", "t_grad_output", "input", "size"),
        "input": _rule("conv_for_weight", "grad_output", "t_input", "size"),
    },
    public=False,
    node="ConvolutionBackwardBackward0",
    batch=convolved_for_weight,
    samples=_weight_samples,
    formula="result[c, k, r] = Sum(n, p, grad_output[n, c, p] * input[n, k, p * stride + r])",
)


def _same(F, input, weight, stride: Ints, dilation: Ints) -> tuple[Any, Ints]:
    """padding='same': what cannot be split evenly is padded on the right first."""
    if any(s != 1 for s in stride):
        raise RuntimeError("padding='same' is not supported for strided convolutions")
    totals = [d * (k - 1) for k, d in zip(weight.shape[2:], dilation, strict=True)]
    if any(total % 2 for total in totals):
        pads = [side for total in reversed(totals) for side in (0, total % 2)]
        input = F.constant_pad_nd(input, tuple(pads), 0.0)
    return input, tuple(total // 2 for total in totals)


def _conv(
    F, rank: int, input, weight, bias, stride, padding, dilation, groups: int, output_padding=None
):
    name = f"conv{'' if output_padding is None else '_transpose'}{rank}d"
    if input.ndim not in (rank + 1, rank + 2):
        raise RuntimeError(
            f"Expected {rank + 1}D (unbatched) or {rank + 2}D (batched) input to {name}, but got "
            f"input of size: {list(input.shape)}"
        )
    if weight.ndim < 3:
        raise RuntimeError("weight should have at least three dimensions")
    if weight.ndim != rank + 2:
        raise RuntimeError(
            f"Expected {rank + 2}-dimensional weight for {name}, but got weight of size "
            f"{list(weight.shape)}"
        )
    stride = ints(name, stride, rank, "stride")
    dilation = ints(name, dilation, rank, "dilation")
    batched = input.ndim == rank + 2
    x = input if batched else F.unsqueeze(input, 0)
    if padding == "valid":
        padding = 0
    if padding == "same":
        x, padding = _same(F, x, weight, stride, dilation)
    elif isinstance(padding, str):
        raise RuntimeError(f"Invalid padding string: {padding!r}\nWrite 'same' or 'valid'.")
    padding = ints(name, padding, rank, "padding")
    if min(padding) < 0:
        raise RuntimeError("negative padding is not supported")
    transposed = output_padding is not None
    extra = ints(name, output_padding or 0, rank, "output_padding")
    if min(extra) < 0:
        raise RuntimeError("negative output_padding is not supported")
    if transposed and any(o >= max(s, d) for o, s, d in zip(extra, stride, dilation, strict=True)):
        raise RuntimeError("output padding must be smaller than either stride or dilation")
    result = F.convolution(x, weight, bias, stride, padding, dilation, transposed, extra, groups)
    return result if batched else F.squeeze(result, 0)


def _declare(rank: int) -> None:
    def conv(F, input, weight, bias=None, stride=1, padding=0, dilation=1, groups: int = 1):
        return _conv(F, rank, input, weight, bias, stride, padding, dilation, groups)

    def transpose(
        F,
        input,
        weight,
        bias=None,
        stride=1,
        padding=0,
        output_padding=0,
        groups: int = 1,
        dilation=1,
    ):
        return _conv(
            F, rank, input, weight, bias, stride, padding, dilation, groups, output_padding
        )

    shapes = ", ".join("LHW"[0] if rank == 1 else x for x in "DHW"[-rank:])
    conv.__doc__ = (
        f"Cross-correlation of (N, C, {shapes}) or (C, {shapes}) with weights (O, C / groups, "
        f"k...); padding also 'same' or 'valid'."
    )
    transpose.__doc__ = f"The gradient of conv{rank}d for its input: weights (C, O / groups, k...)."
    public: dict[str, Any] = {"method": False, "spaces": "torch nn.functional", "autocast": "lower"}
    composite(f"conv{rank}d", operands=True, flops="convolution", **public)(conv)
    composite(f"conv_transpose{rank}d", operands=True, **public)(transpose)


for _rank in (1, 2, 3):
    _declare(_rank)


@composite("conv_tbc", method=False, spaces="torch nn.functional", autocast="lower")
def _conv_tbc(F, input, weight, bias, pad: int = 0):
    """conv1d of (time, batch, channels) with weights (k, channels, outputs)."""
    for name, tensor, dims in (("Input", input, 3), ("Weight", weight, 3), ("Bias", bias, 1)):
        if tensor.ndim != dims:
            axes = {"Input": "time, batch, in_channel", "Weight": "kernel_width, in, out channels"}
            raise RuntimeError(f"{name} must have {dims} dims: {axes.get(name, 'out_channels')}")
    if input.shape[2] != weight.shape[1]:
        raise RuntimeError("Input dim 2 (input channels) is not == dim 1 in the weight tensor")
    rows = F.conv1d(F.permute(input, (1, 2, 0)), F.permute(weight, (2, 1, 0)), bias, 1, pad)
    return F.permute(rows, (2, 0, 1))
