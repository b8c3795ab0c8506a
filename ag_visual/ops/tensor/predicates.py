"""Questions about tensors and dtypes, and the legacy constructors (`FloatTensor` ...)."""

from __future__ import annotations

import numpy

from ag_visual import devices, dtypes, promotion
from ag_visual.core.tensor import Tensor, method
from ag_visual.dispatch.table import function
from ag_visual.ops.tensor.cast import legacy_type
from ag_visual.ops.tensor.creation import empty
from ag_visual.ops.tensor.from_data import tensor


@function()
def is_tensor(obj) -> bool:
    """Whether the object is a Tensor."""
    return isinstance(obj, Tensor)


@function()
def numel(input: Tensor) -> int:
    """The number of elements."""
    return input.numel()


@function()
def is_floating_point(input: Tensor) -> bool:
    """Whether the dtype is a floating-point one."""
    return input.is_floating_point()


@function()
def is_complex(input: Tensor) -> bool:
    """Whether the dtype is a complex one."""
    return input.is_complex()


@function()
def is_conj(input: Tensor) -> bool:
    """Always False: conjugation is never lazy here."""
    return False


@function()
def is_neg(input: Tensor) -> bool:
    """Always False: negation is never lazy here."""
    return False


@function(method=True)
def is_signed(input: Tensor) -> bool:
    """Whether the dtype holds negative numbers."""
    return input.dtype.is_signed


@function(method=True)
def get_device(input: Tensor) -> int:
    """The number of the tensor's device, -1 for the CPU."""
    return -1 if input.device.index is None else input.device.index


@function(symbol="self")
def detach(input: Tensor) -> Tensor:
    """The same memory and version counter, outside of the graph."""
    return input.detach()


@function()
def detach_(input: Tensor) -> Tensor:
    """Take a tensor out of the graph; it becomes a leaf that requires no grad."""
    return input.detach_()


Tensor.is_neg = is_neg  # type: ignore[attr-defined]
Tensor.ndimension = Tensor.dim  # type: ignore[attr-defined]


@function(method=True)
def is_nonzero(input: Tensor) -> bool:
    """Whether the one element is not zero."""
    if input.numel() != 1:
        values = "no values" if input.numel() == 0 else "more than one value"
        raise RuntimeError(f"Boolean value of Tensor with {values} is ambiguous")
    return bool(input)


@function(method=True)
def is_same_size(input: Tensor, other: Tensor) -> bool:
    """Whether both have the same shape."""
    return input._array.shape == other._array.shape


@function()
def result_type(tensor1, tensor2) -> dtypes.dtype:
    """The dtype of an operation on two tensors or numbers."""
    operands = [
        (value.dtype, 2 if value._array.ndim else 1)
        if isinstance(value, Tensor)
        else (promotion.scalar_dtype(value), 0)
        for value in (tensor1, tensor2)
    ]
    return promotion.result_type(*operands)


function()(promotion.promote_types)
function()(promotion.can_cast)


@function()
def typename(obj) -> str:
    """'torch.FloatTensor' for a tensor; module and class for anything else."""
    if isinstance(obj, Tensor):
        return legacy_type(obj)
    kind = obj if isinstance(obj, type) or hasattr(obj, "__qualname__") else type(obj)
    module = getattr(kind, "__module__", "") or ""
    name = getattr(kind, "__qualname__", type(kind).__name__)
    return name if module in ("", "builtins") else f"{module}.{name}"


@function()
def set_default_device(device) -> None:
    """Make new tensors on this device where none is named; None is the CPU."""
    devices.set_default(None if device is None else devices.device(device))


@function()
def get_default_device() -> devices.device:
    """The device on which new tensors are made where none is named."""
    return devices.default or devices.CPU


@function()
def set_default_tensor_type(t) -> None:
    """Set the default dtype (and device) by a legacy type: `DoubleTensor`, 'torch.DoubleTensor'.

    Raises TypeError for types that are not floating-point. Prefer `set_default_dtype`.
    """
    parts = (t if isinstance(t, str) else f"torch.{getattr(t, '__name__', t)}").split(".")
    kind = next((k for k in dtypes.ALL if dtypes.legacy_name(k) == parts[-1]), None)
    if parts[0] != "torch" or kind is None or len(parts) > 3:
        raise TypeError(f"invalid type object: {t!r}; write 'torch.FloatTensor'")
    if not kind.is_floating_point:
        raise TypeError(
            f"only floating-point types are supported as the default type, got {kind!r}"
        )
    dtypes.set_default_dtype(kind)
    set_default_device(parts[1] if len(parts) == 3 else None)


# Kinds of tensors that are not here ---------------------------------------------------------------


def _never(name: str, what: str) -> None:
    setattr(Tensor, name, property(lambda self: False, doc=f"False: no tensor is {what}."))


for _device in ("ipu", "maia", "mps", "mtia", "vulkan", "xla", "xpu"):
    _never(f"is_{_device}", f"on a device of type {_device!r}")
_never("is_mkldnn", "in oneDNN's layout")
_never("is_nested", "a list of tensors")
_never("is_quantized", "of quantized numbers")


@method("is_pinned")
def _is_pinned(self: Tensor, device=None) -> bool:
    """False: memory is not pinned."""
    return False


# Legacy constructors ----------------------------------------------------------------------------


class _Legacy(type):
    """The type of `FloatTensor` and its kin: calls make tensors, isinstance looks at the dtype."""

    dtype: dtypes.dtype

    def __call__(cls, *data) -> Tensor:
        if len(data) == 1 and not isinstance(data[0], (int, numpy.integer)):
            return tensor(data[0], dtype=cls.dtype)
        return empty(*(data or (0,)), dtype=cls.dtype)

    def __instancecheck__(cls, obj) -> bool:
        return isinstance(obj, Tensor) and obj.dtype is cls.dtype and obj.is_cpu


for _dtype in dtypes.ALL:
    if _dtype in dtypes.APART or _dtype.is_complex:
        continue  # torch has no legacy types of these
    _name = dtypes.legacy_name(_dtype)
    _members = {
        "dtype": _dtype,
        "__module__": "torch",
        "__doc__": f"`{_name}(data)` or `{_name}(*sizes)`: a CPU tensor of {_dtype!r}.",
    }
    function(name=_name)(_Legacy(_name, (), _members))
