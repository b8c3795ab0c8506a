"""What programs of older releases write for sparse tensors: `torch.sparse.FloatTensor`, `spmm`."""

from __future__ import annotations

from typing import Any

from ag_visual import dtypes
from ag_visual.core.tensor import Tensor
from ag_visual.dispatch.sparse import is_sparse
from ag_visual.dispatch.table import function, traced as F
from ag_visual.ops.sparse.coordinates import sparse_coo_tensor


class _Legacy(type):
    """The type of `sparse.FloatTensor` and its kin: calls make tensors, isinstance tells them."""

    dtype: dtypes.dtype

    def __call__(cls, *data: Any, device: Any = None) -> Tensor:
        if data and isinstance(data[0], Tensor):
            return sparse_coo_tensor(*data, device=device)
        size = data[0] if len(data) == 1 and not isinstance(data[0], int) else data or (0,)
        return sparse_coo_tensor(size=tuple(size), dtype=cls.dtype, device=device)

    def __instancecheck__(cls, obj: Any) -> bool:
        found = isinstance(obj, Tensor) and is_sparse(obj)
        return bool(found and obj.dtype is cls.dtype and obj.is_cpu)


LEGACY: dict[str, Any] = {}
"""`FloatTensor` and its kin: sparse ones, by the names that `torch.sparse` gives them."""
for _name, _dtype in (
    ("BFloat16Tensor", dtypes.bfloat16),
    ("ByteTensor", dtypes.uint8),
    ("CharTensor", dtypes.int8),
    ("DoubleTensor", dtypes.float64),
    ("FloatTensor", dtypes.float32),
    ("HalfTensor", dtypes.float16),
    ("IntTensor", dtypes.int32),
    ("LongTensor", dtypes.int64),
    ("ShortTensor", dtypes.int16),
):
    LEGACY[_name] = _Legacy(
        _name,
        (),
        {
            "dtype": _dtype,
            "__module__": "torch.sparse",
            "__doc__": f"`{_name}(indices, values, size)` or `{_name}(*sizes)`: a sparse tensor.",
        },
    )


@function()
def spmm(input: Tensor, mat2: Tensor) -> Tensor:
    """`mm`, of which one or both matrices may be sparse."""
    return F.mm(input, mat2)  # type: ignore[no-any-return]


@function()
def dsmm(input: Tensor, mat2: Tensor) -> Tensor:
    """`mm`, of which one or both matrices may be sparse."""
    return F.mm(input, mat2)  # type: ignore[no-any-return]
