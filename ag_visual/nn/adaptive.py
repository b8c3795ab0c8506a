"""Softmax over many classes, of which few are frequent."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any, NamedTuple

from ag_visual.dispatch.table import functions as F
from ag_visual.nn.containers import ModuleList, Sequential
from ag_visual.nn.linear import Linear
from ag_visual.nn.module import Module


class _ASMoutput(NamedTuple):
    """Log probabilities (N,) of the targets, and the mean of their negatives."""

    output: Any
    loss: Any


class AdaptiveLogSoftmaxWithLoss(Module):
    """Log softmax over n_classes sorted by frequency, in clusters that end at `cutoffs`.

    The head knows the first cluster's classes and one entry for each other cluster; cluster i of
    the tail sees in_features / div_value^(i + 1) features. Called with (N, in_features) and targets
    (N,), or with one sample, it gives `output` and `loss`. Grave et al., "Efficient softmax
    approximation for GPUs" (2017).

    Raises:
        ValueError: cutoffs that are not increasing integers from 1 to n_classes - 1.
        RuntimeError: targets outside the classes, or of another shape than the input.
    """

    def __init__(
        self,
        in_features: int,
        n_classes: int,
        cutoffs: Sequence[int],
        div_value: float = 4.0,
        head_bias: bool = False,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        ends = list(cutoffs)
        if not ends:
            raise ValueError("cutoffs should be a sequence of length larger than 0")
        whole = all(int(end) == end for end in ends)
        if not whole or ends != sorted(set(ends)) or ends[0] <= 0 or ends[-1] > n_classes - 1:
            raise ValueError(
                "cutoffs should be a sequence of unique, positive integers sorted in an increasing "
                "order, where each value is between 1 and n_classes-1"
            )
        self.in_features, self.n_classes = in_features, n_classes
        self.cutoffs = [*ends, n_classes]
        self.div_value, self.head_bias = div_value, head_bias
        self.shortlist_size, self.n_clusters = ends[0], len(ends)
        self.head_size = self.shortlist_size + self.n_clusters
        kind = {"device": device, "dtype": dtype}
        self.head = Linear(in_features, self.head_size, bias=head_bias, **kind)
        self.tail = ModuleList()
        for i, (first, end) in enumerate(pairwise(self.cutoffs)):
            inner = int(in_features // div_value ** (i + 1))
            down = Linear(in_features, inner, bias=False, **kind)
            self.tail.append(Sequential(down, Linear(inner, end - first, bias=False, **kind)))

    def reset_parameters(self) -> None:
        """New values of all layers."""
        self.head.reset_parameters()
        for down, out in self.tail:
            down.reset_parameters()
            out.reset_parameters()

    def forward(self, input_: Any, target_: Any) -> _ASMoutput:
        self._check(input_, target_)
        single = target_.dim() == 0
        input, target = (t.unsqueeze(0) if single else t for t in (input_, target_))
        if bool(((target < 0) | (target >= self.n_classes)).any()):
            raise RuntimeError(
                f"Target values should be in [0, {self.n_classes - 1}], but values in range "
                f"[{target.min().item()}, {target.max().item()}] were found. "
            )
        # Rows of the tail's clusters ask the head for the cluster, and this for the class.
        asked, output = target, input.new_zeros(len(target))
        for i, (first, end) in enumerate(pairwise(self.cutoffs)):
            rows = ((target >= first) & (target < end)).nonzero().squeeze(1)
            if rows.numel():
                inner = target[rows] - first
                scores = self.tail[i](input[rows]).log_softmax(1)
                found = scores.gather(1, inner.unsqueeze(1)).squeeze(1)
                output = output.index_copy(0, rows, found)
                asked = asked.index_fill(0, rows, self.shortlist_size + i)
        head = self.head(input).log_softmax(1)
        output = output + head.gather(1, asked.unsqueeze(1)).squeeze(1)
        loss = (-output).mean()
        return _ASMoutput(output.squeeze(0) if single else output, loss)

    def _check(self, input: Any, target: Any) -> None:
        if target.dim() > 1:
            raise RuntimeError("0D or 1D target tensor expected, multi-target not supported")
        if target.dim() == 1 and input.shape[0] != target.shape[0]:
            raise RuntimeError("Input and target should have the same size in the batch dimension.")
        if input.dim() != target.dim() + 1:
            raise RuntimeError(
                f"{target.dim()}D target tensor expects {target.dim() + 1}D input tensors, but "
                f"found inputs with size {input.shape}"
            )

    def log_prob(self, input: Any) -> Any:
        """The log probabilities (N, n_classes) of all classes."""
        head = self.head(input).log_softmax(1)
        parts = [head[:, : self.shortlist_size]]
        for i, layer in enumerate(self.tail):
            cluster = head[:, self.shortlist_size + i].unsqueeze(1)
            parts.append(layer(input).log_softmax(1) + cluster)
        return F["cat"](parts, 1)

    def predict(self, input: Any) -> Any:
        """The most probable class (N,) of each row: `log_prob(input).argmax(1)`.

        Only rows whose best entry of the head is a cluster ask the tail.
        """
        found = self.head(input).argmax(1)
        far = found >= self.shortlist_size
        if bool(far.any()):
            found[far] = self.log_prob(input[far]).argmax(1)
        return found
