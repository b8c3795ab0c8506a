"""Jacobians travel with a recording, as far as its numbers and names do."""

from __future__ import annotations

from typing import Any

import ag_visual as ag
from ag_visual.func import jacrev

X = ag.tensor([1.0, 2.0, 3.0])


def layer(x: Any) -> Any:
    return ag.tanh(x)


def test_recordings_hold_them_unless_numbers_or_names_are_left_out() -> None:
    with ag.record() as recorded:
        jacrev(layer)(X)
    record = recorded.recording.record
    assert record["jacobians"][0]["function"] == "layer"
    assert record["batches"][0]["header"]["state"]["jacobians"] == 1
    assert "jacobians" not in recorded.recording.without(values=True).record
    [bare] = recorded.recording.without(values=False, source=True).record["jacobians"]
    assert (bare["function"], bare["rows"][0]["name"], bare["site"]["text"]) == ("", "", "")
