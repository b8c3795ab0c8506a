"""torch.nn.utils.init: modules without values."""

from __future__ import annotations

import inspect
from typing import Any

from ag_visual.names import expose as _expose
from ag_visual.nn.module import Module


def skip_init(module_cls: type[Module], *args: Any, **kwargs: Any) -> Module:
    """A module on `device` whose parameters and buffers have no values yet.

    No random numbers are drawn for them.

    Raises:
        RuntimeError: the class is not a Module, or takes no `device`.
    """
    if not issubclass(module_cls, Module):
        raise RuntimeError(f"Expected a Module; got {module_cls}")
    if "device" not in inspect.signature(module_cls).parameters:
        raise RuntimeError("Module must support a 'device' arg to skip initialization")
    where = kwargs.pop("device", "cpu")
    return module_cls(*args, **kwargs, device="meta").to_empty(device=where)


_expose(__name__)
