"""Further forms of random queries, beside those of `tests.shapes`: subqueries of all kinds, frames, ties, times."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from tests.kinds import BIG, DBL, INT, LONG, NUM, ORDERED, SIMPLE, STR, TS, Col, From, Rel, either

if TYPE_CHECKING:
    from tests.shapes import Writer

SYMBOLS = ("=", "<>", "<", "<=", ">", ">=")


# -- windows ---------------------------------------------------------------------------------------


def two_ranks(w: Writer, depth: int) -> Rel:
    """Top-N with a second rank, whose order is another, the same, or a longer one."""
    source = w.simple(depth)
    cols = source.cols[:]
    w.r.shuffle(cols)
    part = f"PARTITION BY {cols[0].text} " if w.chance(0.7) else ""
    first, second = w.total(w.r.sample(cols, 1)), w.total(w.r.sample(cols, 1))
    if w.chance(0.3):
        second = f"{first}, {second}" if w.chance(0.5) else first
    names = [w.r.choice(("rank", "dense_rank")) for _ in range(2)]
    if w.chance(0.3):
        names[0], first = "row_number", w.total(cols)
    ranks = [
        f"{n}() OVER ({part}ORDER BY {o})" for n, o in zip(names, (first, second), strict=True)
    ]
    shown, columns = w.outputs([*((c.text, c.kind) for c in cols), *((x, LONG) for x in ranks)])
    inner = w.named(Rel(f"SELECT {shown} FROM {source.text}", columns), w.alias())
    *_, a, b = inner.cols
    test = f"{a.text} <= {w.r.randint(1, 2)}"
    if w.chance(0.3):
        test += f" AND {b.text} <= {w.r.randint(1, 3)}"
    kept = inner.cols if w.chance(0.7) else inner.cols[:-2]
    shown, columns = w.outputs((c.text, c.kind) for c in kept)
    return Rel(f"SELECT {shown} FROM {inner.text} WHERE {test}", columns)


def frame(w: Writer, order: Col) -> str:
    """A frame, with offsets where the order allows them."""
    one = {INT: "1", LONG: "2", TS: "INTERVAL '5 minutes'"}.get(order.kind)
    starts = ["UNBOUNDED PRECEDING", "CURRENT ROW", *([f"{one} PRECEDING"] if one else [])]
    ends = ["UNBOUNDED FOLLOWING", "CURRENT ROW", *([f"{one} FOLLOWING"] if one else [])]
    return f"RANGE BETWEEN {w.r.choice(starts)} AND {w.r.choice(ends)}"


def framed(w: Writer, depth: int) -> Rel:
    """Aggregates over RANGE frames, which do not depend on the order of ties."""
    source = w.simple(depth)
    cols = source.cols[:]
    w.r.shuffle(cols)
    order = w.pick(cols, (INT, LONG, TS)) or cols[-1]
    calls: list[tuple[str, str]] = []
    for _ in range(w.r.randint(1, 2)):
        part = f"PARTITION BY {cols[0].text} " if w.chance(0.7) else ""
        word = "DESC NULLS LAST" if w.chance(0.2) else "ASC NULLS LAST"
        over = f"OVER ({part}ORDER BY {order.text} {word} {frame(w, order)})"
        number, most = w.pick(cols, (INT, NUM)), w.pick(cols, ORDERED)
        options = [("count(*)", LONG), (f"count({cols[-1].text})", LONG)]
        options += (
            [(f"sum({number.text})", {INT: LONG}.get(number.kind, number.kind))] if number else []
        )
        options += [(f"{w.r.choice(('min', 'max'))}({most.text})", most.kind)] if most else []
        call, kind = w.r.choice(options)
        calls.append((f"{call} {over}", kind))
    shown, columns = w.outputs([*((c.text, c.kind) for c in cols), *calls])
    return Rel(f"SELECT {shown} FROM {source.text}", columns)


def ties(w: Writer, depth: int) -> Rel:
    """Calls whose result is a choice among rows that are equal in their order."""
    source = w.simple(depth)
    cols = source.cols[:]
    w.r.shuffle(cols)
    order = w.pick(cols, (INT, LONG, TS)) or cols[-1]
    calls: list[tuple[str, str]] = []
    for _ in range(w.r.randint(1, 2)):
        part = f"PARTITION BY {cols[0].text} " if w.chance(0.7) else ""
        by = f"ORDER BY {w.total([order])}" if w.chance(0.8) else ""
        col = w.r.choice(cols)
        name = w.r.choice(("first_value({0})", "last_value({0})", "nth_value({0}, 2)"))
        plain = w.r.choice(("row_number()", "lag({0})", "lead({0}, 2)", "ntile(2)"))
        if w.chance(0.25):
            kind = col.kind if "{0}" in plain else INT if plain == "ntile(2)" else LONG
            calls.append((f"{plain.format(col.text)} OVER ({part}{by})", kind))
            continue
        span = f" {frame(w, order)}" if by and "DESC" not in by and w.chance(0.6) else ""
        if w.chance(0.2):
            span = " ROWS BETWEEN 1 PRECEDING AND CURRENT ROW"
        calls.append((f"{name.format(col.text)} OVER ({part}{by}{span})", col.kind))
    shown, columns = w.outputs([*((c.text, c.kind) for c in cols), *calls])
    made = tuple(c.name for c in columns[len(cols) :])
    return Rel(f"SELECT {shown} FROM {source.text}", columns, made)


def with_ties(w: Writer, depth: int) -> Rel:
    source = w.simple(depth)
    shown, columns = w.outputs((c.text, c.kind) for c in source.cols)
    order, count = w.total(w.r.sample(source.cols, 1)), w.r.randint(1, 3)
    tail = either(
        f"ORDER BY {order} FETCH FIRST {count} ROWS WITH TIES",
        f"QUALIFY rank() OVER (ORDER BY {order}) <= {count}",
    )
    return Rel(f"SELECT {shown} FROM {source.text} {tail}", columns)


# -- subqueries ------------------------------------------------------------------------------------


def quantified(w: Writer, depth: int) -> Rel:
    """x op ANY | ALL (subquery), correlated or not, as a condition or as a value."""
    outer, inner = w.item(depth), w.item(0)
    left, right = w.pair(outer.cols, inner.cols) or ("1", "1")
    clause = w.where(inner.cols, 0.4)
    pair = w.pair(outer.cols, inner.cols)
    if pair and w.chance(0.6):
        clause = f" WHERE {pair[1]} {w.r.choice(SYMBOLS)} {pair[0]}"
    word = w.r.choice(("ANY", "ALL"))
    test = f"{left} {w.r.choice(SYMBOLS)} {word} (SELECT {right} FROM {inner.text}{clause})"
    picked = [(c.text, c.kind) for c in w.some(outer.cols, SIMPLE, 1, 3)] or [("1", INT)]
    if w.chance(0.4):
        shown, columns = w.outputs([*picked, (test, "bool")])
        return Rel(f"SELECT {shown} FROM {outer.text}", columns)
    if w.chance(0.3):
        test = f"NOT ({test})" if w.chance(0.5) else f"({test} OR {w.predicate(outer.cols, 0)})"
    shown, columns = w.outputs(picked)
    return Rel(f"SELECT {shown} FROM {outer.text} WHERE {test}", columns)


def having(w: Writer, depth: int) -> Rel:
    """An aggregate compared with a subquery, which may look at the group's key."""
    outer, inner = w.item(depth), w.item(0)
    key, number = w.pick(outer.cols, SIMPLE), w.pick(inner.cols, (INT, LONG))
    if key is None or number is None:
        return w.grouped(depth)
    added = w.pick(outer.cols, (INT,))
    call = (
        w.r.choice((f"sum({added.text})", f"max({added.text})", "count(*)"))
        if added
        else "count(*)"
    )
    pair = w.pair([key], inner.cols)
    clause = (
        f" WHERE {pair[1]} {w.r.choice(('=', '<', '>='))} {pair[0]}"
        if pair and w.chance(0.7)
        else ""
    )
    query = f"SELECT {number.text} FROM {inner.text}{clause}"
    test = w.r.choice((
        f"{call} {w.r.choice(SYMBOLS)} {w.r.choice(('ANY', 'ALL'))} ({query})",
        f"{call} {w.r.choice(('IN', 'NOT IN'))} ({query})",
    ))  # fmt: skip
    items = [(key.text, key.kind), (call, LONG)]
    tail = f" HAVING {test}"
    if w.chance(0.3):
        items, tail = [*items, (test, "bool")], ""
    shown, columns = w.outputs(items)
    return Rel(f"SELECT {shown} FROM {outer.text} GROUP BY {key.text}{tail}", columns)


def row_in(w: Writer, depth: int) -> Rel:
    """(a, b) [NOT] IN (SELECT x, y …). DuckDB compares rows otherwise, so it is told what that means."""
    outer, inner = w.item(depth), w.item(0)
    pairs = [w.pair(outer.cols, inner.cols) or ("1", "1") for _ in range(2)]
    lefts, rights = [p[0] for p in pairs], [p[1] for p in pairs]
    clause = w.where(inner.cols, 0.4)
    equal = " AND ".join(f"{a} = {b}" for a, b in pairs)
    word = " AND " if clause else " WHERE "
    rows = f"SELECT {', '.join(rights)} FROM {inner.text}{clause}"
    same = f"FROM {inner.text}{clause.replace(' WHERE ', ' WHERE (', 1)}{')' if clause else ''}"
    if w.chance(0.5):
        test = either(f"({', '.join(lefts)}) IN ({rows})", f"EXISTS (SELECT 1 {same}{word}{equal})")
    else:
        unknown = f"({equal}) IS NOT FALSE"
        test = either(
            f"({', '.join(lefts)}) NOT IN ({rows})", f"NOT EXISTS (SELECT 1 {same}{word}{unknown})"
        )
    return w.projected(outer, f" WHERE {test}")


def only_row(w: Writer, depth: int) -> Rel:
    """A subquery as a value that may have several rows: it is NULL then. DuckDB is told what that means."""
    outer, inner = w.item(depth), w.item(0)
    chosen = w.pick(inner.cols, SIMPLE)
    if chosen is None:
        return w.scalar(depth)
    pair = w.pair(outer.cols, inner.cols)
    clause = w.where(inner.cols, 0.7)
    if pair and w.chance(0.7):
        clause = f" WHERE {pair[1]} {'=' if w.chance(0.75) else '<'} {pair[0]}"
    rows = f"FROM {inner.text}{clause}"
    if w.chance(0.25):  # several rows of one value are one
        only = f"CASE WHEN count(DISTINCT {chosen.text}) + max(CAST({chosen.text} IS NULL AS INTEGER)) = 1 THEN any_value({chosen.text}) END"
        value = either(f"(SELECT DISTINCT {chosen.text} {rows})", f"(SELECT {only} {rows})")
    else:
        only = f"CASE WHEN count(*) = 1 THEN any_value({chosen.text}) END"
        value = either(f"(SELECT {chosen.text} {rows})", f"(SELECT {only} {rows})")
    picked = [(x.text, x.kind) for x in w.some(outer.cols, SIMPLE, 1, 3)] or [("1", INT)]
    col = w.pick(outer.cols, (chosen.kind,))
    if col is not None and w.chance(0.3):
        shown, columns = w.outputs(picked)
        text = f"SELECT {shown} FROM {outer.text} WHERE {col.text} = {value}"
        return Rel(text, columns)
    if w.chance(0.2):
        key = picked[0][0]
        total = f"count({value})"
        shown, columns = w.outputs([picked[0], (total, LONG)])
        return Rel(f"SELECT {shown} FROM {outer.text} GROUP BY {key}", columns)
    shown, columns = w.outputs([*picked, (value, chosen.kind)])
    return Rel(f"SELECT {shown} FROM {outer.text}{w.where(outer.cols, 0.3)}", columns)


def nested(w: Writer, depth: int) -> Rel:
    """A subquery in a subquery, which looks at both queries around it."""
    outer, middle, inner = w.item(depth), w.item(0), w.item(0)
    a = w.pair(outer.cols, middle.cols) or ("1", "1")
    b = w.pair(middle.cols, inner.cols) or ("1", "1")
    c = w.pair(outer.cols, inner.cols) or ("1", "1")
    symbol = "=" if w.chance(0.7) else w.r.choice(SYMBOLS)
    deep = f"FROM {inner.text} WHERE {b[1]} = {b[0]} AND {c[1]} {symbol} {c[0]}"
    word = w.r.choice(("EXISTS", "NOT EXISTS"))
    call, kind = w.bare_aggregate(inner.cols)
    if kind in (INT, LONG, BIG) and w.chance(0.4):
        test = f"(SELECT {call} {deep}) {w.r.choice(SYMBOLS)} 1"
    else:
        test = f"{word} (SELECT 1 {deep})"
    first = w.r.choice(("EXISTS", "NOT EXISTS"))
    if w.chance(0.5):
        test = f"{first} (SELECT 1 FROM {middle.text} WHERE {a[1]} = {a[0]} AND {test})"
        return w.projected(outer, f" WHERE {test}")
    value = f"(SELECT count(*) FROM {middle.text} WHERE {a[1]} = {a[0]} AND {test})"
    picked = [(x.text, x.kind) for x in w.some(outer.cols, SIMPLE, 1, 2)] or [("1", INT)]
    shown, columns = w.outputs([*picked, (value, LONG)])
    return Rel(f"SELECT {shown} FROM {outer.text}", columns)


def lateral(w: Writer, depth: int) -> Rel:
    """A subquery in FROM that looks at what stands before it: its first rows, its totals, or its rows."""
    outer, inner = w.item(depth), w.simple(0)
    pair = w.pair(outer.cols, inner.cols)
    symbol = "=" if w.chance(0.75) else w.r.choice(SYMBOLS)
    clause = f" WHERE {pair[1]} {symbol} {pair[0]}" if pair else ""
    kind = w.r.choice(("first", "totals", "groups", "rows"))
    if kind == "totals":
        made = [w.bare_aggregate(inner.cols) for _ in range(2)]
    elif kind == "groups":
        made = [(inner.cols[0].text, inner.cols[0].kind), w.bare_aggregate(inner.cols)]
        clause += f" GROUP BY {inner.cols[0].text}"
    else:
        made = [(c.text, c.kind) for c in inner.cols]
    if kind == "first":
        clause += f" ORDER BY {w.total(inner.cols)} LIMIT {w.r.randint(1, 2)}"
    shown, columns = w.outputs(made)
    alias = w.alias()
    cols = [*outer.cols, *(Col(f"{alias}.{c.name}", c.kind) for c in columns)]
    join = (
        "CROSS JOIN LATERAL ({0}) AS {1}"
        if w.chance(0.5)
        else "LEFT JOIN LATERAL ({0}) AS {1} ON TRUE"
    )
    joined = join.format(f"SELECT {shown} FROM {inner.text}{clause}", alias)
    return w.projected(From(f"{outer.text} {joined}", cols), w.where(cols, 0.2))


# -- joins and times -------------------------------------------------------------------------------


def full_join(w: Writer, depth: int) -> Rel:
    """FULL JOIN under any condition."""
    left, right = w.item(depth), w.item(0)
    pair = w.pair(left.cols, right.cols)
    condition = f"{pair[0]} {w.r.choice(SYMBOLS)} {pair[1]}" if pair else "1 = 1"
    if w.chance(0.4):
        condition += f" AND {w.predicate([*left.cols, *right.cols], 0)}"
    cols = [*left.cols, *right.cols]
    return w.projected(From(f"{left.text} FULL JOIN {right.text} ON {condition}", cols), "")


def asof(w: Writer, depth: int) -> Rel:
    """The nearest row of the right; among equally near ones the first in the order of its columns."""
    left, right = w.simple(depth), w.simple(0)
    both = [
        (a, b)
        for a in left.cols
        for b in right.cols
        if a.kind == b.kind and a.kind in (INT, LONG, TS)
    ]
    keys = [
        (a, b) for a in left.cols for b in right.cols if a.kind == b.kind and a.kind not in (DBL,)
    ]
    if not both or not keys:
        return w.plain(depth)
    (key, other), (near, far) = w.r.choice(keys), w.r.choice(both)
    symbol = w.r.choice(("<", "<=", ">", ">="))
    on = f"{key.text} = {other.text} AND {near.text} {symbol} {far.text}"
    direction = "DESC" if ">" in symbol else "ASC"
    rest = ", ".join(f"{c.text} ASC NULLS LAST" for c in right.cols)
    order = f"{far.text} {direction} NULLS LAST, {rest}"
    alias = right.text.rpartition(" ")[2]
    word = w.r.choice(("", "LEFT "))
    theirs = f"{word}JOIN LATERAL (SELECT * FROM {right.text} WHERE {on} ORDER BY {order} LIMIT 1) AS {alias} ON TRUE"
    cols = [*left.cols, *right.cols]
    text = f"{left.text} {either(f'ASOF {word}JOIN {right.text} ON {on}', theirs)}"
    return w.projected(From(text, cols), "")


def sessions(w: Writer, depth: int) -> Rel:
    """Session windows, counted or shown beside the rows."""
    found = [(x, c) for x in w.schema.tables for c in x.columns if c.kind == TS]
    if not found:
        return w.plain(depth)
    table, time = w.r.choice(found)
    key = w.r.choice([c for c in table.columns if c.kind in (INT, STR, LONG)] or [time])
    alias, gap = w.alias(), "INTERVAL '5 minutes'"
    part = f"PARTITION BY {key.name}"
    flag = f"CASE WHEN {time.name} < lag({time.name}) OVER ({part} ORDER BY {time.name}) + {gap} THEN 0 ELSE 1 END"
    number = f"sum(_begins) OVER ({part} ORDER BY {time.name})"
    numbered = (
        f"SELECT *, {number} AS _session FROM (SELECT *, {flag} AS _begins FROM {table.name})"
    )
    over = f"OVER (PARTITION BY {key.name}, _session)"
    bounds = (
        f"min({time.name}) {over} AS window_start, max({time.name}) {over} + {gap} AS window_end"
    )
    call = either(f"SESSION({table.name} {part}, {time.name}, {gap})", f"(SELECT *, {bounds} FROM ({numbered}))")  # fmt: skip
    items = [
        (f"{alias}.{key.name}", key.kind),
        (f"{alias}.window_start", TS),
        (f"{alias}.window_end", TS),
    ]
    cols = [Col(f"{alias}.{c.name}", c.kind) for c in table.columns]
    if w.chance(0.6):
        shown, columns = w.outputs([*items, w.aggregate(cols)])
        tail = " GROUP BY 1, 2, 3"
    else:
        shown, columns = w.outputs(
            [*items, *((c.text, c.kind) for c in w.some(cols, SIMPLE, 1, 2))]
        )
        tail = ""
    return Rel(f"SELECT {shown} FROM {call} AS {alias}{tail}", columns)


FURTHER: dict[str, Callable[[Writer, int], Rel]] = {
    "two ranks": two_ranks,
    "frames": framed,
    "with ties": with_ties,
    "any and all": quantified,
    "having a subquery": having,
    "row in": row_in,
    "nested subqueries": nested,
    "subquery of several rows": only_row,
    "lateral": lateral,
    "any full join": full_join,
    "asof join": asof,
    "sessions": sessions,
}


# -- large deltas ----------------------------------------------------------------------------------


def nested_joins(w: Writer, depth: int) -> Rel:
    """Joins of all kinds of three to five tables, nested to the left, to the right or on both sides."""
    source = _join_tree(w, w.r.randint(3, 5))
    return w.projected(source, w.where(source.cols, 0.2), 2, 5)


def _join_tree(w: Writer, tables: int) -> From:
    if tables == 1:
        return w.item(0)
    first = w.r.choice((1, tables - 1, w.r.randint(1, tables - 1)))
    left, right = _join_tree(w, first), _join_tree(w, tables - first)
    keys = [[c for c in side.cols if c.text.endswith(".k")] for side in (left, right)]
    pair = w.pair(*keys) or w.pair(left.cols, right.cols)  # few partners, so that rows stay few
    kind = w.r.choice(("JOIN", "LEFT JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN"))
    condition = f"{pair[0]} = {pair[1]}" if pair else "1 = 1"
    joined = f"({left.text} {kind} {right.text} ON {condition})"
    return From(joined, [*left.cols, *right.cols])


def deep_subqueries(w: Writer, depth: int) -> Rel:
    """Subqueries of all kinds in each other, two to four of them."""
    outer = w.item(0)
    return w.projected(outer, f" WHERE {_subquery_test(w, outer, outer, w.r.randint(2, 4))}")


def _subquery_test(w: Writer, outer: From, around: From, depth: int) -> str:
    """A condition on the rows of the query around, which looks at the outermost one, too."""
    inner = w.item(0)
    near = w.pair(around.cols, inner.cols) or ("1", "1")
    far = w.pair(outer.cols, inner.cols) or ("1", "1")
    tests = [f"{near[1]} = {near[0]}"]
    if w.chance(0.4):
        tests.append(f"{far[1]} {w.r.choice(SYMBOLS)} {far[0]}")
    if depth > 1:
        tests.append(_subquery_test(w, outer, inner, depth - 1))
    clause = " AND ".join(tests)
    kind = w.r.choice(("EXISTS", "NOT EXISTS", "IN", "NOT IN", "count"))
    if kind == "count":
        return f"(SELECT count(*) FROM {inner.text} WHERE {clause}) {w.r.choice(SYMBOLS)} 1"
    if kind.endswith("EXISTS"):
        return f"{kind} (SELECT 1 FROM {inner.text} WHERE {clause})"
    return f"{far[0]} {kind} (SELECT {far[1]} FROM {inner.text} WHERE {clause})"


LARGE: dict[str, Callable[[Writer, int], Rel]] = {
    "nested joins": nested_joins,
    "deep subqueries": deep_subqueries,
}
"""Forms whose deltas are large. They stand at the top of a query alone."""
