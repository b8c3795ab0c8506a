"""Weights computed from other parameters each time they are read.

`register_parametrization(module, "weight", P())` moves the weight to
`module.parametrizations.weight.original` and gives the module's class a property that computes
`P()(original)`. Reading it inside `cached()` computes it once.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any

from ag_visual.autograd.grad_mode import no_grad
from ag_visual.core.tensor import Tensor
from ag_visual.names import expose as _expose
from ag_visual.nn.containers import ModuleDict, ModuleList
from ag_visual.nn.module import Module
from ag_visual.nn.parameter import Parameter

_cache_depth = 0
_cache: dict[tuple[int, str], Any] = {}


@contextmanager
def cached() -> Iterator[None]:
    """Inside, each parametrized tensor is computed once, the first time it is read."""
    global _cache_depth
    _cache_depth += 1
    try:
        yield
    finally:
        _cache_depth -= 1
        if not _cache_depth:
            _cache.clear()


def _register(module: Any, name: str, value: Any) -> None:
    if isinstance(value, Parameter):
        module.register_parameter(name, value)
    else:
        module.register_buffer(name, value)


def _same_kind(original: Any, result: Any) -> None:
    if not isinstance(result, Tensor):
        raise ValueError(f"A parametrization must return a tensor. Got {type(result).__name__}.")
    for what in ("dtype", "shape"):
        before, after = getattr(original, what), getattr(result, what)
        if before != after:
            raise ValueError(
                f"Registering a parametrization may not change the {what} of the tensor, "
                f"unless the `unsafe` flag is enabled.\nunparametrized {what}: {before}\n"
                f"parametrized {what}: {after}"
            )


def _same_kind_back(value: Any, parametrization: Any) -> None:
    """What a further parametrization would be set by is a tensor like the one before it."""
    if not hasattr(parametrization, "right_inverse"):
        return
    with suppress(NotImplementedError):
        back = parametrization.right_inverse(parametrization(value))
        if not isinstance(back, Tensor):
            raise ValueError(
                f"parametrization.right_inverse must return a tensor. Got: {type(back).__name__}"
            )
        for what in ("dtype", "shape"):
            before, after = getattr(value, what), getattr(back, what)
            if before != after:
                raise ValueError(
                    f"The tensor returned by parametrization.right_inverse must have the same "
                    f"{what} as the parametrized tensor, unless the `unsafe` flag is enabled.\n"
                    f"{what} of the tensor: {before}\nreturned {what}: {after}"
                )


class ParametrizationList(ModuleList):
    """The parametrizations of one tensor, applied in order to `original` (or `original0`, ...)."""

    def __init__(
        self, modules: Sequence[Module], original: Tensor | Parameter, unsafe: bool = False
    ) -> None:
        if not modules:
            raise ValueError("ParametrizationList requires one or more modules.")
        super().__init__(modules)
        self.unsafe = unsafe
        # What the tensor becomes if it is to have its present value.
        value: Any = original
        with no_grad():
            for module in reversed(list(self)):
                if hasattr(module, "right_inverse"):
                    with suppress(NotImplementedError):
                        value = module.right_inverse(value)
        if not isinstance(value, Tensor | Sequence):
            raise ValueError(
                "'right_inverse' must return a Tensor or a Sequence of tensors (list, tuple...). "
                f"Got {type(value).__name__}"
            )
        self.is_tensor = isinstance(value, Tensor)
        self.ntensors = 1 if self.is_tensor else len(value)
        if self.is_tensor:
            if original.dtype is not value.dtype:
                raise ValueError(
                    "When `right_inverse` outputs one tensor, it may not change the dtype.\n"
                    f"original.dtype: {original.dtype}\n"
                    f"right_inverse(original).dtype: {value.dtype}"
                )
            # The Parameter stays the same object: an optimizer may have it already.
            if isinstance(original, Parameter):
                if value is not original:
                    original.data = value.detach()
                value = original
            _register(self, "original", value)
        else:
            for i, part in enumerate(value):
                if isinstance(original, Parameter):
                    part = Parameter(part, original.requires_grad)
                _register(self, f"original{i}", part)
        if not unsafe:
            with no_grad():
                _same_kind(original, self())

    def originals(self) -> list[Any]:
        """The tensors that the parametrizations compute from."""
        if self.is_tensor:
            return [self.original]
        return [getattr(self, f"original{i}") for i in range(self.ntensors)]

    @no_grad()
    def right_inverse(self, value: Tensor) -> None:
        """Set the originals so that the tensor gets this value."""
        found: Any = value
        for module in reversed(list(self)):
            if not hasattr(module, "right_inverse"):
                raise RuntimeError(
                    f"parametrization {type(module).__name__} does not implement right_inverse."
                )
            found = module.right_inverse(found)
        parts = [found] if self.is_tensor else list(found)
        for original, part in zip(self.originals(), parts, strict=True):
            original.detach().copy_(part)

    def forward(self) -> Any:
        first, *rest = self
        value = first(*self.originals())
        for module in rest:
            value = module(value)
        return value


def _property(name: str) -> property:
    def get(self: Any) -> Any:
        parametrization = self.parametrizations[name]
        if not _cache_depth:
            return parametrization()
        key = (id(self), name)
        if key not in _cache:
            _cache[key] = parametrization()
        return _cache[key]

    def put(self: Any, value: Any) -> None:
        self.parametrizations[name].right_inverse(value)

    return property(get, put)


def _inject_class(module: Module) -> None:
    """Give the module a class of its own, for its properties."""
    cls = type(module)

    def deepcopied(self: Any, memo: dict[int, Any]) -> Any:
        replica = cls.__new__(type(self))
        memo[id(self)] = replica
        replica.__dict__.update(copy.deepcopy(self.__dict__, memo))
        return replica

    def refused(self: Any) -> Any:
        raise RuntimeError(
            "Serialization of parametrized modules is only supported through state_dict(): save "
            "that, or call remove_parametrizations first."
        )

    module.__class__ = type(
        f"Parametrized{cls.__name__}",
        (cls,),
        {"__getstate__": refused, "__deepcopy__": deepcopied, "__module__": cls.__module__},
    )
    module.parametrizations = ModuleDict()


def register_parametrization(
    module: Module, tensor_name: str, parametrization: Module, *, unsafe: bool = False
) -> Module:
    """Compute a parameter or buffer of a module by another module, from now on.

    unsafe: the parametrization may change dtype and shape.
    """
    parametrization.train(module.training)
    if is_parametrized(module, tensor_name):
        found = module.parametrizations[tensor_name]
        if not unsafe:
            value = getattr(module, tensor_name)
            _same_kind(value, parametrization(value))
            _same_kind_back(value, parametrization)
        found.append(parametrization)
        found.unsafe = found.unsafe or unsafe
        return module
    if tensor_name not in module._buffers and tensor_name not in module._parameters:
        raise ValueError(
            f"Module '{module}' does not have a parameter, a buffer, or a parametrized element "
            f"with name '{tensor_name}'"
        )
    original = getattr(module, tensor_name)
    parametrizations = ParametrizationList([parametrization], original, unsafe=unsafe)
    delattr(module, tensor_name)
    if not is_parametrized(module):
        _inject_class(module)
    setattr(type(module), tensor_name, _property(tensor_name))
    module.parametrizations[tensor_name] = parametrizations
    return module


def is_parametrized(module: Module, tensor_name: str | None = None) -> bool:
    """Whether a module has a parametrization, of any tensor or of that one."""
    found = getattr(module, "parametrizations", None)
    if not isinstance(found, ModuleDict):
        return False
    return bool(len(found)) if tensor_name is None else tensor_name in found


def remove_parametrizations(
    module: Module, tensor_name: str, leave_parametrized: bool = True
) -> Module:
    """Make the tensor an ordinary one again: with the computed value, or with the original."""
    if not is_parametrized(module, tensor_name):
        raise ValueError(f"Module {module} does not have a parametrization on {tensor_name}")
    found = module.parametrizations[tensor_name]
    originals = found.originals()
    value = originals[0]
    if leave_parametrized:
        with no_grad():
            computed = getattr(module, tensor_name)
        if found.is_tensor and value.dtype is computed.dtype:
            value.data = computed.detach()
        else:
            trained = any(o.requires_grad for o in originals)
            value = Parameter(computed) if trained else computed
    elif not found.is_tensor:
        raise ValueError(
            "Cannot leave unparametrized (`leave_parametrized=False`) a tensor that is "
            "parametrized in terms of a sequence of tensors."
        )
    delattr(type(module), tensor_name)
    del module.parametrizations[tensor_name]
    _register(module, tensor_name, value)
    if not is_parametrized(module):
        delattr(module, "parametrizations")
        module.__class__ = type(module).__bases__[0]
    return module


def type_before_parametrizations(module: Module) -> type:
    """The class that a module had before it was parametrized."""
    return type(module).__bases__[0] if is_parametrized(module) else type(module)


_expose(__name__)
