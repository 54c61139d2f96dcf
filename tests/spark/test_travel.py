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
        by_time = "SELECT id, n FROM t FOR SYSTEM_TIME AS OF %s AS old"
        both = """SELECT k, c, (SELECT count(*) FROM t FOR SYSTEM_TIME AS OF %s AS o WHERE o.n %% 3 = k)
            FROM m FOR SYSTEM_TIME AS OF %s"""
        for snapshot, moment, held in history:
            assert dict(client.execute(by_id, [snapshot])) == held  # type: ignore[arg-type]
            assert dict(client.execute(by_time, [moment])) == held  # type: ignore[arg-type]
            wanted = Counter(n % 3 for n in held.values())
            found = client.execute(both, [moment, moment.isoformat()]).fetchall()
            assert sorted(found) == sorted((k, c, c) for k, c in wanted.items())
        (first, _, before), (_, _, now) = history[0], history[-1]
        rows = client.execute(
            f"""SELECT id, a.n, b.n FROM t a FULL JOIN t FOR SYSTEM_VERSION AS OF {first} b USING (id)"""
        ).fetchall()
        assert sorted(rows) == sorted((id, now.get(id), before.get(id)) for id in {*now, *before})
        seconds = int(history[-1][1].timestamp()) + 1
        assert dict(client.execute(f"SELECT * FROM t FOR SYSTEM_TIME AS OF {seconds}")) == now  # type: ignore[arg-type]
        client.execute("CREATE TABLE kept (id INT PRIMARY KEY, n INT)")
        client.execute(f"INSERT INTO kept SELECT * FROM t FOR SYSTEM_VERSION AS OF {first}")
        client.execute("FLUSH")
        assert dict(client.execute("SELECT * FROM kept")) == before  # type: ignore[arg-type]
        oldest = lake_table(tmp_path / "home", "public.t").metadata.snapshots[0].snapshot_id
        with pytest.raises(
            errors.Error, match=f"t has no snapshot 1; the oldest .* is {oldest} of 20"
        ):
            client.execute("SELECT * FROM t FOR SYSTEM_VERSION AS OF 1")
        with pytest.raises(
            errors.Error, match=f"has no version of 20.*; the oldest .* is {oldest} of"
        ):
            client.execute("SELECT * FROM t FOR SYSTEM_TIME AS OF now() - interval '1 day'")
        with pytest.raises(errors.Error, match="is not a moment"):
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
