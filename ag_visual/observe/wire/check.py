"""Checks JSON values against the types of the schema, for files and requests from outside."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable
from typing import Any

from ag_visual.errors import FormatError
from ag_visual.observe.wire.records import RECORDS

Checker = Callable[[Any, str], None]

_TOKEN = re.compile(r"\s*('[^']*'|[A-Za-z]+|\[\]|[\[\]<>(),|])")
_LONGEST = 60


def check(type_: str, value: Any, where: str) -> None:
    """Raise FormatError unless `value` has this type of the schema."""
    _checker(type_)(value, where)


def check_fields(fields: dict[str, str], value: Any, where: str) -> None:
    """Raise FormatError unless `value` is an object with these fields (others are ignored)."""
    if not isinstance(value, dict):
        raise _wrong(where, "an object", value)
    for name, text in fields.items():
        optional = name.endswith("?")
        key = name.removesuffix("?")
        if key in value:
            check(text.partition(" -- ")[0], value[key], f"{where}.{key}")
        elif not optional:
            raise FormatError(f"{where} has no {key!r}")


def _wrong(where: str, wanted: str, value: Any) -> FormatError:
    shown = repr(value)
    if len(shown) > _LONGEST:
        shown = shown[:_LONGEST] + "..."
    return FormatError(f"{where} should be {wanted}, but is {shown}")


@functools.cache
def _checker(type_: str) -> Checker:
    tokens = _TOKEN.findall(type_)
    found = _union(tokens)
    if tokens:
        raise ValueError(f"cannot read the type {type_!r}: {tokens[0]!r} is left over")
    return found


def _union(tokens: list[str]) -> Checker:
    options = [_postfix(tokens)]
    while tokens and tokens[0] == "|":
        tokens.pop(0)
        options.append(_postfix(tokens))
    if len(options) == 1:
        return options[0]

    def any_of(value: Any, where: str) -> None:
        # An error in a variable would hold its own frame, and with it the graph of a caller.
        for option in options[:-1]:
            try:
                return option(value, where)
            except FormatError:
                pass
        return options[-1](value, where)

    return any_of


def _postfix(tokens: list[str]) -> Checker:
    found = _primary(tokens)
    while tokens and tokens[0] == "[]":
        tokens.pop(0)
        found = _list_of(found)
    return found


def _primary(tokens: list[str]) -> Checker:
    token = tokens.pop(0)
    if token == "(":
        found = _union(tokens)
        _expect(tokens, ")")
        return found
    if token == "[":
        parts = [_union(tokens)]
        while tokens[0] == ",":
            tokens.pop(0)
            parts.append(_union(tokens))
        _expect(tokens, "]")
        return _tuple_of(parts)
    if token == "Record":
        _expect(tokens, "<")
        _union(tokens)
        _expect(tokens, ",")
        value = _union(tokens)
        _expect(tokens, ">")
        return _record_of(value)
    if token.startswith("'"):
        return _literal(token[1:-1])
    if token in _PLAIN:
        return _PLAIN[token]
    fields = RECORDS[token]
    return lambda value, where: check_fields(fields, value, where)


def _expect(tokens: list[str], token: str) -> None:
    found = tokens.pop(0)
    if found != token:
        raise ValueError(f"expected {token!r} in a type, found {found!r}")


def _list_of(item: Checker) -> Checker:
    def checker(value: Any, where: str) -> None:
        if not isinstance(value, list | tuple):
            raise _wrong(where, "a list", value)
        for i, part in enumerate(value):
            item(part, f"{where}[{i}]")

    return checker


def _tuple_of(parts: list[Checker]) -> Checker:
    def checker(value: Any, where: str) -> None:
        if not isinstance(value, list | tuple) or len(value) != len(parts):
            raise _wrong(where, f"a list of {len(parts)}", value)
        for i, part in enumerate(parts):
            part(value[i], f"{where}[{i}]")

    return checker


def _record_of(item: Checker) -> Checker:
    def checker(value: Any, where: str) -> None:
        if not isinstance(value, dict):
            raise _wrong(where, "an object", value)
        for key, part in value.items():
            item(part, f"{where}.{key}")

    return checker


def _literal(text: str) -> Checker:
    def checker(value: Any, where: str) -> None:
        if value != text:
            raise _wrong(where, repr(text), value)

    return checker


def _plain(wanted: str, kinds: tuple[type, ...], *, also_bool: bool = False) -> Checker:
    def checker(value: Any, where: str) -> None:
        if not isinstance(value, kinds) or (isinstance(value, bool) and not also_bool):
            raise _wrong(where, wanted, value)

    return checker


_PLAIN: dict[str, Checker] = {
    "string": _plain("a string", (str,)),
    "number": _plain("a number", (int, float)),
    "boolean": _plain("true or false", (bool,), also_bool=True),
    "null": _plain("null", (type(None),)),
}
