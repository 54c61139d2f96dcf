"""The pipelines of the fault matrix. Each creates objects, gives them work, and knows what they must hold: what DuckDB or a
dictionary makes of the source's content. None of it comes from the engine."""

from __future__ import annotations

import copy
import itertools
import json
import random
import threading
from collections import Counter
from collections.abc import Callable

import duckdb
import psycopg
from pyiceberg.catalog.rest import RestCatalog

from icestream.dev.duck import open_duckdb
from tests.engine import lake_table
from tests.faults.world import World

Row = tuple[object, ...]

EPOCH_POINTS = (
    "recovering", "recovery-fenced", "ranges-chosen", "files-written", "commit-sent", "first-table-committed",
    "tables-committed", "log-committed",
)  # fmt: skip
KEYED_POINTS = ("runs-written", "index-covered")
DML_POINTS = ("dml-written", "dml-logged")

KAFKA = "connector = 'kafka', topic = '{topic}', properties.bootstrap.server = '{bootstrap}'"


class Pipeline:
    """One row of the matrix."""

    name = ""
    objects: str = ""
    """Statements that create the objects."""
    last = ""
    """The table or view whose content a sink on another catalog takes."""

    calm = ""
    """A table that no statement changes during the fault, where `last` is one that statements change."""

    streams: tuple[str, ...] = ()
    """Sources and tables that read the topic, each with the kind of its ALTER statement."""
    points: tuple[str, ...] = EPOCH_POINTS
    """The fault points that a server with this work comes by."""
    model: tuple[str, ...] = ()
    """Attributes that say what the tables must hold."""

    def __init__(self, world: World, seed: int) -> None:
        self.world = world
        self.random = random.Random(seed)
        self.has_remote = False

    def create(self) -> None:
        kafka = KAFKA.format(topic=self.world.topic, bootstrap=self.world.bootstrap)
        statements = self.objects.replace("{kafka}", kafka).split(";")
        self.world.execute(*(s for s in statements if s.strip()))

    def create_remote_sink(self, port: int) -> None:
        """Copy the last object to a table of a REST catalog."""
        self.has_remote = True
        self.world.execute(
            f"""CREATE SINK remote FROM {self.last} WITH (
              connector = 'iceberg', type = 'upsert', primary_key = 'id', database.name = 'out', table.name = 'remote',
              create_table_if_not_exists = 'true', commit_checkpoint_interval = 1, catalog.type = 'rest',
              catalog.uri = 'http://127.0.0.1:{port}')"""
        )

    def stream(self) -> None:
        """Send a round of records to the topic."""
        raise NotImplementedError

    def work(self) -> None:
        """A round of changes. May be broken off by a fault; `expected` knows what has been done then."""
        self.stream()

    def lose_records(self) -> None:
        """Send records that are lost before they are read."""
        before = {name: copy.deepcopy(getattr(self, name)) for name in self.model}
        self.stream()
        for name, value in before.items():
            setattr(self, name, value)

    def reset_streams(self) -> None:
        """Go on behind what was lost."""
        self.world.execute(*(f"ALTER {stream} RESET" for stream in self.streams))

    def expected(self) -> dict[str, Counter[Row]]:
        """Rows by the table or view that must hold them."""
        raise NotImplementedError

    def check(self) -> None:
        """All tables are as expected, read by the server and from the files by PyIceberg."""
        self.world.execute("SET statement_timeout = '60s'", "FLUSH")
        for name, rows in self.expected().items():
            columns = ", ".join(self.columns(name))
            found = Counter(self.world.query(f"SELECT {columns} FROM {name}"))
            assert found == rows, f"{name}: {describe_difference(found, rows)}"
            files = lake_table(self.world.home, f"public.{name}").scan().to_arrow()
            listed = zip(*(files[c].to_pylist() for c in self.columns(name)), strict=True)
            stored = Counter(tuple(map(plain, row)) for row in listed)
            wanted = Counter(tuple(map(plain, row)) for row in rows.elements())
            assert stored == wanted, f"files of {name}: {describe_difference(stored, wanted)}"
            if self.has_remote and name == self.last:
                self.check_remote(wanted)

    def check_remote(self, wanted: Counter[Row]) -> None:
        """The table of the REST catalog holds the same rows."""
        assert self.world.rest is not None
        catalog = RestCatalog("rest", uri=self.world.rest.uri)
        files = catalog.load_table("out.remote").scan().to_arrow()
        listed = zip(*(files[c].to_pylist() for c in self.columns(self.last)), strict=True)
        stored = Counter(tuple(map(plain, row)) for row in listed)
        assert stored == wanted, f"the REST catalog: {describe_difference(stored, wanted)}"

    def columns(self, name: str) -> tuple[str, ...]:
        raise NotImplementedError


def plain(value: object) -> object:
    """A value as PyIceberg and psycopg both give it: numerics as whole numbers."""
    return int(value) if value is not None and not isinstance(value, str) else value  # type: ignore[call-overload]


def describe_difference(found: Counter[Row], wanted: Counter[Row]) -> str:
    missing, extra = wanted - found, found - wanted
    return (
        f"{missing.total()} rows missing {list(missing)[:3]}, {extra.total()} too many "
        f"{list(extra)[:3]}, of {wanted.total()}"
    )


class Append(Pipeline):
    """Events with one record in each round that does not decode."""

    name = "append"
    last = "latest"
    objects = """
    CREATE SOURCE events (id BIGINT, name VARCHAR) WITH ({kafka}) FORMAT PLAIN ENCODE JSON;
    CREATE TABLE kept (id BIGINT, name VARCHAR) WITH ({kafka}) FORMAT PLAIN ENCODE JSON;
    CREATE MATERIALIZED VIEW latest AS SELECT id, name FROM events WHERE id % 3 = 0;
    """
    streams = ("SOURCE events", "TABLE kept")
    model = ("sent", "broken")
    sent = 0
    broken = 0

    def stream(self) -> None:
        numbers = range(self.sent, self.sent + 150)
        records = [(str(i), json.dumps({"id": i, "name": f"n{i}"})) for i in numbers]
        self.world.produce([*records, ("x", "{broken")])
        self.sent += 150
        self.broken += 1

    def expected(self) -> dict[str, Counter[Row]]:
        rows = [(i, f"n{i}") for i in range(self.sent)]
        return {"kept": Counter(rows), "latest": Counter(r for r in rows if r[0] % 3 == 0)}

    def columns(self, name: str) -> tuple[str, ...]:
        return ("id", "name")

    def check(self) -> None:
        super().check()
        ((letters,),) = self.world.query("SELECT count(*) FROM dead_letters.kept")
        assert letters == self.broken, f"{letters} dead letters, not {self.broken}"


class Upsert(Pipeline):
    """Debezium's change events: creates, updates, deletes with tombstones, changed keys (a delete and a create)."""

    name = "upsert"
    last = "state"
    objects = """
    CREATE TABLE state (id BIGINT, name VARCHAR, v INT, PRIMARY KEY (id)) WITH ({kafka}) FORMAT DEBEZIUM ENCODE JSON;
    """
    streams = ("TABLE state",)
    points = (*EPOCH_POINTS, *KEYED_POINTS, "vectors-written")
    model = ("rows",)

    def __init__(self, world: World, seed: int) -> None:
        super().__init__(world, seed)
        self.rows: dict[int, tuple[str, int]] = {}

    def stream(self) -> None:
        records: list[tuple[str, str | None]] = []
        for _ in range(150):
            id = self.random.randrange(80)
            old = self.rows.get(id)
            key = json.dumps({"id": id})
            before = None if old is None else {"id": id, "name": old[0], "v": old[1]}
            if old is not None and self.random.random() < 0.3:
                records.append((key, json.dumps({"op": "d", "before": before, "after": None})))
                records.append((key, None))
                del self.rows[id]
                if (moved := id + 80) in self.rows or self.random.random() < 0.5:
                    continue
                after = {"id": moved, "name": old[0], "v": old[1]}
                created = json.dumps({"op": "c", "before": None, "after": after})
                records.append((json.dumps({"id": moved}), created))
                self.rows[moved] = old
                continue
            new = (f"n{self.random.randrange(1000)}", self.random.randrange(100_000))
            after = {"id": id, "name": new[0], "v": new[1]}
            op = "c" if old is None else "u"
            records.append((key, json.dumps({"op": op, "before": before, "after": after})))
            self.rows[id] = new
        self.world.produce(records)

    def expected(self) -> dict[str, Counter[Row]]:
        return {"state": Counter((id, *row) for id, row in self.rows.items())}

    def columns(self, name: str) -> tuple[str, ...]:
        return ("id", "name", "v")


class Views(Pipeline):
    """Three chained views: an aggregate, its join with a table, an aggregate of that."""

    name = "views"
    last = "named"
    objects = """
    CREATE TABLE orders (id BIGINT, region INT, v INT, PRIMARY KEY (id)) WITH ({kafka}) FORMAT UPSERT ENCODE JSON;
    CREATE TABLE regions (region INT PRIMARY KEY, name VARCHAR, zone INT);
    INSERT INTO regions SELECT r, 'region ' || r, r % 3 FROM generate_series(0, 8) AS s(r);
    CREATE MATERIALIZED VIEW sums AS SELECT region AS id, count(*) AS n, sum(v) AS total FROM orders GROUP BY region;
    CREATE MATERIALIZED VIEW named AS SELECT s.id, r.name, r.zone, s.n, s.total FROM sums s JOIN regions r ON r.region = s.id;
    CREATE MATERIALIZED VIEW zones AS SELECT zone AS id, count(*) AS n, sum(total) AS total, max(n) AS most FROM named GROUP BY zone;
    """
    streams = ("TABLE orders",)
    points = (*EPOCH_POINTS, *KEYED_POINTS, "vectors-written", "delta-read")
    model = ("rows",)
    queries = {  # noqa: RUF012
        "sums": "SELECT region AS id, count(*) AS n, sum(v) AS total FROM orders GROUP BY region",
        "named": "SELECT s.id, r.name, r.zone, s.n, s.total FROM sums s JOIN regions r ON r.region = s.id",
        "zones": "SELECT zone AS id, count(*) AS n, sum(total) AS total, max(n) AS most FROM named GROUP BY zone",
    }

    def __init__(self, world: World, seed: int) -> None:
        super().__init__(world, seed)
        self.rows: dict[int, tuple[int, int]] = {}

    def stream(self) -> None:
        records: list[tuple[str, str | None]] = []
        for _ in range(150):
            id = self.random.randrange(120)
            key = json.dumps({"id": id})
            if self.random.random() < 0.2:
                self.rows.pop(id, None)
                records.append((key, None))
                continue
            self.rows[id] = (self.random.randrange(10), self.random.randrange(1000))
            region, v = self.rows[id]
            records.append((key, json.dumps({"id": id, "region": region, "v": v})))
        self.world.produce(records)

    def oracle(self) -> duckdb.DuckDBPyConnection:
        """DuckDB with the tables, and views with the texts of ours."""
        duck = open_duckdb()
        duck.execute("CREATE TABLE orders (id BIGINT, region INT, v INT)")
        if self.rows:
            rows = [(id, *row) for id, row in self.rows.items()]
            duck.executemany("INSERT INTO orders VALUES (?, ?, ?)", rows)
        duck.execute(
            "CREATE TABLE regions AS SELECT r::INT AS region, 'region ' || r AS name, (r % 3)::INT AS zone "
            "FROM generate_series(0, 8) AS s(r)"
        )
        for name, query in self.queries.items():
            duck.execute(f"CREATE VIEW {name} AS {query}")
        return duck

    def expected(self) -> dict[str, Counter[Row]]:
        duck = self.oracle()
        return {
            name: Counter(duck.execute(f"SELECT {', '.join(self.columns(name))} FROM {name}").fetchall())
            for name in ("orders", *self.queries)
        }  # fmt: skip

    def columns(self, name: str) -> tuple[str, ...]:
        return {
            "orders": ("id", "region", "v"),
            "sums": ("id", "n", "total"),
            "named": ("id", "name", "zone", "n", "total"),
            "zones": ("id", "n", "total", "most"),
        }[name]


class Into(Pipeline):
    """A stream and statements write to one table: a sink into it, and INSERTs."""

    name = "sink into table"
    last = "target"
    calm = "calm"
    objects = """
    CREATE TABLE calm (id INT PRIMARY KEY);
    INSERT INTO calm VALUES (1);
    CREATE SOURCE events (id BIGINT, v INT) WITH ({kafka}) FORMAT PLAIN ENCODE JSON;
    CREATE TABLE target (id BIGINT PRIMARY KEY, v INT, origin VARCHAR);
    CREATE SINK fill INTO target AS SELECT id, v, 'stream' FROM events;
    """
    streams = ("SOURCE events",)
    points = (*EPOCH_POINTS, *KEYED_POINTS, *DML_POINTS)
    model = ("rows", "sent")

    def __init__(self, world: World, seed: int) -> None:
        super().__init__(world, seed)
        self.rows: dict[int, tuple[int, str]] = {}
        self.sent = 0
        self.rounds = itertools.count()
        self.unclear: list[dict[int, int]] = []
        """INSERTs whose answer was lost: there as a whole, or not at all."""

    def stream(self) -> None:
        numbers = range(self.sent, self.sent + 60)
        events = {2 * i: self.random.randrange(1000) for i in numbers}
        self.sent += 60
        self.rows |= {i: (v, "stream") for i, v in events.items()}
        self.world.produce([(str(i), json.dumps({"id": i, "v": v})) for i, v in events.items()])

    def work(self) -> None:
        # Every round has its own ids: a round may hang while the next one works.
        first = 60 * next(self.rounds)
        inserts = {2 * i + 1: self.random.randrange(1000) for i in range(first, first + 60)}
        values = ", ".join(f"({i}, {v}, 'statement')" for i, v in inserts.items())
        statement = f"INSERT INTO target VALUES {values}"
        done = self.world.attempt(lambda: self.world.execute(statement))
        if done:
            self.rows |= {i: (v, "statement") for i, v in inserts.items()}
        else:
            self.unclear.append(inserts)
        self.stream()

    def check(self) -> None:
        """An INSERT without an answer was carried out or not: settle which before comparing."""
        self.world.execute("FLUSH")
        for inserts in self.unclear:
            ids = ", ".join(map(str, inserts))
            found = dict(self.world.query(f"SELECT id, v FROM target WHERE id IN ({ids})"))
            assert found in ({}, inserts), f"a part of an INSERT: {len(found)} of {len(inserts)}"
            self.rows |= {id: (inserts[id], "statement") for id in found}  # type: ignore[index, misc]
        self.unclear.clear()
        super().check()

    def expected(self) -> dict[str, Counter[Row]]:
        return {"target": Counter((id, *row) for id, row in self.rows.items())}

    def columns(self, name: str) -> tuple[str, ...]:
        return ("id", "v", "origin")


class Transfers(Pipeline):
    """Transactions move money between accounts and note it in a ledger. Answers may be lost; then the ledger says what was done."""

    name = "transactions"
    last = "accounts"
    calm = "calm"
    accounts = 12
    objects = f"""
    CREATE TABLE calm (id INT PRIMARY KEY);
    INSERT INTO calm VALUES (1);
    CREATE TABLE accounts (id INT PRIMARY KEY, balance INT);
    INSERT INTO accounts SELECT i, 1000 FROM generate_series(0, {accounts - 1}) AS s(i);
    CREATE TABLE ledger (id INT PRIMARY KEY, source INT, target INT, amount INT);
    CREATE TABLE other (id BIGINT, name VARCHAR) WITH ({{kafka}}) FORMAT PLAIN ENCODE JSON;
    CREATE MATERIALIZED VIEW total AS SELECT 1 AS id, sum(balance) AS total FROM accounts;
    """
    streams = ("TABLE other",)
    points = (*EPOCH_POINTS, *KEYED_POINTS, *DML_POINTS, "vectors-written", "delta-read")
    model = ("sent",)

    def __init__(self, world: World, seed: int) -> None:
        super().__init__(world, seed)
        self.done: set[int] = set()
        self.begun: dict[int, Row] = {}
        self.sent = 0

    def work(self) -> None:
        for _ in range(3):
            number = len(self.begun)
            source, target = self.random.sample(range(self.accounts), 2)
            amount = self.random.randrange(1, 50)
            self.begun[number] = (source, target, amount)
            if self.world.attempt(lambda n=number: self.transfer(n)):  # type: ignore[misc]
                self.done.add(number)
        self.stream()

    def stream(self) -> None:
        self.world.produce([("x", json.dumps({"id": self.sent, "name": "other"}))])
        self.sent += 1

    def transfer(self, number: int) -> None:
        source, target, amount = self.begun[number]
        with self.world.server.connect() as client:
            client.autocommit = False
            client.execute(f"INSERT INTO ledger VALUES ({number}, {source}, {target}, {amount})")
            client.execute(f"UPDATE accounts SET balance = balance - {amount} WHERE id = {source}")
            client.execute(f"UPDATE accounts SET balance = balance + {amount} WHERE id = {target}")
            client.commit()

    def check(self) -> None:
        self.world.execute("FLUSH")
        found = {n: tuple(row) for n, *row in self.world.query("SELECT * FROM ledger")}
        assert self.done <= set(found), f"lost: {sorted(self.done - set(found))}"
        assert all(self.begun.get(n) == row for n, row in found.items())
        self.done = set(found)
        super().check()

    def expected(self) -> dict[str, Counter[Row]]:
        balances = dict.fromkeys(range(self.accounts), 1000)
        for number in self.done:
            source, target, amount = self.begun[number]
            balances[source] -= amount  # type: ignore[index, operator]
            balances[target] += amount  # type: ignore[index, operator]
        assert sum(balances.values()) == 1000 * self.accounts
        return {
            "accounts": Counter(balances.items()),
            "total": Counter([(1, 1000 * self.accounts)]),
            "other": Counter((i, "other") for i in range(self.sent)),
        }

    def columns(self, name: str) -> tuple[str, ...]:
        return {"accounts": ("id", "balance"), "total": ("id", "total"), "other": ("id", "name")}[name]  # fmt: skip


class Backfill(Views):
    """Views that are filled in the background while the fault strikes."""

    name = "background backfill"
    last = "orders"
    objects = """
    CREATE TABLE orders (id BIGINT, region INT, v INT, PRIMARY KEY (id)) WITH ({kafka}) FORMAT UPSERT ENCODE JSON;
    CREATE TABLE regions (region INT PRIMARY KEY, name VARCHAR, zone INT);
    INSERT INTO regions SELECT r, 'region ' || r, r % 3 FROM generate_series(0, 8) AS s(r);
    """

    def __init__(self, world: World, seed: int) -> None:
        super().__init__(world, seed)
        self.views: list[str] = []
        self.acknowledged: set[str] = set()

    def work(self) -> None:
        super().work()
        name = f"filled{len(self.views)}"
        self.views.append(name)
        if self.world.attempt(lambda: self.fill(name)):
            self.acknowledged.add(name)

    def fill(self, name: str) -> None:
        self.world.execute(
            "SET background_ddl = true",
            f"CREATE MATERIALIZED VIEW IF NOT EXISTS {name} AS SELECT o.region AS id, r.name, count(*) AS n, sum(o.v) AS total "
            "FROM orders o JOIN regions r ON r.region = o.region GROUP BY o.region, r.name",
        )

    def check(self) -> None:
        """A view that was acknowledged is there. One whose statement was broken off before is asked for again."""
        self.world.execute("WAIT")
        found = {str(name) for (name,) in self.world.query("SHOW MATERIALIZED VIEWS")}
        assert self.acknowledged <= found, f"lost: {sorted(self.acknowledged - found)}"
        for name in self.views:
            self.fill(name)
            self.acknowledged.add(name)
        self.world.execute("WAIT")
        super().check()

    def expected(self) -> dict[str, Counter[Row]]:
        duck = self.oracle()
        query = (
            "SELECT o.region AS id, r.name, count(*) AS n, sum(o.v) AS total "
            "FROM orders o JOIN regions r ON r.region = o.region GROUP BY o.region, r.name"
        )
        rows = Counter(duck.execute(query).fetchall())
        orders = Counter(duck.execute("SELECT id, region, v FROM orders").fetchall())
        return {"orders": orders, **dict.fromkeys(self.views, rows)}

    def columns(self, name: str) -> tuple[str, ...]:
        return ("id", "region", "v") if name == "orders" else ("id", "name", "n", "total")


class LiveDdl(Views):
    """Views are created, replaced and dropped all the time. Every view that there is holds what its own text gives."""

    name = "live DDL"
    last = "orders"
    objects = (
        Backfill.objects
        + "CREATE TABLE spare0 (id INT PRIMARY KEY); INSERT INTO spare0 VALUES (1), (2), (3);"
    )
    points = (*Views.points, "view-exchanged", "alter-stored", "columns-changed", "table-renamed")
    shapes = (
        "SELECT region AS id, count(*) AS n, sum(v + {x}) AS total FROM orders GROUP BY region",
        "SELECT id, region, v + {x} AS v FROM orders WHERE v > 500",
        "SELECT DISTINCT v % {x} AS id FROM orders",
        "SELECT r.name, count(*) AS n FROM orders o JOIN regions r ON r.region = o.region WHERE o.v > {x} GROUP BY r.name",
    )

    def work(self) -> None:
        super().work()
        self.world.attempt(self.change_views)
        self.world.attempt(self.alter_table)

    def alter_table(self) -> None:
        """Give the spare table a column and another name."""
        self.spare = self.find_spare()
        self.added += 1
        self.world.execute(
            f"ALTER TABLE spare{self.spare} ADD COLUMN c{self.added} INT",
            f"ALTER TABLE spare{self.spare} RENAME TO spare{self.spare + 1}",
        )
        self.spare += 1

    def find_spare(self) -> int:
        """The number of the spare table: there is one, and its last name that was acknowledged or the next one."""
        listed = [str(row[0]) for row in self.world.query("SHOW TABLES")]
        (number,) = (int(name[5:]) for name in listed if name.startswith("spare"))
        assert number in (self.spare, self.spare + 1), f"spare{number}, not spare{self.spare}"
        return number

    def __init__(self, world: World, seed: int) -> None:
        super().__init__(world, seed)
        self.possible: dict[str, set[str | None]] = {f"live{n}": {None} for n in range(4)}
        """The query of each view by the statements that were acknowledged; None: there is no such view. A statement without an
        answer leaves two possibilities, until it is looked which one it is."""
        self.spare = 0
        """The number in the name of a table that is renamed all the time, or one less."""
        self.added = 0

    def change_views(self) -> None:
        for number in self.random.sample(range(4), 2):
            name = f"live{number}"
            query: str | None = self.shapes[number].format(x=self.random.randrange(1, 90))
            statement = f"CREATE OR REPLACE MATERIALIZED VIEW {name} AS {query}"
            if None not in self.possible[name] and self.random.random() < 0.4:
                query, statement = None, f"DROP MATERIALIZED VIEW {name}"
            self.possible[name].add(query)
            self.world.execute(statement)
            self.possible[name] = {query}

    def check(self) -> None:
        listed = {str(name) for (name,) in self.world.query("SHOW MATERIALIZED VIEWS")}
        assert listed <= self.possible.keys(), listed
        for name, possible in self.possible.items():
            query = None
            if name in listed:
                ((_, text),) = self.world.query(f"SHOW CREATE MATERIALIZED VIEW {name}")
                query = str(text).partition(" AS ")[2]
            assert query in possible, f"{name} is {query}, not one of {possible}"
            self.possible[name] = {query}
        self.spare = self.find_spare()
        rows = self.world.query(f"SELECT id FROM spare{self.spare} ORDER BY id")
        assert rows == [(1,), (2,), (3,)], rows
        super().check()

    def expected(self) -> dict[str, Counter[Row]]:
        duck = self.oracle()
        found = {"orders": Counter(duck.execute("SELECT id, region, v FROM orders").fetchall())}
        for name, (query,) in self.possible.items():
            if query is not None:
                rows = duck.execute(query)
                self.names = {**self.names, name: tuple(c[0] for c in rows.description or ())}
                found[name] = Counter(rows.fetchall())
        return found

    names: dict[str, tuple[str, ...]] = {"orders": ("id", "region", "v")}  # noqa: RUF012

    def columns(self, name: str) -> tuple[str, ...]:
        return self.names[name]


PIPELINES: dict[str, type[Pipeline]] = {
    kind.name: kind for kind in (Append, Upsert, Views, Into, Transfers, Backfill, LiveDdl)
}


class Load(threading.Thread):
    """Works without pause until it is stopped, whatever fails."""

    def __init__(self, work: Callable[[], None]) -> None:
        super().__init__(daemon=True)
        self.work = work
        self.stopping = threading.Event()
        self.failure: BaseException | None = None

    def run(self) -> None:
        while not self.stopping.wait(0.2):
            try:
                self.work()
            except (psycopg.Error, OSError):
                continue
            except BaseException as error:
                self.failure = error
                return

    def stop(self) -> None:
        self.stopping.set()
        self.join()
        if self.failure is not None:
            raise self.failure
