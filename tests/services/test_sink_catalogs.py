"""Sinks into catalogs of other people: a REST catalog, and Glue with its warehouse on S3. Read back by PyIceberg."""

from __future__ import annotations

import threading
import uuid
from pathlib import Path

import pytest
from pyiceberg.catalog import load_catalog

from icestream.config import EngineSettings, Home
from icestream.engine import Engine
from tests.services.aws import CREDENTIALS, REGION
from tests.spark_session import spark  # noqa: F401

pytestmark = [pytest.mark.spark, pytest.mark.services]

SOURCE = """CREATE SOURCE numbers (id BIGINT, name VARCHAR) WITH (
  connector = 'datagen', rows = 20, fields.id.kind = 'sequence', fields.id.start = 0);"""
SINK = """CREATE SINK k FROM numbers WITH (connector = 'iceberg', type = 'append-only', {catalog},
  database.name = '{database}', table.name = 'numbers', create_table_if_not_exists = 'true');"""


def run(root: Path, application, script: str, env: dict[str, str]) -> str:
    """Two engines one after the other on the same home: the second has nothing to do."""
    for _ in range(2):
        with Engine(Home.at(root), EngineSettings(), env=env, application=application) as engine:
            engine.execute(script)
            engine.run(threading.Event(), once=True)
            ((_, text),) = engine.execute("SHOW CREATE SINK k")[0].rows
    return text


def test_a_rest_catalog(tmp_path, spark, rest_catalog) -> None:  # noqa: F811
    database = f"sinks_{uuid.uuid4().hex[:8]}"
    catalog = f"catalog.type = 'rest', catalog.uri = '{rest_catalog.uri}'"
    run(tmp_path / "home", spark, SOURCE + SINK.format(catalog=catalog, database=database), {})
    table = load_catalog("rest", type="rest", uri=rest_catalog.uri).load_table(
        f"{database}.numbers"
    )
    assert sorted(table.scan().to_arrow()["id"].to_pylist()) == list(range(20))


def test_glue_and_s3_through_a_connection(tmp_path, spark, aws) -> None:  # noqa: F811
    database = f"sinks_{uuid.uuid4().hex[:8]}"
    warehouse = aws.bucket(f"lake-{uuid.uuid4().hex[:8]}") + "/warehouse"
    connection = f"""CREATE CONNECTION lakehouse WITH (
      type = 'iceberg', warehouse.path = '{warehouse}', catalog.type = 'glue', catalog.name = 'my_catalog',
      s3.region = '{REGION}', s3.access.key = '${{AWS_ACCESS_KEY}}', s3.secret.key = '${{AWS_SECRET_KEY}}',
      s3.endpoint = '{aws.endpoint}', s3.path.style.access = 'true', glue.endpoint = '{aws.endpoint}');"""
    sink = SINK.format(catalog="connection = 'public.lakehouse'", database=database)
    env = {
        "AWS_ACCESS_KEY": CREDENTIALS["AWS_ACCESS_KEY_ID"],
        "AWS_SECRET_KEY": CREDENTIALS["AWS_SECRET_ACCESS_KEY"],
    }
    run(tmp_path / "home", spark, connection + SOURCE + sink, env)
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
    table = load_catalog("glue", type="glue", **properties).load_table(f"{database}.numbers")
    assert table.location().startswith(warehouse)
    assert sorted(table.scan().to_arrow()["id"].to_pylist()) == list(range(20))
