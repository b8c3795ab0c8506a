"""The backward of an op as built code: its node's `raw`, `take` and `traced`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ag_visual.core import saved
from ag_visual.core.tensor import _rebuild as rebuild
from ag_visual.dispatch import op_node, opmath
from ag_visual.dispatch.codegen.scope import SHARED
from ag_visual.dispatch.codegen.source import Writer, lazily
from ag_visual.dispatch.record import ONCE, Op
from ag_visual.dispatch.rules import call_source


def backward(op: Op) -> None:
    """Give the record's node built rules, where it is plain enough."""
    if op.rules and not op.lists:
        op.node_class.raw = _raw(op)
        op.node_class.take = _raw(op, take=True)
        op.node_class.timed = _timed(op)
        op.node_class.traced = _traced(op)
        if op.rounding == ONCE:
            op.narrow_class.raw = _at_once(op)


def _raw(op: Op, take: bool = False) -> Callable[..., Any]:
    scope = dict(SHARED)
    name = "take" if take else "raw"
    return lazily(name, scope, lambda scope: _raw_source(op, take, scope), f"{op.name} {name}")


def _at_once(op: Op) -> Callable[..., Any]:
    """`raw` of 16-bit floats, in float32."""
    scope = {**SHARED, "widened": opmath.widened, "narrowed": opmath.narrowed}
    return lazily(
        "raw", scope, lambda scope: _raw_source(op, False, scope, once=True), f"{op.name} at once"
    )


def _timed(op: Op) -> Callable[..., Any]:
    """`raw` or `take` with every op called by name, so that F can tell how long each takes."""
    scope = dict(SHARED)
    return lazily("timed", scope, lambda scope: _timed_source(op, scope), f"{op.name} timed")


def _traced(op: Op) -> Callable[..., Any]:
    scope = {**SHARED, "F": op.table.traced, "unpack": saved.traced}
    scope.update(slow=op_node.OpNode.traced, tied=op_node.tied, rebuild=rebuild)
    return lazily("traced", scope, lambda scope: _traced_source(op, scope), f"{op.name} traced")


def _traced_source(op: Op, scope: dict[str, Any]) -> str:
    """The node's Tensor namespace; complex ones take the reference path, which conjugates."""
    edges = op.diff_inputs
    lines = Writer("def traced(self, g):")
    add = lines.add
    add(1, "if self.dtype.kind == 'c': return slow(self, g)")
    add(1, f"{', '.join(f'e_{n}' for n in edges)}, = self.next")
    for name in op.saves:
        add(1, f"if {' or '.join(f'e_{i} is not None' for i in op.wanted_by(name))}:")
        add(2, f"x_{name} = self.s_{name}")
        if name in op.outputs:
            add(2, f"if type(x_{name}) is ndarray:")
            add(3, f"_store, _number, _leads = self.o_{name}")
            add(3, f"if _store.snapshot is self.t_{name} and _leads is True:")
            add(4, f"x_{name} = rebuild(x_{name}, _store, self.edge(_number))")
            add(3, f"else: x_{name} = unpack(self, {name!r})")
            add(2, f"else: x_{name} = unpack(self, {name!r})")
            continue
        add(2, f"if type(x_{name}) is not Tensor: x_{name} = unpack(self, {name!r})")
        add(2, f"elif x_{name}._store.snapshot is not self.t_{name}:")
        add(3, f"check(self, {name!r}, x_{name}._storage, self.t_{name})")
    answer = _answer(op, scope, lines)
    add(1, f"return tied(self, {answer})" if op.fused else f"return {answer}")
    return lines.text


def _answer(
    op: Op, scope: dict[str, Any], lines: Writer, arrays: bool = False, timed: bool = False
) -> str:
    """The gradients of the inputs, each by its rule where it is wanted; rules of several first.

    arrays: whether they are arrays, for which some rules are written out.
    """
    add = lines.add
    edges = op.diff_inputs
    results: dict[str, str] = {}
    for i, rule in enumerate(op.rules):
        name = rule.inputs[0]
        scope[f"rule{i}"] = rule.function
        passed = []
        for request in rule.requests:
            if request in op.saves:
                passed.append(f"x_{request}")
            elif request in op.values:
                passed.append(f"self.a_{request}")
            elif request in op.shapes:
                passed.append(f"self.h_{request}")
            elif request == "needs":
                passed.append(f"({', '.join(f'e_{n} is not None' for n in rule.inputs)},)")
            else:
                passed.append("g" if request == "gs" else request)
        if rule.joint:
            add(1, f"if {' or '.join(f'e_{n} is not None' for n in rule.inputs)}:")
            add(2, f"{', '.join(f'j_{n}' for n in rule.inputs)}, = rule{i}({', '.join(passed)})")
            for n in rule.inputs:
                results[n] = f"j_{n} if e_{n} is not None else None"
            continue
        if arrays:
            found = call_source(rule.function, f"rule{i}", passed, scope, timed=timed)
        else:
            found = f"rule{i}({', '.join(passed)})"
        results[name] = f"{found} if e_{name} is not None else None"
    if len(edges) == 1 and not any(r in op.saves for rule in op.rules for r in rule.requests):
        # The engine drops a gradient that goes nowhere. (With saved values the rule must not be
        # called then: of a view without history nothing was read.)
        return f"({results[edges[0]].partition(' if e_')[0]},)"
    return f"({', '.join(results[n] for n in edges)},)"


def _raw_source(op: Op, take: bool, scope: dict[str, Any], once: bool = False) -> str:
    lines = Writer("def take(self, F, g, call_site):" if take else "def raw(self, F, g):")
    add = lines.add
    add(1, f"{', '.join(f'e_{n}' for n in op.diff_inputs)}, = self.next")
    if take and op.saves:
        _acquire_part(op, lines)
    _unpack_part(op, lines)
    if once:
        add(1, "xp = F.xp")
        add(1, "g = widened(xp, g)")
        for name in op.saves:
            wanted = " or ".join(f"e_{i} is not None" for i in op.wanted_by(name))
            add(1, f"if {wanted}: x_{name} = widened(xp, x_{name})")
    answer = _answer(op, scope, lines, arrays=True)
    if once:
        answer = f"[x if x is None else narrowed(x, self.dtype) for x in {answer}]"
    if take and op.saves:
        add(1, f"answer = {answer}")
        add(1, f"{_saved(op)} = None")
        answer = "answer"
    add(1, f"return {answer}")
    return lines.text


def _saved(op: Op) -> str:
    return " = ".join(f"self.s_{n}" for n in op.saves)


def _timed_source(op: Op, scope: dict[str, Any]) -> str:
    lines = Writer("def timed(self, F, g, call_site):")
    add = lines.add
    add(1, f"{', '.join(f'e_{n}' for n in op.diff_inputs)}, = self.next")
    if op.saves:
        _acquire_part(op, lines, "call_site is not None")
    _unpack_part(op, lines)
    add(1, f"answer = {_answer(op, scope, lines, arrays=True, timed=True)}")
    if op.saves:
        add(1, f"if call_site is not None: {_saved(op)} = None")
    add(1, "return answer")
    return lines.text


def _acquire_part(op: Op, lines: Writer, when: str = "") -> None:
    """What is saved is taken for this backward, or refused: an earlier one has it."""
    # A second backward may take the edges that need nothing of what the first one freed.
    needy = {i for name in op.saves for i in op.wanted_by(name)}
    asked = [f"e_{n} is not None" for n in op.diff_inputs if n in needy]
    tests = [f"({' or '.join(asked)})"] if needy < set(op.diff_inputs) else []
    tests += [when] if when else []
    if tests:
        lines.add(1, f"if {' and '.join(tests)}:")
    depth = 2 if tests else 1
    # See saved.acquire: nothing between the test and the store lets another thread in.
    lines.add(depth, "if self.freed is None: self.freed = call_site")
    lines.add(depth, "else: acquire(self, call_site)")


def _unpack_part(op: Op, lines: Writer) -> None:
    """`x_name` of each saved tensor that a wanted gradient needs, as an array."""
    add = lines.add
    wanted: tuple[str, ...] | None = None
    for name in op.saves:
        asked = tuple(op.wanted_by(name))
        if asked != wanted:
            add(1, f"if {' or '.join(f'e_{i} is not None' for i in asked)}:")
            wanted = asked
        add(2, f"x_{name} = self.s_{name}")
        if name in op.outputs:
            add(2, f"if type(x_{name}) is ndarray:")
            add(3, f"if self.o_{name}[0].snapshot is not self.t_{name}:")
            add(4, f"check(self, {name!r}, self.o_{name}[0], self.t_{name})")
            add(2, f"else: x_{name} = unpack(self, {name!r})")
            continue
        add(2, f"if type(x_{name}) is Tensor:")
        add(3, f"if x_{name}._store.snapshot is not self.t_{name}:")
        add(4, f"check(self, {name!r}, x_{name}._storage, self.t_{name})")
        add(3, f"x_{name} = x_{name}._array")
        if name in op.optional:
            add(2, f"elif x_{name} is None and self.t_{name} is False: pass")
        add(2, f"elif type(x_{name}) is not float and type(x_{name}) is not int:")
        add(3, f"x_{name} = unpack(self, {name!r})")
