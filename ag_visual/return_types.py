"""torch.return_types: the named tuples that ops with several results give."""

from __future__ import annotations

from typing import Any

from ag_visual import absent as _absent
from ag_visual.dispatch.interpreted import named_tuple as _named_tuple
from ag_visual.dispatch.table import ops as _ops
from ag_visual.names import only as _only

# Those of functions that are made of ops.
_fields: dict[str, tuple[str, ...]] = {
    "histogramdd": ("hist", "bin_edges"),
    "linalg_ldl_factor": ("LD", "pivots"),
    "linalg_lu_factor": ("LU", "pivots"),
    "linalg_slogdet": ("sign", "logabsdet"),
    "linalg_solve_ex": ("result", "info"),
    "slogdet": ("sign", "logabsdet"),
    "svd": ("U", "S", "V"),
}
for _op in _ops.values():
    _offered = _op.namedtuple or _op.spaces
    if _offered and len(_op.outputs) > 1 and _op.outputs[0] != "result0":
        _fields.setdefault(_op.namedtuple or _op.name, tuple(_op.outputs))
_missing = _absent.asked(__name__, "return_types")


def __getattr__(name: str) -> Any:
    return _named_tuple(name, _fields[name]) if name in _fields else _missing(name)


__dir__ = _only(_fields, __name__)
