"""`ag.watch(torch)`: what a user calls. Imports no torch before that."""

from __future__ import annotations

import sys
from importlib import import_module
from types import ModuleType
from typing import Any

from ag_visual.errors import MissingExtraError, type_name

OLDEST = (2, 5)
"""Before it no node shows the shapes of what it gives."""

_running: watch | None = None


class watch:  # a call, and a context manager, as torch's own are
    """Watch programs of the real torch: the Inspector shows them as it shows this package's own.

    Until `stop()`, or in a block, forward operations, graphs and backwards of torch are recorded
    with the lines that made them; errors of autograd get a note that names the lines; a backward
    can be paused, and its gradients edited. Operations of the calling thread and of those that
    begin while torch is watched have their lines; those of older threads appear with their
    backward, without one. Values, gradients, version counters and errors are those of torch.
    problems_only=True records nothing and explains errors.
    name: what the recording is called, as in `record`.

    torch: the module itself (2.5 or newer); None imports it. Raises MissingExtraError where it is
    not installed, TypeError for another module, RuntimeError for an older one.

    >>> import ag_visual as ag, torch
    >>> with ag.watch(torch) as watched:
    ...     x = torch.ones(2, requires_grad=True)
    ...     (x * 3).sum().backward()
    >>> watched.recording.rows("nodes")
    2
    """

    def __init__(
        self, torch: ModuleType | None = None, *, problems_only: bool = False, name: str = ""
    ) -> None:
        _check(torch)
        from ag_visual.bridge.engine import Watcher
        from ag_visual.session.api import name_given
        from ag_visual.session.session import current

        self._name = name_given(name)

        global _running
        if _running is not None:
            _running.stop()
        session = current()
        session.watch()
        self.problems_only = problems_only
        self._kept: Any = None
        self._started = False
        self._watcher = Watcher(events=not problems_only)
        _running = self  # also halfway: who watches next ends what an interrupt has left
        try:
            self._watcher.start()
            if not problems_only and not session.recorder.on:
                self._started = True
                session.clear()
                session.name = self._name
                session.start()
        except BaseException:
            self.stop()
            raise

    def stop(self) -> None:
        """Leave torch as it was. What was recorded stays; to stop twice does nothing."""
        global _running
        if _running is not self:
            self._watcher.leave()
            return
        from ag_visual.session.session import current

        session = current()
        steps = []
        if session.recorder.on:
            # while storages have the numbers that were emitted
            steps.append(session.recorder.drain)
        if self._started:
            steps.append(session.stop)
        try:
            for step in steps:
                try:
                    step()
                except Exception as error:
                    self._watcher.failed(error)
        finally:
            self._watcher.stop()
            _running = None

    @property
    def recording(self) -> Any:
        """What was recorded: so far in the block, all of it after."""
        from ag_visual.session.session import current

        return self._kept or current().recording(values=True)

    def save(self, path: Any, **options: Any) -> Any:
        """Write the recording as `save_recording` does: a page for a name in .html, else a file."""
        from ag_visual.session.api import save_recording

        return save_recording(path, self.recording, **options)

    def __enter__(self) -> watch:
        return self

    def __exit__(self, *_: object) -> None:
        from ag_visual.session.session import current

        self.stop()
        if not self.problems_only:
            try:
                self._keep(current())
            except Exception as error:
                self._watcher.failed(error)

    def _keep(self, session: Any) -> None:
        self._kept = session.recording(values=True).named(self._name)
        if self._name or self._started:
            session.runs.add(self._kept)
            session.changed()

    def __repr__(self) -> str:
        what = "problems" if self.problems_only else "everything"
        return f"<watching torch: {what}>" if _running is self else "<stopped watching torch>"


def _check(module: ModuleType | None) -> None:
    """Whether this is a torch that can be watched."""
    if module is None:
        try:
            module = import_module("torch")
        except ImportError as error:
            raise MissingExtraError(
                "watch() needs PyTorch itself: pip install 'ag-visual[torch]' (2.5 or newer)"
            ) from error
    if not isinstance(module, ModuleType):
        raise TypeError(f"watch(torch): expected the module torch, but got {type_name(module)}")
    package = __name__.partition(".")[0]
    if module.__name__ != "torch" or sys.modules.get("torch") is not module:
        own = " (this package's own engine is watched anyway)" if module.__name__ == package else ""
        raise TypeError(f"watch(torch): expected the module torch, but got {module.__name__}{own}")
    found = tuple(int(part) for part in str(module.__version__).split("+")[0].split(".")[:2])
    if found < OLDEST:
        oldest = ".".join(map(str, OLDEST))
        raise RuntimeError(
            f"watch(torch) needs torch {oldest} or newer, not {module.__version__}: nodes of older "
            f"ones do not show the shapes of their outputs. Try pip install 'torch>={oldest}'"
        )
