"""The part of a built forward that tells the event sink of its node."""

from __future__ import annotations

from typing import Any

from ag_visual.dispatch.codegen.source import Writer
from ag_visual.dispatch.record import KEEP, Op
from ag_visual.events.node_record import NodeSchema, node_record, row


def report_part(op: Op, scope: dict[str, Any], lines: Writer) -> None:
    """The record of saved.report_node, with what is known here written out."""
    add = lines.add
    kinds: list[str] = []
    numbers: list[str] = []
    declared = []
    for name in op.saves:
        own = name in op.outputs
        shape, dtype = f"z_{name}", f"y_{name}"
        if own:
            i = op.outputs.index(name)
            array, store = (f"out{i}._array", f"out{i}._storage") if i else ("r", "st")
            add(4, f"if node.s_{name} is {array}:")
            add(5, f"store = {store}")
        elif name in op.inputs:
            array = f"a_{name}"
            add(4, f"if node.s_{name} is {name} and type({array}) is ndarray:")
            add(5, f"store = {name}._store")
            add(5, f"if store is FRESH: store = {name}._storage")
        else:
            continue
        known = array == "r"
        add(5, f"{shape} = " + ("shape" if known else f"{array}.shape"))
        same = name in op.inputs and op.policy != KEEP and name not in op.no_promotion
        add(5, f"{dtype} = " + ("dtype" if known else "d" if same else f"{array}.dtype"))
        add(5, f"u_{name} = store.number")
        add(5, f"if not u_{name}: u_{name} = store.number = next(uids)")
        add(5, f"v_{name} = store.snapshot[0]")
        add(4, "else:")
        add(5, f"{shape} = {dtype} = None")
        add(5, f"u_{name} = v_{name} = 0")
        kinds += (shape, dtype)
        numbers += (f"u_{name}", f"v_{name}")
        declared.append((name, own))
    scope["schema"] = schema = NodeSchema(scope["cls"], 1, tuple(declared))
    scope["record"] = record = node_record(len(op.diff_inputs), len(declared))
    scope["pack"] = record.pack
    outputs = [f"0 if e_{n} is None else e_{n}[1]" for n in op.diff_inputs]
    seqs = [f"-1 if e_{n} is None else e_{n}[0].seq" for n in op.diff_inputs]
    packed = row(("last[2]", "clock()", "thread()", "node.seq"), seqs, numbers)
    add(4, "code = node.code")
    add(4, "lasti = node.lasti")
    add(4, f"facts = ({', '.join(row(('shape', 'dtype'), outputs, kinds))})")
    # To compare with the last facts of the place takes half as long as to look all of them up.
    add(4, f"last = sink.cache.get(lasti + {schema.spread})")
    add(4, "if last is None or last[1] is not code or last[0] != facts:")
    add(5, "last = sink.nodes[record].key(schema, code, lasti, facts)")
    add(4, "sink.keep(ref(node))")
    add(4, f"last[3](pack({', '.join(packed)}))")
    first = next(name for name in op.inputs if name not in op.no_promotion)
    for name in op.diff_inputs:
        maybe = name in op.optional or (op.policy != KEEP and name != first)
        add(4, f"if {f'k_{name} and ' if maybe else ''}not g_{name}:")
        # To find a slot empty takes 0.25 us: once is enough.
        add(5, f"try: cut = {name}._origin")
        add(5, f"except AttributeError: cut = {name}._origin = None")
        report = f"report_breaks(node, (('{name}', {name}),))"
        add(5, f"if cut is not None or {name}._view is not None: {report}")
