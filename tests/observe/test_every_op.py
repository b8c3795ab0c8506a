"""Every op of the table, watched: its node is told right, explained, summed up and drawn."""

from __future__ import annotations

import json
from typing import Any

import numpy as np

import ag_visual as ag
from ag_visual.core.node import AccumulateGrad
from ag_visual.dispatch.record import Op
from ag_visual.events import instrument
from ag_visual.events.log import EventLog
from ag_visual.observe.export.dot import dot_text
from ag_visual.observe.record.details import node_details, recorded_details
from ag_visual.observe.record.graph import emit_creations, walk
from ag_visual.observe.record.held_values import array_of
from ag_visual.observe.record.recorder import Recorder
from ag_visual.observe.record.summaries import summarize
from ag_visual.observe.wire.check import check
from ag_visual.observe.wire.columns import Encoder, by_kind

from ..properties.cases import calls, carrying, differentiable, every, run, settled


def grown(op: Op) -> list[Any]:
    """The outputs of the op's samples that carry gradients."""
    found = []
    for call in calls(op):
        values, leaves = call.tensors()
        if leaves:
            found += [out for out in carrying(op, run(op, values)) if out.requires_grad]
    return found


def gradient(op: Op, out: Any) -> Any:
    """Ones, where the op allows it: not along the phase of an eigenvector."""
    number = op.differentiable[out.output_nr] if not op.multi else 0
    with ag.no_grad():
        ones = np.ones(tuple(out.shape), out.dtype.np)
        return ag.from_numpy(np.asarray(settled(op, number, out.detach(), ones), out.dtype.np))


def nodes_of(outputs: list[Any]) -> list[Any]:
    return walk([out.grad_fn for out in outputs])


def told_by(log: EventLog, nodes: list[Any]) -> dict[str, dict[str, list[Any]]]:
    """What the log tells of these nodes, but for when; strings and places in words."""
    encoder = Encoder(0)
    read = encoder.nodes([(stream, stream.records) for stream in log.nodes.values()])
    assert read is not None
    tables = encoder.encode(by_kind(()), nodes=read).tables
    texts = {"name": encoder.strings.texts, "shape": encoder.strings.texts}
    texts["dtype"] = encoder.strings.texts
    found: dict[str, dict[str, list[Any]]] = {}
    for table, key in (("nodes", "seq"), ("edges", "src"), ("saved", "node")):
        columns = {
            n: v.tolist() for n, v in tables.get(table, {}).items() if n not in ("t", "step")
        }
        rows = [i for i, seq in enumerate(columns.get(key, ())) if seq in {n.seq for n in nodes}]
        found[table] = {
            name: [texts[name][values[i]] if name in texts else values[i] for i in rows]
            for name, values in columns.items()
        }
    found["nodes"]["site"] = [encoder.sites.found[i].text for i in found["nodes"]["site"]]
    return found


@every(differentiable)
def test_what_the_fast_path_tells_is_what_the_node_tells_later(op: Op, monkeypatch: Any) -> None:
    log, later = EventLog(), EventLog()
    monkeypatch.setattr(instrument, "sink", log)
    outputs = grown(op)
    monkeypatch.setattr(instrument, "sink", None)
    nodes = [node for node in nodes_of(outputs) if not isinstance(node, AccumulateGrad)]
    assert nodes
    emit_creations(nodes, later)
    found = told_by(log, nodes)
    assert found == told_by(later, nodes)
    assert found["nodes"]["seq"] == [node.seq for node in nodes]
    assert found["nodes"]["name"] == [node.name() for node in nodes]
    held = {node.seq for r in log.refs if (node := r()) is not None}
    told = {record for stream in log.nodes.values() for record in stream.records}
    assert all(node.seq in held or node._record in told for node in nodes)


@every(differentiable)
def test_its_node_is_explained_and_its_values_summed_up(op: Op) -> None:
    recorder = Recorder()
    recorder.start()
    try:
        outputs = grown(op)
    finally:
        recorder.stop()
    recorder.drain()
    for node in nodes_of(outputs):
        living = node_details(recorder, node.seq)
        check("NodeDetails", living, op.name)
        json.dumps(living, allow_nan=False)
        recorded = recorded_details(recorder, node.seq)
        check("NodeDetails", recorded, op.name)
        assert [s["name"] for s in living["saved"]] == [s["name"] for s in recorded["saved"]]
        for saved in living["saved"]:
            array = array_of(recorder, node.seq, f"saved:{saved['name']}")
            found = summarize(getattr(array, "_array", array))
            check("Values", found, op.name)
            assert found["shape"] == saved["shape"]
            assert found["dtype"] == saved["dtype"]
            assert found["bytes"] == saved["bytes"]
    assert dot_text(outputs).count(" -> ") >= len({out.grad_fn for out in outputs}) > 0


@every(differentiable)
def test_its_backward_is_told_from_begin_to_end(op: Op) -> None:
    recorder = Recorder()
    for out in grown(op):
        g = gradient(op, out)
        recorder.start()
        before = len(recorder.chunks())
        with np.errstate(all="ignore"):
            out.backward(g, retain_graph=True)
        recorder.stop()
        rows = recorder.chunks()[before:]
        runs = [seq for c in rows if "runs" in c.tables for seq in c.tables["runs"]["seq"].tolist()]
        tasks = [
            e for c in rows if "tasks" in c.tables for e in c.tables["tasks"]["ended"].tolist()
        ]
        assert tasks == [0, 1]
        assert out.grad_fn.seq in runs
        assert len(runs) == len(set(runs))


def test_an_own_output_is_marked_as_such() -> None:
    x = ag.tensor([1.0], requires_grad=True)
    recorder = Recorder()
    recorder.start()
    y = x.exp()
    recorder.stop()
    recorder.drain()
    (saved,) = node_details(recorder, y.grad_fn.seq)["saved"]
    assert saved["own_output"] is True
    assert saved["storage"] == y._storage.uid
