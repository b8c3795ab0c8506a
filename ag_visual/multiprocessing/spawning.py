"""`spawn`: a function in several processes, whose errors come back with their tracebacks."""

from __future__ import annotations

import signal
import sys
import traceback
from collections.abc import Callable
from multiprocessing import connection
from typing import Any

from ag_visual.core.source import warn
from ag_visual.multiprocessing import start


class ProcessException(Exception):
    """A process of `spawn` has not ended well; which, and its id."""

    __slots__ = ("error_index", "error_pid")

    def __init__(self, msg: str, error_index: int, pid: int) -> None:
        super().__init__(msg)
        self.msg, self.error_index, self.pid = msg, error_index, pid

    def __reduce__(self) -> Any:
        return type(self), (self.msg, self.error_index, self.pid)


class ProcessRaisedException(ProcessException):
    """Its function raised an error: the text has the traceback."""


class ProcessExitedException(ProcessException):
    """It was killed, or has left with an exit code."""

    __slots__ = ("exit_code", "signal_name")

    def __init__(
        self,
        msg: str,
        error_index: int,
        error_pid: int,
        exit_code: int,
        signal_name: str | None = None,
    ) -> None:
        super().__init__(msg, error_index, error_pid)
        self.exit_code, self.signal_name = exit_code, signal_name

    def __reduce__(self) -> Any:
        given = self.msg, self.error_index, self.pid, self.exit_code, self.signal_name
        return type(self), given


def _main(
    work: Any, program: start.Program | None, index: int, errors: connection.Connection
) -> None:
    """In the process."""
    try:
        if program is not None:
            program.begin()
            if work.needs_main:
                program.import_main()
        fn, args = work.get()
        fn(index, *args)
    except KeyboardInterrupt:
        pass  # the program has it, too
    except Exception:
        errors.send(traceback.format_exc())
        sys.exit(1)


class ProcessContext:
    """The processes of `spawn(join=False)`."""

    def __init__(self, processes: list[Any], errors: list[Any]) -> None:
        self.processes, self._errors = processes, errors
        self.sentinels = {process.sentinel: i for i, process in enumerate(processes)}

    def pids(self) -> list[int]:
        """Their ids."""
        return [int(process.pid) for process in self.processes]

    def join(self, timeout: float | None = None, grace_period: float | None = None) -> bool:
        """Wait until one ends; True when all have. The others are ended where one has failed.

        Raises:
            ProcessRaisedException: a function raised an error.
            ProcessExitedException: a process was killed or has left by itself.
        """
        if not self.sentinels:
            return True
        ready: list[Any] = connection.wait(list(self.sentinels), timeout)
        failed = None
        for sentinel in ready:
            index = self.sentinels.pop(sentinel)
            self.processes[index].join()
            if self.processes[index].exitcode:
                failed = index
                break
        if failed is None:
            return not self.sentinels
        for process in self.processes:
            if process.is_alive():
                process.terminate()
        for process in self.processes:
            process.join(grace_period or 30)
            if process.is_alive():
                process.kill()
                process.join()
        raise self._error(failed)

    def _error(self, index: int) -> ProcessException:
        process, errors = self.processes[index], self._errors[index]
        pid, code = int(process.pid), int(process.exitcode)
        try:
            trace = errors.recv() if errors.poll() else None
        except EOFError:
            trace = None
        if trace is not None:
            text = f"\n\n-- Process {index} terminated with the following error:\n{trace}"
            return ProcessRaisedException(text, index, pid)
        if code < 0:
            name = signal.Signals(-code).name
            text = f"process {index} terminated with signal {name}"
            return ProcessExitedException(text, index, pid, code, name)
        return ProcessExitedException(
            f"process {index} terminated with exit code {code}", index, pid, code
        )


SpawnContext = ProcessContext


def start_processes(
    fn: Callable[..., None],
    args: tuple[Any, ...] = (),
    nprocs: int = 1,
    join: bool = True,
    daemon: bool = False,
    start_method: str = "spawn",
) -> ProcessContext | None:
    """Call `fn(i, *args)` in a process each for i below nprocs; with join, wait for all of them.

    The main module of the program is imported in them as far as its definitions go. Tensors among
    the arguments are copied, but for those in shared memory (`share_memory_`).

    Raises:
        ProcessRaisedException, ProcessExitedException: see `ProcessContext.join`.
    """
    start.working()
    context = start.context_of(start_method)
    forked = start_method == "fork"
    program = None if forked else start.Program()
    processes, errors = [], []
    for index in range(nprocs):
        ours, theirs = context.Pipe(duplex=False)
        work = start.Later((fn, args))
        process = context.Process(target=_main, args=(work, program, index, theirs), daemon=daemon)
        start.started(process, start_method)
        theirs.close()
        processes.append(process)
        errors.append(ours)
    found = ProcessContext(processes, errors)
    if not join:
        return found
    while not found.join():
        pass
    return None


def spawn(
    fn: Callable[..., None],
    args: tuple[Any, ...] = (),
    nprocs: int = 1,
    join: bool = True,
    daemon: bool = False,
    start_method: str = "spawn",
) -> ProcessContext | None:
    """`start_processes` by 'spawn'; see there."""
    if start_method != "spawn":
        warn(
            "This method only supports start_method=spawn (got: "
            f"{start_method}).\nTo use a different start_method use:\n\t\t "
            "torch.multiprocessing.start_processes(...)",
            FutureWarning,
        )
    return start_processes(fn, args, nprocs, join, daemon, start_method="spawn")


_strategy = "file_descriptor"


def get_all_sharing_strategies() -> set[str]:
    """The names that `set_sharing_strategy` takes."""
    return {"file_descriptor", "file_system"}


def get_sharing_strategy() -> str:
    """What was set last: memory between processes has no name here in either case."""
    return _strategy


def set_sharing_strategy(new_strategy: str) -> None:
    """Keeps the name: memory between processes has no name here, so there is nothing to choose."""
    global _strategy
    if new_strategy not in get_all_sharing_strategies():
        raise AssertionError(f"unknown strategy: {new_strategy}")
    _strategy = new_strategy


def init_reductions() -> None:
    """Does nothing: arrays in shared memory are sent as such without it."""


__all__ = [
    "ProcessContext",
    "ProcessExitedException",
    "ProcessRaisedException",
    "SpawnContext",
    "get_all_sharing_strategies",
    "get_sharing_strategy",
    "init_reductions",
    "set_sharing_strategy",
    "spawn",
    "start_processes",
]
