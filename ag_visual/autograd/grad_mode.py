"""no_grad, enable_grad, set_grad_enabled: thread-local, as context managers and decorators.

Source: https://pytorch.org/docs/2.8/autograd.html#locally-disabling-gradient-computation
"""

from __future__ import annotations

import functools
import inspect
import sys
from collections.abc import Callable, Generator, Iterable
from typing import Any, Self, TypeVar, cast, overload

from ag_visual.core import modes
from ag_visual.core.source import warn
from ag_visual.core.tensor import Tensor

Decorated = TypeVar("Decorated", bound=Callable[..., Any])


def is_grad_enabled() -> bool:
    """Whether operations are recorded in this thread."""
    return modes.state.grad


class _DecoratorContextManager:
    """A context manager whose instances decorate functions, generators and (deprecated) classes."""

    def clone(self) -> Self:
        """A fresh one for each call; override it where the class takes arguments."""
        return type(self)()

    def __enter__(self) -> None:
        raise NotImplementedError

    def __exit__(self, *_: object) -> None:
        raise NotImplementedError

    def __call__(self, function: Decorated) -> Decorated:
        if inspect.isclass(function):
            warn(
                "Decorating classes is deprecated and will be disabled in future versions. You "
                "should only decorate functions or methods. To preserve the current behavior of "
                "class decoration, you can directly decorate the `__init__` method and nothing "
                "else.",
                FutureWarning,
            )
            decorated: Any = function
            decorated.__init__ = self(decorated.__init__)
            return function
        if inspect.isgeneratorfunction(function):
            return cast(Decorated, self._generator(function))

        @functools.wraps(function)
        def wrapped(*args: Any, **kwargs: Any) -> Any:
            with self.clone():
                return function(*args, **kwargs)

        return cast(Decorated, wrapped)

    def _generator(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """A generator runs each of its steps in this mode and its caller in the caller's."""

        @functools.wraps(function)
        def wrapped(*args: Any, **kwargs: Any) -> Generator[Any, Any, Any]:
            generator = function(*args, **kwargs)
            try:
                with self.clone():
                    value = generator.send(None)
                while True:
                    try:
                        sent = yield value
                    except GeneratorExit:
                        with self.clone():
                            generator.close()
                        raise
                    except BaseException as error:
                        with self.clone():
                            value = generator.throw(error)
                    else:
                        with self.clone():
                            value = generator.send(sent)
            except StopIteration as stop:
                return stop.value

        return wrapped


class _GradMode(_DecoratorContextManager):
    """Base of the three: sets `mode` on entry and restores what was there.

    A signal finds both done or not begun, but for one that comes where Python begins `__exit__`: it
    leaves the mode on, as in torch.
    """

    mode: bool
    pops = True
    _previous: Any = None  # the mode before, and the same of who entered this object before

    def __enter__(self) -> None:
        self._previous = modes.switch_grad(self.mode), self._previous

    def __exit__(self, *_: object) -> None:
        state = modes.state
        previous, outer = self._previous
        if state.grad is not previous:  # `modes.set_grad(previous)`, written out: see there
            state.grad = previous
            if not state.slow:
                state.fast = previous
            modes.special += -1 if previous else 1
        if self.pops:
            self._previous = outer


class _FixedMode(_GradMode):
    """One whose mode is its class's: it decorates with brackets or without."""

    @overload
    def __new__(cls) -> Self: ...
    @overload
    def __new__(cls, function: Callable[..., Any]) -> Any: ...
    def __new__(cls, function: Callable[..., Any] | None = None) -> Any:
        return super().__new__(cls) if function is None else cls()(function)


class no_grad(_FixedMode):
    """Nothing is recorded inside: results do not require grad. Context manager and decorator.

    >>> import ag_visual as ag
    >>> x = ag.tensor([1.], requires_grad=True)
    >>> with ag.no_grad():
    ...     y = x * 2
    >>> y.requires_grad
    False
    """

    mode = False


class enable_grad(_FixedMode):
    """Recording is on inside, also within `no_grad`. Context manager and decorator."""

    mode = True


class set_grad_enabled(_GradMode):
    """Set grad mode at once; as a context manager, restore it on leaving; also a decorator."""

    pops = False

    def __init__(self, mode: bool) -> None:
        if not isinstance(mode, bool):
            raise TypeError(f"set_grad_enabled(mode): mode must be a bool, not {mode!r}")
        self.mode = mode
        self._previous = modes.switch_grad(mode), None

    def clone(self) -> Self:
        return type(self)(self.mode)

    def __repr__(self) -> str:
        return f"torch.autograd.grad_mode.set_grad_enabled(mode={self.mode})"

    def __call__(self, function: Decorated) -> Decorated:
        modes.set_grad(self._previous[0])  # a decorator changes nothing where it is applied
        return super().__call__(function)

    def __enter__(self) -> None:
        modes.switch_grad(self.mode)


def is_view_replay_enabled() -> bool:
    """Whether views of written memory regenerate their history op by op in this thread."""
    return modes.state.view_replay


class _force_original_view_tracking(_DecoratorContextManager):
    """Views follow writes to their base by replaying their own ops; works like set_grad_enabled."""

    def __init__(self, mode: bool) -> None:
        self.mode = mode
        modes.changing()
        self._before = modes.state.view_replay
        modes.state.view_replay = mode

    def clone(self) -> Self:
        return type(self)(self.mode)

    def __call__(self, function: Decorated) -> Decorated:
        modes.state.view_replay = self._before
        return super().__call__(function)

    def __enter__(self) -> None:
        modes.changing()
        modes.state.view_replay = self.mode

    def __exit__(self, *_: object) -> None:
        modes.state.view_replay = self._before


class _Left:
    """An inference mode that was left: it ends without running Python's code."""

    previous: Any = None


class _Entered(_Left):
    """An inference mode that is on as long as this object: an interrupt that drops it ends it.

    As in torch, where an object of C++ holds it.
    """

    def __del__(self, finalizing: Callable[[], bool] = sys.is_finalizing) -> None:
        # At the interpreter's end modules are torn down, and there is no mode to leave.
        if self.previous is None or finalizing():
            return
        if modes.state.before_inference is self.previous:
            modes.leave_inference(self.previous)


class inference_mode(_GradMode):
    """Nothing is recorded inside, and what is made there can never become part of a graph.

    mode: False switches back to normal mode inside of an inference mode. A context manager and a
    decorator. Writing such a tensor, saving it for backward or asking it to require grad outside
    raises RuntimeError; `clone()` outside gives a normal tensor.

    >>> import ag_visual as ag
    >>> with ag.inference_mode():
    ...     y = ag.ones(2) * 2
    >>> y.is_inference(), y.requires_grad
    (True, False)
    """

    def __new__(cls, mode: Any = True) -> Any:
        if isinstance(mode, bool):
            return super().__new__(cls)
        return cls()(mode)

    def __init__(self, mode: bool = True) -> None:
        super().__init__()
        self.mode = mode
        self._entered: list[_Left] = []

    def clone(self) -> Self:
        return type(self)(self.mode)

    def __enter__(self) -> None:
        modes.changing()
        entered = _Entered()
        self._entered.append(entered)
        entered.previous = modes.set_inference(self.mode)

    def __exit__(self, *_: object) -> None:
        entered = self._entered[-1]
        modes.leave_inference(entered.previous)
        entered.__class__ = _Left
        del self._entered[-1]


def is_inference_mode_enabled() -> bool:
    """Whether inference mode is on in this thread."""
    return modes.state.inference


def is_inference(tensor: Tensor) -> bool:
    """Was this tensor made in inference mode?"""
    return tensor.is_inference()


class set_multithreading_enabled(_DecoratorContextManager):
    """Whether a backward may use several threads; here it always runs in the calling thread."""

    def __init__(self, mode: bool) -> None:
        self.mode = mode
        modes.changing()
        self._before = modes.state.multithreading
        modes.state.multithreading = mode

    def clone(self) -> Self:
        return type(self)(self.mode)

    def __call__(self, function: Decorated) -> Decorated:
        modes.state.multithreading = self._before
        return super().__call__(function)

    def __enter__(self) -> None:
        modes.changing()
        modes.state.multithreading = self.mode

    def __exit__(self, *_: object) -> None:
        modes.state.multithreading = self._before


def is_multithreading_enabled() -> bool:
    return modes.state.multithreading


def _unsafe_set_version_counter(tensors: Iterable[Tensor], versions: Iterable[int]) -> None:
    """Set version counters, so that autograd does not see writes that happened."""
    for tensor, version in zip(tensors, versions, strict=True):
        tensor._storage.set_version(version)


class _unsafe_preserve_version_counter(_DecoratorContextManager):
    """Writes to these tensors inside are not seen by autograd."""

    def __init__(self, tensors: Tensor | tuple[Tensor, ...]) -> None:
        self.tensors = tensors if isinstance(tensors, tuple) else (tensors,)
        self._versions: tuple[int, ...] = ()

    def clone(self) -> Self:
        return type(self)(self.tensors)

    def __enter__(self) -> None:
        self._versions = tuple(tensor._version for tensor in self.tensors)

    def __exit__(self, *_: object) -> None:
        _unsafe_set_version_counter(self.tensors, self._versions)
