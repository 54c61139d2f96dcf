"""A logical plan as DuckDB SQL: the batch query that a plan means, without a JVM.

It is written from the bound tree alone and shares no text with the Spark renderer, so that the two can be compared.
Every node is a subquery of its own; a function that it does not know is an error. Where DuckDB means something else
than PostgreSQL (types of sums and means, division, errors instead of NULL) the text works around it.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from decimal import Decimal
from typing import Any

import duckdb

from icestream import types as t
from icestream.dev.duck import open_duckdb
from icestream.functions.duckdb import hide_statistics
from icestream.functions.expressions import (
    AggregateCall,
    Bound,
    Call,
    Case,
    Cast,
    ColumnRef,
    Expr,
    FieldAccess,
    Interval,
    Literal,
    Row,
    Sort,
    WindowCall,
)
from icestream.plan import calls
from icestream.plan.logical import (
    Aggregate,
    Distinct,
    DistinctOn,
    Expand,
    Filter,
    Item,
    Join,
    Limit,
    Lookup,
    Node,
    Order,
    Project,
    Scan,
    SetOperation,
    Unnest,
    Values,
    Window,
    WindowTable,
)
from icestream.plan.table_functions import micros
from icestream.types import ArrayType, NumericType, StructType, Type

_TYPES: dict[Type, str] = {
    t.BOOLEAN: "BOOLEAN", t.SMALLINT: "SMALLINT", t.INTEGER: "INTEGER", t.BIGINT: "BIGINT",
    t.REAL: "FLOAT", t.DOUBLE: "DOUBLE", t.VARCHAR: "VARCHAR", t.BYTEA: "BLOB", t.DATE: "DATE",
    t.TIME: "TIME", t.TIMESTAMP: "TIMESTAMP", t.TIMESTAMPTZ: "TIMESTAMPTZ",
    t.INTERVAL: "INTERVAL", t.JSONB: "VARCHAR", t.NULL: "VARCHAR",
}  # fmt: skip

_JOINS = {
    "inner": "INNER JOIN", "left": "LEFT JOIN", "right": "RIGHT JOIN", "full": "FULL JOIN",
    "cross": "CROSS JOIN", "semi": "SEMI JOIN", "anti": "ANTI JOIN",
}  # fmt: skip

# Functions of any type. Those that may fail are wrapped in TRY, because here an error is NULL.
_CALLS: dict[str, str] = {
    **{symbol: f"({{0}} {symbol} {{1}})" for symbol in ("=", "<>", "<", "<=", ">", ">=")},
    "and": "({0} AND {1})", "or": "({0} OR {1})", "not": "(NOT {0})",
    "is null": "({0} IS NULL)", "is not null": "({0} IS NOT NULL)",
    "is distinct from": "({0} IS DISTINCT FROM {1})",
    "is not distinct from": "({0} IS NOT DISTINCT FROM {1})",
    "is true": "({0} IS NOT DISTINCT FROM TRUE)", "is not true": "({0} IS DISTINCT FROM TRUE)",
    "is false": "({0} IS NOT DISTINCT FROM FALSE)", "is not false": "({0} IS DISTINCT FROM FALSE)",
    "nullif": "nullif({0}, {1})", "abs": "abs({0})", "||": "({0} || {1})", "&": "({0} & {1})",
    "lower": "lower({0})", "upper": "upper({0})", "length": "length({0})",
    "replace": "replace({0}, {1}, {2})", "reverse": "reverse({0})", "~~": "({0} LIKE {1})",
    "date_trunc": "date_trunc({0}, {1})", "subscript": "({0})[{1}]", "cardinality": "len({0})",
    "unnest": "{0}", "sign": "sign({0})", "starts_with": "starts_with({0}, {1})",
    "floor": "floor({0})", "ceil": "ceil({0})", "one row": "nullif({0}, FALSE)",
}  # fmt: skip
_VARIADIC = {"coalesce", "greatest", "least"}
_PLAIN_AGGREGATES = {"min", "max", "bool_and", "bool_or", "bit_and", "bit_or", "bit_xor"}
_NUMBERED = {"row_number", "rank", "dense_rank", "percent_rank", "cume_dist"}
_WINDOWS = {"ntile", "lag", "lead", "first_value", "last_value", "nth_value"}


class UnknownToDuckDBError(AssertionError):
    """The renderer has no text for this: give it one, or keep it out of the tests."""


def render_duckdb(node: Node, inputs: Mapping[str, str], now: str | None = None) -> str:
    """The DuckDB SQL of a plan. `inputs` has a table expression for every relation that it reads."""
    return _Renderer(inputs, now).visit(node)


def duck_type(type: Type) -> str:
    """The type that holds the same values in DuckDB."""
    match type:
        case NumericType(precision=p, scale=s):
            return f"DECIMAL({p},{s})"
        case ArrayType(element=e):
            return f"{duck_type(e)}[]"
        case StructType(fields=fields):
            return "STRUCT(" + ", ".join(f"{quoted(f.name)} {duck_type(f.type)}" for f in fields) + ")"  # fmt: skip
    return _TYPES[type]


def quoted(name: str) -> str:
    """A name as DuckDB takes it literally."""
    return '"' + name.replace('"', '""') + '"'


def connect() -> duckdb.DuckDBPyConnection:
    """An empty database in which the texts that both know mean what they mean in PostgreSQL."""
    connection = open_duckdb(threads=1)
    connection.execute("SET integer_division = true")
    connection.execute("SET default_null_order = 'nulls_last_on_asc_first_on_desc'")
    return connection


def plain(value: Any) -> Any:
    """A value without its type: 1, 1.0 and Decimal(1) are one number, to eight digits after the point."""
    if isinstance(value, bool) or value is None:
        return value
    if isinstance(value, list | tuple):
        return tuple(map(plain, value))
    if isinstance(value, int | float | Decimal):
        if not math.isfinite(value):
            return str(float(value))
        digits = f"{Decimal(value):.8f}".rstrip("0").rstrip(".")
        return "0" if digits == "-0" else digits
    return value


def bag(rows: Iterable[Sequence[Any]]) -> Counter[tuple[Any, ...]]:
    """Rows in no order, with how often each is there."""
    return Counter(tuple(map(plain, row)) for row in rows)


def _unit(type: Type) -> str:
    """Where the digits of a wide number are divided."""
    assert isinstance(type, NumericType)
    return f"{10 ** max(0, 28 - type.scale)}::HUGEINT"


class _Renderer:
    def __init__(self, inputs: Mapping[str, str], now: str | None) -> None:
        self._inputs = inputs
        self._exprs = _Expressions(now)
        self._aliases = 0

    # -- parts ------------------------------------------------------------------------------------

    def sub(self, node: Node, names: Sequence[str] = ()) -> str:
        self._aliases += 1
        listed = f"({', '.join(map(quoted, names))})" if names else ""
        return f"({self.visit(node)}) AS q{self._aliases}{listed}"

    def expr(self, expr: Expr) -> str:
        return self._exprs.visit(expr)

    def outs(self, items: Iterable[Item]) -> list[str]:
        return [f"{self.expr(i.expr)} AS {quoted(i.name)}" for i in items]

    def select(self, outs: Sequence[str], source: str, tail: str = "") -> str:
        return f"SELECT {', '.join(outs) or 'TRUE AS _one'} FROM {source} {tail}".rstrip()

    def names(self, node: Node) -> list[str]:
        return [quoted(n) for n in node.names]

    def order(self, keys: Sequence[Sort]) -> str:
        return "ORDER BY " + ", ".join(map(self._exprs.sort, keys)) if keys else ""

    # -- nodes ------------------------------------------------------------------------------------

    def visit(self, node: Node) -> str:
        match node:
            case Scan():
                return self.select(self.outs(node.items), self._inputs[node.relation])
            case Values():
                return self.values(node)
            case Lookup():
                return self.lookup(node)
            case Filter():
                where = f"WHERE {self.expr(node.condition)}"
                return self.select(self.names(node), self.sub(node.input), where)
            case Project():
                return self.select(self.outs(node.items), self.sub(node.input))
            case Aggregate():
                return self.aggregate(node)
            case Distinct():
                if not node.columns:
                    return self.select([], self.sub(node.input), "LIMIT 1")
                return f"SELECT DISTINCT {', '.join(self.names(node))} FROM {self.sub(node.input)}"
            case Window():
                outs = [*self.names(node.input), *self.outs(node.calls)]
                return self.select(outs, self.sub(node.input))
            case Order():
                return self.select(self.names(node), self.sub(node.input), self.order(node.keys))
            case Limit():
                return self.limited(node)
            case DistinctOn():
                number = Item("_row", calls.numbered("row_number", node.keys, node.order))
                inner = self.select(
                    [*self.names(node), *self.outs((number,))], self.sub(node.input)
                )
                return self.select(self.names(node), f"({inner})", "WHERE _row = 1")
            case Join():
                return self.join(node)
            case SetOperation():
                return self.set_operation(node)
            case Unnest():
                return self.unnest(node)
            case WindowTable():
                return self.window_table(node)
            case Expand():
                return self.expand(node)
        raise UnknownToDuckDBError(type(node).__name__)

    def lookup(self, node: Lookup) -> str:
        pairs = zip(node.on, node.keys.names, strict=True)
        test = " AND ".join(
            f"stored.{quoted(c)} IS NOT DISTINCT FROM keys.{quoted(k)}" for c, k in pairs
        )
        stored = f"{self._inputs[node.relation]} AS stored"
        keys = f"({self.visit(node.keys)}) AS keys"
        return self.select(self.outs(node.items), f"{stored} SEMI JOIN {keys} ON {test}")

    def values(self, node: Values) -> str:
        rows = []
        for row in node.rows:
            pairs = zip(node.outputs, row, strict=True)
            outs = [f"CAST({self.expr(e)} AS {duck_type(c.type)}) AS {quoted(c.name)}" for c, e in pairs]  # fmt: skip
            rows.append(f"SELECT {', '.join(outs) or 'TRUE AS _one'}")
        if rows:
            return " UNION ALL ".join(rows)
        outs = [f"CAST(NULL AS {duck_type(c.type)}) AS {quoted(c.name)}" for c in node.outputs]
        return f"SELECT {', '.join(outs) or 'TRUE AS _one'} WHERE FALSE"

    def aggregate(self, node: Aggregate) -> str:
        if not node.columns:
            return "SELECT TRUE AS _one"
        inner = self.sub(node.input)
        if not node.groups:
            return self.select(self.outs(node.aggregates), inner)
        # The groups in a SELECT of their own: a constant among them is no position.
        self._aliases += 1
        groups = [f"{self.expr(i.expr)} AS _g{n}" for n, i in enumerate(node.groups)]
        source = f"(SELECT *, {', '.join(groups)} FROM {inner}) AS q{self._aliases}"
        keys = [f"_g{n}" for n in range(len(node.groups))]
        shown = [f"{k} AS {quoted(i.name)}" for k, i in zip(keys, node.groups, strict=True)]
        outs = [*shown, *self.outs(node.aggregates)]
        return self.select(outs, source, f"GROUP BY {', '.join(keys)}")

    def limited(self, node: Limit) -> str:
        inner = node.input.input if isinstance(node.input, Order) else node.input
        if node.with_ties:
            number = Item("_row", calls.numbered("row_number", (), node.order))
            rank = Item("_rank", calls.numbered("rank", (), node.order))
            numbered = self.select([*self.names(node), *self.outs((number, rank))], self.sub(inner))
            last = node.offset + (node.count or 0)
            where = f"WHERE _row > {node.offset} AND _rank <= {last}"
            return self.select(self.names(node), f"({numbered})", where)
        parts = [self.order(node.order)]
        parts += [f"LIMIT {node.count}"] if node.count is not None else []
        parts += [f"OFFSET {node.offset}"] if node.offset else []
        return self.select(self.names(node), self.sub(inner), " ".join(p for p in parts if p))

    def join(self, node: Join) -> str:
        right = self.sub(node.right)
        if node.kind == "anti" and node.right.names:
            self._aliases += 1
            hidden = self.select(list(map(hide_statistics, self.names(node.right))), right)
            right = f"({hidden}) AS q{self._aliases}"
        source = f"{self.sub(node.left)} {_JOINS[node.kind]} {right}"
        if node.kind != "cross":
            source += f" ON {self.expr(node.condition) if node.condition else 'TRUE'}"
        return self.select(self.names(node), source)

    def set_operation(self, node: SetOperation) -> str:
        word = node.kind.upper() + (" ALL" if node.all else "")
        texts = f" {word} ".join(f"({self.visit(b)})" for b in node.branches)
        self._aliases += 1
        names = [quoted(c.name) for c in node.outputs]
        return f"SELECT {', '.join(names)} FROM ({texts}) AS q{self._aliases}({', '.join(names)})"

    # -- one row becomes several ------------------------------------------------------------------

    def unnest(self, node: Unnest) -> str:
        lists = [f"_rows{i}" for i in range(len(node.calls))]
        made = [
            f"CAST(coalesce({self.expr(c.expr)}, []) AS {duck_type(c.expr.type)}[]) AS {name}"
            for c, name in zip(node.calls, lists, strict=True)
        ]
        inner = f"SELECT *, {', '.join(made)} FROM {self.sub(node.input)}"
        longest = f"greatest({', '.join(f'len({name})' for name in lists)}, 0)"
        inner = f"SELECT *, {longest} AS _long FROM ({inner})"
        outs = self.names(node.input)

        def each(list: str, name: str) -> str:
            padded = f"CASE WHEN _long = 0 THEN [NULL] ELSE {list} END" if node.outer else list
            return f"unnest({padded}) AS {quoted(name)}"

        outs += [each(name, c.name) for name, c in zip(lists, node.calls, strict=True)]
        if node.ordinality:
            outs.append(each("range(1, _long + 1)", node.ordinality))
        return self.select(outs, f"({inner})")

    def window_table(self, node: WindowTable) -> str:
        size, slide, offset = micros(node.size), micros(node.slide), micros(node.offset)
        time = f"epoch_us(CAST({self.expr(node.time)} AS TIMESTAMP))"
        rest = f"((({time} - {offset}) % {slide} + {slide}) % {slide})"
        inner = f"SELECT *, {time} - {rest} AS _start FROM {self.sub(node.input)}"
        if node.kind == "hop":
            starts = f"generate_series(_start - {size - slide}, _start, {slide})"
            inner = f"SELECT * EXCLUDE (_start), unnest({starts}) AS _start FROM ({inner})"
        kind = duck_type(node.bound_type)
        bounds = [
            f"CAST(make_timestamp({moment}) AS {kind}) AS {quoted(name)}"
            for moment, name in (("_start", node.start), (f"_start + {size}", node.end))
        ]
        return self.select([*self.names(node.input), *bounds], f"({inner})")

    def expand(self, node: Expand) -> str:
        numbers = ", ".join(f"({i})" for i in range(len(node.sets)))
        keys = []
        for key in node.keys:
            sets = [str(i) for i, names in enumerate(node.sets) if key.name in names]
            kind = duck_type(key.expr.type)
            chosen = f"CASE WHEN _set IN ({', '.join(sets)}) THEN {self.expr(key.expr)} END"
            keys.append(f"CAST({chosen if sets else 'NULL'} AS {kind}) AS {quoted(key.name)}")
        source = f"{self.sub(node.input)} CROSS JOIN (VALUES {numbers}) AS s(_set)"
        outs = [*self.names(node.input), *keys, f"_set AS {quoted(node.number)}"]
        return self.select(outs, source)


class _Expressions:
    """Bound expressions as DuckDB SQL."""

    def __init__(self, now: str | None) -> None:
        self._now = now

    def visit(self, expr: Expr) -> str:
        match expr:
            case ColumnRef(name=name, qualifier=qualifier):
                return f"{quoted(qualifier)}.{quoted(name)}" if qualifier else quoted(name)
            case Literal():
                return literal(expr)
            case Call():
                return self.call(expr)
            case Cast():
                return self.cast(expr)
            case Case(whens=whens, default=default):
                arms = " ".join(f"WHEN {self.visit(c)} THEN {self.visit(v)}" for c, v in whens)
                return f"CASE {arms} ELSE {self.visit(default)} END"
            case Row(args=args, type=StructType(fields=fields)):
                pairs = zip(fields, args, strict=True)
                inner = ", ".join(f"{quoted(c.name)} := {self.visit(a)}" for c, a in pairs)
                return f"struct_pack({inner})"
            case FieldAccess(arg=arg, name=name):
                return f"({self.visit(arg)}).{quoted(name)}"
            case AggregateCall():
                return self.aggregate(expr, "")
            case WindowCall():
                return self.window(expr)
        raise UnknownToDuckDBError(f"{type(expr).__name__}: {expr}")

    def sort(self, sort: Sort) -> str:
        order = "DESC" if sort.descending else "ASC"
        return f"{self.visit(sort.expr)} {order} NULLS {'FIRST' if sort.nulls_first else 'LAST'}"

    # -- scalar functions -------------------------------------------------------------------------

    def call(self, expr: Call) -> str:
        name, args = expr.function.name, [self.visit(a) for a in expr.args]
        kind = duck_type(expr.type)
        if name in ("+", "-", "*", "/", "%"):
            text = self.arithmetic(name, args, expr)
            return f"TRY(CAST({text} AS {kind}))"
        if name == "sum of digits":
            high = f"TRY(CAST({args[0]} AS HUGEINT) * {_unit(expr.args[1].type)})"
            return f"TRY(CAST(TRY_CAST({high} AS {kind}) + {args[1]} AS {kind}))"
        if name == "in":
            return f"({args[0]} IN ({', '.join(args[1:])}))"
        if name == "array":
            return f"CAST([{', '.join(args)}] AS {kind})"
        if name in _VARIADIC:
            return f"{name}({', '.join(args)})"
        if name == "concat":
            return f"concat({', '.join(args)})"
        if name == "generate_series" and expr.type in t.INTEGERS:
            return f"generate_series({', '.join(args)})"
        if name == "substring" and all(e.type == t.INTEGER for e in expr.args[1:]):
            return f"substring({', '.join(args)})"
        if name == "round" and len(args) == 1:
            return f"CAST({'round_even' if expr.type == t.DOUBLE else 'round'}({args[0]}{', 0' if expr.type == t.DOUBLE else ''}) AS {kind})"  # fmt: skip
        if name == "round":
            return f"CAST(round({args[0]}, {args[1]}) AS {kind})"
        if name in ("now", "proctime"):
            return self.moment(expr)
        if name not in _CALLS:
            raise UnknownToDuckDBError(f"function {expr.function}")
        return _CALLS[name].format(*args)

    def moment(self, expr: Call) -> str:
        """now(), or what it was at another time: the delta rules write that into the function."""
        then = re.fullmatch(r"TIMESTAMP_MICROS\((\d+)\)", str(expr.function.spark))
        if then:
            return f"make_timestamptz({then[1]})"
        if self._now is None:
            raise UnknownToDuckDBError(f"function {expr.function}")
        return self._now

    def arithmetic(self, symbol: str, args: Sequence[str], expr: Call) -> str:
        if len(args) == 1:
            return f"(-{args[0]})"
        types = [e.type for e in expr.args]
        if symbol == "-" and types[0] == types[1] == t.DATE:
            return f"date_diff('day', {args[1]}, {args[0]})"
        if symbol == "/" and isinstance(expr.type, NumericType):
            pairs = zip(args, expr.args, strict=True)
            above, below = (_scaled(a, e.type, expr.type.scale) for a, e in pairs)
            return _ratio(above, below, expr.type.scale, expr.type.scale)
        if symbol == "/" and expr.type in t.INTEGERS:
            return f"({args[0]} // {args[1]})"
        if symbol == "/" and expr.type in t.FLOATS:
            return f"({args[0]} / nullif({args[1]}, 0))"
        return f"({args[0]} {symbol} {args[1]})"

    def cast(self, expr: Cast) -> str:
        source, target = expr.arg.type, expr.type
        loose = source in t.FLOATS or isinstance(source, NumericType)
        if target == t.VARCHAR and loose:
            raise UnknownToDuckDBError(f"{source} as text: digits are written differently")
        text = f"TRY_CAST({self.visit(expr.arg)} AS {duck_type(target)})"
        if expr.length is None:
            return text
        if target == t.VARCHAR:
            return f"left({text}, {expr.length})"
        raise UnknownToDuckDBError(f"{target}({expr.length})")

    # -- aggregates and windows -------------------------------------------------------------------

    def aggregate(self, expr: AggregateCall, over: str) -> str:
        name, args = expr.function.name, [self.visit(a) for a in expr.args]
        order = expr.order_by
        if name == "array_agg" and expr.distinct and not order:
            order = (Sort(expr.args[0], False, False),)
        sorted_by = " ORDER BY " + ", ".join(map(self.sort, order)) if order else ""
        where = f" FILTER (WHERE {self.visit(expr.filter)})" if expr.filter else ""
        kind = duck_type(expr.type)

        def made(function: str, *inner: str) -> str:
            distinct = "DISTINCT " if expr.distinct and inner else ""
            return f"{function}({distinct}{', '.join(inner) or '*'}{sorted_by}){where}{over}"

        if name in _PLAIN_AGGREGATES or name in ("string_agg", "array_agg", "count"):
            return made(name, *args)
        if name == "every":
            return made("bool_and", *args)
        if name == "only value":
            return f"CASE WHEN {made('count')} = 1 THEN {made('any_value', *args)} END"
        if name in ("first_value", "last_value"):
            return made(name.removesuffix("_value"), *args)
        if name == "sum":
            return f"CAST({made('sum', *args)} AS {kind})"
        if name in ("sum of high digits", "sum of low digits"):
            high = f"(CAST(trunc({args[0]}) AS HUGEINT) // {_unit(expr.args[0].type)})"
            scale = expr.args[0].type.scale  # type: ignore[attr-defined]
            lifted = f"CAST({high} * {_unit(expr.args[0].type)} AS DECIMAL(38,{scale}))"
            low = f"({args[0]} - {lifted})"
            return f"CAST({made('sum', high if 'high' in name else low)} AS {kind})"
        if name == "avg" and expr.type == t.DOUBLE:
            return made("avg", *args)
        if name == "avg" and isinstance(expr.type, NumericType):
            argument = expr.args[0].type
            scale = argument.scale if isinstance(argument, NumericType) else 0
            total = _scaled(made("sum", *args), argument, scale)
            ratio = _ratio(total, made("count", *args), expr.type.scale - scale, expr.type.scale)
            return f"CAST({ratio} AS {kind})"
        raise UnknownToDuckDBError(f"aggregate {expr.function}")

    def window(self, expr: WindowCall) -> str:
        parts = []
        if expr.partition_by:
            parts.append("PARTITION BY " + ", ".join(map(self.visit, expr.partition_by)))
        if expr.order_by:
            parts.append("ORDER BY " + ", ".join(map(self.sort, expr.order_by)))
        if expr.frame:
            start, end = self.bound(expr.frame.start), self.bound(expr.frame.end)
            parts.append(f"{expr.frame.unit} BETWEEN {start} AND {end}")
        over = f" OVER ({' '.join(parts)})"
        if isinstance(expr.call, AggregateCall):
            return self.aggregate(expr.call, over)
        assert isinstance(expr.call, Call)
        name, args = expr.call.function.name, [self.visit(a) for a in expr.call.args]
        if name not in _NUMBERED | _WINDOWS:
            raise UnknownToDuckDBError(f"window function {name}")
        nulls = " IGNORE NULLS" if expr.ignore_nulls else ""
        return f"{name}({', '.join(args)}{nulls}){over}"

    def bound(self, bound: Bound) -> str:
        if bound.offset is None:
            return bound.side.upper()
        return f"{self.visit(bound.offset)} {bound.side.upper()}"


def _scaled(text: str, type: Type, scale: int) -> str:
    """An exact number times 10 to the scale, as a whole number."""
    if not isinstance(type, NumericType):
        return f"(CAST({text} AS HUGEINT) * {10**scale}::HUGEINT)"
    if scale == 0:
        return f"CAST({text} AS HUGEINT)"
    precision = 38 - scale - 1
    factor = f"CAST({10**scale} AS DECIMAL({scale + 1},0))"
    return f"CAST(CAST({text} AS DECIMAL({precision},{scale})) * {factor} AS HUGEINT)"


def _ratio(above: str, below: str, power: int, scale: int) -> str:
    """above * 10^power / below, half away from zero, as a number with that many digits after the point."""
    a, b = f"({above} * {10**power}::HUGEINT)", f"nullif({below}, 0)"
    whole = f"(2 * abs({a}) + abs({b})) // (2 * abs({b})) * sign({a}) * sign({b})"
    unit = f"CAST('{Decimal(10) ** -scale:f}' AS DECIMAL({scale},{scale}))"
    return f"(CAST({whole} AS DECIMAL({38 - scale},0)) * {unit})"


def literal(expr: Literal) -> str:
    """A constant as DuckDB writes it."""
    value, kind = expr.value, duck_type(expr.type)
    match value:
        case None:
            return f"CAST(NULL AS {kind})"
        case bool():
            return "TRUE" if value else "FALSE"
        case Interval(months=m, days=d, microseconds=us):
            return f"(to_months({m}) + to_days({d}) + to_microseconds({us}))"
        case str():
            text = "'" + value.replace("'", "''") + "'"
            return text if expr.type in (t.VARCHAR, t.NULL) else f"CAST({text} AS {kind})"
        case float():
            return f"CAST('{value!r}' AS {kind})"
        case Decimal():
            return f"CAST('{value:f}' AS {kind})"
        case int():
            return f"CAST({value} AS {kind})"
    raise UnknownToDuckDBError(f"a literal of type {expr.type}")
