"""Random schemas, random histories of their tables, and random queries over them, all from one seed.

A query is a text that means the same in PostgreSQL, in DuckDB (with the settings of `tests.duck.connect`) and here.
Its result is determined: sums are of values that are exact in binary, every order that matters is total. Numbers
are kept small where they are computed with, and large only where they are compared and summed.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any

import duckdb
import pyarrow as pa

from icestream.plan.logical import Node
from icestream.plan.query import Relation, bind_query
from icestream.sql import parse
from icestream.sql.statements import Name, Select
from icestream.types import arrow_type
from tests.duck import duck_type, quoted
from tests.forms import FURTHER, LARGE, ties
from tests.kinds import (
    BIG,
    BOOL,
    DBL,
    INT,
    LIST,
    LONG,
    MEAN,
    NUM,
    ORDERED,
    SIMPLE,
    STR,
    TS,
    TYPES,
    WIDE,
    Col,
    Column,
    From,
    Rel,
    either,
    ours,
    theirs,
)

Row = tuple[Any, ...]

# -- schemas ---------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Table:
    """A table. Without a key it holds rows that may be equal."""

    name: str
    columns: tuple[Column, ...]
    key: tuple[str, ...] = ()

    @property
    def names(self) -> tuple[str, ...]:
        """The names of its columns."""
        return tuple(c.name for c in self.columns)

    def key_of(self, row: Row) -> Row:
        """The values of a row's key."""
        return tuple(row[self.names.index(k)] for k in self.key)

    @property
    def declared(self) -> str:
        """What stands between the brackets of CREATE TABLE."""
        columns = [f"{c.name} {c.type if c.kind != NUM else 'numeric'}" for c in self.columns]
        key = [f"PRIMARY KEY ({', '.join(self.key)})"] if self.key else []
        return ", ".join([*columns, *key])


@dataclass(frozen=True)
class Schema:
    """The tables of a case."""

    tables: tuple[Table, ...]

    views: Mapping[str, Node] = field(default_factory=dict, hash=False)
    """The plans of those of the tables that are views."""

    def relation(self, name: Name) -> Relation:
        """What the catalog would say."""
        if name.name in self.views:
            columns = tuple((c.name, c.type) for c in self.views[name.name].columns)
            return Relation(name.name, name.name, columns)
        table = next(x for x in self.tables if x.name == name.name)
        return Relation(table.name, table.name, tuple((c.name, c.type) for c in table.columns))

    def __str__(self) -> str:
        return "\n".join(
            f"CREATE TABLE {x.name} ({x.declared});"
            for x in self.tables
            if x.name not in self.views
        )

    def with_view(self, name: str, query: Query) -> Schema:
        """The schema in which queries may also read a view."""
        view = Table(name, query.columns)
        return Schema((*self.tables, view), {**self.views, name: query.node})


def random_schema(r: random.Random, *, tables: int | None = None) -> Schema:
    """Two to four tables; the first has a key, the second has none."""
    made = []
    for n in range(tables or r.randint(2, 4)):
        keyed = n == 0 or (n > 1 and r.random() < 0.6)
        kinds = [INT, STR, *r.sample([INT, LONG, BIG, NUM, DBL, BOOL, TS], r.randint(3, 5))]
        if not {NUM, DBL} & set(kinds):
            kinds.append(r.choice([NUM, DBL]))
        if TS not in kinds and n < 2:
            kinds.append(TS)
        columns = [Column("k", INT), *(Column(f"{k[0]}{i}", k) for i, k in enumerate(kinds))]
        key = (("k",) if r.random() < 0.7 else ("k", columns[2].name)) if keyed else ()
        made.append(Table(f"r{n}", tuple(columns), key))
    return Schema(tuple(made))


# -- histories -------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Change:
    """One row comes (`before` is None), goes (`after` is None), or becomes another."""

    table: str
    before: Row | None
    after: Row | None


START = datetime(2024, 1, 1, 10)
VALUES: dict[str, tuple[Any, ...]] = {
    INT: (None, 0, 1, 2, 3, -1, 7),
    LONG: (None, 0, 1, 2, 5, -3),
    BIG: (None, 1, 9_007_199_254_740_993, 9_007_199_254_740_992, -4_611_686_018_427_387_905),
    NUM: tuple(None if v is None else Decimal(v) for v in (None, "0", "1.25", "-2.5", "1.25", "9999999.75", "3")),
    DBL: (None, 0.0, -0.0, 1.5, -2.25, float("nan"), 1.5, 1048576.5),
    STR: (None, "", "a", "b", "B", "ab", "ä"),
    BOOL: (None, True, False),
    TS: (None, *(START + timedelta(minutes=m) for m in (0, 1, 4, 5, 59, 60, 125, -1))),
}  # fmt: skip
KEYS: dict[str, tuple[Any, ...]] = {**VALUES, INT: tuple(range(8)), STR: ("", "a", "b")}


def random_row(r: random.Random, table: Table, *, nan: bool = True) -> Row:
    """A row of few different values, so that joins and groups hit."""

    def value(column: Column) -> Any:
        choice = KEYS if column.name in table.key else VALUES
        if column.name == "k" and not table.key:
            return r.choice((None, 0, 1, 2, 3))
        found = [v for v in choice[column.kind] if nan or v == v]
        return r.choice(found)

    return tuple(value(c) for c in table.columns)


class Contents:
    """What the tables hold, as bags of rows."""

    def __init__(self, schema: Schema) -> None:
        self.schema = schema
        self.rows: dict[str, list[Row]] = {table.name: [] for table in schema.tables}

    def apply(self, changes: Iterable[Change]) -> None:
        """The tables after the changes, one after the other."""
        for change in changes:
            rows = self.rows[change.table]
            if change.before is not None:
                del rows[next(i for i, row in enumerate(rows) if same(row, change.before))]
            if change.after is not None:
                rows.append(change.after)

    def load(self, connection: duckdb.DuckDBPyConnection) -> None:
        """The tables of a DuckDB database become these."""
        for table in self.schema.tables:
            load(connection, table.name, table, self.rows[table.name])


def same(a: Row, b: Row) -> bool:
    """Whether two rows are one: NaN is NaN, and -0.0 is not 0.0."""
    return tuple(map(repr, a)) == tuple(map(repr, b))


def load(
    connection: duckdb.DuckDBPyConnection, name: str, table: Table, rows: Sequence[Row]
) -> None:
    """A table of DuckDB with those rows."""
    arrays = [
        pa.array([row[i] for row in rows], arrow_type(c.type)) for i, c in enumerate(table.columns)
    ]
    loaded = pa.table(arrays, names=list(table.names))  # noqa: F841 (DuckDB finds it by its name)
    declared = ", ".join(f"{quoted(c.name)} {duck_type(c.type)}" for c in table.columns)
    connection.execute(f"CREATE OR REPLACE TABLE {quoted(name)} ({declared})")
    connection.execute(f"INSERT INTO {quoted(name)} SELECT * FROM loaded")


def random_history(
    r: random.Random, schema: Schema, size: int, *, retract: bool = True, nan: bool = True
) -> list[Change]:
    """Changes that follow one another: inserts, updates, changed keys, deletes, a key that goes and comes back.

    Rows of a table without a key only go if `retract`.
    """
    held = Contents(schema)
    done: list[Change] = []

    def put(table: Table, before: Row | None, after: Row | None) -> None:
        change = Change(table.name, before, after)
        held.apply([change])
        done.append(change)

    while len(done) < size:
        table = r.choice(schema.tables)
        rows = held.rows[table.name]
        row = random_row(r, table, nan=nan)
        if not table.key:
            if rows and retract and r.random() < 0.35:
                put(table, r.choice(rows), None)
            else:
                put(table, None, r.choice(rows) if rows and r.random() < 0.25 else row)
            continue
        there = {table.key_of(x): x for x in rows}
        old = there.get(table.key_of(row))
        dice = r.random()
        if old is None and rows and dice < 0.2:  # an update that also changes the key
            put(table, r.choice(rows), row)
        elif old is None:
            put(table, None, row)
        elif dice < 0.4:
            put(table, old, row)
        elif dice < 0.6:
            put(table, old, None)
            put(table, None, row)
        else:
            put(table, old, None)
    return done


def cut(r: random.Random, changes: Sequence[Change], epochs: int) -> list[list[Change]]:
    """The changes in that many parts, some of them perhaps empty."""
    ends = sorted(r.randint(0, len(changes)) for _ in range(epochs - 1))
    return [list(changes[a:b]) for a, b in zip([0, *ends], [*ends, len(changes)], strict=True)]


def net(table: Table, changes: Iterable[Change]) -> Iterator[tuple[Row, int]]:
    """What the changes of a table amount to: rows with weights, those that cancel left out."""
    weights: Counter[tuple[str, ...]] = Counter()
    rows: dict[tuple[str, ...], Row] = {}
    for change in changes:
        for row, weight in ((change.before, -1), (change.after, 1)):
            if change.table == table.name and row is not None:
                name = tuple(map(repr, row))
                rows[name] = row
                weights[name] += weight
    return ((rows[name], weight) for name, weight in weights.items() if weight)


# -- queries ---------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Query:
    """A query: its text, the same for DuckDB, and its plan. `open`: columns whose value is a choice among ties."""

    text: str
    theirs: str
    node: Node
    form: str
    columns: tuple[Column, ...]
    open: tuple[str, ...] = ()

    def settled(self, rows: Iterable[Row]) -> list[Row]:
        """Rows without what is a choice among ties."""
        places = [i for i, c in enumerate(self.columns) if c.name not in self.open]
        return [tuple(row[i] for i in places) for row in rows]


def bind(text: str, schema: Schema) -> Node:
    """The plan of a query over the schema's tables."""
    (statement,) = parse(text, env={})
    assert isinstance(statement, Select)
    return bind_query(statement.query, schema.relation)


def random_query(
    r: random.Random, schema: Schema, *, form: str | None = None, depth: int = 1
) -> Query:
    """A query of that form (see `FORMS`; any if None), with up to `depth` further ones nested in its FROM."""
    writer = Writer(r, schema)
    chosen = form or r.choice([*FORMS, *OPEN])
    alone = OPEN | LARGE
    found = alone[chosen](writer, depth) if chosen in alone else writer.query(depth, chosen)
    text = ours(found.text)
    node = bind(text, schema)
    return Query(text, theirs(found.text), node, chosen, found.columns, found.open)


@dataclass
class Writer:
    r: random.Random
    schema: Schema
    aliases: int = field(default=0)

    # -- parts ------------------------------------------------------------------------------------

    def alias(self) -> str:
        self.aliases += 1
        return f"q{self.aliases}"

    def chance(self, p: float) -> bool:
        return self.r.random() < p

    def query(self, depth: int, form: str | None = None) -> Rel:
        return FORMS[form or self.r.choice(list(FORMS))](self, depth)

    def item(self, depth: int, wanted: str | None = None) -> From:
        """A table or a query, under an alias. `wanted`: a kind that must be among its columns."""
        alias = self.alias()
        if depth > 0 and self.chance(0.6):
            inner = self.query(depth - 1)
            if wanted is None or any(c.kind == wanted for c in inner.columns):
                return self.named(inner, alias)
        tables = [x for x in self.schema.tables if wanted is None or any(c.kind == wanted for c in x.columns)]  # fmt: skip
        table = self.r.choice(tables)
        return From(
            f"{table.name} AS {alias}", [Col(f"{alias}.{c.name}", c.kind) for c in table.columns]
        )

    def named(self, rel: Rel, alias: str) -> From:
        cols = [Col(f"{alias}.{c.name}", c.kind) for c in rel.columns]
        return From(f"({rel.text}) AS {alias}", cols)

    def pick(self, cols: Sequence[Col], kinds: Sequence[str]) -> Col | None:
        found = [c for c in cols if c.kind in kinds]
        return self.r.choice(found) if found else None

    def some(self, cols: Sequence[Col], kinds: Sequence[str], least: int, most: int) -> list[Col]:
        found = [c for c in cols if c.kind in kinds]
        return self.r.sample(found, min(len(found), self.r.randint(least, most)))

    def outputs(self, items: Iterable[tuple[str, str]]) -> tuple[str, tuple[Column, ...]]:
        """A select list of (text, kind), and the columns it makes."""
        pairs = list(items)
        columns = tuple(Column(f"c{i}", kind) for i, (_, kind) in enumerate(pairs))
        shown = ", ".join(f"{text} AS {c.name}" for (text, _), c in zip(pairs, columns, strict=True))  # fmt: skip
        return shown, columns

    def where(self, cols: Sequence[Col], p: float = 0.5, word: str = " WHERE ") -> str:
        return word + self.predicate(cols) if self.chance(p) else ""

    # -- expressions ------------------------------------------------------------------------------

    def expr(self, cols: Sequence[Col], kind: str, depth: int = 1) -> str:
        col = self.pick(cols, (kind,))
        if col is None or depth == 0 or self.chance(0.5):
            return col.text if col else self.constant(kind)
        inner = self.expr(cols, kind, depth - 1)
        plain: dict[str, tuple[str, ...]] = {
            INT: (f"({inner} + 1)", f"({inner} % 3)", f"({inner} / 2)", f"abs({inner})", f"({inner} - {self.expr(cols, INT, 0)})"),
            LONG: (f"({inner} * 2)", f"(- {inner})"),
            NUM: (f"({inner} * 2)", f"({inner} + 1.25)", f"(- {inner})"),
            DBL: (f"({inner} * 2)", f"(- {inner})", f"({inner} + 0.5)"),
            STR: (f"upper({inner})", f"({inner} || 'x')", f"lower({inner})"),
            BOOL: (f"(NOT {inner})", self.predicate(cols)),
            TS: (f"({inner} + INTERVAL '5 minutes')", f"date_trunc('hour', {inner})"),
        }  # fmt: skip
        general = (
            f"coalesce({inner}, {self.constant(kind)})",
            f"nullif({inner}, {self.constant(kind)})",
            f"CASE WHEN {self.predicate(cols, 0)} THEN {inner} ELSE {self.expr(cols, kind, 0)} END",
        )
        choices: list[str] = [*plain.get(kind, (inner,)), *(general if kind in TYPES else ())]
        return self.r.choice(choices)

    def constant(self, kind: str) -> str:
        choices: dict[str, tuple[str, ...]] = {
            INT: ("0", "1", "2", "-1"), LONG: ("CAST(1 AS BIGINT)", "CAST(-2 AS BIGINT)"),
            BIG: ("9007199254740993", "CAST(1 AS BIGINT)"), WIDE: ("CAST(2 AS NUMERIC)",),
            NUM: ("CAST(1.25 AS NUMERIC(38,10))", "CAST(0 AS NUMERIC(38,10))"),
            DBL: ("CAST(1.5 AS DOUBLE PRECISION)", "CAST('NaN' AS DOUBLE PRECISION)", "CAST(0 AS DOUBLE PRECISION)"),
            STR: ("'a'", "'b'", "''"), BOOL: ("TRUE", "FALSE"),
            TS: ("TIMESTAMP '2024-01-01 10:05:00'", "TIMESTAMP '2024-01-01 11:00:00'"),
        }  # fmt: skip
        return self.r.choice(choices[kind])

    def predicate(self, cols: Sequence[Col], depth: int = 1) -> str:
        if depth > 0 and self.chance(0.3):
            a, b = self.predicate(cols, depth - 1), self.predicate(cols, depth - 1)
            return self.r.choice((f"({a} AND {b})", f"({a} OR {b})", f"(NOT {a})"))
        col = self.pick(cols, ORDERED if self.chance(0.85) else (BOOL,)) or self.pick(cols, SIMPLE)
        if col is None:
            return "TRUE"
        if col.kind == BOOL:
            return self.r.choice((col.text, f"{col.text} IS NOT TRUE", f"{col.text} IS FALSE"))
        left = self.expr(cols, col.kind, depth)
        right = self.expr(cols, col.kind, 0) if self.chance(0.3) else self.constant(col.kind)
        symbol = self.r.choice(("=", "<>", "<", "<=", ">", ">="))
        forms = [
            f"{left} {symbol} {right}",
            f"{left} {symbol} {right}",
            f"{col.text} IS NULL",
            f"{col.text} IS NOT NULL",
            f"{left} IS DISTINCT FROM {right}",
            f"{left} IS NOT DISTINCT FROM {right}",
            f"{left} IN ({self.constant(col.kind)}, {self.constant(col.kind)})",
            f"{left} BETWEEN {self.constant(col.kind)} AND {self.constant(col.kind)}",
        ]
        if col.kind == STR:
            forms.append(f"{left} LIKE 'a%'")
        return self.r.choice(forms)

    def pair(self, a: Sequence[Col], b: Sequence[Col]) -> tuple[str, str] | None:
        """A column of each that can be compared."""
        kinds = [{INT: "n", LONG: "n"}.get(c.kind, c.kind) for c in a if c.kind in SIMPLE]
        found = [
            (x.text, y.text)
            for x in a
            for y in b
            if x.kind in SIMPLE and {INT: "n", LONG: "n"}.get(y.kind, y.kind) in kinds
            and {INT: "n", LONG: "n"}.get(x.kind, x.kind) == {INT: "n", LONG: "n"}.get(y.kind, y.kind)
        ]  # fmt: skip
        keys = [p for p in found if p[0].endswith(".k") and p[1].endswith(".k")]
        if keys and self.chance(0.5):
            return self.r.choice(keys)
        return self.r.choice(found) if found else None

    def condition(self, a: Sequence[Col], b: Sequence[Col], *, equal: bool = True) -> str:
        """A join's condition: mostly an equality, perhaps with more."""
        pair = self.pair(a, b)
        if pair is None:
            return "TRUE" if not equal else "1 = 1"
        symbol = "=" if equal else self.r.choice(("<", ">=", "<>", "IS NOT DISTINCT FROM"))
        parts = [f"{pair[0]} {symbol} {pair[1]}"]
        if self.chance(0.3):
            further = self.pair(a, b)
            if further:
                parts.append(f"{further[0]} {self.r.choice(('=', '<=', '>', '<>'))} {further[1]}")
        elif self.chance(0.2):
            parts.append(self.predicate([*a, *b], 0))
        return " AND ".join(parts)

    # -- FROM -------------------------------------------------------------------------------------

    def source(self, depth: int) -> From:
        """What a SELECT reads: mostly one relation, else a join."""
        if self.chance(0.7):
            return self.item(depth)
        return self.joined(depth, self.r.choice(("JOIN", "LEFT JOIN", "FULL JOIN")))

    def joined(self, depth: int, kind: str, *, equal: bool = True) -> From:
        left, right = self.item(depth), self.item(0)
        if self.chance(0.5):
            left, right = right, left
        if kind == "CROSS JOIN":
            return From(f"{left.text} CROSS JOIN {right.text}", [*left.cols, *right.cols])
        condition = self.condition(left.cols, right.cols, equal=equal)
        if kind == "FULL JOIN":  # PostgreSQL wants an equality there
            pair = self.pair(left.cols, right.cols)
            condition = f"{pair[0]} = {pair[1]}" if pair else "1 = 1"
        return From(f"{left.text} {kind} {right.text} ON {condition}", [*left.cols, *right.cols])

    # -- forms ------------------------------------------------------------------------------------

    def projected(self, source: From, clauses: str, least: int = 2, most: int = 4) -> Rel:
        picked = self.some(source.cols, (*SIMPLE, MEAN, LIST), least, most)
        items = [(self.expr(source.cols, c.kind, 1) if c.kind in TYPES else c.text, c.kind) for c in picked]  # fmt: skip
        shown, columns = self.outputs(items)
        return Rel(f"SELECT {shown} FROM {source.text}{clauses}", columns)

    def plain(self, depth: int) -> Rel:
        source = self.source(depth)
        return self.projected(source, self.where(source.cols, 0.8))

    def aggregate(self, cols: Sequence[Col]) -> tuple[str, str]:
        """An aggregate call and its kind."""
        made = self.bare_aggregate(cols)
        if self.chance(0.25):
            return f"{made[0]} FILTER (WHERE {self.predicate(cols, 0)})", made[1]
        return made

    def bare_aggregate(self, cols: Sequence[Col]) -> tuple[str, str]:
        name = self.r.choice(("count", "countx", "distinct", "sum", "sum", "sumd", "avg", "min", "max", "bool", "string", "list"))  # fmt: skip
        sums = {INT: LONG, LONG: WIDE, BIG: WIDE, NUM: NUM, DBL: DBL}
        kinds = {
            "sum": tuple(sums), "sumd": tuple(sums), "avg": (INT, NUM, DBL), "min": ORDERED, "max": ORDERED,
            "countx": SIMPLE, "distinct": SIMPLE, "bool": (BOOL,), "string": (STR,), "list": (INT,), "count": (),
        }[name]  # fmt: skip
        col = self.pick(cols, kinds)
        if col is None:
            return "count(*)", LONG
        inner = self.expr(cols, col.kind, 1) if name in ("sum", "min", "max") else col.text
        match name:
            case "countx":
                return f"count({inner})", LONG
            case "distinct":
                return f"count(DISTINCT {inner})", LONG
            case "sum":
                return f"sum({inner})", sums[col.kind]
            case "sumd":
                return f"sum(DISTINCT {inner})", sums[col.kind]
            case "avg":
                return f"avg({inner})", MEAN
            case "min" | "max":
                return f"{name}({inner})", col.kind
            case "bool":
                return f"{self.r.choice(('bool_and', 'bool_or'))}({inner})", BOOL
            case "string":
                word = self.r.choice(("", "DISTINCT "))
                return f"string_agg({word}{inner}, ',' ORDER BY {inner})", STR
        return f"array_agg({inner} ORDER BY {inner} DESC NULLS LAST)", LIST

    def grouped(self, depth: int) -> Rel:
        source = self.source(depth)
        groups = self.some(source.cols, SIMPLE, 0, 2)
        keys = [(self.expr(source.cols, c.kind, 1) if self.chance(0.4) else c.text, c.kind) for c in groups]  # fmt: skip
        calls = [self.aggregate(source.cols) for _ in range(self.r.randint(1, 3))]
        shown, columns = self.outputs([*keys, *calls])
        tail = f" GROUP BY {', '.join(str(i + 1) for i in range(len(keys)))}" if keys else ""
        if self.chance(0.3):
            test, kind = self.bare_aggregate(source.cols)
            bound = self.constant(kind) if kind in SIMPLE else None
            tail += f" HAVING {test} {self.r.choice(('>', '<>', '<='))} {bound}" if bound else " HAVING count(*) > 1"  # fmt: skip
        return Rel(
            f"SELECT {shown} FROM {source.text}{self.where(source.cols, 0.4)}{tail}", columns
        )

    def grouping_sets(self, depth: int) -> Rel:
        source = self.item(depth)
        groups = self.some(source.cols, SIMPLE, 1, 2)
        if not groups:
            return self.grouped(depth)
        keys = [c.text for c in groups]
        word = self.r.choice(("ROLLUP ({0})", "CUBE ({0})", "GROUPING SETS (({0}), ({1}), ())"))
        calls = [self.aggregate(source.cols) for _ in range(self.r.randint(1, 2))]
        shown, columns = self.outputs([*((c.text, c.kind) for c in groups), *calls])
        tail = f" GROUP BY {word.format(', '.join(keys), keys[-1])}"
        return Rel(
            f"SELECT {shown} FROM {source.text}{self.where(source.cols, 0.3)}{tail}", columns
        )

    def join(self, depth: int, kind: str, equal: bool = True) -> Rel:
        source = self.joined(depth, kind, equal=equal)
        return self.projected(source, self.where(source.cols, 0.3))

    def three_way(self, depth: int) -> Rel:
        source, third = self.joined(depth, self.r.choice(("JOIN", "LEFT JOIN"))), self.item(0)
        word = self.r.choice(("JOIN", "LEFT JOIN", "RIGHT JOIN"))
        condition = self.condition(source.cols, third.cols)
        whole = From(f"{source.text} {word} {third.text} ON {condition}", [*source.cols, *third.cols])  # fmt: skip
        return self.projected(whole, self.where(whole.cols, 0.3), 2, 5)

    def self_join(self, depth: int) -> Rel:
        table = self.r.choice(self.schema.tables)
        sides = []
        for alias in (self.alias(), self.alias()):
            cols = [Col(f"{alias}.{c.name}", c.kind) for c in table.columns]
            sides.append(From(f"{table.name} AS {alias}", cols))
        a, b = sides
        word = self.r.choice(("JOIN", "LEFT JOIN"))
        condition = self.condition(a.cols, b.cols, equal=self.chance(0.7))
        source = From(f"{a.text} {word} {b.text} ON {condition}", [*a.cols, *b.cols])
        return self.projected(source, self.where(source.cols, 0.3))

    def membership(self, depth: int, negated: bool, exists: bool, loose: bool = False) -> Rel:
        """IN, EXISTS and their negations; `loose`: as a value inside an OR."""
        outer, inner = self.item(depth), self.item(0)
        pair = self.pair(outer.cols, inner.cols)
        left, right = pair or ("1", "1")
        if exists:
            extra = f" AND {self.predicate([*inner.cols, *outer.cols], 0)}" if self.chance(0.4) else ""  # fmt: skip
            symbol = "=" if self.chance(0.7) else self.r.choice(("<", ">="))
            test = f"EXISTS (SELECT 1 FROM {inner.text} WHERE {right} {symbol} {left}{extra})"
            test = f"NOT {test}" if negated else test
        else:
            word = "NOT IN" if negated else "IN"
            test = f"{left} {word} (SELECT {right} FROM {inner.text}{self.where(inner.cols, 0.5)})"
        if loose:
            test = f"({test} OR {self.predicate(outer.cols, 0)})"
        elif self.chance(0.3):
            test += f" AND {self.predicate(outer.cols, 0)}"
        return self.projected(outer, f" WHERE {test}")

    def scalar(self, depth: int) -> Rel:
        """A subquery as a value, correlated or not."""
        outer, inner = self.item(depth), self.item(0)
        call, kind = self.bare_aggregate(inner.cols)
        clause = self.where(inner.cols, 0.4)
        pair = self.pair(outer.cols, inner.cols)
        if pair and self.chance(0.7):
            symbol = "=" if self.chance(0.75) else "<"
            clause = f" WHERE {pair[1]} {symbol} {pair[0]}"
        value = f"(SELECT {call} FROM {inner.text}{clause})"
        picked = [(c.text, c.kind) for c in self.some(outer.cols, SIMPLE, 1, 3)]
        col = self.pick(outer.cols, (kind,)) if kind in SIMPLE else None
        if col is not None and self.chance(0.4):
            shown, columns = self.outputs(picked)
            symbol = self.r.choice(("=", "<", ">=", "<>"))
            text = f"SELECT {shown} FROM {outer.text} WHERE {col.text} {symbol} {value}"
            return Rel(text, columns)
        shown, columns = self.outputs([*picked, (value, kind)])
        return Rel(f"SELECT {shown} FROM {outer.text}{self.where(outer.cols, 0.3)}", columns)

    def branch(self, depth: int, kinds: Sequence[str]) -> str:
        source = self.item(depth)
        shown, _ = self.outputs([(self.expr(source.cols, k, 1), k) for k in kinds])
        return f"SELECT {shown} FROM {source.text}{self.where(source.cols, 0.5)}"

    def set_operation(self, depth: int, word: str) -> Rel:
        kinds = self.r.sample([INT, STR, NUM, DBL, TS, BOOL, INT], self.r.randint(1, 2))
        columns = tuple(Column(f"c{i}", k) for i, k in enumerate(kinds))
        parts = [self.branch(depth, kinds), self.branch(0, kinds)]
        text = f"{parts[0]} {word} {parts[1]}"
        if word == "UNION ALL" and self.chance(0.3):
            values = ", ".join(f"({', '.join(self.constant(k) for k in kinds)})" for _ in range(2))
            alias = self.alias()
            names = ", ".join(f"v{i}" for i in range(len(kinds)))
            shown = ", ".join(f"{alias}.v{i}" for i in range(len(kinds)))
            text += f" UNION ALL SELECT {shown} FROM (VALUES {values}) AS {alias} ({names})"
        elif self.chance(0.3):
            text = f"({text}) {self.r.choice(('UNION ALL', 'UNION', 'EXCEPT', 'INTERSECT ALL'))} {self.branch(0, kinds)}"  # fmt: skip
        return Rel(text, columns)

    def distinct(self, depth: int) -> Rel:
        source = self.source(depth)
        shown, columns = self.outputs((self.expr(source.cols, c.kind, 1) if c.kind in TYPES else c.text, c.kind) for c in self.some(source.cols, SIMPLE, 1, 3))  # fmt: skip
        if not columns:
            shown, columns = self.outputs([("1", INT)])
        return Rel(f"SELECT DISTINCT {shown} FROM {source.text}{self.where(source.cols)}", columns)

    def total(self, cols: Sequence[Col]) -> str:
        """An order in which only equal rows are equal."""
        words = ("ASC NULLS LAST", "DESC NULLS LAST", "DESC NULLS FIRST", "ASC NULLS FIRST")
        return ", ".join(f"{c.text} {self.r.choice(words)}" for c in cols)

    def simple(self, depth: int) -> From:
        """A relation of simple columns only, so that it can be ordered by all of them."""
        inner = self.item(depth)
        picked = self.some(inner.cols, SIMPLE, 2, 4)
        shown, columns = self.outputs([(c.text, c.kind) for c in picked] or [("1", INT)])
        return self.named(Rel(f"SELECT {shown} FROM {inner.text}{self.where(inner.cols, 0.3)}", columns), self.alias())  # fmt: skip

    def distinct_on(self, depth: int) -> Rel:
        source = self.simple(depth)
        cols = source.cols[:]
        self.r.shuffle(cols)
        shown, columns = self.outputs((c.text, c.kind) for c in cols)
        order = self.total(cols)
        text = f"SELECT DISTINCT ON ({cols[0].text}) {shown} FROM {source.text} ORDER BY {order}"
        return Rel(text, columns)

    def limited(self, depth: int) -> Rel:
        source = self.simple(depth)
        cols = source.cols[:]
        self.r.shuffle(cols)
        shown, columns = self.outputs((c.text, c.kind) for c in cols)
        offset = f" OFFSET {self.r.randint(1, 2)}" if self.chance(0.3) else ""
        tail = f" ORDER BY {self.total(cols)} LIMIT {self.r.randint(1, 5)}{offset}"
        return Rel(f"SELECT {shown} FROM {source.text}{tail}", columns)

    def top(self, depth: int) -> Rel:
        source = self.simple(depth)
        cols = source.cols[:]
        self.r.shuffle(cols)
        name = self.r.choice(("row_number", "row_number", "rank"))
        order = self.total(cols[1:] if len(cols) > 1 else cols)
        if name == "rank":
            order = self.total(cols[-1:])
        over = f"{name}() OVER (PARTITION BY {cols[0].text} ORDER BY {order})"
        if self.chance(0.2):
            over = f"{name}() OVER (ORDER BY {self.total(cols)})"
        shown, columns = self.outputs([*((c.text, c.kind) for c in cols), (over, LONG)])
        alias = self.alias()
        inner = self.named(Rel(f"SELECT {shown} FROM {source.text}", columns), alias)
        kept = inner.cols if self.chance(0.5) else inner.cols[:-1]
        shown, columns = self.outputs((c.text, c.kind) for c in kept)
        text = f"SELECT {shown} FROM {inner.text} WHERE {inner.cols[-1].text} <= {self.r.randint(1, 3)}"  # fmt: skip
        return Rel(text, columns)

    def windowed(self, depth: int) -> Rel:
        source = self.simple(depth)
        cols = source.cols[:]
        self.r.shuffle(cols)
        calls: list[tuple[str, str]] = []
        for _ in range(self.r.randint(1, 2)):
            part = f"PARTITION BY {cols[0].text} " if self.chance(0.8) else ""
            total, loose = f"ORDER BY {self.total(cols)}", f"ORDER BY {self.total(cols[-1:])}"
            col = self.r.choice(cols)
            number = self.pick(cols, (INT, NUM, DBL))
            kind = {INT: LONG}.get(number.kind, number.kind) if number else LONG
            add = f"sum({number.text})" if number else "count(*)"
            running = "ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW"
            near = "ROWS BETWEEN 1 PRECEDING AND 1 FOLLOWING"
            # Which of two equal rows is the first is open: one call that tells them apart can be compared, two cannot.
            by_place = [
                (f"row_number() OVER ({part}{total})", LONG),
                (f"lag({col.text}) OVER ({part}{total})", col.kind),
                (f"lead({col.text}, 2) OVER ({part}{total})", col.kind),
            ]
            if number is None or number.kind != DBL:  # a sliding frame may take floats back
                by_place += [
                    (f"{add} OVER ({part}{total} {running})", kind),
                    (f"{add} OVER ({part}{total} {near})", kind),
                ]
            options = [] if calls else by_place
            options += [
                (f"rank() OVER ({part}{loose})", LONG),
                (f"dense_rank() OVER ({part}{loose})", LONG),
                (f"first_value({col.text}) OVER ({part}{total})", col.kind),
                (f"count(*) OVER ({part.strip()})", LONG),
                (f"{add} OVER ({part}{loose})", kind),
            ]
            if col.kind in ORDERED:
                options.append((f"max({col.text}) OVER ({part.strip()})", col.kind))
            calls.append(self.r.choice(options))
        shown, columns = self.outputs([*((c.text, c.kind) for c in cols), *calls])
        return Rel(f"SELECT {shown} FROM {source.text}", columns)

    def common(self, depth: int) -> Rel:
        """WITH, its query read twice."""
        name = f"w{self.alias()}"
        inner = self.query(max(0, depth - 1))
        a, b = self.alias(), self.alias()
        sides = [[Col(f"{x}.{c.name}", c.kind) for c in inner.columns] for x in (a, b)]
        word = self.r.choice(("JOIN", "LEFT JOIN"))
        pair = self.pair(*sides)
        condition = f"{pair[0]} = {pair[1]}" if pair else "1 = 1"
        source = From(f"{name} AS {a} {word} {name} AS {b} ON {condition}", [*sides[0], *sides[1]])
        if not any(c.kind in SIMPLE for c in source.cols):
            return self.plain(0)
        made = self.projected(source, "")
        return Rel(f"WITH {name} AS ({inner.text}) {made.text}", made.columns)

    def unnested(self, depth: int) -> Rel:
        item, alias = self.item(depth, INT), self.alias()
        cols = [*item.cols, Col(f"{alias}.v", INT)]
        array = f"ARRAY[{self.expr(item.cols, INT, 1)}, {self.expr(item.cols, INT, 0)}, 1]"
        call = f"unnest({array})" if self.chance(0.7) else "generate_series(1, 3)"
        source = From(f"{item.text} CROSS JOIN {call} AS {alias}(v)", cols)
        picked = [(f"{alias}.v", INT), *((c.text, c.kind) for c in self.some(item.cols, SIMPLE, 1, 2))]  # fmt: skip
        if self.chance(0.4):
            shown, columns = self.outputs([picked[0], self.aggregate(item.cols)])
            return Rel(f"SELECT {shown} FROM {source.text} GROUP BY {alias}.v", columns)
        shown, columns = self.outputs(picked)
        return Rel(f"SELECT {shown} FROM {source.text}{self.where(cols, 0.3)}", columns)

    def tumbled(self, table: Table, time: Column) -> str:
        start = f"time_bucket(INTERVAL '5 minutes', {time.name}, TIMESTAMP '2000-01-01')"
        bounds = f"{start} AS window_start, {start} + INTERVAL '5 minutes' AS window_end"
        return either(
            f"tumble({table.name}, {time.name}, INTERVAL '5 minutes')",
            f"(SELECT *, {bounds} FROM {table.name})",
        )

    def hopped(self, table: Table, time: Column) -> str:
        last = f"time_bucket(INTERVAL '30 minutes', {time.name}, TIMESTAMP '2000-01-01')"
        starts = f"SELECT *, unnest([{last}, {last} - INTERVAL '30 minutes']) AS window_start FROM {table.name} WHERE {time.name} IS NOT NULL"
        return either(
            f"hop({table.name}, {time.name}, INTERVAL '30 minutes', INTERVAL '1 hour')",
            f"(SELECT *, window_start + INTERVAL '1 hour' AS window_end FROM ({starts}))",
        )

    def time_window(self, depth: int) -> Rel:
        """TUMBLE or HOP over a table, grouped or not."""
        found = [(x, c) for x in self.schema.tables for c in x.columns if c.kind == TS]
        if not found:
            return self.plain(depth)
        table, time = self.r.choice(found)
        alias = self.alias()
        call = self.tumbled(table, time) if self.chance(0.5) else self.hopped(table, time)
        cols = [Col(f"{alias}.{c.name}", c.kind) for c in table.columns]
        bounds = [(f"{alias}.window_start", TS), (f"{alias}.window_end", TS)]
        if self.chance(0.7):
            keys = [bounds[0], *((c.text, c.kind) for c in self.some(cols, SIMPLE, 0, 1))]
            shown, columns = self.outputs([*keys, self.aggregate(cols)])
            tail = f" GROUP BY {', '.join(k for k, _ in keys)}"
        else:
            shown, columns = self.outputs([*bounds, *((c.text, c.kind) for c in self.some(cols, SIMPLE, 1, 2))])  # fmt: skip
            tail = ""
        return Rel(f"SELECT {shown} FROM {call} AS {alias}{self.where(cols, 0.3)}{tail}", columns)


FORMS: dict[str, Callable[[Writer, int], Rel]] = {
    "plain": Writer.plain,
    "group": Writer.grouped,
    "group 2": Writer.grouped,
    "group 3": Writer.grouped,
    "grouping sets": Writer.grouping_sets,
    "inner join": lambda w, d: w.join(d, "JOIN"),
    "left join": lambda w, d: w.join(d, "LEFT JOIN"),
    "right join": lambda w, d: w.join(d, "RIGHT JOIN"),
    "full join": lambda w, d: w.join(d, "FULL JOIN"),
    "cross join": lambda w, d: w.join(d, "CROSS JOIN"),
    "non-equi join": lambda w, d: w.join(d, w.r.choice(("JOIN", "LEFT JOIN")), False),
    "three-way join": Writer.three_way,
    "self join": Writer.self_join,
    "in": lambda w, d: w.membership(d, False, False),
    "not in": lambda w, d: w.membership(d, True, False),
    "exists": lambda w, d: w.membership(d, False, True),
    "not exists": lambda w, d: w.membership(d, True, True),
    "in as a value": lambda w, d: w.membership(d, w.chance(0.5), w.chance(0.5), True),
    "scalar subquery": Writer.scalar,
    "union all": lambda w, d: w.set_operation(d, "UNION ALL"),
    "union": lambda w, d: w.set_operation(d, "UNION"),
    "intersect": lambda w, d: w.set_operation(d, w.r.choice(("INTERSECT", "INTERSECT ALL"))),
    "except": lambda w, d: w.set_operation(d, w.r.choice(("EXCEPT", "EXCEPT ALL"))),
    "distinct": Writer.distinct,
    "distinct on": Writer.distinct_on,
    "limit": Writer.limited,
    "top-n": Writer.top,
    "window": Writer.windowed,
    "window 2": Writer.windowed,
    "with": Writer.common,
    "unnest": Writer.unnested,
    "time window": Writer.time_window,
    **FURTHER,
}
OPEN: dict[str, Callable[[Writer, int], Rel]] = {"ties": ties}
"""Forms that stand at the top of a query alone, because a column of theirs is a choice among ties."""
