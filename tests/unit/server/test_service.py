"""Clients of an engine, as far as that goes without a JVM: the session's own statements, the system, errors."""

from __future__ import annotations

import asyncio
import datetime as dt
import re
import threading
import time
from collections.abc import Iterator
from contextlib import closing, suppress
from decimal import Decimal
from pathlib import Path

import asyncpg
import psycopg
import psycopg2
import pytest
from psycopg import errors
from psycopg.types.numeric import Float4, Int4, Int8

from icestream.catalog.objects import Source, View
from icestream.config import Home
from icestream.engine import Engine
from icestream.server.backend import Client
from icestream.server.listener import Listener
from icestream.server.service import Service
from icestream.sql.statements import Name
from icestream.types import INTEGER, VARCHAR
from tests.seeds import choose_length
from tests.tricks import TRICKS
from tests.unit.server.relations.cases import cases, golden
from tests.unit.server.test_psql import needs_psql, psql

GOLDEN = golden()
MOMENT = dt.datetime(2026, 1, 2, 3, tzinfo=dt.UTC)


@pytest.fixture
def served(tmp_path: Path) -> Iterator[str]:
    with Engine(Home.at(tmp_path / "home")) as engine, Listener(Service(engine), port=0) as server:
        host, port = server.address
        yield f"host={host} port={port} user=root dbname=dev connect_timeout=10"


def port(url: str) -> int:
    """The port in an address."""
    found = re.search(r"port=(\d+)", url)
    assert found
    return int(found[1])


@pytest.fixture
def client(served: str) -> Iterator[psycopg.Connection]:
    with psycopg.connect(served, autocommit=True) as connection:
        yield connection


def test_rollback_undoes_settings(client: psycopg.Connection) -> None:
    def zone() -> object:
        (shown,) = client.execute("SHOW timezone").fetchone() or ("",)
        assert (
            client.info.parameter_status("TimeZone") == shown
        )  # clients are told of the old value too
        return shown

    client.execute("SET TIME ZONE 'Europe/Berlin'")
    client.execute("BEGIN")
    client.execute("SET TIME ZONE 'Asia/Tokyo'")
    client.execute("SAVEPOINT a")
    client.execute("SET LOCAL TIME ZONE 'Europe/Rome'")
    assert zone() == "Europe/Rome"
    client.execute("ROLLBACK TO a")
    assert zone() == "Asia/Tokyo"
    client.execute("RESET TIME ZONE")
    assert zone() == "UTC"
    client.execute("ROLLBACK")
    assert zone() == "Europe/Berlin"
    with pytest.raises(psycopg.errors.UndefinedTable):  # one text is a transaction of its own
        client.execute("SET TIME ZONE 'Asia/Tokyo'; SELECT * FROM nowhere")
    assert zone() == "Europe/Berlin"
    client.execute("BEGIN; SET TIME ZONE 'Asia/Tokyo'; COMMIT")
    assert zone() == "Asia/Tokyo"


@pytest.mark.parametrize(
    "sql",
    ["INSERT INTO d VALUES ($1, DEFAULT), (DEFAULT, $2)", "UPDATE d SET v = $1, b = DEFAULT WHERE b = $2",
     "WITH w AS (SELECT $1 + 1 AS v) INSERT INTO d SELECT v, $2 FROM w"],
)  # fmt: skip
def test_parameters_beside_defaults(tmp_path: Path, sql: str) -> None:
    with Engine(Home.at(tmp_path)) as engine:
        engine.plan("CREATE TABLE d (v INT, b VARCHAR DEFAULT 'x')")
        session = Service(engine).open(Client("root", "dev"))
        (request,) = session.parse(sql)
        assert session.describe(request, []).parameters == (INTEGER, VARCHAR)


@pytest.mark.parametrize("binary", [False, True])
def test_declared_types_of_queries_about_the_system(
    client: psycopg.Connection, binary: bool
) -> None:
    """psycopg declares that 7 is a smallint, and sends two bytes for it."""
    cursor = client.cursor(binary=binary)
    value = "%b" if binary else "%s"
    sql = f"SELECT {value}, version() <> '' AS named, {value}"
    cursor.execute(sql, (7, dt.date(2024, 1, 2)))
    assert cursor.fetchone() == (7, True, dt.date(2024, 1, 2))
    assert [c.type_code for c in cursor.description or ()] == [21, 16, 1082]


def test_settings_are_the_sessions_own(served: str, client: psycopg.Connection) -> None:
    client.execute("SET TIME ZONE 'Europe/Berlin'")
    client.execute("SET application_name TO 'mine'")
    assert client.execute("SHOW timezone").fetchone() == ("Europe/Berlin",)
    assert client.info.parameter_status("application_name") == "mine"
    with psycopg.connect(served, autocommit=True) as other:
        assert other.execute("SHOW TimeZone").fetchone() == ("UTC",)


@pytest.mark.parametrize(
    "text",
    [
        "SET SESSION CHARACTERISTICS AS TRANSACTION READ ONLY",
        "SET TRANSACTION ISOLATION LEVEL READ COMMITTED",
        "SET default_transaction_read_only TO on",
        "SET NAMES 'UTF8'",
        "SET LOCAL statement_timeout = 0",
    ],
)
def test_what_drivers_set_is_taken(client: psycopg.Connection, text: str) -> None:
    assert client.execute(text).statusmessage == "SET"


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("SET client_encoding = 'latin1'", "0A000"),
        ("SET NAMES 'latin1'", "0A000"),
        ("SELECT set_config('client_encoding', 'latin1', false)", "0A000"),
        ("SET datestyle = 'German'", "0A000"),
        ("SET datestyle = 'ISO, DMY'", "0A000"),
        ("SET datestyle = 'nonsense'", "22023"),
        ("SET standard_conforming_strings = off", "0A000"),
        ("SET standard_conforming_strings = maybe", "22023"),
        ("SET timezone = 'garbage'", "22023"),
        ("SET TIME ZONE 99", "22023"),
        ("SET TIME ZONE INTERVAL '1 day'", "22023"),
        ("SET extra_float_digits = 4", "22023"),
        ("SET transaction_isolation = 'none'", "22023"),
        ("SET rw_implicit_flush = 'o'", "22023"),
        ("SET rw_implicit_flush = perhaps", "22023"),
        ("SET default_transaction_read_only = 2", "22023"),
        ("SET server_version = '99'", "55P02"),
        ("SET SESSION CHARACTERISTICS AS nonsense", "42601"),
        ("SET SESSION CHARACTERISTICS AS TRANSACTION nonsense", "42601"),
        ("DISCARD garbage", "42601"),
        ("DISCARD", "42601"),
        ("DEALLOCATE nosuch", "26000"),
        ("DEALLOCATE", "42601"),
        ("RESET nonsense", "42704"),
        ("LISTEN foo", "0A000"),
    ],
)
def test_what_would_not_be_kept_to_is_refused(
    served: str, client: psycopg.Connection, text: str, code: str
) -> None:
    with pytest.raises(psycopg.Error) as told:
        client.execute(text.encode())
    assert told.value.sqlstate == code
    shown = ("client_encoding", "datestyle", "standard_conforming_strings", "timezone")
    now = [client.execute(f"SHOW {name}".encode()).fetchone() for name in shown]
    assert now == [("UTF8",), ("ISO, MDY",), ("on",), ("UTC",)]


@pytest.mark.parametrize(
    ("text", "name", "value"),
    [
        ("SET client_encoding TO 'utf-8'", "client_encoding", "UTF8"),
        ("SET NAMES 'UNICODE'", "client_encoding", "UTF8"),
        ("SET datestyle TO 'ISO'", "datestyle", "ISO, MDY"),
        ("SET DateStyle = ISO, MDY", "datestyle", "ISO, MDY"),
        ("SET standard_conforming_strings = 'ON'", "standard_conforming_strings", "on"),
        ("SET timezone TO 'europe/berlin'", "timezone", "Europe/Berlin"),
        ("SET timezone TO 'GMT-02:00'", "timezone", "GMT-02:00"),
        ("SET TIME ZONE -7", "timezone", "<-07>+07"),
        ("SET TIME ZONE 5.5", "timezone", "<+05:30>-05:30"),
        ("SET TIME ZONE INTERVAL '+02:00' HOUR TO MINUTE", "timezone", "<+02>-02"),
        ("SET TIME ZONE LOCAL", "timezone", "UTC"),
        ("SET extra_float_digits = 3", "extra_float_digits", "3"),
        ("SET default_transaction_isolation = 'serializable'", "transaction_isolation", "read committed"),
        *((f"SET rw_implicit_flush = {word}", "rw_implicit_flush", "true")
          for word in ("'on'", "ON", "true", "'tru'", "t", "yes", "'y'", "1")),
        *((f"SET implicit_flush = {word}", "implicit_flush", "false")
          for word in ("'off'", "of", "FALSE", "f", "no", "'n'", "0")),
        ("RESET ALL", "timezone", "UTC"),
        ("RESET ROLE", "timezone", "UTC"),
        ("RESET query_mode", "query_mode", "auto"),
        ("DISCARD PLANS", "timezone", "UTC"),
        ("UNLISTEN *", "timezone", "UTC"),
    ],
)  # fmt: skip
def test_what_can_be_kept_to_is_taken(
    client: psycopg.Connection, text: str, name: str, value: str
) -> None:
    client.execute(text.encode())
    shown = client.execute(f"SHOW {name}".encode()).fetchone()
    assert shown is not None
    assert shown[0] == value


def test_moments_are_told_in_the_time_zone(client: psycopg.Connection) -> None:
    for zone, text in (
        ("-7", "2026-01-01 20:00:00-07"),
        ("'GMT-02:00'", "2026-01-02 05:00:00+02"),
        ("'europe/berlin'", "2026-01-02 04:00:00+01"),
    ):
        client.execute(f"SET TIME ZONE {zone}".encode())
        found = client.pgconn.exec_(b"SELECT timestamptz '2026-01-02 03:00:00+00'")
        assert found.get_value(0, 0) == text.encode()


def test_prepared_statements_are_dropped_by_any_text(client: psycopg.Connection) -> None:
    for text in (b"SHOW timezone; DEALLOCATE s", b"DEALLOCATE /* c */ s", b"DISCARD ALL"):
        client.pgconn.prepare(b"s", b"SHOW timezone")
        assert client.pgconn.exec_prepared(b"s", []).ntuples == 1
        client.pgconn.exec_(text)
        failed = client.pgconn.exec_prepared(b"s", [])
        assert failed.error_field(psycopg.pq.DiagnosticField.SQLSTATE) == b"26000", text


READ_ONLY = (
    ["SET SESSION CHARACTERISTICS AS TRANSACTION READ ONLY"],
    ["SET default_transaction_read_only = on"],
    ["SELECT set_config('default_transaction_read_only', 'on', false)"],
    ["SET default_transaction_read_only = on", "BEGIN"],
    ["BEGIN", "SET TRANSACTION READ ONLY"],
    ["BEGIN", "SET transaction_read_only = yes"],
    ["BEGIN READ ONLY"],
    ["START TRANSACTION READ ONLY"],
)


@pytest.mark.parametrize("settings", READ_ONLY)
@pytest.mark.parametrize("text", ["CREATE VIEW w AS SELECT 1 AS a", "DROP VIEW v", "INSERT INTO t VALUES (1)", "UPDATE t SET a = 1", "DELETE FROM t"])  # fmt: skip
def test_nothing_is_changed_where_only_reading_is_allowed(
    client: psycopg.Connection, settings: list[str], text: str
) -> None:
    client.execute("CREATE VIEW v AS SELECT 1 AS a")
    for setting in settings:
        client.execute(setting.encode())
    assert client.execute("SHOW transaction_read_only").fetchone() == ("on",)
    assert client.execute("SELECT a FROM v").fetchone() == (1,)
    with pytest.raises(errors.ReadOnlySqlTransaction, match="in a read-only transaction"):
        client.execute(text.encode())


def test_a_transaction_may_write_where_others_only_read(client: psycopg.Connection) -> None:
    assert client.info.parameter_status("default_transaction_read_only") == "off"
    client.execute("SET default_transaction_read_only = on")
    assert client.info.parameter_status("default_transaction_read_only") == "on"
    client.execute("BEGIN READ WRITE")
    client.execute("CREATE VIEW v AS SELECT 1 AS a")
    client.execute("COMMIT")
    client.execute("SET transaction_read_only = off")  # of a transaction that is over at once
    with pytest.raises(errors.ReadOnlySqlTransaction):
        client.execute("DROP VIEW v")
    with pytest.raises(errors.ReadOnlySqlTransaction):
        client.execute("SHOW timezone; DROP VIEW v")
    client.execute("SET SESSION CHARACTERISTICS AS TRANSACTION READ WRITE")
    client.execute("DROP VIEW v")


def test_read_only_is_said_at_the_start(served: str) -> None:
    options = "-c default_transaction_read_only=on"
    with psycopg.connect(served, autocommit=True, options=options) as client:
        with pytest.raises(errors.ReadOnlySqlTransaction):
            client.execute("CREATE VIEW v AS SELECT 1 AS a")
        with pytest.raises(errors.ReadOnlySqlTransaction):
            client.execute(
                "SET default_transaction_read_only = off; CREATE VIEW v AS SELECT 1 AS a"
            )


def test_lists_have_the_same_types_with_rows_and_without(client: psycopg.Connection) -> None:
    kinds = [c.type_code for c in client.execute("SHOW JOBS").description or ()]
    assert kinds == [20, 1043, 1043]
    assert {c.type_code for c in client.execute("SHOW TABLES").description or ()} == {1043}


def test_what_cannot_be_explained_is_refused(client: psycopg.Connection) -> None:
    with pytest.raises(errors.FeatureNotSupported, match="EXPLAIN"):
        client.execute("EXPLAIN FLUSH")


def test_places_hold_before_a_semicolon(client: psycopg.Connection) -> None:
    for text, at in (
        ("selec 1;", 1),
        ("select *\nfrom nowhere ;", 15),
        ("show tables; selec 1; ", 14),
    ):
        with pytest.raises(psycopg.Error) as told:
            client.cursor().execute(text.encode(), prepare=False)
        assert told.value.diag.statement_position == str(at), text


def test_a_statement_with_a_secret_is_not_logged(
    client: psycopg.Connection, capfd: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(psycopg.Error):
        client.execute("CREATE USER bob PASSWORD 'hunter4'")
    assert "hunter4" not in "".join(capfd.readouterr())


def test_transactions_are_spoken(served: str) -> None:
    with psycopg.connect(served) as connection:
        assert connection.execute("SHOW TABLES").fetchall() == []
        with pytest.raises(errors.SyntaxError):
            connection.execute("SELEC 1")
        with pytest.raises(errors.InFailedSqlTransaction):
            connection.execute("SHOW TABLES")
        connection.rollback()
        assert connection.execute("SHOW TABLES").fetchall() == []


def test_comments_do_not_hide_transactions(client: psycopg.Connection) -> None:
    status = psycopg.pq.TransactionStatus
    for begin, end in (
        ("/* x */ BEGIN", "-- x\nCOMMIT"),
        ("-- x\n/* y /* z */ */\nBEGIN /* c */ WORK -- d", "COMMIT /* c */"),
        ("START /* c */ TRANSACTION; -- done", "/**/ROLLBACK/**/"),
    ):
        client.execute(begin)
        assert client.info.transaction_status == status.INTRANS, begin
        client.execute("/* a */ SAVEPOINT /* b */ s -- c")
        with pytest.raises(errors.SyntaxError):
            client.execute("SELEC 1")
        client.execute("/* a */ ROLLBACK /* b */ TO s")
        assert client.info.transaction_status == status.INTRANS, begin
        client.execute(end)
        assert client.info.transaction_status == status.IDLE, end
    client.execute("/* x */ SET /* y */ application_name /* z */ = 'a /* b */ -- c'")
    shown = client.execute("-- x\nSHOW application_name /* y */").fetchone()
    assert shown == ("a /* b */ -- c",)
    assert client.execute("SHOW transaction_isolation").fetchone() == ("read committed",)
    client.execute("/* x */ DISCARD ALL")


def test_savepoints_bring_a_failed_transaction_back(served: str) -> None:
    with psycopg.connect(served) as connection, connection.transaction():
        with pytest.raises(errors.SyntaxError), connection.transaction():
            connection.execute("SELEC 1")
        assert connection.execute("SHOW TABLES").fetchall() == []


def test_errors_have_a_state_and_a_place(client: psycopg.Connection) -> None:
    with pytest.raises(errors.UndefinedTable) as found:
        client.execute("SHOW TABLES; SELECT *\nFROM nowhere")
    assert found.value.diag.statement_position == str(len("SHOW TABLES; SELECT *\nFROM ") + 1)
    with pytest.raises(errors.FeatureNotSupported):
        client.execute("VACUUM t")


def test_the_servers_environment_is_its_own(
    client: psycopg.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HIDDEN", "hunter2")
    with pytest.raises(psycopg.Error, match="HIDDEN is not set"):
        client.execute("CREATE VIEW v_${HIDDEN} AS SELECT 1 AS a")
    wrong = "CREATE SOURCE s (a INT) WITH (connector = 'datagen', rows = '${HIDDEN}')"
    with pytest.raises(psycopg.Error, match=r"not '\$\{HIDDEN\}'") as found:
        client.execute(wrong)
    assert "hunter2" not in str(found.value)
    assert client.execute("SHOW TABLES LIKE '${HIDDEN}'").fetchall() == []
    client.execute("CREATE VIEW v AS SELECT '${HIDDEN}' AS a")
    assert "'${HIDDEN}'" in str(client.execute("SHOW CREATE VIEW v").fetchall())


@pytest.mark.parametrize("trick", [trick for trick in TRICKS if trick])
def test_names_options_and_comments_of_clients_are_data(
    tmp_path: Path, trick: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for variable in ("HOME", "HIDDEN"):
        monkeypatch.setenv(variable, "hunter2")
    name, text = trick.replace('"', '""'), trick.replace("'", "''")
    comment = f"/* {trick.replace('*/', '').replace('/*', '')} */"
    statements = (
        f'{comment} CREATE VIEW "v {_object_name(name)}" AS SELECT \'{text}\' AS "c {name}" {comment}',
        f"CREATE SOURCE s (a INT) WITH (connector = 'kafka', topic = 'x{text}', properties.bootstrap.server = 'h:1')"
        f" FORMAT PLAIN ENCODE JSON {comment}",
        f"CREATE SECRET p WITH (backend = 'meta') AS 'x{text}'",
    )
    home = Home.at(tmp_path / "home")
    with Engine(home) as engine, Listener(Service(engine), port=0) as server:
        host, port = server.address
        url = f"host={host} port={port} user=root dbname=dev connect_timeout=10"
        with psycopg.connect(url, autocommit=True) as client:
            for statement in statements:
                client.cursor().execute(statement.encode(), prepare=False)
            _check_data(engine, trick)
    with Engine(home) as engine:
        assert not engine.catalog.broken()
        _check_data(engine, trick)


def _object_name(trick: str) -> str:
    """Objects cannot have every name."""
    return re.sub(r"[/\\#\x00-\x1f\x7f]", "", trick)


def _check_data(engine: Engine, trick: str) -> None:
    view = engine.catalog.objects[f"v {_object_name(trick)}"]
    assert isinstance(view, View)
    assert [c.name for c in view.columns] == [f"c {trick}"]
    source = engine.catalog.objects["s"]
    assert isinstance(source, Source)
    assert source.ingest.settings["topic"] == f"x{trick}"
    assert engine.catalog._secret(Name("p")) == f"x{trick}"


def test_the_system_is_asked(client: psycopg.Connection) -> None:
    (version,) = client.execute("SELECT version()").fetchone() or ("",)
    assert "13.14.0" in version
    found = client.execute("SELECT nspname FROM pg_namespace WHERE nspname = %s", ["public"])
    assert found.fetchall() == [("public",)]
    with pytest.raises(errors.UndefinedTable):
        client.execute("SELECT * FROM pg_catalog.pg_nothing")


def test_cursors_give_their_rows_piece_by_piece(served: str) -> None:
    with psycopg.connect(served) as connection:
        query = "SELECT nspname FROM pg_namespace ORDER BY 1"
        names = connection.execute(query).fetchall()
        with connection.cursor("some") as cursor:
            cursor.itersize = 2
            cursor.execute(query)
            assert cursor.fetchmany(2) == names[:2]
            assert list(cursor) == names[2:]
        with pytest.raises(errors.InvalidCursorName):
            connection.execute("FETCH 1 FROM nothing")


def test_parameters_get_the_type_that_their_place_asks_for(served: str) -> None:
    async def ask() -> None:
        client = await asyncpg.connect(
            host="127.0.0.1", port=port(served), user="root", database="dev"
        )
        await client.execute(
            "CREATE VIEW numbers AS SELECT * FROM (VALUES (1, 'a', 1.5), (2, 'b', 2.5)) AS t (id, name, n)"
        )
        prepared = await client.prepare(
            "SELECT name FROM numbers WHERE id = $1 AND name <> $2 AND n IN ($3, 5) LIMIT $4"
        )
        found = [p.name for p in prepared.get_parameters()]
        assert found == ["int4", "varchar", "numeric", "int8"]
        assert [a.name for a in prepared.get_attributes()] == ["name"]
        typed = await client.prepare("SELECT $1::bigint + 1 AS next, $2 AS said")
        assert [p.name for p in typed.get_parameters()] == ["int8", "varchar"]
        await client.close()

    asyncio.run(ask())


@pytest.mark.parametrize("binary", [False, True])
@pytest.mark.parametrize(
    ("sql", "value", "answer", "oid"),
    [
        ("select %s", 5, 5, 21),
        ("select %s", Int4(5), 5, 23),
        ("select %s", Int8(1), 1, 20),
        ("select %s", -(2**31), -(2**31), 23),
        ("select %s", -(2**63), -(2**63), 20),
        ("select %s", 2**70, 2**70, 1700),
        ("select %s", Float4(1.5), 1.5, 700),
        ("select %s", 0.1, 0.1, 701),
        ("select %s / 2", Int8(5), 2, 20),
        ("select %s + 2147483647", Int8(1), 2**31, 20),
        ("select -%s", 5, -5, 21),
        ("select %s", Decimal("1.5"), Decimal("1.5"), 1700),
        ("select %s", True, True, 16),
        ("select %s", b"\x00'", b"\x00'", 17),
        ("select %s", dt.date(2026, 1, 2), dt.date(2026, 1, 2), 1082),
        ("select %s", dt.time(3, 4, 5), dt.time(3, 4, 5), 1083),
        ("select %s", dt.datetime(2026, 1, 2, 3), dt.datetime(2026, 1, 2, 3), 1114),
        ("select %s", MOMENT, MOMENT, 1184),
        ("select %s", None, None, 1043),
        ("select %s", "it's", "it's", 1043),
        ("select %s::bigint", None, None, 20),
        ("select 7 limit %s", 1, 7, 23),
        ("select 7 offset %s", 0, 7, 23),
        ("select a from (values (2), (1)) as t (a) order by %s, a", 9, 1, 23),
    ],
)
def test_parameters_keep_the_type_that_the_client_says(
    client: psycopg.Connection, sql: str, value: object, answer: object, oid: int, binary: bool
) -> None:
    cursor = client.cursor(binary=binary)
    cursor.execute(sql.replace("%s", "%b") if binary else sql, [value])
    assert cursor.fetchone() == (answer,)
    assert [column.type_code for column in cursor.description or ()] == [oid]


@pytest.mark.parametrize(
    ("sql", "values", "answer"),
    [
        ("SELECT $1", ["5"], ("5",)),
        ("SELECT $1::smallint, $1::smallint + 1", [5], (5, 6)),
        ("SELECT $1 + 1", [4], (5,)),
        ("SELECT $1::float4", [1.5], (1.5,)),
        ("SELECT $1::numeric, $1::numeric", [Decimal("1.5")], (Decimal("1.5"), Decimal("1.5"))),
        ("SELECT $1::date", [dt.date(2026, 1, 2)], (dt.date(2026, 1, 2),)),
        ("SELECT $1::timestamptz", [MOMENT], (MOMENT,)),
        ("SELECT $1::int, $2::date", [None, None], (None, None)),
        ("SELECT 7 WHERE 2 = $1 LIMIT $2", [2, 1], (7,)),
    ],
)
def test_asyncpg_gets_what_it_was_told(
    served: str, sql: str, values: list[object], answer: tuple[object, ...]
) -> None:
    async def ask() -> tuple[object, ...]:
        client = await asyncpg.connect(
            host="127.0.0.1", port=port(served), user="root", database="dev"
        )
        try:
            return tuple(await client.fetchrow(sql, *values))
        finally:
            await client.close()

    assert asyncio.run(ask()) == answer


@pytest.mark.parametrize("value", [5, -5, 1.5, Decimal("1.5"), None, MOMENT, "it's"])
def test_psycopg2_writes_values_into_the_text(served: str, value: object) -> None:
    client = psycopg2.connect(served)
    with closing(client), client.cursor() as cursor:
        cursor.execute("select %s", [value])
        (found,) = cursor.fetchone() or ("nothing",)
        assert found == value or dt.datetime.fromisoformat(found) == value


def test_a_text_of_many_statements(client: psycopg.Connection) -> None:
    def time_of(count: int) -> float:
        text = ";\n".join(["show application_name"] * count)
        begun = time.process_time()
        client.cursor().execute(text.encode(), prepare=False)
        return time.process_time() - begun

    count = choose_length(150, 2000)
    time_of(100)
    assert time_of(4 * count) < 8 * max(0.0001 * count, time_of(count))
    text = ";".join(["select 1\n"] * 5 * count) + "; selec 2"
    with pytest.raises(errors.SyntaxError) as told:
        client.cursor().execute(text.encode(), prepare=False)
    assert told.value.diag.statement_position == str(text.index("selec 2") + 1)


@pytest.mark.parametrize("by", ["user request", "statement timeout"])
@pytest.mark.parametrize(
    "text",
    [
        b";".join([b"show application_name"] * 200_000),
        b"copy (select " + b"1 + " * 500_000 + b"1) to stdout",
    ],
    ids=["statements", "copy"],
)
def test_a_long_text_is_cancelled_while_it_is_read(served: str, by: str, text: bytes) -> None:
    with psycopg.connect(served, autocommit=True) as client:
        if by == "statement timeout":
            client.execute("SET statement_timeout = 300")
        done = threading.Event()

        def cancel() -> None:
            while by == "user request" and not done.wait(0.3):
                client.cancel_safe()

        thread = threading.Thread(target=cancel)
        thread.start()
        begun = time.monotonic()
        try:
            with pytest.raises(errors.QueryCanceled, match=by):
                client.cursor().execute(text, prepare=False)
            assert time.monotonic() - begun < 5
        finally:
            done.set()
            thread.join()


def test_comments_before_a_statement_cost_linear_time(client: psycopg.Connection) -> None:
    begun = time.process_time()
    count = choose_length(2_000, 20_000)
    for text in (b"/**/" * count + b"show tables", b"show processlist" + b" " * 2 * count + b"x"):
        with suppress(psycopg.Error):
            client.cursor().execute(text, prepare=False)
    assert time.process_time() - begun < 15


@needs_psql
def test_psql_looks_around(served: str) -> None:
    done = psql(served, "\\d\n\\dt\n\\dm\n\\l\n\\dn\nSHOW sources;\n")
    assert done.returncode == 0
    assert "ERROR" not in done.stderr
    assert "public" in done.stdout


def test_what_tools_ask_first_passes_through_the_server(served: str) -> None:
    wrong = []
    with psycopg.connect(served, autocommit=True, cursor_factory=psycopg.RawCursor) as client:
        for name in ("orders", "large_orders", "lines"):
            client.execute(f"CREATE VIEW {name} AS SELECT 1 AS id, 'a' AS name")
        for case in list(cases())[:: choose_length(8, 1)]:
            expected = [name for name, _ in GOLDEN[case.name]["columns"]]
            try:
                found = client.execute(case.sql, case.parameters or None).description or []
            except psycopg.Error as error:
                wrong.append(f"{case.name}: {error}")
            else:
                if [column.name for column in found] != expected:
                    wrong.append(f"{case.name}: {found}")
    assert not wrong


def test_messages_that_cannot_be_printed_stop_nothing(tmp_path: Path) -> None:
    def full(text: str) -> None:
        raise OSError(28, "No space left on device")

    with Engine(Home.at(tmp_path / "home"), notice=full) as engine:
        Service(engine)
        engine.notice("completing epoch 7")
