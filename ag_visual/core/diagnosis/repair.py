"""Suggests the smallest change that makes a line of the user's code right for autograd.

A pure function on source text: it parses, never runs, and imports only the standard library.
core's errors print what it says; observe.diagnose.problems puts it on the Inspector's card.
"""

from __future__ import annotations

import ast
import textwrap
from typing import Final, NamedTuple

from ag_visual.core.diagnosis.source_rewrite import (
    SourceLocation,
    as_detached,
    as_out_of_place,
    assignment,
    in_list,
    indexed_root,
    inplace_chain,
    is_block,
    is_name,
    iterated,
    method_call,
    names_in,
    out_of_place,
    statements,
    subscript_target,
    viewed_root,
    written_call,
    written_target,
)


class Repair(NamedTuple):
    """What to do, in one sentence, and the line that does it (None where it takes several).

    at: where the line belongs: 'write' or 'save' (in place of that statement), 'before save',
    'before' or 'replace' (the statement at `line` of the write's source), '' for all else.
    """

    text: str
    code: str | None
    at: str = ""
    line: int = 0


module_ops: Final = {"dropout_"}
"""Ops that modules run in place when they were built with inplace=True: filled by declarations."""


def repair(
    save_text: str,
    write_text: str,
    kind: str,
    *,
    write_op: str = "",
    name: str | None = None,
    leaf: bool = False,
    save_line: str = "",
    write_line: str = "",
    save_source: str = "",
    write_source: str = "",
    save_lineno: int = 0,
    write_lineno: int = 0,
    module: str = "torch",
) -> Repair | None:
    """The repair for one problem, or None when the source does not show one.

    save_text, write_text: the exact expressions that saved and that wrote (for a second backward:
    the one whose saved tensors were freed, and the failing call). save_line, write_line: the whole
    lines. kind: 'modified-by-inplace', 'leaf-inplace', 'view-inplace', 'second-backward' or
    'silent'. write_op: the writing op ('add_', '__setitem__'). name: the written tensor's variable.
    leaf: whether that tensor is a leaf that requires grad, as weights are.
    save_source, write_source: the text of the cells or files, save_lineno, write_lineno: where in
    it they stand (from 1); with these, assignments and loops around the lines are understood too.
    module: what the user's code calls this package.

    >>> repair("torch.relu(x)", "out += h", "modified-by-inplace").code
    'out = out + h'
    """
    try:
        write = SourceLocation(write_text, write_line, write_source, write_lineno)
        save = SourceLocation(save_text, save_line, save_source, save_lineno)
        if kind == "leaf-inplace":
            return _leaf(write, module)
        if kind == "view-inplace":
            return _view(write, module)
        if kind == "second-backward":
            return _second_backward(save, write)
        if kind == "silent":
            return _silent(write, leaf)
        if kind == "modified-by-inplace":
            return _modified(save, write, write_op, name, leaf, module)
    except RecursionError:  # nested deeper than ast can follow: the error itself must still come
        return None
    return None


def _quoted(code: str) -> str:
    return f"`{code}`"


# One function per kind of problem, in the order of the dispatch above.


def _leaf(write: SourceLocation, module: str) -> Repair:
    code, shown = None, f"with {module}.no_grad(): ..."
    statement = write.statement
    if statement is not None and not is_block(statement):
        text = ast.unparse(statement)
        code = f"with {module}.no_grad():\n" + textwrap.indent(text, "    ")
        shown = f"with {module}.no_grad(): {text}"
    return Repair(
        f"Update the leaf where nothing is recorded: {_quoted(shown)} "
        "(an out-of-place update would bind the name to a tensor that is no longer a leaf and "
        "gets no .grad).",
        code,
        "write",
    )


def _view(write: SourceLocation, module: str) -> Repair:
    view, chain = inplace_chain(write)
    loop = next((node for node in reversed(write.around) if isinstance(node, ast.For)), None)
    base = iterated(loop, view) if loop and view else None
    if base is not None and view is not None:
        whole = ast.unparse(out_of_place(chain, view, base)) if chain else "..."
        return Repair(
            f"`{view}` is one of several views of `{base}` made by the loop. Compute the whole "
            f"tensor out of place, {_quoted(f'{base} = {whole}')} with operands shaped to "
            f"broadcast over it, or write by index, `{base}[i] = ...`.",
            None,
        )
    subject = f"`{view}`" if view else "The tensor"
    rewritten = as_out_of_place(write.statement, module)
    instead = _quoted(rewritten) if rewritten else "an op without the trailing `_`"
    return Repair(
        f"{subject} is a view that must not be written. Use {instead}, or write the base by "
        "index, `base[i] = ...`; a view made under no_grad must be written there too.",
        rewritten,
        "write" if rewritten else "",
    )


def _second_backward(save: SourceLocation, fail: SourceLocation) -> Repair:
    state = _carried_state(save)
    start = _start_of(save, state[0]) if len(state) == 1 else None
    if start is not None:
        reset = f"{state[0]} = {start}"
        return Repair(
            f"`{state[0]}` is added up over iterations, so that each backward() runs the graphs of "
            f"all before, which are freed. Begin each iteration with {_quoted(reset)}.",
            reset,
            "before save",
        )
    if state:
        cut = _cut(state)
        return Repair(
            f"{_listed(state)} the graph of the iteration before, which that backward freed. "
            f"Cut it at the start of each iteration: {_quoted(cut)}.",
            cut,
            "before save",
        )
    call = fail.expression or (
        fail.statement.value if isinstance(fail.statement, ast.Expr) else None
    )
    first = ""
    if isinstance(call, ast.Call):
        kept = [k for k in call.keywords if k.arg != "retain_graph"]
        kept.append(ast.keyword("retain_graph", ast.Constant(True)))
        first = f", {_quoted(ast.unparse(ast.Call(call.func, call.args, kept)))},"
    return Repair(
        "Add the losses and call backward() once, or recompute the forward for each backward; "
        f"only if the same graph is really needed twice, pass retain_graph=True{first} the first "
        "time.",
        None,
    )


def _cut(names: list[str]) -> str:
    return f"{', '.join(names)} = {', '.join(f'{name}.detach()' for name in names)}"


def _listed(names: list[str]) -> str:
    """'`h` carries' or '`h` and `c` carry'."""
    return " and ".join(map(_quoted, names)) + (" carries" if len(names) == 1 else " carry")


def _silent(write: SourceLocation, leaf: bool) -> Repair:
    if leaf:
        what = _quoted(write.text) if write.text else "The write"
        return Repair(
            f"{what} changes weights through .data, which autograd does not see, before a "
            "backward() that still needs the old ones: its gradient is wrong. Move it below that "
            "backward().",
            None,
        )
    code: str | None = None
    if write.statement is not None and not is_block(write.statement):
        code = as_detached(write.statement)
    shown = f": {_quoted(code)}" if code else ""
    return Repair(
        "A write through .data is invisible to autograd and gives a wrong gradient. Use detach() "
        f"so that the error appears{shown}, or detach().clone() to change a copy.",
        code,
        "write" if code else "",
    )


def _modified(
    save: SourceLocation,
    write: SourceLocation,
    write_op: str,
    name: str | None,
    leaf: bool,
    module: str,
) -> Repair | None:
    statement = write.statement
    step = _is_optimizer_step(write)
    if step or leaf:
        return _weights(save, write, step)
    detached = _detached_alias(write)
    if detached is not None:
        return detached
    if subscript_target(statement) is not None or write_op in ("__setitem__", "index_put_"):
        return _item_write(save, write, name, module=module)
    listed = in_list(write)
    if listed is not None:
        text = f"Use {_quoted(listed)}: it puts a new tensor into the list and keeps the saved one."
        return Repair(text, listed, "write")
    base = _viewed_base(write)
    if base is not None:
        return _item_write(save, write, *base, module)
    code = as_out_of_place(statement, module)
    if code is not None:
        text = f"Use {_quoted(code)}: it makes a new tensor and keeps the saved one."
        return Repair(text, code, "write")
    if write_op in module_ops:
        return Repair(
            f"{_quoted(write.text or write_op)} works in place: build the module with "
            "inplace=False.",
            None,
        )
    known = name if name is not None and name.isidentifier() else None
    copied = f"{known or 'x'} = {known or 'x'}.clone()"
    return Repair(
        f"Keep the saved tensor as it was: write into a copy, {_quoted(copied)}, before the line "
        "that changes it.",
        copied if known else None,
        "before" if known else "",
        write.lineno,
    )


def _weights(save: SourceLocation, write: SourceLocation, step: bool) -> Repair:
    """Weights were changed (by an optimizer, or by hand) that a backward still needs."""
    state = _carried_state(save)
    if state and save.loop is not None and write.lineno in _lines_of(save.loop):
        cut = _cut(state)
        return Repair(
            f"{_listed(state)} the graph of earlier iterations, and with it the weights as they "
            f"were before {_quoted(write.text)}. Cut it at the start of each iteration: "
            f"{_quoted(cut)}.",
            cut,
            "before save",
        )
    if step:
        return Repair(
            "The step changes weights that a later backward() still needs. Do every backward() "
            f"before any step(): move {_quoted(write.text)} below the last backward(), or "
            "recompute the forward after it.",
            None,
        )
    what = _quoted(write.text) if write.text else "The write"
    return Repair(
        f"{what} changes weights that a later backward() still needs. Do it before the forward or "
        "below the last backward(), or recompute the forward after it.",
        None,
    )


def _lines_of(node: ast.stmt) -> range:
    return range(node.lineno, (node.end_lineno or node.lineno) + 1)


def _viewed_base(write: SourceLocation) -> tuple[str, int] | None:
    """`la` where the statement writes `row` after `row = la[t]`, and the line of that.

    Chains are followed to their beginning: `flat = y.view(-1); tail = flat[6:]` lead to `y`.
    """
    call = written_call(write.statement)
    target: ast.expr | None = None if call is None else written_target(call)
    if isinstance(write.statement, ast.AugAssign):
        target = write.statement.target
    found: tuple[str, int] | None = None
    passed: set[str] = set()
    while isinstance(target, ast.Name) and target.id not in passed:
        passed.add(target.id)
        value = write.value_of(target.id)
        root = None if value is None else viewed_root(value)
        if root is None or value is None:
            break
        found = ast.unparse(root), value.lineno
        target = root
    return found


def _item_write(
    save: SourceLocation,
    write: SourceLocation,
    name: str | None,
    line: int = 0,
    module: str = "torch",
) -> Repair:
    target = subscript_target(write.statement)
    table = ast.unparse(indexed_root(target)) if target is not None else name or "x"
    if _fills_own_table(save, write, table):
        rows = f"{table}_rows" if table.isidentifier() else "rows"
        return Repair(
            f"Each row is computed from rows of the same tensor, and one write counts for all of "
            f"`{table}`. Keep the rows in a Python list, `{rows}.append(...)`, read `{rows}[-1]`, "
            f"and build the tensor once with `{module}.stack({rows})`.",
            None,
        )
    code = _cloned_at_save(save, table)
    at, where = "save", "where it is made"
    if code is None:
        code, at, where = f"{table} = {table}.clone()", "before", "before the write"
        if line:
            where = f"before line {line} looks into it"
    return Repair(
        f"Write into a copy: {_quoted(code)} {where}; or compute the result in one go "
        f"with `{module}.where(mask, new, {table})`.",
        code,
        at,
        line or write.lineno,
    )


def _fills_own_table(save: SourceLocation, write: SourceLocation, table: str) -> bool:
    """A loop assigns `table[i]` from values that were read out of `table`."""
    statement = write.statement
    loop = write.loop
    if loop is None or not isinstance(statement, ast.Assign | ast.AugAssign):
        return False
    aliases = {table}
    for node in statements(loop):
        if isinstance(node, ast.Assign) and names_in(node.value) & aliases:
            aliases |= {t.id for t in node.targets if isinstance(t, ast.Name)}
    if names_in(statement.value) & aliases:
        return True
    return bool(save.expression is not None and names_in(save.expression) & aliases)


def _cloned_at_save(save: SourceLocation, table: str) -> str | None:
    """`b = a.sigmoid().clone()` where the saving line bound the name that was written."""
    statement = save.statement
    if not isinstance(statement, ast.Assign) or len(statement.targets) != 1:
        return None
    if not is_name(statement.targets[0], table):
        return None
    if save.expression is None or ast.unparse(save.expression) != ast.unparse(statement.value):
        return None
    value = ast.unparse(statement.value)
    if not isinstance(statement.value, ast.Call | ast.Name | ast.Attribute | ast.Subscript):
        value = f"({value})"
    return f"{table} = {value}.clone()"


def _is_optimizer_step(write: SourceLocation) -> bool:
    method = method_call(write.expression) or method_call(
        write.statement.value if isinstance(write.statement, ast.Expr) else None
    )
    return method is not None and method[1] == "step"


def _detached_alias(write: SourceLocation) -> Repair | None:
    """`c = out.detach(); c.zero_()`, and `out.detach().zero_()`: same memory, so copy it."""
    statement = write.statement
    receiver: ast.expr | None = None
    if isinstance(statement, ast.AugAssign):
        receiver = indexed_root(statement.target)
    elif (target := subscript_target(statement)) is not None:
        receiver = indexed_root(target)
    elif (call := written_call(statement)) is not None:
        method = method_call(call)
        receiver = method[0] if method else None
    if isinstance(receiver, ast.Name):
        value = write.value_of(receiver.id)
        if value is None or not _ends_in_detach(value):
            return None
        code = assignment(receiver, value) + ".clone()"
        at, line = "replace", value.lineno
    elif receiver is not None and _ends_in_detach(receiver) and statement is not None:
        alias = ast.unparse(receiver)
        code = ast.unparse(statement).replace(alias, f"{alias}.clone()", 1)
        at, line = "write", 0
    else:
        return None
    return Repair(
        f"detach() shares its memory with the tensor that was saved. Change a copy with "
        f"detach().clone(): {_quoted(code)}.",
        code,
        at,
        line,
    )


def _ends_in_detach(node: ast.expr) -> bool:
    method = method_call(node)
    return method is not None and method[1] == "detach"


def _start_of(save: SourceLocation, name: str) -> str | None:
    """The number that a sum over iterations begins with, before the loop."""
    loop = save.loop
    value = save.value_of(name, before=loop.lineno) if loop is not None else None
    return ast.unparse(value) if isinstance(value, ast.Constant) else None


def _carried_state(save: SourceLocation) -> list[str]:
    """The names that a loop computes from their own values of the iteration before."""
    for node in statements(save.loop) if save.loop else ():
        if isinstance(node, ast.AugAssign) and isinstance(node.target, ast.Name):
            if node.lineno == save.lineno:  # not a counter somewhere else in the loop
                return [node.target.id]
            continue
        if not isinstance(node, ast.Assign):
            continue
        used = names_in(node.value)
        bound = [
            part.id
            for target in node.targets
            for part in ast.walk(target)
            if isinstance(part, ast.Name) and part.id in used
        ]
        if bound:
            return list(dict.fromkeys(bound))
    return []
