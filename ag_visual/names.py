"""Names beyond the ops: those that torch does not have, and what `dir` of a module shows.

Layer 0: may import nothing of the package. tests/properties/test_names.py compares with torch.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable


def _names(text: str) -> frozenset[str]:
    return frozenset(text.split())


OWN: dict[str, frozenset[str]] = {
    "": _names(
        """
        Handout Question check_node compare debugger explain get_printoptions lesson
        load_ipython_extension load_recording printoptions record save_recording show to_dot watch
        """
    ),
    "autograd": _names("guard"),
    "autograd.graph": _names("AccumulateGrad"),
    "Tensor": _names("gradient_edge"),
    "backends": _names("fast"),
    "Generator": _names(
        "backend bernoulli binomial poisson rand randint randn randperm standard_gamma"
    ),
    "dtype": _names("category index name np scalar_name"),
    "optim.Optimizer": _names("begin by_parts elementwise keeps numbers update"),
}
"""The names of this package that torch does not have, by the namespace that they stand in."""


def only(names: Iterable[str], module: str) -> Callable[[], list[str]]:
    """A module's `__dir__`: its public names, without what it imports to define them."""
    listed = tuple(names)

    def __dir__() -> list[str]:
        special = [name for name in vars(sys.modules[module]) if name.startswith("__")]
        return sorted({*special, *listed})

    return __dir__


def expose(module: str, *also: str, shown: tuple[str, ...] = ()) -> None:
    """Give a module `__all__` and `__dir__`: what it and its submodules define, and `also`.

    shown: what only `__dir__` names.
    To type checkers, which don't run this, a package offers what it imports `as` itself.
    """
    space = vars(sys.modules[module])
    homes = {name: getattr(value, "__module__", "") for name, value in space.items()}
    own = [n for n, home in homes.items() if n[0] != "_" and f"{home}.".startswith(f"{module}.")]
    space["__all__"] = sorted({*own, *also})
    space["__dir__"] = only([*space["__all__"], *shown], module)
