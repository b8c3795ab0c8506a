"""Module: a function with parameters, in torch's shape.

What it holds is in `members`, what can be saved in `saving`; here is how it is called and shown.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ag_visual.core.hooks import HookTable, RemovableHandle, register
from ag_visual.core.source import warn
from ag_visual.events import instrument
from ag_visual.nn import calls
from ag_visual.nn.backward_hooks import BackwardHooks
from ag_visual.nn.saving import Saving

_hook_tables = (
    *("_forward_pre_hooks", "_forward_hooks", "_backward_pre_hooks", "_backward_hooks"),
    *("_state_dict_pre_hooks", "_state_dict_hooks"),
    *("_load_state_dict_pre_hooks", "_load_state_dict_post_hooks"),
)
# Which of the forward hooks, by id, are called with more, or even when forward raises.
_marks = (
    *("_forward_pre_hooks_with_kwargs", "_forward_hooks_with_kwargs"),
    "_forward_hooks_always_called",
)


class Module(Saving):
    """Base class of all neural network modules.

    Attributes that are Parameters or Modules are registered by assignment. Source:
    https://pytorch.org/docs/2.8/generated/torch.nn.Module.html
    """

    _hooked = False  # whether a call has more to do than forward
    call_super_init = False
    """Whether `__init__` passes its arguments on, to a class that follows in the bases."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        if (args or kwargs) and not self.call_super_init:
            given = "positional argument" if args else f"keyword argument '{next(iter(kwargs))}'"
            raise TypeError(f"{type(self).__name__}.__init__() got an unexpected {given}")
        self.__dict__.update(
            training=True,
            _parameters={},
            _buffers={},
            _non_persistent_buffers_set=set(),
            _modules={},
        )
        for name in _hook_tables:
            self.__dict__[name] = HookTable()
        for name in _marks:
            self.__dict__[name] = {}
        if self.call_super_init:
            super().__init__(*args, **kwargs)

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Compute the output; subclasses override it."""
        raise NotImplementedError(
            f'Module [{type(self).__name__}] is missing the required "forward" function'
        )

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if instrument.sink is None and not self._hooked:
            return self.forward(*args, **kwargs)
        if instrument.sink is None:
            return self._with_hooks(args, kwargs)
        if self._hooked:
            return calls.within(self, self._with_hooks, args, kwargs)
        return calls.within(self, self.forward, *args, **kwargs)

    def compile(self, *args: Any, **kwargs: Any) -> None:
        """Says once that nothing is compiled: the module runs as it is."""
        from ag_visual.compiler import compile

        compile(self)

    # Hooks -----------------------------------------------------------------------------------

    def _with_hooks(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        result = None
        called: set[int] = set()
        try:
            args, kwargs = self._before(args, kwargs)
            hooks = None
            if self._backward_hooks or self._backward_pre_hooks:
                after, before = self._backward_hooks.values(), self._backward_pre_hooks.values()
                hooks = BackwardHooks(self, list(after), list(before))
                args = hooks.around_inputs(args)
            result = self.forward(*args, **kwargs)
            for key in list(self._forward_hooks):
                called.add(key)
                changed = self._after(key, args, kwargs, result)
                result = result if changed is None else changed
            return result if hooks is None else hooks.around_outputs(result)
        except Exception:
            for key in list(self._forward_hooks):
                if key in self._forward_hooks_always_called and key not in called:
                    self._in_spite(key, args, kwargs, result)
            raise

    def _after(self, key: int, args: Any, kwargs: Any, result: Any) -> Any:
        """What a forward hook makes of the result."""
        more = (kwargs,) if key in self._forward_hooks_with_kwargs else ()
        return self._forward_hooks[key](self, args, *more, result)

    def _before(self, args: Any, kwargs: Any) -> tuple[Any, Any]:
        """The arguments after all forward pre-hooks."""
        for key, hook in list(self._forward_pre_hooks.items()):
            whole = key in self._forward_pre_hooks_with_kwargs
            changed = hook(self, args, kwargs) if whole else hook(self, args)
            if changed is None:
                continue
            if not whole:
                args = changed if isinstance(changed, tuple) else (changed,)
            elif isinstance(changed, tuple) and len(changed) == 2:
                args, kwargs = changed
            else:
                raise RuntimeError(
                    "forward pre-hook must return None or a tuple of (new_args, new_kwargs), but "
                    f"got {changed}."
                )
        return args, kwargs

    def _in_spite(self, key: int, args: Any, kwargs: Any, result: Any) -> None:
        try:
            self._after(key, args, kwargs, result)
        except Exception as error:
            warn(
                "module forward hook with ``always_call=True`` raised an exception that was "
                f"silenced as another error was raised in forward: {error}"
            )

    def register_forward_pre_hook(
        self, hook: Callable[..., Any], *, prepend: bool = False, with_kwargs: bool = False
    ) -> RemovableHandle:
        """Call `hook(module, args)` before forward; it may replace the arguments.

        with_kwargs: `hook(module, args, kwargs)`, which may return both.
        """
        self._hooked = True
        marks = [self._forward_pre_hooks_with_kwargs] * with_kwargs
        return register(self._forward_pre_hooks, hook, prepend, marks)

    def register_forward_hook(
        self,
        hook: Callable[..., Any],
        *,
        prepend: bool = False,
        with_kwargs: bool = False,
        always_call: bool = False,
    ) -> RemovableHandle:
        """Call `hook(module, args, output)` after forward; it may replace the output.

        with_kwargs: `hook(module, args, kwargs, output)`. always_call: also when forward raises.
        """
        self._hooked = True
        marks = [self._forward_hooks_with_kwargs] * with_kwargs
        marks += [self._forward_hooks_always_called] * always_call
        return register(self._forward_hooks, hook, prepend, marks)

    def register_full_backward_pre_hook(
        self, hook: Callable[..., Any], prepend: bool = False
    ) -> RemovableHandle:
        """Call `hook(module, grad_output)` in backward; it may return other gradients."""
        self._hooked = True
        return register(self._backward_pre_hooks, hook, prepend)

    def register_full_backward_hook(
        self, hook: Callable[..., Any], prepend: bool = False
    ) -> RemovableHandle:
        """Call `hook(module, grad_input, grad_output)` in backward; it may replace grad_input.

        Both are tuples, with None for non-tensors and for tensors without a gradient.
        """
        self._hooked = True
        return register(self._backward_hooks, hook, prepend)

    def register_backward_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """torch's deprecated hook: here the full one, whose grad_input is right."""
        return self.register_full_backward_hook(hook)

    # Text ------------------------------------------------------------------------------------

    def _get_name(self) -> str:
        return type(self).__name__

    def extra_repr(self) -> str:
        """What stands in the parentheses of the repr."""
        return ""

    def __repr__(self) -> str:
        extra = self.extra_repr()
        lines = extra.split("\n") if extra else []
        if len(lines) == 1 and not self._modules:
            return f"{self._get_name()}({extra})"
        lines += [indented(f"({name}): {module!r}") for name, module in self._modules.items()]
        return listed(self._get_name(), lines)


def indented(text: str) -> str:
    """All lines but the first two columns further in; empty ones stay empty."""
    first, *rest = text.split("\n")
    return "\n".join([first, *(f"  {line}" if line.strip() else "" for line in rest)])


def listed(name: str, lines: list[str]) -> str:
    """name(...) with one line for each entry."""
    return f"{name}(\n  " + "\n  ".join(lines) + "\n)" if lines else f"{name}()"
