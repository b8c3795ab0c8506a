"""Jacobians that are computed while recorded: as matrices, with the nodes of their ends."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import ag_visual as ag
from ag_visual.autograd import functional
from ag_visual.events import instrument
from ag_visual.func import hessian, jacfwd, jacrev, vmap
from ag_visual.observe.record.jacobians import MOST
from ag_visual.observe.wire.check import check
from ag_visual.session.session import Session

W = ag.arange(6.0).reshape(2, 3) / 10
X = ag.tensor([1.0, 2.0, 3.0])


def layer(x: Any) -> Any:
    return ag.tanh(W @ x)


def energy(x: Any) -> Any:
    return (x**3).sum()


@pytest.fixture
def told(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., list[dict[str, Any]]]]:
    """What a session has kept of a program."""
    for name in ("begin", "end", "problem", "losing_tangents", "jacobian", "sink"):
        monkeypatch.setattr(instrument, name, None)
    session = Session()

    def run(*programs: Callable[[], Any]) -> list[dict[str, Any]]:
        session.start()
        for program in programs:
            program()
        session.recorder.stop()
        for one in session.jacobians.found:
            check("Jacobian", one, "jacobian")
        return session.jacobians.found

    yield run
    session.close()


EXPECTED = (1 - np.tanh((W @ X).numpy()) ** 2)[:, None] * W.numpy()


@pytest.mark.parametrize(
    ("kind", "program"),
    [
        ("jacrev", lambda: jacrev(layer)(X)),
        ("jacfwd", lambda: jacfwd(layer)(X)),
        ("jacobian", lambda: functional.jacobian(layer, X)),
        ("jacobian", lambda: functional.jacobian(layer, X, vectorize=True)),
    ],
)
def test_rows_are_outputs_and_columns_inputs(told: Any, kind: str, program: Any) -> None:
    [one] = told(program)
    assert (one["kind"], one["function"]) == (kind, "layer")
    [row], [column], [block] = one["rows"], one["columns"], one["blocks"]
    assert (row["name"], row["shape"]) == ("layer", [2])
    assert (column["name"], column["shape"]) == ("x", [3])
    picture = block["values"]["picture"]
    assert (picture["rows"], picture["cols"], picture["pooled"]) == (2, 3, False)
    np.testing.assert_allclose(picture["values"], EXPECTED.ravel(), rtol=1e-3)


def test_ends_are_nodes_of_the_graph(told: Any) -> None:
    one, _ = told(lambda: jacrev(layer)(X), lambda: functional.jacobian(layer, X))
    for each in (one, _):
        assert each["rows"][0]["seq"] > each["columns"][0]["seq"] > 0


@pytest.mark.parametrize(
    "compute", [lambda: hessian(energy)(X), lambda: functional.hessian(energy, X)]
)
def test_a_hessian_is_one_matrix_of_gradients_by_inputs(told: Any, compute: Any) -> None:
    [one] = told(compute)
    assert (one["kind"], one["function"]) == ("hessian", "energy")
    assert [end["name"] for end in (*one["rows"], *one["columns"])] == ["x", "x"]
    assert one["rows"][0]["seq"] is not None
    picture = one["blocks"][0]["values"]["picture"]
    np.testing.assert_allclose(picture["values"], np.diag([6.0, 12.0, 18.0]).ravel())


def test_several_inputs_and_outputs_are_blocks(told: Any) -> None:
    def both(a: Any, b: Any) -> Any:
        return a * b.sum(), {"c": b * 2}

    [one] = told(lambda: jacrev(both, argnums=(0, 1))(X, W))
    assert [end["name"] for end in one["rows"]] == ["both[0]", "both[1]"]
    assert [(end["name"], end["shape"]) for end in one["columns"]] == [("a", [3]), ("b", [2, 3])]
    assert [(block["row"], block["column"]) for block in one["blocks"]] == [
        *((0, 0), (0, 1)),
        *((1, 0), (1, 1)),
    ]
    assert one["blocks"][1]["values"]["shape"] == [3, 6]


def test_what_lies_inside_of_another_transform_is_no_matrix_of_its_own(told: Any) -> None:
    assert told(lambda: vmap(jacrev(layer))(ag.ones(4, 3))) == []


def test_the_newest_are_kept(told: Any) -> None:
    found = told(*[lambda: jacrev(lambda x: x * 2)(X)] * (MOST + 3))
    assert [one["id"] for one in found] == list(range(4, MOST + 4))
    assert found[-1]["function"] == "f"


def test_a_large_one_is_pooled(told: Any) -> None:
    [one] = told(lambda: jacrev(lambda x: x * 2)(ag.ones(200)))
    picture = one["blocks"][0]["values"]["picture"]
    assert picture["rows"] * picture["cols"] <= 4096
    assert picture["pooled"] is True


def test_nobody_is_told_where_nobody_records() -> None:
    assert instrument.jacobian is None or instrument.sink is None
    jacrev(layer)(X)
