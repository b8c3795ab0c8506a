"""The Inspector in a cell's output and in files: show, mime bundles, the inline widget.

Imports any layer below; imported by the package's top alone. ipywidgets and anywidget are imported
only when something is shown.
"""

from ag_visual.display.compare import compare
from ag_visual.display.show import Picture, show

__all__ = ["Picture", "compare", "show"]
