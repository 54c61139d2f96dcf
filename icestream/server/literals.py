"""A client's text: its statements, and parameters written into it as literals."""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from decimal import Decimal
from types import MappingProxyType

from icestream.errors import SqlError
from icestream.functions.expressions import Cast, Literal, walk
from icestream.functions.far_dates import FarDate, FarTimestamp
from icestream.functions.literals import PLACEHOLDER
from icestream.plan.logical import Node
from icestream.plan.rewrite import all_exprs
from icestream.server import moments
from icestream.sql.masking import escape_variables
from icestream.sql.source import scan
from icestream.types import BIGINT, NULL, VARCHAR, Type, array

MAX_PARAMETERS = 65_535
"""A Bind message counts them with 16 bits."""
MARKS = re.compile(r"(?<![\w$])\$(?P<number>\d+)|(?P<end>;)")
"""What matters here of a text: parameters and ends of statements."""
UTILITY = re.compile(r"\s*(create|alter|drop|comment|grant|revoke|set|show)\b", re.I)
"""Statements that take no parameters, as in PostgreSQL. What stands in their literals may have a meaning of its own."""
COUNTS = re.compile(r"\b(limit|offset)\s+$", re.I)
"""What stands before a parameter that is a number of rows."""
MARK = re.compile(rf"(?P<whole>\{{)?{re.escape(PLACEHOLDER)}(?P<at>\d+)\}}?")
"""The text that stands for a parameter while types are looked for: where an array is asked for, that of its element."""


def statements(sql: str) -> list[str]:
    """The statements of a text, each with blanks around it, so that its places, and the lines they are in, are those of the
    text."""
    found: list[str] = []
    start = 0
    for end in [*(m.start() for m in _marks(sql) if m["end"]), len(sql)]:
        if _says_something(sql[start:end]):
            after = " " * len(sql[end:].partition("\n")[0])
            text = re.sub(r"[^\n]", " ", sql[:start]) + sql[start:end] + after
            found.append(_without_variables(text))
        start = end + 1
    return found


def _without_variables(text: str) -> str:
    """A client's options are data, also when they are read again from the store: `${NAME}` in them is no variable."""
    if "${" in text and UTILITY.match(without_comments(text)):
        with suppress(SqlError):  # what cannot be cut into tokens fails where it is parsed
            return escape_variables(text)
    return text


def parameters(sql: str) -> int:
    """How many parameters a statement has: the highest number."""
    numbers = [int(m["number"][:20]) for m in _marks(sql) if m["number"]]
    for number in numbers:
        if not 1 <= number <= MAX_PARAMETERS:
            raise SqlError(f"there is no parameter ${number}", code="42P02")
    return max(numbers, default=0)


def filled(sql: str, values: Sequence[object]) -> str:
    """A statement with values in the place of its parameters."""

    def step(match: re.Match[str]) -> str:
        at = int(match["number"])
        if not 1 <= at <= len(values):
            raise SqlError(f"there is no parameter ${at}", code="42P02")
        return literal(values[at - 1])

    _check_takes_parameters(sql)
    return _replace_parameters(sql, step)


def marked(sql: str, given: Sequence[Type | None]) -> str:
    """A statement that can be bound before its values are known: open parameters are marks whose type the binder finds."""

    def step(match: re.Match[str]) -> str:
        at = int(match["number"]) - 1
        type = given[at] if at < len(given) else None
        if COUNTS.search(sql[: match.start()]):
            return "1"
        return f"'{{{PLACEHOLDER}{at}}}'" if type is None else f"CAST(NULL AS {type})"

    _check_takes_parameters(sql)
    return _replace_parameters(sql, step)


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
    for match in _marks(sql):
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
        case FarDate():
            return f"CAST('{value}' AS DATE)"
        case FarTimestamp(zoned=zoned):
            return f"CAST('{value}' AS {'TIMESTAMPTZ' if zoned else 'TIMESTAMP'})"
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


def _marks(sql: str) -> Iterator[re.Match[str]]:
    """Parameters and semicolons, outside of comments, literals and quoted names."""
    start = 0
    for region in (*scan(sql), None):
        yield from MARKS.finditer(sql, start, region.start if region else len(sql))
        start = region.end if region else start


def _replace_parameters(sql: str, step: Callable[[re.Match[str]], str]) -> str:
    """The text with every parameter replaced. What is put in is not looked at again."""
    pieces: list[str] = []
    copied = 0
    for mark in _marks(sql):
        if mark["number"]:
            pieces += [sql[copied : mark.start()], step(mark)]
            copied = mark.end()
    return "".join(pieces) + sql[copied:]


def _check_takes_parameters(sql: str) -> None:
    if parameters(sql) and (found := UTILITY.match(without_comments(sql))):
        raise SqlError(
            "there is no parameter $1",
            code="42P02",
            remedy=f"write the value into the text: {found[1].upper()} takes no parameters",
        )


def without_leading_comments(text: str) -> str:
    """A text from its first word on."""
    start = 0
    for region in scan(text):
        if region.kind != "comment" or text[start : region.start].strip():
            break
        start = region.end
    return text[start:]


def without_comments(text: str) -> str:
    """A text with a blank in the place of each comment."""
    pieces: list[str] = []
    copied = 0
    for region in scan(text):
        if region.kind == "comment":
            pieces.append(text[copied : region.start])
            copied = region.end
    return " ".join((*pieces, text[copied:]))


def _says_something(text: str) -> bool:
    return bool(without_comments(text).strip())
