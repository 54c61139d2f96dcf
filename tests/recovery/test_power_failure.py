"""A power failure takes what was not synced: no acknowledged row is among it.

A server runs under strace, which tells when each file was written and synced. That proves the order of system calls. And
copies of its home, taken while it works, lose everything that was not synced by then; each is opened again and must have
every row that was acknowledged before. What SQLite had written to its log and not synced is overwritten with zeros.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections import defaultdict
from dataclasses import dataclass, field
from pathlib import Path

import psycopg
import pytest
from pyspark.sql import SparkSession

from icestream.config import Home
from icestream.engine import Engine
from tests.engine import MEMORY
from tests.faults.world import ServerProcess
from tests.spark_session import spark

__all__ = ["spark"]
pytestmark = [
    pytest.mark.spark,
    pytest.mark.skipif(shutil.which("strace") is None, reason="strace is not installed"),
]

CALLS = "openat,open,creat,link,linkat,rename,renameat,renameat2,mkdir,mkdirat,write,pwrite64,writev,fsync,fdatasync,unlink,unlinkat"
LINE = re.compile(
    r"(?P<at>\d+\.\d+) (?P<call>\w+)\((?P<args>.*)\) += (?P<result>-?\d+).* <(?P<took>[\d.]+)>$"
)
DESCRIPTOR = re.compile(r"\d+<(?P<path>/[^>]*)>")
RANGE = re.compile(r", (?P<length>\d+), (?P<offset>\d+)$")
QUOTED = re.compile(r'"(?P<path>[^"]*)"')
MOMENTS = int(os.environ.get("MOMENTS", "8"))
"""Copies that are opened again."""
LOOKS = 400
"""Moments at which the trace must show that every acknowledged row is durable."""


@dataclass
class Trace:
    """When files of a folder were written, named and synced, by their paths."""

    written: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))
    named: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))
    synced: dict[str, list[tuple[float, float]]] = field(default_factory=lambda: defaultdict(list))
    removed: dict[str, float] = field(default_factory=dict)
    sources: dict[str, str] = field(default_factory=dict)
    """Of a linked or renamed file: under which name it was written."""
    ranges: dict[str, list[tuple[float, int, int]]] = field(
        default_factory=lambda: defaultdict(list)
    )
    """What was written to SQLite's logs: when it began, the offset, the length."""
    published: list[tuple[str, float]] = field(default_factory=list)
    """Metadata files of tables, and when the thread that made them began to write to the catalog."""

    def is_durable(self, path: str, at: float) -> bool:
        """Whether a file that was written before a moment survives a power failure at that moment."""
        return self._content(path, at) and self._name(path, at)

    def _content(self, path: str, at: float) -> bool:
        origin = self.sources.get(path, path)
        writes = [w for name in {path, origin} for w in self.written.get(name, ()) if w < at]
        last = max(writes, default=0.0)
        synced = [s for name in {path, origin} for s in self.synced.get(name, ())]
        return not last or any(last <= start and end <= at for start, end in synced)

    def _name(self, path: str, at: float) -> bool:
        names = [n for n in self.named.get(path, ()) if n < at]
        if not names:
            return True
        folder = self.synced.get(os.path.dirname(path), ())
        return any(max(names) <= start and end <= at for start, end in folder)


def read_trace(prefix: Path, home: Path) -> Trace:
    trace = Trace()
    for part in prefix.parent.glob(f"{prefix.name}.*"):  # one file for each thread
        made: list[str] = []
        for line in part.read_text(errors="replace").splitlines():
            found = LINE.match(line)
            if found is None or str(home.parent.parent) not in line or int(found["result"]) < 0:
                continue
            start = float(found["at"])
            end = start + float(found["took"])
            call, args = found["call"], found["args"]
            held, quoted = DESCRIPTOR.match(args), [m["path"] for m in QUOTED.finditer(args)]
            if call in ("write", "pwrite64", "writev") and held:
                trace.written[held["path"]].append(end)
                if held["path"].endswith("-wal") and (range := RANGE.search(args)):
                    place = start, int(range["offset"]), int(range["length"])
                    trace.ranges[held["path"]].append(place)
                if held["path"].endswith("/lake/catalog.db-wal"):
                    trace.published += [(path, start) for path in made]
                    made.clear()
            elif call in ("fsync", "fdatasync") and held:
                trace.synced[held["path"]].append((start, end))
            elif call in ("mkdir", "mkdirat") or (
                call in ("openat", "open", "creat") and "O_CREAT" in args
            ):
                if not trace.named[quoted[0]] or call.startswith("mkdir"):
                    trace.named[quoted[0]].append(end)
                    made += [quoted[0]] if quoted[0].endswith(".metadata.json") else []
            elif call.startswith(("link", "rename")):
                trace.named[quoted[1]].append(end)
                trace.sources[quoted[1]] = quoted[0]
            elif call.startswith("unlink"):
                trace.removed[quoted[0]] = start
    return trace


def drop_unsynced(copy: Path, home: Path, trace: Trace, at: float) -> list[str]:
    """Leave of a copied home what was synced at that moment. SQLite's databases stay: it writes to them what is synced in
    its logs."""
    lost: list[str] = []
    for path in sorted(copy.rglob("*")):
        name = str(home / path.relative_to(copy))
        if path.name.endswith("-shm"):
            path.unlink()  # it is memory
            continue
        if path.name.endswith("-wal") and blank_unsynced(path, name, trace, at):
            lost.append(name)
        if (
            path.is_dir()
            or ".db" in path.name
            or path.parts[len(copy.parts)] in ("tmp", "logs", "run")
        ):
            continue
        folders = [str(p) for p in Path(name).parents if home in p.parents]
        if not trace.is_durable(name, at) or not all(trace._name(f, at) for f in folders):
            path.unlink()
            lost.append(name)
    return lost


def blank_unsynced(path: Path, name: str, trace: Trace, at: float) -> bool:
    """Overwrite what was written to a log of SQLite after it was last synced before a moment."""
    synced = max((start for start, end in trace.synced.get(name, ()) if end <= at), default=0.0)
    unsynced = [place for place in trace.ranges.get(name, ()) if synced < place[0] <= at]
    with path.open("r+b") as file:
        size = path.stat().st_size
        for _, offset, length in unsynced:
            file.seek(offset)
            file.write(bytes(max(0, min(length, size - offset))))
    return bool(unsynced)


def traced_python(trace: Path) -> list[str]:
    """The command for Python under strace."""
    options = [
        "-ff",
        "--seccomp-bpf",
        "-qq",
        "-y",
        "-s",
        "0",
        "-ttt",
        "-T",
        "-e",
        f"trace={CALLS}",
    ]
    return ["strace", *options, "-o", str(trace), sys.executable]


class TracedServer(ServerProcess):
    """A server under strace."""

    def begin_traced(self, trace: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        command = traced_python(trace)
        monkeypatch.setattr(
            "tests.engine.command",
            lambda *arguments: [*command, "-m", "icestream", *map(str, arguments)],
        )
        self.begin("--epoch-interval", "0.2s")


def test_no_acknowledged_row_is_lost(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home, calls = tmp_path / "new" / "home", tmp_path / "calls"
    calls.mkdir()
    server = TracedServer(home, memory=MEMORY)
    server.begin_traced(calls / "t", monkeypatch)
    assert server.process is not None
    acknowledged: list[tuple[float, int]] = []
    copies: list[tuple[Path, float]] = []
    try:
        url = f"host=127.0.0.1 port={server.port} user=root dbname=dev"
        with psycopg.connect(url, autocommit=True) as client:
            client.execute("CREATE TABLE a (id INT PRIMARY KEY, v INT); CREATE TABLE b (id INT)")
            client.execute("CREATE MATERIALIZED VIEW n AS SELECT count(*) AS n FROM a")
            for moment in range(MOMENTS):
                for _ in range(12):
                    number = len(acknowledged)
                    with client.transaction():
                        client.execute(f"INSERT INTO a VALUES ({number}, {number})")
                        client.execute(f"INSERT INTO b VALUES ({number})")
                    acknowledged.append((time.time(), number))
                    time.sleep(0.03 * (number % 7 == 0))
                if moment == 1:
                    client.execute("UPDATE a SET v = v + 1")
                os.killpg(server.process.pid, signal.SIGSTOP)
                at = time.time()
                copies.append((tmp_path / f"copy{moment}", at))
                shutil.copytree(
                    home, copies[-1][0], symlinks=True, ignore=shutil.ignore_patterns("tmp")
                )
                os.killpg(server.process.pid, signal.SIGCONT)
            client.execute("FLUSH")
            client.execute("INSERT INTO b VALUES (-1)")
            client.execute("FLUSH")
    finally:
        os.killpg(server.process.pid, signal.SIGKILL)
        server.process.wait()
    trace = read_trace(calls / "t", home)
    check_order(trace, home, acknowledged)
    for copy, at in copies:
        shutil.rmtree(home)
        shutil.copytree(copy, home, symlinks=True)
        home.joinpath("tmp").mkdir(exist_ok=True)
        drop_unsynced(home, home, trace, at)
        wanted = {number for when, number in acknowledged if when < at}
        with Engine(Home.at(home), application=spark, take_over=True) as engine:
            for table in ("a", "b"):
                (result,) = engine.execute(f"SELECT id FROM {table}")
                assert wanted <= {id for (id,) in result.rows}, (table, at)
            (result,) = engine.execute("SELECT n FROM n")
            assert result.rows[0][0] >= len(wanted)


RENAMING = """
import sys
from icestream.config import EngineSettings, Home
from icestream.runtime import session

spark = session.start(Home.at(sys.argv[1]), EngineSettings(driver_memory="512m"))
spark.conf.set("spark.sql.catalog.other", "org.apache.iceberg.spark.SparkCatalog")
spark.conf.set("spark.sql.catalog.other.type", "hadoop")
spark.conf.set("spark.sql.catalog.other.warehouse", f"file:{sys.argv[2]}")
spark.sql("CREATE TABLE other.db.t (a INT) USING iceberg")
spark.sql("INSERT INTO other.db.t VALUES (1)")
jvm, files = spark._jvm, spark._jsc.hadoopConfiguration()
system = jvm.org.apache.hadoop.fs.FileSystem.getLocal(files)
path = lambda name: jvm.org.apache.hadoop.fs.Path(f"{sys.argv[2]}/{name}")
single = system.createNonRecursive(path("single"), True, 4096, 1, 1 << 20, None)
single.write(bytearray(b"text"))
single.close()
system.mkdirs(path("folder"))
system.rename(path("single"), path("folder/moved"))
system.rename(path("folder/moved"), path("folder/again"))
print(system.exists(path("folder/again")))
spark.stop()
"""


def test_a_catalog_that_commits_by_rename_is_durable(tmp_path: Path) -> None:
    """A new name is synced with its directory, and so is a file that is made where its directory must be there."""
    calls, other = tmp_path / "calls", tmp_path / "new" / "other"
    for folder in (calls, other):
        folder.mkdir(parents=True)
    command = [*traced_python(calls / "t"), "-c", RENAMING, str(tmp_path / "home"), str(other)]
    run = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert run.stdout.split()[-1:] == ["True"], run.stderr
    trace = read_trace(calls / "t", other)
    end = time.time()
    metadata = [p for p in trace.sources if p.endswith(".metadata.json")]
    assert len(metadata) >= 2
    moved = [f"{other}/folder/moved", f"{other}/folder/again"]
    for path in [*metadata, *moved, f"{other}/single"]:
        assert trace.named[path], path
        assert trace.is_durable(path, end), path
    # The old directory lost its name for good, too.
    (renamed,) = trace.named[moved[0]]
    assert any(renamed <= start for start, _ in trace.synced[str(other)])


def check_order(trace: Trace, home: Path, acknowledged: list[tuple[float, int]]) -> None:
    entries = {
        p: min(named) for p, named in trace.named.items() if re.search(r"/dml/\d+\.parquet$", p)
    }
    assert len(entries) >= len(acknowledged)
    for folder in (home / "dml", home, home.parent):
        assert trace._name(str(folder), acknowledged[0][0]), folder
    for when, number in acknowledged:
        before = [path for path, named in entries.items() if named < when]
        assert len(before) >= number + 1
        for path in before:
            gone = trace.removed.get(path)
            assert trace.is_durable(path, when) or (gone is not None and gone < when), path
    warehouse = str(home / "lake" / "warehouse")
    for path in list(trace.named):
        if not (path.startswith(warehouse) and path.endswith(".metadata.json")):
            continue
        created, table = min(trace.named[path]), os.path.dirname(os.path.dirname(path))
        for other in list(trace.named):
            folder = os.path.dirname(os.path.dirname(other))
            if folder != table or other.endswith(".metadata.json"):
                continue
            if min(trace.named[other]) < created and "." in os.path.basename(other):
                assert trace.is_durable(other, created), (other, path)
    assert len(trace.published) > 5
    for path, at in trace.published:
        assert trace.is_durable(path, at), path
    assert any(path in entries for path in trace.removed)
    check_catalog_first(trace, home, entries)
    check_every_moment(trace, entries, acknowledged)


def check_catalog_first(trace: Trace, home: Path, entries: dict[str, float]) -> None:
    """The commits of the epoch that holds an entry are synced in the catalog before the entry is removed."""
    log = str(home / "lake" / "catalog.db-wal")
    assert len(trace.ranges[log]) > 10
    for path, gone in trace.removed.items():
        if path in entries:
            written = [end for end in trace.written[log] if entries[path] < end < gone]
            assert written, f"{path} was removed before anything was committed"
            assert trace._content(log, gone), f"{path} was removed before the catalog was synced"


def check_every_moment(
    trace: Trace, entries: dict[str, float], acknowledged: list[tuple[float, int]]
) -> None:
    """At any moment each entry that was acknowledged before is durable, or was removed."""
    calls = sorted(end for times in trace.written.values() for end in times)
    moments = [at for at in calls if at > acknowledged[0][0]]
    numbered = sorted(entries, key=entries.__getitem__)
    for at in moments[:: max(1, len(moments) // LOOKS)]:
        newest = max(when for when, _ in acknowledged if when <= at)
        for path in numbered:
            if entries[path] > newest:
                break
            gone = trace.removed.get(path)
            assert (gone is not None and gone < at) or trace.is_durable(path, at), (path, at)
