"""torch.save and torch.load, in a format that never runs code: safetensors.

Any safetensors file can be loaded, and any reader of such files finds the arrays of a saved one;
how they are nested, and which of them share memory, stands in the file's metadata.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from ag_visual.core.tensor import from_array
from ag_visual.devices import device as Device
from ag_visual.errors import FormatError
from ag_visual.names import only as _only
from ag_visual.serialization import container
from ag_visual.serialization.tree import Reader, Writer

_KEY = "ag_visual"
# What a wrong type, name, number or depth raises while objects are made of JSON.
_DAMAGE = (ValueError, TypeError, LookupError, AttributeError, ArithmeticError, RecursionError)


def save(obj: Any, f: Any) -> None:
    """Save tensors, and containers of them, to a path or to a file opened for bytes.

    Containers are dictionaries, lists, tuples and sets, nested in any way; beside tensors they may
    hold NumPy arrays, numbers, strings, bytes and None. Views stay views of the same memory, and a
    tensor that occurs twice is one tensor again. A file at that path is replaced when all is
    written, and stays as it was if anything fails or the process is killed; its mode stays. Through
    a symbolic link the file that it names is written, and devices and pipes get the bytes.

    >>> import ag_visual as ag, io
    >>> file = io.BytesIO()
    >>> ag.save({"w": ag.ones(2), "step": 3}, file)
    >>> _ = file.seek(0)
    >>> ag.load(file)
    {'w': tensor([1., 1.]), 'step': 3}

    Raises:
        TypeError: something in it cannot be saved; the text says where it is.
        ValueError: a container contains itself, or is nested too deeply.
        OSError: the place cannot be written.
    """
    writer = Writer()
    try:
        tree = writer.encode(obj, "")
        arrays, tensors = writer.finish()
        about = json.dumps({"version": 1, "tree": tree, "tensors": tensors}, allow_nan=False)
    except RecursionError:
        raise ValueError("the object is nested too deeply to be saved") from None
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

    Raises FormatError (a ValueError) for a file of torch.save or pickle, whose text says what to
    do, and for one that is foreign, damaged or cut off: nothing is made of it. BackendUnavailable:
    a tensor was on a device that is not here; give a map_location. OSError: it cannot be read.
    """
    if map_location is not None and not isinstance(map_location, str | dict | Device):
        raise TypeError(
            "map_location should be a device, its name, or a dictionary from names to devices, but "
            f"is {type(map_location).__name__}"
        )
    place = _placement(map_location)
    arrays, metadata = container.read(f)
    if _KEY not in metadata:
        target = place("cpu")
        return {name: from_array(array).to(target) for name, array in arrays.items()}
    try:
        about = json.loads(metadata[_KEY])
        if about["version"] == 1:
            return Reader(arrays, about["tensors"], place).decode(about["tree"])
        told = f"is of version {about['version']!r} of this format: update this package to read it"
    except FormatError as error:
        told = f"is damaged: {error}"
    except _DAMAGE as error:
        raise FormatError(
            f"{container.name_of(f)} is damaged: what it says about its objects cannot be read"
        ) from error
    raise FormatError(f"{container.name_of(f)} {told}")


def _placement(map_location: Any) -> Callable[[str], Device]:
    """From the device on which a tensor was to that on which it shall be."""
    if isinstance(map_location, dict):
        moved = {saved: Device(to) for saved, to in map_location.items()}
        return lambda saved: moved.get(saved) or Device(saved)
    if map_location is None:
        return Device
    target = Device(map_location)
    return lambda saved: target


__all__ = ["load", "save"]
__dir__ = _only(__all__, __name__)
