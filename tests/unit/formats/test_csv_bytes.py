"""ENCODE CSV and ENCODE BYTES, and the registry of formats."""

from __future__ import annotations

import csv
import datetime as dt
import io
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from icestream import types as t
from icestream.connectors.formats import Decoded, FieldSpec, blocks, check_not_null, registry
from icestream.connectors.formats.bytes import BytesDecoder
from icestream.connectors.formats.csv import Careful, CsvDecoder, split
from icestream.errors import NotSupportedError, SqlError
from icestream.sql.options import Setting, Settings


def decode(type: t.Type, *payloads: str | bytes | None, delimiter: str = ",") -> Decoded:
    fields = (FieldSpec("k", t.INTEGER), FieldSpec("a", type))
    raw = [p.encode() if isinstance(p, str) else p for p in payloads]
    return CsvDecoder(fields, delimiter).decode(pa.array(raw, pa.binary()))


@pytest.mark.parametrize(
    ("type", "payload", "expected"),
    [
        (t.VARCHAR, "1,x", "x"),
        (t.VARCHAR, "1,", None),
        (t.VARCHAR, '1,""', ""),
        (t.VARCHAR, '1,"a ""b"", c"', 'a "b", c'),
        (t.VARCHAR, '1,"two\nlines"', "two\nlines"),
        (t.VARCHAR, "1, x \r\n", " x "),
        (t.VARCHAR, '1,5" disk', '5" disk'),
        (t.VARCHAR, "1,grün", "grün"),
        (t.INTEGER, "1,42", 42),
        (t.INTEGER, "1, 42 ", 42),
        (t.INTEGER, '1,"42"', 42),
        (t.DOUBLE, "1,1e-3", 0.001),
        (t.DOUBLE, "1,NaN", pytest.approx(float("nan"), nan_ok=True)),
        (t.BOOLEAN, "1,true", True),
        (t.BOOLEAN, "1,f", False),
        (t.numeric(10, 2), "1,12345678.905", Decimal("12345678.91")),
        (t.DATE, "1,2024-02-29", dt.date(2024, 2, 29)),
        (t.DATE, "1,20240229", dt.date(2024, 2, 29)),
        (t.TIMESTAMP, "1,2024-02-29 12:00:00", dt.datetime(2024, 2, 29, 12)),
        (t.TIMESTAMP, "1,1700000000000", dt.datetime(2023, 11, 14, 22, 13, 20)),
        (t.BYTEA, "1,\\xff00", b"\xff\x00"),
        (t.JSONB, '1,"{""b"": 1, ""a"": [1.50]}"', '{"a": [1.5], "b": 1}'),
        (t.array(t.INTEGER), '1,"[1, 2]"', [1, 2]),
        (t.struct(("x", t.INTEGER)), '1,"{""x"": 2}"', {"x": 2}),
    ],
)
def test_accepted(type: t.Type, payload: str, expected: Any) -> None:
    decoded = decode(type, payload, "2,")
    assert decoded.errors is None
    assert decoded.columns[1].to_pylist() == [expected, None]


@pytest.mark.parametrize(
    ("type", "payload", "expected"),
    [
        (t.INTEGER, "1", "1 fields where 2 are declared"),
        (t.INTEGER, "1,2,3", "3 fields where 2 are declared"),
        (t.INTEGER, "", "1 fields where 2 are declared"),
        (t.INTEGER, "1,x", "a: 'x' is not a valid integer"),
        (t.INTEGER, '1,"2', "a quote is not closed"),
        (t.INTEGER, '1,"2"x', "text after a closing quote"),
        (t.INTEGER, "1,2\n3,4", "more than one record"),
        (t.INTEGER, b"1,\xff", "not UTF-8"),
        (t.INTEGER, None, "NULL"),
        (t.JSONB, "1,{", "a: "),
    ],
)
def test_refused(type: t.Type, payload: str | bytes | None, expected: str) -> None:
    decoded = decode(type, *["1,"] * 30, payload, *["1,"] * 30)
    assert decoded.errors is not None
    assert {i: e for i, e in enumerate(decoded.errors.to_pylist()) if e}.keys() == {30}
    assert expected in decoded.errors[30].as_py()


def test_other_delimiters() -> None:
    assert decode(t.VARCHAR, "1;a,b", delimiter=";").columns[1].to_pylist() == ["a,b"]
    assert decode(t.VARCHAR, '1\t"a\tb"', delimiter="\t").columns[1].to_pylist() == ["a\tb"]


@given(st.lists(st.text(alphabet='ab",; \n\r\t'), min_size=1, max_size=5), st.sampled_from(",;\t"))
def test_what_pythons_writer_writes_is_read_back(items: list[str], delimiter: str) -> None:
    out = io.StringIO()
    csv.writer(out, delimiter=delimiter, quoting=csv.QUOTE_ALL).writerow(items)
    assert split(out.getvalue(), delimiter) == items


FIELDS = (
    FieldSpec("i", t.INTEGER),
    FieldSpec("s", t.VARCHAR),
    FieldSpec("n", t.numeric(9, 3)),
    FieldSpec("d", t.DOUBLE),
    FieldSpec("dt", t.DATE),
    FieldSpec("ts", t.TIMESTAMP),
)
words = st.one_of(
    st.integers(-(2**40), 2**40).map(str),
    st.decimals(-999999, 999999, places=4).map(str),
    st.dates().map(str),
    st.datetimes().map(str),
    st.sampled_from(["", '""', "x", '"a,b"', '"', "0000-01-01", "9999-13-01", "1e5", "NaN", " 1 "]),
    st.text(max_size=4),
)
rows = st.lists(words, min_size=5, max_size=7).map(lambda w: ",".join(w).encode())
fitting = st.tuples(
    st.integers(-9, 9).map(str), st.sampled_from(["", "x"]), st.just("1.5"), st.just("-0.25"),
    st.dates().map(str), st.datetimes().map(str),
).map(lambda w: ",".join(w).encode())  # fmt: skip


@settings(max_examples=80, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.lists(st.one_of(fitting, fitting, rows, st.none()), max_size=20))
def test_both_ways_agree(some: list[bytes | None]) -> None:
    batch = pa.array(some, pa.binary())
    slow = check_not_null(FIELDS, blocks.one_by_one(batch, FIELDS, Careful(FIELDS, ",").record))
    before, blocks.SMALL = blocks.SMALL, 1
    try:
        fast = CsvDecoder(FIELDS).decode(batch)
    finally:
        blocks.SMALL = before
    assert repr([c.to_pylist() for c in fast.columns]) == repr(
        [c.to_pylist() for c in slow.columns]
    )
    assert fast.errors == slow.errors


def test_bytes() -> None:
    decoder = BytesDecoder((FieldSpec("payload", t.BYTEA),))
    decoded = decoder.decode(pa.array([b"\x00\xff", None]))
    assert decoded.columns[0].to_pylist() == [b"\x00\xff", None]
    assert decoded.errors is None
    with pytest.raises(SqlError, match="exactly one column"):
        BytesDecoder((FieldSpec("payload", t.VARCHAR),))
    with pytest.raises(SqlError, match="exactly one column"):
        BytesDecoder(())


def _csv(without_header: bool, delimiter: str = ",") -> Settings:
    values = {"without_header": Setting(without_header), "delimiter": Setting(delimiter)}
    return Settings("source s", values)


def test_the_registry_gives_decoders() -> None:
    fields = (FieldSpec("a", t.BYTEA),)
    json_settings = Settings("s", {"timestamptz.handling.mode": Setting("milli")})
    assert registry.decoder("plain", "json", fields, json_settings).fields == fields
    assert registry.decoder("PLAIN", "CSV", fields, _csv(True)).fields == fields
    assert registry.decoder("PLAIN", "BYTES", fields, Settings("s")).fields == fields


def test_the_registry_refuses() -> None:
    with pytest.raises(NotSupportedError, match="FORMAT DEBEZIUM ENCODE AVRO"):
        registry.lookup("DEBEZIUM", "AVRO")
    with pytest.raises(SqlError, match="did you mean 'FORMAT PLAIN ENCODE JSON'"):
        registry.lookup("PLAIN", "JSONN")
    with pytest.raises(SqlError, match="have no header line"):
        registry.check("kafka", "PLAIN", "CSV", _csv(False))
    registry.check("kafka", "PLAIN", "CSV", _csv(True))
    registry.check("file", "PLAIN", "CSV", _csv(False))
    with pytest.raises(SqlError, match="one character"):
        registry.check("file", "PLAIN", "CSV", _csv(True, ";;"))
