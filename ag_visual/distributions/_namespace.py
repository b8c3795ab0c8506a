"""F: torch's functions as attributes, for the formulas of this package."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from ag_visual.dispatch.table import functions

F: Any = SimpleNamespace(**functions)
