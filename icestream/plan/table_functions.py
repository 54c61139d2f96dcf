"""Functions in FROM: unnest and generate_series, and the time windows TUMBLE, HOP and SESSION."""

from __future__ import annotations

from dataclasses import replace

from sqlglot import exp

from icestream import types as t
from icestream.errors import NotSupportedError, Place, SqlError
from icestream.functions.bind import Binder
from icestream.functions.expressions import (
    Call,
    ColumnRef,
    Expr,
    Interval,
    Literal,
    Sort,
    columns_used,
)
from icestream.plan.calls import binder_of, call, converted
from icestream.plan.joins import on_condition, refuse_twice
from icestream.plan.logical import (
    ONE_ROW,
    Filter,
    Item,
    JoinKind,
    Node,
    Project,
    Unnest,
    Window,
    WindowTable,
)
from icestream.plan.rewrite import kept, refs
from icestream.plan.scope import (
    HIDDEN,
    Context,
    FromScope,
    Output,
    Source,
    Visible,
    with_aliases,
)
from icestream.plan.sessions import numbered, over

_LENGTHS = {"tumble": "a size", "hop": "a slide and a size", "session": "a gap"}
_WINDOWS = {"tumble": 3, "hop": 4, "session": 3}  # the number of arguments without an offset


def is_window(tree: exp.Expression) -> bool:
    """TUMBLE(…), HOP(…) or SESSION(…)"""
    called = tree.this if isinstance(tree, exp.Table) else None
    return isinstance(called, exp.Anonymous) and called.name in _WINDOWS


def is_function(tree: exp.Expression) -> bool:
    """A function in FROM that gives rows."""
    if isinstance(tree, exp.Unnest):
        return True
    return isinstance(tree, exp.Table) and isinstance(tree.this, exp.Func) and not is_window(tree)


# -- functions that give rows ---------------------------------------------------------------------


def function(
    tree: exp.Expression, called: exp.Expression, ctx: Context, left: Source | None
) -> Source:
    """The rows of a function. If it looks at `left`, they stand beside it; else it is a relation of its own."""
    if isinstance(called, exp.Table):
        called = called.this
    binder = binder_of(left.scope if left else FromScope(outer=ctx.outer), ctx.place_of)
    bound = [_call(c, called, binder, ctx) for c in _calls(called)]
    looks = left is not None and any(columns_used(b) for b in bound)
    items = tuple(Item(ctx.names.fresh(b.function.name), b) for b in bound)
    numbered = _ordinality(tree, called)
    number = ctx.names.fresh("ordinality") if numbered else None
    node = Unnest(left.node if left and looks else ONE_ROW, items, number)
    own = FromScope(entries=_entries(tree, called, node, ctx), outer=ctx.outer)
    source = Source(node, own)
    if left is None or not looks:
        return source
    refuse_twice(left, source, ctx, tree)
    return Source(node, left.scope.beside(own))


def _calls(called: exp.Expression) -> list[exp.Expression]:
    return list(called.expressions) if isinstance(called, exp.Unnest) else [called]


def _call(one: exp.Expression, called: exp.Expression, binder: Binder, ctx: Context) -> Call:
    inside = isinstance(called, exp.Unnest)
    bound = binder.function("unnest", [one], one) if inside else binder.visit(one)
    if not (isinstance(bound, Call) and bound.function.set_returning):
        raise NotSupportedError("a scalar function in FROM", place=ctx.place_of(one))
    return bound


def _ordinality(tree: exp.Expression, called: exp.Expression) -> exp.Expression | bool | None:
    for node in (tree, called):
        for key in ("offset", "ordinality"):
            if found := node.args.get(key):
                return found
    return None


def _entries(
    tree: exp.Expression, called: exp.Expression, node: Unnest, ctx: Context
) -> tuple[Visible, ...]:
    alias = tree.args.get("alias") or called.args.get("alias")
    functions = [c.function.name for _, c in node.functions]
    qualifier = alias.name if alias is not None and alias.this else functions[0]
    given = [c.name for c in (alias.args.get("columns") or ())] if alias is not None else []
    numbered = _ordinality(tree, called)
    if isinstance(numbered, exp.Identifier) and len(given) == len(functions):
        given.append(numbered.name)
    names = [qualifier] if len(functions) == 1 else functions
    names = [*names, "ordinality"] if node.ordinality else names
    added = refs(node)[len(node.input.columns) :]
    shown = with_aliases(names, given, qualifier, alias, ctx)
    return tuple(Visible(n, qualifier, r) for n, r in zip(shown, added, strict=True))


def on_true(left: Source, found: Source, join: exp.Join, kind: JoinKind, ctx: Context) -> Source:
    """A join with a function that looks at the left side."""
    on = join.args.get("on")
    condition = on_condition(on, found.scope, ctx) if on is not None else None
    if kind in ("right", "full") or join.args.get("using") or (kind == "left" and condition):
        raise NotSupportedError(
            "this join with a function of the left side's columns",
            place=ctx.place_of(join),
            remedy="write LEFT JOIN … ON TRUE, or CROSS JOIN with a WHERE",
        )
    node = found.node
    if kind == "left" and isinstance(node, Unnest):
        node = replace(node, outer=True)
    return Source(Filter(node, condition) if condition is not None else node, found.scope)


# -- windows --------------------------------------------------------------------------------------


def window(tree: exp.Expression, source: Source, ctx: Context) -> tuple[Output, str | None]:
    """A relation with window_start and window_end beside it, and its name.

    TUMBLE(relation, time, size [, offset]), HOP(relation, time, slide, size [, offset]) or
    SESSION(relation [PARTITION BY …], time, gap).
    """
    called, place = tree.this, ctx.place_of(tree)
    kind, args = called.name, called.expressions
    wanted = _WINDOWS[kind]
    if len(args) not in (wanted, wanted + (kind != "session")):
        raise SqlError(f"{kind} takes a relation, a time column and {_LENGTHS[kind]}", place=place)
    binder = binder_of(source.scope, ctx.place_of)
    time = binder.visit(args[1])
    if not isinstance(time, ColumnRef) or time.type not in (t.DATE, t.TIMESTAMP, t.TIMESTAMPTZ):
        raise SqlError(
            f"the time of {kind} must be a column of type date, timestamp or timestamptz",
            place=ctx.place_of(args[1]),
        )
    if kind == "session":
        keys = tuple(binder.visit(k) for k in called.args.get("partition_by") or ())
        gap = binder.gap(args[2], time.type)
        return _bounded(_sessions(source.node, keys, time, gap, ctx), source)
    slide, *rest = (_length(a, binder, place) for a in args[2:])
    size = rest.pop(0) if kind == "hop" else slide
    offset = rest[0] if rest else Interval(0, 0, 0)
    if micros(slide) <= 0 or micros(size) <= 0:
        raise SqlError(f"the windows of {kind} must have a length", place=place)
    if micros(size) % micros(slide):
        raise SqlError("the size of a window must be a multiple of its slide", place=place)
    start, end = ctx.names.fresh("window_start"), ctx.names.fresh("window_end")
    name = "tumble" if kind == "tumble" else "hop"
    node = WindowTable(source.node, name, time, size, slide, offset, start, end)  # type: ignore[arg-type]
    return _bounded(node, source)


def _sessions(node: Node, keys: tuple[Expr, ...], time: ColumnRef, gap: Expr, ctx: Context) -> Node:
    """The rows with the bounds of their sessions last: the first row's time, and the last row's with the gap added."""
    node, session = numbered(node, keys, Sort(time, False, False), gap, ctx.names)
    first = Item(ctx.names.fresh("first"), over("min", time, (*keys, session)))
    last = Item(ctx.names.fresh("last"), over("max", time, (*keys, session)))
    node = Window(node, (first, last))
    end = Item(ctx.names.fresh("window_end"), call("+", last.ref, gap))
    start = Item(ctx.names.fresh("window_start"), converted(first.ref, end.expr.type))
    return Project(node, (*kept(node), start, end))


def _bounded(node: Node, source: Source) -> tuple[Output, str | None]:
    """The relation's columns, and the bounds that stand last in the node."""
    shown = [e for e in source.scope.entries if not e.name.startswith(HIDDEN)]
    items = tuple(Item(r.name, r) for r in (*(e.ref for e in shown), *refs(node)[-2:]))
    names = (*(e.name for e in shown), "window_start", "window_end")
    return Output(Project(node, items), names), shown[0].qualifier


def _length(tree: exp.Expression, binder: Binder, place: Place) -> Interval:
    bound = binder.visit(tree)
    if isinstance(bound, Literal) and bound.type == t.NULL:
        bound = binder.coerce(bound, t.INTERVAL, tree)
    if not (isinstance(bound, Literal) and isinstance(bound.value, Interval)):
        raise SqlError("the lengths of windows must be constant intervals", place=place)
    if bound.value.months:
        raise SqlError(
            "a window cannot be measured in months: they differ in length",
            place=place,
            remedy="group by date_trunc('month', …) instead",
        )
    return bound.value


def micros(length: Interval) -> int:
    """A length without months, in microseconds."""
    return length.days * 86_400_000_000 + length.microseconds
