"""Statements for a home that a server runs: they go through it, and their results are printed as ever."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator
from typing import Any

import psycopg
from psycopg.types.string import TextLoader

from icestream.cli.serve import PASSWORD
from icestream.errors import ConnectorError, IcestreamError, Place, SqlError
from icestream.observe.serving import Serving
from icestream.result import Result
from icestream.sql import parse, split
from icestream.sql.environment import PLACEHOLDER

AS_TEXT = ("interval", "json", "jsonb")
"""Types whose values are printed as the server writes them."""


def results(serving: Serving, text: str, file: str = "<sql>") -> Iterator[Result]:
    """The results of statements, each as soon as it is there; notices go to standard error."""
    with _connect(serving) as connection:
        connection.add_notice_handler(lambda d: print(d.message_primary, file=sys.stderr))
        for name in AS_TEXT:
            connection.adapters.register_loader(name, TextLoader)
        for start, statement in split(_resolved(text)):
            try:
                answer = connection.execute(statement.encode())
                yield _result(answer, _created(statement))
            except psycopg.Error as error:
                raise _failure(error, text, file, start) from error


def _resolved(text: str) -> str:
    """The text with the `${NAME}` that are set here, of which the server knows nothing."""

    def value(found: re.Match[str]) -> str:
        if found["escape"] or found["name"] not in os.environ:
            return found[0]
        return os.environ[found["name"]].replace("'", "''")  # they stand in texts

    return PLACEHOLDER.sub(value, text)


def _connect(serving: Serving) -> psycopg.Connection[Any]:
    try:
        return psycopg.connect(
            host=serving.host, port=serving.port, user=serving.user, dbname="dev", autocommit=True,
            password=os.environ.get(PASSWORD), application_name="icestream sql", connect_timeout=10,
            sslmode="require" if serving.encrypted else "disable", cursor_factory=psycopg.ClientCursor,
        )  # fmt: skip
    except psycopg.Error as error:
        reason = str(error).strip().splitlines()[-1]
        raise ConnectorError(
            f"the server at {serving} does not let us in: {reason}",
            remedy=f"set {PASSWORD} to its password" if "password" in reason else None,
        ) from error


def _created(text: str) -> str:
    """The name of what a statement creates, with a blank before it."""
    try:
        (statement,) = parse(text, "", {})
    except IcestreamError:
        return ""
    name = getattr(statement, "name", "")
    return f" {name}" if name and type(statement).__name__.startswith("Create") else ""


def _result(cursor: psycopg.Cursor[Any], created: str) -> Result:
    if cursor.description is None:
        return Result(f"{cursor.statusmessage}{created}")
    names = tuple(column.name for column in cursor.description)
    return Result(cursor.statusmessage, names, cursor.fetchall())


def _failure(error: psycopg.Error, text: str, file: str, start: int) -> IcestreamError:
    told = error.diag
    if told.message_primary is None:
        return ConnectorError(f"the server is lost: {error}")
    place = None
    if told.statement_position:
        before = text[: start + int(told.statement_position) - 1]
        line = before.count("\n") + 1
        column = len(before) - (before.rfind("\n") + 1) + 1
        place = Place(file, line, column, text.split("\n")[line - 1])
    return SqlError(told.message_primary, place=place, remedy=told.message_hint)
