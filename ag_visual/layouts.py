"""The layouts, and the memory formats that torch's signatures name.

Layer 0: may import nothing of the package. Of the formats only `contiguous_format` makes a
difference (row-major instead of the source's own order): those with the channels last are taken
and change nothing.
"""

from __future__ import annotations

from typing import Final


class _Word:
    """A constant that prints as torch's and pickles to itself."""

    __slots__ = ("name",)

    def __init__(self, name: str) -> None:
        self.name = name

    def __repr__(self) -> str:
        return f"torch.{self.name}"

    def __reduce__(self) -> str:
        return self.name


class layout(_Word):
    """How elements lie in memory: all of them, or those that are named by indices."""

    __slots__ = ()


class memory_format(_Word):
    """The order of strides that a copy shall have."""

    __slots__ = ()


strided: Final = layout("strided")
sparse_coo: Final = layout("sparse_coo")
sparse_csr: Final = layout("sparse_csr")
contiguous_format: Final = memory_format("contiguous_format")
channels_last: Final = memory_format("channels_last")
channels_last_3d: Final = memory_format("channels_last_3d")
preserve_format: Final = memory_format("preserve_format")
