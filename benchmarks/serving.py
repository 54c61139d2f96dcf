"""Look-ups and small aggregates on a view of a million rows, while it takes in changes.

    python -m benchmarks.serving [--rows 1000000] [--rounds 200] [--batch 1000] [--results FOLDER] [--keep FOLDER]

A view of one row a customer is filled from a Parquet file; then a file of new orders comes every
second. Meanwhile a client asks the server (psycopg, PostgreSQL's protocol) for one customer, and for
the totals of a few hundred; then the same query goes to Spark SQL directly, in the same session, and to
DuckDB's Iceberg extension, both at the snapshot of the newest complete epoch. The three take
turns. Where the epoch was the same for all of them, their rows must be equal; that must be so in
most rounds.
"""

from __future__ import annotations

import argparse
import json
import random
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median, quantiles
from typing import Any

import numpy as np
import psycopg
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.chart import panels
from benchmarks.harness import RESULTS, describe, machine
from icestream.config import EngineSettings, Home
from icestream.dev.duck import open_duckdb
from icestream.engine import Engine
from icestream.lake.listing import Listing
from icestream.lake.stamp import ObjectAt
from icestream.server.listener import Listener
from icestream.server.service import Service

TITLE = "Queries on a view while it takes in changes"
OURS, SPARK, DUCKDB = "icestream serve", "Spark SQL", "DuckDB iceberg_scan"
REGIONS = 500
CHECKED = 0.5
"""The share of rounds in which all three must have seen the same epoch."""
AIMS = {"look-up": 50.0, "aggregate": 300.0}
"""Milliseconds, the median of our own."""

SCRIPT = """\
CREATE SOURCE orders (
  id BIGINT,
  customer BIGINT,
  region INT,
  price NUMERIC(12, 2),
  at TIMESTAMP
) WITH (
  connector = 'file',
  path = '{path}',
  match_pattern = '*.parquet'
) FORMAT PLAIN ENCODE PARQUET;

CREATE MATERIALIZED VIEW by_customer AS
SELECT customer, region, count(*) AS orders, sum(price) AS spent, max(at) AS latest
FROM orders
GROUP BY customer, region;
"""
QUERIES = {
    "look-up": "SELECT customer, region, orders, spent, latest FROM {view} WHERE customer = {customer}",
    "aggregate": (
        "SELECT region, count(*) AS customers, sum(orders) AS orders, sum(spent) AS spent FROM {view} "
        "WHERE region BETWEEN {region} AND {region} + 9 GROUP BY region ORDER BY region"
    ),
}

Rows = list[tuple[Any, ...]]


@dataclass
class Orders:
    """Writes orders: first one of each customer, then any."""

    folder: Path
    customers: int
    random: np.random.Generator = field(default_factory=lambda: np.random.default_rng(1))
    files: int = 0
    next: int = 0

    def base(self) -> None:
        """An order of every customer."""
        self._write(self.random.permutation(self.customers))

    def more(self, count: int) -> None:
        """Orders of some customers, and of one in twenty that is new."""
        self._write(self.random.integers(0, self.customers + self.customers // 20, count))

    def _write(self, customers: Any) -> None:
        count = len(customers)
        cents = self.random.integers(100, 100_000, count)
        moments = self.random.integers(0, 10**15, count) + 10**15
        ids = np.arange(self.next, self.next + count)
        rows = pa.table(
            {
                "id": ids,
                "customer": customers.astype("int64"),
                "region": (customers % REGIONS).astype("int32"),
                "price": _money(cents),
                "at": pa.array(moments, pa.timestamp("us")),
            }
        )
        self.files, self.next = self.files + 1, self.next + count
        file = self.folder / f"{self.files:06}.parquet"
        pq.write_table(rows, file.with_suffix(".tmp"))
        file.with_suffix(".tmp").rename(file)


def _money(cents: Any) -> pa.Array:
    """Cents as numbers with two digits after the point: 128 bits each."""
    bits = np.column_stack([cents, np.zeros_like(cents)]).tobytes()
    return pa.Array.from_buffers(pa.decimal128(12, 2), len(cents), [None, pa.py_buffer(bits)])


class Bench:
    """A served engine, and the two that read its tables directly."""

    def __init__(self, engine: Engine, client: psycopg.Connection[Any]) -> None:
        self.engine = engine
        self.client = client
        self.listing = Listing(engine.home)
        self.duckdb = open_duckdb(iceberg=True, threads=2)

    def at(self) -> ObjectAt:
        """Where the view stands at the newest complete epoch."""
        record = self.listing.record()
        assert record is not None
        return next(at for key, at in record.objects.items() if key.startswith("by_customer#"))

    def contenders(self) -> dict[str, Callable[[str, Mapping[str, int]], Rows]]:
        """What each of them makes of a query and its parameters."""
        return {OURS: self._ours, SPARK: self._spark, DUCKDB: self._duckdb}

    def _ours(self, query: str, values: Mapping[str, int]) -> Rows:
        return self.client.execute(query.format(view="by_customer", **values)).fetchall()  # type: ignore[call-overload, no-any-return]

    def _spark(self, query: str, values: Mapping[str, int]) -> Rows:
        at = self.at()
        text = query.format(view=f"{at.table} VERSION AS OF {at.snapshot}", **values)
        return [tuple(row) for row in self.engine.spark.sql(text).collect()]

    def _duckdb(self, query: str, values: Mapping[str, int]) -> Rows:
        at = self.at()
        assert at.table is not None
        _, namespace, name = at.table.split(".", 2)
        location = (self.listing.location(namespace, name) or "").removeprefix("file:")
        scan = f"iceberg_scan('/{location.lstrip('/')}', snapshot_from_id = {at.snapshot})"
        return self.duckdb.execute(query.format(view=scan, **values)).fetchall()


@dataclass
class Measured:
    """Milliseconds of one kind of query, by contender, in order; and how much of it was compared."""

    kind: str
    times: dict[str, list[float]] = field(default_factory=dict)
    checked: int = 0


def measure(bench: Bench, rows: int, rounds: int) -> list[Measured]:
    """All queries, in turns."""
    found = {kind: Measured(kind) for kind in QUERIES}
    r = random.Random(2)
    for number in range(rounds + 5):  # the first ones warm up
        for kind, query in QUERIES.items():
            values = {"customer": r.randrange(rows), "region": r.randrange(REGIONS - 10)}
            before, answers = bench.at().snapshot, []
            for name, ask in bench.contenders().items():
                began = time.perf_counter()
                answers.append(ask(query, values))
                elapsed = (time.perf_counter() - began) * 1000
                if number >= 5:
                    found[kind].times.setdefault(name, []).append(elapsed)
            if bench.at().snapshot == before:
                found[kind].checked += number >= 5
                if any(answer != answers[0] for answer in answers):
                    raise RuntimeError(f"{kind} {values}: {answers}")
    for each in found.values():
        if each.checked < CHECKED * rounds:
            raise RuntimeError(f"{each.kind}: only {each.checked} of {rounds} rounds were compared")
    return list(found.values())


@contextmanager
def ingesting(orders: Orders, batch: int) -> Iterator[None]:
    """A file of new orders a second."""
    stop = threading.Event()

    def write() -> None:
        while not stop.wait(1.0):
            orders.more(batch)

    thread = threading.Thread(target=write, daemon=True)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()


def run(folder: Path, rows: int, rounds: int, batch: int) -> tuple[list[Measured], int]:
    """Fill the view, then ask while it goes on. Gives what was measured, and the epochs of that time."""
    (folder / "orders").mkdir(parents=True)
    orders = Orders(folder / "orders", rows)
    orders.base()
    with ExitStack() as stack:
        engine = stack.enter_context(
            Engine(Home.at(folder / "home"), EngineSettings(), allow_paths=["/"])
        )
        service = Service(engine)
        service.start()
        stack.callback(service.stop)
        listener = stack.enter_context(Listener(service, port=0))
        host, port = listener.address
        url = f"host={host} port={port} user=root dbname=dev"
        client = stack.enter_context(psycopg.connect(url, autocommit=True))
        client.execute(SCRIPT.format(path=folder / "orders"))  # type: ignore[call-overload]
        client.execute("FLUSH")
        stack.enter_context(ingesting(orders, batch))
        bench = Bench(engine, client)
        first = bench.listing.record()
        measured = measure(bench, rows, rounds)
        last = bench.listing.record()
        assert first is not None
        assert last is not None
        return measured, last.epoch - first.epoch


def p99(values: Sequence[float]) -> float:
    """What ninety-nine of a hundred do not exceed."""
    return quantiles(values, n=100, method="inclusive")[-1] if len(values) > 1 else values[0]


def report(results: Path, rows: int, batch: int, measured: Sequence[Measured], epochs: int) -> str:
    """Writes serving.json, .md and .svg, and returns the tables of the text."""
    results.mkdir(parents=True, exist_ok=True)
    here = machine()
    rounds = len(measured[0].times[OURS])
    what = (
        f"A view of {rows:,} customers over a source that gets {batch:,} orders a second: {rounds:,} rounds in "
        f"which a client of the server, Spark SQL and DuckDB's Iceberg extension ask the same, one after the other, "
        f"during {epochs:,} epochs. Milliseconds from the query to all of its rows. Rows were compared in "
        f"{', '.join(f'{m.checked} rounds ({m.kind})' for m in measured)}; in the others an epoch came in between."
    )
    lines = ["| goal | aim | found |", "|---|---|---|"]
    for each in measured:
        ours = median(each.times[OURS])
        verdict = "reached" if ours <= AIMS[each.kind] else "**not reached**"
        lines.append(
            f"| {each.kind}, median | ≤ {AIMS[each.kind]:g} ms | {ours:.1f} ms – {verdict} |"
        )
    lines += ["", "| query | who | p50 | p99 | to ours |", "|---|---|---|---|---|"]
    for each in measured:
        ours = median(each.times[OURS])
        for name, times in each.times.items():
            p50 = median(times)
            lines.append(
                f"| {each.kind} | {name} | {p50:.1f} ms | {p99(times):.1f} ms | {p50 / ours:.1f} × |"
            )
    document = {
        "title": TITLE,
        "what": what,
        "machine": here,
        "epochs": epochs,
        "milliseconds": {
            m.kind: {name: [round(t, 2) for t in times] for name, times in m.times.items()}
            for m in measured
        },
    }
    (results / "serving.json").write_text(json.dumps(document, indent=1) + "\n")
    charts = [
        (
            f"Milliseconds a {m.kind}, median to p99",
            [(name, median(ts), median(ts), p99(ts)) for name, ts in m.times.items()],
        )
        for m in measured
    ]
    (results / "serving.svg").write_text(panels(charts, {OURS}))
    head = [f"# {TITLE}", "", what, "", f"{describe(here)}.", "", f"![{TITLE}](serving.svg)", ""]
    (results / "serving.md").write_text("\n".join([*head, *lines]) + "\n")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description="What queries take while a view takes in changes.")
    parser.add_argument("--rows", type=int, default=1_000_000, help="rows of the view")
    parser.add_argument("--rounds", type=int, default=200)
    parser.add_argument("--batch", type=int, default=1_000, help="orders a second")
    parser.add_argument("--results", type=Path, default=RESULTS)
    parser.add_argument("--keep", type=Path, help="folder for the home, kept")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="icestream-bench-") as name:
        folder = (args.keep or Path(name)).absolute()
        measured, epochs = run(folder, args.rows, args.rounds, args.batch)
    print(report(args.results, args.rows, args.batch, measured, epochs))
    print(f"report: {args.results / 'serving.md'}")


if __name__ == "__main__":
    main()
