"""Kinds of work: tensors, backwards, optimizers, modes and files."""

from __future__ import annotations

import multiprocessing
import os
import tempfile
from pathlib import Path
from typing import Any

import ag_visual as ag


class Work:
    """One kind: `run` is what signals end; `wrong` looks at what it has made."""

    def __init__(self, lib: Any = ag) -> None:
        self.lib = lib
        self.x = lib.ones(3, requires_grad=True)

    def run(self) -> None:
        raise NotImplementedError

    def after(self) -> None:
        """Put right what the program that was interrupted would put right itself."""
        self.x.grad = None

    def wrong(self) -> list[str]:
        """What is half done, after an interrupt."""
        return []

    def close(self) -> None:
        """The last interrupt has come."""


class Tiny(Work):
    def run(self) -> None:
        (self.x * 2).sum().backward()


class Chain(Work):
    def run(self) -> None:
        y = self.x
        for _ in range(15):
            y = y * 1.01
        y.sum().backward()


class NNStep(Work):
    """A training step: forward, backward, optimizer."""

    def __init__(self, lib: Any = ag) -> None:
        super().__init__(lib)
        self.model = lib.nn.Sequential(lib.nn.Linear(3, 4), lib.nn.ReLU(), lib.nn.Linear(4, 1))
        self.optimizer = lib.optim.SGD(self.model.parameters(), lr=0.01, momentum=0.9)

    def run(self) -> None:
        self.optimizer.zero_grad()
        self.model(self.x.detach()).square().mean().backward()
        self.optimizer.step()

    def wrong(self) -> list[str]:
        return [
            f"parameter {name} is not finite"
            for name, p in self.model.named_parameters()
            if not bool(p.isfinite().all())
        ]


class Hooks(Work):
    """Hooks of every kind, which use modes themselves."""

    def __init__(self, lib: Any = ag) -> None:
        super().__init__(lib)
        self.x.register_hook(self.hook)
        self.x.register_post_accumulate_grad_hook(self.hook)

    def hook(self, *_: Any) -> None:
        with self.lib.no_grad():
            pass

    def run(self) -> None:
        y = self.x * 2
        y.register_hook(self.hook)
        y.grad_fn.register_prehook(self.hook)
        y.grad_fn.register_hook(self.hook)
        engine = self.lib.autograd.Variable._execution_engine
        y.register_hook(lambda g: engine.queue_callback(self.hook))
        y.sum().backward()


class RetainGrad(Work):
    def run(self) -> None:
        loss = (self.x * 2).sum()
        loss.retain_grad()
        loss.backward(retain_graph=True)
        loss.backward()


class CreateGraph(Work):
    def run(self) -> None:
        (g,) = self.lib.autograd.grad((self.x**3).sum(), self.x, create_graph=True)
        g.sum().backward()


class _Twice(ag.autograd.Function):
    """A backward inside of a backward."""

    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        ctx.save_for_backward(x)
        return x * 2

    @staticmethod
    @ag.autograd.function.once_differentiable
    def backward(ctx: Any, g: Any) -> Any:
        (x,) = ctx.saved_tensors
        with ag.enable_grad():
            inner = x.detach().requires_grad_()
            (inner * 2).sum().backward()
        return g * inner.grad


class Nested(Work):
    def run(self) -> None:
        _Twice.apply(self.x * 1).sum().backward()


class Deep(Work):
    """So many backwards in each other that a thread of their own takes them on."""

    def run(self) -> None:
        self.at(22)

    def at(self, depth: int) -> None:
        y = self.x.detach().requires_grad_() * 1
        if depth:
            y.register_hook(lambda g: self.again(depth))
        y.sum().backward()

    def again(self, depth: int) -> None:
        with self.lib.enable_grad():
            self.at(depth - 1)


class PackHooks(Work):
    """Saved-tensor hooks, of a function that a mode decorates."""

    def __init__(self, lib: Any = ag) -> None:
        super().__init__(lib)
        with lib.autograd.graph.saved_tensors_hooks(lambda t: t * 1, lambda t: t):
            self.y = self.x.exp().sum()

    def run(self) -> None:
        self.y.backward(retain_graph=True)


class Accumulate(Work):
    """One gradient, added to for ever: what is there is whole, and counted."""

    def __init__(self, lib: Any = ag) -> None:
        super().__init__(lib)
        self.x = lib.ones(500, dtype=lib.float64, requires_grad=True)
        self.y = (self.x * 2).sum()

    def run(self) -> None:
        self.y.backward(retain_graph=True)

    def after(self) -> None:
        pass

    def wrong(self) -> list[str]:
        g = self.x.grad
        if g is None:
            return []
        values = g.detach().numpy()
        found = [] if (values == values[0]).all() else ["a gradient is half added"]
        if values[0] > 2 * (g._version + 1):
            found.append("a gradient was written, and its version does not say so")
            self.x.grad = None
        return found


class Writes(Work):
    """In place, with and without history: values, versions and history fit."""

    def __init__(self, lib: Any = ag) -> None:
        super().__init__(lib)
        self.plain = lib.zeros(3, dtype=lib.float64)
        self.base = lib.zeros(4, dtype=lib.float64)
        self.view = self.base[1:]
        self.recorded: Any = None
        self.part: Any = None

    def run(self) -> None:
        self.plain.add_(1)
        self.view.add_(1)
        self.recorded = self.x.double()
        self.part = self.recorded[1:]
        self.recorded.mul_(2)
        self.part.mul_(3)
        self.recorded.mul_(2)

    def wrong(self) -> list[str]:
        found = []
        for name, tensor in (("a tensor", self.plain), ("the base of a view", self.base)):
            if float(tensor.max()) > tensor._version:
                found.append(f"{name} was written, and its version does not say so")
        if self.recorded is not None:
            self.x.grad = None
            self.recorded.sum().backward()
            if not bool((self.x.grad == self.recorded.detach().float()).all()):
                found.append("a tensor was written, and its history does not say so")
        self.recorded = None
        return found


class Decorated(Work):
    """Functions that modes decorate, and what the package does in a mode of its own."""

    def __init__(self, lib: Any = ag) -> None:
        super().__init__(lib)
        self.module = lib.nn.Linear(3, 3)

    def run(self) -> None:
        self.module.double()
        self.module.float()
        _Twice.apply(self.x)


class Saving(Work):
    """A file is the old one or the new one, whole."""

    def __init__(self, lib: Any = ag) -> None:
        super().__init__(lib)
        self.folder = tempfile.TemporaryDirectory()
        self.path = Path(self.folder.name) / "saved.safetensors"
        self.begun = self.done = 0

    def run(self) -> None:
        self.begun += 1
        ag.save({"a": ag.full((2000,), float(self.begun))}, self.path)
        self.done = self.begun

    def wrong(self) -> list[str]:
        if not self.path.exists():
            return []
        try:
            values = ag.load(self.path)["a"].numpy()
        except ValueError:
            return ["a file is half written"]
        if not (values == values[0]).all() or not self.done <= values[0] <= self.begun:
            return ["the file is neither old nor new"]
        return []

    def close(self) -> None:
        self.folder.cleanup()


class _Squares:
    def __len__(self) -> int:
        return 3

    def __getitem__(self, i: int) -> float:
        return float(i * i)


def _exists(pid: int | None) -> bool:
    """multiprocessing does not know that a process ended, where an interrupt took what it heard."""
    try:
        os.kill(pid or 0, 0)
    except ProcessLookupError:
        return False
    return True


class Loading(Work):
    """Batches that a worker process makes; none is left."""

    def __init__(self, lib: Any = ag) -> None:
        super().__init__(lib)
        data = lib.utils.data
        self.loader = data.DataLoader(_Squares(), num_workers=1, multiprocessing_context="fork")

    def run(self) -> None:
        for _ in self.loader:
            pass

    def wrong(self) -> list[str]:
        left = [each for each in multiprocessing.active_children() if _exists(each.pid)]
        for process in left:
            process.kill()
            process.join()
        return ["a process is left"] if left else []


class Modes(Work):
    def run(self) -> None:
        lib = self.lib
        with lib.no_grad():
            pass
        with lib.no_grad(), lib.enable_grad():
            self.x * 2


class SetGrad(Work):
    """A mode that is on before its block begins."""

    def run(self) -> None:
        with self.lib.set_grad_enabled(False):
            self.x * 2


class Inference(Work):
    def run(self) -> None:
        with self.lib.inference_mode():
            pass
        with self.lib.inference_mode():
            self.x * 2


class InferenceInside(Work):
    def run(self) -> None:
        with self.lib.inference_mode(), self.lib.inference_mode(False):
            self.x * 2
