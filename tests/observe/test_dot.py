"""DOT text of a graph."""

from __future__ import annotations

import builtins
import shutil

import graphviz
import pytest

import ag_visual as ag
from ag_visual.errors import MissingExtraError
from ag_visual.observe.export.dot import dot_text, to_dot


def graph():
    x = ag.tensor([1.0, 2.0], requires_grad=True)
    y = x * x
    return y * x


def test_parameters_are_badges_and_edges_go_down():
    text = dot_text(graph())
    assert text.count("MulBackward0") == 2
    assert text.count("shape=oval") == 3
    assert text.count(" -> ") == 4
    assert text.startswith("digraph {")


def test_names_and_lines_are_quoted():
    evil = ag.tensor([1.0], requires_grad=True)
    text = dot_text(evil * len('"\\ <b>'))
    assert '\\"' in text
    assert 'label="MulBackward0\\n1\\n' in text
    assert "evil" in text
    assert "evil *" not in dot_text(evil * 1.0, sources=False)


def test_object_holds_the_same_graph():
    found = to_dot(graph())
    assert isinstance(found, graphviz.Digraph)
    assert found.source.count(" -> ") == 4


def test_without_the_program_the_text_is_shown(monkeypatch):
    def missing(*args, **kwargs):
        raise graphviz.ExecutableNotFound(["dot"])

    monkeypatch.setattr(graphviz.Digraph, "_repr_mimebundle_", missing)
    shown = to_dot(graph())._repr_mimebundle_()
    assert shown["text/plain"].startswith("The picture needs Graphviz's program dot")
    assert "digraph" in shown["text/plain"]


def test_without_the_package_the_extra_is_named(monkeypatch):
    real = builtins.__import__

    def blocked(name, *args, **kwargs):
        if name == "graphviz":
            raise ImportError(name)
        return real(name, *args, **kwargs)

    monkeypatch.setattr(builtins, "__import__", blocked)
    with pytest.raises(MissingExtraError, match=r"pip install 'ag-visual\[lab\]'"):
        to_dot(graph())
    assert "digraph" in dot_text(graph())


@pytest.mark.skipif(shutil.which("dot") is None, reason="Graphviz's dot is not on PATH")
def test_graphviz_reads_it():
    assert "<svg" in to_dot(graph()).pipe(format="svg").decode()


@pytest.mark.parametrize(
    ("what", "error", "words"),
    [
        ([], ValueError, "list is empty"),
        (3.0, TypeError, "not iterable"),
        ([3.0], TypeError, "expected a Tensor or a node, but got float"),
        (ag.tensor([1.0]), RuntimeError, r"shape \[1\] has no graph"),
    ],
)
def test_what_has_no_graph(what, error, words):
    with pytest.raises(error, match=words):
        dot_text(what)


def test_deep_graph_needs_no_recursion():
    x = ag.tensor([1.0], requires_grad=True)
    h = x
    for _ in range(20_000):
        h = h * x
    assert dot_text(h, sources=False).count("MulBackward0") == 20_000
