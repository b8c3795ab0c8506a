"""A worker process of a DataLoader: what it knows of itself, and its loop.

It is imported by the server that worker processes come from: nothing above belongs here.
"""

from __future__ import annotations

import importlib.util
import os
import random
import signal
import sys
import threading
import traceback
from dataclasses import dataclass
from multiprocessing import connection, parent_process
from typing import Any

import numpy

from ag_visual import switches
from ag_visual.core import modes
from ag_visual.events import instrument
from ag_visual.multiprocessing.start import Program
from ag_visual.multiprocessing.transfer import Channel, from_file, taken
from ag_visual.ops.tensor.generator import manual_seed
from ag_visual.utils.data.fetch import MapFetcher, StreamFetcher


@dataclass(frozen=True, slots=True)
class WorkerInfo:
    """What a worker process knows of itself: number, how many there are, seed, its dataset."""

    id: int
    num_workers: int
    seed: int
    dataset: Any
    rng: Any = None
    worker_method: str | None = "multiprocessing"


_info: WorkerInfo | None = None


def get_worker_info() -> WorkerInfo | None:
    """In a worker process what it knows of itself, else None.

    A stream asks it for its part of the samples: each worker iterates over a copy of the dataset.
    """
    return _info


@dataclass(frozen=True, slots=True)
class Job:
    """What all workers of one loader do."""

    dataset: Any
    streams: bool
    batched: bool
    collate_fn: Any
    drop_last: bool
    init_fn: Any


@dataclass(frozen=True, slots=True)
class Sent:
    """A job as bytes in memory of a descriptor, which each worker is given."""

    facts: bytes
    size: int
    handle: Any
    """As multiprocessing sends a descriptor; without shared memory the bytes themselves."""
    needs_main: bool

    def job(self, program: Program) -> Job:
        """In a worker: the job, with the main module where it names that."""
        if self.needs_main:
            program.import_main()
        if isinstance(self.handle, bytes):
            return taken(self.facts, self.handle)  # type: ignore[no-any-return]
        handle = self.handle.detach()
        try:
            return from_file(self.facts, handle, self.size)  # type: ignore[no-any-return]
        finally:
            os.close(handle)


class Failure:
    """An error of a worker, as the program is to see it."""

    def __init__(self, number: int) -> None:
        kind, error, trace = sys.exc_info()
        assert kind is not None
        self.kind: Any = kind
        text = "".join(traceback.format_exception(kind, error, trace))
        where = f"in DataLoader worker process {number}"
        self.text = f"Caught {kind.__name__} {where}.\nOriginal {text}"

    def __reduce__(self) -> Any:
        return _failure, (self.kind.__module__, self.kind.__qualname__, self.text)

    def raised(self) -> BaseException:
        """An error of the same class with the text of the worker, or a RuntimeError."""
        try:
            if issubclass(self.kind, KeyError):
                return self.kind(_Text(self.text))  # type: ignore[no-any-return]
            return self.kind(self.text)  # type: ignore[no-any-return]
        except Exception:
            return RuntimeError(self.text)


class _Text(str):
    """A text whose repr, which KeyError shows, is itself."""

    __slots__ = ()

    def __repr__(self) -> str:
        return str(self)


def _failure(module: str, name: str, text: str) -> Failure:
    found = Failure.__new__(Failure)
    kind: Any = sys.modules.get(module)
    for part in name.split("."):
        kind = getattr(kind, part, None)
    found.kind = kind if isinstance(kind, type) and issubclass(kind, Exception) else RuntimeError
    found.text = text
    return found


class Ended:
    """A worker's stream has no more samples."""


def main(
    given: Sent | Job,
    program: Program,
    number: int,
    count: int,
    base_seed: int,
    requests: Any,
    results: Any,
    others: list[Any],
) -> None:
    """The worker: makes what it is asked for, until it is asked for nothing or the program ends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the program tells its workers
    for each in others:  # ends of earlier workers, which a fork has, too
        each.close()
    _forget_observers()
    _end_with_the_program()
    channel = Channel(results)
    failure, job = None, None
    try:
        program.begin()
        job = given.job(program) if isinstance(given, Sent) else given
        _begin(job, number, count, base_seed)
    except Exception:
        failure = Failure(number)
    epoch, fetcher = None, None
    while True:
        try:
            request = requests.recv()
        except (EOFError, OSError):
            return
        if request is None:
            return
        now, place, index = request
        answer: Any
        try:
            if failure is not None:
                answer = failure
            else:
                assert job is not None
                if now != epoch:
                    epoch, fetcher = now, _fetcher(job)
                answer = fetcher.fetch(index)
        except StopIteration:
            answer = Ended()
            if job is not None and not job.streams:
                answer = Failure(number)
        except Exception:
            answer = Failure(number)
        try:
            _send(channel, now, place, answer, number)
        except (EOFError, OSError):
            return
        del answer


def _send(channel: Channel, epoch: int, place: int, answer: Any, number: int) -> None:
    try:
        channel.send((epoch, place, answer))
    except OSError:
        raise
    except Exception:  # it cannot be pickled
        channel.send((epoch, place, Failure(number)))


def _fetcher(job: Job) -> Any:
    kind = StreamFetcher if job.streams else MapFetcher
    return kind(job.dataset, job.batched, job.collate_fn, job.drop_last)


def _begin(job: Job, number: int, count: int, base_seed: int) -> None:
    """Seeds as torch's rules have them, one thread, and what the program does for each worker."""
    global _info
    seed = base_seed + number
    random.seed(seed)
    manual_seed(seed)
    numpy.random.seed(numpy_seed(base_seed, number))
    if importlib.util.find_spec("threadpoolctl") is not None:
        switches.set_num_threads(1)
    _info = WorkerInfo(number, count, seed, job.dataset)
    if job.init_fn is not None:
        job.init_fn(number)


def numpy_seed(base_seed: int, number: int) -> Any:
    """The state that NumPy's old generator starts from in a worker."""
    entropy = [number, base_seed & 0xFFFFFFFF, base_seed >> 32, 0]
    return numpy.random.SeedSequence(entropy).generate_state(4)


def _forget_observers() -> None:
    """Recording, breakpoints and profiles belong to the process that the worker is forked from."""
    for name in instrument.__annotations__:
        setattr(instrument, name, None)
    if modes.anomaly is not None:
        modes.set_anomaly(None)


def _end_with_the_program() -> None:
    """Leave when the program is gone, whatever the dataset is doing: nobody waits any more."""
    parent = parent_process()
    if parent is None:
        return
    sentinel = parent.sentinel

    def watch() -> None:
        connection.wait([sentinel])
        os._exit(1)

    threading.Thread(target=watch, name="program", daemon=True).start()
