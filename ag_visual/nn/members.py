"""What a module holds: parameters, buffers and modules by name, and the ways to walk over them."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from typing import Any, Self

from ag_visual.core.tensor import Tensor
from ag_visual.dispatch.table import functions as F
from ag_visual.nn.parameter import Buffer, Parameter


def _unfit(value: Any, kind: str, name: str, wanted: str) -> TypeError:
    return TypeError(f"cannot assign '{F['typename'](value)}' as {kind} '{name}' ({wanted})")


class Members:
    """Base of Module: attributes that are Parameters, Buffers or Modules are registered."""

    training: bool
    _parameters: dict[str, Parameter | None]
    _buffers: dict[str, Tensor | None]
    _modules: dict[str, Any]
    _non_persistent_buffers_set: set[str]

    def __setattr__(self, name: str, value: Any) -> None:
        own = self.__dict__
        if "_parameters" not in own:
            if isinstance(value, Parameter | Members):
                what = "parameters" if isinstance(value, Parameter) else "module"
                raise AttributeError(
                    f"cannot assign {what} before Module.__init__() call: {type(self).__name__} "
                    f"assigns {name!r} before super().__init__()"
                )
            object.__setattr__(self, name, value)
            return
        if isinstance(value, Parameter):
            self._take_over(name, "_parameters")
            self.register_parameter(name, value)
        elif isinstance(value, Members):
            self._take_over(name, "_modules")
            own["_modules"][name] = value
        elif name in own["_parameters"]:
            if value is not None:
                raise _unfit(value, "parameter", name, "torch.nn.Parameter or None expected")
            own["_parameters"][name] = None
        elif name in own["_modules"]:
            if value is not None:
                raise _unfit(value, "child module", name, "torch.nn.Module or None expected")
            own["_modules"][name] = None
        elif isinstance(value, Buffer):
            # As in torch, a plain attribute of the name is in its way; other members are not.
            if name not in own:
                self._take_over(name, "_buffers")
            self._register_assigned(name, value)
        elif name in own["_buffers"]:
            if value is not None and not isinstance(value, Tensor):
                wanted = "torch.nn.Buffer, torch.Tensor or None expected"
                raise _unfit(value, "buffer", name, wanted)
            own["_buffers"][name] = value
        else:
            object.__setattr__(self, name, value)

    def _register_assigned(self, name: str, buffer: Buffer) -> None:
        """`register_buffer`, also where a subclass has one from before `persistent`."""
        if (
            type(self).register_buffer is Members.register_buffer
            or "persistent" in inspect.signature(self.register_buffer).parameters
        ):
            self.register_buffer(name, buffer, buffer.persistent)
            return
        if not buffer.persistent:
            raise RuntimeError(
                "Registering a non-persistent buffer on a Module subclass that implements "
                "register_buffer() without the persistent argument is not allowed."
            )
        self.register_buffer(name, buffer)

    def _take_over(self, name: str, kind: str) -> None:
        """Forget what else goes by this name; where it has it already, it keeps its place."""
        own = self.__dict__
        own.pop(name, None)
        for table in ("_parameters", "_buffers", "_modules"):
            if table != kind:
                own[table].pop(name, None)
        if kind != "_buffers":
            own["_non_persistent_buffers_set"].discard(name)

    def __getattr__(self, name: str) -> Any:
        # Python asks here only after it found nothing: every read of a parameter comes by.
        own = self.__dict__
        if "_parameters" in own:
            for table in (own["_parameters"], own["_modules"], own["_buffers"]):
                if name in table:
                    return table[name]
        raise AttributeError(f"'{type(self).__name__}' object has no attribute '{name}'")

    def __delattr__(self, name: str) -> None:
        for table in (self._parameters, self._buffers, self._modules):
            if name in table:
                del table[name]
                self._non_persistent_buffers_set.discard(name)
                return
        object.__delattr__(self, name)

    def __dir__(self) -> list[str]:
        tables = (self._parameters, self._modules, self._buffers)
        names = {*dir(type(self)), *self.__dict__, *(n for table in tables for n in table)}
        return sorted(n for n in names if not n[:1].isdigit())

    # Registration ----------------------------------------------------------------------------

    def _free(self, kind: str, name: Any, table: dict[str, Any]) -> None:
        """Refuse a name that cannot be one, or that is taken."""
        if "_parameters" not in self.__dict__:
            raise AttributeError(f"cannot assign {kind} before Module.__init__() call")
        if not isinstance(name, str):
            raise TypeError(f"{kind} name should be a string. Got {F['typename'](name)}")
        if "." in name:
            got = f", got: {name}" if kind == "module" else ""
            raise KeyError(f'{kind} name can\'t contain "."{got}')
        if name == "":
            raise KeyError(f'{kind} name can\'t be empty string ""')
        if hasattr(self, name) and name not in table:
            raise KeyError(f"attribute '{name}' already exists")

    def register_parameter(self, name: str, param: Parameter | None) -> None:
        """Register a parameter under a name (None: a parameter that is absent)."""
        self._free("parameter", name, self.__dict__.get("_parameters", {}))
        if param is not None and not isinstance(param, Parameter):
            raise TypeError(
                f"cannot assign '{F['typename'](param)}' object to parameter '{name}' "
                "(torch.nn.Parameter or None required)"
            )
        if param is not None and param.grad_fn is not None:
            raise ValueError(
                f"Cannot assign non-leaf Tensor to parameter '{name}'. Model parameters must be "
                f"created explicitly. To express '{name}' as a function of another Tensor, compute "
                "the value in the forward() method."
            )
        self._parameters[name] = param

    def register_buffer(self, name: str, tensor: Tensor | None, persistent: bool = True) -> None:
        """Register a tensor that is state but no parameter; it is saved when persistent."""
        self._free("buffer", name, self.__dict__.get("_buffers", {}))
        if tensor is not None and not isinstance(tensor, Tensor):
            raise TypeError(
                f"cannot assign '{F['typename'](tensor)}' object to buffer '{name}' "
                "(torch Tensor or None required)"
            )
        self._buffers[name] = tensor
        if persistent:
            self._non_persistent_buffers_set.discard(name)
        else:
            self._non_persistent_buffers_set.add(name)

    def register_module(self, name: str, module: Any) -> None:
        """`add_module`."""
        self.add_module(name, module)

    def add_module(self, name: str, module: Any) -> None:
        """Register a child module under a name."""
        if module is not None and not isinstance(module, Members):
            raise TypeError(f"{F['typename'](module)} is not a Module subclass")
        self._free("module", name, self.__dict__.get("_modules", {}))
        self._modules[name] = module

    # Iteration -------------------------------------------------------------------------------

    def named_modules(
        self, memo: set[Any] | None = None, prefix: str = "", remove_duplicate: bool = True
    ) -> Iterator[tuple[str, Any]]:
        """This module and all below it, with their dotted names, each once."""
        memo = set() if memo is None else memo
        if self in memo:
            return
        if remove_duplicate:
            memo.add(self)
        yield prefix, self
        for name, module in self._modules.items():
            if module is not None:
                below = f"{prefix}.{name}" if prefix else name
                yield from module.named_modules(memo, below, remove_duplicate)

    def modules(self, remove_duplicate: bool = True) -> Iterator[Any]:
        """This module and all below it."""
        return (m for _, m in self.named_modules(remove_duplicate=remove_duplicate))

    def named_children(self) -> Iterator[tuple[str, Any]]:
        """The modules right below this one with their names, each once."""
        seen: set[int] = set()
        for name, module in self._modules.items():
            if module is not None and id(module) not in seen:
                seen.add(id(module))
                yield name, module

    def children(self) -> Iterator[Any]:
        """The modules right below this one."""
        return (module for _, module in self.named_children())

    def _named(
        self, table: str, prefix: str, recurse: bool, remove_duplicate: bool
    ) -> Iterator[tuple[str, Any]]:
        seen: set[int] = set()
        modules: Any = [(prefix, self)]
        if recurse:
            modules = self.named_modules(prefix=prefix, remove_duplicate=remove_duplicate)
        for where, module in modules:
            for name, value in getattr(module, table).items():
                if value is None or id(value) in seen:
                    continue
                if remove_duplicate:
                    seen.add(id(value))
                yield (f"{where}.{name}" if where else name), value

    def named_parameters(
        self, prefix: str = "", recurse: bool = True, remove_duplicate: bool = True
    ) -> Iterator[tuple[str, Parameter]]:
        """Parameters with their dotted names, each once."""
        return self._named("_parameters", prefix, recurse, remove_duplicate)

    def parameters(self, recurse: bool = True) -> Iterator[Parameter]:
        """Parameters, of this module alone or of all below it, too."""
        return (p for _, p in self.named_parameters(recurse=recurse))

    def named_buffers(
        self, prefix: str = "", recurse: bool = True, remove_duplicate: bool = True
    ) -> Iterator[tuple[str, Tensor]]:
        """Buffers with their dotted names, each once."""
        return self._named("_buffers", prefix, recurse, remove_duplicate)

    def buffers(self, recurse: bool = True) -> Iterator[Tensor]:
        """Buffers, of this module alone or of all below it, too."""
        return (b for _, b in self.named_buffers(recurse=recurse))

    def apply(self, fn: Callable[[Any], Any]) -> Self:
        """Call `fn` on every module, children first."""
        for module in self.children():
            module.apply(fn)
        fn(self)
        return self

    # By path ---------------------------------------------------------------------------------

    def get_submodule(self, target: str) -> Any:
        """The module with that dotted name."""
        found: Any = self
        for name in target.split(".") if target else []:
            if not hasattr(found, name):
                raise AttributeError(f"{type(found).__name__} has no attribute `{name}`")
            found = getattr(found, name)
            if not isinstance(found, Members):
                raise AttributeError(f"`{name}` is not an nn.Module")
        return found

    def set_submodule(self, target: str, module: Any, strict: bool = False) -> None:
        """Put a module in the place of the one with that dotted name.

        strict: there must be one already.
        """
        if target == "":
            raise ValueError("Cannot set the submodule without a target name!")
        if not isinstance(module, Members):
            raise ValueError(f"`module` is not an nn.Module, found {type(module)}")
        path, _, name = target.rpartition(".")
        parent = self.get_submodule(path)
        if strict and not hasattr(parent, name):
            raise AttributeError(f"{type(parent).__name__} has no attribute `{name}`")
        if hasattr(parent, name) and not isinstance(getattr(parent, name), Members):
            raise AttributeError(f"`{name}` is not an nn.Module")
        setattr(parent, name, module)

    def _at(self, target: str, table: str, kind: str) -> Any:
        path, _, name = target.rpartition(".")
        module = self.get_submodule(path)
        if not hasattr(module, name):
            raise AttributeError(f"{type(module).__name__} has no attribute `{name}`")
        if name not in getattr(module, table):
            raise AttributeError(f"`{name}` is not {kind}")
        return getattr(module, name)

    def get_parameter(self, target: str) -> Parameter:
        """The parameter with that dotted name."""
        return self._at(target, "_parameters", "an nn.Parameter")  # type: ignore[no-any-return]

    def get_buffer(self, target: str) -> Tensor:
        """The buffer with that dotted name."""
        return self._at(target, "_buffers", "a buffer")  # type: ignore[no-any-return]
