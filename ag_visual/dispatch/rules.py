"""What a derivative rule asks for, and which functions built code takes the expression of.

A rule's parameter names are its requests, unless `requesting` names them; it is called by
position.
"""

from __future__ import annotations

import ast
import inspect
import textwrap
from collections.abc import Callable
from dataclasses import dataclass
from operator import attrgetter
from types import CodeType, FunctionType
from typing import Any, TypeVar

import numpy

Function = TypeVar("Function", bound=Callable[..., Any])
_ELSEWHERE = frozenset(("__wrapped__", "__signature__"))
"""Where a function has one of these, its parameters are those of another."""


@dataclass(frozen=True, slots=True)
class Rule:
    """A derivative rule and what it asks for."""

    function: Callable[..., Any]
    inputs: tuple[str, ...]
    requests: tuple[str, ...]

    @property
    def joint(self) -> bool:
        return len(self.inputs) > 1

    def __call__(self, known: dict[str, Any]) -> Any:
        return self.function(*[known[name] for name in self.requests])


def requesting(*names: str) -> Callable[[Function], Function]:
    """The requests of a rule, in the order of its parameters, where names differ from op to op."""

    def with_requests(rule: Function) -> Function:
        assert not hasattr(rule, "requests"), "said twice of one function"
        vars(rule)["requests"] = names
        return rule

    return with_requests


def calls(name: str, *passed: str) -> Callable[..., Any]:
    """The rule that calls the op of a name with what it asks for, in that order."""
    rule = requesting("F", *passed)(lambda F, *known: getattr(F, name)(*known))
    vars(rule)["called"] = name
    return rule


def requests_of(rule: Callable[..., Any]) -> tuple[str, ...]:
    """What a rule asks for, by parameter."""
    names: tuple[str, ...] | None = getattr(rule, "requests", None)
    if names is not None:
        return names
    own = isinstance(rule, FunctionType) and _ELSEWHERE.isdisjoint(vars(rule))
    if not own or rule.__code__.co_flags & (inspect.CO_VARARGS | inspect.CO_VARKEYWORDS):
        return tuple(inspect.signature(rule).parameters)
    # A tenth of the package's import was spent where a signature was built of each rule.
    code = rule.__code__
    return code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]


def takes(*names: str, **defaults: Any) -> Callable[[Function], Function]:
    """The parameters of a kernel, by position, where names differ from op to op.

    Those with a default are the last of them; what the function takes by name alone stays.
    """

    def with_parameters(kernel: Function) -> Function:
        either, by_name = inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY
        known = inspect.signature(kernel).parameters.values()
        found = [inspect.Parameter(name, either) for name in names]
        found += [inspect.Parameter(name, either, default=d) for name, d in defaults.items()]
        found += [p for p in known if p.kind is by_name]
        vars(kernel)["__signature__"] = inspect.Signature(found)
        return kernel

    return with_parameters


class Carried:
    """The rule `g * derivative(...)`, or with a tangent in the place of g.

    Built code multiplies itself and calls the derivative.
    """

    __slots__ = ("derivative", "requests")

    def __init__(self, carried: str, derivative: Callable[..., Any]) -> None:
        self.requests = (carried, *requests_of(derivative))
        self.derivative = derivative

    def __call__(self, carried: Any, *known: Any) -> Any:
        return carried * self.derivative(*known)


class NotDifferentiable:
    """The rule of an op that torch does not differentiate: its backward says so."""

    __slots__ = ("why",)
    requests = ("g",)

    def __init__(self, why: str) -> None:
        self.why = why

    def __call__(self, g: Any) -> Any:
        raise NotImplementedError(self.why)


def inlined(function: Function) -> Function:
    """Let built code have the expression that a rule or kernel returns in the place of a call.

    A call costs 60 ns. The function is one `return`; without its source it stays a call.
    """
    vars(function)["inlined"] = True
    return function


ON_ARRAYS = {"F.xp is None": False, "F.xp is not None": True}
ON_FLOATS = {"self.dtype.kind in 'iub'": False}


def call_source(
    function: Any,
    name: str,
    passed: list[str],
    scope: dict[str, Any],
    facts: dict[str, bool] = ON_ARRAYS,
    timed: bool = False,
) -> str:
    """The source of a call of a rule or kernel on arrays: its expression where it is `inlined`.

    name: what `scope` calls it, to which the names of its globals are appended there.
    facts: what comparisons in it give. timed: operators become `F.operate_name(operands)`.
    """
    called = getattr(function, "called", None)  # by `calls`
    if called is not None:
        space, *passed = passed
        return f"{space}.{called}({', '.join(passed)})"
    if isinstance(function, Carried):
        factor, *passed = passed
        other = call_source(function.derivative, name, passed, scope, facts, timed)
        return f"F.operate_mul({factor}, {other})" if timed else f"{factor} * {other}"
    found = _returned(function) if hasattr(function, "inlined") else None
    if found is None:
        scope[name] = function
        return f"{name}({', '.join(passed)})"
    known = dict(zip(inspect.signature(function).parameters, passed, strict=True))
    found = _Substituted(known, facts, function, name, scope).visit(found)
    return f"({ast.unparse(_Operated().visit(found) if timed else found)})"


def _returned(function: Any) -> ast.expr | None:
    """The expression of a function, or None where its source is not there or another's.

    A file may have changed since its import: what is read is compiled and compared. (Calls of
    `module.function(...)` compile to something else where the import is seen, and stay calls.)
    """
    try:
        tree = ast.parse(textwrap.dedent(inspect.getsource(function)))
    except (OSError, SyntaxError):
        return None
    definition = tree.body[0]
    if not isinstance(definition, ast.FunctionDef) or function.__closure__:
        return None
    last = definition.body[-1]
    definition.decorator_list.clear()
    codes = [c for c in compile(tree, "", "exec").co_consts if isinstance(c, CodeType)]
    facts = attrgetter("co_code", "co_consts", "co_names", "co_varnames")
    same = [facts(code) for code in codes] == [facts(function.__code__)]
    return last.value if isinstance(last, ast.Return) and same else None


class _Substituted(ast.NodeTransformer):
    """An expression with what is passed in the place of parameters."""

    def __init__(
        self,
        passed: dict[str, str],
        facts: dict[str, bool],
        function: Any,
        name: str,
        scope: dict[str, Any],
    ) -> None:
        self.facts = facts
        self.passed = {key: ast.parse(text, mode="eval").body for key, text in passed.items()}
        self.known = function.__globals__
        self.name = name
        self.scope = scope

    def visit_Name(self, node: ast.Name) -> ast.expr:
        if node.id in self.passed:
            return self.passed[node.id]
        if node.id not in self.known:
            return node
        self.scope[f"{self.name}_{node.id}"] = self.known[node.id]
        return ast.Name(f"{self.name}_{node.id}", node.ctx)

    def visit_Attribute(self, node: ast.Attribute) -> Any:
        found = self.generic_visit(node)
        if ast.unparse(node.value) != "np":
            return found
        self.scope[f"np_{node.attr}"] = getattr(numpy, node.attr)  # looked up once, as a kernel is
        return ast.Name(f"np_{node.attr}", node.ctx)

    def visit_Compare(self, node: ast.Compare) -> Any:
        found = self.facts.get(ast.unparse(node))
        return self.generic_visit(node) if found is None else ast.Constant(found)

    def visit_IfExp(self, node: ast.IfExp) -> Any:
        self.generic_visit(node)
        if isinstance(node.test, ast.Constant):
            return node.body if node.test.value else node.orelse
        return node


OPERATED = {
    ast.Mult: "mul",
    ast.Add: "add",
    ast.Sub: "sub",
    ast.Div: "truediv",
    ast.Pow: "pow",
    ast.MatMult: "matmul",
    ast.USub: "neg",
}
"""The operators in rules that become a function of the namespace, `F.operate_mul`, where a span is
written of each."""


class _Operated(ast.NodeTransformer):
    """An expression with calls of `F.operate_mul` and the like in the place of operators."""

    def visit_BinOp(self, node: ast.BinOp) -> Any:
        self.generic_visit(node)
        return self._called(node, node.op, [node.left, node.right])

    def visit_UnaryOp(self, node: ast.UnaryOp) -> Any:
        self.generic_visit(node)
        return self._called(node, node.op, [node.operand])

    def _called(self, node: ast.expr, operator: ast.AST, operands: list[ast.expr]) -> ast.expr:
        name = OPERATED.get(type(operator))
        if name is None:
            return node
        function = ast.Attribute(ast.Name("F", ast.Load()), f"operate_{name}", ast.Load())
        return ast.Call(function, operands, [])
