"""The SQL of the seed documents parses exactly as it is printed there."""

from __future__ import annotations

from pathlib import Path

from icestream import types
from icestream.sql import parse
from icestream.sql.statements import CreateSink, CreateSource, CreateTable, CreateView, Select
from tests.unit.sql.helpers import ENV

SEEDS = Path(__file__).parent / "data" / "seeds.sql"


def seeds():
    return parse(SEEDS.read_text(), "seeds.sql", ENV)


def test_every_statement_is_there_in_order():
    found = [(type(s).__name__, str(getattr(s, "name", ""))) for s in seeds()]
    assert found == [
        ("CreateSource", "clickstream_events"),
        ("CreateView", "hourly_page_metrics"),
        ("CreateSink", "clickstream_to_iceberg"),
        ("Select", ""),
        ("CreateConnection", "iceberg_conn"),
        ("SetVariable", "iceberg_engine_connection"),
        ("CreateSource", "pg_source"),
        ("CreateTable", "orders"),
        ("CreateTable", "customers"),
        ("CreateSource", "order_events"),
        ("CreateView", "orders_by_region"),
        ("CreateSink", "regional_orders_to_iceberg"),
    ]


def test_texts_are_exact():
    text = SEEDS.read_text()
    for statement in seeds():
        assert statement.text + ";\n" in text
        assert not statement.text.startswith("--")
        line = text.split("\n")[statement.place.line - 1]
        assert line.removesuffix(";") == statement.text.split("\n")[0]


def test_source():
    source = seeds()[0]
    assert isinstance(source, CreateSource)
    assert [(c.name, c.type) for c in source.columns][-1] == ("event_time", types.TIMESTAMPTZ)
    assert {k: o.value for k, o in source.options.items()} == {
        "connector": "kafka",
        "topic": "web.clickstream",
        "properties.bootstrap.server": "kafka-broker:9092",
        "scan.startup.mode": "latest",
    }
    assert source.format is not None
    assert (source.format.format, source.format.encode) == ("PLAIN", "JSON")


def test_view_sink_and_table():
    statements = seeds()
    view, sink, table = statements[1], statements[2], statements[7]
    assert isinstance(view, CreateView)
    assert view.materialized
    assert view.query.tree.named_selects[:2] == ["page_url", "event_hour"]
    assert isinstance(sink, CreateSink)
    assert str(sink.from_name) == "hourly_page_metrics"
    assert sink.options["s3.secret.key"].value == "${AWS_SECRET_KEY}"
    assert isinstance(table, CreateTable)
    assert table.primary_key == ("order_id",)
    assert (str(table.from_source), table.from_table, table.engine) == (
        "pg_source",
        "public.orders",
        "iceberg",
    )
    assert isinstance(statements[3], Select)
