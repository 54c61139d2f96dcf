"""Aggregates: exact, with PostgreSQL's result types, NULLs and order."""

from __future__ import annotations

import re
from collections.abc import Sequence

from icestream import types as t
from icestream.functions import casts
from icestream.functions import fragments as f
from icestream.functions.coercion import as_numeric, general, numeric_result, sum_result
from icestream.functions.equality import has_variants, key_text
from icestream.functions.expressions import AggregateCall, Expr, Literal
from icestream.functions.floats import unify_bits
from icestream.functions.function import ANY, ANYELEMENT, Function, Param, Result, Rows, Template
from icestream.functions.numbers import divide
from icestream.types import NumericType, Type, spark_type

I2, I4, I8, N, F4, F8 = t.SMALLINT, t.INTEGER, t.BIGINT, t.NUMERIC, t.REAL, t.DOUBLE
_DISTINCT = "`\x00distinct`"
"""Stands for the argument of a DISTINCT aggregate while its template is filled."""
WIDE = t.numeric(38)  # sums of bigint: no digit is lost


def _same(types: Sequence[Type]) -> Type:
    return types[0]


def _numeric(types: Sequence[Type]) -> Type:
    return numeric_result(types[0])


def _row(
    name: str,
    args: tuple[Param, ...],
    result: Result,
    spark: Template,
    accumulator: tuple[str, ...] | None = None,
) -> Function:
    return Function(
        name, args, result, spark, kind="aggregate", accumulator=accumulator, strict=False
    )


def is_wide(type: Type) -> bool:
    """Whether a sum of values of the type may exceed 38 digits."""
    return isinstance(type, NumericType) and type.precision > 28


def _unit(type: Type) -> str:
    """Where the digits of a wide number are divided: ten billion numbers below it can be summed in 38 digits."""
    assert isinstance(type, NumericType)
    return f"1{'0' * max(0, 28 - type.scale)}BD"


def _high(a: Sequence[str], e: Sequence[Expr]) -> str:
    unit = _unit(e[0].type)
    return f"try_sum(IF(abs({a[0]}) < {unit}, 0L, {a[0]} div {unit}))"


def _low(a: Sequence[str], e: Sequence[Expr]) -> str:
    unit, kind = _unit(e[0].type), spark_type(_low_type((e[0].type,)))
    return f"try_cast(try_sum(IF(abs({a[0]}) < {unit}, {a[0]}, {a[0]} % {unit})) AS {kind})"


def _low_type(types: Sequence[Type]) -> Type:
    return t.numeric(38, as_numeric(types[0]).scale)


def _joined(a: Sequence[str], e: Sequence[Expr]) -> str:
    high = f"try_multiply(CAST({a[0]} AS DECIMAL(20,0)), {_unit(e[1].type)})"
    kind = spark_type(_low_type((e[1].type,)))
    return f"try_add(try_cast({high} AS {kind}), {a[1]})"


HIGH = Function("sum of high digits", (N,), I8, _high, kind="aggregate", strict=False)
LOW = Function("sum of low digits", (N,), _low_type, _low, kind="aggregate", strict=False)
JOINED = Function("sum of digits", (I8, N), lambda ts: _low_type(ts[1:]), _joined, fallible=True)
"""The sum of wide numbers in two parts, neither of which overflows, so that the order of rows does not matter and rows can
be taken off again; and the sum itself, NULL if it does not fit. They have no names in SQL."""

ONLY_VALUE = _row("only value", (ANYELEMENT,), _same, "any_value({0}, TRUE)")
"""The value of the only row; NULL if there are several, so that it does not depend on their order. It has no name in SQL."""


def _sum_text(a: Sequence[str], e: Sequence[Expr]) -> str:
    """The sum of exact numbers: in parts if it may have too many digits on the way."""
    if not is_wide(e[0].type):
        return f"try_sum({a[0]})"
    if a[0] == _DISTINCT:
        return _sum_of_set(a[0], e[0].type)
    low = Literal(_low_type((e[0].type,)), None)
    return _joined((_high(a, e), _low(a, e)), (Literal(I8, None), low))


def _sum_of_set(x: str, type: Type) -> str:
    """The sum of distinct wide numbers in the same two parts. Different numbers have equal parts, so the numbers themselves
    are collected: DISTINCT in the two sums would drop parts."""
    unit, low_type = _unit(type), _low_type((type,))
    kind = spark_type(low_type)

    def add_up(values: str) -> str:
        total, value = f.fresh(2, values)
        small = f"abs({value}) < {unit}"
        high = f"aggregate({values}, 0L, ({total}, {value}) -> {total} + IF({small}, 0L, {value} div {unit}))"
        part = f"IF({small}, {value}, {value} % {unit})"
        added = f"try_cast(try_add({total}, {part}) AS {kind})"
        low = f"aggregate({values}, CAST(0 AS {kind}), ({total}, {value}) -> {added})"
        joined = _joined((high, low), (Literal(I8, None), Literal(low_type, None)))
        return f"IF(size({values}) = 0, NULL, {joined})"

    return f.let(f"collect_set({x})", add_up)


def _mean(a: Sequence[str], e: Sequence[Expr]) -> str:
    """avg of exact numbers: the exact sum divided once, not Spark's rounded mean."""
    result = numeric_result(e[0].type)
    exact = f"CAST({a[0]} AS {spark_type(as_numeric(e[0].type))})"
    total = _sum_text(a if a[0] == _DISTINCT else (exact,), e)
    scaled = f"try_cast({total} AS DECIMAL(38,{result.scale}))"
    kind = as_numeric(e[0].type)
    count = f"CAST(count({a[0]}) AS DECIMAL(38,{result.scale}))"
    return divide(scaled, count, result, kind.precision - kind.scale)


def _total(a: Sequence[str], e: Sequence[Expr]) -> str:
    return f"try_cast({_sum_text(a, e)} AS {spark_type(sum_result(e[0].type))})"


def _extreme(name: str) -> Rows:
    def template(a: Sequence[str], e: Sequence[Expr]) -> str:
        if e[0].type == t.INTERVAL:
            keyed = f"named_struct('k', {key_text(a[0], t.INTERVAL)}, 'v', {a[0]})"
            return f"{name}(IF({a[0]} IS NULL, NULL, {keyed})).v"
        return f"{name}({a[0]})"

    kinds = (
        I2,
        I4,
        I8,
        N,
        F4,
        F8,
        t.VARCHAR,
        t.DATE,
        t.TIME,
        t.TIMESTAMP,
        t.TIMESTAMPTZ,
        t.INTERVAL,
    )
    return tuple(_row(name, (k,), _same, template, (name,)) for k in kinds)


def _spread(name: str, spark: str, root: bool) -> Rows:
    """stddev and variance: of exact numbers numeric, of floats double; computed in double precision."""

    def exact(a: Sequence[str], e: Sequence[Expr]) -> str:
        value = f"{spark}(CAST({a[0]} AS DOUBLE))"
        return (
            f"try_cast(format_string('%.15e', {value}) AS {spark_type(numeric_result(e[0].type))})"
        )

    accumulator = ("count", "sum", "sum of squares")
    return (
        *(_row(name, (k,), _numeric, exact, accumulator) for k in (I2, I4, I8, N)),
        *(_row(name, (k,), F8, f"{spark}({{0}})") for k in (F4, F8)),
    )


_ORDERED = ("array_agg", "string_agg", "jsonb_agg", "jsonb_object_agg", "first_value", "last_value", "mode", "percentile_cont", "percentile_disc")  # fmt: skip

ROWS: Rows = (
    _row("count", (), I8, "count(1)", ("count",)),
    _row("count", (ANY,), I8, "count({0})", ("count",)),
    _row("sum", (I2,), I8, "try_sum(CAST({0} AS BIGINT))", ("count", "sum")),
    _row("sum", (I4,), I8, "try_sum(CAST({0} AS BIGINT))", ("count", "sum")),
    _row("sum", (I8,), WIDE, "try_cast(try_sum(CAST({0} AS DECIMAL(19,0))) AS DECIMAL(38,0))", ("count", "sum")),
    _row("sum", (N,), lambda ts: sum_result(ts[0]), _total, ("count", "sum")),
    _row("sum", (F4,), F4, "CAST(sum({0}) AS FLOAT)"),
    _row("sum", (F8,), F8, "sum({0})"),
    *(_row("avg", (k,), _numeric, _mean, ("count", "sum")) for k in (I2, I4, I8, N)),
    *(_row("avg", (k,), F8, "avg({0})") for k in (F4, F8)),
    *_extreme("min"),
    *_extreme("max"),
    _row("bool_and", (t.BOOLEAN,), t.BOOLEAN, "bool_and({0})", ("count", "count true")),
    _row("bool_or", (t.BOOLEAN,), t.BOOLEAN, "bool_or({0})", ("count", "count true")),
    _row("every", (t.BOOLEAN,), t.BOOLEAN, "every({0})", ("count", "count true")),
    *(_row(n, (k,), k, n + "({0})") for n in ("bit_and", "bit_or", "bit_xor") for k in (I2, I4, I8)),
    *_spread("stddev", "stddev_samp", True),
    *_spread("stddev_samp", "stddev_samp", True),
    *_spread("stddev_pop", "stddev_pop", True),
    *_spread("variance", "var_samp", False),
    *_spread("var_pop", "var_pop", False),
    _row("corr", (F8, F8), F8, "corr({0}, {1})"),
    _row("covar_pop", (F8, F8), F8, "covar_pop({0}, {1})"),
    _row("covar_samp", (F8, F8), F8, "covar_samp({0}, {1})"),
    _row("regr_slope", (F8, F8), F8, "regr_slope({0}, {1})"),
    _row("regr_intercept", (F8, F8), F8, "regr_intercept({0}, {1})"),
    _row("approx_count_distinct", (ANY,), I8, "approx_count_distinct({0})"),
    _row("array_agg", (ANYELEMENT,), lambda ts: t.array(ts[0]), "{0}"),
    _row("string_agg", (t.VARCHAR, t.VARCHAR), t.VARCHAR, "{0}"),
    _row("jsonb_agg", (ANY,), t.JSONB, "{0}"),
    _row("jsonb_object_agg", (ANY, ANY), t.JSONB, "{0}"),
    _row("first_value", (ANYELEMENT,), _same, "{0}"),
    _row("last_value", (ANYELEMENT,), _same, "{0}"),
    _row("mode", (ANYELEMENT,), _same, "{0}"),
    _row("percentile_cont", (F8, F8), F8, "{0}"),
    _row("percentile_disc", (F8, ANYELEMENT), lambda ts: ts[1], "{0}"),
)  # fmt: skip


def text(expr: AggregateCall, args: Sequence[str], keys: Sequence[str], where: str | None) -> str:
    """The whole aggregate call: DISTINCT, ORDER BY and FILTER included."""
    name = expr.function.name
    if name in _ORDERED:
        return _collected(expr, args, keys, where)
    filtered = [_where(a, where) for a in args] if where else list(args)
    rows = f"count_if({where})" if where else "count(1)"
    if name == "count" and not args:
        return rows
    if name == ONLY_VALUE.name:
        return f"CASE WHEN {rows} = 1 THEN {_applied(expr, filtered)} END"
    if expr.distinct and name == "count":
        return f"count(DISTINCT {', '.join(filtered)})"
    if expr.distinct:
        return _distinct(expr, filtered[0])
    return _applied(expr, filtered)


def _applied(expr: AggregateCall, args: Sequence[str]) -> str:
    """The template as it stands: an argument below an aggregate cannot be evaluated outside of it."""
    template = expr.function.spark
    return template.format(*args) if isinstance(template, str) else template(args, expr.args)


def _where(x: str, where: str) -> str:
    """FILTER as a CASE: an aggregate skips NULLs, and a template may use the argument twice."""
    return f"CASE WHEN {where} THEN {x} END"


def _distinct(expr: AggregateCall, x: str) -> str:
    """DISTINCT goes into every Spark aggregate of the template; min and max do not need it."""
    body = _applied(expr, [_DISTINCT])
    if expr.function.name not in ("min", "max"):
        body = re.sub(
            r"\b(try_sum|sum|avg|count|stddev_\w+|var_\w+|bit_\w+)\(", r"\1(DISTINCT ", body
        )
    return body.replace(_DISTINCT, x)


def _collected(
    expr: AggregateCall, args: Sequence[str], keys: Sequence[str], where: str | None
) -> str:
    """Aggregates that see the whole group: collect rows with their sort keys, sort, then build the result."""
    name = expr.function.name
    if name in ("percentile_cont", "percentile_disc"):
        return _percentile(expr, args, where)
    value = args[0]
    if name == "mode" or expr.distinct:
        value = unify_bits(value, expr.args[0].type)
    if name == "mode":
        return _mode(_where(value, where) if where else value, expr.args[0].type)
    once = expr.distinct and has_variants(expr.args[0].type)
    fields = [f"'v', {value}"]
    if once:
        fields.append(f"'q', {key_text(value, expr.args[0].type)}")
    if name == "string_agg":
        fields.append(f"'s', {args[1]}")
    if name == "jsonb_object_agg":
        fields.append(f"'w', {_json(args[1], expr.args[1].type)}")
    fields += [
        f"'k{i}', {_key(unify_bits(k, s.expr.type) if expr.distinct else k, s.expr.type)}"
        for i, (k, s) in enumerate(zip(keys, expr.order_by, strict=True))
    ]
    row = f"named_struct({', '.join(fields)})"
    rows = f"collect_list({_where(row, where) if where else row})"
    if expr.distinct:
        rows = f"collect_set({_where(row, where) if where else row})"
    last = _compare("_v1.v", "_v2.v", False, False, "0") if once else "0"
    if expr.order_by or name == "jsonb_object_agg":
        rows = f"array_sort({rows}, (_v1, _v2) -> {_order(expr, last)})"
    elif expr.distinct:
        order = _compare("_v1.v", "_v2.v", False, False, "0")
        if once:
            order = _compare("_v1.q", "_v2.q", False, False, order)
        rows = f"array_sort({rows}, (_v1, _v2) -> {order})"
    return _built(expr, f.let(rows, _first_of_equals) if once else rows)


def _first_of_equals(rows: str) -> str:
    """Sorted rows without those whose value equals that of the row before."""
    row, place = f.fresh(2, rows)
    new = f"{place} = 0 OR NOT ({row}.q <=> get({rows}, {place} - 1).q)"
    return f"filter({rows}, ({row}, {place}) -> {new})"


def _mode(value: str, type: Type) -> str:
    """The most frequent value, the least one of several. Of equal ones always the same one is shown."""
    if not has_variants(type):
        return f"mode({value}, true)"
    key = key_text(value, type)
    found = f"named_struct('k', mode({key}, true), 'rows', collect_list(struct({key} AS k, {value} AS v)))"

    def shown(x: str) -> str:
        (row,) = f.fresh(1, x)
        return f"array_min(filter({x}.rows, {row} -> {row}.k = {x}.k)).v"

    return f.let(found, shown)


def _key(x: str, type: Type) -> str:
    return key_text(x, type)


def _json(x: str, type: Type) -> str:
    from icestream.functions import json

    return f.let(x, lambda v: json.to_json(v, type))


def _order(expr: AggregateCall, body: str = "0") -> str:
    """The comparator of the collected rows, `body` for those that are equal. The last value of a key counts in an object, so
    its order is total."""
    if expr.function.name == "jsonb_object_agg":
        body = _compare("_v1.w", "_v2.w", False, False, "0")
    for i, sort in reversed(list(enumerate(expr.order_by))):
        body = _compare(f"_v1.k{i}", f"_v2.k{i}", sort.descending, sort.nulls_first, body)
    return body


def _compare(x: str, y: str, descending: bool, nulls_first: bool, tie: str) -> str:
    low, high = ("1", "-1") if descending else ("-1", "1")
    first, last = ("-1", "1") if nulls_first else ("1", "-1")
    return (
        f"CASE WHEN {x} IS NULL AND {y} IS NULL THEN {tie} WHEN {x} IS NULL THEN {first} "
        f"WHEN {y} IS NULL THEN {last} WHEN {x} < {y} THEN {low} WHEN {x} > {y} THEN {high} ELSE {tie} END"
    )


def _built(expr: AggregateCall, rows: str) -> str:
    name = expr.function.name
    if name == "array_agg":
        return f.let(rows, lambda r: f"IF(size({r}) = 0, NULL, transform({r}, _v3 -> _v3.v))")
    if name == "first_value":
        return f"get({rows}, 0).v"
    if name == "last_value":
        return f"try_element_at({rows}, -1).v"
    if name == "string_agg":
        return f.let(f"filter({rows}, _v3 -> _v3.v IS NOT NULL)", _string)
    from icestream.functions import json

    if name == "jsonb_agg":
        item = json.to_json("_v3.v", expr.args[0].type)
        return f.let(
            rows,
            lambda r: (
                f"IF(size({r}) = 0, NULL, concat('[', array_join(transform({r}, _v3 -> {item}), ', '), ']'))"
            ),
        )
    pair = f"concat({json.quoted(casts.output('_v3.v', expr.args[0].type))}, ': ', _v3.w)"
    return f.let(
        rows,
        lambda r: casts.canonical_json(
            f"IF(size({r}) = 0, NULL, concat('{{', array_join(transform({r}, _v3 -> {pair}), ', '), '}}'))"
        ),
    )


def _string(rows: str) -> str:
    joined = f"transform({rows}, (_v4, _v5) -> concat(IF(_v5 = 0, '', coalesce(_v4.s, '')), _v4.v))"
    return f"IF(size({rows}) = 0, NULL, array_join({joined}, ''))"


def _percentile(expr: AggregateCall, args: Sequence[str], where: str | None) -> str:
    fraction, value = args
    if where:
        value = _where(value, where)
    sort = expr.order_by[0]
    if expr.function.name == "percentile_cont":
        at = f"1D - {fraction}" if sort.descending else fraction
        return f"percentile({value}, {at})"
    key = _key(value, sort.expr.type)
    last = _compare("_v1.v", "_v2.v", False, False, "0") if has_variants(sort.expr.type) else "0"
    rows = f"array_sort(filter(collect_list(named_struct('v', {value}, 'k0', {key})), _v3 -> _v3.v IS NOT NULL), (_v1, _v2) -> {_order(expr, last)})"
    return f.let(
        rows, lambda r: f"get({r}, CAST(greatest(ceil({fraction} * size({r})) - 1, 0) AS INT)).v"
    )


__all__ = ["ROWS", "general", "text"]
