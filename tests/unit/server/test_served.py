"""The command line on a home that a server runs, as far as that goes without a JVM."""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from icestream.cli import main
from icestream.cli.serve import announce
from icestream.config import Home
from icestream.engine import Engine
from icestream.observe.serving import Serving, announced, withdraw
from icestream.observe.serving import announce as write
from icestream.runtime.lock import served
from icestream.server.auth import Access, derive_keys
from icestream.server.listener import Listener
from icestream.server.service import Service

VIEW = "CREATE VIEW pairs AS SELECT * FROM (VALUES (1, 'a'), (2, NULL)) AS t (id, name)"


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Home]:
    """A home that is served in this process, with a password."""
    home = Home.at(tmp_path / "home")
    access = Access({"root": derive_keys("secret")})
    args = argparse.Namespace(user="root", tls_cert=None)
    with Engine(home) as engine, Listener(Service(engine), port=0, access=access) as listener:
        engine.execute(VIEW)
        announce(listener, home, args)
        yield home


@pytest.fixture
def password(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ICESTREAM_PASSWORD", "secret")


@pytest.mark.usefixtures("password")
def test_statements_go_through_the_server(home: Home, capsys: pytest.CaptureFixture[str]) -> None:
    sql = "CREATE VIEW more AS SELECT id FROM pairs; SHOW VIEWS; DESCRIBE pairs"
    assert main(["sql", "--home", str(home.root), sql, "--format", "csv"]) == 0
    out, err = capsys.readouterr()
    assert out.startswith("Name\nmore\npairs\nName,Type,")
    assert "name,varchar,f,f" in out
    assert err == "CREATE VIEW more\n"


@pytest.mark.usefixtures("password")
def test_errors_are_those_of_the_engine(home: Home, capsys: pytest.CaptureFixture[str]) -> None:
    sql = "SHOW VIEWS;\nSELECT *\n  FROM pears"
    assert main(["sql", "--home", str(home.root), sql]) == 1
    err = capsys.readouterr().err
    withdraw(home, announced(home).pid)  # type: ignore[union-attr]
    assert main(["sql", "--home", str(home.root), sql]) == 1
    assert capsys.readouterr().err == err
    assert "<sql>:3:8" in err


def test_a_password_is_asked_for(home: Home, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["sql", "--home", str(home.root), "SHOW VIEWS"]) == 1
    assert "set ICESTREAM_PASSWORD" in capsys.readouterr().err


@pytest.mark.usefixtures("password")
def test_the_status_names_the_server(home: Home, capsys: pytest.CaptureFixture[str]) -> None:
    found = served(home)
    assert found is not None
    assert (home.root / "server.json").stat().st_mode & 0o777 == 0o600
    with psycopg.connect(
        host=found.host, port=found.port, user="root", dbname="dev", password="secret"
    ):
        assert main(["status", "--home", str(home.root)]) == 0
        assert f"served at {found}, 1 client connected" in capsys.readouterr().out
        assert main(["status", "--home", str(home.root), "--format", "json"]) == 0
        assert json.loads(capsys.readouterr().out)["served"]["port"] == found.port


def test_another_engine_is_told_of_it(home: Home, capsys: pytest.CaptureFixture[str]) -> None:
    script = home.root.parent / "script.sql"
    script.write_text("CREATE VIEW v AS SELECT 1 AS a")
    assert main(["run", "--home", str(home.root), str(script)]) == 1
    err = capsys.readouterr().err
    assert f"serving at {served(home)}" in err
    assert "icestream sql talks to it" in err


def test_a_server_that_is_gone_is_not_believed(tmp_path: Path) -> None:
    home = Home.at(tmp_path / "home")
    home.prepare()
    write(home, Serving("127.0.0.1", 1, "root", 999_999))
    assert served(home) is None
    withdraw(home, 1)
    assert announced(home) is not None
    withdraw(home, 999_999)
    assert announced(home) is None
