"""torch's samples of its functions under the public `vmap`, one of each (all: see lanes_opinfo)."""

from __future__ import annotations

import pytest

from ..groups import each
from . import lanes_opinfo

pytestmark = [pytest.mark.oracle, pytest.mark.filterwarnings("ignore")]


@each("name", lanes_opinfo.names(), size=16)
def test_a_mapped_function_is_the_stack_of_its_calls(name: str) -> None:
    assert list(lanes_opinfo.failures(name, 1)) == []
