"""A bound expression as Spark SQL text.

The text assumes the engine's session: ANSI on, UTC, case-sensitive names, exact decimals. Its Spark type is
`types.spark_type(expr.type)`. Every identifier is quoted. `now` is the text that stands for the batch time. `failures` says
what happens where PostgreSQL raises an error; without it the value is NULL.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from decimal import Decimal

from icestream import types as t
from icestream.functions import casts
from icestream.functions import expression_errors as errors
from icestream.functions import fragments as f
from icestream.functions.equality import key_text
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
    Quantified,
    Row,
    Sort,
    Variable,
    WindowCall,
    columns_used,
)
from icestream.functions.function import Function
from icestream.types import NumericType, StructType, backtick, spark_type


def render(expr: Expr, *, now: str | None = None, failures: errors.Failures | None = None) -> str:
    """The Spark SQL text of a bound expression. Without `now`, now() is Spark's own current_timestamp()."""
    return _Renderer(now or "current_timestamp()", failures).visit(expr)


@dataclass
class _Renderer:
    now: str
    failures: errors.Failures | None = None
    elements: dict[str, str] = field(default_factory=dict)
    """The lambda parameters that stand for the elements of the `Quantified` conditions around."""
    made: int = 0

    def visit(self, expr: Expr) -> str:
        if self.failures is not None and errors.is_fallible(expr):
            return self.guarded(expr, self.failures)
        if self.failures is errors.RAISE and errors.is_float_sum(expr):
            return self.float_sum(expr)
        match expr:
            case ColumnRef(name=name, qualifier=qualifier):
                return f"{backtick(qualifier)}.{backtick(name)}" if qualifier else backtick(name)
            case Variable(name=name):
                return self.elements[name]
            case Literal():
                return literal(expr)
            case Call(type=built, function=function, args=()) if function.name == "array":
                return f"CAST(array() AS {spark_type(built)})"
            case Call(function=function, args=args):
                return self.call(function, args)
            case Cast(arg=arg):
                return self.cast(expr, self.visit(arg))
            case Case(whens=whens, default=default):
                arms = " ".join(f"WHEN {self.visit(c)} THEN {self.visit(v)}" for c, v in whens)
                return f"CASE {arms} ELSE {self.visit(default)} END"
            case Row(args=args, type=StructType(fields=fields)):
                pairs = zip(fields, args, strict=True)
                inner = ", ".join(f"{f.string(c.name)}, {self.visit(a)}" for c, a in pairs)
                return f"named_struct({inner})"
            case FieldAccess(arg=arg, name=name):
                return f"{self.visit(arg)}.{backtick(name)}"
            case Quantified():
                return self.quantified(expr)
            case AggregateCall():
                return self.aggregate(expr)
            case WindowCall():
                return self.window(expr)
        raise AssertionError(f"no Spark text for {type(expr).__name__}")

    def guarded(self, root: Expr, failures: errors.Failures) -> str:
        """The largest part of the expression that fails as one, with one guard around it."""
        leaves = errors.leaves_of(root)

        def make(texts: Sequence[str]) -> str:
            known = dict(zip(leaves, texts, strict=True))

            def text(expr: Expr) -> str:
                if expr in known:
                    return known[expr]
                args = [text(child) for child in expr.children()]
                if isinstance(expr, Call):
                    return _evaluate(expr.function, args, expr.args, self.now)
                assert isinstance(expr, Cast)
                return self.cast(expr, args[0])

            return failures.finish(root, errors.guard(root, texts, text, failures))

        return f.once([self.visit(leaf) for leaf in leaves], make)

    def float_sum(self, root: Expr) -> str:
        """Sums and products of floats, checked as one."""
        leaves: dict[Expr, None] = {}

        def collect(expr: Expr) -> None:
            for child in expr.children():
                if errors.is_float_sum(child):
                    collect(child)
                else:
                    leaves[child] = None

        def make(texts: Sequence[str]) -> str:
            known = dict(zip(leaves, texts, strict=True))

            def text(expr: Expr) -> str:
                if expr in known:
                    return known[expr]
                assert isinstance(expr, Call)
                return apply(expr.function, [text(a) for a in expr.args], expr.args, self.now)

            inputs = [x for e, x in known.items() if not errors.is_finite(e)]
            return errors.check_overflow(text(root), root.type, inputs)

        collect(root)
        return f.once([self.visit(leaf) for leaf in leaves], make)

    def call(self, function: Function, args: Sequence[Expr]) -> str:
        return apply(function, [self.visit(a) for a in args], args, self.now)

    def cast(self, expr: Cast, arg: str) -> str:
        text = f.once(
            (arg,),
            lambda a: casts.convert(a[0], expr.arg.type, expr.type) or "",
        )
        if expr.length is None:
            return text
        if expr.type == t.VARCHAR:
            return f"left({text}, {expr.length})"
        return casts.round_seconds(text, expr.type, expr.length)

    def quantified(self, expr: Quantified) -> str:
        array, name = self.visit(expr.array), self.name_element(expr.condition)
        around = dict(self.elements)
        self.elements[expr.variable.name] = name
        condition = self.visit(expr.condition)
        self.elements = around
        if expr.every:
            return f"(NOT exists({array}, {name} -> NOT ({condition})))"
        return f"exists({array}, {name} -> {condition})"

    def name_element(self, condition: Expr) -> str:
        """A name for a lambda parameter. Spark prefers it to a column of the same name, quoted or not."""
        columns = {n for c in columns_used(condition) for n in (c.name, c.qualifier)}
        self.made += 1
        while f"_e{self.made}" in columns:
            self.made += 1
        return f"_e{self.made}"

    def sort(self, sort: Sort) -> str:
        text = key_text(self.visit(sort.expr), sort.expr.type)
        order = "DESC" if sort.descending else "ASC"
        return f"{text} {order} NULLS {'FIRST' if sort.nulls_first else 'LAST'}"

    def aggregate(self, expr: AggregateCall) -> str:
        from icestream.functions import aggregates

        args = [self.visit(a) for a in expr.args]
        where = self.visit(expr.filter) if expr.filter else None
        keys = [self.visit(s.expr) for s in expr.order_by]
        if self.failures is not errors.RAISE:
            return aggregates.text(expr, args, keys, where)
        name = expr.function.name
        if name == "jsonb_object_agg":
            args[0] = f"coalesce({args[0]}, {errors.NO_KEY})"
        made = aggregates.text(expr, args, keys, where)
        if name in ("sum", "avg") and expr.type != t.INTERVAL:
            value = f"CASE WHEN {where} THEN {args[0]} END" if where else args[0]
            if expr.type in t.FLOATS:
                largest = f"max(abs({value}))"
                return errors.check_overflow(made, expr.type, [largest], repeat=True)
            return errors.check_missing(made, expr.type, f"count({value}) > 0")
        return made

    def window(self, expr: WindowCall) -> str:
        inner = self.visit(expr.call)
        parts = []
        if expr.partition_by:
            parts.append("PARTITION BY " + ", ".join(self.visit(p) for p in expr.partition_by))
        if expr.order_by:
            parts.append("ORDER BY " + ", ".join(self.sort(s) for s in expr.order_by))
        if expr.frame:
            start, end = self.bound(expr.frame.start), self.bound(expr.frame.end)
            parts.append(f"{expr.frame.unit} BETWEEN {start} AND {end}")
        from icestream.functions import windows

        return windows.text(inner, " ".join(parts), expr)

    def bound(self, bound: Bound) -> str:
        if bound.offset is None:
            return bound.side.upper()
        if isinstance(bound.offset, Literal) and isinstance(bound.offset.value, Interval):
            return f"{spark_interval(bound.offset.value)} {bound.side.upper()}"
        return f"{self.visit(bound.offset)} {bound.side.upper()}"


def apply(function: Function, args: Sequence[str], exprs: Sequence[Expr], now: str) -> str:
    """A function on rendered arguments, each evaluated once. `now` stands for the batch time."""
    return errors.finish(function, _evaluate(function, args, exprs, now))


def _evaluate(function: Function, args: Sequence[str], exprs: Sequence[Expr], now: str) -> str:
    """A function's template. NULL for a NULL input, and where it fails.

    Formatting puts the arguments in as they are: nothing looks for placeholders inside them.
    """
    template = function.spark
    if isinstance(template, str):
        return f.once(args, lambda a: template.format(*a, now=now))
    return f.once(args, lambda a: template(a, exprs))


def literal(expr: Literal) -> str:
    """A constant as Spark writes it."""
    value, spark = expr.value, spark_type(expr.type)
    match value:
        case None:
            return f"CAST(NULL AS {spark})"
        case bool():
            return "TRUE" if value else "FALSE"
        case Interval(months=m, days=d, microseconds=us):
            fields = f"'months', {m}, 'days', {d}, 'microseconds', {us}L"
            return f"named_struct({fields})" if us != -(2**63) else f"CAST(NULL AS {spark})"
        case bytes():
            return f"X'{value.hex()}'"
        case str():
            prefix = {t.DATE: "DATE ", t.TIMESTAMP: "TIMESTAMP_NTZ ", t.TIMESTAMPTZ: "TIMESTAMP "}
            return prefix.get(expr.type, "") + f.string(value)
        case float():
            return f"CAST('{value!r}' AS {spark})"
        case Decimal():
            return f"CAST({value:f}BD AS {spark})"
    suffix = {t.BIGINT: "L", t.TIME: "L", t.SMALLINT: "S"}.get(expr.type, "")
    if value == -(2**63) or (value == -(2**31) and expr.type == t.INTEGER):
        return f"CAST('{value}' AS {spark})"
    if isinstance(expr.type, NumericType) or expr.type in t.FLOATS:
        return f"CAST({value} AS {spark})"
    return f"{value}{suffix}"


def spark_interval(value: Interval) -> str:
    """A literal of Spark's own interval type, for frames."""
    if value.months and not (value.days or value.microseconds):
        return f"INTERVAL '{value.months}' MONTH"
    seconds = value.days * 86400 + value.microseconds // 1_000_000
    return f"INTERVAL '{seconds}.{value.microseconds % 1_000_000:06d}' SECOND"
