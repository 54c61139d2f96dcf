"""A client's text: its statements, and parameters written into it as literals."""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Mapping, Sequence
from decimal import Decimal
from types import MappingProxyType

from icestream.errors import SqlError
from icestream.functions.expressions import Cast, Literal, walk
from icestream.plan.logical import Node
from icestream.plan.rewrite import all_exprs
from icestream.server import moments
from icestream.types import BIGINT, NULL, VARCHAR, Type, array

PIECES = re.compile(
    r"""(?P<text>[eE]?'(?:[^']|'')*'|"(?:[^"]|"")*")
    |(?P<dollars>\$(?P<mark>\w*)\$.*?\$(?P=mark)\$)
    |(?P<comment>--[^\n]*|/\*.*?\*/)
    |\$(?P<number>\d+)
    |(?P<end>;)""",
    re.X | re.S,
)
"""What a text is made of, as far as it matters here."""
COUNTS = re.compile(r"\b(limit|offset)\s+$", re.I)
"""What stands before a parameter that is a number of rows."""
MARK = re.compile(r"(?P<whole>\{)?\x01\$(?P<at>\d+)\}?")
"""The text that stands for a parameter while types are looked for: where an array is asked for, that of its element."""


def statements(sql: str) -> list[str]:
    """The statements of a text, each with blanks around it, so that its places, and the lines they are in, are those of the
    text."""
    found: list[str] = []
    start = 0
    for end in [*(m.start() for m in PIECES.finditer(sql) if m["end"]), len(sql)]:
        if _says_something(sql[start:end]):
            after = " " * len(sql[end:].partition("\n")[0])
            found.append(re.sub(r"[^\n]", " ", sql[:start]) + sql[start:end] + after)
        start = end + 1
    return found


def parameters(sql: str) -> int:
    """How many parameters a statement has: the highest number."""
    return max((int(m["number"]) for m in PIECES.finditer(sql) if m["number"]), default=0)


def filled(sql: str, values: Sequence[object]) -> str:
    """A statement with values in the place of its parameters."""

    def step(match: re.Match[str]) -> str:
        if match["number"] is None:
            return match[0]
        at = int(match["number"])
        if not 1 <= at <= len(values):
            raise SqlError(f"there is no parameter ${at}")
        return literal(values[at - 1])

    return PIECES.sub(step, sql)


def marked(sql: str, given: Sequence[Type | None]) -> str:
    """A statement that can be bound before its values are known: open parameters are marks whose type the binder finds."""

    def step(match: re.Match[str]) -> str:
        if match["number"] is None:
            return match[0]
        at = int(match["number"]) - 1
        type = given[at] if at < len(given) else None
        if COUNTS.search(sql[: match.start()]):
            return "1"
        return f"'{{\x01${at}}}'" if type is None else f"CAST(NULL AS {type})"

    return PIECES.sub(step, sql)


def marked_at(text: object) -> int | None:
    """The parameter that a marking text stands for, counted from 0."""
    found = MARK.fullmatch(text) if isinstance(text, str) else None
    return int(found["at"]) if found else None


def types(
    sql: str,
    given: Sequence[Type | None],
    node: Node,
    placed: Mapping[int, Type] = MappingProxyType({}),
) -> tuple[Type, ...]:
    """The types of a statement's parameters: as the client says, else what their place asks for, else texts.

    `placed` says what the places of some ask for.
    """
    found: dict[int, Type] = dict(placed)
    for expr in (part for whole in all_exprs(node) for part in walk(whole)):
        literal = expr.arg if isinstance(expr, Cast) else expr
        mark = literal.value if isinstance(literal, Literal) else None
        at = marked_at(mark)
        if at is not None and expr.type != NULL:
            whole = str(mark).startswith("{")
            found.setdefault(at, expr.type if whole else array(expr.type))
    for match in PIECES.finditer(sql):
        if match["number"] and COUNTS.search(sql[: match.start()]):
            found.setdefault(int(match["number"]) - 1, BIGINT)
    return tuple(given[at] or found.get(at, VARCHAR) for at in range(parameters(sql)))


def literal(value: object) -> str:
    """A value as SQL writes it. A text stays one whose type is open, as PostgreSQL has it for parameters."""
    match value:
        case None:
            return "NULL"
        case bool():
            return "TRUE" if value else "FALSE"
        case int():
            return str(value) if value >= 0 else f"({value})"
        case float():
            return f"CAST('{value}' AS DOUBLE PRECISION)"
        case Decimal():
            return f"CAST('{value}' AS NUMERIC)"
        case bytes():
            return f"CAST('\\x{value.hex()}' AS BYTEA)"
        case dt.datetime():
            kind = "TIMESTAMP" if value.tzinfo is None else "TIMESTAMPTZ"
            return f"CAST('{value.isoformat(' ')}' AS {kind})"
        case dt.date():
            return f"CAST('{value.isoformat()}' AS DATE)"
        case dt.time():
            return f"CAST('{value.isoformat()}' AS TIME)"
        case dt.timedelta():
            return f"INTERVAL '{moments.interval_text(value)}'"
        case [] | ():
            return "'{}'"
        case list() | tuple():
            return f"ARRAY[{', '.join(map(literal, value))}]"
    text = str(value).replace("'", "''")
    return f"'{text}'"


def _says_something(text: str) -> bool:
    return bool(PIECES.sub(lambda m: "" if m["comment"] else m[0], text).strip())
