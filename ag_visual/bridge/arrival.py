"""What torch calls of this package in a backward: before each node, with what arrives there.

There is no hook after a node: it has run when the next one of its thread begins. Nodes with one
output share one dictionary of hooks of their output (`Arrivals`), which costs least; others have a
prehook of their own.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from threading import Lock, get_ident
from time import perf_counter_ns
from typing import Any

import torch
from torch import Tensor
from torch._C import (
    DisableTorchFunction,
    _current_autograd_node,
    _is_torch_function_mode_enabled,
)

from ag_visual.bridge.arrays import UNRECORDED, Figures, figure, figures
from ag_visual.bridge.node import TorchNode, leads
from ag_visual.bridge.node_hooks import OwnHook
from ag_visual.bridge.saved import KEY
from ag_visual.bridge.threads import devices_compute
from ag_visual.events import instrument


class Arrivals:
    """The hook of all nodes with one output, from when it is put there until `close`."""

    def __init__(self) -> None:
        self._hooks: OrderedDict[str, Any] = OrderedDict([(KEY, _arrived)])
        self._lock = Lock()
        self._begun: list[Any] = []  # backwards that are not over
        # torch takes the hooks of an output from a tensor that has them.
        with DisableTorchFunction():
            self.carrier = torch.empty(0)
            self.carrier._backward_hooks = self._hooks

    def close(self) -> None:
        """Nothing is called any more, in any node."""
        self._hooks.clear()

    def put(self, node: TorchNode, function: Any) -> None:
        """Have torch call before it runs this node; once is enough."""
        if not node.simple:
            if node.hook is None:
                node.hook = function.register_prehook(OwnHook(_before_run, node))
        elif node.hook is not self.carrier:
            node.hook = self.carrier
            function._register_hook_dict(self.carrier)

    def begin(self, task: Any) -> None:
        """A backward is about to begin; the only one is asked about in the shortest way."""
        with self._lock:
            self._begun.append(task)
            self._choose()

    def end(self, task: Any) -> None:
        """It is over."""
        with self._lock:
            if task in self._begun:
                self._begun.remove(task)
                self._choose()

    def _choose(self) -> None:
        if self._hooks:
            alone = self._begun[0] if len(self._begun) == 1 else None
            self._hooks[KEY] = _arrived if alone is None else _arrives_in(alone)


def _arrives_in(task: Any) -> Callable[[Any], Any]:
    """`_arrived` where no other backward is under way: of small gradients it notes the numbers."""
    nodes, put, log, thread = task.nodes, task.put, task.log, task.modeless
    if task.unrun:
        nodes = {function: node for function, node in nodes.items() if node not in task.unrun}
    node_of = nodes.get
    several = devices_compute()  # whether other threads than that may run its nodes

    def _arrived_alone(gradient: Any) -> Any:
        entered = perf_counter_ns()
        node = node_of(_current_autograd_node())
        if (
            node is not None
            and type(gradient) is Tensor
            and instrument.gate is None
            and instrument.sink is log
            and not (several and get_ident() != thread)
        ):
            dtype = node.listed
            if dtype is None:
                value, dtype = _figure(node, task, gradient)
                began = entered if dtype is not None else perf_counter_ns()
                put((node, entered, thread, value, dtype, began))
                return None
            try:
                put((node, entered, thread, gradient.tolist(), dtype, entered))
                return None
            except RuntimeError:  # of a level of torch.func: without memory of its own
                pass
        return _arrived(gradient)

    return _arrived_alone


def take_out(node: TorchNode) -> None:
    """Have torch not call any more before it runs this node, where it has a hook of its own."""
    if not node.simple and node.hook is not None:
        node.hook.pop(KEY, None)
        node.hook = None


def _arrived(gradient: Any) -> Any:
    """torch's hook of an output: the gradient, perhaps changed by who is paused here."""
    entered = perf_counter_ns()
    node = _current_autograd_node().metadata[KEY]
    task = node.task
    if task is None or task.over:
        return None
    try:
        log, thread = instrument.sink, get_ident()
        if (
            log is not None
            and log is task.log
            and instrument.gate is None
            and (thread == task.modeless or not _is_torch_function_mode_enabled())
        ):
            dtype = node.listed
            if dtype is not None and type(gradient) is Tensor:
                # As `figure` says, with calls less for each of many small ones.
                try:
                    task.put((node, entered, thread, gradient.tolist(), dtype, entered))
                    return None
                except RuntimeError:  # of a level of torch.func: without memory of its own
                    pass
            value, dtype = _figure(node, task, gradient)
            began = entered if dtype is not None else perf_counter_ns()
            task.put((node, entered, thread, value, dtype, began))
            return None
        changed = _looked_at(node, task, (gradient,), entered)
        return None if changed is None else changed[0]
    except Exception as error:
        task.failed(error)
        return None


def _before_run(node: TorchNode, grads: Any) -> Any:
    """torch's prehook: the gradients, perhaps changed by who is paused here."""
    entered = perf_counter_ns()
    task = node.task
    if task is None or task.over:
        return None
    try:
        log, thread = instrument.sink, get_ident()
        if (
            log is None
            or log is not task.log
            or instrument.gate is not None
            or thread != task.modeless
            or len(grads) != 1
        ):
            return _looked_at(node, task, grads, entered)
        found = _figure(node, task, grads[0])
        if node.leaf:
            task.leaves.append(found[0])
        task.put((node, entered, thread, *found, perf_counter_ns()))
        return None
    except Exception as error:
        task.failed(error)
        return None


def _looked_at(node: TorchNode, task: Any, grads: Any, entered: int) -> Any:
    log = instrument.sink
    if log is not task.log:
        task.emit_from_now_on(log)
    with DisableTorchFunction():
        changed = None
        gate = instrument.gate
        if gate is not None:
            task.catch_up(entered)
            changed = task.gated(gate, node, grads)
        now = changed or grads
        if log is None:
            found = UNRECORDED
        else:
            found = _figure(node, task, now[0]) if len(now) == 1 else figures(now)
    if node.leaf:
        task.leaves.append(found[0])
    task.put((node, entered, get_ident(), *found, perf_counter_ns()))
    return changed


def _figure(node: TorchNode, task: Any, gradient: Any) -> Figures:
    """`figure`; of a gradient that the node above has only given on, what was found there."""
    if type(gradient) is not Tensor:
        task.given = None
        with DisableTorchFunction():
            return figure(gradient)
    try:
        where = gradient.data_ptr(), gradient.numel(), gradient.dtype
        known = *where, gradient._version, get_ident()
    except (AttributeError, RuntimeError):  # None, sparse, without memory of its own
        return figure(gradient)
    last = task.given
    if last is not None and last[1] == known and leads(last[0], node) and _gives_on(last[0]):
        found: Figures = last[2]
    else:
        found = figure(gradient)
    task.given = node, known, found
    return found


def _gives_on(node: TorchNode) -> bool:
    """Whether no code of the program can have written to what a node was given, unseen."""
    return not (node.computes or node.hooked)
