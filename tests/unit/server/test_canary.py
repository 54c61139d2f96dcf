"""A canary secret goes through every kind of statement and failure; it may appear in the secret store alone."""

from __future__ import annotations

import json
import logging
import re
import urllib.parse
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from icestream.catalog.objects import Connector, Object, Sink, Source
from icestream.config import Home
from icestream.connectors.iceberg import catalog_spec
from icestream.connectors.kafka_options import client_properties
from icestream.engine import CREATE, Engine
from icestream.errors import ConnectorError, IcestreamError
from icestream.lake.catalogs import CatalogSpec
from icestream.observe import status
from icestream.observe.events import Events
from icestream.runtime.failures import describe_error
from icestream.secrecy import (
    KNOWN,
    PASSING,
    REDACTED,
    MaskingFormatter,
    is_secret_key,
    mask_secrets,
    remember_secret,
)
from icestream.server.activity import shown_query
from icestream.server.backend import Notice
from icestream.server.failures import notice, response
from icestream.server.listener import Listener
from icestream.server.service import Service
from icestream.sql import parse
from tests.fuzz.served import NoSpark

CANARY = "c4n4ry-Fz9"
KAFKA = "connector = 'kafka', topic = 't', properties.bootstrap.server = 'localhost:1'"
SASL = f"""{KAFKA}, properties.security.protocol = 'SASL_SSL', properties.sasl.mechanism = 'PLAIN',
  properties.sasl.username = 'u', properties.sasl.password = '{CANARY}'"""
S3 = f"connector = 's3', s3.bucket_name = 'b', s3.credentials.access = '{CANARY}', s3.credentials.secret = '{CANARY}'"
REST = f"catalog.type = 'rest', catalog.uri = 'http://user:{CANARY}@localhost:1/x', catalog.token = '{CANARY}'"
JAAS = (
    "org.apache.kafka.common.security.plain.PlainLoginModule required "
    f'username="u" password="{CANARY}";'
)
CONNECT = f"""connector.class = 'org.apache.iceberg.connect.IcebergSinkConnector', topics = 't',
  bootstrap.servers = 'localhost:1', iceberg.tables = 'db.t', iceberg.kafka.security.protocol = 'SASL_SSL',
  iceberg.kafka.sasl.mechanism = 'PLAIN', iceberg.kafka.sasl.jaas.config = '{JAAS}', iceberg.catalog.type = 'rest',
  iceberg.catalog.uri = 'http://localhost:1', iceberg.catalog.credential = 'id:{CANARY}',
  iceberg.catalog.s3.secret-access-key = '{CANARY}', iceberg.catalog.s3.sse.key = '{CANARY}',
  iceberg.catalog.header.Authorization = 'Bearer {CANARY}'"""
JSON = "FORMAT PLAIN ENCODE JSON"

STATEMENTS = {
    "secret": f"CREATE SECRET x WITH (backend = 'meta') AS '{CANARY}'",
    "source": f"CREATE SOURCE x (a INT) WITH ({SASL}) {JSON}",
    "table": f"CREATE TABLE x (a INT PRIMARY KEY) WITH ({SASL}) FORMAT DEBEZIUM ENCODE JSON",
    "file": f"CREATE SOURCE x (a INT) WITH ({S3}) {JSON}",
    "key password": f"CREATE SOURCE x (a INT) WITH ({KAFKA}, properties.ssl.key.password = '{CANARY}') {JSON}",
    "iceberg": f"CREATE SOURCE x (a INT) WITH (connector = 'iceberg', table.name = 't', {REST})",
    "connection": f"CREATE CONNECTION x WITH (type = 'iceberg', {REST})",
    "sink": f"CREATE SINK x FROM m WITH (connector = 'iceberg', type = 'append-only', table.name = 't', {REST}, "
    f"s3.access.key = 'k', s3.secret.key = '{CANARY}', force_append_only = 'true')",
    "kafka sink": f"CREATE SINK x FROM m WITH ({SASL}, force_append_only = 'true') {JSON}",
    "connector": f"CREATE CONNECTOR x WITH ({CONNECT})",
}
BREAKS = {
    "as it is": lambda text: text,
    "explained": lambda text: f"EXPLAIN {text}",
    "another option": lambda text: text.replace("WITH (", "WITH (unknown.option = '1', ", 1),
    "an option after it": lambda text: text.replace(f"'{CANARY}'", f"'{CANARY}', unknown = '1'", 1),
    "no comma": lambda text: text.replace(f"'{CANARY}'", f"'{CANARY}' 5", 1),
    "cut off": lambda text: text[: text.rindex(CANARY) + len(CANARY) + 1],
    "an open string": lambda text: text[: text.rindex(CANARY) + len(CANARY)],
    "twice": lambda text: f"{text}; {text.replace(' x ', ' y ')}; SELECT nothing FROM nowhere",
    "changed": lambda text: f"{text}; {text.replace(CANARY, CANARY + '2')}; DROP TABLE nothing",
    "wrong place": lambda text: text.replace("WITH (", "WITH ( ( ", 1),
    "as a number": lambda text: text.replace("'t'", "t", 1),
    "dollar quoted": lambda text: text.replace(f"'{CANARY}'", f"$${CANARY}$$"),
    "escaped": lambda text: text.replace(f"'{CANARY}'", f"E'{CANARY}'"),
}
LOOKS = (
    "SHOW CREATE SOURCE x", "SHOW CREATE TABLE x", "SHOW CREATE SINK x", "SHOW CREATE CONNECTION x", "DESCRIBE x",
    "SHOW SOURCES", "SHOW JOBS", "SHOW SECRETS", "SHOW CONNECTIONS", "SHOW PROCESSLIST", "EXPLAIN SELECT * FROM x",
    "SELECT * FROM pg_stat_activity", "SELECT * FROM rw_catalog.rw_sources", "SELECT * FROM rw_catalog.rw_sinks",
    "SELECT * FROM rw_catalog.rw_tables", "SELECT * FROM rw_catalog.rw_connections",
    "SELECT * FROM rw_catalog.rw_secrets", "SELECT * FROM rw_catalog.rw_event_logs", "SELECT * FROM pg_views",
    "SELECT * FROM pg_settings", "SELECT * FROM rw_catalog.rw_relations",
)  # fmt: skip
FIELDS = ("message_primary", "message_detail", "message_hint", "context", "internal_query")
NEEDED = "CREATE TABLE base (a INT); CREATE MATERIALIZED VIEW m AS SELECT a FROM base"


@pytest.fixture
def log(caplog: pytest.LogCaptureFixture) -> pytest.LogCaptureFixture:
    caplog.set_level(logging.DEBUG)
    return caplog


def seen(log: pytest.LogCaptureFixture, home: Path) -> Iterator[tuple[str, str]]:
    """Everything that is written down somewhere, but for the secret store."""
    formatter = logging.Formatter()
    for record in log.records:
        yield f"log of {record.name}", formatter.format(record)
    for path in home.rglob("*"):
        if path.is_file() and path.name != "secrets.json":
            yield str(path), path.read_bytes().decode("latin-1")


def errors(error: BaseException | None) -> Iterator[str]:
    """An error with what caused it, as a log would have it."""
    while error is not None:
        yield str(error)
        yield repr(error)
        yield str(getattr(error, "remedy", ""))
        error = error.__cause__


@pytest.mark.parametrize("name", STATEMENTS)
def test_nothing_tells_a_secret(name: str, tmp_path: Path, log: pytest.LogCaptureFixture) -> None:
    texts: list[str] = []
    engine = Engine(Home.at(tmp_path), env={}, notice=texts.append, application=NoSpark())  # type: ignore[arg-type]
    statements = [change(STATEMENTS[name]) for change in BREAKS.values()]
    with engine:
        engine.plan(NEEDED)
        with Listener(Service(engine), port=0) as server:
            for statement in reversed(
                statements
            ):  # the whole one last, so that it is there to be looked at
                _create(engine, statement, texts)
            texts += _asked(server.address, [*statements, *LOOKS, statements[0], LOOKS[-1]])
        for object in engine.catalog:
            texts += [repr(object), str(object), engine.catalog.definition(object.name)]
    texts += [f"{where}: {content}" for where, content in seen(log, tmp_path)]
    assert any("x" in one for one in texts)
    found = [one[:400] for one in texts if CANARY in one]
    assert not found, "\n".join(found[:5])
    if name == "source":
        assert CANARY in (tmp_path / "secrets.json").read_text()


def _create(engine: Engine, text: str, texts: list[str]) -> None:
    """Carry out what needs no Spark, and keep the objects."""
    try:
        for statement in parse(text, "x.sql", {}):
            if not isinstance(statement, CREATE):
                engine.execute(statement.text, env={})
                continue
            change = engine.catalog.examine(statement)
            texts += [repr(change.difference)]
            if not change.exists:
                engine.catalog.learn(change)
                engine.resources.own()
                engine.catalog.keep([change.object.name])
    except IcestreamError as error:
        texts += errors(error)


def _asked(address: tuple[str, int], statements: list[str]) -> list[str]:
    """What a client is told."""
    host, port = address
    texts: list[str] = []
    with psycopg.connect(
        f"host={host} port={port} user=root dbname=dev", autocommit=True
    ) as connection:
        connection.add_notice_handler(lambda notice: texts.append(str(notice.message_primary)))
        for statement in statements:
            try:
                cursor = connection.execute(statement)
                texts += [repr(row) for row in cursor.fetchall()] if cursor.description else []
            except psycopg.Error as error:
                # str(error) has the line of the statement too, which the client adds itself.
                texts += [str(getattr(error.diag, field)) for field in FIELDS]
    return texts


@pytest.mark.parametrize("name", ["source", "key password", "kafka sink", "iceberg", "connector"])
def test_spark_hides_what_it_is_given(name: str, tmp_path: Path) -> None:
    """Options and session settings appear in Spark's plans and events, with the values of secret ones hidden."""
    with Engine(Home.at(tmp_path), env={}) as engine:
        engine.plan(NEEDED)
        (change,) = engine.plan(STATEMENTS[name])
    object = change.object
    given: dict[str, str] = {}
    if isinstance(object, Connector):
        given |= client_properties(object.config.kafka)
        given |= CatalogSpec.foreign(object.config.catalog or {}).spark_conf()
    else:
        assert isinstance(object, Source | Sink)
        settings = object.settings if isinstance(object, Sink) else object.ingest.settings
        if "catalog.type" in settings:
            spec = catalog_spec(settings)
            assert spec is not None
            given |= spec.spark_conf()
        else:
            given |= client_properties(settings)
    secret = {key: value for key, value in given.items() if CANARY in value}
    assert secret
    # Spark hides a setting if its name or its value matches.
    shown = [
        k for k, v in secret.items() if not re.search(REDACTED, k) and not re.search(REDACTED, v)
    ]
    assert shown == []


@pytest.mark.parametrize(
    "key",
    [
        "s3.secret-access-key", "s3.access-key-id", "properties.sasl.password", "header.x-api-key",
        "adls.auth.shared-key.account.key", "adls.sas-token", "adls.sas.key", "private.key",
        "private_key", "account-key", "api.key", "s3.sse.key", "kafka.ssl.keystore.key", "ssl.key",
        "kafka.ssl.key", "sasl.jaas.config", "token", "credential", "oauth2.client_secret",
    ],
)  # fmt: skip
def test_spark_hides_every_secret_key(key: str) -> None:
    assert is_secret_key(key)
    for name in (key, f"spark.sql.catalog.c.{key}", f"kafka.{key}"):
        assert re.search(REDACTED, name)


@pytest.mark.parametrize(
    ("text", "masked"),
    [
        (f"GET http://user:{CANARY}@host/x failed", "GET http://user:<hidden>@host/x failed"),
        (f"jdbc:postgresql://u:{CANARY}@h/db?a=1", "jdbc:postgresql://u:<hidden>@h/db?a=1"),
        (f"x?user=u&password={CANARY}&b=2", "x?user=u&password=<hidden>&b=2"),
        (
            f'Module required username="u" password="{CANARY}";',
            'Module required username="u" password=<hidden>;',
        ),
        (f"{{s3.secret-access-key={CANARY}, a=b}}", "{s3.secret-access-key=<hidden>, a=b}"),
        (f"Authorization: Bearer {CANARY}.{CANARY}", "Authorization: Bearer <hidden>"),
        ("http://user:${PASSWORD}@host", "http://user:${PASSWORD}@host"),
        ("nothing = 'here' at http://host:80/x", "nothing = 'here' at http://host:80/x"),
        ("properties.sasl.password='<hidden>'", "properties.sasl.password='<hidden>'"),
        ("unexpected token: x = 1", "unexpected token: x = 1"),
        ("a.password: values from a provider", "a.password: values from a provider"),
        (f'password="abc\\"{CANARY}"', "password=<hidden>"),
        (f"password=c{{n}}{CANARY}", "password=<hidden>"),
        (f"password=ab;{CANARY}", "password=<hidden>"),
        (f"password='it''s {CANARY}', a", "password=<hidden>, a"),
        (f"secret=c'{CANARY} a", "secret=<hidden> a"),
        (f"http://user:c@{CANARY}@host/a@b", "http://user:<hidden>@host/a@b"),
        (f"postgres://u:c'{CANARY}@h", "postgres://u:<hidden>@h"),
        (f'{{"s3.secret-access-key":"{CANARY}","a":1}}', '{"s3.secret-access-key":<hidden>,"a":1}'),
        (f"{{'sasl.password': '{CANARY}'}}", "{'sasl.password': <hidden>}"),
        (f"Map(a.token -> {CANARY}, b -> c)", "Map(a.token -> <hidden>, b -> c)"),
        (f"sasl.password: {CANARY}\nnext", "sasl.password: <hidden>\nnext"),
        (f"password = '{CANARY}'", "password = <hidden>"),
        (f"X-Api-Key: {CANARY}", "X-Api-Key: <hidden>"),
        (f"a: client_secret={CANARY}&b=c", "a: client_secret=<hidden>&b=c"),
        (f"https://h/x?sig={CANARY}&sv=1", "https://h/x?sig=<hidden>&sv=1"),
        (f"https://h/x?a=1&token={CANARY}", "https://h/x?a=1&token=<hidden>"),
        (
            f"-----BEGIN RSA PRIVATE KEY-----\n{CANARY}\n{CANARY}\n-----END RSA PRIVATE KEY-----\nx",
            "<hidden>\nx",
        ),
    ],
)
def test_messages_of_others_are_masked(text: str, masked: str) -> None:
    assert mask_secrets(text) == masked
    assert mask_secrets(masked) == masked


HARD = f"c\"n'{{a}};r@y\\{CANARY} \n{CANARY}=%,&"


@pytest.mark.parametrize(
    "quoted",
    [
        HARD,
        json.dumps({"k": HARD}),
        json.dumps(json.dumps([HARD])),
        repr(HARD),
        HARD.replace("'", "''"),
        json.dumps(HARD.replace("'", "''")),
        HARD.replace("\\", "\\\\").replace('"', '\\"'),
        urllib.parse.quote(HARD),
        urllib.parse.quote(HARD, safe=""),
        urllib.parse.quote_plus(HARD),
        HARD.splitlines()[0],
        HARD.splitlines()[1],
    ],
)
def test_known_secrets_are_masked_in_any_text(quoted: str) -> None:
    remember_secret(HARD)
    shown = mask_secrets(f"the server said {quoted} and went away")
    assert CANARY not in shown
    assert shown.startswith("the server said ")
    assert shown.endswith(" and went away")


@pytest.mark.parametrize(
    ("value", "told"),
    [
        (JAAS.replace(CANARY, f'a\\"{CANARY}'), f'a"{CANARY}'),
        (f"id:{CANARY}", CANARY),
        (f"Bearer {CANARY}", CANARY),
        (f"http://user:{CANARY}@host/x", CANARY),
        (f"http://host/x?token={CANARY}", CANARY),
    ],
)
def test_parts_of_values_that_are_secrets_are_known(value: str, told: str) -> None:
    remember_secret(value)
    assert CANARY not in mask_secrets(f"it was {told}")
    assert mask_secrets("http://host/x") == "http://host/x"


def test_values_that_are_in_every_text_are_not_looked_for() -> None:
    for value in ("abc", "password", "other"):
        remember_secret(value)
    text = "another process has abc and password"
    assert mask_secrets(text) == text
    assert mask_secrets("it is other\\nother.") == "it is <hidden>\\n<hidden>."


def test_names_of_objects_stay_in_the_status(tmp_path: Path) -> None:
    remember_secret("orders")
    found = status.Status(objects=[status.ObjectStatus("orders", "table", error="orders failed")])
    status.write(Home.at(tmp_path), found)
    (object,) = status.read(Home.at(tmp_path)).objects
    assert (object.name, object.error) == ("orders", "<hidden> failed")


def test_old_values_of_statements_make_room() -> None:
    remember_secret(CANARY, keep=True)
    for i in range(PASSING + 1):
        remember_secret(f"value-{i:05}")
    assert mask_secrets(f"{CANARY} value-00000 value-00001") == "<hidden> value-00000 <hidden>"


WRITTEN = {
    "number": ("918273645", "918273645"),
    "negative": ("-918273645", "-918273645"),
    "word": ("c4n4ryFz9", "c4n4ryfz9"),
    "dotted": ("a.c4n4ryfz9", "a.c4n4ryfz9"),
    "name": (f'"{CANARY}"', CANARY),
    "escaped": (f"E'{CANARY}\\n2'", f"{CANARY}\n2"),
    "dollar": (f"$${CANARY}'\"$$", f"{CANARY}'\""),
    "tagged": (f"$x${CANARY}$x$", CANARY),
    "hard": ("'" + HARD.replace("'", "''") + "'", HARD),
    "commented": (f"/* a */ '{CANARY}' -- b\n", CANARY),
    "with a variable": (f"'{CANARY}${{HOST}}'", f"{CANARY}example"),
}


@pytest.mark.parametrize("written", WRITTEN)
@pytest.mark.parametrize(
    ("text", "old"),
    [
        (STATEMENTS["source"], f"'{CANARY}'"),
        (STATEMENTS["connector"].replace(f"'id:{CANARY}'", "THERE"), "THERE"),
        (STATEMENTS["iceberg"].replace(f"catalog.token = '{CANARY}'", "catalog.token = THERE"), "THERE"),
    ],
)  # fmt: skip
def test_a_secret_is_kept_apart_however_it_is_written(
    text: str, old: str, written: str, tmp_path: Path, log: pytest.LogCaptureFixture
) -> None:
    value, meant = WRITTEN[written]
    marks = ("c4n4ry", "918273645", CANARY)
    with Engine(Home.at(tmp_path), env={"HOST": "example"}) as engine:
        for statement in parse(text.replace(old, value), "x.sql", {"HOST": "example"}):
            change = engine.catalog.examine(statement)
            engine.catalog.learn(change)
            engine.resources.own()
            engine.catalog.keep([change.object.name])
        (object,) = engine.catalog
        texts = [repr(object), engine.catalog.definition(object.name), *_told(seen(log, tmp_path))]
        assert mask_secrets(f"it said {meant}.") == "it said <hidden>."
    assert not [one[:400] for one in texts if any(mark in one.lower() for mark in marks)]
    # The next process has the same value.
    with Engine(Home.at(tmp_path), env={"HOST": "example"}) as engine:
        (object,) = engine.catalog
        assert meant in _values_of(object)


def _told(found: Iterator[tuple[str, str]]) -> list[str]:
    return [f"{where}: {content}" for where, content in found]


def _values_of(object: Object) -> list[str]:
    if isinstance(object, Connector):
        return list((object.config.catalog or {}).values())
    assert isinstance(object, Source)
    return [str(value) for value in object.ingest.settings.values()]


WRONG = [
    f"CREATE SOURCE x (a INT) WITH ({KAFKA}, properties.sasl.passwort = '{CANARY}') {JSON}",
    f"CREATE SOURCE x (a INT) WITH ({KAFKA}, s3.secert.key = '{CANARY}') {JSON}",
    f"CREATE SOURCE x (a INT) WITH ({KAFKA}, properties.sasl.password /* a */ = /* b */ '{CANARY}' 5) {JSON}",
    f"CREATE SOURCE x (a INT) WITH ({KAFKA}, properties.sasl.password -- a\n = '{CANARY}' 5) {JSON}",
    f"CREATE SOURCE x (a INT) WITH ({KAFKA}, properties.sasl.password := '{CANARY}') {JSON}",
    f"CREATE SOURCE x (a INT) WITH ({KAFKA}, properties.sasl.password : {CANARY}) {JSON}",
    f"CREATE SOURCE x (a INT) WITH ({KAFKA}, properties.sasl.password = U&'{CANARY}') {JSON}",
    f"CREATE SOURCE x (a INT) WITH ({KAFKA}, properties.sasl.password = N'{CANARY}') {JSON}",
    f"CREATE SOURCE x (a INT) WITH ({KAFKA}, properties.sasl.password = X'{CANARY}') {JSON}",
    f"CREATE SOURCE x (a INT) WITH ({KAFKA}, properties.sasl.password = a {CANARY}) {JSON}",
    f"CREATE SOURCE x (a INT) WITH ({KAFKA}, properties.sasl.password = -{CANARY}) {JSON}",
    f"CREATE SOURCE x (a INT) WITH ({KAFKA}, properties.sasl.password {CANARY}) {JSON}",
    f'CREATE SOURCE x (a INT) WITH ({KAFKA}, properties.sasl.password = "{CANARY}" 5) {JSON}',
    f"CREATE SOURCE x (a INT) WITH ({KAFKA}, topic = 'jdbc:a://h/db?user=u&password={CANARY}') {JSON}",
    f"ALTER SINK x SET (properties.sasl.password = {CANARY}-9)",
    f"CREATE SECRET x WITH (backend = 'meta') AS {CANARY}",
    f"CREATE SECRET x WITH (backend = 'meta') AS\n\"{CANARY}\"",
    f"CREATE SECRET IF NOT EXISTS x AS U&'{CANARY}'",
    f"CREATE SECRET x FROM '{CANARY}'",
    f"CREATE SECRET x {CANARY}",
    f"CREATE SECRET '{CANARY}'",
    f"ALTER SECRET x WITH (backend = 'meta') AS {CANARY}",
    f"ALTER SECRET x TO '{CANARY}'",
    f"SELECT 1; CREATE SECRET y AS {CANARY}",
    f"CREAT SECRET y AS '{CANARY}'",
]


@pytest.mark.parametrize("text", WRONG)
def test_a_wrong_statement_is_not_told_with_its_secret(text: str, tmp_path: Path) -> None:
    with Engine(Home.at(tmp_path), env={}) as engine:
        with pytest.raises(IcestreamError) as failed:
            engine.execute(text, env={})
        told = [*errors(failed.value), response(failed.value, text).decode("latin-1")]
    KNOWN.clear()  # the list of statements has none that was resolved
    told.append(shown_query(text))
    word = CANARY.partition("-")[0]
    assert not [one for one in told if word in one]


def test_what_is_no_secret_is_shown() -> None:
    text = "CREATE SOURCE x (a INT) WITH (topic = 't', a.password = SECRET s, b.token = '${T}') FORMAT PLAIN ENCODE JSON"
    assert shown_query(text) == text
    assert (
        shown_query("SELECT token, 'a' FROM t WHERE x = 'b'")
        == "SELECT token, 'a' FROM t WHERE x = 'b'"
    )
    assert shown_query("CREATE SECRET s WITH (backend = 'meta') AS '${T}'").endswith("AS '${T}'")


def test_messages_are_masked_where_they_leave(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    text = f"http://user:{CANARY}@host refused the connection"
    told: list[str] = []
    error = ConnectorError(text, remedy=text)
    failure = describe_error(ValueError(text))
    events = Events()
    events.add("X_FAIL", error=text, definition=text)
    with Engine(Home.at(tmp_path), env={}, notice=told.append) as engine:
        engine.notice(text)
    found = status.Status(message=text, objects=[status.ObjectStatus("t", "table", error=text)])
    status.write(Home.at(tmp_path), found)
    told += [str(error), repr(error), str(failure), repr(events.newest())]
    told += [
        response(error).decode("latin-1"),
        notice(Notice(text, "WARNING", "01000", text)).decode("latin-1"),
    ]
    told += [(tmp_path / "status.json").read_text(), MaskingFormatter("%(message)s").format(
        logging.LogRecord("x", logging.ERROR, "f", 1, text, (), None)
    )]  # fmt: skip
    assert len(told) == 9
    for one in told:
        assert CANARY not in one
        assert "user:<hidden>@host" in one
