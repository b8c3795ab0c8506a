"""torch.jit: functions and modules run as they are, and the first use of each name says so."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final as Final

from ag_visual import absent as _absent
from ag_visual.compiler import _warn_once
from ag_visual.names import expose as _expose
from ag_visual.nn.module import Module


def script(
    obj: Any,
    optimize: Any = None,
    _frames_up: int = 0,
    _rcb: Any = None,
    example_inputs: Any = None,
) -> Any:
    """The function, class or module itself."""
    _warn_once("jit.script")
    return obj


def trace(func: Any, example_inputs: Any = None, *args: Any, **options: Any) -> Any:
    """The function or module itself, run once on the example.

    example_inputs: a tensor or a tuple of arguments; `example_kwarg_inputs` are arguments by name.
    Unlike a trace, what it gives follows the control flow of each call.
    """
    _warn_once("jit.trace")
    named = options.get("example_kwarg_inputs")
    if named is not None:
        func(**named)
    else:
        func(*example_inputs if isinstance(example_inputs, tuple | list) else (example_inputs,))
    return func


def trace_module(mod: Module, inputs: dict[str, Any], *args: Any, **options: Any) -> Module:
    """The module itself; each method that `inputs` names is run once on its example."""
    _warn_once("jit.trace_module")
    for name, given in inputs.items():
        called = mod if name == "forward" else getattr(mod, name)
        called(*given if isinstance(given, tuple | list) else (given,))
    return mod


def freeze(mod: Module, preserved_attrs: Any = None, optimize_numerics: bool = True) -> Module:
    """The module itself."""
    _warn_once("jit.freeze")
    return mod


def optimize_for_inference(mod: Module, other_methods: Any = None) -> Module:
    """The module itself."""
    _warn_once("jit.optimize_for_inference")
    return mod


def script_if_tracing(fn: Any) -> Any:
    """The function itself: nothing traces."""
    return fn


def script_method(fn: Any, _rcb: Any = None) -> Any:
    """The method itself."""
    _warn_once("jit.script_method")
    return fn


def export(fn: Any) -> Any:
    """The method itself."""
    return fn


def unused(fn: Any) -> Any:
    """The method itself; unlike in a compiled module it may be called."""
    return fn


def ignore(drop: Any = False, **kwargs: Any) -> Any:
    """The function itself; with options, a decorator that gives what it is put on."""
    return drop if callable(drop) else unused


def _overload(fn: Any) -> Any:
    return fn


def _overload_method(fn: Any) -> Any:
    return fn


def interface(obj: Any) -> Any:
    """The class itself."""
    return obj


def is_scripting() -> bool:
    """False: nothing is compiled."""
    return False


def is_tracing() -> bool:
    """False: nothing is traced."""
    return False


def annotate(the_type: Any, the_value: Any) -> Any:
    """The value; its type is for a compiler."""
    return the_value


class Attribute(tuple[Any, Any]):
    """A value and the type that a compiler would take it for."""

    __slots__ = ()

    def __new__(cls, value: Any, type: Any) -> Attribute:
        return super().__new__(cls, (value, type))

    value = property(lambda self: self[0])
    type = property(lambda self: self[1])


class ScriptModule(Module):
    """A module; what a compiler would make of it is the module itself."""


def fork(func: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """Calls the function now; `wait` gives what it returned."""
    return _Done(func(*args, **kwargs))


class _Done:
    """What `fork` gives: the result of a call that is over."""

    def __init__(self, value: Any) -> None:
        self._value = value

    def wait(self) -> Any:
        """What the function returned."""
        return self._value

    value = wait


def wait(future: Any) -> Any:
    """What the function of a `fork` returned."""
    return future.wait()


_expose(__name__, "Final")

__getattr__ = _absent.asked(__name__, "jit")
