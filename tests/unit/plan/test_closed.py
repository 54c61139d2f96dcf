"""EMIT ON WINDOW CLOSE: after every epoch a view holds exactly the rows that are final at the watermark, each once.

Random histories of two sources whose watermarks follow their rows; late rows are left out, as the engine does. A view
may be made in the middle of a history. SEED repeats a run, N says how many histories there are (`make fuzz`).
"""

from __future__ import annotations

import random
import re
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime, timedelta

import duckdb
import pytest

from icestream import types as t
from icestream.functions.expressions import ColumnRef
from icestream.plan.logical import Filter, Item, OutColumn, Scan
from icestream.plan.query import Relation
from icestream.plan.stages import Known
from icestream.plan.watermarks import (
    Closings,
    closing,
    closings,
    is_final,
    shown_closings,
    watermarks_read,
)
from tests.maintained import Lake, Row, View
from tests.seeds import draw_seeds
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
# views with several columns that say when a row is final
SEVERAL = (
    f"SELECT k, ts, window_end FROM {TUMBLE}",
    "SELECT k, ts, window_start, window_end FROM HOP(s, ts, INTERVAL '5 seconds', INTERVAL '15 seconds')",
    f"SELECT ts, window_start, ts - INTERVAL '1 second' AS b, count(*) AS c FROM {TUMBLE} GROUP BY ts, window_start",
    f"SELECT k, ts, date_trunc('minute', ts) AS m, first_value(ts) {SESSION} AS a, last_value(ts) {SESSION} AS b FROM s",
    f"SELECT s.k, s.ts, u.ts AS uts FROM s JOIN u ON {NEAR}",
    "SELECT s.k, s.ts, u.ts AS uts FROM s JOIN u ON s.ts = u.ts",
    f"SELECT ts, window_end FROM {TUMBLE} UNION ALL SELECT window_end, ts FROM {OTHER}",
)  # fmt: skip


_WINDOWS = re.compile(
    r"(?P<kind>TUMBLE|HOP)\((?P<input>\w+|\(.*?\)), (?P<time>\w+), (?:INTERVAL '(?P<hop>\d+) seconds', )?INTERVAL '(?P<size>\d+) seconds'\)"
)


def in_duckdb(query: str) -> str | None:
    """The text of a query as DuckDB writes windows; None for sessions, which it does not have."""

    def windows(match: re.Match[str]) -> str:
        size = int(match["size"])
        hop = int(match["hop"] or size)
        first = f"time_bucket(INTERVAL '{hop} seconds', {match['time']}, TIMESTAMP '1970-01-01')"
        starts = ", ".join(f"{first} - INTERVAL '{n * hop} seconds'" for n in range(size // hop))
        source = match["input"] if match["input"].startswith("(") else f"(FROM {match['input']})"
        if match["hop"]:  # a row without a time belongs to no hopping window
            source = f"(FROM {source} WHERE {match['time']} IS NOT NULL)"
        return (
            f"(SELECT *, window_start + INTERVAL '{size} seconds' AS window_end "
            f"FROM (SELECT *, unnest([{starts}]) AS window_start FROM {source}))"
        )

    return None if "SESSION" in query else _WINDOWS.sub(windows, query)


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
            lake.name(name, [column for column, _ in COLUMNS])
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
                view.verify(in_duckdb(query))
                assert not leftovers(view), f"still stored: {leftovers(view)}"
            except (AssertionError, LookupError, duckdb.Error) as error:
                told = f"epoch {epoch} of a view made in epoch {start}, {facts}"
                wrong[query] = f"SEED={seed}: {query}\n{told}\n{type(error).__name__}: {error}"
    return list(wrong.values())


@pytest.mark.parametrize("seed", draw_seeds("closed windows"))
def test_views_show_what_is_final(seed: int) -> None:
    wrong = failures(seed)
    assert not wrong, "\n\n".join(wrong)


class Chain:
    """Views over one another, some of which show what is final only. What each shows is compared with its query over
    what the one below shows."""

    def __init__(self, r: random.Random, lake: Lake, number: int) -> None:
        self.r, self.lake = r, lake
        self.relations = dict(RELATIONS)
        self.facts = dict.fromkeys(RELATIONS, Known(None, True, r.random() < 0.5))
        self.marks: dict[str, str | Closings] = dict(MARKS)
        self.waits: dict[str, tuple[str, ...]] = {name: (name,) for name in RELATIONS}
        self.views: list[View] = []
        self.texts: list[str | None] = []
        self.told: list[str] = []
        self.add(f"c{number}_0", r.choice(SEVERAL if r.random() < 0.5 else (*DROPPED, *OTHERS)))
        for level in range(1, r.randint(2, 3)):
            self.add(f"c{number}_{level}", self.over(self.views[-1]))

    def over(self, below: View) -> str:
        """A query over a view, with the times in it as groups, in windows, sorted by and joined on."""
        r, name = self.r, below.name
        columns = [c for c in below.node.columns if not c.name.startswith("_")]
        times = [c.name for c in columns if c.type == t.TIMESTAMP]
        all_of = ", ".join(f"x.{c.name}" for c in columns)
        if not times:
            return f"SELECT {all_of}, 1 AS one FROM {name} AS x"
        time, other = r.choice(times), r.choice(columns).name
        return r.choice((
            f"SELECT {time} AS a, count(*) AS b FROM {name} GROUP BY {time}",
            f"SELECT {time} - INTERVAL '2 seconds' AS a, count({other}) AS b FROM {name} GROUP BY 1",
            f"SELECT date_trunc('minute', {time}) AS a, count({other}) AS b FROM {name} GROUP BY 1",
            f"SELECT window_end AS a, count(*) AS b FROM TUMBLE((SELECT {time} AS y, {other} AS z FROM {name}), y, INTERVAL '20 seconds') GROUP BY window_end",
            f"SELECT {all_of} FROM {name} AS x",
            f"SELECT {', '.join(f'x.{n} AS a{i}' for i, n in enumerate(times))} FROM {name} AS x",
            f"SELECT x.{time} AS a, s.k AS b FROM {name} AS x JOIN s ON x.{time} = s.ts",
            f"SELECT x.{time} AS a, rank() OVER (PARTITION BY x.{other} ORDER BY x.{time}) AS b FROM {name} AS x",
            f"SELECT DISTINCT x.{time} AS a FROM {name} AS x UNION ALL SELECT ts FROM u",
        ))  # fmt: skip

    def add(self, name: str, query: str) -> None:
        node = bind(query, self.relations)
        final = closing(node, self.marks) if self.r.random() < 0.7 else None
        view = View(self.lake, node, dict(self.facts), name, final)
        self.views.append(view)
        self.texts.append(in_duckdb(query))
        self.told.append(f"{name}: {query}{f' EMIT by {final.column}' if final else ''}")
        self.relations[name] = Relation(name, name, tuple((c.name, c.type) for c in node.columns))
        self.facts[name] = view.stages[-1].known
        read = watermarks_read(node, {**self.marks, **dict.fromkeys(self.waits, "")})
        self.waits[name] = tuple(dict.fromkeys(s for r in read for s in self.waits[r]))
        if own := (shown_closings if final else closings)(node, self.marks):
            self.marks[name] = own

    def advance(self, sources: Mapping[str, Source]) -> None:
        for view, text in zip(self.views, self.texts, strict=True):
            view.advance(mark=least(sources[n].mark for n in self.waits[view.name]))
            view.verify(text)
            view.name_in_duckdb()


@pytest.mark.parametrize("seed", draw_seeds("closed windows"))
def test_views_over_views_show_what_is_final(seed: int) -> None:
    r = random.Random(seed)
    lake = _lake(seed)
    sources = {name: Source(r) for name in RELATIONS}
    chains = [Chain(r, lake, number) for number in range(VIEWS)]
    wrong: dict[Chain, str] = {}
    for epoch in range(EPOCHS):
        for name, source in sources.items():
            lake.feed(name, source.epoch(epoch))
            lake.name(name, [column for column, _ in COLUMNS])
        for chain in chains:
            try:
                if chain not in wrong:
                    chain.advance(sources)
            except (AssertionError, LookupError, duckdb.Error) as error:
                told = "\n".join(chain.told)
                wrong[chain] = (
                    f"SEED={seed}, epoch {epoch}\n{told}\n{type(error).__name__}: {error}"
                )
    assert not wrong, "\n\n".join(wrong.values())


def test_a_view_says_only_of_the_column_it_shows_rows_by_when_they_are_final() -> None:
    """v1 shows a row of 00:03 when its window ends at 00:10: by then the watermark of ts is beyond it."""
    node = bind(f"SELECT k, ts, window_start, window_end AS e, window_end - INTERVAL '1 second' AS f, date_trunc('minute', window_end) AS m FROM {TUMBLE}", RELATIONS)  # fmt: skip
    assert set(closings(node, MARKS)) == {"ts", "window_start", "e", "f", "m"}
    assert set(shown_closings(node, MARKS)) == {"window_start", "e", "f", "m"}
    node = bind(f"SELECT ts, date_trunc('minute', ts) AS m FROM {TUMBLE}", RELATIONS)
    assert set(shown_closings(node, MARKS)) == {"ts", "m"}


@pytest.mark.parametrize("query", DROPPED)
def test_all_state_of_what_is_closed_goes(query: str) -> None:
    """The state that `leftovers` looks for is there at all."""
    node = bind(query, RELATIONS)
    sources = dict.fromkeys(RELATIONS, Known(None, True, False))
    view = View(_lake(), node, sources, "v", closing(node, MARKS))
    assert all(s.trim for s in view.stages[:-1])
