"""Bound expressions as people write them: for EXPLAIN and for messages, not for running."""

from __future__ import annotations

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
)
from icestream.types import quote

_WORDS = ("and", "or")
_AFTER = ("is null", "is not null", "is true", "is not true", "is false", "is not false")


def text(expr: Expr) -> str:
    """The expression in SQL."""
    match expr:
        case ColumnRef(name=name):
            return quote(name)
        case Variable():
            return "element"
        case Literal():
            return _literal(expr)
        case Call():
            return _call(expr)
        case Cast(arg=arg, implicit=implicit):
            return text(arg) if implicit else f"{_tight(arg)}::{expr.type}"
        case Case(whens=whens, default=default):
            arms = " ".join(f"WHEN {text(c)} THEN {text(v)}" for c, v in whens)
            return f"CASE {arms} ELSE {text(default)} END"
        case Row(args=args):
            return f"ROW({_list(args)})"
        case FieldAccess(arg=arg, name=name):
            return f"({text(arg)}).{quote(name)}"
        case Quantified():
            return _quantified(expr)
        case AggregateCall():
            return _aggregate(expr)
        case WindowCall():
            return _window(expr)
    return type(expr).__name__


def sort_text(sort: Sort) -> str:
    """A sort key; the order of NULLs only where it is not the usual one."""
    words = [text(sort.expr)]
    words += ["DESC"] if sort.descending else []
    if sort.nulls_first != sort.descending:
        words.append("NULLS FIRST" if sort.nulls_first else "NULLS LAST")
    return " ".join(words)


def sorts_text(sorts: tuple[Sort, ...]) -> str:
    """The keys of an ORDER BY."""
    return ", ".join(sort_text(s) for s in sorts)


def interval_text(value: Interval) -> str:
    """An interval as a literal has it, in its largest units."""
    months, days, rest = value.months, value.days, value.microseconds
    hours, rest = divmod(rest, 3_600_000_000)
    minutes, rest = divmod(rest, 60_000_000)
    seconds = f"{rest / 1_000_000:g}"
    units = (("month", months), ("day", days), ("hour", hours), ("minute", minutes))
    shown = [f"{n} {unit}{'' if n == 1 else 's'}" for unit, n in units if n]
    shown += [f"{seconds} second{'' if seconds == '1' else 's'}"] if rest or not shown else []
    return " ".join(shown)


def _list(exprs: tuple[Expr, ...]) -> str:
    return ", ".join(text(e) for e in exprs)


def _literal(expr: Literal) -> str:
    value = expr.value
    match value:
        case None:
            return "NULL"
        case bool():
            return "TRUE" if value else "FALSE"
        case str():
            return "'" + value.replace("'", "''") + "'"
        case bytes():
            return f"'\\x{value.hex()}'"
        case Interval():
            return f"INTERVAL '{interval_text(value)}'"
    return str(value)


def _call(expr: Call) -> str:
    name, args = expr.function.name, expr.args
    if name in _AFTER:
        return f"{_tight(args[0])} {name.upper()}"
    if name == "not":
        return f"NOT {_tight(args[0])}"
    if name == "in":
        return f"{_tight(args[0])} IN ({_list(args[1:])})"
    if name == "array":
        return f"ARRAY[{_list(args)}]"
    if name == "subscript":
        return f"{_tight(args[0])}[{text(args[1])}]"
    if name in _WORDS:
        return f" {name.upper()} ".join(_tight(a) if _is_word(a) else text(a) for a in args)
    if not name.replace("_", "").isalnum() and len(args) == 2:
        return f"{_tight(args[0])} {name.upper()} {_tight(args[1])}"
    if not name.replace("_", "").isalnum() and len(args) == 1:
        return f"{name}{_tight(args[0])}"
    return f"{name}({_list(args)})"


def _is_word(expr: Expr) -> bool:
    return isinstance(expr, Call) and expr.function.name in _WORDS


def _tight(expr: Expr) -> str:
    """In parentheses if it is an operator."""
    inner = expr.arg if isinstance(expr, Cast) and expr.implicit else expr
    shown = text(inner)
    operator = isinstance(inner, Call) and not inner.function.name.replace("_", "").isalnum()
    keyword = isinstance(inner, Call) and inner.function.name in (*_WORDS, "not", "in")
    return f"({shown})" if (operator and inner.children()) or keyword else shown


def _quantified(expr: Quantified) -> str:
    word = "ALL" if expr.every else "ANY"
    condition = expr.condition
    if isinstance(condition, Call) and len(condition.args) == 2:
        return f"{_tight(condition.args[0])} {condition.function.name} {word}({text(expr.array)})"
    return f"{word}({text(expr.array)}, {text(condition)})"


def _aggregate(expr: AggregateCall) -> str:
    inner = _list(expr.args) if expr.args else "*" if expr.function.name == "count" else ""
    inner = f"DISTINCT {inner}" if expr.distinct else inner
    inner = f"{inner} ORDER BY {sorts_text(expr.order_by)}" if expr.order_by else inner
    where = f" FILTER (WHERE {text(expr.filter)})" if expr.filter else ""
    return f"{expr.function.name}({inner}){where}"


def _window(expr: WindowCall) -> str:
    parts = [f"PARTITION BY {_list(expr.partition_by)}"] if expr.partition_by else []
    parts += [f"ORDER BY {sorts_text(expr.order_by)}"] if expr.order_by else []
    if expr.frame:
        frame = expr.frame
        parts.append(f"{frame.unit} BETWEEN {_bound(frame.start)} AND {_bound(frame.end)}")
    return f"{text(expr.call)} OVER ({' '.join(parts)})"


def _bound(bound: Bound) -> str:
    offset = f"{text(bound.offset)} " if bound.offset else ""
    return f"{offset}{bound.side.upper()}"
