"""Where save, save_recording and a page write: new files, old ones, links, pipes, devices."""

from __future__ import annotations

import errno
import io
import os
import re
import stat
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import ag_visual as ag
from ag_visual import files
from tests.oracle import torch
from tests.serialization.formats import Safetensors

Write = Callable[[Any], Any]


def save(path: Any) -> None:
    ag.save({"w": ag.ones(3)}, path)


def save_recording(path: Any) -> None:
    ag.save_recording(path)


def save_bytes(path: Any) -> None:
    files.write(path, b"new" * 30_000)


@pytest.fixture(params=[save, save_recording, save_bytes], ids=lambda one: one.__name__)
def write(request: pytest.FixtureRequest) -> Write:
    return request.param


@pytest.fixture
def folder_of_a_person() -> Iterator[Path]:
    """A folder, and the rights of a person who is not root."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        root = os.geteuid() == 0
        if root:
            os.chown(folder, 65534, 65534)
            os.seteuid(65534)
        try:
            yield folder
        finally:
            if root:
                os.seteuid(0)


def whole(data: bytes) -> bool:
    return data[:1] in (b"\x1f", b"n") or ag.load(io.BytesIO(data))["w"].tolist() == [1, 1, 1]


def test_a_new_file_has_the_mode_of_any_other(tmp_path: Path, write: Write) -> None:
    for mask in (0o022, 0o077, 0o002):
        before = os.umask(mask)
        try:
            write(tmp_path / f"new{mask}")
            (tmp_path / f"other{mask}").write_bytes(b"x")
        finally:
            os.umask(before)
        modes = [(tmp_path / f"{name}{mask}").stat().st_mode for name in ("new", "other")]
        assert modes[0] == modes[1]


def test_an_old_file_keeps_mode_and_owner(tmp_path: Path, write: Write) -> None:
    path = tmp_path / "old"
    path.write_bytes(b"old")
    path.chmod(0o604)
    if os.geteuid() == 0:
        os.chown(path, 12, 34)
    before = path.stat()
    write(path)
    after = path.stat()
    assert (after.st_mode, after.st_uid, after.st_gid) == (
        before.st_mode,
        before.st_uid,
        before.st_gid,
    )
    assert whole(path.read_bytes())


def test_a_symbolic_link_stays_and_its_file_is_written(tmp_path: Path, write: Write) -> None:
    (tmp_path / "folder").mkdir()
    file = tmp_path / "folder" / "epoch_3"
    file.write_bytes(b"old")
    os.symlink("folder/epoch_3", tmp_path / "latest")
    os.symlink("latest", tmp_path / "again")
    os.symlink("folder/new", tmp_path / "dangling")
    for name in ("again", "dangling"):
        write(tmp_path / name)
        assert (tmp_path / name).is_symlink()
    assert whole(file.read_bytes())
    assert whole((tmp_path / "folder" / "new").read_bytes())
    os.symlink("loop", tmp_path / "loop")
    with pytest.raises(OSError, match="loop") as caught:
        write(tmp_path / "loop")
    assert caught.value.errno == errno.ELOOP


def test_other_hard_links_keep_what_they_had(tmp_path: Path, write: Write) -> None:
    (tmp_path / "a").write_bytes(b"old")
    os.link(tmp_path / "a", tmp_path / "best")
    write(tmp_path / "a")
    assert whole((tmp_path / "a").read_bytes())
    assert (tmp_path / "best").read_bytes() == b"old"


def test_a_pipe_gets_the_bytes(tmp_path: Path, write: Write) -> None:
    path = tmp_path / "pipe"
    os.mkfifo(path)
    found: list[bytes] = []
    reader = threading.Thread(target=lambda: found.append(path.read_bytes()))
    reader.start()
    write(path)
    reader.join()
    assert stat.S_ISFIFO(path.stat().st_mode)
    assert whole(found[0])


def test_devices_stay_devices(write: Write) -> None:
    write("/dev/null")
    assert stat.S_ISCHR(os.stat("/dev/null").st_mode)
    with pytest.raises(OSError, match="No space left on device: '/dev/full'"):
        write("/dev/full")
    assert stat.S_ISCHR(os.stat("/dev/full").st_mode)


def test_an_open_file_is_written_by_its_number(tmp_path: Path, write: Write) -> None:
    """As `script.py > file` does with /dev/stdout: what comes later goes to the same file."""
    with open(tmp_path / "out", "wb") as file:
        os.symlink(f"/dev/fd/{file.fileno()}", tmp_path / "link")
        write(tmp_path / "link")
        assert os.path.samestat(os.fstat(file.fileno()), os.stat(tmp_path / "out"))
    assert whole((tmp_path / "out").read_bytes())


@pytest.mark.parametrize(
    ("place", "kind"),
    [
        ("", IsADirectoryError),
        ("nowhere/a", FileNotFoundError),
        ("new/", IsADirectoryError),
        ("file/a", NotADirectoryError),
        ("long" * 100, OSError),
    ],
)
def test_places_that_cannot_be(
    tmp_path: Path, write: Write, place: str, kind: type[OSError]
) -> None:
    (tmp_path / "file").write_bytes(b"old")
    with pytest.raises(kind, match=re.escape(str(tmp_path))) as caught:
        write(f"{tmp_path}/{place}")
    assert "saving" not in str(caught.value)
    assert os.listdir(tmp_path) == ["file"]
    if place == "nowhere/a":
        assert "nowhere does not exist" in str(caught.value)


def test_a_read_only_file_is_refused_as_by_torch(write: Write, folder_of_a_person: Path) -> None:
    folder = folder_of_a_person
    path = folder / "kept"
    path.write_bytes(b"old")
    path.chmod(0o400)
    for one in (write, lambda place: torch.save(1, place)):
        with pytest.raises((PermissionError, RuntimeError), match=r"ermission|cannot be opened"):
            one(path)
    assert path.read_bytes() == b"old"
    assert os.listdir(folder) == ["kept"]


def test_root_may_write_it_as_with_torch(tmp_path: Path, write: Write) -> None:
    path = tmp_path / "kept"
    path.write_bytes(b"old")
    path.chmod(0o400)
    if os.geteuid() == 0:
        write(path)
        assert whole(path.read_bytes())
        assert stat.S_IMODE(path.stat().st_mode) == 0o400


@pytest.mark.parametrize("call", ["open", "replace", "fchmod"])
@pytest.mark.parametrize("number", [errno.EACCES, errno.EPERM])
def test_what_cannot_be_replaced_is_written_in_its_place(
    tmp_path: Path, write: Write, monkeypatch: pytest.MonkeyPatch, call: str, number: int
) -> None:
    """A folder without the right to write, one mounted file, an owner that one cannot give."""
    path = tmp_path / "mounted"
    path.write_bytes(b"old")
    path.chmod(0o606)
    before = path.stat().st_ino
    real = getattr(os, call)

    def refused(*args: Any, **options: Any) -> Any:
        if call == "open" and not args[1] & os.O_EXCL:
            return real(*args, **options)
        raise OSError(number, os.strerror(number), args[0])

    monkeypatch.setattr(os, call, refused)
    write(path)
    monkeypatch.undo()
    assert whole(path.read_bytes())
    assert path.stat().st_ino == before
    assert os.listdir(tmp_path) == ["mounted"]


@pytest.mark.parametrize("call", ["fsync", "replace"])
def test_a_full_disk_leaves_the_old_file_and_no_other(
    tmp_path: Path, write: Write, monkeypatch: pytest.MonkeyPatch, call: str
) -> None:
    def full(*args: Any) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, call, full)
    (tmp_path / "old").write_bytes(b"old")
    for name in ("old", "new"):
        with pytest.raises(OSError, match=f"No space left on device: '.*{name}'"):
            write(tmp_path / name)
    assert (tmp_path / "old").read_bytes() == b"old"
    assert os.listdir(tmp_path) == ["old"]


def test_an_error_of_the_one_who_writes_leaves_the_old_file(tmp_path: Path) -> None:
    (tmp_path / "old").write_bytes(b"old")

    def interrupted() -> None:
        with files.writing(tmp_path / "old") as file:
            file.write(b"half")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert (tmp_path / "old").read_bytes() == b"old"
    assert os.listdir(tmp_path) == ["old"]


def test_names_of_every_kind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    odd = os.fsencode(tmp_path) + b"/\xff"
    for name in ("a", Path("b"), os.fsencode("c"), odd, "./d", "new line\n"):
        save(name)
        assert ag.load(name)["w"].tolist() == [1, 1, 1]


class Dribble(io.RawIOBase):
    """A file without a buffer, that takes and gives a few bytes at a time."""

    def __init__(self) -> None:
        self.data = bytearray()
        self.at = 0

    def writable(self) -> bool:
        return True

    readable = writable

    def write(self, data: Any) -> int:
        self.data += data[:7]
        return len(data[:7])

    def readinto(self, memory: Any) -> int:
        piece = self.data[self.at : self.at + min(7, len(memory))]
        memory[: len(piece)] = piece
        self.at += len(piece)
        return len(piece)


def test_file_objects_that_take_and_give_parts() -> None:
    file = Dribble()
    save(file)
    assert whole(bytes(file.data))
    assert ag.load(file)["w"].tolist() == [1, 1, 1]
    assert file.read() == b""


def test_a_pipe_is_read_to_the_end_of_one_object() -> None:
    """Of safetensors, which say how long they are; a checkpoint is all that a pipe has."""
    whole = Safetensors()
    save(whole)
    archive = io.BytesIO()
    save(archive)
    for data, count in ((whole.getvalue() * 2, 2), (archive.getvalue(), 1)):
        read, written = os.pipe()
        with open(written, "wb") as file:
            file.write(data)
        with open(read, "rb") as file:
            for _ in range(count):
                assert ag.load(file)["w"].tolist() == [1, 1, 1]


# A process that is killed ----------------------------------------------------------------------

# The module alone: a process begins in the time that the whole package needs to be imported in.
ALONE = f"""
import importlib.util, sys, time
spec = importlib.util.spec_from_file_location("files", {files.__file__!r})
files = importlib.util.module_from_spec(spec)
spec.loader.exec_module(files)
"""
KILLED = f"""{ALONE}
with files.writing(sys.argv[1]) as file:
    file.write(b"half" * 100_000)
    file.flush()
    print("written", flush=True)
    time.sleep(1000)
"""
SAVES = f"""{ALONE}
print("begun", flush=True)
while True:
    for i in range(4):
        with files.writing(sys.argv[1]) as file:
            for _ in range(10):
                file.write(bytes([i]) * 100_000)
"""


def writer(path: Path) -> subprocess.Popen[str]:
    """A process in the middle of a write."""
    return begun(KILLED, path)


def begun(program: str, path: Path) -> subprocess.Popen[str]:
    """A process that runs a program and has said its first word."""
    words = [sys.executable, "-c", program, str(path)]
    process = subprocess.Popen(words, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline()
    return process


def kill(process: subprocess.Popen[str]) -> None:
    process.kill()
    process.wait()
    assert process.stdout is not None
    process.stdout.close()


def test_what_a_killed_save_left_is_removed_by_the_next(tmp_path: Path, write: Write) -> None:
    path = tmp_path / "w"
    path.write_bytes(b"old")
    others = [".ag_visual-saving-notes", ".saving-0123456789abcdef", ".ag_visual-saving-0123"]
    for name in others:
        (tmp_path / name).write_bytes(b"somebody's")
    foreign = tmp_path / f".ag_visual-saving-{'a' * 16}"
    if os.geteuid() == 0:  # another person's
        foreign.write_bytes(b"another's")
        os.chown(foreign, 12, 34)
        others.append(foreign.name)
    os.symlink("w", tmp_path / f".ag_visual-saving-{'b' * 16}")
    others.append(f".ag_visual-saving-{'b' * 16}")
    known = {"w", *others}
    killed, alive = writer(path), writer(path)
    try:
        assert len(set(os.listdir(tmp_path)) - known) == 2
        kill(killed)
        assert path.read_bytes() == b"old"
        write(path)
        assert whole(path.read_bytes())
        # What the living one writes stays until it is done.
        assert len(set(os.listdir(tmp_path)) - known) == 1
    finally:
        for process in (killed, alive):
            kill(process)
    write(tmp_path / "other")
    assert set(os.listdir(tmp_path)) == {*known, "other"}


def test_a_kill_at_any_moment_leaves_a_whole_file(tmp_path: Path) -> None:
    path = tmp_path / "w"
    path.write_bytes(bytes(1_000_000))
    left: set[int] = set()
    for moment in range(12):
        process = begun(SAVES, path)
        time.sleep(moment / 700)
        kill(process)
        data = path.read_bytes()
        assert len(data) == 1_000_000
        assert len(set(data)) == 1
        left.add(len(os.listdir(tmp_path)) - 1)
    assert max(left) == 1  # else none was killed in the middle, and nothing tried
    save(path)
    assert os.listdir(tmp_path) == ["w"]


def test_writers_at_once_leave_one_whole_file(tmp_path: Path) -> None:
    """None takes another's file for one that was left."""
    failures: list[BaseException] = []

    def often(number: int) -> None:
        try:
            for _ in range(30):
                files.write(tmp_path / "w", bytes([number]) * 10_000)
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=often, args=(i,)) for i in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    data = (tmp_path / "w").read_bytes()
    assert len(data) == 10_000
    assert len(set(data)) == 1
    assert os.listdir(tmp_path) == ["w"]
