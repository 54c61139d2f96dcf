"""Clauses that several statements share: IF NOT EXISTS, WITH (…), FORMAT … ENCODE …, INCLUDE …"""

from __future__ import annotations

from dataclasses import replace

from icestream.errors import Place, SqlError
from icestream.secrecy import is_secret_key
from icestream.sql.cursor import Cursor
from icestream.sql.environment import only_placeholders
from icestream.sql.statements import Format, Include, Option, Options
from icestream.sql.types import type_of

FORMATS = (
    "PLAIN", "UPSERT", "DEBEZIUM", "DEBEZIUM_MONGO", "MAXWELL", "CANAL", "NATIVE", "NONE",
)  # fmt: skip
ENCODES = (
    "JSON", "CSV", "BYTES", "AVRO", "PROTOBUF", "PARQUET", "TEXT", "TEMPLATE", "NATIVE", "NONE",
)  # fmt: skip
INCLUDES = (
    "KEY", "PARTITION", "OFFSET", "TIMESTAMP", "HEADER", "PAYLOAD", "FILE",
    "DATABASE_NAME", "SCHEMA_NAME", "TABLE_NAME", "SOURCE",
)  # fmt: skip


def if_not_exists(cursor: Cursor) -> bool:
    """[IF NOT EXISTS]"""
    return bool(cursor.at("IF", "NOT") and cursor.expect("IF", "NOT", "EXISTS"))


def if_exists(cursor: Cursor) -> bool:
    """[IF EXISTS]"""
    return bool(cursor.at("IF", "EXISTS") and cursor.expect("IF", "EXISTS"))


def with_options(cursor: Cursor) -> Options:
    """[WITH (…)]"""
    if not cursor.at("WITH"):
        return {}
    cursor.expect("WITH")
    return option_list(cursor)


def option_list(cursor: Cursor) -> Options:
    """(key = value, …), a last comma is allowed: a key that is there twice is an error."""
    cursor.expect("(")
    found: dict[str, Option] = {}
    while not cursor.at(")"):
        option = _option(cursor)
        if option.key in found:
            raise SqlError(f"option {option.key} is there twice", place=option.place)
        found[option.key] = option
        if not cursor.accept(","):
            break
    if not cursor.accept(")"):
        cursor.fail(", or )")
    return found


def _option(cursor: Cursor) -> Option:
    place = cursor.place()
    key = _key(cursor)
    cursor.expect("=")
    if cursor.at("SECRET") and cursor.peek(1).kind in ("word", "name"):
        return _secret(cursor, key, place)
    first = cursor.peek()
    option = Option(key, *_value(cursor), place=place, value_place=cursor.place(cursor.last))
    if first.kind != "string" and is_secret_key(key):
        written = cursor.since(first)
        if "${" in written and not only_placeholders(written):
            # The plain part of it is to be kept apart, as a literal.
            raise SqlError(
                f"the value of {key} is neither a literal nor a variable alone",
                place=option.value_place,
                remedy="put all of it into a string literal",
            )
    return option


def _key(cursor: Cursor) -> str:
    """A dotted key, in which keywords are ordinary words: table.name, properties.group.id"""
    if cursor.peek().kind == "string":
        return cursor.next().text
    key = ""
    while not cursor.at("="):
        token = cursor.peek()
        if not (token.kind in ("word", "name", "number") or (key and token.upper in (".", "-"))):
            cursor.fail("=" if key else "an option")
        key += token.text if token.kind == "name" else token.text.lower()
        cursor.next()
        if cursor.peek().kind in ("word", "name") and not key.endswith((".", "-")):
            cursor.fail("=")
    if not key:
        cursor.fail("an option")
    return key


def _value(cursor: Cursor) -> tuple[str]:
    sign = cursor.next().text if cursor.at("-") or cursor.at("+") else ""
    token = cursor.peek()
    if token.kind == "number":
        cursor.next()
        return (sign + token.text,)
    if sign:
        cursor.fail("a number")
    if token.kind == "string":
        return (cursor.variable_string("a value"),)
    if cursor.at("TRUE") or cursor.at("FALSE"):
        return (cursor.next().text.lower(),)
    parts = [cursor.identifier("a value")]
    while cursor.accept("."):
        parts.append(cursor.identifier("a value"))
    return (".".join(parts),)


def _secret(cursor: Cursor, key: str, place: Place) -> Option:
    value_place = cursor.place()
    cursor.expect("SECRET")
    name = cursor.name("the name of a secret")
    as_file = bool(cursor.at("AS") and cursor.expect("AS", "FILE"))
    return Option(key, "", place, value_place, secret=name, secret_as_file=as_file)


def format_encode(cursor: Cursor) -> Format:
    """FORMAT … ENCODE … [(…)] [KEY ENCODE …]"""
    place = cursor.place(cursor.expect("FORMAT"))
    format = cursor.word("a format", FORMATS)
    cursor.expect("ENCODE")
    encode = cursor.word("an encoding", ENCODES)
    found = Format(format, encode, option_list(cursor) if cursor.at("(") else {}, place)
    if cursor.accept("KEY", "ENCODE"):
        found = replace(found, key_encode=cursor.word("an encoding", ENCODES))
    return found


def include(cursor: Cursor) -> Include:
    """INCLUDE what ['inner' [type]] [AS alias]"""
    place = cursor.place(cursor.expect("INCLUDE"))
    what = cursor.word("what to include", INCLUDES).lower()
    inner = type = alias = None
    if what in ("header", "source") and cursor.peek().kind == "string":
        inner = cursor.string(f"the name in the {what}")
        if (
            cursor.peek().kind == "word"
            and not cursor.at("AS")
            and cursor.peek().upper not in _AFTER
        ):
            type = type_of(cursor)
    if cursor.accept("AS"):
        alias = cursor.identifier("a column name")
    return Include(what, alias, place, inner, type)


_AFTER = ("INCLUDE", "WITH", "FORMAT", "FROM", "ENGINE", "APPEND", "ON")
