"""Small pieces of Spark SQL text that the templates are built from.

Everything that repeats an argument goes through `once`, so that nested expressions are evaluated once and the text
does not grow exponentially.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Sequence

from icestream.functions.expressions import Interval

_VARIABLE = re.compile(r"\b_v\d+\b")
DAY_MICROS = "86400000000L"
_SIMPLE = re.compile(
    r"`(?:[^`]|``)*`(?:\.`(?:[^`]|``)*`)*|-?[0-9.]+[A-Z]{0,2}|'(?:[^'\\]|\\.){0,40}'|_[ve]\d+|TRUE|FALSE|(?:DATE|TIMESTAMP|TIMESTAMP_NTZ) '[^']*'"
    r"|CAST\(-?[0-9.]+(?:BD)? AS [^()]*(?:\([^()]*\))?\)"
    r"|named_struct\('months', -?\d+, 'days', -?\d+, 'microseconds', -?\d+L\)"
    r"|CAST\(NULL AS [^()]*(?:\([^()]*\))?\)"
)


def string(value: str) -> str:
    """A string literal. `${` would be a variable for Spark, and a backslash starts an escape.

    `\\u0000` and not `\\0` for a NUL: digits may follow, which would make it another octal escape.
    """
    escaped = value.replace("\\", "\\\\").replace("'", "\\'").replace("${", "\\u0024{")
    return f"'{escaped}'".replace("\n", "\\n").replace("\r", "\\r").replace("\x00", "\\u0000")


def once(args: Sequence[str], make: Callable[[Sequence[str]], str]) -> str:
    """`make(args)`; arguments that are more than a column or literal and used repeatedly are evaluated once.

    Spark SQL has no LET inside an expression: a lambda over a one-element array is the same thing.
    """
    heavy = [i for i, a in enumerate(args) if not _SIMPLE.fullmatch(a)]
    # Count with marks in place of the arguments: one argument may be part of another. No rendered text has a NUL in it.
    marks = [f"\x00{i}\x00" if i in heavy else a for i, a in enumerate(args)]
    repeated = make(marks) if heavy else ""
    body = make(args)
    if not any(repeated.count(marks[i]) > 1 for i in heavy):
        return body
    names = dict(zip(heavy, fresh(len(heavy), body), strict=True))
    text = make([names.get(i, a) for i, a in enumerate(args)])
    for i in reversed(heavy):
        text = f"get(transform(array({args[i]}), {names[i]} -> {text}), 0)"
    return text


def fresh(count: int, *texts: str) -> list[str]:
    """Names of lambda variables that none of the texts uses: the first free ones, so that numbers stay small, whatever
    literals hold."""
    used = {name for text in texts for name in _VARIABLE.findall(text)}
    free = (name for k in itertools.count(1) if (name := f"_v{k}") not in used)
    return list(itertools.islice(free, count))


def each(array: str, make: Callable[[str], str], how: str = "transform") -> str:
    """`transform(array, element -> make(element))`, or filter, exists, forall."""
    (v,) = fresh(1, array, make("_v0"))
    return f"{how}({array}, {v} -> {make(v)})"


def let(value: str, make: Callable[[str], str]) -> str:
    """`make` of one value, evaluated once."""
    return once((value,), lambda a: make(a[0]))


def interval(months: str, days: str, microseconds: str) -> str:
    """An interval from its parts; NULL if one of them is (an overflow, or a NULL input)."""
    whole = (
        f"named_struct('months', try_cast({months} AS INT), 'days', try_cast({days} AS INT), "
        f"'microseconds', try_cast({microseconds} AS BIGINT))"
    )
    (v,) = fresh(1, whole)
    present = f"{v}.months IS NOT NULL AND {v}.days IS NOT NULL AND {v}.microseconds IS NOT NULL"
    return f"get(filter(array({whole}), {v} -> {present}), 0)"


def calendar(value: str) -> str:
    """Spark's own interval from ours, to add to a timestamp."""
    seconds = f"CAST({value}.microseconds / 1000000BD AS DECIMAL(18,6))"
    return f"make_interval(0, {value}.months, 0, {value}.days, 0, 0, {seconds})"


def calendar_literal(value: Interval) -> str:
    """The same for a constant."""
    sign = "-" if value.microseconds < 0 else ""
    seconds = (
        f"{sign}{abs(value.microseconds) // 1_000_000}.{abs(value.microseconds) % 1_000_000:06d}"
    )
    return f"make_interval(0, {value.months}, 0, {value.days}, 0, 0, {seconds})"


def interval_key(value: str) -> str:
    """What PostgreSQL compares intervals by: a month is 30 days, a day 24 hours."""
    days = f"CAST({value}.months AS DECIMAL(38,0)) * 30 + {value}.days"
    return f"(({days}) * 86400000000 + {value}.microseconds)"


def micros(timestamp: str) -> str:
    """Microseconds since the epoch of a timestamp of either kind (the session's zone is UTC)."""
    return f"unix_micros(CAST({timestamp} AS TIMESTAMP))"


def decimal(value: str, precision: int = 28, scale: int = 10) -> str:
    """The value as a decimal, NULL if it does not fit."""
    return f"try_cast({value} AS DECIMAL({precision},{scale}))"
