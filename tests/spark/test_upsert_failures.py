"""What may go wrong around an upsert: answers that are lost, others who write the same table, snapshots that are
expired, an index that is damaged or stale, a home that is older than its tables. No row may be lost, doubled or come back.
"""

from __future__ import annotations

import json
import random
import shutil
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from py4j.protocol import Py4JJavaError, Py4JNetworkError
from pyspark.sql import SparkSession

import icestream.lake.table
import icestream.runtime.task_executors
from icestream.config import EngineSettings, Home
from icestream.engine import Engine
from icestream.errors import ConnectorError, LakeError, RangeLostError
from icestream.lake.index import MANIFEST
from icestream.lake.jvm import HeadGuard, JavaObject
from icestream.lake.table import LakeTable
from tests.engine import lake_table
from tests.spark_session import spark  # noqa: F401

pytestmark = pytest.mark.spark

TABLE = """CREATE TABLE {name} (id BIGINT, name VARCHAR, v INT, PRIMARY KEY (id)) {rule} WITH (
  connector = 'file', path = '{path}', match_pattern = '*.json') FORMAT PLAIN ENCODE JSON;"""
SINK = """CREATE SINK k AS SELECT id, name, v FROM t WHERE v >= 0 WITH (connector = 'iceberg', type = 'upsert',
  primary_key = 'id', database.name = 'out', table.name = 'k', create_table_if_not_exists = 'true', {more}
  commit_checkpoint_interval = {interval});"""

Rows = dict[int, tuple[str, int]]


class Stage:
    """A directory of changes, a home that reads them into the table `t`, and its upsert sink `k` on lake.out.k."""

    def __init__(self, root: Path, application: SparkSession) -> None:
        self.root, self.application = root, application
        self.input = root / "input"
        self.input.mkdir()
        self.notices: list[str] = []
        self.files = 0
        self.state: Rows = {}
        """What `t` must be."""
        self.shared: Rows = {}
        """What `k` must be: the same without what its query leaves out, and what others did to it."""

    @property
    def home(self) -> Path:
        return self.root / "home"

    def script(self, more: str = "", interval: int = 1) -> str:
        table = TABLE.format(name="t", rule="", path=self.input)
        return table + SINK.format(more=more, interval=interval)

    def engine(self, **settings: object) -> Engine:
        return Engine(
            Home.at(self.home),
            EngineSettings(**settings),
            self.notices.append,
            application=self.application,
            allow_paths=["/"],
        )

    def send(self, **values: int) -> None:
        """A file of changes: `_7=1` gives key 7 the value 1. A negative value is one that the sink leaves out."""
        rows = [{"id": int(k[1:]), "name": f"f{self.files}", "v": v} for k, v in values.items()]
        self.write(rows)

    def write(self, rows: list[dict[str, object]]) -> None:
        file = self.input / f"{self.files:06}.json"
        file.with_suffix(".tmp").write_text("\n".join(map(json.dumps, rows)) + "\n")
        file.with_suffix(".tmp").rename(file)
        self.files += 1
        for row in rows:
            key, v = int(str(row["id"])), int(str(row["v"]))
            before = self.state.get(key, ("", -1))
            self.state[key] = (str(row["name"]), v)
            if v >= 0:
                self.shared[key] = self.state[key]
            elif before[1] >= 0:  # else nothing went from `t` that the query had let through
                self.shared.pop(key, None)

    def rows(self, name: str, path: Path | None = None) -> Rows:
        """A table as PyIceberg reads it; a key must be there once."""
        found = lake_table(path or self.home, name).scan().to_arrow().to_pylist()
        rows = {r["id"]: (r["name"], r["v"]) for r in found}
        assert len(rows) == len(found), f"{name} has a key twice: {found}"
        return rows

    def check(self) -> None:
        assert self.rows("public.t") == self.state
        assert self.rows("out.k") == self.shared

    def indexes(self) -> list[Path]:
        return sorted(p.parent for p in (self.home / "index").glob(f"*/*/{MANIFEST}"))

    def run_files(self, index: Path) -> list[Path]:
        return sorted(index.glob("*.arrow"))


def once(engine: Engine) -> None:
    engine.run(threading.Event(), once=True)


@pytest.fixture
def stage(tmp_path, spark) -> Stage:  # noqa: F811
    return Stage(tmp_path, spark)


# -- others who write the same table -----------------------------------------------------------------


class Intruder:
    """Runs something the moment before the engine commits to a table, after it has looked for the last time."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.table = ""
        self.act: Callable[[], None] | None = None
        self.times = 0
        self.acted = 0
        self.failed: Exception | None = None
        real = LakeTable.commit
        here = threading.local()

        def commit(table: LakeTable, *args: object, **kwargs: object) -> int:
            here.table = table.name
            return real(table, *args, **kwargs)  # type: ignore[arg-type]

        def guard(expected: int | None) -> HeadGuard:
            if self.act is not None and here.table == self.table and self.acted < self.times:
                self.acted += 1
                try:
                    self.act()
                except Exception as error:
                    self.failed = error
            return HeadGuard(expected)

        monkeypatch.setattr(LakeTable, "commit", commit)
        monkeypatch.setattr(icestream.lake.table, "HeadGuard", guard)

    def before(self, table: str, act: Callable[[], None], times: int = 1) -> None:
        self.table, self.act, self.times, self.acted = table, act, times, 0


@pytest.fixture
def intruder(monkeypatch: pytest.MonkeyPatch) -> Intruder:
    return Intruder(monkeypatch)


@pytest.fixture(scope="module", params=[3, 2], ids=["v3", "v2"])
def shop(request, tmp_path_factory, spark) -> Iterator[tuple[Stage, Engine]]:  # noqa: F811
    """A home with some rows, for all the collisions, one after the other."""
    stage = Stage(tmp_path_factory.mktemp("shop"), spark)
    with stage.engine() as engine:
        engine.execute(stage.script(f"format_version = '{request.param}',"))
        for batch in range(3):
            stage.send(**{f"_{k}": 10 * batch + k for k in range(batch, batch + 20)})
            once(engine)
        stage.check()
        yield stage, engine


def compact(table: str) -> str:
    return (
        f"CALL lake.system.rewrite_data_files(table => '{table}', "
        "options => map('rewrite-all', 'true', 'min-input-files', '1'))"
    )


COLLISIONS: dict[str, tuple[list[str], Callable[[Rows], object]]] = {
    "compaction": ([compact("out.k")], lambda k: None),
    "compaction of deletes": (
        ["CALL lake.system.rewrite_position_delete_files(table => 'out.k', options => map('rewrite-all', 'true'))"],
        lambda k: None,
    ),
    "delete of a row that is written": (["DELETE FROM lake.out.k WHERE id = 1"], lambda k: None),
    "delete of another row": (
        ["DELETE FROM lake.out.k WHERE id = 17"],
        lambda k: k.pop(17, None),
    ),
    "update of a row that is written": (["UPDATE lake.out.k SET v = 999 WHERE id = 2"], lambda k: None),
    "merge": (
        [
            "MERGE INTO lake.out.k USING (SELECT * FROM VALUES (2L, 'm', 7), (16L, 'm', 8), (70L, 'm', 9) AS "
            "m (id, name, v)) m ON k.id = m.id WHEN MATCHED THEN UPDATE SET name = m.name, v = m.v "
            "WHEN NOT MATCHED THEN INSERT (id, name, v) VALUES (m.id, m.name, m.v)"
        ],
        lambda k: k.update({16: ("m", 8), 70: ("m", 9)}),
    ),
    "append of a new key": (
        ["INSERT INTO lake.out.k (id, name, v) VALUES (80, 'a', 1)"],
        lambda k: k.update({80: ("a", 1)}),
    ),
    "append of keys that are written": (
        ["INSERT INTO lake.out.k (id, name, v) VALUES (1, 'a', 1), (500, 'a', 1), (3, 'a', 1)"],
        lambda k: None,
    ),
    "delete and compaction": (
        ["DELETE FROM lake.out.k WHERE id IN (2, 15)", compact("out.k")],
        lambda k: k.pop(15, None),
    ),
    "everything replaced": (
        ["INSERT OVERWRITE lake.out.k VALUES (1L, 'o', 1), (16L, 'o', 1), (18L, 'o', 1)"],
        lambda k: (k.clear(), k.update({16: ("o", 1), 18: ("o", 1)})),
    ),
    "a new column": (["ALTER TABLE lake.out.k ADD COLUMN more STRING"], lambda k: None),
    "a new partitioning": (
        ["ALTER TABLE lake.out.k ADD PARTITION FIELD bucket(2, id)"],
        lambda k: None,
    ),
    "everything deleted": (["DELETE FROM lake.out.k"], lambda k: k.clear()),
    "another format version": (
        ["ALTER TABLE lake.out.k SET TBLPROPERTIES ('format-version' = '3')"],
        lambda k: None,
    ),
}  # fmt: skip


@pytest.mark.parametrize("collision", COLLISIONS)
def test_what_others_do_to_a_shared_table_meanwhile_is_kept(
    shop: tuple[Stage, Engine], intruder: Intruder, collision: str
) -> None:
    stage, engine = shop
    statements, effect = COLLISIONS[collision]

    def act() -> None:
        for statement in statements:
            engine.spark.sql(statement)

    effect(stage.shared)
    changes = {f"_{k}": 100 * stage.files + k for k in (1, 2, 400 + stage.files, 500)}
    stage.send(**changes, _3=-1)  # key 3 goes
    intruder.before("lake.out.k", act)
    once(engine)
    assert intruder.acted == 1
    assert intruder.failed is None
    stage.check()
    stage.send(_3=5, _4=stage.files, _18=-1, _80=-1)  # and the next epoch finds what there is now
    once(engine)
    stage.check()


def test_a_written_column_that_others_drop_is_said(
    shop: tuple[Stage, Engine], intruder: Intruder
) -> None:
    stage, engine = shop
    stage.send(_1=1, _600=1)
    # too late for this epoch: its files have the column, and readers leave it out
    intruder.before(
        "lake.out.k", lambda: engine.spark.sql("ALTER TABLE lake.out.k DROP COLUMN name")
    )
    once(engine)
    stage.send(_1=2, _601=2)
    with pytest.raises(LakeError, match="no longer has the column 'name'"):
        once(engine)
    engine.spark.sql("ALTER TABLE lake.out.k ADD COLUMN name STRING")
    once(engine)
    assert {k: r[1] for k, r in stage.rows("out.k").items()} == {
        k: r[1] for k, r in stage.shared.items()
    }
    assert stage.rows("out.k")[601] == stage.shared[601]
    engine.spark.sql("ALTER TABLE lake.out.k RENAME COLUMN id TO ident")
    stage.send(_1=3)
    with pytest.raises(LakeError, match="no longer has the column 'id'"):
        once(engine)
    engine.spark.sql("ALTER TABLE lake.out.k RENAME COLUMN ident TO id")
    once(engine)
    assert stage.rows("out.k")[1] == stage.shared[1]
    assert stage.rows("public.t") == stage.state


def test_others_who_never_stop_end_the_epoch_and_lose_nothing(
    stage: Stage, intruder: Intruder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(icestream.runtime.task_executors, "COLLISIONS", 3)
    with stage.engine() as engine:
        engine.execute(stage.script())
        stage.send(_1=1, _2=2)
        once(engine)
        stage.send(_1=10, _3=30)

        def act() -> None:
            key = 100 + intruder.acted
            stage.shared[key] = ("x", 1)
            engine.spark.sql(f"INSERT INTO lake.out.k VALUES ({key}, 'x', 1)")

        intruder.before("lake.out.k", act, times=1000)
        with pytest.raises(ConnectorError, match=r"changed by others 3 times .*") as caught:
            engine.pipeline.step(force=True)
        assert "nothing was lost" in str(caught.value)
        assert intruder.acted == 3
        intruder.times = 0
        once(engine)
        stage.check()


def test_a_shared_table_that_is_rolled_back_is_said(stage: Stage, intruder: Intruder) -> None:
    with stage.engine() as engine:
        engine.execute(stage.script())
        stage.send(_1=1, _2=2, _3=3)
        once(engine)
        first = head(stage, "out.k")
        # as many epochs as it takes for runs of the index to be merged without the rows that are deleted
        for number in range(6):
            stage.send(_1=10 + number, _2=20 + number, _4=40 + number)
            once(engine)
        rollback = f"CALL lake.system.rollback_to_snapshot('out.k', {first})"
        stage.send(_1=1000, _9=9)
        intruder.before("lake.out.k", lambda: engine.spark.sql(rollback))
        with pytest.raises(LakeError, match="no longer in its history"):
            once(engine)
        assert stage.rows("out.k") == {k: ("f0", k) for k in (1, 2, 3)}
    with stage.engine() as engine, pytest.raises(LakeError, match="no longer in its history"):
        once(engine)
    with stage.engine() as engine:  # what the remedy says
        engine.execute("DROP SINK k")
        engine.execute(stage.script("snapshot = 'true',").partition(";")[2])
        once(engine)
    stage.check()


# -- the engine's own table --------------------------------------------------------------------------


def test_an_owned_table_may_be_compacted_but_not_changed(stage: Stage, intruder: Intruder) -> None:
    with stage.engine() as engine:
        engine.execute(stage.script())
        for number in range(3):
            stage.send(_1=number, _2=number, **{f"_{10 + number}": 1})
            once(engine)
        stage.send(_1=100, _10=-1, _20=1)
        intruder.before("lake.public.t", lambda: engine.spark.sql(compact("public.t")))
        once(engine)
        assert intruder.acted == 1
        stage.check()
        engine.spark.sql(compact("public.t"))  # and between epochs
        stage.send(_1=101, _11=-1)
        once(engine)
        stage.check()

        good = head(stage, "public.t")
        stage.send(_1=102, _21=1)
        delete = "DELETE FROM lake.public.t WHERE id IN (2, 12)"
        intruder.before("lake.public.t", lambda: engine.spark.sql(delete))
        with pytest.raises(LakeError, match="somebody else committed") as caught:
            once(engine)
        assert f"roll the table back to snapshot {good}" in str(caught.value)
    with stage.engine() as engine, pytest.raises(LakeError, match="somebody else committed"):
        once(engine)
    with stage.engine() as engine:  # what the remedy says
        engine.spark.sql(f"CALL lake.system.rollback_to_snapshot('public.t', {good})")
        once(engine)
        stage.check()


def test_rows_that_come_back_with_a_rollback_are_found(stage: Stage) -> None:
    """The index leaves deleted rows out when it merges runs; after a rollback they are there again."""
    with stage.engine() as engine:
        engine.execute(stage.script())
        for number in range(3):
            stage.send(**{f"_{10 * number + k}": number for k in range(3)})
            once(engine)
        good = head(stage, "public.t")
        engine.spark.sql("DELETE FROM lake.public.t WHERE id < 20")
        (index,) = [i for i in stage.indexes() if i.parent.name == _uuid(stage, "public.t")]
        before = set(stage.run_files(index))
        stage.send(**{f"_{k}": 1000 + k for k in (0, 1, 10)})
        with pytest.raises(LakeError, match="somebody else committed"):
            once(engine)
        assert set(stage.run_files(index)) - before, "the index should have seen the deleted rows"
    with stage.engine() as engine:
        engine.spark.sql(f"CALL lake.system.rollback_to_snapshot('public.t', {good})")
        once(engine)
        stage.send(_2=5, _11=5)
        once(engine)
        stage.check()


def head(stage: Stage, table: str) -> int:
    snapshot = lake_table(stage.home, table).current_snapshot()
    assert snapshot is not None
    return snapshot.snapshot_id


def _uuid(stage: Stage, table: str) -> str:
    return str(lake_table(stage.home, table).metadata.table_uuid)


# -- answers that are lost ---------------------------------------------------------------------------


class Deaf:
    """An update whose commit takes effect, but whose answer does not arrive."""

    def __init__(self, operation: JavaObject, then: Callable[[], None]) -> None:
        self._operation, self._then = operation, then

    def __getattr__(self, name: str) -> object:
        return getattr(self._operation, name)

    def commit(self) -> None:
        self._operation.commit()
        self._then()


@pytest.mark.parametrize("failure", ["java", "network"])
def test_the_answer_to_a_commit_is_lost(
    stage: Stage, monkeypatch: pytest.MonkeyPatch, failure: str
) -> None:
    real = LakeTable.commit
    deaf: list[str] = []
    foreign: list[str] = []

    def then() -> None:
        for statement in foreign:
            stage.application.sql(statement)
        if failure == "network":
            raise Py4JNetworkError("Answer from Java side is empty")
        stage.application._jvm.java.util.Optional.empty().get()

    def commit(table: LakeTable, update, *args: object, **kwargs: object) -> int:
        if table.name in deaf:
            deaf.remove(table.name)
            return real(table, lambda java: Deaf(update(java), then), *args, **kwargs)  # type: ignore[arg-type]
        return real(table, update, *args, **kwargs)  # type: ignore[arg-type]

    monkeypatch.setattr(LakeTable, "commit", commit)
    with pytest.raises(Py4JNetworkError if failure == "network" else Py4JJavaError):
        then()
    with stage.engine() as engine:
        engine.execute(stage.script())
        stage.send(_1=1, _2=2, _3=3)
        once(engine)
        for number, table in enumerate(("public.t", "out.k", "icestream.epochs")):
            stage.send(_1=10 + number, **{f"_{20 + number}": 1, f"_{19 + number}": -1})
            deaf.append(f"lake.{table}")
            once(engine)
            assert not deaf
            stage.check()
        # and somebody else commits before we look
        monkeypatch.setattr(stage, "application", engine.spark)
        foreign.append("INSERT INTO lake.out.k VALUES (200, 'x', 1)")
        stage.send(_1=50, _2=-1)
        stage.shared[200] = ("x", 1)
        deaf.append("lake.out.k")
        once(engine)
        assert not deaf
        stage.check()
        foreign.clear()
        stage.send(_1=51, _2=51, _200=-1)
        once(engine)
        stage.check()


# -- snapshots that are expired ----------------------------------------------------------------------


def expire(engine: Engine, table: str) -> None:
    engine.spark.sql(
        f"CALL lake.system.expire_snapshots(table => '{table}', older_than => TIMESTAMP '2100-01-01 00:00:00', "
        "retain_last => 1)"
    )


def test_only_the_head_is_needed(stage: Stage) -> None:
    """Expiring all but the newest snapshots of every table disturbs nothing, running or stopped."""
    with stage.engine() as engine:
        engine.execute(stage.script())
        for number in range(2):
            stage.send(_1=number, _2=number, **{f"_{10 + number}": 1})
            once(engine)
            for table in ("public.t", "out.k", "icestream.epochs", "dead_letters.t"):
                expire(engine, table)
    with stage.engine() as engine:
        stage.send(_1=9, _10=-1)
        once(engine)
        for table in ("public.t", "out.k"):
            expire(engine, table)
        stage.send(_1=10, _11=-1)
        once(engine)
    stage.check()


def test_a_snapshot_that_is_needed_and_expired_is_said(stage: Stage) -> None:
    with stage.engine() as engine:
        engine.execute(stage.script())
        stage.send(_1=1, _2=2)
        once(engine)
        # the sink's newest snapshot is no longer the head, and then it is gone
        engine.spark.sql("INSERT INTO lake.out.k VALUES (50, 'x', 1)")
        expire(engine, "out.k")
        stage.send(_1=3)
        with pytest.raises(LakeError, match=r"recorded snapshot \d+ of lake.out.k is no longer"):
            once(engine)
        assert stage.rows("out.k") == {1: ("f0", 1), 2: ("f0", 2), 50: ("x", 1)}


def test_a_sink_that_lags_behind_an_expired_snapshot_says_so(stage: Stage) -> None:
    with stage.engine() as engine:
        engine.execute(stage.script(interval=3600))
        stage.send(_1=1, _2=2)
        assert engine.pipeline.step() is not None
        for number in range(2):
            stage.send(_1=10 + number, _2=-1)
            assert engine.pipeline.step() is not None
        assert stage.rows("out.k") == {1: ("f0", 1), 2: ("f0", 2)}
        expire(engine, "public.t")
        with pytest.raises(RangeLostError, match="no longer keeps snapshot"):
            once(engine)
        assert stage.rows("public.t") == stage.state
        assert stage.rows("out.k") == {1: ("f0", 1), 2: ("f0", 2)}


# -- the index ---------------------------------------------------------------------------------------


def _delete_runs(index: Path, old: Path) -> None:
    for run in sorted(index.glob("*.arrow"))[::2]:
        run.unlink()


def _truncate_runs(index: Path, old: Path) -> None:
    for run in index.glob("*.arrow"):
        run.write_bytes(run.read_bytes()[:-100])


def _flip_runs(index: Path, old: Path) -> None:
    """In place, so that who has the file mapped sees it too."""
    for run in index.glob("*.arrow"):
        content = run.read_bytes()
        with run.open("r+b") as file:
            for place in range(200, len(content), 64):
                file.seek(place)
                file.write(bytes([content[place] ^ 0xFF]))


def _flip_one(index: Path, old: Path) -> None:
    largest = max(index.glob("*.arrow"), key=lambda p: p.stat().st_size)
    content = bytearray(largest.read_bytes())
    content[len(content) // 2] ^= 1
    largest.write_bytes(content)


def _stale(index: Path, old: Path) -> None:
    shutil.rmtree(index)
    shutil.copytree(old / index.parent.name / index.name, index)


def _stale_manifest(index: Path, old: Path) -> None:
    shutil.copy(old / index.parent.name / index.name / MANIFEST, index / MANIFEST)


def _foreign(index: Path, old: Path) -> None:
    """The index of another table, as of another home, in the place of ours."""
    other = next(p for p in index.parent.parent.glob("*/*") if p.parent != index.parent)
    copied = index.with_name("copied")
    shutil.copytree(other, copied)
    shutil.rmtree(index)
    copied.rename(index)


def _change_manifest(index: Path, old: Path) -> None:
    """Still JSON, but other numbers."""
    text = (index / MANIFEST).read_text()
    (index / MANIFEST).write_text(text.replace('"rows": 1', '"rows": 2').replace(": 0,", ": 1,"))


DAMAGES: dict[str, Callable[[Path, Path], object]] = {
    "a run deleted": _delete_runs,
    "runs truncated": _truncate_runs,
    "runs with other bytes": _flip_runs,
    "one bit": _flip_one,
    "the manifest deleted": lambda index, old: (index / MANIFEST).unlink(),
    "garbage in the manifest": lambda index, old: (index / MANIFEST).write_bytes(b"\x00\xffgarbage"),
    "no object in the manifest": lambda index, old: (index / MANIFEST).write_text("null"),
    "the manifest cut off": lambda index, old: (index / MANIFEST).write_text((index / MANIFEST).read_text()[:-40]),
    "the manifest changed": _change_manifest,
    "an older copy": _stale,
    "an older manifest": _stale_manifest,
    "another table's": _foreign,
    "everything deleted": lambda index, old: shutil.rmtree(index),
}  # fmt: skip


@pytest.mark.parametrize("running", [False, True], ids=["stopped", "running"])
def test_a_damaged_or_stale_index_is_made_again(stage: Stage, running: bool) -> None:
    chance = random.Random(5)
    script = stage.script() + TABLE.format(
        name="f", rule="ON CONFLICT DO UPDATE IF NOT NULL", path=stage.input
    )
    old = stage.root / "old"

    def batch() -> None:
        """Few enough for every damage to meet runs that are needed, and that are merged."""
        stage.write(
            [
                {"id": k, "name": f"f{stage.files}", "v": chance.randrange(-20, 100)}
                for k in chance.sample(range(40), 12)
            ]
        )

    engine = stage.engine()
    try:
        engine.execute(script)
        for number in range(3):
            batch()
            once(engine)
            if number == 1:
                shutil.copytree(stage.home / "index", old)
        for name, damage in DAMAGES.items():
            if running and "manifest" in name:
                continue  # is not read again
            if not running:
                engine.close()
            indexes = stage.indexes()
            assert len(indexes) == 3, name
            for index in indexes:
                damage(index, old)
            if not running:
                engine = stage.engine()
            batch()
            once(engine)
            stage.check()
            assert stage.rows("public.f") == stage.state, name
            for index in stage.indexes():
                listed = json.loads((index / MANIFEST).read_text().partition("\n")[2])["runs"]
                assert listed, name
                for run in listed:
                    assert (index / run["name"]).stat().st_size == run["size"], name
    finally:
        engine.close()


# -- a home that is older than its tables ------------------------------------------------------------


def _copy(source: Path, to: Path) -> None:
    shutil.rmtree(to, ignore_errors=True)
    shutil.copytree(source, to)


def test_a_home_restored_with_its_lake_goes_on_from_there(stage: Stage) -> None:
    copy = stage.root / "copy"
    with stage.engine() as engine:
        engine.execute(stage.script())
        for number in range(3):
            stage.send(_1=number, **{f"_{10 + number}": 1})
            once(engine)
    _copy(stage.home, copy)
    with stage.engine() as engine:
        for number in range(5):
            stage.send(_1=10 + number, **{f"_{10 + number}": -1, f"_{20 + number}": 1})
            once(engine)
    index = stage.root / "index"
    _copy(stage.home / "index", index)
    for newer_index in (False, True):
        _copy(copy, stage.home)
        if newer_index:
            _copy(index, stage.home / "index")
        with stage.engine() as engine:
            once(engine)
            stage.send(_1=50, _10=51, _21=-1)
            once(engine)
        stage.check()


@pytest.mark.parametrize(("epochs", "restarts"), [(1, 1), (2, 1), (1, 2)])
def test_a_home_older_than_a_table_elsewhere_never_writes_wrong_rows(
    stage: Stage, epochs: int, restarts: int
) -> None:
    """The sink's table is in a catalog of its own, which was not restored with the home."""
    elsewhere = stage.root / "elsewhere"
    elsewhere.mkdir()
    more = (
        f"catalog.type = 'jdbc', catalog.uri = 'jdbc:sqlite:{elsewhere}/catalog.db', catalog.name = 'far', "
        f"warehouse.path = '{elsewhere.as_uri()}',"
    )
    copy = stage.root / "copy"

    def there() -> Rows:
        from pyiceberg.catalog.sql import SqlCatalog

        catalog = SqlCatalog(
            "far", uri=f"sqlite:///{elsewhere}/catalog.db", warehouse=elsewhere.as_uri()
        )
        found = catalog.load_table("out.k").scan().to_arrow().to_pylist()
        rows = {r["id"]: (r["name"], r["v"]) for r in found}
        assert len(rows) == len(found)
        return rows

    with stage.engine() as engine:
        engine.execute(stage.script(more))
        stage.send(_1=1, _2=2, _3=3)
        once(engine)
    _copy(stage.home, copy)
    for restart in range(restarts):
        with stage.engine() as engine:
            for number in range(epochs if restart == 0 else 0):
                stage.send(_1=10 + number, _2=-1, **{f"_{10 + number}": 1})
                once(engine)
            once(engine)
    assert there() == stage.shared
    before = dict(stage.shared)
    _copy(copy, stage.home)
    stage.send(_1=20, _3=-1, _30=1)
    with stage.engine() as engine, pytest.raises(LakeError, match="older than its tables"):
        once(engine)
    assert there() == before


# -- sources that repeat themselves ------------------------------------------------------------------


def test_records_that_are_delivered_again_end_in_the_same_state(stage: Stage) -> None:
    with stage.engine() as engine:
        engine.execute(
            stage.script()
            + TABLE.format(name="f", rule="ON CONFLICT DO UPDATE IF NOT NULL", path=stage.input)
        )
        stage.send(_1=1, _2=2, _3=3)
        once(engine)
        stage.send(_1=10, _2=-1, _4=4)
        once(engine)
        stage.check()
        last = [json.loads(x) for x in (stage.input / "000001.json").read_text().splitlines()]
        everything = [json.loads(x) for f in sorted(stage.input.iterdir()) for x in f.open()]
        for again in (last, everything, everything + everything):
            stage.write(again)
            once(engine)
            stage.check()
            assert stage.rows("public.f") == stage.state
