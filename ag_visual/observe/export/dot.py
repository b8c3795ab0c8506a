"""The backward graph as DOT text and as a graphviz object, for papers and slides.

Each use of a leaf is a badge of its own: hubs make Graphviz slow and its pictures unreadable.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from typing import Any

from ag_visual.core import source
from ag_visual.core.node import Node
from ag_visual.core.tensor import Tensor
from ag_visual.errors import MissingExtraError, type_name
from ag_visual.events.live import LiveNode, engine_of
from ag_visual.observe.record.graph import walk
from ag_visual.observe.record.leaf_names import Labels
from ag_visual.observe.wire.columns import shape_text


def listed(outputs: Any) -> list[Any]:
    """One tensor or node, or several, as a list."""
    alone = isinstance(outputs, Tensor | Node) or engine_of(outputs) is not None
    return [outputs] if alone else list(outputs)


def roots_of(outputs: Any) -> list[LiveNode]:
    """The nodes to begin with. Raises for anything but a tensor or node in a graph."""
    given = listed(outputs)
    if not given:
        raise ValueError("there is no output to draw the graph of: the list is empty")
    roots: list[LiveNode] = []
    for item in given:
        if isinstance(item, Node):
            roots.append(item)
            continue
        engine = engine_of(item)
        if engine is None and not isinstance(item, Tensor):
            raise TypeError(f"expected a Tensor or a node, but got {type_name(item)}")
        if engine is None:
            edge = item.gradient_edge()
            root = None if edge is None else edge[0]
        else:
            root = engine.node_of(item)
        if root is None:
            raise RuntimeError(
                f"this tensor of shape {list(item.shape)} has no graph: nothing that requires grad "
                "led to it (or it was detached, or made under no_grad)"
            )
        roots.append(root)
    return roots


def dot_text(outputs: Tensor | Node | Iterable[Tensor | Node], *, sources: bool = True) -> str:
    """The graph of one or several outputs in the DOT language; needs nothing installed.

    sources=False leaves the text of the user's lines out.
    """
    return "\n".join(["digraph {", *("  " + line for line in _lines(outputs, sources)), "}", ""])


def to_dot(outputs: Tensor | Node | Iterable[Tensor | Node], *, sources: bool = True) -> Any:
    """The graph of one or several outputs as a `graphviz.Digraph`.

    In a notebook it shows itself where Graphviz's program `dot` is installed, else says how to get
    it; `.source` is the DOT text and `.render("graph", format="pdf")` writes a file. Raises
    MissingExtraError without the Python package graphviz (`dot_text` works without it).
    """
    text = dot_text(outputs, sources=sources)
    try:
        import graphviz
    except ImportError as error:
        raise MissingExtraError(
            "to_dot needs the package graphviz: pip install 'ag-visual[lab]'. "
            "dot_text(loss) gives the same graph as text without it."
        ) from error

    class Digraph(graphviz.Digraph):  # type: ignore[misc, unused-ignore]
        def _repr_mimebundle_(self, *args: Any, **kwargs: Any) -> Any:
            try:
                return super()._repr_mimebundle_(*args, **kwargs)
            except graphviz.ExecutableNotFound:
                return {"text/plain": f"{_NO_DOT}\n\n{self.source}"}

    return Digraph(body=[line + "\n" for line in text.splitlines()[1:-1]])


_NO_DOT = (
    "The picture needs Graphviz's program dot on PATH (apt install graphviz, brew install "
    "graphviz, or conda install graphviz). The graph as DOT text:"
)


def _lines(outputs: Tensor | Node | Iterable[Tensor | Node], sources: bool) -> Iterable[str]:
    labels = Labels()
    labels.learn(sys._getframe(1))
    yield 'graph [rankdir=TB, ranksep=0.3, nodesep=0.2, fontname="Helvetica"]'
    yield (
        'node [shape=box, style="rounded,filled", fillcolor=white, fontname="Helvetica", '
        "fontsize=11]"
    )
    yield "edge [color=gray40, arrowsize=0.6]"
    for node in reversed(walk(roots_of(outputs))):
        if node.leaf:
            continue
        yield f"n{node.seq} [label={_label(node, sources)}]"
        for index, (below, number) in enumerate(node.next_functions):
            if below is None:
                continue
            if below.leaf:
                badge = f"p{node.seq}_{index}"
                label = labels.of(below.variable) or "leaf"
                text = _quoted(label, shape_text(below.output_meta[0][0]))
                yield f'{badge} [label={text}, shape=oval, fillcolor="#efeafa", color="#6a4ca0"]'
                yield f"n{node.seq} -> {badge}"
            else:
                head = f' [taillabel="{number}"]' if number else ""
                yield f"n{node.seq} -> n{below.seq}{head}"


def _label(node: LiveNode, sources: bool) -> str:
    site = None if node.call_site is None else source.resolve(*node.call_site)
    text = site.text.partition("\n")[0] if site is not None and sources else ""
    if len(text) > 40:
        text = text[:39] + "…"
    return _quoted(node.name(), shape_text(node.output_meta[0][0]), text)


def _quoted(*lines: str) -> str:
    escaped = (line.replace("\\", "\\\\").replace('"', '\\"') for line in lines if line)
    return '"' + "\\n".join(escaped) + '"'
