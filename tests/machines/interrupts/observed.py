"""Kinds of work that somebody watches: recordings, profiles, pauses."""

from __future__ import annotations

import contextlib
import io
import sys
import tempfile
import threading
import time
import types
from pathlib import Path
from typing import Any

import ag_visual as ag
from ag_visual.events import instrument
from ag_visual.session.session import current

from .work import Work


class _Asking(ag.nn.Module):
    """A module that wants to see what was recorded so far."""

    recorded: Any

    def forward(self, x: Any) -> Any:
        assert self.recorded.recording
        return (x * 2).sum()


class Recording(Work):
    """A recording, and its file."""

    def __init__(self, lib: Any = ag) -> None:
        super().__init__(lib)
        self.folder = tempfile.TemporaryDirectory()
        self.path = Path(self.folder.name) / "recorded.agv"
        self.module = _Asking()

    def run(self) -> None:
        with ag.record() as recorded:
            self.module.recorded = recorded
            self.module(self.x).backward()
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


class Profiled(Work):
    """Profiles of every kind, one in the other; whoever is interrupted has none."""

    def __init__(self, lib: Any = ag) -> None:
        super().__init__(lib)
        self.module = lib.nn.Linear(3, 1)

    def run(self) -> None:
        legacy = self.lib.autograd.profiler
        with legacy.profile(record_shapes=True, with_modules=True):
            self.module(self.x).backward()
            with legacy.profile(profile_memory=True, with_stack=True):
                self.module(self.x).backward()

    def wrong(self) -> list[str]:
        with self.lib.autograd.profiler.profile() as found:
            (self.x * 2).sum().backward()
        names = {each.name for each in found.function_events}
        whole = {"aten::mul", "aten::sum", "MulBackward0"} <= names
        return [] if whole else ["the next profile is not whole"]


class Scheduled(Work):
    """A profile of some steps, which is handed on."""

    def run(self) -> None:
        profiler = self.lib.profiler
        schedule = profiler.schedule(wait=1, warmup=1, active=1)
        with profiler.profile(schedule=schedule, on_trace_ready=self.ready) as found:
            for _ in range(4):
                self.x.sum().backward()
                found.step()

    def ready(self, found: Any) -> None:
        found.events()


class _Emitting(Work):
    """Ranges of ops and nodes, for another tool; as many end as have begun."""

    emit: str

    def __init__(self, lib: Any = ag) -> None:
        super().__init__(lib)
        self.block = getattr(lib.autograd.profiler, self.emit)

    def run(self) -> None:
        with self.block(record_shapes=True):
            (self.x * 2).sum().backward()

    def wrong(self) -> list[str]:
        try:
            with self.block():
                pass
        except RuntimeError as error:
            return [f"the next block fails: {error}"]
        return []


class EmitNvtx(_Emitting):
    emit = "emit_nvtx"


class EmitItt(_Emitting):
    emit = "emit_itt"


class Magic(Work):
    """A line of a notebook under `%profile`, while a session records."""

    def __init__(self, lib: Any = ag) -> None:
        super().__init__(lib)
        from ag_visual.session.profile_magic import profile_magic

        self.user_ns: dict[str, Any] = {}
        self.out = sys.stdout
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
        sys.stdout = self.out  # what `redirect_stdout` leaves
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


class Newest(Work):
    """Backwards that a session watches though nobody records."""

    def __init__(self, lib: Any = ag) -> None:
        super().__init__(lib)
        current().watch_newest(True)
        current().recorder.allowance.share = 1e9
        current().recorder.allowance.grows = True

    def run(self) -> None:
        (self.x * 2).sum().backward()

    def wrong(self) -> list[str]:
        told = []
        if instrument.sink is not None:
            told.append("a backward that is over is still recorded")
        if current().recorder.scope != "newest":
            told.append("nothing is watched any more")
        return told

    def close(self) -> None:
        current().watch_newest(False)
        current().clear()


class Stepped:
    """Another thread that lets a paused backward go on, again and again."""

    def __init__(self, gate: Any) -> None:
        self.gate = gate
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


class Paused(Work):
    """A backward that stops before each node, and another thread that lets it go on."""

    def __init__(self, lib: Any = ag) -> None:
        super().__init__(lib)
        current().watch()
        self.stepped = Stepped(current().gate)

    def run(self) -> None:
        self.stepped.gate.ask_pause()
        (self.x * 2).sum().backward()

    def wrong(self) -> list[str]:
        return self.stepped.wrong()

    def close(self) -> None:
        self.stepped.close()
