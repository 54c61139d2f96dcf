"""FORMAT UPSERT ENCODE JSON, and FORMAT PLAIN into a table with a key."""

from __future__ import annotations

import pickle
import random
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from icestream import types as t
from icestream.connectors.formats import FieldSpec, blocks, registry
from icestream.connectors.formats.changes import PlainChanges
from icestream.connectors.formats.json import JsonDecoder
from icestream.connectors.formats.upsert import UpsertDecoder
from icestream.errors import SqlError
from icestream.sql.options import Setting, Settings
from tests.unit.formats.changes import reasons, run, same, told

ID = FieldSpec("id", t.INTEGER, not_null=True, key=True)
NAME = FieldSpec("name", t.VARCHAR)
DECODER = UpsertDecoder((ID, NAME))


class Slow(UpsertDecoder):
    def fast(self, payloads: pa.BinaryArray) -> blocks.Fast | None:
        return None


def one(key: Any, fields: tuple[FieldSpec, ...] = (ID, NAME)) -> Any:
    """What a tombstone with that key does: the values of its row, or the reason."""
    changes = run(UpsertDecoder(fields), [(key, None)])
    found = told(changes)
    return found[0][2:] if found else reasons(changes)[0]


def test_rows_and_tombstones() -> None:
    records = [
        ({"id": 1}, {"id": 1, "name": "a"}),
        ({"id": 1}, None),
        ({"id": 2}, {"id": 2, "name": None, "more": [1]}),
        ({"id": 3}, b"{"),
        (None, {"id": 4, "name": "the key is not needed"}),
        ({"id": 5}, {"name": "the key is told by the key alone"}),
        (None, {"name": "x"}),
    ]
    changes = run(DECODER, records)
    assert told(changes) == [
        (0, 1, 1, "a"),
        (1, -1, 1, None),
        (2, 1, 2, None),
        (4, 1, 4, "the key is not needed"),
        (5, 1, 5, "the key is told by the key alone"),
    ]
    assert list(reasons(changes)) == [3, 6]
    assert reasons(changes)[3].startswith("invalid JSON")
    assert reasons(changes)[6] == "column id is NULL but part of the primary key"
    assert changes.unset is None
    same(changes, run(Slow((ID, NAME)), records))


def test_not_null_is_for_rows_alone() -> None:
    fields = (ID, FieldSpec("name", t.VARCHAR, not_null=True))
    changes = run(UpsertDecoder(fields), [({"id": 1}, None), ({"id": 1}, {"id": 1})])
    assert told(changes) == [(0, -1, 1, None)]
    assert reasons(changes) == {1: "column name is NULL but declared NOT NULL"}


TEXT = (FieldSpec("id", t.VARCHAR, not_null=True, key=True), NAME)
KEY_SCHEMA = {"type": "struct", "fields": [{"field": "id", "type": "int32"}]}
SCALAR_KEY = {"type": "int32", "optional": False}


@pytest.mark.parametrize(
    ("key", "fields", "expected"),
    [
        ({"id": 7, "other": 1}, (ID, NAME), (7, None)),
        ({"ID": 7}, (ID, NAME), (7, None)),
        ({"schema": KEY_SCHEMA, "payload": {"id": 7}}, (ID, NAME), (7, None)),
        ({"schema": None, "payload": {"id": 7}}, (ID, NAME), (7, None)),
        ({"schema": SCALAR_KEY, "payload": 7}, (ID, NAME), (7, None)),
        (b"7", (ID, NAME), (7, None)),
        (b'"7"', (ID, NAME), (7, None)),
        (b"7", TEXT, ("7", None)),
        (b"1e5", TEXT, ("1e5", None)),
        (b"007", TEXT, ("007", None)),
        (b"true", TEXT, ("true", None)),
        (b'"a b"', TEXT, ("a b", None)),
        (b"a b", TEXT, ("a b", None)),
        (b"", TEXT, ("", None)),
        (None, (ID, NAME), "the record has no key, which tells the row"),
        (b"null", (ID, NAME), "column id is NULL but part of the primary key"),
        ({"name": 7}, (ID, NAME), "column id is NULL but part of the primary key"),
        (b"x", (ID, NAME), "the record's key: 'x' is not a valid integer"),
        ({"id": "x"}, (ID, NAME), "the record's key: id: 'x' is not a valid integer"),
        (b"\xff", TEXT, "the record's key: the payload is not UTF-8"),
    ],
    ids=str,
)
def test_keys(key: Any, fields: tuple[FieldSpec, ...], expected: Any) -> None:
    assert one(key, fields) == expected


def test_keys_of_two_columns() -> None:
    fields = (ID, FieldSpec("at", t.DATE, not_null=True, key=True))
    assert str(one({"at": "2024-01-01", "id": 1}, fields)) == "(1, datetime.date(2024, 1, 1))"
    assert one(b"7", fields) == "the record's key: it is not an object with id, at"
    assert str(one(b"x", fields)).startswith("the record's key: invalid JSON")


def test_a_key_that_is_not_in_the_row() -> None:
    """INCLUDE key AS k, PRIMARY KEY (k): a tombstone needs nothing of the payload."""
    changes = run(UpsertDecoder((NAME,)), [(b"k", {"name": "a"}), (b"k", None)])
    assert told(changes) == [(0, 1, "a"), (1, -1, None)]


def test_the_schema_part() -> None:
    fields = (ID, FieldSpec("n", t.numeric(10, 2)))
    decimal = "org.apache.kafka.connect.data.Decimal"
    schema = {
        "type": "struct",
        "fields": [
            {"field": "id", "type": "int32"},
            {"field": "n", "type": "bytes", "name": decimal, "parameters": {"scale": "1"}},
        ],
    }
    records = [
        *([(None, {"schema": schema, "payload": {"id": 1, "n": "fw=="}})] * 20),
        ({"id": 9}, {"schema": schema, "payload": None}),
        (None, {"schema": None, "payload": {"id": 2, "n": "2.5"}}),
        (None, {"id": 3, "n": 3}),
    ]
    changes = run(UpsertDecoder(fields), records)
    assert reasons(changes) == {}
    assert told(changes) == [
        *[(i, 1, 1, Decimal("12.70")) for i in range(20)],
        (20, -1, 9, None),
        (21, 1, 2, Decimal("2.50")),
        (22, 1, 3, Decimal("3.00")),
    ]


def test_columns_named_like_the_schema_part() -> None:
    fields = (FieldSpec("schema", t.VARCHAR, key=True), FieldSpec("payload", t.VARCHAR))
    changes = run(UpsertDecoder(fields), [(None, {"schema": "a", "payload": "b"})] * 20)
    assert told(changes) == [(i, 1, "a", "b") for i in range(20)]


def test_plain_rows_are_upserts() -> None:
    decoder = PlainChanges(JsonDecoder((ID, NAME)))
    changes = run(decoder, [(None, {"id": 1}), (None, None), (None, {"name": "x"})])
    assert told(changes) == [(0, 1, 1, None)]
    assert reasons(changes) == {
        1: "the payload is NULL",
        2: "column id is NULL but declared NOT NULL",
    }


def test_no_records() -> None:
    assert told(run(DECODER, [])) == []


def test_the_registry() -> None:
    options = Settings("table t", {"timestamptz.handling.mode": Setting("milli")})
    found = registry.change_decoder("UPSERT", "JSON", (ID,), options)
    assert pickle.loads(pickle.dumps(found)) == UpsertDecoder((ID,), "milli")
    assert isinstance(registry.change_decoder("PLAIN", "JSON", (ID,), options), PlainChanges)
    with pytest.raises(SqlError, match="changes of rows"):
        registry.decoder("UPSERT", "JSON", (ID,), options)


VALUES: list[Any] = [1, 2**33, -3, None, "1", "x", "é", 1.5, True, []]
RAW = [b"{", b"[]", b'{"id": 1}', b"7", b"x"]


class Maker:
    """Random records, most of them as they should be."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.odds = self.random.choice([0, 0.05, 0.5])

    def row(self) -> Any:
        choice = self.random.choice
        row: Any = {"id": self.random.randrange(9), "name": choice(["a", None])}
        if self.random.random() < self.odds:
            names = self.random.sample(["id", "ID", "name", "schema", "payload"], 2)
            row = {name: choice(VALUES) for name in names}
        if self.random.random() < self.odds:
            row = {"schema": KEY_SCHEMA, "payload": row}
        return choice([None, *RAW]) if self.random.random() < self.odds else row


@settings(max_examples=20, deadline=None, database=None)
@given(st.integers(0, 2**32))
def test_the_two_ways_agree(seed: int) -> None:
    make = Maker(seed)
    records = [(make.row(), make.row()) for _ in range(25)]
    same(run(DECODER, records), run(Slow((ID, NAME)), records))
