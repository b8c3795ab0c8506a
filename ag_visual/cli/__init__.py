"""The commands `ag-visual ...` and `python -m ag_visual ...`. Nothing imports this package."""

from ag_visual.cli.main import main

__all__ = ["main"]
