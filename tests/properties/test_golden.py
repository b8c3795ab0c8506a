"""Node classes: torch's names and torch's saved attributes, from the golden list."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest

from ag_visual.core.tensor import Tensor
from ag_visual.ops.record import Op
from ag_visual.ops.table import ops

from .cases import differentiable

GOLDEN = Path(__file__).parents[1] / "golden"


def rows(name: str) -> dict[str, list[str]]:
    lines = (GOLDEN / name).read_text(encoding="utf-8").splitlines()
    body = [line.split("\t") for line in lines if line and not line.startswith("#")]
    return {first: rest for first, *rest in body[1:]}


ATTRIBUTES = {
    node: set(rest[0].split(",")) - {""} for node, rest in rows("node_saved_attrs.tsv").items()
}
NODES: dict[str, list[Op]] = defaultdict(list)
for _op in ops.values():
    if differentiable(_op):
        NODES[_op.node_name].append(_op)


def attributes(node_class: Any) -> set[str]:
    return {name for name in dir(node_class) if name.startswith("_saved_")}


@pytest.mark.parametrize("node", sorted(NODES))
def test_a_node_has_torchs_saved_attributes(node: str) -> None:
    """Together the ops of one node have all of torch's attributes, and none has another."""
    if node not in ATTRIBUTES:
        # Newer than the list (2.8), or ours alone: it must not take a name from it.
        assert node.removesuffix("0") not in {known.removesuffix("0") for known in ATTRIBUTES}
        return
    found = [attributes(op.node_class) for op in NODES[node]]
    for op, own in zip(NODES[node], found, strict=True):
        assert own <= ATTRIBUTES[node], op.name
    # torch's own notes on the sizes of inputs are not wanted.
    assert set().union(*found) == {a for a in ATTRIBUTES[node] if "_sym_" not in a}


def test_the_golden_list_has_no_rows_that_nobody_uses() -> None:
    assert sorted(set(ATTRIBUTES) - set(NODES) - {"AccumulateGrad", "CopySlices"}) == []


@pytest.mark.parametrize("node", sorted(NODES))
def test_each_saved_attribute_can_be_read(node: str) -> None:
    from .cases import calls, run

    for op in NODES[node]:
        values, _ = calls(op)[0].tensors()
        grad_fn = run(op, values)[op.differentiable[0]].grad_fn
        for name in attributes(op.node_class):
            getattr(grad_fn, name)
        for name in op.saves:
            assert hasattr(op.node_class, f"_raw_saved_{name}")


def public_names(op: Op) -> list[str]:
    return [f"{space}{op.called}" for space in ("", "nn.functional.", "linalg.")]


@pytest.mark.parametrize("op", [op for op in ops.values() if op.public], ids=lambda op: op.name)
def test_the_record_agrees_with_torchs_op_list(op: Op) -> None:
    """What torch differentiates, and on complex numbers, and in place, is so here."""
    listed = rows("ops.tsv")
    row = next((listed[name] for name in public_names(op) if name in listed), None)
    if row is None:
        return
    differentiates, takes_complex, _, twin, *_ = [cell == "yes" for cell in row]
    if differentiates:
        assert op.rules or op.called in ("isclose",)
    if takes_complex and op.rules:
        assert not op.real
    if twin:
        assert hasattr(Tensor, f"{op.called}_")
