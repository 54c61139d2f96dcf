"""Type syntax: tokens → `icestream.types.Type`."""

from __future__ import annotations

from icestream import types
from icestream.errors import NotSupportedError, SqlError, did_you_mean
from icestream.sql.cursor import Cursor
from icestream.types import NumericType, Type

_MAX_DEPTH = 32
_LONGEST_NAME = 4  # timestamp with time zone
_MAX_PRECISION = 38


def type_of(cursor: Cursor, depth: int = 0) -> Type:
    """A type: scalar, numeric(p, s), varchar(n), struct<…>, map(…), each with any number of []."""
    if depth > _MAX_DEPTH:
        raise SqlError("this type is nested too deeply", place=cursor.place())
    if cursor.at("STRUCT", "<"):
        found = _struct(cursor, depth)
    elif cursor.at("MAP", "("):
        found = _map(cursor, depth)
    else:
        found = _scalar(cursor)
    while cursor.accept("["):
        if cursor.peek().kind == "number":
            cursor.next()  # PostgreSQL accepts a size and ignores it
        cursor.expect("]")
        found = types.array(found)
    return found


def _struct(cursor: Cursor, depth: int) -> Type:
    cursor.expect("STRUCT", "<")
    fields: dict[str, Type] = {}
    while True:
        place = cursor.place()
        name = cursor.identifier("a field name")
        if name in fields:
            raise SqlError(f"field {name} is there twice", place=place)
        fields[name] = type_of(cursor, depth + 1)
        if not cursor.accept(","):
            break
    cursor.expect(">")
    return types.struct(*fields.items())


def _map(cursor: Cursor, depth: int) -> Type:
    cursor.expect("MAP", "(")
    place = cursor.place()
    key = type_of(cursor, depth + 1)
    if key != types.VARCHAR and key not in types.INTEGERS:
        raise SqlError(
            f"{key} cannot be the key of a map",
            place=place,
            remedy="use varchar or an integer type",
        )
    cursor.expect(",")
    value = type_of(cursor, depth + 1)
    cursor.expect(")")
    return types.map_of(key, value)


def _scalar(cursor: Cursor) -> Type:
    token = cursor.peek()
    if token.kind != "word":
        cursor.fail("a type")
    if cursor.at("TIMESTAMP", "(") or cursor.at("TIME", "("):
        return _with_precision(cursor)
    for length in range(_LONGEST_NAME, 0, -1):
        words = [cursor.peek(i) for i in range(length)]
        name = " ".join(word.text for word in words)
        if all(word.kind == "word" for word in words) and (found := types.scalar(name)):
            for _ in words:
                cursor.next()
            return _with_arguments(cursor, found, name.lower())
    known = [*types.scalar_names(), "struct", "map"]
    raise SqlError(
        f"unknown type {cursor.found()}",
        place=cursor.place(),
        remedy=did_you_mean(token.text, known) or "the types are " + ", ".join(known),
    )


def _with_precision(cursor: Cursor) -> Type:
    """timestamp(6) [with time zone]: microseconds are what there is."""
    base = cursor.next().text.lower()
    place = cursor.place()
    if _numbers(cursor, 1) != [6]:
        raise NotSupportedError(
            f"{base} with another precision than 6", place=place, remedy=f"write {base}"
        )
    for words in (("WITH", "TIME", "ZONE"), ("WITHOUT", "TIME", "ZONE"), ()):
        found = types.scalar(" ".join((base, *words)))
        if found and cursor.at(*words):
            cursor.accept(*words)
            return found
    return cursor.fail("a type")


def _with_arguments(cursor: Cursor, found: Type, name: str) -> Type:
    if not cursor.at("("):
        return found
    place = cursor.place(cursor.peek(1))
    if isinstance(found, NumericType):
        precision, scale = [*_numbers(cursor, 2), 0][:2]
        if not 1 <= precision <= _MAX_PRECISION or scale > precision:
            raise SqlError(
                f"numeric({precision},{scale}) does not exist",
                place=place,
                remedy=f"the precision is 1 to {_MAX_PRECISION}, the scale 0 to the precision",
            )
        return types.numeric(precision, scale)
    if found == types.VARCHAR:
        _numbers(cursor, 1)  # RisingWave accepts a length and does not enforce it
        return found
    raise SqlError(f"{name} takes no arguments", place=cursor.place())


def _numbers(cursor: Cursor, most: int) -> list[int]:
    """(n [, m])"""
    cursor.expect("(")
    found: list[int] = []
    while True:
        token = cursor.peek()
        if token.kind != "number" or not token.text.isdecimal():
            cursor.fail("a whole number")
        found.append(int(cursor.next().text[:9]))
        if len(found) == most or not cursor.accept(","):
            break
    cursor.expect(")")
    return found
