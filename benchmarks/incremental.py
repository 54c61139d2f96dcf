"""A view kept up to date, against computing it again: a join with a group by over millions of rows.

    python -m benchmarks.incremental [--base 500000 5000000] [--shares 0.001 0.01 0.1] [--quick]
        [--results FOLDER] [--keep FOLDER]

Orders come as Debezium's changes from Kafka, customers from files. For each size of the base, the
engine takes it in, in a process of its own; then come changes of so many percent (updates, inserts,
deletes mixed), several times each. Each time one turn of the engine is timed until its commits are
done, then the view's query as a batch over the same Iceberg tables by Spark (in the very same
session) and by DuckDB; all three must give the same rows. Spark and DuckDB only fetch the result,
they need not store it. In the end, all is compared with the generated history.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field
from decimal import Decimal
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.changes import History, send, send_base
from benchmarks.chart import panels
from benchmarks.harness import RESULTS, ROOT, describe, machine
from benchmarks.metadata import newest_metadata
from icestream.config import Home
from icestream.dev.broker import Broker
from icestream.dev.duck import open_duckdb
from icestream.engine import Engine
from icestream.observe.report import EpochReport

TITLE = "A view kept up to date, against computing it again"
OURS, SPARK, DUCKDB = "icestream", "Spark again", "DuckDB again"
PARTITIONS = 2
CUSTOMERS = 100_000
REGIONS, TIERS = 50, ("basic", "silver", "gold", "platinum")
REPEATS = {0.001: 5, 0.01: 3, 0.1: 2}
MOVES = 10
"""Customers that change their tier, in a measurement of its own: all their orders change their group."""
FASTER, FLAT = 10.0, 1.5

TABLES = """\
CREATE TABLE orders (
  id BIGINT PRIMARY KEY,
  customer_id BIGINT,
  quantity INT,
  price NUMERIC(12, 2),
  status VARCHAR,
  note VARCHAR,
  updated_at TIMESTAMPTZ
) WITH (
  connector = 'kafka',
  topic = '{topic}',
  properties.bootstrap.server = '{bootstrap}',
  scan.startup.mode = 'earliest'
) FORMAT DEBEZIUM ENCODE JSON;

CREATE TABLE customers (
  id BIGINT PRIMARY KEY,
  region VARCHAR,
  tier VARCHAR
) WITH (
  connector = 'file',
  path = '{customers}',
  match_pattern = '*.parquet'
) FORMAT PLAIN ENCODE PARQUET;
"""
QUERY = """\
SELECT
  c.region,
  c.tier,
  CAST(o.updated_at AS DATE) AS day,
  count(*) AS orders,
  sum(o.quantity) AS items,
  sum(o.price) AS revenue,
  avg(o.price) AS mean
FROM {orders} AS o
JOIN {customers} AS c ON o.customer_id = c.id
GROUP BY c.region, c.tier, CAST(o.updated_at AS DATE)"""
COLUMNS = ("region", "tier", "day", "orders", "items", "revenue", "mean")

Rows = list[tuple[Any, ...]]


@dataclass(frozen=True)
class Measured:
    """One kind of change at one size of the base: every single time, by contender, in order."""

    base: int
    name: str
    changes: int
    seconds: Mapping[str, list[float]]

    @property
    def middle(self) -> dict[str, float]:
        """The medians."""
        return {name: median(times) for name, times in self.seconds.items() if times}


@dataclass(frozen=True)
class Size:
    """What was measured at one size of the base."""

    base: int
    load: float
    """Seconds that the engine took to take in the base and compute the view."""
    measured: list[Measured] = field(default_factory=list)


# -- one size --------------------------------------------------------------------------------------


class Bench:
    """An engine on a base of its own, and what is to be in its tables."""

    def __init__(self, engine: Engine, bootstrap: str, folder: Path, base: int) -> None:
        self.engine = engine
        self.bootstrap = bootstrap
        self.folder = folder
        self.base = base
        self.topic = f"orders-{base}"
        self.random = np.random.default_rng(1)
        self.tiers = self.random.integers(0, len(TIERS), CUSTOMERS)
        self.regions = self.random.integers(0, REGIONS, CUSTOMERS)
        self.history = History.begin(base)
        self.files = 0

    def load(self) -> float:
        """Makes the objects and takes in the base; the seconds of the engine's part."""
        send_base(self.bootstrap, self.topic, self.base, PARTITIONS)
        self._write_customers(np.arange(CUSTOMERS))
        begin = time.monotonic()
        tables = TABLES.format(
            topic=self.topic, bootstrap=self.bootstrap, customers=self.folder / "customers"
        )
        view = QUERY.format(orders="orders", customers="customers")
        self.engine.execute(f"{tables}\nCREATE MATERIALIZED VIEW revenue AS\n{view};\n")
        self._turn()
        return time.monotonic() - begin

    def change_orders(self, share: float, repeats: int) -> Measured:
        """Changes of that share of the base."""
        count = max(int(self.base * share), 1)

        def change() -> None:
            send(self.bootstrap, self.topic, self.history.batch(count), PARTITIONS)

        return self._measure(f"{share:.1%} of the orders", count, change, repeats)

    def move_customers(self, repeats: int) -> Measured:
        """Some customers change their tier."""

        def change() -> None:
            moved = self.random.choice(CUSTOMERS, MOVES, replace=False)
            self.tiers[moved] = (self.tiers[moved] + 1) % len(TIERS)
            self._write_customers(moved)

        return self._measure(f"{MOVES} customers", MOVES, change, repeats)

    def _measure(
        self, name: str, changes: int, change: Callable[[], None], repeats: int
    ) -> Measured:
        seconds: dict[str, list[float]] = {OURS: [], SPARK: [], DUCKDB: []}
        for _ in range(repeats):
            change()
            seconds[OURS].append(round(self._turn(), 3))
            for side, again in ((SPARK, self.by_spark), (DUCKDB, self.by_duckdb)):
                begin = time.monotonic()
                rows = again()
                seconds[side].append(round(time.monotonic() - begin, 3))
                compare(side, rows, self.view())
        found = Measured(self.base, name, changes, seconds)
        shown = ", ".join(f"{side} {value:.2f} s" for side, value in found.middle.items())
        print(f"[{self.base:,}] {name}: {shown}", file=sys.stderr, flush=True)
        return found

    def _turn(self) -> float:
        """Seconds until the last commit of all that is there now."""
        times = [time.monotonic()]

        def seen(report: EpochReport) -> None:
            times.append(time.monotonic())

        self.engine.run(threading.Event(), once=True, report=seen)
        if len(times) == 1:
            raise RuntimeError("there was no epoch: the changes have not arrived")
        return times[-1] - times[0]

    # -- the same rows, in other ways --------------------------------------------------------------

    def view(self) -> Rows:
        """The view's table, read by DuckDB."""
        return self._duckdb(f"SELECT {', '.join(COLUMNS)} FROM {self._scan('revenue')}")

    def by_spark(self) -> Rows:
        """The view's query over the tables, as a batch in the engine's own session."""
        query = QUERY.format(orders="lake.public.orders", customers="lake.public.customers")
        return [tuple(row) for row in self.engine.spark.sql(query).collect()]

    def by_duckdb(self) -> Rows:
        """The same by DuckDB."""
        orders, customers = self._scan("orders"), self._scan("customers")
        return self._duckdb(QUERY.format(orders=orders, customers=customers))

    def by_history(self) -> Rows:
        """The same over what was generated: no table of the engine has a part in it."""
        history = self.history.write(self.folder / "expected.parquet")
        customers = self.folder / "customers.parquet"
        pq.write_table(self._customers(np.arange(CUSTOMERS)), customers)
        columns = "* REPLACE (price::DECIMAL(12, 2) AS price)"
        return self._duckdb(
            QUERY.format(orders=f"(SELECT {columns} FROM '{history}')", customers=f"'{customers}'")
        )

    def _scan(self, name: str) -> str:
        (metadata,) = self.engine.home.warehouse.glob(f"**/public/{name}/metadata")
        return f"iceberg_scan('{newest_metadata(metadata.parent)}')"

    def _duckdb(self, query: str) -> Rows:
        with open_duckdb(iceberg=True) as db:
            db.execute("SET TimeZone = 'UTC'")
            return db.execute(query).fetchall()

    # -- customers ---------------------------------------------------------------------------------

    def _customers(self, ids: np.typing.NDArray[np.int64]) -> pa.Table:
        tiers = np.array(TIERS)[self.tiers[ids]]
        regions = [f"region-{number:02d}" for number in self.regions[ids].tolist()]
        return pa.table({"id": ids, "region": regions, "tier": pa.array(tiers)})

    def _write_customers(self, ids: np.typing.NDArray[np.int64]) -> None:
        """A file of rows, under its final name once it is complete."""
        folder = self.folder / "customers"
        folder.mkdir(exist_ok=True)
        self.files += 1
        file = folder / f"{self.files}.tmp"
        pq.write_table(self._customers(ids), file)
        file.rename(folder / f"{self.files:04d}.parquet")


def compare(name: str, rows: Iterable[Sequence[Any]], view: Iterable[Sequence[Any]]) -> None:
    """Raises an error unless both are the same rows. Averages have as many digits as their engine gives."""
    theirs, ours = _by_group(rows), _by_group(view)
    if theirs.keys() != ours.keys():
        odd = sorted(theirs.keys() ^ ours.keys())
        raise RuntimeError(f"the view and {name} differ in {len(odd)} groups, such as {odd[0]}")
    for group, (*exact, mean) in theirs.items():
        *found, average = ours[group]
        if found != exact or abs(average - mean) > Decimal("1e-5"):
            raise RuntimeError(f"{group}: the view has {ours[group]}, {name} {theirs[group]}")


def _by_group(rows: Iterable[Sequence[Any]]) -> dict[tuple[str, str, str], tuple[Any, ...]]:
    return {
        (region, tier, str(day)): (
            int(orders),
            int(items),
            Decimal(str(revenue)).quantize(Decimal("0.01")),
            Decimal(str(mean)),
        )
        for region, tier, day, orders, items, revenue, mean in rows
    }


def measure(base: int, bootstrap: str, folder: Path, shares: Sequence[float]) -> Size:
    """All changes at one size of the base."""
    notice = lambda text: print(text, file=sys.stderr, flush=True)  # noqa: E731
    with Engine(Home.at(folder / "home"), notice=notice, allow_paths=["/"]) as engine:
        bench = Bench(engine, bootstrap, folder, base)
        found = Size(base, round(bench.load(), 3))
        compare(SPARK, bench.by_spark(), bench.view())
        bench.change_orders(min(shares), 1)  # warms all sides
        found.measured.extend(bench.change_orders(each, REPEATS.get(each, 2)) for each in shares)
        found.measured.append(bench.move_customers(3))
        compare("the history", bench.by_history(), bench.view())
    return found


# -- the report ------------------------------------------------------------------------------------


def goals(sizes: Sequence[Size]) -> list[tuple[str, str, str]]:
    """What was aimed at, and what came out."""

    def verdict(value: float, reached: bool) -> str:
        return f"{value:.2f} × – {'reached' if reached else '**not reached**'}"

    found = []
    largest = max(sizes, key=lambda size: size.base)
    least = largest.measured[0]
    ratio = least.middle[SPARK] / least.middle[OURS]
    found.append(
        (
            f"faster than Spark again, {least.name}, {largest.base:,} rows",
            f"≥ {FASTER:g} ×",
            verdict(ratio, ratio >= FASTER),
        )
    )
    smallest = min(sizes, key=lambda size: size.base)
    same = {each.changes: each for each in smallest.measured[:-1]}
    for each in largest.measured[:-1]:
        other = same.get(each.changes)
        if other is not None and largest is not smallest:
            growth = each.middle[OURS] / other.middle[OURS]
            name = f"{each.changes:,} changes at {largest.base:,} rows to {smallest.base:,}"
            found.append((name, f"≤ {FLAT:g} ×", verdict(growth, growth <= FLAT)))
    return found


def table(sizes: Sequence[Size]) -> list[str]:
    """All that was measured, as lines of Markdown."""
    lines = [
        f"| base | changed | changes | {OURS} | {SPARK} | | {DUCKDB} | | all seconds of {OURS} |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for size in sizes:
        for each in size.measured:
            ours, spark, other = (each.middle[name] for name in (OURS, SPARK, DUCKDB))
            times = " ".join(f"{value:.2f}" for value in each.seconds[OURS])
            lines.append(
                f"| {size.base:,} | {each.name} | {each.changes:,} | {ours:.2f} s "
                f"| {spark:.2f} s | {spark / ours:.1f} × | {other:.2f} s | {other / ours:.1f} × "
                f"| {times} |"
            )
    return lines


def report(results: Path, sizes: Sequence[Size]) -> str:
    """Writes incremental.json, .md and .svg, and returns the tables of the text."""
    results.mkdir(parents=True, exist_ok=True)
    here = machine()
    what = (
        f"Orders, a table with a key, joined with {CUSTOMERS:,} customers, grouped by region, tier and day "
        "with counts, sums and an average. Changes of orders (80 % updates, 15 % inserts, 5 % "
        f"deletes) come from Kafka; then {MOVES} customers move to another tier. Seconds from “the "
        "changes are there” to “the view's commit is done”, against the same query as a batch "
        "over the same Iceberg tables. All three have the same rows each time, and the history's in the end."
    )
    lines = ["| goal | aim | found |", "|---|---|---|"]
    lines += [f"| {' | '.join(each)} |" for each in goals(sizes)]
    lines += ["", *table(sizes), ""]
    lines += [
        f"Taking in {size.base:,} orders, with the view: {size.load:.1f} s "
        f"({size.base / size.load:,.0f} rows/s)."
        for size in sizes
    ]
    document = {
        "title": TITLE,
        "what": what,
        "machine": here,
        "goals": goals(sizes),
        "sizes": [asdict(size) for size in sizes],
    }
    (results / "incremental.json").write_text(json.dumps(document, indent=1) + "\n")
    charts = [
        (
            f"Seconds, {size.base:,} orders, {each.name}",
            [(n, median(t), min(t), max(t)) for n, t in each.seconds.items()],
        )
        for size in sizes
        for each in size.measured
    ]
    (results / "incremental.svg").write_text(panels(charts, {OURS}))
    head = [f"# {TITLE}", "", what, "", f"{describe(here)}; medians.", ""]
    picture = [f"![{TITLE}](incremental.svg)", ""]
    (results / "incremental.md").write_text("\n".join([*head, *picture, *lines]) + "\n")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description="A view's epochs against its recomputation.")
    parser.add_argument("--base", type=int, nargs="+", default=[500_000, 5_000_000])
    parser.add_argument("--shares", type=float, nargs="+", default=list(REPEATS))
    parser.add_argument("--quick", action="store_true", help="5,000 and 50,000 rows")
    parser.add_argument("--results", type=Path, help="folder of the report")
    parser.add_argument("--keep", type=Path, help="folder for tables and logs, kept")
    parser.add_argument("--at", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.at:
        (base,) = args.base
        print(json.dumps(asdict(measure(base, args.at, args.keep, args.shares))), flush=True)
        return
    if args.quick:
        args.base = [5_000, 50_000]
    quick = Path(tempfile.gettempdir()) / "incremental"
    results = args.results or (quick if args.quick else RESULTS)
    sizes = []
    with ExitStack() as stack:
        name = stack.enter_context(tempfile.TemporaryDirectory(prefix="icestream-bench-"))
        folder = (args.keep or Path(name)).absolute()
        broker = stack.enter_context(Broker(folder / "kafka", heap="1g"))
        for base in args.base:
            place = folder / str(base)
            place.mkdir(parents=True)
            sizes.append(_apart(base, broker.bootstrap, place, args.shares))
    print(report(results, sizes))
    print(f"report: {results / 'incremental.md'}")


def _apart(base: int, bootstrap: str, folder: Path, shares: Sequence[float]) -> Size:
    """One size in a process of its own: every size begins with a new JVM."""
    command = [sys.executable, "-m", "benchmarks.incremental", "--at", bootstrap]
    words = ["--base", base, "--keep", folder, "--shares", *shares]
    done = subprocess.run(
        [*command, *map(str, words)], stdout=subprocess.PIPE, cwd=ROOT, text=True, check=True
    )
    found = json.loads(done.stdout.splitlines()[-1])
    return Size(found["base"], found["load"], [Measured(**each) for each in found["measured"]])


if __name__ == "__main__":
    main()
