"""The part of a built forward that makes the node of the call."""

from __future__ import annotations

from typing import Any

from ag_visual.dispatch.codegen.report import report_part
from ag_visual.dispatch.codegen.source import Writer
from ag_visual.dispatch.opmath import NARROW
from ag_visual.dispatch.record import KEEP, Op

HERE = "locate(getframe(1))"
RECORDED = "not modes.special or modes.state.fast"
"""Whether this thread's ops are recorded, as source, where it takes no slow path: to ask a thread
for its modes costs a tenth of a small op."""


def any_requires_grad(op: Op, first: str) -> str:
    """Whether an input requires grad, as source: the result then remembers why it doesn't."""
    return " or ".join(
        f"{name}._rg" if name == first else f"k_{name} and {name}._rg" for name in op.diff_inputs
    )


def node_part(
    op: Op,
    scope: dict[str, Any],
    lines: Writer,
    call_sites: bool,
    answer: str,
    recorded: str = RECORDED,
    lifted: bool = False,
) -> None:
    """The node of a call, where an input requires grad, and `answer` with it.

    recorded: whether ops are recorded now, as source: only asked where an input requires grad.
    lifted: at a level (see `at_level`), where inputs of below are constants.
    """
    add = lines.add
    edges = op.diff_inputs
    first = next(name for name in op.inputs if name not in op.no_promotion)
    # As in torch, a stale view may still be converted to integers, which have no history.
    keeps = op.policy == KEEP
    at = 2 if keeps else 1
    if keeps:
        add(1, "if dtype is F32 or dtype is F64 or dtype.kind in 'fcV':")
    wants = []
    for name in edges:
        maybe = lifted or name in op.optional or (not keeps and name != first)
        wants.append(f"g_{name}")
        depth = at
        if maybe:
            add(at, f"g_{name} = False")
            add(at, f"if {'l' if lifted else 'k'}_{name}:")
            depth += 1
        add(depth, f"v = {name}._view")
        stale = f"v is not None and v.snapshot is not {name}._store.snapshot"
        add(depth, f"if {stale} and ({recorded}): refresh({name})")
        add(depth, f"g_{name} = {name}._rg")
    if keeps:
        add(2, f"if ({' or '.join(wants)}) and ({recorded}):")
    else:
        add(1, f"if {' or '.join(wants)}:")
        add(2, f"if {recorded}:")
    if keeps and op.narrow_class is not None:
        scope.update(NARROW=NARROW, narrow_cls=op.narrow_class)
        usual = "dtype is F32 or dtype is F64 or dtype not in NARROW"
        add(3, f"node = cls() if {usual} else narrow_cls()")
    else:
        add(3, "node = cls()")
    fields_part(op, lines, lifted)
    place_part(lines, call_sites)
    if not lifted:
        report_part(op, scope, lines)
        add(3, f"return {answer}")
        _origin_part(op, lines, first, recorded)


def _origin_part(op: Op, lines: Writer, first: str, recorded: str) -> None:
    """How a result of what requires grad comes to require none."""
    if op.policy != KEEP:
        if not op.view:
            lines.add(2, f"out._origin = 'no_grad', {HERE}")
        return
    asked = any_requires_grad(op, first)
    if op.view:
        lines.add(1, f"elif ({asked}) and ({recorded}): out._origin = 'dtype', {HERE}")
    else:
        why = f"'dtype' if {recorded} else 'no_grad'"
        lines.add(1, f"if {asked}: out._origin = {why}, {HERE}")


def place_part(lines: Writer, call_sites: bool) -> None:
    """Where in the user's code the node was made, as `code` and `lasti`."""
    add = lines.add
    if call_sites:
        add(3, "frame = getframe(1)")
        add(3, "code = frame.f_code")
        known = "code is not caller.code and inside[code.co_filename]"
        add(3, f"if {known}: code, lasti = locate(frame)")
        add(3, "else:")
        add(4, "lasti = frame.f_lasti")
        add(4, "caller.code = code")
    else:
        add(3, "code, lasti = None, 0")
    add(3, "node.code = code")
    add(3, "node.lasti = lasti")


def fields_part(op: Op, lines: Writer, lifted: bool = False, apart: bool = False) -> None:
    """All else that a new node holds, and the edge to it.

    apart: its further outputs are the arrays `r1`, ... of the storages `st1`, ..., and no tensors.
    """
    add = lines.add
    edges = op.diff_inputs
    first = next(name for name in op.inputs if name not in op.no_promotion)
    for name in edges:
        add(3, f"e_{name} = ({name}._edge or accumulator({name})) if g_{name} else None")
    add(3, f"node.next = ({', '.join(f'e_{n}' for n in edges)},)")
    add(3, "node.seq = next(sequence)")
    add(3, "node.shape = shape = r.shape")
    add(3, "node.dtype = dtype")
    add(3, "node.outs = node.hooks = node.freed = node._metadata = None")
    if lifted and op.outputs[0] in op.saves:
        add(3, "st = out._storage")
    elif op.outputs[0] in op.saves and not op.view:
        # Who writes the result later must be told of by a storage that the node holds, too.
        add(3, "out._store = st = Storage()")
        add(3, "st.snapshot = ZERO")
        add(3, "st.log = None")
        add(3, "st.number = 0")
    for name in op.saves:
        asked = op.wanted_by(name)
        always = set(asked) >= set(edges)
        condition = " or ".join(f"g_{i}" for i in asked)
        if name in op.outputs:
            i = op.outputs.index(name)
            kept = (f"st{i}" if apart else f"out{i}._storage") if i else "st"
            add(3, f"node.o_{name} = ({kept}, {i}, {i == 0})")
            add(3, f"node.t_{name} = {kept}.snapshot")
            value = "out._own()" if lifted else "r"
            if i:
                value = f"r{i}" if apart else f"out{i}._array"
            add(3, f"node.s_{name} = {value}" + ("" if always else f" if {condition} else None"))
            continue
        depth = 3
        if not always:
            add(3, f"if {condition}:")
            depth = 4
        plain = name == first and not lifted
        snapshot = f"{name}._store.snapshot"
        if not plain:
            absent = f"(None if {name} is not None else False)" if name in op.optional else "None"
            snapshot += f" if k_{name} else {absent}"
        add(depth, f"node.s_{name} = {name}")
        add(depth, f"node.t_{name} = {snapshot}")
        if not always:
            add(3, f"else: node.s_{name}, node.t_{name} = None, False")
    for name in op.values:
        add(3, f"node.a_{name} = {name}")
    for name in op.shapes:
        owner, _, what = name.rpartition("_")
        maybe = lifted or owner != first
        fact = f"{owner}.device" if lifted and what == "device" else f"a_{owner}.{what}"
        if maybe:
            absent = f"() if a_{owner} is not None else None" if what == "shape" else "None"
            fact = f"{fact} if k_{owner} else ({absent})"
        add(3, f"node.h_{name} = {fact}")
    add(3, "out._edge = (node, 0, shape, dtype)")
    add(3, "out._rg = True")
