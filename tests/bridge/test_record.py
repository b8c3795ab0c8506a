"""Graphs and backwards of the real torch in the recorder, in pictures, pages and answers."""

from __future__ import annotations

import gc
import warnings
from typing import Any

import numpy as np
import pytest

import ag_visual as ag
from ag_visual.events import live
from ag_visual.observe.formulas.cards import card
from ag_visual.observe.record.details import node_details
from ag_visual.observe.record.held_values import array_of
from ag_visual.observe.wire.check import check
from ag_visual.session import commands
from ag_visual.session.session import current

from ..oracle import torch


def rows(recording: Any, table: str) -> list[dict[str, Any]]:
    columns = recording.tables[table]
    names = list(columns)
    return [dict(zip(names, row, strict=True)) for row in zip(*columns.values(), strict=True)]


def texts(recording: Any, table: str, column: str) -> list[str]:
    return [recording.strings[i] for i in recording.tables[table][column]]


def test_graph_runs_gradients_modules_and_saved_tensors_are_recorded() -> None:
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(4, 3), torch.nn.Tanh())
    x = torch.randn(2, 4)
    with ag.watch(torch, name="of torch") as watched:
        loss = model(x).square().mean()
        loss.backward()
    found = watched.recording
    assert found.name == current().runs.listed[-1]["name"] == "of torch"
    assert texts(found, "nodes", "name") == [
        *("TBackward0", "AddmmBackward0", "TanhBackward0", "PowBackward0", "MeanBackward0")
    ]
    assert sorted(texts(found, "leaves", "label")) == ["model.0.bias", "model.0.weight"]
    assert texts(found, "calls", "name") == ["Sequential", "0", "1"]
    assert len(rows(found, "scopes")) == 3
    saved = dict(zip(texts(found, "saved", "name"), rows(found, "saved"), strict=True))
    assert saved["result"]["bytes"] == 4 * 6
    assert saved["result"]["flags"] == 1
    assert saved["mat1"]["bytes"] == 4 * 8
    runs = rows(found, "runs")
    seqs = {
        row["seq"]: name
        for row, name in zip(rows(found, "nodes"), texts(found, "nodes", "name"), strict=True)
    }
    assert next(seqs.get(run["seq"], "leaf") for run in runs) == "MeanBackward0"
    norms = {int(run["seq"]): float(run["norm"]) for run in runs}
    for leaf, label in zip(rows(found, "leaves"), texts(found, "leaves", "label"), strict=True):
        grad = model.get_parameter(label.removeprefix("model.")).grad
        assert grad is not None
        assert norms[int(leaf["seq"])] == pytest.approx(float(grad.norm()))
    assert len({row["site"] for row in rows(found, "nodes")}) == 3


def test_a_node_is_described_as_one_of_this_engine(tmp_path: Any) -> None:
    with ag.watch(torch) as watched:
        x = torch.tensor([1.0, 2.0], requires_grad=True)
        y = x.exp()
        loss = (y * y).sum()
        recorder = current().recorder
        recorder.drain()
        picture = ag.show(loss)
        assert repr(picture) == (
            "<picture of 4 nodes: ExpBackward0, MulBackward0, SumBackward0, AccumulateGrad>"
        )
        seqs = dict(
            zip(
                texts(picture.recording, "nodes", "name"),
                picture.recording.tables["nodes"]["seq"],
                strict=True,
            )
        )
        details = node_details(recorder, int(seqs["MulBackward0"]), [locals()])
        check("NodeDetails", details, "details")
        assert details["runs"]  # the panel offers a check by finite differences
        assert [one["name"] for one in details["saved"]] == ["other", "self"]
        assert [one["version_then"] for one in details["saved"]] == [0, 0]
        assert details["saved"][0]["storage"] == details["saved"][1]["storage"]
        assert "y" in details["saved"][0]["shared_with"]
        assert details["site"]["text"] == "y * y"
        values = array_of(recorder, int(seqs["ExpBackward0"]), "saved:result")
        assert np.array_equal(values, y.detach().numpy())
        shown = card(recorder.node(int(seqs["ExpBackward0"])))  # type: ignore[arg-type]
        check("OpCard", shown, "card")
        assert (shown["op"], shown["derivatives"][0]["text"]) == (
            "exp",
            "(∂L) / (∂self) = grad · result",
        )
        assert "Another engine" in shown["note"]
        asked = {"seq": int(seqs["ExpBackward0"])}
        checked = commands._check(current(), asked)
        check("NodeCheck", checked, "check")
        assert checked["verdict"] == "agrees"
        told = commands._local(current(), asked, False)
        assert told["why"] == ""
        assert ag.explain(x, loss).reasons[0].kind == "no-backward"
        loss.backward()
        assert ag.explain(x).reasons[0].kind == "has-grad"
        assert node_details(recorder, int(seqs["MulBackward0"]))["saved"][0]["freed"]
    page = watched.save(tmp_path / "page.html")
    assert b"MulBackward0" in page.read_bytes() or page.stat().st_size > 100_000
    assert watched.save(tmp_path / "run.agv").exists()


def test_why_there_is_no_gradient() -> None:
    with ag.watch(torch):
        x = torch.ones(2, requires_grad=True)
        hidden = (x * 2).detach()
        loss = (hidden * torch.ones(2, requires_grad=True)).sum()
        answer = ag.explain(x, loss)
        assert [reason.kind for reason in answer.reasons] == ["not-connected", "graph-break"]
        assert "remove the detach()" in answer.advice
        with torch.no_grad():
            still = x * 3
        assert ag.explain(still).reasons[0].kind == "no-grad"
        assert ag.explain(x.argmax()).reasons[1].kind == "integer-dtype"


def test_stop_leaves_torch_as_it_was() -> None:
    def seen() -> Any:
        module = torch.nn.modules.module
        return (
            *(torch.autograd._engine_run_backward, vars(torch.autograd.Function)["apply"]),
            *(torch._C._len_torch_function_stack(), len(module._global_forward_pre_hooks)),
            *(len(module._global_forward_hooks), len(module._global_forward_hooks_always_called)),
        )

    before = seen()
    x = torch.ones(2, requires_grad=True)
    loss = (x * x).sum()
    watched = ag.watch(torch)
    assert seen() != before
    with torch.device("cpu"):  # a mode of the program's own, above
        loss.backward(retain_graph=True)
        watched.stop()
        assert torch._C._len_torch_function_stack() == 1
    watched.stop()
    assert seen() == before
    calls: list[int] = []
    node = loss.grad_fn
    handle = node.register_prehook(lambda grads: calls.append(1))
    loss.backward()
    assert calls == [1]
    handle.remove()
    node = None
    del loss
    gc.collect()


def test_what_is_watched_dies_as_it_did() -> None:
    import weakref

    with ag.watch(torch):
        x = torch.ones(3, requires_grad=True)
        y = x.exp()
        loss = y.sum()
        ends = weakref.ref(y), weakref.ref(loss)
        loss.backward()
        gc.disable()
        try:
            del y, loss
            assert [end() for end in ends] == [None, None]
        finally:
            gc.enable()
        assert x.grad is not None


def test_only_torch_itself_is_watched(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(TypeError, match="expected the module torch, but got ag_visual"):
        ag.watch(ag)
    with pytest.raises(TypeError, match="expected the module torch, but got int"):
        ag.watch(3)  # type: ignore[arg-type]
    monkeypatch.setattr(torch, "__version__", "2.4.1")
    with pytest.raises(RuntimeError, match=r"needs torch 2\.5 or newer, not 2\.4\.1"):
        ag.watch(torch)


def test_hooks_are_listed_with_their_lines_until_they_are_removed() -> None:
    def doubled(g: Any) -> Any:
        return g * 2

    with ag.watch(torch):
        x = torch.ones(2, requires_grad=True)
        y, z = (x * 3).unbind()
        before = z.register_hook(lambda g: None)  # nobody has looked at the graph yet
        (engine,) = live.engines
        node = engine.node_of(y)
        after = y.register_hook(doubled)
        assert node.hooked
        names = [(field.kind, field.name, field.number) for field in node.hook_fields()]
        outer = "test_hooks_are_listed_with_their_lines_until_they_are_removed.<locals>"
        assert names == [("tensor", f"{outer}.<lambda>", 1), ("tensor", f"{outer}.doubled", 0)]
        places = [field.call_site for field in node.hook_fields()]
        assert {place and place[0].co_name for place in places} == {outer.partition(".")[0]}
        before.remove()
        assert [field.number for field in node.hook_fields()] == [0]
        (y + z).backward()
        assert x.grad.tolist() == [6.0, 3.0]
        after.remove()
        assert node.hook_fields() == []


def test_hooks_and_prehooks_of_nodes_are_listed_and_looking_adds_none() -> None:
    def halved(grads: Any) -> Any:
        return tuple(g / 2 for g in grads)

    x = torch.ones(2, requires_grad=True)
    y = x * 3
    early = y.grad_fn.register_prehook(halved)
    with ag.watch(torch):
        seen: list[int] = []
        y.grad_fn.register_hook(lambda *grads: seen.append(1))
        (leaf,) = [below for below, _ in y.grad_fn.next_functions if below is not None]
        leaf.register_prehook(halved)
        (engine,) = live.engines
        node, sink = engine.node_of(y), engine.node_of(x)
        assert node.hooked
        for _ in range(2):
            fields = node.hook_fields()
            assert [field.kind for field in fields] == ["pre", "post"]
            assert [field.name.rpartition(".")[2] for field in fields] == ["halved", "<lambda>"]
            assert fields[0].call_site is None  # from before
            assert fields[1].call_site[0].co_name == "test_hooks_and_prehooks_of_nodes_" + (
                "are_listed_and_looking_adds_none"
            )
            assert [field.kind for field in sink.hook_fields()] == ["pre"]
        y.sum().backward(retain_graph=True)
        assert [field.kind for field in sink.hook_fields()] == ["pre"]
        assert (x.grad.tolist(), seen) == ([0.75, 0.75], [1])
        early.remove()
        assert [field.kind for field in node.hook_fields()] == ["post"]
    assert torch.autograd.function._HookMixin._register_hook.__module__.startswith("torch")


def test_what_left_a_graph_on_its_way_into_an_operation_is_recorded() -> None:
    with ag.watch(torch) as watched:
        x, w = (torch.ones(2, requires_grad=True) for _ in range(2))
        y = x.exp()
        left = y.detach()
        with torch.no_grad():
            scale = w * 2
        (w * left).add(scale).sum().backward()
        torch.cat([w, left]).sum().backward()
    found = watched.recording
    names = dict(zip(found.tables["nodes"]["seq"], texts(found, "nodes", "name"), strict=True))
    breaks = [
        (names[row["seq"]], name, kind, row["flags"], names.get(row["maker"]))
        for row, name, kind in zip(
            rows(found, "breaks"),
            texts(found, "breaks", "name"),
            texts(found, "breaks", "kind"),
            strict=True,
        )
    ]
    assert breaks == [
        ("MulBackward0", "other", "detach", 0, "ExpBackward0"),
        ("AddBackward0", "other", "no_grad", 1, None),
        ("CatBackward0", "tensors", "detach", 0, "ExpBackward0"),
    ]
    assert len({row["site"] for row in rows(found, "breaks")}) == 2


def test_what_made_a_cut_off_tensor_is_known_when_the_tensor_is_gone() -> None:
    with ag.watch(torch) as watched:
        made, judge = (torch.ones(2, requires_grad=True) for _ in range(2))
        fake = made.exp()
        (judge * fake.detach()).sum().backward()
        del fake
    found = watched.recording
    names = dict(zip(found.tables["nodes"]["seq"], texts(found, "nodes", "name"), strict=True))
    assert [names.get(row["maker"]) for row in rows(found, "breaks")] == ["ExpBackward0"]


def test_nested_tensors_are_recorded_with_the_lengths_that_they_have() -> None:
    parts = [torch.ones(2, 3), torch.ones(4, 3)]
    with ag.watch(torch) as watched, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        linear = torch.nn.Linear(3, 2)
        jagged = torch.nested.nested_tensor(parts, requires_grad=True, layout=torch.jagged)
        linear(jagged).values().sum().backward()
        strided = torch.nested.nested_tensor(parts, requires_grad=True)
        torch.nested.to_padded_tensor(linear(strided), 0.0).sum().backward()
    assert "2×?×2" in texts(watched.recording, "nodes", "shape")
    assert len(rows(watched.recording, "runs")) > 8
    assert linear.weight.grad is not None


def test_a_batch_of_gradients_is_recorded_where_it_has_no_memory_of_its_own() -> None:
    x = torch.randn(3, requires_grad=True)
    with ag.watch(torch) as watched:
        torch.autograd.functional.hessian(lambda v: v.pow(3).sum(), x, vectorize=True)
        (rows_of,) = torch.autograd.grad((x * x,), x, torch.eye(3), is_grads_batched=True)
    assert torch.equal(rows_of, torch.diag(2 * x.detach()))
    assert len(rows(watched.recording, "runs")) > 6


def test_an_error_of_the_recorder_does_not_reach_the_program(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fails(*_: object) -> None:
        raise ValueError("ours")

    before = torch.autograd._engine_run_backward
    with caplog.at_level("ERROR", "ag_visual"), ag.watch(torch):
        x = torch.ones(2, requires_grad=True)
        (x * 2).sum().backward()
        with monkeypatch.context() as patch:
            patch.setattr(current().recorder, "drain", fails)
            ag.watch(torch, problems_only=True).stop()
        assert not current().recorder.on
    assert torch.autograd._engine_run_backward is before
    assert "ours" in caplog.text
    current().clear()


def test_a_leaf_that_is_gone_had_its_storage() -> None:
    def program() -> None:
        weight = torch.ones(3, requires_grad=True)
        (weight * weight).sum().backward()

    with ag.watch(torch) as watched:
        program()
        found = watched.recording
    (leaf,) = rows(found, "leaves")
    assert leaf["storage"]
    assert {row["storage"] for row in rows(found, "saved")} == {leaf["storage"]}


@pytest.mark.filterwarnings("ignore:Sparse CSR tensor support is in beta")
def test_a_compressed_sparse_leaf_is_recorded() -> None:
    with ag.watch(torch) as watched:
        leaf = torch.eye(3).to_sparse_csr().requires_grad_()
        loss = (leaf @ torch.ones(3, 2)).sum()
        found = watched.recording  # torch itself finds no node of such a leaf
        loss.backward()
    assert len(rows(found, "leaves")) == 1
    assert len(rows(watched.recording, "runs")) == len(rows(found, "nodes")) + 1


def test_nodes_without_a_class_of_their_own_have_their_names() -> None:
    with ag.watch(torch) as watched:
        xs = [torch.ones(2, requires_grad=True) for _ in range(2)]
        (one, other) = torch._foreach_exp(torch._foreach_mul(xs, 2.0))
        (one + other).sum().backward()
    names = texts(watched.recording, "nodes", "name")
    assert names[:2] == ["ForeachMulBackward1Scalar", "ForeachExpBackward0"]
    assert {row["outputs"] for row in rows(watched.recording, "nodes")[:2]} == {2}


def norms_of(name: str, make: Any, gradient: Any) -> tuple[float, float]:
    """The norm recorded of what arrives at a node, and that of what a hook of ours is given."""
    given: list[float] = []
    x = torch.linspace(-1, 1, 300, requires_grad=True)
    y = x * 2
    y.register_hook(lambda gradient: given.append(float(gradient.norm())))
    with ag.watch(torch) as watched:
        make(y).backward(gradient)
    found = watched.recording
    names = dict(zip(found.tables["nodes"]["seq"], texts(found, "nodes", "name"), strict=True))
    (norm,) = [row["norm"] for row in rows(found, "runs") if names.get(row["seq"]) == name]
    return float(norm), given[0]


def test_what_is_given_on_in_part_or_was_written_unseen_has_its_own_norm() -> None:
    def tripled(y: Any) -> Any:
        z = y + 0.0
        z.register_hook(lambda gradient: (gradient.data.mul_(3), None)[1])
        return z + 0.0

    for make, gradient in (
        (lambda y: torch.complex(y, torch.zeros(300)), torch.full((300,), 1 + 2j)),
        (tripled, torch.ones(300)),
    ):
        recorded, given = norms_of("MulBackward0", make, gradient)
        assert recorded == pytest.approx(given)
