"""The forward of a view op with several outputs, where nothing unusual is asked of it.

Not built from text as `forward` is: how many outputs there are is known when it is called. What is
not plain goes to the reference path, with which tests compare it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy
from numpy import ndarray

from ag_visual.core import modes, source, view
from ag_visual.core.storage import FRESH
from ag_visual.core.tensor import Tensor, accumulator
from ag_visual.dispatch.codegen.scope import SHARED, fast_types
from ag_visual.dispatch.op_node import ListItem
from ag_visual.dispatch.record import Op
from ag_visual.events import instrument

_blank = SHARED["blank_tensor"]


def several_views(op: Op) -> Callable[..., Any]:
    """The wrapper of a multi-output view op of one tensor and plain arguments."""
    slow, cls = op.straight, op.node_class
    normalize: Any = op.normalize
    kernel: Any = op.kernel
    parameters = list(op.signature.parameters.values())[1:]
    defaults = tuple(p.default for p in parameters)
    kept = [(f"a_{name}", op.arguments.index(name)) for name in op.values]
    shape_slots = [f"h_{name}" for name in op.shapes]
    items = [ListItem(op, i) for i in range(16)]

    def call(*args: Any, **kwargs: Any) -> Any:
        grad = True if not modes.special else modes.now.fast
        if kwargs or not args or grad is None or instrument.sink is not None:
            return slow(*args, **kwargs)
        self, *given = args
        given += defaults[len(given) :]
        if type(self) not in fast_types or len(given) != len(defaults):
            return slow(*args)
        array, dtype = self._array, self._plain
        if type(array) is not ndarray or dtype is None:
            return slow(*args)
        for value in given:
            if type(value) is not int and type(value) is not tuple:
                return slow(*args)
        values = normalize(array, *given)
        parts = kernel(numpy, array, *values)
        parent = self._view
        if grad and parent is not None and parent.snapshot is not self._store.snapshot:
            view.refresh(self)
        recorded = self._rg
        if not parts or (recorded and not grad):
            return slow(*args)
        store = self._store
        if store is FRESH:
            store = self._storage
        base = self if parent is None else parent.base
        memory = array if self._memory is None else self._memory
        meta = view.child_meta(parent, multi=True)
        call_site, made = None, False
        if recorded:
            edge = self._edge or accumulator(self)
            metas = tuple([(part.shape, dtype) for part in parts])
            node = cls().start((edge,), metas)
            node.outs = metas
            for slot, at in kept:
                setattr(node, slot, values[at])
            for slot in shape_slots:
                setattr(node, slot, array.shape)
        else:
            call_site = source.here()
            made = base._rg
        for i in range(len(items), len(parts)):
            items.append(ListItem(op, i))
        outputs = []
        for number, part in enumerate(parts):
            out: Tensor = _blank()
            out._array, out._plain = part, dtype
            out._store, out._memory = store, memory
            out._grad = out._leaf = None
            look = view.View(base, parent, items[number], values, store.snapshot, meta, array)
            out._view = look
            if recorded:
                out._edge = (node, number, None, None)
                out._rg = True
            else:
                out._edge = None
                out._rg = made
                look.made = call_site
            outputs.append(out)
        return tuple(outputs)

    return op.shown(call)
