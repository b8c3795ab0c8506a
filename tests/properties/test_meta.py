"""Device 'meta': what an op gives has the shape, dtype and strides that it has with values, and its
gradients have; or it says that it needs values.
"""

from __future__ import annotations

from typing import Any

import numpy

import ag_visual as ag
from ag_visual.arrays.meta import NoValues
from ag_visual.core.tensor import from_array
from ag_visual.dispatch.record import Op

from .cases import Call, calls, carrying, differentiable, every, run


def told(op: Op, tensors: list[Any]) -> list[Any]:
    # LAPACK writes matrices of some values where they are, those of others in its own order.
    lies = (lambda t: None) if op.name.startswith("linalg_") else steps
    return [None if t is None else (tuple(t.shape), t.dtype, lies(t)) for t in tensors]


def steps(tensor: Any) -> Any:
    """The strides of dimensions with several elements."""
    pairs = zip(tensor.shape, tensor.stride(), strict=True)
    return tuple(stride for size, stride in pairs if size > 1) if tensor.numel() else None


def outline(op: Op, call: Call, device: str) -> list[Any]:
    """Shapes, dtypes and strides of the outputs, and of the gradients of what has one."""
    values, leaves = call.tensors(lambda array: from_array(array).to(device))
    outputs = run(op, values)
    for each in outputs:
        assert each.device.type == device
    known = told(op, outputs)
    wanted = [out for out in carrying(op, outputs) if out.requires_grad]
    if differentiable(op) and wanted and leaves:
        total = sum(out.abs().sum() for out in wanted)
        found = ag.autograd.grad(total, list(leaves.values()), allow_unused=True)
        known += told(op, [None if g is None else g.detach() for g in found])
    return known


@every(lambda op: True)
def test_outlines_are_those_of_values(op: Op) -> None:
    for call in calls(op):
        try:
            with numpy.errstate(all="ignore"):
                expected = outline(op, call, "cpu")
        except Exception:
            continue  # refused with values: nothing to compare
        try:
            found = outline(op, call, "meta")
        except NoValues:
            continue
        assert found == expected
