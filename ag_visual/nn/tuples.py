"""One number or several: sizes, strides and paddings of each dimension. torch.nn.modules.utils."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import repeat
from typing import Any


def each(value: Any, count: int) -> tuple[Any, ...]:
    """One number for every spatial dimension, or the numbers that were given."""
    return tuple(value) if isinstance(value, Iterable) else tuple(repeat(value, count))


def _ntuple(n: int, name: str = "parse") -> Callable[[Any], tuple[Any, ...]]:
    def parse(x: Any) -> tuple[Any, ...]:
        return each(x, n)

    parse.__name__ = name
    return parse


_single = _ntuple(1, "_single")
_pair = _ntuple(2, "_pair")
_triple = _ntuple(3, "_triple")
_quadruple = _ntuple(4, "_quadruple")


def _reverse_repeat_tuple(t: tuple[Any, ...], n: int) -> tuple[Any, ...]:
    """The entries from the last one on, each `n` times: paddings as `pad` wants them."""
    return tuple(x for x in reversed(t) for _ in range(n))


def consume_prefix_in_state_dict_if_present(state_dict: dict[str, Any], prefix: str) -> None:
    """Take a prefix such as 'module.' off the keys of a state_dict, in place.

    Source: https://pytorch.org/docs/2.8/generated/torch.nn.modules.utils.consume_prefix_in_state_dict_if_present.html
    """
    for key in list(state_dict):
        if key.startswith(prefix):
            state_dict[key[len(prefix) :]] = state_dict.pop(key)
    metadata = getattr(state_dict, "_metadata", None)
    for key in list(metadata or ()):
        # The module itself has the prefix without its dot, and is '' from then on.
        if key and (key == prefix.replace(".", "") or key.startswith(prefix)):
            metadata[key[len(prefix) :]] = metadata.pop(key)
