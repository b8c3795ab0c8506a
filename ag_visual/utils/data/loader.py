"""DataLoader: batches of a dataset, made in this process or by worker processes."""

from __future__ import annotations

import itertools
import multiprocessing
import multiprocessing.context
from collections.abc import Callable, Iterator
from typing import Any

from ag_visual.core.source import warn
from ag_visual.dispatch.table import functions as F
from ag_visual.dtypes import int64
from ag_visual.events.timed import Span
from ag_visual.multiprocessing import start
from ag_visual.utils.data.collate import default_collate, default_convert
from ag_visual.utils.data.dataset import IterableDataset
from ag_visual.utils.data.fetch import MapFetcher, StreamFetcher
from ag_visual.utils.data.sampler import BatchSampler, RandomSampler, SequentialSampler
from ag_visual.utils.data.worker import Job
from ag_visual.utils.data.workers import Batches, CannotSend, Workers

_NEXT = "enumerate(DataLoader)#"
_DONE = object()


class _BaseDataLoaderIter(Iterator[Any]):
    """One pass over a loader, the waiting for whose batches a profile shows."""

    def __init__(self, loader: DataLoader, batches: Iterator[Any]) -> None:
        self._loader, self._batches = loader, batches
        self._name = f"{_NEXT}{type(self).__name__}.__next__"

    def __next__(self) -> Any:
        with Span(self._name):
            batch = next(self._batches, _DONE)
        if batch is _DONE:
            raise StopIteration
        return batch

    def __len__(self) -> int:
        return len(self._loader)


class _SingleProcessDataLoaderIter(_BaseDataLoaderIter):
    """Batches that this process makes."""


class _MultiProcessingDataLoaderIter(_BaseDataLoaderIter):
    """Batches that workers make."""


class DataLoader:
    """Iterates over batches of a dataset.

    num_workers: how many processes make the batches, 0: this one. They get a copy of the dataset,
    collate_fn and worker_init_fn, are asked for prefetch_factor batches each ahead (2 by default),
    and live as long as an epoch, or with persistent_workers as the loader. Batches come in the
    order of the sampler, or with in_order=False as they are made. timeout: seconds to wait for one.
    multiprocessing_context: 'forkserver' (the default, where there is one), 'spawn', 'fork', or a
    context. What cannot be sent to another process is used here, with a warning, unless that was
    given. A worker is no part of a recording and has no breakpoints. pin_memory does nothing.

    Each worker has the seed of the loader's epoch plus its number, for torch, random and NumPy.

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
        if num_workers and prefetch_factor is None:
            prefetch_factor = 2
        self.dataset, self.num_workers, self.timeout = dataset, num_workers, timeout
        self._workers: Workers | None = None
        self.pin_memory, self.pin_memory_device = pin_memory, pin_memory_device
        self.worker_init_fn, self.in_order = worker_init_fn, in_order
        self.multiprocessing_context = _checked_context(multiprocessing_context, num_workers)
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
        self.collate_fn = collate_fn or (default_collate if self._batched else default_convert)

    def __iter__(self) -> Iterator[Any]:
        start.working()
        made = self._by_workers() if self.num_workers else None
        if made is not None:
            return _MultiProcessingDataLoaderIter(self, made)
        if not self.num_workers:
            self._seed()  # as torch, which draws it in any case
        return _SingleProcessDataLoaderIter(self, self._batches())

    def _seed(self) -> int:
        """A number of the loader's generator, from which its workers have their seeds."""
        drawn = F["empty"]((), dtype=int64).random_(generator=self.generator)
        return int(drawn.item())

    @property
    def _batched(self) -> bool:
        return self.batch_size is not None or self.batch_sampler is not None

    def _indices(self) -> Iterator[Any]:
        """What workers are asked for: indices, or how many samples of a stream."""
        if self._streams:
            return itertools.repeat(None if self.batch_size is None else [None] * self.batch_size)
        return iter(self.sampler if self.batch_sampler is None else self.batch_sampler)

    def _by_workers(self) -> Iterator[Any] | None:
        """One epoch by workers; None where they cannot have what they need."""
        workers = self._workers
        if workers is None or not workers.alive:
            seed = self._seed()
            job = Job(
                self.dataset,
                self._streams,
                self._batched,
                self.collate_fn,
                self.drop_last,
                self.worker_init_fn,
            )
            context = start.context_of(self.multiprocessing_context)
            try:
                workers = Workers(job, self.num_workers, context, seed)
            except CannotSend as error:
                if self.multiprocessing_context is not None:
                    raise
                _warn_fallback(self.num_workers, error)
                return None
            self._workers = workers if self.persistent_workers else None
        return Batches(
            workers,
            self._indices(),
            self.prefetch_factor or 0,
            self.timeout,
            self.in_order,
            self.persistent_workers,
        )

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_workers": None}

    def _batches(self) -> Iterator[Any]:
        if self._streams:
            return self._stream()
        fetcher = MapFetcher(self.dataset, self._batched, self.collate_fn, self.drop_last)
        return map(fetcher.fetch, self._indices())

    def _stream(self) -> Iterator[Any]:
        fetcher = StreamFetcher(self.dataset, self._batched, self.collate_fn, self.drop_last)
        for index in self._indices():
            try:
                batch = fetcher.fetch(index)
            except StopIteration:
                return
            yield batch

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
        if prefetch is not None and prefetch < 0:
            raise ValueError("prefetch_factor option should be non-negative")
        return
    if prefetch is not None:
        raise ValueError(
            "prefetch_factor option could only be specified in multiprocessing. let num_workers > "
            "0 to enable multiprocessing, otherwise set prefetch_factor to None."
        )
    if persistent:
        raise ValueError("persistent_workers option needs num_workers > 0")


def _checked_context(given: Any, workers: int) -> Any:
    if given is None:
        return None
    if not workers:
        raise ValueError(
            "multiprocessing_context can only be used with multi-process loading (num_workers > "
            "0), but got num_workers=0"
        )
    if isinstance(given, str):
        known = multiprocessing.get_all_start_methods()
        if given not in known:
            raise ValueError(
                "multiprocessing_context option should specify a valid start method in "
                f"{known!r}, but got multiprocessing_context={given!r}"
            )
    elif not isinstance(given, multiprocessing.context.BaseContext):
        raise TypeError(
            "multiprocessing_context option should be a valid context object or a string "
            f"specifying the start method, but got multiprocessing_context={given}"
        )
    return given


_warned: set[str] = set()


def _warn_fallback(workers: int, error: Exception) -> None:
    """Say once for each reason that there are no workers."""
    if str(error) in _warned:
        return
    _warned.add(str(error))
    warn(
        f"num_workers={workers}, but the batches are made in this process: {error}. Define it in a "
        "module of its own, or give the loader multiprocessing_context='fork' where the system has "
        "that."
    )
