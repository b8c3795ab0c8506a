"""Parameter: a leaf that a Module finds and an optimizer changes. Buffer: its other state."""

from __future__ import annotations

from typing import Any, ClassVar

from ag_visual.core.level import Batched, Lifted, Wrapper, wrap
from ag_visual.core.tensor import Tensor, from_array
from ag_visual.core.tensor_base import TensorBase
from ag_visual.dispatch.codegen.scope import slow_path_types, take_fast
from ag_visual.errors import type_name
from ag_visual.names import expose as _expose
from ag_visual.ops.tensor.make import NEEDS_FLOAT


def _check(name: str, data: Any) -> None:
    if not isinstance(data, Tensor):
        raise TypeError(f"{name}(): argument 'data' must be Tensor, not {type_name(data)}")


class Parameter(Tensor):
    """A tensor that is a module parameter: it requires grad unless told otherwise."""

    __slots__ = ()

    def __new__(cls, data: Any = None, requires_grad: bool = True) -> Any:
        if data is None:
            from ag_visual.dispatch.table import functions

            data = functions["empty"](0)
        _check("Parameter", data)
        if requires_grad and not (data.dtype.is_floating_point or data.dtype.is_complex):
            raise RuntimeError(
                f"{NEEDS_FLOAT}, but these are {data.dtype}: pass requires_grad=False"
            )
        if isinstance(data, Wrapper):
            return _at_level(data, requires_grad)
        # It refuses what may not require grad here, as inference tensors.
        seen = data.detach()._require_grad(requires_grad)
        result = from_array(seen._array, requires_grad, cls)
        result._store, result._memory = seen._store, seen._memory
        return result

    def __deepcopy__(self, memo: dict[int, Any]) -> Parameter:
        """A copy of the values alone: as in torch, without `.grad` and attributes."""
        if id(self) not in memo:
            memo[id(self)] = from_array(self._array.copy(), self._rg, type(self))
        return memo[id(self)]  # type: ignore[no-any-return]

    def __repr__(self) -> str:
        return "Parameter containing:\n" + super().__repr__()


class _LiftedParameter(Lifted, Parameter):
    """One that was made inside of a transform that differentiates."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "Parameter containing:\n" + Lifted.__repr__(self)


class _BatchedParameter(Batched, Parameter):
    """One that was made of a slice inside of `vmap`."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "Parameter containing:\n" + Batched.__repr__(self)


for _kind in (_LiftedParameter, _BatchedParameter):
    _kind.__name__ = _kind.__qualname__ = "Parameter"
    slow_path_types.add(_kind)


def _at_level(data: Wrapper, requires_grad: bool) -> Parameter:
    sliced = isinstance(data, Batched)
    kind = _BatchedParameter if sliced else _LiftedParameter
    result: Any = wrap(kind, data.level, data.value.detach())
    if sliced:
        result._outline = None
    result._rg = requires_grad
    return result


class _MarkedAsBuffer(type):
    def __instancecheck__(cls, instance: Any) -> bool:
        return isinstance(instance, Tensor) and getattr(instance, "_is_buffer", False)


class Buffer(Tensor, metaclass=_MarkedAsBuffer):
    """A plain tensor that a Module registers as a buffer when it is assigned.

    persistent: whether it is a part of `state_dict`.
    """

    __slots__ = ()

    def __new__(cls, data: Any = None, *, persistent: bool = True) -> Any:
        if data is None:
            from ag_visual.dispatch.table import functions

            data = functions["empty"](0)
        _check("Buffer", data)
        result = data.detach()._require_grad(data.requires_grad)
        result.persistent, result._is_buffer = persistent, True
        return result


take_fast(Parameter)


class UninitializedTensorMixin:
    """A tensor whose shape is not known yet: only its dtype and its device are."""

    __slots__ = ()
    cls_to_become: ClassVar[type[Tensor]]
    requires_grad: bool

    @property
    def _array(self) -> Any:
        raise ValueError(
            f"Attempted to use an uninitialized parameter ({type(self).__name__}). This error "
            "happens when you are using a `LazyModule` or explicitly manipulating "
            f"`torch.nn.parameter.{type(self).__name__}` objects. When using LazyModules Call "
            "`forward` with a dummy batch to initialize the parameters before calling torch "
            "functions"
        )

    @_array.setter
    def _array(self, value: Any) -> None:
        _held.__set__(self, value)

    @property
    def data(self) -> Tensor:
        """An empty tensor of the dtype and on the device that it is going to have."""
        return from_array(_held.__get__(self))

    @property
    def dtype(self) -> Any:
        """The dtype that it is going to have."""
        return self.data.dtype

    @property
    def device(self) -> Any:
        """The device that it is going to be on."""
        return self.data.device

    @property
    def shape(self) -> Any:
        """Raises RuntimeError: it has none yet."""
        raise RuntimeError(
            "Can't access the shape of an uninitialized parameter or buffer. This error usually "
            "happens in `load_state_dict` when trying to load an uninitialized parameter into an "
            "initialized one. Call `forward` to initialize the parameters before accessing their "
            "attributes."
        )

    def is_floating_point(self) -> bool:
        """Whether it is going to hold floating point numbers."""
        return self.data.is_floating_point()

    def is_complex(self) -> bool:
        """Whether it is going to hold complex numbers."""
        return self.data.is_complex()

    def _take_data(self, value: Tensor) -> None:
        """The dtype and the device of another tensor are its own from now on."""
        _held.__set__(self, value._array)

    def materialize(self, shape: Any, device: Any = None, dtype: Any = None) -> None:
        """Become an ordinary parameter or buffer of this shape, whose values are not set yet."""
        from ag_visual.dispatch.table import functions

        kind = {
            "device": self.device if device is None else device,
            "dtype": self.dtype if dtype is None else dtype,
        }
        made = functions["empty"](shape, **kind)
        self.__class__ = self.cls_to_become  # type: ignore[assignment]
        self._take_data(made)

    def __repr__(self) -> str:
        return f"<{type(self).__name__}>"

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        if id(self) not in memo:
            memo[id(self)] = type(self)(self.requires_grad, self.device, self.dtype)  # type: ignore[call-arg]
        return memo[id(self)]

    def __reduce_ex__(self, protocol: Any) -> Any:
        return type(self), (self.requires_grad, self.device, self.dtype)


_held: Any = vars(TensorBase)["_array"]


def _without_shape(cls: type[Tensor], requires_grad: bool, device: Any, dtype: Any) -> Any:
    from ag_visual.dispatch.table import functions

    empty = functions["empty"](0, device=device, dtype=dtype)
    result = from_array(empty._array, requires_grad, cls)
    result._plain = None
    return result


class UninitializedParameter(UninitializedTensorMixin, Parameter):
    """A Parameter whose shape the first call of a lazy module finds.

    Reading anything but its dtype and device raises ValueError; `materialize` gives it a shape.
    """

    __slots__ = ()
    cls_to_become = Parameter

    def __new__(cls, requires_grad: bool = True, device: Any = None, dtype: Any = None) -> Any:
        return _without_shape(cls, requires_grad, device, dtype)


class UninitializedBuffer(UninitializedTensorMixin, Tensor):
    """A buffer whose shape the first call of a lazy module finds.

    Reading anything but its dtype and device raises ValueError; `materialize` gives it a shape.
    """

    __slots__ = ()
    cls_to_become = Tensor

    def __new__(
        cls,
        requires_grad: bool = False,
        device: Any = None,
        dtype: Any = None,
        persistent: bool = True,
    ) -> Any:
        result = _without_shape(cls, requires_grad, device, dtype)
        result.persistent, result._is_buffer = persistent, True
        return result


def is_lazy(param: Any) -> bool:
    """Whether a parameter or buffer has no shape yet."""
    return isinstance(param, UninitializedTensorMixin)


_expose(__name__)
