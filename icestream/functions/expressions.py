"""The bound tree: what an expression means once names, types and functions are known.

`bind` makes these frozen values, the planner reasons about them, `render` writes them as Spark SQL. Every
node knows its SQL type; nothing here knows sqlglot or Spark.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal
from typing import TYPE_CHECKING

from icestream.types import Type

if TYPE_CHECKING:
    from icestream.functions.function import Function


@dataclass(frozen=True)
class Interval:
    """The value of an interval, in the three parts that do not convert into one another."""

    months: int
    days: int
    microseconds: int

    def __str__(self) -> str:
        """As PostgreSQL prints it: 1 year 2 mons -3 days +04:05:06.5"""
        years = abs(self.months) // 12 * (1 if self.months > 0 else -1)
        parts: list[str] = []
        negative = False
        units = (years, "year"), (self.months - 12 * years, "mon"), (self.days, "day")
        for amount, unit in units:
            if amount:
                sign = "+" if negative and amount > 0 else ""
                parts.append(f"{sign}{amount} {unit}{'s' * (amount != 1)}")
                negative = amount < 0
        if self.microseconds or not parts:
            sign = "-" if self.microseconds < 0 else "+" if negative else ""
            parts.append(sign + clock(abs(self.microseconds)))
        return " ".join(parts)


def clock(microseconds: int) -> str:
    """04:05:06.5"""
    seconds, fraction = divmod(microseconds, 1_000_000)
    text = f"{seconds // 3600:02d}:{seconds // 60 % 60:02d}:{seconds % 60:02d}"
    return f"{text}.{fraction:06d}".rstrip("0") if fraction else text


Value = bool | int | float | str | bytes | Decimal | Interval | None


@dataclass(frozen=True)
class Expr:
    """A typed expression."""

    type: Type

    def children(self) -> tuple[Expr, ...]:
        """The expressions directly below this one."""
        return ()


@dataclass(frozen=True)
class ColumnRef(Expr):
    """A column of the input, by the name it has there (and its relation's alias, if it needs one)."""

    name: str
    qualifier: str | None = None


@dataclass(frozen=True)
class Variable(Expr):
    """The element at hand inside a `Quantified` condition."""

    name: str


@dataclass(frozen=True)
class Literal(Expr):
    """A constant. Of type `unknown` it is a string (or NULL) that takes the type its place asks for."""

    value: Value


@dataclass(frozen=True)
class Call(Expr):
    """A scalar (or set-returning) function or operator on coerced arguments."""

    function: Function
    args: tuple[Expr, ...]

    def children(self) -> tuple[Expr, ...]:
        """See `Expr.children`."""
        return self.args


@dataclass(frozen=True)
class Cast(Expr):
    """A conversion: written, or put in by the binder (`implicit`)."""

    arg: Expr
    implicit: bool = False
    length: int | None = None  # varchar(n), timestamp(n)

    def children(self) -> tuple[Expr, ...]:
        """See `Expr.children`."""
        return (self.arg,)


@dataclass(frozen=True)
class Case(Expr):
    """CASE WHEN … THEN … ELSE … END; `CASE x WHEN v` is bound as x = v."""

    whens: tuple[tuple[Expr, Expr], ...]
    default: Expr

    def children(self) -> tuple[Expr, ...]:
        """See `Expr.children`."""
        return (*(e for when in self.whens for e in when), self.default)


@dataclass(frozen=True)
class Row(Expr):
    """ROW(…): a struct of its arguments."""

    args: tuple[Expr, ...]

    def children(self) -> tuple[Expr, ...]:
        """See `Expr.children`."""
        return self.args


@dataclass(frozen=True)
class FieldAccess(Expr):
    """(struct).field"""

    arg: Expr
    name: str

    def children(self) -> tuple[Expr, ...]:
        """See `Expr.children`."""
        return (self.arg,)


@dataclass(frozen=True)
class Quantified(Expr):
    """x op ANY (array), or ALL (`every`): `condition` holds the comparison with `variable` as the element."""

    array: Expr
    variable: Variable
    condition: Expr
    every: bool

    def children(self) -> tuple[Expr, ...]:
        """See `Expr.children`."""
        return (self.array, self.condition)


@dataclass(frozen=True)
class Sort:
    """One key of an ORDER BY. PostgreSQL's default order of NULLs is already decided."""

    expr: Expr
    descending: bool
    nulls_first: bool


@dataclass(frozen=True)
class AggregateCall(Expr):
    """An aggregate function. `order_by` is its ORDER BY or WITHIN GROUP (ORDER BY …)."""

    function: Function
    args: tuple[Expr, ...]
    distinct: bool = False
    filter: Expr | None = None
    order_by: tuple[Sort, ...] = ()

    def children(self) -> tuple[Expr, ...]:
        """See `Expr.children`."""
        extra = (self.filter,) if self.filter else ()
        return (*self.args, *extra, *(s.expr for s in self.order_by))


@dataclass(frozen=True)
class Bound:
    """One end of a frame: `offset` rows (or range) before or after, the current row, or unbounded."""

    side: str  # preceding | following | current row | unbounded preceding | unbounded following
    offset: Expr | None = None


@dataclass(frozen=True)
class Frame:
    """ROWS | RANGE | GROUPS BETWEEN start AND end"""

    unit: str
    start: Bound
    end: Bound


@dataclass(frozen=True)
class WindowCall(Expr):
    """A window function, or an aggregate used as one, OVER (…)."""

    call: Expr  # an AggregateCall, or a Call of a function of kind window
    partition_by: tuple[Expr, ...] = ()
    order_by: tuple[Sort, ...] = ()
    frame: Frame | None = None
    ignore_nulls: bool = False

    def children(self) -> tuple[Expr, ...]:
        """See `Expr.children`."""
        ends = (self.frame.start, self.frame.end) if self.frame else ()
        offsets = tuple(b.offset for b in ends if b.offset)
        return (self.call, *self.partition_by, *(s.expr for s in self.order_by), *offsets)


def walk(expr: Expr) -> Iterator[Expr]:
    """The expression and everything below it, parents first."""
    left = [expr]
    while left:
        yield (found := left.pop())
        if children := found.children():
            left.extend(reversed(children))


def columns_used(expr: Expr) -> tuple[ColumnRef, ...]:
    """The columns an expression reads, each once, in order of appearance."""
    return tuple(dict.fromkeys(e for e in walk(expr) if isinstance(e, ColumnRef)))


def functions_used(expr: Expr) -> Iterator[Function]:
    """Every function called anywhere in the expression."""
    return (e.function for e in walk(expr) if isinstance(e, Call | AggregateCall))


def is_pure(expr: Expr) -> bool:
    """Whether the same row always gives the same value: no now(), no random()."""
    return all(f.pure for f in functions_used(expr))


def has_aggregate(expr: Expr) -> bool:
    """Whether an aggregate stands in the expression, not counting those that are window calls."""
    if isinstance(expr, WindowCall):
        inner = expr.call.children()
        outer = [e for e in expr.children() if e is not expr.call]
        return any(has_aggregate(e) for e in (*inner, *outer))
    return isinstance(expr, AggregateCall) or any(has_aggregate(e) for e in expr.children())


def has_window(expr: Expr) -> bool:
    """Whether a window call stands anywhere in the expression."""
    return any(isinstance(e, WindowCall) for e in walk(expr))


def is_set_returning(expr: Expr) -> bool:
    """Whether the expression gives several rows for one: unnest, generate_series and their like."""
    return any(f.set_returning for f in functions_used(expr))
