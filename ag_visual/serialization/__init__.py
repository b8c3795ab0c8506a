"""torch.save and torch.load: torch's own files, and safetensors, neither of which runs code here.

What a file names is looked up in a table (`known`), never imported. docs/notes/checkpoints.md says
why a name that ends in `.safetensors` gives that format and every other gives torch's.
"""

from __future__ import annotations

import io
import json
import pickle
import struct
from collections.abc import Callable
from typing import Any, TypeAlias

from ag_visual import dtypes, files
from ag_visual.core.tensor import from_array
from ag_visual.devices import device as Device
from ag_visual.errors import FormatError
from ag_visual.names import only as _only
from ag_visual.serialization import checkpoint, container, pickled
from ag_visual.serialization.known import (
    add_safe_globals,
    clear_safe_globals,
    get_safe_globals,
    safe_globals,
)
from ag_visual.serialization.tree import Reader, Writer

MAP_LOCATION: TypeAlias = (
    Callable[[Any, str], Any] | Device | str | dict[str | Device, str | Device] | None
)
"""What `load` takes as map_location."""

_KEY = "ag_visual"
_SUFFIX = ".safetensors"
# What a wrong type, name, number or depth raises while objects are made of a file.
_DAMAGE = (ValueError, TypeError, LookupError, AttributeError, ArithmeticError, RecursionError)
_DAMAGE = (*_DAMAGE, struct.error)


def save(
    obj: Any,
    f: Any,
    pickle_module: Any = pickle,
    pickle_protocol: int = 2,
    _use_new_zipfile_serialization: bool = True,
    _disable_byteorder_record: bool = False,
) -> None:
    """Save tensors, and containers of them, to a path or to a file opened for bytes.

    The file is torch's: every torch from 1.6 on loads it. Under a name that ends in `.safetensors`
    it is a safetensors file, whose arrays any reader of that format finds.

    Containers are dictionaries, lists, tuples, sets and namespaces, nested in any way; beside
    tensors they may hold NumPy arrays, numbers, strings, bytes, None, dtypes, devices and objects
    of classes that `add_safe_globals` has been given. Views stay views of the same memory, and a
    tensor that occurs twice is one tensor again. A file at that path is replaced when all is
    written, and stays as it was if anything fails or the process is killed; its mode stays. Through
    a symbolic link the file that it names is written, and devices and pipes get the bytes.

    pickle_module and the arguments after it are torch's, and change nothing.

    >>> import ag_visual as ag, io
    >>> file = io.BytesIO()
    >>> ag.save({"w": ag.ones(2), "step": 3}, file)
    >>> _ = file.seek(0)
    >>> ag.load(file)
    {'w': tensor([1., 1.]), 'step': 3}

    Raises:
        TypeError: something in it, as a module or a function, cannot be saved; the text says where.
        ValueError: it is nested too deeply; in a safetensors file, a container contains itself.
        OSError: the place cannot be written.
    """
    try:
        if not container.name_of(f).endswith(_SUFFIX):
            writer = pickled.Writer()
            text = writer.dumps(obj)
            pickled.write(f, text, writer.storages)
            return
        tree = Writer()
        about: dict[str, Any] = {"version": 1, "tree": tree.encode(obj, "")}
        arrays, about["tensors"] = tree.finish()
        container.write(f, arrays, {_KEY: json.dumps(about, allow_nan=False)})
    except RecursionError:
        raise ValueError("the object is nested too deeply to be saved") from None


def load(
    f: Any,
    map_location: Any = None,
    pickle_module: Any = None,
    *,
    weights_only: bool | None = None,
    mmap: bool | None = None,
    encoding: str = "utf-8",
    **pickle_load_args: Any,
) -> Any:
    """Load what `save` or torch.save wrote, or a safetensors file as a dictionary of tensors.

    map_location: the device for all tensors, a dictionary from saved devices to others, or a
    function of a storage and the name of its device, which gives a storage or None; by default each
    goes to the device on which it was. encoding is for strings that Python 2 wrote.
    pickle_module, weights_only and mmap are torch's, and change nothing: no code is ever run but
    that of classes given to `add_safe_globals`.

    Raises RefusedError (a FormatError and a pickle.UnpicklingError) where it holds an object that
    is not known here, as a whole module: the text names it and says what to do. FormatError (a
    ValueError): it is foreign, damaged or cut off, and nothing is made of it. BackendUnavailable: a
    tensor was on a device that is not here; give a map_location. OSError: it cannot be read.
    """
    place = _placement(map_location)
    if not hasattr(f, "read"):
        with open(f, "rb") as file:
            return _loaded(file, place, encoding)
    return _loaded(f, place, encoding)


def _loaded(f: Any, place: checkpoint.Place, encoding: str) -> Any:
    name = container.name_of(f)
    head, file = _peeked(f)
    try:
        if checkpoint.is_archive(head):
            return checkpoint.read_archive(file, place, encoding)
        if checkpoint.is_stream(head) and not _is_header(head, file):
            return checkpoint.read_stream(file, place, encoding)
    except FormatError as error:
        raise type(error)(f"{name} cannot be loaded: {error}") from error
    except _DAMAGE as error:
        raise FormatError(
            f"{name} is damaged: what it says about its objects cannot be read"
        ) from error
    return _safetensors(file, name, place)


def _peeked(f: Any) -> tuple[bytes, Any]:
    """The first bytes of a file object, and one that stands before them and can go back.

    Of a pipe, which cannot, a checkpoint is read whole; a safetensors file says how long it is.
    """
    try:
        here = f.tell()
        head = bytes(files.read_up_to(f, 16))
        f.seek(here)
        return head, f
    except (AttributeError, OSError, ValueError):
        pass
    head = bytes(files.read_up_to(f, 16))
    if checkpoint.is_archive(head) or checkpoint.is_stream(head):
        return head, io.BytesIO(head + files.read_up_to(f, 1 << 62))
    return head, container.Begun(head, f)


def _is_header(head: bytes, file: Any) -> bool:
    """Whether a file that could begin a pickle is a safetensors file, whose length it is."""
    return head[8:9] == b"{" and int.from_bytes(head[:8], "little") < 1 << 32


def _safetensors(f: Any, name: str, place: checkpoint.Place) -> Any:
    def at(saved: str) -> Device:
        return place(None, 0, saved)

    arrays, metadata = container.read(f, name)
    if _KEY not in metadata:
        target = at("cpu")
        return {name: from_array(array).to(target) for name, array in arrays.items()}
    try:
        about = json.loads(metadata[_KEY])
        if about["version"] == 1:
            return Reader(arrays, about["tensors"], at).decode(about["tree"])
        why = f"is of version {about['version']!r} of this format: update this package to read it"
    except FormatError as error:
        why = f"is damaged: {error}"
    except _DAMAGE as error:
        raise FormatError(
            f"{name} is damaged: what it says about its objects cannot be read"
        ) from error
    raise FormatError(f"{name} {why}")


class _Storage:
    """What a function given as map_location is given: a storage that says where it will be."""

    def __init__(self, dtype: dtypes.dtype | None, size: int, target: Device) -> None:
        self.dtype, self.device, self._size = dtype, target, size

    def nbytes(self) -> int:
        """Its bytes."""
        return self._size

    def cpu(self) -> _Storage:
        """The same in host memory."""
        return _Storage(self.dtype, self._size, Device("cpu"))

    def cuda(self, device: Any = None, non_blocking: bool = False) -> _Storage:
        """The same on a CUDA device."""
        target = Device("cuda") if device is None else Device(device)
        return _Storage(self.dtype, self._size, target)

    def to(self, *, device: Any, non_blocking: bool = False) -> _Storage:
        """The same on a device."""
        return _Storage(self.dtype, self._size, Device(device))


def _placement(map_location: Any) -> checkpoint.Place:
    """From a storage, and the device on which it was, to that on which it shall be."""
    if map_location is None:
        return lambda dtype, size, saved: _device(saved)
    if isinstance(map_location, dict):
        moved = {str(saved): Device(to) for saved, to in map_location.items()}
        return lambda dtype, size, saved: moved.get(saved) or _device(saved)
    if isinstance(map_location, str | Device):
        target = Device(map_location)
        return lambda dtype, size, saved: target
    if not callable(map_location):
        raise TypeError(
            "map_location should be a device, its name, a dictionary from names to devices or a "
            f"function, but is {type(map_location).__name__}"
        )

    def placed(dtype: dtypes.dtype | None, size: int, saved: str) -> Device:
        found = map_location(_Storage(dtype, size, Device("cpu")), saved)
        return _device(saved) if found is None else Device(found.device)

    return placed


def _device(saved: str) -> Device:
    try:
        return Device(saved)
    except RuntimeError as error:
        raise FormatError(f"it names the device {saved!r:.40}, which is not known here") from error


__all__ = [
    "MAP_LOCATION",
    "add_safe_globals",
    "clear_safe_globals",
    "get_safe_globals",
    "load",
    "safe_globals",
    "save",
]
__dir__ = _only(__all__, __name__)
