"""What looks at torch leaves its grad mode as it was, also where it is interrupted."""

from __future__ import annotations

import pytest
import torch

from ag_visual.bridge.grad_mode import leaving_grad_mode, without_grad


def interrupted(mode: bool) -> None:
    """As inside of a manager of torch's that has turned the mode and has not begun its block."""
    torch.set_grad_enabled(mode)
    raise KeyboardInterrupt


@pytest.mark.parametrize("before", [True, False])
def test_an_interrupt_leaves_the_mode_as_it_was(before: bool) -> None:
    try:
        for call in (leaving_grad_mode, without_grad):
            torch.set_grad_enabled(before)
            with pytest.raises(KeyboardInterrupt):
                call(interrupted, not before)
            assert torch.is_grad_enabled() is before
    finally:
        torch.set_grad_enabled(True)


def test_modes_inside() -> None:
    assert without_grad(torch.is_grad_enabled) is False
    assert leaving_grad_mode(torch.is_grad_enabled) is True
