"""How Sphinx builds the documentation: `python -m sphinx -W -b html docs docs/_build`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from pygments.lexers.python import PythonLexer
from sphinx.application import Sphinx

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE.parent), str(HERE / "extensions")]

import ag_visual  # noqa: E402

project = "ag_visual"
author = "the ag_visual developers"
copyright = author
version = release = ag_visual.__version__

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx_copybutton", "op_table"]
source_suffix = {".md": "markdown"}
exclude_patterns = ["_build", "images/README.md"]

html_theme = "furo"
html_title = f"ag_visual {release}"
html_static_path = ["static"]
html_css_files = ["pages.css"]
html_copy_source = False
html_show_sphinx = False

myst_enable_extensions = ["colon_fence", "deflist"]
myst_heading_anchors = 3

# Docstrings mark code with single backticks, as the rest of the package does.
default_role = "code"
autodoc_member_order = "groupwise"
autodoc_typehints = "signature"
autodoc_typehints_format = "short"
autodoc_preserve_defaults = True
autodoc_inherit_docstrings = False

copybutton_prompt_text = r">>> |\.\.\. |\$ "
copybutton_prompt_is_regexp = True
copybutton_exclude = ".linenos, .gp"


def plain_bars(app: Sphinx, what: str, name: str, obj: Any, options: Any, lines: list[str]) -> None:
    """`|x|` is an absolute value in docstrings, not a substitution; code keeps its bars."""
    for number, line in enumerate(lines):
        if not line.lstrip().startswith((">>>", "...")):
            pieces = line.split("`")
            pieces[::2] = [piece.replace("|", r"\|") for piece in pieces[::2]]
            lines[number] = "`".join(pieces)


def setup(app: Sphinx) -> dict[str, Any]:
    app.add_lexer("ipython", PythonLexer)
    app.connect("autodoc-process-docstring", plain_bars)
    return {"parallel_read_safe": True}
