"""Operations and bytes of what runs."""

from __future__ import annotations

import importlib
from typing import Any

import numpy
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


def _made_in(columns: Any, category: str) -> set[str]:
    """In which spans storages of a category were allocated; "": before the profile."""
    memory = columns.memory
    rows = memory[(memory["category"] == CATEGORIES.index(category)) & (memory["bytes"] > 0)]
    early = rows["time"] == columns.start
    assert (rows["span"][early] < 0).all()
    names = [columns.names[columns.spans["name"][at]] for at in rows["span"][~early]]
    return {*names, *[""] * bool(early.any())}


def test_what_was_there_before_is_not_allocated_by_the_step() -> None:
    net = ag.nn.Linear(64, 256)
    optimizer = ag.optim.Adam(net.parameters())
    x = ag.randn(16, 64)
    found = []
    for _ in range(2):  # gradients and the optimizer's state are there in the second one
        with profile(profile_memory=True) as each:
            net(x).sum().backward()
            optimizer.step()
        found.append(each.columns)
    first, second = found
    assert _made_in(first, "gradient") == {"torch::autograd::AccumulateGrad"}
    assert _made_in(first, "optimiser state") == {"aten::zeros_like", "Optimizer.step#Adam.step"}
    assert _made_in(second, "gradient") == _made_in(second, "optimiser state") == {""}
    assert _made_in(second, "parameter") == {""}


def test_what_comes_later_is_not_told_as_there_from_the_start() -> None:
    x = ag.randn(1000, requires_grad=True)
    table = ag.randn(50, 100)
    with profile(profile_memory=True) as found:
        for _ in range(3):
            batch = ag.tensor([1.0] * 1000)  # of data: no op, but memory
            (table[0] * 2).sum()  # a view of what was there
            y = x * batch
            (y.sin() + y.cos()).sum().backward()  # two gradients, which the engine adds
    columns = found.columns
    memory = columns.memory
    early = memory[memory["time"] == columns.start]
    sizes = sorted(zip(early["category"].tolist(), early["bytes"].tolist(), strict=True))
    input_, parameter = CATEGORIES.index("input"), CATEGORIES.index("parameter")
    assert sizes == [(input_, 20_000), (parameter, 4000)]
    batches = memory[(memory["category"] == input_) & (memory["bytes"] == 4000)]
    assert len(batches) == 3
    assert (numpy.diff(batches["time"]) > 0).all()
    live = numpy.cumsum(memory["bytes"])
    assert live.max() < 60_000
    assert _made_in(columns, "gradient") == {"MulBackward0"}


PRODUCTS = ("mm", "addmm", "bmm", "baddbmm", "conv1d", "conv2d", "conv3d")


def _layers(t: Any) -> dict[str, Any]:
    """What multiplies, and its arguments."""
    nn, make = t.nn, lambda *shape: t.randn(*shape, requires_grad=True)
    one, heads = make(2, 5, 8), nn.MultiheadAttention(8, 2, batch_first=True)
    return {
        "linear": (nn.Linear(64, 32), make(16, 64)),
        "deep linear": (nn.Linear(8, 3), make(2, 5, 8)),
        "without a bias": (nn.Linear(8, 3, bias=False), make(5, 8)),
        "mm": (t.mm, make(4, 5), make(5, 6)),
        "mm of a transposed": (lambda a, b: t.mm(a.t(), b.t()), make(4, 3), make(5, 4)),
        "addmm": (t.addmm, make(6), make(4, 5), make(5, 6)),
        "bmm": (t.bmm, make(3, 4, 5), make(3, 5, 6)),
        "baddbmm": (t.baddbmm, make(3, 4, 6), make(3, 4, 5), make(3, 5, 6)),
        "matmul": (t.matmul, make(2, 4, 5), make(5, 6)),
        "convolution": (nn.Conv2d(3, 4, 3, padding=1), make(2, 3, 8, 8)),
        "attention": (lambda x: heads(x, x, x)[0], one),
    }


@pytest.mark.oracle
@pytest.mark.parametrize("name", _layers(ag))
def test_products_of_a_backward_count_as_torchs(name: str) -> None:
    found = []
    for t in (torch, ag):
        t.manual_seed(0)
        call, *args = _layers(t)[name]
        call(*args).sum().backward()
        module = importlib.import_module(f"{t.__name__}.autograd.profiler")
        parts = []
        for backward in (False, True):
            result = None if not backward else call(*args).sum()
            with module.profile(with_flops=True) as p:
                call(*args) if result is None else result.backward()
            averages = {each.key.removeprefix("aten::"): each for each in p.key_averages()}
            parts.append(
                {
                    key: (averages[key].count, averages[key].flops)
                    for key in PRODUCTS
                    if key in averages and averages[key].flops
                }
            )
        found.append(parts)
    assert found[0] == found[1]
    assert any(found[0])
