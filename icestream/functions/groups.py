"""Binding of aggregates and window calls: what looks at more than one row."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal

from sqlglot import exp

from icestream import types as t
from icestream.errors import NotSupportedError, Place, SqlError
from icestream.functions.coercion import describe
from icestream.functions.conversions import Conversions, result_type
from icestream.functions.datatypes import written
from icestream.functions.expressions import (
    AggregateCall,
    Bound,
    Call,
    Cast,
    Expr,
    Frame,
    Interval,
    Literal,
    Sort,
    Value,
    WindowCall,
    has_aggregate,
)
from icestream.functions.registry import REGISTRY
from icestream.functions.trees import call_of
from icestream.types import NumericType, Type

SESSION = (
    "SESSION"  # the unit of a frame whose start is its gap; the planner makes other windows of it
)

# They look at the whole partition, whatever the frame.
_FRAMELESS = ("row_number", "rank", "dense_rank", "percent_rank", "cume_dist", "ntile", "lag", "lead")  # fmt: skip


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
            raise SqlError(message, place=self.place_of(node), code="42804")
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
        for sort, written_sort in zip(sorts, order, strict=True):
            if distinct and sort.expr not in (*bound, *coerced):
                raise SqlError(
                    "in an aggregate with DISTINCT, ORDER BY expressions must appear in argument list",
                    place=self.place_of(written_sort),
                    code="42P10",
                )
        return AggregateCall(
            result_type(function, coerced), function, coerced, distinct, None, sorts
        )

    def within_group(self, node: exp.Expression) -> Expr:
        """percentile_cont(…) WITHIN GROUP (ORDER BY …): the ordered value is the last argument."""
        called = call_of(node.this)
        if called is None or called[0] not in REGISTRY:
            raise NotSupportedError(f"the expression {written(node)}", place=self.place_of(node))
        name, args = called
        sorts = tuple(self.sort(o) for o in node.expression.expressions)
        bound = [*(self.visit(a) for a in args), *(s.expr for s in sorts)]
        function, coerced = self.resolve(REGISTRY[name], name, bound, node)
        fraction = constant_number(coerced[0]) if name.startswith("percentile") else None
        if isinstance(fraction, int | float | Decimal) and not 0 <= fraction <= 1:
            message = f"percentile value {fraction} is not between 0 and 1"
            raise SqlError(message, place=self.place_of(node), code="22003")
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
        definition = self.definition(node, list(self.windows))
        inner, ignore_nulls = node.this, False
        if isinstance(inner, exp.IgnoreNulls | exp.RespectNulls):
            inner, ignore_nulls = inner.this, isinstance(inner, exp.IgnoreNulls)
        call = self.window_call(inner)
        partition = tuple(self.visit(p) for p in definition.args.get("partition_by") or ())
        order = definition.args.get("order")
        sorts = tuple(self.sort(o) for o in order.expressions) if order else ()
        spec = definition.args.get("spec")
        frame = self.frame(spec, sorts) if spec else None
        if order and (gap := order.args.get("session")) is not None:
            frame = self.session(gap, sorts, call)
        return WindowCall(call.type, call, partition, sorts, frame, ignore_nulls)

    def definition(self, node: exp.Expression, known: Sequence[str]) -> exp.Expression:
        """A window with what it takes over from the one that it names, which is one of the known."""
        if (alias := node.args.get("alias")) is None:
            return node
        name, place = identifier(alias), self.place_of(alias)
        if name not in known:
            message = f'window "{name}" does not exist'
            raise SqlError(message, place=self.place_of(node), code="42704")
        base = self.definition(self.windows[name], known[: known.index(name)])
        added = {k: node.args[k] for k in ("partition_by", "order", "spec") if node.args.get(k)}
        if not added:
            return base
        if "partition_by" in added:
            message = f'cannot override PARTITION BY clause of window "{name}"'
        elif "order" in added and base.args.get("order"):
            message = f'cannot override ORDER BY clause of window "{name}"'
        elif base.args.get("spec"):
            message = f'cannot copy window "{name}" because it has a frame clause'
        else:
            given = {k: base.args.get(k) for k in ("partition_by", "order")} | added
            made = exp.Window()
            made.args.update(given)  # not set(): the trees stay where they are
            return made
        raise SqlError(message, place=place, code="42P20")

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
            self.check_place(name, coerced, node)
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

    def check_place(self, name: str, args: Sequence[Expr], node: exp.Expression) -> None:
        """ntile and nth_value count from one."""
        code = {"ntile": "22014", "nth_value": "22016"}.get(name)
        value = constant_number(args[-1]) if code else None
        if isinstance(value, int) and value < 1:
            message = f"argument of {name} must be greater than zero"
            raise SqlError(message, place=self.place_of(node), code=code)

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
        check_frame(start, end, self.place_of(spec))
        return Frame(unit, start, end)

    def session(self, tree: exp.Expression, sorts: Sequence[Sort], call: Expr) -> Frame:
        """SESSION WITH GAP …: one ascending key, and a constant to measure its distances with."""
        place = self.place_of(tree)
        if isinstance(call, Call) and call.function.name in _FRAMELESS:
            raise SqlError(
                f"{call.function.name} looks at the whole partition, not at a session",
                place=place,
                remedy="take first_value of the time over the session in a subquery, and put it into PARTITION BY",
            )
        if len(sorts) != 1:
            raise SqlError("SESSION requires exactly one ORDER BY column", place=place)
        if sorts[0].descending:
            raise NotSupportedError(
                "SESSION with ORDER BY … DESC", place=place, remedy="order by time, ascending"
            )
        return Frame(
            SESSION, Bound("gap", self.gap(tree, sorts[0].expr.type)), Bound("current row")
        )

    def gap(self, tree: exp.Expression, kind: Type) -> Expr:
        """The gap between sessions along a key of that type: an interval for times, a number for numbers."""
        bound, place = self.visit(tree), self.place_of(tree)
        timed = kind in (t.DATE, t.TIMESTAMP, t.TIMESTAMPTZ)
        if timed and bound.type == t.NULL:
            bound = self.coerce(bound, t.INTERVAL, tree)
        if not timed and not _is_number(kind):
            raise SqlError(
                f"a {describe(kind)} has no distances to tell sessions apart by",
                place=place,
                remedy="order by a time or a number",
            )
        if not isinstance(bound, Literal) or bound.value is None:
            raise SqlError("the gap of a session must be a constant", place=place)
        if not (bound.type == t.INTERVAL if timed else _is_number(bound.type)):
            wanted = "INTERVAL '5 minutes'" if timed else "a number"
            raise SqlError(
                f"the gap along a {describe(kind)} cannot be a {describe(bound.type)}",
                place=place,
                remedy=f"write {wanted}",
            )
        if _is_negative(bound.value):
            raise SqlError("the gap of a session cannot be negative", place=place)
        return bound

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


_SIDES = ("unbounded preceding", "preceding", "current row", "following", "unbounded following")


def check_frame(start: Bound, end: Bound, place: Place | None) -> None:
    """Refuse a frame that ends before it starts, or whose distance is negative."""
    first, last = _SIDES.index(start.side), _SIDES.index(end.side)
    message = None
    if start.side == "unbounded following":
        message = "frame start cannot be UNBOUNDED FOLLOWING"
    elif end.side == "unbounded preceding":
        message = "frame end cannot be UNBOUNDED PRECEDING"
    elif first > last:
        here = "current" if start.side == "current row" else "following"
        message = f"frame starting from {here} row cannot have preceding rows"
    if message is not None:
        raise SqlError(message, place=place, code="42P20")
    for bound, name in ((start, "starting"), (end, "ending")):
        value = constant_number(bound.offset)
        if value is not None and _is_negative(value):
            raise SqlError(f"frame {name} offset must not be negative", place=place, code="22013")


def constant_number(expr: Expr | None) -> Value:
    """The value of a number that is written out, or None."""
    sign = 1
    while isinstance(expr, Cast) or (isinstance(expr, Call) and expr.function.name == "-"):
        if isinstance(expr, Call):
            sign = -sign
        expr = expr.children()[0] if len(expr.children()) == 1 else None
    if not isinstance(expr, Literal) or isinstance(expr.value, str | bool):
        return None
    value = expr.value
    return -value if sign < 0 and isinstance(value, int | float | Decimal) else value


def _is_number(type: Type) -> bool:
    return type in (*t.INTEGERS, t.REAL, t.DOUBLE) or isinstance(type, NumericType)


def _is_negative(value: Value) -> bool:
    if isinstance(value, Interval):
        return min(value.months, value.days, value.microseconds) < 0
    return isinstance(value, int | float | Decimal) and value < 0
