"""Samples of a dataset by what a sampler says, or the next ones of a stream."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


class MapFetcher:
    """Samples by index; several at once are collated."""

    def __init__(
        self, dataset: Any, batched: bool, collate_fn: Callable[[Any], Any], drop_last: bool
    ) -> None:
        self._dataset, self._batched, self._collate = dataset, batched, collate_fn

    def fetch(self, index: Any) -> Any:
        """A batch, or a sample."""
        if not self._batched:
            return self._collate(self._dataset[index])
        dataset = self._dataset
        if hasattr(dataset, "__getitems__") and dataset.__getitems__:
            found = dataset.__getitems__(index)
            if len(found) != len(index):
                raise ValueError(
                    "Nested dataset's output size mismatch. Expected "
                    f"{len(index)}, got {len(found)}"
                )
        else:
            found = [dataset[i] for i in index]
        return self._collate(found)


class StreamFetcher:
    """The next samples of a stream; `index` says how many."""

    def __init__(
        self, dataset: Any, batched: bool, collate_fn: Callable[[Any], Any], drop_last: bool
    ) -> None:
        self._samples = iter(dataset)
        self._batched, self._collate, self._drop_last = batched, collate_fn, drop_last
        self._ended = False

    def fetch(self, index: Any) -> Any:
        """A batch, or a sample. Raises StopIteration at the end of the stream."""
        if self._ended:
            raise StopIteration
        if not self._batched:
            return self._collate(next(self._samples))
        found = []
        for _ in index:
            try:
                found.append(next(self._samples))
            except StopIteration:
                self._ended = True
                break
        if not found or (self._drop_last and len(found) < len(index)):
            raise StopIteration
        return self._collate(found)
