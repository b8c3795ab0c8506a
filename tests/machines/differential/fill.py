"""What fills the holes of a form: names of live tensors, and arguments that mostly fit them.

The choice looks at shapes, dtypes and requires_grad of torch's tensors, so that most lines mean
something; it reads nothing that changes them (grad_fn brings a view's history up to date).
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from random import Random
from typing import Any

from .grammar import BODIES, FAMILIES, GRADS, LEAVES, METADATA, MODES, Family
from .program import HOLE, Line, holes

SHAPES = [(), (), (1,), (2,), (3,), (0,), (2, 3), (3, 2), (2, 2), (1, 3), (2, 1, 3), (2, 0), (4,)]
FLOATS = ["-2.", "-1.", "-0.5", "0.", "0.5", "1.", "1.5", "2.", "3."]
WILD = ["float('inf')", "-float('inf')", "float('nan')"]
NUMBERS = ["0", "1", "2", "-1", "0.5", "2.", "-1.5", "0.", "3", "True"]
REAL = ["float32", "float64", "float16", "bfloat16"]
INTEGER = ["int64", "int32", "int16", "int8", "uint8"]
COMPLEX = ["complex64", "complex128"]
STRIDED = ["t()", "flip(0)", "clone()", "expand(2, *[-1] * 3)", "unsqueeze(0)", "unsqueeze(-1)"]
STRIDED += ["view(-1)[::2]", "view(-1)[1:]", "repeat(2, 1).t()", "expand(2, -1)", "expand(3)"]
RESHAPED = [
    "reshape(2, 3)",
    "reshape(3, 2).t()",
    "reshape(1, 6)",
    "reshape(2, 1, 3).transpose(0, 2)",
]
RESHAPED += ["reshape(2, 3)[:, 1:]", "clone()", "view(3, 2)", "as_strided((2, 2), (1, 2), 1)"]
LIMIT = 48  # elements: larger tensors are no operands
GRADIENTS = {
    f"{form}[0]" for form in GRADS
}  # looked at alone: torch's are views of nobody knows what
BODY = re.compile(r"\ba\b")
FIRST = 2  # lines that make the first leaves


class Filler:
    """Makes the next line of a program from the tensors that it has by now."""

    def __init__(
        self, random: Random, scope: dict[str, Any], families: Sequence[Family] = FAMILIES
    ) -> None:
        self.random = random
        self.families = families
        self.scope = scope  # name -> torch's tensor
        self.made = 0
        self.leaves: set[str] = set()
        self.gradients: set[str] = set()
        self.about: Any = None  # the operand that the arguments have to fit
        self.written: Any = None

    def line(self) -> Line:
        choice = self.random.choice
        if self.made < FIRST or not self.scope:
            return self.filled(choice(LEAVES), 1)
        family = self.random.choices(self.families, [each.weight for each in self.families])[0]
        quiet = family.forms is LEAVES or self.random.random() > 0.12
        mode = "" if quiet else choice(MODES)
        if family.forms is METADATA and "inference" in mode:
            mode = ""  # torch's inference mode forgets to ask in half of these
        return self.filled(choice(family.forms), family.binds, mode)

    def filled(self, form: str, binds: int, mode: str = "") -> Line:
        self.about = self.written = None
        fills = tuple(getattr(self, hole)() for hole in holes(form))
        targets = tuple(f"t{self.made + i}" for i in range(binds))
        self.made += binds
        if form in LEAVES:
            self.leaves.update(targets)
        if form in GRADIENTS:
            self.gradients.update(targets)
        return Line(form, fills, targets, mode)

    # Operands ------------------------------------------------------------------------------------

    def among(self, fits: Callable[[str, Any], Any], often: float) -> str:
        """The name of an operand, later ones sooner; of one that fits, mostly."""
        names = [name for name, t in self.scope.items() if t.numel() <= LIMIT]
        names = [name for name in names if name not in self.gradients] or names
        names = [name for name in names if self.apart(self.scope[name])] or names
        if self.random.random() < often:
            names = [name for name in names if fits(name, self.scope[name])] or names
        names = names or list(self.scope)
        name = self.random.choices(names, range(3, 3 + len(names)))[0]
        if self.about is None:
            self.about = self.scope[name]
        return name

    def x(self) -> str:
        return self.among(lambda name, t: t.requires_grad, 0.5)

    def f(self) -> str:
        return self.among(lambda name, t: t.requires_grad, 0.98)

    def w(self) -> str:
        """What is written. It shares its memory with no operand after it, but itself.

        (torch reads elements that it has written where it does not refuse such a write.)
        """
        name = self.among(lambda name, t: name not in self.leaves, 0.85)
        self.written = self.scope[name]
        return name

    def apart(self, t: Any) -> bool:
        written = self.written
        return written is None or written is t or _memory(written) != _memory(t)

    def leaf(self) -> str:
        return self.among(lambda name, t: name in self.leaves, 1.0)

    def y(self) -> str:
        about = self.about
        if about is None:
            return self.x()
        if self.random.random() < 0.15:
            return self.among(lambda name, t: t.dtype == about.dtype, 0.5)
        return self.among(lambda name, t: t.dtype == about.dtype and _fits(t, about), 0.95)

    def body(self) -> str:
        """What a function of `a` computes, in one or two steps."""
        text = self.step()
        if self.random.random() < 0.4:
            text = BODY.sub(f"({text})", self.step())
        return text

    def step(self) -> str:
        form = self.random.choice(BODIES)
        return HOLE.sub(lambda m: str(getattr(self, m[1])()), form)

    # Arguments -----------------------------------------------------------------------------------

    def pick(self, *choices: Any) -> str:
        return str(self.random.choice(choices))

    def number(self) -> str:
        return self.pick(*NUMBERS)

    def dim(self) -> str:
        rank = self.about.dim() if self.about is not None else 2
        if self.random.random() < 0.05:
            return self.pick(rank, -rank - 1, 2)
        return self.pick(*range(-max(rank, 1), max(rank, 1)))

    def dims(self) -> str:
        dims = list(range(self.about.dim()))
        self.random.shuffle(dims)
        return str(tuple(dims))

    def index(self) -> str:
        return self.pick(0, 0, 0, 1, 1, -1, 2)

    def slice(self) -> str:
        return self.pick("1:", ":1", ":2", "::2", "-1:", "1:1", ":", "1::2")

    def shape(self) -> str:
        n = self.about.numel()
        shapes = [(n,), (1, n), (n, 1), (-1,), (-1, n or 1)]
        shapes += [(d, n // d) for d in (2, 3) if n and n % d == 0]
        return self.pick(*shapes, *([(2, -1)] if n % 2 else []))

    def size(self) -> str:
        if self.about is not None and self.random.random() < 0.4:
            return str(tuple(self.about.shape))
        return self.pick(*SHAPES)

    def smaller(self) -> str:
        """A shape that its memory has room for: what lies behind that is anybody's."""
        shapes = [*SHAPES, tuple(self.about.shape), (0,)]
        return self.pick(*(shape for shape in shapes if math.prod(shape) <= room(self.about)))

    def expanded(self) -> str:
        if self.about is None:
            return self.pick((2, 3), (3,), (2, 2), (2, 1, 3))
        shape = tuple(self.random.choice((n, -1)) if n != 1 else 2 for n in self.about.shape)
        return str((2, *shape) if self.random.random() < 0.3 else shape)

    def strides(self) -> str:
        """A geometry within as many elements as the operand has."""
        n = self.about.numel()
        choices = ["(0,), (1,)", "(2, 0), (1, 1)"]
        choices += ["(), ()", "(1,), (1,)", "(2,), (0,)"] if n else []
        choices += ["(2,), (1,)", "(1, 2), (2, 1)", "(2,), (0,), 1"] if n > 1 else []
        choices += ["(2,), (1,), 1", "(2,), (2,)"] if n > 2 else []
        return self.pick(*choices)

    def dtype(self) -> str:
        return self.pick(*REAL, *INTEGER, "bool", *COMPLEX)

    def real(self) -> str:
        return self.pick(*REAL)

    def integer(self) -> str:
        return self.pick(*INTEGER)

    def complex(self) -> str:
        return self.pick(*COMPLEX)

    def strided(self) -> str:
        return self.pick(*STRIDED)

    def reshaped(self) -> str:
        return self.pick(*RESHAPED)

    def cotangent(self) -> str:
        about = self.about
        dtype = str(about.dtype) if self.random.random() < 0.9 else "torch.float64"
        dtype = "torch.complex64" if dtype == "torch.complex32" else dtype  # ours of the same
        if not about.dim():
            return f"torch.tensor({self.pick('1.', '2.', '-0.5')}, dtype={dtype})"
        return self.pick(
            f"torch.ones({tuple(about.shape)}, dtype={dtype})",
            f"torch.full({tuple(about.shape)}, 2., dtype={dtype})",
            f"torch.ones((), dtype={dtype}).expand({tuple(about.shape)})",
        )

    # Data ----------------------------------------------------------------------------------------

    def floats(self) -> str:
        return self.nested(FLOATS + (WILD if self.random.random() < 0.03 else []))

    def complexes(self) -> str:
        return self.nested(["1j", "1+2j", "-0.5-1j", "2+0j", "-1+0.5j"])

    def integers(self) -> str:
        return self.nested(["0", "1", "2", "3", "5"])

    def bools(self) -> str:
        return self.nested(["True", "False"])

    def nested(self, elements: list[str]) -> str:
        def literal(shape: tuple[int, ...]) -> str:
            if not shape:
                return self.random.choice(elements)
            return "[" + ", ".join(literal(shape[1:]) for _ in range(shape[0])) + "]"

        return literal(self.random.choice(SHAPES))


def room(t: Any) -> int:
    """How many elements the memory has from the first one of a tensor on.

    Behind the last one of its base is what torch has left there: a loss reduces in place.
    """
    base = t._base if t._is_view() and t._base is not None else t
    pairs = zip(base.shape, base.stride(), strict=True)
    end = 1 + base.storage_offset() + sum((n - 1) * s for n, s in pairs) if base.numel() else 0
    held = min(end * base.itemsize, t.untyped_storage().nbytes())
    return max(0, int(held // t.itemsize - t.storage_offset()))


def _memory(t: Any) -> int:
    return t.untyped_storage().data_ptr() or id(t)


def _fits(t: Any, about: Any) -> bool:
    """Does t broadcast to the shape of the operand?"""
    shape, other = t.shape, about.shape
    return len(shape) <= len(other) and all(
        n in (1, m) for n, m in zip(reversed(shape), reversed(other), strict=False)
    )
