"""The floor of an epoch: five objects and five changed rows, again and again.

    python -m benchmarks.epoch [--epochs 200 | --long] [--rows 1000] [--results FOLDER] [--keep FOLDER]

A table of orders, two aggregates over it, a join of the table with one of them, and a sink of that
join into an Iceberg table. Five changes (three updates, an insert, a delete) go into a topic of one
partition; the clock runs from there until the epoch's commits are done, in an engine that stays
open. The rest of the turn (looking for more, housekeeping) is told apart. In the end the sink's
table is compared with the rows that the changes leave behind.
"""

from __future__ import annotations

import argparse
import json
import random
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, fields
from decimal import Decimal
from pathlib import Path
from statistics import median, quantiles
from typing import Any

from benchmarks.chart import panels
from benchmarks.harness import RESULTS, describe, machine
from benchmarks.metadata import newest_metadata
from icestream.config import Home
from icestream.dev.broker import Broker
from icestream.dev.duck import open_duckdb
from icestream.engine import Engine
from icestream.observe.report import EpochReport
from tests.services.kafka import create_topic, produce

TITLE = "The floor of an epoch"
TOPIC = "orders"
CHANGES = ("update", "update", "update", "insert", "delete")
STATES = ("new", "paid", "packed", "shipped", "delivered")
ORDERS_OF_A_CUSTOMER = 10
WINDOW = 50
"""Epochs at the beginning and at the end that are compared."""
AIM, FLAT = 2.0, 1.25

SCRIPT = """\
CREATE TABLE orders (
  id BIGINT PRIMARY KEY,
  customer_id BIGINT,
  status VARCHAR,
  price NUMERIC(12, 2)
) WITH (
  connector = 'kafka',
  topic = '{topic}',
  properties.bootstrap.server = '{bootstrap}',
  scan.startup.mode = 'earliest'
) FORMAT DEBEZIUM ENCODE JSON;

CREATE MATERIALIZED VIEW by_customer AS
SELECT customer_id, count(*) AS orders, sum(price) AS spent
FROM orders
GROUP BY customer_id;

CREATE MATERIALIZED VIEW by_status AS
SELECT status, count(*) AS orders, max(price) AS highest
FROM orders
GROUP BY status;

CREATE MATERIALIZED VIEW with_customer AS
SELECT o.id, o.customer_id, o.status, o.price, c.orders, c.spent
FROM orders AS o
JOIN by_customer AS c ON o.customer_id = c.customer_id;

CREATE SINK to_lake FROM with_customer WITH (
  connector = 'iceberg',
  type = 'upsert',
  primary_key = 'id',
  database.name = 'bench',
  table.name = 'with_customer',
  create_table_if_not_exists = 'true',
  commit_checkpoint_interval = 1
);
"""

Row = tuple[int, str, Decimal]
"""Customer, status and price of an order."""


@dataclass
class Orders:
    """The rows that the changes leave behind, by id."""

    rows: dict[int, Row]
    customers: int
    random: random.Random
    next: int = 0

    @classmethod
    def begin(cls, count: int, seed: int = 1) -> Orders:
        """A table with the ids 0 to count − 1."""
        customers = max(count // ORDERS_OF_A_CUSTOMER, 1)
        orders = cls({}, customers, random.Random(seed))
        for _ in range(count):
            orders._insert()
        return orders

    def base(self) -> Iterator[tuple[str, str]]:
        """All rows, as Debezium's snapshot reads them."""
        for id, row in self.rows.items():
            yield _record(id, None, row, "r")

    def changes(self) -> list[tuple[str, str]]:
        """The next five changes, each of another row."""
        chosen = iter(self.random.sample(sorted(self.rows), len(CHANGES)))
        return [self._change(kind, next(chosen)) for kind in CHANGES]

    def _change(self, kind: str, id: int) -> tuple[str, str]:
        if kind == "insert":
            id = self._insert()
            return _record(id, None, self.rows[id], "c")
        before = self.rows.pop(id)
        if kind == "delete":
            return _record(id, before, None, "d")
        self.rows[id] = self._row()
        return _record(id, before, self.rows[id], "u")

    def _insert(self) -> int:
        id, self.next = self.next, self.next + 1
        self.rows[id] = self._row()
        return id

    def _row(self) -> Row:
        price = Decimal(self.random.randrange(100, 100_000)) / 100
        return self.random.randrange(self.customers), self.random.choice(STATES), price

    def joined(self) -> dict[int, tuple[Any, ...]]:
        """What the join must have for each order."""
        count: dict[int, int] = {}
        spent: dict[int, Decimal] = {}
        for customer, _, price in self.rows.values():
            count[customer] = count.get(customer, 0) + 1
            spent[customer] = spent.get(customer, Decimal(0)) + price
        return {id: (*row, count[row[0]], spent[row[0]]) for id, row in self.rows.items()}


def _record(id: int, before: Row | None, after: Row | None, op: str) -> tuple[str, str]:
    def image(row: Row | None) -> dict[str, Any] | None:
        if row is None:
            return None
        customer, status, price = row
        return {"id": id, "customer_id": customer, "status": status, "price": float(price)}

    value = {"before": image(before), "after": image(after), "op": op}
    return json.dumps({"id": id}), json.dumps(value)


@dataclass(frozen=True)
class Measured:
    """One epoch: seconds until its commits were done, of the whole turn, and of its parts if they are told."""

    seconds: float
    turn: float
    parts: Mapping[str, float] = field(default_factory=dict)


def parts_of(report: EpochReport) -> dict[str, float]:
    """The seconds that a report tells beside the whole: its fields that map names to such numbers."""
    found: dict[str, float] = {}
    for item in fields(report):
        value = getattr(report, item.name)
        if isinstance(value, Mapping):
            found |= {name: each for name, each in value.items() if isinstance(each, float)}
    return found


def run(engine: Engine) -> Measured:
    """One turn of the engine. It must make one epoch."""
    reports: list[EpochReport] = []
    times = [time.monotonic()]

    def seen(report: EpochReport) -> None:
        reports.append(report)
        times.append(time.monotonic())

    engine.run(threading.Event(), once=True, report=seen)
    turn = time.monotonic() - times[0]
    if not reports:
        raise RuntimeError("there was no epoch: the changes have not arrived")
    parts: dict[str, float] = {}
    for report in reports:
        for name, seconds in parts_of(report).items():
            parts[name] = parts.get(name, 0) + seconds
    return Measured(times[-1] - times[0], turn, parts)


def measure(bootstrap: str, folder: Path, rows: int, epochs: int) -> list[Measured]:
    """All epochs, in order, after one that takes in the base."""
    orders = Orders.begin(rows)
    create_topic(bootstrap, TOPIC, 1)
    produce(bootstrap, TOPIC, orders.base(), partition=0)
    home = folder / "home"
    found: list[Measured] = []
    with Engine(
        Home.at(home), notice=lambda text: print(text, flush=True), allow_paths=["/"]
    ) as engine:
        engine.execute(SCRIPT.format(topic=TOPIC, bootstrap=bootstrap))
        engine.open()
        print(f"the base took {run(engine).seconds:.2f} s", flush=True)
        for number in range(1, epochs + 1):
            produce(bootstrap, TOPIC, orders.changes(), partition=0)
            found.append(run(engine))
            if number % 10 == 0:
                last = [each.seconds for each in found[-10:]]
                print(f"epoch {number}: {median(last):.2f} s, median of ten", flush=True)
    check(home, orders)
    return found


def check(home: Path, orders: Orders) -> None:
    """Compares the sink's table, read by DuckDB, with the model."""
    (metadata,) = (home / "lake" / "warehouse").glob("**/bench/with_customer/metadata")
    with open_duckdb(iceberg=True) as db:
        place = newest_metadata(metadata.parent)
        found = db.execute(
            "SELECT id, customer_id, status, price, orders, spent "
            f"FROM iceberg_scan('{place}') ORDER BY id"
        ).fetchall()
    expected = [(id, *rest) for id, rest in sorted(orders.joined().items())]
    if found != expected:
        wrong = [pair for pair in zip(found, expected, strict=False) if pair[0] != pair[1]]
        first = wrong[0] if wrong else (len(found), len(expected))
        raise RuntimeError(f"the sink's table is wrong: found, expected: {first}")


# -- the report ------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Span:
    """The middle and the slow end of some epochs, in seconds."""

    name: str
    p50: float
    p95: float
    turn_p50: float
    turn_p95: float

    @classmethod
    def of(cls, name: str, measured: Sequence[Measured]) -> Span:
        """Over these epochs."""
        seconds, turns = [m.seconds for m in measured], [m.turn for m in measured]
        return cls(name, median(seconds), p95(seconds), median(turns), p95(turns))


def p95(values: Sequence[float]) -> float:
    """What nineteen of twenty do not exceed."""
    return quantiles(values, n=20, method="inclusive")[-1] if len(values) > 1 else values[0]


def spans(measured: Sequence[Measured]) -> list[Span]:
    """All epochs, the first and the last ones."""
    size = min(WINDOW, len(measured) // 2 or 1)
    return [
        Span.of("all", measured),
        Span.of(f"first {size}", measured[:size]),
        Span.of(f"last {size}", measured[-size:]),
    ]


def goals(measured: Sequence[Measured]) -> list[tuple[str, str, str]]:
    """What was aimed at, and what came out."""
    whole, first, last = spans(measured)
    growth = last.p50 / first.p50

    def verdict(text: str, reached: bool) -> str:
        return f"{text} – {'reached' if reached else '**not reached**'}"

    return [
        ("an epoch, median", f"≤ {AIM:g} s", verdict(f"{whole.p50:.2f} s", whole.p50 <= AIM)),
        (
            f"the {last.name} epochs to the {first.name}, medians",
            f"≤ {FLAT:g} ×",
            verdict(f"{growth:.2f} ×", growth <= FLAT),
        ),
    ]


def report(results: Path, rows: int, measured: Sequence[Measured]) -> str:
    """Writes epoch.json, .md and .svg, and returns the tables of the text."""
    results.mkdir(parents=True, exist_ok=True)
    here = machine()
    what = (
        f"A table of {rows:,} rows from Kafka (Debezium's JSON), two aggregates over it, its join with "
        f"one of them ({ORDERS_OF_A_CUSTOMER} orders a customer) and an upsert sink of the join; "
        f"{len(CHANGES)} changed rows an epoch, {len(measured):,} epochs. Seconds from “the changes are "
        "in the topic” to “all commits are done”; a turn also looks for more and keeps house. The "
        "sink's table was read by DuckDB and equals the model."
    )
    lines = ["| goal | aim | found |", "|---|---|---|"]
    lines += [f"| {' | '.join(each)} |" for each in goals(measured)]
    lines += ["", "| epochs | p50 | p95 | turn p50 | turn p95 |", "|---|---|---|---|---|"]
    for span in spans(measured):
        values = (span.p50, span.p95, span.turn_p50, span.turn_p95)
        lines.append(f"| {span.name} | {' | '.join(f'{each:.2f} s' for each in values)} |")
    names = sorted({name for each in measured for name in each.parts})
    if names:
        lines += ["", "| where the time goes | p50 | p95 |", "|---|---|---|"]
        for name in names:
            times = [each.parts.get(name, 0.0) for each in measured]
            lines.append(f"| {name} | {median(times):.3f} s | {p95(times):.3f} s |")
    document = {
        "title": TITLE,
        "what": what,
        "machine": here,
        "goals": goals(measured),
        "seconds": [round(each.seconds, 4) for each in measured],
        "turns": [round(each.turn, 4) for each in measured],
        "parts": {n: [round(m.parts.get(n, 0.0), 4) for m in measured] for n in names},
    }
    (results / "epoch.json").write_text(json.dumps(document, indent=1) + "\n")
    bars = [(s.name, s.p50, s.p50, s.p95) for s in spans(measured)]
    (results / "epoch.svg").write_text(panels([("Seconds an epoch, p50 to p95", bars)], {"all"}))
    head = [f"# {TITLE}", "", what, "", f"{describe(here)}.", "", f"![{TITLE}](epoch.svg)", ""]
    (results / "epoch.md").write_text("\n".join([*head, *lines]) + "\n")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description="What an epoch of five changed rows takes.")
    parser.add_argument("--epochs", type=int, default=200)
    parser.add_argument("--long", action="store_true", help="1,000 epochs")
    parser.add_argument("--rows", type=int, default=1_000, help="rows of the table")
    parser.add_argument("--results", type=Path, default=RESULTS)
    parser.add_argument("--keep", type=Path, help="folder for the home and the topic, kept")
    args = parser.parse_args()
    epochs = 1_000 if args.long else args.epochs
    with ExitStack() as stack:
        name = stack.enter_context(tempfile.TemporaryDirectory(prefix="icestream-bench-"))
        folder = (args.keep or Path(name)).absolute()
        broker = stack.enter_context(Broker(folder / "kafka"))
        measured = measure(broker.bootstrap, folder, args.rows, epochs)
    print(report(args.results, args.rows, measured))
    print(f"report: {args.results / 'epoch.md'}")


if __name__ == "__main__":
    main()
