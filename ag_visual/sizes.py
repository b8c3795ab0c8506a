"""Size: the shape of a tensor, a tuple that prints as torch's.

Layer 0: may import nothing of the package. `size_of(shape)` is the unchecked way for shapes that
come from an array and are known to be tuples of ints.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from math import prod
from operator import index
from typing import Any, SupportsIndex, overload


class Size(tuple[int, ...]):
    """A shape: `torch.Size([2, 3])`. Slices, sums and multiples of a Size are Sizes."""

    __slots__ = ()

    def __new__(cls, shape: Iterable[SupportsIndex] = ()) -> Size:
        entries = tuple(shape)
        for at, entry in enumerate(entries):
            if type(entry) is int:
                continue
            try:
                index(entry)
            except TypeError:
                raise TypeError(
                    "torch.Size() takes an iterable of 'int' "
                    f"(item {at} is '{type(entry).__name__}')"
                ) from None
        return tuple.__new__(cls, [index(entry) for entry in entries])

    def numel(self) -> int:
        """The number of elements: the product of the entries, 1 for an empty Size."""
        return prod(self)

    def __repr__(self) -> str:
        return f"torch.Size([{', '.join(map(str, self))}])"

    __str__ = __repr__

    @overload
    def __getitem__(self, at: SupportsIndex) -> int: ...
    @overload
    def __getitem__(self, at: slice) -> Size: ...
    def __getitem__(self, at: Any) -> Any:
        found = tuple.__getitem__(self, at)
        return size_of(found) if type(at) is slice else found

    def __add__(self, other: tuple[int, ...]) -> Size:  # type: ignore[override]
        if not isinstance(other, tuple):
            raise TypeError(
                f"can only concatenate tuple (not {type(other).__name__}) to torch.Size"
            )
        return Size(tuple.__add__(self, other))

    def __radd__(self, other: tuple[int, ...]) -> Size:
        if not isinstance(other, tuple):
            return NotImplemented
        return Size(other + tuple(self))

    def __mul__(self, times: SupportsIndex) -> Size:
        return size_of(tuple.__mul__(self, times))

    __rmul__ = __mul__

    def __reduce__(self) -> tuple[Any, ...]:
        return Size, (tuple(self),)


size_of: Callable[[Iterable[int]], Size] = partial(tuple.__new__, Size)
