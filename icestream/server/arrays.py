"""Arrays, rows and maps as PostgreSQL writes them: `{1,NULL,"a b"}`, `(1,,"a b")`, nested elements with lengths."""

from __future__ import annotations

import re
import struct
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from icestream.server.backend import StateError

_INT = struct.Struct("!i")
_HEAD = struct.Struct("!iiI")  # dimensions, whether there are NULLs, the elements' OID
_NULL = _INT.pack(-1)
_DEEPEST = 6
_PLAIN_ITEM = re.compile(r'[^\s"\\{},]+')
_PLAIN_FIELD = re.compile(r'[^\s"\\(),]+')
_TOKEN = re.compile(r'\s*+(?:([{},])|"((?:[^"\\]|\\.)*+)"|((?:[^{},"\\]|\\.)++))\s*+', re.DOTALL)
_BOUNDS = re.compile(r"\s*(?:\[[+-]?\d+:[+-]?\d+\])+\s*=")


def array_text(values: Iterable[Any], element: Callable[[Any], str], depth: int) -> str:
    """{…}; `depth` is the number of dimensions that the type has."""

    def item(value: Any) -> str:
        if value is None:
            return "NULL"
        return array_text(value, element, depth - 1) if depth > 1 else quoted(element(value))

    return "{" + ",".join(map(item, values)) + "}"


def quoted(text: str) -> str:
    """An element of an array, in double quotes where it must be."""
    if _PLAIN_ITEM.fullmatch(text) and text.upper() != "NULL":
        return text
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def array_binary(
    values: Sequence[Any], element: Callable[[Any], bytes], oid: int, depth: int, first: int = 1
) -> bytes:
    """All elements with their lengths; the rows of a dimension must not differ in length."""
    sizes: list[int] = []
    level: list[Any] = [values]
    for _ in range(depth):
        lengths = {len(row) for row in level if row is not None}
        if len(lengths) != 1 or None in level:
            raise StateError(
                "0A000", "the rows of this array differ in length: it has no binary form"
            )
        sizes.append(lengths.pop())
        level = [item for row in level for item in row]
        if not level:
            return _HEAD.pack(0, 0, oid)
    out = [_HEAD.pack(depth, None in level, oid)]
    out += [struct.pack("!ii", size, first) for size in sizes]
    out += [sized(value, element) for value in level]
    return b"".join(out)


def sized(value: Any, element: Callable[[Any], bytes]) -> bytes:
    """A value after its length; a NULL is the length -1 alone."""
    if value is None:
        return _NULL
    data = element(value)
    return _INT.pack(len(data)) + data


def array_from_text(text: str, element: Callable[[str], Any]) -> list[Any]:
    """The values of `{…}`, nested as it is; ValueError if it is none."""
    if bounds := _BOUNDS.match(text):
        text = text[bounds.end() :]
    stack: list[list[Any]] = [[]]
    at, expects = 0, True
    while at < len(text):
        token = _TOKEN.match(text, at)
        if token is None:
            raise ValueError
        at = token.end()
        mark, string, plain = token.groups()
        if mark == "}":
            if len(stack) < 2 or (expects and stack[-1]):
                raise ValueError
            stack.pop()
            expects = False
        elif mark == ",":
            if expects or len(stack) < 2:
                raise ValueError
            expects = True
        elif not expects or (len(stack) < 2 and mark != "{") or len(stack) > _DEEPEST:
            raise ValueError
        elif mark == "{":
            inner: list[Any] = []
            stack[-1].append(inner)
            stack.append(inner)
        else:
            expects = False
            word = string if plain is None else plain.rstrip()
            null = plain is not None and word.upper() == "NULL"
            plain_word = re.sub(r"\\(.)", r"\1", word, flags=re.DOTALL)
            stack[-1].append(None if null else element(plain_word))
    if len(stack) != 1 or len(stack[0]) != 1:
        raise ValueError
    return list(stack[0][0])


def array_from_binary(data: bytes, element: Callable[[int], Callable[[bytes], Any]]) -> list[Any]:
    """The values of a binary array; `element` gives the reader for the OID of its elements."""
    dimensions, _, oid = _HEAD.unpack_from(data)
    if not 0 <= dimensions <= _DEEPEST:
        raise ValueError
    sizes = [struct.unpack_from("!ii", data, 12 + 8 * n)[0] for n in range(dimensions)]
    if any(size < 0 for size in sizes):
        raise ValueError
    read = element(oid)
    at = 12 + 8 * dimensions

    def take(sizes: list[int]) -> list[Any]:
        if len(sizes) > 1:
            return [take(sizes[1:]) for _ in range(sizes[0])]
        return [value() for _ in range(sizes[0])]

    def value() -> Any:
        nonlocal at
        length = _INT.unpack_from(data, at)[0]
        at += 4 + max(0, length)
        if length < -1 or at > len(data):
            raise ValueError
        return None if length < 0 else read(data[at - length : at])

    if sizes and 0 in sizes:
        sizes = []
    found = take(sizes) if sizes else []
    if at != len(data):
        raise ValueError
    return found


def row_text(fields: Iterable[str | None]) -> str:
    """(…)"""
    return "(" + ",".join("" if f is None else _field(f) for f in fields) + ")"


def _field(text: str) -> str:
    if _PLAIN_FIELD.fullmatch(text):
        return text
    return '"' + text.replace("\\", "\\\\").replace('"', '""') + '"'


def row_binary(fields: Sequence[tuple[int, bytes]]) -> bytes:
    """The OID and the sized value of each field."""
    return _INT.pack(len(fields)) + b"".join(struct.pack("!I", oid) + data for oid, data in fields)
