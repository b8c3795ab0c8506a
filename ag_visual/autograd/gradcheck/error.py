"""GradcheckError, and how a notebook shows it."""

from __future__ import annotations

import sys
import traceback
from typing import Any

from ag_visual.autograd.gradcheck.mismatch import Mismatch
from ag_visual.autograd.gradcheck.picture import page
from ag_visual.core.tensor import Tensor
from ag_visual.errors import AutogradError


class GradcheckError(AutogradError):
    """What `gradcheck` and `gradgradcheck` raise when derivatives are wrong.

    Where two Jacobians differ, `mismatch` has both and says of what they are. A notebook draws
    them and their difference as heat maps.
    """

    def __init__(
        self,
        message: str,
        fields: dict[str, Any] | None = None,
        mismatch: Mismatch | None = None,
    ) -> None:
        super().__init__(message, fields)
        self.mismatch = mismatch

    @property
    def numerical(self) -> Tensor | None:
        """The Jacobian by differences, a row for each element of the input; None: no mismatch."""
        return None if self.mismatch is None else self.mismatch.numerical

    @property
    def analytical(self) -> Tensor | None:
        """The Jacobian by autograd, of the same shape."""
        return None if self.mismatch is None else self.mismatch.analytical

    @property
    def output_index(self) -> int | None:
        """Which output, among those that require grad."""
        return None if self.mismatch is None else self.mismatch.output_index

    @property
    def input_index(self) -> int | None:
        """Which input, among those that require grad."""
        return None if self.mismatch is None else self.mismatch.input_index

    def _repr_html_(self) -> str:
        return page(str(self), self.mismatch)

    def _render_traceback_(self) -> list[str]:
        """What IPython prints when this is raised: its own traceback, below the heat maps."""
        ipython: Any = sys.modules["IPython"]
        shell = ipython.get_ipython()
        if shell is None:
            return traceback.format_exception(self)
        if self.mismatch is not None:
            ipython.display.display(self)
        lines: list[str] = shell.InteractiveTB.structured_traceback(
            type(self), self, self.__traceback__, tb_offset=shell.InteractiveTB.tb_offset
        )
        return lines
