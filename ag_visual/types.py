"""torch.types: names of types for annotations."""

from __future__ import annotations

import builtins
import os
from collections.abc import Sequence
from typing import IO

from ag_visual.core.tensor import Tensor
from ag_visual.devices import device
from ag_visual.dtypes import dtype
from ag_visual.layouts import layout
from ag_visual.names import only as _only
from ag_visual.sizes import Size

Number = int | float | bool
Device = device | str | int | None
FileLike = str | os.PathLike[str] | IO[bytes]
_int, _float, _bool, _complex = builtins.int, builtins.float, builtins.bool, builtins.complex
_dtype, _device, _layout = dtype, device, layout
_size = Size | list[int] | tuple[int, ...]
_symsize = Size | Sequence[int]
_TensorOrTensors = Tensor | Sequence[Tensor]

__all__ = ["Device", "FileLike", "Number"]
__dir__ = _only(__all__, __name__)
