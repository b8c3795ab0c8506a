"""Where what a parameter computes leaves the graph in `forward`, read off the source.

When a backward is over, nothing of a graph that was detached is left to be looked at. The source of
the modules around a parameter is: it is followed from the parameter to what `forward` returns.
Parses, never runs. Of breaks in branches the one counts that was the last to be seen to run.
"""

from __future__ import annotations

import ast
import linecache
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from types import CodeType, FrameType, FunctionType
from typing import Any, Final

from ag_visual.core import detach_sites, source
from ag_visual.core.diagnosis.source_rewrite import method_call, parsed
from ag_visual.core.diagnosis.variable_names import Types, scopes_of, tensors_in
from ag_visual.observe.diagnose.graph_breaks import NUMPY, gives_of, site_of

_GRAPHLESS: Final = {"no_grad": "no_grad", "inference_mode": "inference"}
_SEEN: Final = ("detach", "detach_", "data")
"""Kinds of breaks whose places are remembered when they run."""
_ANY_CHILD: Final = {
    *("children", "named_children", "modules", "named_modules", "get_submodule", "_modules"),
    *("parameters", "named_parameters", "_parameters", "__dict__", "getattr", "vars"),
}
"""Names by which a method may reach any module or parameter of its own."""
_FACTS: Final = {
    *("shape", "dtype", "device", "ndim", "layout", "requires_grad", "is_cuda"),
    *("size", "dim", "numel", "stride", "len", "is_floating_point", "is_complex"),
    *("zeros_like", "ones_like", "full_like", "empty_like", "rand_like", "randn_like"),
    *("new_zeros", "new_ones", "new_full", "new_empty", "new_tensor"),
}
"""What asks a tensor for something in which its values have no part."""
_DEPTH: Final = 4
"""Methods of one module that are followed into each other."""


Owner = tuple[type, str, str]
"""The class of a module on the way to a parameter, its name, its attribute that leads on."""


@dataclass(frozen=True, slots=True)
class GraphBreak:
    """An expression of `forward` where what `of` computes leaves the graph.

    kind: 'detach', 'detach_', 'data', 'no_grad', 'inference' or 'other', which `gives` describes.
    branch: it stands in one, and runs only at times. to_numpy: where the values become a NumPy
    array, for which they may have been detached before.
    """

    of: str
    kind: str
    gives: str
    site: source.Site
    branch: bool = False
    to_numpy: source.Site | None = None


@dataclass(frozen=True, slots=True)
class Unused:
    """A module or parameter that no method of the module around it takes."""

    name: str
    attribute: str
    owner: str
    site: source.Site


def name_of(x: Any, frame: FrameType | None, types: Types = ()) -> str:
    """The user's name for a tensor: a variable, `model.enc.weight`, `parts[0]`; '' without one."""
    later = ""
    for scope in scopes_of(frame):
        for name, tensor in tensors_in(scope, types=types):
            if tensor is x and name.isidentifier():
                return name
            if tensor is x:
                later = later or name
    return later


def left_in_forward(
    x: Any, frame: FrameType | None, types: Types = ()
) -> list[GraphBreak] | Unused:
    """The breaks on the way from a parameter to what the modules around it return, the inner first.

    Unused instead where one of these modules does not take what is on the way.
    """
    return left_on_way(_owners(x, frame, types))


def left_on_way(owners: Iterable[Owner]) -> list[GraphBreak] | Unused:
    """The same of a parameter whose owners are known."""
    for kind, path, attribute in owners:
        of = f"{path}.{attribute}"
        function = getattr(kind, "forward", None)
        if type(function) is not FunctionType or source.inside[function.__code__.co_filename]:
            continue
        if not _takes(kind, attribute):
            site = source.resolve(function.__code__, 0)
            return Unused(of, attribute, kind.__name__, site)
        flow = _Flow(kind, attribute, of)
        flow.run(function, [])
        if found := _those_that_ran(flow.breaks):
            return found
    return []


def left_in_code(code: CodeType, module: str) -> list[GraphBreak]:
    """The breaks on the way from what a module computes to the `backward()` in a function or cell
    that calls it by this name.
    """
    function = _definition(code)
    if function is None and not code.co_name.startswith("<"):
        return []
    tree = function or parsed(_text_of(code))
    following = _Pass(_Flow(object, "", module), code, "")
    following.known[module] = {}
    following.block(tree.body if tree else [])
    return _those_that_ran(following.returned or {})


def _owners(x: Any, frame: FrameType | None, types: Types) -> Iterator[Owner]:
    """Those of a tensor that the user's frames can see."""
    for scope in scopes_of(frame):
        for name, tensor in tensors_in(scope, types=types):
            if tensor is not x or "." not in name or "[" in name:
                continue
            root, _, path = name.partition(".")
            yield from owners_of(scope[root], root, path)
            return


def owners_of(at: Any, name: str, path: str) -> list[Owner]:
    """The modules on the way from `at`, which is called `name`, to its parameter `path`, the
    innermost first.
    """
    found = []
    for part in path.split("."):
        if callable(getattr(type(at), "named_parameters", None)):
            found.append((type(at), name, part))
        at, name = getattr(at, part, None), f"{name}.{part}"
    return found[::-1]


def _takes(kind: type, attribute: str) -> bool:
    """Whether a method of a module may use that attribute of it: it names it, or all of them."""
    for base in kind.__mro__:
        for name, function in vars(base).items():
            code = getattr(function, "__code__", None)
            if code is None or name == "__init__" or source.inside[code.co_filename]:
                continue
            names = {*_names_in(code)}
            if attribute in names or names & _ANY_CHILD or _uses_self_whole(code):
                return True
    return False


def _names_in(code: CodeType) -> Iterator[str]:
    yield from code.co_names
    for part in code.co_consts:
        if isinstance(part, CodeType):
            yield from _names_in(part)
        elif isinstance(part, str):
            yield part


def _uses_self_whole(code: CodeType) -> bool:
    """`self` is passed on, iterated or called: with it goes all that it has."""
    tree = _definition(code)
    if tree is None or not tree.args.args:
        return tree is None
    own = tree.args.args[0].arg
    within = {id(n.value) for n in ast.walk(tree) if isinstance(n, ast.Attribute)}
    return any(
        isinstance(n, ast.Name) and n.id == own and id(n) not in within for n in ast.walk(tree)
    )


def _text_of(code: CodeType) -> str:
    cell = source.cell_of(code)
    return cell.source if cell is not None else "".join(linecache.getlines(code.co_filename))


def _definition(code: CodeType) -> ast.FunctionDef | None:
    """The `def` that a function was compiled from, with the lines of its file or cell."""
    for node in ast.walk(parsed(_text_of(code)) or ast.Module([], [])):
        if isinstance(node, ast.FunctionDef) and node.name == code.co_name:
            first = min([node.lineno, *(each.lineno for each in node.decorator_list)])
            if first == code.co_firstlineno:
                return node
    return None


def _those_that_ran(breaks: dict[GraphBreak, bool]) -> list[GraphBreak]:
    """Those that run whenever forward does; of those in branches the last one that was seen to run,
    and those that nobody sees. What goes through NumPy on its way has no other repair.
    """
    found = _ran(breaks)
    to_numpy = next((each.site for each in found if each.gives == NUMPY), None)
    return found if to_numpy is None else [replace(each, to_numpy=to_numpy) for each in found]


def _ran(breaks: dict[GraphBreak, bool]) -> list[GraphBreak]:
    found = [graph_break for graph_break, certain in breaks.items() if certain]
    others = [
        replace(graph_break, branch=True) for graph_break, certain in breaks.items() if not certain
    ]
    seen = {
        (graph_break.site.file, graph_break.site.line, graph_break.site.text): graph_break
        for graph_break in others
        if graph_break.kind in _SEEN
    }
    for code, lasti in reversed(list(detach_sites.places)):
        if any(code.co_filename == file for file, _, _ in seen):
            site = source.resolve(code, lasti)
            if (graph_break := seen.get((site.file, site.line, site.text))) is not None:
                found.append(graph_break)
                break
    return [*found, *(graph_break for graph_break in others if graph_break.kind not in _SEEN)]


_Breaks = dict[GraphBreak, bool]


class _Flow:
    """Follows what an attribute of a module computes through the module's methods."""

    def __init__(self, kind: type, attribute: str, of: str) -> None:
        self.kind, self.attribute, self.of = kind, attribute, of
        self.breaks: _Breaks = {}  # those that reach what is returned -> it runs at each forward
        self._depth = 0

    def run(self, function: FunctionType, given: list[_Breaks | None]) -> _Breaks | None:
        """The graph breaks in what a method returns; None if nothing of it is of the attribute."""
        code = function.__code__
        tree = _definition(code)
        if tree is None or self._depth >= _DEPTH or not tree.args.args:
            return None
        self._depth += 1
        try:
            pass_through = _Pass(self, code, tree.args.args[0].arg)
            for argument, value in zip(tree.args.args[1:], given, strict=False):
                if value is not None:
                    pass_through.known[argument.arg] = value
            pass_through.block(tree.body)
        finally:
            self._depth -= 1
        if self._depth == 0:
            self.breaks = pass_through.returned or {}
        return pass_through.returned


class _Pass:
    """One method: what each of its variables has from the attribute, and through which breaks."""

    def __init__(self, flow: _Flow, code: CodeType, own: str) -> None:
        self.flow, self.code, self.own = flow, code, own
        self.lines = _text_of(code).splitlines()
        self.known: dict[str, _Breaks] = {}
        self.returned: _Breaks | None = None
        self._certain = True
        self._graphless: list[tuple[ast.expr, str]] = []

    def block(self, statements: list[ast.stmt]) -> None:
        for statement in statements:
            self._statement(statement)

    def _statement(self, node: ast.stmt) -> None:
        if isinstance(node, ast.Return):
            self.returned = _joined(self.returned, self._value(node.value))
        elif isinstance(node, ast.Assign | ast.AnnAssign | ast.AugAssign):
            value = self._value(node.value)
            if isinstance(node, ast.AugAssign):
                value = _summed(value, self._value(node.target))
            for target in node.targets if isinstance(node, ast.Assign) else [node.target]:
                self._store(target, value)
        elif isinstance(node, ast.Expr):
            self._expression(node.value)
        elif isinstance(node, ast.For):
            self._store(node.target, self._value(node.iter))
            for _ in range(2):  # a turn of the loop goes on with what the one before left
                self.block(node.body)
        elif isinstance(node, ast.With):
            breaks = [found for item in node.items if (found := _graphless(item.context_expr))]
            self._graphless += breaks
            self.block(node.body)
            del self._graphless[len(self._graphless) - len(breaks) :]
        elif isinstance(node, ast.If | ast.While | ast.Try):
            self._branches(node)

    def _branches(self, node: ast.If | ast.While | ast.Try) -> None:
        certain, before = self._certain, dict(self.known)
        self._certain = False
        after: dict[str, _Breaks] = {} if isinstance(node, ast.If) else dict(before)
        handlers = [each.body for each in node.handlers] if isinstance(node, ast.Try) else []
        for body in (node.body, node.orelse, *handlers):
            self.known = dict(before)
            self.block(body)
            for name, breaks in self.known.items():
                after[name] = _joined(after.get(name), breaks) or {}
        self.known = after
        if isinstance(node, ast.Try):
            self.block(node.finalbody)
        # What comes after a branch that returns runs only at times.
        leaves = any(isinstance(part, ast.Return | ast.Raise) for part in ast.walk(node))
        self._certain = certain and not leaves

    def _expression(self, node: ast.expr) -> None:
        """A statement of its own: of those only `h.detach_()` changes what is known, and what
        `backward()` is called of is what counts of a program.
        """
        call = method_call(node)
        if call is not None and call[1] == "backward":
            self.returned = _joined(self.returned, self._value(call[0]))
        if call is not None and call[1] == "detach_":
            value = self._value(node)
            if value is not None:
                self._store(call[0], value)

    def _store(self, target: ast.expr, value: _Breaks | None) -> None:
        if isinstance(target, ast.Tuple | ast.List):
            for part in target.elts:
                self._store(part, value)
            return
        name = ast.unparse(target)
        if name == self.flow.of:
            return  # the line that makes the module
        if value is None:
            self.known.pop(name, None)
        else:
            self.known[name] = value

    def _value(self, node: ast.AST | None) -> _Breaks | None:
        """The breaks through which a value comes from the attribute, none where a way is open; None
        where it does not come from there.
        """
        if node is None or isinstance(node, ast.Lambda) or _asked_for(node) in _FACTS:
            return None
        if isinstance(node, ast.Name | ast.Attribute):
            known = self.known.get(ast.unparse(node))
            if known is not None:
                return known
            if self._is_own(node) and isinstance(node, ast.Attribute):
                return {} if node.attr == self.flow.attribute else None
        found: _Breaks | None = None
        certain, self._certain = self._certain, self._certain and not isinstance(node, ast.IfExp)
        # What a part of the module is given is what counts: that it is a part opens no way.
        own = isinstance(node, ast.Call) and self._is_in_module(node.func)
        either = own or isinstance(node, ast.IfExp | ast.Tuple | ast.List)
        for part in ast.iter_child_nodes(node):
            found = (_joined if either else _summed)(found, self._value(part))
        self._certain = certain
        if isinstance(node, ast.Call) and (followed := self._followed(node)) is not None:
            found = followed
        if found is None:
            return None
        gives = gives_of(node)
        if gives is not None and isinstance(node, ast.expr):
            call = method_call(node)
            name = call[1] if call else node.attr if isinstance(node, ast.Attribute) else ""
            found = {
                **found,
                self._break_at(node, name if name in _SEEN else "other", gives): self._certain,
            }
        elif isinstance(node, ast.Call | ast.BinOp) and self._graphless:
            context, kind = self._graphless[-1]
            found = {**found, self._break_at(context, kind, ""): self._certain}
        return found

    def _is_own(self, node: ast.AST) -> bool:
        """`self.name`."""
        return (
            isinstance(node, ast.Attribute)
            and isinstance(node.value, ast.Name)
            and node.value.id == self.own
        )

    def _is_in_module(self, node: ast.AST) -> bool:
        """`self.name`, `self.name[0].part`, and the same of a variable that is followed."""
        while isinstance(node, ast.Attribute | ast.Subscript):
            if isinstance(node, ast.Attribute) and self._is_own(node):
                return node.attr == self.flow.attribute
            node = node.value
        return isinstance(node, ast.Name) and node.id == self.flow.of

    def _followed(self, node: ast.Call) -> _Breaks | None:
        """What another method of the module returns, where this calls one."""
        if not self._is_own(node.func) or not isinstance(node.func, ast.Attribute):
            return None
        function = getattr(self.flow.kind, node.func.attr, None)
        if type(function) is not FunctionType:
            return None
        return self.flow.run(function, [self._value(part) for part in node.args])

    def _break_at(self, node: ast.expr, kind: str, gives: str) -> GraphBreak:
        site = site_of(self.code.co_filename, source.cell_of(self.code), node, self.lines)
        return GraphBreak(self.flow.of, kind, gives, site)


def _graphless(node: ast.expr) -> tuple[ast.expr, str] | None:
    """The `no_grad()` of a `with`, and its kind."""
    function = node.func if isinstance(node, ast.Call) else node
    name = function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")
    return (node, _GRAPHLESS[name]) if name in _GRAPHLESS else None


def _asked_for(node: ast.AST) -> str:
    """The name of the function, method or attribute that an expression asks for."""
    asked = node.func if isinstance(node, ast.Call) else node
    if isinstance(asked, ast.Attribute):
        return asked.attr
    return asked.id if isinstance(node, ast.Call) and isinstance(asked, ast.Name) else ""


def _summed(a: _Breaks | None, b: _Breaks | None) -> _Breaks | None:
    """Of what has both as parts: where nothing cuts one of them, that way is open."""
    return {} if a == {} or b == {} else _joined(a, b)


def _joined(a: _Breaks | None, b: _Breaks | None) -> _Breaks | None:
    """Of what is one or the other."""
    return b if a is None else a if b is None else {**a, **b}
