"""Operations and bytes of what runs."""

from __future__ import annotations

import importlib
from typing import Any

import pytest

import ag_visual as ag
from ag_visual.autograd.profiler import profile
from ag_visual.profiler.memory import CATEGORIES
from ag_visual.profiler.peak import peak

from ..oracle import torch


def _operations(t: Any) -> Any:
    a, b, batch = t.ones(3, 4), t.ones(4, 5), t.ones(2, 3, 4)
    image, weight = t.ones(2, 4, 8, 9), t.ones(6, 2, 3, 3)
    conv = t.nn.functional.conv2d
    with importlib.import_module(f"{t.__name__}.autograd.profiler").profile(with_flops=True) as p:
        a.mm(b)
        t.addmm(t.ones(5), a, b)
        batch.bmm(t.ones(2, 4, 5))
        t.baddbmm(t.ones(2, 3, 5), batch, t.ones(2, 4, 5))
        conv(image, weight, None, 2, 1, 1, 2)
        conv(image, weight, stride=(1, 2), dilation=2, groups=2)
        a * 2
        a + a
    names = ("mm", "addmm", "bmm", "baddbmm", "conv2d", "mul", "add")
    wanted = {f"aten::{name}" for name in names}
    return [(each.name, each.flops) for each in p.function_events if each.name in wanted]


@pytest.mark.oracle
def test_operations_are_counted_as_torch_counts_them() -> None:
    ours = _operations(ag)
    assert ours == _operations(torch)
    assert ("aten::mm", 120) in ours


def test_bytes_of_spans_and_storages() -> None:
    x = ag.ones(100, requires_grad=True)
    with profile(profile_memory=True) as found:
        y = x * 2
        z = y.view(10, 10).exp()
        del y
        z.sum().backward()
        del z
    columns = found.columns
    spans, names = columns.spans, columns.names
    outer = spans[spans["parent"] < 0]
    sizes = {names[each["name"]]: int(each["bytes"]) for each in outer}
    assert sizes["aten::mul"] == sizes["aten::exp"] == 400
    assert sizes["aten::view"] == 0
    memory = columns.memory
    by_storage: dict[int, int] = {}
    for row in memory:
        number = int(row["storage"])
        by_storage[number] = by_storage.get(number, 0) + int(row["bytes"])
        assert by_storage[number] >= 0
    left = {
        CATEGORIES[memory["category"][memory["storage"] == n][0]]
        for n, b in by_storage.items()
        if b
    }
    assert left == {"parameter", "gradient"}
    assert memory["total"][-1] == sum(by_storage.values()) == 800
    inside = memory["span"] >= 0
    assert memory["bytes"][inside].sum() == spans["bytes"][spans["parent"] < 0].sum()


def test_the_peak_names_who_held_it() -> None:
    net = ag.nn.Sequential(ag.nn.Linear(10, 50), ag.nn.ReLU())
    x = ag.ones(20, 10)
    with profile(profile_memory=True, with_stack=True, with_modules=True) as found:
        kept = net(x)
        big = ag.cat([kept] * 5)
        del big
        kept.sum().backward()
    top = peak(found.columns)
    assert top.size == found.columns.memory["total"].max()
    for shares in top[2:]:
        assert sum(size for _, size in shares) == top.size
    assert dict(top.by_op)["aten::cat"] == 5 * dict(top.by_op)["aten::relu"] == 20_000
    assert dict(top.by_module)["Sequential_0.ReLU_0"] == 4000
    assert sum(size for line, size in top.by_line if "test_the_peak" in line) == 24_000
    assert dict(top.by_category)["parameter"] == 2200
    with profile() as found:
        pass
    assert peak(found.columns).size == 0
