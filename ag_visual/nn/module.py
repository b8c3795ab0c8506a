"""Module: a function with parameters, in torch's shape."""

from __future__ import annotations

import itertools
from collections import OrderedDict
from collections.abc import Callable, Iterator
from typing import Any

from ..core import modes
from ..core.hooks import HookTable, RemovableHandle, register
from ..core.tensor import Tensor
from .parameter import Parameter


class Module:
    """Base class of all neural network modules.

    Attributes that are Parameters or Modules are registered by assignment. Source:
    https://pytorch.org/docs/2.8/generated/torch.nn.Module.html
    """

    training: bool

    def __init__(self) -> None:
        set_ = super().__setattr__
        set_("training", True)
        set_("_parameters", {})
        set_("_buffers", {})
        set_("_modules", {})
        set_("_transient", set())
        set_("_forward_pre_hooks", HookTable())
        set_("_forward_hooks", HookTable())

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Compute the output; subclasses override it."""
        raise NotImplementedError(
            f'Module [{type(self).__name__}] is missing the required "forward" function'
        )

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        for hook in list(self._forward_pre_hooks.values()):
            changed = hook(self, args)
            if changed is not None:
                args = changed if isinstance(changed, tuple) else (changed,)
        result = self.forward(*args, **kwargs)
        for hook in list(self._forward_hooks.values()):
            changed = hook(self, args, result)
            if changed is not None:
                result = changed
        return result

    def register_forward_pre_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """Call `hook(module, args)` before forward; it may replace the arguments."""
        return register(self._forward_pre_hooks, hook)

    def register_forward_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """Call `hook(module, args, output)` after forward; it may replace the output."""
        return register(self._forward_hooks, hook)

    # Attributes ------------------------------------------------------------------------------

    def __setattr__(self, name: str, value: Any) -> None:
        if "_parameters" not in self.__dict__:
            if isinstance(value, (Parameter, Module)):
                raise AttributeError(
                    f"cannot assign {name!r} before {type(self).__name__}.__init__() called "
                    "super().__init__()"
                )
            super().__setattr__(name, value)
            return
        tables = (self._parameters, self._buffers, self._modules)
        if isinstance(value, Parameter):
            target = self._parameters
        elif isinstance(value, Module):
            target = self._modules
        elif name in self._buffers and (value is None or isinstance(value, Tensor)):
            target = self._buffers
        elif name in self._parameters:
            if value is not None:
                raise TypeError(
                    f"cannot assign '{type(value).__name__}' as parameter '{name}' "
                    "(torch.nn.Parameter or None expected)"
                )
            target = self._parameters
        else:
            for table in tables:
                table.pop(name, None)
            super().__setattr__(name, value)
            return
        for table in tables:
            if table is not target:
                table.pop(name, None)
        self.__dict__.pop(name, None)
        target[name] = value

    def __getattr__(self, name: str) -> Any:
        for table in ("_parameters", "_buffers", "_modules"):
            found = self.__dict__.get(table)
            if found is not None and name in found:
                return found[name]
        raise AttributeError(f"'{type(self).__name__}' object has no attribute '{name}'")

    def __delattr__(self, name: str) -> None:
        for table in (self._parameters, self._buffers, self._modules):
            if name in table:
                del table[name]
                return
        super().__delattr__(name)

    def register_parameter(self, name: str, param: Parameter | None) -> None:
        """Register a parameter under a name (None: a parameter that is absent)."""
        if param is not None and not isinstance(param, Parameter):
            raise TypeError(
                f"cannot assign '{type(param).__name__}' object to parameter '{name}' "
                "(torch.nn.Parameter or None required)"
            )
        self._parameters[name] = param

    def register_buffer(self, name: str, tensor: Tensor | None, persistent: bool = True) -> None:
        """Register a tensor that is state but no parameter; it is saved when persistent."""
        self._buffers[name] = tensor
        if not persistent:
            self._transient.add(name)

    def register_module(self, name: str, module: Module | None) -> None:
        self.add_module(name, module)

    def add_module(self, name: str, module: Module | None) -> None:
        """Register a child module under a name."""
        if module is not None and not isinstance(module, Module):
            raise TypeError(f"{type(module).__name__} is not a Module subclass")
        self._modules[name] = module

    # Iteration -------------------------------------------------------------------------------

    def named_modules(
        self, memo: set[Module] | None = None, prefix: str = "", remove_duplicate: bool = True
    ) -> Iterator[tuple[str, Module]]:
        """This module and all below it, with their dotted names, each once."""
        memo = set() if memo is None else memo
        if remove_duplicate and self in memo:
            return
        memo.add(self)
        yield prefix, self
        for name, module in self._modules.items():
            if module is not None:
                below = f"{prefix}.{name}" if prefix else name
                yield from module.named_modules(memo, below, remove_duplicate)

    def modules(self) -> Iterator[Module]:
        return (module for _, module in self.named_modules())

    def named_children(self) -> Iterator[tuple[str, Module]]:
        return ((n, m) for n, m in self._modules.items() if m is not None)

    def children(self) -> Iterator[Module]:
        return (module for _, module in self.named_children())

    def _named(self, table: str, prefix: str, recurse: bool) -> Iterator[tuple[str, Any]]:
        seen: set[int] = set()
        modules = self.named_modules(prefix=prefix) if recurse else [(prefix, self)]
        for where, module in modules:
            for name, value in getattr(module, table).items():
                if value is None or id(value) in seen:
                    continue
                seen.add(id(value))
                yield (f"{where}.{name}" if where else name), value

    def named_parameters(
        self, prefix: str = "", recurse: bool = True
    ) -> Iterator[tuple[str, Parameter]]:
        return self._named("_parameters", prefix, recurse)

    def parameters(self, recurse: bool = True) -> Iterator[Parameter]:
        return (p for _, p in self.named_parameters(recurse=recurse))

    def named_buffers(self, prefix: str = "", recurse: bool = True) -> Iterator[tuple[str, Tensor]]:
        return self._named("_buffers", prefix, recurse)

    def buffers(self, recurse: bool = True) -> Iterator[Tensor]:
        return (b for _, b in self.named_buffers(recurse=recurse))

    def get_submodule(self, target: str) -> Module:
        """The module with that dotted name."""
        module = self
        for name in target.split(".") if target else []:
            if name not in module._modules:
                raise AttributeError(f"{type(module).__name__} has no attribute `{name}`")
            module = module._modules[name]
        return module

    def apply(self, fn: Callable[[Module], Any]) -> Module:
        """Call `fn` on every module, children first."""
        for module in self.children():
            module.apply(fn)
        fn(self)
        return self

    # State -----------------------------------------------------------------------------------

    def train(self, mode: bool = True) -> Module:
        """Set training mode here and below."""
        if not isinstance(mode, bool):
            raise ValueError("training mode is expected to be boolean")
        for module in self.modules():
            module.__dict__["training"] = mode
        return self

    def eval(self) -> Module:
        return self.train(False)

    def requires_grad_(self, requires_grad: bool = True) -> Module:
        for p in self.parameters():
            p.requires_grad_(requires_grad)
        return self

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Forget the gradients of all parameters (or set them to zero)."""
        for p in self.parameters():
            if p.grad is None:
                continue
            if set_to_none:
                p.grad = None
            else:
                p.grad.detach_().zero_()

    def _move(self, move: Callable[[Tensor], Tensor]) -> Module:
        """Replace the data of parameters and buffers, the Parameter objects stay."""
        previous = modes.set_grad(False)
        try:
            for module in self.modules():
                for p in module._parameters.values():
                    if p is not None:
                        p.data = move(p.detach())
                        if p.grad is not None:
                            p.grad = move(p.grad)
                for name, b in module._buffers.items():
                    if b is not None:
                        module._buffers[name] = move(b)
        finally:
            modes.set_grad(previous)
        return self

    def to(self, *args: Any, **kwargs: Any) -> Module:
        """Move parameters and buffers to a device, floating ones to a dtype."""

        def move(t: Tensor) -> Tensor:
            moved: Tensor = t.to(*args, **kwargs)
            if moved.is_floating_point() == t.is_floating_point():
                return moved
            return t.to(moved.device)

        return self._move(move)

    def double(self) -> Module:
        return self._move(lambda t: t.double() if t.is_floating_point() else t)

    def float(self) -> Module:
        return self._move(lambda t: t.float() if t.is_floating_point() else t)

    def cuda(self, device: Any = None) -> Module:
        return self._move(lambda t: t.cuda(device))

    def cpu(self) -> Module:
        return self._move(lambda t: t.cpu())

    def state_dict(self, prefix: str = "") -> OrderedDict[str, Tensor]:
        """Parameters and persistent buffers by dotted name, detached, sharing memory."""
        found: OrderedDict[str, Tensor] = OrderedDict()
        for where, module in self.named_modules(prefix=prefix.rstrip("."), remove_duplicate=False):
            items = itertools.chain(module._parameters.items(), module._buffers.items())
            for name, value in items:
                if value is not None and name not in module._transient:
                    found[f"{where}.{name}" if where else name] = value.detach()
        return found

    def load_state_dict(self, state_dict: dict[str, Tensor], strict: bool = True) -> Any:
        """Copy values by name; returns the missing and the unexpected keys.

        Nothing is changed when a shape differs, or with strict when a key is missing or unexpected.
        """
        from ..ops.generic import named_tuple

        mine = self.state_dict()
        missing = [k for k in mine if k not in state_dict]
        unexpected = [k for k in state_dict if k not in mine]
        problems = []
        if strict and missing:
            problems.append(f"Missing key(s) in state_dict: {', '.join(map(repr, missing))}.")
        if strict and unexpected:
            problems.append(f"Unexpected key(s) in state_dict: {', '.join(map(repr, unexpected))}.")
        problems += [
            f"size mismatch for {k}: copying a param with shape {state_dict[k].shape} from "
            f"checkpoint, the shape in current model is {mine[k].shape}."
            for k in mine
            if k in state_dict and mine[k].shape != state_dict[k].shape
        ]
        if problems:
            raise RuntimeError(
                f"Error(s) in loading state_dict for {type(self).__name__}:\n\t"
                + "\n\t".join(problems)
            )
        previous = modes.set_grad(False)
        try:
            for k, target in mine.items():
                if k in state_dict:
                    target.copy_(state_dict[k])
        finally:
            modes.set_grad(previous)
        return named_tuple("IncompatibleKeys", ("missing_keys", "unexpected_keys"))(
            missing, unexpected
        )

    # Text ------------------------------------------------------------------------------------

    def extra_repr(self) -> str:
        """What stands in the parentheses of the repr."""
        return ""

    def __repr__(self) -> str:
        extra = self.extra_repr()
        if not self._modules:
            return f"{type(self).__name__}({extra})"
        lines = [extra] if extra else []
        lines += [
            f"({name}): " + repr(module).replace("\n", "\n  ")
            for name, module in self._modules.items()
        ]
        return f"{type(self).__name__}(\n  " + "\n  ".join(lines) + "\n)"
