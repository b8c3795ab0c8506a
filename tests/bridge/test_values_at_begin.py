"""What a backward begins with: numbers that ops cannot use, gradients that were never zeroed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import ag_visual
from ag_visual.bridge.node import TorchNode, beginning
from ag_visual.engine.task import GraphTask, dependencies
from ag_visual.events import live
from ag_visual.observe.diagnose.odd_values import OddValues
from ag_visual.observe.record.held_gradients import MOST, HeldGradients

from ..oracle import torch
from ..work import counted


@pytest.fixture(params=["ag_visual", "torch"])
def engine(request: pytest.FixtureRequest) -> Iterator[Any]:
    if request.param == "ag_visual":
        yield ag_visual
        return
    with ag_visual.watch(torch):
        yield torch


def table(name: str, program: Callable[[], object]) -> list[dict[str, Any]]:
    with ag_visual.record() as recorded:
        program()
    found = recorded.recording
    columns = found.tables.get(name, {})
    rows = [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
    return [row | ({"name": found.strings[row["name"]]} if "name" in row else {}) for row in rows]


def test_zeros_that_go_into_a_log_are_counted(engine: Any) -> None:
    p = engine.tensor([0.0, 0.0, 0.5, 2.0], requires_grad=True)
    row, product, loss = table("odd", lambda: (engine.log(p * 1) * p).sum().backward())
    counts = [row[key] for key in ("elements", "zero", "negative", "beyond", "nan", "inf")]
    assert (row["name"], row["flags"], counts) == ("self", 0, [4, 2, 0, 1, 0, 0])
    assert product["inf"] == 2, "the loss is not finite: what the product saved is told, too"
    assert (loss["name"], loss["nan"]) == ("", 1)


def test_a_leaf_that_no_update_changes_is_told_once_others_were_updated_ten_times(
    engine: Any,
) -> None:
    body, head = (engine.ones(3, requires_grad=True) for _ in range(2))

    def program(changed: Any) -> None:
        for _ in range(14):
            body.grad = None
            (body * head).sum().backward()
            for each in changed:
                with engine.no_grad():
                    each -= 0.01 * each.grad

    told = []
    for changed in ([head], [], [body]):
        head.grad = None
        rows = table("held", lambda changed=changed: program(changed))  # type: ignore[misc]
        told.append([int(row["leaves"]) for row in rows if row["updates"] == 0])
    assert told[:2] == [[], []]
    # A recording that goes on, as the watched one, knows the body from the pass before.
    assert told[2] in ([1, 1], [1, 1, 1])


def test_what_no_node_made_is_told_apart(engine: Any) -> None:
    w = engine.ones(3, requires_grad=True)
    nan = engine.tensor([1.0, float("nan"), 1.0])

    def losses() -> Iterator[Any]:
        yield engine.nn.functional.mse_loss(w * 2, nan)
        yield ((w * 2) * nan).sum()
        yield ((w * 2) * (w * nan)).sum()

    def program() -> None:
        for loss in losses():
            loss.backward()
            engine.zeros(1, requires_grad=True).sum().backward()  # a finite one between

    saved = [(row["name"], int(row["flags"])) for row in table("odd", program) if row["name"]]
    assert saved == [("target", 2), ("other", 2), ("other", 2), ("other", 0)]


def test_fine_numbers_are_not_told(engine: Any) -> None:
    x = engine.tensor([0.5, 2.0], requires_grad=True)
    z = engine.tensor([0.0, -2.0], requires_grad=True)

    def program() -> None:
        (x.log() + x.sqrt() + 1 / x + x.exp() + (x / 3).asin() + x.norm()).sum().backward()
        (z**2 + z**3.0 + (z * z) ** 1.5 + z.exp()).sum().backward()

    assert table("odd", program) == []


def test_a_loss_that_is_not_finite_has_its_whole_graph_looked_through_once(engine: Any) -> None:
    x = engine.tensor([[1.0, float("nan")], [2.0, 3.0]])
    w = engine.ones((2, 2), requires_grad=True)

    def program() -> None:
        for _ in range(3):
            ((engine.tanh(x @ w) * 2) ** 2).sum().backward()

    rows = table("odd", program)
    losses = [row for row in rows if row["name"] == ""]
    assert [row["nan"] for row in losses] == [1, 1, 1], "that of each backward is told"
    rows = [row for row in rows if row["name"] != ""]
    assert {row["task"] for row in rows} == {losses[0]["task"]}
    assert {row["name"] for row in rows} == {"self", "result"}, "of the product, tanh, the square"
    assert rows[0]["nan"] == 1, "the data itself, before what was made of it"


def test_a_leaf_that_is_not_finite_is_told_though_no_op_saved_it(engine: Any) -> None:
    x = engine.tensor([[1.0, 2.0]])
    w = engine.tensor([[1.0, float("nan")], [2.0, 3.0]], requires_grad=True)
    leaf, loss = table("odd", lambda: (x @ w).sum().backward())
    assert (leaf["name"], leaf["nan"], leaf["elements"]) == ("", 1, 4)
    assert leaf["seq"] < loss["seq"]


def test_a_loss_that_is_not_finite_is_told_though_its_gradients_are(engine: Any) -> None:
    x = engine.tensor([1.0, 2.0], requires_grad=True)
    penalty = engine.tensor(float("inf"))
    (row,) = table("odd", lambda: (x.sum() + penalty).backward())
    assert (row["name"], row["flags"], row["inf"], row["elements"]) == ("", 1, 1, 1)


def test_kept_arrays_are_those_that_fields_tell_of(engine: Any) -> None:
    x = engine.tensor([0.5, 2.0], requires_grad=True)
    y = engine.tensor([3.0, 4.0])
    for made in (x * y, x.exp(), engine.cat([x, y]), x / y, engine.where(x > 1, x, y), x.sum()):
        node = made.grad_fn
        if engine is torch:
            node = live.engines[0].node_of(made)
        fields = {f.name: f.own_output for f in node.saved_fields() if f.kind == "tensor"}
        assert {name: own for name, own, _ in node.saved_arrays(100)} == fields
        for name, _, array in node.saved_arrays(100):
            assert (array == node.saved_array(name)).all()
        assert node.saved_arrays(0) == []


def test_what_hooks_have_packed_is_left_packed_as_a_backward_begins() -> None:
    unpacked: list[object] = []

    def unpack(kept: object) -> object:
        unpacked.append(kept)
        return kept

    with ag_visual.watch(torch):
        x = torch.ones(2, requires_grad=True)
        with torch.autograd.graph.saved_tensors_hooks(lambda t: t, unpack):
            y = x.log()
        node = live.engines[0].node_of(y)
        assert isinstance(node, TorchNode)
        assert node.saved_arrays(100) == []
        assert not unpacked
        y.sum().backward()
        assert len(unpacked) == 1, "by torch itself"


@pytest.mark.parametrize(
    ("exponent", "zero", "negative"), [(2, 0, 0), (-2, 1, 0), (1.5, 0, 2), (0.5, 1, 2)]
)
def test_only_numbers_that_an_exponent_does_not_take_are_counted(
    engine: Any, exponent: float, zero: int, negative: int
) -> None:
    x = engine.tensor([-2.0, -1.0, 0.0, float("inf")], requires_grad=True)
    with np.errstate(all="ignore"):
        found = table("odd", lambda: (x**exponent).sum().backward())
    counts = [(r["zero"], r["negative"], r["inf"]) for r in found if r["name"] == "self"]
    assert counts == [(zero, negative, 1)]


def test_a_loss_that_is_not_finite_is_seen_however_far_from_it_the_reason_is(engine: Any) -> None:
    """The ops between save nothing: the loss itself is looked at."""
    x = engine.tensor([1.0, float("inf")])
    w = engine.ones(2, requires_grad=True)

    def program() -> None:
        h = w * x
        for _ in range(12):
            h = h + 1
        h.sum().backward()

    row, loss = table("odd", program)
    assert (row["name"], row["inf"]) == ("other", 1)
    assert (loss["name"], loss["inf"]) == ("", 1)


def test_what_is_looked_at_grows_with_kinds_of_nodes_not_with_nodes() -> None:
    x, y = ag_visual.ones(2, requires_grad=True), ag_visual.ones(2)
    odd = OddValues()

    def calls(length: int) -> int:
        h = x
        for _ in range(length):
            h = h * y
        task = GraphTask()
        task.root_edges, task.tensors, task.call_site = [(h.grad_fn, 0)], (), None
        task.counts = dependencies(task.root_edges)
        return counted(lambda: odd.of(task))[1]

    calls(20)
    assert calls(220) == calls(20)


def test_the_nodes_of_a_backward_that_begins_are_not_sought(monkeypatch: Any) -> None:
    climbed: list[object] = []

    def direct(node: TorchNode, own: Any = TorchNode._direct) -> Any:
        found = own(node)
        climbed.extend([node] if found is None else [])
        return found

    x, y = torch.ones(2, requires_grad=True), torch.ones(2)
    with ag_visual.watch(torch):
        h = x
        for _ in range(20):
            h = h * y
        monkeypatch.setattr(TorchNode, "_direct", direct)
        h.sum().backward()
        assert climbed == []
    assert beginning == []


def test_a_power_needs_what_its_exponent_asks_for(engine: Any) -> None:
    z = engine.tensor([0.0, 1.0], requires_grad=True)
    row, *rest = table("odd", lambda: (z**0.5).sum().backward())
    assert rest == [], "the result is finite, its derivative is not"
    assert row["zero"] == 1


def step(w: Any, engine: Any) -> None:
    (w * w).sum().backward()
    with engine.no_grad():
        w -= 0.01 * w.grad


def test_gradients_that_nobody_zeroes_are_told(engine: Any) -> None:
    w = engine.ones(3, requires_grad=True)
    rows = table("held", lambda: [step(w, engine) for _ in range(5)])
    assert [(row["updates"], row["leaves"]) for row in rows] == [(2, 1), (3, 1)]


def loops(engine: Any) -> dict[str, Callable[[Any, Any], None]]:
    def none(w: Any, v: Any) -> None:
        w.grad = None
        step(w, engine)

    def zeros(w: Any, v: Any) -> None:
        step(w, engine)
        w.grad.zero_()

    def several_passes(w: Any, v: Any) -> None:
        for _ in range(4):
            (w * w).sum().backward()
        step(w, engine)
        w.grad = None

    def two_players(w: Any, v: Any) -> None:
        w.grad = None
        step(w, engine)
        v.grad = None
        (w * v).sum().backward()
        with engine.no_grad():
            v -= 0.01 * v.grad

    def no_update(w: Any, v: Any) -> None:
        (w * w).sum().backward()

    return {f.__name__: f for f in (none, zeros, several_passes, two_players, no_update)}


@pytest.mark.parametrize("loop", sorted(loops(None)))
def test_loops_that_zero_them_at_some_time_are_not(engine: Any, loop: str) -> None:
    w, v = engine.ones(3, requires_grad=True), engine.ones(3, requires_grad=True)
    once = loops(engine)[loop]
    assert table("held", lambda: [once(w, v) for _ in range(6)]) == []


def test_a_backward_that_was_missed_may_have_been_the_one_that_zeroed() -> None:
    held = HeldGradients()
    w = ag_visual.ones(3, requires_grad=True)
    found = []
    for i in range(6):
        loss = (w * w).sum()
        found.append(held.of([loss.grad_fn.next_functions[0][0].next_functions[0][0]]))
        loss.backward()
        with ag_visual.no_grad():
            w -= 0.01 * w.grad
        if i == 2:
            held.forget()
    assert [one and one[1] for one in found] == [None, None, None, None, None, 2]


def test_leaves_that_are_gone_are_forgotten() -> None:
    held = HeldGradients()
    for _ in range(5 * MOST):
        w = ag_visual.ones(2, requires_grad=True)
        loss = (w * w).sum()
        loss.backward(retain_graph=True)
        held.of([loss.grad_fn.next_functions[0][0].next_functions[0][0]])
    assert len(held._leaves) <= 2 * MOST + 1
