"""SparseTensor: a Tensor whose `_array` is a `Coo`. A type of its own keeps it off every fast path.

What is asked of its memory is refused; ops know it by the rules of `dispatch.sparse`, and refuse it
where there is none.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from typing import Any, NoReturn

from ag_visual.arrays.backend import backend_of
from ag_visual.arrays.coo import Coo
from ag_visual.core import modes
from ag_visual.core.storage import FRESH
from ag_visual.core.tensor import Tensor, _blank
from ag_visual.devices import device as Device
from ag_visual.layouts import contiguous_format, layout, sparse_coo, sparse_csr


class SparseTensor(Tensor):
    """A tensor in coordinate form: the elements that it does not name are zero."""

    __slots__ = ()

    _array: Coo

    @property
    def is_sparse(self) -> bool:
        """Whether it is known by coordinates."""
        return not self._array.csr

    @property
    def is_sparse_csr(self) -> bool:
        """Whether it is known by compressed rows."""
        return self._array.csr

    @property
    def layout(self) -> layout:
        """`torch.sparse_coo` or `torch.sparse_csr`."""
        return sparse_csr if self._array.csr else sparse_coo

    @property
    def device(self) -> Device:
        values = self._array.values
        return backend_of(values).device(values)

    @property
    def nbytes(self) -> int:
        raise RuntimeError(
            "nbytes is not defined for sparse tensors.  If you want the size of the constituent "
            "tensors, add the nbytes of the indices and values.  If you want the size of the  "
            "equivalent dense tensor, multiply numel() by element_size()"
        )

    def stride(self, dim: int | None = None) -> Any:
        strides = self._array.strides
        return strides if dim is None else strides[dim]

    def storage_offset(self) -> int:
        return 0

    def is_contiguous(self, *, memory_format: Any = contiguous_format) -> bool:
        return False

    def contiguous(self, memory_format: Any = None) -> NoReturn:
        raise RuntimeError(
            "unsupported memory format option Contiguous: a sparse tensor has no order of elements"
        )

    def data_ptr(self) -> int:
        raise _no_storage()

    def storage(self) -> NoReturn:
        raise _no_access()

    untyped_storage = storage_type = storage

    def tolist(self) -> NoReturn:
        raise _no_storage()

    def numpy(self, *, force: bool = False) -> NoReturn:
        raise TypeError("can't convert Sparse layout tensor to numpy. Use Tensor.to_dense() first.")

    def __iter__(self) -> Iterator[Tensor]:
        if not self.ndim:
            raise TypeError("iteration over a 0-d tensor")
        return iter(self.unbind())

    def detach(self) -> Tensor:
        result = tensor_of(self._array)
        result._store = self._storage
        self._set_origin(result, "detach")
        return result

    @property
    def data(self) -> Tensor:
        result = tensor_of(self._array)
        result._store = self._storage.alias()
        self._set_origin(result, "data")
        return result

    @data.setter
    def data(self, value: Any) -> None:
        if not isinstance(value, SparseTensor):
            raise RuntimeError(
                "Attempted to call `variable.set_data(tensor)`, but `variable` and `tensor` have "
                "incompatible tensor type: one is sparse, the other dense."
            )
        self._take_data(value)

    def __deepcopy__(self, memo: dict[int, Any]) -> Tensor:
        if not self.is_leaf:
            return super().__deepcopy__(memo)  # refuses
        if id(self) in memo:
            return memo[id(self)]  # type: ignore[no-any-return]
        result = memo[id(self)] = tensor_of(self._array.copy())
        result._rg = self._rg
        result._grad = copy.deepcopy(self._grad, memo)
        result.__dict__.update(copy.deepcopy(self.__dict__, memo))
        return result

    def __reduce_ex__(self, protocol: Any) -> Any:
        held = self._array
        host = backend_of(held.values).to_numpy
        parts = host(held.indices), host(held.values), held.shape, held.coalesced_, held.csr
        return _unpickle, (*parts, self.requires_grad, dict(self.__dict__))

    def __repr__(self) -> str:
        from ag_visual.core.printing import sparse_repr

        return sparse_repr(self)


SparseTensor.__name__ = SparseTensor.__qualname__ = "Tensor"


def _no_access() -> NotImplementedError:
    return NotImplementedError(
        "Cannot access storage of SparseTensorImpl: a sparse tensor has indices and values, each "
        "with a storage. Call .values() first."
    )


def _no_storage() -> RuntimeError:
    return RuntimeError(
        "Cannot access data pointer of Tensor that doesn't have storage: a sparse tensor has "
        "indices and values. Call .to_dense() first."
    )


def tensor_of(held: Coo) -> SparseTensor:
    """A new leaf around indices and values (no copy)."""
    modes.sparse = True
    result: SparseTensor = _blank(SparseTensor, held)
    result._store = FRESH
    return result


def whole(array: Any, make: Callable[[Any], Tensor]) -> Tensor:
    """A new leaf around an array of any kind; `make` is for those that are dense."""
    return tensor_of(array) if type(array) is Coo else make(array)


def _unpickle(
    indices: Any,
    values: Any,
    shape: Any,
    coalesced: bool,
    csr: bool,
    requires_grad: bool,
    extra: Any,
) -> Any:
    result = tensor_of(Coo(indices, values, shape, coalesced, csr))
    result._rg = requires_grad
    result.__dict__.update(extra)
    return result
