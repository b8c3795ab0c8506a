"""torch.futures: values that come later, set by whichever thread has them."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any, Generic, TypeVar

from ag_visual.names import expose as _expose

T = TypeVar("T")
S = TypeVar("S")


class Future(Generic[T]):
    """A value that one thread sets once and others wait for.

    >>> import ag_visual as torch
    >>> future = torch.futures.Future()
    >>> doubled = future.then(lambda done: done.value() * 2)
    >>> future.set_result(torch.ones(2))
    >>> doubled.wait().tolist()
    [2.0, 2.0]
    """

    def __init__(self, *, devices: Sequence[Any] | None = None) -> None:
        self._changed = threading.Condition()
        self._done = False
        self._result: Any = None
        self._error: Exception | None = None
        self._calls: list[Callable[[Future[T]], Any]] = []

    def done(self) -> bool:
        """Whether a result or an exception has been set."""
        return self._done

    def wait(self) -> T:
        """The value, as soon as it is set; raises the exception that was set in its place."""
        with self._changed:
            self._changed.wait_for(self.done)
        return self.value()

    def value(self) -> T:
        """The value that was set.

        Raises:
            RuntimeError: nothing has been set yet.
        """
        if not self._done:
            raise RuntimeError("This future has no value yet: wait() waits for it.")
        if self._error is not None:
            raise self._error
        return self._result  # type: ignore[no-any-return]

    def set_result(self, result: T) -> None:
        """Set the value, and call what `then` and `add_done_callback` were given.

        Raises:
            RuntimeError: a value or an exception has been set before.
        """
        self._finish(result, None)

    def set_exception(self, result: Exception) -> None:
        """Set what `wait` and `value` raise."""
        if not isinstance(result, Exception):
            raise AssertionError(f"{result} is of type {type(result)}, not an Exception.")
        self._finish(None, result)

    def _finish(self, result: Any, error: Exception | None) -> None:
        with self._changed:
            if self._done:
                raise RuntimeError("Future can only be marked completed once: it has a value.")
            self._result, self._error, self._done = result, error, True
            calls, self._calls = self._calls, []
            self._changed.notify_all()
        for call in calls:
            call(self)

    def add_done_callback(self, callback: Callable[[Future[T]], Any]) -> None:
        """Call a function with this future when its value is set; at once where it is."""
        with self._changed:
            if not self._done:
                self._calls.append(callback)
                return
        callback(self)

    def then(self, callback: Callable[[Future[T]], S]) -> Future[S]:
        """A future of what a function gives for this one, or of the exception that it raises."""
        after: Future[S] = Future()

        def chained(done: Future[T]) -> None:
            try:
                result = callback(done)
            except Exception as error:
                after.set_exception(error)
            else:
                after.set_result(result)

        self.add_done_callback(chained)
        return after


def collect_all(futures: list[Future[Any]]) -> Future[list[Future[Any]]]:
    """A future of the list of futures, which is done when each of them is."""
    every: Future[list[Future[Any]]] = Future()
    left, lock = len(futures), threading.Lock()

    def one_more(_: Future[Any]) -> None:
        nonlocal left
        with lock:
            left -= 1
            last = left == 0
        if last:
            every.set_result(futures)

    for future in futures:
        future.add_done_callback(one_more)
    if not futures:
        every.set_result(futures)
    return every


def wait_all(futures: list[Future[Any]]) -> list[Any]:
    """The values of all futures, as soon as all have one; raises the first exception among them."""
    return [future.wait() for future in collect_all(futures).wait()]


_expose(__name__)
