"""DataLoader: batches of a dataset, made in this process."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from typing import Any

from ag_visual.utils.data.collate import default_collate, default_convert
from ag_visual.utils.data.dataset import IterableDataset
from ag_visual.utils.data.sampler import BatchSampler, RandomSampler, SequentialSampler


def get_worker_info() -> None:
    """None: there are no worker processes."""
    return


class DataLoader:
    """Iterates over batches of a dataset.

    num_workers must be 0: gradients, recordings and breakpoints belong to one process, and so does
    the data here. pin_memory, timeout and the other options of workers are accepted and do nothing.

    >>> import ag_visual as ag
    >>> from ag_visual.utils.data import DataLoader, TensorDataset
    >>> data = TensorDataset(ag.arange(5.), ag.arange(5))
    >>> for x, y in DataLoader(data, batch_size=2):
    ...     print(x.tolist(), y.tolist())
    [0.0, 1.0] [0, 1]
    [2.0, 3.0] [2, 3]
    [4.0] [4]
    """

    def __init__(
        self,
        dataset: Any,
        batch_size: int | None = 1,
        shuffle: bool | None = None,
        sampler: Any = None,
        batch_sampler: Any = None,
        num_workers: int = 0,
        collate_fn: Callable[[list[Any]], Any] | None = None,
        pin_memory: bool = False,
        drop_last: bool = False,
        timeout: float = 0,
        worker_init_fn: Callable[[int], None] | None = None,
        multiprocessing_context: Any = None,
        generator: Any = None,
        *,
        prefetch_factor: int | None = None,
        persistent_workers: bool = False,
        pin_memory_device: str = "",
        in_order: bool = True,
    ) -> None:
        _check_workers(num_workers, timeout, prefetch_factor, persistent_workers)
        self.dataset, self.num_workers, self.timeout = dataset, num_workers, timeout
        self.pin_memory, self.pin_memory_device = pin_memory, pin_memory_device
        self.worker_init_fn, self.in_order = worker_init_fn, in_order
        self.multiprocessing_context = multiprocessing_context
        self.prefetch_factor, self.persistent_workers = prefetch_factor, persistent_workers
        self._streams = isinstance(dataset, IterableDataset)
        if self._streams:
            for name, value in (
                ("shuffle", shuffle if shuffle else None),
                ("sampler", sampler),
                ("batch_sampler", batch_sampler),
            ):
                if value is not None:
                    raise ValueError(
                        f"DataLoader with IterableDataset: expected unspecified {name} option, but "
                        f"got {name}={value}"
                    )
        if sampler is not None and shuffle:
            raise ValueError("sampler option is mutually exclusive with shuffle")
        if batch_sampler is not None:
            if batch_size != 1 or shuffle or sampler is not None or drop_last:
                raise ValueError(
                    "batch_sampler option is mutually exclusive with batch_size, shuffle, sampler, "
                    "and drop_last"
                )
            batch_size = None
        elif batch_size is None and drop_last:
            raise ValueError(
                "batch_size=None option disables auto-batching and is mutually exclusive with "
                "drop_last"
            )
        if sampler is None and not self._streams:
            if shuffle:
                sampler = RandomSampler(dataset, generator=generator)
            else:
                sampler = SequentialSampler(dataset)
        if batch_size is not None and batch_sampler is None and not self._streams:
            batch_sampler = BatchSampler(sampler, batch_size, drop_last)
        self.batch_size, self.drop_last = batch_size, drop_last
        self.sampler, self.batch_sampler, self.generator = sampler, batch_sampler, generator
        batched = batch_size is not None or batch_sampler is not None
        self.collate_fn = collate_fn or (default_collate if batched else default_convert)

    def __iter__(self) -> Iterator[Any]:
        if self._streams:
            return self._stream()
        if self.batch_sampler is None:
            return (self.collate_fn(self.dataset[i]) for i in self.sampler)
        return (self.collate_fn(self._fetch(batch)) for batch in self.batch_sampler)

    def _fetch(self, indices: list[int]) -> list[Any]:
        if hasattr(self.dataset, "__getitems__") and self.dataset.__getitems__:
            found = self.dataset.__getitems__(indices)
            if len(found) != len(indices):
                raise ValueError(
                    "Nested dataset's output size mismatch. Expected "
                    f"{len(indices)}, got {len(found)}"
                )
            return found  # type: ignore[no-any-return]
        return [self.dataset[i] for i in indices]

    def _stream(self) -> Iterator[Any]:
        samples = iter(self.dataset)
        if self.batch_size is None:
            yield from map(self.collate_fn, samples)
            return
        while batch := list(itertools.islice(samples, self.batch_size)):
            if len(batch) == self.batch_size or not self.drop_last:
                yield self.collate_fn(batch)

    def __len__(self) -> int:
        """The number of batches."""
        if not self._streams:
            return len(self.sampler if self.batch_sampler is None else self.batch_sampler)
        count = len(self.dataset)
        if self.batch_size is None:
            return count
        return count // self.batch_size if self.drop_last else -(-count // self.batch_size)


def _check_workers(workers: int, timeout: float, prefetch: Any, persistent: bool) -> None:
    if workers < 0:
        raise ValueError(
            "num_workers option should be non-negative; use num_workers=0 to disable "
            "multiprocessing."
        )
    if timeout < 0:
        raise ValueError("timeout option should be non-negative")
    if workers:
        raise NotImplementedError(
            f"num_workers={workers}: the data is loaded in this process only, because gradients "
            "and recordings live in one. Use num_workers=0; load slow data before, or in a thread "
            "of your own."
        )
    if prefetch is not None:
        raise ValueError(
            "prefetch_factor option could only be specified in multiprocessing. let num_workers > "
            "0 to enable multiprocessing, otherwise set prefetch_factor to None."
        )
    if persistent:
        raise ValueError("persistent_workers option needs num_workers > 0")
