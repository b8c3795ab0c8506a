"""ag_visual: automatic differentiation under torch's names, whose insides can be watched.

The top of the package: it names what the layers below offer. `import ag_visual as torch` runs
ordinary autograd code.
"""

from __future__ import annotations

import importlib
import pkgutil
import warnings as _warnings
from typing import Any

__version__ = "0.1.0"

# NumPy warns of inf and nan where torch is silent. A filter costs nothing per call, errstate 0.9 us.
_warnings.filterwarnings("ignore", category=RuntimeWarning, module=r"ag_visual\.")

from . import autograd, dtypes  # noqa: E402
from . import ops as _ops  # noqa: E402
from .core.tensor import Tensor  # noqa: E402
from .devices import device  # noqa: E402
from .dtypes import dtype, finfo, get_default_dtype, iinfo, set_default_dtype  # noqa: E402
from .sizes import Size  # noqa: E402
from .ops.table import functions as _functions  # noqa: E402

for _module in pkgutil.iter_modules(_ops.__path__):
    importlib.import_module(f"{_ops.__name__}.{_module.name}")

from .autograd import enable_grad, is_grad_enabled, no_grad, set_grad_enabled  # noqa: E402

globals().update(_functions)
globals().update({k: v for k, v in vars(dtypes).items() if isinstance(v, dtype)})

from .display import show  # noqa: E402
from .observe.dot import to_dot  # noqa: E402
from .session.api import debugger, load_recording, record, save_recording  # noqa: E402
from .session.control import attach as _attach  # noqa: E402


def load_ipython_extension(shell: Any) -> None:
    """`%load_ext ag_visual`: the magics, and the link to the Inspector."""
    _attach(shell)


_attach()
