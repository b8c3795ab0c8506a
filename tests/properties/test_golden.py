"""Node classes: torch's names and torch's saved attributes, from the golden list."""

from __future__ import annotations

import inspect
from collections import defaultdict
from functools import cache
from pathlib import Path
from typing import Any

import pytest

import ag_visual as ag
from ag_visual.core.tensor import Tensor
from ag_visual.dispatch.record import Op
from ag_visual.dispatch.table import ops

from ..oracle import torch
from .cases import calls, differentiable, for_all, run

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


def test_a_node_has_torchs_saved_attributes() -> None:
    """Together the ops of one node have all of torch's attributes, and none has another."""
    for_all(sorted(NODES), has_torchs_attributes)


def has_torchs_attributes(node: str) -> None:
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


def test_each_saved_attribute_can_be_read() -> None:
    for_all(sorted(NODES), reads_saved_attributes)


def reads_saved_attributes(node: str) -> None:
    for op in NODES[node]:
        values, _ = calls(op)[0].tensors()
        grad_fn = run(op, values)[op.differentiable[0]].grad_fn
        for name in attributes(op.node_class):
            getattr(grad_fn, name)
        for name in op.saves:
            assert hasattr(op.node_class, f"_raw_saved_{name}")


@cache
def reasons(what: str) -> dict[str, str]:
    """The names of which something in the list does not hold, and why."""
    lines = (GOLDEN / "ops_reasons.tsv").read_text(encoding="utf-8").splitlines()
    found = [line.split("\t") for line in lines if not line.startswith("#")][1:]
    return {name: reason for name, kind, reason in found if kind == what}


LISTED = rows("ops.tsv")


def public(name: str) -> Any:
    """What a name of the list is here, as a function or else as a method; None where it is not."""
    for root in (ag, Tensor):
        found: Any = root
        for part in name.split("."):
            found = getattr(found, part, None)
        if found is not None and not isinstance(found, ag.dtype):
            return found
    return None


def holds(name: str, what: str, found: bool) -> None:
    """A claim of the list holds, or a reason says why not: never both."""
    assert found != (name in reasons(what)), f"{name}: {what}"


def test_every_name_of_torchs_list_is_here() -> None:
    for_all(LISTED, lambda name: holds(name, "name", public(name) is not None))


@pytest.mark.oracle
def test_what_is_a_method_there_is_one_here() -> None:
    methods = [name for name in LISTED if hasattr(torch.Tensor, name)]
    for_all(methods, lambda name: holds(name, "method", hasattr(Tensor, name)))


def parameters(function: Any) -> Any:
    return inspect.signature(function).parameters


def test_what_has_an_inplace_variant_there_has_one_here() -> None:
    def check(name: str) -> None:
        last = name.rpartition(".")[2]
        found = last.endswith("_") or any(public(f"{n}_") for n in (name, last))
        holds(name, "variant", bool(found) or "inplace" in parameters(public(name)))

    for_all([name for name, row in LISTED.items() if row[3:4] == ["yes"]], check)


def test_what_takes_out_there_takes_it_here() -> None:
    taking = [name for name, row in LISTED.items() if row[4:5] == ["yes"]]
    for_all(taking, lambda name: holds(name, "out", "out" in parameters(public(name))))


def public_names(op: Op) -> list[str]:
    return [f"{space}{op.public_name}" for space in ("", "nn.functional.", "linalg.")]


def test_the_record_agrees_with_torchs_op_list() -> None:
    """What torch differentiates, also forwards, and on complex numbers, is so here."""
    for_all([op for op in ops.values() if op.public], agrees_with_the_list)


def agrees_with_the_list(op: Op) -> None:
    row = next((LISTED[name] for name in public_names(op) if name in LISTED), None)
    if row is None:
        return
    differentiates, takes_complex, forward, *_ = [cell == "yes" for cell in row]
    if differentiates:
        assert op.rules or op.public_name in ("isclose",)
    if takes_complex and op.rules:
        assert not op.real_only
    if forward and op.rules:
        assert op.jvp is not None


def test_a_list_names_all_that_does_not_hold() -> None:
    def odd(number: int) -> None:
        assert number % 2, f"{number} is even"

    for_all([1, 3], odd)
    with pytest.raises(AssertionError, match=r"2 do not hold:\n2: .*: 2 is even\n4: .*: 4 is even"):
        for_all(range(1, 6), odd)
