"""Every module with the arguments and the inputs it is tried with.

An input is a shape (normal numbers), or a function of the engine `t` that makes one. `train` says
whether a module in training mode gives the same numbers in both engines (nothing is drawn).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy

Input = tuple[int, ...] | Callable[[Any], Any]


class Case(NamedTuple):
    name: str
    args: tuple[Any, ...]
    inputs: tuple[Input, ...]
    kwargs: dict[str, Any] = {}
    train: bool = True
    call: dict[str, Any] = {}
    """Keyword arguments of forward; functions of the engine are called."""
    rtol: float = 1e-9
    """torch's kernels hold some constants (1/6, 1/alpha) in single precision."""


def case(
    name: str,
    *args: Any,
    inputs: Any,
    train: bool = True,
    call: Any = None,
    rtol: float = 1e-9,
    **kwargs: Any,
) -> Case:
    inputs = inputs if isinstance(inputs, list) else [inputs]
    return Case(name, args, tuple(inputs), kwargs, train, call or {}, rtol)


def ints(high: int, *shape: int) -> Callable[[Any], Any]:
    return lambda t: t.from_numpy(numpy.random.default_rng(3).integers(0, high, shape))


def signs(*shape: int) -> Callable[[Any], Any]:
    values = numpy.sign(numpy.random.default_rng(4).normal(size=shape))
    return lambda t: t.from_numpy(values)


def positive(*shape: int) -> Callable[[Any], Any]:
    values = numpy.random.default_rng(5).uniform(0.1, 0.9, shape)
    return lambda t: t.from_numpy(values)


def mask(*shape: int) -> Callable[[Any], Any]:
    """Some True, never a whole row of the last dimension."""
    values = numpy.random.default_rng(6).random(shape) < 0.4
    values[..., 0] = False
    return lambda t: t.from_numpy(values)


X = (2, 3, 5)
PLAIN = (
    "ReLU ReLU6 Sigmoid Tanh LogSigmoid Hardswish SiLU Mish ELU SELU LeakyReLU Softplus "
    "Softsign Tanhshrink Hardtanh GELU Softshrink Hardshrink PReLU Identity"
)
ACTIVATIONS = [
    *(case(name, inputs=X) for name in PLAIN.split()),
    *(case(name, inputs=X, rtol=1e-6) for name in ("Hardsigmoid", "CELU")),
    *(case(name, dim=1, inputs=X) for name in ("Softmax", "Softmin", "LogSoftmax")),
    case("GLU", inputs=(2, 6)),
    case("GLU", 1, inputs=(2, 4, 3)),
    case("Softmax2d", inputs=(2, 3, 2, 2)),
    case("RReLU", inputs=X, train=False),
    case("RReLU", 0.1, 0.2, True, inputs=lambda t: t.ones(3), train=False),
    case("Threshold", 0.1, 2.0, inputs=X),
    case("Hardtanh", -0.2, 0.7, inputs=X),
    case("ELU", alpha=0.3, inputs=X),
    case("CELU", 0.3, inputs=X, rtol=1e-6),
    case("LeakyReLU", 0.3, inputs=X),
    case("GELU", approximate="tanh", inputs=X),
    case("Softplus", 2.0, 1.0, inputs=X),
    case("Softshrink", 0.1, inputs=X),
    case("PReLU", 3, 0.1, inputs=X),
]
LINEAR = [
    case("Linear", 5, 4, inputs=X),
    case("Linear", 5, 4, bias=False, inputs=(5,)),
    case("Bilinear", 5, 4, 3, inputs=[(2, 5), (2, 4)]),
    case("Bilinear", 5, 4, 3, bias=False, inputs=[(2, 5), (2, 4)]),
    case("Flatten", inputs=X),
    case("Flatten", 0, 1, inputs=X),
    case("Unflatten", 1, (2, 3), inputs=(2, 6)),
]
CONVOLUTIONS = [
    case("Conv1d", 4, 6, 3, inputs=(2, 4, 8)),
    case("Conv1d", 4, 6, 3, 2, 1, 2, 2, inputs=(2, 4, 9)),
    case("Conv1d", 4, 6, 3, padding="same", padding_mode="circular", inputs=(2, 4, 8)),
    case("Conv2d", 3, 4, 3, inputs=(2, 3, 6, 5)),
    case("Conv2d", 4, 4, (3, 2), (2, 1), (1, 0), groups=2, bias=False, inputs=(1, 4, 6, 5)),
    case("Conv2d", 2, 3, 3, padding=(1, 2), padding_mode="reflect", inputs=(2, 2, 5, 5)),
    case("Conv2d", 2, 3, (2, 3), padding="same", dilation=2, inputs=(2, 2, 5, 5)),
    case("Conv2d", 2, 3, 4, padding="same", padding_mode="replicate", inputs=(2, 2, 5, 5)),
    case("Conv2d", 2, 3, 3, padding="valid", padding_mode="reflect", inputs=(2, 5, 5)),
    case("Conv3d", 2, 3, 2, inputs=(1, 2, 3, 4, 3)),
    case("ConvTranspose1d", 4, 6, 3, 2, 1, 1, 2, inputs=(2, 4, 5)),
    case("ConvTranspose1d", 2, 3, 3, 2, inputs=(2, 2, 4), call={"output_size": [10]}),
    case("ConvTranspose2d", 3, 4, 3, inputs=(2, 3, 4, 4)),
    case("ConvTranspose2d", 2, 4, (3, 2), 2, 1, bias=False, dilation=2, inputs=(1, 2, 4, 4)),
    case("ConvTranspose3d", 2, 3, 2, inputs=(1, 2, 3, 2, 3)),
]
POOLS = [
    case("MaxPool1d", 3, inputs=(2, 3, 8)),
    case("MaxPool1d", 3, 2, 1, return_indices=True, inputs=(2, 3, 8)),
    case("MaxPool2d", (3, 2), 2, 1, ceil_mode=True, inputs=(2, 3, 6, 5)),
    case("MaxPool2d", 2, dilation=2, inputs=(2, 3, 6, 5)),
    case("MaxPool3d", 2, inputs=(1, 2, 4, 4, 4)),
    case("AvgPool1d", 3, 2, 1, inputs=(2, 3, 8)),
    case("AvgPool2d", 3, 2, 1, True, False, inputs=(2, 3, 6, 5)),
    case("AvgPool2d", 2, divisor_override=3, inputs=(2, 3, 6, 5)),
    case("AvgPool3d", 2, inputs=(1, 2, 4, 4, 4)),
    case("LPPool1d", 2, 3, inputs=(2, 3, 8)),
    case("LPPool2d", 2, 2, 1, inputs=(2, 3, 6, 5)),
    case("LPPool3d", 3, 2, inputs=lambda t: t.ones(1, 2, 4, 4, 4, dtype=t.float64)),
    case("AdaptiveAvgPool1d", 3, inputs=(2, 3, 8)),
    case("AdaptiveAvgPool2d", (2, None), inputs=(2, 3, 6, 5)),
    case("AdaptiveAvgPool3d", 2, inputs=(1, 2, 4, 5, 4)),
    case("AdaptiveMaxPool1d", 3, inputs=(2, 3, 8)),
    case("AdaptiveMaxPool2d", (2, 3), return_indices=True, inputs=(2, 3, 6, 5)),
    case("AdaptiveMaxPool3d", 2, inputs=(1, 2, 4, 5, 4)),
    case("MaxUnpool1d", 2, inputs=[(1, 1, 2), lambda t: t.tensor([[[1, 2]]])]),
    case("MaxUnpool2d", 2, inputs=[(1, 1, 1, 2), lambda t: t.tensor([[[[1, 6]]]])]),
    case("MaxUnpool3d", 2, inputs=[(1, 1, 1, 1, 1), lambda t: t.tensor([[[[[5]]]]])]),
    case(
        "FractionalMaxPool2d",
        2,
        output_size=2,
        inputs=(1, 2, 5, 5),
        _random_samples=positive(1, 2, 2),
    ),
    case(
        "FractionalMaxPool3d",
        2,
        output_ratio=0.5,
        return_indices=True,
        inputs=(1, 2, 5, 5, 5),
        _random_samples=positive(1, 2, 3),
    ),
]
_SPACE = {1: (2, 3, 5), 2: (2, 3, 4, 5), 3: (1, 2, 4, 4, 5)}
PADS = [
    case(f"{kind}{n}d", *([1, 0.5] if kind == "ConstantPad" else [1]), inputs=_SPACE[n])
    for kind in ("ConstantPad", "ZeroPad", "ReflectionPad", "ReplicationPad", "CircularPad")
    for n in (1, 2, 3)
]
PADS += [case("ZeroPad2d", (1, 2, 0, 1), inputs=_SPACE[2])]
NORMS = [
    case("BatchNorm1d", 3, inputs=(4, 3)),
    case("BatchNorm1d", 3, 1e-3, None, inputs=(4, 3, 2)),
    case("BatchNorm1d", 3, affine=False, inputs=(4, 3)),
    case("BatchNorm2d", 3, track_running_stats=False, inputs=(2, 3, 4, 5)),
    case("BatchNorm2d", 3, momentum=0.3, inputs=(2, 3, 4, 5)),
    case("BatchNorm3d", 2, inputs=(1, 2, 4, 4, 5)),
    case("InstanceNorm1d", 3, inputs=(4, 3, 5)),
    case("InstanceNorm1d", 3, affine=True, inputs=(3, 5)),
    case("InstanceNorm2d", 3, affine=True, track_running_stats=True, inputs=(2, 3, 4, 5)),
    case("InstanceNorm3d", 2, inputs=(1, 2, 4, 4, 5)),
    case("LayerNorm", 5, inputs=X),
    case("LayerNorm", (3, 5), 1e-3, bias=False, inputs=X),
    case("LayerNorm", [3, 5], elementwise_affine=False, inputs=X),
    case("RMSNorm", 5, inputs=X),
    case("RMSNorm", (3, 5), 1e-3, False, inputs=X),
    case("GroupNorm", 2, 4, inputs=(2, 4, 5)),
    case("GroupNorm", 2, 4, 1e-3, False, inputs=(2, 4, 5)),
    case("LocalResponseNorm", 3, inputs=(2, 4, 5, 5)),
    case("LocalResponseNorm", 2, 1e-2, 0.5, 2.0, inputs=(2, 4, 5)),
]
EMBEDDINGS = [
    case("Embedding", 7, 3, inputs=ints(7, 2, 4)),
    case("Embedding", 7, 3, padding_idx=-2, inputs=ints(7, 2, 4)),
    case("Embedding", 7, 3, max_norm=0.5, norm_type=1.0, inputs=ints(7, 2, 4)),
    case("Embedding", 7, 3, scale_grad_by_freq=True, inputs=ints(7, 2, 4)),
    *(case("EmbeddingBag", 7, 3, mode=m, inputs=ints(7, 2, 4)) for m in ("sum", "mean", "max")),
    case("EmbeddingBag", 7, 3, inputs=[ints(7, 6), lambda t: t.tensor([0, 2, 5])]),
    case(
        "EmbeddingBag",
        7,
        3,
        mode="sum",
        padding_idx=1,
        inputs=ints(7, 2, 4),
        call={"per_sample_weights": positive(2, 4)},
    ),
    case(
        "EmbeddingBag",
        7,
        3,
        include_last_offset=True,
        inputs=[ints(7, 6), lambda t: t.tensor([0, 2, 6])],
    ),
]
DROPOUTS = [
    *(case(n, inputs=X, train=False) for n in ("Dropout", "AlphaDropout", "FeatureAlphaDropout")),
    case("Dropout", 0.2, True, inputs=lambda t: t.ones(3), train=False),
    case("Dropout", 0.0, inputs=X),
    case("Dropout1d", inputs=X, train=False),
    case("Dropout2d", inputs=(2, 3, 2, 2), train=False),
    case("Dropout3d", inputs=(2, 3, 2, 2, 2), train=False),
]
SPATIAL = [
    case("PixelShuffle", 2, inputs=(2, 8, 2, 3)),
    case("PixelUnshuffle", 2, inputs=(2, 2, 4, 6)),
    case("ChannelShuffle", 2, inputs=(2, 4, 2, 3)),
    case("Unfold", (2, 3), inputs=(2, 2, 4, 5)),
    case("Unfold", 2, 1, 1, 2, inputs=(2, 2, 4, 5)),
    case("Fold", (4, 5), (2, 3), inputs=(2, 12, 9)),
    case("Upsample", scale_factor=2, inputs=(2, 3, 4)),
    case("Upsample", (5, 6), mode="bilinear", align_corners=True, inputs=(2, 3, 4, 4)),
    case("Upsample", scale_factor=(1.5, 2.0), mode="bicubic", inputs=(2, 3, 4, 4)),
    case("UpsamplingNearest2d", scale_factor=2, inputs=(2, 3, 4, 4)),
    case("UpsamplingBilinear2d", (5, 6), inputs=(2, 3, 4, 4)),
    case("CosineSimilarity", inputs=[X, X]),
    case("CosineSimilarity", 2, 1e-3, inputs=[X, X]),
    case("PairwiseDistance", inputs=[(4, 5), (4, 5)]),
    case("PairwiseDistance", 1.0, keepdim=True, inputs=[(4, 5), (4, 5)]),
]
PAIR = [(4, 3), (4, 3)]
WEIGHT = positive(3)
LOSSES = [
    *(case(n, inputs=PAIR) for n in ("L1Loss", "MSELoss", "SmoothL1Loss", "HuberLoss")),
    case("MSELoss", reduction="sum", inputs=PAIR),
    case("L1Loss", reduction="none", inputs=PAIR),
    case("SmoothL1Loss", beta=0.3, inputs=PAIR),
    case("HuberLoss", "sum", 0.3, inputs=PAIR),
    case("BCELoss", inputs=[positive(4, 3), positive(4, 3)]),
    case("BCELoss", positive(4, 3), inputs=[positive(4, 3), positive(4, 3)]),
    case("BCEWithLogitsLoss", inputs=[(4, 3), positive(4, 3)]),
    case("BCEWithLogitsLoss", WEIGHT, pos_weight=WEIGHT, inputs=[(4, 3), positive(4, 3)]),
    case("NLLLoss", inputs=[(4, 3), ints(3, 4)]),
    case("NLLLoss", WEIGHT, ignore_index=1, inputs=[(4, 3, 2), ints(3, 4, 2)]),
    case("CrossEntropyLoss", inputs=[(4, 3), ints(3, 4)]),
    case("CrossEntropyLoss", WEIGHT, label_smoothing=0.2, inputs=[(4, 3), ints(3, 4)]),
    case("CrossEntropyLoss", reduction="none", inputs=[(4, 3), positive(4, 3)]),
    case("KLDivLoss", reduction="batchmean", inputs=[(4, 3), positive(4, 3)]),
    case("KLDivLoss", reduction="sum", log_target=True, inputs=PAIR),
    case("PoissonNLLLoss", inputs=[(4, 3), positive(4, 3)]),
    case("PoissonNLLLoss", False, True, inputs=[positive(4, 3), lambda t: positive(4, 3)(t) * 5]),
    case("GaussianNLLLoss", full=True, inputs=[(4, 3), (4, 3), positive(4, 3)]),
    case("HingeEmbeddingLoss", inputs=[(4, 3), signs(4, 3)]),
    case("SoftMarginLoss", inputs=[(4, 3), signs(4, 3)]),
    case("MultiLabelMarginLoss", inputs=[(2, 3), lambda t: t.tensor([[1, -1, 0], [2, 0, -1]])]),
    case("MultiLabelSoftMarginLoss", WEIGHT, inputs=[(4, 3), positive(4, 3)]),
    case("MultiMarginLoss", inputs=[(4, 3), ints(3, 4)]),
    case("MultiMarginLoss", 2, 0.5, WEIGHT, inputs=[(4, 3), ints(3, 4)]),
    case("CosineEmbeddingLoss", 0.1, inputs=[(4, 3), (4, 3), signs(4)]),
    case("MarginRankingLoss", 0.1, inputs=[(4,), (4,), signs(4)]),
    case("TripletMarginLoss", swap=True, inputs=[(4, 3), (4, 3), (4, 3)]),
    case("TripletMarginWithDistanceLoss", margin=2.0, inputs=[(4, 3), (4, 3), (4, 3)]),
    case(
        "CTCLoss",
        inputs=[
            lambda t: t.log_softmax(positive(6, 2, 4)(t), -1),
            lambda t: t.tensor([[1, 2, 3], [1, 1, 0]]),
            lambda t: t.tensor([6, 5]),
            lambda t: t.tensor([3, 2]),
        ],
    ),
]
CELLS = [
    case("RNNCell", 3, 4, inputs=(2, 3)),
    case("RNNCell", 3, 4, nonlinearity="relu", inputs=[(3,), (4,)]),
    case("LSTMCell", 3, 4, inputs=(2, 3)),
    case("LSTMCell", 3, 4, bias=False, inputs=[(2, 3), lambda t: (t.ones(2, 4).double(),) * 2]),
    case("GRUCell", 3, 4, inputs=[(2, 3), (2, 4)]),
]
LAYERS = [
    case("RNN", 3, 4, inputs=(5, 2, 3)),
    case("RNN", 3, 4, 2, "relu", inputs=[(5, 2, 3), (2, 2, 4)]),
    case("RNN", 3, 4, bias=False, bidirectional=True, inputs=(5, 3)),
    case("GRU", 3, 4, inputs=(5, 2, 3)),
    case("GRU", 3, 4, 2, batch_first=True, bidirectional=True, inputs=[(2, 5, 3), (4, 2, 4)]),
    case("LSTM", 3, 4, inputs=(5, 2, 3)),
    case("LSTM", 3, 4, 2, proj_size=2, bidirectional=True, inputs=(5, 2, 3)),
    case("LSTM", 3, 4, 2, dropout=0.5, batch_first=True, inputs=(2, 5, 3), train=False),
    case("LSTM", 3, 4, bias=False, inputs=[(5, 3), lambda t: (t.ones(1, 4).double(),) * 2]),
]
THREE = [(3, 2, 8), (5, 2, 8), (5, 2, 8)]
ATTENTION = [
    case("MultiheadAttention", 8, 2, inputs=THREE),
    case("MultiheadAttention", 8, 2, inputs=THREE, call={"need_weights": False}),
    case("MultiheadAttention", 8, 4, inputs=THREE, call={"average_attn_weights": False}),
    case("MultiheadAttention", 8, 2, bias=False, batch_first=True, inputs=[(2, 3, 8)] * 3),
    case("MultiheadAttention", 8, 2, kdim=3, vdim=5, inputs=[(4, 8), (6, 3), (6, 5)]),
    case(
        "MultiheadAttention",
        8,
        2,
        add_bias_kv=True,
        add_zero_attn=True,
        inputs=THREE,
        call={"key_padding_mask": mask(2, 5), "attn_mask": mask(3, 5)},
    ),
    case("MultiheadAttention", 8, 2, inputs=THREE, call={"attn_mask": positive(4, 3, 5)}),
]
SMALL = {"dim_feedforward": 6, "dropout": 0.0}


def causal(t: Any) -> Any:
    return t.nn.Transformer.generate_square_subsequent_mask(4).double()


TRANSFORMERS = [
    case("TransformerEncoderLayer", 8, 2, **SMALL, inputs=(4, 2, 8)),
    case(
        "TransformerEncoderLayer",
        8,
        2,
        **SMALL,
        activation="gelu",
        norm_first=True,
        batch_first=True,
        bias=False,
        inputs=(2, 4, 8),
        call={"src_key_padding_mask": mask(2, 4)},
    ),
    case("TransformerDecoderLayer", 8, 2, **SMALL, inputs=[(4, 2, 8), (3, 2, 8)]),
    case(
        "TransformerDecoderLayer",
        8,
        2,
        **SMALL,
        norm_first=True,
        inputs=[(4, 2, 8), (3, 2, 8)],
        call={"memory_mask": mask(4, 3), "tgt_key_padding_mask": mask(2, 4)},
    ),
    case(
        "Transformer",
        8,
        2,
        1,
        2,
        **SMALL,
        inputs=[(3, 2, 8), (4, 2, 8)],
        call={"tgt_mask": causal},
    ),
]
CASES = [
    *(ACTIVATIONS + LINEAR + CONVOLUTIONS + POOLS + PADS + NORMS + EMBEDDINGS + DROPOUTS),
    *(SPATIAL + LOSSES + CELLS + LAYERS + ATTENTION + TRANSFORMERS),
]


def label(case: Case) -> str:
    told = [str(a) if not callable(a) else "tensor" for a in case.args]
    told += [f"{k}={v if not callable(v) else 'tensor'}" for k, v in case.kwargs.items()]
    told += sorted(case.call)
    return f"{case.name}({', '.join(told)})"
