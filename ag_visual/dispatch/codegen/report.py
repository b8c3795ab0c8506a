"""The part of a built forward that tells the event sink of its node."""

from __future__ import annotations

from typing import Any

from ag_visual.dispatch.codegen.source import Writer
from ag_visual.dispatch.record import KEEP, Op
from ag_visual.events.node_record import NodeSchema, node_record, row


def report_part(
    op: Op, scope: dict[str, Any], lines: Writer, node_class: str = "cls", apart: bool = False
) -> None:
    """The record of saved.report_node, with what is known here written out.

    node_class: its name in the scope. apart: as `node.fields_part` says.
    """
    add = lines.add
    add(3, "sink = instrument.sink")
    add(3, "if sink is not None:")
    kinds: list[str] = []
    numbers: list[str] = []
    declared = []
    edges = op.diff_inputs
    first = next(name for name in op.inputs if name not in op.no_promotion)
    for name in op.saves:
        own = name in op.outputs
        if not own and name not in op.inputs:
            continue
        asked = op.wanted_by(name)
        # What says whether `fields_part` has saved it, and that it is a tensor.
        known = [] if set(asked) >= set(edges) else [f"({' or '.join(f'g_{i}' for i in asked)})"]
        shape, dtype, kind = f"z_{name}", f"y_{name}", ""
        if own:
            i = op.outputs.index(name)
            array, store = "r", "st"
            if i:
                array, store = (
                    (f"r{i}", f"st{i}") if apart else (f"out{i}._array", f"out{i}._storage")
                )
            else:
                kind = "dtype"
        else:
            array, store = f"a_{name}", f"{name}._store"
            if name != first:
                known.append(f"k_{name}")
            if op.policy != KEEP and name not in op.no_promotion:
                kind = "d"
        depth = 5 if known else 4
        if known:
            add(4, f"if {' and '.join(known)}:")
        add(depth, f"store = {store}")
        if not own:
            add(depth, f"if store is FRESH: store = {name}._storage")
        add(depth, f"{shape} = " + ("shape" if array == "r" else f"{array}.shape"))
        add(depth, f"{dtype} = {kind or f'{array}.dtype'}")
        add(depth, f"u_{name} = store.number")
        add(depth, f"if not u_{name}: u_{name} = store.number = next(uids)")
        add(depth, f"v_{name} = store.snapshot[0]")
        if known:
            add(4, "else:")
            add(5, f"{shape} = {dtype} = None")
            add(5, f"u_{name} = v_{name} = 0")
        kinds += (shape, dtype)
        numbers += (f"u_{name}", f"v_{name}")
        declared.append((name, own))
    schema = NodeSchema(scope[node_class], 1, tuple(declared))
    record = node_record(len(edges), len(declared))
    of = f"_{node_class}"
    scope |= {f"schema{of}": schema, f"record{of}": record, f"pack{of}": record.pack}
    outputs = [f"e_{n}[1] if g_{n} else 0" for n in edges]
    seqs = [f"e_{n}[0].seq if g_{n} else -1" for n in edges]
    if len(edges) == 1:  # there would be no node
        outputs, seqs = [f"e_{edges[0]}[1]"], [f"e_{edges[0]}[0].seq"]
    packed = row(("last[2]", "clock()", "thread()", "node.seq"), seqs, numbers)
    add(4, f"facts = ({', '.join(row(('shape', 'dtype'), outputs, kinds))})")
    # To compare with the last facts of the place takes half as long as to look all of them up.
    add(4, f"last = sink.cache.get(lasti + {schema.spread})")
    add(4, "if last is None or last[1] is not code or last[0] != facts:")
    add(5, f"last = sink.nodes[record{of}].key(schema{of}, code, lasti, facts)")
    add(4, f"node._record = packed = pack{of}({', '.join(packed)})")
    add(4, "last[3](packed)")
    for name in edges if len(edges) > 1 else ():
        maybe = name in op.optional or (op.policy != KEEP and name != first)
        add(4, f"if {f'k_{name} and ' if maybe else ''}not g_{name}:")
        # To find a slot empty takes 0.25 us: once is enough.
        add(5, f"try: cut = {name}._origin")
        add(5, f"except AttributeError: cut = {name}._origin = None")
        report = f"report_breaks(node, (('{name}', {name}),))"
        add(5, f"if cut is not None or {name}._view is not None: {report}")
