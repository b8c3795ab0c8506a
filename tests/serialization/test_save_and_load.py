"""save and load: everything comes back, memory stays shared, nothing is run, no file is half."""

from __future__ import annotations

import collections
import io
import json
import pickle
import struct
import zipfile
from pathlib import Path
from typing import Any

import numpy
import pytest

import ag_visual as ag
from ag_visual.arrays import backend as backends
from tests.serialization.formats import Safetensors

DTYPES = "bool uint8 int8 int16 int32 int64 float16 bfloat16 float32 float64 complex64 complex128"


def through(value: Any, kind: type[io.BytesIO] = io.BytesIO) -> Any:
    file = kind()
    ag.save(value, file)
    file.seek(0)
    return ag.load(file)


both = pytest.mark.parametrize("kind", [io.BytesIO, Safetensors])


@both
@pytest.mark.parametrize("name", DTYPES.split())
@pytest.mark.parametrize("shape", [(), (3,), (2, 3), (0, 2)])
def test_every_dtype(name: str, shape: tuple[int, ...], kind: Any) -> None:
    dtype = getattr(ag, name)
    x = (ag.arange(numpy.prod(shape, dtype=int)).reshape(shape) % 2).to(dtype)
    x = x * (1 + 2j) if dtype.is_complex else x
    back = through(x, kind)
    assert back.dtype is dtype
    assert back.shape == x.shape
    assert back.tolist() == x.tolist()
    assert back.stride() == x.stride()


NESTED: list[Any] = [
    None,
    True,
    -(2**70),
    0.1,
    1 - 2j,
    "text ü",
    b"\x00\xff",
    [1, [2, (3, {"a": 4})]],
    {1: "a", 2.5: "b", None: "c", (1, 2): "d", "e": {}},
    {3, 4},
    frozenset({5}),
    collections.OrderedDict(b=1, a=2),
    collections.Counter({3: 2}),
    ag.float64,
    ag.Size([2, 3]),
    numpy.float32(0.5),
    numpy.int64(7),
]


@both
@pytest.mark.parametrize("value", NESTED, ids=repr)
def test_containers_and_numbers(value: Any, kind: Any) -> None:
    back = through(value, kind)
    assert back == value
    assert type(back) is type(value)


@both
def test_numbers_that_are_no_json(kind: Any) -> None:
    inf, nan = through([float("-inf"), float("nan")], kind)
    assert inf == float("-inf")
    assert nan != nan
    array = through(numpy.array([[1, 2]], dtype=numpy.int16), kind)
    assert type(array) is numpy.ndarray
    assert array.dtype == numpy.int16
    assert array.tolist() == [[1, 2]]


@both
def test_views_share_memory_and_a_tensor_is_one(kind: Any) -> None:
    base = ag.arange(12.0).reshape(3, 4)
    w = ag.nn.Parameter(ag.ones(2))
    found = through(
        {"base": base, "row": base[1], "column": base.t()[2], "w": w, "again": [w]}, kind
    )
    found["row"][2] = 99.0
    assert found["base"][1, 2].item() == 99.0
    assert found["column"].tolist() == [2.0, 99.0, 10.0]
    assert found["column"].stride() == (4,)
    assert found["w"] is found["again"][0]
    assert type(found["w"]) is ag.nn.Parameter
    assert found["w"].requires_grad
    assert not found["base"].requires_grad


def test_only_what_is_seen_is_stored() -> None:
    file = io.BytesIO()
    ag.save(ag.zeros(1000)[10:12], file)
    assert len(file.getvalue()) < 2000


@both
def test_complex_and_its_parts_share_memory(kind: Any) -> None:
    z = ag.tensor([1 + 2j, 3j])
    found = through([z, ag.view_as_real(z), z.expand(3, 2)], kind)
    found[1][0, 1] = 5.0
    assert found[0].tolist() == [1 + 5j, 3j]
    assert found[2].stride() == (0, 1)
    assert found[2][2].tolist() == [1 + 5j, 3j]


@both
def test_a_write_to_shared_memory_is_noticed(kind: Any) -> None:
    """Each has its version counter, as in torch; the write count is common."""
    a = ag.ones(3)
    x, y = through([a, a[:2]], kind)
    w = ag.ones(3, requires_grad=True)
    loss = (w * x).sum()
    y.mul_(2)
    assert x._version == 0
    with pytest.warns(UserWarning, match="written"):
        loss.backward()


def test_a_model_and_its_optimizer_go_on(tmp_path: Path) -> None:
    def made() -> tuple[Any, Any, Any]:
        model = ag.nn.Sequential(ag.nn.Linear(3, 4), ag.nn.BatchNorm1d(4), ag.nn.Linear(4, 1))
        optimizer = ag.optim.Adam(model.parameters(), lr=0.1)
        return model, optimizer, ag.optim.lr_scheduler.MultiStepLR(optimizer, [1, 3])

    def step(model: Any, optimizer: Any, scheduler: Any) -> None:
        optimizer.zero_grad()
        model(ag.arange(12.0).reshape(4, 3)).sum().backward()
        optimizer.step()
        scheduler.step()

    one = made()
    step(*one)
    ag.save([part.state_dict() for part in one], tmp_path / "checkpoint.safetensors")
    two = made()
    for part, state in zip(two, ag.load(tmp_path / "checkpoint.safetensors"), strict=True):
        part.load_state_dict(state)
    step(*one)
    step(*two)
    for p, q in zip(one[0].parameters(), two[0].parameters(), strict=True):
        assert p.tolist() == q.tolist()
    assert one[2].get_last_lr() == two[2].get_last_lr()


# The format ----------------------------------------------------------------------------------


def _read(data: bytes) -> dict[str, numpy.ndarray[Any, Any]]:
    """A reader of safetensors by its specification, apart from the package's."""
    (length,) = struct.unpack("<Q", data[:8])
    header = json.loads(data[8 : 8 + length])
    assert (8 + length) % 8 == 0
    kinds = {"F32": "<f4", "F64": "<f8", "I64": "<i8"}
    found = {}
    for name, entry in header.items():
        if name == "__metadata__":
            assert all(isinstance(v, str) for v in entry.values())
            continue
        begin, end = (8 + length + o for o in entry["data_offsets"])
        found[name] = numpy.frombuffer(data[begin:end], kinds[entry["dtype"]]).reshape(
            entry["shape"]
        )
    return found


def test_others_find_the_arrays_by_name() -> None:
    model = ag.nn.Linear(2, 3)
    file = Safetensors()
    ag.save(model.state_dict(), file)
    found = _read(file.getvalue())
    assert sorted(found) == ["bias", "weight"]
    assert found["weight"].tolist() == model.weight.tolist()


def test_headers_of_every_length() -> None:
    """One of 640 bytes begins like a pickle, whose first bytes are 80 02."""
    lengths = set()
    for i in range(0, 1300, 4):
        file = Safetensors()
        ag.save({"w" * (i // 2): ag.ones(1)}, file)
        lengths.add(struct.unpack("<Q", file.getvalue()[:8])[0])
        file.seek(0)
        assert ag.load(file)["w" * (i // 2)].tolist() == [1.0]
    assert {640, 896, 1152, 1408} <= lengths


def test_files_of_others() -> None:
    header = {
        "a": {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]},
        "b": {"dtype": "BF16", "shape": [1, 1], "data_offsets": [8, 10]},
    }
    text = json.dumps(header).encode()
    values = numpy.array([1, 2], "<f4").tobytes() + b"\x80\x3f"
    found = ag.load(io.BytesIO(struct.pack("<Q", len(text)) + text + values))
    assert list(found) == ["a", "b"]
    assert found["a"].tolist() == [1.0, 2.0]
    assert found["b"].dtype is ag.bfloat16
    assert found["b"].tolist() == [[1.0]]
    found["a"].mul_(2)


# What is refused -----------------------------------------------------------------------------


def _zip_file() -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("archive/data.pkl", b"")
    return file.getvalue()


def _npz_file() -> bytes:
    file = io.BytesIO()
    numpy.savez(file, a=numpy.ones(2))
    return file.getvalue()


def _saved(cut: int) -> bytes:
    file = Safetensors()
    ag.save({"w": ag.ones(8)}, file)
    return file.getvalue()[:cut]


@pytest.mark.parametrize(
    ("make", "told"),
    [
        (_zip_file, "it ends within an object"),
        (lambda: pickle.dumps([1]), "written by pickle"),
        (_npz_file, "numpy.load"),
        (lambda: b"", "is not a safetensors file"),
        (lambda: b"hello, this is some text", "is not a safetensors file"),
        (lambda: struct.pack("<Q", 4) + b"{no}", "its header cannot be read"),
        (lambda: _saved(-4), "is cut off"),
    ],
)
def test_other_files_are_refused(make: Any, told: str, tmp_path: Path) -> None:
    path = tmp_path / "weights.pt"
    path.write_bytes(make())
    with pytest.raises(ValueError, match=r"weights\.pt") as caught:
        ag.load(path)
    assert told in str(caught.value)


@pytest.mark.parametrize(
    ("value", "told"),
    [
        (ag.nn.Linear(1, 1), "save its state_dict()"),
        ({"f": [len]}, "f[0] is a builtins.builtin_function_or_method"),
        ({"a": {"b": object()}}, "a.b is a builtins.object"),
        (numpy.array([None]), "NumPy array of object"),
    ],
)
def test_what_cannot_be_saved(value: Any, told: str) -> None:
    with pytest.raises(TypeError) as caught:
        ag.save(value, io.BytesIO())
    assert told in str(caught.value)


def test_a_container_in_itself() -> None:
    value: dict[str, Any] = {}
    value["self"] = [value]
    found = through(value)
    assert found["self"][0] is found
    with pytest.raises(ValueError, match="contains itself"):
        ag.save(value, Safetensors())


def test_a_failed_save_leaves_the_old_file(tmp_path: Path, monkeypatch: Any) -> None:
    path = tmp_path / "w.safetensors"
    ag.save({"w": ag.ones(2)}, path)
    before = path.read_bytes()
    with pytest.raises(TypeError):
        ag.save({"w": ag.zeros(2), "f": object()}, path)

    def full(*_: Any) -> None:
        raise OSError("No space left on device")

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(OSError, match="No space"):
        ag.save({"w": ag.zeros(2)}, path)
    assert path.read_bytes() == before
    assert [p.name for p in tmp_path.iterdir()] == ["w.safetensors"]


def test_a_device_that_is_not_here_is_named_with_what_to_do(monkeypatch: Any) -> None:
    real = backends.backend_for

    def absent(where: Any) -> Any:
        if where.type == "cuda":
            raise backends.BackendUnavailable("device 'cuda' needs CuPy")
        return real(where)

    monkeypatch.setattr(backends, "backend_for", absent)
    file = Safetensors()
    ag.save({"a": ag.ones(2)}, file)
    data = file.getvalue().replace(b'device\\": \\"cpu', b'device\\": \\"cuda')
    (length,) = struct.unpack("<Q", data[:8])
    file = io.BytesIO(struct.pack("<Q", length + 1) + data[8:])
    with pytest.raises(RuntimeError, match=r"deserialize object on a CUDA .* map_location='cpu'"):
        ag.load(file)
    file.seek(0)
    assert ag.load(file, "cpu")["a"].tolist() == [1, 1]


def test_map_location() -> None:
    file = io.BytesIO()
    ag.save(ag.ones(2), file)
    for where in ("cpu", ag.device("cpu"), {"cuda:0": "cpu"}):
        file.seek(0)
        assert ag.load(file, where).device == ag.device("cpu")
    with pytest.raises(TypeError, match="map_location"):
        ag.load(file, 3)


def test_tensors_that_lay_in_one_memory_look_into_it_again(tmp_path: Path) -> None:
    base = ag.arange(6.0)
    ag.save([base[2:4], base], tmp_path / "views")
    view, whole = ag.load(tmp_path / "views")
    assert view.storage_offset() == 2
    assert view.as_strided((2,), (2,), 0).tolist() == [0.0, 2.0]
    whole[3] = 7.0
    assert view.tolist() == [2.0, 7.0]


def test_loaded_expanded_memory_is_not_written(tmp_path: Path) -> None:
    ag.save(ag.ones(1).expand(3), tmp_path / "expanded")
    with pytest.raises(RuntimeError, match="more than one element of the written-to tensor"):
        ag.load(tmp_path / "expanded").add_(1)
