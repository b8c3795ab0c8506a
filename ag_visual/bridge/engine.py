"""Watching torch: what is put into it and taken out again, and torch as an `events.live.Engine`."""

from __future__ import annotations

import _thread
import logging
import operator
import os
import sys
import threading
import weakref
from itertools import repeat, starmap
from time import perf_counter_ns
from typing import Any, Final

import torch
from torch._C import DisableTorchFunction

from ag_visual.bridge import dual_levels, forward, problems, profiles, stack, threads
from ag_visual.bridge.arrays import Memory, array_of, forget_all, memory_of, unseen_by_modes
from ag_visual.bridge.arrival import Arrivals
from ag_visual.bridge.aside import Aside
from ag_visual.bridge.backward import Backward, Unrecorded
from ag_visual.bridge.explain import Origins, explain
from ag_visual.bridge.forward import MOST_LINES, Arriving, Forward, Numbered
from ag_visual.bridge.node import FIRST_RANK, RESULT, Birth, TorchNode, beginning
from ag_visual.bridge.node_hooks import NodeHooks
from ag_visual.bridge.releases import packing_now
from ag_visual.bridge.saved import KEY, Trusted
from ag_visual.bridge.walk import Root, discover, roots_of
from ag_visual.core import source
from ag_visual.events import instrument, live, ranges
from ag_visual.events.log import BEGIN, END
from ag_visual.events.memory import CallSite
from ag_visual.nn import calls

FOLDER: Final = os.path.dirname(os.path.abspath(torch.__file__)) + os.sep

_saving: Final = torch._C._autograd
_hooks_of_nodes: Final = torch.autograd.function._HookMixin
_profile: Final = torch.autograd.profiler.profile


class _Thread(threading.local):
    """The mode of this thread, the backwards that it is in, and the calls of modules."""

    def __init__(self) -> None:
        self.mode: Forward | None = None
        self.task: Backward | None = None
        self.modules: list[int] = []


class Watcher:
    """torch while it is watched: `events.live.Engine`. events: whether anything is recorded."""

    tensor_type = torch.Tensor

    def __init__(self, *, events: bool) -> None:
        self.events = events
        self.origins = Origins()
        self.silent: weakref.WeakSet[Memory] = weakref.WeakSet()
        self.hooks = False  # whether the program has added hooks to tensors
        self._mode = (Numbered if threads.alone() else Forward)(self, keeps=events)
        self._births: dict[int, Birth] = {}  # that were noted by number, of the last operations
        self._thread = _Thread()
        self._thread.mode = self._mode
        self._modes = [self._mode]  # one for each thread that began while torch is watched
        self._lock = threading.RLock()
        self._running: weakref.WeakSet[Backward] = weakref.WeakSet()
        self._node_hooks = NodeHooks(_hooks_of_nodes._register_hook)
        self._aside = Aside(lambda: self._thread.mode, self._hook_modules)
        self._levels = dual_levels.DualLevels(self.behind, self.failed)
        self._originals = {place: vars(place[0])[place[1]] for place in self._replacements()}
        self._run: Any = self._originals[torch.autograd, "_engine_run_backward"]
        self._apply: Any = self._originals[torch.autograd.Function, "apply"]
        self._arrivals = Arrivals()
        # Blocks that this thread is in, in which hooks pack what is saved.
        self._packing = NEVER if packing_now() else 0
        Trusted.renew()
        self._mode.unpacked = 0 if self._packing else Trusted.number
        self._owner = 0
        self._ended: list[weakref.ref[Any]] = []  # results of threads that have ended
        self._depth = ranges.depth()
        self._complained = False
        self._numbers: profiles.Numbers | None = None  # while torch's own profiler runs

    # Into torch, and out of it -------------------------------------------------------------------

    def start(self) -> None:
        """Begin, in this thread."""
        stack.leave_all()
        source.count_in(FOLDER)
        live.engines.append(self)
        instrument.behind = self.behind
        self._owner = threading.get_ident()
        NodeHooks.active = self._node_hooks
        for (owner, name), replacement in self._replacements().items():
            setattr(owner, name, replacement)
        self._hook_modules(True)
        self._aside.begin()
        stack.enter(self._mode)

    def _replacements(self) -> dict[tuple[Any, str], Any]:
        """What stands in torch in the place of its own, while it is watched."""

        def _engine_run_backward(t_outputs: Any, *args: Any, **kwargs: Any) -> Any:
            return self._backward(t_outputs, args, kwargs)

        def _start_trace(profile: Any) -> None:
            self._numbers = {}
            self._originals[_profile, "_start_trace"](profile)

        def __exit__(profile: Any, *error: Any) -> Any:
            result = self._originals[_profile, "__exit__"](profile, *error)
            self._profiled(profile)
            return result

        def _bootstrap_inner(thread: threading.Thread) -> None:
            self._in_thread(thread)

        def start_new_thread(*args: Any, **kwargs: Any) -> int:
            self.several()  # it will have no mode
            return int(self._originals[_thread, "start_new_thread"](*args, **kwargs))

        def register_hooks(saved: Any, pack_hook: Any, unpack_hook: Any) -> Any:
            return self._packed_later(saved, pack_hook, unpack_hook)

        return {
            (torch.autograd, "_engine_run_backward"): _engine_run_backward,
            (torch.autograd.Function, "apply"): classmethod(self._applied),
            (_saving, "_push_saved_tensors_default_hooks"): self._pushed,
            (_saving, "_pop_saved_tensors_default_hooks"): self._popped,
            (_saving.SavedTensor, "register_hooks"): register_hooks,
            (_hooks_of_nodes, "_register_hook"): staticmethod(self._node_hooks.register),
            (threading.Thread, "_bootstrap_inner"): _bootstrap_inner,
            (_thread, "start_new_thread"): start_new_thread,  # those of `threading` pass it by
            (_profile, "_start_trace"): _start_trace,
            (_profile, "__exit__"): __exit__,
            **self._aside.replacements(),
            **(self._levels.replacements() if self.events else {}),
        }

    def stop(self) -> None:
        """Leave torch as it was; again where an interrupt ended that, or `start`, halfway."""
        for mode in self._modes:
            mode.stop()
        self._births = {}
        stack.left.append(self._mode)
        stack.leave_all()
        self._aside.end()
        if threading.get_ident() == self._owner:
            ranges.leave_to(self._depth)  # calls of modules that an interrupt ended
            self._thread.modules.clear()
        for (owner, name), original in self._originals.items():
            setattr(owner, name, original)
        if NodeHooks.active is self._node_hooks:
            NodeHooks.active = None
        self._arrivals.close()
        self._hook_modules(False)
        if instrument.behind == self.behind:
            instrument.behind = None
        if self in live.engines:
            live.engines.remove(self)
        source.count_in(FOLDER, counts=False)
        for task in list(self._running):
            task.unhook()
        TorchNode.wire_back()
        forget_all()

    def _in_thread(self, thread: threading.Thread) -> None:
        """In the place of what runs a new thread: its operations have their lines, too."""
        run = self._originals[threading.Thread, "_bootstrap_inner"]
        mode = Arriving(self, keeps=self.events)
        self._thread.mode = mode
        self._modes.append(mode)
        if self._mode.watcher is None:  # it was stopped meanwhile
            mode.stop()
        try:
            mode.__enter__()
            run(thread)
        finally:
            stack.leave(mode)
            with self._lock:
                self._modes.remove(mode)
                self._ended += mode.pending

    def _hook_modules(self, on: bool) -> None:
        """Put the hooks of modules in, or out by what they call: no handle is lost."""
        module = torch.nn.modules.module
        if on and self.events:
            module.register_module_forward_pre_hook(self._module_begins)
            module.register_module_forward_hook(self._module_ends, always_call=True)
        if on:
            return
        for hooks in (module._global_forward_pre_hooks, module._global_forward_hooks):
            for key, hook in list(hooks.items()):
                if getattr(hook, "__self__", None) is self:
                    module._global_forward_hooks_always_called.pop(key, None)
                    hooks.pop(key, None)

    def leave(self) -> None:
        """It was stopped, perhaps where its mode was out of reach."""
        stack.leave_all()

    def failed(self, error: Exception) -> None:
        """An error of this package's own is said once, and never reaches the program."""
        if not self._complained:
            self._complained = True
            logging.getLogger("ag_visual").error("watching torch missed something", exc_info=error)

    # events.live.Engine -------------------------------------------------------------------------

    @property
    def duals(self) -> bool:
        """Whether a level of torch's forward mode is open."""
        return dual_levels.is_open()

    def is_leaf(self, tensor: Any) -> bool:
        """Whether it is a leaf that requires grad."""
        with DisableTorchFunction():
            return bool(tensor.is_leaf and tensor.requires_grad)

    def node_of(self, tensor: Any) -> TorchNode | None:
        """The node that made a tensor, or that accumulates a leaf's gradient."""
        with DisableTorchFunction():
            if not tensor.requires_grad:
                return None
            function = tensor.grad_fn
            if function is None:
                function = torch.autograd.graph.get_gradient_edge(tensor).node
            self._find([(function, weakref.ref(tensor))], self._pending())
            found: TorchNode = function.metadata[KEY]
            return found

    def place_of(self, tensor: Any) -> tuple[TorchNode, int] | None:
        """The node that made a tensor, where that is known by now, and which of its outputs."""
        with DisableTorchFunction():
            function = forward._node_of(tensor)
            node = None if function is None else function.metadata.get(KEY)
            return (node, tensor.output_nr) if type(node) is TorchNode else None

    def storage_of(self, tensor: Any) -> int:
        """The number of its storage."""
        with DisableTorchFunction():
            memory = memory_of(tensor)
            return 0 if memory is None else memory.number

    def array_of(self, tensor: Any) -> Any:
        """Its values."""
        with DisableTorchFunction():
            return array_of(tensor)

    def explain(self, x: Any, loss: Any, frame: Any) -> Any:
        """Why a tensor has no gradient."""
        with DisableTorchFunction():
            return explain(self, x, loss, frame)

    # Graphs --------------------------------------------------------------------------------------

    def behind(self) -> None:
        """Look at what operations have made since the last time; from any thread."""
        with self._lock, DisableTorchFunction():
            self._find((), self._pending())

    def _pending(self) -> list[Root]:
        """Results that nobody has looked at yet."""
        pending, self._ended = self._ended, []
        for mode in self._modes[:]:
            later, mode.pending = mode.pending, []
            pending += later
        roots: list[Root] = []
        pending += filter(None, map(_result, self._noted()))
        for ref in pending:
            tensor = ref()
            if tensor is not None:
                function = forward._node_of(tensor)
                if function is not None:
                    roots.append((function, ref))
        return roots

    def _noted(self) -> list[Birth]:
        """What was noted by number since the last time; from now on nodes are found by it."""
        mode = self._mode
        notes = list(starmap(mode.notes.popleft, repeat((), len(mode.notes))))
        if type(mode) is Numbered:
            if len(self._births) > (MOST_BORN if self.events else MOST_LINES):
                self._births = {}
            self._births.update(zip(map(_first_rank, notes), notes, strict=True))
        return notes

    def several(self) -> None:
        """From now on another thread may draw the same sequence numbers."""
        with self._lock:
            if type(self._mode) is Numbered:
                self.behind()
                self._mode.several()
                self._births = {}

    def birth_of(self, function: Any) -> Any:
        """The record of a node of torch's, its `Birth` as long as it has none, or None."""
        known = function.metadata.get(KEY)
        if known is None:
            self._noted()
            known = self._births.get(function._sequence_nr())
        return known

    def _find(self, roots: Any, others: Any = ()) -> dict[Any, TorchNode]:
        """Know all nodes below `roots`, and below others; those below `roots`, by torch's own."""
        with self._lock:
            given = roots, others, threading.get_ident(), self._numbers, self._births
            if torch._C._len_torch_dispatch_stack():
                with torch._C._DisableTorchDispatch():  # modes of the program's would see it
                    found = discover(*given)
            else:
                found = discover(*given)
            sink = instrument.sink
            if sink is not None and self.events:
                sink.late += found[0]
            return found[1]

    def _profiled(self, profile: Any) -> None:
        """One of torch's own profiles has ended."""
        try:
            if self.events and profile.enabled:
                self.behind()
                started = profile.profiling_start_time_ns
                profiles.report(profile.kineto_results, started, self._numbers or {})
        except Exception as error:
            self.failed(error)
        finally:
            self._numbers = None

    def written(
        self,
        memory: Memory,
        tensor: Any,
        version: int,
        op: str,
        call_site: CallSite,
        began: int,
        extent: Any,
    ) -> None:
        """A storage was written in place."""
        problems.remember(memory, (began, version, op, call_site, extent))
        if memory.aliased:
            with self._lock:
                self.silent.add(memory)
        if self.events:
            forward.emit_write(memory, version, op, call_site, began)

    def _silent_now(self) -> list[Memory]:
        """Storages that live and were written where nobody counts it."""
        if not self.silent:
            return []
        with self._lock:
            found = [memory for memory in self.silent if memory.lives]
            if not found:
                self.silent.clear()
        return found

    def explain_write(self, error: RuntimeError, func: Any, args: Any, frame: Any) -> None:
        """An operation raised: perhaps as it must not write there."""
        try:
            with DisableTorchFunction():
                problems.of_forward(error, func, args, frame, self.birth_of)
        except Exception as own:
            self.failed(own)

    def _applied(self, function: Any, *args: Any, **kwargs: Any) -> Any:
        """In the place of `Function.apply`, which no mode sees."""
        before = torch._C._autograd._get_sequence_nr()
        result = self._apply.__get__(None, function)(*args, **kwargs)
        mode = self._thread.mode
        if mode is not None and mode.watcher is not None:
            try:
                with DisableTorchFunction():
                    mode.made(result, before, sys._getframe(1), function, args)
            except Exception as error:
                self.failed(error)
        return result

    # What hooks pack ------------------------------------------------------------------------------

    def _pushed(self, pack: Any, unpack: Any) -> Any:
        """In the place of what begins a block in which hooks pack what is saved."""
        self._pack(1)
        try:
            return self._originals[_saving, "_push_saved_tensors_default_hooks"](pack, unpack)
        except RuntimeError:  # they are disabled
            self._pack(-1)
            raise

    def _popped(self) -> Any:
        self._pack(-1)
        return self._originals[_saving, "_pop_saved_tensors_default_hooks"]()

    def _pack(self, more: int) -> None:
        if threading.get_ident() == self._owner:
            self._packing += more
            self._mode.unpacked = 0 if self._packing else Trusted.number

    def _packed_later(self, saved: Any, *hooks: Any) -> Any:
        """In the place of what packs one saved tensor after its operation."""
        Trusted.renew()
        self._pack(0)
        return self._originals[_saving.SavedTensor, "register_hooks"].__get__(saved)(*hooks)

    # Modules -------------------------------------------------------------------------------------

    def _module_begins(self, module: Any, args: Any) -> None:
        if instrument.sink is not None:
            try:
                self._thread.modules.append(calls.enter(module))
            except Exception as error:
                self.failed(error)

    def _module_ends(self, module: Any, args: Any, output: Any) -> None:
        modules = self._thread.modules
        if modules:
            ranges.leave(modules.pop())

    # Backwards -----------------------------------------------------------------------------------

    def _backward(self, outputs: Any, args: Any, kwargs: Any) -> Any:
        """In the place of torch's own: (outputs, gradients, retain_graph, create_graph, inputs)."""
        task: Backward | Unrecorded | None = None
        silent: list[Any] = []
        parent = self._thread.task
        error_name = "interrupted"
        try:
            try:
                with DisableTorchFunction():
                    frame = source.outside(sys._getframe(1))
                    call_site = source.call_site_of(frame)
                    roots = roots_of(outputs)
                    if type(self._mode) is Numbered and (
                        self._thread.mode is None or threads.devices_compute()
                    ):
                        self.several()
                    if not roots:
                        pass
                    elif self.events or self._silent_now():
                        asked = () if kwargs.get("accumulate_grad") else args[3]
                        task, silent = self._begin(roots, args, call_site, asked)
                    else:
                        task = Unrecorded(roots, call_site)
            except Exception as error:
                self.failed(error)
            for warning in silent:
                source.warn(warning)
            run = self._in_mode if task is None or self._computes(task, args) else self._run
            if type(task) is Backward and run is self._run:
                quiet = not torch._C._is_torch_function_mode_enabled()
                task.modeless = task.thread if quiet else 0
                if task.log is not None:
                    self._arrivals.begin(task)
            result = run(outputs, *args, **kwargs)
            error_name = ""
            return result
        except BaseException as error:
            error_name = type(error).__name__
            if task is not None and isinstance(error, RuntimeError):
                try:
                    with DisableTorchFunction(), unseen_by_modes():
                        if isinstance(task, Unrecorded):
                            task = self._task(task.roots, args, task.call_site)
                        problems.of_backward(error, task)
                except Exception as own:
                    self.failed(own)
            raise
        finally:
            # What `_begin` has stored, also where an interrupt kept it from returning.
            begun: Backward | Unrecorded | None = self._thread.task
            self._thread.task = parent
            if begun is parent:
                begun = task if type(task) is Unrecorded else None
            try:
                self._over(begun, error_name, args)
            except BaseException:  # an interrupt: observers count on the end
                self._over(begun, error_name, args)
                raise

    def _over(self, task: Backward | Unrecorded | None, error: str, args: Any) -> None:
        """A backward has ended, or failed with this error."""
        try:
            with DisableTorchFunction():
                if type(task) is Backward:
                    self._end(task, error, args)
                elif type(task) is Unrecorded and not error and not args[1]:
                    task.frees(some=bool(len(args) > 3 and args[3]))
        except Exception as own:
            self.failed(own)

    def _computes(self, task: Backward | Unrecorded, args: Any) -> bool:
        """Whether Python code that calls torch may run in a backward, as far as is known."""
        if args[2] or self.hooks or isinstance(task, Unrecorded):
            return True
        for node in task.counts:  # noqa: SIM110 (to ask by `any` takes three times as long)
            if node.computes:
                return True
        return False

    def _in_mode(self, outputs: Any, *args: Any, **kwargs: Any) -> Any:
        """Run it where lines of what hooks, custom Functions and checkpoints compute are seen."""
        mode, at = self._thread.mode, torch._C._get_function_stack_at
        if mode is None or mode.watcher is None:
            return self._run(outputs, *args, **kwargs)
        if any(at(i) is mode for i in range(torch._C._len_torch_function_stack())):
            return self._run(outputs, *args, **kwargs)
        try:
            mode.__enter__()
            return self._run(outputs, *args, **kwargs)
        finally:
            try:
                stack.leave(mode)
            except BaseException:  # an interrupt
                stack.leave(mode)
                raise

    def _task(self, roots: list[Root], args: Any, call_site: CallSite) -> Backward:
        with self._lock:
            nodes = self._find(roots, self._pending())
        return Backward(
            [function.metadata[KEY] for function, _ in roots],
            nodes,
            call_site=call_site,
            retain=bool(args[1]),
            create_graph=bool(args[2]),
            parent=self._thread.task,
            failed=self.failed,
            part=len(args) > 3 and bool(args[3]),
        )

    def _begin(
        self, roots: list[Root], args: Any, call_site: CallSite, asked: Any
    ) -> tuple[Backward, list[Any]]:
        """asked: tensors or edges whose gradients are to be returned."""
        task = self._task(roots, args, call_site)
        written = self._silent_now()
        silent = problems.silent_writes(task, written) if written else []
        self._thread.task = task  # from here on its end is emitted
        if self.events and instrument.begin is not None:
            beginning.append(task)
            try:
                instrument.begin(task)
            finally:
                beginning.remove(task)
        if self.events and (instrument.sink is not None or instrument.gate is not None):
            self._emit_begin(task)
            task.hook(self._arrivals, _nodes_of(asked, task))
        return task, silent

    def _emit_begin(self, task: Backward) -> None:
        self._running.add(task)
        sink = instrument.sink
        if sink is not None:
            code, lasti = task.call_site or (None, 0)
            seqs = tuple([node.seq for node, _ in task.root_edges])
            begun = (task.thread, task.id, code, lasti, seqs, task.total, task.retain)
            sink.emit((BEGIN, perf_counter_ns(), *begun))
            task.emit_from_now_on(sink)

    def _end(self, task: Backward, error: str, args: Any) -> None:
        inputs = args[3] if len(args) > 3 else ()
        self._arrivals.end(task)
        task.end(error, whole=not error and not inputs)
        sink = instrument.sink
        if sink is not None and self.events:
            sink.emit((END, perf_counter_ns(), task.thread, task.id, error))
        if instrument.end is not None and self.events:
            instrument.end(task)


def _nodes_of(asked: Any, task: Backward) -> list[TorchNode]:
    """Those nodes of a backward that made these tensors, or belong to these edges or leaves."""
    if not asked:
        return []
    made = {each.grad_fn if isinstance(each, torch.Tensor) else each.node for each in asked}
    leaves = {id(each) for each in asked}
    return [
        node
        for function, node in task.nodes.items()
        if function in made or (node.leaf and id(node.variable) in leaves)
    ]


_result: Final = operator.itemgetter(RESULT)
_first_rank: Final = operator.itemgetter(FIRST_RANK)

MOST_BORN: Final = 128
"""Births that are kept after nodes were found by them, for those that no living result leads to."""

NEVER: Final = 1 << 30
"""Blocks of hooks that are entered where nobody knows any more whether one is left."""
