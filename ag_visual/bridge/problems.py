"""Errors of torch's autograd, and writes that it does not see, with the lines that made them.

An error stays the one that torch raised; what is known more goes into a note (PEP 678), into its
attribute `fields` and to the Inspector, as with this package's own engine.
"""

from __future__ import annotations

import contextlib
import sys
from collections import deque
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any, Final

import torch

from ag_visual.bridge.arrays import MOST_WRITES, Memory, array_of, dtypes, memory_of, shape_of
from ag_visual.bridge.backward import Backward
from ag_visual.bridge.forward import TRAINING
from ag_visual.bridge.node import TorchNode
from ag_visual.bridge.releases import TELLS
from ag_visual.bridge.saved import (
    KEY,
    VERSIONS,
    Kept,
    kept,
    kinds,
    packed,
    saved_value,
    which_saved,
)
from ag_visual.core import source
from ag_visual.core.diagnosis import variable_names
from ag_visual.core.diagnosis.errors import add_repair, distinct, line_of, lines, report
from ag_visual.core.diagnosis.repair import Repair
from ag_visual.errors import SilentWriteWarning
from ag_visual.events.memory import Extent

MODIFIED: Final = "has been modified by an inplace operation"
SECOND: Final = "Trying to backward through the graph a second time"
LEAF: Final = "Variable that requires grad is being used in an in-place operation"
VIEW: Final = ("is a view and ", "is a view of ", "A view was created in no_grad mode")
MOST: Final = 3


def remember(memory: Memory, write: Any) -> None:
    """A storage was written: (when, version after it, op, call site, extent or None)."""
    memory.written += 1
    if memory.writes is None:
        memory.writes = deque(maxlen=MOST_WRITES)
    memory.writes.append(write)


def of_backward(error: RuntimeError, task: Backward) -> None:
    """Explain the error in which a backward ended, where it is one of these."""
    text = str(error)
    if hasattr(error, "fields"):
        return
    if MODIFIED in text:
        _modified(error, text, task)
    elif SECOND in text:
        _second(error, task)


def of_forward(
    error: RuntimeError, func: Any, args: Any, frame: Any, birth_of: Callable[[Any], Any]
) -> None:
    """Explain the error of an operation that must not write where it was to.

    birth_of: the record of a node of torch's, or its birth.
    """
    text = str(error)
    if hasattr(error, "fields") or not args or not isinstance(args[0], torch.Tensor):
        return
    leaf = LEAF in text
    if not leaf and not any(part in text for part in VIEW):
        return
    tensor = args[0]
    where = source.resolve_call_site(source.call_site_of(frame))
    op = getattr(func, "__name__", "")
    fields = _fields("leaf-inplace" if leaf else "view-inplace", op, None, where)
    fields["tensor"] = _described(tensor, tensor._base, lambda value: value is tensor)
    note = ""
    birth = None
    if not leaf:
        with contextlib.suppress(RuntimeError):  # torch may not even say what made it
            function = tensor.grad_fn
            birth = None if function is None else birth_of(function)
        call_site = (
            birth.call_site if isinstance(birth, TorchNode) else birth and (birth[0], birth[1])
        )
        made = fields["made"] = source.resolve_call_site(
            call_site if call_site and call_site[0] else None
        )
        note += line_of("view made at", made)
    add_repair(fields, "torch")
    note += line_of("written at" if leaf else "written at  ", where, f"({op})")
    _report(error, fields, note + lines(fields))


def _report(error: RuntimeError, fields: dict[str, Any], note: str) -> None:
    """Add the note to an error, and report it."""
    fields["text"] = str(error) + note
    error.fields = fields  # type: ignore[attr-defined]
    error.add_note(note.lstrip("\n"))
    report(error)


def _fields(kind: str, name: str, seq: int | None, where: source.Site) -> dict[str, Any]:
    return {
        "kind": kind,
        "node_name": name,
        "node_seq": seq,
        "saved_name": "",
        "saved": None,
        "writes": [],
        "more_writes": 0,
        "where": where,
    }


# Variables ---------------------------------------------------------------------------------------


def _variables() -> Iterator[tuple[str, Any]]:
    """The tensors that the user's code has names for; plain variables of all frames first."""
    later = []
    for scope in variable_names.scopes_of(sys._getframe(1)):
        for name, value in variable_names.tensors_in(scope, buffers=True, types=(torch.Tensor,)):
            if name.isidentifier():
                yield name, value
            else:
                later.append((name, value))
    yield from later


def _name(matches: Callable[[Any], bool]) -> str | None:
    return next((name for name, value in _variables() if matches(value)), None)


def _described(tensor: Any, base: Any, matches: Callable[[Any], bool]) -> dict[str, Any]:
    """Shape, dtype and name; a view without a name is named by its base's."""
    shape, dtype = shape_of(tensor), str(tensor.dtype).removeprefix("torch.")
    found = {"name": _name(matches), "shape": shape, "dtype": dtype}
    if found["name"] is None and base is not None:
        found["name"] = _name(lambda value: value is base)
    return found


def _lies_as(which: Kept) -> Callable[[Any], bool]:
    """Whether a tensor has the same elements of the same memory."""
    memory, shape, offset = which.memory, which.shape, which.offset

    def same(value: Any) -> bool:
        return (
            memory is not None
            and value.layout is torch.strided
            and value.shape == shape
            and value.storage_offset() == offset
            and memory_of(value) is memory
        )

    return same


def _aliases(memory: Memory | None, but: str | None) -> list[dict[str, str]]:
    """Other variables on the same memory: through them it may be written."""
    found: dict[str, str] = {}
    seen: set[int] = set()
    for name, value in _variables():
        if memory is None or name == but or id(value) in seen or memory_of(value) is not memory:
            continue
        seen.add(id(value))
        base = value._base
        if base is not None:
            known = _name(lambda v, base=base: v is base)  # type: ignore[misc]
            found.setdefault(name, "a view of " + (f"`{known}`" if known else "a tensor"))
        elif value.grad_fn is None and not value.requires_grad:
            found.setdefault(name, "detached, the same memory")
    return [{"name": name, "how": how} for name, how in found.items()][:MOST]


def _holders(node: TorchNode) -> list[str]:
    """Variables whose graph contains `node`: they keep it alive."""
    found: list[str] = []
    tried: set[int] = set()
    for name, value in _variables():
        function = value.grad_fn
        start = None if function is None else function.metadata.get(KEY)
        if not isinstance(start, TorchNode) or id(value) in tried or len(found) >= MOST:
            continue
        tried.add(id(value))
        seen, pending = {start}, [start]
        while pending and node not in seen:
            for below, _ in pending.pop().next_functions:
                if below is not None and below not in seen:
                    seen.add(below)
                    pending.append(below)
        if node in seen and name not in found:
            found.append(name)
    return found


# Saved tensors that were written -----------------------------------------------------------------


Refused = Iterator[tuple[TorchNode, str, Kept]]
"""(node, name, which tensor it saved) of each that torch refuses with the same words."""


def _failing(task: Backward, phrase: str) -> Refused:
    """Of the nodes that the backward runs, the last one first."""
    nodes = sorted(task.functions, key=lambda node: -node.seq)
    if task.current is not None:
        nodes = [task.current, *nodes]
    for node in nodes:
        function = task.functions.get(node)
        if function is not None:
            yield from _refused(node, function, phrase)


def _around(error: RuntimeError, task: Backward, phrase: str) -> Refused:
    """Of what the frames of the error hold: a checkpoint keeps what it began with apart from nodes.

    The node is the one that asked for its saved tensors, for which the checkpoint computes again.
    """
    given = [
        (node, saved.name)
        for node in ([task.current] if task.current is not None else task.functions)
        for saved in node.saved
        if saved.kind == "packed"
    ]
    if not given:
        return
    node, name = max(given, key=lambda each: each[0].seq)
    trace = error.__traceback__
    while trace is not None:
        for value in list(trace.tb_frame.f_locals.values()):
            if isinstance(value, torch.autograd.function.BackwardCFunction):
                for _, _, which in _refused(node, value, phrase):
                    yield node, name, which
            elif TELLS and type(value) is torch._C._autograd.SavedTensor and value.data is not None:
                yield node, name, kept(value.data)
        trace = trace.tb_next


def _refused(node: TorchNode, function: Any, phrase: str) -> Refused:
    for name, raw_name, attribute in kinds[type(function)].tensors:
        try:
            raw = getattr(function, raw_name)
        except RuntimeError:
            return  # it has run
        parts = raw if type(raw) is tuple else (raw,)
        if any(packed(function, part) for part in parts):
            continue
        try:
            getattr(function, attribute)
        except RuntimeError as error:
            if str(error).partition(" Hint")[0] != phrase:
                continue
            for index, part in enumerate(parts):
                called = f"{name}[{index}]" if type(raw) is tuple else name
                which = which_saved(function, called, part)
                if which is not None:
                    yield node, called, which


def _saved_fields(
    node: TorchNode, name: str, which: Kept, then: int, now: int, where: source.Site
) -> dict[str, Any]:
    memory = which.memory
    writes = [] if memory is None or memory.writes is None else list(memory.writes)
    since = [write for write in writes if write[0] > node.made]
    records = [SimpleNamespace(version=w[1], op=w[2], call_site=w[3]) for w in since]
    matches = _lies_as(which)
    own = any(saved.own for saved in node.saved if saved.name == name)
    described = _described(which, None if which.base is None else which.base(), matches)
    return _fields("modified-by-inplace", node.name(), node.seq, where) | {
        "saved_name": name,
        "own_output": own,
        "tensor": described,
        "leaf": which.leaf,
        "aliases": _aliases(memory, described["name"]),
        "saved": {"site": source.resolve_call_site(node.call_site), "version": then},
        "writes": distinct(records),
        "more_writes": max(0, (0 if memory is None else memory.written) - len(writes)),
        "version_then": then,
        "version_now": now,
    }


def _modified(error: RuntimeError, text: str, task: Backward) -> None:
    """A saved tensor was written in place before backward needed it."""
    versions = VERSIONS.search(text)
    where = source.resolve_call_site(task.call_site)
    phrase = text.partition(" Hint")[0]
    found = [*_failing(task, phrase), *_around(error, task, phrase)]
    if versions is None or not found:
        return
    now, then = int(versions[1]), int(versions[2])
    node = found[0][0]
    # Of several tensors that one node saved, torch does not say which: one that was written.
    described = [
        _saved_fields(each, name, which, then, now, where)
        for each, name, which in found
        if each is node
    ]
    fields = next((each for each in described if each["writes"]), described[0])
    note = ""
    if not fields["writes"]:
        note = (
            "\n  written by  something that was not seen: C++, another thread, or a line from "
            "before it was watched"
        )
    add_repair(fields, "torch")
    if fields["saved"]["site"] is source.UNKNOWN:
        note += f"\n  saved by    {node.name()}, on a line that was not watched, or is forgotten"
    _report(error, fields, lines(fields) + note)


def silent_writes(task: Backward, memories: Any) -> list[SilentWriteWarning]:
    """Saved tensors that were written through `.data` since: torch's gradient will be wrong."""
    numbers = {memory.number: memory for memory in memories}
    found = []
    trained: set[Any] = set()
    for node, function in task.functions.items():
        for saved in node.saved:
            memory = saved.memory
            if memory is None or memory.number not in numbers or not memory.writes:
                continue
            if not any(write[0] > node.made for write in memory.writes):
                continue
            if getattr(function, "_saved_training", False) and saved.name.startswith("running_"):
                continue  # running statistics of a batch_norm in training: its backward needs none
            tensor = saved_value(function, saved.name)
            if tensor is None or tensor._version != saved.version:
                continue
            extent = Extent(array_of(tensor))
            hidden = [
                write
                for write in memory.writes
                if write[0] > node.made and (write[4] is None or write[4].meets(extent))
            ]
            if not hidden:
                continue
            if all(write[2] == TRAINING for write in hidden):
                # It writes mean and variance at once: one warning says it.
                trainings = node, tuple((write[0], write[3]) for write in hidden)
                if trainings in trained:
                    continue
                trained.add(trainings)
            found.append(_silent(node, saved.name, tensor, hidden, task))
    return found


_BEFORE_TRAINING: Final = (
    "Call backward before the module trains again, or evaluate with a copy of it (copy.deepcopy)."
)


def _silent(
    node: TorchNode, name: str, tensor: Any, hidden: list[Any], task: Backward
) -> SilentWriteWarning:
    where = source.resolve_call_site(task.call_site)
    version = int(tensor._version)
    fields = _saved_fields(node, name, kept(tensor), version, version, where)
    records = [SimpleNamespace(version=w[1], op=w[2], call_site=w[3]) for w in hidden]
    fields |= {"kind": "silent", "writes": distinct(records)}
    add_repair(fields, "torch")
    kind = f"{dtypes[tensor.dtype].name} {list(tensor.shape)}"
    how = "through .data (or another alias with its own version counter)"
    if all(write[2] == TRAINING for write in hidden):
        how = "by a batch_norm in training"
        fields["repair"] = Repair(_BEFORE_TRAINING, None)._asdict()
    fields["text"] = text = (
        f"a tensor that {node.name()} saved for backward was written {how}: {kind}. The version "
        "counter did not see it, so backward uses the new values and the gradient is silently "
        "wrong." + lines(fields)
    )
    return report(SilentWriteWarning(text, fields))  # type: ignore[no-any-return]


# Graphs that were freed, gradients that are no numbers --------------------------------------------


def _second(error: RuntimeError, task: Backward) -> None:
    """Saved tensors were asked for after a backward had freed them."""
    node = task.current
    if node is None or not node.saved:
        # What this backward itself has run gave back its own, too: not that.
        freed = [
            each
            for each, function in task.functions.items()
            if each.freed is not None and _gave_back(function)
        ]
        node = max(freed, key=lambda each: each.seq, default=None)
    if node is None:
        return
    freed_at = node.freed if node.freed is not None and node.freed[0] is not None else None
    first = source.resolve_call_site(freed_at)
    site = source.resolve_call_site(node.call_site)
    shape, dtype = node.outputs[0]
    fields = _fields(
        "second-backward", node.name(), node.seq, source.resolve_call_site(task.call_site)
    ) | {
        "tensor": {"name": None, "shape": shape, "dtype": dtype.name},
        "first_backward": first,
        "holders": _holders(node),
        "saved": {"site": site, "version": 0},
    }
    add_repair(fields, "torch")
    note = line_of("made at       ", site, f"({node.name()})")
    note += line_of("first backward", first)
    if fields["holders"]:
        note += "\n  kept alive by   " + ", ".join(f"`{name}`" for name in fields["holders"])
    if fields["repair"]:
        note += f"\n  repair          {fields['repair']['text']}"
    _report(error, fields, note)


def _gave_back(function: Any) -> bool:
    """Whether a node has given back what it had saved."""
    for _, raw_name, attribute in kinds[type(function)].tensors:
        try:
            raw = getattr(function, raw_name)
            parts = raw if type(raw) is tuple else (raw,)
            if not any(packed(function, part) for part in parts):
                getattr(function, attribute)
        except RuntimeError as error:
            if SECOND in str(error):
                return True
    return False
