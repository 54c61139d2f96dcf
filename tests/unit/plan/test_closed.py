"""EMIT ON WINDOW CLOSE: after every epoch a view holds exactly the rows that are final at the watermark, each once.

Random histories of two sources whose watermarks follow their rows; late rows are left out, as the engine does. A view
may be made in the middle of a history. SEED repeats a run, N says how many histories there are (`make fuzz`).
"""

from __future__ import annotations

import os
import random
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta

import duckdb
import pytest

from icestream import types as t
from icestream.functions.expressions import ColumnRef
from icestream.plan.logical import Filter, Item, OutColumn, Scan
from icestream.plan.query import Relation
from icestream.plan.stages import Known, is_final
from icestream.plan.watermarks import closing, watermarks_read
from tests.maintained import Lake, Row, View
from tests.unit.plan.tables import bind

COLUMNS = (("k", t.INTEGER), ("g", t.INTEGER), ("ts", t.TIMESTAMP))
RELATIONS = {name: Relation(name, name, COLUMNS) for name in ("s", "u")}
MARKS = dict.fromkeys(RELATIONS, "ts")
BEGIN = datetime(2026, 1, 1)
EPOCHS, TICK, VIEWS = 8, 6, 6
BEHIND = timedelta(seconds=4)

TUMBLE = "TUMBLE(s, ts, INTERVAL '10 seconds')"
OTHER = "TUMBLE(u, ts, INTERVAL '10 seconds')"
SESSION = "OVER (PARTITION BY g ORDER BY ts SESSION WITH GAP INTERVAL '4 seconds')"
NEAR = "s.g = u.g AND u.ts BETWEEN s.ts - INTERVAL '5 seconds' AND s.ts + INTERVAL '7 seconds'"

# views none of whose state outlives what is closed
DROPPED = (
    f"SELECT window_start, g, count(*) AS c, max(k) AS m FROM {TUMBLE} GROUP BY window_start, g",
    "SELECT window_end, g, sum(k) AS c FROM HOP(s, ts, INTERVAL '5 seconds', INTERVAL '15 seconds') GROUP BY window_end, g",
    f"SELECT window_start, g FROM {TUMBLE} GROUP BY window_start, g",
    f"SELECT window_start, array_agg(k ORDER BY k) AS c FROM {TUMBLE} GROUP BY window_start",
    f"SELECT window_start, avg(k) AS a FROM (SELECT * FROM {TUMBLE} UNION ALL SELECT * FROM {OTHER}) AS x GROUP BY window_start",
    f"SELECT window_start, min(c) AS m FROM (SELECT window_start, g, count(*) AS c FROM {TUMBLE} GROUP BY window_start, g) AS x GROUP BY window_start",
    "SELECT date_trunc('minute', ts) AS m, count(*) AS c FROM s GROUP BY 1",
    "SELECT CAST(ts AS DATE) AS d, count(*) AS c FROM s GROUP BY 1",
    "SELECT ts - INTERVAL '3 seconds' AS e, sum(k) AS q FROM s GROUP BY 1",
    "SELECT DISTINCT g, ts FROM s",
    f"SELECT window_start, g, count(*) AS c FROM {TUMBLE} GROUP BY window_start, g HAVING count(*) > 1",
    f"SELECT c * 2 AS d, e FROM (SELECT window_end AS e, g, count(*) AS c FROM {TUMBLE} GROUP BY window_end, g) AS x WHERE c <> 2",
    "SELECT k, ts FROM s",
    f"SELECT window_start, count(DISTINCT g) AS c FROM {TUMBLE} GROUP BY window_start",
    f"SELECT a.window_start, a.c, b.c AS d FROM (SELECT window_start, count(*) AS c FROM {TUMBLE} GROUP BY window_start) AS a JOIN (SELECT window_start, count(*) AS c FROM {OTHER} GROUP BY window_start) AS b ON a.window_start = b.window_start",
    f"SELECT * FROM (SELECT *, row_number() OVER (PARTITION BY window_start ORDER BY k) AS n FROM {TUMBLE}) AS x WHERE n <= 2",
    "SELECT s.ts, s.k, u.k AS uk FROM s JOIN u ON s.ts = u.ts",
    "SELECT ts, g FROM s UNION ALL SELECT ts, g FROM u",
    "SELECT ts, g FROM s EXCEPT SELECT ts, g FROM u",
)  # fmt: skip
OTHERS = (
    "SELECT k, ts, row_number() OVER (PARTITION BY g ORDER BY ts, k) AS n FROM s",
    "SELECT k, ts, count(*) OVER (PARTITION BY g ORDER BY ts) AS n FROM s",
    "SELECT k, ts, lag(k) OVER (PARTITION BY g ORDER BY ts, k) AS l FROM s",
    f"SELECT g, k, first_value(ts) {SESSION} AS a, last_value(ts) {SESSION} AS b FROM s",
    "SELECT g, window_start, window_end, count(*) AS c FROM SESSION(s PARTITION BY g, ts, INTERVAL '4 seconds') GROUP BY 1, 2, 3",
    f"SELECT s.k, u.k AS uk, s.ts FROM s JOIN u ON {NEAR}",
    f"SELECT s.k, u.k AS uk, s.ts FROM s LEFT JOIN u ON {NEAR}",
    "SELECT k, ts FROM s WHERE EXISTS (SELECT 1 FROM u WHERE u.g = s.g AND u.ts <= s.ts)",
    "SELECT k, ts FROM s WHERE NOT EXISTS (SELECT 1 FROM u WHERE u.g = s.g AND u.ts <= s.ts + INTERVAL '3 seconds')",
    "SELECT ts, g FROM s INTERSECT ALL SELECT ts, g FROM u",
)  # fmt: skip


class Source:
    """Rows that come, and the watermark behind them."""

    def __init__(self, r: random.Random) -> None:
        self.r = r
        self.mark: datetime | None = None
        self.last = 0

    def epoch(self, number: int) -> list[tuple[Row, int]]:
        """The rows of an epoch that are not late; some have no time."""
        r, before = self.r, self.mark
        rows: list[tuple[Row, int]] = []
        for _ in range(r.randint(0, 4)):
            self.last += 1
            at = BEGIN + timedelta(seconds=number * TICK + r.randint(-12, 6))
            if r.random() < 0.1:
                rows.append(((self.last, 1, None), 1))
            elif before is None or at >= before:
                rows.append(((self.last, r.choice((None, 1, 2)), at), 1))
                self.mark = max(self.mark or at - BEHIND, at - BEHIND)
        return rows


def least(marks: Iterable[datetime | None]) -> int | None:
    """The watermark of several sources: that of the slowest, once all have one."""
    known = list(marks)
    found = [m for m in known if m is not None]
    if len(found) < len(known):
        return None
    return int(min(found).replace(tzinfo=UTC).timestamp()) * 1_000_000


def leftovers(view: View) -> list[Row]:
    """Groups that are still stored although they were final an epoch ago."""
    found: list[Row] = []
    for stage in view.stages:
        if stage.trim and view.times.shown is not None:
            items = tuple(Item(c.name, ColumnRef(c.type, c.name)) for c in stage.columns)
            own = Scan(stage.relation, stage.relation, items)
            over = Filter(own, is_final(stage.trim, own, view.times.shown))
            inputs = {stage.relation: view.lake.table(stage.relation)}
            found += view.lake.run(view.rendered(over, inputs)).fetchall()
    return found


def _lake(seed: int | None = None) -> Lake:
    lake = Lake(seed)
    for name in RELATIONS:
        lake.create(name, [OutColumn(*column) for column in COLUMNS])
    return lake


def failures(seed: int) -> list[str]:
    """Each view that went wrong; it is left alone then."""
    r = random.Random(seed)
    lake = _lake(seed)
    sources = {name: Source(r) for name in RELATIONS}
    facts = dict.fromkeys(RELATIONS, Known(None, True, r.random() < 0.5))
    chosen = [*r.sample(DROPPED, VIEWS // 2), *r.sample(OTHERS, VIEWS // 2)]
    starts = {q: r.choice((0, 0, r.randrange(EPOCHS))) for q in chosen}
    views: dict[str, View] = {}
    wrong: dict[str, str] = {}
    for epoch in range(EPOCHS):
        for name, source in sources.items():
            lake.feed(name, source.epoch(epoch))
        for number, (query, start) in enumerate(starts.items()):
            if epoch < start or query in wrong:
                continue
            try:
                if query not in views:
                    node = bind(query, RELATIONS)
                    final = closing(node, MARKS)
                    assert final is not None, "its rows are never final"
                    views[query] = View(lake, node, facts, f"v{number}", final)
                view = views[query]
                waited = watermarks_read(view.node, MARKS)
                view.advance(mark=least(sources[n].mark for n in waited))
                view.verify()
                assert not leftovers(view), f"still stored: {leftovers(view)}"
            except (AssertionError, LookupError, duckdb.Error) as error:
                told = f"epoch {epoch} of a view made in epoch {start}, {facts}"
                wrong[query] = f"SEED={seed}: {query}\n{told}\n{type(error).__name__}: {error}"
    return list(wrong.values())


def seeds() -> list[int]:
    if "SEED" in os.environ:
        return [int(os.environ["SEED"])]
    first = random.randrange(2**32)
    return [first + n for n in range(int(os.environ.get("N", "1")))]


@pytest.mark.parametrize("seed", seeds())
def test_views_show_what_is_final(seed: int) -> None:
    wrong = failures(seed)
    assert not wrong, "\n\n".join(wrong)


@pytest.mark.parametrize("query", DROPPED)
def test_all_state_of_what_is_closed_goes(query: str) -> None:
    """The state that `leftovers` looks for is there at all."""
    node = bind(query, RELATIONS)
    sources = dict.fromkeys(RELATIONS, Known(None, True, False))
    view = View(_lake(), node, sources, "v", closing(node, MARKS))
    assert all(s.trim for s in view.stages[:-1])
