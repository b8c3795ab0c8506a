"""Reading and rewriting the user's source text for `repair`: statements, in-place calls, loops.

Imports only the standard library; parses, never runs.
"""

from __future__ import annotations

import ast
import functools
import warnings
from collections.abc import Iterator
from typing import Final

# In-place ops without an out-of-place variant: what makes the same values in a new tensor.
_ONLY_INPLACE: Final = {
    "zero_": "{module}.zeros_like({name})",
    "fill_": "{module}.full_like({name}, {arguments})",
    "copy_": "{arguments}.clone()",
}
_IN_PLACE_ONLY: Final = {"normal_", "uniform_", "bernoulli_", "random_", "exponential_", "set_"}
_MODULE_NAMES: Final = {"torch", "ag", "F", "functional", "nn", "init"}

_VIEW_ATTRIBUTES: Final = {"T", "mT", "H", "mH", "real", "imag"}
views: Final[set[str]] = set()
"""Methods whose result shares memory with the tensor: filled by declarations."""

_OPERATORS: Final[dict[str, type[ast.operator]]] = {
    "add_": ast.Add,
    **dict.fromkeys(("sub_", "subtract_"), ast.Sub),
    **dict.fromkeys(("mul_", "multiply_"), ast.Mult),
    **dict.fromkeys(("div_", "divide_"), ast.Div),
}


class SourceLocation:
    """One place in the source: the expression, its statement, the loops around it."""

    def __init__(self, text: str, line: str, source: str, lineno: int) -> None:
        self.text = text.strip()
        self.lineno = lineno
        self.statements = _statements_of(source)
        self.around = [node for node in self.statements if _spans(node, lineno)] if lineno else []
        self.statement = self._find_statement(line.strip())

    def _find_statement(self, line: str) -> ast.stmt | None:
        simple = [node for node in self.around if not is_block(node)]
        containing = [node for node in simple if self._holds_text(node)] or simple
        if containing:
            return containing[-1]
        for text in (line, self.text):
            tree = parsed(text) or parsed(text.rstrip(":") + ": pass" if text else "")
            if tree is None or not tree.body:
                continue
            found = [node for node in statements(tree) if not is_block(node)]
            return next((node for node in found if self._holds_text(node)), found[0])
        return None

    def _holds_text(self, statement: ast.stmt) -> bool:
        wanted = _canonical(self.text)
        return wanted is not None and wanted in _parts_of(statement)

    @property
    def expression(self) -> ast.expr | None:
        """The exact expression, if the text is one."""
        tree = parsed(self.text)
        if tree and len(tree.body) == 1 and isinstance(tree.body[0], ast.Expr):
            return tree.body[0].value
        return None

    @property
    def loop(self) -> ast.For | ast.While | None:
        """The innermost loop around the place."""
        loops = [node for node in self.around if isinstance(node, ast.For | ast.While)]
        return loops[-1] if loops else None

    def value_of(self, name: str, before: int = 0) -> ast.expr | None:
        """What the name was last assigned before this place (or line), read off the source."""
        found: ast.expr | None = None
        for node in self.statements:
            if node.lineno > self.lineno or node is self.statement:
                continue
            if before and node.lineno >= before:
                continue
            if isinstance(node, ast.Assign) and any(is_name(t, name) for t in node.targets):
                found = node.value
        return found


@functools.lru_cache(maxsize=256)
def _parts_of(statement: ast.stmt) -> frozenset[str]:
    """The texts of all expressions and statements in one: it is read again for each error in it."""
    parts = (n for n in ast.walk(statement) if isinstance(n, ast.expr | ast.stmt))
    return frozenset(ast.unparse(part) for part in parts)


def parsed(text: str) -> ast.Module | None:
    if not text.strip():
        return None
    with warnings.catch_warnings():  # a "\\d" in the user's line is not this package's to warn of
        warnings.simplefilter("ignore")
        try:
            return ast.parse(text)
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            return None


def without_attribute(line: str, text: str) -> str | None:
    """The line with `x` in place of the expression `text`, which is `x.detach()` or `x.data`."""
    tree, cut = parsed(line), parsed(text)
    if tree is None or cut is None or not cut.body or not isinstance(cut.body[0], ast.Expr):
        return None
    node = cut.body[0].value
    attribute = node.func if isinstance(node, ast.Call) else node
    if not isinstance(attribute, ast.Attribute):
        return None
    changed = _Exchanged(ast.unparse(node), attribute.value).visit(tree)
    return ast.unparse(changed)


def goes_to_numpy(line: str, text: str) -> bool:
    """Whether a line makes the expression `text` a NumPy array: `x.detach().cpu().numpy()`,
    `np.tanh(x.detach())`.
    """
    tree, taken = parsed(line), parsed(text)
    if tree is None or taken is None:
        return False
    expression = ast.unparse(taken)
    for call in ast.walk(tree):
        if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Attribute):
            continue
        asked = ast.unparse(call.func).partition(".")[0] in ("np", "numpy")
        for given in call.args if asked else [call.func.value] * (call.func.attr == "numpy"):
            if any(
                isinstance(part, ast.expr) and ast.unparse(part) == expression
                for part in ast.walk(given)
            ):
                return True
    return False


class _Exchanged(ast.NodeTransformer):
    """Puts one expression in the place of another."""

    def __init__(self, old: str, new: ast.expr) -> None:
        self.old = old
        self.new = new

    def generic_visit(self, node: ast.AST) -> ast.AST:
        if isinstance(node, ast.expr) and ast.unparse(node) == self.old:
            return self.new
        return super().generic_visit(node)


class _Detached(ast.NodeTransformer):
    """Puts `x.detach()` in the place of `x.data`, where that is read."""

    def visit_Attribute(self, node: ast.Attribute) -> ast.AST:
        self.generic_visit(node)
        if node.attr != "data" or not isinstance(node.ctx, ast.Load):
            return node
        return ast.Call(ast.Attribute(node.value, "detach"), [], [])


def as_detached(statement: ast.stmt) -> str | None:
    """`x.data.add_(1)` and `x.data += 1` as `x.detach().add_(1)`; None where no `.data` is read."""
    before = ast.unparse(statement)
    tree = ast.parse(before)
    (line,) = tree.body
    if isinstance(line, ast.AugAssign) and isinstance(line.target, ast.Attribute):
        method = next((name for name, op in _OPERATORS.items() if isinstance(line.op, op)), None)
        if method is None:
            return None
        read = ast.Attribute(line.target.value, line.target.attr, ast.Load())
        line = ast.Expr(ast.Call(ast.Attribute(read, method), [line.value], []))
    after = ast.unparse(_Detached().visit(line))
    return after if after != before else None


def _canonical(text: str) -> str | None:
    tree = parsed(text)
    return ast.unparse(tree) if tree else None


def statements(tree: ast.AST) -> Iterator[ast.stmt]:
    nodes = [node for node in ast.walk(tree) if isinstance(node, ast.stmt)]
    yield from sorted(nodes, key=lambda node: (node.lineno, node.col_offset))


@functools.lru_cache(maxsize=4)
def _statements_of(source: str) -> tuple[ast.stmt, ...]:
    """All statements of a file or cell, kept for the next error there; nobody changes them."""
    tree = parsed(source)
    return tuple(statements(tree)) if tree else ()


def _spans(node: ast.stmt, lineno: int) -> bool:
    return node.lineno <= lineno <= (node.end_lineno or node.lineno)


def is_block(node: ast.stmt) -> bool:
    return hasattr(node, "body")


def is_name(node: ast.AST | None, name: str) -> bool:
    return isinstance(node, ast.Name) and node.id == name


def names_in(node: ast.AST) -> set[str]:
    return {part.id for part in ast.walk(node) if isinstance(part, ast.Name)}


def method_call(node: ast.AST | None) -> tuple[ast.expr, str] | None:
    """(receiver, method name) of a call like `x.add_(1)`."""
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        return node.func.value, node.func.attr
    return None


def _is_inplace_name(name: str) -> bool:
    return name.endswith("_") and not name.endswith("__")


def written_call(statement: ast.stmt | None) -> ast.Call | None:
    """The in-place call of a statement: `y.add_(1)`, also where its result is assigned."""
    if isinstance(statement, ast.Expr | ast.Assign | ast.Return) and statement.value:
        for node in ast.walk(statement.value):
            if isinstance(node, ast.Call) and _is_inplace_call(node):
                return node
    return None


def _is_inplace_call(node: ast.Call) -> bool:
    if any(k.arg == "inplace" and _is_true(k.value) for k in node.keywords):
        return True
    name = node.func.attr if isinstance(node.func, ast.Attribute) else ""
    return _is_inplace_name(name)


def _is_true(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value is True


def assignment(target: ast.expr, value: ast.expr) -> str:
    return f"{ast.unparse(target)} = {ast.unparse(value)}"


def inplace_chain(write: SourceLocation) -> tuple[str | None, ast.expr | None]:
    """The name a chain like `t.sub_(m).div_(s)` begins with, and the chain."""
    statement = write.statement
    if isinstance(statement, ast.AugAssign):
        target = statement.target
        return (target.id if isinstance(target, ast.Name) else None), _binary(statement)
    call: ast.expr | None = statement.value if isinstance(statement, ast.Expr) else None
    root: ast.expr | None = call
    method = method_call(root)
    written = False
    while method is not None:
        written = written or _is_inplace_name(method[1])
        root = method[0]
        method = method_call(root)
    if not written:
        # The write stands deeper in the statement: `run(lambda: w.add_(1))`.
        call = written_call(statement)
        method = method_call(call)
        root = method and method[0]
    return (root.id if isinstance(root, ast.Name) else None), call


def iterated(loop: ast.For, name: str) -> str | None:
    """The expression that the loop variable walks over: `img` in `for t, m in zip(img, ms)`."""
    source: ast.expr = loop.iter
    target: ast.expr = loop.target
    while isinstance(source, ast.Call) and isinstance(source.func, ast.Name) and source.args:
        wrapper = source.func.id
        if not isinstance(target, ast.Tuple):
            return None
        places = [i for i, part in enumerate(target.elts) if name in names_in(part)]
        if not places:
            return None
        if wrapper == "enumerate":
            source, target = source.args[0], target.elts[-1]
        elif wrapper == "zip" and places[0] < len(source.args):
            source, target = source.args[places[0]], target.elts[places[0]]
        else:
            return None
    return ast.unparse(source) if name in names_in(target) else None


class _OutOfPlace(ast.NodeTransformer):
    """Drops the trailing `_` and `inplace=True` from calls; optionally renames the receiver."""

    def __init__(self, old: str = "", new: ast.expr | None = None) -> None:
        self.old = old
        self.new = new

    def visit_Call(self, node: ast.Call) -> ast.AST:
        self.generic_visit(node)
        node.keywords = [k for k in node.keywords if not (k.arg == "inplace" and _is_true(k.value))]
        if isinstance(node.func, ast.Attribute) and _is_inplace_name(node.func.attr):
            node.func.attr = node.func.attr.rstrip("_")
        return node

    def visit_Name(self, node: ast.Name) -> ast.AST:
        return self.new if self.new is not None and node.id == self.old else node


def _copied(node: ast.expr) -> ast.expr:
    return ast.parse(ast.unparse(node), mode="eval").body


def out_of_place(chain: ast.expr, name: str, base: str) -> ast.expr:
    new = ast.parse(base, mode="eval").body
    found = _OutOfPlace(name, new).visit(_copied(chain))
    return _operators(found)


def _operators(node: ast.expr) -> ast.expr:
    """`img.sub(m).div(s)` as `(img - m) / s`, where every link is plain arithmetic."""
    method = method_call(node)
    if method is None or not isinstance(node, ast.Call):
        return node
    operator = _OPERATORS.get(method[1] + "_")
    if operator is None or len(node.args) != 1 or node.keywords:
        return node
    return ast.BinOp(_operators(method[0]), operator(), node.args[0])


def _binary(statement: ast.AugAssign) -> ast.expr:
    return ast.BinOp(_copied(statement.target), statement.op, statement.value)


def as_out_of_place(statement: ast.stmt | None, module: str) -> str | None:
    """`y.add_(1)` as `y = y.add(1)`; `torch.relu_(x)` as `x = torch.relu(x)`."""
    if isinstance(statement, ast.AugAssign):
        return assignment(statement.target, _binary(statement))
    call = written_call(statement)
    if call is None:
        return None
    links = {method[1] for node in ast.walk(call) if (method := method_call(node)) is not None}
    if links & _IN_PLACE_ONLY:
        return None
    if links & _ONLY_INPLACE.keys():
        return _like(call, module)
    if isinstance(statement, ast.Assign):
        assigned = _OutOfPlace().visit(_copied(statement.value))
        return " = ".join([ast.unparse(t) for t in statement.targets] + [ast.unparse(assigned)])
    if isinstance(statement, ast.Return):
        return f"return {ast.unparse(_OutOfPlace().visit(_copied(call)))}"
    value = _OutOfPlace().visit(_copied(call))
    target = written_target(call)
    return None if target is None else assignment(target, value)


def _like(call: ast.Call, module: str) -> str | None:
    """`c.zero_()` as `c = torch.zeros_like(c)`, where the call is that and nothing else."""
    method = method_call(call)
    if method is None or not isinstance(method[0], ast.Name | ast.Attribute):
        return None
    name, arguments = ast.unparse(method[0]), ", ".join(map(ast.unparse, call.args))
    value = _ONLY_INPLACE.get(method[1], "").format(module=module, name=name, arguments=arguments)
    return f"{name} = {value}" if value else None


def written_target(call: ast.Call) -> ast.Name | ast.Attribute | None:
    """What an in-place call writes: its receiver, or the first argument of `F.relu_(x)`."""
    node: ast.expr = call
    first = call.args[0] if call.args else None
    method = method_call(node)
    while method is not None and _is_inplace_name(method[1]):
        node = method[0]
        method = method_call(node)
    module = _is_module(node)
    written = first if node is call or module else node
    return written if isinstance(written, ast.Name | ast.Attribute) else None


def in_list(write: SourceLocation) -> str | None:
    """`rows[0] = rows[0].mul(2)` for `rows[0].mul_(2)`, where `rows` is a Python list."""
    call = written_call(write.statement)
    node: ast.expr | None = call
    while (method := method_call(node)) is not None and _is_inplace_name(method[1]):
        node = method[0]
    if call is None or not isinstance(node, ast.Subscript) or not isinstance(node.value, ast.Name):
        return None
    value = write.value_of(node.value.id)
    made = value.func if isinstance(value, ast.Call) else None
    if not isinstance(value, ast.List | ast.ListComp) and not is_name(made, "list"):
        return None
    return assignment(node, _OutOfPlace().visit(_copied(call)))


def _is_module(node: ast.expr) -> bool:
    """`torch`, `F`, `torch.nn.init`: what functions are taken from, and not a tensor."""
    while isinstance(node, ast.Attribute):
        if node.attr in _MODULE_NAMES:
            return True
        node = node.value
    return isinstance(node, ast.Name) and node.id in _MODULE_NAMES


def viewed_root(node: ast.expr) -> ast.expr | None:
    """The expression that `y[i]`, `y.view(-1)` or `y.T` looks into; None for anything else."""
    root: ast.expr | None = None
    while (inner := _looked_into(node)) is not None:
        root = node = inner
    return root


def _looked_into(node: ast.expr) -> ast.expr | None:
    if isinstance(node, ast.Subscript):
        return node.value
    if isinstance(node, ast.Attribute) and node.attr in _VIEW_ATTRIBUTES:
        return node.value
    method = method_call(node)
    return method[0] if method is not None and method[1] in views else None


def subscript_target(statement: ast.stmt | None) -> ast.Subscript | None:
    if isinstance(statement, ast.Assign) and isinstance(statement.targets[0], ast.Subscript):
        return statement.targets[0]
    if isinstance(statement, ast.AugAssign) and isinstance(statement.target, ast.Subscript):
        return statement.target
    return None


def indexed_root(node: ast.expr) -> ast.expr:
    while isinstance(node, ast.Subscript):
        node = node.value
    return node
