"""Memory that an in-place write and its operands share: what torch refuses, this refuses.

A write is computed before it is stored, so that the refused ones would work here; but a program
that relies on it would stop in torch.
"""

from __future__ import annotations

from typing import Any

from ag_visual.arrays.backend import data_pointer
from ag_visual.core.source import warn
from ag_visual.core.storage import FRESH
from ag_visual.core.tensor import Tensor

REFUSED, ALLOWED, WARNED = range(3)
"""What a write does where several elements of what is written are one place in memory."""


def repeats(array: Any) -> bool:
    """Are several elements of an array one place in memory, as an expansion makes them?"""
    repeated = (s == 0 and n > 1 for s, n in zip(array.strides, array.shape, strict=True))
    return bool(array.size) and any(repeated)


def check_internal_overlap(tensor: Tensor, name: str, repeated: int = REFUSED) -> None:
    """Raise RuntimeError where several elements of what is written are one place in memory.

    repeated: ALLOWED, or WARNED, where torch lets a write be.
    """
    array = tensor._array
    if repeated == ALLOWED or array.flags.c_contiguous or not repeats(array):
        return
    if repeated == REFUSED:
        raise RuntimeError(
            "unsupported operation: more than one element of the written-to tensor refers to a "
            "single memory location. Please clone() the tensor before performing the operation.\n"
            f"{name} would write it several times: shape {list(array.shape)}, strides "
            f"{list(tensor.stride())}."
        )
    warn(
        f"Use of {name} on expanded tensors is deprecated. Please clone() the tensor before "
        "performing this operation. This also applies to advanced indexing e.g. tensor[mask] = "
        "scalar"
    )


def unless_itself(target: Tensor, values: dict[str, Any]) -> int:
    """`repeated` of a write that copies: what is the very same elements is let be."""
    source = values["src"]
    a, b = target._array, source._array
    same = (
        share(target, source)
        and (a.shape, a.strides, a.dtype) == (b.shape, b.strides, b.dtype)
        and data_pointer(a) == data_pointer(b)
    )
    return ALLOWED if same else REFUSED


def unless_idle(kinds: str) -> Any:
    """`repeated` of a write that changes nothing in arrays of some kinds: these are let be."""
    return lambda target, values: ALLOWED if target._array.dtype.kind in kinds else REFUSED


def share(a: Tensor, b: Tensor) -> bool:
    """Do two tensors look into the same memory, through views, detach() or .data?"""
    mine, other = a._store, b._store
    if mine is other:
        return mine is not FRESH or a is b
    return mine.log is not None and mine.log is other.log


def check_operand_overlap(
    target: Tensor, source: Any, name: str, *, no_overlap: bool = False
) -> None:
    """Raise RuntimeError where a write reads memory that it writes, but not element by element.

    no_overlap: also where both are the same elements in the same order (a write by index reads them
    in another one). As in torch, tensors with gaps between their elements are let through.
    """
    if not isinstance(source, Tensor) or not share(target, source):
        return
    a, b = target._array, source._array
    if not (a.size and b.size) or (a is b and not no_overlap) or not (_dense(a) and _dense(b)):
        return
    first, last = data_pointer(a), data_pointer(a) + a.nbytes
    start, end = data_pointer(b), data_pointer(b) + b.nbytes
    if end <= first or last <= start:
        return
    if not no_overlap and (first, last) == (start, end) and _strides(a) == _strides(b):
        return
    raise shared(name, target, source)


def shared(name: str, target: Tensor, source: Tensor) -> RuntimeError:
    """That what is written is read, too."""
    return RuntimeError(
        "unsupported operation: some elements of the input tensor and the written-to tensor refer "
        f"to a single memory location. Please clone() the tensor before performing the operation.\n"
        f"{name} writes shape {list(source.shape)} into {list(target.shape)}."
    )


def _strides(array: Any) -> tuple[int, ...]:
    # Where a dimension has one element the libraries' strides say nothing.
    pairs = zip(array.strides, array.shape, strict=True)
    return tuple(stride if size > 1 else 0 for stride, size in pairs)


def _dense(array: Any) -> bool:
    """Are the elements one block of memory without gaps, in some order of dimensions?"""
    if array.flags.c_contiguous:
        return True
    expected = array.itemsize
    for stride, size in sorted(zip(array.strides, array.shape, strict=True)):
        if size == 1:
            continue
        if stride != expected:
            return False
        expected *= size
    return True
