"""uint16, uint32 and uint64: values and conversions as torch's; promotion as it refuses it."""

from __future__ import annotations

import pytest

from .side_by_side import compare, compare_failure, each_expression, each_failure

SAME = """
t.tensor([1, 2, 3], dtype=t.uint16)
t.tensor([1, 2, 3], dtype=t.uint32) == 2
t.tensor([1, 2, 3], dtype=t.uint64).to(t.int32)
t.tensor([1, 2, 3], dtype=t.uint16).float()
t.tensor([1, -1]).to(t.uint16)
t.zeros(2, dtype=t.uint64)
t.from_numpy(np.arange(3, dtype=np.uint32))
t.tensor([1, 2], dtype=t.uint16).view(t.int16)
t.tensor([1, 2], dtype=t.uint16)[1:]
t.hash_tensor(t.arange(4.))
t.hash_tensor(m.detach(), 1, keepdim=True)
t.hash_tensor(t.tensor([-1], dtype=t.int8))
t.tensor([True, False]).hash_tensor()
"""

ERRORS = """
t.promote_types(t.uint16, t.int32) | attempted to promote UInt16 and Int
t.promote_types(t.complex64, t.uint64) | Promotion for uint16, uint32, uint64 types is not supported
t.hash_tensor(t.tensor([1j])) | not implemented for 'ComplexFloat'
t.hash_tensor(t.tensor([])) | Expected reduction dim to be specified for input.numel() == 0
t.ones(2).float_power_(2) | the base given to float_power_ has dtype Float but the operation's
"""


@pytest.mark.oracle
@each_expression(SAME)
def test_as_torch(expression: str) -> None:
    compare(expression)


@pytest.mark.oracle
@each_failure(ERRORS)
def test_errors_as_torch(expression: str, phrase: str) -> None:
    compare_failure(expression, phrase)
