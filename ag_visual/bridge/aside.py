"""Where torch reads a program instead of running it, the watcher stands aside.

TorchDynamo (`torch.compile`, `torch.export`) and `torch.jit.trace` would read the watcher, too: as
long as they are at it, it has no mode and no hooks. Modules that compute otherwise where any
function mode is on find none.
"""

from __future__ import annotations

import functools
import os
import sys
import threading
from collections.abc import Callable
from typing import Any, Final

import torch
from torch import Tensor

from ag_visual.bridge import stack

FOLDER: Final = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep

_module: Final = torch.nn.modules.module
_DYNAMO: Final = "torch._dynamo"
_TRACERS: Final = (
    (torch._C, "_create_graph_by_tracing"),
    (torch._C, "_create_function_from_trace"),
    (torch._C, "_create_function_from_trace_with_dict"),
    (torch._C.ScriptModule, "_create_method_from_trace"),
    (torch._C.ScriptModule, "_create_method_from_trace_with_dict"),
    (_module, "_has_any_global_hook"),
)
"""What reads a program, and what `torch.compile` asks for hooks; older releases lack some."""
_CAPTURES: Final = (
    ("convert_frame", "get_traced_fn"),
    ("functional_export", "get_traced_fn"),
    ("convert_frame", "_fullgraph_capture_frame"),
)
"""What `torch.export` captures a graph with, in TorchDynamo."""


class _Thread(threading.local):
    """Of a thread: calls that the watcher stands aside of; modes above its own, None where that was
    not there; the frame of TorchDynamo's in which it did so, 0 for none.
    """

    depth = 0
    above: int | None = None
    frame = 0


class Aside:
    """What stands in torch for it, while that is watched.

    mode: gives the mode of this thread, None where it has none. hooks: puts the hooks of modules
    into torch, or takes them out.
    """

    def __init__(self, mode: Callable[[], Any], hooks: Callable[[bool], None]) -> None:
        self._mode, self._hooks = mode, hooks
        self._thread = _Thread()
        self._lock = threading.Lock()
        self._threads = 0  # that are aside
        self._finder = _Finder(self._dynamo_is_there)
        self._of_dynamo: dict[
            tuple[Any, str], Any
        ] = {}  # what is TorchDynamo's own, if it is there
        self._over = False

    def begin(self) -> None:
        """Torch is watched from now on."""
        if hasattr(sys.modules.get(_DYNAMO), "eval_frame"):
            self._dynamo_is_there()
        else:
            sys.meta_path.insert(0, self._finder)

    def end(self) -> None:
        """It is not any more."""
        self._over = True
        if self._finder in sys.meta_path:
            sys.meta_path.remove(self._finder)
        for (owner, name), original in self._of_dynamo.items():
            setattr(owner, name, original)
        if self._of_dynamo:
            _skip_this_package(skips=False)

    def replacements(self) -> dict[tuple[Any, str], Any]:
        """Torch's names, and what stands there."""
        found: dict[tuple[Any, str], Any] = {
            (owner, name): self._without(vars(owner)[name])
            for owner, name in _TRACERS
            if name in vars(owner)
        }
        has = torch.overrides.has_torch_function

        def has_torch_function(relevant_args: Any) -> bool:
            height, at = torch._C._len_torch_function_stack(), torch._C._get_function_stack_at
            if height != 1 or at(0) is not self._mode():
                return bool(has(relevant_args))
            enabled = torch._C._is_torch_function_enabled()
            return enabled and any(_overrides(type(each)) for each in relevant_args)

        found[torch.overrides, "has_torch_function"] = has_torch_function
        return found

    def step(self) -> None:
        """Aside."""
        thread = self._thread
        thread.depth += 1
        if thread.depth > 1:
            return
        mode = self._mode()
        thread.above = None if mode is None else stack.leave(mode)
        with self._lock:
            self._threads += 1
            if self._threads == 1:
                self._hooks(False)

    def back(self) -> None:
        """To where it was."""
        thread = self._thread
        thread.depth -= 1
        if thread.depth:
            return
        with self._lock:
            self._threads -= 1
            if not self._threads and not self._over:
                self._hooks(True)
        mode, above = self._mode(), thread.above
        if above is not None and mode.watcher is not None:
            stack.put_back(mode, min(above, torch._C._len_torch_function_stack()))

    def _without(self, function: Any) -> Any:
        """A function of torch's, called with the watcher aside."""

        @functools.wraps(function)
        def without(*args: Any, **kwargs: Any) -> Any:
            self.step()
            try:
                return function(*args, **kwargs)
            finally:
                self.back()

        return without

    def _dynamo_is_there(self) -> None:
        if self._over:
            return
        dynamo: Any = sys.modules[_DYNAMO]
        put: dict[tuple[Any, str], Callable[[Any], Any]]
        put = {(dynamo.eval_frame, "_maybe_set_eval_frame"): self._reading}
        for module, name in _CAPTURES:
            put[getattr(dynamo, module, None), name] = self._without
        for (owner, name), replacement in put.items():
            if hasattr(owner, name):
                self._of_dynamo[owner, name] = own = getattr(owner, name)
                setattr(owner, name, replacement(own))
        _skip_this_package()

    def _reading(self, own: Any) -> Any:
        thread = self._thread

        @functools.wraps(own)
        def _maybe_set_eval_frame(callback: Any) -> Any:
            """Begins to read what runs, or ends that: in one frame both."""
            frame = id(sys._getframe(1))
            if callback is not None and not thread.frame:
                thread.frame = frame
                self.step()
            found = own(callback)
            if callback is None and thread.frame == frame:
                thread.frame = 0
                self.back()
            return found

        return _maybe_set_eval_frame


class _Finder:
    """Finds no module itself, and tells when TorchDynamo has been imported."""

    def __init__(self, then: Callable[[], None]) -> None:
        self._then = then

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        """As `sys.meta_path` asks."""
        if name != _DYNAMO:
            return None
        others = (each for each in sys.meta_path if each is not self)
        spec = next(filter(None, (each.find_spec(name, path, target) for each in others)), None)
        if spec is not None and spec.loader is not None:
            loader, run = spec.loader, spec.loader.exec_module

            def exec_module(module: Any) -> None:
                del loader.exec_module
                run(module)
                self._then()

            loader.exec_module = exec_module  # type: ignore[method-assign]
        return spec


def _skip_this_package(*, skips: bool = True) -> None:
    """Whether TorchDynamo leaves functions of this package as they are."""
    rules: Any = sys.modules[_DYNAMO].trace_rules
    if skips:
        rules.SKIP_DIRS.append(FOLDER)
    elif FOLDER in rules.SKIP_DIRS:
        rules.SKIP_DIRS.remove(FOLDER)
    rules._recompile_re()


def _overrides(kind: type) -> bool:
    """Whether tensors of a class, or what else it is, have a `__torch_function__` of their own."""
    own = getattr(kind, "__torch_function__", None)
    disabled = torch._C._disabled_torch_function_impl
    return kind is not Tensor and own is not None and own is not disabled
