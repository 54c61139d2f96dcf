"""Versions and metadata of objects, as far as names go: who has them, and who may read them."""

from __future__ import annotations

import pytest

from icestream.errors import IcestreamError
from icestream.lake.metadata import METADATA, split_key
from icestream.sql import parse
from icestream.sql import statements as st
from tests.unit.catalog.test_catalog import SINK, SOURCE, Fixture, home

__all__ = ["home"]
OBJECTS = (
    SOURCE,
    SINK,
    "CREATE TABLE t (id INT PRIMARY KEY, n INT)",
    'CREATE TABLE "t$files" (x INT)',
    "CREATE MATERIALIZED VIEW m AS SELECT n, count(*) AS c FROM t GROUP BY n",
    "CREATE VIEW v AS SELECT n FROM t",
)


@pytest.fixture
def filled(home: Fixture) -> Fixture:
    home.create(*OBJECTS)
    return home


@pytest.mark.parametrize("name", ["t", "m", "k"])
def test_what_is_in_iceberg_has_metadata(filled: Fixture, name: str) -> None:
    key = filled.catalog.objects[name].key
    for of, columns in METADATA.items():
        if (name, of) != ("t", "files"):
            found = filled.catalog.names().relation(st.Name(f"{name}${of}"))
            assert found.columns == columns
            assert split_key(found.key) == (key, of)


def test_an_object_of_that_name_comes_first(filled: Fixture) -> None:
    found = filled.catalog.names().relation(st.Name("t$files"))
    assert [name for name, _ in found.columns] == ["x"]
    assert split_key(found.key) is None


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("t$snapshot", "relation \"t$snapshot\" does not exist\n  hint: did you mean 'snapshots'?"),
        ("t$x", "the metadata of t is in $snapshots, $history, $files"),
        ("u$files", 'relation "u" does not exist'),
        ("v$files", '"v" is a view'),
        ("s$files", "source s is not kept in an Iceberg table, so it has no $files"),
    ],
)
def test_what_has_none(filled: Fixture, name: str, message: str) -> None:
    with pytest.raises(IcestreamError) as caught:
        filled.catalog.names().relation(st.Name(name))
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("CREATE MATERIALIZED VIEW x AS SELECT n FROM »t FOR SYSTEM_VERSION AS OF 5", "cannot read t as it was"),
        ("CREATE VIEW x AS SELECT n FROM v JOIN »t FOR SYSTEM_TIME AS OF 5 USING (n)", "cannot read t as it was"),
        ("»CREATE MATERIALIZED VIEW x AS SELECT operation FROM \"t$snapshots\"", "x over t$snapshots"),
        ("»CREATE SINK x FROM \"m$refs\" WITH (connector = 'blackhole')", "x over m$refs"),
    ],
)  # fmt: skip
def test_what_is_kept_up_to_date_reads_neither(filled: Fixture, text: str, message: str) -> None:
    before, _, after = text.partition("»")
    (statement,) = parse(before + after, "x.sql", {})
    with pytest.raises(IcestreamError) as caught:
        filled.catalog.examine(statement)
    assert message in caught.value.message
    assert caught.value.place is not None
    assert caught.value.place.column == len(before) + 1
