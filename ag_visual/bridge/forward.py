"""What a program calls in torch, while it is watched: a torch function mode of one thread.

Of each operation it remembers where and when that was, under the number of the node that it made
or in the node's metadata, and holds its result weakly; graphs are walked later (`walk.discover`).
Writes in place are emitted with their line, and errors of the call explained.
"""

from __future__ import annotations

from collections import deque
from sys import _getframe
from threading import get_ident
from time import perf_counter_ns
from types import CodeType, FunctionType
from typing import Any, Final
from weakref import ref

import torch
from torch import Tensor
from torch._C._autograd import _get_sequence_nr
from torch.overrides import TorchFunctionMode

from ag_visual.bridge.arrays import Memory, array_of, memory_of
from ag_visual.bridge.node import BREAKS, Birth, remember_hook
from ag_visual.bridge.releases import TELLS
from ag_visual.bridge.saved import KEY
from ag_visual.core import source
from ag_visual.core.source import inside
from ag_visual.events import instrument
from ag_visual.events.log import HookField
from ag_visual.events.memory import CallSite, Extent

MOST_PENDING: Final = 2048
"""Results whose graphs have not been walked yet: about 0.1 kB each, and they are held weakly."""

MOST_LINES: Final = 65_536
"""Operations whose lines are remembered where nothing is recorded: about 0.15 kB each."""

PLAIN, QUIET, WRITE, MAYBE, FLAGGED, DATA, SET_DATA, BACKWARD, HOOK = range(9)
"""Kinds of functions: makes something new; nothing to see; writes in place; may; does so where an
argument says it; `.data` is read; is set; runs a backward; adds a hook."""

_BACKWARD: Final = {torch.Tensor.backward, torch.autograd.backward, torch.autograd.grad}
_WRITES_AT_TIMES: Final = {"batch_norm", "instance_norm", "native_batch_norm"}
_FLAGS: Final = {"inplace", "max_norm"}
"""Arguments by which functions of torch's that are written in Python write."""
_BATCH_NORM: Final = torch.nn.functional.batch_norm
TRAINING: Final = "batch_norm"
"""What the write of running statistics is called, of which no version is counted."""
_DATA: Final = torch.Tensor.data
_ATTRIBUTES: Final = {"real", "imag", "T", "mT", "H", "mH"}


class _Functions(dict[Any, int]):
    """What kind of function it is, by its name."""

    def __missing__(self, function: Any) -> int:
        if len(self) > 20_000:
            self.clear()
        self[function] = found = self._kind(function)
        return found

    @staticmethod
    def _kind(function: Any) -> int:
        name = getattr(function, "__name__", "")
        if name in ("__get__", "__set__", "__delete__"):
            described = function.__self__
            if described is _DATA:
                return DATA if name == "__get__" else SET_DATA
            if name == "__get__" and getattr(described, "__name__", "") in _ATTRIBUTES:
                return PLAIN
            return QUIET
        if function in _BACKWARD:
            return BACKWARD
        if name.startswith("register_") and name.endswith("hook"):
            return HOOK
        if name == "__setitem__" or _is_augmented(name):
            return WRITE
        if name.endswith("_") and not name.endswith("__"):
            return WRITE
        if name in _WRITES_AT_TIMES:
            return MAYBE
        if isinstance(function, FunctionType):
            code = function.__code__
            names = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
            own = function.__module__.partition(".")[0] == "torch"
            return PLAIN if own and _FLAGS.isdisjoint(names) else FLAGGED
        return PLAIN


def _is_augmented(name: str) -> bool:
    """Whether it is the method of an augmented assignment: `__iadd__`, beside `__add__`."""
    return name.startswith("__i") and hasattr(Tensor, f"__{name[3:]}")


class Forward(TorchFunctionMode):
    """The mode. `watcher` is None once it has stopped: then it does nothing."""

    def __init__(self, watcher: Any, *, keeps: bool) -> None:
        """keeps: results are to be looked at as soon as somebody wants to see them."""
        super().__init__()
        self._keeps = keeps or not TELLS
        self.watcher: Any = watcher  # bridge.engine.Watcher
        self.pending: list[ref[Any]] = []
        self.notes: deque[Birth] = deque(maxlen=None if self._keeps else MOST_LINES)
        self.unpacked = 0  # `Trusted.number` while no hook of the program's packs what is saved
        self.left: dict[int, Any] = watcher.origins.found  # tensors that left a graph
        self._note = self.notes.append
        self._functions = _Functions()
        self._code: CodeType | None = None  # of the program's, in which the last operation was
        self.when = perf_counter_ns()  # since then nothing was written
        self._thread = get_ident()  # a mode is of one thread

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kind = self._functions[func]
        if kind and (kind != FLAGGED or _is_flagged(args, kwargs)):
            return self._special(kind, func, args, kwargs or {})
        before = _get_sequence_nr()
        if not kwargs:
            result = func(*args)
        elif "out" in kwargs and kwargs["out"] is not None:
            return self._special(WRITE, func, args, kwargs)
        else:
            result = func(*args, **kwargs)
        self._plain(result, before, _getframe(1), func, args)
        return result

    def _plain(self, result: Any, before: int, frame: Any, func: Any, args: Any) -> None:
        """An operation that is nothing special was called in this frame, and returned this."""
        try:
            if type(result) is not Tensor:
                self.made(result, before, frame, func, args)
            elif (function := result.grad_fn) is None:
                if not result.requires_grad:
                    self._left(result, frame, func, args)
            elif KEY not in (metadata := function.metadata):
                frame = source.outside(frame)
                code, lasti = (None, 0) if frame is None else (frame.f_code, frame.f_lasti)
                when = perf_counter_ns(), self._thread, before, self.unpacked
                if self._keeps:
                    metadata[KEY] = (code, lasti, *when, result.shape, result.dtype, None)
                    if self.left:
                        self._note_breaks(metadata, func, args)
                    self._pend(result)
                else:
                    metadata[KEY] = (code, lasti, *when, None, None, None)
        except RuntimeError:  # a nested one, without a shape
            self._without_shape(result, before, frame, func, args)
        except Exception as error:
            self._failed(error)

    def _pend(self, result: Any) -> None:
        """A result whose graph is to be walked."""
        self.pending.append(ref(result))
        if len(self.pending) > MOST_PENDING:
            self._look()

    def _without_shape(self, *how: Any) -> None:
        try:
            self.made(*how)
        except Exception as error:
            self._failed(error)

    def stop(self) -> None:
        """Do nothing any more, also where a thread goes on that has it on its stack."""
        self.watcher = None
        self.pending = []
        self.notes.clear()
        self.__class__ = _Stopped

    def _note_breaks(self, metadata: Any, func: Any, args: Any) -> None:
        """Remember which arguments of an operation have left another graph."""
        breaks = [] if self.watcher is None else self.watcher.origins.breaks(args)
        if breaks:
            metadata[BREAKS] = getattr(func, "__name__", ""), breaks

    def _failed(self, error: Exception) -> None:
        if self.watcher is not None:
            self.watcher.failed(error)

    def _look(self) -> None:
        if self.watcher is not None:
            self.watcher.behind()

    def made(self, result: Any, before: int, frame: Any, func: Any, args: Any) -> None:
        """Anything may have been returned: tensors of a tuple, subclasses, no tensor at all."""
        if self.watcher is None:
            return
        if isinstance(result, (tuple, list)):
            results = [each for each in result if isinstance(each, torch.Tensor)]
        elif isinstance(result, torch.Tensor):
            results = [result]
        else:
            return
        call_site: CallSite = None
        for each in results:
            function = each.grad_fn
            if function is not None:
                call_site = call_site or source.call_site_of(frame)
                self.born(each, function, call_site, before)
                if self.left:
                    self._note_breaks(function.metadata, func, args)
            elif not each.requires_grad:
                self._left(each, frame, func, args)

    def born(self, tensor: Any, function: Any, call_site: CallSite, before: int) -> None:
        """A tensor has this node, which an operation at this call site may have made."""
        metadata = function.metadata
        if KEY not in metadata:
            when = perf_counter_ns(), self._thread, before, self.unpacked
            metadata[KEY] = (*(call_site or (None, 0)), *when, None, None, None)
            if self._keeps:
                self._pend(tensor)

    def _left(self, tensor: Any, frame: Any, func: Any, args: Any) -> None:
        """Remember where a tensor without a graph was made of tensors with one."""
        watcher = self.watcher
        if watcher is None or torch._C._functorch.is_functorch_wrapped_tensor(tensor):
            return  # what a level of torch.func holds has its graph at that level
        for given in args:
            if isinstance(given, torch.Tensor) and given is not tensor and given.requires_grad:
                name = getattr(func, "__name__", "")
                if name == "detach":
                    kind = "detach"
                elif torch.is_inference_mode_enabled():
                    kind = "inference"
                elif not torch.is_grad_enabled():
                    kind = "no_grad"
                else:
                    kind = "dtype"
                watcher.origins.note(tensor, kind, source.call_site_of(frame), given)
                return

    # Everything but a plain operation ----------------------------------------------------------

    def _special(self, kind: int, func: Any, args: Any, kwargs: Any) -> Any:
        watcher = self.watcher
        if watcher is None or kind in (QUIET, BACKWARD):
            return func(*args, **kwargs)
        if kind == HOOK:
            watcher.hooks = True
            handle = func(*args, **kwargs)
            try:
                if func.__name__ == "register_hook":
                    self._hooked(args[0], handle, _getframe(2))
            except Exception as error:
                self._failed(error)
            return handle
        before = _get_sequence_nr()
        frame = _getframe(2)
        targets: list[Any] = []
        began = perf_counter_ns()
        try:
            if kind in (WRITE, MAYBE, FLAGGED):
                targets = _targets(kind, args, kwargs)
                if targets and not TELLS:
                    watcher.behind()  # after the write nodes show nobody what they saved
        except Exception as error:
            self._failed(error)
        try:
            result = func(*args, **kwargs)
        except RuntimeError as error:
            watcher.explain_write(error, func, args, frame)
            raise
        finally:
            self.when = perf_counter_ns()
        try:
            call_site = None
            if targets:
                call_site = source.call_site_of(frame)
                self._written(targets, _op_name(func, kind), call_site, began, before)
            if kind == DATA:
                memory = memory_of(result)
                if memory is not None:
                    memory.aliased = True
                if args[0].requires_grad:
                    watcher.origins.note(result, "data", source.call_site_of(frame), args[0])
            elif kind == WRITE:
                if func.__name__ == "detach_":
                    watcher.origins.note(args[0], "detach_", source.call_site_of(frame), args[0])
            elif kind in (MAYBE, FLAGGED):
                self.made(result, before, frame, func, args)
                if func is _BATCH_NORM:
                    self._statistics(result, args[1:3], kwargs, frame, began)
        except Exception as error:
            self._failed(error)
        return result

    def _statistics(self, result: Any, running: Any, kwargs: Any, frame: Any, began: int) -> None:
        """Training writes the running statistics and counts no version of them.

        It matters where an evaluation has saved them for a backward.
        """
        for tensor in running:
            memory = None if tensor is None else memory_of(tensor)
            if memory is None:
                continue
            if not kwargs.get("training"):
                memory.aliased = memory.aliased or result.requires_grad
            elif memory.aliased:
                call_site, extent = source.call_site_of(frame), Extent(array_of(tensor))
                version = _version(tensor) or 0
                self.watcher.written(memory, tensor, version, TRAINING, call_site, began, extent)

    def _hooked(self, tensor: Any, handle: Any, frame: Any) -> None:
        """Remember a hook on the tensor of a node: torch shows nobody those."""
        function = tensor.grad_fn
        if function is not None:
            hook = handle.hooks_dict_ref()[handle.id]
            name = getattr(hook, "__qualname__", type(hook).__name__)
            call_site = source.call_site_of(frame)
            field = HookField("tensor", name, tensor.output_nr, handle.id, call_site)
            remember_hook(function, field, handle.hooks_dict_ref)

    def _written(
        self, targets: list[Any], op: str, call_site: CallSite, began: int, before: int
    ) -> None:
        watcher = self.watcher
        for tensor, version in targets:
            now = _version(tensor)
            if now is None or now == version:
                continue
            memory = memory_of(tensor)
            if memory is not None:
                extent = Extent(array_of(tensor)) if memory.aliased else None
                if watcher is not None:
                    watcher.written(memory, tensor, now, op, call_site, began, extent)
            for changed in (tensor, tensor._base):
                function = None if changed is None else _node_of(changed)
                if function is not None:
                    self.born(changed, function, call_site, before)


class Numbered(Forward):
    """The mode where one thread alone makes graphs: torch's sequence numbers tell its nodes apart.

    What is known of a node is noted under its number, and no node is touched: of all that a mode
    can do that costs most. Threads draw the same numbers, so this ends (`several`) before a second
    one draws any. (It begins with the lines of `Forward`: a call for them would be felt.)
    """

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kind = self._functions[func]
        if kind and (kind != FLAGGED or _is_flagged(args, kwargs)):
            return self._special(kind, func, args, kwargs or {})
        before = _get_sequence_nr()
        if not kwargs:
            result = func(*args)
        elif "out" in kwargs and kwargs["out"] is not None:
            return self._special(WRITE, func, args, kwargs)
        else:
            result = func(*args, **kwargs)
        if type(result) is not Tensor or _get_sequence_nr() != before + 1:
            self._plain(result, before, _getframe(1), func, args)
            return result
        try:
            frame: Any = _getframe(1)
            code = frame.f_code
            if code is not self._code:
                if inside[code.co_filename]:
                    frame = source.outside(frame)
                    code = None if frame is None else frame.f_code
                else:
                    self._code = code
            lasti = 0 if frame is None else frame.f_lasti
            if self._keeps:
                self._note(
                    (
                        code,
                        lasti,
                        perf_counter_ns(),
                        self._thread,
                        before,
                        self.unpacked,
                        result.shape,
                        result.dtype,
                        ref(result),
                    )
                )
                if self.left:
                    self._note_breaks(result.grad_fn.metadata, func, args)
                if len(self.notes) > MOST_PENDING:
                    self._look()
            else:
                when, thread = self.when, self._thread
                self._note((code, lasti, when, thread, before, self.unpacked, None, None, None))
        except RuntimeError:  # a nested one, without a shape
            self._without_shape(result, before, _getframe(1), func, args)
        except Exception as error:
            self._failed(error)
        return result

    def several(self) -> None:
        """Another thread will make graphs."""
        self.__class__ = Forward


class Arriving(Forward):
    """The mode of a thread that has computed nothing yet: the first thing that it does is told."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.__class__ = Forward
        if self.watcher is not None:
            self.watcher.several()
        return self.__torch_function__(func, types, args, kwargs)


class _Stopped(Forward):
    """A mode after its end."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return func(*args, **(kwargs or {}))


def _node_of(tensor: Any) -> Any:
    try:
        return tensor.grad_fn
    except RuntimeError:  # a view that must not be written: torch says so when it is used
        return None


def _version(tensor: Any) -> int | None:
    try:
        return int(tensor._version)
    except RuntimeError:  # inference tensors count none
        return None


def _is_flagged(args: Any, kwargs: Any) -> bool:
    """Whether an argument may say that others are written."""
    for each in args:  # no generators: this is asked at each activation of a network
        if each is True:
            return True
    if kwargs:
        for each in kwargs.values():
            if each is True:
                return True
        return kwargs.get("max_norm") is not None
    return False


def _targets(kind: int, args: Any, kwargs: Any) -> list[Any]:
    """(tensor, its version) of what a call may write to."""
    out = kwargs.get("out")
    if out is not None:
        given: Any = [out]
    elif kind == WRITE:
        given = args[:1] if args and isinstance(args[0], torch.Tensor) else args
    elif _is_flagged(args, kwargs):
        given = [*args, *kwargs.values()]
    else:
        return []
    found = []
    for each in given:
        for tensor in each if isinstance(each, (tuple, list)) else (each,):
            if isinstance(tensor, torch.Tensor):
                found.append((tensor, _version(tensor)))
    return found


def _op_name(func: Any, kind: int) -> str:
    name = getattr(func, "__name__", "?")
    return f"{name}_" if kind in (MAYBE, FLAGGED) else str(name)


def emit_write(memory: Memory, version: int, op: str, call_site: CallSite, began: int) -> None:
    """Emit a write, if anybody records."""
    sink = instrument.sink
    if sink is not None:
        code, lasti = call_site or (None, 0)
        facts = memory.number, version, memory.written, op, code, lasti
        sink.write((began, get_ident(), *facts))


source.passing |= {
    *(kind.__torch_function__.__code__ for kind in (Forward, Numbered, Arriving)),
    Forward._special.__code__,
}
