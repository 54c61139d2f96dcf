import json
from datetime import date
from decimal import Decimal

import pytest
from pyiceberg.catalog.sql import SqlCatalog

from benchmarks.incremental import (
    DUCKDB,
    OURS,
    QUERY,
    SPARK,
    TABLES,
    Bench,
    Measured,
    Size,
    compare,
    goals,
    report,
)
from icestream.config import Home
from icestream.dev.duck import open_duckdb
from icestream.engine import Engine

DAY = date(2026, 8, 1)


def test_rows_are_the_same_whoever_computed_them():
    ours = [("r", "gold", DAY, 2, 5, Decimal("3.50"), Decimal("1.7500000000"))]
    theirs = [("r", "gold", DAY, 2, 5, Decimal("3.5000"), 1.75)]
    compare(SPARK, theirs, ours)
    compare(SPARK, [], [])
    with pytest.raises(RuntimeError, match="differ in 1 groups"):
        compare(SPARK, [], ours)
    for wrong in (("r", "gold", DAY, 3, 5, 3.5, 1.75), ("r", "gold", DAY, 2, 5, 3.5, 1.76)):
        with pytest.raises(RuntimeError, match="the view has"):
            compare(SPARK, [wrong], ours)


def test_the_script_binds(tmp_path):
    tables = TABLES.format(topic="orders", bootstrap="localhost:9092", customers="/customers")
    view = f"CREATE MATERIALIZED VIEW revenue AS {QUERY.format(orders='orders', customers='customers')};"
    with Engine(Home.at(tmp_path), allow_paths=["/"]) as engine:
        names = [change.object.name for change in engine.plan(tables + view)]
    assert names == ["orders", "customers", "revenue"]


def test_the_history_follows_orders_and_customers(tmp_path):
    with Engine(Home.at(tmp_path / "home"), allow_paths=["/"]) as engine:
        bench = Bench(engine, "", tmp_path, 2_000)
        before = bench.by_history()
        assert sum(row[3] for row in before) == 2_000
        bench.history.batch(500)
        bench.tiers[:] = 0
        after = bench.by_history()
        assert {row[1] for row in after} == {"basic"}
        assert sum(row[3] for row in after) == bench.history.rows
        with pytest.raises(RuntimeError, match="differ in"):
            compare("the history", before, after)


def test_the_view_and_the_tables_are_read_where_the_engine_keeps_them(tmp_path):
    with Engine(Home.at(tmp_path / "home"), allow_paths=["/"]) as engine:
        bench = Bench(engine, "", tmp_path, 2_000)
        rows = bench.by_history()
        warehouse = engine.home.warehouse
        warehouse.mkdir(parents=True)
        lake = SqlCatalog("lake", uri=f"sqlite:///{tmp_path}/c.db", warehouse=warehouse.as_uri())
        lake.create_namespace("public")
        priced = (
            f"SELECT * REPLACE (price::DECIMAL(12, 2) AS price) FROM '{tmp_path}/expected.parquet'"
        )
        customers = f"FROM '{tmp_path}/customers.parquet'"
        with open_duckdb() as db:
            db.execute("SET TimeZone = 'UTC'")
            db.execute(f"CREATE VIEW orders AS {priced}; CREATE VIEW customers AS {customers}")
            view = QUERY.format(orders="orders", customers="customers")
            for name, query in {
                "orders": "FROM orders",
                "customers": "FROM customers",
                "revenue": f"SELECT * REPLACE (items::BIGINT AS items) FROM ({view})",
            }.items():
                content = db.execute(query).to_arrow_table()
                place = (warehouse / "public" / name).as_uri()
                lake.create_table(f"public.{name}", content.schema, place).append(content)
        compare("the history", rows, bench.view())
        compare(DUCKDB, bench.by_duckdb(), bench.view())


def measured(base: int, changes: int, ours: float) -> Measured:
    times = {OURS: [ours, ours], SPARK: [20.0, 20.0], DUCKDB: [4.0, 4.0]}
    return Measured(base, f"{changes} of the orders", changes, times)


def test_equal_numbers_of_changes_are_compared(tmp_path):
    small = Size(500, 10.0, [measured(500, 5, 1), measured(500, 50, 1), measured(500, 10, 9)])
    large = Size(
        5000, 99.0, [measured(5000, 50, 1.4), measured(5000, 500, 3), measured(5000, 10, 9)]
    )
    faster, flat = goals([small, large])
    assert faster[2] == "14.29 × – reached"
    assert flat == ("50 changes at 5,000 rows to 500", "≤ 1.5 ×", "1.40 × – reached")
    text = report(tmp_path, [small, large])
    assert "| 5,000 | 50 of the orders | 50 | 1.40 s | 20.00 s | 14.3 × | 4.00 s | 2.9 × |" in text
    assert json.loads((tmp_path / "incremental.json").read_text())["sizes"][0]["base"] == 500
