"""Calls in processes of their own: one that ends its process, as a crash of torch does, is told.

A worker reads calls from its standard input and writes what they return to its standard output.
Each call runs in a fork of it, which has all modules imported already.
"""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from multiprocessing.connection import wait
from pathlib import Path
from signal import SIGKILL
from typing import Any

CHECKOUT = Path(__file__).parents[3]
JOBS = os.cpu_count() or 1

Note = Callable[..., None]


@dataclass(frozen=True)
class Died:
    """The answer to a call whose process was ended by a signal."""

    signal: int
    notes: list[tuple[Any, ...]]  # what the call had noted by then


class Worker:
    """One process, and the arguments of the call that it is busy with."""

    def __init__(self) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-c", f"from {__name__} import serve; serve()"],
            cwd=CHECKOUT,
            env={**os.environ, "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            start_new_session=True,  # Ctrl-C interrupts this process alone, which ends the others
        )
        self.arguments: tuple[Any, ...] = ()

    def call(self, function: Callable[..., Any], *arguments: Any) -> None:
        self.arguments = arguments
        pickle.dump((function, arguments), self.process.stdin)
        self.process.stdin.flush()

    def answer(self) -> Any:
        return pickle.load(self.process.stdout)

    def end(self) -> None:
        os.killpg(self.process.pid, SIGKILL)
        self.process.communicate()  # waits, and closes the pipes


class Workers:
    """Some workers, made as they are needed. A call is `function(note, *arguments)`.

    Its answer is what it returns, or `Died` with all that it noted.
    """

    def __init__(self, jobs: int) -> None:
        self.jobs = jobs
        self.idle: list[Worker] = []
        self.busy: dict[Any, Worker] = {}

    def __enter__(self) -> Workers:
        return self

    def __exit__(self, *error: object) -> None:
        for worker in [*self.idle, *self.busy.values()]:
            worker.end()

    def start(self, function: Callable[..., Any], *arguments: Any) -> Worker:
        worker = self.idle.pop() if self.idle else Worker()
        self.busy[worker.process.stdout] = worker
        worker.call(function, *arguments)
        return worker

    def finish(self, worker: Worker) -> Any:
        answer = worker.answer()
        self.idle.append(self.busy.pop(worker.process.stdout))
        return answer

    def answer(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """The answer to one call."""
        return self.finish(self.start(function, *arguments))

    def answers(
        self, function: Callable[..., Any], task: Callable[[], tuple[Any, ...] | None]
    ) -> Iterator[tuple[tuple[Any, ...], Any]]:
        """Arguments and answer of one call after the other, as they end; `jobs` run at once.

        `task` gives the arguments of the next call, None while there is none.
        """
        while True:
            while len(self.busy) < self.jobs and (arguments := task()) is not None:
                self.start(function, *arguments)
            if not self.busy:
                return
            for pipe in wait(list(self.busy)):
                worker = self.busy[pipe]
                yield worker.arguments, self.finish(worker)


def _pickles(file: Any) -> Iterator[Any]:
    while True:
        try:
            yield pickle.load(file)
        except EOFError:
            return


def serve() -> None:
    """Answer the calls of the process that started this one."""
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what is printed is no answer
    for function, arguments in _pickles(sys.stdin.buffer):
        with tempfile.TemporaryFile(buffering=0) as notes:
            fork = os.fork()
            if not fork:
                answer = function(lambda *noted: notes.write(pickle.dumps(noted)), *arguments)
                pickle.dump(answer, answers)
                answers.flush()
                os._exit(0)
            status = os.waitstatus_to_exitcode(os.waitpid(fork, 0)[1])
            if status > 0:
                raise SystemExit(status)  # the fork has told its error
            if status < 0:
                notes.seek(0)
                pickle.dump(Died(-status, list(_pickles(notes))), answers)
                answers.flush()
