"""Modules that hold modules: Sequential, ModuleList, ModuleDict, ParameterList."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Iterator
from typing import Any

from .module import Module
from .parameter import Parameter


class Sequential(Module):
    """Calls its modules one after the other."""

    def __init__(self, *args: Any) -> None:
        super().__init__()
        named = (
            args[0].items()
            if len(args) == 1 and isinstance(args[0], OrderedDict)
            else ((str(i), m) for i, m in enumerate(args))
        )
        for name, module in named:
            self.add_module(name, module)

    def forward(self, input: Any) -> Any:
        for module in self._modules.values():
            input = module(input)
        return input

    def __len__(self) -> int:
        return len(self._modules)

    def __iter__(self) -> Iterator[Module]:
        return iter(self._modules.values())

    def __getitem__(self, index: Any) -> Any:
        modules = list(self._modules.values())[index]
        return type(self)(*modules) if isinstance(index, slice) else modules

    def append(self, module: Module) -> Sequential:
        self.add_module(str(len(self)), module)
        return self


class ModuleList(Module):
    """A list of modules that its parent finds."""

    def __init__(self, modules: Iterable[Module] = ()) -> None:
        super().__init__()
        self.extend(modules)

    def append(self, module: Module) -> ModuleList:
        self.add_module(str(len(self)), module)
        return self

    def extend(self, modules: Iterable[Module]) -> ModuleList:
        for module in modules:
            self.append(module)
        return self

    def __len__(self) -> int:
        return len(self._modules)

    def __iter__(self) -> Iterator[Module]:
        return iter(self._modules.values())

    def __getitem__(self, index: Any) -> Any:
        found = list(self._modules.values())[index]
        return ModuleList(found) if isinstance(index, slice) else found


class ModuleDict(Module):
    """A dictionary of modules that its parent finds."""

    def __init__(self, modules: dict[str, Module] | None = None) -> None:
        super().__init__()
        for name, module in (modules or {}).items():
            self.add_module(name, module)

    def __getitem__(self, key: str) -> Any:
        return self._modules[key]

    def __setitem__(self, key: str, module: Module) -> None:
        self.add_module(key, module)

    def __len__(self) -> int:
        return len(self._modules)

    def __iter__(self) -> Iterator[str]:
        return iter(self._modules)

    def __contains__(self, key: str) -> bool:
        return key in self._modules

    def items(self) -> Any:
        return self._modules.items()

    def values(self) -> Any:
        return self._modules.values()

    def keys(self) -> Any:
        return self._modules.keys()


class ParameterList(Module):
    """A list of parameters that its parent finds."""

    def __init__(self, parameters: Iterable[Parameter] = ()) -> None:
        super().__init__()
        for parameter in parameters:
            self.append(parameter)

    def append(self, parameter: Parameter) -> ParameterList:
        self.register_parameter(str(len(self)), parameter)
        return self

    def __len__(self) -> int:
        return len(self._parameters)

    def __iter__(self) -> Iterator[Parameter]:
        return iter(self._parameters.values())

    def __getitem__(self, index: int) -> Parameter:
        return list(self._parameters.values())[index]
