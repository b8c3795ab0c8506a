"""`import torch` that gives this package, for code that a user wants to watch unchanged.

`install()` is called by `%ag_visual as_torch` and by `python -m ag_visual script.py`. A real torch
that is already imported is never replaced.
"""

from __future__ import annotations

import importlib
import importlib.util
import pkgutil
import sys
from collections.abc import Iterator, Sequence
from difflib import get_close_matches
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from multiprocessing import spawn
from types import ModuleType
from typing import Any

from ag_visual import absent
from ag_visual.multiprocessing import start
from ag_visual.names import OWN
from ag_visual.paths import PathModule
from ag_visual.version import __version__

ALIAS = "torch"
# Whose alias it is; by name, because this module stands below the package's top.
PACKAGE = __name__.partition(".")[0]
# Our own layers: torch has no such modules, or others of the same name.
INTERNAL = {
    *(
        "__main__",
        "absent",
        "arrays",
        "bindings",
        "bridge",
        "cli",
        "core",
        "devices",
        "dispatch",
        "display",
    ),
    *("dtypes", "eigenpairs", "engine", "errors", "events", "files", "foreach", "layouts"),
    *("names", "notebooks", "observe", "ops", "paths", "promotion", "segments", "session", "sizes"),
    *("switches", "typing"),
}

# The same below the modules that torch has.
INNER = frozenset(
    f"{package}.{name}"
    for package, names in {
        "multiprocessing": "spawning start transfer",
        "amp": "older_cpu older_cuda state",
        "autograd": "api custom_function forward_jacobian function_forward function_levels "
        "function_node given guard nested_io structures",
        "autograd.gradcheck": "analytical backward_checks check compared error fast forward "
        "forward_checks mismatch numerical picture private problem report second",
        "backends": "switches",
        "cuda": "gpu",
        "func": "forward inputs jacobians modules reverse",
        "nn": "activation adaptive backward_hooks calls containers convolution distance dropout "
        "embedding heads lazy linear loss members module multihead normalization of_function "
        "padding pooling recurrent rnn saving spatial transformer tuples",
        "nn.utils": "fusion reweighted",
        "optim": "rules",
        "utils": "swap",
        "profiler": "chrome_trace collection columns flops from_columns function_events inputs "
        "legacy memory names nvprof peak scheduled schedules stacks tables timeline wrappers",
        "optim.lr_scheduler": "combined cycles decay plateau scheduler",
        "serialization": "checkpoint container known memory pickled tree unpickle",
        "testing": "comparison creation",
        "utils.benchmark": "measurement timer",
        "utils.data": "collate fetch loader workers",
    }.items()
    for name in names.split()
)
# torch is its own attribute, as any module that imports itself; our `ops` are declarations.
_OBJECTS = (ALIAS, "ops")
# What the top of this package adds: scripts may use it, but a name of torch is never meant by it.
OURS_ALONE = OWN[""] | OWN["autograd"]


class AliasModule(ModuleType):
    """A module of this package under torch's name; a name it lacks is explained."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.__doc__ = f"{own_name(name)} under the name {name}."

    def __getattr__(self, name: str) -> object:
        target = importlib.import_module(own_name(self.__name__))
        path = f"{self.__name__}.{name}"
        if self.__name__ == ALIAS and name in _OBJECTS:
            return self if name == ALIAS else absent.OPERATORS
        if is_ours(path):
            return importlib.import_module(path)
        # Of a file Python's `inspect` knows one module: this one, where code says it is torch's.
        if name == "__file__" and self.__name__ != ALIAS:
            raise AttributeError(name)
        if name.startswith("__") or (not is_inner(path) and hasattr(target, name)):
            return getattr(target, name)
        raise AttributeError(explain(path))

    def __setattr__(self, name: str, value: object) -> None:
        """A name that is replaced is replaced in the package, too, whose own code calls it.

        torch.autograd.gradcheck stays the function when the module of that name is imported.
        """
        target = importlib.import_module(own_name(self.__name__))
        own = vars(target).get(name)
        part = isinstance(value, ModuleType)
        if part and not isinstance(own, ModuleType | None):
            return
        super().__setattr__(name, value)
        if own is not None and not part and not name.startswith("__"):
            setattr(target, name, value)

    def __dir__(self) -> list[str]:
        return sorted(public_names(self.__name__))


class AliasFinder(MetaPathFinder, Loader):
    """Answers for `torch` and everything below it, so that no part of a real torch is mixed in."""

    def __init__(self) -> None:
        self._specs: dict[str, ModuleSpec | None] = {}

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname != ALIAS and not fullname.startswith(f"{ALIAS}."):
            return None
        if fullname != ALIAS and not is_ours(fullname):
            raise ImportError(explain(fullname), name=fullname)
        return ModuleSpec(fullname, self, origin=PACKAGE, is_package=True)

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        target = importlib.import_module(own_name(spec.name))
        if not stays_itself(target):
            return AliasModule(spec.name)
        # Whoever imports it by its own name finds its own spec again after this import.
        self._specs[spec.name] = target.__spec__
        return target

    def exec_module(self, module: ModuleType) -> None:
        if not isinstance(module, AliasModule):
            assert module.__spec__ is not None
            module.__spec__ = self._specs.pop(module.__spec__.name)
            return
        source = importlib.import_module(own_name(module.__name__))
        for name, value in vars(source).items():
            if not name.startswith("__") and not isinstance(value, ModuleType):
                vars(module)[name] = value
        if module.__name__ == ALIAS:
            vars(module)["__version__"] = __version__


_finder = AliasFinder()
_AGAIN = __name__, "install"  # in processes that the program begins
_prepared = spawn.get_preparation_data


class _Again:
    """What a process that Python's multiprocessing begins reads before the program's main module:
    reading it installs the alias there.
    """

    def __reduce__(self) -> Any:
        return install, ()


def _preparation_data(name: str) -> dict[str, Any]:
    """What Python tells a new process, and that `torch` is this package there."""
    return {**_prepared(name), PACKAGE: _Again()}


def install() -> None:
    """Let `import torch` give this package from now on, in the whole process.

    Raises:
        RuntimeError: a real torch is already imported here.
    """
    present = sys.modules.get(ALIAS)
    if present is not None and not isinstance(present, AliasModule):
        version = getattr(present, "__version__", "of unknown version")
        raise RuntimeError(
            f"torch {version} is already imported in this process, from {present.__file__}: "
            "as_torch never replaces it. Restart the kernel (or start a new process) and run "
            "as_torch before anything imports torch."
        )
    if _finder not in sys.meta_path:
        sys.meta_path.insert(0, _finder)
    if _AGAIN not in start.before_main:
        start.before_main.append(_AGAIN)
    spawn.get_preparation_data = _preparation_data


def uninstall() -> None:
    """Let `import torch` mean torch again; modules that imported the alias keep it."""
    if _finder in sys.meta_path:
        sys.meta_path.remove(_finder)
    if _AGAIN in start.before_main:
        start.before_main.remove(_AGAIN)
    if spawn.get_preparation_data is _preparation_data:
        spawn.get_preparation_data = _prepared
    if isinstance(sys.modules.get(ALIAS), AliasModule):
        for name in [each for each in sys.modules if f"{each}.".startswith(f"{ALIAS}.")]:
            del sys.modules[name]


def stays_itself(module: ModuleType) -> bool:
    """Whether a module is the same under torch's name: one whose names stand elsewhere, or one of
    switches, which those who import it set.
    """
    switches = module.__name__.startswith(f"{PACKAGE}.backends.")
    return switches or isinstance(module, PathModule)


def own_name(alias: str) -> str:
    """'torch.nn.functional' -> 'ag_visual.nn.functional'."""
    return PACKAGE + alias.removeprefix(ALIAS)


def is_inner(alias: str) -> bool:
    """Whether a module of this package is one that torch has not."""
    inner = alias.partition(".")[2]
    return inner.partition(".")[0] in INTERNAL or inner in INNER


def is_ours(alias: str) -> bool:
    """Whether the package has a module that stands for this one of torch."""
    parts = alias.split(".")[1:]
    if not parts or is_inner(alias):
        return False
    try:
        return importlib.util.find_spec(own_name(alias)) is not None
    except ModuleNotFoundError:  # a parent that is not a package
        return False


def public_names(alias: str) -> Iterator[str]:
    """The public names of one module, its submodules included."""
    target = importlib.import_module(own_name(alias))
    for name in getattr(target, "__all__", None) or vars(target):
        value = getattr(target, name)
        if not name.startswith("_") and not isinstance(value, ModuleType):
            yield name
    for found in pkgutil.iter_modules(getattr(target, "__path__", ())):
        if is_ours(f"{alias}.{found.name}"):
            yield found.name


def explain(path: str) -> str:
    """Says that a torch name does not exist here, and what to write: what is known of it, or the
    nearest names.
    """
    said = absent.said_of(path.partition(".")[2])
    return f"{PACKAGE} has no {path}. {said or _nearest(path)}"


def _nearest(path: str) -> str:
    parent, _, missing = path.rpartition(".")
    known = {name: f"{ALIAS}.{name}" for name in suggested(ALIAS)}
    for module in list(known):
        if is_ours(f"{ALIAS}.{module}"):
            below = f"{ALIAS}.{module}"
            known |= {name: f"{below}.{name}" for name in suggested(below) if name not in known}
    if parent == ALIAS or is_ours(parent):
        known |= {name: f"{parent}.{name}" for name in suggested(parent)}
    near = [known[name] for name in get_close_matches(missing, known, n=3, cutoff=0.6)]
    if not near:
        return "No name here is like it; dir(torch) lists what there is."
    return f"The nearest name{'s are' if len(near) > 1 else ' is'} {', '.join(near)}."


def suggested(alias: str) -> set[str]:
    """Names of one module that may be meant: those that it makes itself, and that torch has."""
    target = importlib.import_module(own_name(alias))
    listed = hasattr(target, "__all__")
    names = set(public_names(alias)) - OURS_ALONE
    if listed:
        return names
    own = {name for name in names if _home(target, name) == target.__name__}
    return own | {name for name in names if is_ours(f"{alias}.{name}")}


def _home(target: ModuleType, name: str) -> str:
    return getattr(getattr(target, name, None), "__module__", "")
