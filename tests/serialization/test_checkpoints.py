"""Files of torch.save are read as torch reads them, and torch reads those of ours."""

from __future__ import annotations

import argparse
import collections
import fractions
import io
import os
import pickle
import random
import struct
import types
import warnings
import zipfile
from pathlib import Path
from typing import Any

import numpy
import pytest

import ag_visual as ag
from ag_visual.errors import FormatError, RefusedError
from tests.oracle import torch

SEED = 20_250_105
KINDS = "bool uint8 int8 int16 int32 int64 uint16 uint32 uint64 float16 bfloat16 float32 float64"
KINDS += " complex64 complex128"


class Draw:
    """One random object, made of either package by the same draws."""

    def __init__(self, xp: Any, seed: int, kinds: str = KINDS) -> None:
        self.xp, self.chance, self.kinds = xp, random.Random(seed), kinds.split()
        self.known: list[Any] = []

    def tensor(self) -> Any:
        xp, chance = self.xp, self.chance
        if self.known and chance.random() < 0.4:
            return self.view(chance.choice(self.known))
        kind = getattr(xp, chance.choice(self.kinds))
        shape = [chance.randrange(4) for _ in range(chance.randrange(4))]
        count = int(numpy.prod(shape))
        values = [chance.randrange(2 if kind == xp.bool else 100) for _ in range(count)]
        found = xp.tensor(values, dtype=xp.int64).to(kind).reshape(shape)
        if kind.is_complex:
            found = found * (1 + 2j)
        if kind.is_floating_point and chance.random() < 0.3:
            found = xp.nn.Parameter(found, chance.random() < 0.8)
        elif kind.is_floating_point and chance.random() < 0.2:
            found.requires_grad_()
        self.known.append(found)
        return found

    def view(self, base: Any) -> Any:
        base = base.detach()
        way = self.chance.randrange(5)
        if way == 0 and base.ndim > 1:
            return base.transpose(0, -1)
        if way == 1 and base.ndim and base.shape[0] > 1:
            return base[1:]
        if way == 2 and base.ndim:
            return base[::2]
        if way == 3:
            return base.expand(2, *base.shape)
        return self.chance.choice(self.known)  # the same object again

    def value(self, depth: int = 0) -> Any:
        chance = self.chance
        way = chance.randrange(16 if depth < 3 else 8)
        if way < 5:
            return self.tensor()
        if way == 5:
            return chance.choice([None, True, -1, 255, 2**40, -(2**300), 0.5, float("inf"), 1 - 2j])
        if way == 6:
            return chance.choice(["text ü", b"\x00\xff", b"", "", "again", (), self.xp.float64])
        if way == 7:
            return self.xp.Size([2, 3])
        parts = [self.value(depth + 1) for _ in range(chance.randrange(4))]
        if way < 10:
            return parts
        if way == 10:
            return tuple(parts)
        pairs = {chance.choice([f"k{i}", i, (i, "t")]): part for i, part in enumerate(parts)}
        if way == 11:
            found = collections.OrderedDict(pairs)
            if chance.random() < 0.5:
                found._metadata = collections.OrderedDict(version=1)  # type: ignore[attr-defined]
            return found
        if way == 12:
            return {1, "a", (2, 3)}
        if way == 13:
            return collections.Counter({"a": 2})
        return pairs


def alike(ours: Any, theirs: Any) -> None:
    """The same object, tensors with values, dtypes, strides, flags."""
    if isinstance(theirs, torch.Tensor):
        assert isinstance(ours, ag.Tensor)
        assert str(ours.dtype) == str(theirs.dtype)
        assert tuple(ours.shape) == tuple(theirs.shape)
        assert ours.stride() == theirs.stride() or not theirs.numel()
        assert ours.requires_grad == theirs.requires_grad
        assert ours.is_leaf
        assert isinstance(ours, ag.nn.Parameter) == isinstance(theirs, torch.nn.Parameter)
        assert ours.tolist() == theirs.tolist()
        return
    if isinstance(theirs, torch.Size | torch.dtype):
        assert str(ours) == str(theirs)
        return
    assert type(ours) is type(theirs)
    if isinstance(theirs, list | tuple):
        assert len(ours) == len(theirs)
        for one, other in zip(ours, theirs, strict=True):
            alike(one, other)
    elif isinstance(theirs, dict):
        assert list(ours) == list(theirs)
        for key in theirs:
            alike(ours[key], theirs[key])
        assert getattr(ours, "_metadata", 0) == getattr(theirs, "_metadata", 0)
    else:
        assert ours == theirs


def paths(value: Any, path: tuple[Any, ...] = ()) -> dict[tuple[Any, ...], Any]:
    """The tensors in an object by how to get to them."""
    if isinstance(value, ag.Tensor | torch.Tensor):
        return {path: value}
    found: dict[tuple[Any, ...], Any] = {}
    if isinstance(value, dict | list | tuple):
        items = value.items() if isinstance(value, dict) else enumerate(value)
    else:
        items = ()
    for key, part in items:
        found |= paths(part, (*path, key))
    return found


def alike_after_writes(ours: Any, theirs: Any, seed: int) -> None:
    """And after the same writes through each of them: they share the same memory."""
    alike(ours, theirs)
    one, other = paths(ours), paths(theirs)
    for path in one:
        if one[path].numel() and "uint" not in str(one[path].dtype) and 0 not in one[path].stride():
            for x in (one[path], other[path]):
                x.detach().zero_()
            alike(ours, theirs)
    for a in one:
        for b in one:
            assert (one[a] is one[b]) == (other[a] is other[b]), (a, b)


@pytest.mark.oracle
@pytest.mark.parametrize("form", ["archive", "protocol 4", "stream"])
def test_random_objects_of_torch_are_read(form: str) -> None:
    options = {"archive": {}, "protocol 4": {"pickle_protocol": 4}}.get(
        form, {"_use_new_zipfile_serialization": False}
    )
    # torch cannot read its own streams of the others.
    kinds = KINDS.replace("uint16 uint32 uint64 ", "") if form == "stream" else KINDS
    for seed in range(60):
        value = [Draw(torch, SEED + seed, kinds).value()]
        file = io.BytesIO()
        try:
            torch.save(value, file, **options)
        except RuntimeError:  # two dtypes in one storage
            continue
        file.seek(0)
        ours = ag.load(file)
        assert file.read() == b"" or form != "stream"
        file.seek(0)
        alike_after_writes(ours, torch.load(file, weights_only=False), seed)


@pytest.mark.oracle
def test_random_objects_of_ours_are_read_by_torch() -> None:
    for seed in range(100):
        value = [Draw(ag, SEED + seed).value()]
        file = io.BytesIO()
        ag.save(value, file)
        file.seek(0)
        theirs = torch.load(file, weights_only=True)
        file.seek(0)
        alike_after_writes(ag.load(file), theirs, seed)


@pytest.mark.oracle
def test_a_model_goes_on_in_the_other_package(tmp_path: Any) -> None:
    def made(xp: Any) -> tuple[Any, Any]:
        model = xp.nn.Sequential(xp.nn.Linear(3, 4), xp.nn.BatchNorm1d(4), xp.nn.Linear(4, 1))
        model.double()
        return model, xp.optim.Adam(model.parameters(), lr=0.1)

    def step(xp: Any, model: Any, optimizer: Any) -> list[Any]:
        optimizer.zero_grad()
        loss = model(xp.linspace(0, 1, 12, dtype=xp.float64).reshape(4, 3) ** 2).pow(2).sum()
        loss.backward()
        optimizer.step()
        return [loss.item(), *(p.grad.tolist() for p in model.parameters())]

    begun = made(torch)
    step(torch, *begun)
    path = tmp_path / "checkpoint.pt"
    torch.save({"model": begun[0].state_dict(), "optimizer": begun[1].state_dict()}, path)
    for xp, other in ((ag, torch), (torch, ag)):
        state = xp.load(path)
        mine = made(xp)
        mine[0].load_state_dict(state["model"])
        mine[1].load_state_dict(state["optimizer"])
        found = step(xp, *mine)
        expected = step(torch, *begun) if xp is ag else found
        assert numpy.allclose(
            numpy.hstack([numpy.ravel(x) for x in found]),
            numpy.hstack([numpy.ravel(x) for x in expected]),
            1e-10,
            1e-12,
        )
        xp.save({"model": mine[0].state_dict(), "optimizer": mine[1].state_dict()}, path)
        assert other.load(path).keys() == state.keys()


@pytest.mark.oracle
def test_what_else_real_checkpoints_hold() -> None:
    """Attributes, buffers, sparse and conjugated tensors, options, arrays of NumPy."""
    weight = torch.nn.Parameter(torch.ones(2))
    weight.tag = "first"
    found = torch_to_ours(
        {
            "weight": weight,
            "buffer": torch.nn.Buffer(torch.ones(1)),
            "sparse": torch.eye(2).to_sparse(),
            "conj": torch.tensor([1 + 2j]).conj(),
            "neg": torch.tensor([1 + 2j]).conj().imag,
            "options": argparse.Namespace(lr=0.5, layers=[1, 2]),
            "space": types.SimpleNamespace(a=torch.ones(1)),
            "default": collections.defaultdict(list, {1: [2]}),
            "array": numpy.arange(6.0).reshape(2, 3).T,
            "number": numpy.float64(0.5),
            "names": numpy.array(["a", "bc"]),
            "type": torch.device("cuda:1"),
        }
    )
    assert found["weight"].tag == "first"
    assert type(found["weight"]) is ag.nn.Parameter
    assert isinstance(found["buffer"], ag.nn.Buffer)
    assert found["sparse"].is_sparse
    assert found["sparse"].to_dense().tolist() == [[1, 0], [0, 1]]
    assert found["conj"].tolist() == [1 - 2j]
    assert found["neg"].tolist() == [-2.0]
    assert found["options"] == argparse.Namespace(lr=0.5, layers=[1, 2])
    assert found["space"].a.tolist() == [1.0]
    assert found["default"][5] == []
    assert found["array"].tolist() == [[0, 3], [1, 4], [2, 5]]
    assert found["number"] == 0.5
    assert found["names"].tolist() == ["a", "bc"]
    assert found["type"] == ag.device("cuda:1")


def torch_to_ours(value: Any) -> Any:
    file = io.BytesIO()
    torch.save(value, file)
    file.seek(0)
    return ag.load(file)


@pytest.mark.oracle
def test_the_same_from_ours_to_ours() -> None:
    weight = ag.nn.Parameter(ag.ones(2))
    weight.tag = "first"
    value = {
        "weight": weight,
        "buffer": ag.nn.Buffer(ag.ones(1)),
        "sparse": ag.eye(2).to_sparse(),
        "options": argparse.Namespace(x=ag.ones(1), folder=Path("a") / "b"),
        "array": numpy.arange(6).reshape(2, 3).T,
        "narrow": numpy.ones(2, ag.bfloat16.np),
        "default": collections.defaultdict(list, {1: [2]}),
    }
    file = io.BytesIO()
    ag.save(value, file)
    file.seek(0)
    found = ag.load(file)
    assert found["weight"].tag == "first"
    assert isinstance(found["buffer"], ag.nn.Buffer)
    assert found["sparse"].to_dense().tolist() == [[1, 0], [0, 1]]
    assert found["options"].x.tolist() == [1.0]
    assert found["options"].folder == Path("a/b")
    file.seek(0)
    assert torch.load(file, weights_only=False)["options"].folder == Path("a/b")
    assert found["array"].tolist() == [[0, 3], [1, 4], [2, 5]]
    assert found["narrow"].dtype == ag.bfloat16.np
    assert found["default"][5] == []


@pytest.mark.oracle
def test_map_location_as_a_function() -> None:
    file = io.BytesIO()
    torch.save({"w": torch.ones(3), "b": torch.ones(2).half()}, file)
    asked = []

    def place(storage: Any, location: str) -> Any:
        asked.append((storage.nbytes(), location))
        return storage.cpu() if len(asked) > 1 else None

    file.seek(0)
    assert ag.load(file, place)["w"].tolist() == [1, 1, 1]
    assert asked == [(12, "cpu"), (4, "cpu")]
    file.seek(0)
    with pytest.raises(RuntimeError, match="CUDA"):
        ag.load(file, lambda storage, location: storage.cuda(63))


@pytest.mark.oracle
def test_a_file_without_checksums_is_read() -> None:
    torch.serialization.set_crc32_options(False)
    try:
        assert torch_to_ours({"w": torch.arange(3)})["w"].tolist() == [0, 1, 2]
    finally:
        torch.serialization.set_crc32_options(True)


# What is refused, and what it says ---------------------------------------------------------------


class Evil:
    def __reduce__(self) -> Any:
        return os.system, ("echo evil > ran",)


@pytest.mark.oracle
@pytest.mark.parametrize("new", [True, False])
@pytest.mark.parametrize(
    ("make", "told"),
    [
        (Evil, r"GLOBAL posix\.system .* no code"),
        (
            lambda: torch.nn.Linear(1, 1),
            r"torch\.nn\.modules\.linear\.Linear .* save its state_dict\(\)",
        ),
        (lambda: fractions.Fraction(1, 2), r"add_safe_globals\(\[fractions\.Fraction\]\)"),
        (lambda: print, r"add_safe_globals\(\[print\]\)"),
        (lambda: torch.optim.SGD, "GLOBAL torch.optim.sgd.SGD"),
        (lambda: numpy.array([{}]), "NumPy array of dtype object"),
        (lambda: torch.ones(1, device="meta"), "_rebuild_meta_tensor_no_storage"),
    ],
)
def test_what_is_refused_is_named(make: Any, told: str, new: bool, tmp_path: Any) -> None:
    path = tmp_path / "weights.pt"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.save(make(), path, _use_new_zipfile_serialization=new)
    with pytest.raises(RefusedError, match=told) as caught:
        ag.load(path)
    assert isinstance(caught.value, pickle.UnpicklingError)
    assert "weights.pt" in str(caught.value)
    assert os.listdir(tmp_path) == ["weights.pt"]


def test_classes_that_the_program_allows() -> None:
    file = io.BytesIO()
    with ag.serialization.safe_globals([fractions.Fraction]):
        assert ag.serialization.get_safe_globals() == [fractions.Fraction]
        ag.save([fractions.Fraction(1, 2)], file)
        file.seek(0)
        assert ag.load(file) == [fractions.Fraction(1, 2)]
    file.seek(0)
    with pytest.raises(RefusedError, match="Fraction"):
        ag.load(file)
    with pytest.raises(TypeError, match="Fraction"):
        ag.save([fractions.Fraction(1, 2)], file)
    file = io.BytesIO()
    file.write(pickle.dumps(0))
    with ag.serialization.safe_globals([(os.system, "os.system")]), pytest.raises(RefusedError):
        ag.load(archive(b"\x80\x02cos\nsystem\nX\x02\x00\x00\x00ls\x85R."))


def archive(pickled: bytes, **parts: bytes) -> io.BytesIO:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as made:
        made.writestr("archive/data.pkl", pickled)
        for name, data in parts.items():
            made.writestr(f"archive/data/{name}", data)
    file.seek(0)
    return file


def storage(count: int, kind: bytes = b"Float", key: bytes = b"k") -> bytes:
    return (
        b"(X\x07\x00\x00\x00storagectorch\n"
        + kind
        + b"Storage\nX\x01\x00\x00\x00"
        + key
        + b"X\x03\x00\x00\x00cpu"
        + b"\x8a\x08"
        + struct.pack("<q", count)
        + b"tQ"
    )


def tensor(offset: int, size: int, stride: int, count: int = 2) -> bytes:
    numbers = [b"\x8a\x08" + struct.pack("<q", n) for n in (offset, size, stride)]
    return (
        b"\x80\x02ctorch._utils\n_rebuild_tensor_v2\n("
        + storage(count)
        + numbers[0]
        + numbers[1]
        + b"\x85"
        + numbers[2]
        + b"\x85\x89Nt"
        + b"R."
    )


@pytest.mark.parametrize(
    ("data", "told"),
    [
        (tensor(0, 2, 1), ""),
        (tensor(1, 2, 1), "outside of its memory"),
        (tensor(0, 2, 2), "outside of its memory"),
        (tensor(0, 2**62, 1), "outside of its memory"),
        (tensor(-1, 1, 1), "where a size should be"),
        (tensor(0, 2, -1), "where a size should be"),
        (tensor(0, 2, 1, 3), "8 bytes, not 12"),
        (tensor(0, 2, 1, 2**60), "bytes, not"),
        (b"\x80\x02X\xff\xff\xff\x7fabc.", "ends within an object"),
        (b"\x80\x04\x8e" + b"\xff" * 8 + b".", "ends within an object"),
        (b"\x80\x02Nr\xff\xff\xff\xff.", ""),
        (b"\x80\x02h\x07.", "out of order"),
        (b"\x80\x02t.", "out of order"),
        (b"\x80\x02.", "out of order"),
        (b"\x80\x02]K\x01K\x02b.", "sets the state"),
        (b"\x80\x02K\x01)R.", "not a function"),
        (b"\x80\x02c__builtin__\nbytearray\n\x8a\x05\x00\x00\x00\x00\x02\x85R.", "are none"),
        (b"\x80\x02c__builtin__\ngetattr\n.", r"GLOBAL builtins\.getattr"),
        (b"\x80\x02ctorch\nload\n.", r"GLOBAL torch\.load"),
        (b"\x80\x02)" + b"2\x86" * 60 + b"q\x00}q\x01h\x00K\x01s.", "key of too many parts"),
        (b"\x80\x02" + b"(" * 5, "ends within an object"),
        (b"\x80\x02i.", "pickle instruction"),
    ],
)
def test_attacks(data: bytes, told: str) -> None:
    file = archive(data, k=struct.pack("<2f", 1, 2))
    if told:
        with pytest.raises(FormatError, match=told):
            ag.load(file)
    else:
        ag.load(file)


def test_an_archive_that_is_not_as_torch_writes_it() -> None:
    bomb = io.BytesIO()
    with zipfile.ZipFile(bomb, "w", zipfile.ZIP_DEFLATED) as made:
        made.writestr("a/data.pkl", tensor(0, 2, 1, 25_000_000))
        made.writestr("a/data/k", bytes(100_000_000))
    bomb.seek(0)
    with pytest.raises(FormatError, match="compressed"):
        ag.load(bomb)
    script = io.BytesIO()
    with zipfile.ZipFile(script, "w") as made:
        made.writestr("a/data.pkl", b"\x80\x02N.")
        made.writestr("a/constants.pkl", b"\x80\x02).")
    script.seek(0)
    with pytest.raises(RefusedError, match="TorchScript"):
        ag.load(script)
    good = archive(tensor(0, 2, 1), k=struct.pack("<2f", 1, 2)).getvalue()
    spoilt = good.replace(struct.pack("<2f", 1, 2), struct.pack("<2f", 1, 3))
    with pytest.raises(FormatError, match="other bytes than were written"):
        ag.load(io.BytesIO(spoilt))
