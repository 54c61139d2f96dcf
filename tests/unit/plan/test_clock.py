"""Views with now() in their conditions: after every tick they hold what their queries give as a batch at that moment.

Random histories of two tables, some epochs with changes and some in which only time passes; a view may be made in the
middle of one. SEED repeats a run, N says how many histories there are (`make fuzz`).
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import duckdb
import pytest

from icestream import types as t
from icestream.plan.logical import OutColumn
from icestream.plan.query import Relation
from icestream.plan.repeatable import find_unrepeatable
from icestream.plan.stages import Known
from tests.maintained import Lake, Row, View
from tests.seeds import draw_seeds
from tests.unit.plan.tables import bind

COLUMNS = (("k", t.INTEGER), ("g", t.INTEGER), ("ts", t.TIMESTAMPTZ), ("f", t.BOOLEAN))
RELATIONS = {name: Relation(name, name, COLUMNS) for name in ("t", "u")}
BEGIN = datetime(2026, 1, 1, tzinfo=UTC)
EPOCHS, TICK, VIEWS = 6, 12, 9

QUERIES = (
    "SELECT k FROM t WHERE ts < now()",
    "SELECT k, ts FROM t WHERE ts > now() - INTERVAL '20 seconds' AND ts <= now()",
    "SELECT k FROM t WHERE f OR ts < now()",
    "SELECT k FROM t WHERE coalesce(f, false) OR ts < now()",
    "SELECT k FROM t WHERE f AND NOT (ts > now())",
    "SELECT count(*) AS c FROM t WHERE ts >= now()",
    "SELECT g, count(*) AS c, max(ts) AS m FROM t WHERE ts < now() GROUP BY g",
    "SELECT g, max(ts) AS m FROM t GROUP BY g HAVING max(ts) < now()",
    "SELECT g, count(*) FILTER (WHERE f) AS c FROM t WHERE NOT (ts > now()) GROUP BY g HAVING count(*) > 1",
    "SELECT t.k, u.k AS uk FROM t JOIN u ON t.g = u.g AND t.ts < now()",
    "SELECT t.k, u.k AS uk FROM t JOIN u ON t.g = u.g WHERE t.ts < now() AND u.ts > now() - INTERVAL '30 seconds'",
    "SELECT t.k, x.k AS uk FROM t LEFT JOIN (SELECT * FROM u WHERE ts < now()) AS x ON t.g = x.g",
    "SELECT a.k, b.m FROM t AS a JOIN (SELECT g, max(ts) AS m FROM t WHERE ts < now() GROUP BY g) AS b ON a.g = b.g WHERE a.ts < now()",
    "SELECT k FROM t WHERE EXISTS (SELECT 1 FROM u WHERE u.g = t.g AND u.ts < now())",
    "SELECT k FROM t WHERE g NOT IN (SELECT g FROM u WHERE u.ts < now())",
    "SELECT k FROM t WHERE ts < now() AND k IN (SELECT max(k) FROM t WHERE ts < now() GROUP BY g)",
    "SELECT k, n FROM (SELECT k, row_number() OVER (PARTITION BY g ORDER BY ts, k) AS n FROM t WHERE ts < now()) AS x WHERE n <= 2",
    "SELECT DISTINCT g FROM t WHERE ts < now() UNION ALL SELECT g FROM u WHERE ts > now()",
    "SELECT g FROM t WHERE ts < now() EXCEPT SELECT g FROM u WHERE ts < now()",
    "SELECT k FROM t WHERE CASE WHEN ts <= now() THEN k END > 0",
    "SELECT k FROM t WHERE CASE WHEN ts > now() THEN k END > 0",
    "SELECT k FROM t WHERE NOT (CASE WHEN ts > now() THEN f ELSE NULL END)",
    "SELECT k FROM t WHERE CASE WHEN ts <= now() THEN ts ELSE NULL END < now() - INTERVAL '9 seconds'",
    "SELECT k FROM t WHERE nullif(ts < now(), f) IS NULL",
    "SELECT k FROM t WHERE nullif(ts < now(), f)",
    "SELECT k FROM t WHERE coalesce(CASE WHEN ts < now() THEN NULL ELSE f END, g = 1)",
    "SELECT k FROM t WHERE coalesce(nullif(ts < now(), TRUE), f) IS NOT FALSE AND g > 0",
    "SELECT k FROM t WHERE greatest(ts, CASE WHEN f THEN now() END) > now() - INTERVAL '12 seconds'",
    "SELECT k FROM t WHERE k > CASE WHEN ts < now() THEN 2 END AND ts > now() - INTERVAL '30 seconds'",
    "SELECT k FROM t WHERE g IN (1, CASE WHEN ts < now() THEN 2 END)",
    "SELECT k FROM t WHERE g NOT IN (1, CASE WHEN ts < now() THEN 2 END)",
    "SELECT k FROM t WHERE (ts < now()) IS NULL OR (CASE WHEN ts < now() THEN f END) IS NULL",
    "SELECT g, count(*) AS c FROM t GROUP BY g HAVING CASE WHEN max(ts) < now() THEN count(*) END > 1",
    "SELECT t.k, u.k AS uk FROM t JOIN u ON t.g = u.g AND CASE WHEN t.ts < now() THEN u.f END",
    "SELECT t.k, u.k AS uk FROM t LEFT JOIN u ON t.g = u.g AND u.ts < now() WHERE t.ts < now()",
    "SELECT t.k, u.k AS uk FROM t RIGHT JOIN u ON t.g = u.g AND t.ts < now()",
    "SELECT k FROM t WHERE EXISTS (SELECT 1 FROM u WHERE u.g = t.g AND t.ts < now() AND u.ts > now() - INTERVAL '20 seconds')",
    "SELECT k FROM t WHERE NOT EXISTS (SELECT 1 FROM u WHERE u.g = t.g AND u.k > t.k AND u.ts > now() - INTERVAL '20 seconds')",
)  # fmt: skip


def random_query(r: random.Random) -> str:
    """A query with conditions around now(), at any place of it."""

    def moment() -> str:
        shift = r.choice(("", "", " - INTERVAL '20 seconds'", " + INTERVAL '7 seconds'"))
        return f"now(){shift}"

    def test(tables: str, depth: int = 2) -> str:
        a, b = (r.choice(tables) for _ in range(2))
        if depth == 0 or r.random() < 0.3:
            compared = f"{a}.ts {r.choice(('<', '<=', '>', '>='))} {moment()}"
            return r.choice(
                (compared, compared, f"{a}.f", f"{a}.g = {b}.g", f"{a}.k > {r.randint(1, 6)}")
            )
        inner, other = test(tables, depth - 1), test(tables, depth - 1)
        return r.choice((
            f"({inner} AND {other})",
            f"({inner} OR {other})",
            f"NOT ({inner})",
            f"({inner}) IS {r.choice(('NULL', 'NOT NULL', 'TRUE', 'NOT FALSE'))}",
            f"CASE WHEN {inner} THEN {a}.f ELSE {other} END",
            f"CASE WHEN {inner} THEN {a}.g END > 1",
            f"coalesce(nullif({inner}, {other}), {a}.f)",
            f"coalesce(CASE WHEN {inner} THEN NULL ELSE {b}.f END, {other})",
            f"nullif({inner}, {b}.f)",
        ))  # fmt: skip

    side = r.choice(("t", "u", "tu"))
    join = r.choice(("JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN"))
    exists = f"{r.choice(('', 'NOT '))}EXISTS (SELECT 1 FROM u WHERE u.g = t.g AND {test(side)})"
    return r.choice((
        f"SELECT t.k FROM t WHERE {test('t', 3)}",
        f"SELECT t.g, count(*) AS c FROM t WHERE {test('t')} GROUP BY t.g",
        f"SELECT g, count(*) AS c FROM t GROUP BY g HAVING CASE WHEN max(ts) < {moment()} THEN count(*) END > {r.randint(0, 2)}",
        f"SELECT t.k, u.k AS uk FROM t {join} u ON t.g = u.g AND {test(side)}",
        f"SELECT t.k, u.k AS uk FROM t {join} u ON t.g = u.g WHERE {test('tu')}",
        f"SELECT t.k FROM t WHERE {exists}",
        f"SELECT t.k FROM t WHERE {exists} AND {test('t')}",
        f"SELECT t.k FROM t WHERE {test('t')} EXCEPT SELECT u.k FROM u WHERE {test('u')}",
        f"SELECT t.k FROM t WHERE t.g IN (SELECT u.g FROM u WHERE {test('u')})",
        f"SELECT k, n FROM (SELECT t.k, row_number() OVER (PARTITION BY g ORDER BY ts, k) AS n FROM t WHERE {test('t')}) AS x WHERE n <= 2",
    ))  # fmt: skip


def choose_queries(r: random.Random) -> Iterator[str]:
    """Some of the list and some generated ones, without those that CREATE refuses."""
    yield from r.sample(QUERIES, VIEWS // 2)
    made = (random_query(r) for _ in itertools.count())
    kept = (q for q in made if not find_unrepeatable(bind(q, RELATIONS)))
    yield from itertools.islice(kept, VIEWS - VIEWS // 2)


class Table:
    """The rows of a table, and how they change."""

    def __init__(self, r: random.Random, keyed: bool) -> None:
        self.r = r
        self.keyed = keyed
        self.rows: dict[int, Row] = {}
        self.last = 0

    def epoch(self) -> list[tuple[Row, int]]:
        """New rows; those of a table with a key are also changed and deleted."""
        r = self.r
        if r.random() < 0.3:
            return []
        changes: list[tuple[Row, int]] = []
        for key in r.sample(list(self.rows), min(2, len(self.rows))) if self.keyed else ():
            changes.append((self.rows.pop(key), -1))
            if r.random() < 0.5:
                changes.append((self.put(key), 1))
        for _ in range(r.randint(1, 4)):
            self.last += 1
            changes.append((self.put(self.last), 1))
        return changes

    def put(self, key: int) -> Row:
        r = self.r
        at = BEGIN + timedelta(seconds=r.randint(-30, (EPOCHS + 1) * TICK))
        row = (key, r.choice((None, 1, 2, 3)), r.choice((None, at, at, at, at)), r.choice((None, True, False)))  # fmt: skip
        self.rows[key] = row
        return row


def failures(seed: int) -> list[str]:
    """Each view that went wrong; it is left alone then."""
    r = random.Random(seed)
    lake = Lake(seed)
    tables = {name: Table(r, keyed=r.random() < 0.5) for name in RELATIONS}
    facts: dict[str, Known] = {}
    for name, table in tables.items():
        lake.create(name, [OutColumn(*column) for column in COLUMNS])
        stored = table.keyed or r.random() < 0.5
        facts[name] = Known(("k",) if table.keyed else None, not table.keyed, stored)
    starts = {q: r.choice((0, 0, r.randrange(EPOCHS))) for q in choose_queries(r)}
    views: dict[str, View] = {}
    wrong: dict[str, str] = {}
    for epoch in range(EPOCHS):
        now = int((BEGIN + timedelta(seconds=epoch * TICK)).timestamp()) * 1_000_000
        for name, table in tables.items():
            lake.feed(name, table.epoch())
            lake.name(name, [column for column, _ in COLUMNS])
        for number, (query, start) in enumerate(starts.items()):
            if epoch < start or query in wrong:
                continue
            try:
                if query not in views:
                    views[query] = View(lake, bind(query, RELATIONS), facts, f"v{number}")
                views[query].advance(now)
                views[query].verify(query.replace("now()", f"make_timestamptz({now})"))
            except (AssertionError, LookupError, duckdb.Error) as error:
                told = f"epoch {epoch} of a view made in epoch {start}, {facts}"
                wrong[query] = f"SEED={seed}: {query}\n{told}\n{type(error).__name__}: {error}"
    return list(wrong.values())


@pytest.mark.parametrize("seed", draw_seeds("clock"))
def test_views_follow_the_clock(seed: int) -> None:
    wrong = failures(seed)
    assert not wrong, "\n\n".join(wrong)
