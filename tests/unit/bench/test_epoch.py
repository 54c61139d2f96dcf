import json
from collections import Counter
from dataclasses import dataclass, field
from decimal import Decimal

import pyarrow as pa
import pytest
from pyiceberg.catalog.sql import SqlCatalog

from benchmarks.epoch import SCRIPT, Measured, Orders, check, goals, parts_of, report
from icestream.config import Home
from icestream.engine import Engine
from icestream.observe.report import EpochReport


def row(image: dict) -> tuple:
    return image["customer_id"], image["status"], Decimal(str(image["price"]))


def test_the_model_is_what_the_records_say_one_by_one():
    orders = Orders.begin(100)
    rows = {}
    for key, value in orders.base():
        change = json.loads(value)
        assert change["op"] == "r"
        rows[json.loads(key)["id"]] = row(change["after"])
    assert rows == orders.rows
    for _ in range(50):
        changes = orders.changes()
        assert Counter(json.loads(value)["op"] for _, value in changes) == {"u": 3, "c": 1, "d": 1}
        assert len({key for key, _ in changes}) == 5
        for key, value in changes:
            id, change = json.loads(key)["id"], json.loads(value)
            assert rows.get(id) == (row(change["before"]) if change["before"] else None)
            if change["after"]:
                rows[id] = row(change["after"])
            else:
                del rows[id]
        assert rows == orders.rows
    joined = orders.joined()
    assert joined.keys() == rows.keys()
    for id, (customer, *_, count, spent) in joined.items():
        same = [each for each in rows.values() if each[0] == customer]
        assert (count, spent) == (len(same), sum(each[2] for each in same)), id


def test_the_table_of_the_sink_is_compared(tmp_path):
    orders = Orders.begin(100)
    warehouse = tmp_path / "lake" / "warehouse"
    warehouse.mkdir(parents=True)
    lake = SqlCatalog("lake", uri=f"sqlite:///{tmp_path}/catalog.db", warehouse=warehouse.as_uri())
    lake.create_namespace("bench")
    names = ("id", "customer_id", "status", "price", "orders", "spent")
    rows = [(id, *rest) for id, rest in orders.joined().items()]
    columns = dict(zip(names, map(list, zip(*rows, strict=True)), strict=True))
    columns["price"] = pa.array(columns["price"], pa.decimal128(12, 2))
    columns["spent"] = pa.array(columns["spent"], pa.decimal128(38, 10))
    content = pa.table(columns)
    table = lake.create_table(
        "bench.with_customer", content.schema, (warehouse / "bench" / "with_customer").as_uri()
    )
    table.append(content)
    check(tmp_path, orders)
    orders.changes()
    with pytest.raises(RuntimeError, match="the sink's table is wrong"):
        check(tmp_path, orders)


def test_the_script_binds(tmp_path):
    text = SCRIPT.format(topic="orders", bootstrap="localhost:9092")
    with Engine(Home.at(tmp_path), allow_paths=["/"]) as engine:
        names = [change.object.name for change in engine.plan(text)]
    assert names == ["orders", "by_customer", "by_status", "with_customer", "to_lake"]


def test_the_first_and_the_last_epochs_are_compared(tmp_path):
    measured = [Measured(1 + n / 100, 2, {"commit": 0.5}) for n in range(100)]
    (_, _, whole), (name, _, growth) = goals(measured)
    assert whole.startswith("1.50 s – reached") or whole.startswith("1.49 s – reached")
    assert name == "the last 50 epochs to the first 50, medians"
    assert growth == "1.40 × – **not reached**"
    report(tmp_path, 1000, measured)
    text = (tmp_path / "epoch.md").read_text()
    assert "| commit | 0.500 s | 0.500 s |" in text
    assert len(json.loads((tmp_path / "epoch.json").read_text())["seconds"]) == 100
    assert (tmp_path / "epoch.svg").read_text().startswith("<svg")


def test_a_report_of_few_epochs_is_made(tmp_path):
    assert "| all |" in report(tmp_path, 10, [Measured(1, 1)])


@dataclass
class Telling(EpochReport):
    spent: dict[str, float] = field(default_factory=dict)


def test_parts_are_what_a_report_tells_in_seconds():
    assert parts_of(EpochReport(1, 0.5, {"orders": 5}, {"orders": 5})) == {}
    assert parts_of(Telling(1, spent={"read": 0.25})) == {"read": 0.25}


@pytest.mark.parametrize("seed", [1, 2])
def test_changes_are_the_same_for_the_same_seed(seed):
    one, same = (Orders.begin(50, seed).changes() for _ in range(2))
    assert one == same
    assert one != Orders.begin(50, seed + 1).changes()
