"""What can be wrong with a question about the system, in PostgreSQL's words and with its SQLSTATE."""

from __future__ import annotations

import re

from icestream.errors import SqlError


class SystemQueryError(SqlError):
    """A query over system relations that cannot be answered. `code` is its SQLSTATE."""

    def __init__(self, message: str, code: str) -> None:
        super().__init__(message)
        self.code = code


def unknown_relation(name: str) -> SystemQueryError:
    """There is no such relation."""
    return SystemQueryError(f'relation "{name}" does not exist', "42P01")


def unknown_function(name: str) -> SystemQueryError:
    """There is no such function, or none with such arguments."""
    return SystemQueryError(f"function {name} does not exist", "42883")


def unknown_type(name: str) -> SystemQueryError:
    """There is no such type."""
    return SystemQueryError(f'type "{name}" does not exist', "42704")


_STATES = {
    "relation": "42P01",
    "type": "42704",
    "function": "42883",
    "schema": "3F000",
    "role": "42704",
}


def translated(message: str) -> SystemQueryError:
    """What DuckDB said, as PostgreSQL would have said it."""
    _, _, text = message.partition("Error: ")
    text = (text or message).split("\n")[0]
    if found := re.match(r'(relation|type|function|schema|role) ".*" does not exist$', text):
        return SystemQueryError(text, _STATES[found[1]])
    if text.startswith("unrecognized configuration parameter"):
        return SystemQueryError(text, "42704")
    if found := re.search(
        r'(?:Referenced|Values list "\w+" does not have a) column (?:named )?"([^"]+)"', text
    ):
        return SystemQueryError(f"column {found[1]} does not exist", "42703")
    if found := re.search(r'Table "(\w+)" does not have a column named "(\w+)"', text):
        return SystemQueryError(f"column {found[1]}.{found[2]} does not exist", "42703")
    if found := re.search(r'Ambiguous reference to column name "(\w+)"', text):
        return SystemQueryError(f'column reference "{found[1]}" is ambiguous', "42702")
    if found := re.search(r'column "?(\w+)"? must appear in the GROUP BY clause', text):
        return SystemQueryError(
            f'column "{found[1]}" must appear in the GROUP BY clause or be used in an aggregate function',
            "42803",
        )
    if found := re.search(r'Referenced table "(\w+)" not found', text):
        return SystemQueryError(f'missing FROM-clause entry for table "{found[1]}"', "42P01")
    if found := re.search(
        r"[Ff]unction with name (\w+) does not exist|function matches.* '(\w+)\(", text
    ):
        return unknown_function(f"{found[1] or found[2]}()")
    if "invalid perl operator" in text:
        return SystemQueryError(f"invalid regular expression: {text}", "2201B")
    if message.startswith("INTERRUPT"):
        return SystemQueryError("canceling statement due to user request", "57014")
    if message.startswith("Conversion Error"):
        return SystemQueryError(text, "22P02")
    return SystemQueryError(text, "42601" if message.startswith("Parser Error") else "XX000")
