"""Where the engine differs from PostgreSQL on purpose, each with its reason. Nothing else may differ."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

Rows = Callable[[tuple[Any, ...], Any, Any], bool]


@dataclass(frozen=True)
class Deviation:
    """A case (pattern of its SQL, pattern of its types), the rows that may differ, and why.

    `postgres` is what PostgreSQL is asked instead, where it spells the same thing differently.
    """

    sql: str
    types: str
    reason: str
    rows: Rows | None = None
    postgres: str | None = None
    type: bool = False

    def covers(self, values: tuple[Any, ...], wanted: Any, got: Any) -> bool:
        return self.rows is not None and self.rows(values, wanted, got)


def _overflow(values: tuple[Any, ...], wanted: Any, got: Any) -> bool:
    return wanted is None and got is not None and (math.isinf(got) or got == 0)


def _not_a_number(values: tuple[Any, ...], wanted: Any, got: Any) -> bool:
    return _overflow(values, wanted, got) or (got is None and math.isnan(wanted))


def _close(values: tuple[Any, ...], wanted: Any, got: Any) -> bool:
    """PostgreSQL stops a quotient after 16 significant digits, the engine after 10 behind the point."""
    return (
        wanted is not None
        and got is not None
        and abs(wanted - got) <= abs(wanted) * Decimal("1e-16")
    )


def _sharp_s(values: tuple[Any, ...], wanted: Any, got: Any) -> bool:
    return "ß" in values[0]


def _reserved(values: tuple[Any, ...], wanted: Any, got: Any) -> bool:
    return "true" in values


def _scalar(values: tuple[Any, ...], wanted: Any, got: Any) -> bool:
    return got is None and not isinstance(values[0], dict | list)


def _any(values: tuple[Any, ...], wanted: Any, got: Any) -> bool:
    return True


FLOATS = "[fn][48]?( [fni][248]?)?"
DEVIATIONS: tuple[Deviation, ...] = (
    Deviation(r"x [+*-] y|degrees\(x\)", FLOATS, "a float that overflows becomes Infinity, one that underflows 0", _overflow),
    Deviation(r"x / y", r"f[48] f[48]", "the same, and NaN divided by zero is NULL", _not_a_number),
    Deviation(r"x / y", r"[in][248]? n\d*|n\d* [in][248]?|n\d* n\d*", "the engine keeps 10 digits behind the point of every quotient", _close),
    Deviation(r"7.0 / 2|10 / 3.0", "b", "the same", _close),
    Deviation(r"power\(x, y\)|pow\(x, y\)|x \^ y", "n n", "powers of numeric are computed in double precision", lambda v, w, g: v[1] is not None and abs(v[1]) > 10**14),
    Deviation(r"atan2\(x, y\)", "f8 f8", "Spark takes -0.0 for 0.0", lambda v, w, g: v[0] == 0 or v[1] == 0),
    Deviation(r"(upper|initcap)\(x\)", "s", "ß has no upper case in PostgreSQL's C.UTF-8, in Java it is SS", _sharp_s),
    Deviation(r"quote_ident\(x\)|format\(.*%I.*\)", "s|s s", "reserved words are not quoted", _reserved),
    Deviation(r"x ->>? (0|-1|y)", "j|j k", "PostgreSQL takes a scalar for an array of one element", _scalar),
    Deviation(r"to_char\(x, .*\)", "f[48]", "overflow of a float pattern has all its # and -0 no sign", _any),
    Deviation(r"x::(real|double precision)", "sf", "no hexadecimal floats", lambda v, w, g: "0x" in v[0]),
    Deviation(r"x::timestamp(tz)?", "sts", "a time needs its colons", lambda v, w, g: " 101112" in v[0]),
)  # fmt: skip


def deviation(sql: str, types: tuple[str, ...]) -> Deviation | None:
    """The deviation listed for a case, if any."""
    joined = " ".join(types)
    return next(
        (d for d in DEVIATIONS if re.fullmatch(d.sql, sql) and re.fullmatch(d.types, joined)), None
    )
