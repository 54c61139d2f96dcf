"""WATERMARK and late_rows of sources and tables: what is bound, and what is refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from icestream.catalog.catalog import Catalog
from icestream.catalog.graph import make_plan
from icestream.catalog.objects import Object, Source, Table
from icestream.catalog.store import Store
from icestream.config import Home
from icestream.errors import NotSupportedError, SqlError
from icestream.functions.expressions import ColumnRef, columns_used
from icestream.plan.text import text
from icestream.sql import parse
from icestream.types import DATE, TIMESTAMP, TIMESTAMPTZ

KAFKA = "WITH (connector = 'kafka', topic = 't', properties.bootstrap.server = 'b:1')"
PLAIN = f"{KAFKA} FORMAT PLAIN ENCODE JSON"
KEPT = PLAIN.replace("'b:1'", "'b:1', late_rows = 'keep'")


def made(path: Path, statement: str) -> Object:
    """The object that a statement makes in an empty home."""
    (parsed,) = parse(statement, "x.sql", {})
    return Catalog(Store(Home.at(path)), {}).examine(parsed).object


def source(path: Path, columns: str, rest: str = PLAIN) -> Source:
    found = made(path, f"CREATE SOURCE s ({columns}) {rest}")
    assert isinstance(found, Source)
    return found


def table(path: Path, columns: str, rest: str = PLAIN) -> Table:
    found = made(path, f"CREATE TABLE t ({columns}) {rest}")
    assert isinstance(found, Table)
    return found


def test_a_source_with_a_watermark(tmp_path: Path) -> None:
    found = source(tmp_path, "id INT, ts TIMESTAMP, WATERMARK FOR ts AS ts - INTERVAL '5 seconds'")
    assert found.watermark is not None
    assert found.watermark.column == "ts"
    assert found.watermark.expr.type == TIMESTAMP
    assert columns_used(found.watermark.expr) == (ColumnRef(TIMESTAMP, "ts"),)
    assert text(found.watermark.expr) == "ts - INTERVAL '5 seconds'"
    assert found.late_rows == "drop"


def test_without_one(tmp_path: Path) -> None:
    for found in (source(tmp_path, "id INT"), table(tmp_path, "id INT")):
        assert found.watermark is None
        assert found.late_rows == "drop"


def test_late_rows_are_dropped_or_kept(tmp_path: Path) -> None:
    columns = "ts TIMESTAMPTZ, WATERMARK FOR ts AS ts"
    assert source(tmp_path, columns, KEPT).late_rows == "keep"
    assert table(tmp_path, columns, KEPT).late_rows == "keep"
    dropped = KEPT.replace("'keep'", "'drop'")
    assert source(tmp_path, columns, dropped).late_rows == "drop"


@pytest.mark.parametrize(
    ("columns", "rest", "name"),
    [
        ("ts TIMESTAMPTZ, WATERMARK FOR ts AS ts", PLAIN, "ts"),
        ("d DATE, WATERMARK FOR d AS d - 1", PLAIN, "d"),
        ("d DATE, WATERMARK FOR d AS d - INTERVAL '1 day'", PLAIN, "d"),
        ("ms BIGINT, ts TIMESTAMPTZ AS to_timestamp(ms / 1000.0), WATERMARK FOR ts AS ts - INTERVAL '1 min'", PLAIN, "ts"),
        ("id INT, lag INT, ts TIMESTAMP, WATERMARK FOR ts AS ts - lag * INTERVAL '1 second'", PLAIN, "ts"),
        ("id INT, WATERMARK FOR at AS at - INTERVAL '1 minute'", f"INCLUDE timestamp AS at {PLAIN}", "at"),
    ],
)  # fmt: skip
def test_columns_of_all_kinds(tmp_path: Path, columns: str, rest: str, name: str) -> None:
    for found in (source(tmp_path, columns, rest), table(tmp_path, columns, rest)):
        assert found.watermark is not None
        assert found.watermark.column == name
        types = {c.name: c.type for c in found.columns}
        assert found.watermark.expr.type == types[name]
        assert found.watermark.expr.type in (DATE, TIMESTAMP, TIMESTAMPTZ)


def test_tables_whose_rows_stay(tmp_path: Path) -> None:
    columns = "id INT, ts TIMESTAMP, WATERMARK FOR ts AS ts"
    assert table(tmp_path, columns).watermark
    assert table(tmp_path, columns, f"APPEND ONLY {PLAIN}").watermark
    assert table(tmp_path, columns.replace("INT", "INT PRIMARY KEY"), f"APPEND ONLY {PLAIN}").watermark  # fmt: skip


def test_the_same_statement_gives_the_same_object(tmp_path: Path) -> None:
    columns = "ts TIMESTAMP, WATERMARK FOR ts AS ts - INTERVAL '5 seconds'"
    assert source(tmp_path, columns).watermark == source(tmp_path, columns).watermark


WRONG = [
    ("SOURCE s (a TIMESTAMP, b TIMESTAMP, WATERMARK FOR a AS a, WATERMARK FOR »b AS b)", "source s has more than one watermark", "keep the one"),
    ("SOURCE s (ts TIMESTAMP, WATERMARK FOR »ts AS ts WITH TTL)", "WATERMARK … WITH TTL", "leave WITH TTL out"),
    ("SOURCE s (ts TIMESTAMP, WATERMARK FOR »tz AS tz)", "there is no column tz", None),
    ("SOURCE s (ts TIMESTAMP, WATERMARK FOR »_rw_x AS _rw_x)", "no column _rw_x", None),
    ("SOURCE s (id INT, WATERMARK FOR »id AS id - 5)", "a watermark follows a timestamp, timestamptz or date, but id is integer", "generated column"),
    ("SOURCE s (ts TIMESTAMP, WATERMARK FOR ts AS »INTERVAL '5 seconds')", "the watermark for ts does not look at ts", "just ts"),
    ("SOURCE s (ts TIMESTAMP, WATERMARK FOR ts AS »ts::text)", "the watermark for ts must be timestamp without time zone, not text", "just ts"),
    ("SOURCE s (ts TIMESTAMP, WATERMARK FOR ts AS »max(ts))", "a watermark is computed row by row", "just ts"),
    ("SOURCE s (ts TIMESTAMPTZ, WATERMARK FOR ts AS »least(ts, now()))", "a watermark follows from the rows alone", "just ts"),
    ("SOURCE s (ts TIMESTAMPTZ, WATERMARK FOR ts AS »tx - INTERVAL '1 day')", 'column "tx" does not exist', None),
    ("TABLE t (id INT PRIMARY KEY, ts TIMESTAMP, WATERMARK FOR »ts AS ts)", "table t cannot have a watermark: its rows may change", "APPEND ONLY"),
]  # fmt: skip


@pytest.mark.parametrize(("marked", "message", "remedy"), WRONG)
def test_refused(tmp_path: Path, marked: str, message: str, remedy: str | None) -> None:
    before, _, after = f"CREATE {marked}".partition("»")
    with pytest.raises(SqlError) as caught:
        made(tmp_path, f"{before}{after} {PLAIN}")
    assert message in caught.value.message
    assert caught.value.place is not None
    assert caught.value.place.column == len(before) + 1, str(caught.value)
    assert remedy is None or remedy in (caught.value.remedy or "")
    assert isinstance(caught.value, NotSupportedError) == ("TTL" in message)


def test_late_rows_without_a_watermark(tmp_path: Path) -> None:
    with pytest.raises(SqlError, match="source s has late_rows, but no watermark") as caught:
        source(tmp_path, "ts TIMESTAMP", KEPT)
    assert caught.value.remedy is not None
    assert caught.value.place is not None


def test_late_rows_of_another_word(tmp_path: Path) -> None:
    with pytest.raises(SqlError, match="late_rows"):
        source(tmp_path, "ts TIMESTAMP, WATERMARK FOR ts AS ts", KEPT.replace("keep", "kepp"))


CLICKS = f"CREATE SOURCE clicks (k INT, ts TIMESTAMP, WATERMARK FOR ts AS ts) {PLAIN}"
CLOSED = "CREATE MATERIALIZED VIEW closed AS SELECT k, ts, window_start, window_end FROM TUMBLE(clicks, ts, INTERVAL '10 seconds') EMIT ON WINDOW CLOSE"


def catalog(path: Path, *statements: str) -> Catalog:
    """A home with those objects."""
    made = Catalog(Store(Home.at(path)), {})
    for statement in statements:
        for parsed in parse(statement, "x.sql", {}):
            made.learn(made.examine(parsed))
    return made


@pytest.mark.parametrize("column", ["window_start", "window_end", "date_trunc('minute', window_end)"])  # fmt: skip
def test_a_view_over_one_that_shows_what_is_final_follows_the_same_column(
    tmp_path: Path, column: str
) -> None:
    over = f"CREATE MATERIALIZED VIEW over AS SELECT {column} AS a, count(*) AS c FROM closed GROUP BY 1 EMIT ON WINDOW CLOSE"
    catalog(tmp_path, CLICKS, CLOSED, over)


def test_a_view_over_one_that_shows_what_is_final_cannot_follow_another_column(
    tmp_path: Path,
) -> None:
    """A row of 00:03 shows when its window closes at 00:10: the watermark of ts has passed it then."""
    over = "CREATE MATERIALIZED VIEW over AS SELECT ts, count(*) AS c FROM closed GROUP BY ts EMIT ON WINDOW CLOSE"
    with pytest.raises(SqlError, match="no column says when a row is final") as caught:
        catalog(tmp_path, CLICKS, CLOSED, over)
    assert "closed shows its rows by window_end" in (caught.value.remedy or "")


def test_the_right_side_of_a_temporal_join_holds_no_watermark_back(tmp_path: Path) -> None:
    made = catalog(
        tmp_path,
        CLICKS,
        f"CREATE TABLE prices (k INT, at TIMESTAMP, WATERMARK FOR at AS at) APPEND ONLY {PLAIN}",
        "CREATE MATERIALIZED VIEW v AS SELECT c.ts, p.at FROM clicks AS c "
        "LEFT JOIN prices FOR SYSTEM_TIME AS OF PROCTIME() AS p ON c.k = p.k EMIT ON WINDOW CLOSE",
        "CREATE MATERIALIZED VIEW w AS SELECT c.ts, p.at FROM clicks AS c JOIN prices AS p ON c.ts = p.at EMIT ON WINDOW CLOSE",
    )
    tasks = make_plan(made).tasks
    waited = {task.key.partition("#")[0]: set[str]() for task in tasks}
    for task in tasks:
        name = task.key.partition("#")[0]
        waited[name] |= {k.partition("#")[0] for k in (*task.marks, *task.marked)}
    assert waited["v"] == {"clicks", "v"}
    assert waited["w"] == {"clicks", "prices", "w"}
