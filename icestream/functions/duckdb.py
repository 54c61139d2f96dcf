"""A bound expression as DuckDB SQL text, where the value is surely the one that Spark's text gives.

What is not listed here raises `NotTranslatableError`: Spark answers then. So does it when DuckDB fails on what is listed, and raises
PostgreSQL's error. Sums of floats depend on the order of rows, so they are left out; so are floats
as keys, because 0.0 and -0.0 are one key with two faces.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from decimal import Decimal

from icestream import types as t
from icestream.errors import SignalError
from icestream.functions.datetime_input import is_common
from icestream.functions.equality import has_variants
from icestream.functions.expression_errors import is_finite, is_float_sum
from icestream.functions.expressions import (
    AggregateCall,
    Call,
    Case,
    Cast,
    ColumnRef,
    Expr,
    Interval,
    Literal,
    Sort,
    WindowCall,
)
from icestream.functions.patterns import has_backtracking, like_parts, like_pattern, like_regex
from icestream.functions.strings import constant
from icestream.functions.times import field
from icestream.types import NumericType, Type

TYPES: dict[Type, str] = {
    t.BOOLEAN: "BOOLEAN", t.SMALLINT: "SMALLINT", t.INTEGER: "INTEGER", t.BIGINT: "BIGINT",
    t.REAL: "FLOAT", t.DOUBLE: "DOUBLE", t.VARCHAR: "VARCHAR", t.BYTEA: "BLOB", t.DATE: "DATE",
    t.TIME: "BIGINT", t.TIMESTAMP: "TIMESTAMP", t.TIMESTAMPTZ: "TIMESTAMPTZ", t.JSONB: "VARCHAR",
}  # fmt: skip
"""The types that are stored as Spark stores them; numerics beside them."""

_COMPARISONS = ("=", "<>", "<", "<=", ">", ">=")
_PLAIN = {
    **{symbol: f"({{0}} {symbol} {{1}})" for symbol in _COMPARISONS},
    "is distinct from": "({0} IS DISTINCT FROM {1})",
    "is not distinct from": "({0} IS NOT DISTINCT FROM {1})",
    "and": "({0} AND {1})", "or": "({0} OR {1})", "not": "(NOT {0})",
    "is null": "({0} IS NULL)", "is not null": "({0} IS NOT NULL)",
    "is true": "({0} IS NOT DISTINCT FROM TRUE)", "is not true": "({0} IS DISTINCT FROM TRUE)",
    "is false": "({0} IS NOT DISTINCT FROM FALSE)", "is not false": "({0} IS DISTINCT FROM FALSE)",
    "nullif": "CASE WHEN {0} = {1} THEN NULL ELSE {0} END", "starts_with": "starts_with({0}, {1})",
    "one row": "CASE WHEN NOT {0} THEN error('several rows') ELSE {0} END",
}  # fmt: skip
"""Functions that mean the same for every type that is compared alike."""
_COMPARING = (*_COMPARISONS, "is distinct from", "is not distinct from", "nullif", "in")
_ARITHMETIC = {"+": "+", "-": "-", "*": "*", "/": "//", "%": "%", "&": "&", "|": "|"}
_TRUNCATED = ("second", "minute", "hour", "day", "week", "month", "quarter", "year")
_FIELDS = {
    "year": "year", "month": "month", "day": "day", "quarter": "quarter", "week": "week", "doy": "dayofyear",
    "dow": "dayofweek", "isodow": "isodow", "hour": "hour", "minute": "minute",
}  # fmt: skip
_EXTREMES = ("min", "max")
_WIDENED = (t.SMALLINT, t.INTEGER, t.BIGINT)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
LONGEST = 10_000
"""Characters of a sum of floats, whose parts are written several times."""
QUOTIENT = 18
"""Digits that Spark has after the point of a quotient of numerics, before it is rounded to the result's ten."""


SETTINGS = {"disabled_optimizers": "top_n_window_elimination,deliminator"}
"""Settings of every DuckDB connection, without two optimizers of DuckDB 1.5 that give wrong rows. The first turns
`row_number() … = 1` over no rows into one row of NULLs. The second loses rows of EXISTS with several inequalities."""


def hide_statistics(column: str) -> str:
    """A column of which DuckDB knows no least and greatest value.

    DuckDB 1.5 takes an anti join for empty whose conditions are true for all values of its columns. It is not if its right side
    has no rows.
    """
    return f"least({column}, {column}) AS {column}"


class NotTranslatableError(SignalError):
    """Something that Spark and DuckDB may see differently."""


@dataclass(frozen=True)
class Expressions:
    """Writes expressions. `now` is the time that a query runs at, in microseconds."""

    now: int

    def visit(self, expr: Expr) -> str:
        """The text of an expression, of the type that `duck_type` gives for its own."""
        match expr:
            case ColumnRef(name=name, qualifier=None):
                return quoted(name)
            case Literal():
                return literal(expr)
            case Call():
                return self.call(expr)
            case Cast():
                return self.cast(expr)
            case Case(whens=whens, default=default):
                arms = " ".join(f"WHEN {self.visit(c)} THEN {self.visit(v)}" for c, v in whens)
                return cast(f"CASE {arms} ELSE {self.visit(default)} END", expr.type)
            case AggregateCall():
                return self.aggregate(expr)
            case WindowCall():
                return self.window(expr)
        raise NotTranslatableError(type(expr).__name__)

    def sort(self, sort: Sort) -> str:
        """A key of an ORDER BY."""
        compared(sort.expr.type)
        if has_variants(sort.expr.type):
            raise NotTranslatableError(str(sort.expr.type))
        order = "DESC" if sort.descending else "ASC"
        return f"{self.visit(sort.expr)} {order} NULLS {'FIRST' if sort.nulls_first else 'LAST'}"

    # -- scalars ----------------------------------------------------------------------------------

    def call(self, expr: Call) -> str:
        """A function or operator. Its arguments have been coerced already."""
        name, args = expr.function.name, expr.args
        if name in ("now", "proctime") and not args:
            return f"make_timestamptz({self.now})"
        for arg in args:
            if not isinstance(arg, Literal):
                compared(arg.type)
        if is_float_sum(expr):
            return self.float_sum(expr)
        texts = [self.visit(a) for a in args]
        if name in _COMPARING and any(has_variants(a.type) for a in args):
            raise NotTranslatableError(name)
        if name in _PLAIN:
            return _PLAIN[name].format(*texts)
        if name == "in":
            return f"({texts[0]} IN ({', '.join(texts[1:])}))"
        if name in ("coalesce", "greatest", "least"):
            if name != "coalesce":
                keyed(expr.type)
            return cast(f"{name}({', '.join(cast(x, expr.type) for x in texts)})", expr.type)
        kinds = {a.type for a in args}
        if kinds <= set(t.INTEGERS) and len(args) == 2 and name in _ARITHMETIC and len(kinds) == 1:
            below = _not_zero(texts[1]) if name in ("/", "%") else texts[1]
            return cast(f"({texts[0]} {_ARITHMETIC[name]} {below})", expr.type)
        if len(args) == 1 and name in ("-", "abs") and expr.type in (*t.INTEGERS, *t.FLOATS):
            return cast(f"({name}({texts[0]}))", expr.type)
        if isinstance(expr.type, NumericType) and all(isinstance(k, NumericType) for k in kinds):
            return self.numeric(name, expr.type, args, texts)
        if isinstance(expr.type, NumericType) and name == "round" and len(args) == 2:
            return self.rounded(expr.type, args, texts)
        return self.other(expr, texts)

    def float_sum(self, root: Call) -> str:
        """Sums and products of floats, checked as one: an infinity that did not come in is Spark's to refuse."""
        leaves: dict[str, None] = {}

        def text(expr: Expr) -> str:
            if isinstance(expr, Call) and is_float_sum(expr):
                a, b = map(text, expr.args)
                return cast(f"({a} {expr.function.name} {b})", expr.type)
            found = self.visit(expr)
            if not is_finite(expr):
                leaves[found] = None
            return found

        whole = text(root)
        finite = "".join(f" AND isfinite({leaf})" for leaf in leaves)
        checked = f"CASE WHEN isinf({whole}){finite} THEN error('out of range') ELSE {whole} END"
        if len(checked) > LONGEST:
            raise NotTranslatableError("a long sum")
        return cast(checked, root.type)

    def numeric(
        self, name: str, result: NumericType, args: Sequence[Expr], texts: Sequence[str]
    ) -> str:
        """Arithmetic of exact numbers, with the digits that the result has."""
        if len(args) == 1 and name in ("-", "abs"):
            return cast(f"({name}({texts[0]}))", result)
        if len(args) == 1 and name == "round":
            return cast(f"round({texts[0]}, 0)", result)
        if len(args) != 2:
            raise NotTranslatableError(name)
        if name in ("+", "-"):
            return cast(f"({cast(texts[0], result)} {name} {cast(texts[1], result)})", result)
        scales = [a.type.scale for a in args if isinstance(a.type, NumericType)]
        if name == "*" and sum(scales) <= 20:
            return cast(f"({texts[0]} * {texts[1]})", result)
        if name == "/" and result.scale == t.NUMERIC.scale:
            above, below = (_unscaled(cast(x, result), result.scale) for x in texts)
            return _ratio(above, _not_zero(below), QUOTIENT, result)
        raise NotTranslatableError(name)

    def rounded(self, result: NumericType, args: Sequence[Expr], texts: Sequence[str]) -> str:
        """round(x, n): n must be a constant that leaves out digits after the point."""
        digits = args[1].value if isinstance(args[1], Literal) else None
        source = args[0].type
        if not isinstance(source, NumericType) or not isinstance(digits, int):
            raise NotTranslatableError("round")
        if not 0 <= digits <= source.scale:
            raise NotTranslatableError("round")
        return cast(f"round({texts[0]}, {digits})", result)

    def other(self, expr: Call, texts: Sequence[str]) -> str:
        """Text and time."""
        name, kinds = expr.function.name, tuple(a.type for a in expr.args)
        match name, kinds:
            case "||", (t.VARCHAR, t.VARCHAR):
                return f"({texts[0]} || {texts[1]})"
            case "length", (t.VARCHAR,):
                return cast(f"length({texts[0]})", expr.type)
            case "~~", (t.VARCHAR, t.VARCHAR):
                pattern = constant(expr.args[1])
                if pattern is None:
                    raise NotTranslatableError("LIKE")
                parts = like_parts(pattern, "\\")
                if has_backtracking(parts):  # DuckDB's regular expressions do not go back
                    return f"regexp_full_match({texts[0]}, {string(like_regex(parts))})"
                return f"({texts[0]} LIKE {string(like_pattern(parts))} ESCAPE '\\')"
            case "+" | "-", (t.DATE, t.INTEGER):
                return cast(f"({texts[0]} {name} {texts[1]})", expr.type)
            case "-", (t.DATE, t.DATE):
                return cast(f"({texts[0]} - {texts[1]})", expr.type)
            case "date_trunc", (t.VARCHAR, t.TIMESTAMP | t.TIMESTAMPTZ as kind):
                unit = field((constant(expr.args[0]) or "").lower())
                if unit in _TRUNCATED:
                    wall = f"date_trunc('{unit}', {_wall(texts[1], kind)})"
                    return _of_wall(f"CAST({wall} AS TIMESTAMP)", kind)
            case "extract", (t.VARCHAR, t.DATE | t.TIMESTAMP | t.TIMESTAMPTZ as kind):
                found = _FIELDS.get(field((constant(expr.args[0]) or "").lower()))
                if found and not (kind == t.DATE and found in ("hour", "minute")):
                    return cast(f"{found}({_wall(texts[1], kind)})", expr.type)
        return self.shifted(expr, texts)

    def shifted(self, expr: Call, texts: Sequence[str]) -> str:
        """A moment ± a constant interval."""
        name, args = expr.function.name, expr.args
        if name not in ("+", "-") or len(args) != 2:
            raise NotTranslatableError(name)
        moment, span = args
        value = span.value if isinstance(span, Literal) else None
        if not isinstance(value, Interval):
            raise NotTranslatableError(name)
        kinds = (t.DATE, t.TIMESTAMP, t.TIMESTAMPTZ)
        if moment.type not in kinds:
            raise NotTranslatableError(name)
        wall = f"CAST({_wall(texts[0], moment.type)} AS TIMESTAMP)"
        parts = (
            f"to_months({value.months})",
            f"to_days({value.days})",
            f"to_microseconds({value.microseconds})",
        )
        for part in parts:
            wall = f"({wall} {name} {part})"
        return _of_wall(wall, expr.type)

    def cast(self, expr: Cast) -> str:
        """Conversions that both do alike; text is left to Spark but for whole numbers and booleans."""
        source, target = expr.arg.type, expr.type
        if expr.length is not None:
            raise NotTranslatableError("a length")
        if isinstance(expr.arg, Literal) and expr.arg.value is None:
            return f"CAST(NULL AS {duck_type(target)})"
        if (
            isinstance(expr.arg, Literal)
            and isinstance(expr.arg.value, Decimal)
            and target == t.DOUBLE
        ):
            return literal(Literal(target, float(expr.arg.value)))
        text = self.visit(expr.arg)
        if source == target:
            return text
        whole, exact = source in t.INTEGERS, isinstance(source, NumericType)
        if whole and (target in (*t.INTEGERS, *t.FLOATS) or isinstance(target, NumericType)):
            return cast(text, target)
        if exact and isinstance(target, NumericType):
            return cast(text, target)
        if target == t.VARCHAR and (whole or source == t.BOOLEAN):
            return cast(text, target)
        match source, target:
            case (t.REAL, t.DOUBLE) | (t.BOOLEAN, t.INTEGER) | (t.JSONB, t.VARCHAR):
                return cast(text, target)
            case ((t.DATE | t.TIMESTAMP | t.TIMESTAMPTZ), t.DATE):
                return f"CAST({_wall(text, source)} AS DATE)"
            case ((t.DATE | t.TIMESTAMP | t.TIMESTAMPTZ), (t.TIMESTAMP | t.TIMESTAMPTZ)):
                return _of_wall(f"CAST({_wall(text, source)} AS TIMESTAMP)", target)
        raise NotTranslatableError(f"{source} as {target}")

    # -- aggregates and windows -------------------------------------------------------------------

    def aggregate(self, expr: AggregateCall) -> str:
        """An aggregate whose value does not depend on the order of rows."""
        name, args = expr.function.name, expr.args
        if expr.order_by or len(args) > 1:
            raise NotTranslatableError(name)
        where = f" FILTER (WHERE {self.visit(expr.filter)})" if expr.filter else ""
        distinct = "DISTINCT " if expr.distinct else ""

        def made(function: str, inner: str) -> str:
            return f"{function}({distinct}{inner}){where}"

        if not args:
            return made("count", "*")
        text, kind = self.visit(args[0]), args[0].type
        if name == "only value":
            return f"CASE WHEN {made('count', '*')} = 1 THEN {made('any_value', text)} END"
        if name == "count":
            keyed(kind) if expr.distinct else compared(kind)
            return made("count", text)
        if name in _EXTREMES:
            keyed(kind)
            return made(name, text)
        if name in ("bool_and", "bool_or", "every") and not expr.distinct:
            return made("bool_or" if name == "bool_or" else "bool_and", text)
        if name == "sum" and (kind in _WIDENED or isinstance(kind, NumericType)):
            return cast(made("sum", _summand(text, kind)), expr.type)
        if name == "avg" and not expr.distinct and isinstance(expr.type, NumericType):
            total = made("sum", _summand(text, kind))
            return self.mean(total, made("count", text), kind, expr.type)
        raise NotTranslatableError(name)

    def mean(self, total: str, count: str, kind: Type, result: NumericType) -> str:
        """The exact sum, divided once."""
        scale = kind.scale if isinstance(kind, NumericType) else 0
        if result.scale != t.NUMERIC.scale:
            raise NotTranslatableError("avg")
        return _ratio(
            _unscaled(total, scale), f"nullif({count}, 0)::HUGEINT", QUOTIENT - scale, result
        )

    def window(self, expr: WindowCall) -> str:
        """Numbers of rows; other windows are left to Spark."""
        call = expr.call
        names = ("row_number", "rank", "dense_rank")
        if not isinstance(call, Call) or call.function.name not in names or expr.frame:
            raise NotTranslatableError("a window")
        for each in expr.partition_by:
            keyed(each.type)
        parts = []
        if expr.partition_by:
            parts.append("PARTITION BY " + ", ".join(map(self.visit, expr.partition_by)))
        if expr.order_by:
            parts.append("ORDER BY " + ", ".join(map(self.sort, expr.order_by)))
        return f"{call.function.name}() OVER ({' '.join(parts)})"


def duck_type(type: Type) -> str:
    """The type that holds the same values in DuckDB."""
    if isinstance(type, NumericType):
        return f"DECIMAL({type.precision},{type.scale})"
    if type not in TYPES:
        raise NotTranslatableError(str(type))
    return TYPES[type]


def compared(type: Type) -> None:
    """Raises unless both order values of the type alike."""
    if type != t.NULL:
        duck_type(type)


def keyed(type: Type) -> None:
    """Raises unless equal values of the type look alike as well."""
    duck_type(type)
    if type in t.FLOATS or has_variants(type):
        raise NotTranslatableError(str(type))


def cast(text: str, type: Type) -> str:
    """A text as a type, without losing anything: else it is an error."""
    return f"CAST({text} AS {duck_type(type)})"


def quoted(name: str) -> str:
    """A name as DuckDB takes it literally."""
    return '"' + name.replace('"', '""') + '"'


def string(value: str) -> str:
    """A string literal. DuckDB knows no escapes in it."""
    if "\0" in value:
        raise NotTranslatableError("a zero byte")
    return "'" + value.replace("'", "''") + "'"


def literal(expr: Literal) -> str:
    """A constant."""
    value, type = expr.value, expr.type
    match value:
        case None:
            return f"CAST(NULL AS {'VARCHAR' if type == t.NULL else duck_type(type)})"
        case bool():
            return "TRUE" if value else "FALSE"
        case Interval():
            return ""  # what it is added to looks at the value itself
        case bytes():
            return "CAST('" + "".join(f"\\x{b:02X}" for b in value) + "' AS BLOB)"
        case str():
            if type in (t.VARCHAR, t.NULL):
                return string(value)
            if type in (t.DATE, t.TIMESTAMP, t.TIMESTAMPTZ) and not is_common(value):
                raise NotTranslatableError("a year before 1 or after 9999")
            if type == t.DATE:
                return f"CAST({string(value)} AS DATE)"
            if type in (t.TIMESTAMP, t.TIMESTAMPTZ):
                return _moment(value, type)
            raise NotTranslatableError(f"a literal of type {type}")
        case float() | int():
            return cast(f"'{value!r}'", type)
        case Decimal():
            return cast(f"'{value:f}'", type)
    raise NotTranslatableError(f"a literal of type {type}")


def _moment(value: str, type: Type) -> str:
    at = datetime.fromisoformat(value).replace(tzinfo=UTC)
    micros = (at - _EPOCH) // timedelta(microseconds=1)
    return f"{'make_timestamptz' if type == t.TIMESTAMPTZ else 'make_timestamp'}({micros})"


def _wall(text: str, type: Type) -> str:
    """A moment without its zone, which is UTC. Not with a cast: that would ask a calendar which has Julian days."""
    return f"make_timestamp(epoch_us({text}))" if type == t.TIMESTAMPTZ else text


def _of_wall(text: str, type: Type) -> str:
    return f"make_timestamptz(epoch_us({text}))" if type == t.TIMESTAMPTZ else text


def _unscaled(text: str, scale: int) -> str:
    """An exact number times 10 to the scale, as a whole number."""
    factor = f"CAST({10**scale} AS DECIMAL({scale + 1},0))"
    return f"CAST({text} * {factor} AS HUGEINT)" if scale else f"CAST({text} AS HUGEINT)"


def _not_zero(text: str) -> str:
    """A divisor. DuckDB itself gives NULL for a quotient by zero."""
    return f"CASE WHEN {text} = 0 THEN error('division by zero') ELSE {text} END"


SUMMED = 28
"""Digits of a number that can be summed ten billion times: larger sums may overflow unnoticed."""
LONG = 4_000
"""Characters of an operand that is written more than once."""


def _summand(text: str, type: Type) -> str:
    """A value to be summed. One that is too large is an error."""
    if not isinstance(type, NumericType) or type.precision <= SUMMED:
        return text
    if type.scale >= SUMMED:
        raise NotTranslatableError("a sum that may be too large unnoticed")
    return cast(text, t.numeric(SUMMED, type.scale))


def _ratio(above: str, below: str, power: int, result: NumericType) -> str:
    """A quotient of whole numbers as Spark has it: rounded at its own digits first, then at those of the result."""
    if len(above) + len(below) > LONG:
        raise NotTranslatableError("a text that grows and grows")
    sign = f"sign({above}) * sign({below})"
    whole = f"((2 * abs({above}) * {10**power}::HUGEINT + abs({below})) // (2 * abs({below})))"
    step = 10 ** (QUOTIENT - result.scale)
    digits = f"(({whole} + {step // 2}) // {step} * {sign})"
    unit = f"CAST('{Decimal(1).scaleb(-result.scale):f}' AS DECIMAL({result.scale},{result.scale}))"
    return cast(f"(CAST({digits} AS DECIMAL(28,0)) * {unit})", result)
