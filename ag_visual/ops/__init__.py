"""The operations, by torch's own topics. Importing this package declares every one of them.

`ag_visual.dispatch` says how an op is declared and called; the files here declare.
"""

from __future__ import annotations

import importlib
import pkgutil

_modules = [module.name for module in pkgutil.walk_packages(__path__, f"{__name__}.")]
# Python's operators name ops of other files: last.
for _name in sorted(_modules, key=lambda name: name.endswith(".operators")):
    importlib.import_module(_name)
