"""The commands `ag-visual ...` and `python -m ag_visual ...`. Nothing imports this package."""

from .main import main

__all__ = ["main"]
