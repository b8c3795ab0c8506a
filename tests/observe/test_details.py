"""Answers about one node: from the living node, from the recording, and why there is none."""

from __future__ import annotations

import pytest

import ag_visual as ag
from ag_visual.observe.record.details import node_details, recorded_details
from ag_visual.observe.record.held_values import NotKeptError, array_of
from ag_visual.observe.wire.check import check


def leaf(*values):
    return ag.tensor(list(values), requires_grad=True)


def grown(recorder):
    """x, w, y = x * w, z = y * y, recorded and alive."""
    x, w = leaf(1.0, 2.0), leaf(3.0, 4.0)
    recorder.start()
    y = x * w
    z = y * y
    recorder.drain()
    return x, w, y, z


def test_living_node(recorder):
    x, w, y, z = grown(recorder)
    recorder.labels.learn_scope({"x": x, "w": w})
    found = node_details(recorder, y.grad_fn.seq, [{"x": x, "w": w, "y": y, "again": x.detach()}])
    check("NodeDetails", found, "node")
    assert found["name"] == "MulBackward0"
    assert found["site"]["text"] == "x * w"
    assert found["site"]["source_line"] == "y = x * w"
    assert [(below["name"], below["label"]) for below in found["next"]] == [
        ("torch::autograd::AccumulateGrad", "x"),
        ("torch::autograd::AccumulateGrad", "w"),
    ]
    saved = {s["name"]: s for s in found["saved"]}
    assert saved["self"]["shared_with"] == ["again", "x"]
    assert saved["self"]["storage"] == x._storage.uid
    assert (saved["self"]["version_then"], saved["self"]["version_now"]) == (0, 0)
    assert found["alive"] is True
    assert z is not None


def test_stale_version_shows(recorder):
    _, _, y, z = grown(recorder)
    with ag.no_grad():
        y.mul_(2.0)
    saved = node_details(recorder, z.grad_fn.seq)["saved"]
    assert [(s["version_then"], s["version_now"]) for s in saved] == [(0, 1), (0, 1)]


def test_other_nodes_on_the_same_storage_are_named(recorder):
    _, _, y, z = grown(recorder)
    other = y * 2.0 * y
    recorder.drain()
    shared = node_details(recorder, z.grad_fn.seq, [{"y": y}])["saved"][0]["shared_with"]
    assert "y" in shared
    assert "MulBackward0.other" in shared or "MulBackward0.self" in shared
    assert other is not None


def test_hooks_in_the_order_in_which_they_run(recorder):
    x, _, y, z = grown(recorder)

    def first(g):
        return g

    def second(grads):
        return grads

    def third(inputs, outputs):
        return inputs

    def after(tensor):
        return None

    y.grad_fn.register_hook(third)
    y.grad_fn.register_prehook(second)
    y.register_hook(first)
    y.retain_grad()
    x.register_hook(first)
    x.register_post_accumulate_grad_hook(after)
    hooks = node_details(recorder, y.grad_fn.seq)["hooks"]
    assert [h["kind"] for h in hooks] == ["tensor", "retain_grad", "pre", "post"]
    names = [h["name"].rpartition(".")[2] for h in hooks if h["kind"] != "retain_grad"]
    assert names == ["first", "second", "third"]
    below = y.grad_fn.next_functions[0][0]
    assert [h["kind"] for h in node_details(recorder, below.seq)["hooks"]] == [
        "tensor",
        "post_accumulate",
    ]
    assert z is not None


def test_dead_node_is_told_from_the_recording(recorder):
    _, _, y, z = grown(recorder)
    seq, below = z.grad_fn.seq, y.grad_fn.seq
    z.backward(ag.tensor([1.0, 1.0]))
    del z
    found = node_details(recorder, seq)
    check("NodeDetails", found, "node")
    assert found["alive"] is False
    assert found["outputs"] == [{"shape": [2], "dtype": "float32"}]
    assert [n["seq"] for n in found["next"]] == [below, below]
    assert [s["freed"] for s in found["saved"]] == [True, True]
    assert found["site"]["text"] == "y * y"


def test_recorded_and_living_agree_on_what_both_know(recorder):
    *_, z = grown(recorder)
    living = node_details(recorder, z.grad_fn.seq)
    recorded = recorded_details(recorder, z.grad_fn.seq)
    for field in ("seq", "name", "site", "outputs"):
        assert living[field] == recorded[field]
    for mine, told in zip(living["saved"], recorded["saved"], strict=True):
        for field in ("name", "shape", "dtype", "bytes", "version_then", "storage", "own_output"):
            assert mine[field] == told[field]


def test_values_that_can_and_cannot_be_had(recorder):
    x, _, y, z = grown(recorder)
    seq, below = z.grad_fn.seq, y.grad_fn.next_functions[0][0].seq
    assert array_of(recorder, seq, "saved:self") is y._array
    assert array_of(recorder, below, "variable") is x._array
    for args, words in [
        ((below, "grad"), "no .grad yet"),
        ((seq, "grad"), "pause before it"),
        ((seq, "variable"), "no variable"),
        ((seq, "saved:weight"), "no saved tensor 'weight'"),
        ((seq, "bias"), "which should be"),
        ((10**9, "grad"), "is gone"),
    ]:
        with pytest.raises(NotKeptError, match=words):
            array_of(recorder, *args)
    z.backward(ag.tensor([1.0, 1.0]))
    assert array_of(recorder, below, "grad") is x.grad._array
    with pytest.raises(NotKeptError, match="gave self back after its backward"):
        array_of(recorder, seq, "saved:self")


def test_never_recorded(recorder):
    with pytest.raises(NotKeptError, match="node 7 is not in this recording"):
        node_details(recorder, 7)
