"""Losses, each made from the function of its name in `nn.functional`."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from ag_visual.nn import functional
from ag_visual.nn.distance import PairwiseDistance
from ag_visual.nn.module import Module
from ag_visual.nn.of_function import of_function, reduction_of


class _Loss(Module):
    """Base of the losses: how the losses of a batch become one number."""

    def __init__(
        self, size_average: bool | None = None, reduce: bool | None = None, reduction: str = "mean"
    ) -> None:
        super().__init__()
        self.reduction = reduction_of(size_average, reduce, reduction)


class _WeightedLoss(_Loss):
    """Base of those with a weight for each class."""

    def __init__(
        self,
        weight: Any = None,
        size_average: bool | None = None,
        reduce: bool | None = None,
        reduction: str = "mean",
    ) -> None:
        super().__init__(size_average, reduce, reduction)
        self.register_buffer("weight", weight)


_loss = partial(of_function, __name__, shown=False, base=_Loss)
_weighted = partial(_loss, base=_WeightedLoss, buffers=("weight",))
_OLD = {"size_average": None, "reduce": None, "reduction": "mean"}
_OF_CLASSES = {"weight": None, "size_average": None, "ignore_index": -100, "reduce": None}
_PAIR = "input, target"

L1Loss = _loss("L1Loss", "l1_loss", "Mean absolute error.", _PAIR, **_OLD)
MSELoss = _loss("MSELoss", "mse_loss", "Mean squared error.", _PAIR, **_OLD)
SmoothL1Loss = _loss(
    "SmoothL1Loss",
    "smooth_l1_loss",
    'Squared below beta and absolute above, with one slope. Girshick, "Fast R-CNN" (2015).',
    _PAIR,
    **_OLD,
    beta=1.0,
)
HuberLoss = _loss(
    "HuberLoss",
    "huber_loss",
    "Squared below delta and absolute above. Huber (1964).",
    _PAIR,
    reduction="mean",
    delta=1.0,
)
BCELoss = _weighted(
    "BCELoss",
    "binary_cross_entropy",
    "Binary cross entropy of probabilities.",
    _PAIR,
    weight=None,
    **_OLD,
)
BCEWithLogitsLoss = _loss(
    "BCEWithLogitsLoss",
    "binary_cross_entropy_with_logits",
    "Binary cross entropy of logits.",
    _PAIR,
    buffers=("weight", "pos_weight"),
    weight=None,
    **_OLD,
    pos_weight=None,
)
NLLLoss = _weighted(
    "NLLLoss",
    "nll_loss",
    "Negative log likelihood of log probabilities (N, C, ...) and class indices (N, ...).",
    _PAIR,
    **_OF_CLASSES,
    reduction="mean",
)
CrossEntropyLoss = _weighted(
    "CrossEntropyLoss",
    "cross_entropy",
    "Cross entropy of logits (N, C, ...) and class indices (N, ...) or probabilities.",
    _PAIR,
    **_OF_CLASSES,
    reduction="mean",
    label_smoothing=0.0,
)
KLDivLoss = _loss(
    "KLDivLoss",
    "kl_div",
    "Kullback-Leibler divergence of log probabilities from a target.",
    _PAIR,
    **_OLD,
    log_target=False,
)
PoissonNLLLoss = _loss(
    "PoissonNLLLoss",
    "poisson_nll_loss",
    "Negative log likelihood of counts under a Poisson distribution.",
    "log_input, target",
    log_input=True,
    full=False,
    size_average=None,
    eps=1e-8,
    reduce=None,
    reduction="mean",
)
HingeEmbeddingLoss = _loss(
    "HingeEmbeddingLoss",
    "hinge_embedding_loss",
    "x where the target is 1, max(0, margin - x) where it is -1.",
    _PAIR,
    margin=1.0,
    **_OLD,
)
SoftMarginLoss = _loss(
    "SoftMarginLoss", "soft_margin_loss", "log(1 + exp(-target x)).", _PAIR, **_OLD
)
MultiLabelMarginLoss = _loss(
    "MultiLabelMarginLoss",
    "multilabel_margin_loss",
    "Hinge loss of several labels for each sample.",
    _PAIR,
    **_OLD,
)
MultiLabelSoftMarginLoss = _weighted(
    "MultiLabelSoftMarginLoss",
    "multilabel_soft_margin_loss",
    "Binary cross entropy of logits, averaged over the classes.",
    _PAIR,
    weight=None,
    **_OLD,
)
MultiMarginLoss = _weighted(
    "MultiMarginLoss",
    "multi_margin_loss",
    "Hinge loss of one label for each sample.",
    _PAIR,
    p=1,
    margin=1.0,
    weight=None,
    **_OLD,
)
CosineEmbeddingLoss = _loss(
    "CosineEmbeddingLoss",
    "cosine_embedding_loss",
    "1 - cos where the target is 1, max(0, cos - margin) where it is -1.",
    "input1, input2, target",
    margin=0.0,
    **_OLD,
)
MarginRankingLoss = _loss(
    "MarginRankingLoss",
    "margin_ranking_loss",
    "max(0, -target (x1 - x2) + margin).",
    "input1, input2, target",
    margin=0.0,
    **_OLD,
)
TripletMarginLoss = _loss(
    "TripletMarginLoss",
    "triplet_margin_loss",
    "max(0, d(anchor, positive) - d(anchor, negative) + margin). Balntas et al. (2016).",
    "anchor, positive, negative",
    margin=1.0,
    p=2.0,
    eps=1e-6,
    swap=False,
    **_OLD,
)


class GaussianNLLLoss(_Loss):
    """Negative log likelihood under normal distributions. Nix and Weigend (1994)."""

    def __init__(self, *, full: bool = False, eps: float = 1e-6, reduction: str = "mean") -> None:
        super().__init__(reduction=reduction)
        self.full, self.eps = full, eps

    def forward(self, input: Any, target: Any, var: Any) -> Any:
        return functional.gaussian_nll_loss(
            input, target, var, full=self.full, eps=self.eps, reduction=self.reduction
        )


class TripletMarginWithDistanceLoss(_Loss):
    """`TripletMarginLoss` with a distance of one's own."""

    def __init__(
        self,
        *,
        distance_function: Callable[[Any, Any], Any] | None = None,
        margin: float = 1.0,
        swap: bool = False,
        reduction: str = "mean",
    ) -> None:
        super().__init__(reduction=reduction)
        if margin <= 0:
            raise ValueError(
                "TripletMarginWithDistanceLoss: expected margin to be greater than 0, got "
                f"{margin} instead"
            )
        self.distance_function = distance_function or PairwiseDistance()
        self.margin, self.swap = margin, swap

    def forward(self, anchor: Any, positive: Any, negative: Any) -> Any:
        return functional.triplet_margin_with_distance_loss(
            anchor,
            positive,
            negative,
            distance_function=self.distance_function,
            margin=self.margin,
            swap=self.swap,
            reduction=self.reduction,
        )


class CTCLoss(_Loss):
    """Connectionist temporal classification. Graves et al. (2006)."""

    def __init__(
        self, blank: int = 0, reduction: str = "mean", zero_infinity: bool = False
    ) -> None:
        super().__init__(reduction=reduction)
        self.blank, self.zero_infinity = blank, zero_infinity

    def forward(self, log_probs: Any, targets: Any, input_lengths: Any, target_lengths: Any) -> Any:
        return functional.ctc_loss(
            log_probs,
            targets,
            input_lengths,
            target_lengths,
            self.blank,
            self.reduction,
            self.zero_infinity,
        )
