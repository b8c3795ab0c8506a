"""Ops that change the geometry of their tensor in place (`t_`, `squeeze_`), as built code."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ag_visual.core import saved, view
from ag_visual.dispatch.codegen.scope import SHARED
from ag_visual.dispatch.codegen.signature import arguments_part, head_of, kernel_part
from ag_visual.dispatch.codegen.source import lazily
from ag_visual.dispatch.record import Op


def turn(
    op: Op, variant: str, node_class: type, reference: Callable[..., Any]
) -> Callable[..., Any]:
    """The fast variant of a view op of one input: for a tensor that is not a leaf and no view."""
    scope = {**SHARED, "slow": reference, "cls": node_class, "normalize": op.normalize}
    scope.update(TURNED=view.TURNED, report_node=saved.report_node)
    function = op.shown(lazily(variant, scope, lambda scope: _source(op, variant, scope)), variant)
    scope["again"] = function
    return function


def _source(op: Op, variant: str, scope: dict[str, Any]) -> str:
    head = head_of(op.signature, scope, kinds=op.kinds)
    slow = f"return slow({', '.join(head.passed.values())})"
    lines = head.writer(variant)
    add = lines.add
    (x,) = op.inputs
    # Who retains its gradient, and who has asked for its accumulator, has to be told.
    add(1, f"if modes.special or type({x}) is not Tensor: {slow}")
    add(1, f"edge = {x}._edge")
    add(1, f"if edge is None or {x}._view is not None or edge[0].hooks is not None: {slow}")
    add(1, f"a_{x} = {x}._array")
    add(1, f"if type(a_{x}) is not ndarray: {slow}")
    arguments_part(op, head, lines, slow)
    kernel_part(op, scope, lines, slow)
    add(1, "node = cls()")
    add(1, "node.next = (edge,)")
    add(1, "node.seq = next(sequence)")
    add(1, "node.code, node.lasti = locate(getframe(1))")
    add(1, "node.shape = shape = r.shape")
    add(1, "node.dtype = dtype = r.dtype")
    add(1, "node.outs = node.hooks = node.freed = node._metadata = None")
    for name in op.values:
        add(1, f"node.a_{name} = {name}")
    for name in op.shapes:
        add(1, f"node.h_{name} = a_{x}.shape")
    add(1, f"wrote({x}, {variant!r})")
    add(1, f"vars({x})[TURNED] = {x}._store.snapshot[0]")
    add(1, f"{x}._edge = (node, 0, shape, dtype)")
    add(1, f"{x}._array = r")
    add(1, f"if {x}._memory is None: {x}._memory = a_{x}")
    add(1, "if instrument.sink is not None: report_node(node)")
    add(1, f"return {x}")
    return lines.text
