"""What built code refers to by name, whatever the op."""

from __future__ import annotations

import functools
import sys
from threading import get_ident
from types import CodeType, FrameType
from typing import Any
from weakref import ref

import numpy

from ag_visual.core import modes, saved, source, view
from ag_visual.core.source import LOOP
from ag_visual.core.storage import FRESH, ZERO, Storage, uids
from ag_visual.core.tensor import Tensor, accumulator, from_array, wrote
from ag_visual.dispatch import arguments
from ag_visual.events import instrument
from ag_visual.events.clock import perf_counter_ns
from ag_visual.events.node_record import sequence

fast_types: set[type] = {Tensor}
"""Exact types that may take the fast path."""
slow_path_types: set[type] = {Tensor, *arguments.NUMPY_NUMBERS}
"""Exact types that stand for a number in an argument and are none: see `plain_number`."""


def take_fast(kind: type) -> None:
    """Let a subclass of Tensor that changes nothing take the fast path."""
    fast_types.add(kind)
    slow_path_types.add(kind)


def _locate(frame: FrameType | None) -> tuple[CodeType | None, int]:
    """`source.call_site_of`, in one call; from inside of a backward the call site of it."""
    inside = source.inside
    while frame is not None:
        code = frame.f_code
        known = inside[code.co_filename]
        if not known:
            return code, frame.f_lasti
        if known is LOOP:
            return modes.state.task.call_site or (None, 0)
        frame = frame.f_back
    return None, 0


SHARED: dict[str, Any] = {
    "__name__": "ag_visual.ops.built",  # the warnings filter of the package goes by this name
    "Tensor": Tensor,
    "fast": fast_types,
    "odd": slow_path_types,
    "blank_tensor": functools.partial(object.__new__, Tensor),
    "ndarray": numpy.ndarray,
    "asarray": numpy.asarray,
    "np": numpy,
    "F32": numpy.dtype(numpy.float32),
    "F64": numpy.dtype(numpy.float64),
    "Storage": Storage,
    "ZERO": ZERO,
    "FRESH": FRESH,
    "modes": modes,
    "instrument": instrument,
    "report_breaks": saved.report_breaks,
    "sequence": sequence,
    "uids": uids,
    "next": next,
    "getframe": sys._getframe,
    "inside": source.inside,
    "caller": source.caller,
    "locate": _locate,
    "accumulator": accumulator,
    "refresh": view.refresh,
    "View": view.View,
    "child_meta": view.child_meta,
    "clock": perf_counter_ns,
    "thread": get_ident,
    "ref": ref,
    "unpack": saved.raw,
    "check": saved.check,
    "acquire": saved.acquire,
    "leaf": from_array,
    "wrote": wrote,
    "loose": arguments.loose,
    "DType": arguments.DType,
}
