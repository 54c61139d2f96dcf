"""Casts of text columns as Spark SQL: PostgreSQL's value, or NULL. Never another value.

The ordinary form of a type is recognised by a cheap pattern first. No pattern may take more than one pass over a text, or a
stack as deep as the text is long, which would end the JVM: repeated groups are possessive. Constants are read by `text_input`, which knows every
form; forms that are only known there give NULL here (docs/sql/types.md lists them).
"""

from __future__ import annotations

from collections.abc import Callable

from icestream import types as t
from icestream.functions import fragments as f
from icestream.types import NumericType, Type, spark_type

_DAY = "86400000000L"
_BLANKS = "' \\t\\n\\u000b\\u000c\\r'"
_WHOLE = r"^\s*[+-]?[0-9]+\s*$"
_NUMERIC = r"^\s*[+-]?(\d++\.?\d*+|\.\d++)([eE][+-]?0*\d{1,3})?\s*$"
_FLOAT = r"(?i)^\s*([+-]?((\d++\.?\d*+|\.\d++)(e[+-]?\d++)?|inf|infinity)|nan)\s*$"
_ZERO = r"^\s*[+-]?[0.]+([eE].*)?\s*$"
_ODD_RUN = r"(?<![0-9a-fA-F])[0-9a-fA-F](?:[0-9a-fA-F]{2})*+(?![0-9a-fA-F])"

_CLOCK = r"([01]?\d|2[0-4]):([0-5]?\d)(?::(60|[0-5]?\d)(\.\d*)?)?"
_ZONE = r"(?:\s*(?:[zZ]|UTC|utc)|\s*([+-])(0?\d|1[0-5])(?::?([0-5]\d))?)?"
_AFTER = rf"{_CLOCK}(?:\s*([aApP])[mM]|{_ZONE})"
_DATE = r"(\d{4,7})-(\d{1,2})-(\d{1,2})"
_MOMENT = rf"^\s*{_DATE}(?:(?:\s*[tT]\s*|\s+){_AFTER})?(?:\s+(?:([bB])[cC]|[aA][dD]))?\s*$"
_TIME = rf"^\s*{_AFTER}\s*$"
_FAST_DATE = r"^(?!0000)\d{4}-\d\d-\d\d$"
_FAST_MOMENT = r"^(?!0000)\d{4}-\d\d-\d\d[ T]([01]\d|2[0-3]):[0-5]\d:[0-5]\d(\.\d{1,6})?$"
_FORMS = (
    (r"^\s*(\d{4})(\d\d)(\d\d)[tT ]\s*(\d\d)(\d\d)(\d\d)(?![\d:])", "$1-$2-$3 $4:$5:$6"),
    (r"^\s*(\d{4})(\d\d)(\d\d)(?!\d)", "$1-$2-$3"),
    (r"^\s*(\d{4})/(\d{1,2})/(\d{1,2})(?![\d/])", "$1-$2-$3"),
    (r"^\s*(\d{1,2})/(\d{1,2})/(\d{4})(?![\d/])", "$3-$1-$2"),
)
"""Other forms of dates, and how they become YYYY-MM-DD."""

_UNITS = {
    "us": "us usec usecs usecond useconds microsecond microseconds",
    "ms": "ms msec msecs msecond mseconds millisecond milliseconds",
    "s": "s sec secs second seconds", "min": "m min mins minute minutes", "h": "h hr hrs hour hours",
    "d": "d day days", "w": "w week weeks", "mon": "mon mons month months", "y": "y yr yrs year years",
    "dec": "dec decs decade decades", "c": "c cent century centuries",
    "mil": "mil mils millennium millennia",
}  # fmt: skip
_MONTHS = {"mon": 1, "y": 12, "dec": 120, "c": 1200, "mil": 12000}
_MICROS = {"us": 1, "ms": 1000, "s": 10**6, "min": 60 * 10**6, "h": 3600 * 10**6}
_AMOUNT = r"([+-]?\d{1,9}(?:\.\d+)?|(?<![+-])\.\d+)"
_NAMES = "|".join(
    sorted((n for names in _UNITS.values() for n in names.split()), key=len, reverse=True)
)
_PAIR = rf"{_AMOUNT}\s*({_NAMES})(?![a-z\d.+-])"
_SPAN_CLOCK = r"([+-]?)(\d{1,9}):([0-5]?\d)(?::(60|[0-5]?\d)(\.\d*)?)?(?![\d:.])"
_SPAN = rf"^\s*(?:(?:{_PAIR}|{_SPAN_CLOCK})[\s,]*+){{1,{len(_UNITS) + 1}}}+$"
_ISO_SPAN = (
    r"^P(?=.)(?:-?[\d.]+Y)?(?:-?[\d.]+M)?(?:-?[\d.]+W)?(?:-?[\d.]+D)?"
    r"(?:T(?:-?[\d.]+H)?(?:-?[\d.]+M)?(?:-?[\d.]+S)?)?$"
)


def from_text(x: str, target: Type) -> str | None:
    """The Spark text of a cast of a text column, or None if there is no such cast."""
    make = _MAKERS.get(target)
    if isinstance(target, NumericType):
        return f.let(x, lambda v: _numeric(v, target))
    return f.let(x, make) if make else None


def _if(v: str, pattern: str, value: str) -> str:
    return f"IF({v} RLIKE {f.string(pattern)}, {value}, NULL)"


def _numeric(v: str, target: NumericType) -> str:
    return _if(v, _NUMERIC, f"try_cast({v} AS {spark_type(target)})")


def _float(v: str, spark: str) -> str:
    """Text that overflows, or underflows to zero, is out of range."""
    cast = f"try_cast({v} AS {spark})"
    infinite = f"{spark.lower()}('Infinity')"
    far = f"(abs({cast}) = {infinite} AND NOT {v} RLIKE '(?i)inf' OR {cast} = 0 AND NOT {v} RLIKE {f.string(_ZERO)})"
    return f"IF({v} RLIKE {f.string(_FLOAT)} AND NOT {far}, {cast}, NULL)"


def _boolean(v: str) -> str:
    yes = "'t', 'tr', 'tru', 'true', 'y', 'ye', 'yes', 'on', '1'"
    no = "'f', 'fa', 'fal', 'fals', 'false', 'n', 'no', 'of', 'off', '0'"
    word = f"lower(btrim({v}, {_BLANKS}))"
    return f"CASE WHEN {word} IN ({yes}) THEN TRUE WHEN {word} IN ({no}) THEN FALSE END"


def _bytea(v: str) -> str:
    digits = f"substr({v}, 3)"
    paired = f"NOT {digits} RLIKE {f.string(_ODD_RUN)}"
    packed = f"unhex(regexp_replace({digits}, '[ \\t\\n\\r]', ''))"
    hexadecimal = f"IF({digits} RLIKE '^[0-9a-fA-F \\t\\n\\r]*+$' AND {paired}, {packed}, NULL)"
    escape = r"\\(?:\\|[0-3][0-7]{2})"
    piece = rf"[^\\]+|{escape}"
    valid = f"instr(regexp_replace({v}, {f.string(escape)}, ''), '\\\\') = 0"
    pieces = f"regexp_extract_all({v}, {f.string(piece)}, 0)"

    def octal(p: str) -> str:
        number = f"lpad(conv(substr({p}, 2), 8, 16), 2, '0')"
        return (
            f"CASE WHEN left({p}, 1) <> '\\\\' THEN hex(encode({p}, 'UTF-8')) "
            f"WHEN length({p}) = 2 THEN '5C' ELSE {number} END"
        )

    escaped = f"unhex(array_join({f.each(pieces, octal)}, ''))"
    return (
        f"CASE WHEN instr({v}, '\\\\') = 0 THEN encode({v}, 'UTF-8') "
        f"WHEN left({v}, 2) = '\\\\x' THEN {hexadecimal} WHEN {valid} THEN {escaped} END"
    )


def check_json(v: str) -> str:
    """The text if PostgreSQL takes it for JSON and Spark can hold its numbers, else NULL.

    Spark's parser reads the first document and leaves the rest of the text. A text that is valid in brackets and in braces
    has no rest. PostgreSQL has no NUL and no half of a surrogate pair in its texts; Spark has no number beyond a double.
    """
    whole = (
        f"json_array_length(concat('[', {v}, ']')) IS NOT NULL "
        f"AND json_object_keys(concat('{{\"\":', {v}, '}}')) IS NOT NULL"
    )
    pair = r"\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}"
    half = r"(?<!\\)(?:\\\\)*+\\u(?:0000|[dD][89a-fA-F])"
    texts = r'"[^"\\]*+(?:\\.[^"\\]*+)*+"'
    large = r"[eE]\+?0*[1-9]\d\d|\d{309}"
    halved = f"{v} RLIKE '\\\\\\\\u' AND regexp_replace({v}, {f.string(pair)}, '') RLIKE {f.string(half)}"
    enlarged = f"{v} RLIKE {f.string(large)} AND regexp_replace({v}, {f.string(texts)}, '') RLIKE {f.string(large)}"
    return f"IF({whole} AND NOT ({halved}) AND NOT ({enlarged}), {v}, NULL)"


# -- dates and times ------------------------------------------------------------------------------


def _split(v: str, pattern: str, groups: int) -> str:
    """The groups of a pattern as an array; a text that does not match gives NULL."""
    written = "|".join(f"${at}" for at in range(1, groups + 1))
    parts = f"split(regexp_replace({v}, {f.string(pattern)}, '{written}'), '[|]', -1)"
    return f"IF(instr({v}, '|') = 0, {parts}, NULL)"


def _whole(p: str, at: int) -> str:
    return f"CAST('0' || {p}[{at}] AS BIGINT)"


def _clock(p: str, at: int) -> str:
    """Microseconds since midnight of the groups of `_AFTER`; NULL after 24:00:00, and for 13:00 PM."""
    hour, minute, second = (_whole(p, at + k) for k in range(3))
    fraction = f"CAST(rint(CAST('0' || {p}[{at + 3}] AS DOUBLE) * 1000000D) AS BIGINT)"
    noon = f"IF({p}[{at + 4}] = '', {hour}, IF({hour} > 12, NULL, {hour} % 12 + IF(lower({p}[{at + 4}]) = 'p', 12, 0)))"
    total = f"{noon} * 3600000000 + {minute} * 60000000 + {second} * 1000000 + {fraction}"
    return f.let(f"({total})", lambda c: f"IF({c} <= {_DAY}, {c}, NULL)")


def _offset(p: str, at: int) -> str:
    """Microseconds east of UTC of the zone's groups."""
    size = f"({_whole(p, at + 1)} * 3600000000 + {_whole(p, at + 2)} * 60000000)"
    return f"IF({p}[{at}] = '-', -1, 1) * {size}"


def _day(p: str) -> str:
    """The date of the groups of `_MOMENT`. There is no year 0: before 1 comes 1 BC, which Spark calls 0000."""
    year = f"CAST({p}[0] AS INT)"
    text = f"IF({p}[11] = '', {p}[0], concat('-', lpad(CAST({year} - 1 AS STRING), 4, '0')))"
    return f"IF({year} = 0, NULL, try_cast(concat({text}, '-', {p}[1], '-', {p}[2]) AS DATE))"


def _normal(v: str) -> str:
    """Other forms of dates as YYYY-MM-DD."""
    out = v
    for pattern, form in _FORMS:
        out = f"regexp_replace({out}, {f.string(pattern)}, '{form}')"
    return f"IF({v} RLIKE '^\\\\s*\\\\d{{4,7}}-', {v}, {out})"


def _date(v: str) -> str:
    def slow(p: str) -> str:
        day = f.let(
            _day(p),
            lambda d: f"IF({d} >= DATE '-4713-11-24' AND {d} <= DATE '5874897-12-31', {d}, NULL)",
        )
        return f"IF(size({p}) = 12 AND ({p}[3] = '' OR {_clock(p, 3)} IS NOT NULL), {day}, NULL)"

    return f"IF({v} RLIKE {f.string(_FAST_DATE)}, try_cast({v} AS DATE), {_parts(v, slow)})"


def _parts(v: str, make: Callable[[str], str]) -> str:
    return f.let(_normal(v), lambda n: f.let(_split(n, _MOMENT, 12), make))


def _moment(v: str, target: Type) -> str:
    spark = spark_type(target)

    def slow(p: str) -> str:
        clock = f"IF({p}[3] = '', 0L, {_clock(p, 3)})"
        if target == t.TIMESTAMPTZ:
            clock = f"({clock} - {_offset(p, 8)})"

        def within(d: str) -> str:
            return (
                f"IF({d} >= DATE '-4713-11-24' AND {d} < DATE '294247-01-09', "
                f"CAST(timestamp_micros(unix_date({d}) * {_DAY} + {clock}) AS {spark}), NULL)"
            )

        return f"IF(size({p}) = 12, {f.let(_day(p), within)}, NULL)"

    return f"IF({v} RLIKE {f.string(_FAST_MOMENT)}, try_cast({v} AS {spark}), {_parts(v, slow)})"


def _time(v: str) -> str:
    return f.let(_split(v, _TIME, 8), lambda p: f"IF(size({p}) = 8, {_clock(p, 0)}, NULL)")


# -- intervals ------------------------------------------------------------------------------------


def _interval(v: str) -> str:
    ago = f"{v} RLIKE '(?i)[0-9a-z]\\\\s+ago\\\\s*$'"
    return f.let(_verbose(v), lambda n: f"IF({n} RLIKE {f.string(_SPAN)}, {_sum(n, ago)}, NULL)")


def _verbose(v: str) -> str:
    """Every form as numbers with units and a clock, in small letters."""
    iso_date, iso_time = f"split_part(substr({v}, 2), 'T', 1)", f"split_part({v}, 'T', 2)"
    for letter, unit in (("Y", "y"), ("M", "mon"), ("W", "w"), ("D", "d")):
        iso_date = f"replace({iso_date}, '{letter}', ' {unit} ')"
    for letter, unit in (("H", "h"), ("M", "min"), ("S", "s")):
        iso_time = f"replace({iso_time}, '{letter}', ' {unit} ')"
    text = f"lower({v})"
    for pattern, form in (
        (r"(?<![\d.:a-z-])([+-]?)(\d{1,9})-(0?\d|1[01])(?![\d:.-])", "$1$2 y $1$3 mon"),
        (r"(?<![\d.:a-z])([+-]?\d{1,9})(\s+[+-]?\d+:)", "$1 d$2"),
        (r"(?<![\d.:a-z+-])([+-]?[\d.]+)\s*$", "$1 s"),
        (r"^\s*@|(?<!\s)\s++ago\s*+$", ""),
    ):
        text = f"regexp_replace({text}, {f.string(pattern)}, '{form}')"
    return f"IF({v} RLIKE {f.string(_ISO_SPAN)}, concat({iso_date}, ' ', {iso_time}), {text})"


def _sum(n: str, ago: str) -> str:
    names = ", ".join(f"'{name}', '{unit}'" for unit, all in _UNITS.items() for name in all.split())
    amounts = f"regexp_extract_all({n}, {f.string(_PAIR)}, 1)"
    units = f"transform(regexp_extract_all({n}, {f.string(_PAIR)}, 2), u -> map({names})[u])"
    clocks = f"regexp_extract_all({n}, {f.string(_SPAN_CLOCK)}, 0)"
    whole = f"named_struct('a', {amounts}, 'u', {units}, 'c', {clocks}, 's', IF({ago}, -1, 1))"
    return f.let(whole, _add_up)


def _add_up(s: str) -> str:
    """The sum of the parts; NULL where a unit occurs twice."""
    pairs = f"arrays_zip({s}.a, {s}.u)"
    small = "array('h', 'min', 's', 'ms', 'us')"
    clash = (
        f"size(array_distinct({s}.u)) < size({s}.u) OR size({s}.c) > 1 "
        f"OR (size({s}.c) = 1 AND arrays_overlap({s}.u, {small})) "
        f"OR (arrays_overlap({s}.u, array('ms', 'us')) AND exists({pairs}, p -> p.u = 's' AND p.a LIKE '%.%'))"
    )

    def sum_of(kind: str) -> str:
        return f"aggregate({pairs}, 0L, (t, p) -> t + {_part('p', kind)})"

    clock = f"aggregate({s}.c, 0L, (t, c) -> t + {_span_clock('c')})"
    total = f.interval(
        f"{s}.s * {sum_of('months')}",
        f"{s}.s * {sum_of('days')}",
        f"{s}.s * ({sum_of('micros')} + {clock})",
    )
    return f"IF({clash}, NULL, {total})"


def _part(p: str, kind: str) -> str:
    """What a number with a unit adds to the months, days or microseconds."""
    whole = f"coalesce(try_cast(split_part({p}.a, '.', 1) AS BIGINT), 0L)"
    sign = f"IF(left({p}.a, 1) = '-', -1D, 1D)"
    rest = f"({sign} * CAST(concat('0.', split_part({p}.a, '.', 2), '0') AS DOUBLE))"
    arms = []
    if kind == "months":
        for unit, months in _MONTHS.items():
            years = (
                "" if unit == "mon" else f" + CAST(rint({rest} * {months // 12}D * 12D) AS BIGINT)"
            )
            arms.append((unit, f"{whole} * {months}{years}"))
    elif kind == "days":
        arms += [("mon", f"CAST({rest} * 30D AS BIGINT)"), ("d", whole)]
        arms.append(("w", f"{whole} * 7 + CAST({rest} * 7D AS BIGINT)"))
    else:
        for unit, days in (("mon", 30), ("w", 7)):
            scaled = f"({rest} * {days}D)"
            arms.append((unit, _rounded(f"(({scaled} - CAST({scaled} AS BIGINT)) * 86400000000D)")))
        arms.append(("d", _rounded(f"({rest} * 86400000000D)")))
        for unit, micros in _MICROS.items():
            arms.append((unit, f"{whole} * {micros}L + {_rounded(f'({rest} * {micros}D)')}"))
    cases = " ".join(f"WHEN '{unit}' THEN {value}" for unit, value in arms)
    return f"CASE {p}.u {cases} ELSE 0L END"


def _rounded(x: str) -> str:
    """The nearest whole number, of two the one nearer to zero."""
    return f"CAST(sign({x}) * ceil(abs({x}) - 0.5D) AS BIGINT)"


def _span_clock(c: str) -> str:
    def part(at: int) -> str:
        return f"CAST('0' || regexp_extract({c}, {f.string(_SPAN_CLOCK)}, {at}) AS BIGINT)"

    fraction = f"CAST(rint(CAST('0' || regexp_extract({c}, {f.string(_SPAN_CLOCK)}, 5) AS DOUBLE) * 1000000D) AS BIGINT)"
    sign = f"IF(left({c}, 1) = '-', -1, 1)"
    return f"{sign} * ({part(2)} * 3600000000 + {part(3)} * 60000000 + {part(4)} * 1000000 + {fraction})"


_MAKERS: dict[Type, Callable[[str], str]] = {
    t.SMALLINT: lambda v: _if(v, _WHOLE, f"try_cast({v} AS SMALLINT)"),
    t.INTEGER: lambda v: _if(v, _WHOLE, f"try_cast({v} AS INT)"),
    t.BIGINT: lambda v: _if(v, _WHOLE, f"try_cast({v} AS BIGINT)"),
    t.REAL: lambda v: _float(v, "FLOAT"),
    t.DOUBLE: lambda v: _float(v, "DOUBLE"),
    t.BOOLEAN: _boolean,
    t.BYTEA: _bytea,
    t.DATE: _date,
    t.TIME: _time,
    t.TIMESTAMP: lambda v: _moment(v, t.TIMESTAMP),
    t.TIMESTAMPTZ: lambda v: _moment(v, t.TIMESTAMPTZ),
    t.INTERVAL: _interval,
}
