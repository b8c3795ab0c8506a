"""torch.profiler.ExecutionTraceObserver: ops and their arguments, as a graph in a file."""

from __future__ import annotations

import ast
import gzip
import json
import os
import tempfile
import time
from collections.abc import Iterator
from typing import Any

from ag_visual import files
from ag_visual.profiler.collection import Collection
from ag_visual.profiler.columns import Columns
from ag_visual.profiler.inputs import Inputs

SCHEMA = "1.1.1-chakra.0.0.4"
_OWN = "[pytorch|profiler|execution_trace|{}]"
_SCALARS = {bool: "Bool", int: "Int", float: "Double", complex: "ComplexDouble"}
_NOTHING: dict[str, list[Any]] = {"values": [], "shapes": [], "types": [], "strides": []}


class ExecutionTraceObserver:
    """Writes what runs between `start()` and `stop()` to the file of `register_callback`.

    The file is JSON in torch's schema: a node for each op, range and node of a backward, with its
    parent (`ctrl_deps`), shapes, dtypes, strides and numbers of its inputs. What it does not know
    is left empty: outputs, schemas, and which tensor is which (the value of a tensor is null).

    Give it to `profile(execution_trace_observer=...)`, which starts, stops and unregisters it, or
    do that yourself. `unregister_callback()` writes the file.
    """

    def __init__(self) -> None:
        self._registered = False
        self._collection: Collection | None = None
        self._found: list[Columns] = []
        self.extra_resources_collection = False
        self.resources_dir = ""
        self.output_file_path = ""

    def __del__(self) -> None:
        self.unregister_callback()

    @staticmethod
    def build_execution_trace_obs_from_env() -> ExecutionTraceObserver | None:
        """One that writes to a new temporary file, if ENABLE_PYTORCH_EXECUTION_TRACE is 1."""
        if os.environ.get("ENABLE_PYTORCH_EXECUTION_TRACE", "0") != "1":
            return None
        with tempfile.NamedTemporaryFile(suffix=".et.json", delete=False) as file:
            found = ExecutionTraceObserver().register_callback(file.name)
        extras = os.environ.get("ENABLE_PYTORCH_EXECUTION_TRACE_EXTRAS", "0") == "1"
        found.set_extra_resource_collection(extras)
        return found

    def get_output_file_path(self) -> str | None:
        """Where it writes; None: not known yet."""
        return self.output_file_path or None

    def register_callback(self, output_file_path: str) -> ExecutionTraceObserver:
        """Where to write; packed where the path ends in .gz. The first one counts."""
        if not self._registered:
            self.output_file_path = os.fspath(output_file_path)
            self._registered = True
        return self

    def unregister_callback(self) -> None:
        """Stop, and write the file."""
        if not self._registered:
            return
        self.stop()
        text = json.dumps(_trace(self._found)).encode()
        packed = self.output_file_path.endswith(".gz")
        files.write(self.output_file_path, gzip.compress(text) if packed else text)
        # Not before: where it could not be written, another path may be registered for it.
        self._registered, self._found = False, []

    def start(self) -> None:
        """Collect from here, if it is registered."""
        if self._registered and self._collection is None:
            self._collection = Collection(shapes=True)

    def stop(self) -> None:
        """Collect no more."""
        ended, self._collection = self._collection, None
        if ended is not None:
            ended.stop()
            self._found.append(ended.finish())

    def cleanup(self) -> None:
        """The same as `unregister_callback`."""
        self.unregister_callback()

    @property
    def is_registered(self) -> bool:
        """Whether it has a file to write to."""
        return self._registered

    def is_running(self) -> bool:
        """Whether it collects."""
        return self._collection is not None

    def set_extra_resource_collection(self, val: bool) -> None:
        """Whether there is a folder beside the file for more; nothing here puts anything there."""
        self.extra_resources_collection = val
        if val:
            self.get_resources_dir(can_create=True)

    def get_resources_dir(self, can_create: bool = False) -> str | None:
        """The folder beside the file; None where it was not asked for, or is not there."""
        if not self.extra_resources_collection:
            return None
        if not self.resources_dir:
            path = self.get_resources_dir_for_et_path(self.output_file_path, can_create)
            self.resources_dir = path or ""
        return self.resources_dir or None

    @staticmethod
    def get_resources_dir_for_et_path(trace_path: str, create_dir: bool = False) -> str | None:
        """The folder beside a file; None where it is not there."""
        path = f"{os.path.splitext(trace_path)[0]}_resources"
        if create_dir:
            os.makedirs(path, exist_ok=True)
        return path if os.path.isdir(path) else None


def _trace(found: list[Columns]) -> dict[str, Any]:
    nodes = [_node(1, _OWN.format("process"), 1, _NOTHING, scope=7)]
    for columns in found:
        nodes.extend(_nodes(columns, len(nodes) + 1))
    return {
        "schema": SCHEMA,
        "pid": os.getpid(),
        "time": time.strftime("%Y-%m-%d %H:%M:%S"),
        "start_ts": min((each.start for each in found), default=0) // 1000,
        "finish_ts": max((each.end for each in found), default=0) // 1000,
        "nodes": nodes,
    }


def _nodes(columns: Columns, first: int) -> Iterator[dict[str, Any]]:
    for thread in range(len(columns.threads)):
        name = _OWN.format("thread")
        yield _node(first + thread, name, 1, _NOTHING, scope=7, tid=thread + 1)
    spans, inputs = columns.spans, [_inputs(each) for each in columns.inputs]
    begin = first + len(columns.threads)
    of_thread = spans["thread"].tolist()
    fields = ("name", "scope", "thread", "parent", "forward", "inputs")
    rows = zip(*(spans[field].tolist() for field in fields), columns.sequence.tolist(), strict=True)
    for at, (name, scope, thread, parent, forward, given, seq) in enumerate(rows):
        yield _node(
            begin + at,
            columns.names[name],
            begin + parent if parent >= 0 else first + thread,
            inputs[given] if given >= 0 else _NOTHING,
            rf_id=at + 1,
            fw_parent=begin + forward if forward >= 0 else 0,
            seq_id=seq,
            scope=scope,
            tid=thread + 1,
            fw_tid=of_thread[forward] + 1 if forward >= 0 else 0,
        )


def _node(
    number: int,
    name: str,
    parent: int,
    inputs: dict[str, list[Any]],
    *,
    rf_id: int = 0,
    fw_parent: int = 0,
    seq_id: int = -1,
    scope: int = 0,
    tid: int = 1,
    fw_tid: int = 0,
) -> dict[str, Any]:
    numbers = {"rf_id": rf_id, "fw_parent": fw_parent, "seq_id": seq_id, "scope": scope}
    numbers |= {"tid": tid, "fw_tid": fw_tid}
    attributes: list[dict[str, Any]] = [
        {"name": key, "type": "int64" if key == "seq_id" else "uint64", "value": value}
        for key, value in numbers.items()
    ]
    for key in ("op_schema", "kernel_backend", "kernel_file", "tensor_range"):
        attributes.append({"name": key, "type": "string", "value": ""})
    return {
        "id": number,
        "name": name,
        "ctrl_deps": parent,
        "inputs": inputs,
        "outputs": _NOTHING,
        "attrs": attributes,
    }


def _inputs(given: Inputs) -> dict[str, list[Any]]:
    values, types = [], []
    for kind, text in zip(given.types, given.concrete, strict=True):
        value, name = _value(kind, text)
        values.append(value)
        types.append(name)
    shapes, strides = ([list(each) for each in x] for x in (given.dims, given.strides))
    return {"values": values, "shapes": shapes, "types": types, "strides": strides}


def _value(kind: str, text: str) -> tuple[Any, str]:
    """An argument as torch's schema has it: (value, type)."""
    if kind == "Scalar":
        try:
            value = ast.literal_eval(text)
        except ValueError:  # inf, nan
            return text, "Double"
        known = _SCALARS[type(value)]
        return (text if known == "ComplexDouble" else value), known
    if kind == "ScalarList":
        return text, "GenericList"
    if kind == "TensorList":
        return None, "GenericList[Tensor]"
    if kind:
        return None, f"Tensor({kind})"
    return (text, "String") if text else ("<None>", "None")
