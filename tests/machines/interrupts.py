"""Signals at random moments, and what they leave behind; `python -m tests.machines.interrupts`.

A piece of work runs in a loop until a timer's signal ends it somewhere, thousands of times. After
each one nothing may count as running, no mode, gate or lock be left, and what was written be old or
new, with its version. `--count N` interrupts (or `--minutes M`), `--kind` only one kind of work.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import random
import signal
import sys
import tempfile
import threading
import time
import types
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy

import ag_visual as ag
from ag_visual.core import modes
from ag_visual.events import instrument
from ag_visual.profiler import collection, wrappers
from ag_visual.session.session import current

SHORTEST = 50e-6
"""Seconds until the signal, at most, of work that takes no longer; else two runs of it."""


class Interrupt(KeyboardInterrupt):
    """What the timer's signal raises."""


class Timer:
    """Ends a loop somewhere, by a real signal."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        self.armed = False
        self.lost = 0  # raised where nobody can catch it: in a finalizer, say

    def __enter__(self) -> Timer:
        self._before = signal.signal(signal.SIGALRM, self._ring)
        self._hook, sys.unraisablehook = sys.unraisablehook, self._unraisable
        return self

    def __exit__(self, *_: object) -> None:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, self._before)
        sys.unraisablehook = self._hook

    def _ring(self, number: int, frame: Any) -> None:
        if self.armed:
            self.armed = False
            raise Interrupt

    def _unraisable(self, told: Any) -> None:
        if isinstance(told.exc_value, Interrupt):
            self.lost += 1
            self.armed = True  # the loop runs on: the timer rings again
        else:
            self._hook(told)

    def interrupt(self, work: Callable[[], Any], longest: float) -> bool:
        """Run the work again and again until a signal ends it. False if it swallowed that."""
        delay = self.chance.uniform(1e-6, longest)
        try:
            self.armed = True
            signal.setitimer(signal.ITIMER_REAL, delay, 0.5)
            while self.armed:
                work()
        except Interrupt:
            return True
        except Exception as error:
            if not isinstance(error.__cause__, Interrupt):  # which NumPy tells in its own words
                raise
            return True
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
            self.armed = False
        return False


# What is left behind ------------------------------------------------------------------------------


class Before:
    """What a process looks like in which nothing runs, and how to make it so again."""

    def __init__(self) -> None:
        self.numpy = numpy.geterr()
        self.start = threading.Thread.start

    def left(self) -> list[str]:
        """What is not as it was, in words."""
        state, session = modes.state, current()
        gate, recorder = session.gate, session.recorder
        added = int(not state.grad) + state.slow + (modes.anomaly is not None)
        wrong = {
            "a backward counts as running": state.task is not None,
            "grad mode is off": not state.grad,
            "inference mode is on": state.inference,
            "saved-tensor hooks are on": bool(state.saved_hooks) or state.slow > 0,
            "saved-tensor hooks are refused": state.saved_hooks_disabled is not None,
            "mutation of saved tensors is allowed": state.mutation is not None,
            "the guard is on": state.guard is not None,
            "view replay is on": state.view_replay,
            "anomaly mode is on": modes.anomaly is not None,
            "a node counts as running": state.node is not None,
            "modes are counted wrongly": modes.special != added,
            "ops take the wrong path": state.fast is not (None if state.slow else state.grad),
            "NumPy's setting is another": numpy.geterr() != self.numpy,
            "a gate is closed": gate.paused is not None or gate._turn is not None,
            "somebody waits to stop": gate.waiting != 0,
            "the session counts a backward": bool(session._running),
            "a thread is ignored": bool(recorder.ignored),
            "somebody profiles": instrument.spans is not None or bool(collection._open),
            "a profile is half begun": collection._log is not None,
            "an op has the code of a profile": any(
                each.function.__code__ is each.code for each in wrappers._all.known.values()
            ),
            "modules have the code of a profile": wrappers._Modules.code is not None,
            "starts of threads are noted": threading.Thread.start is not self.start,
            "a lock is held": session._lock._is_owned() or recorder._lock._is_owned(),  # type: ignore[attr-defined]
        }
        return [text for text, found in wrong.items() if found]

    def restore(self) -> None:
        """As it was, whatever was left."""
        state, session = modes.state, current()
        for name in list(state.__dict__):
            delattr(state, name)
        type(state).__init__(state)  # as a thread begins
        modes.set_anomaly(None)
        modes.special = 0
        numpy.seterr(**self.numpy)
        session.gate.paused = session.gate._turn = None
        session.gate.waiting = 0
        session._running.clear()
        for lock in (session._lock, session.recorder._lock):
            while lock._is_owned():  # type: ignore[attr-defined]
                lock.release()
        session.recorder.ignored.clear()
        collection._open.clear()
        collection._ended(None)
        threading.Thread.start = self.start  # type: ignore[method-assign]


# Kinds of work ------------------------------------------------------------------------------------


class Work:
    """One kind: `run` is what signals end; `wrong` looks at what it has made."""

    def __init__(self, lib: Any = ag) -> None:
        self.lib = lib
        self.x = lib.ones(3, requires_grad=True)

    def run(self) -> None:
        raise NotImplementedError

    def after(self) -> None:
        """Put right what the program that was interrupted would put right itself."""
        self.x.grad = None

    def wrong(self) -> list[str]:
        """What is half done, after an interrupt."""
        return []

    def close(self) -> None:
        """The last interrupt has come."""


class Tiny(Work):
    def run(self) -> None:
        (self.x * 2).sum().backward()


class Chain(Work):
    def run(self) -> None:
        y = self.x
        for _ in range(15):
            y = y * 1.01
        y.sum().backward()


class NNStep(Work):
    """A training step: forward, backward, optimizer."""

    def __init__(self, lib: Any = ag) -> None:
        super().__init__(lib)
        self.model = lib.nn.Sequential(lib.nn.Linear(3, 4), lib.nn.ReLU(), lib.nn.Linear(4, 1))
        self.optimizer = lib.optim.SGD(self.model.parameters(), lr=0.01, momentum=0.9)

    def run(self) -> None:
        self.optimizer.zero_grad()
        self.model(self.x.detach()).square().mean().backward()
        self.optimizer.step()

    def wrong(self) -> list[str]:
        return [
            f"parameter {name} is not finite"
            for name, p in self.model.named_parameters()
            if not bool(p.isfinite().all())
        ]


class Hooks(Work):
    """Hooks of every kind, which use modes themselves."""

    def __init__(self, lib: Any = ag) -> None:
        super().__init__(lib)
        self.x.register_hook(self.hook)
        self.x.register_post_accumulate_grad_hook(self.hook)

    def hook(self, *_: Any) -> None:
        with self.lib.no_grad():
            pass

    def run(self) -> None:
        y = self.x * 2
        y.register_hook(self.hook)
        y.grad_fn.register_prehook(self.hook)
        y.grad_fn.register_hook(self.hook)
        engine = self.lib.autograd.Variable._execution_engine
        y.register_hook(lambda g: engine.queue_callback(self.hook))
        y.sum().backward()


class RetainGrad(Work):
    def run(self) -> None:
        loss = (self.x * 2).sum()
        loss.retain_grad()
        loss.backward(retain_graph=True)
        loss.backward()


class CreateGraph(Work):
    def run(self) -> None:
        (g,) = self.lib.autograd.grad((self.x**3).sum(), self.x, create_graph=True)
        g.sum().backward()


class _Twice(ag.autograd.Function):
    """A backward inside of a backward."""

    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        ctx.save_for_backward(x)
        return x * 2

    @staticmethod
    @ag.autograd.function.once_differentiable
    def backward(ctx: Any, g: Any) -> Any:
        (x,) = ctx.saved_tensors
        with ag.enable_grad():
            inner = x.detach().requires_grad_()
            (inner * 2).sum().backward()
        return g * inner.grad


class Nested(Work):
    def run(self) -> None:
        _Twice.apply(self.x * 1).sum().backward()


class Deep(Work):
    """So many backwards in each other that a thread of their own takes them on."""

    def run(self) -> None:
        self.at(22)

    def at(self, depth: int) -> None:
        y = self.x.detach().requires_grad_() * 1
        if depth:
            y.register_hook(lambda g: self.again(depth))
        y.sum().backward()

    def again(self, depth: int) -> None:
        with self.lib.enable_grad():
            self.at(depth - 1)


class PackHooks(Work):
    """Saved-tensor hooks, of a function that a mode decorates."""

    def __init__(self, lib: Any = ag) -> None:
        super().__init__(lib)
        with lib.autograd.graph.saved_tensors_hooks(lambda t: t * 1, lambda t: t):
            self.y = self.x.exp().sum()

    def run(self) -> None:
        self.y.backward(retain_graph=True)


class Accumulate(Work):
    """One gradient, added to for ever: what is there is whole, and counted."""

    def __init__(self, lib: Any = ag) -> None:
        super().__init__(lib)
        self.x = lib.ones(500, dtype=lib.float64, requires_grad=True)
        self.y = (self.x * 2).sum()

    def run(self) -> None:
        self.y.backward(retain_graph=True)

    def after(self) -> None:
        pass

    def wrong(self) -> list[str]:
        g = self.x.grad
        if g is None:
            return []
        values = g.detach().numpy()
        found = [] if (values == values[0]).all() else ["a gradient is half added"]
        if values[0] > 2 * (g._version + 1):
            found.append("a gradient was written, and its version does not say so")
            self.x.grad = None
        return found


class Writes(Work):
    """In place, with and without history: values, versions and history fit."""

    def __init__(self, lib: Any = ag) -> None:
        super().__init__(lib)
        self.plain = lib.zeros(3, dtype=lib.float64)
        self.base = lib.zeros(4, dtype=lib.float64)
        self.view = self.base[1:]
        self.recorded: Any = None
        self.part: Any = None

    def run(self) -> None:
        self.plain.add_(1)
        self.view.add_(1)
        self.recorded = self.x.double()
        self.part = self.recorded[1:]
        self.recorded.mul_(2)
        self.part.mul_(3)
        self.recorded.mul_(2)

    def wrong(self) -> list[str]:
        found = []
        for name, tensor in (("a tensor", self.plain), ("the base of a view", self.base)):
            if float(tensor.max()) > tensor._version:
                found.append(f"{name} was written, and its version does not say so")
        if self.recorded is not None:
            self.x.grad = None
            self.recorded.sum().backward()
            if not bool((self.x.grad == self.recorded.detach().float()).all()):
                found.append("a tensor was written, and its history does not say so")
        self.recorded = None
        return found


class Decorated(Work):
    """Functions that modes decorate, and what the package does in a mode of its own."""

    def __init__(self, lib: Any = ag) -> None:
        super().__init__(lib)
        self.module = lib.nn.Linear(3, 3)

    def run(self) -> None:
        self.module.double()
        self.module.float()
        _Twice.apply(self.x)


class Saving(Work):
    """A file is the old one or the new one, whole."""

    def __init__(self, lib: Any = ag) -> None:
        super().__init__(lib)
        self.folder = tempfile.TemporaryDirectory()
        self.path = Path(self.folder.name) / "saved.safetensors"
        self.begun = self.done = 0

    def run(self) -> None:
        self.begun += 1
        ag.save({"a": ag.full((2000,), float(self.begun))}, self.path)
        self.done = self.begun

    def wrong(self) -> list[str]:
        if not self.path.exists():
            return []
        try:
            values = ag.load(self.path)["a"].numpy()
        except ValueError:
            return ["a file is half written"]
        if not (values == values[0]).all() or not self.done <= values[0] <= self.begun:
            return ["the file is neither old nor new"]
        return []

    def close(self) -> None:
        self.folder.cleanup()


class Recording(Work):
    """A recording, and its file."""

    def __init__(self, lib: Any = ag) -> None:
        super().__init__(lib)
        self.folder = tempfile.TemporaryDirectory()
        self.path = Path(self.folder.name) / "recorded.agv"

    def run(self) -> None:
        with ag.record() as recorded:
            (self.x * 2).sum().backward()
        recorded.save(self.path)

    def wrong(self) -> list[str]:
        found = []
        if self.path.exists():
            ag.load_recording(self.path)
        current().stop()  # where the end of the block was not begun
        with ag.record() as recorded:
            (self.x * 2).sum().backward()
        if recorded.recording.rows("nodes") != 2:
            found.append("the next recording is not whole")
        return found

    def close(self) -> None:
        current().stop()
        current().clear()
        self.folder.cleanup()


class Profiled(NNStep):
    """Profiles of every kind, one in the other; whoever is interrupted has none."""

    def run(self) -> None:
        legacy = self.lib.autograd.profiler
        with legacy.profile(record_shapes=True, with_modules=True):
            super().run()
            with legacy.profile(profile_memory=True, with_stack=True):
                super().run()

    def wrong(self) -> list[str]:
        with self.lib.autograd.profiler.profile() as found:
            (self.x * 2).sum().backward()
        names = {each.name for each in found.function_events}
        whole = {"aten::mul", "aten::sum", "MulBackward0"} <= names
        return super().wrong() + ([] if whole else ["the next profile is not whole"])


class Scheduled(NNStep):
    """A profile of some steps, which is handed on."""

    def run(self) -> None:
        profiler = self.lib.profiler
        schedule = profiler.schedule(wait=1, warmup=1, active=1)
        with profiler.profile(schedule=schedule, on_trace_ready=self.ready) as found:
            for _ in range(4):
                super().run()
                found.step()

    def ready(self, found: Any) -> None:
        found.key_averages()


class Magic(Work):
    """A line of a notebook under `%profile`, while a session records."""

    def __init__(self, lib: Any = ag) -> None:
        super().__init__(lib)
        from ag_visual.session.profile_magic import profile_magic

        self.user_ns: dict[str, Any] = {}
        self.magic = profile_magic(self)

    def run_cell(self, code: str, **options: Any) -> Any:
        """As a shell does, but that it lets an interrupt through."""
        exec(code, {"x": self.x})
        return types.SimpleNamespace(error_before_exec=None, error_in_exec=None)

    def run(self) -> None:
        with ag.record(), contextlib.redirect_stdout(io.StringIO()):
            self.magic("--memory --keep found (x * 2).sum().backward()")

    def after(self) -> None:
        super().after()
        self.user_ns.clear()
        current().stop()

    def close(self) -> None:
        current().stop()
        current().clear()


class Watched(Work):
    """Backwards while a session records them."""

    def __init__(self, lib: Any = ag) -> None:
        super().__init__(lib)
        current().start("every", 1)

    def run(self) -> None:
        (self.x * 2).sum().backward()

    def wrong(self) -> list[str]:
        return [] if instrument.sink is not None else ["the recording has stopped"]

    def close(self) -> None:
        current().stop()
        current().clear()


class Paused(Work):
    """A backward that stops before each node, and another thread that lets it go on."""

    def __init__(self, lib: Any = ag) -> None:
        super().__init__(lib)
        self.session = current()
        self.session.watch()
        self.gate = self.session.gate
        self.over = self.rests = self.resting = False
        self.helper = threading.Thread(target=self.help, daemon=True)
        self.helper.start()

    def help(self) -> None:
        while not self.over:
            self.resting = self.rests
            if not self.resting and self.gate.paused is not None:
                with contextlib.suppress(RuntimeError):  # it has gone on meanwhile
                    self.gate.step()
            time.sleep(20e-6)

    def run(self) -> None:
        self.gate.ask_pause()
        (self.x * 2).sum().backward()

    def wrong(self) -> list[str]:
        self.rests = True
        while not self.resting:  # else it steps on what has just ended
            time.sleep(10e-6)
        self.gate.breakpoints_off()
        self.gate.arm()
        self.rests = False
        return [] if instrument.gate is None else ["the gate stays armed"]

    def close(self) -> None:
        self.over = True
        self.helper.join()
        self.gate.breakpoints_off()
        self.gate.arm()


class Modes(Work):
    def run(self) -> None:
        lib = self.lib
        with lib.no_grad():
            pass
        with lib.no_grad(), lib.enable_grad():
            self.x * 2
        with lib.set_grad_enabled(False):
            self.x * 2


class Inference(Work):
    def run(self) -> None:
        with self.lib.inference_mode():
            pass
        with self.lib.inference_mode():
            self.x * 2


class InferenceInside(Work):
    def run(self) -> None:
        with self.lib.inference_mode(), self.lib.inference_mode(False):
            self.x * 2


KINDS: dict[str, type[Work]] = {
    kind.__name__.lower(): kind
    for kind in (
        *(Tiny, Chain, NNStep, Hooks, RetainGrad, CreateGraph, Nested, Deep, PackHooks),
        *(Accumulate, Writes, Decorated, Saving, Recording, Watched, Paused, InferenceInside),
        *(Profiled, Scheduled, Magic),
    )
}
IN_TURNS: dict[str, type[Work]] = {"modes": Modes, "inference": Inference}
"""Modes that `with` enters, whose end a signal can prevent: in torch, too."""


# Running ------------------------------------------------------------------------------------------


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """No warnings of what is left open: an interrupt is allowed to leave it to the collector."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def warm_up(work: Work) -> float:
    """How long the signal may take to come.

    Each first call compiles its op: a signal that always ended that would meet nothing else.
    """
    times = []
    with quiet():
        for _ in range(3):
            began = time.perf_counter()
            work.run()
            times.append(time.perf_counter() - began)
            work.after()
    return max(SHORTEST, 2 * min(times))


def run(kind: str, count: int, seed: int, *, enough: int = 0) -> Counter[str]:
    """What so many interrupts of one kind of work have left behind, and how often.

    enough: end when so much was found.
    """
    before, found = Before(), Counter[str]()
    before.restore()  # other tests may have left a session that counts
    assert not (left := before.left()), f"{left} before the first interrupt"
    work = KINDS[kind]()
    try:
        longest = warm_up(work)
        with Timer(seed) as timer, quiet():
            for _ in range(count):
                if not timer.interrupt(work.run, longest):
                    found["an interrupt was swallowed"] += 1
                found.update(before.left())
                before.restore()
                found.update(work.wrong())
                before.restore()
                work.after()
                if enough and found.total() >= enough:
                    break
    finally:
        work.close()
    return found


def compare(kind: str, count: int, seed: int, torch: Any) -> tuple[int, int]:
    """In how many of so many interrupts the mode was left, here and in torch, in turns."""
    before, left = Before(), [0, 0]
    before.restore()
    works = [IN_TURNS[kind](lib) for lib in (ag, torch)]
    longest = [warm_up(work) for work in works]
    held: list[Any] = []
    with Timer(seed) as timer, quiet():
        for _ in range(count):
            for i, work in enumerate(works):
                timer.interrupt(work.run, longest[i])
                lib = work.lib
                if lib.is_inference_mode_enabled():
                    held.append(lib.inference_mode(False))  # dropped, it would turn it on again
                    held[-1].__enter__()
                    left[i] += 1
                elif not lib.is_grad_enabled():
                    left[i] += 1
                lib.set_grad_enabled(True)
            wrong = set(before.left()) - {"saved-tensor hooks are on"}  # ops go slowly, that is
            assert not wrong, wrong
            before.restore()
    return left[0], left[1]


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m tests.machines.interrupts", description=__doc__
    )
    parser.add_argument("--count", type=int, default=2000, help="interrupts, of all kinds together")
    parser.add_argument("--minutes", type=float, default=0.0, help="so long, instead")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--kind", choices=[*KINDS, *IN_TURNS])
    options = parser.parse_args()
    kinds = [k for k in KINDS if options.kind in (None, k)]
    turns = [k for k in IN_TURNS if options.kind in (None, k)]
    rounds, seed, done = 25, options.seed, 0
    end = time.monotonic() + options.minutes * 60
    found: dict[str, Counter[str]] = {kind: Counter() for kind in kinds}
    left = {kind: [0, 0, 0] for kind in turns}
    while time.monotonic() < end if options.minutes else done < options.count:
        for kind in kinds:
            found[kind] += run(kind, rounds, seed)
            done += rounds
        for kind in turns:
            with contextlib.suppress(ImportError):
                import torch

                pair = compare(kind, rounds, seed, torch)
                left[kind] = [a + b for a, b in zip(left[kind], (rounds, *pair), strict=True)]
                done += rounds
        seed += 1
    for kind, told in found.items():
        for text, times in told.items():
            print(f"{kind}: {text}, {times} times")
    for kind, (times, ours, theirs) in left.items():
        print(f"{kind}: left on {ours} times in {times}, torch's {theirs} times")
    print(f"{done} interrupts, seeds {options.seed} to {seed}")
    if any(found.values()):
        sys.exit(1)


if __name__ == "__main__":
    main()
