"""What a profile tells of a program is what torch's tells of the same: names, nesting, counts."""

from __future__ import annotations

import importlib
from typing import Any

import pytest

import ag_visual as ag

from ..oracle import torch
from .programs import LINES, PROGRAMS, Program, line

Tree = list[tuple[str, Any]]

# What torch's Python code calls, and ours does not (and the other way round), with the reason.
ALONE = {
    # Ours keeps the inputs in a node, torch's in a hook.
    "checkpoint": ((), ("CheckpointInputs",)),
}


def _inner(name: str) -> bool:
    """Whether ops inside of it are each engine's own affair."""
    prefixes = ("aten::", "Optimizer.", "enumerate(", "autograd::", "torch::")
    return name.startswith(prefixes) or "Backward" in name or name.endswith(("Function", "Square"))


def _outer(event: Any) -> tuple[str, Any]:
    children = [_outer(each) for each in event.cpu_children]
    if _inner(event.name):
        children = [each for each in children if not each[0].startswith("aten::")]
    return event.name, [] if event.name.startswith("aten::") else children


def _profiled(t: Any, run: Program) -> Tree:
    run()
    with importlib.import_module(f"{t.__name__}.autograd.profiler").profile() as profile:
        run()
    return [_outer(each) for each in profile.function_events if each.cpu_parent is None]


@pytest.mark.oracle
@pytest.mark.parametrize("name", PROGRAMS)
def test_outer_names_and_nesting_are_torchs(name: str) -> None:
    found = []
    for t in (torch, ag):
        t.manual_seed(0)
        found.append(_profiled(t, PROGRAMS[name](t)))
    theirs, ours = found
    only_theirs, only_ours = ALONE.get(name, ((), ()))
    assert set(only_ours) <= {n for n, _ in ours}
    ours = [each for each in ours if each[0] not in only_ours]
    theirs = [each for each in theirs if each[0] not in only_theirs]
    assert ours == theirs


@pytest.mark.oracle
@pytest.mark.parametrize("text", LINES)
def test_one_call_is_told_as_torchs(text: str) -> None:
    assert _profiled(ag, line(ag, text)) == _profiled(torch, line(torch, text))


@pytest.mark.oracle
@pytest.mark.parametrize("name", ["mlp", "transformer_layer", "custom_function", "double_backward"])
def test_nodes_have_the_shapes_of_the_gradients_that_they_are_given(name: str) -> None:
    found = []
    for t in (torch, ag):
        t.manual_seed(0)
        run = PROGRAMS[name](t)
        run()
        with importlib.import_module(f"{t.__name__}.autograd.profiler").profile(
            record_shapes=True
        ) as profile:
            run()
        nodes = [each for each in profile.function_events if each.sequence_nr >= 0]
        nodes += [each for each in profile.function_events if "Accumulate" in each.name]
        kept = [each for each in nodes if not each.name.startswith("aten::")]
        found.append(sorted((each.name, str(each.input_shapes)) for each in kept))
    assert found[0] == found[1]
    assert len(found[0]) > 5


@pytest.mark.oracle
def test_what_no_graph_holds_has_no_sequence_number() -> None:
    found = []
    for t in (torch, ag):
        x, y = t.ones(3, requires_grad=True), t.ones(3)

        def run(t: Any = t, x: Any = x, y: Any = y) -> None:
            kept = y + 1, t.rand(3), y.new_zeros(2), x * y, t.zeros_like(x), y.relu(), (x * y).sin()
            kept[-1].sum().backward()

        run()
        with importlib.import_module(f"{t.__name__}.autograd.profiler").profile() as profile:
            run()
        told = [each for each in profile.function_events if not each.cpu_parent or each.fwd_thread]
        first = min(each.sequence_nr for each in told if each.sequence_nr >= 0)
        numbers = [max(each.sequence_nr - first, -1) for each in told]
        threads = [bool(each.fwd_thread) for each in told]
        found.append(list(zip([each.name for each in told], numbers, threads, strict=True)))
    assert found[0] == found[1]


@pytest.mark.oracle
def test_arrows_lead_from_ops_to_their_nodes() -> None:
    found = []
    for t in (torch, ag):
        x, y = t.ones(2, 3, requires_grad=True), t.ones(3, 2)
        with importlib.import_module(f"{t.__name__}.autograd.profiler").profile() as profile:
            (x.exp().mm(y).sin() * 2).sum().backward()
        ends: dict[int, list[tuple[str, int, bool]]] = {}
        for each in profile.function_events:
            if each.flow_id:
                told = each.name, each.flow_type, each.flow_start
                ends.setdefault(each.flow_id, []).append(told)
        found.append(sorted(ends.values()))
    assert found[0] == found[1]
