"""The operations, by torch's own topics. Importing this package declares every one of them.

`ag_visual.dispatch` says how an op is declared and called; the files here declare.
"""

from __future__ import annotations

import importlib
import pkgutil

for _module in pkgutil.walk_packages(__path__, f"{__name__}."):
    importlib.import_module(_module.name)
