"""A reader of pickles that runs no code: it knows the objects of checkpoints, and no others.

`known` says which global names there are and what is made of them; here are the opcodes. Lengths
are believed as far as the file goes, never before.
Source: https://docs.python.org/3/library/pickletools.html
"""

from __future__ import annotations

import struct
from collections import Counter, OrderedDict, defaultdict
from collections.abc import Callable
from typing import Any, Final

from ag_visual import files
from ag_visual.errors import FormatError
from ag_visual.serialization.known import Known, key

_LINE = 1000
_MAPPINGS = (dict, OrderedDict, Counter, defaultdict)


class Unpickler:
    """Reads one pickle from a file object opened for bytes, and stands behind it."""

    def __init__(self, file: Any, known: Known, encoding: str = "ASCII") -> None:
        self._file, self._known, self._encoding = file, known, encoding
        self._stack: list[Any] = []
        self._marks: list[int] = []
        self._memo: dict[int, Any] = {}

    def load(self) -> Any:
        """The object.

        Raises:
            FormatError: the file ends, is damaged, or (RefusedError) names what is not known here.
        """
        while True:
            code = self._file.read(1)
            if not code:
                raise FormatError("it ends within an object")
            if code == b".":
                return self._pop()
            step = _STEPS.get(code[0])
            if step is None:
                raise FormatError(f"it has the pickle instruction {code!r}, which is not read here")
            step(self)

    # What the file gives -------------------------------------------------------------------------

    def _read(self, count: int) -> bytes:
        data = self._file.read(count) if count < 1 << 16 else files.read_up_to(self._file, count)
        if len(data) < count:
            raise FormatError("it ends within an object")
        return bytes(data)

    def _number(self, form: str) -> Any:
        return struct.unpack(form, self._read(struct.calcsize(form)))[0]

    def _line(self) -> str:
        line = self._file.readline(_LINE)
        if not line.endswith(b"\n"):
            raise FormatError("it has a name that does not end")
        return str(line[:-1], "utf-8")

    # The stack -----------------------------------------------------------------------------------

    def _push(self, value: Any) -> None:
        self._stack.append(value)

    def _pop(self) -> Any:
        if len(self._stack) <= (self._marks[-1] if self._marks else 0):
            raise FormatError("its instructions are out of order")
        return self._stack.pop()

    def _top(self) -> Any:
        value = self._pop()
        self._stack.append(value)
        return value

    def _since_mark(self) -> list[Any]:
        if not self._marks:
            raise FormatError("its instructions are out of order")
        begin = self._marks.pop()
        found = self._stack[begin:]
        del self._stack[begin:]
        return found

    def _recall(self, index: int) -> None:
        if index not in self._memo:
            raise FormatError("its instructions are out of order")
        self._push(self._memo[index])

    # Containers ----------------------------------------------------------------------------------

    def _append(self) -> None:
        self._extend([self._pop()])

    def _extend(self, items: list[Any]) -> None:
        target = self._top()
        if type(target) is not list:
            raise FormatError(f"it appends to a {type(target).__name__}")
        target.extend(items)

    def _add(self) -> None:
        items, target = self._since_mark(), self._top()
        if type(target) is not set:
            raise FormatError(f"it adds to a {type(target).__name__}")
        target.update(map(key, items))

    def _set_item(self) -> None:
        value, name = self._pop(), self._pop()
        self._set([name, value])

    def _set(self, items: list[Any]) -> None:
        target = self._top()
        if type(target) not in _MAPPINGS:
            raise FormatError(f"it sets an item of a {type(target).__name__}")
        if len(items) % 2:
            raise FormatError("its instructions are out of order")
        for i in range(0, len(items), 2):
            target[key(items[i])] = items[i + 1]

    def _tuple(self, count: int) -> None:
        items = [self._pop() for _ in range(count)]
        self._push(tuple(reversed(items)))

    # Objects -------------------------------------------------------------------------------------

    def _global(self) -> None:
        module, name = self._line(), self._line()
        self._push(self._known.named(module, name))

    def _stack_global(self) -> None:
        name, module = self._pop(), self._pop()
        if type(name) is not str or type(module) is not str:
            raise FormatError("it has a global name that is not text")
        self._push(self._known.named(module, name))

    def _reduce(self) -> None:
        args, made = self._pop(), self._pop()
        self._push(self._known.called(made, args))

    def _new(self) -> None:
        args, cls = self._pop(), self._pop()
        self._push(self._known.created(cls, args))

    def _build(self) -> None:
        state = self._pop()
        self._known.built(self._top(), state)

    def _persistent(self) -> None:
        self._push(self._known.stored(self._pop()))

    def _bytes_string(self, count: int) -> None:
        """A string of Python 2."""
        data = self._read(count)
        self._push(data if self._encoding == "bytes" else data.decode(self._encoding))


def _text(reader: Unpickler, form: str) -> None:
    reader._push(str(reader._read(reader._number(form)), "utf-8", "surrogatepass"))


def _long(reader: Unpickler, form: str) -> None:
    count = reader._number(form)
    if not 0 <= count <= 10_000:  # an int this long is no number of a checkpoint
        raise FormatError("it has a number of too many digits")
    reader._push(int.from_bytes(reader._read(count), "little", signed=True))


def _constant(value: Any) -> Callable[[Unpickler], None]:
    return lambda reader: reader._push(value)


def _put(reader: Unpickler, index: int) -> None:
    reader._memo[index] = reader._top()


_STEPS: Final[dict[int, Callable[[Unpickler], None]]] = {
    code[0]: step
    for code, step in {
        b"\x80": lambda r: r._read(1),  # the protocol
        b"\x95": lambda r: r._read(8),  # a frame
        b"N": _constant(None),
        b"\x88": _constant(True),
        b"\x89": _constant(False),
        b")": _constant(()),
        b"]": lambda r: r._push([]),
        b"}": lambda r: r._push({}),
        b"\x8f": lambda r: r._push(set()),
        b"J": lambda r: r._push(r._number("<i")),
        b"K": lambda r: r._push(r._number("<B")),
        b"M": lambda r: r._push(r._number("<H")),
        b"G": lambda r: r._push(r._number(">d")),
        b"\x8a": lambda r: _long(r, "<B"),
        b"\x8b": lambda r: _long(r, "<i"),
        b"\x8c": lambda r: _text(r, "<B"),
        b"X": lambda r: _text(r, "<I"),
        b"\x8d": lambda r: _text(r, "<Q"),
        b"U": lambda r: r._bytes_string(r._number("<B")),
        b"T": lambda r: r._bytes_string(max(0, r._number("<i"))),
        b"C": lambda r: r._push(r._read(r._number("<B"))),
        b"B": lambda r: r._push(r._read(r._number("<I"))),
        b"\x8e": lambda r: r._push(r._read(r._number("<Q"))),
        b"\x96": lambda r: r._push(bytearray(r._read(r._number("<Q")))),
        b"(": lambda r: r._marks.append(len(r._stack)),
        b"0": lambda r: r._pop(),
        b"2": lambda r: r._push(r._top()),
        b"a": Unpickler._append,
        b"e": lambda r: r._extend(r._since_mark()),
        b"s": Unpickler._set_item,
        b"u": lambda r: r._set(r._since_mark()),
        b"\x90": Unpickler._add,
        b"t": lambda r: r._push(tuple(r._since_mark())),
        b"\x85": lambda r: r._tuple(1),
        b"\x86": lambda r: r._tuple(2),
        b"\x87": lambda r: r._tuple(3),
        b"l": lambda r: r._push(r._since_mark()),
        b"\x91": lambda r: r._push(frozenset(map(key, r._since_mark()))),
        b"q": lambda r: _put(r, r._number("<B")),
        b"r": lambda r: _put(r, r._number("<I")),
        b"\x94": lambda r: _put(r, len(r._memo)),
        b"h": lambda r: r._recall(r._number("<B")),
        b"j": lambda r: r._recall(r._number("<I")),
        b"c": Unpickler._global,
        b"\x93": Unpickler._stack_global,
        b"R": Unpickler._reduce,
        b"\x81": Unpickler._new,
        b"b": Unpickler._build,
        b"Q": Unpickler._persistent,
    }.items()
}
