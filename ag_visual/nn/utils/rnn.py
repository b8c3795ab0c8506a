"""Sequences of different lengths: padded to one tensor, or packed step by step.

A packed sequence holds the first step of all sequences, then the second step of those that have
one, and so on, the longest sequence first; so each step of an RNN is one multiplication.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from ag_visual.core.tensor import Tensor
from ag_visual.dispatch.table import functions as F
from ag_visual.names import expose as _expose


class _Packed(NamedTuple):
    data: Any
    batch_sizes: Any
    sorted_indices: Any
    unsorted_indices: Any


def _to_dtype(name: str) -> Callable[[PackedSequence], PackedSequence]:
    def converted(self: PackedSequence) -> PackedSequence:
        return self.to(getattr(self.data, name)().dtype)

    converted.__name__ = converted.__qualname__ = name
    converted.__doc__ = f"The same with `data.{name}()`."
    return converted


class PackedSequence(_Packed):
    """The steps of a batch of sequences; `pack_padded_sequence` makes it.

    data: all steps. batch_sizes: how many sequences have a first, second, ... step.
    sorted_indices, unsorted_indices: the way from the given order to the longest first, and back.
    """

    __slots__ = ()

    def __new__(
        cls,
        data: Any,
        batch_sizes: Any = None,
        sorted_indices: Any = None,
        unsorted_indices: Any = None,
    ) -> PackedSequence:
        if unsorted_indices is None:
            unsorted_indices = invert_permutation(sorted_indices)
        if batch_sizes is None:  # torch's old form: the first two as one pair
            data, batch_sizes = data
        if batch_sizes.device.type != "cpu":
            raise ValueError(
                "batch_sizes should always be on CPU. Instances of PackedSequence should never be "
                "created manually. They should be instantiated by functions like "
                "pack_sequence and pack_padded_sequences in nn.utils.rnn."
            )
        return super().__new__(cls, data, batch_sizes, sorted_indices, unsorted_indices)

    def to(self, *args: Any, **kwargs: Any) -> PackedSequence:
        """The same with its data on another device or in another dtype."""
        data = self.data.to(*args, **kwargs)
        if data is self.data:
            return self
        indices = [
            None if i is None else i.to(data.device)
            for i in (self.sorted_indices, self.unsorted_indices)
        ]
        return PackedSequence(data, self.batch_sizes, *indices)

    def cpu(self) -> PackedSequence:
        return self.to("cpu")

    def cuda(self, device: Any = "cuda", non_blocking: bool = False) -> PackedSequence:
        return self.to(device)

    def is_pinned(self) -> bool:
        """Whether its data are in page-locked memory."""
        return bool(self.data.is_pinned())

    @property
    def is_cuda(self) -> bool:
        return bool(self.data.is_cuda)

    double = _to_dtype("double")
    float = _to_dtype("float")
    half = _to_dtype("half")
    byte = _to_dtype("byte")
    char = _to_dtype("char")
    short = _to_dtype("short")
    int = _to_dtype("int")
    long = _to_dtype("long")


def invert_permutation(permutation: Any) -> Any:
    """The permutation that undoes another one (None stays None)."""
    return None if permutation is None else permutation.argsort()


def pack_padded_sequence(
    input: Any, lengths: Any, batch_first: bool = False, enforce_sorted: bool = True
) -> PackedSequence:
    """Pack (T, B, ...), or (B, T, ...) with batch_first, of which each sequence has its length.

    enforce_sorted: the lengths are sorted already, the longest first.
    """
    if not isinstance(lengths, Tensor):
        lengths = F["as_tensor"](lengths)
    sorted_indices = None
    dim = 0 if batch_first else 1
    if not enforce_sorted:
        lengths, sorted_indices = lengths.sort(descending=True)
        input = input.index_select(dim, sorted_indices)
    if batch_first:
        input = input.transpose(0, 1)
    sizes = lengths.tolist()
    if len(sizes) != input.shape[1]:
        raise RuntimeError(
            f"Expected `len(lengths)` to be equal to batch_size, but got {len(sizes)} (batch_size="
            f"{input.shape[1]})"
        )
    if any(size <= 0 for size in sizes):
        raise RuntimeError(
            "Length of all samples has to be greater than 0, but found an element in 'lengths' "
            "that is <= 0"
        )
    if sizes != sorted(sizes, reverse=True):
        raise RuntimeError(
            "`lengths` array must be sorted in decreasing order when `enforce_sorted` is True. You "
            "can pass `enforce_sorted=False` to pack_padded_sequence and/or pack_sequence to "
            "sidestep this requirement if you do not need ONNX exportability."
        )
    if sizes[0] > input.shape[0]:
        raise RuntimeError(
            f"Expected lengths of at most {input.shape[0]}, the steps of the input, but got "
            f"{sizes[0]}"
        )
    batch_sizes = [sum(size > t for size in sizes) for t in range(sizes[0])]
    data = F["cat"]([input[t, :count] for t, count in enumerate(batch_sizes)])
    return PackedSequence(data, F["tensor"](batch_sizes), sorted_indices)


def _filled(part: Any, size: int, value: float, side: str = "right") -> Any:
    """A tensor with as many rows of one value on one side as make it so long."""
    missing = size - part.shape[0]
    if not missing:
        return part
    fill = part.new_full((missing, *part.shape[1:]), value)
    return F["cat"]([part, fill] if side == "right" else [fill, part])


def pad_packed_sequence(
    sequence: PackedSequence,
    batch_first: bool = False,
    padding_value: float = 0.0,
    total_length: int | None = None,
) -> tuple[Any, Any]:
    """(padded, lengths): the inverse of `pack_padded_sequence`."""
    sizes = sequence.batch_sizes.tolist()
    steps = len(sizes)
    if total_length is not None:
        if total_length < steps:
            raise ValueError(
                "Expected total_length to be at least the length of the longest sequence in input, "
                f"but got total_length={total_length} and max sequence length being {steps}"
            )
        steps = total_length
    most = sizes[0]
    rows = [_filled(part, most, padding_value) for part in sequence.data.split(sizes)]
    rows += [_filled(sequence.data[:0], most, padding_value)] * (steps - len(sizes))
    padded = F["stack"](rows, 1 if batch_first else 0)
    lengths = F["tensor"]([sum(size > i for size in sizes) for i in range(most)])
    if sequence.unsorted_indices is not None:
        padded = padded.index_select(0 if batch_first else 1, sequence.unsorted_indices)
        lengths = lengths[sequence.unsorted_indices.cpu()]
    return padded, lengths


def pad_sequence(
    sequences: Any,
    batch_first: bool = False,
    padding_value: float = 0.0,
    padding_side: str = "right",
) -> Any:
    """Stack sequences (L_i, ...) as (T, B, ...), the shorter ones filled up."""
    if isinstance(sequences, Tensor):
        sequences = sequences.unbind(0)  # type: ignore[attr-defined]
    elif not isinstance(sequences, Iterable):
        raise RuntimeError(
            "pad_sequence: Expected iterable for input sequences, but got arg of type: "
            f"{type(sequences)}"
        )
    if padding_side not in ("left", "right"):
        raise RuntimeError(f"padding_side should be 'left' or 'right', but is {padding_side!r}")
    sequences = list(sequences)
    if not sequences:
        raise RuntimeError("received an empty list of sequences")
    longest = max(s.shape[0] for s in sequences)
    rows = [_filled(s, longest, padding_value, padding_side) for s in sequences]
    return F["stack"](rows, 0 if batch_first else 1)


def unpad_sequence(padded_sequences: Any, lengths: Any, batch_first: bool = False) -> list[Any]:
    """The sequences of a padded tensor, each with its own length."""
    if not batch_first:
        padded_sequences = padded_sequences.transpose(0, 1)
    counts = lengths.tolist() if isinstance(lengths, Tensor) else lengths
    return [s[:n] for s, n in zip(padded_sequences.unbind(0), counts, strict=True)]


def pack_sequence(sequences: list[Any], enforce_sorted: bool = True) -> PackedSequence:
    """Pack sequences (L_i, ...)."""
    lengths = F["tensor"]([s.shape[0] for s in sequences])
    return pack_padded_sequence(pad_sequence(sequences), lengths, False, enforce_sorted)


def unpack_sequence(packed_sequences: PackedSequence) -> list[Any]:
    """The sequences of a packed one."""
    padded, lengths = pad_packed_sequence(packed_sequences, batch_first=True)
    return unpad_sequence(padded, lengths, batch_first=True)


_expose(__name__)
