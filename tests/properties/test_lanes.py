"""Every op under the public `vmap`, one drawn case of each form (all: see lanes)."""

from __future__ import annotations

from typing import Any

import pytest

from ag_visual.dispatch.record import Op
from ag_visual.dispatch.table import ops
from ag_visual.dispatch.vmap import Batch, along

from . import lanes
from .cases import every


@every(lanes.forms_of)
def test_a_mapped_call_is_the_stack_of_the_calls_on_slices(op: Op) -> None:
    for number, form in enumerate(lanes.forms_of(op)):
        lanes.checked(op, form, number)


def _whole(batch: Batch) -> Any:
    """A rule that counts dimensions as if there were no batch."""
    return batch.run()


def _first(batch: Batch) -> Any:
    """A rule that gives each slice what the first one has."""
    return batch.F.expand(batch.F.narrow(along(batch), 0, 0, 1), batch["self"].shape)


def _wider(batch: Batch) -> Any:
    """A rule whose results have one more dimension."""
    return batch.F.unsqueeze(along(batch), 1)


@pytest.mark.parametrize("rule", [_whole, _first, _wider])
@pytest.mark.parametrize("form", lanes.FORMS)
def test_the_comparison_finds_injected_faults(
    form: str, rule: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    if form == "empty":  # shapes are all that it sees
        rule = _wider
    op = ops["cumsum_dim"]
    lanes.checked(op, form, 0)
    monkeypatch.setattr(op, "batch", rule)
    monkeypatch.delitem(vars(op.levelled), "batched")
    with pytest.raises((AssertionError, RuntimeError)):
        lanes.checked(op, form, 0)


LOOPS = {
    "bincount",
    "histc",
    "histogram_bins",
    "histogram_edges",
    "mkldnn_rnn_layer",  # modules take single steps under vmap
    "nonzero_static",
    "pdist",
}
"""Ops that are called for each slice: torch's own vmap calls all of them so, or refuses."""


def test_few_ops_are_called_for_each_slice(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: dict[str, int] = {}
    run = Batch.run

    def counted(self: Batch, /, **changed: Any) -> Any:
        seen[self.op.name] = seen.get(self.op.name, 0) + 1
        return run(self, **changed)

    monkeypatch.setattr(Batch, "run", counted)
    loops = set()
    for op in ops.values():
        if not (op.samples and lanes.has_rule(op)):
            continue
        slices = next(lanes.stacks(op))
        seen.clear()
        lanes.run("plain", op, slices, next(lanes.choices(op, slices[0], 0)))
        if seen.get(op.name, 0) >= lanes.SIZE:
            loops.add(op.name)
    assert loops == LOOPS
