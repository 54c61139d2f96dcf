"""Binding of aggregates and window calls: what looks at more than one row."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from sqlglot import exp

from icestream import types as t
from icestream.errors import NotSupportedError, SqlError
from icestream.functions.coercion import describe
from icestream.functions.conversions import Conversions, result_type
from icestream.functions.expressions import (
    AggregateCall,
    Bound,
    Call,
    Expr,
    Frame,
    Sort,
    WindowCall,
    has_aggregate,
)
from icestream.functions.registry import REGISTRY
from icestream.functions.trees import call_of


def identifier(node: exp.Expression) -> str:
    """A name as PostgreSQL folds it: lower case unless quoted."""
    return str(node.name) if node.args.get("quoted") else str(node.name).lower()


@dataclass(frozen=True)
class Groups(Conversions):
    """Aggregates with DISTINCT, ORDER BY and FILTER, and OVER clauses. `windows` are the query's named ones."""

    windows: Mapping[str, exp.Expression]

    def visit(self, node: exp.Expression) -> Expr:
        """Bind one node: the whole binder knows how."""
        raise NotImplementedError

    def boolean(self, node: exp.Expression, what: str) -> Expr:
        """A condition."""
        expr = self.visit(node)
        if expr.type not in (t.BOOLEAN, t.NULL):
            message = f"argument of {what} must be type boolean, not type {describe(expr.type)}"
            raise SqlError(message, place=self.place_of(node))
        return self.coerce(expr, t.BOOLEAN, node)

    def aggregate(
        self,
        name: str,
        args: Sequence[exp.Expression],
        node: exp.Expression,
        *,
        over: bool = False,
    ) -> Expr:
        """An aggregate with what is written inside its parentheses: DISTINCT, ORDER BY. Over a window it may hold others."""
        distinct, order, plain = False, [], []
        for arg in args:
            if isinstance(arg, exp.Order):
                order, arg = arg.expressions, arg.this
            if isinstance(arg, exp.Distinct):
                distinct = True
                plain.extend(arg.expressions)
            else:
                plain.append(arg)
        bound = [self.visit(a) for a in plain]
        for a in bound:
            if not over and has_aggregate(a):
                raise SqlError(
                    "aggregate function calls cannot be nested", place=self.place_of(node)
                )
        function, coerced = self.resolve(REGISTRY[name], name, bound, node)
        sorts = tuple(self.sort(o) for o in order)
        return AggregateCall(
            result_type(function, coerced), function, coerced, distinct, None, sorts
        )

    def within_group(self, node: exp.Expression) -> Expr:
        """percentile_cont(…) WITHIN GROUP (ORDER BY …): the ordered value is the last argument."""
        called = call_of(node.this)
        if called is None or called[0] not in REGISTRY:
            raise NotSupportedError(
                f"the expression {node.sql('risingwave')}", place=self.place_of(node)
            )
        name, args = called
        sorts = tuple(self.sort(o) for o in node.expression.expressions)
        bound = [*(self.visit(a) for a in args), *(s.expr for s in sorts)]
        function, coerced = self.resolve(REGISTRY[name], name, bound, node)
        keys = coerced[len(args) :]
        sorts = tuple(
            Sort(k, s.descending, s.nulls_first) for k, s in zip(keys, sorts, strict=True)
        )
        return AggregateCall(result_type(function, coerced), function, coerced, False, None, sorts)

    def filter(self, node: exp.Expression) -> Expr:
        """aggregate FILTER (WHERE …)"""
        inner = self.visit(node.this)
        if not isinstance(inner, AggregateCall):
            raise SqlError(
                "FILTER specified, but it is not an aggregate function", place=self.place_of(node)
            )
        where = self.boolean(node.expression.this, "FILTER")
        return AggregateCall(
            inner.type, inner.function, inner.args, inner.distinct, where, inner.order_by
        )

    def sort(self, node: exp.Expression) -> Sort:
        """One key of an ORDER BY; NULLs are largest, as in PostgreSQL."""
        if not isinstance(node, exp.Ordered):
            return Sort(self.visit(node), False, False)
        descending = bool(node.args.get("desc"))
        first = node.args.get("nulls_first")
        return Sort(self.visit(node.this), descending, descending if first is None else bool(first))

    def window(self, node: exp.Expression) -> Expr:
        """function OVER (…)"""
        name = node.args.get("alias")
        definition: exp.Expression = node
        if name is not None:
            if identifier(name) not in self.windows:
                raise SqlError(f'window "{name.name}" does not exist', place=self.place_of(node))
            definition = self.windows[identifier(name)]
        inner, ignore_nulls = node.this, False
        if isinstance(inner, exp.IgnoreNulls | exp.RespectNulls):
            inner, ignore_nulls = inner.this, isinstance(inner, exp.IgnoreNulls)
        call = self.window_call(inner)
        partition = tuple(self.visit(p) for p in definition.args.get("partition_by") or ())
        order = definition.args.get("order")
        sorts = tuple(self.sort(o) for o in order.expressions) if order else ()
        spec = definition.args.get("spec")
        frame = self.frame(spec, sorts) if spec else None
        return WindowCall(call.type, call, partition, sorts, frame, ignore_nulls)

    def window_call(self, node: exp.Expression) -> Expr:
        """What stands before OVER."""
        called = call_of(node)
        name = called[0] if called else ""
        rows = [
            f for f in REGISTRY.get(f"over:{name}", REGISTRY.get(name, ())) if f.kind == "window"
        ]
        if called and rows:
            args = [self.visit(a) for a in called[1]]
            function, coerced = self.resolve(rows, name, args, node)
            return Call(result_type(function, coerced), function, coerced)
        if called and name in REGISTRY and REGISTRY[name][0].kind == "aggregate":
            return self.aggregate(name, called[1], node, over=True)
        expr = self.visit(node)
        if not isinstance(expr, AggregateCall):
            message = (
                "OVER specified, but it is neither a window function nor an aggregate function"
            )
            raise SqlError(message, place=self.place_of(node))
        return expr

    def frame(self, spec: exp.Expression, sorts: Sequence[Sort]) -> Frame:
        """ROWS BETWEEN …; EXCLUDE is refused, never dropped."""
        exclude = spec.args.get("exclude")
        if exclude is not None and exclude.name.upper() != "NO OTHERS":
            raise NotSupportedError(f"EXCLUDE {exclude.name.upper()}", place=self.place_of(spec))
        unit = str(spec.args["kind"]).upper()
        if unit == "GROUPS":
            raise NotSupportedError("a frame in GROUPS", place=self.place_of(spec))
        start = self.bound(spec.args.get("start"), spec.args.get("start_side"))
        end = self.bound(spec.args.get("end") or "CURRENT ROW", spec.args.get("end_side"))
        if unit == "RANGE" and (start.offset or end.offset) and len(sorts) != 1:
            message = "RANGE with offset PRECEDING/FOLLOWING requires exactly one ORDER BY column"
            raise SqlError(message, place=self.place_of(spec))
        return Frame(unit, start, end)

    def bound(self, value: exp.Expression | str | None, side: str | None) -> Bound:
        """One end of a frame."""
        if isinstance(value, exp.Expression):
            return Bound(str(side).lower(), self.visit(value))
        text = str(value or "UNBOUNDED").lower()
        return (
            Bound("current row")
            if text == "current row"
            else Bound(f"unbounded {str(side or 'preceding').lower()}")
        )
