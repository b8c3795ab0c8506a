"""Damaged and hostile files: one error, no memory beyond the file, no code, nothing changed."""

from __future__ import annotations

import base64
import builtins
import contextlib
import copy
import functools
import gzip
import io
import json
import os
import pickle
import random
import struct
import subprocess
import tracemalloc
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import ag_visual as ag
from ag_visual.errors import FormatError
from tests.serialization.formats import Safetensors

SEED = 20_240_817
SLACK = 2_000_000
"""Bytes that reading any small file may take, its JSON as objects included."""

Files = Iterator[tuple[str, bytes]]

# What stands in the place of a value: other types, other sizes, names that are not.
ODD: tuple[Any, ...] = (
    *(None, True, -1, 0, 1, 2**31, 2**63, 2**64, 10**13, 10**30, 0.5, -0.0, 1e300, float("nan")),
    *("", "x", "F32", "cpu:-1", "__class__", "os.system", "\ud800", "0" * 500),
    *([], [0], [[]], [-1, -1], [10**13], [2**32, 2**32], [0, 10**30], [1] * 70, [0.5], ["2"]),
    *({}, {"tensor": 0}, {"tensor": -1}, {"set": [[]]}, {"a": 1, "b": 2}, {"dict": [[1]]}),
)


def nested(depth: int, way: str) -> str:
    opening, closing = {"list": ("[", "]"), "tuple": ('{"tuple":[', "]}"), "key": ('{"a":', "}")}[
        way
    ]
    return opening * depth + "1" + closing * depth


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Where JSON can be changed: the path of every value below."""
    items = value.items() if isinstance(value, dict) else enumerate(value)
    for key, part in items:
        yield (*path, key)
        if isinstance(part, dict | list):
            yield from places(part, (*path, key))


def changed(value: Any, path: tuple[Any, ...], new: Any) -> Any:
    found = copy.deepcopy(value)
    holder = functools.reduce(lambda part, key: part[key], path[:-1], found)
    if new is ODD:
        del holder[path[-1]]
    else:
        holder[path[-1]] = new
    return found


def flipped(data: bytes, chance: random.Random, most: int) -> bytes:
    found = bytearray(data)
    for _ in range(chance.randint(1, most)):
        found[chance.randrange(len(found))] ^= 1 << chance.randrange(8)
    return bytes(found)


# safetensors -----------------------------------------------------------------------------------


def packed(header: Any, body: bytes) -> bytes:
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + body


@functools.cache
def checkpoint() -> tuple[bytes, dict[str, Any], bytes]:
    """A saved file, its header as objects, and its body."""
    import collections

    import numpy

    base = ag.arange(12.0).reshape(3, 4)
    value = {
        "base": base,
        "row": base[1],
        "w": ag.nn.Parameter(ag.ones(2)),
        "z": ag.tensor([1 + 2j]),
        "many": [(1, 2.5, float("inf")), {3}, frozenset({4}), b"bytes", 1 - 2j, None, "text"],
        "odd": [ag.float64, ag.device("cpu"), ag.Size([2]), numpy.float32(0.5), ag.tensor(True)],
        "ordered": collections.OrderedDict(b=1),
        "count": collections.Counter({3: 2}),
        5: {"deep": [[[[]]]]},
    }
    file = Safetensors()
    ag.save(value, file)
    data = file.getvalue()
    (length,) = struct.unpack("<Q", data[:8])
    return data, json.loads(data[8 : 8 + length]), data[8 + length :]


def hostile_checkpoints() -> Files:
    chance = random.Random(SEED)
    data, header, body = checkpoint()
    for i in range(200):
        yield f"flip {i}", flipped(data, chance, 1 + i % 6)
    for i in range(60):
        yield f"cut {i}", data[: chance.randrange(len(data))]
    spots = list(places({key: part for key, part in header.items() if key != "__metadata__"}))
    for i in range(90):
        path, new = chance.choice(spots), chance.choice((*ODD, ODD))
        yield f"header {path} {i}", packed(changed(header, path, new), body)
    about = json.loads(header["__metadata__"]["ag_visual"])
    spots = list(places(about))
    for i in range(220):
        path, new = chance.choice(spots), chance.choice((*ODD, ODD))
        text = json.dumps(changed(about, path, new))
        yield f"tree {path} {i}", packed(header | {"__metadata__": {"ag_visual": text}}, body)
    yield from hostile_headers(header, body)


def hostile_headers(header: dict[str, Any], body: bytes) -> Files:
    for length in (2**63, 2**64 - 1, 10**8, 10**8 - 1, 10**6, 0, 1, 2):
        yield f"length {length}", struct.pack("<Q", length) + b'{"a":1}'
    for text in (b"", b"[]", b"{", b"{}}", b"null", b"1", b'"a"', b"\xff\xfe", b"{'a': 1}", b" {}"):
        yield f"text {text!r}", packed(text, b"")
    for way in ("list", "tuple", "key"):
        for depth in (900, 5_000, 200_000):
            deep = nested(depth, way)
            yield f"deep header {way} {depth}", packed(f'{{"a": {deep}}}'.encode(), b"")
            for about in (deep, f'{{"version": 1, "tensors": [], "tree": {deep}}}'):
                metadata = {"__metadata__": {"ag_visual": about}}
                yield f"deep {way} {depth}", packed(metadata, b"")
    for metadata in (*ODD, {"ag_visual": 1}, {"ag_visual": ""}, {"ag_visual": "{"}):
        yield f"metadata {metadata!r:.20}", packed(header | {"__metadata__": metadata}, body)
    for about in ODD:
        metadata = {"__metadata__": {"ag_visual": json.dumps(about)}}
        yield f"about {about!r:.20}", packed(header | metadata, body)
    whole = {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]}
    for key in whole:
        for new in ODD:
            yield f"{key} {new!r:.20}", packed({"a": whole | {key: new}}, bytes(8))
    huge = [10**13], [2**31, 2**31, 4], [750_000_000], [2**62], [3, 2**61], [2**32, 2**32, 0]
    for shape in huge:
        count = 4
        for size in shape:
            count *= size
        entry = {"dtype": "F32", "shape": shape, "data_offsets": [0, count]}
        yield f"huge {shape}", packed({"a": entry}, bytes(100))
    twice = {"a": whole, "b": whole}
    yield "two at one place", packed(twice, bytes(8))
    yield "a hole", packed({"a": whole, "b": whole | {"data_offsets": [16, 24]}}, bytes(24))
    yield "backwards", packed({"a": whole | {"data_offsets": [8, 0]}}, bytes(8))
    yield "negative", packed({"a": whole | {"data_offsets": [-8, 0]}}, bytes(8))
    name = f'"a": {json.dumps(whole)}'
    yield "one name twice", packed(f"{{{name}, {name[:-2]}9]}}}}".encode(), bytes(8))
    for dtype in ("F8_E4M3", "F4", "f32", "float32", "O", "V8", "M8[s]", "<U4", "object"):
        yield f"dtype {dtype}", packed({"a": whole | {"dtype": dtype}}, bytes(8))
    fact = {
        "dtype": "float32",
        "shape": [2],
        "stride": [1],
        "requires_grad": False,
        "in": "a",
        "parameter": False,
        "device": "cpu",
        "offset": 0,
    }
    hostile = [
        *({"shape": [10**13]}, {"shape": [3]}, {"stride": [-1]}, {"stride": [10**12]}),
        *({"shape": [2, 2]}, {"offset": -4}, {"offset": 4}, {"offset": 10**20}, {"in": "b"}),
        *({"dtype": "object"}, {"dtype": "__doc__"}, {"dtype": "int32", "requires_grad": True}),
        *({"device": "nowhere"}, {"device": "cuda:-1"}, {"shape": [10**30], "stride": [0]}),
        *({"shape": [1] * 100, "stride": [1] * 100}, {"shape": [2**40] * 3, "stride": [0] * 3}),
    ]
    for fault in hostile:
        about = {"version": 1, "tensors": [fact | fault], "tree": {"tensor": 0}}
        metadata = {"__metadata__": {"ag_visual": json.dumps(about)}}
        yield f"tensor {fault!r:.40}", packed({"a": whole, **metadata}, bytes(8))
    pickled = b"\x80\x04\x95\x1d\x00\x00\x00\x00\x00\x00\x00cposix\nsystem\n(S'touch ran'\ntR."
    for start in (b"", b"PK\x03\x04", b"PK\x03\x04" + bytes(100), b"\x80", b"\x80\x02"):
        yield f"pickle {start!r:.20}", start + pickled


# Recordings ------------------------------------------------------------------------------------


@functools.cache
def recording() -> dict[str, Any]:
    x = ag.tensor([1.0, 2.0], requires_grad=True)
    with ag.record() as recorded:
        (x * x).sum().backward()
    found: dict[str, Any] = json.loads(json.dumps(recorded.recording.record))
    return found


def hostile_recordings() -> Files:
    chance = random.Random(SEED + 1)
    record = recording()
    text = json.dumps(record).encode()
    small = gzip.compress(text, mtime=0)
    for i in range(100):
        yield f"flip {i}", flipped(text, chance, 1 + i % 6)
        yield f"flip gzip {i}", flipped(small, chance, 1 + i % 3)
    for i in range(30):
        yield f"cut {i}", text[: chance.randrange(len(text))]
        yield f"cut gzip {i}", small[: chance.randrange(len(small))]
    spots = [path for path in places(record) if path[0] != "cards"]
    tables = [path for path in spots if "tables" in path]
    for i in range(200):
        path = chance.choice(tables if i % 2 else spots)
        new = chance.choice((*ODD, ODD))
        yield f"value {path} {i}", json.dumps(changed(record, path, new)).encode()
    batch = record["batches"][0]
    buffer = base64.b64decode(batch["buffer"])
    for i in range(60):
        spoilt = base64.b64encode(flipped(buffer, chance, 8)).decode()
        batches = [batch | {"buffer": spoilt}, *record["batches"][1:]]
        yield f"columns {i}", json.dumps(record | {"batches": batches}).encode()
    for way in ("list", "tuple", "key"):
        for depth in (900, 200_000):
            yield f"deep {way} {depth}", nested(depth, way).encode()
            for name in ("lesson", "details", "more"):
                more = f', "{name}": {nested(depth, way)}}}'
                yield f"deep {name} {way} {depth}", text[:-1] + more.encode()


# checkpoints of torch --------------------------------------------------------------------------


def zipped(members: dict[str, bytes]) -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as made:
        for name, data in members.items():
            made.writestr(name, data)
    return file.getvalue()


@functools.cache
def archive() -> tuple[bytes, dict[str, bytes]]:
    """A saved archive, and its members."""
    import collections

    import numpy

    base = ag.arange(12.0).reshape(3, 4)
    model = ag.nn.Linear(2, 2)
    value = {
        "base": base,
        "row": base[1],
        "model": model.state_dict(),
        "w": ag.nn.Parameter(ag.ones(2)),
        "z": [ag.tensor([1 + 2j]), ag.ones(2, dtype=ag.uint16), ag.eye(2).to_sparse()],
        "many": [(1, 2.5, float("inf")), {3}, b"bytes", 1 - 2j, None, "text", 2**100],
        "odd": [ag.float64, ag.device("cpu"), ag.Size([2]), numpy.float32(0.5), numpy.ones(3)],
        "count": collections.Counter({3: 2}),
        5: {"deep": [[[[]]]]},
    }
    file = io.BytesIO()
    ag.save(value, file)
    with zipfile.ZipFile(file) as made:
        return file.getvalue(), {name: made.read(name) for name in made.namelist()}


def hostile_archives() -> Files:
    chance = random.Random(SEED + 2)
    data, members = archive()
    for i in range(250):
        yield f"flip {i}", flipped(data, chance, 1 + i % 6)
    for i in range(40):
        yield f"cut {i}", data[: chance.randrange(len(data))]
    pickled = members["archive/data.pkl"]
    for i in range(500):
        yield f"pickle {i}", zipped(members | {"archive/data.pkl": spoilt(pickled, chance)})
    for name in members:
        yield f"without {name}", zipped({k: v for k, v in members.items() if k != name})
    for deep in (b"]" * 900 + b"a" * 899, b")" + b"\x85" * 900):
        yield "deep", zipped(members | {"archive/data.pkl": b"\x80\x02" + deep + b"."})


def hostile_streams() -> Files:
    chance = random.Random(SEED + 3)
    numbers = pickle.dumps(0x1950A86A20F9469CFC6C, 2) + pickle.dumps(1001, 2)
    facts = pickle.dumps({"protocol_version": 1001, "little_endian": True}, 2)
    tensor = (
        b"\x80\x02}X\x01\x00\x00\x00wctorch._utils\n_rebuild_tensor_v2\n((X\x07\x00\x00\x00storage"
        b"ctorch\nFloatStorage\nX\x01\x00\x00\x007X\x03\x00\x00\x00cpuK\x06NtQK\x01K\x02K\x02\x86K\x02K"
        b"\x01\x86\x89Ntq\x01Rs."
    )
    body = pickle.dumps(["7"], 2) + struct.pack("<q6f", 6, *range(6))
    whole = numbers + facts + tensor + body
    yield "whole", whole
    for i in range(100):
        yield f"flip {i}", flipped(whole, chance, 1 + i % 6)
        yield f"cut {i}", whole[: chance.randrange(len(whole))]
    for i in range(200):
        yield f"pickle {i}", numbers + facts + spoilt(tensor, chance) + body


def spoilt(data: bytes, chance: random.Random) -> bytes:
    """A pickle with bits flipped, bytes left out, or instructions put in."""
    way = chance.randrange(3)
    if way == 0:
        return flipped(data, chance, 4)
    at = chance.randrange(len(data))
    if way == 1:
        return data[:at] + data[at + chance.randrange(1, 20) :]
    steps = b"(.0123FIJKLMNPQRSTUVXabcdeghijlopqrstu})]\x80\x81\x85\x86\x87\x8a\x8b\x90\x93\x94"
    new = bytes(chance.choice(steps) for _ in range(chance.randrange(1, 6)))
    if chance.random() < 0.3:
        new = b"\x8a\x08" + struct.pack("<Q", chance.choice([2**31, 2**40, 2**62]))
    return data[:at] + new + data[at:]


# The property ----------------------------------------------------------------------------------


@contextlib.contextmanager
def nothing_is_run(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    def ran(*args: Any, **options: Any) -> Any:
        raise AssertionError(f"a file ran code: {args}")

    with monkeypatch.context() as patch:
        for holder, name in (
            *((builtins, "eval"), (builtins, "exec"), (os, "system"), (os, "popen")),
            *((subprocess, "Popen"), (os, "posix_spawn"), (os, "fork")),
        ):
            patch.setattr(holder, name, ran)
        yield


KINDS: dict[str, tuple[Callable[[], Files], Callable[[Any], Any], int]] = {
    "checkpoints": (hostile_checkpoints, lambda path: ag.load(path), 700),
    "archives": (hostile_archives, lambda path: ag.load(path), 500),
    "streams": (hostile_streams, lambda path: ag.load(path), 300),
    "recordings": (hostile_recordings, lambda path: ag.load_recording(path), 400),
}


@pytest.mark.parametrize("kind", KINDS)
def test_a_hostile_file_is_read_or_refused_with_one_error(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make, load, least = KINDS[kind]
    path = tmp_path / "file"
    monkeypatch.chdir(tmp_path)
    refused = 0
    wrong = []
    for name, data in make():
        path.write_bytes(data)
        tracemalloc.start()
        try:
            with nothing_is_run(monkeypatch):
                found = load(path)
                str(found)
        except FormatError as error:
            refused += 1
            if "file" not in str(error) or len(str(error)) > 1000:
                wrong.append(f"{name}: {error!s:.200}")
        except Exception as error:
            wrong.append(f"{name}: {error!r:.200}")
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        if peak > SLACK + 60 * len(data):
            wrong.append(f"{name}: {peak} bytes for a file of {len(data)}")
        assert path.read_bytes() == data
    assert wrong == []
    assert refused > least
    assert os.listdir(tmp_path) == ["file"]
