"""What is true of an op is said at its declaration: no other file keeps a list of op names."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import ag_visual
from ag_visual.dispatch.table import composites, ops

PACKAGE = Path(ag_visual.__file__).parent
OF_OPS = frozenset(name + ending for name in (*ops, *composites) for ending in ("", "_"))
FEWEST = 3
"""Names in one collection that make a list: two may be words (min and max, any and all)."""

MAY = {
    "display/arithmetic.py": "the functions of a pocket calculator, which works on Python's floats",
    "foreach.py": "the bodies of those _foreach functions that follow from no other function",
    "nn/init.py": "what torch.nn.init.calculate_gain takes as an argument",
    "observe/compare/differences.py": "the figures of a tensor's summary",
    "observe/formulas/notation.py": "Python's operators, by Python's own names",
    "paths.py": "the names of torch's module torch.functional",
    "segments.py": "the arguments of torch.segment_reduce and scatter_reduce",
    "sparse.py": "the names of torch's module torch.sparse",
}
"""Files whose words are something else than a fact about ops, and what."""
DECLARE = ("ops/",)
"""Where ops are declared, and groups of them in loops."""
BELOW = ("arrays/",)
"""Where names are NumPy's: nothing there knows of ops."""
LATER = ("bridge/",)
"""Where names are those of PyTorch's own ops, as its profiler and its dispatcher write them."""


def lists_of_ops(text: str) -> Iterator[tuple[int, list[str]]]:
    """Line and names of each collection that is mostly names of ops."""
    tree = ast.parse(text)
    inner: set[int] = set()
    for node in ast.walk(tree):
        if id(node) in inner:
            continue
        words = _words(node)
        if isinstance(node, ast.Tuple | ast.List | ast.Set):
            inner.update(map(id, ast.walk(node)))
        found = sorted(OF_OPS.intersection(words))
        mostly = 0.9 if isinstance(node, ast.Constant) else 0.5
        if len(found) >= FEWEST and len(found) >= mostly * len(words):
            yield node.lineno, found  # type: ignore[attr-defined]


def _words(node: ast.AST) -> list[str]:
    match node:
        case ast.Tuple(elts) | ast.List(elts) | ast.Set(elts):
            parts = elts
        case ast.Dict(keys):
            parts = [key for key in keys if key is not None]
        case ast.Constant(str(text)) if len(text.split()) >= FEWEST:
            return text.split()
        case _:
            return []
    words = [part.value if isinstance(part, ast.Starred) else part for part in parts]
    return [
        word
        for part in words
        for word in ([part.value] if isinstance(part, ast.Constant) else _words(part))
        if isinstance(word, str)
    ]


def told_by_name(text: str) -> Iterator[tuple[int, str]]:
    """Line and text of each comparison of an op's name: `op.name == "addr"`."""
    if _COMPARED.search(text) is None:  # most files: reading them takes a while
        return
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Compare) and _is_an_ops_name(node.left):
            said = {each.value for each in ast.walk(node) if isinstance(each, ast.Constant)}
            if said & OF_OPS:
                yield node.lineno, ast.unparse(node)


_COMPARED = re.compile(r"\b(op|record|found|each)\.(public_)?name (==|!=|in|not in) ")


def _is_an_ops_name(node: ast.expr) -> bool:
    match node:
        case ast.Attribute(ast.Name(owner) | ast.Attribute(_, owner), "name" | "public_name"):
            return owner in ("op", "record", "found", "each")
    return False


def _sources() -> Iterator[tuple[str, str]]:
    for path in sorted(PACKAGE.rglob("*.py")):
        yield path.relative_to(PACKAGE).as_posix(), path.read_text()


def test_no_list_of_ops_stands_beside_the_declarations() -> None:
    found = {
        f"{name}:{line}": names
        for name, text in _sources()
        if not name.startswith((*DECLARE, *BELOW, *LATER)) and name not in MAY
        for line, names in lists_of_ops(text)
    }
    assert found == {}, "say it at the declaration of each, as a field of dispatch.record.Op"


def test_no_op_is_told_by_its_name() -> None:
    found = [
        f"{name}:{line}: {said}" for name, text in _sources() for line, said in told_by_name(text)
    ]
    assert found == []


def test_each_exception_is_still_one() -> None:
    for name in MAY:
        assert any(lists_of_ops((PACKAGE / name).read_text())), name


def test_a_planted_list_is_found() -> None:
    planted = {
        'ZERO = "sin tan relu floor"': ["floor", "relu", "sin", "tan"],
        'A = frozenset(("sin", *("tan", "relu_")))': ["relu_", "sin", "tan"],
        'COST = {"sin": 1, "tan": 2, "relu": 3}': ["relu", "sin", "tan"],
    }
    for text, names in planted.items():
        assert [found for _, found in lists_of_ops(text)] == [names]
    assert not list(lists_of_ops('"the sin of a man"\nPAIR = ("min", "max")'))
    assert list(told_by_name('if batch.op.name == "addr": pass'))
    assert list(told_by_name('if op.public_name in ("mm", "mv"): pass'))
    assert not list(told_by_name('if field.name == "threshold": pass'))
