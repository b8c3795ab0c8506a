"""Signals in the middle of work leave nothing behind; the machine finds windows that are opened."""

from __future__ import annotations

import contextlib
import gc
import inspect
import signal
import subprocess
import sys
import textwrap
import threading
from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy
import pytest

import ag_visual as ag
from ag_visual.autograd import api, grad_mode
from ag_visual.core import modes
from ag_visual.engine import accumulate, run as engine
from ag_visual.profiler import collection, legacy
from ag_visual.serialization import container
from ag_visual.session import pause
from ag_visual.session.pause import Gate

from ..oracle import torch
from .interrupts.every import Sender, every, turned
from .interrupts.kinds import IN_CI, IN_TURNS, KINDS
from .interrupts.state import Before
from .interrupts.timer import run
from .interrupts.work import Work

pytestmark = [
    pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="no timer that signals"),
    # What an interrupt leaves to the collector: a file that was open, an error in a finalizer.
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]


@pytest.mark.parametrize("group", IN_CI)
def test_no_interrupt_leaves_anything_behind(group: str) -> None:
    """In a process of its own: what thousands of other tests have left there would run, too."""
    if group == "bridged":
        assert torch.__version__
    done = subprocess.run(
        [sys.executable, "-m", "tests.machines.interrupts", "--group", group],
        capture_output=True,
        text=True,
        check=False,
        cwd=Path(__file__).parents[2],
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert [line.partition(":")[0] for line in done.stdout.splitlines()[:-1]] == IN_CI[group]


def test_every_kind_is_known() -> None:
    assert sorted(KINDS) == sorted(
        [*chain.from_iterable(IN_CI.values()), "magic", "torchpaused", "loading"]
    )


class _LeftToTheCollector(Work):
    """A block whose generator waits in a circle of objects, until the next run collects it."""

    @contextlib.contextmanager
    def block(self) -> Iterator[None]:
        try:
            yield
        finally:
            _work()

    def run(self) -> None:
        gc.collect()
        circle: list[Any] = [self.block()]
        circle.append(circle)
        with circle[0]:
            _work()


def test_a_frame_that_outlives_its_run_sends_no_second_signal(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    original, unasked = Sender._handle, []

    def handle(self: Sender, *signal: Any) -> None:
        if not self._armed:
            unasked.append(signal)
        else:
            original(self, *signal)

    monkeypatch.setattr(Sender, "_handle", handle)
    monkeypatch.setitem(KINDS, "left", _LeftToTheCollector)
    figures = every("left")
    assert figures.points > 10
    assert (figures.found, unasked) == ({}, [])


def test_signals_of_a_timer_end_the_work() -> None:
    assert run("tiny", 60, seed=1) == {}


@pytest.mark.oracle
@pytest.mark.parametrize("kind", IN_TURNS)
def test_modes_are_left_on_at_fewer_points_than_torchs(kind: str) -> None:
    assert torch.__version__
    (ours, points), (theirs, _) = turned(kind, ag), turned(kind, torch)
    assert points > 10
    assert ours.total() <= theirs.total()
    if kind == "modes":  # where Python begins the method that restores it, and nowhere else
        assert {where.split(" < ")[0].split()[1] for where in ours} == {"_GradMode.__exit__"}


# Injected faults --------------------------------------------------------------------------------


def _work() -> None:
    """Where a signal can come, before what should have been done at once."""


def _task_outside_of_try(patch: pytest.MonkeyPatch) -> str:
    """As run_backward was: it began, and ended, in several calls."""
    original = engine.run_backward

    def run_backward(*args: Any, **kwargs: Any) -> Any:
        state = modes.state
        task = engine.GraphTask()
        task.parent, task.thread, task.depth = None, 0, 0
        state.task, task.modes = task, None
        _work()
        try:
            return original(*args, **kwargs)
        finally:
            _work()
            state.task = None

    patch.setattr(api, "run_backward", run_backward)
    return "tiny"


def _mode_restored_by_a_call(patch: pytest.MonkeyPatch) -> str:
    original = modes.in_grad_mode

    def in_grad_mode(mode: bool, function: Any, *args: Any, **kwargs: Any) -> Any:
        previous = modes.set_grad(mode)
        try:
            return function(*args, **kwargs)
        finally:
            _work()
            modes.set_grad(previous)

    assert original(False, ag.is_grad_enabled) is False
    patch.setattr(modes, "in_grad_mode", in_grad_mode)
    return "decorated"


def _inference_that_outlives_its_object(patch: pytest.MonkeyPatch) -> str:
    original = grad_mode.inference_mode.__exit__

    def leave(self: Any, *error: Any) -> None:
        _work()
        original(self, *error)

    patch.setattr(grad_mode.inference_mode, "__exit__", leave)
    patch.delattr(grad_mode._Entered, "__del__")
    return "inferenceinside"


def _numpy_set_in_two_steps(patch: pytest.MonkeyPatch) -> str:
    original = engine.run_backward

    class Setting(numpy.errstate):
        def __exit__(self, *error: Any) -> None:
            _work()
            super().__exit__(*error)

    def run_backward(*args: Any, **kwargs: Any) -> Any:
        with Setting(all="ignore"):
            return original(*args, **kwargs)

    patch.setattr(api, "run_backward", run_backward)
    return "tiny"


def _written_then_counted(patch: pytest.MonkeyPatch) -> str:
    original = accumulate.accumulate

    def late(xp: Any, variable: Any, g: Any, *rest: Any) -> None:
        if variable._grad is None:
            original(xp, variable, g, *rest)
            return
        xp.add(variable._grad._array, g, out=variable._grad._array)
        _work()
        variable._grad._storage.wrote("accumulate_grad", None, variable._grad._array)

    patch.setattr(accumulate, "accumulate", late)
    return "accumulate"


def _added_by_halves(patch: pytest.MonkeyPatch) -> str:
    original = accumulate.accumulate

    def halves(xp: Any, variable: Any, g: Any, *rest: Any) -> None:
        if variable._grad is None:
            original(xp, variable, g, *rest)
            return
        variable._grad._storage.wrote("accumulate_grad", None, variable._grad._array)
        half = len(g) // 2
        variable._grad._array[:half] += g[:half]
        _work()
        variable._grad._array[half:] += g[half:]

    patch.setattr(accumulate, "accumulate", halves)
    return "accumulate"


def _history_after_the_write(patch: pytest.MonkeyPatch) -> str:
    from ag_visual.dispatch import inplace

    original = inplace.make_node

    def once(*args: Any, **kwargs: Any) -> Any:
        _work()
        return original(*args, **kwargs)

    patch.setattr(inplace, "make_node", once)
    patch.setattr(inplace, "BaseException", Exception, raising=False)  # nothing is made good
    return "writes"


def _saved_in_place(patch: pytest.MonkeyPatch) -> str:
    def write(path: Any, arrays: Any, metadata: Any) -> None:
        with open(path, "wb") as file:
            for part in container_text(arrays, metadata):
                file.write(part)
                file.flush()
                _work()

    def container_text(arrays: Any, metadata: Any) -> list[bytes]:
        import io

        whole = io.BytesIO()
        original(whole, arrays, metadata)
        data = whole.getvalue()
        return [data[: len(data) // 2], data[len(data) // 2 :]]

    original = container.write
    patch.setattr(container, "write", write)
    return "saving"


def _profile_that_outlives_its_object(patch: pytest.MonkeyPatch) -> str:
    original = legacy.profile.__exit__

    def leave(self: Any, *error: Any) -> Any:
        _work()
        return original(self, *error)

    patch.setattr(legacy.profile, "__exit__", leave)
    patch.setattr(collection, "weakref", SimpleNamespace(ref=lambda one: lambda: one))
    return "profiled"


def _call_before_try(patch: pytest.MonkeyPatch) -> str:
    """As `_pause` was: one call of C between the turn that it takes and the block that gives it up.

    A timer hits this once in some ten thousand pauses.
    """
    text = textwrap.dedent(inspect.getsource(Gate._pause))
    opened = text.replace(
        "    self._turn = here\n    try:",
        "    self._turn = here\n    since = perf_counter_ns()\n    try:",
    )
    assert opened != text
    space: dict[str, Any] = {}
    exec(compile(opened, pause.__file__, "exec", annotations.compiler_flag), vars(pause), space)
    patch.setattr(Gate, "_pause", space["_pause"])
    return "paused"


def _end_told_once(patch: pytest.MonkeyPatch) -> str:
    original = engine._emit_end
    told = set()

    def tell(task: Any) -> None:
        if task.id not in told:
            told.add(task.id)
            _work()
            original(task)

    patch.setattr(engine, "_emit_end", tell)
    return "watched"


PLANTS = [
    _task_outside_of_try,
    _mode_restored_by_a_call,
    _inference_that_outlives_its_object,
    _numpy_set_in_two_steps,
    _written_then_counted,
    _added_by_halves,
    _history_after_the_write,
    _saved_in_place,
    _profile_that_outlives_its_object,
    _call_before_try,
    _end_told_once,
]


@pytest.mark.parametrize("plant", PLANTS)
def test_an_opened_window_is_found(plant: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    kind = plant(monkeypatch)
    try:
        assert every(kind, enough=1).found
    finally:
        monkeypatch.undo()
        Before().restore()


def test_a_backward_that_died_is_forgotten_by_the_next() -> None:
    """What no closed window can leave, and a future fault may."""
    x = ag.ones(2, requires_grad=True)
    loss = (x * 2).sum()
    dead = engine.GraphTask()
    dead.thread, dead.parent, dead.depth = threading.get_ident(), None, 0
    dead.before, dead.create_graph, dead.modes = True, False, None
    modes.state.task = dead
    modes.set_grad(False)
    depths = []
    x.register_hook(lambda g: depths.append((modes.state.task.depth, modes.state.task.parent)))
    try:
        loss.backward()
        assert depths == [(0, None)]
        assert Before().left() == []
        modes.state.task = dead
        with pytest.raises(RuntimeError, match="Final callbacks can only be installed"):
            ag.autograd.Variable._execution_engine.queue_callback(lambda: None)
        assert modes.state.task is None
    finally:
        Before().restore()
