"""Storages: the memory that tensors share, as torch's objects tell it and write it."""

from __future__ import annotations

import warnings
from typing import Any

import pytest

import ag_visual as ag

from ..oracle import torch


def program(t: Any) -> list[Any]:
    x = t.arange(6.0).reshape(2, 3)
    s, y = x[1].untyped_storage(), x[1].storage()
    told = [s.nbytes(), s.size(), len(s), s.device, s.data_ptr() == x.data_ptr(), s.is_cuda]
    told += [s == x.untyped_storage(), s._cdata == x.untyped_storage()._cdata, s.tolist()[20:]]
    told += [isinstance(s, t.UntypedStorage), t.is_storage(s), t.is_storage(x), s[7]]
    told += [y.nbytes(), y.size(), y.dtype, y.tolist(), y[0], y.element_size(), repr(y)]
    told += [isinstance(y, t.FloatStorage), isinstance(y, t.LongStorage), t.is_storage(y)]
    told += [y.untyped() == s, t.FloatStorage([1, 2]).tolist(), t.Storage(3).size()]
    told += [t.UntypedStorage(4).nbytes(), t.Storage is t.FloatStorage, x.storage_type().__name__]
    y[0] = 9
    told += [x.tolist(), t.empty(0).set_(s).tolist()]
    told += [t.empty(0).set_(s, 1, (2, 2), (2, 1)).tolist(), s.clone().data_ptr() == s.data_ptr()]
    y.fill_(2)
    told += [x.tolist()]
    for z in (
        t.ones(2, 3, device="meta"),
        t.ones(4, 6)[1:3, ::2],
        t.ones(2, 3).t(),
        t.ones(1).expand(5),
        t.zeros(0),
    ):
        told.append(z.untyped_storage().nbytes())
    return [str(each) for each in told]


@pytest.mark.oracle
def test_storages_are_torchs() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert program(ag) == program(torch)
        for t in (ag, torch):
            with pytest.raises(RuntimeError, match="slices are only supported in UntypedStorage"):
                t.ones(3).storage()[1:]


def test_a_write_through_a_storage_is_counted() -> None:
    w = ag.ones(2, requires_grad=True) * 1
    q = w * w
    w.untyped_storage().fill_(0)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        q.sum().backward()


def test_a_typed_storage_prefers_bytes() -> None:
    with pytest.warns(UserWarning, match="TypedStorage is deprecated"):
        ag.ones(1).storage()
