"""Queries answered without Spark give what Spark gives: the same values of the same types, at one epoch."""

from __future__ import annotations

import random
import threading
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

import icestream
from icestream.api import Database
from icestream.config import EngineSettings
from icestream.errors import SqlError
from icestream.lake import copies
from icestream.plan.logical import Node
from icestream.plan.query import bind_query
from icestream.runtime import query
from icestream.runtime.query import collected
from icestream.sql import parse
from icestream.sql.statements import Select
from tests.feeds import Feed
from tests.spark.test_views_time import new
from tests.spark_session import spark

__all__ = ["spark"]
pytestmark = pytest.mark.spark

THINGS = {
    "s": "SMALLINT",
    "i": "INT",
    "b": "BIGINT",
    "n": "NUMERIC",
    "p": "NUMERIC(8, 2)",
    "w": "NUMERIC(38, 4)",
    "f": "REAL",
    "d": "DOUBLE PRECISION",
    "v": "VARCHAR",
    "y": "BYTEA",
    "day": "DATE",
    "ts": "TIMESTAMP",
    "tz": "TIMESTAMPTZ",
    "t": "TIME",
    "j": "JSONB",
    "o": "BOOLEAN",
    "a": "INT[]",
    '"Odd ""name"': "INT",
}
POOLS: dict[str, list[str]] = {
    "s": ["0", "1", "-7", "32767", "-32768"],
    "i": ["0", "1", "2", "3", "-7", "2147483647", "-2147483648"],
    "b": ["0", "5", "-5", "9223372036854775807", "-9223372036854775808", "100"],
    "n": ["0", "0.5", "-0.5", "1.0000000005", "123456789012345678.0123456789", "900000000000000000000", "7", "-2.5", "33.3"],
    "p": ["0", "0.01", "-0.01", "999999.99", "2.50", "-2.50", "1.25"],
    "w": ["0", "1.5", "-1.5", "9999999999999999999999999999999999.9999", "12.3456"],
    "f": ["0", "-0", "1.5", "NaN", "Infinity", "0.1", "3.4e38"],
    "d": ["0", "-0", "1.5", "NaN", "-Infinity", "0.1", "1e308"],
    "v": ["", "a", "A", "ä%b", "日本", "😀x", "it''s", "a_b\\c", "Z", "a\nb", "%"],
    "y": ["\\x", "\\x00ff27", "\\x80", "\\x7f"],
    "day": ["1969-12-31", "2024-02-29", "1500-03-01", "9998-12-31", "2021-01-03"],
    "ts": ["1969-12-31 23:59:59.999999", "2024-02-29 10:11:12.5", "1500-02-28 01:00:00", "2021-01-03 00:00:00"],
    "tz": ["1969-12-31 23:59:59.999999+00", "2024-03-31 02:30:00+02", "1500-02-28 01:00:00+00"],
    "t": ["00:00:00", "23:59:59.999999", "12:30:00"],
    "j": ['{"b": [1, 2], "a": null}', "1", '"x"'],
    "o": ["true", "false"],
    "a": ["1", "2"],
    '"Odd ""name"': ["1", "2"],
}  # fmt: skip

EXPRESSIONS = """
s | i | b | n | p | w | f | d | v | y | day | ts | tz | t | j | o | "Odd ""name" | NULL | 5 | 'x' | 1.5 | -1
s + 1::smallint | i + 1 | b + 1 | s + i | i + b | b + p | n + p | p + p | w + n | f + f | d + d | f + d | i + d
i - 1 | b - i | n - p | p - i | d - 1.5 | i * 2 | s * s | b * 2 | n * p | p * p | p * i | n * n | w * p | d * f | f * f
i / 2 | i / s | b / i | s / 2::smallint | i % 3 | b % i | s % s | -i | -b | -p | -d | abs(i) | abs(p) | abs(d) | i & 3 | b | 1
p / 3 | n / p | p / n | i / 3.0 | n / 7 | 1 / p | p / 0 | round(p) | round(n) | round(n, 3) | round(p, 1) | round(n, 0)
i = 1 | i <> s | b > i | n < p | p >= 2.5 | p = n | i = 2.0 | d > 1 | f <= d | d < f | i > d | v < 'a' | v = 'A' | y = y | y < y
day < '2000-01-01' | ts > '1970-01-01' | tz >= '2024-03-31 00:30:00+00' | day < ts | ts = tz | day = tz | t > t | t = t | o | o = TRUE | o > FALSE | w > n | w = 1.5
i IS NULL | v IS NOT NULL | i IS DISTINCT FROM s | d IS NOT DISTINCT FROM d | o IS TRUE | o IS NOT FALSE | NOT o | o AND i > 0 | o OR i IS NULL
i IN (1, 2, NULL) | v IN ('a', 'Z') | i NOT IN (1, 3) | d IN (0, 1.5) | p IN (2.5, 0.01) | i BETWEEN s AND b | v BETWEEN 'A' AND 'b'
coalesce(i, s, 5) | coalesce(p, 1.5) | coalesce(v, 'none') | coalesce(d, f) | nullif(i, 1) | nullif(v, 'a') | nullif(d, 0) | greatest(i, s, 3) | least(p, n) | greatest(v, 'b') | least(day, '2000-01-01')
CASE WHEN i > 0 THEN 'more' WHEN i < 0 THEN 'less' END | CASE v WHEN 'a' THEN 1 ELSE 2.5 END | CASE WHEN o THEN p ELSE n END | CASE WHEN o THEN i ELSE b END
v || 'x' | v || v | length(v) | v LIKE 'a%' | v LIKE '_' | v LIKE '%\\_b%' | v NOT LIKE '%b' | v LIKE 'a_b' | v LIKE '__' | v LIKE '\\%' | v LIKE '' | v LIKE '%'
i::bigint | s::int | i::smallint | b::int | i::numeric | p::numeric | n::numeric(8, 2) | p::numeric(10, 5) | w::numeric | i::float8 | b::float8 | b::real | f::float8 | i::text | b::text | o::text | o::int | i::numeric(12, 2) | j::text
day::timestamp | day::timestamptz | ts::date | tz::date | ts::timestamptz | tz::timestamp
day + 1 | day - 1 | day - day | day + INTERVAL '1 month' | ts + INTERVAL '1 month 2 days 03:04:05.5' | tz - INTERVAL '1 year 1 day' | ts - INTERVAL '1 month' | day - INTERVAL '1 hour'
date_trunc('day', ts) | date_trunc('week', ts) | date_trunc('month', tz) | date_trunc('hour', tz) | date_trunc('year', ts) | date_trunc('quarter', ts) | date_trunc('minute', ts) | date_trunc('second', tz) | date_trunc('day', tz)
extract(year FROM ts) | extract(month FROM day) | extract(day FROM tz) | extract(hour FROM ts) | extract(minute FROM tz) | extract(dow FROM day) | extract(isodow FROM ts) | extract(doy FROM day) | extract(week FROM ts) | extract(quarter FROM tz)
starts_with(v, 'a') | starts_with(v, '') | ts > now() | tz < now() | (i + 1) * 2 - s | (p + 1) * 2 / 3
"""
AGGREGATES = """
count(*) | count(i) | count(DISTINCT i) | count(DISTINCT v) | count(DISTINCT p) | count(DISTINCT tz) | sum(s) | sum(i) | sum(b) | sum(p) | sum(n) | sum(DISTINCT i) | sum(i) FILTER (WHERE o)
avg(s) | avg(i) | avg(p) | avg(n) | avg(i) FILTER (WHERE i > 100) | min(s) | max(i) | min(b) | max(p) | min(n) | max(w) | min(v) | max(v) | min(day) | max(ts) | min(tz) | max(t) | bool_and(o) | bool_or(o) | every(o)
sum(p) * 2 | round(avg(p), 2) | max(p) - min(p) | count(*) FILTER (WHERE v LIKE 'a%') | sum(CASE WHEN o THEN 1 ELSE 0 END)
"""
ORDERED = (
    "SELECT id, i FROM things ORDER BY i, id",
    "SELECT id, i FROM things ORDER BY i DESC, id",
    "SELECT id FROM things ORDER BY v NULLS FIRST, id DESC",
    "SELECT id FROM things ORDER BY d, f DESC, id",
    "SELECT id FROM things ORDER BY n DESC NULLS LAST, id LIMIT 7 OFFSET 3",
    "SELECT v FROM things WHERE i > 0 ORDER BY ts DESC, id LIMIT 5",
    "SELECT o, v, count(*) AS c, sum(p) FROM things GROUP BY o, v ORDER BY c DESC, o, v",
    "SELECT day, y FROM things ORDER BY y, day, id",
)
UNORDERED = (
    "SELECT * FROM others",
    "SELECT k, k AS k FROM others",
    "SELECT DISTINCT v, o FROM things",
    "SELECT DISTINCT ON (k) k, n FROM others ORDER BY k, n DESC, v",
    "SELECT t.id, o.v FROM things t JOIN others o ON t.id = o.k",
    "SELECT t.id, o.n FROM things t LEFT JOIN others o ON t.id = o.k AND o.n > 1",
    "SELECT t.id, o.n FROM things t FULL JOIN others o ON t.i = o.k",
    "SELECT id FROM things WHERE id IN (SELECT k FROM others WHERE n > 1)",
    "SELECT id FROM things WHERE id NOT IN (SELECT k FROM others)",
    "SELECT id FROM things t WHERE EXISTS (SELECT 1 FROM others WHERE k = t.i)",
    "SELECT id, (SELECT sum(n) FROM others WHERE k = t.id) FROM things t",
    "SELECT v FROM things UNION SELECT v FROM others",
    "SELECT id FROM things UNION ALL SELECT k FROM others",
    "SELECT v FROM things EXCEPT SELECT v FROM others",
    "SELECT v FROM things INTERSECT ALL SELECT v FROM others",
    "SELECT id, row_number() OVER (PARTITION BY o ORDER BY id) FROM things",
    "SELECT k, rank() OVER (ORDER BY n) FROM others",
    "WITH big AS (SELECT * FROM others WHERE n > 1) SELECT a.k, b.n FROM big a JOIN big b ON a.k = b.k",
    "SELECT o, sum(i) AS total FROM things GROUP BY o HAVING count(*) > 3",
    "SELECT count(*) FROM things WHERE FALSE",
    "SELECT max(id) FROM things WHERE id < 0",
    "SELECT id % 3 AS m, count(*) FROM things GROUP BY 1",
    "SELECT * FROM (VALUES (1, 'a'), (2, NULL)) AS x (n, s)",
    "SELECT 1 + 1, 'it''s', NULL::date, 2.5",
    "SELECT count(*) FROM nothing",
    "SELECT * FROM nothing",
    "SELECT a FROM (SELECT a, row_number() OVER (ORDER BY a) AS r FROM nothing) x WHERE r = 1",
    "SELECT a, b FROM (SELECT a, b, rank() OVER (PARTITION BY b ORDER BY a) AS r FROM nothing) x WHERE r <= 2",
    "SELECT max(a), min(b), sum(a), avg(a), bool_and(a > 1), count(DISTINCT b) FROM nothing",
    "SELECT t.id FROM things t LEFT JOIN nothing n ON n.a = t.id WHERE n.a IS NULL",
    "SELECT id FROM things WHERE id NOT IN (SELECT a FROM nothing)",
    "SELECT id, (SELECT max(a) FROM nothing WHERE a = t.id) FROM things t",
    "SELECT a FROM nothing UNION SELECT a FROM nothing ORDER BY 1 LIMIT 1",
    "SELECT DISTINCT ON (a) a, b FROM nothing ORDER BY a, b",
    "SELECT a, count(*) FROM nothing GROUP BY a",
    "SELECT t.id FROM things t JOIN things u ON t.d = u.d AND t.f = u.f",
    "SELECT id FROM things WHERE d NOT IN (SELECT d FROM things WHERE d = 0)",
    "SELECT id FROM things WHERE d = 0 OR d > 1e300 OR b = -9223372036854775808",
    "SELECT n, s FROM by_value",
)
MODEST = " AND ".join(f"coalesce({name}, 0) BETWEEN -200 AND 200" for name in "sibnp")
MODEST += " AND (w IS NULL OR w < 200::numeric(38, 4))"
LEFT_TO_SPARK = (
    "SELECT sum(d) FROM things",
    "SELECT d FROM things GROUP BY d",
    "SELECT a FROM things",
    "SELECT j = j FROM things",
    "SELECT count(*) FROM things WHERE a IS NULL",
    "SELECT upper(v) FROM things",
    "SELECT v::int FROM others WHERE k < 0",
)
ERRORS = {
    "SELECT v::int FROM others": "22P02",
    "SELECT i + 1 FROM things": "22003",
    "SELECT id / (id - id) FROM things": "22012",
    "SELECT id % (id - id) FROM things": "22012",
    "SELECT p / (p - p) FROM things WHERE p = 0": "22012",
}


def listed(text: str) -> list[str]:
    found = text.replace("b | 1\n", "i | 4\n").replace("\\\\", "\\")
    return [e.strip() for line in found.strip().splitlines() for e in line.split(" | ")]


def random_things(r: random.Random, ids: range) -> str:
    """A query that gives rows: converted outside of VALUES, where Spark converts but constants that it can fold."""

    def value(name: str) -> str:
        return "NULL" if r.random() < 0.15 else f"'{r.choice(POOLS[name])}'"

    rows = ", ".join(f"({i}, {', '.join(map(value, THINGS))})" for i in ids)
    typed = ", ".join(
        f"ARRAY[x{n}::INT]" if type == "INT[]" else f"x{n}::{type}"
        for n, type in enumerate(THINGS.values())
    )
    names = ", ".join(f"x{n}" for n in range(len(THINGS)))
    return f"SELECT id, {typed} FROM (VALUES {rows}) AS x (id, {names})"


@pytest.fixture(scope="module")
def db(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Database]:
    r = random.Random(7)
    with icestream.connect(tmp_path_factory.mktemp("local") / "home", spark=spark) as made:
        columns = ", ".join(f"{name} {type}" for name, type in THINGS.items())
        made.execute(
            f"""CREATE TABLE things (id INT PRIMARY KEY, {columns});
            CREATE TABLE others (k INT, v VARCHAR, n NUMERIC);
            CREATE TABLE nothing (a INT, b VARCHAR);
            CREATE MATERIALIZED VIEW by_value AS SELECT v, count(*) AS n, sum(s) AS s FROM things GROUP BY v;"""
        )
        made.execute(f"INSERT INTO things {random_things(r, range(60))}")
        made.execute(
            "INSERT INTO others VALUES (1, 'a', 1.5), (1, 'a', 2), (2, NULL, 0), (3, 'b', NULL), (70, 'Z', 5)"
        )
        made.flush()
        made.execute(
            f"""INSERT INTO things {random_things(r, range(55, 80))};
            UPDATE things SET s = 3, v = 'a' WHERE id % 7 = 0;
            DELETE FROM things WHERE id % 11 = 3;
            DELETE FROM others WHERE k = 2;"""
        )
        made.flush()
        yield made


def bound(db: Database, sql: str) -> Node:
    (statement,) = parse(sql)
    assert isinstance(statement, Select)
    return bind_query(statement.query, db.engine.catalog.names().relation)


def here(db: Database, sql: str) -> pa.Table | None:
    return db.engine.local.rows(bound(db, sql))


def there(db: Database, sql: str) -> pa.Table:
    return collected(bound(db, sql), db.engine.catalog, db.engine.spark)


def exact(table: pa.Table) -> list[tuple[str, ...]]:
    """Rows as text, so that NaN equals itself and -0.0 is not 0.0."""
    return list(zip(*([repr(v) for v in c.to_pylist()] for c in table.columns), strict=True))


def types(table: pa.Table) -> list[tuple[str, pa.DataType]]:
    return [(f.name, f.type) for f in table.schema]


def test_there_are_deleted_rows_to_leave_out(db: Database) -> None:
    db.engine.local.rows(bound(db, "SELECT id FROM things"))
    listed = db.engine.local._listing._tables["lake.public.things"]
    assert len(listed.files) > 1
    assert any(f.vector for f in listed.files.values())


def is_refused(db: Database, sql: str) -> bool:
    """Whether Spark raises PostgreSQL's error for it."""
    try:
        there(db, sql)
    except SqlError as error:
        return error.code == "22003"
    return False


@pytest.mark.parametrize("where", ["TRUE", MODEST], ids=["all", "modest"])
def test_expressions(db: Database, where: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The second time without the extremes, on which DuckDB gives up."""
    texts = listed(EXPRESSIONS)

    def select(chosen: Mapping[int, str]) -> str:
        shown = ", ".join(f"{e} AS e{n}" for n, e in chosen.items())
        return f"SELECT {shown}, id FROM things WHERE {where} ORDER BY id"

    with monkeypatch.context() as patch:
        patch.setattr(query, "RAISE", None)
        spark = there(db, select(dict(enumerate(texts))))
    assert len(spark) > 8
    wrong, left = [], []
    answered: dict[int, str] = {}
    for number, text in enumerate(texts):
        found = here(db, select({number: text}))
        if found is None:
            left.append(text)
            continue
        answered[number] = text
        wanted = spark.select([f"e{number}", "id"])
        if types(found) != types(wanted) or exact(found) != exact(wanted):
            pairs = zip(exact(wanted), exact(found), strict=True)
            wrong.append(
                (text, types(found), types(wanted), [p for p in pairs if p[0] != p[1]][:3])
            )
    assert not wrong
    there(db, select(answered))  # Spark raises no error for what was answered without it
    if where == MODEST:
        left = [text for text in left if "/" not in text and "%" not in text]  # by zero
        left = [text for text in left if not is_refused(db, select({0: text}))]  # out of range
    assert not left if where == MODEST else len(left) < len(texts) / 4, left


def test_aggregates(db: Database) -> None:
    texts = listed(AGGREGATES)
    for group in ("", "o", "v"):
        tail = f", {group} FROM things GROUP BY {group} ORDER BY {group}" if group else ", 1 FROM things"  # fmt: skip
        spark = there(db, f"SELECT {', '.join(f'{e} AS e{n}' for n, e in enumerate(texts))}{tail}")
        for number, text in enumerate(texts):
            found = here(db, f"SELECT {text} AS e{number}{tail}")
            if found is None:
                assert text in ("sum(n)", "avg(n)")  # too large for a numeric: NULL for Spark
                continue
            wanted = spark.select([number, len(texts)])
            assert types(found) == types(wanted), text
            assert exact(found) == exact(wanted), text


@pytest.mark.parametrize("sql", ORDERED)
def test_order(db: Database, sql: str) -> None:
    found, wanted = here(db, sql), there(db, sql)
    assert found is not None
    assert (types(found), exact(found)) == (types(wanted), exact(wanted))


@pytest.mark.parametrize("sql", UNORDERED)
def test_shapes(db: Database, sql: str) -> None:
    found, wanted = here(db, sql), there(db, sql)
    assert found is not None
    assert types(found) == types(wanted)
    assert Counter(exact(found)) == Counter(exact(wanted))


@pytest.mark.parametrize("sql", LEFT_TO_SPARK)
def test_what_is_left_to_spark(db: Database, sql: str) -> None:
    assert here(db, sql) is None
    db.sql(sql).to_arrow()


@pytest.mark.parametrize("sql", ERRORS)
def test_errors_are_those_of_spark(db: Database, sql: str) -> None:
    assert here(db, sql) is None
    with pytest.raises(SqlError) as raised:
        db.sql(sql).to_arrow()
    assert raised.value.code == ERRORS[sql]


def test_a_setting_sends_all_to_spark(db: Database) -> None:
    local, sql = db.engine.local, "SELECT count(*) AS n FROM things"
    before = local.answered
    found = [db.sql(sql).to_arrow().to_pylist()]
    assert local.answered == before + 1
    db.execute("SET query_mode = 'distributed'")
    found += [db.sql(sql).to_arrow().to_pylist()]
    assert local.answered == before + 1
    db.execute("SET query_mode = DEFAULT")
    found += [[dict(zip(r.columns, row, strict=True)) for row in r.rows] for r in db.execute(sql)]
    assert local.answered == before + 2
    assert found[0] == found[1] == found[2]


def test_all_tables_at_one_epoch_while_epochs_go_on(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Copies follow: the total of all moves is what the balances come to, whenever somebody looks."""
    monkeypatch.setattr(copies, "WORTH", 0)
    feed = Feed(tmp_path, "moves", ("id", "account", "amount"), keyed=False)
    feed.write(new(*((n, n % 50, n) for n in range(200))))
    sql = """SELECT t.total - b.total, b.accounts FROM (SELECT sum(balance) AS total, count(*) AS accounts FROM balances) b
             CROSS JOIN (SELECT max(total) AS total FROM totals) t"""
    wrong: list[object] = []
    settings, done = EngineSettings(epoch_interval=0.1), threading.Event()
    with icestream.connect(
        tmp_path / "home", spark=spark, settings=settings, allow_paths=[tmp_path]
    ) as db:
        db.execute(
            f"""CREATE SOURCE moves (id INT, account INT, amount INT) {feed.clause};
            CREATE MATERIALIZED VIEW balances AS SELECT account, sum(amount) AS balance FROM moves GROUP BY account;
            CREATE MATERIALIZED VIEW totals AS SELECT sum(amount) AS total FROM moves"""
        )
        db.flush()
        local = db.engine.local

        def ask() -> None:
            while not done.is_set():
                (row,) = db.sql(sql).to_arrow().to_pylist()
                if list(row.values()) != [0, 50]:
                    wrong.append(row)

        threads = [threading.Thread(target=ask) for _ in range(2)]
        for thread in threads:
            thread.start()
        for epoch in range(3):
            feed.write(new(*((n, n % 50, epoch) for n in range(40))))
            db.flush()
        done.set()
        for thread in threads:
            thread.join(60)
        assert local.answered > 10
        assert local._copies is not None
        assert "lake.public.balances" in local._copies._kept
        (row,) = db.sql("SELECT sum(balance) AS n FROM balances").to_arrow().to_pylist()
    assert not wrong
    assert row["n"] == sum(range(200)) + 40 * sum(range(3))
