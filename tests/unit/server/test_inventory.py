"""What system relations show beside objects: events, jobs, sessions, and nothing of Iceberg before the pipeline is open."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import psycopg
import pytest
from psycopg import errors

from icestream.config import Home
from icestream.engine import Engine
from icestream.observe.events import KEPT, Events
from icestream.server.listener import Listener
from icestream.server.relations import Model, SystemRelations
from icestream.server.relations.model import Event
from icestream.server.service import Service
from tests.engine import await_condition

AT = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
Client = psycopg.Connection[tuple[object, ...]]


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[Engine]:
    with Engine(Home.at(tmp_path / "home")) as engine:
        yield engine


@pytest.fixture
def client(engine: Engine) -> Iterator[Client]:
    with Listener(Service(engine), port=0) as server:
        host, port = server.address
        where = f"host={host} port={port} user=root dbname=dev application_name=looking"
        with psycopg.connect(where, autocommit=True) as connection:
            yield connection


def test_what_was_done_is_told_without_secrets(engine: Engine, client: Client) -> None:
    client.execute("CREATE VIEW v AS SELECT 1 AS a")
    engine.events.add("SOURCE_FAIL", source="s", error="the broker is gone")
    with pytest.raises(errors.Error):
        client.execute("CREATE SOURCE s (id INT) WITH (connector = 'kafka', topic = 't', properties.sasl.password = 'hunter2')")  # fmt: skip
    with pytest.raises(errors.UndefinedTable):
        client.execute("SELECT * FROM nowhere")
    made, failed, refused = client.execute(
        "SELECT event_type, info FROM rw_catalog.rw_event_logs ORDER BY timestamp"
    ).fetchall()
    assert made[0] == "CREATE_STREAM_JOB"
    assert made[1]["createStreamJob"]["definition"] == "CREATE VIEW v AS SELECT 1 AS a"  # type: ignore[index]
    assert failed == ("SOURCE_FAIL", {"sourceFail": {"source": "s", "error": "the broker is gone"}})
    assert refused[0] == "CREATE_STREAM_JOB_FAIL"
    told = refused[1]["createStreamJobFail"]  # type: ignore[index]
    assert told["definition"].startswith("CREATE SOURCE s (id INT) WITH")
    assert told["error"]
    assert "hunter2" not in str(told)
    client.execute("DROP VIEW v")
    (types,) = client.execute("SELECT array_agg(event_type) FROM rw_event_logs").fetchall()
    assert sorted(types[0]) == ["CREATE_STREAM_JOB_FAIL", "DROP_STREAM_JOB", "SOURCE_FAIL"]  # type: ignore[call-overload]


def test_the_list_of_events_is_bounded() -> None:
    events = Events()
    for number in range(KEPT + 5):
        events.add("RECOVERY", epoch=number)
    kept = events.newest()
    assert [e.info["epoch"] for e in kept] == list(range(5, KEPT + 5))
    assert len({e.id for e in kept}) == KEPT


@dataclass
class Job:
    """A statement under way."""

    id: int
    statement: str
    progress: str
    created: float
    background: bool = True


def test_jobs_are_listed(engine: Engine, client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    assert client.execute("SHOW JOBS").fetchall() == []
    text = "CREATE MATERIALIZED VIEW m AS SELECT 1"
    job = Job(7, text, "12.5%", AT.timestamp())
    monkeypatch.setitem(engine.jobs._jobs, job.id, job)  # type: ignore[misc]
    assert client.execute("SHOW JOBS").fetchall() == [(7, text, "12.5%")]
    found = client.execute(
        "SELECT ddl_id, ddl_statement, progress, initialized_at FROM rw_ddl_progress"
    )
    assert found.fetchall() == [(7, text, "12.5%", AT)]


def test_iceberg_is_not_asked_before_the_pipeline_is_open(engine: Engine, client: Client) -> None:
    client.execute("CREATE VIEW v AS SELECT 1 AS a")
    assert client.execute("SELECT * FROM rw_iceberg_snapshots").fetchall() == []
    assert client.execute("SELECT * FROM rw_iceberg_files").fetchall() == []
    assert engine.resources.session is None


def test_sessions_are_listed(client: Client) -> None:
    def pids() -> list[object]:
        return [pid for (pid,) in client.execute("SELECT pid FROM pg_stat_activity ORDER BY 1")]

    sql = "SELECT pid, usename, datname, application_name FROM pg_stat_activity"
    own = client.info.backend_pid
    assert client.execute(sql).fetchall() == [(own, "root", "dev", "looking")]
    with psycopg.connect(client.info.dsn, autocommit=True) as other:
        assert pids() == sorted([own, other.info.backend_pid])
    await_condition(lambda: pids() == [own], "a client that is gone is not listed")


def test_costly_parts_are_made_only_when_named() -> None:
    asked: list[int] = []

    def events() -> tuple[Event, ...]:
        asked.append(1)
        return (Event(str(len(asked)), AT, "RECOVERY"),)

    relations = SystemRelations(Model, {"events": events})
    relations.query("SELECT * FROM pg_class, rw_tables, rw_ddl_progress")
    assert not asked
    for number in (1, 2):
        found = relations.query("SELECT unique_id FROM rw_catalog.rw_event_logs").rows
        assert found == [(str(number),)]


SHOWN = [
    ("SHOW TABLES FROM public", []),
    ("SHOW VIEWS", [("ab_c",), ("abxc",)]),
    ("SHOW VIEWS LIKE 'ab_c'", [("ab_c",), ("abxc",)]),
    ("SHOW VIEWS FROM public LIKE '%x%'", [("abxc",)]),
    ("SHOW VIEWS FROM dead_letters", []),
    ("SHOW COLUMNS FROM abxc LIKE '[i]%'", []),
    ("SHOW COLUMNS FROM abxc LIKE 'i%'", [("id", "integer", False, False)]),
    ("SHOW FUNCTIONS", []),
    ("SHOW INTERNAL TABLES", []),
    ("SHOW USERS", [("root",)]),
    ("SHOW SCHEMAS", [("dead_letters",), ("public",)]),
    ("SHOW DATABASES LIKE 'x'", []),
]


def test_lists(client: Client) -> None:
    client.execute("CREATE VIEW ab_c AS SELECT 1 AS id, 2 AS n")
    client.execute("CREATE VIEW abxc AS SELECT 1 AS id, 2 AS n")
    for text, rows in SHOWN:
        assert client.execute(text).fetchall() == rows, text
    assert client.execute("SHOW PARAMETERS").fetchall() == client.execute("SHOW ALL").fetchall()
    with pytest.raises(errors.InvalidSchemaName):
        client.execute("SHOW TABLES FROM nowhere")
    with pytest.raises(errors.UndefinedObject):
        client.execute("SHOW no_such_setting")
    with pytest.raises(errors.FeatureNotSupported) as caught:
        client.execute("SHOW CLUSTER")
    assert caught.value.diag.message_hint
