"""Files on disk: written whole or not at all, and read no further than they go.

The one place that replaces files. It knows the standard library alone.
"""

from __future__ import annotations

import contextlib
import errno
import io
import os
import re
import shutil
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO, Final

fcntl: Any
try:
    import fcntl
except ImportError:  # Windows: no locks of this kind, so nothing is known of other writers
    fcntl = None

Name = str | bytes | os.PathLike[str] | os.PathLike[bytes]

_BESIDE: Final = ".ag_visual-saving-"
_LEFT: Final = re.compile(re.escape(_BESIDE) + "[0-9a-f]{16}")
_FLAGS: Final = getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0)
_OPEN_FILES: Final = re.compile(r"/proc/[^/]+(/task/[^/]+)?/fd")
_PIECE: Final = 1 << 18


def write(path: Name, data: bytes) -> Path:
    """Write a whole file or nothing (see `writing`)."""
    with writing(path) as file:
        file.write(data)
    return Path(os.fsdecode(path))


@contextlib.contextmanager
def writing(path: Name) -> Iterator[BinaryIO]:
    """A file opened for bytes that has taken its place when the block ends; an error leaves none.

    The bytes go to a file beside it, which takes its name at the end: a process that is killed
    leaves the old file or the new one, and the next writer in that folder removes what it left.
    Mode and owner of an existing file stay, and the right to write it is asked for; a symbolic
    link stays, and the file that it names is written. Other hard links keep the old content.

    What is not a regular file (a device, a pipe), and what cannot be replaced (a folder in which
    nothing can be made, a mount point), is written as `open` does it.

    Raises:
        OSError: the place cannot be written, with its name.
    """
    name = os.fsdecode(path)
    with _named(name):
        place = _place(name)
        beside = None if place is None else _beside(*place)
        if place is None or beside is None:
            with open(name, "wb") as file:
                yield file
            return
        target, old = place
        try:
            with open(beside[0], "wb") as file:
                yield file
                file.flush()
                os.fsync(file.fileno())
                alike = old is None or _made_alike(file.fileno(), old)
                if fcntl is None:
                    file.close()  # an open file cannot be renamed there
                # Renamed while it is locked: nobody takes it for a file that was left.
                if not (alike and _replaced(beside[1], target, old)):
                    _copy(beside[1], target)
        except BaseException:
            with contextlib.suppress(OSError):
                os.unlink(beside[1])
            raise


@contextlib.contextmanager
def _named(name: str) -> Iterator[None]:
    """Errors of the disk say which file was to be written, never the one beside it."""
    try:
        yield
    except OSError as error:
        if error.errno is not None and (
            error.filename is None or _LEFT.fullmatch(os.path.basename(os.fsdecode(error.filename)))
        ):
            error.filename = name
            del error.filename2
        raise


def _place(name: str) -> tuple[str, os.stat_result | None] | None:
    """The file to replace, links followed, and what it is now; None: it is written as it is."""
    if not os.path.basename(name) or _is_open_file(name):
        return None
    try:
        found = os.stat(name)
    except FileNotFoundError:
        return os.path.realpath(name), None
    if not stat.S_ISREG(found.st_mode):
        return None
    # Renaming asks for no right to the file itself; opening it does, and changes nothing.
    os.close(os.open(name, os.O_WRONLY | _FLAGS))
    return os.path.realpath(name), found


def _is_open_file(name: str) -> bool:
    """Whether a name (/dev/stdout, a link to it) stands for a file that a process has open."""
    for _ in range(40):  # as many links as Linux follows
        folder = os.path.realpath(os.path.dirname(name))
        if _OPEN_FILES.fullmatch(folder):
            return True
        if not os.path.islink(name):
            return False
        name = os.path.join(folder, os.readlink(name))
    return False


def _beside(target: str, old: os.stat_result | None) -> tuple[int, str] | None:
    """A new file in the folder of `target`, open and locked; None: that folder takes none, but
    the file that is there can be written.
    """
    folder = os.path.dirname(target)
    _sweep(folder)
    # A new file has the mode that the kernel gives any other; nobody reads a private one meanwhile.
    mode = 0o666 if old is None else stat.S_IMODE(old.st_mode) & 0o777
    while True:
        path = os.path.join(folder, _BESIDE + os.urandom(8).hex())
        try:
            handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | _FLAGS, mode)
        except FileNotFoundError as error:
            raise FileNotFoundError(
                f"cannot write {target}: the folder {folder} does not exist"
            ) from error
        except OSError as error:
            if old is not None and error.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
                return None
            raise
        if _locked(handle):
            return handle, path
        os.close(handle)


def _locked(handle: int) -> bool:
    """Lock a file as long as it is open; False: another writer has just taken it for a left one."""
    if fcntl is None:
        return True
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:  # a file system without locks, where nobody can sweep either
        return True
    return os.fstat(handle).st_nlink > 0


def _sweep(folder: str) -> None:
    """Remove what killed writers of this user left in a folder."""
    if fcntl is None:
        return
    with contextlib.suppress(OSError), os.scandir(folder) as entries:
        for entry in entries:
            if _LEFT.fullmatch(entry.name):
                with contextlib.suppress(OSError):
                    _remove_left(entry.path)


def _remove_left(path: str) -> None:
    """Remove a file that no living writer holds: locks of dead ones are gone, on any machine."""
    handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | _FLAGS)
    try:
        found = os.fstat(handle)
        if stat.S_ISREG(found.st_mode) and found.st_uid == os.geteuid():
            fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
            os.unlink(path)
    finally:
        os.close(handle)


def _made_alike(handle: int, old: os.stat_result) -> bool:
    """Give the new file owner and mode of the old one; False where that is not allowed."""
    new = os.fstat(handle)
    try:
        if (new.st_uid, new.st_gid) != (old.st_uid, old.st_gid):
            os.fchown(handle, old.st_uid, old.st_gid)
        if stat.S_IMODE(new.st_mode) != stat.S_IMODE(old.st_mode):
            os.fchmod(handle, stat.S_IMODE(old.st_mode))
    except PermissionError:
        return False
    return True


def _replaced(beside: str, target: str, old: os.stat_result | None) -> bool:
    """Rename; False where the folder does not let go of the old file, which can be written."""
    try:
        os.replace(beside, target)
    except OSError as error:
        kept = (errno.EBUSY, errno.EXDEV, errno.EACCES, errno.EPERM)
        if old is not None and error.errno in kept:
            return False
        raise
    return True


def _copy(beside: str, target: str) -> None:
    with open(beside, "rb") as source, open(target, "wb") as file:
        shutil.copyfileobj(source, file, _PIECE)
    os.unlink(beside)


def put(file: Any, data: Any) -> None:
    """Write all bytes into a file object; one without a buffer may take a part at a time."""
    view = memoryview(data)
    if not isinstance(file, io.RawIOBase):
        file.write(view)
        return
    while view.nbytes:
        view = view[file.write(view) or 0 :]


def size_left(file: Any) -> int | None:
    """Bytes from here to the end of a file object; None for one that cannot tell (a pipe)."""
    try:
        here = file.tell()
        end = file.seek(0, os.SEEK_END)
        file.seek(here)
    except (AttributeError, OSError, ValueError):
        return None
    # A device has no end to seek: /dev/zero says 0.
    return end - here if isinstance(end, int) and end > here else None


def read_up_to(file: Any, most: int) -> bytearray:
    """At most this many bytes, fewer at the end; memory is taken as they come, never before."""
    data = bytearray()
    while len(data) < most:
        piece = file.read(min(most - len(data), _PIECE))
        if isinstance(piece, str):
            raise TypeError("the file should be opened for bytes, as open(path, 'rb') does")
        if not piece:
            break
        data += piece
    return data
