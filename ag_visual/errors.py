"""The exceptions of the package. Each subclasses the builtin that torch raises.

Structured errors carry `fields` (plain data: what, where, which values, what to do); their text is
built from the same fields, and an observer receives them as they are.
"""

from __future__ import annotations

import math
from pickle import UnpicklingError
from typing import Any


class AutogradError(RuntimeError):
    """An autograd error that knows more than its text: see `fields`."""

    def __init__(self, message: str, fields: dict[str, Any] | None = None) -> None:
        super().__init__(message)
        self.fields: dict[str, Any] = fields or {}


class InplaceError(AutogradError):
    """A tensor that a node saved for backward was written before backward used it."""


class LeafInplaceError(AutogradError):
    """An in-place operation on a leaf that requires grad, or on a view of one."""


class ViewInplaceError(AutogradError):
    """An in-place operation on a view that autograd cannot follow."""


class FreedGraphError(AutogradError):
    """Backward through a graph whose saved tensors were already freed."""


class LinAlgError(RuntimeError):
    """A matrix that a factorisation or a solver cannot do: singular, not positive-definite ..."""


class OutOfMemoryError(RuntimeError, MemoryError):
    """An array does not fit into memory: torch.cuda.OutOfMemoryError, on the CPU a RuntimeError."""


def out_of_memory(error: MemoryError, doing: str) -> OutOfMemoryError:
    """What an array library says of too little memory in torch's words. doing: what asked for it.

    Programs look for the beginning of these, to try it with a smaller batch.
    """
    if isinstance(error, OutOfMemoryError):
        return error
    if type(error).__module__.startswith("cupy"):
        first = "CUDA out of memory."
    else:  # (NumPy's knows the array; Python's own knows nothing.)
        size, kind = getattr(error, "shape", None), getattr(error, "dtype", None)
        bytes_ = "" if size is None or kind is None else f" {math.prod(size) * kind.itemsize} bytes"
        first = f"DefaultCPUAllocator: can't allocate memory: you tried to allocate{bytes_}."
    return OutOfMemoryError(
        f"{first}\n{doing}: {str(error) or 'out of memory'}. Smaller batches, "
        "torch.utils.checkpoint, and no reference to losses of earlier steps take less."
    )


class SilentWriteWarning(UserWarning):
    """A saved tensor was written through `.data`: its gradient is silently wrong in torch."""

    def __init__(self, message: str, fields: dict[str, Any] | None = None) -> None:
        super().__init__(message)
        self.fields: dict[str, Any] = fields or {}


class FormatError(ValueError):
    """A file or a message is not what its format says: foreign, damaged, cut off or too new."""


class RefusedError(FormatError, UnpicklingError):
    """A checkpoint names an object that is not made here, as no code of a file is run."""


class MissingExtraError(ImportError):
    """A feature needs a package that is an optional extra; the text names the command."""


def type_name(value: Any) -> str:
    """What an error calls the type of a value: with its library where it is an array of another,
    as in `numpy.ndarray` and `torch.Tensor`, whose names alone may be our own.
    """
    kind = type(value)
    library = kind.__module__.partition(".")[0]
    foreign = library not in ("builtins", "__main__", __package__)
    array = any(
        hasattr(kind, name) for name in ("__array__", "__dlpack__", "__cuda_array_interface__")
    )
    return f"{library}.{kind.__name__}" if foreign and array else kind.__name__
