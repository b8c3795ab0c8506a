"""Programs with sparse gradients, recorded and looked at as in the Inspector."""

from __future__ import annotations

import json

import pytest

import ag_visual as ag
from ag_visual.observe.record.held_values import array_of
from ag_visual.observe.record.summaries import summarize
from ag_visual.session.session import current


@pytest.mark.parametrize("scalars", [False, True])
def test_programs_are_recorded(scalars: bool) -> None:
    w = ag.ones(4, 3, requires_grad=True)
    seen: list[bool] = []
    with ag.record(scalars=scalars) as taken:
        y = w * 2
        y.retain_grad()
        y.register_hook(lambda g: g * 2)
        w.register_hook(lambda g: seen.append(g.is_sparse))
        at = ag.tensor([[1, 2], [1, 0]])
        for mode in ("sum", "mean"):
            bags = ag.nn.functional.embedding_bag(at, y, sparse=True, mode=mode)
            (bags**2).sum().backward(retain_graph=True)
        loss = (ag.nn.functional.embedding(at, y, sparse=True) ** 2).sum()
        loss.backward(retain_graph=True)
        (g,) = ag.autograd.grad(loss, w, create_graph=True)
        (g.to_dense() ** 2).sum().backward()
        assert w.grad is not None
        (w.grad.coalesce().to_dense() * 2).sum()
        ag.optim.SparseAdam([w]).step()
    assert seen == [True] * 5
    record = taken.recording.record
    names = {detail["name"] for detail in record["details"].values()}
    assert {"EmbeddingBackward0", "SparseCooTensorWithDimsAndTensorsBackward0"} <= names
    assert json.dumps(record)


def test_the_gradient_of_a_leaf_is_told_as_sparse() -> None:
    w = ag.ones(4, 3, requires_grad=True)
    with ag.record():
        rows = ag.nn.functional.embedding(ag.tensor([1, 1]), w, sparse=True)
        (rows**2).sum().backward()
        assert rows.grad_fn is not None
        leaf = rows.grad_fn.next_functions[0][0]
        assert leaf is not None
        current().recorder.drain()
        values = summarize(array_of(current().recorder, leaf.seq, "grad"))
    assert values["shape"] == [4, 3]
    assert values["text"].startswith("sparse, nnz=2 of shape [4, 3]")


def test_a_program_waits_where_it_arrives(capsys: pytest.CaptureFixture[str]) -> None:
    w = ag.ones(4, 3, requires_grad=True)
    answers = iter(["p", "scale 10", "c"])
    with ag.debugger("AccumulateGrad", ask=lambda prompt: next(answers)):
        (ag.nn.functional.embedding(ag.tensor([1, 1]), w, sparse=True) ** 2).sum().backward()
    assert w.grad is not None
    assert w.grad.is_sparse
    assert w.grad.to_dense()[1].tolist() == [40.0] * 3
