"""How a call of an op comes in: its arguments bound, then to its level or to the reference path."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from typing import Any

import numpy

from ag_visual.core import modes
from ag_visual.core.tensor import Tensor, from_array
from ag_visual.dispatch import autocast, sparse
from ag_visual.dispatch.arguments import NUMBERS
from ag_visual.dispatch.codegen import at_level as at_level_built, dual as dual_built
from ag_visual.dispatch.codegen.at_level import MISS
from ag_visual.dispatch.codegen.of_slices import of_slices
from ag_visual.dispatch.inplace import run_inplace
from ag_visual.dispatch.interpreted import binder, run
from ag_visual.dispatch.levels import (
    at_level,
    at_level_inplace,
    levelled_among,
    outside,
    unusual,
)
from ag_visual.dispatch.narrow_node import narrow_class
from ag_visual.dispatch.op_node import make_node_class
from ag_visual.dispatch.out_argument import accepting_out
from ag_visual.dispatch.record import KEEP, Op
from ag_visual.dispatch.vmap import draws
from ag_visual.events import instrument


class Levelled:
    """What is built of an op for levels, when it is first asked for."""

    def __init__(self, op: Op) -> None:
        self._op = op

    @functools.cached_property
    def lifted(self) -> Callable[..., Any] | None:
        return at_level_built.lifted(self._op)

    @functools.cached_property
    def dual(self) -> Callable[..., Any] | None:
        return dual_built.dual(self._op)

    @functools.cached_property
    def batched(self) -> Callable[..., Any] | None:
        return of_slices(self._op)


def equip(op: Op) -> None:
    """Give a record its node class and its reference call."""
    op.node_class = make_node_class(op)
    op.narrow_class = narrow_class(op)
    bind = binder(op, op.public_name)
    needed = sum(p.default is p.empty for p in op.signature.parameters.values())
    most = len(op.params) if not op.varargs else sys.maxsize
    levelled = op.levelled = Levelled(op)
    steady = bool(op.inputs) and not op.lists and not draws(op)

    def call(*args: Any, **kwargs: Any) -> Any:
        state = modes.state
        mine = state.__dict__
        if mine["autocast"] is not None:
            return autocast.run(op.casts, op.call, args, kwargs)
        if mine["levels"] and needed <= len(args) <= most and instrument.sink is None:
            level = mine["levels"][-1]
            usual = mine["slow"] == 1 and not level.inference and not modes.plain_duals
            built = how = None
            if usual and modes.anomaly is None:
                if level.kind == "vmap":
                    built, how = levelled.batched, mine["grad"]
                if built is None and mine["grad"] and level.grad:
                    if level.recorded and steady and not levelled_among(args, kwargs):
                        return outside(op, level, state, args, kwargs)
                    if level.kind == "jvp" and not mine["primal"] and mine["forward"]:
                        built, how = levelled.dual, state
                    elif level.kind not in ("vmap", "tape"):
                        built, how = levelled.lifted, state
            if built is not None:
                found = built(level, how, *args, **kwargs)
                if found is not MISS:
                    return found
        given = bind(args, kwargs)
        if modes.sparse and sparse.among(op, given):
            return sparse.call(op, given)
        return at_level(op, given) if unusual() else run(op, given)

    op.straight = call
    if op.out:
        call = accepting_out(op.public_name, call, op.policy != KEEP, op.out)
    op.compute = op.call = op.shown(call)


def operator(op: Op) -> Callable[..., Any]:
    """The reference call as Python's operators want it: NotImplemented for foreign operands."""
    known = (Tensor, *NUMBERS)

    def call(self: Any, other: Any, **kwargs: Any) -> Any:
        if not isinstance(other, known):
            if not isinstance(other, numpy.ndarray):
                return NotImplemented
            other = from_array(other)  # as torch, which keeps the result a tensor of the graph
        return op.straight(self, other, **kwargs)

    return call


def inplace_variant(op: Op) -> Callable[..., Any]:
    """`name_`: the same op, written into its first argument."""
    variant = f"{op.public_name}_"
    bind = binder(op, variant)

    def call(*args: Any, **kwargs: Any) -> Any:
        given = bind(args, kwargs)
        if modes.sparse and sparse.among(op, given):
            return sparse.write(op, variant, given)
        write = at_level_inplace if unusual() else run_inplace
        return write(op, variant, given)

    return op.shown(call, variant)
