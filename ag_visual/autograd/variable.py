"""Variable, as code of the 0.4 era uses it: its calls return Tensors.

Source: https://pytorch.org/docs/2.8/autograd.html#variable-deprecated
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ag_visual.core.source import warn
from ag_visual.core.tensor import Tensor
from ag_visual.engine.run import running
from ag_visual.errors import type_name


class _VariableMeta(type):
    def __instancecheck__(cls, instance: object) -> bool:
        return isinstance(instance, Tensor)

    def __call__(cls, data: object = None, requires_grad: bool = False, **options: Any) -> Tensor:
        if options.pop("volatile", False):
            warn("volatile was removed and now has no effect. Use `with torch.no_grad():` instead.")
        if options:
            raise TypeError(f"Variable() got unexpected arguments: {', '.join(options)}")
        if data is None:
            from ag_visual.dispatch.table import functions

            empty: Tensor = functions["empty"](0)
            return empty._require_grad(requires_grad)
        if not isinstance(data, Tensor):
            raise TypeError(f"Variable data has to be a tensor, but got {type_name(data)}")
        result = data.detach()
        return result._require_grad(requires_grad)


class ImperativeEngine:
    """What `Variable._execution_engine` offers during a backward."""

    def queue_callback(self, callback: Callable[[], None]) -> None:
        """Call `callback` when the backward that runs in this thread is done."""
        task = running()
        if task is None:
            raise RuntimeError("Final callbacks can only be installed during backward pass.")
        if task.callbacks is None:
            task.callbacks = []
        task.callbacks.append(callback)

    def is_checkpoint_valid(self) -> bool:
        """False inside of a backward that runs only a part of its graph (grad, inputs=)."""
        task = running()
        return task is None or bool(task.whole())


class Variable(metaclass=_VariableMeta):
    """`Variable(tensor, requires_grad=False)` gives a Tensor that shares the memory."""

    _execution_engine = ImperativeEngine()


def variable(data: Any, requires_grad: bool = False, **options: Any) -> Any:
    """A new leaf from data, as the tutorials of 0.4 made them."""
    from ag_visual.dispatch.table import functions

    return functions["tensor"](data, requires_grad=requires_grad, **options)


vars(variable)["Variable"] = Variable  # torch.autograd.variable is a module, too
