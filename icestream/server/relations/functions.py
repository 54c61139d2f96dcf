"""The system functions: what they are called, what they return, and how DuckDB learns them.

Those that PostgreSQL has and DuckDB has not are macros, read from `functions.sql`; `SHARED` has the names of
those that both have and that mean the same. There are no others: what is in neither does not exist.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache

from icestream.server.relations.datatypes import duck, named
from icestream.server.relations.schema import text

SCHEMA = "fn"
"""Where the macros are in DuckDB."""

SHARED = frozenset(
    """
    abs age all any array_agg array_append array_cat array_position array_prepend avg bool_and bool_or btrim ceil
    char_length character_length chr coalesce concat concat_ws count date_part date_trunc every exists floor
    generate_series greatest initcap json_object least left length lower lpad ltrim max md5 min mod now nullif position
    power rank regexp_replace repeat replace reverse right round row row_number row_to_json rpad rtrim split_part
    starts_with string_agg string_to_array strpos substr substring sum to_json to_timestamp translate trim unnest upper
    """.split()  # noqa: SIM905
)


@dataclass(frozen=True)
class Macro:
    """A function that is a macro: its result's type by PostgreSQL's name, None for one that gives a table."""

    name: str
    parameters: str
    result: str | None
    body: str
    helper: bool = False

    def takes(self, count: int) -> bool:
        """Whether it can be called with so many arguments."""
        names = [name for name in self.parameters.split(", ") if name]
        return sum(":=" not in name for name in names) <= count <= len(names)

    @property
    def ddl(self) -> str:
        """The statement that makes it."""
        body = f"TABLE {self.body}" if self.result is None else self.body
        if self.result not in (None, "record", "anyarray") and "unnest(" not in self.body:
            body = f"CAST(({self.body}) AS {duck(self.result or '')})"
        return f"CREATE MACRO {SCHEMA}.{self.name}({self.parameters}) AS {body}"


_FUNCTION = re.compile(
    r"^(FUNCTION|HELPER) (\w+)\(([^()]*)\) RETURNS ([\w\[\]]+) AS\s(.*?);$", re.M | re.S
)


@cache
def macros() -> dict[str, Macro]:
    """The macros that clients can call, by name."""
    return {macro.name: macro for macro in all_macros() if not macro.helper}


@cache
def all_macros() -> tuple[Macro, ...]:
    """All macros, those that others are made from before them."""
    return tuple(
        Macro(
            name, parameters, None if result == "TABLE" else named(result), body, kind == "HELPER"
        )
        for kind, name, parameters, result, body in _FUNCTION.findall(text("functions.sql"))
    )
