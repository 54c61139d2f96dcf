"""A PostgreSQL that changes, Debezium's own connector, a broker, this engine: source and lake have the same rows."""

from __future__ import annotations

import datetime as dt
import json
import random
import string
import struct
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any

import psycopg
import pytest
from psycopg.types.json import Jsonb

from tests.engine import MEMORY, duckdb_count, icestream, lake_table, status
from tests.services.kafka import consume

pytestmark = [pytest.mark.spark, pytest.mark.services]

Row = dict[str, Any]
Random = random.Random

TEXTS = ("", "null", "grüße 🧊 \u2028", 'a "b" \\ \n\t c', "{}", "__debezium_unavailable_valu", "0")
FLOATS = (0.0, -0.0, float("nan"), float("inf"), float("-inf"), 1e-5, 16777217.0)


def moment(rng: Random, micros: int) -> dt.datetime:
    """A time between 1980 and 2049, of that many microseconds."""
    return dt.datetime(1980, 1, 1) + dt.timedelta(
        microseconds=rng.randrange(2_200_000_000_000_000 // micros) * micros
    )


def large(rng: Random) -> str:
    """Text that PostgreSQL stores out of line where a row has some of it."""
    return "".join(rng.choices(string.printable[:95] + "äß", k=rng.randrange(700, 1500)))


def pick(*generators: Callable[[Random], Any]) -> Callable[[Random], Any]:
    return lambda rng: rng.choice(generators)(rng)


def document(rng: Random) -> Jsonb:
    return Jsonb({"n": rng.choice([1, 2.5, None, True]), "a": [rng.choice(TEXTS), {"x": {}}]})


@dataclass(frozen=True)
class Column:
    """A column on both sides, what is written into it, and its values in a form that can be compared."""

    source: str
    lake: str
    value: Callable[[Random], Any]
    same: Callable[[Any], Any] = lambda value: value
    """Of a value of either side: what has to be equal."""
    toasted: bool = False

    @property
    def movable(self) -> bool:
        """Whether PostgreSQL may store it out of line, and then leaves it out of an event that does not change it."""
        return self.source.startswith(("text", "varchar", "bytea", "jsonb", "numeric"))


def micros(value: Any) -> Any:
    """A time of day as the lake has it."""
    if not isinstance(value, dt.time):
        return value
    return ((value.hour * 60 + value.minute) * 60 + value.second) * 1_000_000 + value.microsecond


def millis(value: Any) -> Any:
    """A time of day that only a schema could tell from one in microseconds: taken as the number it is."""
    return micros(value) // 1000 if isinstance(value, dt.time) else value


def parsed(value: Any) -> Any:
    return json.loads(value) if isinstance(value, str) else value


def decimal(number: int, scale: int) -> Decimal:
    """number / 10**scale, all of its digits."""
    return Decimal(f"{number}E-{scale}")


NUMBERS = {
    "si": Column("smallint", "SMALLINT", lambda r: r.randrange(-(2**15), 2**15)),
    "i": Column("int", "INT", lambda r: r.randrange(-(2**31), 2**31)),
    "bi": Column("bigint", "BIGINT", lambda r: r.randrange(-(2**63), 2**63)),
    "price": Column(
        "numeric(12,4)", "NUMERIC(12, 4)", lambda r: decimal(r.randrange(1 - 10**12, 10**12), 4)
    ),
    "wide": Column(
        "numeric(38,10)", "NUMERIC(38, 10)", lambda r: decimal(r.randrange(1 - 10**38, 10**38), 10)
    ),
    "free": Column(
        "numeric", "NUMERIC", lambda r: decimal(r.randrange(-(10**9), 10**9), r.randrange(11))
    ),
    "r": Column(
        "real", "REAL", pick(lambda r: r.uniform(-1e6, 1e6), lambda r: r.choice(FLOATS)), lambda v: struct.pack("f", v)
    ),
    "d": Column(
        "double precision", "DOUBLE PRECISION", pick(lambda r: r.gauss(0, 1e9), lambda r: r.choice(FLOATS)), repr
    ),
    "b": Column("boolean", "BOOLEAN", lambda r: r.random() < 0.5),
    "prices": Column(
        "numeric(10,2)[]", "NUMERIC(10, 2)[]", lambda r: [decimal(r.randrange(10**6), 2), None]
    ),
}  # fmt: skip
WORDS = {
    "t": Column("text", "VARCHAR", lambda r: r.choice(TEXTS)),
    "v": Column("varchar(40)", "VARCHAR", lambda r: f"v{r.random()}"),
    "u": Column("uuid", "VARCHAR", lambda r: uuid.UUID(int=r.getrandbits(128)), str),
    "by": Column("bytea", "BYTEA", lambda r: r.randbytes(r.randrange(0, 9))),
    "js": Column("jsonb", "JSONB", document, parsed),
    "tags": Column("text[]", "VARCHAR[]", lambda r: [r.choice(TEXTS), None, "x"][: r.randrange(4)]),
    "big": Column("text", "VARCHAR", large, toasted=True),
    "big_by": Column("bytea", "BYTEA", lambda r: r.randbytes(1000), toasted=True),
    "big_js": Column("jsonb", "JSONB", lambda r: Jsonb({"a": large(r)}), parsed, toasted=True),
    "big_tags": Column("text[]", "VARCHAR[]", lambda r: [large(r), "y"], toasted=True),
}
COARSE_TIMES = {
    "dt": Column("date", "DATE", lambda r: moment(r, 1).date()),
    "ti3": Column("time(3)", "BIGINT", lambda r: moment(r, 1000).time(), millis),
    "ts3": Column("timestamp(3)", "TIMESTAMP", lambda r: moment(r, 1000)),
    "tstz": Column("timestamptz", "TIMESTAMPTZ", lambda r: moment(r, 1).replace(tzinfo=dt.UTC)),
}
TIMES = {
    **COARSE_TIMES,
    "ti3": Column("time(3)", "TIME", lambda r: moment(r, 1000).time(), micros),
    "ti": Column("time", "TIME", lambda r: moment(r, 1).time(), micros),
    "ts": Column("timestamp", "TIMESTAMP", lambda r: moment(r, 1)),
}


class Workload:
    """Random changes of one table, the same ones for a seed."""

    def __init__(
        self,
        database: psycopg.Connection[Any],
        table: str,
        key: Mapping[str, Column],
        columns: Mapping[str, Column],
        seed: int,
    ) -> None:
        self.database = database
        self.table = table
        self.key = key
        self.columns = columns
        self.rng = Random(seed)
        self.live: list[tuple[Any, ...]] = []
        self.full_identity = False

    def create(self) -> None:
        columns = [f"{n} {c.source}" for n, c in {**self.key, **self.columns}.items()]
        self.database.execute(
            f"CREATE TABLE {self.table} ({', '.join(columns)}, PRIMARY KEY ({', '.join(self.key)}))"
            " WITH (toast_tuple_target = 128)"
        )
        # Large values leave the row, uncompressed. Arrays of numbers must not: for one that did not
        # change Debezium sends NULL, not its placeholder.
        for name, column in self.columns.items():
            if column.toasted or column.source.endswith(")[]"):
                storage = "EXTERNAL" if column.toasted else "PLAIN"
                self.database.execute(
                    f"ALTER TABLE {self.table} ALTER {name} SET STORAGE {storage}"
                )

    def reveal(self) -> None:
        """From now on PostgreSQL tells all of a row that changes."""
        self.database.execute(f"ALTER TABLE {self.table} REPLICA IDENTITY FULL")
        self.full_identity = True

    def truncate(self) -> None:
        """Empties the table, and fills it a little in the same transaction."""
        with self.database.transaction():
            self.insert(self.live[0] if self.live else None, replace=True)
            self.database.execute(f"TRUNCATE {self.table}")
            self.live.clear()
            for _ in range(5):
                self.insert()

    def run(self, transactions: int) -> None:
        """Transactions of one or a few changes; some of them are rolled back."""
        actions = (self.insert, self.update, self.enlarge, self.delete, self.move, self.replace)
        weights = (32, 34, 8, 12, 8, 6)
        for _ in range(transactions):
            before = list(self.live)
            with suppress(_Undo), self.database.transaction():
                for action in self.rng.choices(
                    actions, weights, k=self.rng.choice((1, 1, 1, 2, 5))
                ):
                    action()
                if self.rng.random() < 0.05:
                    self.live = before
                    raise _Undo
            if self.rng.random() < 0.02:
                self.swap()

    def insert(self, key: tuple[Any, ...] | None = None, replace: bool = False) -> None:
        if replace and key is not None:
            self.database.execute(f"DELETE FROM {self.table} WHERE {self._where()}", key)
            self.live.remove(key)
        key = key or self._new_key()
        if key is None:
            return
        row = {n: self._value(c) for n, c in self.columns.items()}
        names = ", ".join([*self.key, *row])
        marks = ", ".join(["%s"] * (len(key) + len(row)))
        self.database.execute(
            f"INSERT INTO {self.table} ({names}) VALUES ({marks})", [*key, *row.values()]
        )
        self.live.append(key)

    def update(self) -> None:
        """Some columns, none of the large ones: of those the event says nothing."""
        small = [n for n, c in self.columns.items() if not c.toasted]
        self._set(self.rng.sample(small, self.rng.randrange(1, len(small))))

    def enlarge(self) -> None:
        """Some of the large columns, and one other."""
        toasted = [n for n, c in self.columns.items() if c.toasted]
        self._set([*self.rng.sample(toasted, self.rng.randrange(1, len(toasted) + 1)), "t"])

    def delete(self) -> None:
        key = self._any()
        if key:
            self.database.execute(f"DELETE FROM {self.table} WHERE {self._where()}", key)
            self.live.remove(key)

    def replace(self) -> None:
        """A row deleted and inserted again."""
        key = self._any()
        if key:
            self.insert(key, replace=True)

    def move(self) -> None:
        """Another key for a row; without full identity all that may be large too: no event has the old values."""
        old, new = self._any(), self._new_key()
        if old and new:
            self._rename(old, new)

    def swap(self) -> None:
        """Two rows exchange their keys, by way of a third one."""
        if len(self.live) < 2:
            return
        one, other = self.rng.sample(self.live, 2)
        aside = self._new_key()
        if aside:
            with self.database.transaction():
                self._rename(one, aside)
                self._rename(other, one)
                self._rename(aside, other)

    def _rename(self, old: tuple[Any, ...], new: tuple[Any, ...]) -> None:
        hidden = [n for n, c in self.columns.items() if c.movable and not self.full_identity]
        values = [self._value(self.columns[n]) for n in hidden]
        sets = ", ".join(f"{n} = %s" for n in [*self.key, *hidden])
        self.database.execute(
            f"UPDATE {self.table} SET {sets} WHERE {self._where()}", [*new, *values, *old]
        )
        self.live[self.live.index(old)] = new

    def _set(self, names: Sequence[str]) -> None:
        key = self._any()
        if key:
            sets = ", ".join(f"{n} = %s" for n in names)
            values = [self._value(self.columns[n]) for n in names]
            self.database.execute(
                f"UPDATE {self.table} SET {sets} WHERE {self._where()}", [*values, *key]
            )

    def _value(self, column: Column) -> Any:
        return None if self.rng.random() < 0.1 else column.value(self.rng)

    def _where(self) -> str:
        return " AND ".join(f"{n} = %s" for n in self.key)

    def _any(self) -> tuple[Any, ...] | None:
        return self.rng.choice(self.live) if self.live else None

    def _new_key(self) -> tuple[Any, ...] | None:
        """A key that no row has now; from so few that many come again."""
        for _ in range(100):
            key = tuple(c.value(self.rng) for c in self.key.values())
            if key not in self.live:
                return key
        return None

    def rows(self) -> dict[tuple[Any, ...], Row]:
        """What the source has, by key."""
        names = [*self.key, *self.columns]
        cursor = self.database.execute(f"SELECT {', '.join(names)} FROM {self.table}")
        return self._by_key(dict(zip(names, row, strict=True)) for row in cursor)

    def landed(self, home: Path) -> dict[tuple[Any, ...], Row]:
        """What the lake has, by key, read by PyIceberg."""
        read = lake_table(home, self.table).scan().to_arrow().to_pylist()
        by_key = self._by_key(read)
        assert len(by_key) == len(read), "a key is there twice"
        return by_key

    def _by_key(self, rows: Iterator[Row] | list[Row]) -> dict[tuple[Any, ...], Row]:
        return {
            tuple(row[n] for n in self.key): {
                n: None if row[n] is None else c.same(row[n]) for n, c in self.columns.items()
            }
            for row in rows
        }

    def check(self, home: Path) -> None:
        """Source and lake have the same rows."""
        source, lake = self.rows(), self.landed(home)
        assert sorted(source) == sorted(self.live)  # the workload itself knows what it did
        assert sorted(lake) == sorted(source)
        for key, row in source.items():
            differ = {n: (v, lake[key][n]) for n, v in row.items() if v != lake[key][n]}
            assert not differ, f"{key}: {differ}"
        assert duckdb_count(home, self.table) == len(source)

    def ddl(self) -> str:
        """The columns and the key of the table of this engine."""
        columns = [f"{n} {c.lake}" for n, c in {**self.key, **self.columns}.items()]
        return f"{', '.join(columns)}, PRIMARY KEY ({', '.join(self.key)})"


class _Undo(Exception):
    """Rolls a transaction back."""


def write_script(
    folder: Path, work: Workload, topic: str, bootstrap: str, include: str = ""
) -> Path:
    script = folder / "pipeline.sql"
    script.write_text(
        f"CREATE TABLE {work.table.removeprefix('public.')} ({work.ddl()}) {include} WITH (\n"
        f"  connector = 'kafka', topic = '{topic}', properties.bootstrap.server = '{bootstrap}'\n"
        ") FORMAT DEBEZIUM ENCODE JSON;\n"
    )
    return script


def operations(bootstrap: str, topic: str, payload: Callable[[Any], Any]) -> set[str]:
    """What happened, as the topic has it: op, - for a tombstone, ? for a large value that is not told."""
    found = set()
    for _, _, _, value in consume(bootstrap, topic):
        event = {"op": "-"} if value is None else payload(json.loads(value))
        found.add(event["op"])
        if (event.get("after") or {}).get("big") == "__debezium_unavailable_value":
            found.add("?")
    return found


@pytest.mark.timeout(600)
def test_events_with_schemas(tmp_path, kafka, postgres, debezium) -> None:
    """One partition, one key column, precise decimals, times of every precision, TRUNCATE, two runs."""
    key = {"id": Column("bigint", "BIGINT", lambda r: r.randrange(900))}
    settings = {
        "decimal.handling.mode": "precise",
        "time.precision.mode": "adaptive",
        "skipped.operations": "none",
    }
    with psycopg.connect(postgres.dsn, autocommit=True) as database:
        work = Workload(database, "public.precise", key, {**NUMBERS, **WORDS, **TIMES}, seed=4)
        work.create()
        work.run(200)
        with debezium.capture(work.table, schemas=True, settings=settings) as capture:
            script = write_script(tmp_path, work, capture.topic, kafka.bootstrap)
            run = ("run", script, "--once", "--home", tmp_path / "home", "--memory", MEMORY)
            work.run(200)
            capture.catch_up()
            done = icestream(*run)
            assert done.returncode == 0, done.stderr
            work.check(tmp_path / "home")

            work.run(100)
            work.truncate()
            work.run(200)
            work.reveal()
            work.run(100)
            capture.catch_up()
            done = icestream(*run)
            assert done.returncode == 0, done.stderr
            work.check(tmp_path / "home")
        seen = operations(kafka.bootstrap, capture.topic, lambda value: value["payload"])
        assert seen == {"r", "c", "u", "d", "t", "-", "?"}
        assert status(tmp_path / "home")["sources"][0]["dead_letters"] == 0


@pytest.mark.timeout(600)
def test_events_without_schemas(tmp_path, kafka, postgres, debezium) -> None:
    """Three partitions, a key of two columns, decimals as text, times in milliseconds, a run amid changes."""
    key = {
        "tenant": Column("varchar(20)", "VARCHAR", lambda r: r.choice(["a", "Ä", "b c", "🧊", ""])),
        "id": Column("int", "INT", lambda r: r.randrange(-90, 90)),
    }
    settings = {"decimal.handling.mode": "string", "time.precision.mode": "connect"}
    include = "INCLUDE table_name AS src_table INCLUDE source 'ts_ms' BIGINT AS src_ts INCLUDE offset AS o"
    with psycopg.connect(postgres.dsn, autocommit=True) as database:
        columns = {**NUMBERS, **WORDS, **COARSE_TIMES}
        work = Workload(database, "public.textual", key, columns, seed=5)
        work.create()
        work.run(200)
        with debezium.capture(
            work.table, schemas=False, partitions=3, settings=settings
        ) as capture:
            script = write_script(tmp_path, work, capture.topic, kafka.bootstrap, include)
            run = ("run", script, "--once", "--home", tmp_path / "home", "--memory", MEMORY)
            work.run(100)
            capture.catch_up()
            with ThreadPoolExecutor(1) as meanwhile:
                changes = meanwhile.submit(work.run, 200)
                done = icestream(*run)
                assert done.returncode == 0, done.stderr
                changes.result()
            work.reveal()
            work.run(200)
            capture.catch_up()
            done = icestream(*run)
            assert done.returncode == 0, done.stderr
            work.check(tmp_path / "home")
        seen = operations(kafka.bootstrap, capture.topic, lambda value: value)
        assert seen == {"r", "c", "u", "d", "-", "?"}

    told = {}
    for _, offset, raw_key, value in consume(kafka.bootstrap, capture.topic):
        if value is not None:
            origin = json.loads(value)["source"]
            of = json.loads(raw_key)
            told[of["tenant"], of["id"]] = (origin["table"], origin["ts_ms"], offset)
    for row in lake_table(tmp_path / "home", work.table).scan().to_arrow().to_pylist():
        found = (row["src_table"], row["src_ts"], row["o"])
        assert found == told[row["tenant"], row["id"]]
    assert status(tmp_path / "home")["sources"][0]["dead_letters"] == 0
