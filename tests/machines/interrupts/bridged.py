"""Kinds of work of the real torch, watched; torch is afterwards as it was."""

from __future__ import annotations

import sys
import threading
from typing import Any

import ag_visual as ag
from ag_visual.bridge import forward
from ag_visual.core import source
from ag_visual.events import instrument, live
from ag_visual.session.session import current

from .observed import Stepped
from .work import Work


class _Torch:
    """What watching changes in torch, and in this package for torch's sake."""

    def __init__(self, torch: Any) -> None:
        self.torch = torch
        self.owners = [
            *(torch.autograd, torch.autograd.Function, torch.autograd.forward_ad),
            *(torch.autograd.profiler.profile, torch.autograd.function._HookMixin),
            *(torch._C, torch._C.ScriptModule, torch._C._autograd, torch._C._autograd.SavedTensor),
            *(torch.overrides, torch.nn.modules.module, threading.Thread),
        ]
        self.own = self._names()
        self.before = self._all()

    def _names(self) -> dict[tuple[Any, str], Any]:
        """What stands under each name of torch's that may be replaced."""
        return {(owner, name): own for owner in self.owners for name, own in vars(owner).items()}

    def _replaced(self) -> list[tuple[Any, str]]:
        now = self._names()
        return [
            each for each, own in self.own.items() if callable(own) and now.get(each) is not own
        ]

    def _all(self) -> dict[str, Any]:
        torch = self.torch
        module = torch.nn.modules.module
        return {
            "functions of torch": self._replaced(),
            "Function.apply": vars(torch.autograd.Function)["apply"],  # a class method: no callable
            "finders of modules": list(sys.meta_path),
            # A manager of torch's that was interrupted puts a mode back when it is collected, which
            # may be after the block: it does nothing then, and the next block takes it out.
            "the modes that do something": [
                mode for mode in self.modes() if type(mode) is not forward._Stopped
            ],
            "torch functions": torch._C._is_torch_function_enabled(),
            "grad mode": torch.is_grad_enabled(),
            "hooks of modules": [
                list(hooks)
                for hooks in (
                    module._global_forward_pre_hooks,
                    module._global_forward_hooks,
                    module._global_forward_hooks_always_called,
                )
            ],
            "the engines": list(live.engines),
            "what looks behind": instrument.behind,
            "the package's folders": list(source._folders),
        }

    def modes(self) -> list[Any]:
        stack = self.torch._C._get_function_stack_at
        return [stack(i) for i in range(self.torch._C._len_torch_function_stack())]

    def changed(self) -> list[str]:
        """What is not as it was; it is then."""
        now = self._all()
        found = [f"{name}: not as before" for name, was in self.before.items() if now[name] != was]
        if found:
            self._restore()
        return found

    def _restore(self) -> None:
        torch, before = self.torch, self.before
        module = torch.nn.modules.module
        for owner, name in self._replaced():
            setattr(owner, name, self.own[owner, name])
        torch.autograd.Function.apply = before["Function.apply"]
        sys.meta_path[:] = before["finders of modules"]
        while torch._C._len_torch_function_stack():
            torch._C._pop_torch_function_stack()
        for hooks in (
            module._global_forward_pre_hooks,
            module._global_forward_hooks,
            module._global_forward_hooks_always_called,
        ):
            hooks.clear()
        live.engines.clear()
        instrument.behind = None
        torch.set_grad_enabled(before["grad mode"])
        source._folders[:] = before["the package's folders"]


class TorchWatched(Work):
    """A backward of torch in a watched block.

    A block whose end (or beginning) an interrupt prevents still watches, as `record` still records;
    the next `watch` ends it. One that is interrupted inside has ended.
    """

    inside = False

    def __init__(self, lib: Any = ag) -> None:
        import torch

        super().__init__(torch)
        self.lib = torch
        self.torch = _Torch(torch)
        self.module = torch.nn.Linear(3, 1)

    def program(self) -> None:
        self.module(self.x * 2).sum().backward()

    def run(self) -> None:
        with ag.watch(self.lib):
            self.inside = True
            self.program()
            self.inside = False

    def stop(self) -> None:
        ag.watch(self.lib).stop()
        current().stop()

    def wrong(self) -> list[str]:
        found = self.torch.changed() if self.inside else []
        self.inside = False
        self.stop()
        found += self.torch.changed()
        with ag.watch(self.lib) as watched:
            (self.x * 2).sum().backward()
        if watched.recording.rows("nodes") != 2:
            found.append("the next recording is not whole")
        found += [f"{each}, after another block" for each in self.torch.changed()]
        if self.torch.modes():
            found.append("modes are on the stack, after another block")
        return found

    def after(self) -> None:
        super().after()
        self.module.zero_grad()

    def close(self) -> None:
        self.stop()
        current().clear()


class TorchAside(TorchWatched):
    """One in which torch asks for hooks of all modules: it finds none of the watcher's."""

    def program(self) -> None:
        if self.lib.nn.modules.module._has_any_global_hook():
            raise AssertionError("torch found the watcher's hooks")
        (self.x * 2).sum().backward()


class TorchPaused(TorchWatched):
    """One that stops before each node, and another thread that lets it go on."""

    def __init__(self, lib: Any = ag) -> None:
        super().__init__(lib)
        self.stepped = Stepped(current().gate)

    def program(self) -> None:
        self.stepped.gate.ask_pause()
        (self.x * 2).sum().backward()

    def wrong(self) -> list[str]:
        return self.stepped.wrong() + super().wrong()

    def close(self) -> None:
        self.stepped.close()
        super().close()
