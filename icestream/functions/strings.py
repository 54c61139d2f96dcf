"""Text and bytes: everything except pattern matching."""

from __future__ import annotations

import re
from collections.abc import Sequence

from icestream import types as t
from icestream.functions import casts
from icestream.functions import fragments as f
from icestream.functions.expressions import Cast, Expr, Literal
from icestream.functions.function import ANY, Function, Rows
from icestream.functions.input_errors import TextInputError

TEXT, I4, I8, BYTES = t.VARCHAR, t.INTEGER, t.BIGINT, t.BYTEA


def constant(expr: Expr) -> str | None:
    """The text of a constant argument, None if it is not one."""
    while isinstance(expr, Cast):
        expr = expr.arg
    return expr.value if isinstance(expr, Literal) and isinstance(expr.value, str) else None


def required(expr: Expr, what: str) -> str:
    """The text of an argument that must be a constant."""
    value = constant(expr)
    if value is None:
        raise ValueError(f"{what} that is not a constant")
    return value


def _row(
    name: str, args: tuple[t.Type, ...], spark: str, result: t.Type = TEXT, fallible: bool = False
) -> Function:
    return Function(name, args, result, spark, fallible=fallible)


def _join(a: Sequence[str], e: Sequence[Expr]) -> str:
    parts = [casts.to_text(x, y.type) or x for x, y in zip(a, e, strict=True)]
    return f"concat({', '.join(parts)})"


def _concat(a: Sequence[str], e: Sequence[Expr]) -> str:
    parts = [f"coalesce({casts.output(x, y.type)}, '')" for x, y in zip(a, e, strict=True)]
    return f"concat({', '.join(parts)})"


def _concat_ws(a: Sequence[str], e: Sequence[Expr]) -> str:
    parts = [casts.output(x, y.type) for x, y in zip(a[1:], e[1:], strict=True)]
    return f"concat_ws({', '.join((a[0], *parts))})"


_START = "IF({1} < 1, 1, {1})"
_SUBSTR = (
    f"CASE WHEN {{2}} >= 0 THEN substr({{0}}, {_START}, "
    f"CAST(least(greatest(CAST({{1}} AS BIGINT) + {{2}} - {_START}, 0L), 2147483647L) AS INT)) END"
)
_LEFT = "CASE WHEN {1} >= 0 THEN left({0}, {1}) WHEN {1} < 0 THEN substr({0}, 1, greatest(length({0}) + {1}, 0)) END"
_RIGHT = (
    "CASE WHEN {1} >= 0 THEN right({0}, {1}) WHEN {1} < 0 THEN "
    "substr({0}, CAST(least(1L - {1}, 2147483647L) AS INT)) END"
)
LONGEST = 1 << 28
"""Bytes of a text that a function makes out of a short one. PostgreSQL's limit is 1 GB, which is more than Spark can hold."""
_PAD = "IF({{2}} = '', left({{0}}, {{1}}), {name}({{0}}, {{1}}, {{2}}))"
_INITCAP = (
    "array_join(transform(regexp_extract_all({0}, '[\\\\p{{L}}\\\\p{{N}}]+|[^\\\\p{{L}}\\\\p{{N}}]+', 0), "
    "_v1 -> concat(upper(left(_v1, 1)), lower(substr(_v1, 2)))), '')"
)
_CHR = (
    "IF({0} BETWEEN 1 AND 1114111 AND NOT {0} BETWEEN 55296 AND 57343, "
    "decode(unhex(lpad(hex(greatest({0}, 1)), 8, '0')), 'UTF-32'), NULL)"
)
_OVERLAY = "concat(substr({0}, 1, {2} - 1), {1}, substr({0}, CAST(IF(CAST({2} AS BIGINT) + {3} < 1, 1, CAST({2} AS BIGINT) + {3}) AS INT)))"


def _split(a: Sequence[str], e: Sequence[Expr]) -> str:
    quoted = f"concat('\\\\Q', replace({a[1]}, '\\\\E', '\\\\E\\\\\\\\E\\\\Q'), '\\\\E')"
    parts = (
        f"CASE WHEN {a[0]} IS NULL THEN NULL WHEN {a[0]} = '' THEN CAST(array() AS ARRAY<STRING>) "
        f"WHEN {a[1]} IS NULL THEN split({a[0]}, '') WHEN {a[1]} = '' THEN array({a[0]}) "
        f"ELSE split({a[0]}, {quoted}, -1) END"
    )
    return parts if len(a) == 2 else f.each(parts, lambda v: f"nullif({v}, {a[2]})")


def _encode(a: Sequence[str], e: Sequence[Expr]) -> str:
    form = required(e[1], "encode with a format").lower()
    if form == "hex":
        return f"lower(hex({a[0]}))"
    if form == "base64":
        return f"regexp_replace(regexp_replace(base64({a[0]}), '\\\\s', ''), '(.{{76}})(?=.)', '$1\\n')"
    raise _refused_encoding("encode", form)


def _decode(a: Sequence[str], e: Sequence[Expr]) -> str:
    form = required(e[1], "decode with a format").lower()
    if form == "hex":
        plain = f"regexp_replace({a[0]}, '\\\\s', '')"
        return f.let(plain, lambda v: f"IF(length({v}) % 2 = 0, unhex({v}), NULL)")
    if form == "base64":
        return f"try_to_binary(regexp_replace({a[0]}, '\\\\s', ''), 'base64')"
    raise _refused_encoding("decode", form)


def _refused_encoding(name: str, form: str) -> ValueError:
    if form == "escape":
        return ValueError(f"{name} with the format {form!r}")
    return TextInputError("22023", f'unrecognized encoding: "{form}"')


_QUOTED_IDENT = (
    "IF({0} RLIKE '^[a-z_][a-z0-9_$]*$', {0}, concat('\"', replace({0}, '\"', '\"\"'), '\"'))"
)
_QUOTED_TEXT = (
    "concat(IF({0} LIKE '%\\\\\\\\%', 'E', ''), '\\'', "
    "replace(replace({0}, '\\\\', '\\\\\\\\'), '\\'', '\\'\\''), '\\'')"
)


def _format(a: Sequence[str], e: Sequence[Expr]) -> str:
    """format('%s …'): %s, %I, %L and %%, with %n$ positions and widths."""
    pattern = required(e[0], "format with a pattern")
    pieces: list[str] = []
    at, argument = 0, 1
    for match in re.finditer(r"%(?:(\d+)\$)?(-?)(\d*)([sIL%])", pattern):
        if match.start() > at:
            pieces.append(f.string(pattern[at : match.start()]))
        at = match.end()
        position, minus, width, kind = match.groups()
        if kind == "%":
            pieces.append("'%'")
            continue
        argument = int(position) if position else argument
        if not 0 < argument < len(a):
            raise TextInputError("22023", "too few arguments for format()")
        pieces.append(_formatted(a[argument], e[argument], kind, minus, width))
        argument += 1
    rest = re.sub(r"%(?:(\d+)\$)?(-?)(\d*)([sIL%])", "", pattern)
    if (wrong := re.search(r"%(?:\d+\$)?-?\d*(.?)", rest, re.DOTALL)) is not None:
        if wrong[1] == "*":
            raise ValueError("format with a width from an argument")
        kind = f'unrecognized format() type specifier "{wrong[1]}"'
        raise TextInputError("22023", kind if wrong[1] else "unterminated format() type specifier")
    if at < len(pattern):
        pieces.append(f.string(pattern[at:]))
    return f"IF({a[0]} IS NULL, NULL, concat({', '.join(pieces) or repr('')}))"


def _formatted(x: str, e: Expr, kind: str, minus: str, width: str) -> str:
    text = casts.output(x, e.type)
    if kind == "s":
        text = f"coalesce({text}, '')"
    elif kind == "L":
        text = f"coalesce({f.let(text, _QUOTED_TEXT.format)}, 'NULL')"
    else:
        text = f.let(text, _QUOTED_IDENT.format)
    if not width:
        return text
    pad = "rpad" if minus else "lpad"
    return f.let(text, lambda v: f"IF(length({v}) >= {width}, {v}, {pad}({v}, {width}, ' '))")


ROWS: Rows = (
    _row("||", (TEXT, TEXT), "concat({0}, {1})"),
    _row("||", (BYTES, BYTES), "concat({0}, {1})", BYTES),
    Function("||", (TEXT, ANY), TEXT, _join),
    Function("||", (ANY, TEXT), TEXT, _join),
    Function("concat", (ANY,), TEXT, _concat, variadic=True, strict=False),
    Function("concat_ws", (TEXT, ANY), TEXT, _concat_ws, variadic=True, strict=False),
    Function("format", (TEXT,), TEXT, _format, strict=False),
    Function("format", (TEXT, ANY), TEXT, _format, variadic=True, strict=False),
    _row("length", (TEXT,), "length({0})", I4),
    _row("length", (BYTES,), "octet_length({0})", I4),
    _row("octet_length", (TEXT,), "octet_length({0})", I4),
    _row("octet_length", (BYTES,), "octet_length({0})", I4),
    _row("bit_length", (TEXT,), "bit_length({0})", I4),
    _row("bit_length", (BYTES,), "bit_length({0})", I4),
    _row("lower", (TEXT,), "lower({0})"),
    _row("upper", (TEXT,), "upper({0})"),
    _row("initcap", (TEXT,), _INITCAP),
    _row("btrim", (TEXT,), "btrim({0})"),
    _row("ltrim", (TEXT,), "ltrim({0})"),
    _row("rtrim", (TEXT,), "rtrim({0})"),
    _row("btrim", (TEXT, TEXT), "btrim({0}, {1})"),
    _row("ltrim", (TEXT, TEXT), "ltrim({1}, {0})"),
    _row("rtrim", (TEXT, TEXT), "rtrim({1}, {0})"),
    _row("substring", (TEXT, I4), f"substr({{0}}, {_START})"),
    _row("substring", (TEXT, I4, I4), _SUBSTR, fallible=True),
    _row("substring", (BYTES, I4), f"substr({{0}}, {_START})", BYTES),
    _row("substring", (BYTES, I4, I4), _SUBSTR, BYTES, fallible=True),
    _row("left", (TEXT, I4), _LEFT),
    _row("right", (TEXT, I4), _RIGHT),
    *(
        row
        for pad in ("lpad", "rpad")
        for row in (
            _row(pad, (TEXT, I4), f"IF({{1}} > {LONGEST}, NULL, {pad}({{0}}, {{1}}, ' '))", fallible=True),
            _row(pad, (TEXT, I4, TEXT), f"IF({{1}} > {LONGEST}, NULL, {_PAD.format(name=pad)})", fallible=True),
        )
    ),
    _row("repeat", (TEXT, I4), f"IF(octet_length({{0}}) * CAST({{1}} AS BIGINT) > {LONGEST}, NULL, repeat({{0}}, {{1}}))", fallible=True),
    _row("reverse", (TEXT,), "reverse({0})"),
    _row("replace", (TEXT, TEXT, TEXT), "replace({0}, {1}, {2})"),
    _row("translate", (TEXT, TEXT, TEXT), "translate({0}, {1}, {2})"),
    _row("overlay", (TEXT, TEXT, I4), "IF({2} < 1, NULL, " + _OVERLAY.replace("{3}", "length({1})") + ")", fallible=True),
    _row("overlay", (TEXT, TEXT, I4, I4), "IF({2} < 1, NULL, " + _OVERLAY + ")", fallible=True),
    _row("split_part", (TEXT, TEXT, I4), "split_part({0}, {1}, nullif({2}, 0))", fallible=True),
    _row("strpos", (TEXT, TEXT), "CASE WHEN {1} <> '' THEN instr({0}, {1}) WHEN {0} IS NOT NULL AND {1} = '' THEN 1 END", I4),
    _row("starts_with", (TEXT, TEXT), "startswith({0}, {1})", t.BOOLEAN),
    _row("ascii", (TEXT,), "ascii({0})", I4),
    _row("chr", (I4,), _CHR, fallible=True),
    _row("to_hex", (I4,), "lower(hex(CAST({0} AS BIGINT) & 4294967295L))"),
    _row("to_hex", (I8,), "lower(hex({0}))"),
    _row("md5", (TEXT,), "md5({0})"),
    _row("md5", (BYTES,), "md5({0})"),
    *(_row(f"sha{n}", (BYTES,), f"unhex(sha2({{0}}, {n}))", BYTES) for n in (224, 256, 384, 512)),
    Function("encode", (BYTES, TEXT), TEXT, _encode),
    Function("decode", (TEXT, TEXT), BYTES, _decode, fallible=True),
    _row("quote_ident", (TEXT,), _QUOTED_IDENT),
    _row("quote_literal", (TEXT,), _QUOTED_TEXT),
    Function("string_to_array", (TEXT, TEXT), t.array(TEXT), _split, strict=False),
    Function("string_to_array", (TEXT, TEXT, TEXT), t.array(TEXT), _split, strict=False),
)  # fmt: skip
