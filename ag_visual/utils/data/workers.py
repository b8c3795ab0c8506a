"""The workers of a DataLoader as its process sees them, and the order of their batches."""

from __future__ import annotations

import contextlib
import itertools
import os
import pickle
import signal
import time
import weakref
from collections.abc import Iterator
from multiprocessing import connection, reduction
from typing import Any

from ag_visual.core.source import warn
from ag_visual.events import instrument
from ag_visual.multiprocessing import start
from ag_visual.multiprocessing.transfer import SHARES, Channel, Packed
from ag_visual.utils.data.worker import Ended, Failure, Job, Sent, main

_PATIENCE = 2.0  # seconds that workers have for their end
_warned: set[str] = set()


class CannotSend(Exception):
    """Worker processes cannot get what the program has defined; the text says what and why."""


class _Worker:
    """One process, with the pipes to it. channel: what comes through `results`, once it runs."""

    channel: Any = None

    def __init__(self, process: Any, requests: Any, results: Any) -> None:
        self.process, self.requests, self.results = process, requests, results
        self.ends = [requests, results]


class Workers:
    """The processes of a loader.

    Raises:
        CannotSend: the dataset, or a function of the program, cannot go to another process.
    """

    def __init__(self, job: Job, count: int, context: Any, base_seed: int) -> None:
        _warn_once()
        self.count = count
        self.epoch = 0
        self._workers: list[_Worker] = []
        self._closing = weakref.finalize(self, _close, self._workers)
        method = context.get_start_method()
        program = start.Program()
        given, handle = (job, None) if method == "fork" else _packed(job, program)
        try:
            for number in range(count):
                self._start(given, handle, program, number, context, base_seed)
        except BaseException:
            self.close()
            raise
        finally:
            if handle is not None:
                os.close(handle)

    def _start(
        self, given: Any, handle: Any, program: Any, number: int, context: Any, base_seed: int
    ) -> None:
        theirs_in, ours_out = context.Pipe(duplex=False)
        ours_in, theirs_out = context.Pipe(duplex=True)
        earlier = [end for each in self._workers for end in each.ends]
        others = [*earlier, ours_out, ours_in] if context.get_start_method() == "fork" else []
        sent: Any = _Handed(given, handle) if handle is not None else given
        args = (sent, program, number, self.count, base_seed, theirs_in, theirs_out, others)
        process = context.Process(target=main, args=args, daemon=True)
        worker = _Worker(process, ours_out, ours_in)
        self._workers.append(worker)  # before it runs: whatever ends this ends the process
        start.started(process, context.get_start_method())
        worker.channel = Channel(ours_in)
        theirs_in.close()
        theirs_out.close()

    @property
    def alive(self) -> bool:
        """Whether they were not ended."""
        return self._closing.alive

    def close(self) -> None:
        """End the processes; none is left."""
        try:
            self._closing()
        except BaseException:  # an interrupt, perhaps before its first line
            _close(self._workers)
            raise

    @property
    def processes(self) -> list[Any]:
        """The processes."""
        return [worker.process for worker in self._workers]

    def kill(self) -> None:
        """End the processes at once."""
        for worker in self._workers:
            worker.process.kill()
        self.close()

    def ask(self, number: int, place: int, index: Any) -> None:
        """Have a worker make a batch."""
        try:
            self._workers[number].requests.send((self.epoch, place, index))
        except (BrokenPipeError, ConnectionResetError):
            raise self._lost(number) from None

    def answer(self, timeout: float) -> tuple[int, int, Any]:
        """The next batch of any worker: worker, place, batch.

        Raises:
            RuntimeError: none came in time, or a worker has ended.
        """
        channels = {worker.results: number for number, worker in enumerate(self._workers)}
        ends = {worker.process.sentinel: n for n, worker in enumerate(self._workers)}
        while True:
            ready = connection.wait([*channels, *ends], timeout or None)
            if not ready:
                raise RuntimeError(f"DataLoader timed out after {timeout} seconds")
            for each in ready:
                if each not in channels:
                    continue
                number = channels[each]
                try:
                    epoch, place, answer = self._workers[number].channel.receive()
                except (EOFError, OSError):
                    raise self._lost(number) from None
                if epoch == self.epoch:
                    return number, place, answer
                break  # of an epoch that the program has left
            else:
                raise self._lost(ends[next(each for each in ready)])

    def _lost(self, number: int) -> RuntimeError:
        process = self._workers[number].process
        process.join(_PATIENCE)
        code = process.exitcode
        if code is not None and code < 0:
            name = signal.strsignal(-code) or str(-code)
            return RuntimeError(
                f"DataLoader worker (pid(s) {process.pid}) exited unexpectedly: it is killed by "
                f"signal: {name}."
            )
        return RuntimeError(
            f"DataLoader worker (pid(s) {process.pid}) exited unexpectedly with exit code {code}. "
            "Details are lost due to multiprocessing. Rerunning with num_workers=0 may give better "
            "error trace."
        )


class _Handed:
    """A job in shared memory, on its way to a process that is being started."""

    def __init__(self, sent: Sent, handle: int) -> None:
        self._sent, self._handle = sent, handle

    def __reduce__(self) -> Any:
        sent = self._sent
        return Sent, (sent.facts, sent.size, reduction.DupFd(self._handle), sent.needs_main)


def _packed(job: Job, program: Any) -> tuple[Sent, int | None]:
    """A job as bytes, and the descriptor of the memory where they are."""
    try:
        packed = Packed(job)
    except (
        pickle.PicklingError,
        AttributeError,
        TypeError,
        RuntimeError,
        NotImplementedError,
    ) as e:
        raise CannotSend(f"{e}") from e
    needs_main = b"__main__" in packed.pickled
    if needs_main and not program.importable:
        raise CannotSend(
            "the dataset, or a function that the loader calls, is defined in the notebook or on "
            "the command line (__main__), which another process cannot import"
        )
    if SHARES:
        return Sent(packed.facts(), packed.size, None, needs_main), packed.file()
    memory = bytearray(packed.size)
    packed.into(memory)
    return Sent(packed.facts(), packed.size, bytes(memory), needs_main), None


def _close(workers: list[_Worker]) -> None:
    try:
        _end(workers)
    except BaseException:  # an interrupt: at once, then
        for worker in workers:
            if worker.process.pid is not None:
                worker.process.kill()
        _end(workers)
        raise


def _end(workers: list[_Worker]) -> None:
    """End the processes; again where an interrupt ended that."""
    for worker in workers:
        with contextlib.suppress(OSError, ValueError):
            worker.requests.send(None)
    for worker in workers:
        worker.requests.close()
        # A worker that is sending learns that nobody reads.
        (worker.results if worker.channel is None else worker.channel).close()
    limit = time.monotonic() + _PATIENCE
    while workers:
        process = workers[-1].process
        if process.pid is not None:  # else it was not started
            process.join(max(0.0, limit - time.monotonic()))
            if process.is_alive():
                process.kill()
                process.join()
        del workers[-1]
        with contextlib.suppress(ValueError):  # it has ended, and an interrupt took the news
            process.close()


def _warn_once() -> None:
    """Say, once, that what watches this process does not see the workers."""
    watched = (instrument.sink, instrument.gate, instrument.spans)
    if "watched" in _warned or all(each is None for each in watched):
        return
    _warned.add("watched")
    warn(
        "What the worker processes of a DataLoader do is not recorded or profiled, and breakpoints "
        "do not stop them: they belong to this process. With num_workers=0 the batches are made "
        "here."
    )


class Batches(Iterator[Any]):
    """Batches of one epoch, made by workers, in the order of the sampler unless in_order=False."""

    _keep = True  # until it has workers that end with it

    def __init__(
        self,
        workers: Workers,
        indices: Iterator[Any],
        prefetch: int,
        timeout: float,
        in_order: bool,
        keep: bool,
    ) -> None:
        self._workers, self._indices = workers, indices
        self._timeout, self._in_order, self._keep = timeout, in_order, keep
        workers.epoch += 1
        self._epoch = workers.epoch
        self._active = [True] * workers.count
        self._cycle = itertools.cycle(range(workers.count))
        self._asked: dict[int, int] = {}  # place: worker
        self._ready: dict[int, Any] = {}
        self._sent = self._next = 0
        self._over = False
        for _ in range(prefetch * workers.count):
            self._ask()

    def _ask(self) -> None:
        """Ask the next worker in turn for the next batch, if there is one."""
        turns = itertools.islice(self._cycle, self._workers.count)
        number = next((n for n in turns if self._active[n]), None)
        if number is None:
            return
        try:
            index = next(self._indices)
        except StopIteration:
            return
        self._workers.ask(number, self._sent, index)
        self._asked[self._sent] = number
        self._sent += 1

    def __next__(self) -> Any:
        if self._over or self._epoch != self._workers.epoch:
            raise StopIteration
        try:
            return self._take()
        except StopIteration:
            self._end()
            raise
        except Exception:
            raise  # after an error of a worker the next batch can be asked for, as in torch
        except BaseException:
            # An interrupt: it may have come in the middle of a message, and nobody waits any more.
            self._workers.kill()
            raise

    def _take(self) -> Any:
        while True:
            if self._in_order:
                while self._next < self._sent and self._next not in self._asked:
                    self._next += 1  # its worker's stream was over
                if self._next in self._ready:
                    place = self._next
                    return self._given(place, self._ready.pop(place))
            if not self._asked:
                raise StopIteration
            number, place, answer = self._workers.answer(self._timeout)
            if isinstance(answer, Ended):
                self._active[number] = False
                del self._asked[place]
                self._ask()
                continue
            if not self._in_order:
                return self._given(place, answer)
            self._ready[place] = answer

    def _given(self, place: int, answer: Any) -> Any:
        del self._asked[place]
        self._next = max(self._next, place + 1)
        self._ask()
        if isinstance(answer, Failure):
            raise answer.raised()
        return answer

    def _end(self) -> None:
        self._over = True
        self._ready.clear()
        if not self._keep:
            self._workers.close()

    def __del__(self) -> None:
        if not self._keep:
            self._workers.close()
