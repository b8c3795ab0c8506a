"""Timer: runs a statement often enough to know how long it takes."""

from __future__ import annotations

import textwrap
import timeit
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from ag_visual import cuda, switches
from ag_visual.utils.benchmark.measurement import Measurement, TaskSpec


def timer() -> float:
    """Seconds of the clock, when all work given to a GPU is done."""
    if cuda.is_initialized() and cuda.is_available():
        cuda.synchronize()
    return timeit.default_timer()


@contextmanager
def _threads(number: int) -> Iterator[None]:
    """A block in which NumPy's BLAS uses this many threads, where that can be said."""
    before = switches.get_num_threads()
    if number == before:
        yield
        return
    switches.set_num_threads(number)
    try:
        yield
    finally:
        switches.set_num_threads(before)


class Timer:
    """Measures a statement of Python.

    globals: what names mean in it. num_threads: those of NumPy's BLAS while it runs. label,
    sub_label, description, env: what the Measurement is called.

    >>> import ag_visual as ag
    >>> measured = ag.utils.benchmark.Timer("x.sum()", globals={"x": ag.ones(3)}).timeit(10)
    >>> measured.number_per_run, measured.median > 0
    (10, True)
    """

    _timer_cls: type[Any] = timeit.Timer

    def __init__(
        self,
        stmt: str = "pass",
        setup: str = "pass",
        global_setup: str = "",
        timer: Callable[[], float] = timer,
        globals: dict[str, Any] | None = None,
        label: str | None = None,
        sub_label: str | None = None,
        description: str | None = None,
        env: str | None = None,
        num_threads: int = 1,
        language: Any = "python",
    ) -> None:
        if not isinstance(stmt, str):
            raise ValueError("Currently only a `str` stmt is supported.")
        if str(getattr(language, "name", language)).lower() not in ("python", "py"):
            raise NotImplementedError(
                f"a statement in {language!r} cannot run here: there is no C++ below this package"
            )
        if global_setup:
            raise ValueError(
                f"global_setup is C++ only, got `{global_setup}`. Most likely this code can "
                "simply be moved to `setup`."
            )
        stmt, setup = (textwrap.dedent(text).strip() for text in (stmt, setup))
        space = dict(globals or {})
        self._timer = self._timer_cls(stmt=stmt, setup=setup, timer=timer, globals=space)
        self._task_spec = TaskSpec(
            stmt, setup, global_setup, label, sub_label, description, env, num_threads
        )

    def _run(self, number: int) -> float:
        return max(self._timer.timeit(number), 1e-9)

    def _measured(self, number: int, times: list[float]) -> Measurement:
        return Measurement(number, times, self._task_spec)

    def timeit(self, number: int = 1000000) -> Measurement:
        """The seconds of `number` executions in one run, after a hundredth as many to warm up."""
        with _threads(self._task_spec.num_threads):
            self._run(max(int(number // 100), 2))
            return self._measured(number, [self._run(number)])

    def repeat(self, repeat: int = -1, number: int = -1) -> None:
        """Refused, as in torch: `blocked_autorange` chooses both numbers."""
        raise NotImplementedError("See `Timer.blocked_autorange.`")

    def autorange(self, callback: Any = None) -> None:
        """Refused, as in torch: `blocked_autorange` is what measures."""
        raise NotImplementedError("See `Timer.blocked_autorange.`")

    def _block(self, min_run_time: float) -> int:
        """Executions in one run, so that reading the clock is a thousandth of it."""
        clock = sorted(self._run(0) for _ in range(5))[2]
        number = 1
        while True:
            taken = self._run(number)
            if clock / taken <= 1e-4 and taken >= min_run_time / 1000:
                return number
            if taken > min_run_time:
                return number
            number *= 10

    def blocked_autorange(
        self, callback: Callable[[int, float], Any] | None = None, min_run_time: float = 0.2
    ) -> Measurement:
        """Runs of as many executions as make the clock's own time small, for `min_run_time`
        seconds in all; callback(number, seconds) is called after each.
        """
        with _threads(self._task_spec.num_threads):
            number = self._block(min_run_time)
            times: list[float] = []
            while not times or sum(times) < min_run_time:
                times.append(self._run(number))
                if callback is not None:
                    callback(number, times[-1])
            return self._measured(number, times)

    def adaptive_autorange(
        self,
        threshold: float = 0.1,
        *,
        min_run_time: float = 0.01,
        max_run_time: float = 10.0,
        callback: Callable[[int, float], Any] | None = None,
    ) -> Measurement:
        """As `blocked_autorange`, until the middle half of the times is within `threshold` of the
        median, or for `max_run_time` seconds.
        """
        with _threads(self._task_spec.num_threads):
            number = self._block(0.05)
            times: list[float] = []
            while sum(times) < max_run_time:
                times.append(self._run(number))
                if callback is not None:
                    callback(number, times[-1])
                found = self._measured(number, times)
                if (
                    len(times) > 3
                    and sum(times) > min_run_time
                    and found.meets_confidence(threshold)
                ):
                    break
            return self._measured(number, times)
