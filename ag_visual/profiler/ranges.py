"""Ops and nodes as ranges of NVTX and ITT, for Nsight Systems and VTune: emit_nvtx, emit_itt.

Both libraries keep each different text for the life of the process, so no text has a number in it.
"""

from __future__ import annotations

from collections.abc import Callable
from threading import get_ident
from typing import Any

from ag_visual import cuda
from ag_visual.core.modes import grad_enabled
from ag_visual.core.tensor import Tensor
from ag_visual.events.node_record import sequence
from ag_visual.events.spans import EVALUATE, NODE, OP, SpanLog, labels
from ag_visual.profiler import collection
from ag_visual.profiler.inputs import inputs_of

NUMBERED = {OP: ", seq", EVALUATE: ", stashed seq", NODE: ", stashed seq"}
"""What the number beside a text is."""


class _Emitter:
    """Begins a range where a span begins, and ends it where that ends."""

    def __init__(
        self,
        begin: Callable[[str, int], None],
        end: Callable[[], None],
        *,
        numbers: bool,
        shapes: bool,
    ) -> None:
        self.begin, self.end = begin, end
        self.numbers, self.shapes = numbers, shapes
        self._open: dict[int, list[int]] = {}

    def into(self, log: SpanLog) -> None:
        facts, keep = log.detail, log.put
        own = log.names

        def detail(label: int, args: Any, kwargs: Any) -> int:
            name, kind = labels[label] if label >= 0 else own[-1 - label]
            shapes = f", sizes = {inputs_of(args, {}).shapes}" if self.shapes and kind == OP else ""
            self._begin(label, name + shapes, kind, _next(args) if kind == OP else -1)
            return 0 if facts is None else facts(label, args, kwargs)

        def began(label: int, seq: int) -> None:
            name, kind = labels[label]
            self._begin(label, name, kind, seq)

        def put(row: Any) -> None:
            self._end(row[0], row[3])
            keep(row)

        log.detail, log.began, log.put = detail, began, put

    def _begin(self, label: int, text: str, kind: int, number: int) -> None:
        self._open.setdefault(get_ident(), []).append(label)
        if self.numbers and number >= 0:
            self.begin(text + NUMBERED[kind], number)
        else:
            self.begin(text, -1)

    def _end(self, label: int, thread: int) -> None:
        """End the range of a span, and what is left open in it (whose end nobody reported).

        Ranges end in their own threads only: one that another thread ends goes on until that
        around it ends.
        """
        around = self._open.get(thread)
        if thread != get_ident() or not around or label not in around:
            return
        while True:
            self.end()
            if around.pop() == label:
                break
        if not around:
            del self._open[thread]

    def close(self) -> None:
        """End what is left open in this thread."""
        for _ in self._open.pop(get_ident(), ()):
            self.end()


def _next(args: Any) -> int:
    """The number of the node that an op on these will make; -1 where none is recorded.

    Leaves whose AccumulateGrad is gone or was never there get theirs before. (What an op makes that
    calls others is theirs: its number may be another.)
    """
    if not grad_enabled():
        return -1
    first = int(repr(sequence)[len("count(") : -1])
    return first + len({id(each) for each in args if isinstance(each, Tensor) and _bare(each)})


def _bare(tensor: Tensor) -> bool:
    if tensor._edge is not None or not tensor.requires_grad:
        return False
    known = None if tensor._leaf is None else tensor._leaf.accumulator
    return known is None or known() is None


class _emit:
    """What emit_nvtx and emit_itt have in common.

    Called as long as this object lives: an interrupt that drops it ends the block.
    """

    called = ""
    _emitter: _Emitter | None = None

    def __init__(self, enabled: bool = True, record_shapes: bool = False) -> None:
        self.enabled = enabled
        self.entered = False
        self.record_shapes = record_shapes

    def _made(self) -> _Emitter:
        raise NotImplementedError

    def __enter__(self) -> Any:
        if not self.enabled:
            return None
        if self.entered:
            raise RuntimeError(f"{self.called} annotation context manager is not reentrant")
        self._emitter = self._made()
        collection.emit(self._emitter)
        self.entered = True
        return self

    def __exit__(self, *_: Any) -> None:
        emitter = self._emitter
        if emitter is not None:
            try:
                collection.emit_no_more(emitter)
            finally:
                emitter.close()
            self._emitter = None

    def __del__(self) -> None:
        _emit.__exit__(self)


class emit_nvtx(_emit):
    """A block in which each op and node is an NVTX range, in all threads.

    record_shapes: texts end with the sizes of the tensors an op was called with, [] for what is
    none. An op's range has the number of the next node ("seq") as its payload, that of a node the
    one that it was made with ("stashed seq"): so they find each other.

    Raises:
        ModuleNotFoundError: the package nvtx is missing.
        RuntimeError: it is entered a second time, or inside of another such block.
    """

    called = "NVTX"

    def _made(self) -> _Emitter:
        domain = nvtx_domain("emit_nvtx")

        def begin(text: str, number: int) -> None:
            payload = None if number < 0 else number
            domain.push_range(domain.get_event_attributes(text, payload=payload))

        return _Emitter(begin, domain.pop_range, numbers=True, shapes=self.record_shapes)

    def __enter__(self) -> emit_nvtx | None:
        if self.enabled and cuda.is_available():
            cuda.synchronize()
        found: emit_nvtx | None = super().__enter__()
        return found

    def __exit__(self, *_: Any) -> None:
        try:
            if self.enabled and cuda.is_available():
                cuda.synchronize()
        finally:
            super().__exit__()


class emit_itt(_emit):
    """A block in which each op and node is an ITT task, for VTune, in all threads.

    record_shapes: texts end with the sizes of the tensors an op was called with, [] for what is
    none.

    Raises:
        ModuleNotFoundError: the package ittapi is missing.
        RuntimeError: it is entered a second time, or inside of another such block.
    """

    called = "ITT"

    def _made(self) -> _Emitter:
        begin, end = tasks("emit_itt")
        return _Emitter(lambda text, _: begin(text), end, numbers=False, shapes=self.record_shapes)

    def __enter__(self) -> emit_itt | None:
        found: emit_itt | None = super().__enter__()
        return found


def nvtx_domain(who: str) -> Any:
    """What begins and ends ranges of NVTX."""
    try:
        import nvtx
    except ModuleNotFoundError:
        raise _missing(who, "nvtx") from None
    return nvtx.get_domain(None)


def tasks(who: str) -> tuple[Callable[[str], None], Callable[[], None]]:
    """What begins an ITT task of a name, and what ends the innermost one of the thread."""
    try:
        import ittapi
    except ModuleNotFoundError:
        raise _missing(who, "ittapi") from None
    domain = ittapi.domain("PyTorch")

    def begin(text: str) -> None:
        handle = _handles.get(text)
        if handle is None:
            handle = _handles[text] = ittapi.string_handle(text)
        ittapi.task_begin(domain, handle)

    return begin, lambda: ittapi.task_end(domain)


_handles: dict[str, Any] = {}
"""What ITT calls each different text; it keeps them for the life of the process, too."""


def _missing(who: str, package: str) -> ModuleNotFoundError:
    text = f'{who} needs the package {package}: pip install "ag-visual[{package}]"'
    return ModuleNotFoundError(text, name=package)
