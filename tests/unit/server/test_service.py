"""Clients of an engine, as far as that goes without a JVM: the session's own statements, the system, errors."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest
from psycopg import errors

from icestream.config import Home
from icestream.engine import Engine
from icestream.server.listener import Listener
from icestream.server.service import Service
from tests.unit.server.test_psql import needs_psql, psql


@pytest.fixture
def served(tmp_path: Path) -> Iterator[str]:
    with Engine(Home.at(tmp_path / "home")) as engine, Listener(Service(engine), port=0) as server:
        host, port = server.address
        yield f"host={host} port={port} user=root dbname=dev connect_timeout=10"


@pytest.fixture
def client(served: str) -> Iterator[psycopg.Connection]:
    with psycopg.connect(served, autocommit=True) as connection:
        yield connection


def test_settings_are_the_sessions_own(served: str, client: psycopg.Connection) -> None:
    client.execute("SET TIME ZONE 'Europe/Berlin'")
    client.execute("SET application_name TO 'mine'")
    assert client.execute("SHOW timezone").fetchone() == ("Europe/Berlin",)
    assert client.info.parameter_status("application_name") == "mine"
    with psycopg.connect(served, autocommit=True) as other:
        assert other.execute("SHOW TimeZone").fetchone() == ("UTC",)


def test_transactions_are_spoken(served: str) -> None:
    with psycopg.connect(served) as connection:
        assert connection.execute("SHOW TABLES").fetchall() == []
        with pytest.raises(errors.SyntaxError):
            connection.execute("SELEC 1")
        with pytest.raises(errors.InFailedSqlTransaction):
            connection.execute("SHOW TABLES")
        connection.rollback()
        assert connection.execute("SHOW TABLES").fetchall() == []


def test_errors_have_a_state_and_a_place(client: psycopg.Connection) -> None:
    with pytest.raises(errors.UndefinedTable) as found:
        client.execute("SHOW TABLES; SELECT *\nFROM nowhere")
    assert found.value.diag.statement_position == str(len("SHOW TABLES; SELECT *\nFROM ") + 1)
    with pytest.raises(errors.FeatureNotSupported):
        client.execute("VACUUM t")


def test_the_system_is_asked(client: psycopg.Connection) -> None:
    (version,) = client.execute("SELECT version()").fetchone() or ("",)
    assert "13.14.0" in version
    found = client.execute("SELECT nspname FROM pg_namespace WHERE nspname = %s", ["public"])
    assert found.fetchall() == [("public",)]
    with pytest.raises(errors.UndefinedTable):
        client.execute("SELECT * FROM pg_catalog.pg_nothing")


@needs_psql
def test_psql_looks_around(served: str) -> None:
    done = psql(served, "\\d\n\\dt\n\\dm\n\\l\n\\dn\nSHOW sources;\n")
    assert done.returncode == 0
    assert "ERROR" not in done.stderr
    assert "public" in done.stdout
