"""Structured autograd errors: from what was remembered to fields, and from fields to text.

The text begins with the phrase that torch's users search for; what follows names the line that
saved, the lines that wrote, and a repair. Fields are plain data and `source.Site`s.
"""

from __future__ import annotations

import linecache
import sys
from collections.abc import Callable, Iterator
from typing import Any

from ag_visual.arrays.coo import Coo
from ag_visual.core import modes, source
from ag_visual.core.diagnosis import variable_names
from ag_visual.core.diagnosis.repair import repair
from ag_visual.core.source import warn
from ag_visual.dtypes import legacy_name, of_numpy
from ag_visual.errors import (
    AutogradError,
    FreedGraphError,
    InplaceError,
    LeafInplaceError,
    SilentWriteWarning,
    ViewInplaceError,
)
from ag_visual.events import instrument

SHOWN_WRITES = 3


def report(error: Any) -> Any:
    """Report a structured error to the observer, and return it for raising."""
    if instrument.problem is not None:
        instrument.problem(error, error.fields)
    return error


def type_name(array: Any) -> str:
    """torch's name for an array: 'torch.FloatTensor [5, 5]'."""
    device = "cuda." if type(array).__module__.startswith("cupy") else ""
    if isinstance(array, Coo):
        device = "sparse."
    return f"torch.{device}{legacy_name(of_numpy(array.dtype))} {list(array.shape)}"


def _variables() -> Iterator[tuple[str, Any]]:
    """The tensors that the user's code has names for: variables, parameters, entries, gradients.

    Plain variables of all frames come first: theirs are the names that a reader looks for.
    """
    later = []
    for scope in variable_names.scopes_of(sys._getframe(1)):
        for name, value in variable_names.tensors_in(scope, buffers=True):
            if name.isidentifier():
                yield name, value
            else:
                later.append((name, value))
            if value._grad is not None:
                later.append((f"{name}.grad", value._grad))
    yield from later


def variable_name(matches: Callable[[Any], bool]) -> str | None:
    """The user's name for a tensor for which `matches(value)` holds."""
    return next((name for name, value in _variables() if matches(value)), None)


def _aliases(storage: Any, but: Callable[[Any], bool]) -> list[dict[str, str]]:
    """Other variables on the same memory, and what they are: through them it may be written."""
    family = {id(storage)}
    if storage.log is not None and storage.log.family is not None:
        family |= {id(ref()) for ref in storage.log.family}
    found: dict[str, str] = {}
    seen: set[int] = set()
    for name, value in _variables():
        if id(value._storage) not in family or id(value) in seen or but(value):
            continue
        seen.add(id(value))
        view = value._view
        if view is not None:
            steps = ".".join(op.public_name for op, *_ in view.steps())
            base = variable_name(lambda v, base=view.base: v is base)  # type: ignore[misc]
            found.setdefault(name, f"a view: {steps} of " + (f"`{base}`" if base else "a tensor"))
        elif value._storage is not storage:
            found.setdefault(name, "from .data")
        elif value._edge is None and not value._rg:
            found.setdefault(name, "detached, the same memory")
    return [{"name": name, "how": how} for name, how in found.items()][:SHOWN_WRITES]


def _holders(node: Any, limit: int = 10_000) -> list[str]:
    """Variables whose graph contains `node`: they keep it alive."""
    found: list[str] = []
    tried: set[int] = set()
    for name, value in _variables():
        edge = value._edge
        if edge is None or id(value) in tried or name in found or len(found) >= SHOWN_WRITES:
            continue
        tried.add(id(value))
        seen, pending = {edge[0]}, [edge[0]]
        while pending and len(seen) < limit:
            current = pending.pop()
            if current is node:
                found.append(name)
                break
            for following in current.next:
                if following is not None and following[0] not in seen:
                    seen.add(following[0])
                    pending.append(following[0])
    return found


def describe_array(array: Any, name: str | None) -> dict[str, Any]:
    return {"name": name, "shape": tuple(array.shape), "dtype": array.dtype.name}


def line_of(label: str, site: source.Site, after: str = "") -> str:
    """A line of a message, or none where nobody knows the location."""
    return "" if site is source.UNKNOWN else f"\n  {label}  {site.with_text(after=after)}"


def distinct(writes: list[Any]) -> list[dict[str, Any]]:
    """Writes by call site, first ones first: a loop that writes often is one line."""
    found: dict[Any, dict[str, Any]] = {}
    for write in writes:
        key = write.call_site and (id(write.call_site[0]), write.call_site[1])
        entry = found.setdefault(
            key,
            {
                "site": source.resolve_call_site(write.call_site),
                "version": write.version,
                "op": write.op,
            },
        )
        entry["times"] = entry.get("times", 0) + 1
    return list(found.values())


def _described(array: Any, matches: Callable[[Any], bool], tensor: Any) -> dict[str, Any]:
    """Shape, dtype and name; a view that has no name is told by its base's, and how it looks."""
    found = describe_array(array, variable_name(matches))
    view = None if tensor is None else tensor._view
    if found["name"] is None and view is not None:
        found["name"] = variable_name(lambda v: v is view.base)
        found["through"] = ".".join(op.public_name for op, *_ in view.steps())
    return found


def _is_leaf(value: Any) -> bool:
    """Is it (a view of) a leaf that requires grad: weights?"""
    base = value if value._view is None else value._view.base
    return bool(base._rg and base._edge is None)


def _history(value: Any) -> Any:
    """The edge of a saved input; of a view whose base was written since, the regenerated one."""
    if value._edge is None and value._view is None:
        return None
    try:
        edge = value.gradient_edge()
    except RuntimeError:  # a view that must not be regenerated: as it was when it was saved
        edge = value._edge
    return None if edge is None or edge[0].leaf else edge


def _saved_fields(node: Any, name: str, storage: Any, then: tuple[int, int]) -> dict[str, Any]:
    value = getattr(node, f"s_{name}")
    own_output = getattr(node, f"o_{name}", None) is not None
    array = value
    if not own_output:
        if isinstance(value, tuple):
            value = next(v for v in value if getattr(v, "_storage", None) is storage)
        array = value._array
        own_output = not hasattr(value, "_edge")

    def matches(candidate: Any) -> bool:
        if own_output:
            return candidate._storage is storage and candidate._array.shape == array.shape
        return candidate is value

    writes, forgotten = storage.writes_since(then[1])
    call_sites = distinct(writes)
    edge = None if own_output else _history(value)
    leaf = not own_output and _is_leaf(value)
    return {
        "kind": "modified-by-inplace",
        "node_name": node.name(),
        "node_seq": node.seq,
        "saved_name": name,
        "own_output": own_output,
        "tensor": _described(array, matches, None if own_output else value),
        "leaf": leaf,
        "tensor_type": type_name(array),
        "aliases": _aliases(storage, lambda v: matches(v) and not (own_output and v._edge is None)),
        "producer": (node.name(), 0) if own_output else edge and (edge[0].name(), edge[1]),
        "saved": {"site": source.resolve_call_site(node.call_site), "version": then[0]},
        "writes": call_sites,
        "more_writes": forgotten,
        "version_then": then[0],
        "version_now": storage.snapshot[0],
        "where": source.resolve_call_site(source.here()),
    }


def add_repair(fields: dict[str, Any], module: str = "") -> None:
    """Put a repair into the fields. module: what the user's code calls the package it uses."""
    save = fields["saved"]["site"] if fields.get("saved") else source.UNKNOWN
    write = fields["writes"][0]["site"] if fields.get("writes") else fields["where"]
    found = repair(
        save.text,
        write.text,
        fields["kind"],
        write_op=fields["writes"][0]["op"] if fields.get("writes") else "",
        name=fields["tensor"]["name"],
        leaf=fields.get("leaf", False),
        save_line=save.source_line,
        write_line=write.source_line,
        save_source="".join(linecache.getlines(save.file)),
        write_source="".join(linecache.getlines(write.file)),
        save_lineno=save.line,
        write_lineno=write.line,
        module=module or _module_name(),
    )
    fields["repair"] = found._asdict() if found else None


def _module_name() -> str:
    """What the user's code calls this package."""
    frame = source.outside(sys._getframe(1))
    package = sys.modules.get(__name__.partition(".")[0])
    names = frame.f_globals.items() if frame is not None else ()
    return next((name for name, value in names if value is package), "torch")


def lines(fields: dict[str, Any]) -> str:
    """The part of the text that names places."""
    text = ""
    name = fields["tensor"]["name"]
    if name:
        through = fields["tensor"].get("through")
        text += f"\n  tensor      `{name}`" + (f" (a view: {through})" if through else "")
    for alias in fields.get("aliases", ()):
        text += f"\n  also known  `{alias['name']}`: {alias['how']}"
    saved = fields.get("saved")
    if saved:
        site = saved["site"]
        text += line_of(
            "saved at  ", site, f"({fields['node_name']} saved its {fields['saved_name']})"
        )
    for write in fields["writes"][:SHOWN_WRITES]:
        times = f", {write['times']} times" if write["times"] > 1 else ""
        text += line_of("written at", write["site"], f"({write['op']}{times})")
    more = len(fields["writes"]) - SHOWN_WRITES + fields["more_writes"]
    if len(fields["writes"]) <= SHOWN_WRITES:
        more = fields["more_writes"]
    if more > 0:
        text += f"\n  and {more} more writes"
    if fields.get("repair"):
        text += f"\n  repair      {fields['repair']['text']}"
    return text


def modified(node: Any, name: str, storage: Any, then: tuple[int, int]) -> AutogradError:
    """A saved tensor was written in place before backward needed it."""
    fields = _saved_fields(node, name, storage, then)
    add_repair(fields)
    producer = fields["producer"]
    which = f", which is output {producer[1]} of {producer[0]}," if producer else ""
    text = (
        "one of the variables needed for gradient computation has been modified by an inplace "
        f"operation: [{fields['tensor_type']}]{which} is at version {fields['version_now']}; "
        f"expected version {fields['version_then']} instead."
    )
    if modes.anomaly is not None:
        text += (
            " Hint: the backtrace further above shows the operation that failed to compute its "
            "gradient. The variable in question was changed in there or anywhere later. Good luck!"
        )
    text += lines(fields)
    fields["text"] = text
    return report(InplaceError(text, fields))  # type: ignore[no-any-return]


def written_around(node: Any, name: str, storage: Any, then: tuple[int, int]) -> AutogradError:
    """A saved tensor's contents changed without a write that autograd could see."""
    fields = _saved_fields(node, name, storage, then)
    fields["repair"] = {"text": "Write to a copy: `tensor.detach().clone().numpy()`.", "code": None}
    fields["text"] = text = (
        "one of the variables needed for gradient computation has been modified by means that "
        f"autograd cannot see: [{fields['tensor_type']}] has other contents than when "
        f"{node.name()} saved it, and its version is still {then[0]}. Probably a NumPy array that "
        "shares its memory was written." + lines(fields)
    )
    return report(InplaceError(text, fields))  # type: ignore[no-any-return]


def warn_silent(node: Any, name: str, storage: Any, then: tuple[int, int]) -> None:
    """A saved tensor was written through `.data`: torch's gradient is silently wrong here."""
    fields = _saved_fields(node, name, storage, then)
    fields["kind"] = "silent"
    add_repair(fields)
    fields["text"] = text = (
        f"a tensor that {node.name()} saved for backward was written through .data (or another "
        f"alias with its own version counter): [{fields['tensor_type']}]. The version counter did "
        "not see it, so backward uses the new values and the gradient is silently wrong."
        + lines(fields)
    )
    warn(report(SilentWriteWarning(text, fields)))


def _fields(kind: str, name: str, seq: int | None, saved_name: str = "") -> dict[str, Any]:
    """What every error tells, of the node or op of that name; of no write that came before."""
    return {
        "kind": kind,
        "node_name": name,
        "node_seq": seq,
        "saved_name": saved_name,
        "saved": None,
        "writes": [],
        "more_writes": 0,
        "where": source.resolve_call_site(source.here()),
    }


def freed_graph(node: Any) -> AutogradError:
    """Saved tensors were asked for after a backward had freed them."""
    first = source.resolve_call_site(node.freed if node.freed and node.freed[0] else None)
    text = (
        "Trying to backward through the graph a second time (or directly access saved tensors "
        "after they have already been freed). Saved intermediate values of the graph are freed "
        "when you call .backward() or autograd.grad(). Specify retain_graph=True if you need to "
        "backward through the graph a second time or if you need to access saved tensors after "
        "calling backward."
    )
    site = source.resolve_call_site(node.call_site)
    fields = _fields("second-backward", node.name(), node.seq) | {
        "tensor": {"name": None, "shape": tuple(node.shape), "dtype": node.dtype.name},
        "first_backward": first,
        "holders": _holders(node),
        "saved": {"site": site, "version": 0},
    }
    add_repair(fields)
    text += line_of("made at       ", site, f"({node.name()})")
    text += line_of("first backward", first)
    if fields["holders"]:
        names = ", ".join(f"`{name}`" for name in fields["holders"])
        text += f"\n  kept alive by   {names}"
    if fields["repair"]:
        text += f"\n  repair          {fields['repair']['text']}"
    fields["text"] = text
    return report(FreedGraphError(text, fields))  # type: ignore[no-any-return]


def detached(node: Any, name: str, tensor: Any) -> AutogradError:
    """A saved input was taken out of the graph with `detach_()` before backward."""
    fields = _fields("other", node.name(), node.seq, name) | {
        "tensor": describe_array(tensor._array, variable_name(lambda v: v is tensor)),
        "saved": {
            "site": source.resolve_call_site(node.call_site),
            "version": tensor._storage.snapshot[0],
        },
        "repair": {"text": "Use `detach()`: it leaves this tensor in the graph.", "code": None},
    }
    fields["text"] = text = (
        "Trying to use a saved tensor that has been detached in-place, i.e. with .detach_(). This "
        "is not supported, please use out-of-place `.detach()` instead." + lines(fields)
    )
    return report(AutogradError(text, fields))  # type: ignore[no-any-return]


def _inplace_fields(kind: str, tensor: Any, op: str) -> dict[str, Any]:
    fields = _fields(kind, op, None)
    fields["tensor"] = _described(tensor._array, lambda v: v is tensor, tensor)
    add_repair(fields)
    return fields


def leaf_inplace(tensor: Any, op: str, *, view: bool, used: bool = False) -> AutogradError:
    """An in-place op on a leaf that requires grad (or on a view of one)."""
    fields = _inplace_fields("leaf-inplace", tensor, op)
    what = "a view of a leaf" if view else "a leaf"
    verb = "has been used" if used else "is being used"
    where = fields["where"]
    text = f"{what} Variable that requires grad {verb} in an in-place operation."
    text += line_of("written at", where, f"({op})") + lines(fields)
    fields["text"] = text
    return report(LeafInplaceError(text, fields))  # type: ignore[no-any-return]


def view_inplace(tensor: Any, op: str, message: str, made: Any) -> AutogradError:
    """An in-place op on a view that autograd cannot follow; `made` is where the view was made."""
    fields = _inplace_fields("view-inplace", tensor, op)
    site = source.resolve_call_site(made)
    fields["made"] = site
    where = fields["where"]
    text = message + line_of("view made at", site)
    if op:
        text += line_of("written at  ", where, f"({op})")
    else:
        text += line_of("used at     ", where)
    text += lines(fields)
    fields["text"] = text
    return report(ViewInplaceError(text, fields))  # type: ignore[no-any-return]


def cannot_be_saved() -> RuntimeError:
    """An inference tensor that a node would have to save."""
    return RuntimeError(
        "Inference tensors cannot be saved for backward. Please do not use Tensors created in "
        "inference mode in computation tracked by autograd. To work around this, you can make a "
        "clone to get a normal tensor and use it in autograd, or use `torch.no_grad()` instead of "
        "`torch.inference_mode()`."
    )


def c_name(tensor: Any) -> str:
    """What torch's C++ calls a tensor's dtype."""
    names = {"float32": "float", "float64": "double", "int64": "long int", "int32": "int"}
    name: str = tensor.dtype.name
    return names.get(name, name)
