"""A program is data: lines of Python made from a form and what fills its holes."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from .helpers import PRELUDE as HELPERS

HOLE = re.compile(r"\{(\w+)\}")
SAME = "same"

# What every program may call besides torch itself.
PRELUDE = {
    "Doubled": """
class Doubled(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x * 2

    @staticmethod
    def backward(ctx, g):
        return g * 2
""",
    "Saving": """
class Saving(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, y):
        ctx.save_for_backward(x, y)
        return x * y, x + y

    @staticmethod
    def backward(ctx, g, h):
        x, y = ctx.saved_tensors
        return g * y + h, None
""",
    "AsItIs": """
class AsItIs(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x

    @staticmethod
    def backward(ctx, g):
        return g
""",
    "Viewed": """
class Viewed(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x.view_as(x)

    @staticmethod
    def backward(ctx, g):
        return g
""",
    "Dirty": """
class Dirty(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.mark_dirty(x)
        return x.mul_(2)

    @staticmethod
    def backward(ctx, g):
        return g * 2
""",
    "Marked": """
class Marked(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        y, z = x * 2, x > 0
        ctx.mark_non_differentiable(z)
        return y, z

    @staticmethod
    def backward(ctx, g, h):
        return g * 2
""",
    "pushed": """
def pushed(x, f):
    forward = torch.autograd.forward_ad
    with forward.dual_level():
        y = forward.unpack_dual(f(forward.make_dual(x, torch.ones_like(x))))
        return y.primal.clone() if y.tangent is None else y.tangent.clone()
""",
    "moved": """
def moved(x, f):
    return torch.func.jvp(f, (x,), (torch.ones_like(x),))[1]
""",
    "pulled": """
def pulled(x, f):
    y, back = torch.func.vjp(f, x)
    return back(torch.ones_like(y))[0]
""",
    "sloped": """
def sloped(x, f):
    return torch.func.grad(lambda a: f(a).sum())(x)
""",
    "mapped": """
def mapped(x, f, dim=0):
    return torch.func.vmap(f, in_dims=dim)(x)
""",
    "written": """
def written(x, n):
    y = x * 1
    y.view(-1)[:1].mul_(n)
    return y
""",
    "relaid": """
def relaid(x, n):
    y = x * 1
    y.as_strided(y.shape, y.stride()).mul_(n)
    return y
""",
    "silent": """
def silent(x):
    with torch.no_grad():
        y = x.sin()
    return x * y
""",
    "hooked": """
def hooked(x):
    y = x * 1
    if y.requires_grad:
        y.register_hook(lambda g: g * 2)
    return y
""",
}
PRELUDE |= HELPERS


def holes(form: str) -> list[str]:
    """The holes that a form has, but those that repeat the first."""
    return [each for each in HOLE.findall(form) if each != SAME]


@dataclass(frozen=True, slots=True)
class Line:
    """One statement: `targets = form`, its holes filled from left to right, under a mode."""

    form: str
    fills: tuple[str, ...] = ()
    targets: tuple[str, ...] = ()
    mode: str = ""

    @property
    def holes(self) -> list[str]:
        return holes(self.form)

    @property
    def source(self) -> str:
        fills = iter(self.fills)
        text = HOLE.sub(lambda m: self.fills[0] if m[1] == SAME else next(fills), self.form)
        if self.targets:
            text = f"{', '.join(self.targets)} = {text}"
        return f"with {self.mode}: {text}" if self.mode else text


Program = Sequence[Line]


def script(program: Program, raising: Sequence[int] = (), look: str = "") -> str:
    """A program that runs on either engine: `python it.py torch`, `python it.py ag_visual`.

    Lines that raise are caught, so that what follows them is reached; `look` is printed last.
    """
    sources = [line.source for line in program]
    used = [text for name, text in PRELUDE.items() if any(name in each for each in sources)]
    body = []
    for number, source in enumerate(sources):
        if number in raising:
            body += ["try:", f"    {source}"]
            body += ["except Exception as error:", "    print(type(error).__name__, error)"]
        else:
            body.append(source)
    if look:
        body.append(f"print({look})")
    head = ["import importlib, sys", 'torch = importlib.import_module(sys.argv[1] or "torch")']
    return "\n".join([*head, *(text.strip("\n") + "\n" for text in used), *body]) + "\n"
