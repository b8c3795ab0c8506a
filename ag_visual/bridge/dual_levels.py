"""Levels of torch's forward mode: recorded as ranges, and looked at before tangents go."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from torch._C import DisableTorchFunction
from torch.autograd import forward_ad

from ag_visual.core import source
from ag_visual.events import instrument, ranges
from ag_visual.events.node_record import sequence

_enter: Final = forward_ad.enter_dual_level
_exit: Final = forward_ad.exit_dual_level


def is_open() -> bool:
    """Whether a level is open, at which tensors have tangents."""
    return bool(forward_ad._current_level >= 0)


class DualLevels:
    """What stands in the place of torch's functions while it is watched.

    looked: emits all nodes that were made before. failed: is given each error of this package.
    """

    def __init__(self, looked: Callable[[], None], failed: Callable[[Exception], None]) -> None:
        self._looked, self._failed = looked, failed
        # A number below those of all nodes made in the open level, and the level's range; else 0.
        self._open = 0, 0

    def replacements(self) -> dict[tuple[Any, str], Any]:
        """Torch's names, and what stands there."""

        def enter_dual_level() -> Any:
            if instrument.sink is not None and not is_open():
                self._begins()
            return _enter()

        def exit_dual_level(*, level: Any = None) -> None:
            try:
                self._ends()
            finally:
                _exit(level=level)

        return {
            (forward_ad, "enter_dual_level"): enter_dual_level,
            (forward_ad, "exit_dual_level"): exit_dual_level,
        }

    def _begins(self) -> None:
        try:
            self._looked()
            with DisableTorchFunction():
                entered = ranges.enter_level("forward mode", 1, 0, source.here())
            self._open = next(sequence), entered
        except Exception as error:
            self._failed(error)

    def _ends(self) -> None:
        """Tensors are about to lose their tangents."""
        (since, entered), self._open = self._open, (0, 0)
        if not since:
            return
        try:
            if instrument.losing_tangents is not None:
                with DisableTorchFunction():
                    instrument.losing_tangents(since)
            ranges.leave(entered)
        except Exception as error:
            self._failed(error)
