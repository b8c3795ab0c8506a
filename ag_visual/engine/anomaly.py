"""Anomaly mode: forward stacks kept with nodes, and gradients checked for NaN as they appear."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

from ag_visual.arrays.coo import Coo
from ag_visual.core import modes
from ag_visual.core.source import warn


def describe(node: Any) -> list[str]:
    """The warnings for a failing node: the stack of its forward call, and those behind it.

    A node that another node's backward made (create_graph) has that one, its parent, behind it.
    """
    texts = [f"Error detected in {node.name()}. {_stack(node, 'caused the error')}"]
    parent = node.metadata.get("parent_")
    while parent is not None:
        stack = _stack(parent, "induced the previous calculation")
        texts.append(f"\n\nPrevious calculation was induced by {parent.name()}. {stack}")
        parent = parent.metadata.get("parent_")
    return texts


def _stack(node: Any, did: str) -> str:
    lines = node.metadata.get("traceback_")
    if lines is None:
        return (
            "No forward pass information available. Enable detect anomaly during forward pass for "
            "more information."
        )
    return f"Traceback of forward call that {did}:\n" + "".join(lines)


def _warn(text: str) -> None:
    """A warning that never takes the place of the error it belongs to."""
    try:
        warn(text)
    except UserWarning:  # warnings are errors here
        print(f"UserWarning: {text}", file=sys.stderr)


def run(node: Any, compute: Callable[[], Any], checks: bool = True) -> Any:
    """Run a node's computation; on failure or NaN tell where its forward call was."""
    previous, modes.state.node = modes.state.node, node
    try:
        results = compute()
        if checks and modes.anomaly:
            for index, result in enumerate(results):
                if result is not None and _has_nan(getattr(result, "_array", result)):
                    raise RuntimeError(
                        f"Function '{node.name()}' returned nan values in its {index}th output."
                    )
        return results
    except Exception:
        for text in describe(node):
            _warn(text)
        raise
    finally:
        modes.state.node = previous


def _has_nan(array: Any) -> bool:
    values = array.values if type(array) is Coo else array
    return bool((values != values).any())
