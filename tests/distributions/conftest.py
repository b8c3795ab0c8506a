"""What other tests of the same process may have changed in torch."""

from __future__ import annotations

import pytest

from ..oracle import torch


@pytest.fixture(autouse=True)
def checked_arguments() -> None:
    """torch.compile turns checks of distributions off, for the whole process and for good."""
    if torch.__version__:
        torch.distributions.Distribution.set_default_validate_args(True)
