"""utils.data against torch: datasets, samplers, collation, and the loader's batches."""

from __future__ import annotations

import collections
import importlib
import inspect
from typing import Any

import numpy
import pytest

import ag_visual as ag
from tests.oracle import torch
from tests.programs import agree, raised

Point = collections.namedtuple("Point", "x y")


def _data(t: Any) -> Any:
    return importlib.import_module(f"{t.__name__}.utils.data")


def _rows(t: Any, count: int = 7) -> Any:
    return _data(t).TensorDataset(t.arange(2.0 * count).reshape(count, 2), t.arange(count))


def _stream(t: Any, count: int) -> Any:
    class Stream(_data(t).IterableDataset):  # type: ignore[misc, name-defined]
        def __iter__(self) -> Any:
            return iter(range(count))

        def __len__(self) -> int:
            return count

    return Stream()


def test_datasets() -> None:
    def program(t: Any) -> Any:
        d, rows = _data(t), _rows(t)
        both = rows + _rows(t, 2)
        part = d.Subset(rows, [5, 0, 3])
        stacked, named = d.StackDataset(rows, range(7)), d.StackDataset(a=rows, b=range(7))
        return [
            [len(x) for x in (rows, both, part, stacked, named)],
            rows[3],
            both[7],
            both[-1],
            part[1],
            stacked[2],
            named[2]["b"],
            list(_stream(t, 2) + _stream(t, 3)),
            len(_stream(t, 2) + _stream(t, 3)),
            raised(lambda: d.TensorDataset(t.ones(2), t.ones(3)))[0],
            raised(lambda: d.ConcatDataset([])),
            raised(lambda: d.StackDataset(range(2), range(3)))[0],
            raised(lambda: d.Dataset()[0])[0],
            raised(lambda: both[-10]),
        ]

    agree(program)


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"batch_size": 3},
        {"batch_size": 3, "drop_last": True},
        {"batch_size": None},
        {"sampler": [4, 2, 2]},
        {"batch_sampler": [[1, 2], [0]]},
        {"batch_size": 2, "collate_fn": lambda samples: [len(samples), samples[0][1]]},
    ],
)
def test_batches(options: dict[str, Any]) -> None:
    def program(t: Any) -> Any:
        loader = _data(t).DataLoader(_rows(t), **options)
        return [len(loader), list(loader), list(loader)]

    agree(program)


@pytest.mark.parametrize("options", [{"batch_size": 2}, {"batch_size": None}])
def test_streams(options: dict[str, Any]) -> None:
    def program(t: Any) -> Any:
        loader = _data(t).DataLoader(_stream(t, 5), **options)
        return [len(loader), list(loader)]

    agree(program)


def test_collation() -> None:
    def program(t: Any) -> Any:
        d = _data(t)
        samples = [
            [1, 2],
            [1.5, 2.5],
            [True, False],
            ["a", "b"],
            [b"a", b"b"],
            [(1, "x"), (2, "y")],
            [[1, 2.0], [3, 4.0]],
            [t.ones(2), t.zeros(2)],
            [numpy.ones(2), numpy.zeros(2)],
            [numpy.float32(1), numpy.float32(2)],
            [Point(1, 2.0), Point(3, 4.0)],
        ]
        found = [d.default_collate(s) for s in samples]
        mapped = d.default_collate([{"a": 1, "b": t.ones(1)}, {"a": 2, "b": t.zeros(1)}])
        kinds = [str(v.dtype) if hasattr(v, "dtype") else type(v).__name__ for v in found]
        return [
            found,
            kinds,
            mapped["a"],
            mapped["b"],
            d.default_convert({"a": (numpy.ones(1), 3)})["a"],
            raised(lambda: d.default_collate([object()]))[0],
            raised(lambda: d.default_collate([[1], [1, 2]])),
            raised(lambda: d.default_collate([numpy.array("a")]))[0],
        ]

    agree(program)


def test_samplers() -> None:
    """What is drawn differs from torch; what can be drawn does not."""
    d, seven = _data(ag), range(7)
    for _ in range(3):
        assert sorted(d.RandomSampler(seven)) == list(seven)
        assert sorted(d.SubsetRandomSampler([3, 5, 8])) == [3, 5, 8]
        many = list(d.RandomSampler(seven, num_samples=17))
        assert sorted(many[:7]) == sorted(many[7:14]) == list(seven)
        assert len(many) == 17
        drawn = list(d.WeightedRandomSampler([0, 1, 0, 3], 400))
        assert set(drawn) == {1, 3}
        assert 230 < drawn.count(3) < 370
        assert sorted(d.WeightedRandomSampler([1, 1, 2], 3, replacement=False)) == [0, 1, 2]
    again = [list(d.RandomSampler(seven, generator=ag.Generator().manual_seed(3))) for _ in "ab"]
    assert again[0] == again[1]
    with_repeats = list(d.RandomSampler(range(3), replacement=True, num_samples=50))
    assert set(with_repeats) == {0, 1, 2}
    shuffled = [y.item() for _, y in d.DataLoader(_rows(ag, 50), shuffle=True)]
    assert sorted(shuffled) == list(range(50)) != shuffled


@pytest.mark.parametrize("lengths", [[3, 4], [0.5, 0.5], [0.3, 0.3, 0.4]])
def test_random_split(lengths: list[float]) -> None:
    def program(t: Any) -> Any:
        parts = _data(t).random_split(range(7), lengths)
        return [[len(p) for p in parts], sorted(i for p in parts for i in p)]

    agree(program)


@pytest.mark.parametrize(
    "make",
    [
        lambda t, d: d.DataLoader(range(3), batch_size=0),
        lambda t, d: d.DataLoader(range(3), num_workers=-1),
        lambda t, d: d.DataLoader(range(3), timeout=-1),
        lambda t, d: d.DataLoader(range(3), prefetch_factor=2),
        lambda t, d: d.DataLoader(range(3), sampler=[1], shuffle=True),
        lambda t, d: d.DataLoader(range(3), batch_sampler=[[1]], drop_last=True),
        lambda t, d: d.DataLoader(range(3), batch_size=None, drop_last=True),
        lambda t, d: d.DataLoader(_stream(t, 3), shuffle=True),
        lambda t, d: d.DataLoader(_stream(t, 3), sampler=[1]),
        lambda t, d: d.RandomSampler(range(3), replacement=1),
        lambda t, d: d.RandomSampler(range(3), num_samples=-1),
        lambda t, d: d.WeightedRandomSampler([1.0], 0),
        lambda t, d: d.WeightedRandomSampler([[1.0]], 1),
        lambda t, d: d.BatchSampler([1], 0, False),
        lambda t, d: d.BatchSampler([1], 1, 0),
        lambda t, d: d.random_split(range(3), [1, 1]),
    ],
)
def test_bad_arguments(make: Any) -> None:
    def program(t: Any) -> Any:
        kind, text = raised(lambda: make(t, _data(t)))
        return [kind, text[:50]]

    agree(program)


def test_signatures_are_torchs() -> None:
    for name in _data(ag).__all__:
        ours, theirs = getattr(_data(ag), name), getattr(_data(torch), name)
        if name in ("Dataset", "IterableDataset", "Sampler", "default_collate", "get_worker_info"):
            assert callable(ours)
            continue
        pairs = [list(inspect.signature(f).parameters) for f in (ours, theirs)]
        assert pairs[0] == pairs[1], name


def test_a_loop_over_batches_learns() -> None:
    ag.manual_seed(0)
    x = ag.linspace(-1, 1, 64).reshape(64, 1)
    loader = _data(ag).DataLoader(_data(ag).TensorDataset(x, 3 * x - 1), 16, shuffle=True)
    model = ag.nn.Linear(1, 1)
    optimizer = ag.optim.Adam(model.parameters(), lr=0.1)
    for _ in range(30):
        for inputs, targets in loader:
            optimizer.zero_grad()
            ag.nn.functional.mse_loss(model(inputs), targets).backward()
            optimizer.step()
    assert model.weight.item() == pytest.approx(3, abs=0.05)
    assert model.bias.item() == pytest.approx(-1, abs=0.05)
