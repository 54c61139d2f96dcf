"""Dates, times, timestamps and intervals: arithmetic, fields, truncation, zones.

The session's zone is UTC, so a timestamptz and its wall clock in UTC share one number of microseconds. An interval
keeps months, days and microseconds apart, as PostgreSQL does.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from icestream import types as t
from icestream.functions import fragments as f
from icestream.functions.expressions import Expr, Interval, Literal
from icestream.functions.formats import parse_pattern, to_char_rows
from icestream.functions.function import Function, Rows, Template
from icestream.functions.input_errors import TextInputError
from icestream.functions.strings import constant, required
from icestream.types import Type, spark_type

TEXT, I4, I8, F8, N = t.VARCHAR, t.INTEGER, t.BIGINT, t.DOUBLE, t.NUMERIC
DATE, TIME, TS, TZ, SPAN = t.DATE, t.TIME, t.TIMESTAMP, t.TIMESTAMPTZ, t.INTERVAL
DAY = f.DAY_MICROS


def _shift(name: str, moment: int, span: int) -> Callable[[Sequence[str], Sequence[Expr]], str]:
    """timestamp ± interval. try_add catches what overflows."""

    def template(a: Sequence[str], e: Sequence[Expr]) -> str:
        x = _wall(a[moment]) if e[moment].type == DATE else a[moment]
        constant = e[span]
        if isinstance(constant, Literal) and isinstance(constant.value, Interval):
            return f"{name}({x}, {f.calendar_literal(constant.value)})"
        return f"{name}({x}, {f.calendar(a[span])})"

    return template


def _wall(x: str) -> str:
    return f"CAST({x} AS TIMESTAMP_NTZ)"


def _plus(name: str) -> str:
    parts = ("months", "days", "microseconds")
    return f.interval(*(f"{name}({{0}}.{p}, {{1}}.{p})" for p in parts))


def _difference(a: Sequence[str], e: Sequence[Expr]) -> str:
    """timestamp − timestamp: days and the rest."""
    micros = f"try_subtract({f.micros(a[0])}, {f.micros(a[1])})"
    return f.let(micros, lambda v: f.interval("0", f"{v} div {DAY}", f"{v} % {DAY}"))


def _scaled(x: str, factor: str) -> str:
    """interval * double: fractions of a month become days, of a day time, as PostgreSQL cascades them."""

    def whole(v: str, k: str) -> str:
        months, days = f"({v}.months * {k})", f"({v}.days * {k})"

        def cut(y: str) -> str:
            return f"try_cast(IF({y} < 0, ceil({y}), floor({y})) AS BIGINT)"

        month_rest = f"rint(({months} - {cut(months)}) * 30 * 1000000D) / 1000000D"

        def rest(m: str) -> str:
            seconds = f"rint(({days} - {cut(days)} + {m} - {cut(m)}) * 86400 * 1000000D) / 1000000D"

            def done(s: str) -> str:
                extra = f"IF(abs({s}) >= 86400, {cut(f'({s} / 86400)')}, 0)"
                left = f"({s} - {extra} * 86400)"
                time = f"rint({v}.microseconds * {k} + {left} * 1000000D)"
                return f.interval(
                    cut(months), f"{cut(days)} + {extra} + {cut(m)}", f"try_cast({time} AS BIGINT)"
                )

            return f.let(seconds, done)

        return f.let(month_rest, rest)

    return f.once((x, factor), lambda a: whole(a[0], a[1]))


def _zoned(x: str, zone: str) -> str:
    """timestamptz → the wall clock there. The addition of nothing turns an unknown zone into NULL."""
    return f"try_add(CAST(from_utc_timestamp({x}, {zone}) AS TIMESTAMP_NTZ), make_interval(0))"


def _unzoned(x: str, zone: str) -> str:
    """wall clock there → timestamptz. An ambiguous hour is standard time, as in PostgreSQL."""
    first = f"to_utc_timestamp(CAST({x} AS TIMESTAMP), {zone})"
    hour = "make_interval(0, 0, 0, 0, 1)"

    def latest(v: str) -> str:
        again = f"from_utc_timestamp({v} + {hour}, {zone}) = CAST({x} AS TIMESTAMP)"
        return f"IF({again}, {v} + {hour}, {v})"

    return f"try_add({f.let(first, latest)}, make_interval(0))"


def _zone(a: str, e: Expr) -> str:
    """A zone's name. A signed number is POSIX there: positive means west of Greenwich."""
    name = constant(e)
    if name is None:
        return a
    if name[:1] in "+-" and name[1:2].isdigit():
        name = ("-" if name[0] == "+" else "+") + name[1:]
    return f.string(name)


# -- fields ---------------------------------------------------------------------------------------

_ALIASES = {
    "years": "year", "months": "month", "days": "day", "hours": "hour", "minutes": "minute",
    "seconds": "second", "milliseconds": "millisecond", "microseconds": "microsecond", "weeks": "week",
    "quarters": "quarter", "decades": "decade", "centuries": "century", "millennia": "millennium",
    "millenniums": "millennium", "min": "minute", "sec": "second", "hr": "hour",
    "ms": "millisecond", "us": "microsecond", "mon": "month", "y": "year", "d": "day",
    "dayofweek": "dow", "dayofyear": "doy", "dayofweekiso": "isodow", "weekiso": "week", "yearofweekiso": "isoyear",
}  # fmt: skip
_OF_DATE = {
    "year": "year({0})", "month": "month({0})", "day": "day({0})", "quarter": "quarter({0})",
    "week": "weekofyear({0})", "isoyear": "extract(YEAROFWEEK FROM {0})", "doy": "dayofyear({0})",
    "dow": "(dayofweek({0}) - 1)", "isodow": "(weekday({0}) + 1)",
    "decade": "CAST(floor(year({0}) / 10BD) AS INT)", "century": "CAST(ceil(year({0}) / 100BD) AS INT)",
    "millennium": "CAST(ceil(year({0}) / 1000BD) AS INT)",
    "julian": "(datediff(CAST({0} AS DATE), DATE '1970-01-01') + 2440588)",
}  # fmt: skip
_OF_CLOCK = {
    "hour": "({0} div 3600000000L % 24)", "minute": "({0} div 60000000L % 60)",
    "second": "({0} % 60000000L / 1000000BD)", "millisecond": "({0} % 60000000L / 1000BD)",
    "microsecond": "({0} % 60000000L)",
}  # fmt: skip

_UNITS = {*_OF_DATE, *_OF_CLOCK, "epoch", "timezone", "timezone_hour", "timezone_minute"}


def field(name: str) -> str:
    """A field's plain name."""
    return _ALIASES.get(name, name)


def extract_from(name: str, x: str, type: Type) -> str:
    """One field as a number of Spark's own choosing."""
    name = field(name)
    if type == SPAN:
        return _of_interval(name, x)
    if type == TIME:
        if name == "epoch":
            return f"({x} / 1000000BD)"
        if name in _OF_CLOCK:
            return _OF_CLOCK[name].format(x)
    elif name == "epoch":
        return f"({f.micros(x)} / 1000000BD)"
    elif name in _OF_DATE and not (name == "julian" and type != DATE):
        return _OF_DATE[name].format(x)
    elif name == "julian":
        day = _OF_DATE[name].format(x)
        return f"({day} + pmod({f.micros(x)}, {DAY}) / 86400000000BD)"
    elif name in _OF_CLOCK and type != DATE:
        return _OF_CLOCK[name].format(f"pmod({f.micros(x)}, {DAY})")
    elif name in ("timezone", "timezone_hour", "timezone_minute") and type == TZ:
        return f"IF({x} IS NULL, NULL, 0)"
    raise refused_unit(name, str(type))


def _of_interval(name: str, x: str) -> str:
    us, months = f"{x}.microseconds", f"{x}.months"
    table = {
        "year": f"({months} div 12)", "month": f"({months} % 12)", "day": f"{x}.days",
        "hour": f"({us} div 3600000000L)", "minute": f"({us} div 60000000L % 60)",
        "second": f"({us} % 60000000L / 1000000BD)", "millisecond": f"({us} % 60000000L / 1000BD)",
        "microsecond": f"({us} % 60000000L)", "quarter": f"({months} % 12 div 3 + 1)",
        "decade": f"({months} div 120)", "century": f"({months} div 1200)", "millennium": f"({months} div 12000)",
        "epoch": f"(({months} div 12 * 31557600BD) + ({months} % 12 * 2592000BD) + {x}.days * 86400BD + {us} / 1000000BD)",
    }  # fmt: skip
    if name not in table:
        raise refused_unit(name, "interval")
    return table[name]


def refused_unit(name: str, type: str) -> ValueError:
    """The error for a unit that values of a type do not have, or nothing has."""
    if name in _UNITS:
        return ValueError(f"the field {name!r} of type {type}")
    return TextInputError("22023", f'unit "{name}" not recognized for type {type}')


def _extract(a: Sequence[str], e: Sequence[Expr]) -> str:
    name = required(e[0], "extract of a field")
    return f"try_cast({extract_from(name, a[1], e[1].type)} AS DECIMAL(38,10))"


# -- truncation -----------------------------------------------------------------------------------

_SPARK_UNITS = (
    "microsecond", "millisecond", "second", "minute", "hour", "day", "week", "month", "quarter", "year",
)  # fmt: skip


def _truncated(unit: str, x: str) -> str:
    """A wall clock cut to a unit, as TIMESTAMP_NTZ."""
    name = field(unit)
    if name in _SPARK_UNITS:
        return f"CAST(date_trunc('{name.upper()}', {x}) AS TIMESTAMP_NTZ)"
    years = {
        "decade": "CAST(floor(year({0}) / 10BD) AS INT) * 10",
        "century": "CAST(ceil(year({0}) / 100BD) AS INT) * 100 - 99",
        "millennium": "CAST(ceil(year({0}) / 1000BD) AS INT) * 1000 - 999",
    }
    if name not in years:
        raise refused_unit(name, "timestamp")
    return f"try_make_timestamp_ntz({years[name].format(x)}, 1, 1, 0, 0, 0)"


def _date_trunc(a: Sequence[str], e: Sequence[Expr]) -> str:
    unit = required(e[0], "date_trunc to a unit")
    if len(a) == 3:
        zone = _zone(a[2], e[2])
        local = _zoned(a[1], zone)
        return f.let(_truncated(unit, local), lambda v: _unzoned(v, zone))
    truncated = _truncated(unit, a[1])
    return truncated if e[1].type == TS else f"CAST({truncated} AS TIMESTAMP)"


def _span_trunc(a: Sequence[str], e: Sequence[Expr]) -> str:
    unit, x = field(required(e[0], "date_trunc to a unit")), a[1]
    steps = {
        "microsecond": 1,
        "millisecond": 1000,
        "second": 10**6,
        "minute": 6 * 10**7,
        "hour": 36 * 10**8,
    }
    months = {
        "month": 1,
        "quarter": 3,
        "year": 12,
        "decade": 120,
        "century": 1200,
        "millennium": 12000,
    }
    if unit in steps:
        return f.interval(
            f"{x}.months", f"{x}.days", f"{x}.microseconds div {steps[unit]}L * {steps[unit]}L"
        )
    if unit == "day":
        return f.interval(f"{x}.months", f"{x}.days", f"{x}.microseconds * 0")
    if unit in months:
        return f.interval(
            f"{x}.months div {months[unit]} * {months[unit]}",
            f"{x}.days * 0",
            f"{x}.microseconds * 0",
        )
    raise refused_unit(unit, "interval")


def _date_bin(a: Sequence[str], e: Sequence[Expr]) -> str:
    stride, source, origin = a
    step = f"({stride}.days * {DAY} + {stride}.microseconds)"
    offset = f"pmod(try_subtract({f.micros(source)}, {f.micros(origin)}), {step})"
    good = f"{stride}.months = 0 AND {step} > 0"
    binned = f"timestamp_micros({f.micros(source)} - {offset})"
    return f"IF({good}, CAST({binned} AS {spark_type(e[1].type)}), NULL)"


# -- spans ----------------------------------------------------------------------------------------


def _age(a: Sequence[str], e: Sequence[Expr]) -> str:
    """Years, months and days as a person counts them, from the earlier to the later moment."""
    x, y = (f"CAST({v} AS TIMESTAMP)" for v in a)

    def between(later: str, earlier: str) -> str:
        clock = f"pmod(unix_micros({later}), {DAY}) - pmod(unix_micros({earlier}), {DAY})"
        months = f"(year({later}) - year({earlier})) * 12 + month({later}) - month({earlier})"
        days = f"day({later}) - day({earlier})"
        return (
            f"named_struct('m', {months}, 'd', {days}, 'u', {clock}, "
            f"'n', day(last_day(CAST({earlier} AS DATE))))"
        )

    def done(p: str) -> str:
        borrowed = f"({p}.d - IF({p}.u < 0, 1, 0))"
        days = f"({borrowed} + IF({borrowed} < 0, {p}.n, 0))"
        months = f"({p}.m - IF({borrowed} < 0, 1, 0))"
        micros = f"({p}.u + IF({p}.u < 0, {DAY}, 0L))"
        sign = f"IF({x} < {y}, -1, 1)"
        return f.interval(f"{sign} * {months}", f"{sign} * {days}", f"{sign} * {micros}")

    parts = f"IF({x} < {y}, {between(y, x)}, {between(x, y)})"
    return f.let(parts, done)


def _settle(high: str, low: str, size: str) -> tuple[str, str]:
    """Two parts with one sign: borrow one of the higher."""
    down = f"({high} > 0 AND {low} < 0)"
    up = f"({high} < 0 AND {low} > 0)"
    return (
        f"({high} + CASE WHEN {down} THEN -1 WHEN {up} THEN 1 ELSE 0 END)",
        f"({low} + CASE WHEN {down} THEN {size} WHEN {up} THEN -{size} ELSE 0 END)",
    )


def _justify_hours(a: Sequence[str], e: Sequence[Expr]) -> str:
    parts = f"named_struct('m', {a[0]}.months, 'd', {a[0]}.days + {a[0]}.microseconds div {DAY}, 'u', {a[0]}.microseconds % {DAY})"
    return f.let(parts, lambda p: f.interval(f"{p}.m", *_settle(f"{p}.d", f"{p}.u", DAY)))


def _justify_days(a: Sequence[str], e: Sequence[Expr]) -> str:
    parts = f"named_struct('m', {a[0]}.months + {a[0]}.days div 30, 'd', {a[0]}.days % 30, 'u', {a[0]}.microseconds)"

    def done(p: str) -> str:
        months, days = _settle(f"{p}.m", f"{p}.d", "30")
        return f.interval(months, days, f"{p}.u")

    return f.let(parts, done)


def _justify_interval(a: Sequence[str], e: Sequence[Expr]) -> str:
    first = f"named_struct('m', {a[0]}.months, 'd', {a[0]}.days + {a[0]}.microseconds div {DAY}, 'u', {a[0]}.microseconds % {DAY})"

    def second(p: str) -> str:
        return f"named_struct('m', {p}.m + {p}.d div 30, 'd', {p}.d % 30, 'u', {p}.u)"

    def third(p: str) -> str:
        down = f"({p}.m > 0 AND ({p}.d < 0 OR ({p}.d = 0 AND {p}.u < 0)))"
        up = f"({p}.m < 0 AND ({p}.d > 0 OR ({p}.d = 0 AND {p}.u > 0)))"
        months = f"{p}.m + CASE WHEN {down} THEN -1 WHEN {up} THEN 1 ELSE 0 END"
        days = f"{p}.d + CASE WHEN {down} THEN 30 WHEN {up} THEN -30 ELSE 0 END"
        return f"named_struct('m', {months}, 'd', {days}, 'u', {p}.u)"

    def done(p: str) -> str:
        return f.interval(f"{p}.m", *_settle(f"{p}.d", f"{p}.u", DAY))

    return f.let(first, lambda p: f.let(second(p), lambda q: f.let(third(q), done)))


def _make_interval(a: Sequence[str], e: Sequence[Expr]) -> str:
    y, mo, w, d, h, mi, s = a
    micros = f"{h} * 3600000000L + {mi} * 60000000L + try_cast(rint({s} * 1000000D) AS BIGINT)"
    return f.interval(f"{y} * 12L + {mo}", f"{w} * 7L + {d}", micros)


_TIME_OF = "IF({0} BETWEEN 0 AND 23 AND {1} BETWEEN 0 AND 59 AND {2} >= 0 AND {2} < 60, {0} * 3600000000L + {1} * 60000000L + CAST(rint({2} * 1000000D) AS BIGINT), NULL)"
_MAKE_TS = "IF({5} >= 0 AND {5} < 60, try_make_timestamp_ntz({0}, {1}, {2}, {3}, {4}, try_cast({5} AS DECIMAL(8,6))), NULL)"


def _parsed(kind: str) -> Template:
    def template(a: Sequence[str], e: Sequence[Expr]) -> str:
        pattern = parse_pattern(required(e[1], "a format"))
        return f"CAST(try_to_timestamp({a[0]}, {f.string(pattern)}) AS {kind})"

    return template


def _row(
    name: str,
    args: tuple[Type, ...],
    result: Type,
    spark: Template,
    monotone: int | None = None,
    fallible: bool = False,
) -> Function:
    return Function(name, args, result, spark, monotone=monotone, fallible=fallible)


def _shifts() -> Rows:
    """± interval on date, timestamp, timestamptz, in both orders."""
    rows: list[Function] = []
    for kind in (DATE, TS, TZ):
        result = TS if kind == DATE else kind
        rows.append(_row("+", (kind, SPAN), result, _shift("try_add", 0, 1), 0, True))
        rows.append(_row("+", (SPAN, kind), result, _shift("try_add", 1, 0), 1, True))
        rows.append(_row("-", (kind, SPAN), result, _shift("try_subtract", 0, 1), 0, True))
    return tuple(rows)


ROWS: Rows = (
    *_shifts(),
    _row("+", (DATE, I4), DATE, "try_add({0}, {1})", 0, True),
    _row("+", (I4, DATE), DATE, "try_add({1}, {0})", 1, True),
    _row("-", (DATE, I4), DATE, "try_subtract({0}, {1})", 0, True),
    _row("-", (DATE, DATE), I4, "datediff({0}, {1})"),
    _row("+", (DATE, TIME), TS, "CAST(timestamp_micros(" + f.micros("{0}") + " + {1}) AS TIMESTAMP_NTZ)", 0),
    _row("+", (TIME, DATE), TS, "CAST(timestamp_micros(" + f.micros("{1}") + " + {0}) AS TIMESTAMP_NTZ)", 1),
    _row("-", (TS, TS), SPAN, _difference),
    _row("-", (TZ, TZ), SPAN, _difference),
    _row("-", (TIME, TIME), SPAN, f.interval("0", "0", "{0} - {1}")),
    _row("+", (TIME, SPAN), TIME, f"pmod({{0}} + {{1}}.microseconds % {DAY}, {DAY})"),
    _row("+", (SPAN, TIME), TIME, f"pmod({{1}} + {{0}}.microseconds % {DAY}, {DAY})"),
    _row("-", (TIME, SPAN), TIME, f"pmod({{0}} - {{1}}.microseconds % {DAY}, {DAY})"),
    _row("+", (SPAN, SPAN), SPAN, _plus("try_add"), None, True),
    _row("-", (SPAN, SPAN), SPAN, _plus("try_subtract"), None, True),
    _row("-", (SPAN,), SPAN, f.interval("try_subtract(0, {0}.months)", "try_subtract(0, {0}.days)", "try_subtract(0L, {0}.microseconds)"), None, True),
    _row("*", (SPAN, F8), SPAN, lambda a, e: _scaled(a[0], a[1]), None, True),
    _row("*", (F8, SPAN), SPAN, lambda a, e: _scaled(a[1], a[0]), None, True),
    _row("/", (SPAN, F8), SPAN, lambda a, e: _scaled(a[0], f"try_divide(1D, {a[1]})"), None, True),
    *(_row("extract", (TEXT, kind), N, _extract) for kind in (DATE, TIME, TS, TZ, SPAN)),
    _row("date_trunc", (TEXT, TS), TS, _date_trunc, 1),
    _row("date_trunc", (TEXT, TZ), TZ, _date_trunc, 1),
    _row("date_trunc", (TEXT, TZ, TEXT), TZ, _date_trunc, 1, True),
    _row("date_trunc", (TEXT, SPAN), SPAN, _span_trunc),
    _row("date_bin", (SPAN, TS, TS), TS, _date_bin, 1, True),
    _row("date_bin", (SPAN, TZ, TZ), TZ, _date_bin, 1, True),
    _row("timezone", (TEXT, TS), TZ, lambda a, e: _unzoned(a[1], _zone(a[0], e[0])), None, True),
    _row("timezone", (TEXT, TZ), TS, lambda a, e: _zoned(a[1], _zone(a[0], e[0])), None, True),
    _row("age", (TS, TS), SPAN, _age),
    _row("age", (TZ, TZ), SPAN, _age),
    Function("age", (TS,), SPAN, _age(("CAST({now} AS DATE)", "{0}"), ()), pure=False),
    Function("age", (TZ,), SPAN, _age(("CAST({now} AS DATE)", "{0}"), ()), pure=False),
    _row("justify_hours", (SPAN,), SPAN, _justify_hours),
    _row("justify_days", (SPAN,), SPAN, _justify_days),
    _row("justify_interval", (SPAN,), SPAN, _justify_interval),
    _row("make_date", (I4, I4, I4), DATE, "CAST(try_make_timestamp_ntz(IF({0} < 0, {0} + 1, nullif({0}, 0)), {1}, {2}, 0, 0, 0) AS DATE)", None, True),
    _row("make_time", (I4, I4, F8), TIME, _TIME_OF, None, True),
    _row("make_timestamp", (I4, I4, I4, I4, I4, F8), TS, _MAKE_TS, None, True),
    _row("make_timestamptz", (I4, I4, I4, I4, I4, F8), TZ, f"CAST({_MAKE_TS} AS TIMESTAMP)", None, True),
    _row("make_interval", (I4, I4, I4, I4, I4, I4, F8), SPAN, _make_interval, None, True),
    _row("to_timestamp", (F8,), TZ, "timestamp_micros(try_cast(rint({0} * 1000000D) AS BIGINT))", 0, True),
    _row("to_timestamp", (TEXT, TEXT), TZ, _parsed("TIMESTAMP"), None, True),
    _row("to_date", (TEXT, TEXT), DATE, _parsed("DATE"), None, True),
    *to_char_rows(),
    Function("now", (), TZ, "{now}", pure=False),
    Function("proctime", (), TZ, "{now}", pure=False),
    Function("current_date", (), DATE, "CAST({now} AS DATE)", pure=False),
    Function("localtimestamp", (), TS, "CAST({now} AS TIMESTAMP_NTZ)", pure=False),
    _row("isfinite", (DATE,), t.BOOLEAN, "IF({0} IS NULL, NULL, TRUE)"),
    _row("isfinite", (TS,), t.BOOLEAN, "IF({0} IS NULL, NULL, TRUE)"),
    _row("isfinite", (TZ,), t.BOOLEAN, "IF({0} IS NULL, NULL, TRUE)"),
    _row("isfinite", (SPAN,), t.BOOLEAN, "IF({0} IS NULL, NULL, TRUE)"),
)  # fmt: skip
