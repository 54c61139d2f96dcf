"""Sinks into catalogs of other people: a REST catalog, and Glue with its warehouse on S3. Read back by PyIceberg.

One sink appends, one upserts; both stand on files, and the second run has more of them.
"""

from __future__ import annotations

import json
import threading
import uuid
from contextlib import suppress
from pathlib import Path

import pytest
from pyiceberg.catalog import Catalog, load_catalog

from icestream.config import EngineSettings, Home
from icestream.engine import Engine
from icestream.errors import ConnectorError
from tests.engine import column
from tests.services.aws import CREDENTIALS, REGION
from tests.services.proxy import Proxy
from tests.spark_session import spark  # noqa: F401

pytestmark = [pytest.mark.spark, pytest.mark.services]

SOURCE = """CREATE SOURCE numbers (id BIGINT, name VARCHAR) WITH (
  connector = 'file', path = '{input}', match_pattern = '*.json') FORMAT PLAIN ENCODE JSON;"""
SINKS = """
CREATE SINK k FROM numbers WITH (connector = 'iceberg', type = 'append-only', {catalog},
  database.name = '{database}', table.name = 'numbers', create_table_if_not_exists = 'true');
CREATE SINK u FROM numbers WITH (connector = 'iceberg', type = 'upsert', primary_key = 'id', {catalog},
  database.name = '{database}', table.name = 'state', create_table_if_not_exists = 'true',
  partition_by = 'bucket(2, id)');"""


def run(root: Path, application, script: str, env: dict[str, str]) -> None:
    """Two engines one after the other on the same home; then a third, which has nothing to do."""
    folder = root / "input"
    folder.mkdir()
    for start in (0, 10, None):
        if start is not None:
            rows = [
                json.dumps({"id": i, "name": f"from {start}"}) for i in range(start, start + 20)
            ]
            (folder / f"{start:03}.json").write_text("\n".join(rows) + "\n")
        home = Home.at(root / "home")
        with Engine(
            home, EngineSettings(), env=env, application=application, allow_paths=["/"]
        ) as engine:
            engine.execute(SOURCE.format(input=folder) + script)
            engine.run(threading.Event(), once=True)


def check(catalog: Catalog, database: str) -> None:
    """What the two sinks have written."""
    appended = catalog.load_table(f"{database}.numbers").scan().to_arrow()["id"].to_pylist()
    assert sorted(appended) == sorted([*range(20), *range(10, 30)])
    state = catalog.load_table(f"{database}.state").scan().to_arrow().to_pylist()
    assert sorted((r["id"], r["name"]) for r in state) == [
        (i, f"from {0 if i < 10 else 10}") for i in range(30)
    ]


def test_a_rest_catalog(tmp_path, spark, rest_catalog) -> None:  # noqa: F811
    database = f"sinks_{uuid.uuid4().hex[:8]}"
    catalog = f"catalog.type = 'rest', catalog.uri = '{rest_catalog.uri}'"
    run(tmp_path, spark, SINKS.format(catalog=catalog, database=database), {})
    check(load_catalog("rest", type="rest", uri=rest_catalog.uri), database)


def test_a_catalog_that_is_down_or_whose_answers_are_lost(
    tmp_path,
    spark,  # noqa: F811
    rest_catalog,
) -> None:
    """Only the sinks into it wait, also over a restart; then they catch up, and no row is there twice."""
    folder, database = tmp_path / "input", f"sinks_{uuid.uuid4().hex[:8]}"
    folder.mkdir()
    table = SOURCE.format(input=folder).replace("SOURCE numbers", "TABLE kept")

    def write(start: int) -> None:
        rows = [json.dumps({"id": i, "name": "n"}) for i in range(start, start + 5)]
        (folder / f"{start:03}.json").write_text("\n".join(rows) + "\n")

    def kept() -> list[object]:
        return sorted(column(tmp_path / "home", "public.kept", "id"))

    def opened() -> Engine:
        return Engine(
            Home.at(tmp_path / "home"), EngineSettings(), application=spark, allow_paths=["/"]
        )

    with Proxy(rest_catalog.port) as proxy:
        catalog = f"catalog.type = 'rest', catalog.uri = '{proxy.uri}', catalog.name = '{database}'"
        script = SOURCE.format(input=folder) + table
        script += SINKS.format(catalog=catalog, database=database)
        with opened() as engine:
            write(0)
            engine.execute(script)
            engine.run(threading.Event(), once=True)
            proxy.mode = "refuse"
            write(5)
            with pytest.raises(ConnectorError, match=f"{database}|numbers|state"):
                engine.run(threading.Event(), once=True)
            assert kept() == list(range(10))
            failing = {o.name for o in engine.status().objects if o.error}
            assert failing == {"k", "u"}
        with opened() as engine:
            write(10)
            with pytest.raises(ConnectorError, match=f"{database}|numbers|state"):
                engine.run(threading.Event(), once=True)
            assert kept() == list(range(15))
            proxy.mode = "lose answers"
            for failure in engine.pipeline.health.sinks.values():
                failure.retry_at = 0.0
            write(15)
            with suppress(ConnectorError):
                engine.run(threading.Event(), once=True)
            assert proxy.lost
            assert kept() == list(range(20))
        proxy.mode = "pass"
        with opened() as engine:
            engine.run(threading.Event(), once=True)
            assert not any(o.error for o in engine.status().objects)
    read = load_catalog("rest", type="rest", uri=rest_catalog.uri)
    for name in ("numbers", "state"):
        found = read.load_table(f"{database}.{name}").scan().to_arrow()["id"].to_pylist()
        assert sorted(found) == list(range(20)), name


def test_glue_and_s3_through_a_connection(tmp_path, spark, aws) -> None:  # noqa: F811
    database = f"sinks_{uuid.uuid4().hex[:8]}"
    warehouse = aws.bucket(f"lake-{uuid.uuid4().hex[:8]}") + "/warehouse"
    connection = f"""CREATE CONNECTION lakehouse WITH (
      type = 'iceberg', warehouse.path = '{warehouse}', catalog.type = 'glue', catalog.name = 'my_catalog',
      s3.region = '{REGION}', s3.access.key = '${{AWS_ACCESS_KEY}}', s3.secret.key = '${{AWS_SECRET_KEY}}',
      s3.endpoint = '{aws.endpoint}', s3.path.style.access = 'true', glue.endpoint = '{aws.endpoint}');"""
    sinks = SINKS.format(catalog="connection = 'public.lakehouse'", database=database)
    env = {
        "AWS_ACCESS_KEY": CREDENTIALS["AWS_ACCESS_KEY_ID"],
        "AWS_SECRET_KEY": CREDENTIALS["AWS_SECRET_ACCESS_KEY"],
    }
    run(tmp_path, spark, connection + sinks, env)
    properties = {
        "glue.endpoint": aws.endpoint,
        "glue.region": REGION,
        "glue.access-key-id": env["AWS_ACCESS_KEY"],
        "glue.secret-access-key": env["AWS_SECRET_KEY"],
        "s3.endpoint": aws.endpoint,
        "s3.region": REGION,
        "s3.access-key-id": env["AWS_ACCESS_KEY"],
        "s3.secret-access-key": env["AWS_SECRET_KEY"],
    }
    catalog = load_catalog("glue", type="glue", **properties)
    check(catalog, database)
    assert catalog.load_table(f"{database}.state").location().startswith(warehouse)
