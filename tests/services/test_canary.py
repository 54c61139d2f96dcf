"""Canary secrets go through a running server, in objects that work and in objects that fail. Afterwards they are in the
secret store alone: not in output, logs, the status, tables, plans, Spark's events, or the list of processes."""

from __future__ import annotations

import gzip
import json
import os
import re
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from icestream.dev.broker import Broker
from icestream.dev.child import free_ports
from icestream.lake import avro
from tests.engine import MEMORY, await_condition, start
from tests.services import kafka as client
from tests.services.rest_catalog import RestCatalogServer
from tests.unit.server.test_canary import FIELDS, LOOKS

pytestmark = [pytest.mark.spark, pytest.mark.services]

MARK = "c4n4ry"
LOGIN = "org.apache.kafka.common.security.plain.PlainLoginModule required"
KAFKA = """connector = 'kafka', topic = 'in', properties.bootstrap.server = '127.0.0.1:{port}',
  properties.security.protocol = 'SASL_PLAINTEXT', properties.sasl.mechanism = 'PLAIN', properties.timeout = 8,
  properties.sasl.username = 'alice', properties.sasl.password = {password}"""
REST = f"""catalog.type = 'rest', catalog.uri = 'http://user:{MARK}-url@127.0.0.1:{{closed}}/x',
  catalog.credential = 'id:{MARK}-credential', s3.region = 'r', s3.access.key = 'k', s3.secret.key = '{MARK}-s3key',
  warehouse.path = 's3://bucket/w'"""
JAAS = f'{LOGIN} username="alice" password="{MARK}-jaas";'

NUMBER = "918273645"
WRITTEN = {
    "hard": f"""'{MARK}"''{{a}};b@c\\d\n{MARK}=%'""",
    "word": f"{MARK}_word",
    "name": f'"{MARK} Name"',
    "escaped": f"E'{MARK}\\\\e\\'\\n{MARK}'",
    "dollar": f"$x${MARK}\"'$x$",
    "number": NUMBER,
}
"""Passwords that the broker refuses, written in every way."""

WORKING = f"""
CREATE SECRET pass AS '{MARK}-kafka';
CREATE TABLE typed (id INT);
CREATE SOURCE direct (id BIGINT) WITH ({KAFKA.format(port="{port}", password=f"'{MARK}-kafka'")}) FORMAT PLAIN ENCODE JSON;
CREATE TABLE stored (id BIGINT) WITH ({KAFKA.format(port="{port}", password="SECRET pass")}) FORMAT PLAIN ENCODE JSON;
CREATE MATERIALIZED VIEW counted AS SELECT count(*) AS n FROM direct;
CREATE SINK copied FROM direct WITH ({KAFKA.format(port="{port}", password="SECRET pass").replace("'in'", "'out'")},
  force_append_only = 'true') FORMAT PLAIN ENCODE JSON;
CREATE SINK exported FROM direct WITH (connector = 'iceberg', type = 'append-only', force_append_only = 'true',
  catalog.type = 'jdbc', catalog.name = 'other', catalog.uri = 'jdbc:sqlite:{{folder}}/other.db',
  catalog.jdbc.user = 'u', catalog.jdbc.password = '{MARK}-jdbc', warehouse.path = 'file:{{folder}}/other',
  table.name = 't', create_table_if_not_exists = 'true');
CREATE SINK shared FROM direct WITH (connector = 'iceberg', type = 'append-only', force_append_only = 'true',
  catalog.type = 'rest', catalog.uri = '{{rest}}', catalog.token = '{MARK}-token', table.name = 't',
  create_table_if_not_exists = 'true');
CREATE CONNECTION down WITH (type = 'iceberg', {REST});
"""
FAILING = f"""
CREATE SOURCE refused (id BIGINT) WITH ({KAFKA.format(port="{port}", password=f"'{MARK}-wrong'")}) FORMAT PLAIN ENCODE JSON;
CREATE MATERIALIZED VIEW never AS SELECT count(*) AS n FROM refused;
CREATE SOURCE lost (id BIGINT) WITH (connector = 'iceberg', table.name = 't', {REST});
CREATE SINK lost_sink FROM counted WITH (connector = 'iceberg', type = 'append-only', table.name = 't',
  force_append_only = 'true', create_table_if_not_exists = 'true', {REST});
CREATE SINK linked FROM counted WITH (connector = 'iceberg', type = 'append-only', table.name = 't',
  force_append_only = 'true', connection = down);
CREATE TABLE objects (id BIGINT) WITH (connector = 's3', s3.bucket_name = 'b', s3.region_name = 'r',
  s3.endpoint_url = 'http://127.0.0.1:{{closed}}', s3.credentials.access = '{MARK}-access',
  s3.credentials.secret = '{MARK}-secret') FORMAT PLAIN ENCODE JSON;
CREATE CONNECTOR broken WITH (connector.class = 'org.apache.iceberg.connect.IcebergSinkConnector', topics = 'in',
  bootstrap.servers = '127.0.0.1:{{port}}', iceberg.tables = 'db.t', iceberg.kafka.security.protocol = 'SASL_PLAINTEXT',
  iceberg.kafka.sasl.mechanism = 'PLAIN', iceberg.kafka.sasl.jaas.config = '{JAAS}', iceberg.catalog.type = 'rest',
  iceberg.catalog.uri = 'http://user:{MARK}-url@127.0.0.1:{{closed}}', iceberg.catalog.credential = 'id:{MARK}-credential',
  iceberg.catalog.header.Authorization = 'Bearer {MARK}-bearer');
"""
for _name, _password in WRITTEN.items():
    _options = KAFKA.format(port="{port}", password=_password)
    FAILING += f"CREATE TABLE of_{_name} (id BIGINT) WITH ({_options}) FORMAT PLAIN ENCODE JSON;\n"
FAILING += f"""
CREATE SOURCE mistyped (id BIGINT) WITH ({KAFKA.format(port="{port}", password=NUMBER)},
  properties.sasl.passwort = '{MARK}-typo') FORMAT PLAIN ENCODE JSON;
CREATE SECRET bare AS {MARK};
CREATE SOURCE signed (id BIGINT) WITH (connector = 'iceberg', table.name = 't', catalog.type = 'rest',
  catalog.uri = 'http://127.0.0.1:{{closed}}/x?token={MARK}-parameter');
"""


class Server:
    """A server with an event log of Spark, and everything that it prints."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.home = folder, folder / "home"
        self.lines: list[str] = []
        conf = folder / "conf"
        conf.mkdir()
        (folder / "events").mkdir()
        (conf / "spark-defaults.conf").write_text(
            "spark.eventLog.enabled true\nspark.eventLog.compress false\n"
            f"spark.eventLog.dir file:{folder}/events\nspark.eventLog.logStageExecutorMetrics true\n"
        )
        arguments = ("serve", "--home", self.home, "--port", "0", "--memory", MEMORY)
        self.process: subprocess.Popen[str] = start(*arguments, env={"SPARK_CONF_DIR": str(conf)})
        for stream in (self.process.stdout, self.process.stderr):
            threading.Thread(target=lambda s=stream: self.lines.extend(s), daemon=True).start()
        await_condition(lambda: self._port() is not None, "the server starts")
        self.url = f"host=127.0.0.1 port={self._port()} user=root dbname=dev"

    def _port(self) -> str | None:
        assert self.process.poll() is None, "".join(self.lines)
        found = re.search(r"^ready.* -p (\d+)", "".join(self.lines), re.M)
        return found and found[1]

    def failing(self, name: str) -> bool:
        """Whether the status says that a source or sink fails."""
        status = json.loads((self.home / "status.json").read_text())
        return any(o["error"] for o in status["objects"] + status["sources"] if o["name"] == name)

    def processes(self) -> Iterator[tuple[str, str]]:
        """Command lines and environments of the server and of all that it started."""
        for entry in Path("/proc").iterdir():
            try:
                session = (entry / "stat").read_text().rpartition(")")[2].split()[3]
                if int(session) == self.process.pid:
                    for name in ("cmdline", "environ"):
                        yield f"{entry}/{name}", (entry / name).read_bytes().decode("latin-1")
            except (OSError, IndexError, ValueError):
                continue

    def stop(self) -> None:
        self.process.terminate()
        self.process.wait(90)


def ask(url: str, statements: list[str]) -> list[str]:
    """What a client is told: rows, notices, and errors."""
    told: list[str] = []
    with psycopg.connect(url, autocommit=True) as connection:
        connection.add_notice_handler(lambda n: told.append(str(n.message_primary)))
        connection.execute("SET statement_timeout = '90s'")
        for statement in filter(str.strip, statements):
            try:
                cursor = connection.execute(statement)
                told += [repr(row) for row in cursor.fetchall()] if cursor.description else ["ok"]
            except psycopg.Error as error:
                told += [f"{f}: {getattr(error.diag, f)}" for f in FIELDS]
    return told


def files(folder: Path) -> Iterator[tuple[str, str]]:
    """All files, but for the secret store."""
    for path in folder.rglob("*"):
        if path.is_file() and path != folder / "home" / "secrets.json":
            data = path.read_bytes()
            data = gzip.decompress(data) if data[:2] == b"\x1f\x8b" else data
            yield str(path), data.decode("latin-1")
            if path.suffix == ".avro":
                yield f"{path} decoded", repr(avro.records(data))


def statements_of(script: str, **values: object) -> list[str]:
    for name, value in values.items():
        script = script.replace("{" + name + "}", str(value))
    return re.split(r";\n", script)


@pytest.mark.timeout(900)
def test_secrets_stay_in_their_store(tmp_path: Path) -> None:
    port, closed = free_ports(2)
    config = {
        "listener.name.secure.sasl.enabled.mechanisms": "PLAIN",
        "listener.name.secure.plain.sasl.jaas.config": f'{LOGIN} user_alice="{MARK}-kafka";',
    }
    served = tmp_path / "served"
    served.mkdir()
    listeners = {"SECURE": (port, "SASL_PLAINTEXT")}
    looks = [*LOOKS, "SHOW CREATE SOURCE direct", "SHOW CREATE TABLE stored", "SHOW CREATE SINK exported",
             "EXPLAIN SELECT * FROM stored", "EXPLAIN CREATE MATERIALIZED VIEW e AS SELECT * FROM direct",
             "SELECT * FROM rw_catalog.rw_event_logs", "SELECT count(*) FROM stored", "SHOW PARAMETERS", "SHOW ALL"]  # fmt: skip
    seen: list[tuple[str, str]] = []
    rest = RestCatalogServer(tmp_path / "rest")
    with Broker(tmp_path / "kafka", listeners=listeners, config=config) as broker, rest:
        for topic in ("in", "out"):
            client.create_topic(broker.bootstrap, topic)
        client.produce(broker.bootstrap, "in", [(None, f'{{"id": {i}}}') for i in range(20)])
        server = Server(served)
        try:
            values = {"port": port, "closed": closed, "folder": served, "rest": rest.uri}
            told = ask(server.url, statements_of(WORKING, **values))
            assert not [line for line in told if "message_primary" in line], told
            told += ask(server.url, ["FLUSH", "SELECT n FROM counted"])
            assert "(20,)" in told
            failures = ask(server.url, statements_of(FAILING, **values))
            assert len([f for f in failures if "message_primary" in f]) >= 4 + len(WRITTEN), (
                failures
            )
            told += failures + ask(server.url, looks)
            rest.__exit__(None, None, None)
            client.produce(broker.bootstrap, "in", [(None, '{"id": 20}')])
            await_condition(lambda: server.failing("shared"), "the catalog is missed")
            broker.__exit__(None, None, None)
            await_condition(lambda: server.failing("direct"), "the broker is missed")
            told += ask(server.url, [*looks, "INSERT INTO typed VALUES (1)", "FLUSH"])
            seen += [("a client", one) for one in told]
            seen += server.processes()
        finally:
            server.stop()
    seen += [("the server's output", "".join(server.lines))]
    seen += [*files(served), *files(rest.warehouse)]
    assert any("/events/" in where for where, _ in seen)
    assert any("metadata.json" in where for where, _ in seen)
    assert any("cmdline" in where for where, _ in seen)
    assert MARK in (server.home / "secrets.json").read_text()
    found = [
        (where, text.index(mark), text)
        for where, text in seen
        for mark in (MARK, NUMBER)
        if mark in text
    ]
    shown = [f"{where}: …{text[max(0, at - 200) : at + 40]}…" for where, at, text in found]
    assert not shown, "\n\n".join(shown[:10])
    assert os.path.exists(served / "other.db")
