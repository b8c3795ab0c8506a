"""torch.save and torch.load, in a format that never runs code: safetensors.

Any safetensors file can be loaded, and any reader of such files finds the arrays of a saved one;
how they are nested, and which of them share memory, stands in the file's metadata.
"""

from __future__ import annotations

import json
import os
from typing import Any

from ..core.tensor import from_array
from ..devices import device as Device
from . import container
from .tree import Reader, Writer

_KEY = "ag_visual"


def save(obj: Any, f: Any) -> None:
    """Save tensors, and containers of them, to a path or to a file opened for bytes.

    Containers are dictionaries, lists, tuples and sets, nested in any way; beside tensors they may
    hold NumPy arrays, numbers, strings, bytes and None. Views stay views of the same memory, and a
    tensor that occurs twice is one tensor again. A file at that path is replaced when all is
    written, and stays as it was if anything fails.

    >>> import ag_visual as ag, io
    >>> file = io.BytesIO()
    >>> ag.save({"w": ag.ones(2), "step": 3}, file)
    >>> _ = file.seek(0)
    >>> ag.load(file)
    {'w': tensor([1., 1.]), 'step': 3}

    Raises:
        TypeError: something in it cannot be saved; the text says where it is.
    """
    writer = Writer()
    tree = writer.encode(obj, "")
    arrays, tensors = writer.finish()
    about = json.dumps({"version": 1, "tree": tree, "tensors": tensors}, allow_nan=False)
    container.write(f, arrays, {_KEY: about})


def load(
    f: Any,
    map_location: Any = None,
    *,
    weights_only: bool | None = None,
    mmap: bool | None = None,
) -> Any:
    """Load what `save` wrote, or a safetensors file of anybody's as a dictionary of tensors.

    map_location: the device for all tensors, or a dictionary from saved devices to others; by
    default the device on which each was. weights_only and mmap are torch's, and change nothing:
    no code is ever run.

    Raises:
        ValueError: the file is of torch.save or pickle (the text says what to do), or damaged.
    """
    if map_location is not None and not isinstance(map_location, str | dict | Device):
        raise TypeError(
            "map_location should be a device, its name, or a dictionary from names to devices, but "
            f"is {type(map_location).__name__}"
        )
    if not hasattr(f, "read"):
        f = os.fspath(f)
    arrays, metadata = container.read(f)

    def place(saved: str) -> Device:
        if isinstance(map_location, dict):
            return Device(map_location.get(saved, saved))
        return Device(saved if map_location is None else map_location)

    if _KEY not in metadata:
        target = place("cpu")
        return {name: from_array(array).to(target) for name, array in arrays.items()}
    about = json.loads(metadata[_KEY])
    if about["version"] != 1:
        raise ValueError(
            f"the file is of version {about['version']} of this format, which is newer than this "
            "package: update it"
        )
    return Reader(arrays, about["tensors"], place).decode(about["tree"])


__all__ = ["load", "save"]
