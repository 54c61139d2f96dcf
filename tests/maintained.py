"""The delta rules on DuckDB: stored tables as bags of rows, and views that are maintained by their stages."""

from __future__ import annotations

import random
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import duckdb
import pyarrow as pa

from icestream.functions.expressions import ColumnRef
from icestream.plan.derivation import Face, face
from icestream.plan.linear import relations_read
from icestream.plan.logical import Filter, Item, Lookup, Node, OutColumn, Scan, walk
from icestream.plan.maintain import STILL, WEIGHT, State, Times, weighted
from icestream.plan.split import closed, stages
from icestream.plan.stages import Facts, Stage
from icestream.plan.watermarks import Closing, is_final
from icestream.types import arrow_type
from tests.duck import bag, connect, duck_type, quoted, render_duckdb
from tests.explained import ExplainedStage

Row = tuple[Any, ...]
FACES: tuple[Face, ...] = ("old", "new", "delta")


class Lake:
    """DuckDB tables for the faces of relations: content before and after the epoch, and what changed.

    Every content is a table of its own, so that a relation which does not change costs nothing.
    With a seed, every stage reads its inputs in another order: nothing may depend on that.
    """

    def __init__(self, seed: int | None = None) -> None:
        self.database = connect()
        self.seed = seed
        self.columns: dict[str, tuple[OutColumn, ...]] = {}
        self.tables: dict[str, str] = {}  # face → table
        self.rows: dict[str, int] = {}  # table → rows
        self.made = 0

    def create(self, relation: str, columns: Sequence[OutColumn]) -> None:
        self.columns[relation] = tuple(columns)
        listed = weighted(columns)
        nothing = ", ".join(
            f"CAST(NULL AS {duck_type(c.type)}) AS {quoted(c.name)}" for c in listed
        )
        empty = self.keep(f"SELECT {nothing} WHERE FALSE", 0)
        for which in FACES:
            self.tables[face(relation, which)] = empty

    def run(self, sql: str) -> duckdb.DuckDBPyConnection:
        return self.database.execute(sql)

    def keep(self, query: str, rows: int | None = None) -> str:
        """A table of what a query gives."""
        self.made += 1
        name = f"kept{self.made}"
        counted = self.run(f"CREATE TABLE {name} AS {query}").fetchone()
        self.rows[name] = int(counted[0]) if rows is None and counted else rows or 0
        return name

    def shuffled(self, table: str, salt: str) -> str:
        """The rows of a table expression in another order, the same for the same salt."""
        if self.seed is None or self.rows.get(table, 2) < 2:
            return table
        self.run(f"SELECT setseed({random.Random(f'{self.seed} {salt}').random()})").fetchall()
        return self.keep(f"SELECT * FROM {table} ORDER BY random()")

    def table(self, relation: str, which: Face = "new") -> str:
        return self.tables[face(relation, which)]

    def name(self, relation: str, columns: Sequence[str]) -> None:
        """A view of DuckDB over a relation's content, so that texts can read it by its name."""
        listed = ", ".join(map(quoted, columns))
        self.run(f"CREATE OR REPLACE VIEW {quoted(relation)} AS SELECT {listed} FROM {self.table(relation)}")  # fmt: skip

    def count(self, relation: str, which: Face = "new") -> int:
        return self.rows[self.table(relation, which)]

    def state(self, relation: str) -> State:
        return State(bool(self.count(relation, "delta")), not self.count(relation, "old"))

    def feed(self, relation: str, changes: Sequence[tuple[Row, int]]) -> None:
        """The next epoch of a table, told as rows and weights."""
        if not changes and not self.count(relation, "delta"):
            return
        columns = weighted(self.columns[relation])
        arrays = [
            pa.array([(*row, weight)[i] for row, weight in changes], arrow_type(c.type))
            for i, c in enumerate(columns)
        ]
        fed = pa.table(arrays, names=[c.name for c in columns])  # noqa: F841 (found by its name)
        self.database.execute("CREATE OR REPLACE TABLE came AS FROM fed")
        self.advance(relation, "SELECT * FROM came")

    def advance(self, relation: str, delta: str) -> None:
        """The next epoch of a relation: `delta` is a query of its columns and the weight, which is netted here."""
        names, weight = ", ".join(quoted(c.name) for c in self.columns[relation]), quoted(WEIGHT)
        old = self.tables[face(relation, "old")] = self.table(relation)
        netted = (
            f"SELECT {names}, sum({weight}) AS _sum FROM ({delta}) GROUP BY ALL HAVING _sum <> 0"
        )
        copies = f"SELECT {names}, CAST(sign(_sum) AS INTEGER) AS {weight}, unnest(range(CAST(abs(_sum) AS BIGINT))) AS _nth FROM ({netted})"
        changed = self.keep(f"SELECT * EXCLUDE (_nth) FROM ({copies})")
        self.tables[face(relation, "delta")] = changed
        if not self.rows[changed]:
            return
        both = f"SELECT {names}, 1 AS {weight} FROM {old} UNION ALL FROM {changed}"
        summed = self.keep(
            f"SELECT {names}, sum({weight}) AS _sum FROM ({both}) GROUP BY ALL HAVING _sum <> 0"
        )
        every = f"SELECT {names}, NULL AS {weight}, unnest(range(CAST(_sum AS BIGINT))) AS _nth FROM {summed}"
        self.tables[face(relation, "new")] = self.keep(f"SELECT * EXCLUDE (_nth) FROM ({every})")
        expected = self.rows[old] + self.total(changed)
        if self.count(relation) != expected:
            taken = self.run(f"SELECT * FROM {summed} WHERE _sum < 0").fetchall()
            raise AssertionError(f"{relation} takes back what is not there: {taken}")

    def total(self, changed: str) -> int:
        (found,) = self.run(f"SELECT sum({quoted(WEIGHT)}) FROM {changed}").fetchone() or (0,)
        return int(found)


@dataclass
class View:
    """A view that is maintained by its stages. With `closing`, it shows its rows once they are final."""

    lake: Lake
    node: Node
    facts: Facts
    name: str
    closing: Closing | None = None
    fresh: bool = True
    now: int | None = None
    times: Times = STILL
    epoch: int = 0
    stages: tuple[Stage, ...] = field(init=False)
    explained: dict[int, ExplainedStage] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.closing is None:
            self.stages = stages(self.node, self.name, self.facts)
        else:
            self.stages = closed(self.node, self.name, self.facts, self.closing)
        for stage in self.stages:
            self.lake.create(stage.relation, stage.columns)
            missing = set(stage.identity or ()) - {c.name for c in stage.columns}
            assert not missing, f"{stage.relation} has no column {missing}"
        self.lake.tables[face(self.name, "old")] = self.lake.table(self.name)

    def advance(self, now: int | None = None, mark: int | None = None) -> None:
        """One epoch, after those of the tables: what the clock says by now, and how far the watermark is."""
        self.times = Times(self.now, self.times.mark, mark, self.times.mark)
        self.now = now
        self.epoch += 1
        for stage in self.stages:
            self.step(stage)
        self.fresh = False

    def step(self, stage: Stage) -> None:
        lake = self.lake
        states = {r: self.state(r) for r in stage.reads}
        states[stage.relation] = State(False, not lake.count(stage.relation))
        derived = stage.derive_changes(states, first=self.fresh, times=self.times)
        if id(stage) not in self.explained:
            self.explained[id(stage)] = ExplainedStage(stage)
        self.explained[id(stage)].check(derived, states)
        plan = derived.plan
        delta = f"SELECT * FROM {lake.table(stage.relation, 'delta')} WHERE FALSE"
        if plan is not None:
            assert [c.name for c in plan.columns] == [*(c.name for c in stage.columns), WEIGHT]
            changes = lake.keep(self.rendered(plan, self.inputs(stage, plan)))
            if stage.appends and lake.rows[changes]:  # what only grows is appended as it is
                assert lake.total(changes) == lake.rows[changes], "a growing stage takes rows back"
            delta = self.replaced(stage, changes) if stage.netted else f"SELECT * FROM {changes}"
        lake.advance(stage.relation, delta)
        self.check(stage)

    def inputs(self, stage: Stage, plan: Node) -> dict[str, str]:
        """The faces that the plan of a stage's changes may read; what came before a view was made is its first delta."""
        found = dict(self.lake.tables)
        found[face(stage.relation, "old")] = self.lake.table(stage.relation)
        for relation, known in self.facts.items():
            if self.fresh:
                names = ", ".join(quoted(c.name) for c in self.lake.columns[relation])
                everything = (
                    f"SELECT {names}, 1 AS {quoted(WEIGHT)} FROM {self.lake.table(relation)}"
                )
                found[face(relation, "delta")] = f"({everything})"
                del found[face(relation, "old")]
            if not known.stored:
                for which in ("old", "new"):
                    found.pop(face(relation, which), None)
        for name in {n.relation for n in walk(plan) if isinstance(n, Scan | Lookup)} & set(found):
            salt = f"{self.epoch} {stage.relation} {name}"
            found[name] = self.lake.shuffled(found[name], salt)
        return found

    def rendered(self, plan: Node, inputs: dict[str, str]) -> str:
        """The text of a plan at the moment of the epoch."""
        now = None if self.now is None else f"make_timestamptz({self.now})"
        return render_duckdb(plan, inputs, now)

    def state(self, relation: str) -> State:
        """At its first epoch, everything that is there has come."""
        if self.fresh and relation in self.facts:
            return State(bool(self.lake.count(relation)), True)
        return self.lake.state(relation)

    def replaced(self, stage: Stage, changes: str) -> str:
        """Rows of weight 1 take the place of those with the same key, rows of weight -1 remove them."""
        key, columns = stage.key, ", ".join(quoted(c.name) for c in stage.columns)
        assert key is not None
        listed = ", ".join(quoted(k) for k in key)
        if key:
            twice = f"SELECT {listed} FROM {changes} GROUP BY {listed} HAVING count(*) > 1"
            assert not self.lake.run(twice).fetchall(), "a key is changed twice"
        test = " AND ".join(f"s.{quoted(k)} IS NOT DISTINCT FROM c.{quoted(k)}" for k in key)
        stored = f"{self.lake.table(stage.relation)} AS s"
        old = f"SELECT {columns} FROM {stored} SEMI JOIN {changes} AS c ON {test or 'TRUE'}"
        weight = quoted(WEIGHT)
        return (
            f"SELECT {columns}, -1 AS {weight} FROM ({old}) "
            f"UNION ALL SELECT {columns}, 1 FROM {changes} WHERE {weight} = 1"
        )

    def check(self, stage: Stage) -> None:
        """What the stage says of itself is true: its key is one, and it only grows if it says so."""
        lake, key = self.lake, stage.key
        if not lake.count(stage.relation, "delta"):
            return
        if key is not None:
            listed = ", ".join(quoted(k) for k in key) or "TRUE"
            twice = f"SELECT {listed} FROM {lake.table(stage.relation)} GROUP BY {listed} HAVING count(*) > 1"
            assert not lake.run(twice).fetchall(), f"{key} is no key of {stage.relation}"
        elif stage.bag:
            listed = ", ".join(map(quoted, stage.bag))
            rows = f"SELECT DISTINCT * FROM {lake.table(stage.relation)}"
            twice = f"SELECT {listed} FROM ({rows}) GROUP BY {listed} HAVING count(*) > 1"
            assert not lake.run(twice).fetchall(), (
                f"{stage.bag} do not tell {stage.relation}'s rows apart"
            )
        if stage.appends:
            changed = lake.table(stage.relation, "delta")
            assert lake.total(changed) == lake.rows[changed], f"{stage.relation} does not only grow"

    def verify(self, text: str | None = None, settled: Sequence[str] | None = None) -> None:
        """The rows are those that the plan of its query gives as a batch, or those of them that are final.

        `text`: the query in DuckDB's words, so that a mistake in the plan is seen, too. `settled`: the columns that
        are compared, if others are a choice among ties.
        """
        wanted = [c.name for c in self.node.columns if settled is None or c.name in settled]
        listed = ", ".join(map(quoted, wanted))
        found = bag(self.lake.run(f"SELECT {listed} FROM {self.lake.table(self.name)}").fetchall())
        places = [self.node.names.index(name) for name in wanted]
        compared = [("the plan", self.batch())]
        if text is not None:
            with suppress(duckdb.InternalException):  # it happens to deeply nested texts
                compared.append(("DuckDB", self.final_rows(text)))
        for who, rows in compared:
            expected = bag(tuple(row[i] for i in places) for row in rows)
            if found != expected:
                raise AssertionError(
                    f"{who} gives something else: too many: {found - expected}, missing: {expected - found}"
                )

    def batch(self) -> list[Row]:
        """What the view should hold."""
        node, mark = self.node, self.times.mark
        if self.closing is not None:
            if mark is None:
                return []
            node = Filter(node, is_final(self.closing, node, mark))
        inputs = {r: self.lake.table(r) for r in relations_read(node)}
        return self.lake.run(self.rendered(node, inputs)).fetchall()

    def final_rows(self, text: str) -> list[Row]:
        """What a text of DuckDB gives, or what of it is final."""
        if self.closing is None:
            return self.lake.run(text).fetchall()
        if self.times.mark is None:
            return []
        items = tuple(Item(c.name, ColumnRef(c.type, c.name)) for c in self.node.columns)
        own = Scan("text", "text", items)
        listed = ", ".join(map(quoted, self.node.names))
        table = self.lake.keep(f"SELECT * FROM ({text}) AS given ({listed})")
        final = Filter(own, is_final(self.closing, own, self.times.mark))
        return self.lake.run(self.rendered(final, {"text": table})).fetchall()

    def name_in_duckdb(self) -> None:
        """See `Lake.name`."""
        self.lake.name(self.name, self.node.names)
