"""The base of optimizers: parameter groups, state, hooks, and the loop that calls an update rule.

A rule is written once, with augmented assignments, and runs on two namespaces: on the arrays
themselves (the usual case, no node and no Tensor is made), or on Tensors where the first would be
wrong: half precision, tensor-valued options, `differentiable=True`, inference tensors.
"""

from __future__ import annotations

import copy
import functools
from collections import defaultdict
from collections.abc import Callable, Iterable
from typing import Any

import numpy

from ag_visual import dtypes
from ag_visual.arrays.backend import backend_of
from ag_visual.arrays.coo import Coo
from ag_visual.autograd.grad_mode import enable_grad, set_grad_enabled
from ag_visual.core import modes, source
from ag_visual.core.hooks import HookTable, RemovableHandle, register
from ag_visual.core.sparse import SparseTensor, whole
from ag_visual.core.tensor import InferenceTensor, Tensor, before_write, from_array, wrote
from ag_visual.dispatch.table import functions as F, raw, raw_numpy, traced
from ag_visual.events import instrument
from ag_visual.events.timed import Span
from ag_visual.optim import step_hooks
from ag_visual.optim.step_hooks import (
    register_optimizer_step_post_hook as register_optimizer_step_post_hook,
    register_optimizer_step_pre_hook as register_optimizer_step_pre_hook,
)
from ag_visual.optim.together import decayed, fits, step_together

ParamsT = Iterable[Tensor] | Iterable[dict[str, Any]] | Iterable[tuple[str, Tensor]]
Group = dict[str, Any]
State = dict[str, Any]


def number(value: Any) -> Any:
    """An option as a Python number, also where it was given as a tensor of one element."""
    return value.item() if isinstance(value, Tensor) else value


def scalar(value: float) -> Tensor:
    """A number in the state: in double precision if that is the default, else in single."""
    double = dtypes.get_default_dtype() is dtypes.float64
    return F["tensor"](value, dtype=dtypes.float64 if double else dtypes.float32)  # type: ignore[no-any-return]


_CALLED = {"lr": "learning rate", "eps": "epsilon value"}  # in torch's errors


def at_least_zero(**values: Any) -> None:
    """Refuse negative options."""
    for name, value in values.items():
        if isinstance(value, Tensor) and value.numel() != 1:
            raise ValueError("Tensor lr must be 1-element")
        if not value >= 0.0:
            raise ValueError(f"Invalid {_CALLED.get(name, f'{name} value')}: {value}")


def betas_of(betas: Any) -> tuple[Any, ...]:
    """The two decay rates of running averages as numbers in [0, 1)."""
    for i, beta in enumerate(betas):
        if not 0.0 <= beta < 1.0:
            raise ValueError(f"Invalid beta parameter at index {i}: {beta}")
    return tuple(map(number, betas))


def not_both(foreach: Any, fused: Any, differentiable: bool) -> None:
    """Refuse the pairs of options that torch refuses."""
    if fused and differentiable:
        raise RuntimeError("`fused` does not support `differentiable`")
    if fused and foreach:
        raise RuntimeError("`fused` and `foreach` cannot be `True` together.")


def options(given: dict[str, Any]) -> Group:
    """The defaults of the groups: all that an `__init__` was given but the parameters.

    given: its `locals()`.
    """
    return {k: v for k, v in given.items() if k not in ("self", "params", "__class__")}


class _RequiredParameter:
    """Stands in a program's own defaults for an option that must be given."""

    def __repr__(self) -> str:
        return "<required parameter>"


required = _RequiredParameter()


class Optimizer:
    """Changes parameters in place from their gradients. A rule defines `begin` and `update`.

    foreach: one pass over all parameters of a group (see `together`); None where that is quicker,
    False a step of each. `fused` and `capturable` choose between implementations in torch; they are
    kept in the groups for its sake and change nothing here.
    """

    by_parts = False
    """Whether a complex parameter is changed as two real numbers: rules that square gradients."""

    elementwise = False
    """Whether `update` goes element by element: parameters may be changed as one array."""
    numbers: tuple[str, ...] = ()
    """What in the state, beside `step`, is one number that `update` moves with each step."""

    _stepping = True  # without __init__ there are no hooks, as in torch
    keeps = True
    """Whether a parameter has state before its first step: what `begin` gives, and `step`."""

    def __init__(self, params: Iterable[Any], defaults: Group) -> None:
        if isinstance(params, Tensor):
            raise TypeError(
                "params argument given to the optimizer should be an iterable of Tensors or dicts, "
                "but got torch.FloatTensor: wrap it in a list"
            )
        try:
            groups = list(params)
        except TypeError:
            hint = "its .parameters()" if hasattr(params, "parameters") else "a list of Tensors"
            raise TypeError(
                f"'{type(params).__name__}' object is not iterable: give the optimizer {hint}"
            ) from None
        if not groups:
            raise ValueError(
                "optimizer got an empty parameter list: a generator that was used up before, or a "
                "module that holds its layers in a plain list instead of a ModuleList"
            )
        if not isinstance(groups[0], dict):
            groups = [{"params": groups}]
        self.defaults = defaults
        self.param_groups: list[Group] = []
        self.state: defaultdict[Any, State] = defaultdict(dict)
        self._set_up()
        for group in groups:
            self.add_param_group(dict(group))

    def _set_up(self) -> None:
        """Attributes that a saved optimizer leaves out."""
        self._label = f"{type(self).__name__}.step"
        # A scheduler looks whether step() came before its own.
        self._opt_called = self._scheduled = False
        self._stepping = False
        self._step_pre_hooks = HookTable()
        self._step_post_hooks = HookTable()
        self._state_hooks = {name: HookTable() for name in ("save", "saved", "load", "loaded")}

    def __init_subclass__(cls) -> None:
        if {"update", "_change"} & set(cls.__dict__) and "elementwise" not in cls.__dict__:
            cls.elementwise = False  # a program's own rule may look at a parameter as a whole
        if "step" in cls.__dict__:
            cls.step = _hooked(cls.step)  # type: ignore[method-assign]

    def __getstate__(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in ("defaults", "state", "param_groups")}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        if "_label" not in self.__dict__:
            self._set_up()
        for group in self.param_groups:
            for name, value in self.defaults.items():
                group.setdefault(name, value)

    # Groups ----------------------------------------------------------------------------------

    def add_param_group(self, param_group: Group) -> None:
        """Add a group of parameters with options of its own.

        Parameters may come with names, as `named_parameters()` gives them; the group then keeps
        them as `param_names`.
        """
        if not isinstance(param_group, dict):
            raise TypeError(f"param_group must be a dict, but got {type(param_group)}")
        params = param_group["params"]
        if isinstance(params, set):
            raise TypeError(
                "optimizer parameters need to be organized in ordered collections, but the "
                "ordering of tensors in sets will change between runs. Please use a list instead."
            )
        params = [params] if isinstance(params, Tensor) else list(params)
        names = [p[0] for p in params if isinstance(p, tuple)]
        if names and len(names) != len(params):
            raise ValueError(
                "all optimizer params should be with/without names. Some param names are missing"
            )
        params = [p[1] for p in params] if names else params
        param_group["params"] = params
        if names:
            param_group["param_names"] = names
        self._check(params)
        for group in self.param_groups:
            if ("param_names" in group) is not bool(names):
                raise ValueError(
                    "all optimizer param groups should be with/without names. cannot add param "
                    f"group {'with' if names else 'without'} names to the optimizer"
                )
        for name, value in self.defaults.items():
            if value is required and name not in param_group:
                raise ValueError(
                    "parameter group didn't specify a value of required optimization parameter "
                    f"{name}"
                )
            param_group.setdefault(name, value)
        self.param_groups.append(param_group)

    def _check(self, params: list[Any]) -> None:
        known = {id(p) for g in self.param_groups for p in g["params"]}
        for p in params:
            if not isinstance(p, Tensor):
                raise TypeError(
                    "optimizer can only optimize Tensors, but one of the params is "
                    f"{F['typename'](p)}"
                )
            if not (self.defaults.get("differentiable") or p.is_leaf or p.retains_grad):
                raise ValueError("can't optimize a non-leaf Tensor")
            if id(p) in known:
                raise ValueError("some parameters appear in more than one parameter group")

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Forget the gradients (or set them to zero)."""
        if instrument.spans is None:
            self._zero_grad(set_to_none)
            return
        with Span(f"Optimizer.zero_grad#{type(self).__name__}.zero_grad"):
            self._zero_grad(set_to_none)

    def _zero_grad(self, set_to_none: bool) -> None:
        for group in self.param_groups:
            for p in group["params"]:
                if set_to_none:
                    p._grad = None
                elif (g := p._grad) is not None:
                    (g.requires_grad_(False) if g.grad_fn is None else g.detach_()).zero_()

    # A step ----------------------------------------------------------------------------------

    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Change every parameter that has a gradient; returns the closure's loss."""
        if instrument.spans is not None:
            return step_hooks.timed(Optimizer._step_with_hooks, self, (closure,), {})
        return self._step_with_hooks(closure)

    def _step_with_hooks(self, closure: Callable[[], Any] | None) -> Any:
        self._opt_called = True
        if step_hooks.any_of(self):
            return step_hooks.around(_step, self, (closure,), {})
        return _step(self, closure)

    def begin(self, p: Tensor, group: Group) -> State:
        """The tensors that the rule keeps for one parameter, before its first step."""
        return {}

    def update(self, F: Any, p: Any, g: Any, state: State, group: Group, n: float) -> None:
        """Change one parameter by its gradient (decayed already) in its n-th step.

        p, g and the values of `state` are arrays and F the ops on them, or Tensors and theirs. p
        and the state are changed by augmented assignment; `state` may be given new entries.
        """
        raise NotImplementedError(f"{type(self).__name__} must define update()")

    def _update_sparse(self, p: Any, g: Coo, state: State, group: Group, n: float) -> None:
        """The same by a gradient that is sparse: p and the state are arrays."""
        raise RuntimeError(f"{self._sparse_name} does not support sparse gradients")

    @property
    def _sparse_name(self) -> str:
        """What torch calls a rule that takes no sparse gradients."""
        return type(self).__name__

    def _begun(self, p: Tensor, group: Group) -> State:
        """The state of a parameter that makes its first step."""
        with set_grad_enabled(False):
            state = {"step": scalar(0.0), **self.begin(p.detach(), group)}
        self.state[p] = state
        return state

    def _change(self, p: Tensor, grad: Tensor, group: Group, call_site: Any) -> None:
        """One step of one parameter, on arrays."""
        array, g = p._array, grad._array
        if array.shape != g.shape:
            raise _other_shape(array.shape, g.shape)
        plain = type(array) is numpy.ndarray is type(g)
        if not plain and type(g) is Coo:
            self._change_sparse(p, g, group)
            return
        namespace = raw_numpy if plain else raw(backend_of(array).xp)
        if modes.special:
            before_write(p)
        state = self.state.get(p) if self.state else None
        if not state and self.keeps:
            state = self._begun(p, group)
        held = {name: value._array for name, value in state.items()} if state else {}
        n = 0.0
        if self.keeps:
            steps = held["step"]
            steps += 1
            n = steps.item()
        # Counted first: an interrupt in between must not leave a write that nobody knows of.
        if instrument.sink is not None:
            wrote(p, self._label)
        else:
            p._storage.wrote(self._label, call_site, p._array)
        if self.by_parts and array.dtype.kind == "c":
            real = namespace.view_as_real
            parts = {k: real(a) if a.dtype.kind == "c" else a for k, a in held.items()}
            array, g = real(array), real(g)
            self.update(namespace, array, decayed(array, g, group), parts, group, n)
        else:
            if group["maximize"] or group.get("weight_decay"):
                g = decayed(array, g, group)
            self.update(namespace, array, g, held, group, n)
            if held and len(held) != len(state or ()):
                known = state or {}
                fresh = {k: from_array(_whole(a)) for k, a in held.items() if k not in known}
                self.state[p] = state = {**known, **fresh}
        if state:
            for value in state.values():
                value._storage.wrote(self._label, call_site, value._array)

    def _change_sparse(self, p: Tensor, g: Coo, group: Group) -> None:
        """One step of one parameter, of which only some rows have a gradient."""
        if group.get("differentiable"):
            raise RuntimeError(
                f"{type(self).__name__}: a step by a sparse gradient is not recorded, leave "
                "differentiable=True out"
            )
        before_write(p)
        state = self.state.get(p) or (self._begun(p, group) if self.keeps else {})
        held = {k: v._array if isinstance(v, Tensor) else v for k, v in state.items()}
        n = 0.0
        if self.keeps:
            n = float(held["step"]) + 1
        self._update_sparse(p._array, -g if group["maximize"] else g, held, group, n)
        if self.keeps:
            step = state["step"]
            state["step"] = step.add_(1) if isinstance(step, Tensor) else step + 1
        wrote(p, self._label)
        fresh = {k: whole(a, from_array) for k, a in held.items() if k not in state}
        for value in state.values():
            if isinstance(value, Tensor):
                value._storage.wrote(self._label, None, _held(value))
        if fresh:
            self.state[p] = {**state, **fresh}

    def _change_traced(self, p: Tensor, grad: Tensor, group: Group) -> None:
        """One step of one parameter on Tensors; recorded if the group is differentiable."""
        if type(grad) is SparseTensor:
            self._change_sparse(p, grad._array, group)
            return
        state = self.state.get(p)
        if not state:
            state = self._begun(p, group) if self.keeps else {}
        n = 0.0
        if self.keeps:
            with set_grad_enabled(False):
                state["step"] += 1
            n = state["step"].item()
        with set_grad_enabled(bool(group.get("differentiable"))):
            if self.by_parts and p.is_complex():  # only rules that add no entries
                real = traced.view_as_real
                parts = {k: real(v) if v.is_complex() else v for k, v in state.items()}
                p, grad = real(p), real(grad)
                self.update(traced, p, decayed(p, grad, group), parts, group, n)
                return
            self.update(traced, p, decayed(p, grad, group), state, group, n)
            if state:
                self.state[p] = state

    # Saving ----------------------------------------------------------------------------------

    def register_step_pre_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """Call `hook(optimizer, args, kwargs)` before each step; it may return both anew."""
        return register(self._step_pre_hooks, hook)

    def register_step_post_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """Call `hook(optimizer, args, kwargs)` after each step."""
        return register(self._step_post_hooks, hook)

    def register_state_dict_pre_hook(
        self, hook: Callable[..., Any], prepend: bool = False
    ) -> RemovableHandle:
        """Call `hook(optimizer)` before `state_dict`."""
        return register(self._state_hooks["save"], hook, prepend)

    def register_state_dict_post_hook(
        self, hook: Callable[..., Any], prepend: bool = False
    ) -> RemovableHandle:
        """Call `hook(optimizer, state_dict)` after `state_dict`; it may return another one."""
        return register(self._state_hooks["saved"], hook, prepend)

    def register_load_state_dict_pre_hook(
        self, hook: Callable[..., Any], prepend: bool = False
    ) -> RemovableHandle:
        """Call `hook(optimizer, state_dict)` before loading; it may return another one."""
        return register(self._state_hooks["load"], hook, prepend)

    def register_load_state_dict_post_hook(
        self, hook: Callable[..., Any], prepend: bool = False
    ) -> RemovableHandle:
        """Call `hook(optimizer)` after `load_state_dict`."""
        return register(self._state_hooks["loaded"], hook, prepend)

    def state_dict(self) -> dict[str, Any]:
        """State and options, with parameters numbered in order."""
        for hook in self._state_hooks["save"].values():
            hook(self)
        order = [p for g in self.param_groups for p in g["params"]]
        index = {id(p): i for i, p in enumerate(order)}
        groups = []
        for group in self.param_groups:
            options = {k: v for k, v in group.items() if k != "params"}
            groups.append({**options, "params": [index[id(p)] for p in group["params"]]})
        state = {index[id(p)] if isinstance(p, Tensor) else p: s for p, s in self.state.items()}
        found: dict[str, Any] = {"state": state, "param_groups": groups}
        for hook in self._state_hooks["saved"].values():
            found = hook(self, found) or found
        return found

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Take over what `state_dict` gave; the groups must have the same sizes.

        Tensors are copied to the dtype and the device of their parameter, `step` as it is.
        """
        for hook in self._state_hooks["load"].values():
            state_dict = hook(self, state_dict) or state_dict
        groups = state_dict["param_groups"]
        if len(groups) != len(self.param_groups):
            raise ValueError(
                "loaded state dict has a different number of parameter groups: "
                f"{len(groups)}, this optimizer has {len(self.param_groups)}"
            )
        sizes = [len(g["params"]) for g in self.param_groups]
        given = [len(g["params"]) for g in groups]
        if sizes != given:
            raise ValueError(
                "loaded state dict contains a parameter group that doesn't match the size of "
                f"optimizer's group: {given} and {sizes}"
            )
        numbers = [i for g in groups for i in g["params"]]
        order = dict(zip(numbers, (p for g in self.param_groups for p in g["params"]), strict=True))
        state: defaultdict[Any, State] = defaultdict(dict)
        for i, entries in state_dict["state"].items():
            if i in order:
                state[order[i]] = {k: _fitted(v, order[i], k) for k, v in entries.items()}
            else:
                state[i] = entries
        for mine, other in zip(self.param_groups, groups, strict=True):
            params = mine["params"]
            names = {"param_names": mine["param_names"]} if "param_names" in mine else {}
            mine.update({**names, **copy.deepcopy(other), "params": params})
            for name in set(mine) - set(other) - set(names) - set(self.defaults) - {"params"}:
                del mine[name]
        self.state = state
        for hook in self._state_hooks["loaded"].values():
            hook(self)

    def __repr__(self) -> str:
        lines = [f"{type(self).__name__} ("]
        for i, group in enumerate(self.param_groups):
            lines.append(f"Parameter Group {i}")
            lines += [f"    {k}: {group[k]}" for k in sorted(group) if k != "params"]
            lines.append("")
        return "\n".join([*lines[:-1], ")"])


def _other_shape(have: tuple[int, ...], given: tuple[int, ...]) -> RuntimeError:
    """That a gradient does not fit its parameter, whose `.data` was replaced since."""
    said = "The size of tensor a and of tensor b must match"
    for at, (a, b) in enumerate(zip(have, given, strict=False)):
        if a != b:
            said = (
                f"The size of tensor a ({a}) must match the size of tensor b ({b}) at "
                f"non-singleton dimension {at}"
            )
            break
    return RuntimeError(
        f"{said}\nA parameter of shape {list(have)} has a .grad of shape {list(given)}: its .data "
        "was replaced. Set .grad to None."
    )


def _whole(array: Any) -> Any:
    """An array, also where NumPy made a number of one without dimensions."""
    return numpy.asarray(array) if isinstance(array, numpy.generic) else array


def _held(value: Tensor) -> Any:
    """The array that a write to it changes."""
    return value._array.values if type(value) is SparseTensor else value._array


def _step(self: Optimizer, closure: Callable[[], Any] | None = None) -> Any:
    loss = None
    if closure is not None:
        with enable_grad():
            loss = closure()
    call_site = source.here()
    for group in self.param_groups:
        if group.get("weight_decay") and "weight_decay" not in self.defaults:
            group = {**group, "weight_decay": 0}  # an option that this rule does not have
        traced_only = group.get("differentiable")
        for value in group.values():
            if isinstance(value, Tensor):
                if not group.get("differentiable"):
                    group = {k: number(v) for k, v in group.items()}
                    break
                traced_only = True
        foreach = group.get("foreach")
        together = self.elementwise and not traced_only and foreach is not False
        each = bool(foreach or not (self.keeps or group.get("momentum")))
        given = []
        for p in group["params"]:
            grad = p._grad
            if grad is None:
                continue
            if together and fits(p, grad, each):
                given.append((p, grad))
                continue
            if traced_only and foreach and group.get("differentiable") and self.keeps:
                # (SGD's is recorded, in torch, too.)
                raise AssertionError(
                    "_foreach ops don't support autograd: leave out foreach=True, or "
                    "differentiable=True"
                )
            dtype = p._array.dtype
            if (
                traced_only
                or dtype.char not in "fdFD"
                or dtype is not grad._array.dtype
                or type(p) is InferenceTensor
            ):
                self._change_traced(p, grad, group)
            else:
                self._change(p, grad, group, call_site)
        if given:
            step_together(self, group, given, call_site)
    return loss


def _hooked(step: Callable[..., Any]) -> Callable[..., Any]:
    """The `step` that a subclass defines itself, with the hooks around its outermost call."""

    @functools.wraps(step)
    def hooked(self: Any, *args: Any, **kwargs: Any) -> Any:
        if self._stepping:
            return step(self, *args, **kwargs)
        if instrument.spans is not None:
            return step_hooks.timed(outermost, self, args, kwargs)
        return outermost(self, *args, **kwargs)

    def outermost(self: Any, *args: Any, **kwargs: Any) -> Any:
        self._opt_called = self._stepping = True
        try:
            return step_hooks.around(step, self, args, kwargs)
        finally:
            self._stepping = False

    return hooked


def _fitted(value: Any, p: Tensor, key: Any = None) -> Any:
    """A copy of saved state, for a parameter that may have another dtype or device."""
    if isinstance(value, Tensor):
        if key == "step":
            return value.detach().clone()
        floating = p.dtype.is_floating_point and value.dtype.is_floating_point
        dtype = p.dtype if floating or (p.is_complex() and value.is_complex()) else value.dtype
        with set_grad_enabled(False):
            return value.detach().to(device=p.device, dtype=dtype, copy=True)
    if key == "step" and isinstance(value, int | float):
        return scalar(value)
    if isinstance(value, dict):
        return {k: _fitted(v, p, k) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return type(value)(_fitted(v, p) for v in value)
    return copy.deepcopy(value)
