"""COPY … TO STDOUT: the query, and how its rows are written. COPY from a client and files of the server are refused."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sqlglot import exp

from icestream.errors import NotSupportedError, SqlError
from icestream.sql.cursor import Cursor
from icestream.sql.session_statements import CopyOptions, CopyTo, SystemQuery
from icestream.sql.statements import Query, Select, Statement
from icestream.sql.trees import named_column, select_from

_OPTIONS = (
    "FORMAT", "DELIMITER", "NULL", "HEADER", "QUOTE", "ESCAPE", "FORCE_QUOTE", "ENCODING",
    "FREEZE", "CSV", "BINARY", "FORCE",
)  # fmt: skip


def copy(cursor: Cursor, statement: Callable[[Cursor], Statement]) -> CopyTo:
    """COPY relation [(columns)] | (query) TO STDOUT [options]; `statement` parses the query."""
    cursor.expect("COPY")
    query = _query(cursor, statement)
    if cursor.at("FROM"):
        raise NotSupportedError(
            "COPY from the client", place=cursor.place(), remedy="write INSERT INTO … VALUES"
        )
    cursor.expect("TO")
    if not cursor.accept("STDOUT"):
        if cursor.peek().kind == "string" or cursor.at("PROGRAM"):
            raise NotSupportedError(
                "COPY to files of the server", place=cursor.place(), remedy="write TO STDOUT"
            )
        cursor.fail("STDOUT")
    options = _options(cursor)
    cursor.finish()
    return CopyTo(cursor.start, cursor.text, query, _checked(options, cursor))


def _query(cursor: Cursor, statement: Callable[[Cursor], Statement]) -> Statement:
    if cursor.accept("("):
        first, last = cursor.stretch(what="a query")
        cursor.expect(")")
        return statement(cursor.part(first, last))
    start, place = cursor.peek(), cursor.place()
    name = cursor.name("a relation")
    written, columns = cursor.since(start), "*"
    items: list[exp.Expression] = [exp.Star()]
    if cursor.at("("):
        start = cursor.peek()
        items = [named_column(each) for each in cursor.identifiers("a column")]
        columns = cursor.since(start)[1:-1]
    text = f"SELECT {columns} FROM {written}"
    if cursor.all.is_system_query({name.name, name.schema or ""}, text):
        return SystemQuery(place, text)
    return Select(place, text, Query(select_from(name, items), text, place, cursor.source))


def _options(cursor: Cursor) -> dict[str, Any]:
    """(FORMAT csv, HEADER true, …), or the older CSV HEADER …"""
    options: dict[str, Any] = {}
    cursor.accept("WITH")
    bracketed = cursor.accept("(")
    while cursor.peek().kind != "end" and not (bracketed and cursor.at(")")):
        place = cursor.place()
        name = cursor.word("an option of COPY", _OPTIONS).lower()
        if name == "force":
            cursor.expect("QUOTE")
            name = "force_quote"
        if name in ("csv", "binary"):
            name, value = "format", name
        else:
            value = _value(cursor, name)
        if name in options:
            raise SqlError(f"option {name} is there twice", place=place)
        options[name] = value
        if bracketed and not cursor.accept(","):
            break
    if bracketed:
        cursor.expect(")")
    return options


def _value(cursor: Cursor, name: str) -> Any:
    if name in ("header", "freeze"):
        token = cursor.peek()
        if token.upper in ("TRUE", "ON", "FALSE", "OFF") or token.text in ("0", "1"):
            return cursor.next().text.upper() in ("TRUE", "ON", "1")
        return True
    if name == "force_quote":
        if cursor.accept("*"):
            return None
        if cursor.at("("):
            return cursor.identifiers("a column")
        columns = [cursor.identifier("a column")]
        while cursor.accept(","):
            columns.append(cursor.identifier("a column"))
        return tuple(columns)
    if name == "format":
        text = cursor.next().text.lower()
        if text not in ("text", "csv", "binary"):
            raise SqlError(f'COPY format "{text}" not recognized', place=cursor.place(cursor.last))
        return text
    cursor.accept("AS")
    return cursor.string(f"the {name} as a string")


def _checked(options: dict[str, Any], cursor: Cursor) -> CopyOptions:
    format = options.get("format", "text")
    only_csv = {"quote", "escape", "force_quote"} & options.keys()
    if (format != "csv" and only_csv) or (
        format == "binary" and options.keys() - {"format", "freeze"}
    ):
        raise SqlError(f"COPY in format {format} does not take these options", place=cursor.start)
    if options.pop("encoding", "utf8").lower().replace("-", "") not in ("utf8", "unicode"):
        raise NotSupportedError("encodings other than UTF8", place=cursor.start)
    options.pop("freeze", None)
    for name in ("delimiter", "quote", "escape"):
        if len(options.get(name, ",")) != 1 or options.get(name) in ("\n", "\r"):
            raise SqlError(f"the {name} of COPY must be one character", place=cursor.start)
    if format == "csv":
        options = {"delimiter": ",", "null": "", "escape": options.get("quote", '"'), **options}
    return CopyOptions(**options)
