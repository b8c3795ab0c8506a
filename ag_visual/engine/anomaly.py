"""Anomaly mode: forward stacks kept with nodes, and gradients checked for NaN as they appear."""

from __future__ import annotations

import warnings
from typing import Any

from ..core import modes


def describe(node: Any) -> str:
    """The warning text for a failing node: the stack of its forward call, and its parents'."""
    text = (
        f"Error detected in {node.name()}. Traceback of forward call that caused the error:\n"
        + "".join(node.metadata.get("traceback_", ["  (made outside of anomaly mode)\n"]))
    )
    parent = node.metadata.get("parent_")
    while parent is not None:
        text += (
            f"\nPrevious calculation was induced by {parent.name()}. Traceback of forward call "
            "that induced the previous calculation:\n"
            + "".join(parent.metadata.get("traceback_", []))
        )
        parent = parent.metadata.get("parent_")
    return text


def run(node: Any, compute: Any) -> Any:
    """Run a node's computation; on failure or NaN tell where its forward call was."""
    previous, modes.state.node = modes.state.node, node
    try:
        results = compute()
        if modes.anomaly:
            for index, result in enumerate(results):
                if result is not None and _has_nan(getattr(result, "_array", result)):
                    raise RuntimeError(
                        f"Function '{node.name()}' returned nan values in its {index}th output."
                    )
        return results
    except Exception:
        warnings.warn(describe(node), UserWarning, stacklevel=2)
        raise
    finally:
        modes.state.node = previous


def _has_nan(array: Any) -> bool:
    return bool((array != array).any())
