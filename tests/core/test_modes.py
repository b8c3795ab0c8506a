"""The process-wide count of special modes, on which the fast path depends."""

from __future__ import annotations

import gc
import threading
import time
from collections.abc import Callable

import pytest

import ag_visual as ag
from ag_visual.core import modes


def left_off() -> None:
    ag.set_grad_enabled(False)


def left_on() -> None:
    ag.set_grad_enabled(False)
    ag.set_grad_enabled(True)


held: list[ag.inference_mode] = []  # it lasts as long as the object


def left_in_inference() -> None:
    held.append(ag.inference_mode())
    held[-1].__enter__()


def left_with_hooks() -> None:
    ag.autograd.graph.saved_tensors_hooks(lambda x: x, lambda x: x).__enter__()


def only_looked() -> None:
    assert ag.is_grad_enabled()


def taken_over() -> None:
    """Modes of a thread that waits belong to that thread."""
    ag.set_grad_enabled(False)
    given = modes.snapshot()
    ended(lambda: modes.take_over(given))
    assert modes.special == 1
    ag.set_grad_enabled(True)


def ended(target: Callable[[], None]) -> None:
    """Run in a thread of its own, until nothing of it is left."""
    failures: list[BaseException] = []

    def run() -> None:
        try:
            target()
        except BaseException as error:
            failures.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    assert not failures, failures


@pytest.mark.parametrize(
    "way", [left_off, left_on, left_in_inference, left_with_hooks, only_looked, taken_over]
)
def test_a_thread_takes_its_modes_along_when_it_ends(way: Callable[[], None]) -> None:
    assert modes.special == 0
    gc.disable()  # it does not take a collection
    try:
        ended(way)
        limit = time.monotonic() + 600
        while (modes.special or modes.slowed) and time.monotonic() < limit:
            time.sleep(0.001)
    finally:
        gc.enable()
    assert (modes.special, modes.slowed) == (0, 0)
    assert ag.is_grad_enabled()


def test_a_thread_that_runs_in_a_mode_counts() -> None:
    inside, go = threading.Event(), threading.Event()

    def wait() -> None:
        with ag.no_grad():
            inside.set()
            go.wait(600)

    thread = threading.Thread(target=wait)
    thread.start()
    assert inside.wait(600)
    assert (modes.special, modes.slowed) == (1, 0)
    assert (ag.ones(1, requires_grad=True) * 2).requires_grad
    go.set()
    thread.join()
    assert modes.special == 0


def test_no_op_is_recorded_without_grad_where_another_thread_takes_the_slow_path() -> None:
    x = ag.ones(1, requires_grad=True)
    inside, go = threading.Event(), threading.Event()

    def wait() -> None:
        with ag.autograd.graph.save_on_cpu():
            inside.set()
            go.wait(600)

    thread = threading.Thread(target=wait)
    with ag.no_grad():
        thread.start()
        assert inside.wait(600)
        assert modes.slowed == 1
        assert not (x * 2).requires_grad
        go.set()
        thread.join()
        assert modes.slowed == 0
        assert not (x * 2).requires_grad
    assert (x * 2).requires_grad
