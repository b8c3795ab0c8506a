"""torch.nn.utils.prune: masks that set entries of a parameter to zero.

A pruned parameter `name` is kept as `name_orig`, its mask as the buffer `name_mask`; before each
call of the module, `name` becomes their product.
"""

from __future__ import annotations

import numbers
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from typing import Any

from ag_visual.dispatch.table import functions as F
from ag_visual.names import expose as _expose
from ag_visual.nn.module import Module
from ag_visual.nn.utils.convert_parameters import parameters_to_vector


class BasePruningMethod(ABC):
    """Base: a subclass has a PRUNING_TYPE ('unstructured', 'structured' or 'global') and
    `compute_mask`.
    """

    PRUNING_TYPE: str
    _tensor_name: str | None = None

    def __call__(self, module: Module, inputs: Any) -> None:
        setattr(module, self._name(module), self.apply_mask(module))

    def _name(self, module: Module) -> str:
        if self._tensor_name is None:
            raise AssertionError(f"Module {module} has to be pruned")
        return self._tensor_name

    @abstractmethod
    def compute_mask(self, t: Any, default_mask: Any) -> Any:
        """The mask of `t`, which keeps what `default_mask` has masked already."""

    def apply_mask(self, module: Module) -> Any:
        """The original times the mask."""
        name = self._name(module)
        orig = getattr(module, f"{name}_orig")
        return getattr(module, f"{name}_mask").to(dtype=orig.dtype) * orig

    @classmethod
    def apply(
        cls, module: Module, name: str, *args: Any, importance_scores: Any = None, **kwargs: Any
    ) -> Any:
        """Prune a parameter of a module, beside what was pruned of it before.

        importance_scores: what is looked at in place of the values, of the same shape.
        """
        method: BasePruningMethod = cls(*args, **kwargs)
        method._tensor_name = name
        before = _methods(module, name)
        if len(before) > 1:
            raise AssertionError(
                f"Avoid adding multiple pruning hooks to the same tensor {name} of module "
                f"{module}. Use a PruningContainer."
            )
        orig = getattr(module, name)
        scores = orig if importance_scores is None else importance_scores
        _alike(scores, orig, f"parameter {name} of {module}")
        if before:
            [(key, old)] = before
            del module._forward_pre_hooks[key]
            container = old if isinstance(old, PruningContainer) else PruningContainer(old)
            container.add_pruning_method(method)
            method = container
            start = getattr(module, f"{name}_mask").detach().clone()
        else:
            start = F["ones_like"](orig)
            module.register_parameter(f"{name}_orig", orig)
            del module._parameters[name]
        try:
            module.register_buffer(f"{name}_mask", method.compute_mask(scores, start))
            setattr(module, name, method.apply_mask(module))
            module.register_forward_pre_hook(method)
        except Exception:
            if not before:
                del module._parameters[f"{name}_orig"]
                module.register_parameter(name, orig)
            raise
        return method

    def prune(self, t: Any, default_mask: Any = None, importance_scores: Any = None) -> Any:
        """A tensor times its mask; no module is changed."""
        scores = t if importance_scores is None else importance_scores
        _alike(scores, t, "tensor t")
        start = F["ones_like"](t) if default_mask is None else default_mask
        return t * self.compute_mask(scores, default_mask=start)

    def remove(self, module: Module) -> None:
        """Make the pruned values those of the parameter, for good; the hook stays."""
        name = self._name(module)
        pruned = self.apply_mask(module)
        if hasattr(module, name):
            delattr(module, name)
        orig: Any = module._parameters.pop(f"{name}_orig")
        del module._buffers[f"{name}_mask"]
        orig.data = pruned.detach()
        setattr(module, name, orig)


def _alike(scores: Any, values: Any, what: str) -> None:
    if scores.shape != values.shape:
        raise AssertionError(
            f"importance_scores should have the same shape as {what}, got {scores.shape} vs "
            f"{values.shape}"
        )


def _methods(module: Module, name: str | None = None) -> list[tuple[Any, BasePruningMethod]]:
    """The pruning methods of a module, of one parameter, with the keys of their hooks."""
    hooks: Any = module._forward_pre_hooks.items()
    methods = [(key, hook) for key, hook in hooks if isinstance(hook, BasePruningMethod)]
    return [pair for pair in methods if name is None or pair[1]._tensor_name == name]


class PruningContainer(BasePruningMethod):
    """Several methods for one parameter, in the order in which they were applied."""

    def __init__(self, *args: Any) -> None:
        self._pruning_methods: tuple[BasePruningMethod, ...] = ()
        if len(args) == 1:
            self._tensor_name = args[0]._tensor_name
        for method in args:
            self.add_pruning_method(method)

    def add_pruning_method(self, method: Any) -> None:
        """Let a further method prune what is left."""
        if not isinstance(method, BasePruningMethod):
            raise TypeError(f"{type(method)} is not a BasePruningMethod subclass")
        if self._tensor_name != method._tensor_name:
            raise ValueError(
                "Can only add pruning methods acting on the parameter named "
                f"'{self._tensor_name}' to PruningContainer {self}. Found "
                f"'{method._tensor_name}'"
            )
        self._pruning_methods += (method,)

    def __len__(self) -> int:
        return len(self._pruning_methods)

    def __iter__(self) -> Iterator[BasePruningMethod]:
        return iter(self._pruning_methods)

    def __getitem__(self, idx: Any) -> Any:
        return self._pruning_methods[idx]

    def compute_mask(self, t: Any, default_mask: Any) -> Any:
        """The mask in which the last method has masked more of what was left."""
        method = self._pruning_methods[-1]
        left = self._left(method, t, default_mask)
        mask = default_mask.to(dtype=t.dtype, copy=True)
        mask[left] = method.compute_mask(t[left], default_mask=default_mask[left]).to(mask.dtype)
        return mask

    @staticmethod
    def _left(method: Any, t: Any, mask: Any) -> Any:
        """An index of what earlier methods have left to this one."""
        kind, dims = method.PRUNING_TYPE, t.dim()
        if kind == "unstructured":
            return mask == 1
        whole = [slice(None)] * dims
        if kind == "structured":
            if not hasattr(method, "dim"):
                raise AttributeError(
                    'Pruning methods of PRUNING_TYPE "structured" need to have the attribute '
                    "`dim` defined."
                )
            dim = method.dim + dims if method.dim < 0 else method.dim
            if dim < 0:
                raise IndexError(f"Index is out of bounds for tensor with dimensions {dims}")
            whole[dim] = mask.sum(dim=[d for d in range(dims) if d != dim]) != 0
        elif kind != "global":
            raise ValueError(f"Unrecognized PRUNING_TYPE {kind}")
        return tuple(whole)


class Identity(BasePruningMethod):
    """Prunes nothing; the parameter has its mask of ones."""

    PRUNING_TYPE = "unstructured"

    def compute_mask(self, t: Any, default_mask: Any) -> Any:
        return default_mask


class _Amount(BasePruningMethod):
    """Base: how many entries or slices are pruned, as a number or as a part of all."""

    def __init__(self, amount: float) -> None:
        if not isinstance(amount, numbers.Real):
            raise TypeError(f"Invalid type for amount: {amount}. Must be int or float.")
        whole = isinstance(amount, numbers.Integral)
        if amount < 0 or (not whole and amount > 1):
            raise ValueError(
                f"amount={amount} should either be a float in the range [0, 1] or a non-negative "
                "integer"
            )
        self.amount = amount

    def _number(self, size: int) -> int:
        if not isinstance(self.amount, numbers.Integral):
            return round(self.amount * size)
        if self.amount > size:
            raise ValueError(
                f"amount={self.amount} should be smaller than the number of parameters to "
                f"prune={size}"
            )
        return int(self.amount)


class _Unstructured(_Amount):
    """Base: the entries with the lowest scores."""

    PRUNING_TYPE = "unstructured"

    def compute_mask(self, t: Any, default_mask: Any) -> Any:
        number = self._number(t.numel())
        mask = default_mask.contiguous().clone()
        if number:
            lowest = self._scores(t).reshape(-1).topk(number, largest=False).indices
            mask.view(-1)[lowest] = 0
        return mask

    def _scores(self, t: Any) -> Any:
        raise NotImplementedError


class RandomUnstructured(_Unstructured):
    """Entries at random: those for which the highest numbers are drawn, as in torch."""

    def _scores(self, t: Any) -> Any:
        return -F["rand_like"](t)


class L1Unstructured(_Unstructured):
    """The entries with the smallest absolute values."""

    def _scores(self, t: Any) -> Any:
        return t.abs()


class _Structured(_Amount):
    """Base: whole slices along a dimension, those with the lowest scores."""

    PRUNING_TYPE = "structured"

    def __init__(self, amount: float, dim: int = -1) -> None:
        super().__init__(amount)
        self.dim = dim

    def compute_mask(self, t: Any, default_mask: Any) -> Any:
        if t.dim() < 2:
            raise ValueError(
                "Structured pruning can only be applied to multidimensional tensors. Found tensor "
                f"of shape {t.shape} with {t.dim()} dims"
            )
        if self.dim >= t.dim():
            raise IndexError(f"Invalid index {self.dim} for tensor of size {t.shape}")
        size = t.shape[self.dim]
        number = self._number(size)
        if not number:
            return default_mask
        kept = self._scores(t).topk(size - number).indices
        mask = F["zeros_like"](t).index_fill(self.dim, kept, 1)
        return mask * default_mask.to(dtype=mask.dtype)

    def _scores(self, t: Any) -> Any:
        raise NotImplementedError


class RandomStructured(_Structured):
    """Slices at random."""

    def _scores(self, t: Any) -> Any:
        return F["rand"](t.shape[self.dim])


class LnStructured(_Structured):
    """The slices with the smallest n-norms."""

    def __init__(self, amount: float, n: Any, dim: int = -1) -> None:
        super().__init__(amount, dim)
        self.n = n

    def _scores(self, t: Any) -> Any:
        dim = self.dim % t.dim()
        return F["norm"](t, p=self.n, dim=[d for d in range(t.dim()) if d != dim])


class CustomFromMask(BasePruningMethod):
    """What a given mask says."""

    PRUNING_TYPE = "global"

    def __init__(self, mask: Any) -> None:
        self.mask = mask

    def compute_mask(self, t: Any, default_mask: Any) -> Any:
        if default_mask.shape != self.mask.shape:
            raise AssertionError(
                f"default_mask shape {default_mask.shape} must match self.mask shape "
                f"{self.mask.shape}"
            )
        return default_mask * self.mask.to(dtype=default_mask.dtype)


def identity(module: Module, name: str) -> Module:
    """Give a parameter a mask of ones."""
    Identity.apply(module, name)
    return module


def random_unstructured(module: Module, name: str, amount: float) -> Module:
    """Set a number (or a part) of the entries of a parameter to zero, at random."""
    RandomUnstructured.apply(module, name, amount=amount)
    return module


def l1_unstructured(
    module: Module, name: str, amount: float, importance_scores: Any = None
) -> Module:
    """Set the entries with the smallest absolute values (or scores) to zero."""
    L1Unstructured.apply(module, name, amount=amount, importance_scores=importance_scores)
    return module


def random_structured(module: Module, name: str, amount: float, dim: int) -> Module:
    """Set slices along `dim` to zero, at random."""
    RandomStructured.apply(module, name, amount=amount, dim=dim)
    return module


def ln_structured(
    module: Module, name: str, amount: float, n: Any, dim: int, importance_scores: Any = None
) -> Module:
    """Set the slices along `dim` with the smallest n-norms to zero."""
    given = {"amount": amount, "n": n, "dim": dim}
    LnStructured.apply(module, name, importance_scores=importance_scores, **given)
    return module


def global_unstructured(
    parameters: Any, pruning_method: Any, importance_scores: Any = None, **kwargs: Any
) -> None:
    """Prune several parameters, pairs (module, name), as if they were one.

    importance_scores: tensors by pair, in the place of values.
    """
    if not isinstance(parameters, Iterable):
        raise TypeError("global_unstructured(): parameters is not an Iterable")
    pairs = list(parameters)
    scores = {} if importance_scores is None else importance_scores
    if not isinstance(scores, dict):
        raise TypeError("global_unstructured(): importance_scores must be of type dict")
    method = pruning_method(**kwargs)
    if method.PRUNING_TYPE != "unstructured":
        raise TypeError(
            'Only "unstructured" PRUNING_TYPE supported for the `pruning_method`. Found method '
            f"{pruning_method} of type {method.PRUNING_TYPE}"
        )
    values = [getattr(module, name) for module, name in pairs]
    looked_at = [scores.get(pair, value) for pair, value in zip(pairs, values, strict=True)]
    masks = [
        getattr(module, f"{name}_mask", F["ones_like"](value))
        for (module, name), value in zip(pairs, values, strict=True)
    ]
    found = PruningContainer(method).compute_mask(
        parameters_to_vector(looked_at), parameters_to_vector(masks)
    )
    parts = found.split([value.numel() for value in values])
    for (module, name), value, part in zip(pairs, values, parts, strict=True):
        custom_from_mask(module, name, mask=part.view_as(value))


def custom_from_mask(module: Module, name: str, mask: Any) -> Module:
    """Set the entries to zero where a mask is zero."""
    CustomFromMask.apply(module, name, mask=mask)
    return module


def remove(module: Module, name: str) -> Module:
    """Make the pruned values those of the parameter, for good."""
    for key, method in _methods(module, name):
        method.remove(module)
        del module._forward_pre_hooks[key]
        return module
    raise ValueError(
        f"Parameter '{name}' of module {module} has to be pruned before pruning can be removed"
    )


def is_pruned(module: Module) -> bool:
    """Whether a parameter of a module, or of one in it, is pruned."""
    return any(_methods(each) for each in module.modules())


_expose(__name__)
