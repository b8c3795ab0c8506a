"""The base of optimizers: parameter groups, state, zero_grad, step."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from ..autograd.grad_mode import enable_grad, no_grad
from ..core.tensor import Tensor
from ..ops.table import functions as F


class Optimizer:
    """Changes parameters in place from their gradients; subclasses define `update`."""

    by_parts = False
    """Whether a complex parameter is changed as two real numbers: rules that square gradients."""

    def __init__(self, params: Iterable[Any], defaults: dict[str, Any]) -> None:
        if isinstance(params, Tensor):
            raise TypeError(
                "params argument given to the optimizer should be an iterable of Tensors or dicts, "
                "but got a Tensor: wrap it in a list"
            )
        groups = list(params)
        if not groups:
            raise ValueError("optimizer got an empty parameter list")
        if not isinstance(groups[0], dict):
            groups = [{"params": groups}]
        self.defaults = defaults
        self.param_groups: list[dict[str, Any]] = []
        self.state: dict[Any, dict[str, Any]] = {}
        for group in groups:
            self.add_param_group(group)

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        """Add a group of parameters with options of its own."""
        group = {**self.defaults, **param_group}
        params = group["params"]
        group["params"] = [params] if isinstance(params, Tensor) else list(params)
        known = {p for g in self.param_groups for p in g["params"]}
        for p in group["params"]:
            if not isinstance(p, Tensor):
                raise TypeError(
                    f"optimizer can only optimize Tensors, but one of the params is {type(p)}"
                )
            if not p.is_leaf:
                raise ValueError("can't optimize a non-leaf Tensor")
            if p in known:
                raise ValueError("some parameters appear in more than one parameter group")
        self.param_groups.append(group)

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Forget the gradients (or set them to zero)."""
        for group in self.param_groups:
            for p in group["params"]:
                if p.grad is not None:
                    if set_to_none:
                        p.grad = None
                    else:
                        p.grad.detach_().zero_()

    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Change every parameter that has a gradient; returns the closure's loss."""
        loss = None
        if closure is not None:
            with enable_grad():
                loss = closure()
        with no_grad():
            for group in self.param_groups:
                for p in group["params"]:
                    if p.grad is None:
                        continue
                    state = self.state.setdefault(p, {})
                    if self.by_parts and p.is_complex():
                        self.update(F["view_as_real"](p), F["view_as_real"](p.grad), group, state)
                    else:
                        self.update(p, p.grad, group, state)
        return loss

    def update(self, p: Tensor, g: Any, group: dict[str, Any], state: dict[str, Any]) -> None:
        """Change one parameter; runs under no_grad."""
        raise NotImplementedError(f"{type(self).__name__} must define update()")

    def state_dict(self) -> dict[str, Any]:
        """State and options, with parameters numbered in order."""
        order = [p for g in self.param_groups for p in g["params"]]
        index = {p: i for i, p in enumerate(order)}
        groups = [{**g, "params": [index[p] for p in g["params"]]} for g in self.param_groups]
        return {"state": {index[p]: s for p, s in self.state.items()}, "param_groups": groups}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Take over what `state_dict` gave; the groups must have the same sizes."""
        sizes = [len(g["params"]) for g in self.param_groups]
        given = [len(g["params"]) for g in state_dict["param_groups"]]
        if sizes != given:
            raise ValueError(
                "loaded state dict contains a parameter group that doesn't match the size of "
                f"optimizer's group: {given} and {sizes}"
            )
        order = [p for g in self.param_groups for p in g["params"]]
        self.state = {order[i]: dict(s) for i, s in state_dict["state"].items()}
        for group, other in zip(self.param_groups, state_dict["param_groups"], strict=True):
            group.update({k: v for k, v in other.items() if k != "params"})
