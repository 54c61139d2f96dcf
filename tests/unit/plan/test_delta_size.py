"""The plan of an epoch is bounded: views are cut into stages whose deltas are small, or refused when they are created."""

from __future__ import annotations

import random
import sqlite3
import time
from pathlib import Path

import pytest

from icestream import types as t
from icestream.catalog.catalog import Catalog
from icestream.catalog.objects import MaterializedView
from icestream.catalog.store import Store
from icestream.config import Home
from icestream.errors import SqlError
from icestream.plan import delta_size as sizes
from icestream.plan.complexity import MAX_NODES
from icestream.plan.cut import FIRST_LAYOUT, LAYOUT, MAX_DELTA, groups_size, size_of
from icestream.plan.delta_size import check_deltas, delta_size
from icestream.plan.group_stage import Groups
from icestream.plan.logical import Node, OutColumn
from icestream.plan.query import Relation
from icestream.plan.split import stages
from icestream.plan.stages import Known, Rows
from icestream.sql import parse
from tests.duck import bag
from tests.maintained import Lake, View
from tests.seeds import choose_length
from tests.unit.plan.tables import bind

SECONDS = 2.0
"""Of the processor, for the plan of a view and that of its changes."""
TABLES = tuple(f"t{i}" for i in range(8))
COLUMNS = (("v", t.INTEGER), ("a", t.INTEGER))
RELATIONS = {name: Relation(name, name, COLUMNS) for name in TABLES}
FACTS = {name: Known(grows=False) for name in TABLES}
KINDS = ("JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN")


def right_nested(first: int, tables: int, kind: str) -> str:
    """t0 JOIN (t1 JOIN (t2 …))"""
    if tables == 1:
        return f"t{first}"
    rest = right_nested(first + 1, tables - 1, kind)
    return f"(t{first} {kind} {rest} ON t{first}.v = t{first + 1}.v)"


def bushy(first: int, tables: int, kind: str) -> str:
    """((t0 JOIN t1) JOIN (t2 JOIN t3)) JOIN …"""
    if tables == 1:
        return f"t{first}"
    half = tables // 2
    left, right = bushy(first, half, kind), bushy(first + half, tables - half, kind)
    return f"({left} {kind} {right} ON t{first}.v = t{first + half}.v)"


def mixed(tables: int) -> str:
    """Joins of every kind on both sides of each other."""
    made = "t0"
    for i in range(1, tables):
        join = f"{KINDS[i % 4]} (t{i} AS x{i} LEFT JOIN t{(i + 3) % 8} AS y{i} ON x{i}.a = y{i}.v)"
        made = f"({made} {join} ON t0.v = x{i}.v)"
    return made


def self_joins(tables: int, kind: str) -> str:
    joins = " ".join(f"{kind} t0 AS s{i} ON s{i}.v = s{i - 1}.v" for i in range(1, tables))
    return f"t0 AS s0 {joins}"


def exists(word: str, depth: int, level: int = 0) -> str:
    """Each level looks at the one around and at the outermost."""
    if depth == 0:
        return "TRUE"
    own = f"x{level}"
    around = f"x{level - 1}" if level else "t0"
    inner = exists(word, depth - 1, level + 1)
    return f"{word} (SELECT 1 FROM t{level + 1} AS {own} WHERE {own}.v = {around}.v AND {own}.a >= t0.a AND {inner})"


def membership(word: str, depth: int, level: int = 0) -> str:
    if depth == 0:
        return "TRUE"
    own = f"x{level}"
    around = f"x{level - 1}" if level else "t0"
    inner = membership(word, depth - 1, level + 1)
    return f"{around}.v {word} (SELECT {own}.a FROM t{level + 1} AS {own} WHERE {own}.v = t0.v AND {inner})"


def scalars(depth: int, level: int = 0) -> str:
    if depth == 0:
        return "1"
    own = f"x{level}"
    return f"(SELECT max({own}.a) + {scalars(depth - 1, level + 1)} FROM t{level + 1} AS {own} WHERE {own}.v = t0.v)"


def select(source: str, first: str = "t0", last: str = "t1") -> str:
    return f"SELECT {first}.v AS c0, {last}.a AS c1 FROM {source}"


SHAPES: dict[str, str] = {
    **{f"right-nested {k} of {n}": select(right_nested(0, n, k), last=f"t{n - 1}") for k in KINDS for n in (4, 6, 8)},
    **{f"bushy {k} of {n}": select(bushy(0, n, k), last=f"t{n - 1}") for k in KINDS for n in (4, 8)},
    **{f"self {k} of {n}": select(self_joins(n, k), "s0", f"s{n - 1}") for k in ("JOIN", "LEFT JOIN") for n in (4, 8)},
    "joins of every kind": select(mixed(6), last="y3"),
    **{f"{w} in {n}": f"SELECT v AS c0 FROM t0 WHERE {exists(w, n)}" for w in ("EXISTS", "NOT EXISTS") for n in (2, 3, 4)},
    **{f"{w} in {n}": f"SELECT v AS c0 FROM t0 WHERE {membership(w, n)}" for w in ("IN", "NOT IN") for n in (2, 3, 4)},
    **{f"scalar in {n}": f"SELECT v AS c0, {scalars(n)} AS c1 FROM t0" for n in (2, 3, 4)},
    "EXISTS and NOT EXISTS": "SELECT v AS c0 FROM t0 WHERE EXISTS (SELECT 1 FROM t1 AS x WHERE x.v = t0.v AND EXISTS (SELECT 1 "
    "FROM t2 AS y WHERE y.v = x.v AND NOT EXISTS (SELECT 1 FROM t3 AS z WHERE z.v = y.v AND z.a < t0.a)))",
    "subqueries over joins": f"SELECT q.c0 FROM ({select(bushy(0, 4, 'LEFT JOIN'), last='t3')}) AS q WHERE EXISTS "
    "(SELECT 1 FROM t4 LEFT JOIN t5 ON t4.v = t5.v WHERE t4.v = q.c0) AND q.c1 NOT IN (SELECT v FROM t6 WHERE t6.a = q.c0)",
    **{
        f"{w} of joins": f"{select(right_nested(0, 4, 'LEFT JOIN'), last='t3')} {w} {select(bushy(0, 6, 'FULL JOIN'), last='t5')}"
        for w in ("UNION ALL", "UNION", "INTERSECT", "EXCEPT ALL")
    },
    "a union joined with itself": "WITH w AS (SELECT t0.v, t1.a FROM t0 LEFT JOIN t1 ON t0.v = t1.v UNION ALL SELECT t2.v, t3.a FROM t2 "
    "LEFT JOIN t3 ON t2.v = t3.v) SELECT x.v AS c0, z.a AS c1 FROM w AS x LEFT JOIN (w AS y LEFT JOIN w AS z ON y.v = z.v) ON x.v = y.v",
    "a window over joins": f"SELECT c0, c1, count(*) OVER (PARTITION BY c0) AS c2 FROM ({select(right_nested(0, 5, 'LEFT JOIN'), last='t4')}) AS q",
    "a top-N over joins": f"SELECT c0, c1 FROM (SELECT c0, c1, rank() OVER (PARTITION BY c0 ORDER BY c1) AS r FROM ({select(bushy(0, 6, 'FULL JOIN'), last='t4')}) AS q) AS p WHERE r < 3",
    "totals over joins": f"SELECT c0, max(c1) AS c1, count(DISTINCT c1) AS c2 FROM ({select(right_nested(0, 5, 'LEFT JOIN'), last='t4')}) AS q GROUP BY c0",
    "joins of totals": "SELECT x.v AS c0, z.n AS c1 FROM t0 AS x LEFT JOIN ((SELECT v, count(*) AS n FROM t1 GROUP BY v) AS y FULL JOIN "
    "(SELECT v, max(a) AS n FROM t2 GROUP BY v) AS z ON y.v = z.v) ON x.v = y.v",
    "300 left joins united": " UNION ALL ".join(
        f"SELECT t{i % 8}.v + {i} AS c0 FROM t{i % 8} LEFT JOIN t{(i + 1) % 8} ON t{i % 8}.v = t{(i + 1) % 8}.v" for i in range(300)
    ),
}  # fmt: skip


def planned(query: str, layout: int = LAYOUT) -> tuple[Node, list[int]]:
    """The plan of a query, and the nodes of its stages' deltas."""
    node = bind(query, RELATIONS)
    return node, [delta_size(s) for s in stages(node, "m", FACTS, layout)]


@pytest.mark.parametrize("name", SHAPES)
def test_deltas_are_small(name: str) -> None:
    started = time.process_time()
    _, found = planned(SHAPES[name])
    assert time.process_time() - started < SECONDS
    assert max(found) < 2 * MAX_DELTA < MAX_NODES, found


@pytest.mark.parametrize("name", SHAPES)
def test_estimates_are_true(name: str) -> None:
    """They are too large where keys cannot be pushed down."""
    for stage in stages(bind(SHAPES[name], RELATIONS), "m", FACTS):
        if isinstance(stage, Groups):
            below, keyed = size_of(stage.core.input), bool(stage.core.groups)
            least, most = (groups_size(below, keyed=keyed, again=x) for x in (False, True))
            assert least / 2 < delta_size(stage) < 2 * most, stage.relation
        if isinstance(stage, Rows) and delta_size(stage) > 20:
            assert 0.5 < size_of(stage.plan).delta / delta_size(stage) < 5, stage.relation


@pytest.mark.parametrize("name", [name for name in SHAPES if "300" not in name])
def test_large_views_hold_what_their_queries_give(name: str) -> None:
    r = random.Random(name)
    lake = Lake(seed=1)
    for table in TABLES:
        lake.create(table, [OutColumn(*column) for column in COLUMNS])
        lake.name(table, ("v", "a"))
    view = View(lake, bind(SHAPES[name], RELATIONS), FACTS, "m")
    for _ in range(choose_length(2, 5)):
        for table in TABLES:
            if r.random() < 0.7:
                held = lake.run(f"SELECT v, a FROM {lake.table(table)}").fetchall()
                gone = [row for row in held if r.random() < 0.4]
                came = [(r.choice((1, 2, 3, None)), r.choice((1, 2, None))) for _ in range(2)]
                kept = len(held) - len(gone)
                lake.feed(table, [(x, -1) for x in gone] + [(x, 1) for x in came[: 3 - kept]])
            else:
                lake.feed(table, [])
            lake.name(table, ("v", "a"))
        view.advance()
        view.verify(SHAPES[name])


def test_temporal_joins_in_parts_give_what_they_give_in_one() -> None:
    joins = " ".join(
        f"LEFT JOIN t{1 + i % 7} FOR SYSTEM_TIME AS OF PROCTIME() AS x{i} ON x{i}.v = t0.v"
        for i in range(1, 11)
    )
    node = bind(f"SELECT t0.v, x1.a AS a1, x7.a AS a7, x10.a AS a10 FROM t0 {joins}", RELATIONS)
    facts = FACTS | {"t0": Known()}
    lake = Lake(seed=1)
    for table in TABLES:
        lake.create(table, [OutColumn(*column) for column in COLUMNS])
    whole, parts = View(lake, node, facts, "whole"), View(lake, node, facts, "parts")
    whole.stages = stages(node, "whole", facts, FIRST_LAYOUT)
    assert delta_size(whole.stages[-1]) > MAX_NODES
    assert max(map(delta_size, parts.stages)) < MAX_DELTA
    r = random.Random(1)
    for epoch in range(4):
        for table in TABLES:
            lake.feed(table, [((r.choice((1, 2, 3)), epoch), 1)])
        whole.advance()
        parts.advance()
        held, expected = (
            bag(lake.run(f"SELECT v, a1, a7, a10 FROM {lake.table(x)}").fetchall())
            for x in ("parts", "whole")
        )
        assert held == expected


def test_stages_are_those_of_the_layout() -> None:
    """A view that exists finds its tables by these names: they change only with a new layout."""

    def names(name: str, layout: int) -> list[str]:
        made = stages(bind(SHAPES[name], RELATIONS), "m", FACTS, layout)
        return [s.relation for s in made]

    assert names("right-nested LEFT JOIN of 6", FIRST_LAYOUT) == ["m"]
    assert names("bushy FULL JOIN of 4", FIRST_LAYOUT) == ["m/part1", "m/part2", "m"]
    assert names("self LEFT JOIN of 8", FIRST_LAYOUT) == ["m/part1", "m"]
    assert names("EXISTS and NOT EXISTS", FIRST_LAYOUT) == ["m/1", "m/2", "m"]
    assert names("right-nested LEFT JOIN of 6", LAYOUT) == ["m/1", "m/2", "m"]
    assert names("bushy FULL JOIN of 4", LAYOUT) == ["m"]
    assert names("self LEFT JOIN of 8", LAYOUT) == ["m/1", "m"]
    assert names("EXISTS and NOT EXISTS", LAYOUT) == ["m/1", "m/2", "m/3", "m"]


def test_enormous_deltas_are_counted_and_refused_at_once() -> None:
    node = bind(SHAPES["right-nested LEFT JOIN of 8"], RELATIONS)
    made = stages(node, "m", FACTS, FIRST_LAYOUT)
    started = time.process_time()
    assert max(map(delta_size, made)) > 1_000_000
    with pytest.raises(SqlError, match="the plan of its changes has more than") as refused:
        check_deltas(made, "materialized view m")
    assert time.process_time() - started < SECONDS
    assert refused.value.code == "54001"
    assert "MATERIALIZED VIEW" in str(refused.value.remedy)


# -- homes ------------------------------------------------------------------------------------------


def create(catalog: Catalog, text: str) -> None:
    for statement in parse(text, "x.sql", {}):
        change = catalog.examine(statement)
        catalog.learn(change)
        catalog.keep([change.object.name])


def opened(root: Path) -> Catalog:
    catalog = Catalog(Store(Home.at(root)), {})
    catalog.load()
    return catalog


def relations(catalog: Catalog, name: str) -> list[str]:
    view = catalog.objects[name]
    assert isinstance(view, MaterializedView)
    return [s.relation.partition("#")[2] for s in view.stages]


@pytest.fixture
def home(tmp_path: Path) -> Path:
    create(opened(tmp_path), ";".join(f"CREATE TABLE {name} (v INT, a INT)" for name in TABLES))
    return tmp_path


def view(name: str, shape: str) -> str:
    return f"CREATE MATERIALIZED VIEW {name} AS {SHAPES[shape]}"


def test_views_are_refused_when_they_are_created(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sizes, "MAX_NODES", 200)
    catalog = opened(home)
    with pytest.raises(SqlError, match="materialized view m is too complex") as refused:
        create(catalog, view("m", "bushy LEFT JOIN of 4"))
    assert refused.value.code == "54001"
    assert refused.value.place is not None
    sink = view("m", "bushy LEFT JOIN of 4").replace("MATERIALIZED VIEW", "SINK")
    with pytest.raises(SqlError, match="sink m is too complex"):
        create(catalog, f"{sink} WITH (connector = 'blackhole', force_append_only = 'true')")
    monkeypatch.undo()
    create(catalog, view("m", "bushy LEFT JOIN of 4"))
    monkeypatch.setattr(sizes, "MAX_NODES", 200)
    assert not opened(home).broken()  # what is there stays


def test_a_home_of_an_older_version_finds_its_tables(home: Path) -> None:
    """It was written before layouts had numbers."""
    shape = "right-nested LEFT JOIN of 6"
    create(opened(home), view("old", shape))
    with sqlite3.connect(Home.at(home).store) as store:
        store.execute("UPDATE objects SET altered = '{}'")
        store.execute("PRAGMA user_version = 3")
    catalog = opened(home)
    assert relations(catalog, "old") == ["9"]
    create(catalog, view("new", shape))
    for again in (catalog, opened(home), opened(home)):
        assert relations(again, "old") == ["9"]
        assert relations(again, "new") == ["10/1", "10/2", "10"]
