"""to_char, to_date and to_timestamp: PostgreSQL's format patterns, translated when the expression is bound.

A pattern must be a constant. Each field becomes its own piece of Spark SQL; Spark's own datetime patterns differ in too
many places (MS, IW, Day padding) to be used for output.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Sequence

from icestream import types as t
from icestream.functions import fragments as f
from icestream.functions.expressions import Expr
from icestream.functions.function import Function, Rows
from icestream.functions.strings import required

_FIELDS = (
    "HH24", "HH12", "YYYY", "Y,YYY", "IYYY", "MONTH", "Month", "month", "SSSSS", "SSSS", "IYY", "YYY", "DDD", "IDDD", "DAY", "Day", "day",
    "MON", "Mon", "mon", "A.M.", "P.M.", "a.m.", "p.m.", "TZH", "TZM", "FF1", "FF2", "FF3", "FF4", "FF5", "FF6",
    "HH", "MI", "SS", "MS", "US", "YY", "IY", "MM", "DD", "DY", "Dy", "dy", "ID", "IW", "WW", "CC", "AM", "PM",
    "am", "pm", "TZ", "tz", "OF", "RM", "rm", "BC", "AD", "bc", "ad", "Y", "I", "D", "W", "Q", "J",
)  # fmt: skip
_LOWER = {x.lower(): x for x in _FIELDS if x == x.upper()}


def _tokens(pattern: str) -> list[tuple[str, str, str]]:
    """(prefix, field or "", suffix or literal text) in order."""
    out: list[tuple[str, str, str]] = []
    i = 0
    while i < len(pattern):
        if pattern[i] == '"':
            end = pattern.find('"', i + 1)
            end = len(pattern) if end < 0 else end
            out.append(("", "", pattern[i + 1 : end]))
            i = end + 1
            continue
        prefix = (
            pattern[i : i + 2].upper() if pattern[i : i + 2].upper() in ("FM", "TM", "FX") else ""
        )
        at = i + len(prefix)
        field = next(
            (x for x in sorted(_FIELDS, key=len, reverse=True) if pattern.startswith(x, at)), None
        )
        length = len(field) if field else 0
        if field is None:
            low = next(
                (x for x in sorted(_LOWER, key=len, reverse=True) if pattern.startswith(x, at)),
                None,
            )
            field, length = (_LOWER[low], len(low)) if low else (None, 0)
        if field is None:
            if not prefix:
                out.append(("", "", pattern[i].replace("\\", "")))
            i = at if prefix else i + 1
            continue
        i = at + length
        suffix = pattern[i : i + 2] if pattern[i : i + 2] in ("TH", "th") else ""
        i += len(suffix)
        out.append((prefix, field, suffix))
    return out


def _number(value: str, width: int, fill: bool) -> str:
    return (
        f"CAST({value} AS STRING)"
        if fill
        else f"lpad(CAST({value} AS STRING), greatest({width}, length(CAST({value} AS STRING))), '0')"
    )


def _name(text: str, width: int, field: str, fill: bool) -> str:
    if field == field.upper():
        text = f"upper({text})"
    elif field == field.lower():
        text = f"lower({text})"
    return text if fill else f"rpad({text}, {width}, ' ')"


_NUMBERS: dict[str, tuple[str, int]] = {
    "YYYY": ("year({0})", 4), "YYY": ("year({0}) % 1000", 3), "YY": ("year({0}) % 100", 2), "Y": ("year({0}) % 10", 1),
    "IYYY": ("extract(YEAROFWEEK FROM {0})", 4), "IYY": ("extract(YEAROFWEEK FROM {0}) % 1000", 3),
    "IY": ("extract(YEAROFWEEK FROM {0}) % 100", 2), "I": ("extract(YEAROFWEEK FROM {0}) % 10", 1),
    "MM": ("month({0})", 2), "DD": ("day({0})", 2), "DDD": ("dayofyear({0})", 3), "D": ("dayofweek({0})", 1),
    "ID": ("(weekday({0}) + 1)", 1), "IW": ("weekofyear({0})", 2), "WW": ("((dayofyear({0}) - 1) div 7 + 1)", 2),
    "W": ("((day({0}) - 1) div 7 + 1)", 1), "Q": ("quarter({0})", 1), "CC": ("CAST(ceil(year({0}) / 100BD) AS INT)", 2),
    "J": ("(datediff(CAST({0} AS DATE), DATE '1970-01-01') + 2440588)", 1),
    "HH24": ("hour({0})", 2), "HH12": ("((hour({0}) + 11) % 12 + 1)", 2), "HH": ("((hour({0}) + 11) % 12 + 1)", 2),
    "MI": ("minute({0})", 2), "SS": ("second({0})", 2),
    "MS": ("(pmod(unix_micros(CAST({0} AS TIMESTAMP)), 1000000) div 1000)", 3),
    "US": ("pmod(unix_micros(CAST({0} AS TIMESTAMP)), 1000000)", 6),
    "SSSS": ("(pmod(unix_micros(CAST({0} AS TIMESTAMP)), 86400000000L) div 1000000)", 1),
    "IDDD": ("((weekofyear({0}) - 1) * 7 + weekday({0}) + 1)", 3),
}  # fmt: skip


def _piece(prefix: str, field: str, suffix: str, x: str, zoned: bool) -> str:
    fill = prefix in ("FM", "TM")
    if field in _NUMBERS or field == "SSSSS":
        value, width = _NUMBERS[field if field != "SSSSS" else "SSSS"]
        text = _number(value.format(x), width, fill)
        return _ordinal(text, suffix) if suffix else text
    if field in ("MONTH", "Month", "month"):
        return _name(f"date_format({x}, 'MMMM')", 9, field, fill)
    if field in ("DAY", "Day", "day"):
        return _name(f"date_format({x}, 'EEEE')", 9, field, fill)
    if field in ("MON", "Mon", "mon"):
        return _name(f"date_format({x}, 'MMM')", 3, field, True)
    if field in ("DY", "Dy", "dy"):
        return _name(f"date_format({x}, 'EEE')", 3, field, True)
    if field.upper() in ("AM", "PM", "A.M.", "P.M."):
        am, pm = ("A.M.", "P.M.") if "." in field else ("AM", "PM")
        lower = field == field.lower()
        return (
            f"IF(hour({x}) < 12, '{am.lower() if lower else am}', '{pm.lower() if lower else pm}')"
        )
    if field.upper() in ("BC", "AD"):
        return "'AD'" if field == field.upper() else "'ad'"
    if field.startswith("FF"):
        digits = int(field[2])
        return f"left({_number(_NUMBERS['US'][0].format(x), 6, False)}, {digits})"
    if field == "Y,YYY":
        return f"concat(CAST(year({x}) div 1000 AS STRING), ',', {_number(f'year({x}) % 1000', 3, False)})"
    if field in ("TZ", "tz"):
        return "''" if not zoned else ("'UTC'" if field == "TZ" else "'utc'")
    if field in ("OF", "TZH"):
        return "'+00'"
    if field == "TZM":
        return "'00'"
    raise ValueError(f"to_char with the field {field}")


def _ordinal(text: str, suffix: str) -> str:
    def whole(v: str) -> str:
        ending = (
            f"CASE WHEN {v} RLIKE '1[0-9]$' THEN 'th' WHEN {v} LIKE '%1' THEN 'st' "
            f"WHEN {v} LIKE '%2' THEN 'nd' WHEN {v} LIKE '%3' THEN 'rd' ELSE 'th' END"
        )
        return f"concat({v}, {f'upper({ending})' if suffix == 'TH' else ending})"

    return f.let(text, whole)


def _to_char_time(a: Sequence[str], e: Sequence[Expr]) -> str:
    pattern = required(e[1], "to_char with a pattern")
    x, zoned = a[0], e[0].type == t.TIMESTAMPTZ
    pieces = [
        _piece(p, field, s, x, zoned) if field else f.string(s) for p, field, s in _tokens(pattern)
    ]
    return f"IF({x} IS NULL OR {a[1]} = '', NULL, concat({', '.join(pieces) or repr('')}))"


def _to_char_number(a: Sequence[str], e: Sequence[Expr]) -> str:
    """9, 0, point, group separator, FM, S, MI, PL, SG, PR, literal text; anything else is refused."""
    pattern = required(e[1], "to_char with a pattern")
    fill = "FM" in pattern.upper()
    body = re.sub("FM", "", pattern, flags=re.I)
    sign = ""
    for mark in ("SG", "MI", "PL", "PR", "S"):
        if match := re.search(mark, body, re.I):
            sign = mark + ("<" if match.start() == 0 else ">")
            body = body[: match.start()] + body[match.end() :]
            break
    body = re.sub("D", ".", re.sub("G", ",", body, flags=re.I), flags=re.I)
    prefix = re.match(r"^[^0-9.,]*", body)
    lead = prefix.group(0) if prefix else ""
    core = body[len(lead) :]
    if not re.fullmatch(r"[09,]*\.?[09]*[^0-9A-Za-z.,]*", core) or re.search(
        r"[A-KM-Za-km-z]", lead
    ):
        raise ValueError(f"to_char of a number with the pattern {pattern!r}")
    tail_match = re.search(r"[^0-9.,]*$", core)
    tail = tail_match.group(0) if tail_match else ""
    core = core[: len(core) - len(tail)]
    return _laid_out(a[0], e[0], core, sign, fill, lead.replace("L", ""), tail)


def _laid_out(x: str, e: Expr, core: str, sign: str, fill: bool, lead: str, tail: str) -> str:
    whole, _, fraction = core.partition(".")
    digits, scale = len(whole.replace(",", "")), len(fraction)
    zero_at = whole.replace(",", "").find("0")
    forced = digits - zero_at if zero_at >= 0 else 0
    if e.type in t.FLOATS:
        x = f"try_cast(format_string('%.{14 if e.type == t.DOUBLE else 5}e', {x}) AS DECIMAL(38,{min(scale + 2, 18)}))"
    value = f"try_cast(abs(try_cast({x} AS DECIMAL(38,{max(scale, 10)}))) AS DECIMAL(38,{scale}))"

    def done(v: str) -> str:
        text = f"CAST({v} AS STRING)"
        integer = f"regexp_replace(split_part({text}, '.', 1), '^0+', '')"
        point = "." if "." in core else ""
        least = max(forced, 0)
        padded = f"IF(length({integer}) < {least}, lpad({integer}, {least}, '0'), {integer})"
        if not least and not scale:
            padded = f"IF({integer} = '', '0', {integer})"
        grouped = _grouped(padded, whole)
        width = len(whole)
        negative = f"({x} < 0)"
        after = f", '{point}'" + (f", split_part({text}, '.', 2)" if scale else "")
        if fill and scale:
            optional = len(fraction) - (fraction.rfind("0") + 1)
            if optional:
                after = f", '{point}', regexp_replace(split_part({text}, '.', 2), '0{{0,{optional}}}$', '')"
        number = f"concat({grouped}{after})"
        full = f.string(re.sub("[09]", "#", whole) + point + "#" * scale)
        number = f"IF(length({integer}) > {digits}, {full}, {number})"
        total = width + len(point) + scale
        return f"IF({v} IS NULL, NULL, {_signed(number, negative, sign, fill, total, lead, tail)})"

    return f.let(value, done)


def _grouped(text: str, whole: str) -> str:
    """Commas where the pattern has them, counted from the right; only between digits."""
    if "," not in whole:
        return text
    places = []
    seen = 0
    for c in reversed(whole):
        if c == ",":
            places.append(seen)
        else:
            seen += 1

    def cut(v: str) -> str:
        head = f"IF(length({v}) > {places[-1]}, left({v}, length({v}) - {places[-1]}), '')"
        pieces = [
            f"IF(length({v}) > {place}, concat(',', right(left({v}, length({v}) - {lower}), {place - lower})), "
            f"IF(length({v}) > {lower}, left({v}, length({v}) - {lower}), ''))"
            for lower, place in zip([0, *places], places, strict=False)
        ]
        return f"concat({', '.join([head, *reversed(pieces)])})"

    return f.let(text, cut)


def _signed(
    number: str, negative: str, sign: str, fill: bool, width: int, lead: str, tail: str
) -> str:
    """The number with its sign: before or behind it, as a mark or as angle brackets."""

    def padded(text: str, size: int) -> str:
        return text if fill else f"lpad({text}, {size}, ' ')"

    blank = "''" if fill else "' '"
    if sign.startswith("PR"):
        positive = f"concat({blank}, {number}, {blank})"
        body = padded(f"IF({negative}, concat('<', {number}, '>'), {positive})", width + 2)
    elif sign.startswith("PL"):
        raise ValueError("to_char of a number with PL")
    elif sign.startswith("MI"):
        mark, plain = f"IF({negative}, '-', {blank})", padded(number, width)
        body = f"{mark}, {plain}" if sign.endswith("<") else f"{plain}, {mark}"
    elif sign in ("S>", "SG>"):
        body = f"{padded(number, width)}, IF({negative}, '-', '+')"
    elif sign == "SG<":
        body = f"IF({negative}, '-', '+'), {padded(number, width)}"
    else:
        plus = "'+'" if sign else blank
        body = padded(f"concat(IF({negative}, '-', {plus}), {number})", width + 1)
    return f"concat({f.string(lead)}, {body}, {f.string(tail)})"


_PARSE = {
    "YYYY": "yyyy", "YY": "yy", "MM": "MM", "DD": "dd", "DDD": "D", "HH24": "HH", "HH12": "hh", "HH": "hh", "MI": "mm",
    "SS": "ss", "MS": "SSS", "US": "SSSSSS", "AM": "a", "PM": "a", "am": "a", "pm": "a", "MON": "MMM", "Mon": "MMM", "mon": "MMM",
    "MONTH": "MMMM", "Month": "MMMM", "month": "MMMM", "TZH": "X",
}  # fmt: skip


def parse_pattern(pattern: str) -> str:
    """The Spark pattern that reads what PostgreSQL's pattern describes."""
    out = ""
    for _, field, text in _tokens(pattern):
        if field:
            if field not in _PARSE:
                raise ValueError(f"to_timestamp with the field {field}")
            out += _PARSE[field]
        else:
            out += "".join(f"'{c}'" if c.isalpha() else ("''" if c == "'" else c) for c in text)
    return out


def shape(pattern: str) -> str:
    """A regular expression for texts that look as a pattern describes, whatever their numbers are."""

    def kind(token: tuple[str, str, str]) -> str:
        _, field, text = token
        if not field:
            return "." * len(text)
        return "letters" if _PARSE.get(field, "") in ("a", "MMM", "MMMM") else "digits"

    out = ""
    for name, tokens in itertools.groupby(_tokens(pattern), kind):
        count = len(list(tokens))
        if (
            name == "letters"
        ):  # neighbours are one run: no text can be divided among them in several ways
            out += f"[A-Za-z]{{{count}}}[A-Za-z]*+"
        elif name == "digits":
            out += f"(?:[+-]?[0-9]){{{count}}}[0-9]*+"
        else:
            out += name * count
    return f"^\\s*{out}\\s*$"


def to_char_rows() -> Rows:
    """to_char of timestamps, and of numbers."""
    times = (t.DATE, t.TIMESTAMP, t.TIMESTAMPTZ)
    numbers = (t.INTEGER, t.BIGINT, t.NUMERIC, t.REAL, t.DOUBLE)

    def rows(
        kinds: Sequence[t.Type], spark: Callable[[Sequence[str], Sequence[Expr]], str]
    ) -> Rows:
        return tuple(Function("to_char", (k, t.VARCHAR), t.VARCHAR, spark) for k in kinds)

    return rows(times[1:], _to_char_time) + rows(numbers, _to_char_number)
