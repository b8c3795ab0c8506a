"""The Inspector in a cell's output and in files: show, mime bundles, the inline widget.

Imports any layer below; imported by the package's top alone. ipywidgets and anywidget are imported
only when something is shown.
"""

from ag_visual.display.compare import compare
from ag_visual.display.handout import Handout
from ag_visual.display.question import Question
from ag_visual.display.show import Picture, show

__all__ = ["Handout", "Picture", "Question", "compare", "show"]
