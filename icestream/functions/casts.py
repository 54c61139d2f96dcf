"""Every conversion between two types: PostgreSQL's input and output formats as Spark SQL text.

`convert` is what a cast renders to; a pair it does not know is a cast that PostgreSQL refuses as well (or one that
the engine does not have). A value that cannot be converted gives NULL.
"""

from __future__ import annotations

from icestream import types as t
from icestream.functions import fragments as f
from icestream.functions.coercion import general
from icestream.functions.text_casts import check_json, from_text
from icestream.types import ArrayType, MapType, NumericType, StructType, Type, spark_type

_WHOLE = {t.SMALLINT, t.INTEGER, t.BIGINT}
_FLOAT = {t.REAL, t.DOUBLE}
_MOMENTS = {t.DATE, t.TIMESTAMP, t.TIMESTAMPTZ}


def is_known(source: Type, target: Type) -> bool:
    """Whether a written cast between the two exists."""
    return convert("x", source, target) is not None


def convert(x: str, source: Type, target: Type) -> str | None:
    """The Spark text of `x::target`, or None if there is no such cast."""
    a, b = general(source), general(target)
    spark = spark_type(target)
    if source == target:
        return x
    if a == t.NULL:
        return f"CAST({x} AS {spark})"
    if isinstance(source, ArrayType) or isinstance(target, ArrayType):
        return _array(x, source, target)
    if isinstance(source, StructType) or isinstance(target, StructType):
        return _struct(x, source, target)
    if isinstance(source, MapType) or isinstance(target, MapType):
        return None
    if b == t.VARCHAR:
        return to_text(x, source)
    if a == t.VARCHAR:
        return canonical_json(f.let(x, check_json)) if b == t.JSONB else from_text(x, target)
    if a == t.JSONB:
        return _from_json(x, target)
    if b in _WHOLE or b in _FLOAT or isinstance(target, NumericType):
        return _number(x, a, target)
    if b == t.BOOLEAN:
        return f"({x} <> 0)" if a == t.INTEGER else None
    if a in _MOMENTS and b in _MOMENTS:
        return f"CAST({x} AS {spark})"
    if b == t.TIME and a in (t.TIMESTAMP, t.TIMESTAMPTZ):
        return f"pmod({f.micros(x)}, {f.DAY_MICROS})"
    if b == t.TIME and a == t.INTERVAL:
        return f"pmod({x}.microseconds, {f.DAY_MICROS})"
    if b == t.INTERVAL and a == t.TIME:
        return f.interval("0", "0", x)
    return None


def _number(x: str, a: Type, target: Type) -> str | None:
    b, spark = general(target), spark_type(target)
    if a == t.BOOLEAN:
        return f"CAST({x} AS INT)" if b == t.INTEGER else None
    if a in _FLOAT and b in _WHOLE:
        rounded = f"rint(CAST({x} AS DOUBLE))"
        if b != t.BIGINT:
            return f"try_cast({rounded} AS {spark})"
        return f.let(
            rounded, lambda v: f"IF({v} < 9.223372036854775807E18D, try_cast({v} AS BIGINT), NULL)"
        )
    if isinstance(target, NumericType) and a in _FLOAT:
        digits = 14 if a == t.DOUBLE else 5
        return f"try_cast(format_string('%.{digits}e', {x}) AS {spark})"
    if a == t.NUMERIC and b in _WHOLE:
        return f"try_cast(round({x}) AS {spark})"
    if a == t.DOUBLE and b == t.REAL:
        return f.let(
            x,
            lambda v: (
                f"IF(abs({v}) = double('Infinity') OR isnan({v}) OR {v} = 0 "
                f"OR abs({v}) < 3.4028235677973366E38D AND CAST({v} AS FLOAT) <> 0, "
                f"CAST({v} AS FLOAT), NULL)"
            ),
        )
    if a in _WHOLE or a in _FLOAT or a == t.NUMERIC:
        return f"try_cast({x} AS {spark})"
    return None


def to_text(x: str, source: Type) -> str | None:
    """The value as PostgreSQL prints it."""
    a = general(source)
    if a in (t.VARCHAR, t.JSONB, t.NULL):
        return x
    if a in _FLOAT:
        return _float_text(x, a)
    if isinstance(source, NumericType):
        if source != t.NUMERIC:
            return f"CAST({x} AS STRING)"
        return f"regexp_replace(CAST({x} AS STRING), '\\\\.?0+$', '')" if source.scale else None
    if a == t.BYTEA:
        return f"concat('\\\\x', lower(hex({x})))"
    if a in _MOMENTS:
        return _moment_text(x, a)
    if a == t.TIME:
        return time_text(x)
    if a == t.INTERVAL:
        return interval_text(x)
    if isinstance(source, ArrayType):
        return _array_text(x, source)
    if isinstance(source, StructType):
        return _struct_text(x, source)
    return f"CAST({x} AS STRING)"


def _moment_text(x: str, kind: Type) -> str:
    """There is no year 0: before 1 comes 1 BC, which Spark writes 0000."""
    zone = ", '+00'" if kind == t.TIMESTAMPTZ else ""
    after = f"concat(ltrim('+', CAST({x} AS STRING)){zone})"
    rest = f"regexp_extract(CAST({x} AS STRING), '^-?[0-9]+(-.*)$', 1)"
    before = f"concat(lpad(CAST(1 - year({x}) AS STRING), 4, '0'), {rest}{zone}, ' BC')"
    return f"IF(year({x}) > 0, {after}, {before})"


def output(x: str, source: Type) -> str:
    """The value as concat, format and array output print it: a boolean is t or f."""
    if source == t.BOOLEAN:
        return (
            f"IF({x}, 't', 'f')"
            if x == "TRUE"
            else f"CASE WHEN {x} THEN 't' WHEN NOT {x} THEN 'f' END"
        )
    return to_text(x, source) or f"CAST({x} AS STRING)"


def _float_text(x: str, a: Type) -> str:
    """Shortest digits; an exponent below -4 or from 15 (real: 6) on is written with e."""
    limit = 15 if a == t.DOUBLE else 6
    wide = "" if a == t.DOUBLE else " OR v RLIKE '^-?[0-9]{7}'"

    def laid_out(p: str) -> str:
        point = f"IF(length({p}.d) > 1, concat('.', substr({p}.d, 2)), '')"
        power = f"concat(IF({p}.e < 0, 'e-', 'e+'), lpad(abs({p}.e), greatest(2, length(abs({p}.e))), '0'))"
        science = f"concat(left({p}.d, 1), {point}, {power})"
        small = f"concat('0.', repeat('0', -{p}.e - 1), {p}.d)"
        large = (
            f"IF(length({p}.d) <= {p}.e + 1, rpad({p}.d, {p}.e + 1, '0'), "
            f"concat(left({p}.d, {p}.e + 1), '.', substr({p}.d, {p}.e + 2)))"
        )
        plain = f"IF({p}.e < 0, {small}, {large})"
        return f"concat({p}.s, IF({p}.e < -4 OR {p}.e >= {limit}, {science}, {plain}))"

    def whole(v: str) -> str:
        mantissa = f"regexp_extract({v}, '^-?([0-9.]+)', 1)"
        digits = f"regexp_replace(replace({mantissa}, '.', ''), '0+$', '')"
        exponent = (
            f"IF({v} LIKE '%E%', try_cast(regexp_extract({v}, 'E(.*)$', 1) AS INT), "
            f"length(split_part({mantissa}, '.', 1)) - 1)"
        )
        sign = f"IF({v} LIKE '-%', '-', '')"
        parts = f"named_struct('s', {sign}, 'd', {digits}, 'e', {exponent})"
        far = f"{v} LIKE '%E%'{wide.replace('v ', v + ' ')}"
        return f"IF({far}, {f.let(parts, laid_out)}, regexp_replace({v}, '\\\\.0$', ''))"

    return f.let(f"CAST({x} AS STRING)", whole)


def time_text(x: str) -> str:
    """HH:MM:SS[.ffffff] of microseconds since midnight (or of a longer span)."""

    def whole(v: str) -> str:
        hours, minutes = (
            f"lpad({v} div 3600000000, greatest(2, length({v} div 3600000000)), '0')",
            (f"lpad({v} div 60000000 % 60, 2, '0')"),
        )
        seconds = f"lpad({v} div 1000000 % 60, 2, '0')"
        fraction = (
            f"IF({v} % 1000000 = 0, '', concat('.', rtrim('0', lpad({v} % 1000000, 6, '0'))))"
        )
        return f"concat({hours}, ':', {minutes}, ':', {seconds}, {fraction})"

    return f.let(x, whole)


def interval_text(x: str) -> str:
    """'1 year 2 mons -3 days +04:05:06': PostgreSQL's default interval style."""

    def whole(v: str) -> str:
        def unit(value: str, name: str) -> str:
            plural = f"IF({value} = 1, ' {name}', ' {name}s')"
            return f"IF({value} = 0, NULL, concat({value}, {plural}))"

        def signed(value: str, name: str, after: str) -> str:
            plus = f"IF(({after}) AND {value} > 0, '+', '')"
            plural = f"IF({value} = 1, ' {name}', ' {name}s')"
            return f"IF({value} = 0, NULL, concat({plus}, {value}, {plural}))"

        years, months = f"{v}.months div 12", f"{v}.months % 12"
        before = f"{years} < 0 AND {months} = 0 OR {months} < 0"
        sign = (
            f"CASE WHEN {v}.microseconds < 0 THEN '-' "
            f"WHEN {v}.days < 0 OR ({v}.days = 0 AND {v}.months < 0) THEN '+' ELSE '' END"
        )
        clock = f"concat({sign}, {time_text(f'abs({v}.microseconds)')})"
        empty = f"{v}.months = 0 AND {v}.days = 0"
        last = f"IF({v}.microseconds <> 0 OR ({empty}), {clock}, NULL)"
        parts = ", ".join(
            (
                unit(years, "year"),
                signed(months, "mon", f"{years} < 0"),
                signed(f"{v}.days", "day", before),
                last,
            )
        )
        return f"IF({v} IS NULL, NULL, concat_ws(' ', {parts}))"

    return f.let(x, whole)


def canonical_json(x: str) -> str:
    """JSON text with sorted keys and one space after each colon and comma; NULL if it is not JSON."""
    return spaced_json(f"to_json(try_parse_json({x}))")


def spaced_json(x: str) -> str:
    """Compact JSON with PostgreSQL's spaces. Walks over whole strings, so their content stays."""
    text = r'"[^"\\]*+(?:\\.[^"\\]*+)*+"'
    pattern = rf'\G((?:[^",]++|{text}(?!:))*+)(,|{text}:)'
    return f"regexp_replace({x}, {f.string(pattern)}, '$1$2 ')"


def _from_json(x: str, target: Type) -> str | None:
    b = general(target)
    if b == t.BOOLEAN:
        return f.let(x, lambda v: f"CASE {v} WHEN 'true' THEN TRUE WHEN 'false' THEN FALSE END")
    if b in _FLOAT:
        return f"try_cast({x} AS {spark_type(target)})"
    if isinstance(target, NumericType):
        return f"try_cast({x} AS {spark_type(target)})"
    if b in _WHOLE:
        return f"try_cast(round(try_cast({x} AS DECIMAL(38,10))) AS {spark_type(target)})"
    return None


def _array(x: str, source: Type, target: Type) -> str | None:
    if target == t.VARCHAR:
        return to_text(x, source)
    if not (isinstance(source, ArrayType) and isinstance(target, ArrayType)):
        return None
    if convert("x", source.element, target.element) is None:
        return None
    return f.each(x, lambda v: convert(v, source.element, target.element) or "")


def _struct(x: str, source: Type, target: Type) -> str | None:
    if target == t.VARCHAR:
        return to_text(x, source)
    if not (isinstance(source, StructType) and isinstance(target, StructType)):
        return None
    if len(source.fields) != len(target.fields):
        return None

    def whole(v: str) -> str | None:
        parts = []
        for s, d in zip(source.fields, target.fields, strict=True):
            inner = convert(f"{v}.{t.backtick(s.name)}", s.type, d.type)
            if inner is None:
                return None
            parts.append(f"{f.string(d.name)}, {inner}")
        return f"IF({v} IS NULL, NULL, named_struct({', '.join(parts)}))"

    return None if whole("v") is None else f.let(x, lambda v: whole(v) or "")


def _array_text(x: str, source: ArrayType) -> str:
    def element(v: str) -> str:
        inner = output(v, source.element)
        if not isinstance(source.element, ArrayType):
            inner = f.let(inner, _quoted_element)
        return f"coalesce({inner}, 'NULL')"

    return f"concat('{{', array_join({f.each(x, element)}, ','), '}}')"


def _quoted_element(v: str) -> str:
    special = f.string(r'(?i)^$|^null$|[{}",\\\s]')
    escaped = f"regexp_replace({v}, '([\"\\\\\\\\])', '\\\\\\\\$1')"
    return f"IF({v} RLIKE {special}, concat('\"', {escaped}, '\"'), {v})"


def _struct_text(x: str, source: StructType) -> str:
    special = f.string(r'^$|[()",\\\s]')

    def quoted(v: str) -> str:
        doubled = f"regexp_replace({v}, '([\"\\\\\\\\])', '$1$1')"
        return f"coalesce(IF({v} RLIKE {special}, concat('\"', {doubled}, '\"'), {v}), '')"

    def whole(v: str) -> str:
        parts = [f.let(output(f"{v}.{t.backtick(c.name)}", c.type), quoted) for c in source.fields]
        joined = ", ',', ".join(parts)
        return f"IF({v} IS NULL, NULL, concat('(', {joined}, ')'))"

    return f.let(x, whole)


_EPOCH = "946684800000000L"
"""2000-01-01 in microseconds."""


def round_seconds(x: str, target: Type, digits: int) -> str:
    """timestamp(n) and time(n): the fraction rounded to n digits."""
    step = 10 ** max(0, 6 - digits)
    if step == 1:
        return x
    if target == t.TIME:  # may become 24:00:00
        return f"(({x}) + {step // 2}) div {step} * {step}"
    # Halves are rounded away from PostgreSQL's year zero: those before 2000 go down.
    rounded = f"CAST(round(({f.micros(x)} - {_EPOCH}) / {step}BD) AS BIGINT) * {step} + {_EPOCH}"
    return f"CAST(timestamp_micros({rounded}) AS {spark_type(target)})"
