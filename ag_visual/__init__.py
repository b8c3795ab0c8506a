"""ag_visual: automatic differentiation under torch's names, whose insides can be watched.

The top of the package: it names what the layers below offer. `import ag_visual as torch` runs
ordinary autograd code; `ag.record()`, `ag.show(loss)` and the Inspector show what it does.
"""

from __future__ import annotations

import importlib as _importlib
import importlib.util as _util
import sys as _sys
import warnings as _warnings
from typing import Any as _Any

__version__ = "0.1.0"

# NumPy warns of inf and nan where torch is silent. A filter costs a call nothing, errstate 0.9 us.
_warnings.filterwarnings("ignore", category=RuntimeWarning, module=r"ag_visual\.")

from ag_visual import absent as _absent, autograd, dtypes, ops as _ops, paths as _paths
from ag_visual.core.printing import get_printoptions, printoptions, set_printoptions
from ag_visual.core.tensor import Tensor
from ag_visual.devices import device
from ag_visual.dispatch.table import spaces as _named
from ag_visual.dtypes import dtype, finfo, get_default_dtype, iinfo, set_default_dtype
from ag_visual.layouts import (
    channels_last,
    channels_last_3d,
    contiguous_format,
    layout,
    memory_format,
    preserve_format,
    sparse_coo,
    sparse_csr,
    strided,
)
from ag_visual.names import only as _only
from ag_visual.sizes import Size

_functions = _named["torch"]

from ag_visual.autograd import enable_grad, no_grad, set_grad_enabled
from ag_visual.autograd.anomaly_mode import is_anomaly_check_nan_enabled, is_anomaly_enabled
from ag_visual.autograd.grad_mode import (
    inference_mode,
    is_grad_enabled,
    is_inference,
    is_inference_mode_enabled,
)
from ag_visual.ops.tensor.generator import Generator

_dtypes = {
    name: value
    for name, value in vars(dtypes).items()
    if isinstance(value, dtype) and not name.startswith("_")
}
_constants = {
    "e": 2.718281828459045,
    "inf": float("inf"),
    "nan": float("nan"),
    "newaxis": None,
    "pi": 3.141592653589793,
}
# Imported when first asked for: the front of the package stays quick and knows no Jupyter.
_lazy = {
    "Future": "futures",
    "GradScaler": "amp",
    "Handout": "display",
    "OutOfMemoryError": "errors",
    "Question": "display",
    "ScriptModule": "jit",
    "Storage": "ops.tensor.storages",
    "are_deterministic_algorithms_enabled": "switches",
    "autocast": "amp",
    "autocast_decrement_nesting": "amp.state",
    "autocast_increment_nesting": "amp.state",
    "clear_autocast_cache": "amp.state",
    "compile": "compiler",
    "compare": "display",
    "check_node": "session.node_check",
    "debugger": "session.api",
    "default_generator": "random",
    **dict.fromkeys(
        (
            *("get_deterministic_debug_mode", "get_float32_matmul_precision"),
            *("get_num_interop_threads", "get_num_threads", "is_warn_always_enabled"),
            *("is_deterministic_algorithms_warn_only_enabled", "set_deterministic_debug_mode"),
            *("set_float32_matmul_precision", "set_flush_denormal", "set_num_interop_threads"),
            *("set_num_threads", "set_warn_always", "use_deterministic_algorithms"),
        ),
        "switches",
    ),
    "get_autocast_cpu_dtype": "amp.state",
    "get_autocast_dtype": "amp.state",
    "get_autocast_gpu_dtype": "amp.state",
    "is_autocast_cache_enabled": "amp.state",
    "is_autocast_cpu_enabled": "amp.state",
    "is_autocast_enabled": "amp.state",
    "set_autocast_cache_enabled": "amp.state",
    "set_autocast_cpu_dtype": "amp.state",
    "set_autocast_cpu_enabled": "amp.state",
    "set_autocast_dtype": "amp.state",
    "set_autocast_enabled": "amp.state",
    "set_autocast_gpu_dtype": "amp.state",
    **dict.fromkeys(("gru_cell", "lstm_cell", "rnn_relu_cell", "rnn_tanh_cell"), "nn.recurrent"),
    "explain": "observe.diagnose.explain",
    "lesson": "session.lessons",
    "load": "serialization",
    "lobpcg": "eigenpairs",
    "load_recording": "session.api",
    "record": "session.api",
    "save": "serialization",
    "save_recording": "session.api",
    "segment_reduce": "segments",
    "show": "display",
    "to_dot": "observe.export.dot",
    "vmap": "func",
    "watch": "bridge",
}
__all__ = [
    "Generator",
    "Size",
    "Tensor",
    "autograd",
    "channels_last",
    "channels_last_3d",
    "contiguous_format",
    "device",
    "dtype",
    "enable_grad",
    "finfo",
    "get_default_dtype",
    "get_printoptions",
    "iinfo",
    "inference_mode",
    "is_anomaly_check_nan_enabled",
    "is_anomaly_enabled",
    "is_grad_enabled",
    "is_inference",
    "is_inference_mode_enabled",
    "layout",
    "memory_format",
    "no_grad",
    "preserve_format",
    "printoptions",
    "set_default_dtype",
    "set_grad_enabled",
    "set_printoptions",
    "sparse_coo",
    "sparse_csr",
    "strided",
]
__all__ += [*_dtypes, *_constants, *_functions]
__all__ += [*_lazy]


def __getattr__(name: str) -> _Any:
    """Names that are imported when first used; for any other, an error that names the nearest."""
    if name in _lazy:
        value = getattr(_importlib.import_module(f"{__name__}.{_lazy[name]}"), name)
        globals()[name] = value
        return value
    if name.startswith("_foreach_"):
        from ag_visual import foreach

        if name in foreach.NAMES:
            globals()[name] = foreach.named(name)
            return globals()[name]
    path = f"{__name__}.{name}"
    if path in _sys.modules or name in _spaces or (name[:1] != "_" and _util.find_spec(path)):
        return _importlib.import_module(path)
    if name in _absent.STAND_INS[""]:
        globals()[name] = _absent.stand_in("", name)
        return globals()[name]
    said = _absent.said_of(name)
    near = () if said or name.startswith("_") else _nearest(name)
    hint = f" {said}" if said else f" The nearest: {', '.join(near)}." if near else ""
    raise AttributeError(f"ag_visual has no {name!r}.{hint}", name=name, obj=_sys.modules[__name__])


def _nearest(name: str) -> list[str]:
    from difflib import get_close_matches

    layers = [f"nn.functional.{name}"] if name in _named["nn.functional"] else []
    found = layers + get_close_matches(name, __all__, n=3, cutoff=0.6)
    methods = [m for m in vars(Tensor) if hasattr(Tensor, m) and m not in globals()]
    methods = [m for m in methods if not m.startswith("_")]
    return found + [f"Tensor.{m}" for m in get_close_matches(name, methods, n=1, cutoff=0.8)]


_spaces = (
    *("__config__", "__future__", "accelerator", "amp", "autograd", "backends", "compiler", "cpu"),
    *("cuda", "distributed", "distributions", "fft", "func", "functional", "futures", "fx", "hub"),
    *("jit", "linalg", "mps", "multiprocessing", "nn", "onnx", "optim", "overrides", "profiler"),
    *("quasirandom", "random", "return_types", "serialization", "signal", "sparse", "special"),
    *("testing", "torch_version", "types", "utils", "version", "xpu"),
)
__dir__ = _only([*__all__, *_spaces, "load_ipython_extension"], __name__)


def load_ipython_extension(shell: _Any) -> None:
    """`%load_ext ag_visual`: the magics, and the link to the Inspector."""
    from ag_visual.session.kernel import attach

    attach(shell)


_absent.mark(Tensor)
_paths.install()

# From here on the builtins sum, max, float ... are hidden by torch's names.
globals().update(_constants)
globals().update(_functions)
globals().update(_dtypes)

if "IPython" in _sys.modules:
    from ag_visual.session.kernel import attach as _attach

    _attach()

del annotations
