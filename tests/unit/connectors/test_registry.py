"""Connectors by name: found, suggested, announced for later, and imported only when used."""

from __future__ import annotations

import subprocess
import sys

import pytest

from icestream.connectors import registry
from icestream.connectors.base import SinkConnector, SourceConnector
from icestream.errors import NotSupportedError, Place, SqlError
from icestream.sql.options import OptionSpec


@pytest.mark.parametrize("name", sorted(registry.SOURCES))
def test_sources(name: str) -> None:
    connector = registry.source_connector(name)
    assert isinstance(connector, SourceConnector)
    assert registry.source_connector(f" {name.upper()} ") is connector
    _declares(connector)


@pytest.mark.parametrize("name", sorted(registry.SINKS))
def test_sinks(name: str) -> None:
    connector = registry.sink_connector(name)
    assert isinstance(connector, SinkConnector)
    _declares(connector)


def _declares(connector: SourceConnector | SinkConnector) -> None:
    options = [o for o in connector.options if isinstance(o, OptionSpec)]
    names = [n for o in options for n in (o.name, *o.aliases)]
    assert len(names) == len(set(names))
    for option in options:
        assert option.default is None or not option.choices or option.default in option.choices
        assert option.help, f"{connector.name}: {option.name} is not explained"


def test_unknown_and_later() -> None:
    place = Place("f.sql", 3, 4)
    with pytest.raises(SqlError, match="did you mean 'kafka'") as caught:
        registry.source_connector("kafak", place)
    assert str(caught.value).startswith("f.sql:3:4: unknown source connector 'kafak'")
    with pytest.raises(SqlError, match="did you mean 'iceberg'"):
        registry.sink_connector("icberg")
    with pytest.raises(NotSupportedError, match="'postgres-cdc'"):
        registry.source_connector("postgres-cdc")
    with pytest.raises(NotSupportedError, match="'clickhouse'"):
        registry.sink_connector("clickhouse")


def test_nothing_is_imported_before_it_is_used() -> None:
    code = (
        "import sys; import icestream.connectors.registry, icestream.connectors.formats.registry; "
        "from icestream.connectors.registry import sink_connector; sink_connector('iceberg'); "
        "heavy = {'pyspark', 'pyarrow', 'py4j'} & set(sys.modules); sys.exit(repr(heavy) if heavy else 0)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
