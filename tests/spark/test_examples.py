"""The examples that need nothing outside, run in process as their READMEs say."""

from __future__ import annotations

import shutil
import threading
from decimal import Decimal
from pathlib import Path

import pytest

from icestream.config import Home
from icestream.engine import Engine
from tests.engine import column, lake_table
from tests.spark_session import spark  # noqa: F401

pytestmark = pytest.mark.spark

EXAMPLES = Path(__file__).parents[2] / "examples"


def once(engine: Engine) -> None:
    engine.run(threading.Event(), once=True)


def test_datagen(tmp_path, spark) -> None:  # noqa: F811
    script = (EXAMPLES / "datagen" / "pipeline.sql").read_text()
    with Engine(Home.at(tmp_path), application=spark, allow_paths=["/"]) as engine:
        engine.execute(script)
        once(engine)
        once(engine)
        ((hot, least),) = engine.execute("SELECT count(*), min(temperature) FROM hot_readings")[
            0
        ].rows
        (expected,) = engine.execute(
            "SELECT count(*) FILTER (WHERE temperature > 40) FROM readings"
        )[0].rows
        ((row),) = engine.execute("SELECT * FROM readings ORDER BY reading_id LIMIT 1")[0].rows
    assert (hot,) == expected
    assert hot > 0
    assert least >= 40
    assert (row[0], len(row[3])) == (1, 2)
    assert row[5] == pytest.approx(row[2] * 9 / 5 + 32)
    tags = column(tmp_path, "sensors.tags", "reading_id")
    assert sorted(tags) == sorted([*range(1, 10_001)] * 2)


def test_files_to_iceberg(tmp_path, spark) -> None:  # noqa: F811
    data = tmp_path / "data"
    shutil.copytree(EXAMPLES / "files-to-iceberg" / "data", data)
    script = (EXAMPLES / "files-to-iceberg" / "pipeline.sql").read_text()
    home = tmp_path / "home"
    with Engine(
        Home.at(home), application=spark, env={"DATA": str(data)}, allow_paths=["/"]
    ) as engine:
        engine.execute(script)
        once(engine)
        ((line, reason),) = engine.execute('SELECT "offset", reason FROM dead_letters.sales')[
            0
        ].rows
        (data / "sales" / "2026-01-07.csv").write_text(
            "sale_id;sold_at;shop;amount\n8;2026-01-07T10:00:00Z;Bern;1.00\n"
        )
        before = {s.name: s.records for s in engine.status().sources}
        once(engine)
        after = {s.name: s.records for s in engine.status().sources}
    assert (before, after) == ({"sales": 7, "returns": 2}, {"sales": 8, "returns": 2})
    assert (line, "not a number" in reason) == (2, True)
    table = lake_table(home, "shops.movements")
    rows = table.scan().to_arrow().to_pylist()
    assert sorted((r["sale_id"], r["kind"], r["shop"], r["amount"]) for r in rows) == [
        (1, "return", "Bern", Decimal("-9.95")),
        (1, "sale", "Bern", Decimal("19.90")),
        (2, "sale", "Bern", Decimal("4.50")),
        (3, "return", "Basel", Decimal("-129.00")),
        (3, "sale", "Basel", Decimal("129.00")),
        (4, "sale", "Chur; Obere Gasse", Decimal("12.35")),
        (5, "sale", "Basel", Decimal("7.00")),
        (7, "sale", "Bern", Decimal("54.95")),
        (8, "sale", "Bern", Decimal("1.00")),
    ]
    assert [str(f.transform) for f in table.spec().fields] == ["day", "identity"]
    assert {Path(r["source_file"]).name for r in rows if r["sale_id"] == 8} == {"2026-01-07.csv"}
