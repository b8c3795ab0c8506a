"""torch.nn.parallel on one device: a module that is called as it is."""

from __future__ import annotations

from typing import Any

from ag_visual import absent as _absent
from ag_visual.names import expose as _expose
from ag_visual.nn.module import Module


class DataParallel(Module):
    """Calls `module`, on the device where it is: batches are not split.

    Its state_dict has the keys of torch's, which begin with `module.`.
    """

    def __init__(
        self, module: Module, device_ids: Any = None, output_device: Any = None, dim: int = 0
    ) -> None:
        super().__init__()
        self.module = module
        self.device_ids: list[Any] = []
        self.output_device, self.dim = output_device, dim

    def forward(self, *inputs: Any, **kwargs: Any) -> Any:
        return self.module(*inputs, **kwargs)


def data_parallel(
    module: Module,
    inputs: Any,
    device_ids: Any = None,
    output_device: Any = None,
    dim: int = 0,
    module_kwargs: Any = None,
) -> Any:
    """`module(*inputs, **module_kwargs)` on the device where it is."""
    given = inputs if isinstance(inputs, tuple) else () if inputs is None else (inputs,)
    return module(*given, **(module_kwargs or {}))


_expose(__name__)

__getattr__ = _absent.asked(__name__, "nn.parallel")
