"""Hooks around the steps of optimizers: of one, and of all; and a step while somebody profiles."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ag_visual.core.hooks import HookTable, RemovableHandle, register
from ag_visual.events import instrument
from ag_visual.events.timed import Span

_before_all = HookTable()
_after_all = HookTable()


def register_optimizer_step_pre_hook(hook: Callable[..., Any]) -> RemovableHandle:
    """Call `hook(optimizer, args, kwargs)` before each step of every optimizer."""
    return register(_before_all, hook)


def register_optimizer_step_post_hook(hook: Callable[..., Any]) -> RemovableHandle:
    """Call `hook(optimizer, args, kwargs)` after each step of every optimizer."""
    return register(_after_all, hook)


def any_of(optimizer: Any) -> bool:
    """Whether a step of this optimizer has hooks."""
    own = optimizer._step_pre_hooks or optimizer._step_post_hooks
    return bool(own or _before_all or _after_all)


def around(step: Callable[..., Any], self: Any, args: Any, kwargs: Any) -> Any:
    """A step with the hooks before and after it."""
    for hook in (*_before_all.values(), *self._step_pre_hooks.values()):
        changed = hook(self, args, kwargs)
        if changed is not None:
            if not (isinstance(changed, tuple) and len(changed) == 2):
                raise RuntimeError(
                    f"{step} must return None or a tuple of (new_args, new_kwargs), but got "
                    f"{changed}."
                )
            args, kwargs = changed
    result = step(self, *args, **kwargs)
    for hook in (*self._step_post_hooks.values(), *_after_all.values()):
        hook(self, args, kwargs)
    return result


def timed(step: Callable[..., Any], self: Any, args: Any, kwargs: Any) -> Any:
    """A step while somebody profiles."""
    with Span(f"Optimizer.step#{type(self).__name__}.step"):
        _report_memory(self, new=False)
        found = step(self, *args, **kwargs)
        _report_memory(self, new=True)
    return found


def _report_memory(optimizer: Any, *, new: bool) -> None:
    held = getattr(instrument.spans, "held", None)  # another thread may end the profile meanwhile
    if held is not None:
        held("parameter", [p for group in optimizer.param_groups for p in group["params"]], False)
        held("state", [v for state in optimizer.state.values() for v in state.values()], new)
