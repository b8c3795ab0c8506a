"""What the caller calls the things that are shown: the names of variables."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ag_visual.observe.record.leaf_names import Scope


def names_of(shown: Iterable[Any], scopes: Iterable[Scope]) -> list[str]:
    """For each of these the first variable that is this very object; those without one are left
    out. Names that begin with an underscore are the notebook's own.
    """
    known: dict[int, str] = {}
    for scope in scopes:
        for name, value in list(scope.items()):
            if isinstance(name, str) and name.isidentifier() and not name.startswith("_"):
                known.setdefault(id(value), name)
    return [known[id(one)] for one in shown if id(one) in known]
