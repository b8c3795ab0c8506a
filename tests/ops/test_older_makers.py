"""torch.range, which programs of 0.4 count with, and torch.from_file, whose memory is a file's."""

from __future__ import annotations

import os
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ag_visual as ag
from tests.oracle import torch

pytestmark = pytest.mark.oracle


def told(engine: Any, *given: Any, **named: Any) -> tuple[str, str]:
    named = {k: getattr(engine, v) if isinstance(v, str) else v for k, v in named.items()}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            found = engine.range(*given, **named)
        except Exception as error:
            return type(error).__name__, str(error).partition("\n")[0]
    return str(found), str(found.dtype)


@pytest.mark.parametrize(
    ("given", "named"),
    [
        *(((1, 4), {}), ((0, 1, 0.25), {}), ((4, 1, -1), {}), ((3, 3), {}), ((0, 0.3, 0.1), {})),
        *(((1, 4), {"dtype": "int64"}), ((1, 2), {"dtype": "float64"})),
        *(((1, 4), {"requires_grad": True}), ((4,), {}), ((4, 1), {}), ((1, 4, 0), {})),
        *(((float("nan"), 3), {}), ((0, float("inf")), {})),
    ],
)
def test_range_has_its_end_and_is_torchs(given: tuple[Any, ...], named: dict[str, Any]) -> None:
    assert told(ag, *given, **named) == told(torch, *given, **named)


def test_range_is_deprecated_and_writes_into_out() -> None:
    with pytest.warns(UserWarning, match="torch.range is deprecated"):
        assert ag.range(0, 2, out=ag.empty(0)).tolist() == [0, 1, 2]


def test_a_file_is_a_tensors_memory(tmp_path: Path) -> None:
    for engine in (ag, torch):
        path = tmp_path / f"{engine.__name__}.bin"
        np.arange(5, dtype=np.float32).tofile(path)
        shared = engine.from_file(str(path), shared=True, size=5)
        shared[0] = 9
        assert np.fromfile(path, np.float32).tolist() == [9, 1, 2, 3, 4]
        private = engine.from_file(str(path), size=3, dtype=engine.float32, requires_grad=True)
        with engine.no_grad():
            private[0] = 7
        (private * private).sum().backward()
        assert private.grad.tolist() == [14, 2, 4]
        assert np.fromfile(path, np.float32).tolist() == [9, 1, 2, 3, 4]
        assert engine.from_file(str(path), shared=True, size=7).tolist() == [9, 1, 2, 3, 4, 0, 0]
        assert path.stat().st_size == 28
        assert engine.from_file(str(path)).tolist() == []


def test_files_that_cannot_be_mapped_are_told_and_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "short.bin"
    path.write_bytes(b"12345678")
    for given in ({"size": 3}, {"shared": False, "size": 2, "dtype": "float64"}):
        said = []
        for engine in (ag, torch):
            named = {k: getattr(engine, v) if isinstance(v, str) else v for k, v in given.items()}
            with pytest.raises(RuntimeError) as raised:
                engine.from_file(str(path), **named)
            said.append(str(raised.value))
        assert said[0] == said[1]
    assert path.read_bytes() == b"12345678"
    for call in (ag.from_file, torch.from_file):
        with pytest.raises(RuntimeError, match=r"unable to open file .*No such file"):
            call(str(tmp_path / "none.bin"), size=1)
    assert not (tmp_path / "none.bin").exists()
    os.mkfifo(tmp_path / "pipe")
    for place in ("/dev/null", str(tmp_path / "pipe"), str(tmp_path)):
        for shared in (True, False):
            with pytest.raises(RuntimeError, match="is not a plain file"):
                ag.from_file(place, shared=shared, size=3)
    with pytest.raises(RuntimeError, match="size is a number of elements, but is -1"):
        ag.from_file(str(path), size=-1)
