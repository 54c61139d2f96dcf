"""Tables as they were, and the metadata of their Iceberg tables, through the server.

What a table held is remembered in a list; what its snapshots and files are, PyIceberg says.
"""

from __future__ import annotations

import random
from collections import Counter
from datetime import UTC, datetime, timedelta
from pathlib import Path

import psycopg
import pytest
from psycopg import errors
from pyspark.sql import SparkSession

from icestream import types as t
from icestream.config import Home
from icestream.engine import Engine
from icestream.lake.catalogs import Lake
from icestream.runtime.travel import under_columns_of_now
from tests.engine import lake_table
from tests.spark.test_serve import serving
from tests.spark_session import spark

__all__ = ["spark"]
pytestmark = pytest.mark.spark

Client = psycopg.Connection[tuple[object, ...]]


def newest(client: Client, name: str) -> tuple[int, datetime]:
    found = client.execute(
        f'SELECT snapshot_id, committed_at FROM "{name}$snapshots" ORDER BY committed_at DESC LIMIT 1'
    ).fetchone()
    assert found is not None
    return found  # type: ignore[return-value]


def test_every_version_of_a_history(spark: SparkSession, tmp_path: Path) -> None:
    r = random.Random(7)
    model: dict[int, int] = {}
    history: list[tuple[int, datetime, dict[int, int]]] = []
    with serving(tmp_path / "home", spark) as url, psycopg.connect(url, autocommit=True) as client:
        client.execute("CREATE TABLE t (id INT PRIMARY KEY, n INT)")
        client.execute(
            "CREATE MATERIALIZED VIEW m AS SELECT n % 3 AS k, count(*) AS c FROM t GROUP BY n % 3"
        )
        for _ in range(3):
            new = {id: r.randrange(100) for id in r.sample(range(8), 3)}
            model |= new
            client.execute("INSERT INTO t VALUES " + ", ".join(map(str, new.items())))
            gone = r.choice(sorted(model))
            del model[gone]
            client.execute("DELETE FROM t WHERE id = %s", [gone])
            client.execute("FLUSH")
            history.append((*newest(client, "t"), dict(model)))
        by_id = "SELECT id, n FROM t FOR SYSTEM_VERSION AS OF %s"
        both = """SELECT 'm', k, c FROM m FOR SYSTEM_TIME AS OF %s
            UNION ALL SELECT 't', id, n FROM t FOR SYSTEM_TIME AS OF %s AS old"""
        for snapshot, moment, held in history:
            assert dict(client.execute(by_id, [snapshot])) == held  # type: ignore[arg-type]
            counts = Counter(n % 3 for n in held.values())
            wanted = [("m", *row) for row in counts.items()] + [("t", *row) for row in held.items()]
            found = client.execute(both, [moment, moment.isoformat()]).fetchall()
            assert sorted(found) == sorted(wanted)
        (first, _, before), (_, _, now) = history[0], history[-1]
        rows = client.execute(
            f"""SELECT id, a.n, b.n FROM t a FULL JOIN t FOR SYSTEM_VERSION AS OF {first} b USING (id)"""
        ).fetchall()
        assert sorted(rows) == sorted((id, now.get(id), before.get(id)) for id in {*now, *before})
        seconds = int(history[-1][1].timestamp()) + 1
        assert dict(client.execute(f"SELECT * FROM t FOR SYSTEM_TIME AS OF {seconds}")) == now  # type: ignore[arg-type]
        client.execute(f"INSERT INTO t SELECT * FROM t FOR SYSTEM_VERSION AS OF {first}")
        client.execute("FLUSH")
        assert dict(client.execute("SELECT * FROM t")) == now | before  # type: ignore[arg-type]
        client.execute("ALTER TABLE t ADD COLUMN more VARCHAR")
        assert sorted(client.execute(f"SELECT * FROM t FOR SYSTEM_VERSION AS OF {first}")) == [
            (*row, None) for row in sorted(before.items())
        ]
        oldest = lake_table(tmp_path / "home", "public.t").metadata.snapshots[0].snapshot_id
        with pytest.raises(
            errors.Error, match=f"t has no snapshot 1; the oldest .* is {oldest} of 20"
        ):
            client.execute("SELECT * FROM t FOR SYSTEM_VERSION AS OF 1")
        with pytest.raises(
            errors.Error, match=f"has no version of 20.*; the oldest .* is {oldest} of"
        ):
            client.execute("SELECT * FROM t FOR SYSTEM_TIME AS OF now() - interval '1 day'")
        with pytest.raises(errors.Error, match="invalid input syntax"):
            client.execute("SELECT * FROM t FOR SYSTEM_TIME AS OF 'yesterday evening'")


def test_metadata_is_what_others_read(spark: SparkSession, tmp_path: Path) -> None:
    with serving(tmp_path / "home", spark) as url, psycopg.connect(url, autocommit=True) as client:
        client.execute("CREATE TABLE t (id INT PRIMARY KEY, n INT)")
        client.execute("INSERT INTO t VALUES (1, 1), (2, 2), (3, 3), (4, 4), (5, 5)")
        client.execute("FLUSH")
        client.execute("DELETE FROM t WHERE id = 2")
        client.execute("FLUSH")
        table = lake_table(tmp_path / "home", "public.t")
        shown = client.execute(
            'SELECT snapshot_id, parent_id, committed_at, operation, summary, manifest_list FROM "t$snapshots" ORDER BY committed_at'
        ).fetchall()
        theirs = table.metadata.snapshots
        assert [row[:2] for row in shown] == [(s.snapshot_id, s.parent_snapshot_id) for s in theirs]
        epoch = datetime(1970, 1, 1, tzinfo=UTC)
        assert [row[2] for row in shown] == [
            epoch + timedelta(milliseconds=s.timestamp_ms) for s in theirs
        ]
        assert [row[3] for row in shown] == [s.summary.operation.value for s in theirs if s.summary]
        assert [row[4] for row in shown] == [
            s.summary.additional_properties for s in theirs if s.summary
        ]
        assert [row[5] for row in shown] == [s.manifest_list for s in theirs]
        files = client.execute(
            "SELECT file_path, record_count FROM \"t$files\" WHERE content = 'data'"
        )
        scanned = [task.file for task in table.scan().plan_files()]
        assert sorted(files) == sorted((f.file_path, f.record_count) for f in scanned)
        deletes = client.execute(
            """SELECT content, referenced_data_file, record_count FROM "t$files" WHERE content <> 'data'"""
        )
        assert [(c, f, n) for c, f, n in deletes] == [("position deletes", scanned[0].file_path, 1)]
        files = client.execute(
            "SELECT content, file_path FROM rw_iceberg_files WHERE source_name = 't'"
        ).fetchall()
        assert sorted(c for c, _ in files) == ["Data"] * len(scanned) + ["PositionDeletes"]
        history = client.execute(
            'SELECT snapshot_id, is_current_ancestor FROM "t$history"'
        ).fetchall()
        assert {id for id, _ in history} == {e.snapshot_id for e in table.metadata.snapshot_log}
        refs = client.execute('SELECT name, type, snapshot_id FROM "t$refs"').fetchall()
        assert refs == [("main", "BRANCH", table.metadata.current_snapshot_id)]
        manifests = client.execute('SELECT path, content FROM "t$manifests"').fetchall()
        current = table.current_snapshot()
        assert current is not None
        listed = {
            (m.manifest_path, ("data", "deletes")[m.content]) for m in current.manifests(table.io)
        }
        assert set(manifests) == listed
        (counted,) = client.execute(
            'SELECT record_count, file_count FROM "t$partitions"'
        ).fetchall()
        assert counted == (sum(f.record_count for f in scanned), len(scanned))
        metrics = client.execute(
            "SELECT readable_metrics -> 'id' ->> 'upper_bound' FROM \"t$files\" WHERE content = 'data'"
        )
        assert metrics.fetchone() == ("5",)


def sink(name: str, kind: str) -> str:
    return f"""CREATE SINK {name}_out FROM {name} WITH (connector = 'iceberg', type = '{kind}', database.name = 'out',
        table.name = '{name}', create_table_if_not_exists = 'true', commit_checkpoint_interval = 1)"""


def test_sinks_and_iceberg_sources_have_versions_too(spark: SparkSession, tmp_path: Path) -> None:
    home = tmp_path / "home"
    with serving(home, spark) as url, psycopg.connect(url, autocommit=True) as client:
        client.execute("CREATE TABLE log (id INT) APPEND ONLY")
        client.execute(sink("log", "append-only"))
        client.execute("INSERT INTO log VALUES (1)")
        client.execute("FLUSH")
        client.execute(
            "CREATE SOURCE back (id INT) WITH (connector = 'iceberg', database.name = 'out', table.name = 'log')"
        )
        first, _ = newest(client, "back")
        client.execute("INSERT INTO log VALUES (2)")
        client.execute("FLUSH")
        assert newest(client, "back") == newest(client, "log_out") != first
        old = f"SELECT id FROM back FOR SYSTEM_VERSION AS OF {first}"
        assert client.execute(old).fetchall() == [(1,)]
        assert sorted(client.execute("SELECT id FROM back")) == [(1,), (2,)]
        theirs = {
            n: lake_table(home, t) for n, t in (("log", "public.log"), ("log_out", "out.log"))
        }
        shown = client.execute(
            "SELECT source_name, snapshot_id, timestamp_ms, summary FROM rw_iceberg_snapshots WHERE source_name <> 'back'"
        ).fetchall()
        epoch = datetime(1970, 1, 1, tzinfo=UTC)
        wanted = [
            (name, s.snapshot_id, epoch + timedelta(milliseconds=s.timestamp_ms))
            for name, table in theirs.items()
            for s in table.metadata.snapshots
        ]
        assert sorted(row[:3] for row in shown) == sorted(wanted)
        assert all(row[3]["operation"] == "append" for row in shown)  # type: ignore[call-overload,index]
        files = client.execute(
            "SELECT source_name, content, file_path, record_count, file_size_in_bytes FROM rw_iceberg_files WHERE source_name <> 'back'"
        ).fetchall()
        assert sorted(files) == sorted(
            (name, "Data", t.file.file_path, t.file.record_count, t.file.file_size_in_bytes)
            for name, table in theirs.items()
            for t in table.scan().plan_files()
        )
        types = {type for (type,) in client.execute("SELECT event_type FROM rw_event_logs")}
        assert types == {"META_NODE_START", "RECOVERY", "CREATE_STREAM_JOB"}


def test_columns_are_those_of_now(spark: SparkSession, tmp_path: Path) -> None:
    with Engine(Home.at(tmp_path / "home"), application=spark, allow_paths=["/"]) as engine:
        engine.execute(
            "CREATE TABLE t (id INT, n INT, gone INT); INSERT INTO t VALUES (1, 2, 3); FLUSH"
        )
        table = Lake(engine.spark).table("lake", "public", "t", owned=True)
        head = table.head()
        assert head is not None
        for change in ("RENAME COLUMN n TO m", "ALTER COLUMN m TYPE BIGINT", "DROP COLUMN gone", "ADD COLUMN gone STRING"):  # fmt: skip
            engine.spark.sql(f"ALTER TABLE {table.sql} {change}")
        columns = {"id": t.INTEGER, "m": t.BIGINT, "gone": t.VARCHAR}
        old = under_columns_of_now(table, table.load(), head.id, columns)
        frame = engine.spark.sql(f"SELECT * FROM {old}")
        assert frame.dtypes == [("id", "int"), ("m", "bigint"), ("gone", "string")]
        assert [tuple(row) for row in frame.collect()] == [(1, 2, None)]
