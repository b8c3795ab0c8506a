"""An op at a level of `func.jvp` as built code: the result, and its tangent by the op's own rule.

The usual cases of `levels._pushed`; what is not gives MISS. Names beside those of `at_level`: t_x
the tangent of an input below the level, None where it has none.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ag_visual.core.dual import dual_of
from ag_visual.dispatch import jvp, tangents
from ag_visual.dispatch.codegen.at_level import _below, _built, _fields, _head, lifted
from ag_visual.dispatch.record import ELEMENTWISE, LINEAR, Op
from ag_visual.dispatch.rules import Rule


def dual(op: Op) -> Callable[..., Any] | None:
    """The op at a level of jvp: (level, state, *arguments) to its result."""
    plain = lifted(op)
    if plain is None or not op.rules or any(jvp.refusing(op, name) for name in op.diff_inputs):
        return None
    return _built(op, "with a tangent", _source, {"plain": plain})


def _source(op: Op, scope: dict[str, Any]) -> str:
    scope.update(derived=jvp.derived, fact=jvp.fact, F=op.table.traced, dual_of=dual_of)
    scope.update(laid=tangents.laid, shares=tangents.shares, added=jvp.added)
    lines = _head(op, scope)
    add = lines.add
    given = op.diff_inputs
    add(1, "_forward = None")
    for name in op.inputs:
        if name in given:
            add(1, f"t_{name} = None")
        add(1, f"if type({name}) is Lifted and {name}.level is _level:")
        # Of what was made inside to require grad the level has a graph.
        add(2, f"if {name}._rg: return MISS")
        add(2, f"x_{name} = {name}.value")
        if name in given:
            add(2, f"_dual = getattr({name}, '_dual', None)")
            # Of a view whose base has become dual since, it is that view of the base's.
            add(2, f"if _dual is None and {name}._view is not None: _dual = dual_of({name})")
            add(2, "if _dual is not None:")
            add(3, f"_forward, t_{name} = _dual")
            add(3, f"if type(t_{name}) is Lifted and t_{name}.level is _level:")
            add(4, f"if t_{name}._rg: return MISS")
            add(4, f"t_{name} = t_{name}.value")
        add(1, f"elif type({name}) is Tensor or type({name}) in fast: x_{name} = {name}")
        number = f"{name} is None or type({name}) is float or type({name}) is int"
        add(1, f"elif {number}: x_{name} = {name}")
        add(1, "else: return MISS")
    passed = [p for p in op.params if p not in op.keyword]
    passed += [f"{p}={p}" for p in op.keyword]
    add(1, f"if _forward is None: return plain(_level, _state, {', '.join(passed)})")
    add(1, "if not _forward.open: return MISS")
    then: list[tuple[int, str]] = []
    _tangent(op, scope, lambda depth, text: then.append((depth, text)))
    _below(op, add, then)
    add(1, "out = new_lifted()")
    _fields(add)
    if op.view:
        known = ", ".join(f"{a!r}: {a}" for a in op.arguments)
        add(1, f"link(op, {op.inputs[0]}, {{{known}}}, [out])")
    add(1, "if tangent is not None:")
    add(2, "moved = new_lifted()")
    add(2, "moved.level = _level")
    add(2, "moved.value = tangent")
    add(2, "moved._edge = moved._view = moved._grad = moved._leaf = None")
    add(2, "moved._rg = False")
    add(2, "_forward.give(out, moved)")
    add(1, "return out")
    return lines.text


def _tangent(op: Op, scope: dict[str, Any], add: Callable[[int, str], None]) -> None:
    """`tangent`, laid out as the result is; in the world below."""
    given = op.diff_inputs
    if op.normalize is not None:
        arrays = ", ".join(
            f"getattr(x_{p}, '_array', x_{p})" if p in op.inputs else p for p in op.params
        )
        add(2, f"[{', '.join(op.arguments)}] = normalize({arrays})")
    values = ", ".join(f"{p!r}: {f'x_{p}' if p in op.inputs else p}" for p in op.params)
    some = ", ".join(f"{n!r}: t_{n}" for n in given)
    add(2, f"_moves = {{{some}}}")
    if len(given) > 1:
        add(2, "_moves = {n: t for n, t in _moves.items() if t is not None}")
    general = f"derived(F, op, {{{values}}}, low, _moves)"
    add(2, "r = low._array")
    add(2, "shape, dtype = r.shape, r.dtype")
    add(2, f"if dtype.kind != 'f': tangent = {general} if dtype.kind in 'cV' else None")
    branches = _branches(op, scope)
    if branches is None:
        add(2, "else: tangent = " + general)
    else:
        condition, texts = branches
        if condition:
            add(2, f"elif not ({condition}): tangent = {general}")
        add(2, "else:")
        add(3, "tangent = None")
        for name, text in zip(given, texts, strict=True):
            if len(given) > 1:
                add(3, f"if t_{name} is not None:")
                add(4, f"part = {text}")
                add(4, "tangent = added(tangent, part)")
            else:
                add(3, f"tangent = {text}")
    add(2, "if tangent is not None:")
    add(3, "h = tangent._array")
    apart = "h.shape != shape or h.dtype is not dtype or h.strides != r.strides"
    if not op.view:
        shared = " or ".join(f"t_{n} is not None and shares(tangent, t_{n})" for n in given)
        apart += f" or {shared}"
    add(3, f"if {apart}: tangent = laid(op, low, tangent, _moves)")


def _branches(op: Op, scope: dict[str, Any]) -> tuple[str, list[str]] | None:
    """When the tangent is the sum of what one expression says of each input's; and these.

    None where the op of all tangents together is meant, and there are several.
    """
    given = op.diff_inputs
    if op.jvp == LINEAR:
        return ("", [_call(op, given[0])]) if len(given) == 1 else None
    rules: dict[str, Any] = op.jvp if type(op.jvp) is dict else dict.fromkeys(given, ELEMENTWISE)
    conditions, texts = [], []
    for name in given:
        rule = rules[name]
        if rule == LINEAR:
            texts.append(_call(op, name))
        elif rule == ELEMENTWISE:
            if "keepdim" in op.params:
                return None
            same = " and ".join(
                f"{x}_{name}._array.shape == shape and {x}_{name}._array.dtype is dtype"
                for x in "xt"
            )
            conditions.append(f"(t_{name} is None or {same})")
            texts.append(_product(op, scope, name))
        else:
            assert isinstance(rule, Rule)
            scope[f"jvp_{name}"] = rule.function
            texts.append(f"jvp_{name}({', '.join(_asked(op, rule, name))})")
    if conditions:
        conditions.insert(0, "shape")
    return " and ".join(conditions), texts


def _call(op: Op, name: str) -> str:
    """The op itself, of a tangent in the place of its input."""
    kind = {p: f"x_{p}" if p in op.inputs else p for p in op.params}
    kind[name] = f"t_{name}"
    passed = [kind[p] for p in op.params if p not in op.keyword]
    passed += [f"{p}={kind[p]}" for p in op.keyword]
    return f"op.call({', '.join(passed)})"


def _product(op: Op, scope: dict[str, Any], name: str) -> str:
    """The slope times a tangent: the gradient as if that was arriving."""
    number, rule = next((i, rule) for i, rule in enumerate(op.rules) if name in rule.inputs)
    scope[f"rule{number}"] = rule.function
    found = f"rule{number}({', '.join(_asked(op, rule, name))})"
    if rule.joint:
        found += f"[{rule.inputs.index(name)}]"
    scope["or_zeros"] = _or_zeros
    return f"or_zeros({found}, t_{name})"


def _or_zeros(found: Any, tangent: Any) -> Any:
    return 0 * tangent if found is None else found


def _asked(op: Op, rule: Rule, name: str) -> list[str]:
    """What a rule asks for, as source. name: the input whose tangent is carried on."""
    known = {"F": "F", "g": f"t_{name}", "gs": f"(t_{name},)", f"t_{name}": f"t_{name}"}
    known["needs"] = f"({', '.join(str(each == name) for each in rule.inputs)},)"
    known.update((each, f"x_{each}") for each in op.inputs)
    known[op.outputs[0]] = "low"
    known.update((each, each) for each in op.arguments)
    found = []
    for request in rule.requests:
        owner, _, what = request.rpartition("_")
        found.append(known.get(request) or f"fact({known.get(owner, owner)}, {what!r})")
    return found
