"""GradScaler: a loss is scaled up, so that its float16 gradients do not vanish.

Source: https://pytorch.org/docs/2.8/amp.html#gradient-scaling
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable
from enum import Enum
from typing import Any

from ag_visual import cuda, dtypes
from ag_visual.core import modes
from ag_visual.core.source import warn
from ag_visual.core.tensor import Tensor
from ag_visual.dispatch.table import functions as F
from ag_visual.names import only as _only


class OptState(Enum):
    """What was done for an optimizer since the last `update`."""

    READY = 0
    UNSCALED = 1
    STEPPED = 2


def _fresh() -> dict[str, Any]:
    return {"stage": OptState.READY, "found_inf_per_device": {}}


class GradScaler:
    """Scales losses, divides gradients by the scale, and skips steps whose gradients overflow.

    The scale is multiplied by `backoff_factor` after a step with an infinite gradient or a NaN, and
    by `growth_factor` after `growth_interval` steps in a row without. With enabled=False, and for
    CUDA where there is none (with a warning), it changes nothing.

    >>> import ag_visual as ag
    >>> w = ag.ones(1, requires_grad=True)
    >>> optimizer, scaler = ag.optim.SGD([w], lr=0.1), ag.amp.GradScaler("cpu", init_scale=4.0)
    >>> scaler.scale(w * 3).sum().backward()
    >>> w.grad
    tensor([12.])
    >>> scaler.step(optimizer)
    >>> scaler.update()
    >>> w
    tensor([0.7000], requires_grad=True)
    """

    def __init__(
        self,
        device: str = "cuda",
        init_scale: float = 2.0**16,
        growth_factor: float = 2.0,
        backoff_factor: float = 0.5,
        growth_interval: int = 2000,
        enabled: bool = True,
    ) -> None:
        self._device = device
        self._enabled = enabled
        if enabled and device == "cuda" and not cuda.is_available():
            warn("torch.cuda.amp.GradScaler is enabled, but CUDA is not available.  Disabling.")
            self._enabled = False
        if not self._enabled:
            return
        if growth_factor <= 1.0:
            raise AssertionError("The growth factor must be > 1.0.")
        if backoff_factor >= 1.0:
            raise AssertionError("The backoff factor must be < 1.0.")
        self._init_scale = init_scale
        self._scale: Tensor | None = None
        self._growth_factor = growth_factor
        self._backoff_factor = backoff_factor
        self._growth_interval = growth_interval
        self._init_growth_tracker = 0
        self._growth_tracker: Tensor | None = None
        self._per_optimizer_states: dict[int, dict[str, Any]] = defaultdict(_fresh)

    def scale(self, outputs: Any) -> Any:
        """A tensor, or each of an iterable of them, times the scale.

        Raises:
            ValueError: there is something else in it.
        """
        if not self._enabled:
            return outputs
        if isinstance(outputs, Tensor):
            if self._scale is None:
                self._begin(outputs.device)
            assert self._scale is not None
            return outputs * self._scale.to(device=outputs.device)
        if isinstance(outputs, Iterable):
            scaled = map(self.scale, outputs)
            made: Any = type(outputs)
            return made(scaled) if isinstance(outputs, list | tuple) else scaled
        raise ValueError("outputs must be a Tensor or an iterable of Tensors")

    def _begin(self, device: Any) -> None:
        self._scale = F["full"]((), self._init_scale, dtype=dtypes.float32, device=device)
        count = self._init_growth_tracker
        self._growth_tracker = F["full"]((), count, dtype=dtypes.int32, device=device)

    def _begun(self, name: str) -> tuple[Tensor, Tensor]:
        if self._scale is None or self._growth_tracker is None:
            raise AssertionError(
                f"Attempted {name} but _scale is None.  This may indicate your script did not use "
                "scaler.scale(loss or outputs) earlier in the iteration."
            )
        return self._scale, self._growth_tracker

    def unscale_(self, optimizer: Any) -> None:
        """Divide the gradients of an optimizer's parameters by the scale, as `step` does.

        Call it before gradients are clipped or looked at.

        Raises:
            RuntimeError: it was done already, or the optimizer has stepped.
            ValueError: a gradient is float16, as of a model that is: there is no room for a scale.
        """
        if not self._enabled:
            return
        scale, _ = self._begun("unscale_")
        state = self._per_optimizer_states[id(optimizer)]
        if state["stage"] is OptState.UNSCALED:
            raise RuntimeError(
                "unscale_() has already been called on this optimizer since the last update()."
            )
        if state["stage"] is OptState.STEPPED:
            raise RuntimeError("unscale_() is being called after step().")
        inverse = scale.double().reciprocal().float()
        state["found_inf_per_device"] = modes.in_grad_mode(False, _unscaled, optimizer, inverse)
        state["stage"] = OptState.UNSCALED

    def step(self, optimizer: Any, *args: Any, **kwargs: Any) -> Any:
        """`optimizer.step(*args, **kwargs)` on gradients without the scale, if all are finite.

        Returns what that returns, None where the step is left out.

        Raises:
            RuntimeError: it is the second since `update`, or there is a closure.
            AssertionError: nothing was scaled, or no parameter has a gradient.
        """
        if not self._enabled:
            return optimizer.step(*args, **kwargs)
        if "closure" in kwargs:
            raise RuntimeError("Closure use is not currently supported if GradScaler is enabled.")
        self._begun("step")
        state = self._per_optimizer_states[id(optimizer)]
        if state["stage"] is OptState.STEPPED:
            raise RuntimeError("step() has already been called since the last update().")
        if state["stage"] is OptState.READY:
            self.unscale_(optimizer)
        found = state["found_inf_per_device"]
        if not found:
            raise AssertionError("No inf checks were recorded for this optimizer.")
        result = None
        if not any(each.item() for each in found.values()):
            result = optimizer.step(*args, **kwargs)
        state["stage"] = OptState.STEPPED
        return result

    def update(self, new_scale: Any = None) -> None:
        """End an iteration: change the scale by what was found, or to `new_scale`.

        Raises:
            AssertionError: no gradients were looked at, or `new_scale` is none.
        """
        if not self._enabled:
            return
        scale, tracker = self._begun("update")
        if isinstance(new_scale, float):
            scale.fill_(new_scale)
        elif new_scale is not None:
            if (
                not isinstance(new_scale, Tensor)
                or new_scale.device.type != self._device
                or new_scale.numel() != 1
                or new_scale.requires_grad
            ):
                raise AssertionError(
                    "new_scale should be a float or a 1-element torch.cuda.FloatTensor or "
                    "torch.FloatTensor with requires_grad=False."
                )
            scale.copy_(new_scale)
        else:
            states = self._per_optimizer_states.values()
            found = [each for state in states for each in state["found_inf_per_device"].values()]
            if not found:
                raise AssertionError("No inf checks were recorded prior to update.")
            self._grow(scale, tracker, any(each.item() for each in found))
        self._per_optimizer_states = defaultdict(_fresh)

    def _grow(self, scale: Tensor, tracker: Tensor, overflow: bool) -> None:
        """A new scale after one iteration; one that would not be finite is left as it was."""
        if overflow:
            scale.mul_(self._backoff_factor)
            tracker.fill_(0)
            return
        successes = int(tracker.item()) + 1
        if successes == self._growth_interval:
            grown = scale * self._growth_factor
            if math.isfinite(grown.item()):
                scale.copy_(grown)
            successes = 0
        tracker.fill_(successes)

    def get_scale(self) -> float:
        """The scale; 1.0 where scaling is off."""
        if not self._enabled:
            return 1.0
        return self._init_scale if self._scale is None else float(self._scale.item())

    def get_growth_factor(self) -> float:
        """By what the scale grows."""
        return self._growth_factor

    def set_growth_factor(self, new_factor: float) -> None:
        """Change by what the scale grows."""
        self._growth_factor = new_factor

    def get_backoff_factor(self) -> float:
        """By what the scale is multiplied after an overflow."""
        return self._backoff_factor

    def set_backoff_factor(self, new_factor: float) -> None:
        """Change by what the scale is multiplied after an overflow."""
        self._backoff_factor = new_factor

    def get_growth_interval(self) -> int:
        """After how many steps without overflow the scale grows."""
        return self._growth_interval

    def set_growth_interval(self, new_interval: int) -> None:
        """Change after how many steps without overflow the scale grows."""
        self._growth_interval = new_interval

    def _get_growth_tracker(self) -> int:
        if not self._enabled:
            return 0
        tracker = self._growth_tracker
        return self._init_growth_tracker if tracker is None else int(tracker.item())

    def is_enabled(self) -> bool:
        """Whether it scales at all."""
        return self._enabled

    def state_dict(self) -> dict[str, Any]:
        """Scale, factors, interval and counter as numbers; empty where scaling is off."""
        if not self._enabled:
            return {}
        return {
            "scale": self.get_scale(),
            "growth_factor": self._growth_factor,
            "backoff_factor": self._backoff_factor,
            "growth_interval": self._growth_interval,
            "_growth_tracker": self._get_growth_tracker(),
        }

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Go on from what `state_dict` gave.

        Raises:
            RuntimeError: it is that of a scaler that was off.
        """
        if not self._enabled:
            return
        if not state_dict:
            raise RuntimeError(
                "The source state dict is empty, possibly because it was saved from a disabled "
                "instance of GradScaler."
            )
        self._init_scale = state_dict["scale"]
        self._growth_factor = state_dict["growth_factor"]
        self._backoff_factor = state_dict["backoff_factor"]
        self._growth_interval = state_dict["growth_interval"]
        self._init_growth_tracker = state_dict["_growth_tracker"]
        if self._scale is not None and self._growth_tracker is not None:
            self._scale.fill_(self._init_scale)
            self._growth_tracker.fill_(self._init_growth_tracker)

    def __getstate__(self) -> dict[str, Any]:
        state = dict(self.__dict__)
        if self._enabled:
            if self._per_optimizer_states:
                raise AssertionError(
                    "A GradScaler instance may only be pickled at the beginning of an iteration, "
                    "or at the end after scaler.update()."
                )
            state["_init_scale"] = self.get_scale()
            state["_init_growth_tracker"] = self._get_growth_tracker()
            state["_scale"] = state["_growth_tracker"] = None
        return state


def _unscaled(optimizer: Any, inverse: Tensor) -> dict[Any, Tensor]:
    """Multiply the gradients in place; whether one was infinite or NaN, by device."""
    found: dict[Any, Tensor] = {}
    grads = []
    for group in optimizer.param_groups:
        for param in group["params"]:
            grad = param.grad
            if grad is None:
                continue
            if grad.dtype is dtypes.float16:
                raise ValueError("Attempting to unscale FP16 gradients.")
            grads.append(grad._values() if grad.is_sparse else grad)
    for grad in grads:
        device = grad.device
        if device not in found:
            found[device] = F["full"]((), 0.0, dtype=dtypes.float32, device=device)
        if not bool(F["isfinite"](grad).all()):
            found[device].fill_(1.0)
        grad.mul_(inverse.to(device=device))
    return found


__all__ = ["GradScaler", "OptState"]
__dir__ = _only(__all__, __name__)
