"""What an error about shapes adds: the operands as the user wrote them, their module, the line.

Looks at the frames of the call that fails and at variables; runs nothing of the user's.
"""

from __future__ import annotations

import ast
import contextlib
import sys
from collections.abc import Iterator, Sequence
from types import FrameType
from typing import Any, Final

from ag_visual.core import source
from ag_visual.core.diagnosis.source_rewrite import parsed
from ag_visual.core.diagnosis.variable_names import scopes_of, tensors_in

calls: Final = {"__matmul__"}
"""Functions and methods whose first two arguments are the operands: filled by declarations."""

_DEEPEST: Final = 20
"""Levels of modules in modules that are looked through for a name."""


def as_written(*shapes: Sequence[int]) -> str:
    """A line about the two operands of these shapes, to be added to an error's text.

    '' where the call was made from no line that is known, or on neither of two operands.
    """
    # Modules and names of the user's may raise anything, which is not to take the error's place.
    with contextlib.suppress(Exception):
        return _line(sys._getframe(1), shapes)
    return ""


def _line(frame: FrameType | None, shapes: Any) -> str:
    user = source.outside(frame)
    if user is None:
        return ""
    site = source.resolve(user.f_code, user.f_lasti)
    if not site.line:
        return ""
    call = _expression(site.text)
    module = _module_between(frame, user)
    if module is not None:
        return _of_module(module, call, user, site, shapes)
    names = _operands(call)
    if len(names) != 2:
        return ""
    known = {name: tensor.shape for name, tensor in _tensors(user)}
    parts = [
        f"`{name}` is {list(known.get(name, shape))}"
        for name, shape in zip(names, shapes, strict=True)
    ]
    return f"\n  {', '.join(parts)}, in `{site.text}` at {site.where}"


def _of_module(
    module: Any, call: ast.expr | None, user: FrameType, site: source.Site, shapes: Any
) -> str:
    name = next(_names_of(module, user), "")
    weight = getattr(module, "weight", None)
    shape = shapes[1] if weight is None else weight.shape
    direct = isinstance(call, ast.Call) and call.args and ast.unparse(call.func) == name
    given = f"`{ast.unparse(call.args[0])}`" if direct else "its input"  # type: ignore[union-attr]
    described = f"{type(module).__name__}({_extra(module)})"
    where = f"`{name}`, {described}," if name else described
    own = f"`{name}.weight`" if name else "its weight"
    return (
        f"\n  {given} is {list(shapes[0])}, {own} is {list(shape)}, in {where} called at "
        f"{site.with_text('`')}"
    )


def _extra(module: Any) -> str:
    """What this package's own modules say of themselves."""
    describe = type(module).extra_repr
    return str(describe(module)) if source.inside[describe.__code__.co_filename] else "..."


def _module_between(frame: FrameType | None, user: FrameType) -> Any:
    """The innermost module of this package whose forward the user's line led to."""
    while frame is not None and frame is not user:
        if frame.f_code.co_name == "forward":
            found = source.locals_of(frame).get("self")
            if callable(getattr(type(found), "named_parameters", None)):
                return found
        frame = frame.f_back
    return None


def _names_of(module: Any, user: FrameType) -> Any:
    """Names of a module: `fc`, `self.fc`, `net.1`."""
    for scope in scopes_of(user):
        for name, value in list(scope.items()):
            if not name.startswith("_") and callable(getattr(type(value), "named_modules", None)):
                yield from (
                    f"{name}{path}" for path, part in _parts(value, "", 0) if part is module
                )


def _parts(module: Any, path: str, depth: int) -> Iterator[tuple[str, Any]]:
    """A module and those below it, each with `.0.fc`: nothing of the user's is called."""
    yield path, module
    below = object.__getattribute__(module, "__dict__").get("_modules") or {}
    for name, part in list(below.items()) if depth < _DEEPEST else ():
        if part is not None:
            yield from _parts(part, f"{path}.{name}", depth + 1)


def _tensors(user: FrameType) -> Any:
    for scope in list(scopes_of(user))[::-1]:  # the innermost wins
        yield from tensors_in(scope, buffers=True)


def _expression(text: str) -> ast.expr | None:
    tree = parsed(text)
    found = tree.body[0] if tree is not None and tree.body else None
    return found.value if isinstance(found, ast.Expr) else None


def _operands(node: ast.expr | None) -> list[str]:
    """The two operands of `a @ b`, `a.mm(b)`, `torch.matmul(a, b)`; none of anything else."""
    if isinstance(node, ast.BinOp):
        return [ast.unparse(node.left), ast.unparse(node.right)]
    if not isinstance(node, ast.Call) or any(isinstance(each, ast.Starred) for each in node.args):
        return []
    name = node.func.attr if isinstance(node.func, ast.Attribute) else ast.unparse(node.func)
    if name not in calls:
        return []
    if len(node.args) == 1 and isinstance(node.func, ast.Attribute):
        return [ast.unparse(node.func.value), ast.unparse(node.args[0])]
    return [ast.unparse(each) for each in node.args[:2]]
