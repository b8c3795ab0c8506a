"""Module classes made from functions of `nn.functional`: the arguments become attributes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ag_visual.core.source import warn
from ag_visual.core.tensor import Tensor
from ag_visual.dispatch.codegen.source import defined
from ag_visual.nn import functional
from ag_visual.nn.module import Module

LEGACY = ("size_average", "reduce")


def reduction_of(size_average: bool | None, reduce: bool | None, reduction: str) -> str:
    """The reduction that torch's old arguments ask for, if they are given."""
    if size_average is None and reduce is None:
        return reduction
    chosen = "none" if reduce is False else "sum" if size_average is False else "mean"
    warn(
        f"size_average and reduce args will be deprecated, please use reduction='{chosen}' instead."
    )
    return chosen


def of_function(
    module: str,
    name: str,
    function: str,
    doc: str,
    inputs: str = "input",
    *,
    buffers: tuple[str, ...] = (),
    shown: bool = True,
    bare: bool = False,
    base: type[Module] = Module,
    **options: Any,
) -> type[Module]:
    """A Module class `name(**options)` whose forward is `function(inputs, **options)`.

    An option whose default is `...` must be given. buffers: options that are tensors of the state.
    shown: whether options appear in the repr, as torch shows them; bare: without their names.
    base: the class that it derives from.
    """
    kept = [n for n in options if n not in LEGACY]

    def begin(self: Any, **given: Any) -> None:
        Module.__init__(self)
        if "reduce" in given:
            old = [given.pop(n) for n in LEGACY]
            given["reduction"] = reduction_of(*old, given["reduction"])
        for option, value in given.items():
            if option in buffers:
                self.register_buffer(option, value)
            else:
                setattr(self, option, value)

    def extra_repr(self: Any) -> str:
        if not shown:
            return ""
        parts = []
        for option in kept:
            value = getattr(self, option)
            if option == "inplace":
                parts += ["inplace=True"] if value else []
            elif not isinstance(value, Tensor):
                parts.append(str(value) if bare else f"{option}={value!r}")
        return ", ".join(parts)

    scope: dict[str, Any] = {"begin": begin, "functional": functional}
    scope.update((f"default_{n}", d) for n, d in options.items())
    head = "".join(f", {n}" if d is ... else f", {n}=default_{n}" for n, d in options.items())
    passed = "".join(f", {n}={n}" for n in options)
    called = "".join(f", {n}=self.{n}" for n in kept)
    text = (
        f"def __init__(self{head}): begin(self{passed})\n"
        f"def forward(self, {inputs}): return functional.{function}({inputs}{called})\n"
    )
    made: dict[str, Callable[..., Any]] = {**defined(text, name, scope), "extra_repr": extra_repr}
    for key, value in made.items():
        value.__name__, value.__qualname__ = key, f"{name}.{key}"
        value.__module__ = module
    return type(name, (base,), {**made, "__doc__": doc, "__module__": module})
