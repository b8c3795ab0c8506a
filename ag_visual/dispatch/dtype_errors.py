"""What torch says where inputs of an op have different dtypes: the `dtype_check` of op records.

Each takes dtypes (None for a non-tensor) and gives the text, or None where they agree.
"""

from __future__ import annotations

from ag_visual import dtypes

Kind = dtypes.dtype | None

_CPLUSPLUS = {
    "float64": "double",
    "float32": "float",
    "float16": "c10::Half",
    "bfloat16": "c10::BFloat16",
    "int64": "long int",
    "int32": "int",
    "int16": "short int",
    "int8": "signed char",
    "uint8": "unsigned char",
    "complex64": "c10::complex<float>",
    "complex128": "c10::complex<double>",
}
"""Dtypes as the texts of C++ macros call them."""


def in_macros(kind: dtypes.dtype) -> str:
    """'float', 'long int': a dtype as the texts of torch's macros call it."""
    return _CPLUSPLUS.get(kind.name, kind.name)


def not_implemented(name: str, kind: dtypes.dtype, more: str = "") -> NotImplementedError:
    """torch's error for a dtype in which a kernel does not exist, and what we say of it."""
    return NotImplementedError(f"\"{name}\" not implemented for '{kind.scalar_name}'{more}")


def scalar_type(first: Kind, *others: Kind) -> str | None:
    """The text of kernels that read all their inputs as one type."""
    for other in others:
        if first is not None and other is not None and first is not other:
            return f"expected scalar type {first.scalar_name} but found {other.scalar_name}"
    return None


def pair(self: Kind, other: Kind) -> str | None:
    """`scalar_type` of an op of self and other."""
    return scalar_type(self, other)


def beside(first: Kind, name: str, other: Kind) -> str | None:
    """The text of an op that expects `name` in the dtype of its first input."""
    if first is None or other is None or first is other:
        return None
    return f"expected dtype {in_macros(first)} for `{name}` but got dtype {in_macros(other)}"


def parameters(input: Kind, *given: Kind) -> str | None:
    """The text of normalisations, whose parameters may be float32 beside inputs of 16 bits."""
    first = next((k for k in given if k is not None), None)
    if first is None or first is input:
        return scalar_type(input, *given)
    if any(k is not None and k is not dtypes.float32 for k in given):
        return "mixed dtype (CPU): expect parameter to have scalar type of Float"
    if input not in (dtypes.float16, dtypes.bfloat16):
        return "mixed dtype (CPU): all inputs must share same datatype"
    return None


def parameters_of_layers(input: Kind, weight: Kind, bias: Kind) -> str | None:
    """`parameters` with those of layers and groups."""
    return parameters(input, weight, bias)


def parameters_of_batches(
    input: Kind, weight: Kind, bias: Kind, running_mean: Kind, running_var: Kind
) -> str | None:
    """`parameters` with the running statistics among them."""
    return parameters(input, weight, bias, running_mean, running_var)
