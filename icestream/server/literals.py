"""A client's text: its statements, and parameters written into it as literals."""

from __future__ import annotations

import datetime as dt
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from decimal import Decimal
from types import MappingProxyType

from icestream import interrupts
from icestream.errors import Place, SqlError
from icestream.functions.expressions import Cast, Literal, walk
from icestream.functions.far_dates import FarDate, FarTimestamp
from icestream.functions.literals import PLACEHOLDER
from icestream.plan.logical import Node
from icestream.plan.rewrite import all_exprs
from icestream.server import moments
from icestream.server.values import codec
from icestream.sql.masking import escape_variables
from icestream.sql.source import scan
from icestream.types import (
    BIGINT,
    NULL,
    NUMERIC,
    VARCHAR,
    ArrayType,
    MapType,
    StructType,
    Type,
    array,
)

MAX_PARAMETERS = 65_535
"""A Bind message counts them with 16 bits."""
MARKS = re.compile(r"(?<![\w$])\$(?P<number>\d+)|(?P<end>;)")
"""What matters here of a text: parameters and ends of statements."""
UTILITY = re.compile(r"\s*(create|alter|drop|comment|grant|revoke|set|show)\b", re.I)
"""Statements that take no parameters, as in PostgreSQL. What stands in their literals may have a meaning of its own."""
COUNTS = re.compile(r"(?<![\w$])(limit|offset)", re.I)
"""What stands before a parameter that is a number of rows."""
ITEM_END = re.compile(r"\s*[,)]")
MARK = re.compile(rf"(?P<whole>\{{)?{re.escape(PLACEHOLDER)}(?P<at>\d+)\}}?")
"""The text that stands for a parameter while types are looked for: where an array is asked for, that of its element."""


@dataclass(frozen=True)
class Piece:
    """One statement of a text, and where it stands there: the characters before it, the lines before it, and the characters
    before it in its first line."""

    text: str
    said: str
    """As the client wrote it."""
    start: int = 0
    lines: int = 0
    columns: int = 0

    def locate(self, place: Place) -> Place | None:
        """A place of this statement, as a place of the whole text; None if it is a place of something else."""
        lines = self.said.split("\n")
        if not 1 <= place.line <= len(lines):
            return None
        line = lines[place.line - 1].rstrip("\r")
        if place.text and len(place.text) != len(line):  # stars over secrets keep the length
            return None
        before = self.columns if place.line == 1 else 0
        return Place(place.file, place.line + self.lines, place.column + before)


def statements(sql: str) -> list[Piece]:
    """The statements of a text. The time is linear in its length: nothing before a statement is looked at again for it."""
    found: list[Piece] = []
    start = lines = line_start = 0
    for end in [*(m.start() for m in _marks(sql) if m["end"]), len(sql)]:
        interrupts.check()
        said = sql[start:end]
        if _says_something(said):
            found.append(Piece(_without_variables(said), said, start, lines, start - line_start))
        if breaks := sql.count("\n", start, end):
            lines += breaks
            line_start = sql.rindex("\n", start, end) + 1
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


def occurrences(sql: str) -> Counter[int]:
    """How often each parameter is there, counted from 0."""
    return Counter(int(mark["number"]) - 1 for mark in _marks(sql) if mark["number"])


def filled(sql: str, values: Sequence[object], types: Sequence[Type | None] = ()) -> str:
    """A statement with values in the place of its parameters, each of its type."""

    def step(match: re.Match[str]) -> str:
        at = int(match["number"])
        if not 1 <= at <= len(values):
            raise SqlError(f"there is no parameter ${at}", code="42P02")
        type = types[at - 1] if at <= len(types) else None
        value = values[at - 1]
        if type is None or _counts_rows(match):
            return literal(value)
        return typed(value, type, whole=_is_item(match))

    _check_takes_parameters(sql)
    return _replace_parameters(sql, step)


def marked(sql: str, given: Sequence[Type | None]) -> str:
    """A statement that can be bound before its values are known: open parameters are marks whose type the binder finds."""

    def step(match: re.Match[str]) -> str:
        at = int(match["number"]) - 1
        type = given[at] if at < len(given) else None
        if _counts_rows(match):
            return "1"
        if type is None:
            return f"'{{{PLACEHOLDER}{at}}}'"
        return typed(None, type, whole=_is_item(match))

    _check_takes_parameters(sql)
    return _replace_parameters(sql, step)


def _before(mark: re.Match[str]) -> int:
    """Where the text before a parameter ends."""
    sql, at = mark.string, mark.start()
    while at and sql[at - 1].isspace():
        at -= 1
    return at


def _is_item(mark: re.Match[str]) -> bool:
    """Whether a parameter is all of an item in a list: then no operator beside it can bind tighter than a cast."""
    return (
        mark.string[_before(mark) - 1 : _before(mark)] in (",", "(")
        and ITEM_END.match(mark.string, mark.end()) is not None
    )


def _counts_rows(mark: re.Match[str]) -> bool:
    """Whether a parameter is that of LIMIT or OFFSET. Only the word before it is looked at."""
    sql, at = mark.string, _before(mark)
    return at < mark.start() and any(
        COUNTS.fullmatch(sql, at - length, at) for length in (5, 6) if length <= at
    )


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
        interrupts.check()
        literal = expr.arg if isinstance(expr, Cast) else expr
        mark = literal.value if isinstance(literal, Literal) else None
        at = marked_at(mark)
        if at is not None and expr.type != NULL:
            whole = str(mark).startswith("{")
            found.setdefault(at, expr.type if whole else array(expr.type))
    for match in _marks(sql):
        if match["number"] and _counts_rows(match):
            found.setdefault(int(match["number"]) - 1, BIGINT)
    return tuple(given[at] or found.get(at, VARCHAR) for at in range(parameters(sql)))


def settled(given: Sequence[Type | None], found: Sequence[Type]) -> tuple[Type | None, ...]:
    """The types that values keep in a statement: as the client says, else what was found. What would be a text stays open,
    as a literal in quotes is."""
    pairs = zip(given, found, strict=False)
    return tuple(own or (None if type == VARCHAR else type) for own, type in pairs)


def typed(value: object, type: Type, *, whole: bool = False) -> str:
    """A value of a type. The binder makes one constant of the cast: it is none of a column.

    As the `whole` item of a list it is written with half as many words, of which there may be 60,000 times as many.
    """
    if isinstance(type, StructType | MapType) or isinstance(value, bool):
        return literal(value)
    while isinstance(value, list) and _nests(value, type):
        type = array(type)
    text = "NULL" if value is None else _quoted(codec(type).text(value))
    if whole and not isinstance(type, ArrayType):
        return f"{text}::{'numeric' if type == NUMERIC else type}"
    return f"CAST({text} AS {type})"


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def _nests(value: Sequence[object], type: Type) -> bool:
    """Whether an array has more dimensions than its type: in PostgreSQL those do not belong to it."""
    inner: object = value
    while isinstance(type, ArrayType):
        if not isinstance(inner, list):
            return False
        inner = next((item for item in inner if item is not None), None)
        type = type.element
    return isinstance(inner, list)


def literal(value: object) -> str:
    """A value as SQL writes it, by itself. A text stays one whose type is open, as PostgreSQL has it for parameters."""
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
    return _quoted(str(value))


def _marks(sql: str) -> Iterator[re.Match[str]]:
    """Parameters and semicolons, outside of comments, literals and quoted names."""
    start = 0
    for region in (*scan(sql), None):
        for mark in MARKS.finditer(sql, start, region.start if region else len(sql)):
            interrupts.check()
            yield mark
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
