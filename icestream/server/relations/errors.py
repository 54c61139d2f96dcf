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


_TRANSLATIONS = (
    # what DuckDB says, what PostgreSQL says (the same where there is nothing), the SQLSTATE
    (r'^relation ".*" does not exist$', "", "42P01"),
    (r'^(type|role) ".*" does not exist$|^unrecognized configuration parameter', "", "42704"),
    (r'^function ".*" does not exist$', "", "42883"),
    (r'^schema ".*" does not exist$', "", "3F000"),
    (r'Referenced column "([^"]+)"', 'column "{}" does not exist', "42703"),
    (r'"([^"]+)" does not have a column named "([^"]+)"', "column {}.{} does not exist", "42703"),
    (
        r'Ambiguous reference to column name "([^"]+)"',
        'column reference "{}" is ambiguous',
        "42702",
    ),
    (
        r'column "?(\w+)"? must appear in the GROUP BY',
        'column "{}" must appear in the GROUP BY clause or be used in an aggregate function',
        "42803",
    ),
    (r'Referenced table "([^"]+)" not found', 'missing FROM-clause entry for table "{}"', "42P01"),
    (r"[Ff]unction with name (\w+) does not exist", "function {}() does not exist", "42883"),
    (r"function matches.* '(\w+)\(", "function {}() does not exist", "42883"),
    (r"^invalid perl operator", "", "2201B"),
    (r"^Interrupted", "canceling statement due to user request", "57014"),
)
_KINDS = {
    "Conversion Error": "22P02", "Parser Error": "42601", "Syntax Error": "42601",
    "Binder Error": "42601", "Catalog Error": "42704", "Not implemented Error": "0A000",
    "Invalid Input Error": "22023", "Out of Range Error": "22003", "Mismatch Type Error": "42804",
    "Permission Error": "42501", "Out of Memory Error": "53200", "Constraint Error": "22023",
    "INTERNAL Error": "0A000", "Serialization Error": "0A000",
}  # fmt: skip


def translated(message: str) -> SystemQueryError:
    """What DuckDB said, as PostgreSQL would have said it."""
    kind, _, text = message.split("\n")[0].partition(": ")
    text = text or message
    for pattern, said, code in _TRANSLATIONS:
        if found := re.search(pattern, text):
            return SystemQueryError(said.format(*found.groups()) or text, code)
    return SystemQueryError(text, _KINDS.get(kind, "XX000"))
