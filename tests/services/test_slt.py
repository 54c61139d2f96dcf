"""sqllogictest files against a real PostgreSQL: what the session does, and the rows that the cases expect."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from icestream.dev.slt.__main__ import main
from icestream.dev.slt.database import Answer, StatementError
from icestream.dev.slt.parser import parse
from icestream.dev.slt.postgres import PostgresDatabase
from icestream.dev.slt.runner import Runner
from icestream.errors import ConnectorError
from tests.services.postgres import PostgresServer

pytestmark = pytest.mark.services

ROOT = Path(__file__).parents[1] / "slt"
FILES = sorted(ROOT.rglob("*.slt"))


@pytest.fixture(scope="module")
def url(postgres: PostgresServer) -> Iterator[str]:
    """A database of its own."""
    with psycopg.connect(postgres.dsn, autocommit=True) as connection:
        connection.execute("CREATE DATABASE slt")
        yield f"postgresql://postgres@127.0.0.1:{postgres.port}/slt"
        connection.execute("DROP DATABASE slt WITH (FORCE)")


@pytest.fixture
def session(url: str) -> Iterator[PostgresDatabase]:
    session = PostgresDatabase(url)
    yield session
    session.close()


@pytest.mark.parametrize("file", FILES, ids=lambda file: str(file.relative_to(ROOT)))
def test_the_expected_rows_are_those_of_postgresql(
    file: Path, url: str, capsys: pytest.CaptureFixture[str]
) -> None:
    failed = main(["--url", url, "--dialect", "postgres", "--keep-going", str(file)])
    assert not failed, capsys.readouterr().out


def test_no_case_leaves_anything_behind(session: PostgresDatabase) -> None:
    found = session.execute("SELECT relname FROM pg_class WHERE relnamespace = 'public'::regnamespace")  # fmt: skip
    assert found.rows == ()


def test_a_file_with_everything(url: str, tmp_path: Path) -> None:
    (tmp_path / "parts").mkdir()
    (tmp_path / "parts" / "rows.part").write_text(
        "statement count 2\ninsert into all_of_it values ($first, 'a b'), (2, '')\n"
    )
    (tmp_path / "all.slt").write_text(
        """
control substitution on

statement ok
create table all_of_it (id int primary key, s text)

let first
select 40 + 1

include parts/*.part

query IT rowsort
select * from all_of_it
----
2 (empty)
41 a b

statement error duplicate key value
insert into all_of_it values ($first, 'again')

statement error (23505)
insert into all_of_it values ($first, 'again')

statement error
insert into all_of_it values ($first, 'again')
----
db error: ERROR: duplicate key value violates unique constraint "all_of_it_pkey"
DETAIL: Key (id)=(41) already exists.


statement ok
create sequence attempts

query I retry 5 backoff 10ms
select nextval('attempts')
----
3

connection other
statement count 1
delete from all_of_it where id = 2

query BTR
select id > 40, null, 1.50 from all_of_it
----
t NULL 1.50

skipif postgres
statement ok
nonsense

statement ok
drop table all_of_it; drop sequence attempts
"""
    )
    assert main(["--url", url, "--dialect", "postgres", str(tmp_path / "all.slt")]) == 0


def test_any_text_passes_unchanged(session: PostgresDatabase) -> None:
    for _ in range(10):  # never prepared
        answer = session.execute(
            "select 'a%b %s %(x)s', '$1', E'\\n', '', null, true, 1e-7::float8"
        )
    row = ("a%b %s %(x)s", "$1", "\n", "", None, "t", "1e-07")
    assert answer == Answer(7, (row,), 1)
    assert session.execute("select 1; select 2, 3").rows == (("1",),)
    assert session.execute("-- nothing").columns == 0
    with pytest.raises(ConnectorError, match="COPY"):
        session.execute("copy (select 1) to stdout")


def test_an_error_is_told_as_in_sqllogictest_rs(session: PostgresDatabase) -> None:
    with pytest.raises(StatementError) as refused:
        session.execute("select lower(1, 2)")
    assert refused.value.sqlstate == "42883"
    assert str(refused.value) == (
        "db error: ERROR: function lower(integer, integer) does not exist\n"
        "HINT: No function matches the given name and argument types. You might need to add explicit type casts."
    )
    with pytest.raises(StatementError):
        session.execute("select 1; select 1 / 0")


def test_a_lost_session_is_a_failure_and_the_next_record_has_a_new_one(url: str) -> None:
    text = "statement error\nselect pg_terminate_backend(pg_backend_pid())\n\nquery I\nselect 1\n----\n1\n"
    with Runner(lambda: PostgresDatabase(url)) as runner:
        lost, after = runner.run(parse(text))
    assert lost.failure is not None
    assert lost.failure.startswith("the session is lost")
    assert after.failure is None


def test_no_server() -> None:
    with pytest.raises(ConnectorError, match="no session with the server"):
        PostgresDatabase("postgresql://root@127.0.0.1:1/dev?connect_timeout=2")
