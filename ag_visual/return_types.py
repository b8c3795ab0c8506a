"""torch.return_types: the named tuples that ops with several results give."""

from __future__ import annotations

from typing import Any

from ag_visual import absent as _absent
from ag_visual.dispatch.interpreted import named_tuple as _named_tuple
from ag_visual.dispatch.table import return_types as _fields
from ag_visual.names import only as _only

_missing = _absent.asked(__name__, "return_types")


def __getattr__(name: str) -> Any:
    return _named_tuple(name, _fields[name]) if name in _fields else _missing(name)


__dir__ = _only(_fields, __name__)
